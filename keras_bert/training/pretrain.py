"""The recipe of BERT's pre-training (Devlin et al. 2018, appendix A.2), around Keras's `fit`."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras.callbacks import LambdaCallback

from keras_bert import files
from keras_bert.answers import BASELINE
from keras_bert.data.table_formats import text_files
from keras_bert.optimizers import LAMB, AdamW
from keras_bert.pipelines import as_written
from keras_bert.pretraining.masking import MaskedLMMasking, unmasked
from keras_bert.pretraining.pretrainer import MASKED_LM, NEXT_SENTENCE, BertPretrainer
from keras_bert.pretraining.records import Records, baselines, write_records
from keras_bert.progress import progress_bar
from keras_bert.recipe import BATCH_SIZE, PretrainingRecipe, PretrainingWithTeacher, RowsRecipe, takes_recipe
from keras_bert.tasks.steps.training_step import AccumulatedBatch
from keras_bert.training import distribution
from keras_bert.training.distillation import learning_from
from keras_bert.training.loop import Training, compile_model, monitors_loss
from keras_bert.training.run import Run, digest_of_records, settings_of_run


class Phase(NamedTuple):
    """A part of a pre-training, with sequences of one length. Pass the second one as `then` to `pretrain`.

    Its attributes are the arguments of `pretrain` of these names, and `batch_size`, the sequences per batch.
    """

    records: str | Path | Sequence[str | Path]
    steps: int
    batch_size: int = BATCH_SIZE
    masking: MaskedLMMasking | None = None
    validation: str | Path | Sequence[str | Path] | None = None


@takes_recipe(PretrainingWithTeacher)
def pretrain(
    model: BertPretrainer,
    records: str | Path | Sequence[str | Path],
    steps: int,
    directory: str | Path,
    validation: str | Path | Sequence[str | Path] | None = None,
    *,
    masking: MaskedLMMasking | None = None,
    then: Phase | None = None,
    teacher: BertPretrainer | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    progress: bool | None = None,
    checkpoint_seconds: float = 300,
    **recipe: Any,
) -> list[dict[str, float]]:
    """Trains a model on records for a number of steps.

    Use it for records of `write_records`; `pretrain_files` starts from text files, and writes the records, too.

    Args:
        model: a model with the heads of pre-training. It is compiled here.
        records: a directory written by `write_records`, or files.
        steps: the number of batches of these records.
        directory: the directory of the run's state, see `fine_tune`.
        validation: records to measure the model on.
        masking: draws new masks each time a record is read (dynamic masking, Liu et al. 2019, section 4.1). None: uses
            the masks in the records.
        then: a second phase with its own records, masks and batch size, such as longer sequences in smaller batches. In
            the paper, sequences have 128 tokens in the first nine tenths of all steps, and 512 in the last tenth. Both
            phases share one learning rate schedule.
        teacher: a larger model; `model` also learns its predictions and hidden states. See `learning_from`.
        callbacks: further Keras callbacks, see `fine_tune`. An epoch is `measure_every` steps.
        progress, checkpoint_seconds: see `fine_tune`.
        **recipe: the fields of `PretrainingWithTeacher`.

    Returns:
        For each `measure_every` steps: `epoch`, from 1; `loss`; in training, `masked_lm_accuracy`, and for pairs
        `masked_lm_loss`, `next_sentence_loss` and `next_sentence_accuracy`; and of the validation records, all of these
        as `val_masked_lm_loss` and so on, and `val_masked_lm_perplexity`. The last entry of each phase also has the
        measures of always predicting the most frequent label, `val_masked_lm_accuracy_baseline` and so on; see
        `pretraining.baselines`.

    Raises:
        FileNotFoundError, ValueError: an argument is bad, the records cannot be used, the loss is not finite, or the
            directory holds a run that is damaged or has other settings, records or preset.

    Example:
        >>> import tempfile
        >>> from keras_bert.pretraining import write_records
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "text.txt").write_text("It rains. We stay.\\n\\nThe sun shines. We go out.")
        >>> model = BertPretrainer.from_preset("bert-books", sequence_length=16)
        >>> _ = write_records([folder / "text.txt"], folder / "records", model.preprocessor, layout="sentences")
        >>> history = pretrain(model, folder / "records", steps=4, directory=folder / "run", measure_every=2)
        >>> [entry["epoch"] for entry in history]
        [1, 2]
    """
    given = PretrainingWithTeacher.of(steps=steps, **recipe)
    is_trained = teacher is not None or model.encoder.preset_digest is not None
    complete = given.for_width(model.encoder.config.hidden_size, is_trained)
    first = Phase(records, steps, complete.batch_size or BATCH_SIZE, masking, validation)
    phases = [first] if then is None else [first, then]
    arguments = {"callbacks": callbacks, "progress": progress, "checkpoint_seconds": checkpoint_seconds}
    return Pretraining(model, phases, Run(directory), complete, teacher, **arguments).to_the_end()


def evaluate_text(
    model: BertPretrainer,
    text: str | Path | Sequence[str | Path],
    *,
    objective: str | None = None,
    layout: str = RowsRecipe.layout,
    masked_unit: str = RowsRecipe.masked_unit,
    pack: bool = RowsRecipe.pack,
    seed: int = PretrainingRecipe.seed,
    batch_size: int = BATCH_SIZE,
) -> dict[str, float]:
    """Measures a masked language model on text, as `pretrain_files` measures it on the validation text.

    Use it to compare models of one vocabulary, or a model before and after training: the same text, settings and seed
    give the same pairs and masks.

    Args:
        model: its preprocessor gives the length of rows. It is compiled here.
        text: text in UTF-8: files, or directories of .txt files.
        objective: see `make_examples`; by default the model's.
        layout, masked_unit, pack, seed: see `write_records`.
        batch_size: the number of rows in a batch.

    Returns:
        `masked_lm_loss`, `masked_lm_accuracy` and `masked_lm_perplexity`, for pairs also `next_sentence_loss` and
        `next_sentence_accuracy`; and the `baselines`, `masked_lm_accuracy_baseline` and so on.

    Raises:
        FileNotFoundError, ValueError: the text cannot be used, an argument is bad, or the objective needs a head for
            pairs and the model has none, or has one that is not needed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "text.txt")
        >>> _ = path.write_text("It rains. We stay.\\n\\nThe sun shines. We go out.")
        >>> model = BertPretrainer.from_preset("bert-books", sequence_length=16, pairs=False)
        >>> sorted(evaluate_text(model, path, layout="sentences"))[::2]
        ['masked_lm_accuracy', 'masked_lm_loss', 'masked_lm_perplexity']
    """
    objective = objective or model.objective
    if model.pairs != (objective != "sentences"):
        has = "a head for pairs: load it with pairs=False" if model.pairs else "no head for pairs"
        raise ValueError(f"objective is {objective!r}, but the model has {has}")
    paths = [path for each in ([text] if isinstance(text, str | Path) else text) for path in text_files(Path(each))]
    settings = {"masked_unit": masked_unit, "pack": pack, "seed": seed}
    with files.temporary_directory() as folder:
        write_records(paths, folder, model.preprocessor, objective, layout, **settings)
        records = Records(folder)
        _check_records(model, records)
        model.compile(loss=model.training_loss(), weighted_metrics=model.training_metrics(), jit_compile=False)
        return _measure(model, records, batch_size, with_baselines=True)


class Pretraining(Training[BertPretrainer]):
    """The training of `pretrain`: in an epoch, a phase goes on by `measure_every` steps, or to its end."""

    def __init__(
        self,
        model: BertPretrainer,
        phases: Sequence[Phase],
        run: Run,
        recipe: PretrainingWithTeacher,
        teacher: BertPretrainer | None = None,
        **how: Any,
    ) -> None:
        super().__init__(model, run, any(phase.validation for phase in phases), **how)
        self.phases, self.recipe, self.teacher = phases, recipe, teacher

    def prepare(self) -> None:
        for phase in self.phases:
            dataclasses.replace(self.recipe, steps=phase.steps, batch_size=phase.batch_size)  # checks both numbers
        self.records = [Records(phase.records) for phase in self.phases]
        self.validation = [Records(phase.validation) if phase.validation else None for phase in self.phases]
        for each in filter(None, (*self.records, *self.validation)):
            _check_records(self.model, each)
        # Of each epoch: the index of its phase, its first step there, and the number of steps.
        every = self.recipe.measure_every
        self.epochs = [
            (i, first, min(every, phase.steps - first))
            for i, phase in enumerate(self.phases)
            for first in range(0, phase.steps, every)
        ]
        self.batches = [count for _, _, count in self.epochs]

    def changed_step(self) -> contextlib.AbstractContextManager[None]:
        return learning_from(self.teacher, self.model, self.recipe.temperature)

    def compile(self) -> None:
        model, kind = self.model, {"adamw": AdamW, "lamb": LAMB}[self.recipe.optimizer]
        updates = sum(-(-phase.steps // self.recipe.accumulate) for phase in self.phases)
        compile_model(model, self.recipe, updates, kind=kind, metrics=model.training_metrics, epsilon=1e-6)
        # Keras makes a metric's variables at its first use. The state holds them, so they must exist before it is read.
        model.evaluate(_batches_in_order(self.records[0], self.phases[0].batch_size).take(1), verbose=0)

    def settings(self) -> dict[str, Any]:
        maskings = [phase.masking for phase in self.phases]
        of_phases = {
            "steps": [phase.steps for phase in self.phases],
            "batch_size": [phase.batch_size for phase in self.phases],
            "masking": [each and [each.predictions, each.rate, each.masked_unit] for each in maskings],
        }
        records = [digest_of_records(each) for each in self.records]
        validation = [each and digest_of_records(each) for each in self.validation]
        return settings_of_run(self.model, self.recipe, self.teacher, records, validation, of_phases)

    def dataset(self, epoch: int, start: int) -> tf.data.Dataset:
        i, first, count = self.epochs[epoch]
        return _training_batches(self.records[i], self.phases[i], self.recipe, first + start).take(count - start)

    def ends_accumulation(self, epoch: int) -> bool:
        """Whether an epoch is the last one of its phase."""
        i, first, count = self.epochs[epoch]
        return first + count == self.phases[i].steps

    def measure(self, epoch: int, progress: bool | None) -> dict[str, float]:
        i, is_last = self.epochs[epoch][0], self.ends_accumulation(epoch)
        with_loss, batch_size = monitors_loss(self.callbacks), self.phases[i].batch_size
        return _measure(self.model, self.validation[i], batch_size, is_last, with_loss, progress)


def _batches_in_order(records: Records, batch_size: int) -> tf.data.Dataset:
    return records.in_order(batch_size).map(as_written(_split_batch)).with_options(distribution.DATA_OPTIONS)


def _training_batches(records: Records, phase: Phase, recipe: PretrainingRecipe, start: int) -> tf.data.Dataset:
    """Makes a dataset of training batches from batch `start` on; with accumulation, it ends with the phase."""

    def mask_and_split(step: tf.Tensor, batch: dict[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], ...]:
        if phase.masking is not None:
            batch = phase.masking(unmasked(batch), [recipe.seed, tf.cast(step, tf.int32)])
        return _split_batch(batch)

    first = start - start % recipe.accumulate  # the first batch of the update that `start` belongs to
    batches = records.shuffled(phase.batch_size, recipe.seed, first).enumerate(first)
    masked = batches.map(as_written(mask_and_split), tf.data.AUTOTUNE, deterministic=True)
    if recipe.accumulate > 1:
        updates = masked.take(phase.steps - first).batch(recipe.accumulate)
        masked = updates.map(as_written(_add_shares)).unbatch().skip(start - first)
    return masked.prefetch(4).with_options(distribution.DATA_OPTIONS)


def _add_shares(
    inputs: dict[str, tf.Tensor], targets: dict[str, tf.Tensor], weights: dict[str, tf.Tensor]
) -> AccumulatedBatch:
    """Adds to the batches of an update, `[batches, batch, ...]`, their shares in its loss."""
    rows = tf.shape(inputs["input_mask"])[:2]
    values = (weights[MASKED_LM], tf.ones(rows), inputs["input_mask"])  # in the order of `UNITS`
    counts = [tf.reduce_sum(tf.cast(each, tf.float32), axis=list(range(1, len(each.shape)))) for each in values]
    counts = tf.stack(counts, axis=1)  # [batches, units]
    shares = tf.math.divide_no_nan(counts, tf.reduce_sum(counts, axis=0))
    shares = tf.broadcast_to(shares[:, None], [*tf.unstack(rows), len(values)])
    return AccumulatedBatch((inputs, targets, weights), shares)


def _split_batch(batch: dict[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], ...]:
    """Splits a batch of records into inputs, targets and weights for `fit`."""
    inputs, targets, weights = dict(batch), {}, {}
    targets[MASKED_LM] = inputs.pop("masked_lm_ids")
    weights[MASKED_LM] = inputs.pop("masked_lm_weights")
    if "next_sentence_labels" in inputs:
        targets[NEXT_SENTENCE] = inputs.pop("next_sentence_labels")
        weights[NEXT_SENTENCE] = tf.ones(tf.shape(targets[NEXT_SENTENCE]))
    return inputs, targets, weights


def _measure(
    model: BertPretrainer,
    records: Records | None,
    batch_size: int,
    with_baselines: bool = False,
    with_loss: bool = False,
    progress: bool | None = None,
) -> dict[str, float]:
    """Measures a model on the validation records; `{}` if there are none."""
    if records is None:
        return {}
    with progress_bar(None, "batches", progress) as bar:
        count = LambdaCallback(on_test_batch_end=lambda batch, logs: bar.update())
        dataset = _batches_in_order(records, batch_size)
        measures = model.evaluate(dataset, verbose=0, return_dict=True, callbacks=[count])
    loss = measures["loss"]  # of pairs, the sum of both losses
    if model.pairs:
        del measures["loss"]
    else:  # with one objective, Keras leaves its name out
        measures = {f"{MASKED_LM}_{name}": value for name, value in measures.items()}
    measures[f"{MASKED_LM}_perplexity"] = _exp(measures[f"{MASKED_LM}_loss"])
    if with_baselines:
        measures |= {f"{name}{BASELINE}": value for name, value in baselines(records).items()}
    return {**measures, "loss": loss} if with_loss else measures


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf  # above, Python raises an OverflowError


def _check_records(model: BertPretrainer, records: Records) -> None:
    """Raises ValueError if the model cannot be trained on these records."""
    record = next(iter(records.in_order(1)))
    has_pairs = "next_sentence_labels" in record
    if model.pairs and not has_pairs:
        raise ValueError(f"{records.files[0]} has no pairs: make the model with pairs=False, or write records of pairs")
    if has_pairs and not model.pairs:
        raise ValueError(f"{records.files[0]} has pairs, but the model has no head for pairs: make it with pairs=True")
    # If ids or lengths do not fit the model, the encoder raises the error.
    model.encoder({name: record[name] for name in ("input_word_ids", "input_mask", "input_type_ids")})
