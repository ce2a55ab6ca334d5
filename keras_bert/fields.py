"""The types of a dataclass's fields: `BertConfig`, the tables of `formats` and the recipes check values by them."""

from __future__ import annotations

import functools
import typing
from numbers import Integral, Real
from types import NoneType
from typing import Any, NamedTuple

_NUMBERS = {int: Integral, float: Real}  # NumPy's, too


class FieldType(NamedTuple):
    """The type of a field."""

    kind: type  # bool, int, float, str or Mapping
    may_be_none: bool

    def fits(self, value: Any) -> bool:
        """Whether a value is of this type. A whole number is also a float; True and False are no numbers."""
        if value is None:
            return self.may_be_none
        if isinstance(value, bool):
            return self.kind is bool
        return isinstance(value, _NUMBERS.get(self.kind, self.kind))


@functools.cache
def types_of(owner: type) -> dict[str, FieldType]:
    """The types of a class's fields by name, from its annotations, such as `int | None`.

    Example:
        >>> from keras_bert.recipe import Recipe
        >>> types_of(Recipe)["clip_norm"]
        FieldType(kind=<class 'float'>, may_be_none=True)
    """
    found = {}
    for name, hint in typing.get_type_hints(owner).items():
        kinds = typing.get_args(hint) or (hint,)
        found[name] = FieldType(next(kind for kind in kinds if kind is not NoneType), NoneType in kinds)
    return found
