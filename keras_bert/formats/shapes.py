"""The shapes of our weights, from the configuration alone."""

from keras_bert.config import BertConfig

Shape = tuple[int, ...]
Names = dict[str, list[str]]  # names of weights: ours -> the file's

# Each letter is an axis. V: vocabulary. P: positions. T: types. E: width of embeddings. H: hidden. I: intermediate. Q:
# query, key and value. G: I, or 2I with a gate. B: buckets of distances. D: buckets on both sides. A: heads. L: labels
# of a classifier.
_ENCODER = {
    "embeddings/word": "VE",
    "embeddings/position": "PE",
    "embeddings/type": "TE",
    "embeddings/relative": "BA",
    "embeddings/norm": "E",
    "embeddings/projection": "EH",
    "embeddings/distances": "DH",
    "embeddings/distances_norm": "H",
    "attention/qkv": "HQ",
    "attention/output": "HH",
    "attention_norm": "H",
    "intermediate": "HG",
    "output": "IH",
    "output_norm": "H",
    "final_norm": "H",
    "pooler": "HH",
}
_BLOCK = ("attention", "intermediate", "output")  # prefixes of the names of layers in a block
_TABLES = tuple(f"embeddings/{name}" for name in ("word", "position", "type", "relative", "distances"))
_MASKED_LM = {"transform": "HE", "norm": "E", "": "V", "decoder": "HV"}
_CLASSIFIER = {"transform": "HH", "norm": "H", "logits": "HL"}


def kinds(layer: str) -> tuple[str, ...]:
    """The weights that one of our layers may have, such as ("kernel", "bias")."""
    if layer in _TABLES:
        return ("embeddings",)
    return ("gamma", "beta") if layer.endswith("norm") else ("kernel", "bias")


def encoder_names(config: BertConfig) -> list[str]:
    """The names of all weights of an encoder, in the order of a forward pass.

    Example:
        >>> from keras_bert import BertConfig
        >>> encoder_names(BertConfig.named("modernbert-base"))[:3]
        ['embeddings/word/embeddings', 'embeddings/norm/gamma', 'block_0/attention/qkv/kernel']
    """
    in_blocks = [layer for layer in _ENCODER if layer.startswith(_BLOCK)]
    first, last = list(_ENCODER).index(in_blocks[0]), list(_ENCODER).index(in_blocks[-1])
    blocks = [f"block_{i}/{layer}" for i in range(config.groups) for layer in in_blocks]
    layers = [*list(_ENCODER)[:first], *blocks, *list(_ENCODER)[last + 1 :]]
    return [f"{layer}/{kind}" for layer in layers for kind in kinds(layer) if exists(config, f"{layer}/{kind}")]


def exists(config: BertConfig, name: str) -> bool:
    """Whether a model of this configuration has a weight that others of its family may have.

    Example:
        >>> from keras_bert import BertConfig
        >>> exists(BertConfig.named("modernbert-base"), "block_1/attention/qkv/bias")
        False
    """
    layer, _, kind = name.rpartition("/")
    if kind == "beta" and not (config.norm_bias and config.norm == "layer_norm"):
        return False
    if kind == "bias" and "/attention/" in layer and not config.attention_bias:
        return False
    if kind == "bias" and layer.endswith(("/intermediate", "/output")) and "/attention/" not in layer:
        return config.feed_forward_bias and (config.intermediate_bias or layer.endswith("/output"))
    optional = {
        "embeddings/position": config.position_rows > 0,
        "embeddings/type": config.type_vocab_size > 0,
        "embeddings/projection": config.embedding_size is not None,
        "embeddings/norm": config.embedding_norm,
        "block_0/attention_norm": not (config.pre_norm and config.embedding_norm),
        "embeddings/relative": config.relative_buckets is not None,
        "embeddings/distances": config.disentangled_buckets is not None,
        "embeddings/distances_norm": config.disentangled_buckets is not None,
        "final_norm": config.pre_norm,
        "pooler": config.pooler,
    }
    return optional.get(layer, True)


def shapes(config: BertConfig, part: str, names: Names, labels: int | None = None) -> dict[str, Shape]:
    """The shapes of the weights of one part of a model ("encoder", or a head), by name.

    Kernels are `[inputs, outputs]`, tables are `[rows, width]`, and others have one axis. The keys of `names` are the
    names of the weights; `labels` is the number of a classifier's logits.

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
        "Q": sum(config.qkv_sizes),
        "I": config.intermediate_size,
        "G": config.intermediate_size * (2 if config.gated else 1),
        "B": config.relative_buckets or 0,
        "D": 2 * (config.disentangled_buckets or 0),
        "A": config.num_heads,
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
