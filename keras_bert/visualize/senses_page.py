"""The points of a word's occurrences as a self-contained HTML page, or as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from keras_bert.visualize.evaluation_page import plain_page
from keras_bert.visualize.senses import Occurrence, Senses
from keras_bert.visualize.view import new_figure, png

RADIUS = 6  # of a point, in pixels
LETTERS = 11  # the size of a label's letters, in pixels

_DIRECTIONS = np.array([(1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1)])
_RINGS = (1, 1.8, 2.6)  # distances, as multiples of the smallest


def label_places(
    points: np.ndarray, numbers: Sequence[str], size: tuple[float, float]
) -> list[tuple[float, float] | None]:
    """Finds the centre of each label: the nearest free place around its point.

    Args:
        points: `[points, 2]`, in pixels. The n-th number belongs to the n-th point.
        numbers: the labels, in digits.
        size: the width and the height of the picture, in pixels.

    Returns:
        The place of each number; None if all places around its point are taken.

    Example:
        >>> label_places(np.array([[50.0, 50.0], [64.0, 50.0]]), ["1", "2"], (100, 100))
        [(36.5, 50.0), (77.5, 50.0)]
    """
    taken, halves = points, np.full(points.shape, float(RADIUS))  # rectangles: their centres, and half their sizes
    places: list[tuple[float, float] | None] = []
    for point, number in zip(points, numbers, strict=False):
        half = np.array([0.6 * len(number) + 0.4, 1.0]) * LETTERS / 2  # with a gap between two numbers
        around = np.concatenate([point + ring * _DIRECTIONS * (half + RADIUS + 2) for ring in _RINGS])
        inside = ((around >= half) & (around <= np.array(size) - half)).all(axis=1)
        covers = (np.abs(around[:, None] - taken) < half + halves).all(axis=2).any(axis=1)
        free = around[inside & ~covers][:1]
        taken, halves = np.concatenate([taken, free]), np.concatenate([halves, np.tile(half, (len(free), 1))])
        places.append((round(float(free[0, 0]), 1), round(float(free[0, 1]), 1)) if len(free) else None)
    return places


def is_far(label: Sequence[float], point: Sequence[float]) -> bool:
    """Checks whether a label is so far from its point that a line must join them."""
    return float(np.hypot(label[0] - point[0], label[1] - point[1])) > 3 * RADIUS + LETTERS


_WIDTH, _HEIGHT, _MARGIN = 800, 500, 30
_STYLE = f"""svg {{ width: 100%; border: 1px solid #ccc }}
circle {{ fill: #1f77b4; fill-opacity: .7 }}
path {{ fill: #d62728 }}
text {{ font-size: {LETTERS}px; fill: #444; text-anchor: middle; dominant-baseline: central }}
line {{ stroke: #bbb }}
"""
_BODY = """<p>{count} occurrences. Those in similar contexts are close together. The red diamond is the word without
context. Point at an occurrence to read its sentence; numbers without room are left out.</p>
<svg viewBox="0 0 {width} {height}" role="img">
{points}
</svg>
<ol>
{sentences}
</ol>
"""


def page(senses: Senses) -> str:
    """Makes an HTML page: a plot, in which each point has its sentence as a tooltip, and a list of the sentences.

    Args:
        senses: from `find_senses`.
    """
    places = _on_page(np.vstack([senses.points, senses.static_point[None]]))
    numbers = [str(number) for number in range(1, len(senses.occurrences) + 1)]
    labels = label_places(places, numbers, (_WIDTH, _HEIGHT))
    points = []
    for number, each, (x, y), label in zip(numbers, senses.occurrences, places, labels, strict=False):
        shown = ""
        if label is not None:
            u, v = label
            shown = f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{u:.1f}" y2="{v:.1f}"/>' if is_far(label, (x, y)) else ""
            shown += f'<text x="{u:.1f}" y="{v:.1f}">{number}</text>'
        title = f"<title>{number}: {escape(each.sentence)}</title>"
        points.append(
            f'<a href="#s{number}">{shown}<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}">{title}</circle></a>'
        )
    x, y = places[-1]
    points.append(
        f'<path d="M{x:.1f} {y - 8:.1f}l8 8l-8 8l-8 -8z"><title>{escape(senses.word)}, without context</title></path>'
    )
    sentences = [f'<li id="s{number}">{_marked(each)}</li>' for number, each in enumerate(senses.occurrences, start=1)]
    body = _BODY.format(
        count=len(senses.occurrences),
        width=_WIDTH,
        height=_HEIGHT,
        points="\n".join(points),
        sentences="\n".join(sentences),
    )
    return plain_page(senses.word, body, _STYLE)


def picture(senses: Senses) -> bytes:
    """Draws a PNG of the same points, with their numbers.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure, axes = new_figure(8, 5)
    axes.scatter(*senses.points.T, alpha=0.7, label="in a sentence")
    axes.scatter(*senses.static_point, marker="D", color="tab:red", label="without context")
    axes.set_title(senses.word, parse_math=False)
    axes.legend()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # now the places are final
    places = axes.transData.transform(np.vstack([senses.points, senses.static_point[None]]))
    numbers = [str(number) for number in range(1, len(senses.points) + 1)]
    labels = label_places(places, numbers, figure.bbox.size)
    for number, point, place, label in zip(numbers, senses.points, places, labels, strict=False):
        if label is not None:
            axes.annotate(
                number,
                point,
                xytext=(np.array(label) - place) * 72 / figure.dpi,
                textcoords="offset points",
                fontsize=LETTERS * 72 / figure.dpi,
                ha="center",
                va="center",
                arrowprops={"arrowstyle": "-", "color": "#bbbbbb"} if is_far(label, place) else None,
            )
    return png(figure)


def _on_page(points: np.ndarray) -> np.ndarray:
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
    x, y = (_MARGIN + (points - low) / np.maximum(high - low, 1e-9) * size).T
    return np.stack([x, _HEIGHT - y], axis=1)


def _marked(each: Occurrence) -> str:
    before, word, behind = each.sentence[: each.start], each.sentence[each.start : each.end], each.sentence[each.end :]
    return f"{escape(before)}<mark>{escape(word)}</mark>{escape(behind)}"
