"""A whole pre-training, from text to a directory with a model and its report. The same call resumes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert import formats
from keras_bert.answers import Score
from keras_bert.choices import OBJECTIVES
from keras_bert.config import BertConfig
from keras_bert.counted import counted
from keras_bert.data.table_formats import text_files
from keras_bert.encoder import BertEncoder
from keras_bert.pretraining import write_records
from keras_bert.pretraining.corpus import check_documents
from keras_bert.pretraining.masking import MaskedLMMasking, default_predictions
from keras_bert.pretraining.pretrainer import BertPretrainer, config_of, read_size, read_vocabulary
from keras_bert.recipe import PretrainingWithTeacher, RowsRecipe, SecondPhase, split_by_kind, with_schedule
from keras_bert.text import BertPreprocessor
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.training import distribution, report
from keras_bert.training.distillation import config_of_student, student_of
from keras_bert.training.pretrain import Phase, Pretraining
from keras_bert.training.run import Position
from keras_bert.training.run_of_files import Log, RunOfFiles

_RECORDS, _VALIDATION, _THEN = "records", "validation", "then"  # folders in the directory of a run's state
_PANELS = {  # of the learning curve
    "training loss": ["loss"],
    "validation loss": ["val_masked_lm_loss", "val_next_sentence_loss"],
    "validation accuracy": ["val_masked_lm_accuracy", "val_next_sentence_accuracy"],
}


def pretrain_files(
    corpus: str | Path | Sequence[str | Path],
    output: str | Path,
    validation: str | Path | None = None,
    *,
    vocab: str | Path | None = None,
    size: str | Path | None = None,
    preset: str | Path | None = None,
    teacher: str | Path | None = None,
    num_layers: int | None = None,
    overwrite: bool = False,
    dtype: str = "float32",
    strategy: str = "auto",
    log: Log = print,
    **settings: Any,
) -> dict[str, float]:
    """Pre-trains a model on text, and writes it into a directory with its report.

    Use it when the corpus is in text files. It calls `write_records` and `pretrain`. The same call resumes an
    interrupted run, which ends with the same weights, and returns the measures of a finished one again.

    Args:
        corpus: text in UTF-8: files, or directories of .txt files.
        output: the directory of the model, for `from_preset`. It must be new or empty, or hold this run.
        validation: text to measure the model on: a file or a directory.
        vocab: of a model with new weights, an uncased `vocab.txt`, or a directory with a tokenizer.
        size: "tiny", "mini", "small", "medium", "base", "large", another name of `BertConfig.named`, or a
            `config.json`.
        preset: a masked language model to train further, in place of `vocab` and `size`. It keeps its vocabulary, and
            has a head for pairs if it had one and the objective is one of pairs.
        teacher: a masked language model, in place of these three. The new model learns from the teacher's
            predictions, and starts with some of the teacher's layers, see `student_of`.
        num_layers: the number of layers of the student.
        overwrite, dtype, strategy, log: see `fine_tune_files`.
        **settings: the fields of `PretrainingWithTeacher`, see `pretrain`, of `RowsRecipe`, from text to rows, and of
            `SecondPhase`, on longer rows; all are in `keras_bert.recipe`. `steps` has a default for new models up to
            256 wide only.

    Returns:
        The loss and the measures after the last step. Of several processes, only the chief gets them.

    Raises:
        FileExistsError, OSError, ImportError, TypeError, ValueError, Interrupted: see `fine_tune_files`.
        RuntimeError: one of the processes that write examples was killed.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "text.txt").write_text("It rains. We stay.\\n\\nThe sun shines. We go out.")
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "it", "rains", "we", "stay", "the", "sun", "go"]
        >>> _ = (folder / "vocab.txt").write_text("\\n".join(words))
        >>> given = {"vocab": folder / "vocab.txt", "size": "tiny", "layout": "sentences", "sequence_length": 16}
        >>> measures = pretrain_files(folder / "text.txt", folder / "my-bert", **given, steps=2, log=lambda line: None)
        >>> list(measures)
        ['loss']
    """
    sources = {"vocab": vocab, "size": size, "preset": preset, "teacher": teacher, "num_layers": num_layers}
    sources = {name: each for name, each in sources.items() if each is not None}
    paths = [corpus] if isinstance(corpus, str | Path) else list(corpus)
    return PretrainingRun(paths, output, validation, sources, settings, overwrite, dtype, strategy, log).to_the_end()


@dataclasses.dataclass
class PretrainingRun:
    """A pre-training on files, from top to bottom in `to_the_end`; the fields are arguments of `pretrain_files`."""

    paths: Sequence[str | Path]
    output: str | Path
    validation: str | Path | None
    sources: Mapping[str, Any]  # those of `vocab`, `size`, `preset`, `teacher` and `num_layers` that are given
    given: Mapping[str, Any]
    overwrite: bool
    dtype: str
    strategy: str
    log: Log

    def __post_init__(self) -> None:
        sources = self.sources
        recipes = split_by_kind(self.given, PretrainingWithTeacher, RowsRecipe, SecondPhase)
        if sources.keys() not in ({"vocab", "size"}, {"preset"}, {"teacher", "num_layers"}):
            raise ValueError(
                "a new model needs vocab and size, a model to train further only preset, a student teacher and "
                f"num_layers; there are {' and '.join(sorted(sources)) or 'none of them'}"
            )
        new = read_size(str(sources["size"])) if "size" in sources else None
        self.recipe, self.rows, self.second = recipe, _, second = with_schedule(new, *recipes)
        self.has_teacher = "teacher" in sources
        self.source: str | Path | None = sources.get("preset") or sources.get("teacher")
        assert recipe.steps is not None  # `with_schedule` has set it
        then_steps = second.then_steps or 0
        self.steps = [recipe.steps - then_steps, *filter(None, [then_steps])]  # of each phase
        # The model is measured after each of these steps.
        self.epoch_ends = [
            first + min(done + recipe.measure_every, count)
            for first, count in zip((0, self.steps[0]), self.steps, strict=False)
            for done in range(0, count, recipe.measure_every)
        ]
        self.settings = {**vars(recipe), "steps": self.steps}
        del self.settings["batch_size"]  # `Phase` has it, because the phases may differ
        if recipe.learning_rate is None:
            del self.settings["learning_rate"]  # the size of the model decides it
        if not self.has_teacher:
            del self.settings["temperature"]
        inputs = (*self.paths, self.validation, sources.get("vocab"), sources.get("size"), self.source)
        self.run = RunOfFiles(self.output, self.overwrite, inputs, self._describe, self.log, "preset" in sources)

    def to_the_end(self) -> dict[str, float]:
        """Trains the model, or goes on with an interrupted run, and writes it. Returns the measures."""
        run = self.run
        with run.on_devices(self.dtype, self.strategy) as devices:
            run.log_position(self.settings, len(self.epoch_ends))
            self.training_texts = [path for each in self.paths for path in text_files(Path(each))]
            self.validation_texts = [] if self.validation is None else text_files(Path(self.validation))
            keras.utils.set_random_seed(self.recipe.seed)  # a teacher may get a new head
            with devices.scope():
                origin = self.load()
            phases = self.write_rows(devices, origin)
            keras.utils.set_random_seed(self.recipe.seed)
            with devices.scope():
                model = self.make_model()
            self.choose_rate()
            teacher = self.trained if self.has_teacher else None
            history = Pretraining(model, phases, run, self.recipe, teacher, checkpoint_seconds=300).to_the_end()
            if run.is_chief and run.measures is None:
                self.write(model, history)
        return run.measures or {}

    def _describe(self, position: Position) -> str:
        ends = self.epoch_ends
        done = ends[min(position.epoch, len(ends)) - 1] if position.epoch else 0
        return f"step {done + position.step:,} of {ends[-1]:,}"

    def load(self) -> str:
        """Loads the model to train further, or the teacher; or the vocabulary. Returns a line of the log about it."""
        rows, sources, self.trained = self.rows, self.sources, None
        if self.source is not None:
            self.trained, origin = self._load_masked_lm(self.source)
            self.config, self.preprocessor = self.trained.encoder.config, self.trained.preprocessor
            if self.has_teacher:
                config_of_student(self.trained, sources["num_layers"])  # raises, before anything is overwritten
            objective = rows.objective or self.trained.objective
        else:
            objective = rows.objective or OBJECTIVES[0]
            tokenizer = read_vocabulary(str(sources["vocab"]))
            origin = f"new weights, of the size {sources['size']}"
            self.config = config_of(str(sources["size"]), tokenizer, objective != "sentences")
            self.preprocessor = _preprocessor_of(tokenizer, self.config, self._longest(self.config))
        self.rows = dataclasses.replace(rows, objective=objective)
        return origin

    def _load_masked_lm(self, handle: str | Path) -> tuple[BertPretrainer, str]:
        """Loads the preset to train further, or the teacher. Returns it, and a line of the log about its weights."""
        objective, role = self.rows.objective, "teacher" if self.has_teacher else "preset"
        with formats.open_checkpoint(handle) as checkpoint:
            heads, length = checkpoint.heads, self._longest(checkpoint.config)
        pairs = None if objective is None else objective != "sentences"
        note = f"weights of {handle}"
        if "masked_lm" not in heads:
            purpose = "to learn from" if self.has_teacher else "to train further"
            raise ValueError(f"{role}: {handle} has no masked language modeling head {purpose}")
        if "next_sentence" not in heads:
            note += "; it has no head for pairs, and gets none"
            if pairs and not self.has_teacher:
                raise ValueError(f"{handle} has no head for pairs, which objective {objective!r} needs; leave it out")
        elif pairs is False:
            note += "; its head for pairs is left out"
        return BertPretrainer.from_preset(handle, sequence_length=length, pairs=pairs, objective=objective), note

    def _longest(self, config: BertConfig) -> int:
        """Returns the length of the longest rows, which is the model's. Raises ValueError if it is too long."""
        first, then = self.rows.sequence_length, self.second.then_length
        assert first is not None  # `with_schedule` has set both
        assert then is not None
        if self.second.then_steps is None:
            return first
        if then > config.max_positions:
            raise ValueError(f"then_length is {then}; the model has {config.max_positions} positions")
        return max(first, then)

    def write_rows(self, devices: tf.distribute.Strategy, origin: str) -> list[Phase]:
        """Writes the records of each phase, in place of an old run. Returns the phases."""
        recipe, rows, second = self.recipe, self.rows, self.second
        assert rows.objective is not None  # `load` has set it
        for texts in filter(None, (self.training_texts, self.validation_texts)):
            check_documents(texts, rows.layout, rows.objective)
        all_rows = [self._rows_of_phase(".", rows.sequence_length, self.steps[0], recipe.batch_size)]
        if second.then_steps is not None:
            then = (second.then_length, second.then_steps, second.then_batch_size)
            all_rows.append(self._rows_of_phase(_THEN, *then))
        if self.run.is_chief and not self.has_teacher:
            self.log(origin)
        with distribution.chief_first(devices), self.run.renewed() as state:
            counts = [self._write_records(each, state) for each in all_rows]
        self.counts = counts[0]  # of the text
        return [self._phase(each) for each in all_rows]

    def _rows_of_phase(self, folder: str, length: int | None, steps: int, batch_size: int | None) -> _Rows:
        assert length is not None  # `with_schedule` has set both
        assert batch_size is not None
        preprocessor = _preprocessor_of(self.preprocessor.tokenizer, self.config, length)
        unit = self.rows.masked_unit
        masking = MaskedLMMasking(preprocessor.tokenizer, default_predictions(length), masked_unit=unit)
        return _Rows(folder, preprocessor, masking, steps, batch_size)

    def _write_records(self, rows: _Rows, state: Path) -> dict[str, int]:
        """Writes the rows of a phase into the directory of a run's state. Returns the counts of `write_records`."""
        recipe, texts, folder = self.rows, self.training_texts, state / rows.folder
        names = ("objective", "layout", "masked_unit", "pack", "processes")
        settings = {name: getattr(recipe, name) for name in names}
        settings |= {"seed": self.recipe.seed, "predictions": rows.masking.predictions}
        counts = write_records(texts, folder / _RECORDS, rows.preprocessor, copies=recipe.copies, **settings)
        length, described = rows.preprocessor.sequence_length, _describe_text(counts, texts, recipe.copies)
        self.log(f"{described}, in rows of {length} tokens, for {counted(rows.steps, 'step')}")
        if texts := self.validation_texts:
            validation_counts = write_records(texts, folder / _VALIDATION, rows.preprocessor, **settings)
            self.log(f"validation: {_describe_text(validation_counts, texts)}")
        return counts

    def _phase(self, rows: _Rows) -> Phase:
        """Makes the phase that trains on the records of these rows."""
        folder = self.run.directory / rows.folder
        masking = None if self.rows.static_masking else rows.masking
        validation = folder / _VALIDATION if self.validation_texts else None
        return Phase(folder / _RECORDS, rows.steps, rows.batch_size, masking, validation)

    def make_model(self) -> BertPretrainer:
        """Makes the model to train: a new one, the one to train further, or a student."""
        objective = self.rows.objective
        if self.trained is None:
            return BertPretrainer(BertEncoder(self.config), self.preprocessor, objective != "sentences", objective)
        return student_of(self.trained, self.sources["num_layers"]) if self.has_teacher else self.trained

    def choose_rate(self) -> None:
        """Sets the learning rate by the size of the model, unless it is given."""
        if self.recipe.learning_rate is not None:
            return
        width, trained = self.config.hidden_size, self.trained is not None
        self.recipe = self.recipe.for_width(width, trained=trained)
        start = "its teacher" if self.has_teacher else "trained weights"
        reason = f"it starts from {start}" if trained else f"it is {width} wide"
        if self.run.is_chief:
            self.log(f"learning rate {self.recipe.learning_rate:g} for this model, as {reason}")

    def write(self, model: BertPretrainer, history: Sequence[Mapping[str, float]]) -> None:
        """Writes the model and its report. Ends the run."""
        recipe, rows, counts = self.recipe, self.rows, self.counts
        model.save_preset(self.output, overwrite=True)
        by_step = [{"step": self.epoch_ends[int(each.pop("epoch")) - 1], **each} for each in map(dict, history)]
        settings = {"text": " ".join(map(str, self.paths)), "eval": self.validation, **self.sources}
        settings |= {**vars(rows), **self.settings, "steps": recipe.steps, "batch_size": recipe.batch_size}
        settings["learning_rate"] = recipe.learning_rate
        if self.second.then_steps is not None:
            settings |= vars(self.second)
        settings |= {"dtype": self.dtype, **counts}
        last = history[-1]
        measured = [name for name in last if name.startswith("val_") and name != "val_loss"]
        measures = {"loss": last["loss"], **{name.removeprefix("val_"): last[name] for name in measured}}
        report.write_report(self.output, settings, by_step, Score(measures), _PANELS)
        data = {"training data": f"{counts['tokens'] // rows.copies:,} tokens of {_names(self.training_texts)}"}
        if self.validation_texts:
            data["measured on"] = _names(self.validation_texts)
        report.write_card(model, self.output, self.source, measures, {**data, **vars(rows), **self.settings})
        self.run.seal(measures)


class _Rows(NamedTuple):
    """The rows of a phase of pre-training, all of one length."""

    folder: str  # in that of the run's state
    preprocessor: BertPreprocessor
    masking: MaskedLMMasking  # of a phase that masks anew; its number of predictions is that of the records, too
    steps: int
    batch_size: int


def _names(paths: Sequence[Path]) -> str:
    return paths[0].name if len(paths) == 1 else f"{len(paths):,} files"


def _preprocessor_of(tokenizer: Tokenizer, config: BertConfig, length: int | None) -> BertPreprocessor:
    return BertPreprocessor(tokenizer, length, max_sequence_length=config.max_positions)


def _describe_text(counts: dict[str, int], paths: list[Path], copies: int = 1) -> str:
    source = str(paths[0]) if len(paths) == 1 else f"{len(paths):,} files"
    text = ", ".join(counted(counts[f"{noun}s"] // copies, noun) for noun in ("document", "sentence", "token"))
    return f"{counted(counts['examples'], 'example')} of {text}, from {source}"
