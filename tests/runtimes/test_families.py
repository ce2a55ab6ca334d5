"""Every family, with the kind of tokenizer that it has, from texts through an export, `load` and its tokenizer."""

import functools
import re

import numpy as np
import pytest

from keras_bert import BertConfig, BertPreprocessor, BertSentenceEncoder
from keras_bert.formats.families import ULTRABERT
from keras_bert.runtimes import export_onnx, export_openvino, load
from keras_bert.saved_model import export_encoder
from keras_bert.tensors import TRANSFORMERS_INPUTS

from ..support.encoders import random_encoder, random_inputs
from ..support.kinds import HOSTILE, KINDS

pytest.importorskip("tf2onnx", reason="needs the extra runtimes")
pytest.importorskip("onnxruntime")
openvino = pytest.importorskip("openvino")
pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]

# Family -> a size with its switches, changes of it, and its tokenizer.
TABLE = {
    "bert": ("bert-base", {}, "wordpiece"),
    "ernie": ("bert-base", {}, "wordpiece"),
    "distilbert": ("distilbert-base", {}, "wordpiece"),
    "electra": ("electra-small", {"embedding_size": 16}, "wordpiece"),
    "nomic_bert": ("nomic-bert-2048", {}, "wordpiece"),
    "gte": ("gte-large-en-v1.5", {"rope_factor": 1.0}, "wordpiece"),
    "neobert": ("neobert", {}, "wordpiece"),
    "mpnet": ("mpnet-base", {}, "mpnet"),
    "roberta": ("roberta-base", {}, "gpt2"),
    "modernbert": ("modernbert-base", {"local_window": 6}, "modernbert"),
    "eurobert": ("eurobert-610m", {"num_key_value_heads": 2}, "llama3"),
    "ultrabert": (
        "eurobert-210m",
        ULTRABERT.size | {"family": "ultrabert", "local_window": 6},
        "digits",
    ),
    "albert": ("albert-base", {"embedding_size": 16}, "albert"),
    "xlm-roberta": ("xlm-roberta-base", {}, "xlm-roberta"),
    "new": ("gte-large-en-v1.5", {}, "xlm-roberta"),
    "jina_embeddings_v3": ("jina-embeddings-v3", {}, "xlm-roberta"),
    "camembert": ("xlm-roberta-base", {}, "camembert"),
    "deberta-v2": ("deberta-v3-base", {"disentangled_buckets": 4}, "deberta-v2"),
}
SIZES = {"hidden_size": 24, "num_layers": 1, "num_heads": 4, "intermediate_size": 40, "max_positions": 32}


@functools.cache
def preprocessor_of(kind):
    """An export traces it, the first time."""
    return BertPreprocessor(KINDS[kind][0](), sequence_length=None, max_sequence_length=32)


@pytest.mark.parametrize(
    ("export", "family"), [*((export_onnx, each) for each in TABLE), (export_openvino, "deberta-v2")]
)
def test_texts_through_an_export(export, family, tmp_path):
    size, changes, kind = TABLE[family]
    preprocessor, unlike = preprocessor_of(kind), KINDS[kind][1]
    tokenizer = preprocessor.tokenizer
    values = {"vocab_size": tokenizer.vocabulary_size, "pad_token_id": tokenizer.pad_token_id, "family": family}
    encoder = random_encoder(**BertConfig.named(size).to_dict() | SIZES | values | changes)
    ours = BertSentenceEncoder(encoder, preprocessor)
    export(ours, tmp_path / "out")
    theirs = load(tmp_path / "out")
    expected = tokenizer.tokenize(HOSTILE).to_list()
    found = theirs.preprocessor.tokenize(HOSTILE)
    rows = zip(HOSTILE, expected, found, strict=True)
    assert [(text, *row) for text, *row in rows if row[0] != row[1] and not re.search(unlike or "$^", text)] == []
    same = [text for text, *row in zip(HOSTILE, expected, found, strict=True) if row[0] == row[1]]
    for name, value in theirs.preprocessor((same[:20], same[20:40])).items():
        np.testing.assert_array_equal(value, ours.preprocessor((same[:20], same[20:40]))[name])
    np.testing.assert_allclose(theirs.encode(same[:20]), ours.encode(same[:20]), atol=1e-4)
    np.testing.assert_allclose(theirs.encode(same[9]), ours.encode(same[9]), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "signature"),
    [
        *((each, "transformers") for each in ("deberta-v2", "new", "modernbert", "eurobert")),
        *((each, None) for each in ("albert", "mpnet")),
    ],
)
def test_openvino_reads_the_saved_models_of_encoders(family, signature, tmp_path):
    size, changes, _ = TABLE[family]
    encoder = random_encoder(
        **BertConfig.named(size).to_dict() | SIZES | {"vocab_size": 50, "pad_token_id": 0} | changes
    )
    export_encoder(encoder, tmp_path / "encoder", signature=signature)
    model = openvino.Core().compile_model(tmp_path / "encoder", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    inputs = random_inputs()
    inputs["input_mask"][1, 7:] = 0
    named = inputs | {theirs: inputs[ours] for ours, theirs in TRANSFORMERS_INPUTS.items()}
    found = model({each: named[next(iter(each.get_names() & named.keys()))] for each in model.inputs})
    (output,) = (each for each in model.outputs if each.get_names() & {"sequence_output", "last_hidden_state"})
    is_token = inputs["input_mask"] > 0
    expected = np.asarray(encoder(inputs)["sequence_output"])
    np.testing.assert_allclose(found[output][is_token], expected[is_token], atol=1e-5)
