"""Damages small valid tokenizer files and reads them; see tests/support/fuzzing.py."""

import json
import linecache
import tempfile
import traceback
from pathlib import Path

import tensorflow as tf

import keras_bert
from keras_bert import files
from keras_bert.formats.tokenizers.unigram import json_of_model
from keras_bert.text import SentencePieceTokenizer, load_tokenizer

from ..support import fuzzing, keras_hub, small, tokenization

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
            "unigram-json": lambda: json_of_model(tokenization.train_albert(), "albert-transformers", True, True),
        }
        files.write_texts(directory, {"tokenizer.json": json.dumps(content[kind]())})
    else:
        byte_pairs.save_preset(directory)


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


def reader(kind, directory):
    """The content of a file of a valid tokenizer, and a function that loads the tokenizer with another content."""
    directory.mkdir()
    valid(kind, directory)
    path = directory / FILES[kind]

    def read_content(content):
        path.write_bytes(content)
        return outcome(directory)

    return path.read_bytes(), read_content


def main(kind, rounds, seed):
    tf.config.run_functions_eagerly(True)  # tracing takes longer than running
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "model"
        content, read_content = reader(kind, directory)
        is_json = FILES[kind].endswith(".json")
        assert outcome(directory) == "read"

        def attempt(chance):
            return read_content(fuzzing.damaged(content, is_json, chance))

        fuzzing.run(kind, rounds, seed, attempt)
    tf.config.run_functions_eagerly(False)


if __name__ == "__main__":
    fuzzing.main(main)
