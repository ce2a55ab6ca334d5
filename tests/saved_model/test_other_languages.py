"""Exports in a program that is not in Python: examples/c/run_export.c. tests/tasks/test_contract.py has each task's."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertSentenceEncoder
from keras_bert.formats.tensorflow.saved_model import TEXT_LIBRARIES
from keras_bert.inspection import inspect
from keras_bert.saved_model import export_serving
from keras_bert.text import SentencePieceTokenizer

from ..golden import make_golden_export as golden
from ..support import small, tokenization
from ..support.precisions import needs_bfloat16, needs_int8
from ..support.reference import bytepair
from ..support.texts import SENTENCES

TEXTS = [text for text in [*small.TEXTS, *tokenization.ODD_WORDS, *tokenization.ODD_PIECES] if "\0" not in text]


def test_libraries_have_the_operations_of_their_rows():
    places = tf.sysconfig.get_lib().removesuffix("tensorflow")
    for name, operations in TEXT_LIBRARIES.items():
        found = dir(tf.load_op_library(f"{places}tensorflow_text/python/{name}"))
        assert {each.replace(">", "_") for each in operations} <= {*found}, name


def test_a_program_in_c_answers(committed, in_c):
    expected = np.load(golden.HERE / "tiny-bert-export.npz")
    found = in_c(committed("serving"), {"text": expected["texts"].tolist()})
    np.testing.assert_allclose(found["embedding"], expected["embedding"], rtol=0, atol=1e-5)


def test_inspect_names_the_libraries_to_load(committed):
    libraries = inspect(committed("serving")).facts["libraries"]
    names = ("_fast_wordpiece_tokenizer.so", "_normalize_ops.so")
    assert libraries.partition(":")[0] == ", ".join(f"tensorflow_text/python/ops/{name}" for name in names)
    assert "libraries" not in inspect(committed("encoder")).facts


def sentencepiece(path):
    path.write_bytes(tokenization.train_xlm_roberta())
    return SentencePieceTokenizer(path, family="xlm-roberta")


TOKENIZERS = {
    "WordPiece": lambda path: small.tokenizer(),
    "byte pairs": lambda path: small.modern_byte_pairs(bytepair.train(SENTENCES, 120)),
    "SentencePiece": sentencepiece,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokenizer", "precision"),
    [
        *((name, "float32") for name in TOKENIZERS if name != "WordPiece"),
        pytest.param("WordPiece", "int8", marks=needs_int8),
        pytest.param("WordPiece", "bfloat16", marks=needs_bfloat16),
    ],
)
def test_each_tokenizer_and_precision_in_c(tokenizer, precision, in_c, tmp_path):
    pytest.importorskip("tensorflow_serving")
    texts = small.preprocessor(tokenizer=TOKENIZERS[tokenizer](tmp_path / "sentencepiece.model"))
    encoder = small.encoder(num_layers=1, vocab_size=texts.tokenizer.vocabulary_size)
    model = BertSentenceEncoder(encoder, texts)
    model.set_precision(precision)
    version = export_serving(model, tmp_path / "served")
    np.testing.assert_allclose(in_c(version, {"text": TEXTS})["embedding"], model(TEXTS), rtol=0, atol=1e-5)
