"""TF Hub's own SavedModels and ours: the same inputs from the same text, the same outputs from the same weights."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder, BertPreprocessor
from keras_bert.encoder.weights import variables_by_name
from keras_bert.saved_model import export_encoder, export_preprocessor
from keras_bert.tasks import BertMaskedLM

from ..support.texts import PAIRS, TEXTS

pytestmark = pytest.mark.slow

# TF Hub's tokenizer (FastBertNormalize) goes beyond the original BERT in these: NFKC, which unfolds compatibility
# characters, case folding, which is more than lower-casing, and line separators that do not end a word.
DIFFERENT = {
    "heißem": "case folding makes it heissem",
    "ΟΔΥΣΣΕΥΣ": "the small sigma at the end of a word has no form of its own",
    "學，乎？": "NFKC makes the wide punctuation ASCII",
    "ﾊﾝｶｸ": "NFKC makes half-width kana whole",
    "ﬁ ½ ² ㎏": "NFKC unfolds ligatures, fractions, powers and units",
    "line\u2028para": "U+2028 is part of a word",
}
SAME = [
    *(text for text in TEXTS if "heißem" not in text and "，" not in text),
    "",
    "  \t\n ",
    "El pingüino Wenceslao hizo kilómetros; ¿qué vive allí? ¡Él, solo!",
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Łódź, Kraków.",
    "Pijamalı hasta yağız şoföre çabucak güvendi.",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر، كِتَابٌ.",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश किया।",
    "我能吞下玻璃而不伤身体。漢字",
    "나는 유리를 먹을 수 있어요",
    "👩‍👩‍👧‍👦 family, 🇫🇷 flag, 👍🏽 thumbs, ❤️ heart",
    "a" * 300,
    "!?" * 300,
]


@pytest.fixture(scope="module")
def same_vocabulary(tokenizer, tmp_path_factory):
    """Our export of a preprocessor with the vocabulary and the length of TF Hub's."""
    directory = tmp_path_factory.mktemp("same_vocabulary") / "preprocessor"
    export_preprocessor(BertPreprocessor(tokenizer), directory)
    return tf.saved_model.load(directory)


def test_the_same_packed_inputs(same_vocabulary, their_preprocessor):
    texts = tf.constant(SAME)
    equal(same_vocabulary.tokenize(texts).to_list(), their_preprocessor.tokenize(texts).to_list())
    equal(same_vocabulary(texts), their_preprocessor(texts))


@pytest.mark.parametrize("seq_length", [8, 31, 300])
def test_the_same_packed_pairs(same_vocabulary, their_preprocessor, seq_length):
    pairs = [pair for pair in PAIRS if "heißem" not in "".join(pair)] + list(zip(SAME, SAME[::-1], strict=True))
    packed = []
    for model in (same_vocabulary, their_preprocessor):
        segments = [model.tokenize(tf.constant(texts)) for texts in zip(*pairs, strict=True)]
        packed.append(model.bert_pack_inputs(segments, seq_length=seq_length))
        equal(packed[-1], model.bert_pack_inputs([each.merge_dims(1, 2) for each in segments], seq_length=seq_length))
    equal(*packed)


def test_the_same_inputs_from_real_reviews(same_vocabulary, their_preprocessor, shared_data):
    rows = (shared_data / "sst2/dev.tsv").read_text("utf-8").splitlines()[1:]
    texts = tf.constant([row.split("\t", 1)[1] for row in rows])
    assert len(texts) == 872
    equal(same_vocabulary(texts), their_preprocessor(texts))


@pytest.mark.parametrize("text", DIFFERENT)
def test_where_the_original_bert_and_tf_hub_differ(same_vocabulary, their_preprocessor, text):
    """So that the list above stays honest."""
    assert same_vocabulary.tokenize([text]).to_list() != their_preprocessor.tokenize([text]).to_list()


@pytest.fixture(scope="module")
def same_weights(their_encoder, tmp_path_factory):
    """Our export of the weights that TF Hub's encoder holds."""
    model = BertMaskedLM(BertEncoder(BertConfig.tiny(activation="gelu_tanh")))
    copy_weights(their_encoder, model)
    directory = tmp_path_factory.mktemp("same_weights") / "encoder"
    export_encoder(model, directory)
    return tf.saved_model.load(directory)


def copy_weights(their_encoder, model):
    values = {variable.name.removesuffix(":0"): variable.numpy() for variable in their_encoder.mlm.variables}

    def read(ours):
        *path, kind = ours.split("/")
        if path[-2:] == ["attention", "qkv"]:  # theirs has the three apart, and a dimension for the heads
            parts = [values[f"{their_name(path)}/{part}/{kind}"] for part in ("query", "key", "value")]
            return np.concatenate([part.reshape(*part.shape[: part.ndim - 2], -1) for part in parts], axis=-1)
        value = values[f"{their_name(path)}/{kind}"]
        return value.reshape(-1, value.shape[-1]) if kind == "kernel" else value

    for ours, variable in variables_by_name(model.encoder).items():
        variable.assign(read(ours))
    for ours, variable in variables_by_name(model.head).items():
        variable.assign(read(f"masked_lm_head/{ours}"))


def their_name(path):
    names = {
        "embeddings/word": "word_embeddings",
        "embeddings/position": "position_embedding",
        "embeddings/type": "type_embeddings",
        "embeddings/norm": "embeddings/layer_norm",
        "pooler": "pooler_transform",
        "masked_lm_head": "bert/cls/predictions/output_bias",
        "masked_lm_head/transform": "bert/cls/predictions/transform/dense",
        "masked_lm_head/norm": "bert/cls/predictions/transform/LayerNorm",
    }
    parts = {
        "attention/qkv": "self_attention",
        "attention/output": "self_attention/attention_output",
        "attention_norm": "self_attention_layer_norm",
        "intermediate": "intermediate",
        "output": "output",
        "output_norm": "output_layer_norm",
    }
    if path[0].startswith("block_"):
        return f"transformer/{path[0].replace('block', 'layer')}/{parts['/'.join(path[1:])]}"
    return names["/".join(path)]


@pytest.mark.parametrize("seq_length", [8, 512])
def test_the_same_outputs(same_weights, their_encoder, their_preprocessor, seq_length):
    segments = [their_preprocessor.tokenize(tf.constant(texts)) for texts in (SAME, SAME[::-1])]
    for count in (1, 2):
        packed = their_preprocessor.bert_pack_inputs(segments[:count], seq_length=seq_length)
        close(same_weights(packed), their_encoder(packed), packed["input_mask"])


def test_the_same_predictions(same_weights, their_encoder, their_preprocessor):
    packed = their_preprocessor(tf.constant(SAME))
    lengths = tf.reduce_sum(packed["input_mask"], axis=1, keepdims=True)  # of padding, nothing is predicted
    packed["masked_lm_positions"] = tf.random.stateless_uniform([len(SAME), 5], [0, 0], 0, 10**6, tf.int32) % lengths
    ours, theirs = same_weights.mlm(packed), their_encoder.mlm(packed)
    assert np.abs(theirs["mlm_logits"]).max() > 10
    # A float32 of this size has a spacing of 2e-6, and each logit is a sum over 128 products: hence relative.
    np.testing.assert_allclose(ours.pop("mlm_logits"), theirs.pop("mlm_logits"), rtol=1e-5, atol=1e-5)
    del ours["default"]  # theirs lacks it here
    close(ours, theirs, packed["input_mask"])


def equal(ours, theirs):
    if isinstance(ours, list):
        assert ours == theirs
        return
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype
        np.testing.assert_array_equal(tensor, theirs[name], name)


def close(ours, theirs, mask):
    """At each token: TF Hub's encoders compute padding, too."""
    tf.nest.assert_same_structure(ours, theirs)
    for a, b in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
        if len(a.shape) == 3:
            a, b = (tf.boolean_mask(each, mask) for each in (a, b))
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
