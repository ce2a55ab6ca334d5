"""Keeps which layers inside a model are frozen: Keras's configuration holds the flag of the model alone."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any, TypeVar

import keras

from keras_bert import undocumented

M = TypeVar("M", bound=keras.Model)


class FreezesLayers(keras.Model):
    """A model that freezes all its layers if it is made with `trainable=False`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        make: Any = cls.__init__

        @functools.wraps(make)
        def make_and_freeze(self: Any, *args: Any, **kwargs: Any) -> None:
            make(self, *args, **kwargs)
            if type(self) is cls and not self.trainable:  # the layers did not exist when Keras set the flag
                self.trainable = True  # Keras ignores a flag that it has
                self.trainable = False

        vars(make_and_freeze)["__signature__"] = inspect.signature(make)  # which Keras reads
        cls.__init__ = make_and_freeze


def frozen_layers(model: keras.Model) -> dict[str, list[str]]:
    """Lists the paths of a model's frozen layers, as the entry `frozen` of its configuration, if all are not as it."""
    layers = _layers_by_path(model)
    frozen = [path for path, layer in layers.items() if not layer.trainable]
    is_needed = frozen if model.trainable else len(frozen) < len(layers)
    return {"frozen": frozen} if is_needed else {}


def freeze(model: M, frozen: Sequence[str] | None) -> M:
    """Makes the layers at the paths of a configuration not trainable, and all others trainable; None: no change."""
    if frozen is None:
        return model
    layers = _layers_by_path(model)
    if unknown := [path for path in frozen if path not in layers]:
        raise ValueError(f"the configuration of {model.name} freezes {unknown[0]!r:.80}, but it has no such layer")
    for path, layer in layers.items():
        layer.trainable = path not in frozen
    return model


def _layers_by_path(model: keras.Model) -> dict[str, keras.Layer]:
    """Lists the layers inside a model by their paths, each after all layers that it is in: their flags set its own."""
    found: dict[int, tuple[str, keras.Layer]] = {}

    def visit(layer: keras.Layer, path: str) -> None:
        for each in undocumented.sublayers(layer):
            if id(each) not in found:
                visit(each, f"{path}{each.name}/")
                found[id(each)] = f"{path}{each.name}", each

    visit(model, "")
    return dict(reversed(found.values()))
