"""What a contributor meets first: what CONTRIBUTING types exists, and the files that services read are right."""

import configparser
import re

import pytest
import yaml

import keras_bert

from .support.data import ROOT

PAGES = ["CONTRIBUTING.md", "SECURITY.md", ".github/PULL_REQUEST_TEMPLATE.md"]
YAML = sorted([*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"])
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")


def make_targets(text):
    """The targets of commands `make target` in backticks, at the beginning of a line, or in a step of a workflow."""
    return set(re.findall(r"(?:^ *|`|run: )make (\w+)", text, re.MULTILINE))


def targets():
    return set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def missing_files(text):
    """The files named in backticks, in links, and in commands, that are neither in the repository nor beside the one
    named before, as in `keras_bert/formats/bert_families.py` or `rotary_families.py`."""
    missing, folder = [], ROOT
    for name in re.findall(r"(?:[`(]|\s)(\.?\w[\w./-]*(?:\.(?:py|md|cfg|yaml)|/run|/))(?=[`)\s,;]|$)", text):
        if (ROOT / name).exists():
            folder = (ROOT / name).parent
        elif not (folder / name).exists():
            missing.append(name)
    return missing


@pytest.mark.parametrize("page", PAGES)
def test_targets_and_files_that_a_page_names_exist(page):
    text = (ROOT / page).read_text("utf-8")
    assert make_targets(text) <= targets()
    assert missing_files(text) == []


def test_contributing_names_the_checks():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert make_targets(text) == {"demo", "lint", "test", "exports", "docs", "benchmark"}
    assert text.count("parity test") == 3  # of a family, a task, a loss


def test_a_missing_file_is_seen():
    text = (
        "`keras_bert/formats/bert_families.py`, `rotary_families.py`, `made_up.py`; see [it](docs/no.md) and `.ci/run`"
    )
    assert missing_files(text) == ["made_up.py", "docs/no.md"]


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_parses(path):
    assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict)


def test_forms_of_issues_have_what_they_must():
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"):
        form = yaml.safe_load(path.read_text("utf-8"))
        assert {"name", "description", "body"} <= set(form)
        for part in form["body"]:
            assert part["type"] in ("markdown", "textarea")
            assert isinstance(part["attributes"]["value" if part["type"] == "markdown" else "label"], str)


def test_the_workflow_runs_the_commands_of_ci_run_on_each_python():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    steps = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert steps == {
        "lint": ["make lint"],
        "test": ["make test"],
        "docs": ["make docs"],
        "package": ["python .ci/package.py"],
    }
    script = (ROOT / ".ci/run").read_text("utf-8")
    assert all(command.removeprefix("python ") in script for (command,) in steps.values())
    classifiers = re.findall(r"Python :: (3\.\d+)$", SETUP["metadata"]["classifiers"], re.MULTILINE)
    assert jobs["test"]["strategy"]["matrix"]["python"] == classifiers


def test_one_version_of_ruff():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert f"ruff=={hook['rev'].removeprefix('v')}" in SETUP["options.extras_require"]["test"].split()


def test_the_citation_has_the_version_and_the_license():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (citation["version"], citation["license"]) == (keras_bert.__version__, SETUP["metadata"]["license"])
