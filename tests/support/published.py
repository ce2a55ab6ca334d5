"""Published positions, vocabulary sizes and special ids of every family, on layers too small to cost time.

The numbers are those of `config.json` in the named model; the tokens of the vocabularies are made up, but for BERT's.
"""

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert import formats, presets
from keras_bert.formats import FAMILIES, hugging_face
from keras_bert.formats.tokenizers.sentencepiece_model import CONTROL, NORMAL, UNKNOWN, unigram_model

from .checkpoints import random_weights
from .reference.bytepair import SYMBOLS

SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
LABELS = {"sequence": ["bad", "fair", "good"], "tokens": ["O", "B-PER", "I-PER"]}


def word_pieces(directory: Path, count: int, roberta: bool = False) -> None:
    """BERT's vocabulary; for MPNet, between RoBERTa's special tokens."""
    tokens = (presets.resolve("all-MiniLM-L6-v2") / "vocab.txt").read_text("utf-8").split("\n")[:-1]
    config = {}
    if roberta:
        tokens = ["<s>", "<pad>", "</s>", "<unk>", *tokens, "<mask>"]
        config = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
        config |= {"unk_token": "[UNK]", "tokenizer_class": "MPNetTokenizer"}
    (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens[:count]), "utf-8")
    (directory / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, **config}))


def byte_pairs(directory: Path, count: int, special: dict[str, int], added: int = 0) -> None:
    """Byte pairs: `special` gives the ids of cls, sep, pad, mask and unk, and `added` tokens come last."""
    at = {number: name for name, number in special.items()}
    tokens, merges, bare = dict.fromkeys(SYMBOLS.values()), [], count - len(at) - added
    for first, second in itertools.product(SYMBOLS.values(), repeat=2):
        if len(tokens) < bare:
            tokens[first + second] = None
            merges.append((first, second))
    pairs = list(tokens)[256:]
    for first, second in itertools.product(pairs, SYMBOLS.values()):
        if len(tokens) >= bare:
            break
        if first + second not in tokens:
            tokens[first + second] = None
            merges.append((first, second))
    rest = iter([*tokens, *(f"<|added{number}|>" for number in range(added))])
    names = {"unk": "<unk>", "cls": "<s>", "sep": "</s>", "pad": "<pad>", "mask": "<mask>"}
    order = [names[at[number]] if number in at else next(rest) for number in range(count)]
    (directory / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(order)}))
    (directory / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{one} {two}\n" for one, two in merges))
    names["unk"] = names["unk"] if "unk" in special else names["pad"]  # no text is unknown
    stated = {f"{name}_token": token for name, token in names.items()}
    (directory / "tokenizer_config.json").write_text(json.dumps(stated))


def pieces(directory: Path, name: str, count: int, special: tuple[str, ...], unknown: str) -> None:
    """A SentencePiece model of `count` pieces, the first of which are `special`."""
    (directory / name).write_bytes(_model_of_pieces(count, special, unknown))


@functools.cache
def _model_of_pieces(count: int, special: tuple[str, ...], unknown: str) -> bytes:
    kinds = [(token, 0.0, UNKNOWN if token == unknown else CONTROL) for token in special]
    words = [("▁", -5.0, NORMAL), *((char, -9.0, NORMAL) for char in "abcdefghijklmnopqrstuvwxyz.?")]
    words += [(f"▁{word}", -4.0, NORMAL) for word in ("the", "cat", "sat", "it", "rained")]
    words += [(f"▁{number}", -20.0, NORMAL) for number in range(count)]
    return unigram_model([*kinds, *words][:count], b"")


class Published(NamedTuple):
    """A published model.

    Attributes:
        model: its name.
        positions: the most tokens that it reads.
        config: entries of its `config.json`.
        write_tokenizer: writes the files of a tokenizer of its size.
    """

    model: str
    positions: int
    config: dict[str, Any]
    write_tokenizer: Callable[[Path], None]


def _bert(vocabulary: int, positions: int, **others: Any) -> dict[str, Any]:
    return {**SIZES, "vocab_size": vocabulary, "max_position_embeddings": positions, **others}


_BERT = {"type_vocab_size": 2, "pad_token_id": 0}
_ROPE = {"position_embedding_type": "rope", "rope_theta": 160000, **_BERT}
_XLM = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
_FAIRSEQ = ("<unk>", "<s>", "</s>")


def _xlm_pieces(directory: Path) -> None:
    pieces(directory, "sentencepiece.bpe.model", 250_000, _FAIRSEQ, "<unk>")


def _uncased(directory: Path) -> None:
    word_pieces(directory, 30522)


PUBLISHED = {
    "bert": Published("bert-base-uncased", 512, _bert(30522, 512, **_BERT), _uncased),
    "ernie": Published("ernie-1.0-base-zh", 513, _bert(18000, 513, **_BERT), lambda d: word_pieces(d, 18000)),
    "roberta": Published(
        "roberta-base", 512, _bert(50265, 514, **_XLM),
        lambda d: byte_pairs(d, 50265, {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": 50264}),
    ),
    "xlm-roberta": Published("bge-m3", 8192, _bert(250_002, 8194, **_XLM), _xlm_pieces),
    "camembert": Published(
        "camembert-base", 512, _bert(32005, 514, **_XLM | {"bos_token_id": 5, "eos_token_id": 6}),
        lambda d: pieces(d, "sentencepiece.bpe.model", 32000, _FAIRSEQ, "<unk>"),
    ),
    "distilbert": Published(
        "distilbert-base-uncased", 512,
        {
            "vocab_size": 30522, "max_position_embeddings": 512, "pad_token_id": 0,
            "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16,
        },
        _uncased,
    ),
    "albert": Published(
        "albert-base-v2", 512, _bert(30000, 512, **_BERT, bos_token_id=2, eos_token_id=3, embedding_size=4),
        lambda d: pieces(d, "spiece.model", 30000, ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), "<unk>"),
    ),
    "electra": Published(
        "electra-small-discriminator", 512, _bert(30522, 512, **_BERT, embedding_size=4), _uncased
    ),
    "modernbert": Published(
        "ModernBERT-base", 8192,
        _bert(
            50368, 8192, bos_token_id=50281, cls_token_id=50281, eos_token_id=50282, sep_token_id=50282,
            pad_token_id=50283, local_attention=128, global_attn_every_n_layers=3, global_rope_theta=160000.0,
            local_rope_theta=10000.0, classifier_pooling="mean",
        ),
        lambda d: byte_pairs(d, 50368, {"unk": 50280, "cls": 50281, "sep": 50282, "pad": 50283, "mask": 50284}, 83),
    ),
    "nomic_bert": Published(
        "nomic-bert-2048", 2048,
        {
            "n_embd": 8, "n_layer": 2, "n_head": 2, "n_inner": 16, "n_positions": 2048, "vocab_size": 30528, **_BERT,
            "rotary_emb_base": 1000, "activation_function": "swiglu", "rotary_emb_fraction": 1.0,
            "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False,
        },
        _uncased,
    ),
    "mpnet": Published(
        "mpnet-base", 512,
        _bert(30527, 514, bos_token_id=0, pad_token_id=1, eos_token_id=2, relative_attention_num_buckets=32),
        lambda d: word_pieces(d, 30527, roberta=True),
    ),
    "deberta-v2": Published(
        "deberta-v3-base", 512,
        _bert(
            128_100, 512, pad_token_id=0, type_vocab_size=0, relative_attention=True, position_buckets=256,
            max_relative_positions=-1, share_att_key=True, pos_att_type="p2c|c2p", norm_rel_ebd="layer_norm",
            position_biased_input=False, layer_norm_eps=1e-7,
        ),
        lambda d: pieces(d, "spm.model", 128_000, ("[PAD]", "[CLS]", "[SEP]", "[UNK]"), "[UNK]"),
    ),
    "gte": Published(
        "gte-large-en-v1.5, as transformers writes it", 8192, _bert(30528, 8192, **_ROPE), _uncased
    ),
    "new": Published(
        "gte-large-en-v1.5", 8192,
        _bert(30528, 8192, **_ROPE, rope_scaling={"type": "ntk", "factor": 2.0}, pack_qkv=True), _uncased,
    ),
    "eurobert": Published(
        "EuroBERT-210m", 8192,
        _bert(
            128_256, 8192, bos_token_id=128_000, eos_token_id=128_001, pad_token_id=128_001, rope_theta=250_000,
            rms_norm_eps=1e-5, hidden_act="silu",
        ),
        lambda d: byte_pairs(d, 128_256, {"cls": 128_000, "sep": 128_001, "mask": 128_002, "pad": 128_004}, 251),
    ),
    "ultrabert": Published(
        "UltraBERT-150M, but for the vocabulary's size: transformers' default", 32768,
        {
            **_bert(32_000, 32768, num_hidden_layers=3, bos_token_id=0, eos_token_id=0, pad_token_id=0),
            "attention_windows": [128, 128, 0], "rope_theta": [10_000.0, 10_000.0, 2_560_000.0],
        },
        lambda d: byte_pairs(d, 32_000, {"pad": 0, "cls": 1, "sep": 2, "mask": 3}),
    ),
    "neobert": Published(
        "NeoBERT", 4096,
        {**SIZES, "vocab_size": 30522, "max_length": 4096, "pad_token_id": 0, "norm_eps": 1e-5}, _uncased,
    ),
    "jina_embeddings_v3": Published("jina-embeddings-v3", 8194, _bert(250_002, 8194, **_XLM), _xlm_pieces),
}  # fmt: skip


def write(directory: Path, family: str, head: str | None = None) -> Path:
    """Writes a random model of a family, with a head, as its publisher does. Returns the directory."""
    published = PUBLISHED[family]
    values = {"model_type": family, **published.config}
    config = hugging_face.config_of(values, directory / "config.json")
    heads = [] if head is None else [head]
    formats.write(directory, config, random_weights(config, *heads))
    written = json.loads((directory / "config.json").read_text())
    values |= {"architectures": written["architectures"]}
    if head in LABELS:
        values["id2label"] = dict(enumerate(LABELS[head]))
    (directory / "config.json").write_text(json.dumps(values))
    published.write_tokenizer(directory)
    return directory


def heads_of(family: str) -> list[str]:
    return list(FAMILIES[family].heads)
