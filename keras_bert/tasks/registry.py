"""Maps heads of presets to task classes, and names of tasks to the files and the models of a fine-tuning."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from keras_bert import tasks
from keras_bert.choices import ENCODER_POOLINGS
from keras_bert.counted import counted, listed
from keras_bert.data import Examples, table_formats
from keras_bert.data.task_files import ClassifyFiles, ExampleFiles, Opened
from keras_bert.engines.loading import export_in, task_of_export
from keras_bert.engines.loading import load as load_export
from keras_bert.formats import Preset, hugging_face, saved
from keras_bert.formats.row_translator import table_of
from keras_bert.head_table import HEADS
from keras_bert.recipe import FineTuningWithTeacher, split_by_kind
from keras_bert.task_table import FINE_TUNING, OF_HEAD, TASKS

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import BertTask

Arguments: TypeAlias = "dict[str, Any]"  # by keyword
F = TypeVar("F", bound=ExampleFiles)

# `tasks` imports TensorFlow when one of its classes is first used. So this module can check files before.


def task_of(handle: str | Path | Preset) -> type[BertTask]:
    """Finds the task that a preset was fine-tuned for, by its head; without a head, the sentence encoder."""
    with Preset.open(handle) as preset:
        return getattr(tasks, saved.task_of(preset))


def load_as(task: str, handle: str | Path | Preset, **arguments: Any) -> Any:
    """Loads a model of a class of `tasks`: by its `from_preset`, or from an export, by `engines`."""
    if (directory := export_in(handle)) is None:
        return getattr(tasks, task).from_preset(handle, **arguments)
    model = load_export(directory)
    if task != model.TASK:
        raise ValueError(f"{directory} is an export of a {model.TASK or 'BertEncoder'}, not of a {task}")
    model.configure(**arguments)
    return model


def load_to_compare(handle: str | Path | Preset, **arguments: Any) -> Any:
    """Loads a sentence encoder like `BertSentenceEncoder.to_compare`, or from an export."""
    if export_in(handle) is None:
        return tasks.BertSentenceEncoder.to_compare(handle, **arguments)
    model = load_as("BertSentenceEncoder", handle, **arguments)
    model.configure(normalize=True if model.similarity == "cosine" else None)
    return model


def load_task(handle: str | Path | Preset, **arguments: Any) -> Any:
    """Loads the fine-tuned model of a preset, or its next-sentence prediction, by `from_preset`; or that of an export.

    Raises ValueError for sentence encoders, and if the preset has heads of several tasks.
    """
    if (directory := export_in(handle)) is not None:
        model = load_export(directory)
        if model.TASK in ("", OF_HEAD[None].model):
            raise ValueError(f"{directory} is an export of a {model.TASK or 'BertEncoder'}, which gives no answers")
        model.configure(**arguments)
        return model
    with Preset.open(handle) as preset:
        task = task_of(preset)
        if task is tasks.BertSentenceEncoder:
            if not tasks.BertNextSentence.is_in(preset):
                raise ValueError(
                    f"{preset.handle} is not a fine-tuned classifier, tagger or question answerer; fine-tune a model "
                    f"first{'; for a [MASK], use fill' * ('masked_lm' in preset.checkpoint.heads)}"
                )
            task = tasks.BertNextSentence
        return task.from_preset(preset, **arguments)


def heads_of(preset: Preset) -> Collection[str]:
    """Names the heads of a preset, or of the task of an export."""
    if export_in(preset) is None:
        return preset.checkpoint.heads
    return [task.head for task in TASKS if task.model == task_of_export(preset) and task.head]


def is_masked_lm(preset: Preset) -> bool:
    """Checks whether a preset is a masked language model that is not fine-tuned."""
    if export_in(preset) is not None:
        return task_of_export(preset) == OF_HEAD["masked_lm"].model
    return "masked_lm" in preset.checkpoint.heads and saved.task_of(preset) == OF_HEAD[None].model


def is_measured_on_text(handle: str | Path | Preset, path: str | Path, format: str | None) -> bool:
    """Checks whether a file holds text for a preset that is a masked language model, not fine-tuned; not a table."""
    with Preset.open(handle) as preset:
        if not is_masked_lm(preset):
            return False
        if export_in(preset) is not None:
            raise ValueError(f"{preset.handle} is an export, which is not measured on text; give the model itself")
        if Path(path).is_dir() or table_formats.format_of(path, format) is None:
            return True
        if "next_sentence" not in preset.checkpoint.heads:
            raise ValueError(
                f"{path} is a table, but {preset.handle} is a masked language model, not fine-tuned: it is measured on "
                "text, a file or a directory of .txt files"
            )
        return False


def load_reranker(handle: str | Path | Preset, **arguments: Any) -> Any:
    """Loads a model as a reranker, whatever task saved it.

    Its head must have one trained score for a pair, or two labels, "no answer" first and "answer" second.
    """
    if export_in(handle) is not None:
        return load_as("BertReranker", handle, **arguments)
    from keras_bert.tasks.base.storable import read_own_settings

    with Preset.open(handle) as preset:
        reads_single_texts = read_own_settings(tasks.BertClassifier, preset).get("pairs") is False
        head = preset.checkpoint.shapes("sequence") if "sequence" in preset.checkpoint.heads else {}
        if reads_single_texts or head.get("logits/bias") not in ((1,), (2,)):
            raise ValueError(
                f"{preset.handle} has no head that scores pairs; use a cross-encoder, or fine-tune a BertReranker"
            )
        return tasks.BertReranker.from_preset(preset, **arguments)


# -- Files of examples, and the models that are trained on them.


def columns_of_texts(handle: str | Path | Preset, text_column: str, text_pair_column: str | None) -> list[str]:
    """Lists the columns that a preset's model reads, if it is in Hugging Face's format; imports no TensorFlow."""
    with Preset.open(handle) as preset:
        if export_in(preset) is None and not hugging_face.recognizes(preset):
            return []
        for head in heads_of(preset):
            if (columns := HEADS[head].columns) is not None:
                return [*columns]
        return [text_column] if text_pair_column is None else [text_column, text_pair_column]


def open_texts(handle: str | Path | Preset, path: str | Path, options: Mapping[str, Any]) -> Opened | None:
    """Opens a file for a preset that labels texts, before TensorFlow is imported; of others, checks that it exists."""
    Path(path).stat()  # raises, with the path
    with Preset.open(handle) as preset:
        is_readable = export_in(preset) is not None or hugging_face.recognizes(preset)
        if not is_readable or "sequence" not in heads_of(preset):
            return None
    return _settings_among(ClassifyFiles, options).open(path)


def examples_for(
    task: BertTask, path: str | Path, options: Mapping[str, Any], opened: Opened | None = None
) -> Examples:
    """Reads the labelled examples in a file, which may be opened already, as a model needs them."""
    if task.FILES is None:
        raise ValueError("this model gives weights or vectors of tokens, which cannot be compared with examples")
    settings = _settings_among(task.FILES, {**options, "problem_type": task.kind.PROBLEM_TYPE})
    examples = (opened or settings.open(path))(settings)
    check_labels(task, examples, path)
    return examples


def check_labels(task: BertTask, examples: Examples, path: str | Path) -> None:
    """Raises ValueError, with the first row and the number of rows, if a model cannot use labels of a file."""
    columns, labels, errors = task.columns(examples.x), examples.labels, {}

    def check(rows: slice) -> ValueError | None:
        try:
            task.kind.targets_of([column[rows] for column in columns], labels and labels[rows])
        except ValueError as error:
            return error
        return None

    if labels is not None and check(slice(None)):
        found = ((number, check(slice(number, number + 1))) for number in range(len(examples)))
        errors = {number: error for number, error in found if error}
    if errors and examples.rows is not None:
        number, error = next(iter(errors.items()))
        name, value = next(iter(examples.rows.place(number).items()))
        rows = f"{len(errors):,} of {counted(examples, 'row')} {'has' if len(errors) == 1 else 'have'} such a label"
        unit = examples.rows.unit if name == "line" else name
        raise ValueError(f"{path}, {unit} {value}: {error}; {rows}") from error


def _settings_among(kind: type[F], options: Mapping[str, Any]) -> F:
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in options.items() if name in names and value is not None})


# -- Trainings on files.


class Job:
    """A fine-tuning on files: its settings, checked once, and its files, opened once, both without TensorFlow."""

    def __init__(self, task: str, train: str | Path, validation: str | Path | None, settings: Mapping[str, Any]):
        if task not in FINE_TUNING:
            raise ValueError(f"task is {task!r}; expected one of {', '.join(FINE_TUNING)}")
        self.task, self.train, self.validation = task, train, validation
        self.settings: Any
        self.recipe: FineTuningWithTeacher
        self.settings, self.recipe = split_by_kind(settings, FINE_TUNING[task].files, FineTuningWithTeacher)
        for name, tasks_with in self.recipe.lacks(task).items():
            if getattr(self.recipe, name):
                raise ValueError(f"{name} is for {listed(list(map(repr, tasks_with)))}, not {task!r}; leave it out")
        if self.recipe.few_shot and self.settings.loss is not None:
            raise ValueError("few_shot and loss exclude each other; leave one of them out")
        if validation is not None and self.recipe.validation_split is not None:
            raise ValueError("validation and validation_split exclude each other; pass only one")

    @cached_property
    def opened(self) -> tuple[Opened, Opened | None]:
        """The opened files of examples to train on, and to measure with."""
        train = self.settings.open(self.train)
        return train, None if self.validation is None else self.settings.open(self.validation, to_measure=True)

    def examples(self, problem_type: str | None = None) -> tuple[Examples, Examples | None]:
        """Reads the examples to train on, and those to measure with; the labels, if that is given, as of this type."""
        changes = {} if problem_type is None else {"problem_type": problem_type}
        (train, validation), settings = self.opened, dataclasses.replace(self.settings, **changes)
        return train(settings), validation and validation(settings)

    def texts_per_class(self, preset: str | Path, examples: Examples) -> float | None:
        """Computes the mean number of texts per class; None if `few_shot` does not fit the task or the preset."""
        if "few_shot" in self.recipe.lacks(self.task) or self.settings.loss is not None:
            return None
        if self.settings.problem_type == "regression" or "text_pair" in examples.texts:
            return None
        with Preset.open(preset) as opened:
            has_head = tasks.BertClassifier.is_in(opened)
        return None if has_head else sum(examples.label_counts.values()) / len(examples.label_names)

    def pool_as_encoder(self, preset: str | Path) -> bool:
        """Chooses the pooling of the preset's vectors of texts, for `few_shot`. Returns whether that is a change."""
        with Preset.open(preset) as opened:
            try:
                is_mean = opened.sentence_settings.pooling == "mean"
            except ValueError:  # not a sentence encoder
                is_mean = False
            poolings = table_of(opened.config).choices.get("pooling", {}).values()
        means = [name for name, each in ENCODER_POOLINGS.items() if each.is_mean and name in poolings]
        pooling = means[-1] if is_mean and means else None
        before = self.settings
        self.settings = dataclasses.replace(before, pooling=before.pooling or pooling)
        return self.settings.pooling != before.pooling

    def load_model(self, preset: str | Path, examples: Examples) -> tuple[BertTask, Arguments]:
        """Loads the model of a preset to train on examples, and returns it with arguments for `fine_tune`."""
        return getattr(tasks, FINE_TUNING[self.task].model).to_train(self.settings, preset, examples)
