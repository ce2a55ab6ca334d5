"""The shapes of our weights, from the configuration alone: a letter in the tables below is an axis."""

from keras_bert.config import BertConfig

Shape = tuple[int, ...]
Names = dict[str, list[str]]  # names of weights: ours -> the file's

# V vocabulary, P positions, T types, E width of embeddings, H hidden, I intermediate; Q is 3H (query, key and value),
# L the labels of a classifier.
_ENCODER = {
    "embeddings/word": "VE",
    "embeddings/position": "PE",
    "embeddings/type": "TE",
    "embeddings/norm": "E",
    "embeddings/projection": "EH",
    "attention/qkv": "HQ",
    "attention/output": "HH",
    "attention_norm": "H",
    "intermediate": "HI",
    "output": "IH",
    "output_norm": "H",
    "pooler": "HH",
}
_MASKED_LM = {"transform": "HE", "norm": "E", "": "V"}
_CLASSIFIER = {"transform": "HH", "logits": "HL"}


def shapes(config: BertConfig, part: str, names: Names, labels: int | None = None) -> dict[str, Shape]:
    """The shapes of the weights of one part of a model ("encoder", or a head), by name.

    Kernels are `[inputs, outputs]`, tables `[rows, width]`, others have one axis. The keys of `names` are the names of
    the weights; `labels` is the number of a classifier's logits.

    Example:
        >>> from keras_bert import BertConfig
        >>> shapes(BertConfig.tiny(), "encoder", {"block_1/attention/qkv/bias": [], "pooler/kernel": []})
        {'block_1/attention/qkv/bias': (384,), 'pooler/kernel': (128, 128)}
    """
    sizes = {
        "V": config.vocab_size,
        "P": config.position_rows,
        "T": config.type_vocab_size,
        "E": config.embedding_width,
        "H": config.hidden_size,
        "Q": 3 * config.hidden_size,
        "I": config.intermediate_size,
        "L": labels or 0,
    }
    table = {"encoder": _ENCODER, "masked_lm": _MASKED_LM}.get(part, _CLASSIFIER)
    result = {}
    for name in names:
        layer, _, kind = name.rpartition("/")
        if layer.startswith("block_"):
            layer = layer.partition("/")[2]
        axes = table[layer] if kind in ("kernel", "embeddings") else table[layer][-1]
        result[name] = tuple(sizes[axis] for axis in axes)
    return result
