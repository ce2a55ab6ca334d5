"""XLA, Keras's `jit_compile=True`, for models that read texts and packed inputs."""

from __future__ import annotations

from typing import Any


class Compilable:
    """What a model with a preprocessor needs so that `compile(jit_compile=True)` is heeded.

    XLA has no strings. Keras therefore takes XLA from every model that has a preprocessor among its layers, with a
    warning; but one that gets packed inputs never calls it. By default (`jit_compile="auto"`) nothing changes: the
    model is not compiled by XLA, and takes texts.

    It comes before `keras.Model` among the bases of a model.
    """

    @property
    def jit_compile(self) -> bool:
        return super().jit_compile

    @jit_compile.setter
    def jit_compile(self, value: Any) -> None:
        self._jit_compile = value
