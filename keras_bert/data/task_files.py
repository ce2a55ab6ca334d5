"""How each task reads files of examples: dataclasses of settings, whose fields make the options of commands, too.

The fields are arguments of `fine_tune_files`. A new option of a task is a new field. Every command imports this module,
so it imports nothing heavy.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from keras_bert.choices import ENCODER_POOLINGS, LONG_TEXTS, PROBLEM_TYPES, check_choice
from keras_bert.data import Examples, read_conll, read_folders, read_squad
from keras_bert.data.conll import check_conll
from keras_bert.data.squad import check_squad
from keras_bert.data.table_formats import FORMATS
from keras_bert.data.tables import Column, TableRows, read_rows
from keras_bert.data.texts import Labels, examples_of, names_of_columns, parse_label
from keras_bert.loss_table import default_loss, loss_help, losses_of


def _setting(
    default: object,
    help: str,
    choices: Sequence[str] = (),
    option: str = "",
    metavar: str = "",
    least: int | None = None,
    is_checked: bool = True,
) -> Any:
    """Makes a setting. `option` is its name in commands, if different; `choices` are checked unless their user does."""
    metadata = {"help": f"{help}.", "choices": choices, "option": option, "metavar": metavar}
    return dataclasses.field(default=default, metadata=metadata | {"least": least, "is_checked": is_checked})


def _column(default: object, help: str, option: str = "") -> Any:
    return _setting(default, help, option=option, metavar="C")


# The examples of an opened file, given the settings: the kind of its labels may be known only now.
Opened: TypeAlias = "Callable[[Any], Examples]"


@dataclass(kw_only=True, eq=False, repr=False)
class ExampleFiles:
    """The settings of a task that is trained on files of examples. Raises ValueError for a bad one."""

    sequence_length: int | None = _setting(
        None, "The length of a row in tokens; by default, as long as the texts need", least=3
    )
    skip_bad: bool = _setting(False, "Leave out examples that cannot be used, and print their number")

    # What `dataclass(frozen=True)` would make for each class anew, which takes 5 ms at the start of every command.

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super().__setattr__(name, value)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, choices = getattr(self, field.name), field.metadata["choices"]
            if choices and field.metadata["is_checked"] and value is not None:
                check_choice(field.name, value, choices)

    def open(self, path: str | Path, to_measure: bool = False) -> Opened:
        """Opens a file to train on, or to measure with. Raises OSError or ValueError if it lacks a column."""
        raise NotImplementedError


@dataclass(kw_only=True, eq=False, repr=False)
class TableFiles(ExampleFiles):
    """The settings of a task whose examples are the rows of a table; see `data.read_table`."""

    header: bool = _setting(True, "The first line is an example; choose columns by number, from 1")
    format: str | None = _setting(
        None,
        "The format of the file; by default that of its first bytes or its extension",
        tuple(FORMATS),
        is_checked=False,
    )
    delimiter: str | None = _setting(
        None, "The character between the cells of a CSV; by default, it is recognised", metavar="X"
    )
    sheet: str | None = _setting(None, "The sheet of a workbook; by default the first", metavar="NAME")

    @property
    def texts(self) -> Mapping[str, Column]:
        """The columns of texts, by their names in `Examples`."""
        raise NotImplementedError

    @property
    def labels(self) -> Labels:
        """The columns of labels."""
        raise NotImplementedError

    label_kind = "number"

    def open(self, path: str | Path, to_measure: bool = False) -> Opened:
        rows = read_rows(path, self.format, header=self.header, delimiter=self.delimiter, sheet=self.sheet)
        return self.of_rows(rows, to_measure)

    def of_rows(self, rows: TableRows, to_measure: bool = False) -> Opened:
        """Finds the columns, and returns what makes the examples."""
        labels = [self.labels] if isinstance(self.labels, str | int) else self.labels or []
        rows.find_all([*self.texts.values(), *labels])  # raises if one is missing

        def examples(settings: TableFiles) -> Examples:
            parse = functools.partial(parse_label, kind=settings.label_kind)
            return examples_of(rows, self.texts, self.labels, parse, self.skip_bad)

        return examples


@dataclass(kw_only=True, eq=False, repr=False)
class ClassifyFiles(TableFiles):
    """Texts or pairs, and their classes, several or numbers: tables, or a directory with one directory per class."""

    text_column: str | int = _column("text", "The column of the texts")
    text_pair_column: str | int | None = _column(None, "The column of the second texts, for pairs")
    label_column: str | int | None = _column(
        None, "The column of the labels; by default `label`, in CoNLL files the last"
    )
    problem_type: str = _setting(
        "single_label_classification",
        "The kind of labels: one class per text, several, or numbers",
        tuple(PROBLEM_TYPES),
    )
    loss: str | None = _setting(
        None, "The loss. By default cross-entropy; of numbers, the mean squared error", losses_of(*PROBLEM_TYPES)
    )
    long_text: str = _setting("truncate", "How to fit texts that are too long", tuple(LONG_TEXTS), is_checked=False)
    pooling: str | None = _setting(
        None,
        "What the head reads: the first token, the mean of all, or this mean scaled to length 1. By default as in the "
        "model's family; with few examples, as the preset's vectors of texts are pooled",
        tuple(name for name, each in ENCODER_POOLINGS.items() if not each.is_late),
        is_checked=False,
    )

    @property
    def texts(self) -> dict[str, Column]:
        pair = {} if self.text_pair_column is None else {"text_pair": self.text_pair_column}
        return {"text": self.text_column, **pair}

    @property
    def labels(self) -> Column:
        return self.label_column or "label"

    @property
    def label_kind(self) -> str:
        return PROBLEM_TYPES[self.problem_type].labels

    def open(self, path: str | Path, to_measure: bool = False) -> Opened:
        if Path(path).is_dir():
            return lambda _: read_folders(path, skip_bad=self.skip_bad)
        return super().open(path)


@dataclass(kw_only=True, eq=False, repr=False)
class TagFiles(ExampleFiles):
    """Words and their labels in CoNLL's columns; see `data.read_conll`."""

    label_column: int = _setting(-1, "The column of the labels; -1: the last")
    long_text: str = _setting(
        "truncate",
        "How to fit texts that are too long",
        tuple(name for name, way in LONG_TEXTS.items() if way.keeps_words),
        is_checked=False,
    )
    crf: bool = _setting(False, "Label the words of a sentence together, by a conditional random field")

    def open(self, path: str | Path, to_measure: bool = False) -> Opened:
        Path(path).stat()  # raises, with the path
        check_conll(path)
        try:
            column = -1 if self.label_column is None else int(self.label_column)
        except ValueError:
            raise ValueError(
                f"label_column is {self.label_column}; choose columns of CoNLL files by number, from 1"
            ) from None
        return lambda _: read_conll(path, label_column=column, skip_bad=self.skip_bad)


@dataclass(kw_only=True, eq=False, repr=False)
class AnswerFiles(ExampleFiles):
    """Questions, contexts and answers; see `data.read_squad`."""

    no_answer_threshold: float | None = _setting(
        None,
        "The no_answer_score above which the answer is empty. By default that of the model, for which training chooses "
        "the best if some questions of --eval have no answer, else 0.0",
        metavar="X",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.no_answer_threshold is not None and not math.isfinite(self.no_answer_threshold):
            raise ValueError(f"no_answer_threshold is {self.no_answer_threshold}; expected a number, such as 0.0")

    def open(self, path: str | Path, to_measure: bool = False) -> Opened:
        Path(path).stat()  # raises, with the path
        check_squad(path)
        return lambda _: read_squad(path, skip_bad=self.skip_bad)


@dataclass(kw_only=True, eq=False, repr=False)
class RankFiles(TableFiles):
    """Pairs of a query and a text, with label 1 (an answer) or 0; or lists: a query, its answer, and the negatives."""

    text_column: str | int = _column("text", "The column of the queries", "query_column")
    text_pair_column: str | int = _column("text_pair", "The column of the texts", "passage_column")
    label_column: str | int | None = _column(None, "The column of the labels; by default `label`")
    negative_columns: Sequence[str | int] = _column(
        (),
        "A column of texts that answer the query less well, or not; may be repeated. With it, rows are lists",
        option="negative_column",
    )
    score_columns: Sequence[str | int] = _column(
        (),
        "For lists, a column of a better model's scores, or of labels 0, 1, 2 ... Repeat it, first for the text, "
        "then for each negative; or, for margins, only for each negative. By default, only the text is an answer",
        option="score_column",
    )
    loss: str | None = _setting(None, loss_help("rankings"), losses_of("rankings"))

    def __post_init__(self) -> None:
        super().__post_init__()
        passages, scores = 1 + len(self.negative_columns), len(self.score_columns)
        if passages == 1:
            if scores or self.loss not in (None, default_loss("rankings", is_pair=True)):
                setting = "score_columns" if scores else f"loss {self.loss}"
                raise ValueError(f"{setting} is for lists; name the other texts of a row with negative_columns")
        elif self.label_column is not None:
            raise ValueError("label_column is for pairs; the labels of lists are in score_columns, one for each text")
        elif scores and scores not in (passages, passages - 1):
            raise ValueError(
                f"got columns of scores: {scores}, but texts: {passages}, in text_pair_column and negative_columns"
            )

    @property
    def texts(self) -> dict[str, Column]:
        if self.negative_columns:
            return names_of_columns([self.text_column, self.text_pair_column, *self.negative_columns])
        return {"text": self.text_column, "text_pair": self.text_pair_column}

    @property
    def labels(self) -> Labels:
        return _one_or_several(self.score_columns) if self.negative_columns else self.label_column or "label"


@dataclass(kw_only=True, eq=False, repr=False)
class ChooseFiles(TableFiles):
    """Questions, the choices of each, and the number of the right one, from 0."""

    question_column: str | int = _column("question", "The column of questions")
    choice_columns: Sequence[str | int] = _column(
        (), "A column of choices; repeat it, in the order in which the labels count them", option="choice_column"
    )
    label_column: str | int = _column("label", "The number of the right choice, from 0")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.choice_columns) < 2:
            raise ValueError(f"choice_columns are {list(self.choice_columns)}; expected two or more")

    @property
    def texts(self) -> dict[str, Column]:
        choices = {f"choice_{number}": column for number, column in enumerate(self.choice_columns, start=1)}
        return {"question": self.question_column, **choices}

    @property
    def labels(self) -> Column:
        return self.label_column


@dataclass(kw_only=True, eq=False, repr=False)
class ComparedFiles(TableFiles):
    """Queries and their positives, maybe with negatives or scores; see `data.read_columns`."""

    query_column: str | int = _column("query", "The column of the queries, or first texts, of a sentence encoder")
    positive_column: str | int = _column("positive", "The column of the positives, or second texts")
    negative_columns: Sequence[str | int] = _column(
        (), "A column of negatives; may be repeated", option="negative_column"
    )
    score_columns: Sequence[str | int] = _column(
        (),
        "The column of the similarity of query and positive, a number. May be repeated: a column of a reranker's "
        "scores for the positive and for each negative",
        option="score_column",
    )
    loss: str | None = _setting(None, loss_help("vectors"), losses_of("vectors"))
    mini_batch_size: int | None = _setting(
        None, "Compute N texts at a time: a large --batch-size with the memory of a small one", metavar="N", least=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        texts, scores = 1 + len(self.negative_columns), len(self.score_columns)
        if scores > 1 and scores != texts:
            raise ValueError(
                f"got columns of scores: {scores}, but texts: {texts}, in positive_column and negative_columns"
            )

    @property
    def chosen_loss(self) -> str:
        return self.loss or default_loss("vectors", not self.negative_columns, bool(self.score_columns))

    @property
    def texts(self) -> dict[str, Column]:
        return names_of_columns([self.query_column, self.positive_column, *self.negative_columns])

    @property
    def labels(self) -> Labels:
        return _one_or_several(self.score_columns)

    def of_rows(self, rows: TableRows, to_measure: bool = False) -> Opened:
        """Finds the columns. If rows to measure with have no negatives, makes pairs of them, with a warning."""
        if not to_measure or not self.negative_columns or any(map(rows.has, self.negative_columns)):
            return super().of_rows(rows)
        missing = " and no ".join(repr(str(name)) for name in self.negative_columns)
        warnings.warn(f"{rows.table.path} has no {missing}: it is evaluated as pairs", stacklevel=3)
        return dataclasses.replace(self, negative_columns=(), score_columns=self.score_columns[:1]).of_rows(rows)


@dataclass(kw_only=True, eq=False, repr=False)
class EmbedFiles(ComparedFiles):
    """What a sentence encoder learns from, as `ComparedFiles`."""

    query_prompt: str | None = _setting(None, "The name of the model's prompt for queries", metavar="NAME")
    positive_prompt: str | None = _setting(
        None, "The name of the model's prompt for positives and negatives", metavar="NAME"
    )
    matryoshka_dims: Sequence[int] = _setting(
        (), "Train vectors that can be truncated to each of these sizes, such as 384,128", metavar="N,..."
    )


@dataclass(kw_only=True, eq=False, repr=False)
class SparseFiles(ComparedFiles):
    """What a sparse encoder learns from, as `ComparedFiles`."""

    document_weight: float = _setting(
        3e-5, "The weight of FLOPS, which makes texts sparse, for all but queries", metavar="X", least=0
    )
    query_weight: float = _setting(5e-5, "The weight of FLOPS for queries", metavar="X", least=0)
    query_table: bool = _setting(False, "Queries get their weights from a table, without the network")
    train_query_table: bool = _setting(False, "Train the weights of this table, too; else they stay")


@dataclass(kw_only=True, eq=False, repr=False)
class TokenVectorFiles(ComparedFiles):
    """What a multi-vector encoder learns from, as `ComparedFiles`."""

    loss: str | None = _setting(None, loss_help("token_vectors"), losses_of("token_vectors"))
    vector_size: int | None = _setting(
        None, "The number of values of a token's vector; by default that of the model, of a new one 128", least=1
    )


def _one_or_several(columns: Sequence[Column]) -> Labels:
    return columns[0] if len(columns) == 1 else columns
