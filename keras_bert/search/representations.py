"""What an index keeps of its texts, and how it compares queries with that: a class for each kind of model."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from keras_bert.engines.loading import task_of
from keras_bert.formats import Preset
from keras_bert.search import database
from keras_bert.search.database import Database, Encode, Found, Settings
from keras_bert.task_table import COMPARED, OF_HEAD


class Representation(Protocol):
    """What an index keeps of its texts, opened in one version of the index. Rows have numbers from 0."""

    # The database holds an array of each text, under its key; see `Database.encode`. A representation may keep more,
    # such as what makes it quick to search: `update` writes it, in the transaction of a change, and `open` reads it.

    STORED: ClassVar[tuple[str, ...]]  # the values of `Settings.stored` that name it, first the default
    is_exact: bool  # whether a query is compared with all texts

    def __len__(self) -> int:
        """Counts the rows."""
        ...

    # -- Of a model.

    @staticmethod
    def load(preset: str | Path | Preset) -> Any:
        """Loads a model. Raises ImportError if a package for the search is missing."""
        ...

    @staticmethod
    def width(model: Any) -> int:
        """Returns the number of values of a vector: `Settings.width`."""
        ...

    @staticmethod
    def documents(model: Any, batch_tokens: int) -> Encode:
        """Makes a function that computes the array of each text, and counts the truncated texts."""
        ...

    @staticmethod
    def queries(model: Any, texts: list[str]) -> Sequence[Any] | np.ndarray:
        """Computes what `nearest` compares of each query."""
        ...

    # -- Of an index.

    @classmethod
    def update(cls, index: Database, settings: Settings, old: Settings | None, leaving: list[int], added: int) -> None:
        """Follows a change: the rows with the ids `leaving` have left, and the last `added` ones are new."""
        ...

    @classmethod
    def open(cls, index: Database, settings: Settings, ids: np.ndarray) -> Representation:
        """Opens what `update` wrote; `ids` are those of the rows."""
        ...

    def nearest(self, index: Database, queries: Any, count: int, among: np.ndarray | None) -> Found:
        """Finds the rows that are most similar to each query, -1 for none; compares each of `among`."""
        ...

    def products(self, index: Database, query: Any, numbers: list[int]) -> np.ndarray:
        """Computes the similarities of a query and some rows."""
        ...


# By the class of the model, as its files declare it; any other model is taken as a sentence encoder.
REPRESENTATIONS: dict[str, type[Representation]] = {
    model: pkgutil.resolve_name(f"keras_bert.search.{kept}") for model, kept in COMPARED.items()
}


def of_model(preset: str | Path | Preset) -> type[Representation]:
    return REPRESENTATIONS.get(task_of(preset, COMPARED), REPRESENTATIONS[OF_HEAD[None].model])


def of_index(index: Database, settings: Settings) -> type[Representation]:
    """Finds the representation of an index. Raises ValueError if its settings name none."""
    for each in REPRESENTATIONS.values():
        if settings.stored in each.STORED:
            return each
    raise database.damaged_error(index.path, f"it stores {settings.stored!r}")
