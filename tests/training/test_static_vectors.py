"""Static vectors of a sentence encoder, beside the same computed in NumPy; and that they learn."""

import numpy as np
import pytest

from keras_bert import BertSentenceEncoder
from keras_bert.text import BertPreprocessor, SentencePieceTokenizer
from keras_bert.training import fine_tune, static_of

from ..support import small, tokenization
from ..support.messages import error_names
from ..support.reference import bytepair

pytestmark = pytest.mark.usefixtures("untraced_module")
DROPPED = ("[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="module")
def teacher():
    return BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor(), dense={"units": 20})


@pytest.mark.parametrize(("size", "sif"), [(8, 1e-4), (32, None)])
def test_vectors_of_tokens(teacher, size, sif):
    tokens = [token for token in small.VOCABULARY if token not in DROPPED]
    ids = [[2, small.VOCABULARY.index(token), 3] for token in tokens]
    teacher = BertSentenceEncoder(teacher.encoder, teacher.preprocessor)
    hidden = np.mean(teacher.encoder({"input_word_ids": np.array(ids)})["sequence_output"], axis=1)
    hidden -= hidden.mean(axis=0)
    left, values, _ = np.linalg.svd(hidden, full_matrices=False)
    expected = left[:, :size] * values[:size]
    if sif is not None:
        frequency = np.array([1 / rank for rank in range(2, len(tokens) + 2)])
        expected *= (sif / (sif + frequency / frequency.sum()))[:, None]
    student = static_of(teacher, size, sif)
    assert student.preprocessor.tokenizer.vocabulary == tokens
    (found,) = student.encoder.embeddings.word_embeddings.get_weights()
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, rtol=0, atol=1e-4 * np.abs(expected).max() ** 2)


TOKENIZERS = {
    "xlm-roberta": lambda: SentencePieceTokenizer(tokenization.train_xlm_roberta(), "xlm-roberta"),
    "albert": lambda: SentencePieceTokenizer(tokenization.train_albert(), "albert", lowercase=False),
    "deberta-v2": lambda: SentencePieceTokenizer(tokenization.train_deberta(), "deberta-v2"),
    "roberta": lambda: small.byte_pairs(bytepair.train(small.TEXTS, 50)),
    "modernbert": lambda: small.modern_byte_pairs(bytepair.train(small.TEXTS, 50)),
}


def with_tokenizer(tokenizer):
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None)
    return BertSentenceEncoder(small.encoder(num_layers=1, vocab_size=tokenizer.vocabulary_size), preprocessor)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_other_tokenizers(kind, tmp_path):
    tokenizer, texts = TOKENIZERS[kind](), [*small.TEXTS, "", "🙂 Ünknown", "x" * 300]
    student = static_of(with_tokenizer(tokenizer), 8, progress=False)
    found = student.preprocessor.tokenizer
    rows, expected = ([[each.vocabulary[i] for i in row] for row in each.tokenize(texts).to_list()]
                      for each in (found, tokenizer))  # fmt: skip
    assert rows == expected
    special = tokenizer.special_ids - {tokenizer.unk_token_id, tokenizer.pad_token_id}
    assert found.vocabulary == [each for i, each in enumerate(tokenizer.vocabulary) if i not in special]
    student.save_preset(tmp_path)
    np.testing.assert_array_equal(BertSentenceEncoder.from_preset(tmp_path).encode(texts), student.encode(texts))


def test_a_teacher_whose_tokenizer_no_file_expresses():
    teacher = with_tokenizer(SentencePieceTokenizer(tokenization.train_albert(), "albert-transformers"))
    with error_names(ValueError, "teacher's tokenizer", "normalizer", "Replace", "choose a teacher"):
        static_of(teacher, 8)


@pytest.mark.slow
def test_a_dense_layer_counts(teacher):
    with_dense, without = (
        static_of(each, 8).encode(["good film", "the bank"])
        for each in (teacher, BertSentenceEncoder(teacher.encoder, teacher.preprocessor))
    )
    assert abs(with_dense[0] @ with_dense[1] - without[0] @ without[1]) > 1e-3


@pytest.mark.slow
def test_they_learn(teacher):
    student = static_of(teacher, 16)
    others = dict(zip(("good", "love", "river"), ("great", "like", "bank"), strict=True))
    pairs = [f"the {word}" for word in others], [f"it was {word}" for word in others.values()]
    before, after = [], []
    for found in (before, after):
        vectors = student.encode([*pairs[0], *pairs[1]])
        found.extend(np.argmax(vectors[:3] @ vectors[3:].T, axis=1).tolist())
        if found is before:
            fine_tune(student, (pairs, None), epochs=10, batch_size=3, learning_rate=0.1, progress=False)
    assert before != [0, 1, 2]
    assert after == [0, 1, 2]


def test_arguments_that_cannot_be(teacher):
    for call, words in (
        (lambda: static_of(teacher, 40), ("size", "40", "1 to 32")),
        (lambda: static_of(teacher, 8, 0), ("sif", "0", "between 0 and 1")),
    ):
        with error_names(ValueError, *words):
            call()
