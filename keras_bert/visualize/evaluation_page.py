"""Makes a self-contained HTML page with the measures of a model, its confusion matrix and its worst answers.

The page needs no scripts. `plain_page` makes the frame that all pages without scripts share.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from keras_bert.answers.tables import class_table, measure_table, shares, without_classes

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src {hash}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
_FRAME_STYLE = "body { font: 16px/1.5 sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }\n"


def plain_page(title: str, body: str, style: str = "") -> str:
    """Makes a self-contained HTML page without scripts; its policy forbids `style` attributes. `body` is HTML."""
    style = _FRAME_STYLE + style
    return _PAGE.format(title=escape(title), body=body, style=style, hash=source_hash(style))


def source_hash(source: str) -> str:
    """Hashes a script or a style sheet for a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


_SHADES = 10
_STYLE = """:root { color-scheme: light dark }
div { overflow-x: auto }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .2rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid #8888 }
td.number { text-align: right; font-variant-numeric: tabular-nums }
""" + "".join(
    f"td.{kind}{shade} {{ background: rgb({colour} / {6 * shade}%) }}\n"
    for kind, colour in (("right", "33 113 181"), ("wrong", "217 72 1"))
    for shade in range(_SHADES + 1)
)


class ExampleAnswer(NamedTuple):
    """An example's place and texts by name, and a model's answer beside its label: the rows of `Kind.compared`."""

    texts: Mapping[str, int | str | list[str]]
    rows: Sequence[Mapping[str, object]]


def page(
    title: str,
    measures: Mapping[str, float],
    details: Mapping[str, float],
    confusion: tuple[Sequence[str], np.ndarray] | None,
    worst: Sequence[ExampleAnswer],
    heading: str,
) -> str:
    """Makes an HTML page: measures, a table of those "of class", the confusion matrix, and examples under `heading`."""
    parts = [_table(*measure_table({**measures, **without_classes(details)}))]
    if classes := class_table(details):
        parts += ["<h2>Classes</h2>", _table(*classes)]
    if confusion is not None:
        parts += ["<h2>Confusion matrix</h2>", "<p>Rows: true class. Columns: predicted class.</p>"]
        parts.append(_matrix(*confusion))
    if worst:
        parts += ["<h2>Worst answers</h2>", f"<p>{escape(heading)}</p>", _answers(worst)]
    return plain_page(title, "\n".join(parts), _STYLE)


def _matrix(labels: Sequence[str], counts: np.ndarray) -> str:
    shades = np.rint(_SHADES * shares(counts)).astype(int)
    rows = [
        f"<th>{escape(label)}</th>"
        + "".join(
            f'<td class="number {"right" if i == j else "wrong"}{shades[i, j]}">{count:,}</td>'
            for j, count in enumerate(counts[i])
        )
        for i, label in enumerate(labels)
    ]
    return _rows(["", *labels], rows)


def _answers(worst: Sequence[ExampleAnswer]) -> str:
    names = list(dict.fromkeys(name for example in worst for name in example.texts))
    kinds = list(dict.fromkeys(kind for example in worst for row in example.rows for kind in row))
    rows = []
    for example in worst:
        span = f' rowspan="{len(example.rows)}"' if len(example.rows) > 1 else ""
        texts = "".join(f"<td{span}>{escape(_text(example.texts.get(name)))}</td>" for name in names)
        for i, row in enumerate(example.rows):
            rows.append(("" if i else texts) + "".join(_cell(row.get(kind, "")) for kind in kinds))
    return _rows([*names, *kinds], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return _rows(header, ["".join(map(_cell, row)) for row in rows])


def _rows(header: Sequence[str], rows: Sequence[str]) -> str:
    """Makes a table from rows whose cells are HTML already."""
    lines = ["".join(f"<th>{escape(name)}</th>" for name in header), *rows]
    return "<div><table>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table></div>"


def _cell(value: object) -> str:
    if isinstance(value, float | int):
        return f'<td class="number">{value:{".4f" if isinstance(value, float) else ","}}</td>'
    return f"<td>{escape(_text(value))}</td>"


def _text(value: object) -> str:
    if value is None:  # the model makes no prediction for a truncated word
        return ""
    return " ".join(value) if isinstance(value, list) else str(value)
