"""Static vectors: a table of token embeddings, without layers (van Dongen and Tulkens 2024, "Model2Vec")."""

from keras_bert.formats.families.row import EVERYWHERE, Family, Row, SentencePieceFamily

_ROW = Row(
    classes="Static",
    config={
        "vocab_size": "vocab_size",
        "hidden_size": "hidden_dim",
        "max_positions": "max_length",
        "hidden_dropout": "hidden_dropout",
    },
    values={
        **{"num_layers": 0, "num_heads": 1, "intermediate_size": 1, "type_vocab_size": 0},
        **{"embedding_norm": False, "pooling": "mean", "hidden_dropout": 0.0},
    },
    # How the vectors were made, how the table is stored, and `normalize`, which sentence encoders read.
    without_effect=EVERYWHERE
    | {"apply_pca", "apply_zipf", "embedding_dtype", "normalize", "pooling", "seq_length"}
    | {"sif_coefficient", "tokenizer_name", "vocabulary_quantization"},
    embeddings={"embeddings/word": "embeddings"},
    block={},
    endings={"embeddings": ""},
)
_PIECES = SentencePieceFamily(None, "", ("input_ids", "attention_mask"), {}, 0, 0, as_any_class=True, packing="plain")
_SPACED = _PIECES._replace(pads_punctuation=True)  # as model2vec 0.6 makes them
# model2vec leaves unknown tokens out of the mean; the module StaticEmbedding of sentence-transformers does not.
MODEL2VEC = Family("model2vec", _ROW, packing="known", sentencepiece={"unigram": _PIECES, "model2vec": _SPACED})
STATIC_EMBEDDING = Family(
    "static_embedding", _ROW._replace(embeddings={"embeddings/word": "embedding.weight"}), packing="plain"
)
