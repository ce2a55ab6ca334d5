"""Reads texts and labels as users pass them: one or many, single or in pairs, in lists, arrays or pandas columns.

It needs no TensorFlow.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection, Iterable, KeysView, Mapping, Sequence, Set, Sized, ValuesView
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from keras_bert.counted import counted
from keras_bert.data.examples import check_characters
from keras_bert.data.texts import parse_label
from keras_bert.tensors import Tensor
from keras_bert.text.arguments import check_many, columns_of_table, rank_of

# Examples as users pass them: lists, arrays, columns of tables, tensors. Tasks on words take a list for each sentence.
Column: TypeAlias = "Collection[str] | Tensor"
Texts: TypeAlias = "Column | tuple[Column, ...]"
# A label for each example, a name or a number; or several labels for each.
Labels: TypeAlias = "Sequence[Any] | Tensor"
Targets: TypeAlias = "np.ndarray | Tensor"  # of a loss

TEXT_NAMES = ("text", "text_pair")  # the arguments of most methods


class Pair(NamedTuple):
    """Two texts to read together."""

    first: str
    second: str


@overload
def one_or_many(column: str | Iterable[str], /, *, names: Sequence[str] = TEXT_NAMES) -> tuple[bool, Iterable[str]]: ...
@overload
def one_or_many(
    *columns: str | Iterable[str], names: Sequence[str] = TEXT_NAMES
) -> tuple[bool, Iterable[str] | list[Pair]]: ...
def one_or_many(
    *columns: str | Iterable[str], names: Sequence[str] = TEXT_NAMES
) -> tuple[bool, Iterable[str] | list[Pair]]:
    """Reads one text or many, or two columns of pairs: whether they are one, and the texts or pairs."""
    is_one = all(isinstance(column, str) for column in columns)
    many = [[column] if is_one else column for column in columns]
    for column, name in zip(many, names, strict=False):
        if not isinstance(column, str):
            check_many(column, name)
    if any(isinstance(column, str) for column in many):
        kinds = " and a ".join(type(column).__name__ for column in many)
        raise TypeError(f"got a {kinds}; pass a single str for each, or a list of str for each")
    lists = [plain(column) for column in many]
    if len(lists) == 1:
        return is_one, lists[0]
    lists = [column if isinstance(column, Sized) else list(column) for column in lists]
    if len({len(column) for column in lists}) > 1:
        raise ValueError(f"got {counted(lists[0], 'first text')}, but {counted(lists[1], 'second one')}")
    return is_one, [Pair(*each) for each in zip(*lists, strict=True)]


def columns_of(x: Texts, max_columns: int | None = 2) -> tuple[Sequence[str], ...]:
    """Reads the columns of texts in examples as `fit` takes them: one list, or the lists of a tuple."""
    if not isinstance(x, tuple):
        columns, names = (x,), ("x",)
    elif not 2 <= len(x) <= (max_columns or len(x)) or any(isinstance(column, str | bytes) for column in x):
        raise ValueError(f"x is a tuple of {len(x)}; expected a list of texts, or for pairs, a tuple of two such lists")
    else:
        columns, names = x, tuple(f"x[{number}]" for number in range(len(x)))
    for column, name in zip(columns, names, strict=True):
        check_many(column, name)
        if not isinstance(column, Sized):
            raise TypeError(f"{name} is a {type(column).__name__}, whose length is unknown; pass a list")
    return tuple(plain(column) for column in columns)


def as_list(many: Iterable[Any], name: str, item: str) -> list[Any]:
    """Checks that an argument holds many, as `check_many` does, and returns them as a list."""
    check_many(many, name, item)
    return list(plain(many))


def plain(x: Any) -> Any:
    """Converts columns of pandas, polars or PyArrow, and sequences such as a deque, to lists; all else stays."""
    if isinstance(x, tuple):
        return tuple(plain(each) for each in x)
    if columns_of_table(x) is not None:
        return x
    if hasattr(x, "to_pylist"):
        return x.to_pylist()
    is_sequence = isinstance(x, Sequence | KeysView | ValuesView) and not isinstance(x, str | bytes)
    return list(x) if is_sequence or hasattr(x, "to_numpy") else x


def is_tensor(x: object) -> bool:
    """Checks for a tensor of TensorFlow, of which there are none before somebody imports it."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and tensorflow.is_tensor(x)


def plain_labels(y: Any, names: Sequence[str] = ()) -> Any:
    """Converts labels to a list, or a table with the columns `names` to an array; None, tensors and datasets stay."""
    if y is None or hasattr(y, "element_spec"):
        return y
    rank = rank_of(y)
    if is_tensor(y) and rank != 0:
        if y.dtype == "string":
            raise TypeError("labels are a string tensor; pass a list: [label.decode() for label in labels.numpy()]")
        return y
    columns = columns_of_table(y)
    if columns is not None and len(columns) > 1:
        if set(columns) == set(names) and columns != list(names):
            raise ValueError(
                f"labels is a table with the columns {', '.join(columns)}, but the labels of this model are in the "
                f"order {', '.join(names)}; pass table[model.labels]"
            )
        return y.to_numpy()
    if columns is not None or rank is None or rank < 2:
        check_many(y, "labels", "label")
    if not isinstance(y, Sized):
        raise TypeError(f"labels is a {type(y).__name__}, whose length is unknown; pass a list")
    return plain(list(y) if isinstance(y, tuple) else y)  # a tuple of labels is no tuple of columns


def check_top_k(top_k: int, maximum: int | None = None, suffix: str = "") -> None:
    """Raises ValueError if `top_k` is not a whole number from 1 to `maximum`; `suffix` ends the message."""
    expected = "at least 1" if maximum is None else f"1 to {maximum}{suffix}"
    if not isinstance(top_k, Integral) or isinstance(top_k, bool):
        raise ValueError(f"top_k is {top_k!r}; expected a whole number, {expected}")
    if top_k < 1 or (maximum is not None and top_k > maximum):
        raise ValueError(f"top_k is {top_k}; expected {expected}")


# -- The names of labels, and their indices

_MIN_EXAMPLES = 3  # examples of a label; fewer are memorized, if learned at all
_MANY_LABELS = 20  # classes; if so many have numbers as names, the numbers may be measurements
_MAX_SHOWN = 5  # labels in a message


def checked_labels(labels: Iterable[str], min_count: int = 1) -> list[str]:
    """Checks the names of labels, and returns them as a list."""
    if isinstance(labels, str | bytes | Set | Mapping) or not isinstance(labels, Iterable):
        raise TypeError(f"labels are {labels!r:.80}; expected a list of their names, in the order of the logits")
    check_many(labels, "labels", "label")
    labels = list(labels)
    if not all(isinstance(label, str) for label in labels):
        raise TypeError(f"labels must be str, not {labels!r:.80}")
    if len(labels) < min_count:
        raise ValueError(f"labels are {labels}; a classifier needs at least {min_count}")
    for label in labels:
        check_characters(label, f"label {label!a}")  # raises here; otherwise saving the model would fail
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise ValueError(f"labels occur twice: {', '.join(repeated)}")
    return [str(label) for label in labels]  # NumPy's str become Python's


def label_index(label: Any, labels: Sequence[str]) -> int:
    """Finds the index of a label from its name or index; refuses what could be an index and the name of another."""
    value = label.numpy() if hasattr(label, "numpy") else label  # of a tensor
    value = value.item() if getattr(value, "shape", None) == () else value
    if value in labels:
        return labels.index(value)
    number = float(value) if isinstance(value, Real) else None
    index = int(number) if number is not None and number.is_integer() and 0 <= number < len(labels) else None
    if isinstance(value, bool):
        names = [name for name in labels if name.casefold() == str(value).casefold()] or labels
    else:
        names = _names_by_number(tuple(labels)).get(number, [])
    if any(index is None or name != labels[index] for name in names):
        choices = ", ".join(map(repr, labels))
        raise ValueError(f"{value!r} could be a label's name or its index; write the name, as a str, one of {choices}")
    if index is None:
        raise ValueError(f"{label!r} is not one of the labels, which are {', '.join(labels)}")
    return index


@functools.lru_cache
def _names_by_number(labels: tuple[str, ...]) -> dict[Any, list[str]]:
    """Maps numbers to the labels whose names are these numbers."""
    names: dict[Any, list[str]] = {}
    for label in filter(_is_number, labels):
        names.setdefault(parse_label(label, "number"), []).append(label)
    return names


def as_float32(labels: Labels, name: str) -> np.ndarray:
    """Converts numbers, or rows of equally many numbers, to float32. Raises ValueError for anything else."""
    try:
        return np.asarray(labels, np.float32)
    except (TypeError, ValueError):
        faults = (f"; row {row} (from 0) is {each!r:.60}" for row, each in enumerate(labels) if not _are_numbers(each))
        raise ValueError(f"{name} must be numbers, as many in each row{next(faults, '')}") from None


def rare_label_warnings(labels: Sequence[str], counts: Iterable[int], unit: str) -> list[str]:
    """Lists one warning about the labels that are too rare to learn, or nothing; `unit` is the word for examples."""
    rare = [f"{label!r} ({count})" for label, count in zip(labels, counts, strict=True) if count < _MIN_EXAMPLES]
    if not rare:
        return []
    shown = ", ".join(rare[:_MAX_SHOWN]) + (f" and {len(rare) - _MAX_SHOWN:,} more" if len(rare) > _MAX_SHOWN else "")
    return [f"labels with fewer than {_MIN_EXAMPLES} {unit} to train on, too few to learn: {shown}"]


def numeric_label_warnings(labels: Sequence[str]) -> list[str]:
    """Lists one warning if there are many classes and all their names are numbers, else nothing."""
    if len(labels) < _MANY_LABELS or not all(map(_is_number, labels)):
        return []
    return [f"all {len(labels):,} labels are numbers: did you mean problem_type='regression'?"]


def _are_numbers(label: object) -> bool:
    try:
        return np.asarray(label, np.float32) is not None
    except (TypeError, ValueError):
        return False


def _is_number(name: str) -> bool:
    try:
        parse_label(name, "number")
    except ValueError:
        return False
    return True


def read_lists(
    query: str | Iterable[str], passages: Iterable[str] | Iterable[Iterable[str]], names: tuple[str, str, str, str]
) -> tuple[bool, list[str], list[list[str]]]:
    """Reads a query and its passages, or many: whether it is one, the queries, the passages; messages use `names`."""
    one, many, item, items = names

    is_one = isinstance(query, str)
    queries, lists = ([query], [passages]) if is_one else (as_list(query, one, one), as_list(passages, items, item))
    lists = [as_list(texts, items if is_one else f"{items}[{number}]", item) for number, texts in enumerate(lists)]
    if len(queries) != len(lists):
        raise ValueError(f"got {len(queries):,} {many}, but {counted(lists, 'list')} of {items}")
    return is_one, queries, lists
