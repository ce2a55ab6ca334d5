"""The pages of docs/: their blocks run, their commands exist, and Sphinx builds them."""

import contextlib
import importlib.util
import os
import re
import subprocess
import sys

import click
import pytest

from keras_bert.cli import main

from .blocks import ROOT, blocks, commands, run

DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(DOCS)): path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts}
QUICK = {"index.md", "how-bert-works.md"}  # the others train, export, or start processes that import TensorFlow
WITH_CODE = [name for name, path in PAGES.items() if blocks(path)]


def _page(name):
    return pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])


@pytest.mark.parametrize("name", [_page(name) for name in WITH_CODE])
def test_page(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    for block in blocks(PAGES[name]):
        run(block, namespace, tmp_path)


def test_there_are_pages():
    assert {"index.md", "how-bert-works.md", "troubleshooting.md", "guides/serving.md"} <= set(WITH_CODE)


@pytest.mark.parametrize(
    ("code", "right", "wrong"),
    [
        ("python\nprint(1)", "1", "2"),
        ("python\nprint(1)", "...", "ValueError: no"),
        ("python\nraise ValueError('a long story')", "ValueError: a ... story", "ValueError: another story"),
        ("sh\necho a", "a", "b"),
        ("sh\necho 'Error: yes' >&2; exit 1", "Error: yes", "Error: no"),
    ],
)
def test_wrong_output_is_found(code, right, wrong, tmp_path):
    for output in (right, wrong):
        (tmp_path / "page.md").write_text(f"```{code}\n```\n\n```text\n{output}\n```\n", encoding="utf-8")
        (block,) = blocks(tmp_path / "page.md")
        with pytest.raises(AssertionError) if output == wrong else contextlib.nullcontext():
            run(block, {}, tmp_path)


@pytest.mark.parametrize("code", ["python\nprint(1)  # 2", "sh\nfalse | cat"])
def test_broken_promise_is_found(code, tmp_path):
    (tmp_path / "page.md").write_text(f"```{code}\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        run(blocks(tmp_path / "page.md")[0], {}, tmp_path)


@pytest.mark.parametrize("name", list(PAGES))
def test_commands_and_options_exist(name):
    page = PAGES[name].read_text(encoding="utf-8")
    for words in commands(page):
        command, rest = main, list(words)
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, f"keras-bert {' '.join(words)}"
            command = command.commands[rest.pop(0)]
        known = {option for each in command.params for option in each.opts} | {"--help", "--version"}
        used = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert used <= known, f"keras-bert {' '.join(words)}"
    mentioned = set(re.findall(r"`(--[a-z-]+)[^`]*`", page))
    assert mentioned <= _all_options(main), name


def _all_options(command):
    options = {option for each in command.params for option in each.opts}
    return options.union(*(_all_options(each) for each in getattr(command, "commands", {}).values()))


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("sphinx") is None, reason="sphinx is of the extra docs, which make docs has"
)
def test_sphinx_builds(tmp_path):
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-d",
        tmp_path / "trees",
        DOCS,
        tmp_path / "html",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "html").rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:  # which need no network
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*", page.read_text(encoding="utf-8"))
        remote = [each for each in loaded if re.search(r"(?:src|href)=\"(?:https?:)?//", each)]
        assert not remote, (page, remote)
    for style in (tmp_path / "html").rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style
