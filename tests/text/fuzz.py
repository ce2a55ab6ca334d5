"""Damages small valid tokenizer files and reads them: a program of its own, because a native library could end it.

    python -m tests.text.fuzz ROUNDS SEED KIND...

Prints a line before every round, and one after all of a kind, so that whoever runs it knows which did not end.
"""

import collections
import copy
import json
import linecache
import random
import sys
import tempfile
import traceback
from pathlib import Path

import tensorflow as tf

import keras_bert
from keras_bert import files
from keras_bert.text import SentencePieceTokenizer, load_tokenizer
from keras_bert.text.sentencepiece_files import tokenizer_json

from ..support import keras_hub, small, tokenization

PACKAGE = str(Path(keras_bert.__file__).parent)
TEXT = "the good film, ¼ 12, ok é 漢 [MASK]"
# Kind -> the file that is damaged.
FILES = {
    "vocab-txt": "vocab.txt",
    "wordpiece-config": "tokenizer_config.json",
    "wordpiece-json": "tokenizer.json",
    "vocab-json": "vocab.json",
    "merges-txt": "merges.txt",
    "bytepair-config": "tokenizer_config.json",
    "bytepair-json": "tokenizer.json",
    "added-tokens-json": "tokenizer.json",
    "spiece-model": "spiece.model",
    "spm-model": "spm.model",
    "sentencepiece-config": "tokenizer_config.json",
    "unigram-json": "tokenizer.json",
    "keras-hub": "tokenizer.json",
}
# Values that stand in for others.
OTHERS = [None, True, -1, 10**12, 10**400, 0.5, float("nan"), "", "a", "[MASK]", "\0", "\ud800", [], [[]], {}, {"a": 1}]
DEEP = "[" * 900 + "]" * 900


def valid(kind, directory):
    """Writes a tokenizer whose files can all be read."""
    byte_pairs = small.byte_pairs([("t", "h"), ("th", "e")])
    if kind == "keras-hub":
        keras_hub.write_wordpiece(directory)
    elif kind in ("vocab-txt", "wordpiece-config"):
        small.tokenizer().save_preset(directory)
    elif kind in ("spiece-model", "sentencepiece-config"):
        SentencePieceTokenizer(tokenization.train_albert()).save_preset(directory)
    elif kind == "spm-model":
        SentencePieceTokenizer(tokenization.train_deberta(), "deberta-v2").save_preset(directory)
    elif kind == "added-tokens-json":
        small.modern_byte_pairs([("t", "h"), ("th", "e")]).save_preset(directory)
    elif kind.endswith("-json") and kind != "vocab-json":
        content = {
            "wordpiece-json": lambda: tokenization.wordpiece_json(small.tokenizer()),
            "bytepair-json": lambda: tokenization.bytepair_json(byte_pairs),
            "unigram-json": lambda: tokenizer_json(tokenization.train_albert(), "albert-transformers", True, True),
        }
        files.write_texts(directory, {"tokenizer.json": json.dumps(content[kind]())})
    else:
        byte_pairs.save_preset(directory)


def damaged(content, name, chance):
    """The content of a file with bytes changed, cut short, or, if it is JSON, with another value somewhere."""
    if name.endswith(".json") and chance.random() < 0.7:
        value = json.loads(content)
        for _ in range(chance.choice([1, 1, 2])):
            _replace(value, chance)
        text = json.dumps(value)
        return (text.replace('"DEEP"', DEEP) if chance.random() < 0.9 else "[" * 100_000).encode()
    if chance.random() < 0.3:
        return content[: chance.randrange(len(content))]
    result = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        reach = chance.choice([len(result), min(200, len(result))])
        place = chance.randrange(reach)
        result[place] = chance.choice([result[place] ^ 1 << chance.randrange(8), chance.randrange(256), 0, 255])
    return bytes(result)


def _replace(value, chance):
    """Another value, or none, in some place: often near the top, where the settings are."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = chance.choice(keys)
        if not isinstance(value[key], dict | list) or chance.random() < 0.3:
            break
        value = value[key]
    if chance.random() < 0.2:
        del value[key]
    else:
        value[key] = copy.deepcopy(chance.choice([*OTHERS, "DEEP"]))


def outcome(directory):
    """ "read" or "refused"; raises AssertionError if another error comes than one that the package raises itself."""
    try:
        tokenizer = load_tokenizer(directory)
        tokenizer.detokenize(tokenizer.tokenize([TEXT, ""]))
    except (ValueError, TypeError, FileNotFoundError, OSError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        line = linecache.getline(last.filename, last.lineno).strip()
        if not (last.filename.startswith(PACKAGE) and line.startswith("raise ")):
            raise AssertionError(f"{error!r:.300} comes from {last.filename}:{last.lineno}: {line}") from error
        return "refused"
    return "read"


def main(kind, rounds, seed):
    tf.config.run_functions_eagerly(True)  # tracing takes longer than running
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "model"
        directory.mkdir()
        valid(kind, directory)
        path = directory / FILES[kind]
        content = path.read_bytes()
        assert outcome(directory) == "read"
        for i in range(seed, seed + rounds):
            print(kind, "round", i, flush=True)
            path.write_bytes(damaged(content, path.name, random.Random(i)))
            counts[outcome(directory)] += 1
    tf.config.run_functions_eagerly(False)
    print(kind, "done", dict(counts), flush=True)


if __name__ == "__main__":
    for each in sys.argv[3:]:
        main(each, int(sys.argv[1]), int(sys.argv[2]))
