"""The recipe of BERT's pre-training (Devlin et al. 2018, appendix A.2), around Keras's `fit`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import tensorflow as tf

from keras_bert.pretraining.distillation import learning_from, lesson
from keras_bert.pretraining.masking import MaskedLMMasking, unmasked
from keras_bert.pretraining.pretrainer import MASKED_LM, NEXT_SENTENCE, BertPretrainer
from keras_bert.pretraining.records import Records
from keras_bert.training import workers
from keras_bert.training.adamw import AdamW, WarmupThenDecay
from keras_bert.training.callbacks import Checkpoints, ProgressBar, TensorBoard
from keras_bert.training.lamb import LAMB
from keras_bert.training.recipe import check_recipe, check_updates
from keras_bert.training.run import Run


class Phase(NamedTuple):
    """A part of a run, with sequences of one length.

    Attributes:
        records: a directory that `write_records` has filled, or files.
        steps: batches.
        batch_size: sequences a batch.
        masking, held_out: see `pretrain`.
    """

    records: str | Path | Sequence[str | Path]
    steps: int
    batch_size: int = 32
    masking: MaskedLMMasking | None = None
    held_out: str | Path | Sequence[str | Path] | None = None


def pretrain(
    model: BertPretrainer,
    records: str | Path | Sequence[str | Path],
    steps: int,
    directory: str | Path,
    held_out: str | Path | Sequence[str | Path] | None = None,
    batch_size: int = 32,
    optimizer: str = "adamw",
    learning_rate: float = 1e-4,
    warmup: float = 0.01,
    weight_decay: float = 0.01,
    clip_norm: float = 1.0,
    accumulate: int = 1,
    masking: MaskedLMMasking | None = None,
    then: Phase | None = None,
    teacher: BertPretrainer | None = None,
    temperature: float = 2.0,
    seed: int = 0,
    measure_every: int = 1000,
    progress: bool | None = None,
    checkpoint_seconds: float = 300,
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> list[dict[str, float]]:
    """Trains a model on records for a number of steps.

    Args:
        model: it is compiled here.
        records: a directory that `write_records` has filled, or files.
        steps: batches, of these records.
        directory: for the state of the run. If it holds one that was interrupted, that one goes on, and ends with the
            same weights as if it had not been. TensorBoard's logs lie there too, if `tensorboard` is installed.
        held_out: records to measure the model by.
        batch_size: sequences a batch.
        optimizer: "adamw"; or "lamb", for batches of thousands, with a learning rate of the order of 1e-3.
        learning_rate: its peak.
        warmup: the share of all steps in which it rises; then it falls to 0.
        weight_decay, clip_norm: see `AdamW`.
        accumulate: so many batches make one update.
        masking: hides other pieces each time that a record is seen (Liu et al. 2019, section 4.1). None: those that are
            hidden in the records.
        then: what the run goes on with: longer sequences, say, whose records and masks are others, in smaller batches.
            The paper's are 512 pieces long in the last tenth of all steps, and 128 before. The learning rate rises and
            falls once over both.
        teacher: whose predictions and hidden states the model learns beside the pieces; see `learning_from`.
        temperature: of its predictions.
        seed: of the order of the records, and of the masks.
        measure_every: steps.
        progress: whether to show a progress bar; by default on a terminal.
        checkpoint_seconds: the state is written so often.
        callbacks: more of Keras's. To them, `measure_every` steps are an epoch.

    Returns:
        For each `measure_every` steps `epoch`, from 1, `loss`, and the measures of the held-out records:
        `masked_lm_loss`, `masked_lm_accuracy`, `masked_lm_perplexity`, and, of pairs, `next_sentence_loss` and
        `next_sentence_accuracy`.

    Raises:
        FileNotFoundError, ValueError: an argument is bad, the records cannot be used, the directory holds a run with
            other settings, or the loss is no longer a number.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertConfig, BertEncoder, BertPreprocessor
        >>> from keras_bert.pretraining import write_records
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "text.txt").write_text("It rains. We stay.\\n\\nThe sun shines. We go out.")
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=16)
        >>> _ = write_records([folder / "text.txt"], folder / "records", preprocessor, layout="sentences")
        >>> model = BertPretrainer(BertEncoder(BertConfig.named("bert-tiny")), preprocessor)
        >>> history = pretrain(model, folder / "records", steps=4, directory=folder / "run", measure_every=2)
        >>> [entry["epoch"] for entry in history]
        [1, 2]
    """
    phases = [Phase(records, steps, batch_size, masking, held_out), *([] if then is None else [then])]
    found = [Records(phase.records) for phase in phases]
    measured_by = [phase.held_out and Records(phase.held_out) for phase in phases]
    for each in filter(None, (*found, *measured_by)):
        _check(model, each)
    settings = {
        "optimizer": optimizer, "learning_rate": learning_rate, "warmup": warmup, "weight_decay": weight_decay,
        "clip_norm": clip_norm, "accumulate": accumulate, "seed": seed, "measure_every": measure_every,
        "config": model.encoder.config.to_dict(),
        "steps": [phase.steps for phase in phases], "batch_size": [phase.batch_size for phase in phases],
        "masking": [_told(phase.masking) for phase in phases], "examples": [_digest(each) for each in found],
        **lesson(teacher, temperature),
    }  # fmt: skip
    check_recipe(settings)
    updates = sum(settings["steps"]) // accumulate
    check_updates(updates, sum(settings["steps"]), accumulate)
    with learning_from(teacher, model, temperature):
        with model.distribute_strategy.scope():
            model.compile(
                _optimizer(optimizer, learning_rate, warmup, updates, accumulate, weight_decay, clip_norm),
                model.training_loss(),
                weighted_metrics=model.training_metrics(),
                jit_compile=False,
            )
            model.optimizer.build(model.trainable_variables)
        # Keras makes a metric's variables when it is first used, and they are part of the state.
        model.evaluate(_in_order(found[0], batch_size).take(1), verbose=0)
        run = Run(model, Path(directory), settings)
        run.resume()
        plan = [(i, first) for i, phase in enumerate(phases) for first in range(0, phase.steps, measure_every)]
        around = [
            _HeldOut(run, [measured_by[i] and _in_order(measured_by[i], phases[i].batch_size) for i, _ in plan]),
            *([TensorBoard(run)] if TensorBoard.is_possible(run) else []),
            Checkpoints(run, checkpoint_seconds),
            ProgressBar(run, len(plan), progress),
            *callbacks,
        ]
        while run.epoch < len(plan):
            i, first = plan[run.epoch]
            run.start_epoch(batches=min(measure_every, phases[i].steps - first))
            left = run.batches - run.step
            examples = _to_learn(found[i], phases[i], seed, start=first + run.step).take(left)
            keras.Model.fit(
                model,
                examples.apply(tf.data.experimental.assert_cardinality(left)),
                initial_epoch=run.epoch,
                epochs=run.epoch + 1,
                verbose=0,
                shuffle=False,
                callbacks=around,
            )
    return run.history


def _optimizer(
    name: str, peak: float, warmup: float, updates: int, accumulate: int, weight_decay: float, clip_norm: float
) -> keras.Optimizer:
    kinds = {"adamw": AdamW, "lamb": LAMB}
    if name not in kinds:
        raise ValueError(f"optimizer is {name!r}; expected one of {', '.join(kinds)}")
    return kinds[name](
        WarmupThenDecay(peak, round(warmup * updates), updates),
        weight_decay=weight_decay,
        epsilon=1e-6,
        global_clipnorm=clip_norm,
        gradient_accumulation_steps=accumulate if accumulate > 1 else None,
    )


def _in_order(records: Records, batch_size: int) -> tf.data.Dataset:
    return records.in_order(batch_size).map(_example).with_options(workers.DATA_OPTIONS)


def _to_learn(records: Records, phase: Phase, seed: int, start: int) -> tf.data.Dataset:
    """Batches without end, from number `start` on."""

    def example(step: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], ...]:
        if phase.masking is not None:
            batch = phase.masking(unmasked(batch), [seed, tf.cast(step, tf.int32)])
        return _example(batch)

    batches = records.shuffled(phase.batch_size, seed, start).enumerate(start)
    masked = batches.map(example, tf.data.AUTOTUNE, deterministic=True).prefetch(4)
    return masked.with_options(workers.DATA_OPTIONS)


def _example(batch: dict[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], ...]:
    """A batch of records -> what `fit` takes: inputs, targets, weights."""
    inputs, targets, weights = dict(batch), {}, {}
    targets[MASKED_LM] = inputs.pop("masked_lm_ids")
    weights[MASKED_LM] = inputs.pop("masked_lm_weights")
    if "next_sentence_labels" in inputs:
        targets[NEXT_SENTENCE] = inputs.pop("next_sentence_labels")
        weights[NEXT_SENTENCE] = tf.ones(tf.shape(targets[NEXT_SENTENCE]))
    return inputs, targets, weights


class _HeldOut(keras.callbacks.Callback):
    """Measures the model after each epoch, and notes the result in the run's history.

    Args:
        run: the run.
        examples: for each epoch as for `evaluate`, or None.
    """

    def __init__(self, run: Run, examples: Sequence[tf.data.Dataset | None]) -> None:
        super().__init__()
        self._run = run
        self._examples = examples

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        measures = {}
        if self._examples[epoch] is not None:
            measures = self.model.evaluate(self._examples[epoch], verbose=0, return_dict=True)
            if self.model.pairs:
                del measures["loss"]  # the sum
            else:  # of a single objective, Keras's names do not say which it is
                measures = {f"{MASKED_LM}_{name}": value for name, value in measures.items()}
            measures[f"{MASKED_LM}_perplexity"] = math.exp(measures[f"{MASKED_LM}_loss"])
        logs.update({f"val_{name}": value for name, value in measures.items()})
        self._run.end_epoch(float(logs["loss"]), measures)


def _check(model: BertPretrainer, records: Records) -> None:
    """Raises ValueError unless the model can learn from such records."""
    record = next(iter(records.in_order(1)))
    has_pairs = "next_sentence_labels" in record
    if model.pairs and not has_pairs:
        raise ValueError(f"{records.files[0]} has no pairs: make the model with pairs=False, or write records of pairs")
    if has_pairs and not model.pairs:
        raise ValueError(f"{records.files[0]} has pairs, for which the model has no head: make it with pairs=True")
    # Whose errors say what does not fit.
    model.encoder({name: record[name] for name in ("input_word_ids", "input_mask", "input_type_ids")})


def _told(masking: MaskedLMMasking | None) -> list | None:
    return masking and [masking.predictions, masking.rate, masking.unit]


def _digest(records: Records) -> str:
    """Changes when a file does: a run does not go on with others."""
    sizes = [(Path(path).name, Path(path).stat().st_size) for path in records.files]
    return hashlib.sha256(repr(sizes).encode()).hexdigest()
