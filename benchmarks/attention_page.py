"""How large the page of `keras-bert attention` is, and how fast a browser opens it and draws.

python benchmarks/attention_page.py [--rounds 5]

For BERT-Base with a pair of 128 tokens and BERT-Large with 200, of random weights. Needs playwright and a chromium;
each round opens the page in a new tab, from its file. Seconds are those of the browser's own clock.
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path

import numpy as np
from _measure import cores, versions
from playwright.sync_api import sync_playwright

from keras_bert.visualize import AttentionView
from keras_bert.visualize.weights import Weights

SIZES = {"bert-base, 128 tokens": (12, 12, 128), "bert-large, 200 tokens": (24, 16, 200)}
HEAD_SIZE = 64  # of both
# Each resolves when the browser has painted what was asked for: the second frame after it.
PAINTED = "const painted = () => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));"
OPENED = "async () => { %s await painted(); return performance.now(); }"
TAKES = (
    "async () => { %s await painted(); const start = performance.now(); "
    "%s; await painted(); return performance.now() - start; }"
)
STEPS = {
    "another head": "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))",
    "all heads' lines": "document.querySelector('[aria-label=\"Lines of all heads\"]').click()",
    "one token of them": "document.querySelector('#from button').dispatchEvent(new PointerEvent('pointerenter'))",
    "heat map": "document.querySelector('[data-view=map]').click()",
    "pictures in sight": "document.querySelector('[data-view=grid]').click()",
    "queries and keys": "document.querySelector('[data-view=neurons]').click()",
    "another query": "document.querySelectorAll('#queries button')[9].dispatchEvent(new PointerEvent('pointerenter'))",
}

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--rounds", type=int, default=5)
arguments = parser.parse_args()


def view_of(layers: int, heads: int, tokens: int) -> AttentionView:
    """Half of the heads look at a few tokens, half at all."""
    generator = np.random.default_rng(0)
    queries, keys = generator.normal(size=(2, layers, heads, tokens, HEAD_SIZE)).astype(np.float32)
    queries[:, ::2] *= 3
    scores = np.exp(queries @ keys.swapaxes(-1, -2) / HEAD_SIZE**0.5)
    scores /= scores.sum(-1, keepdims=True)
    words = [f"word{i}" for i in range(tokens)]
    half = tokens // 2
    return AttentionView(Weights((" ".join(words[:half]), " ".join(words[half:])), words, half, scores, queries, keys))


def times(browser: object, path: Path) -> dict[str, float]:
    """Seconds by what was done."""
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.goto(path.as_uri(), wait_until="commit")
    tab.wait_for_selector("#drawn:not(:empty)", timeout=120_000)
    seconds = {"opened, lines drawn": tab.evaluate(OPENED % PAINTED)}
    for name, step in STEPS.items():
        seconds[name] = tab.evaluate(TAKES % (PAINTED, step))
    tab.close()
    return {name: milliseconds / 1000 for name, milliseconds in seconds.items()}


with sync_playwright() as playwright, tempfile.TemporaryDirectory() as directory:
    browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    print(f"{cores()} cores, chromium {browser.version}, {versions(['playwright'])}")
    for size, shape in SIZES.items():
        path = Path(directory) / "attention.html"
        view_of(*shape).save(path, overwrite=True)
        rounds = [times(browser, path) for _ in range(arguments.rounds)]
        print(f"\n{size}: {path.stat().st_size / 1e6:.1f} MB\n{'':22}{'median s':>9}{'min':>7}{'max':>7}")
        for name in rounds[0]:
            taken = [each[name] for each in rounds]
            print(f"{name:22}{statistics.median(taken):9.2f}{min(taken):7.2f}{max(taken):7.2f}")
    browser.close()
