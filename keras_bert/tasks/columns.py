"""Reads texts as users pass them: one or many, single or in pairs, in lists, arrays, pandas columns or datasets."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from numbers import Integral
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.text.strings import as_strings


def one_or_many(*columns: Any) -> tuple[bool, Iterable[Any]]:
    """Reads the texts passed to a method such as `classify`: one str or many; for pairs, two str or two columns.

    Returns:
        Whether it is one text or pair; and the texts, or for two columns, the pairs.

    Raises:
        TypeError: one column is a single str and the other is not, or a text is bytes.
        ValueError: the columns differ in length.

    Example:
        >>> one_or_many("a cat"), one_or_many(["a cat"], ["a dog"])
        ((True, ['a cat']), (False, [('a cat', 'a dog')]))
    """
    is_one = all(isinstance(column, str) for column in columns)
    if is_one:
        columns = tuple([column] for column in columns)
    elif any(isinstance(column, str | bytes) for column in columns):
        kinds = " and a ".join(type(column).__name__ for column in columns)
        raise TypeError(f"got a {kinds}; pass a single str for each, or a list of str for each")
    if len(columns) == 1:
        return is_one, columns[0]
    columns = [column if isinstance(column, Sized) else list(column) for column in columns]
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"there are {len(columns[0]):,} first texts, but {len(columns[1]):,} second ones")
    return is_one, list(zip(*columns, strict=True))


def columns_of(x: Any, most: int | None = 2) -> tuple[Any, ...]:
    """The columns of texts in examples: one list, or the lists of a tuple.

    Args:
        most: the number of columns that a tuple may have; None: any.

    Raises:
        ValueError: the tuple has fewer or more columns.
    """
    if not isinstance(x, tuple):
        return (x,)
    if not 2 <= len(x) <= (most or len(x)) or any(isinstance(column, str | bytes) for column in x):
        raise ValueError(f"x is a tuple of {len(x)}; expected a list of texts, or for pairs, a tuple of two such lists")
    return x


def count_of(x: Any) -> int:
    """The number of examples: the length of their first column."""
    return len(columns_of(plain(x), None)[0])


def plain(x: Any) -> Any:
    """A pandas column -> a list, a pandas table -> an array; anything else stays as it is."""
    if isinstance(x, tuple):
        return tuple(plain(each) for each in x)
    if not hasattr(x, "to_numpy"):
        return x
    return list(x) if len(x.shape) == 1 else x.to_numpy()


def as_tensors(inputs: Any) -> Any:
    """Lists of str -> string tensors; packed inputs, Keras inputs and tensors stay as they are."""
    if isinstance(inputs, tuple):
        return tuple(as_tensors(each) for each in inputs)
    if isinstance(inputs, dict | keras.KerasTensor):
        return inputs
    if isinstance(inputs, str | bytes):
        raise TypeError(f"texts is a single {type(inputs).__name__}; pass a list: [text]")
    return as_strings(inputs)


def as_arrays(x: Any) -> Any:
    """Texts -> arrays, for Keras to batch; anything else stays as it is."""
    if isinstance(x, tuple):
        return tuple(as_arrays(each) for each in x)
    is_list = isinstance(x, list) and x and isinstance(x[0], str)
    is_array = isinstance(x, np.ndarray) and x.dtype.kind == "U"
    return np.array(x, dtype=object) if is_list or is_array else x


def check_dataset(x: Any) -> None:
    """Raises ValueError if the labels in a dataset are names, which `fit` cannot turn into targets."""
    spec = x.element_spec if isinstance(x, tf.data.Dataset) else None
    if isinstance(spec, tuple) and len(spec) > 1 and getattr(spec[1], "dtype", None) == tf.string:
        raise ValueError("the labels in this dataset are strings; make it with the numbers from model.targets(names)")


def check_top_k(top_k: Any, most: int | None = None, of: str = "") -> None:
    """Raises ValueError if `top_k` is not a whole number from 1 to `most`, which is the number `of` something."""
    expected = "at least 1" if most is None else f"1 to {most}{of}"
    if not isinstance(top_k, Integral) or isinstance(top_k, bool):
        raise ValueError(f"top_k is {top_k!r}; expected a whole number, {expected}")
    if top_k < 1 or (most is not None and top_k > most):
        raise ValueError(f"top_k is {top_k}; expected {expected}")
