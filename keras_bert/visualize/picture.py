"""Attention weights -> a PNG of one head, or of a grid of heads."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from keras_bert.extras import needed
from keras_bert.visualize.attention_weights import Weights

_DOTS_PER_INCH = 200
_OF_A_HEAD = 0.8  # inches, in a grid
_OF_A_TOKEN = 0.17  # inches, in a picture of one head
_BAR = 2.5  # inches, the colour bar
_LETTERS = 8  # points


def picture(weights: Weights, layer: int | None = None, head: int | None = None) -> bytes:
    """A heat map of one head, with its tokens, or of several heads in a grid: a row per layer, a column per head.

    Args:
        weights: the weights of one text, or of a pair.
        layer: the only layer to show; None for all.
        head: the only head of each layer to show; None for all.

    Returns:
        The bytes of a PNG file.

    Raises:
        ImportError: matplotlib is not installed.
    """
    layers = range(len(weights.scores)) if layer is None else [layer]
    heads = range(weights.scores.shape[1]) if head is None else [head]
    if len(layers) == len(heads) == 1:
        height = max(4.0, _OF_A_TOKEN * len(weights.tokens) + 1.2)
        figure, axes = new_figure(1.15 * height, height)
        image = _one(axes, weights, layers[0], heads[0])
    else:
        height = max(2.0, _OF_A_HEAD * len(layers) + 0.7)
        figure, axes = new_figure(max(3.0, _OF_A_HEAD * len(heads) + 1.2), height)
        image = _grid(axes, weights, layers, heads)
    ticks = [0, 0.01, 0.05, 0.2, 0.5, 1]
    bar = figure.colorbar(image, ticks=ticks, format="%g", shrink=min(1.0, _BAR / height), aspect=20)
    bar.ax.tick_params(labelsize=_LETTERS)
    bar.set_label("attention weight", fontsize=_LETTERS)
    return png(figure)


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """An empty figure of matplotlib, of this size in inches, and its axes."""
    # Not pyplot, which keeps figures in memory and may need a display.
    figure = needed("matplotlib.figure", "matplotlib").Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def png(figure: Any) -> bytes:
    """The bytes of a PNG file of a figure."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH)
    return buffer.getvalue()


def _one(axes: Any, weights: Weights, layer: int, head: int) -> Any:
    image = _heat(axes, weights.scores[layer, head])
    ticks = range(len(weights.tokens))
    axes.set_title(f"layer {layer}, head {head}", fontsize=_LETTERS + 2)
    axes.set(xlabel="attended to", ylabel="attends", xticks=ticks, yticks=ticks)
    as_they_are = {"parse_math": False, "fontsize": _LETTERS}  # a $ is a token, not a formula
    axes.set_xticklabels(weights.tokens, rotation=90, **as_they_are)
    axes.set_yticklabels(weights.tokens, **as_they_are)
    if weights.second is not None:
        for line in (axes.axhline, axes.axvline):
            line(weights.second - 0.5, color="black", linewidth=0.5, linestyle=":")
    return image


def _grid(axes: Any, weights: Weights, layers: Any, heads: Any) -> Any:
    """One image of all heads: hundreds of axes would take a minute."""
    size = len(weights.tokens)
    gap = max(1, size // 10)
    step = size + gap
    whole = np.full((len(layers) * step - gap, len(heads) * step - gap), np.nan, np.float32)
    for row, layer in enumerate(layers):
        for column, head in enumerate(heads):
            top, left = row * step, column * step
            whole[top : top + size, left : left + size] = weights.scores[layer, head]
    image = _heat(axes, whole)
    axes.set(xlabel="head", ylabel="layer")
    axes.set_xticks([column * step + (size - 1) / 2 for column in range(len(heads))], heads)
    axes.set_yticks([row * step + (size - 1) / 2 for row in range(len(layers))], layers)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)
    return image


def _heat(axes: Any, weights: np.ndarray) -> Any:
    """Shades follow the square root of the weight, so that small weights stay visible."""
    norm = needed("matplotlib.colors", "matplotlib").PowerNorm(0.5, vmin=0, vmax=1)
    return axes.imshow(weights, cmap="Blues", norm=norm, interpolation="nearest")
