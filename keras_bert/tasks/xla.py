"""XLA (Keras's `jit_compile=True`) for models that read texts and packed inputs."""

from __future__ import annotations

from typing import Any


class Compilable:
    """A mixin for models with a preprocessor, so that `compile(jit_compile=True)` works.

    XLA has no strings, so Keras disables XLA, with a warning, for any model with a preprocessor layer. But a model that
    gets packed inputs never calls this layer. By default (`jit_compile="auto"`), nothing changes: XLA does not compile
    the model, and it takes texts.

    List it before `keras.Model` in the bases of a model.
    """

    @property
    def jit_compile(self) -> bool:
        return super().jit_compile

    @jit_compile.setter
    def jit_compile(self, value: Any) -> None:
        self._jit_compile = value
