"""A small model, and odd files: empty, of one row, of more rows than are read at a time."""

import json
import random
from types import SimpleNamespace

import pytest

from keras_bert.embedding import file_embedding

from ..support import small

WORDS = small.WORDS.split()


@pytest.fixture(scope="session")
def model(small_preset, read_once):
    return read_once(small_preset)


@pytest.fixture(scope="module", autouse=True)
def few_rows_at_a_time_and_few_models(read_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_embedding, "_ROWS_AT_A_TIME", 7)
        patch.setattr("keras_bert.tasks.BertSentenceEncoder", SimpleNamespace(from_preset=read_once))
        yield


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """JSON lines files: of 40 rows, of none, of one without a line end, and of rows in odd but valid JSON."""
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
