"""A real model in transformers and sentence-transformers, live: the same attention, vectors and correlation."""

import csv
import itertools

import numpy as np
import pytest

from keras_bert import BertEncoder, BertPreprocessor, BertSentenceEncoder, presets

from ..support.texts import TEXTS

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

MINILM = "all-MiniLM-L6-v2"
NAMES = {"input_ids": "input_word_ids", "attention_mask": "input_mask", "token_type_ids": "input_type_ids"}


def test_attention_scores():
    inputs = BertPreprocessor.from_preset(MINILM, sequence_length=None)(TEXTS)
    # The default attention of transformers does not say what its weights are.
    model = transformers.BertModel.from_pretrained(presets.resolve(MINILM), attn_implementation="eager").eval()
    with torch.no_grad():
        theirs = model(
            **{name: torch.tensor(inputs[ours].numpy()) for name, ours in NAMES.items()}, output_attentions=True
        ).attentions
    rows = np.asarray(inputs["input_mask"]).astype(bool)[:, None, :, None]
    for our_layer, their_layer in zip(BertEncoder.from_preset(MINILM).attention_scores(inputs), theirs, strict=True):
        np.testing.assert_allclose(np.asarray(our_layer) * rows, their_layer.numpy() * rows, rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def sentence_transformer():
    sentence_transformers = pytest.importorskip("sentence_transformers")
    return sentence_transformers.SentenceTransformer(str(presets.resolve(MINILM)), device="cpu")


@pytest.fixture(scope="module")
def sentence_encoder():
    return BertSentenceEncoder.from_preset(MINILM)


def test_vectors(sentence_encoder, sentence_transformer):
    texts = [*TEXTS, "", "word " * 400]  # empty, and longer than the 256 tokens that the model is for
    with pytest.warns(UserWarning, match="texts truncated to 256 tokens"):
        vectors = sentence_encoder.encode(texts)
    np.testing.assert_allclose(vectors, sentence_transformer.encode(texts), rtol=0, atol=1e-5)


def test_sts_benchmark(sentence_encoder, sentence_transformer, shared_data):
    """Spearman's correlation with what people said, in points: the same to a tenth of a point."""
    stats = pytest.importorskip("scipy.stats")
    with (shared_data / "stsb/stsb-en-dev.csv").open(encoding="utf-8", newline="") as file:
        first, second, scores = zip(*itertools.islice(csv.reader(file), None, None, 7), strict=True)

    def correlation(encode):
        cosines = np.sum(encode(list(first)) * encode(list(second)), axis=1)
        return 100 * stats.spearmanr(cosines, [float(score) for score in scores]).statistic

    assert len(scores) == 215
    expected = correlation(sentence_transformer.encode)
    assert expected > 85  # both would agree on nonsense, too
    assert correlation(sentence_encoder.encode) == pytest.approx(expected, abs=0.1)
