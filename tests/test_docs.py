"""The pages of docs/: their blocks run, their commands and links exist, and Sphinx builds them."""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import click
import pytest
from google.protobuf import text_format

from keras_bert.cli import main

from .conftest import eagerly
from .support import forking, old_models, small
from .support.data import ROOT
from .support.pages import Block, blocks, commands, run

DOCS = ROOT / "docs"
NO_PAGES = {"_build", "figures"}  # conf.py leaves them out; a page includes the figures
PAGES = {str(path.relative_to(DOCS)): path for path in sorted(DOCS.rglob("*.md")) if NO_PAGES.isdisjoint(path.parts)}
DOORS = [ROOT / "README.md", ROOT / "saved_models" / "README.md", *PAGES.values()]
QUICK = {"index.md"}  # the others train, export, or start processes that import TensorFlow
OF_THE_WHOLE_MODEL = {  # these show its layers, its numbers, or what only it tells apart
    "api/text.md",
    "how-bert-is-trained.md",
    "how-bert-works.md",
    "migration.md",
    "migration/keras-hub.md",
    "migration/model-garden.md",
    "troubleshooting.md",
    "guides/distillation.md",
    "guides/look-inside.md",
    "guides/other-libraries.md",
}
OF_ALL_LAYERS = {"guides/search.md"}  # shows the whole model's numbers, and no ids
PACKAGES = {"guides/trackers.md": ("datasets", "mlflow", "wandb", "optuna_integration", "keras_tuner")}  # as it needs
OF_THE_WHOLE_MODEL_IN_PART = {"guides/sentence-embeddings.md": "keras-bert similarity"}  # what stands in these blocks
UNTRACED = {  # in these blocks, each a few steps: to trace takes longer, and other tests do, with the same losses
    "guides/distillation.md": "crf|pretrain",
    "guides/search.md": "lists|MultiVector",
    "guides/sentence-embeddings.md": "Loss|evaluate|mini_batch",
    "guides/trackers.md": "mlflow|wandb|optuna|keras_tuner",
}
# The longest programs first: what begins last ends last, while a worker waits.
WITH_CODE = sorted(filter(lambda name: blocks(PAGES[name]), PAGES), key=lambda name: -len(blocks(PAGES[name])))


def _page(name):
    return pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])


@pytest.mark.parametrize("name", [_page(name) for name in WITH_CODE])
def test_page(name, reader, request):
    for package in PACKAGES.get(name, ()):
        pytest.importorskip(package)
    if name == "guides/other-languages.md":
        request.getfixturevalue("in_c")  # a compiler, or a reason why not
        (reader / "examples").symlink_to(ROOT / "examples")
    smaller = reader / "all-MiniLM-L6-v2"
    if name in OF_THE_WHOLE_MODEL | OF_ALL_LAYERS:
        smaller.unlink()
    if name in OF_ALL_LAYERS:
        small.write_minilm_of_pages(smaller, layers=range(6))
    if name == "migration/tensorflow-models.md":
        old_models.write(reader)
        old_models.rewrite(reader)
    namespace = {"__name__": "page"}
    for block in blocks(PAGES[name]):
        if OF_THE_WHOLE_MODEL_IN_PART.get(name, "\0") in block.code:
            smaller.rename(reader / "smaller")
        with eagerly() if re.search(UNTRACED.get(name, "(?!)"), block.code) else contextlib.nullcontext():
            run(block, namespace, reader)
        if (reader / "smaller").exists():
            (reader / "smaller").rename(smaller)


@pytest.mark.slow
def test_page_of_exports(reader):
    pytest.importorskip("tensorflow_hub")
    shutil.copytree(ROOT / "saved_models" / "tiny-bert", reader / "saved_models" / "tiny-bert")
    make = ["make", "-f", ROOT / "Makefile", "-o", ".venv/installed", f"BIN={forking.commands()}", "exports"]
    subprocess.run(make, cwd=reader, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    namespace = {"__name__": "page"}
    for block in blocks(ROOT / "saved_models" / "README.md"):
        run(block, namespace, reader)


@pytest.mark.parametrize(
    ("code", "right", "wrong"),
    [
        ("python\nprint(1)", "1", "2"),
        ("python\nprint(1)", "...", "ValueError: no"),
        ("python\nraise ValueError('a long story')", "ValueError: a ... story", "ValueError: another story"),
        ("sh\necho a", "a", "b"),
        ("sh\necho 'Error: yes' >&2; exit 1", "Error: yes", "Error: no"),
        ("python\nprint(1)  # 2", None, "..."),
        ("sh\nfalse | cat", None, "..."),
    ],
)
def test_wrong_output_is_found(code, right, wrong, tmp_path):
    for output in filter(None, (right, wrong)):
        (tmp_path / "page.md").write_text(f"```{code}\n```\n\n```text\n{output}\n```\n", encoding="utf-8")
        (block,) = blocks(tmp_path / "page.md")
        with pytest.raises(AssertionError) if output == wrong else contextlib.nullcontext():
            run(block, {}, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["keybert", "bertopic"])
def test_lines_for_a_library_run_where_it_is_installed(library, reader):
    pytest.importorskip(library)
    (reader / "all-MiniLM-L6-v2").unlink()
    page, namespace = PAGES["guides/other-libraries.md"], {}
    only_shown = re.findall(r"^```\{code-block\} python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (code,) = (code for code in only_shown if code.startswith(f"from {library} "))
    for block in (blocks(page)[0], Block(f"{page.name}: {library}", "python", code, None)):
        run(block, namespace, reader)


@pytest.mark.parametrize("path", DOORS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_exist(path):
    page = path.read_text(encoding="utf-8")
    for words in commands(page):
        command, rest = main, list(words)
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, f"keras-bert {' '.join(words)}"
            command = command.commands[rest.pop(0)]
        known = {option for each in command.params for option in each.opts} | {"--help", "--version"}
        used = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert used <= known, f"keras-bert {' '.join(words)}"
    mentioned = set(re.findall(r"`(--[a-z-]+)[^`]*`", page))
    assert mentioned <= _all_options(main)


@pytest.mark.parametrize("path", DOORS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(path):
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if not (path.parent / link).exists()]
    assert missing == []


def test_included_code_has_the_lines_that_pages_name():
    """Sphinx says it, too, but not in the quick tests."""
    lines = []
    for path in PAGES.values():
        for file, options in re.findall(
            r"^```\{literalinclude\} (\S+)\n((?::.*\n)*)", path.read_text("utf-8"), re.MULTILINE
        ):
            code = (path.parent / file).read_text("utf-8")
            lines += [(code, line) for line in re.findall(r'^:(?:start|end)-\w+: "?(.*?)"?$', options, re.MULTILINE)]
    assert len(lines) > 10
    assert [line for code, line in lines if line not in code] == []


def test_configuration_of_tf_serving_is_what_it_reads():
    """Its own messages parse the list of models. No package here has those of the other files: their fields, of
    session_bundle_config.proto and monitoring_config.proto, are written here."""
    config = pytest.importorskip("tensorflow_serving.config.model_server_config_pb2")
    page = PAGES["guides/serving.md"].read_text(encoding="utf-8")
    files = dict(re.findall(r"cat > (\S+\.config) <<'END'\n(.*?)^END$", page, re.MULTILINE | re.DOTALL))
    assert sorted(files) == ["batching.config", "models.config", "monitoring.config"]
    models = text_format.Parse(files["models.config"], config.ModelServerConfig())
    (model,) = models.model_config_list.config
    assert (model.name, model.base_path) == ("minilm", "/models/minilm")
    fields = re.findall(r"^(\w+) \{ value: [1-9]\d* \}$", files["batching.config"], re.MULTILINE)
    assert len(fields) == len(files["batching.config"].splitlines())
    assert {*fields} <= {"max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads"}
    monitoring = r'prometheus_config \{ enable: true, path: "(/[\w/]+)" \}\n'
    assert re.fullmatch(monitoring, files["monitoring.config"])[1] in page.replace(files["monitoring.config"], "")
    assert all(f"/config/{name}" in page for name in files)


@pytest.mark.parametrize(("name", "extra"), [("Dockerfile", "serve"), ("Dockerfile.light", None)])
def test_an_image_is_built_of_what_the_package_needs(name, extra, tmp_path):
    """The files that it copies, which .dockerignore lets through, make the package, with its extra and the command."""
    image = (ROOT / name).read_text(encoding="utf-8")
    first, second = re.findall(r"^COPY (.*) /source/(.*)$", image, re.MULTILINE)
    copied = [*first[0].split(), second[0]]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{each}" for each in copied} == {line for line in ignored if line.startswith("!")}
    (tmp_path / "source").mkdir()
    for each in first[0].split():
        shutil.copy(ROOT / each, tmp_path / "source")
    shutil.copytree(ROOT / second[0], tmp_path / "source" / second[1])
    assert re.findall(r"'/source\[(\w+)\]'", image) == ([extra] if extra else [])
    code = "import setuptools.build_meta as build; build.prepare_metadata_for_build_wheel('.')"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "source", check=True, capture_output=True)
    (metadata,) = (tmp_path / "source").glob("*.dist-info")
    assert metadata.name.startswith("keras_bert_models-")
    assert not extra or f"Provides-Extra: {extra}\n" in (metadata / "METADATA").read_text()
    assert "keras-bert = " in (metadata / "entry_points.txt").read_text()


def test_versions_are_those_that_pip_and_the_checks_take():
    """The page has the oldest and the newest version that the package allows, which are those that are tested."""
    page = PAGES["versions.md"].read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| 3.")]
    newest, oldest = rows[:2]
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    for package, column in (("tensorflow", 1), ("tensorflow-text", 2), ("keras", 3)):
        lower, upper = re.search(rf"^    {package}>=([\d.]+),<([\d.]+)$", setup, re.MULTILINE).groups()
        major, minor = newest[column].split(".")
        assert (oldest[column], f"{major}.{int(minor) + 1}") == (lower, upper), package
    checks = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f"== ('{oldest[3]}.0', '{oldest[1]}.')" in checks
    first, *_, last = re.findall(r":: (3\.\d+)$", setup, re.MULTILINE)  # with which the checks run
    assert f"python_requires = >={first},<3.{int(last[2:]) + 1}\n" in setup
    assert f"Python {first} to {last}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert [first, last] == [row[0] for row in rows[1:3]]


def _all_options(command):
    options = {option for each in command.params for option in each.opts}
    return options.union(*(_all_options(each) for each in getattr(command, "commands", {}).values()))
