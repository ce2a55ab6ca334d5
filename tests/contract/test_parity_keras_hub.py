"""KerasHub, live: its presets, read by us, give its numbers."""

import keras
import numpy as np
import pytest

from keras_bert import BertClassifier, BertEncoder, BertSentenceEncoder, formats
from keras_bert.tasks import BertMaskedLM

from ..support import small, tokenization

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]

SIZES = {
    "vocabulary_size": 30,
    "num_layers": 4,
    "num_heads": 3,
    "hidden_dim": 12,
    "intermediate_dim": 20,
    "max_sequence_length": 16,
}
BACKBONES = {
    "Bert": SIZES,
    "Roberta": SIZES,
    "XLMRoberta": SIZES,
    "DistilBert": SIZES,
    "Albert": {**SIZES, "embedding_dim": 6, "num_groups": 2},
    "Electra": {**{k: v for k, v in SIZES.items() if k != "vocabulary_size"}, "vocab_size": 30, "embedding_dim": 6},
}
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "int32")


@pytest.fixture(scope="module")
def models():
    return pytest.importorskip("keras_hub").models


def backbone(models, name):
    model = getattr(models, f"{name}Backbone")(**BACKBONES[name])
    randomize(model)
    return model


def randomize(model):
    generator = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(generator.normal(size=weight.shape) * 0.5)


def inputs(name):
    pad = 1 if "Roberta" in name else 0
    ids = np.where(MASK == 1, [[2, 7, 9, 4, 3], [2, 5, 3, 8, 8]], pad).astype("int32")
    types = np.array([[0, 0, 1, 1, 1], [0, 0, 0, 0, 0]], "int32")
    has_types = name in ("Bert", "Albert", "Electra")
    ours = {"input_word_ids": ids, "input_mask": MASK, **({"input_type_ids": types} if has_types else {})}
    theirs = {"token_ids": ids, "padding_mask": MASK, **({"segment_ids": types} if has_types else {})}
    return ours, theirs


def close(ours, theirs):
    real = MASK.astype(bool)
    np.testing.assert_allclose(np.asarray(ours)[real], np.asarray(theirs)[real], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", BACKBONES)
def test_backbones(models, name, tmp_path):
    model = backbone(models, name)
    model.save_to_preset(str(tmp_path))
    our_inputs, their_inputs = inputs(name)
    ours, theirs = BertEncoder.from_preset(tmp_path)(our_inputs), model(their_inputs)
    pooled = theirs["pooled_output"] if isinstance(theirs, dict) and name != "Electra" else None
    close(ours["sequence_output"], theirs["sequence_output"] if isinstance(theirs, dict) else theirs)
    if pooled is not None:
        np.testing.assert_allclose(ours["pooled_output"], pooled, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in BACKBONES if name != "Electra"])
def test_masked_language_models(models, name, tmp_path):
    model = getattr(models, f"{name}MaskedLM")(backbone=backbone(models, name))
    randomize(model)
    model.save_to_preset(str(tmp_path))
    our_inputs, their_inputs = inputs(name)
    positions = np.array([[1, 3], [1, 0]], "int32")
    ours = BertMaskedLM.from_preset(tmp_path)({**our_inputs, "masked_lm_positions": positions})
    theirs = model({**their_inputs, "mask_positions": positions})
    # KerasHub's BERT, other than any BERT before it, has two kinds of gelu.
    theirs = np.asarray(theirs)
    probabilities = np.exp(ours - np.max(ours, -1, keepdims=True))
    expected = theirs if np.allclose(theirs.sum(-1), 1, atol=1e-4) else np.exp(theirs - theirs.max(-1, keepdims=True))
    tolerance = 5e-3 if name == "Bert" else 1e-5
    np.testing.assert_allclose(
        probabilities / probabilities.sum(-1, keepdims=True),
        expected / expected.sum(-1, keepdims=True),
        rtol=0,
        atol=tolerance,
    )


@pytest.mark.parametrize("name", [name for name in BACKBONES if name != "Electra"])
def test_heads_of_classifiers(models, name, tmp_path):
    model = getattr(models, f"{name}TextClassifier")(backbone=backbone(models, name), num_classes=3)
    randomize(model)
    model.save_to_preset(str(tmp_path))
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert (checkpoint.heads, checkpoint.missing, checkpoint.unexpected) == ({"sequence"}, [], [])
        head = checkpoint.read("sequence")
    np.testing.assert_array_equal(head["logits/kernel"], np.asarray(model.output_dense.kernel))
    if "transform/kernel" in head:
        np.testing.assert_array_equal(head["transform/kernel"], np.asarray(model.pooled_dense.kernel))


TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "film", "##s", "cafe", "é", "never", "."]


@pytest.mark.parametrize("name", ["Bert", "DistilBert"])
def test_classifiers_of_strings(models, name, tmp_path):
    tokens = [*TOKENS, *(f"token{i}" for i in range(SIZES["vocabulary_size"] - len(TOKENS)))]
    tokenizer = getattr(models, f"{name}Tokenizer")(tokens, lowercase=True)
    preprocessor = getattr(models, f"{name}TextClassifierPreprocessor")(tokenizer, sequence_length=16)
    task = getattr(models, f"{name}TextClassifier")
    theirs = task(backbone=backbone(models, name), preprocessor=preprocessor, num_classes=3)
    randomize(theirs)
    theirs.save_to_preset(str(tmp_path))
    ours = BertClassifier.from_preset(tmp_path, labels=["x", "y", "z"])
    texts = ["A fine film.", "films, never", "", "Cafe Café é"]
    np.testing.assert_allclose(ours(texts), theirs.predict(texts, verbose=0), rtol=0, atol=1e-5)


def embedder_of_bert(models):
    tokens = [*small.SPECIAL, *small.LETTERS, *(f"##{letter}" for letter in small.LETTERS), "film"]
    tokenizer = models.BertTokenizer(vocabulary=tokens, lowercase=True)
    sizes = {**BACKBONES["Bert"], "vocabulary_size": len(tokens)}
    preprocessor = models.BertTextEmbedderPreprocessor(tokenizer, sequence_length=8)
    return models.BertTextEmbedder(models.BertBackbone(**sizes), preprocessor, pooling_mode="cls", normalize=False)


def embedder_of_xlm_roberta(models):
    tokenizer = models.XLMRobertaTokenizer(proto=tokenization.train_xlm_roberta())
    sizes = {**BACKBONES["XLMRoberta"], "vocabulary_size": tokenizer.vocabulary_size()}
    preprocessor = models.XLMRobertaTextEmbedderPreprocessor(tokenizer, sequence_length=12)
    return models.XLMRobertaTextEmbedder(models.XLMRobertaBackbone(**sizes), preprocessor, pooling_mode="max")


@pytest.mark.parametrize("make", [embedder_of_bert, embedder_of_xlm_roberta])
def test_text_embedders(models, make, tmp_path):
    """As a preset, and as a `.keras` file, which its own library rewrites as one."""
    model = make(models)
    randomize(model.backbone)
    texts = ["a film", "it rained in the night and she read on", ""]
    expected = np.asarray(model(model.preprocessor(texts)))  # `encode_text` is compiled by XLA, which rounds
    model.save(tmp_path / "model.keras")
    keras.saving.load_model(tmp_path / "model.keras").save_to_preset(str(tmp_path / "preset"))
    ours = BertSentenceEncoder.from_preset(tmp_path / "preset")
    np.testing.assert_allclose(ours.encode(texts), expected, atol=1e-5)
