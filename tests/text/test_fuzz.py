"""Damaged tokenizer files of every kind end in an error of ours, or in a tokenizer; see fuzz.py."""

import pytest

from ..support import fuzzing
from . import fuzz


@pytest.mark.parametrize("kind", fuzz.FILES)
def test_damage(kind, capsys):
    """The same damage in every run, none of which ends the process."""
    fuzz.main(kind, 8, 0)
    fuzzing.check_lines(capsys.readouterr().out.splitlines(), [kind], 8)


@pytest.mark.slow
def test_much_damage():
    fuzzing.check_program("tests.text.fuzz", 30, [*fuzz.FILES])


@pytest.mark.parametrize("kind", ["wordpiece-json", "unigram-json", "spiece-model"])
def test_what_guided_fuzzing_found(kind, tmp_path, untraced):
    """The corpora in tests/corpora; see tests/guided.py."""
    _, read_content = fuzz.reader(kind, tmp_path / "model")
    for content in fuzzing.corpus(kind).values():
        read_content(content)
