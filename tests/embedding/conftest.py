"""A small model, and files in which something is odd: empty, one row, more rows than are read at a time."""

import json
import random

import pytest

from keras_bert import BertSentenceEncoder
from keras_bert.embedding import work

from ..golden import make_golden_export as golden

WORDS = golden.WORDS.split()


@pytest.fixture(scope="session")
def preset(tmp_path_factory):
    directory = tmp_path_factory.mktemp("preset")
    golden.write_preset(directory)
    return directory


@pytest.fixture(scope="session")
def model(preset):
    return BertSentenceEncoder.from_preset(preset)


@pytest.fixture
def few_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(work, "_ROWS_AT_A_TIME", 7)


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """JSON lines: of 40 rows, of none, of one without a line end, and of rows as somebody else may write them."""
    directory = tmp_path_factory.mktemp("shards")
    generator = random.Random(0)
    rows = [{"id": i, "text": " ".join(generator.choices(WORDS, k=generator.randint(1, 60)))} for i in range(40)]
    (directory / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (directory / "b.jsonl").write_bytes(b"")
    (directory / "c.jsonl").write_bytes(b'{"text": "good"}')
    odd = [
        '{"text":"日本語 🙂","n":1.50,"big":123456789012345678901234567890,"e":1e400}',
        ' {"none": null, "text": "caf\\u00e9 \\ud83d\\ude42", "list": [1, {"text": 2}] , "é": "\\/" } ',
        '{"a\u2028b": "\u2028", "text": " it\\tis\\n"}\r',
    ]
    (directory / "d.ndjson").write_bytes(b"\xef\xbb\xbf" + "\n".join(odd).encode() + b"\n\n \n")
    return sorted(directory.iterdir())
