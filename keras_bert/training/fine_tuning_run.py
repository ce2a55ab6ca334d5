"""A whole fine-tuning, from files to a directory with a model and its report. The same call resumes it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert.answers import BASELINE, Score
from keras_bert.counted import counted
from keras_bert.data.examples import lookalikes
from keras_bert.engines.loading import export_in
from keras_bert.recipe import EPOCHS
from keras_bert.tasks import BertClassifier, losses
from keras_bert.tasks.base.storable import UntrainedWarning
from keras_bert.tasks.registry import Job, check_labels, load_task
from keras_bert.tasks.steps import few_shot
from keras_bert.training import report
from keras_bert.training.batches import columns_in
from keras_bert.training.distillation import student_of
from keras_bert.training.fine_tune import plan, training_by
from keras_bert.training.run import Position
from keras_bert.training.run_of_files import Log, RunOfFiles

_LABELS_IN_LOG = 30  # labels in a line of the log


def fine_tune_files(
    task: str,
    train: str | Path,
    output: str | Path,
    validation: str | Path | None = None,
    *,
    preset: str | Path = "all-MiniLM-L6-v2",
    teacher: str | Path | None = None,
    num_layers: int | None = None,
    overwrite: bool = False,
    dtype: str = "float32",
    strategy: str = "auto",
    log: Log = print,
    **settings: Any,
) -> dict[str, float]:
    """Fine-tunes a model on files of examples, and writes it into a directory with its report.

    Use it when the examples are in files; `fine_tune` is for examples in memory, and for callbacks. The same call
    resumes an interrupted run, which ends with the same weights, and returns the measures of a finished one again.

    Args:
        task: a command of `keras-bert finetune`: "classify", "tag", "answer", "rank", "choose", "embed", ...
        train: the examples to train on: for "tag" CoNLL's columns, for "answer" SQuAD's JSON (or its rows as JSON lines
            or Parquet), for other tasks a table (CSV, TSV, JSON lines, Parquet or Excel); for "classify" also a
            directory with one directory per class.
        output: the directory of the model, for `from_preset`. It must be new or empty, or hold this run.
        validation: examples to measure each epoch on; the best epoch is kept.
        preset: the model to start from, see `presets.resolve`.
        teacher: a classifier, in place of `preset`. The new model learns from the teacher's predictions, and starts
            with some of the teacher's layers, see `student_of`.
        num_layers: the number of layers of the student.
        overwrite: whether to remove the run or the model in `output` first, but for its README.md.
        dtype: the dtype policy of training: "float32", "mixed_bfloat16" or "mixed_float16". The weights stay float32.
        strategy: the devices to train on, see `keras_bert.training.distribution.strategy`.
        log: gets each line of progress: the files that are read, the position of a resumed run, and the measures of
            each epoch, unless a progress bar shows them on a terminal.
        **settings: the fields of `FineTuningWithTeacher`, see `fine_tune`; and the fields of the task's class in
            `keras_bert.data.task_files`, for reading the files and making the model, such as `label_column`.

    Returns:
        The measures on the validation examples, if there are any. Of several processes, only the chief gets them.

    Raises:
        FileExistsError: `output` holds anything but this run, or `overwrite` would remove a file that no run wrote.
        ImportError: the extra `train` is not installed.
        OSError: a file cannot be read or written.
        TypeError: a setting does not exist, or is of another type.
        ValueError: an argument or a file is bad, the examples do not fit the model, or `output` holds a run that is
            damaged or has other settings.
        Interrupted: a KeyboardInterrupt, at SIGINT or SIGTERM, after the state is saved.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> rows = ["text,label", "I love pizza,food", "rice and beans,food", "it rains,weather", "cold wind,weather"]
        >>> _ = (folder / "train.csv").write_text("\\n".join(rows))
        >>> settings = {"epochs": 2, "batch_size": 2, "log": lambda line: None}
        >>> files = (folder / "train.csv", folder / "my-model", folder / "train.csv")
        >>> list(fine_tune_files("classify", *files, **settings))
        ['accuracy', 'accuracy_baseline']
        >>> (folder / "my-model/report.md").exists()
        True
    """
    start = {"preset": preset, "teacher": teacher, "num_layers": num_layers}
    job = Job(task, train, validation, settings)
    return fine_tune_job(job, output, **start, overwrite=overwrite, dtype=dtype, strategy=strategy, log=log)


def fine_tune_job(job: Job, output: str | Path, **options: Any) -> dict[str, float]:
    """Fine-tunes a model as `fine_tune_files` does, by checked settings, on files that may be opened already."""
    return FineTuningRun(job, output, **options).to_the_end()


@dataclasses.dataclass(kw_only=True)
class FineTuningRun:
    """A fine-tuning on files, from top to bottom in `to_the_end`; the fields are arguments of `fine_tune_files`."""

    job: Job = dataclasses.field(kw_only=False)
    output: str | Path = dataclasses.field(kw_only=False)
    preset: str | Path = "all-MiniLM-L6-v2"
    teacher: str | Path | None = None
    num_layers: int | None = None
    overwrite: bool
    dtype: str
    strategy: str
    log: Log

    def __post_init__(self) -> None:
        job, is_student = self.job, self.teacher is not None
        if is_student != (self.num_layers is not None) or (is_student and job.task != "classify"):
            raise ValueError("a student needs the task 'classify', teacher and num_layers")
        if job.recipe.few_shot and is_student:
            raise ValueError("few_shot and teacher exclude each other; leave one of them out")
        self.recipe, self.source = job.recipe, self.preset if self.teacher is None else self.teacher
        inputs = (job.train, job.validation, self.source)
        self.run = RunOfFiles(self.output, self.overwrite, inputs, self._describe, self.log, not is_student)

    def to_the_end(self) -> dict[str, float]:
        """Trains the model, or goes on with an interrupted run, and writes it. Returns the measures."""
        report.check_installed()
        with self.run.on_devices(self.dtype, self.strategy) as devices:
            self.read_examples(devices)
            # The model completes the weights of classes; `Run.opened` compares these.
            known = {name: value for name, value in self.settings.items() if name != "class_weight"}
            self.run.log_position(known, self.epochs)
            keras.utils.set_random_seed(self.recipe.seed)
            with devices.scope(), warnings.catch_warnings():
                warnings.simplefilter("ignore", UntrainedWarning)  # the run trains the new head
                arguments = self.load_model()
            self.log(self._describe_examples())
            _log_label_counts(self.training.label_counts, self.job.train, self.log)
            for notice in self.notices:
                self.log(notice)
            before = self.model.settings()
            examples = (self.examples, self.validation)
            history = training_by(self.recipe)(self.model, *examples, self.run, self.recipe, **arguments).to_the_end()
            if self.run.is_chief and self.run.measures is None:
                after = self.model.settings().items()
                self.write(history, {name: value for name, value in after if value != before[name]})
        return self.run.measures or {}

    def _describe(self, position: Position) -> str:
        if not position.step:
            return f"epoch {position.epoch} of {self.recipe.epochs}"
        return f"epoch {position.epoch + 1} of {self.recipe.epochs}, step {position.step:,} of {position.batches:,}"

    def read_examples(self, devices: tf.distribute.Strategy) -> None:
        """Reads the files, holds out examples, and sets what the recipe leaves open."""
        job, given = self.job, self.recipe
        with devices.scope():
            length = job.settings.sequence_length
            self.teaching = None if self.teacher is None else _load_teacher(self.teacher, length)
            # A student reads files as its teacher does.
            self.training, self.to_measure = job.examples(self.teaching and self.teaching.kind.PROBLEM_TYPE)
        self.training.check_can_be_learned(job.train)
        may_be_few_shot = given.may_be_few_shot(self.teaching)
        per_class = job.texts_per_class(self.preset, self.training) if may_be_few_shot else None
        validation = None if self.to_measure is None else self.to_measure.xy
        self.examples, self.validation, self.recipe = plan(self.training.xy, validation, given, per_class)
        self.notices = []  # for the log
        if self.recipe.few_shot and given.few_shot is None:
            self.notices.append(few_shot.notice(per_class))
        if self.recipe.few_shot and job.pool_as_encoder(self.preset):
            self.notices.append(few_shot.POOLING_NOTICE)
        assert self.recipe.epochs is not None  # `plan` has set it
        self.epochs = self.recipe.epochs
        if given.epochs is None and self.epochs > EPOCHS:
            self.notices.append(f"{self.epochs} epochs, as there are few examples; epochs sets another number")
        self.settings = dict(vars(self.recipe))
        if self.teacher is None:
            del self.settings["temperature"]

    def load_model(self) -> dict[str, Any]:
        """Loads the model to train. Returns the arguments of `FineTuning` for it."""
        if self.teaching is None or self.num_layers is None:  # both are, or none is
            self.model, arguments = self.job.load_model(self.preset, self.training)
        else:
            self.teaching.targets(self.training.labels)  # raises ValueError if the teacher lacks a label
            loss = losses.chosen(self.job.settings.loss, str(self.teaching.kind.PROBLEM_TYPE))
            arguments = {"teacher": self.teaching, "loss": loss}
            self.model = student_of(self.teaching, self.num_layers)
        if self.to_measure is not None and self.job.validation is not None:
            check_labels(self.model, self.to_measure, self.job.validation)
        return arguments

    def _describe_examples(self) -> str:
        line, origin = f"{counted(self.training, 'example')} from {self.job.train}", self.job.validation
        if self.validation is None:
            return line
        held_out, origin = (" of them held out", "") if origin is None else ("", f" from {origin}")
        return f"{line}, {len(columns_in(self.validation[0])[0]):,}{held_out} to measure with{origin}"

    def write(self, history: list[dict[str, float]], chosen: Mapping[str, float]) -> None:
        """Writes the model, with the settings that the run has chosen, and its report. Ends the run."""
        for name, value in chosen.items():
            is_best = f"val_{name}" in history[-1]
            how = "the best on these examples" if is_best else "a default; examples to measure with would choose it"
            self.log(f"{name} {value:.4f}: {how}")
        model, output, validation = self.model, self.output, self.validation
        model.save_preset(output, overwrite=True)
        score = Score({})  # without validation examples
        data = {"training data": f"{counted(self.training, 'example')} of {Path(self.job.train).name}"}
        if validation is not None:
            score = model.kind.score(model.answers(validation[0]), validation[1])
            if warning := score.warning:
                warnings.warn(warning, stacklevel=3)
            data["measured on"] = counted(columns_in(validation[0])[0], "example")
        settings = {"train": self.job.train, "eval": self.job.validation, "preset": self.source}
        settings |= {} if self.teacher is None else {"num_layers": self.num_layers}
        settings |= {**vars(self.job.settings), **chosen, **self.settings, "dtype": self.dtype}
        report.write_report(output, settings, history, score)
        measures = {**score.measures, **report.without_classes(score.details)}
        report.write_card(model, output, self.source, measures, {**data, **chosen, **self.settings})
        self.run.seal({**score.measures, **{f"{name}{BASELINE}": value for name, value in score.baselines.items()}})


def _log_label_counts(counts: Mapping[str, int], train: str | Path, log: Log) -> None:
    """Logs the count of each label; warns of labels that may be two spellings of one."""
    if not counts:
        return
    labels = [f"{name} {count:,}" for name, count in list(counts.items())[:_LABELS_IN_LOG]]
    rest = f" and {len(counts) - _LABELS_IN_LOG:,} more" if len(counts) > _LABELS_IN_LOG else ""
    log(f"labels: {', '.join(labels)}{rest}")
    for names in lookalikes(counts):
        alike = " and ".join(f"{name!r} ({counts[name]:,})" for name in names)
        warnings.warn(f"{train}: the labels {alike} differ only in case or spaces, but count separately", stacklevel=4)


def _load_teacher(handle: str | Path, sequence_length: int | None) -> BertClassifier:
    if export_in(handle) is not None:
        raise ValueError(f"teacher: {handle} is an export, which only answers; choose the model that was exported")
    teacher = load_task(handle, sequence_length=sequence_length)
    if not isinstance(teacher, BertClassifier):
        raise ValueError(f"teacher: {handle} is a {type(teacher).__name__}; expected a classifier of texts")
    return teacher
