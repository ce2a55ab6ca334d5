"""What is written about a version before it is published: .ci/release.py, which the release's workflow runs."""

import re
import shutil
import subprocess
import sys

import pytest
import yaml

from .support.data import ROOT
from .support.messages import assert_names

FILES = (".ci/release.py", "keras_bert/__init__.py", "CITATION.cff", "CHANGELOG.md", "setup.cfg", "README.md")
URL = "https://example.org/keras_bert"


@pytest.fixture
def source(tmp_path):
    """The files of the project that it reads, as of a version 1.2.3."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "keras_bert/__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3, 2026-12-01\n\n## 1.2.2, 2026-11-01\n")
    return tmp_path


def check(source, *arguments):
    command = [sys.executable, source / ".ci/release.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_version_is_the_same_everywhere():
    assert check(ROOT).returncode == 0


def test_a_release_gets_the_address_of_its_repository(source):
    result = check(source, "v1.2.3", URL)
    assert (result.returncode, result.stdout) == (0, "version 1.2.3, 2026-12-01\n")
    assert f"project_urls =\n    Source = {URL}\n" in (source / "setup.cfg").read_text()
    links = re.findall(r"\]\((.*?)\)", (source / "README.md").read_text())
    assert f"{URL}/blob/v1.2.3/docs/install.md" in links
    assert not [link for link in links if not link.startswith(("https://", "#"))]


@pytest.mark.parametrize(
    ("file", "text", "tag", "words"),
    [
        ("README.md", "", "v1.2.4", ["v1.2.4", "v1.2.3"]),
        ("CITATION.cff", "version: 1.2.2", None, ["CITATION.cff", "1.2.2", "1.2.3"]),
        ("CHANGELOG.md", "## 1.2.2, 2026-12-01", None, ["CHANGELOG.md", "1.2.2", "1.2.3"]),
        ("CHANGELOG.md", "## 1.2.3, unreleased", "v1.2.3", ["CHANGELOG.md", "unreleased", "YEAR-MONTH-DAY"]),
        ("CHANGELOG.md", "none", None, ["CHANGELOG.md", "no line"]),
    ],
)
def test_what_does_not_fit_is_named(source, file, text, tag, words):
    (source / file).write_text(text)
    result = check(source, *filter(None, [tag]))
    assert result.returncode == 1
    assert_names(result.stderr, *words)


def test_only_a_tag_is_published_and_only_what_was_checked():
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))["jobs"]
    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    assert jobs["publish"]["needs"] == "build"
    assert [step["uses"].split("@")[0] for step in jobs["publish"]["steps"]][-1] == "pypa/gh-action-pypi-publish"
    scripts = [step["run"].split()[1] for step in jobs["build"]["steps"] if "run" in step]
    assert scripts == [".ci/release.py", ".ci/package.py"]
    assert all((ROOT / name).is_file() for name in scripts)
