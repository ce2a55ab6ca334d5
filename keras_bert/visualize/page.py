"""Makes a self-contained HTML page of attention weights: it loads nothing, and only its own script and style run.

It holds the weights of each layer, and the queries, keys and distance terms from which it computes them, as base64 of
little-endian float16: an error of at most 2.5e-4 in a weight, and 1 / 2048 of the others.
"""

from __future__ import annotations

import base64
import html
import json
from importlib import resources
from string import Template

import numpy as np

from keras_bert.visualize.attention_weights import AttentionWeights
from keras_bert.visualize.evaluation_page import source_hash

# In the order of their dependencies.
_SCRIPTS = ("weights", "colours", "state", "tokens", "cells", "heads", "map", "grid", "neurons", "controls")
_LONGEST_TITLE = 60


def page(weights: AttentionWeights, layer: int, head: int) -> str:
    style, script = _part("page.css"), "\n".join(_part(f"{name}.js") for name in _SCRIPTS)
    script = f'"use strict";\n{{\n{script}}}\n'  # the block keeps the script's names local
    sources = f"script-src {source_hash(script)}; style-src {source_hash(style)}"
    layers, heads = weights.weights.shape[:2]
    data = {
        "texts": weights.texts,
        "tokens": weights.tokens,
        "second": weights.second,
        "layers": layers,
        "heads": heads,
        "headSize": weights.queries.shape[-1],
        "hasAdded": weights.added is not None,
        "halfWindows": weights.half_windows or [None] * layers,
        "layer": layer,
        "head": head,
    }
    title = f"Attention: {' '.join(' | '.join(weights.texts).split())}"
    return Template(
        _part("page.html")
    ).substitute(
        policy=f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'",
        title=html.escape(title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…"),
        style=style,
        data=json.dumps(data).replace("<", "\\u003c"),  # so that no text can close the script element
        layers="\n".join(
            f'<script type="text/plain" id="{name}-{number}">{_encoded(values)}</script>'
            for name, arrays in (
                ("weights", weights.weights),
                ("queries", weights.queries),
                ("keys", weights.keys),
                ("added", weights.weights[:0] if weights.added is None else weights.added),
            )
            for number, values in enumerate(arrays)
        ),
        script=script,
    )


def _part(name: str) -> str:
    return (resources.files("keras_bert.visualize") / "page" / name).read_text(encoding="utf-8")


def _encoded(values: np.ndarray) -> str:
    return base64.b64encode(values.astype("<f2").tobytes()).decode()
