"""Maps heads of presets to task classes, and names of tasks to readers of training files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from keras_bert import choices, data, tasks
from keras_bert.data import Examples, texts
from keras_bert.data.tables import check_columns, read_rows
from keras_bert.formats import Preset, hugging_face
from keras_bert.formats.families import table_of
from keras_bert.recipe import FineTuningWithTeacher, split_by_kind
from keras_bert.task_table import TASKS
from keras_bert.tasks.entities import scheme_of

if TYPE_CHECKING:
    from keras_bert.tasks import BertReranker
    from keras_bert.tasks.task import BertTask

# `tasks` imports TensorFlow when one of its classes is first used. So this module can check files before.


def _found_tasks() -> tuple[type[BertTask], ...]:
    """Lists the tasks that are found by a preset's head, in the order of the table."""
    return tuple(getattr(tasks, task.model) for task in TASKS if task.is_found)


def task_of(handle: str | Path | Preset) -> type[BertTask]:
    """Finds the task that a preset was fine-tuned for, by its head; without a head, the sentence encoder.

    Raises:
        FileNotFoundError: the directory lacks a file.
        ValueError: the preset has heads of several tasks.

    Example:
        >>> task_of("all-MiniLM-L6-v2").__name__
        'BertSentenceEncoder'
    """
    with Preset.open(handle) as preset:
        fitting = {task.HEAD: task for task in reversed(_found_tasks()) if task.is_in(preset)}
    if len(fitting) > 1:
        raise ValueError(f"{preset.directory} has {' and '.join(map(str, fitting))}; load it by its class")
    return next(iter(fitting.values()), tasks.BertSentenceEncoder)


def load_task(handle: str | Path | Preset, **arguments: Any) -> BertTask:
    """Loads the fine-tuned model of a preset; or, if the preset was only pre-trained, its next-sentence prediction.

    Sentence encoders are refused.

    Args:
        handle: a directory, the name of a preset, or `hf://org/name`, see `presets.resolve`; or an open preset.
        **arguments: arguments of the model's `from_preset`.

    Raises:
        FileNotFoundError: there is no such preset, or it lacks a file.
        ValueError: a file is damaged, or the preset has no such head, or several.
    """
    with Preset.open(handle) as preset:
        task = task_of(preset)
        if task not in _found_tasks():
            if not tasks.BertNextSentence.is_in(preset):
                raise ValueError(
                    f"{preset.handle} is not a fine-tuned classifier, tagger or question answerer; fine-tune a model "
                    "first"
                )
            task = tasks.BertNextSentence
        return task.from_preset(preset, **arguments)


def load_reranker(handle: str | Path | Preset, **arguments: Any) -> BertReranker:
    """Loads a model as a reranker, whatever task saved it.

    The preset's head must have one trained score for a pair, or two labels, "no answer" first and "answer" second.

    Args:
        handle: as for `load_task`.
        **arguments: as for `load_task`.

    Raises:
        FileNotFoundError: there is no such preset, or it lacks a file.
        ValueError: a file is damaged, or the preset has no such head.
    """
    from keras_bert.tasks.storable import read_own_settings

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
    """Lists the columns of a table of texts that a preset's model reads, without importing TensorFlow.

    Args:
        handle: as for `load_task`.
        text_column, text_pair_column: the columns of `text` and `text_pair`.

    Returns:
        The names of the columns; empty unless the preset is in Hugging Face's format.
    """
    with Preset.open(handle) as preset:
        if not hugging_face.recognizes(preset):
            return []
        if "spans" in preset.checkpoint.heads:
            return ["question", "context"]
        return [text_column] if text_pair_column is None else [text_column, text_pair_column]


def check_examples(
    handle: str | Path | Preset,
    path: str | Path,
    text_column: str,
    text_pair_column: str | None,
    label_column: str | None,
    **reader_options: Any,
) -> None:
    """Checks that a file exists. If the preset labels texts, also checks that the file has the columns to read.

    It imports no TensorFlow, so that an error comes at once.

    Args:
        handle: as for `load_task`.
        path, text_column, text_pair_column, label_column: as for `read_examples`.
        **reader_options: `header`, `format` and `delimiter`, see `data.read_table`.

    Raises:
        OSError, ValueError: as `read_examples`.
    """
    Path(path).stat()  # raises, with the path
    with Preset.open(handle) as preset:
        columns = columns_of_texts(preset, text_column, text_pair_column)
        if columns and "sequence" in preset.checkpoint.heads and not Path(path).is_dir():
            check_columns(path, [*columns, label_column or _LABEL], **reader_options)


Scores: TypeAlias = "str | int | Sequence[str | int] | None"  # one column, several, or none
Arguments: TypeAlias = "dict[str, Any]"  # by keyword
_LABEL = "label"  # the column of labels, by default


def read_examples(
    kind: str | None, path: str | Path, *, skip_bad: bool = False, problem_type: str | None = None, **columns: Any
) -> Examples:
    """Reads the labelled examples in a file. `kind` is a task's `EXAMPLES`, `columns` are arguments of its reader."""
    if kind is None:
        raise ValueError("this model gives weights of tokens, which cannot be compared with examples")
    return _READERS[kind](path, skip_bad, problem_type, **columns)


def _read_texts(
    path: str | Path, skip_bad: bool, problem_type: str, label_column: str | int | None = None, **columns: Any
) -> Examples:
    if Path(path).is_dir():
        return data.read_folders(path, skip_bad=skip_bad)
    if problem_type not in texts.LABEL_KINDS:
        raise ValueError(f"problem_type is {problem_type!r}; expected one of {', '.join(texts.LABEL_KINDS)}")
    columns |= {"label_column": label_column or _LABEL, "label_kind": texts.LABEL_KINDS[problem_type]}
    return data.read_table(path, skip_bad=skip_bad, **columns)


def _read_words(
    path: str | Path, skip_bad: bool, _: object, label_column: str | int | None = None, **__: object
) -> Examples:
    try:
        column = -1 if label_column is None else int(label_column)
    except ValueError:
        raise ValueError(f"label_column is {label_column}; choose columns of CoNLL files by number, from 1") from None
    return data.read_conll(path, label_column=column, skip_bad=skip_bad)


def _read_questions(path: str | Path, skip_bad: bool, *_: object, **__: object) -> Examples:
    return data.read_squad(path, skip_bad=skip_bad)


def _read_choices(
    path: str | Path, skip_bad: bool, _: object, *, question_column: str | int = "question",
    choice_columns: Sequence[str | int], label_column: str | int | None = None, **table: Any,
) -> Examples:  # fmt: skip
    texts, label = [question_column, *choice_columns], label_column or _LABEL
    examples = data.read_columns(path, text_columns=texts, score_column=label, skip_bad=skip_bad, **table)
    names = ["question", *(f"choice_{number}" for number in range(1, len(texts)))]
    return replace(examples, texts=dict(zip(names, examples.texts.values(), strict=True)))


_READERS: dict[str, Callable[..., Examples]] = {
    "text": _read_texts,
    "words": _read_words,
    "question": _read_questions,
    "choices": _read_choices,
}


@dataclass(frozen=True, kw_only=True)
class FromFiles:
    """The settings and the readers for training a task on files.

    The fields are keyword arguments of `training.fine_tune_files`.

    Attributes:
        sequence_length: the length of a row in tokens; by default, as long as the texts need.
        skip_bad: leave out the examples that cannot be used, with a warning.
    """

    sequence_length: int | None = None
    skip_bad: bool = False

    def check(self, path: str | Path) -> None:
        """Checks that a file exists and has the columns for `read`. Only the beginning of the file is read."""
        Path(path).stat()  # raises, with the path

    def check_validation(self, path: str | Path) -> None:
        """Checks a file for `read_validation`, as `check` does for `read`."""
        self.check(path)

    def read(self, path: str | Path) -> Examples:
        """Reads the examples in a file to train on."""
        raise NotImplementedError

    def read_validation(self, path: str | Path) -> Examples:
        """Reads the examples in a file to measure with."""
        return self.read(path)

    def load_model(self, preset: str | Path, examples: Examples) -> tuple[BertTask, Arguments]:
        """Loads the model of a preset to train on these examples, and returns it with arguments for `fine_tune`."""
        raise NotImplementedError

    def texts_per_class(self, preset: str | Path, examples: Examples) -> float | None:
        """Computes the mean number of texts per class; None if `few_shot` does not fit the task or the preset."""
        return None

    def for_few_shot(self, preset: str | Path) -> FromFiles:
        """Chooses the settings for `few_shot` that are not set."""
        return self


@dataclass(frozen=True, kw_only=True)
class FromTable(FromFiles):
    """The settings and the readers for training a task on the rows of a table.

    Attributes:
        header, format, delimiter: see `data.read_table`.
    """

    header: bool = True
    format: str | None = None
    delimiter: str | None = None

    @property
    def reader_options(self) -> Arguments:
        """The arguments of the readers of tables."""
        return {name: getattr(self, name) for name in ("header", "format", "delimiter", "skip_bad")}

    @property
    def columns(self) -> list[str | int | None]:
        """The columns that every file has; None is ignored."""
        raise NotImplementedError

    def check(self, path: str | Path) -> None:
        self._check_columns(path, self.columns)

    def _check_columns(self, path: str | Path, columns: Sequence[str | int | None]) -> None:
        check_columns(path, columns, header=self.header, format=self.format, delimiter=self.delimiter)


@dataclass(frozen=True, kw_only=True)
class ClassifyFiles(FromTable):
    """Training on texts or pairs, and their classes; see `data.read_table` and `BertClassifier`.

    Attributes:
        pooling: what the head reads: the "first" token, the "mean" of all tokens, or this mean scaled to length 1,
            "unit_mean"; `transformers` has no class for means in most families. By default that of the family; with few
            examples, that of the preset's vectors.
    """

    text_column: str | int = "text"
    text_pair_column: str | int | None = None
    label_column: str | int | None = None
    problem_type: str = "single_label_classification"
    long_text: str = "truncate"
    pooling: str | None = None

    @property
    def columns(self) -> list[str | int | None]:
        return [self.text_column, self.text_pair_column, self.label_column or _LABEL]

    def check(self, path: str | Path) -> None:
        if not Path(path).is_dir():
            super().check(path)

    def read(self, path: str | Path) -> Examples:
        names = ("text_column", "text_pair_column", "label_column", "problem_type")
        columns = {name: getattr(self, name) for name in names}
        return read_examples("text", path, **columns, **self.reader_options)

    def load_model(self, preset: str | Path, examples: Examples) -> tuple[BertTask, Arguments]:
        settings = {"problem_type": self.problem_type, "pairs": "text_pair" in examples.texts}
        settings |= {"long_text": self.long_text, "sequence_length": self.sequence_length, "pooling": self.pooling}
        return tasks.BertClassifier.from_preset(preset, labels=examples.label_names, **settings), {}

    def texts_per_class(self, preset: str | Path, examples: Examples) -> float | None:
        if self.problem_type == "regression" or "text_pair" in examples.texts:
            return None
        with Preset.open(preset) as opened:
            has_head = tasks.BertClassifier.is_in(opened)
        return None if has_head else sum(examples.label_counts.values()) / len(examples.label_names)

    def for_few_shot(self, preset: str | Path) -> ClassifyFiles:
        """Chooses the pooling of the preset's vectors of texts, which the encoder has learned."""
        with Preset.open(preset) as opened:
            try:
                is_mean = opened.sentence_settings.pooling == "mean"
            except ValueError:  # not a sentence encoder
                is_mean = False
            poolings = table_of(opened.config).choices.get("pooling", {}).values()
        pooling = next((each for each in ("unit_mean", "mean") if is_mean and each in poolings), None)
        return replace(self, pooling=self.pooling or pooling)


@dataclass(frozen=True, kw_only=True)
class TagFiles(FromFiles):
    """Training on words and their labels; see `data.read_conll` and `BertTokenClassifier`."""

    label_column: int = -1
    long_text: str = "truncate"
    crf: bool = False

    def read(self, path: str | Path) -> Examples:
        return read_examples("words", path, skip_bad=self.skip_bad, label_column=self.label_column)

    def load_model(self, preset: str | Path, examples: Examples) -> tuple[BertTask, Arguments]:
        settings = {"long_text": self.long_text, "sequence_length": self.sequence_length}
        if self.crf:
            settings["crf"] = scheme_of(examples.label_names, examples.labels or ()) or True
        return tasks.BertTokenClassifier.from_preset(preset, labels=examples.label_names, **settings), {}


@dataclass(frozen=True, kw_only=True)
class AnswerFiles(FromFiles):
    """Training on questions, contexts and answers; see `data.read_squad` and `BertQuestionAnswerer`."""

    def read(self, path: str | Path) -> Examples:
        return read_examples("question", path, skip_bad=self.skip_bad)

    def load_model(self, preset: str | Path, examples: Examples) -> tuple[BertTask, Arguments]:
        return tasks.BertQuestionAnswerer.from_preset(preset, sequence_length=self.sequence_length), {}


def _check_loss(name: str | None, losses: Sequence[str]) -> None:
    if name not in (None, *losses):
        raise ValueError(f"loss is {name!r}; expected one of {', '.join(losses)}")


@dataclass(frozen=True, kw_only=True)
class RankFiles(FromTable):
    """Training on pairs of a query and a text, with label 1 (an answer) or 0; or on lists. See `BertReranker`.

    A row is a list if it has negatives: a query, a text that answers it, and the negatives.

    Attributes:
        negative_columns: other texts of a row, which answer the query less well, or not at all.
        score_columns: for lists, a better model's score of the text and of each negative; or a margin for each
            negative; or labels 0, 1, 2 ... By default, the text is the answer.
        loss: a name in `tasks.ranking_losses.LOSSES`; by default that of `BertReranker`.
    """

    text_column: str | int = "text"
    text_pair_column: str | int = "text_pair"
    label_column: str | int | None = None
    negative_columns: Sequence[str | int] = ()
    score_columns: Sequence[str | int] = ()
    loss: str | None = None

    def __post_init__(self) -> None:
        _check_loss(self.loss, choices.RANKING_LOSSES)
        passages, scores = 1 + len(self.negative_columns), len(self.score_columns)
        if passages == 1:
            if scores or self.loss not in (None, "binary_cross_entropy"):
                option = "score_columns" if scores else f"loss {self.loss}"
                raise ValueError(f"{option} is for lists; name the other texts of a row with negative_columns")
        elif self.label_column is not None:
            raise ValueError("label_column is for pairs; the labels of lists are in score_columns, one for each text")
        elif scores and scores not in (passages, passages - 1):
            raise ValueError(
                f"there are {scores} columns of scores for {passages} texts: that of text_pair_column, and those of "
                "negative_columns"
            )

    @property
    def columns(self) -> list[str | int | None]:
        label_columns = (
            (*self.negative_columns, *self.score_columns) if self.negative_columns else (self.label_column or _LABEL,)
        )
        return [self.text_column, self.text_pair_column, *label_columns]

    def read(self, path: str | Path) -> Examples:
        texts = [self.text_column, self.text_pair_column, *self.negative_columns]
        if self.negative_columns:
            return data.read_columns(
                path, text_columns=texts, score_column=_score_argument(self.score_columns), **self.reader_options
            )
        columns = {"text_column": self.text_column, "text_pair_column": self.text_pair_column}
        columns |= {"label_column": self.label_column, "problem_type": "regression"}
        return read_examples("text", path, **columns, **self.reader_options)

    def load_model(self, preset: str | Path, examples: Examples) -> tuple[BertTask, Arguments]:
        from keras_bert.tasks.ranking_losses import LOSSES

        model = tasks.BertReranker.from_preset(preset, sequence_length=self.sequence_length)
        return model, {"loss": self.loss and LOSSES[self.loss]()}


@dataclass(frozen=True, kw_only=True)
class ChooseFiles(FromTable):
    """Training on questions, the choices of each, and the number of the right one, from 0; see `BertMultipleChoice`."""

    question_column: str | int = "question"
    choice_columns: Sequence[str | int] = ()
    label_column: str | int = _LABEL

    def __post_init__(self) -> None:
        if len(self.choice_columns) < 2:
            raise ValueError(f"choice_columns are {list(self.choice_columns)}; expected two or more")

    @property
    def columns(self) -> list[str | int | None]:
        return [self.question_column, *self.choice_columns, self.label_column]

    def read(self, path: str | Path) -> Examples:
        return read_examples(
            "choices", path, question_column=self.question_column, choice_columns=self.choice_columns,
            label_column=self.label_column, **self.reader_options,
        )  # fmt: skip

    def load_model(self, preset: str | Path, examples: Examples) -> tuple[BertTask, Arguments]:
        return tasks.BertMultipleChoice.from_preset(preset, sequence_length=self.sequence_length), {}


@dataclass(frozen=True, kw_only=True)
class EmbedFiles(FromTable):
    """Training on queries and their positives, maybe with negatives or scores; see `BertSentenceEncoder`.

    Attributes:
        score_columns: the similarity of query and positive; or a reranker's scores of the positive and each negative.
        query_prompt, positive_prompt: names of the model's prompts, for queries and for all other texts.
        loss: a name in `tasks.sentence_losses.LOSSES`. By default, "cosent" for pairs with scores, "margin_mse" for
            longer rows with scores, and "multiple_negatives_ranking" without scores.
        matryoshka_dims: sizes that the vectors can be truncated to.
        mini_batch_size: see `fine_tune`.
    """

    query_column: str | int = "query"
    positive_column: str | int = "positive"
    negative_columns: Sequence[str | int] = ()
    score_columns: Sequence[str | int] = ()
    query_prompt: str | None = None
    positive_prompt: str | None = None
    loss: str | None = None
    matryoshka_dims: Sequence[int] = ()
    mini_batch_size: int | None = None

    def __post_init__(self) -> None:
        _check_loss(self.loss, choices.SENTENCE_LOSSES)
        texts, scores = 1 + len(self.negative_columns), len(self.score_columns)
        if scores > 1 and scores != texts:
            raise ValueError(
                f"there are {scores} columns of scores for {texts} texts: that of positive_column, and those of "
                "negative_columns"
            )

    @property
    def columns(self) -> list[str | int | None]:
        return [self.query_column, self.positive_column, *self.negative_columns, *self.score_columns]

    def check_validation(self, path: str | Path) -> None:
        self._check_columns(path, [self.query_column, self.positive_column, *self.score_columns[:1]])

    def read(self, path: str | Path) -> Examples:
        return self._read(path, self.negative_columns, _score_argument(self.score_columns))

    def read_validation(self, path: str | Path) -> Examples:
        """Reads the examples in a file to measure with. If it has no negatives, reads pairs, with a warning."""
        if not self.negative_columns or self._has_negatives(path):
            return self.read(path)
        missing = " and no ".join(repr(str(name)) for name in self.negative_columns)
        warnings.warn(f"{path} has no {missing}: it is evaluated as pairs", stacklevel=3)
        return self._read(path, (), self.score_columns[0] if self.score_columns else None)

    def _read(self, path: str | Path, negatives: Sequence[str | int], scores: Scores) -> Examples:
        texts = [self.query_column, self.positive_column, *negatives]
        return data.read_columns(path, text_columns=texts, score_column=scores, **self.reader_options)

    def _has_negatives(self, path: str | Path) -> bool:
        rows = read_rows(path, self.format, self.header, self.delimiter)
        numbers = () if rows.names and rows.table.unit == "row" else map(str, range(1, rows.width + 1))
        return not {*map(str, self.negative_columns)}.isdisjoint([*(rows.names or []), *numbers])

    def load_model(self, preset: str | Path, examples: Examples) -> tuple[BertTask, Arguments]:
        from keras_bert.tasks import sentence_losses

        prompts = (self.query_prompt, self.positive_prompt)
        settings: dict[str, Any] = {} if prompts == (None, None) else {"column_prompts": prompts}
        score_loss = "margin_mse" if self.negative_columns else "cosent"
        default_loss = "multiple_negatives_ranking" if examples.labels is None else score_loss
        loss = sentence_losses.LOSSES[self.loss or default_loss]()
        if self.matryoshka_dims:
            loss = sentence_losses.MatryoshkaLoss(loss, self.matryoshka_dims)
        model = tasks.BertSentenceEncoder.from_preset(preset, sequence_length=self.sequence_length, **settings)
        return model, {"loss": loss, "mini_batch_size": self.mini_batch_size}


def _score_argument(columns: Sequence[str | int]) -> Scores:
    """Converts a list of columns to the argument of `data.read_columns`: one column, several, or None."""
    return columns[0] if len(columns) == 1 else columns or None


FROM_FILES: dict[str, type[FromFiles]] = {
    "classify": ClassifyFiles,
    "tag": TagFiles,
    "answer": AnswerFiles,
    "rank": RankFiles,
    "choose": ChooseFiles,
    "embed": EmbedFiles,
}


def split_settings(
    task: str, validation: str | Path | None, settings: Mapping[str, Any]
) -> tuple[FromFiles, FineTuningWithTeacher]:
    """Sorts settings into those of a task's files and those of its recipe, and checks both without TensorFlow.

    Args:
        task: a name in `FROM_FILES`.
        validation: the file to measure with, if any.
        settings: fields of the task's class in `FROM_FILES`, and of the recipe.

    Raises:
        TypeError: there is no such setting.
        ValueError: a setting is bad.
    """
    if task not in FROM_FILES:
        raise ValueError(f"task is {task!r}; expected one of {', '.join(FROM_FILES)}")
    source, recipe = split_by_kind(settings, FROM_FILES[task], FineTuningWithTeacher)
    if recipe.few_shot and task != "classify":
        raise ValueError(f"few_shot is for the task 'classify', not {task!r}; leave it out")
    if validation is not None and recipe.validation_split is not None:
        raise ValueError("validation and validation_split exclude each other; pass only one")
    return source, recipe
