"""The points of a word's occurrences as one self-contained HTML page, or as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from keras_bert.visualize.picture import new_figure, png
from keras_bert.visualize.plain_page import plain_page
from keras_bert.visualize.senses import Occurrence, Senses

_WIDTH, _HEIGHT, _MARGIN = 800, 500, 30
_STYLE = """svg { width: 100%; border: 1px solid #ccc }
circle { fill: #1f77b4; fill-opacity: .7 }
path { fill: #d62728 }
text { font-size: 11px; fill: #444 }
"""
_BODY = """<p>{count} occurrences, each where its sentence puts it; and (red) where the word is without any context.</p>
<svg viewBox="0 0 {width} {height}" role="img">
{points}
</svg>
<ol>
{sentences}
</ol>"""


def page(senses: Senses) -> str:
    """An HTML page: a plot in which each point has its sentence as a tooltip, and the list of the sentences.

    Args:
        senses: from `find_senses`.
    """
    *places, static = _on_page(np.vstack([senses.points, senses.static_point[None]]))
    points = [
        f'<a href="#s{number}"><circle cx="{x:.1f}" cy="{y:.1f}" r="6"><title>{escape(each.sentence)}</title></circle>'
        f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{number}</text></a>'
        for number, (each, (x, y)) in enumerate(zip(senses.occurrences, places, strict=True), start=1)
    ]
    x, y = static
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
    """A PNG of the same points, with their numbers.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure, axes = new_figure(8, 5)
    axes.scatter(*senses.points.T, alpha=0.7, label="in a sentence")
    axes.scatter(*senses.static_point, marker="D", color="tab:red", label="without context")
    for number, point in enumerate(senses.points, start=1):
        axes.annotate(str(number), point, xytext=(4, 4), textcoords="offset points", fontsize=8)
    axes.set_title(senses.word, parse_math=False)
    axes.legend()
    return png(figure)


def _on_page(points: np.ndarray) -> Sequence[tuple[float, float]]:
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
    x, y = (_MARGIN + (points - low) / np.maximum(high - low, 1e-9) * size).T
    return list(zip(x.tolist(), (_HEIGHT - y).tolist(), strict=True))


def _marked(each: Occurrence) -> str:
    before, word, behind = each.sentence[: each.start], each.sentence[each.start : each.end], each.sentence[each.end :]
    return f"{escape(before)}<mark>{escape(word)}</mark>{escape(behind)}"
