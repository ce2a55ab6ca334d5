"""How large the page of `keras-bert attention` is, and how fast a browser opens it and draws.

python benchmarks/attention_page.py [--rounds 5] [--bertviz DIR]

For BERT-Base with a pair of 128 tokens and BERT-Large with 200, of random weights. Needs playwright and a chromium;
each round opens the page in a new tab, from its file. Seconds are those of the browser's own clock. With --bertviz,
beside it the pages that bertviz (pip install bertviz) makes of BERT-Base. They load their scripts from the net; here
they get them from DIR, where `npm install --prefix DIR d3@5.7.0 jquery@2.1.0 requirejs@2.3.6` has put them.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _measure import MissingError, heading, parse, run, table

from keras_bert.visualize import AttentionView
from keras_bert.visualize.attention_weights import AttentionWeights

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


def view_of(layers: int, heads: int, tokens: int) -> AttentionView:
    """Half of the heads look at a few tokens, half at all."""
    generator = np.random.default_rng(0)
    queries, keys = generator.normal(size=(2, layers, heads, tokens, HEAD_SIZE)).astype(np.float32)
    queries[:, ::2] *= 3
    weights = np.exp(queries @ keys.swapaxes(-1, -2) / HEAD_SIZE**0.5)
    weights /= weights.sum(-1, keepdims=True)
    words = [f"word{i}" for i in range(tokens)]
    half = tokens // 2
    texts = " ".join(words[:half]), " ".join(words[half:])
    return AttentionView(AttentionWeights(texts, words, half, weights, queries, keys))


# A script's name in the address bertviz' pages load it from -> where npm puts it.
SCRIPTS = {"d3": "d3/dist/d3.min.js", "jquery": "jquery/dist/jquery.min.js", "require": "requirejs/require.js"}


def bertviz_pages(view: AttentionView, directory: Path) -> dict[str, tuple[Path, str]]:
    """Files of bertviz' views of the same weights, and a selector of what is drawn last."""
    import bertviz
    import torch

    weights = view.weights.weights
    given = {"attention": [torch.tensor(layer)[None] for layer in weights], "tokens": view.weights.tokens}
    pages = {}
    for name, draw, last in (
        ("head view", bertviz.head_view, "svg line"),
        ("model view", bertviz.model_view, f"svg g:nth-of-type({weights.shape[0] * weights.shape[1]}) line"),
    ):
        path = directory / f"{name}.html"
        html = draw(**given, sentence_b_start=view.weights.second, html_action="return").data
        path.write_text(f'<!DOCTYPE html><meta charset="utf-8">{html}')
        pages[f"bertviz, {name}"] = path, last
    return pages


def opening(browser: object, path: Path, last: str, scripts: Path) -> float:
    """Seconds until what is drawn last has been painted."""

    def script(route: object) -> None:
        name = route.request.url.rpartition("/")[2].partition(".")[0]
        route.fulfill(path=scripts / "node_modules" / SCRIPTS[name])

    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.route("https://cdnjs.cloudflare.com/**", script)
    tab.goto(path.as_uri(), wait_until="commit")
    tab.wait_for_selector(last, timeout=600_000, state="attached")
    milliseconds = tab.evaluate(OPENED % PAINTED)
    tab.close()
    return milliseconds / 1000


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


def rows_of(browser: object, directory: Path, arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yields the rows of the table."""
    for size in arguments.sizes:
        path = directory / "attention.html"
        view = view_of(*SIZES[size])
        view.save(path, overwrite=True)
        is_compared = arguments.bertviz and size == "bert-base, 128 tokens"
        others = bertviz_pages(view, directory) if is_compared else {}
        rounds = []
        for _ in range(arguments.rounds):
            rounds.append(times(browser, path))
            for name, (other, last) in others.items():
                rounds[-1][name] = opening(browser, other, last, arguments.bertviz)
        for name in rounds[0]:
            page = others[name][0] if name in others else path
            taken = [each[name] for each in rounds]
            seconds = (f"{value:.2f}" for value in (statistics.median(taken), min(taken), max(taken)))
            yield [size, f"{page.stat().st_size / 1e6:.1f}", name, *seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--bertviz", type=Path, metavar="DIR", help="the folder with the scripts of bertviz' pages")
    arguments = parse(parser, rounds=1, sizes=["bert-base, 128 tokens"])
    from playwright.sync_api import Error, sync_playwright

    heading(["playwright", "bertviz"])
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as directory:
        try:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        except Error as error:
            raise MissingError("there is no Chromium that playwright can start") from error
        print(f"Chromium {browser.version}")
        columns = ("page", "MB", "what takes the time", "median s", "min", "max")
        table(columns, rows_of(browser, Path(directory), arguments))
        browser.close()


if __name__ == "__main__":
    run(main)
