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


def missing_files(text):
    """The files named in backticks, in links, and in commands, that are neither in the repository nor beside the one
    named before, as in `keras_bert/formats/preset.py` or `saved.py`."""
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
    named = set(re.findall(r"(?:^ *|`|run: )make (\w+)", text, re.MULTILINE))
    assert named <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert missing_files(text) == []


def test_a_missing_file_is_seen():
    text = "`keras_bert/formats/preset.py`, `saved.py`, `made_up.py`; [it](docs/no.md), `.ci/run`"
    assert missing_files(text) == ["made_up.py", "docs/no.md"]


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_parses(path):
    assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict)


def test_the_workflow_runs_the_commands_of_ci_run_on_each_python():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    commands = [step["run"].removeprefix("python ") for job in jobs.values() for step in job["steps"] if "run" in step]
    script = (ROOT / ".ci/run").read_text("utf-8")
    assert all(command in script for command in commands)
    classifiers = re.findall(r"Python :: (3\.\d+)$", SETUP["metadata"]["classifiers"], re.MULTILINE)
    assert jobs["test"]["strategy"]["matrix"]["python"] == classifiers


def test_versions_and_the_license_are_the_same_in_all_files():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert f"ruff=={hook['rev'].removeprefix('v')}" in SETUP["options.extras_require"]["test"].split()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (citation["version"], citation["license"]) == (keras_bert.__version__, SETUP["metadata"]["license"])
