"""Jina embeddings, version 3: XLM-RoBERTa with rotary embeddings (Sturua et al. 2024)."""

from keras_bert.formats.families import bert, roberta
from keras_bert.formats.families.nomic_bert import EMBEDDINGS
from keras_bert.formats.families.row import HEAD_DIM, NO_DECODER, Family, defaults_of, size

_LAYER = "encoder.layers.{i}"
_SIZE = {
    "vocab_size": 250002,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "layer_norm_epsilon": 1e-5,
    "max_positions": 8194,
    "rope_theta": 20_000.0,
}

JINA = Family(
    "jina_embeddings_v3",
    hugging_face=roberta.ROW._replace(
        classes="JinaEmbeddingsV3",
        config={**bert.ROW.config, "rope_theta": "rope_parameters.rope_theta"},
        values=defaults_of(_SIZE),
        written_if_changed={**bert.ROW.written_if_changed, **HEAD_DIM},
        fixed_values={**NO_DECODER, "rope_parameters.rope_type": "default", "rope_scaling": None},
        embeddings=EMBEDDINGS,
        block={
            "attention/qkv": f"{_LAYER}.mixer.Wqkv",
            "attention/output": f"{_LAYER}.mixer.out_proj",
            "attention_norm": f"{_LAYER}.norm1",
            "intermediate": f"{_LAYER}.mlp.fc1",
            "output": f"{_LAYER}.mlp.fc2",
            "output_norm": f"{_LAYER}.norm2",
        },
    ),
    heads=roberta.HEADS,
    size=_SIZE,
    sizes={"jina-embeddings-v3": size(24, 1024)},
)
