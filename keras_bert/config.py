"""BertConfig: the numbers that make one BERT differ from another, and the two JSON files that hold them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert import files

# Our name of an activation -> what a Hugging Face config.json calls it (its preferred name first).
# "gelu" is x * Phi(x), with the error function; "gelu_tanh" is the approximation that Google's BERT uses (1.6e-3 apart
# at the end of twelve layers).
ACTIVATIONS = {
    "gelu": ("gelu", "gelu_python"),
    "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
    "relu": ("relu",),
    "silu": ("silu", "swish"),
}

# Our name -> Hugging Face's and Google's, which agree on all but the last two (Google's files leave those out).
_JSON_NAMES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "max_positions": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "initializer_range": "initializer_range",
    "layer_norm_epsilon": "layer_norm_eps",
    "pad_token_id": "pad_token_id",
}
_NOT_IN_GOOGLE_FILES = ("layer_norm_epsilon", "pad_token_id")
_REQUIRED = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size")
GOOGLE_FILE_NAME = "bert_config.json"


@dataclass(frozen=True)
class BertConfig:
    """The architecture of a BERT encoder. The defaults are BERT-Base, uncased (Devlin et al. 2018, section 3).

    Attributes:
        vocab_size: pieces in the vocabulary, V.
        hidden_size: width of a hidden state, H.
        num_layers: Transformer blocks, L.
        num_heads: self-attention heads, A; each is `hidden_size / num_heads` wide.
        intermediate_size: width of the feed-forward layer, 4H in the paper.
        activation: of the feed-forward layer: "gelu" (exact), "gelu_tanh" (Google's approximation), "relu" or "silu".
        hidden_dropout: probability of dropping an element of a hidden state while training.
        attention_dropout: probability of dropping an attention weight while training.
        max_positions: the longest sequence, in pieces.
        type_vocab_size: kinds of segments (2: first and second sentence).
        initializer_range: standard deviation of the truncated normal that weights start from.
        layer_norm_epsilon: added to the variance in layer normalization.
        pad_token_id: id of the padding piece.
        pooler: whether there is a pooler, a dense layer with tanh over the first hidden state. Without one,
            `pooled_output` is that hidden state itself.

    Raises:
        ValueError: a value is out of range, or two do not fit together.

    Example:
        >>> from keras_bert import BertConfig
        >>> BertConfig.base().hidden_size
        768
        >>> BertConfig(hidden_size=100, num_heads=12)
        Traceback (most recent call last):
        ...
        ValueError: hidden_size 100 is not a multiple of num_heads 12
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_layers: int = 12
    num_heads: int = 12
    intermediate_size: int = 3072
    activation: str = "gelu"
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    max_positions: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_epsilon: float = 1e-12
    pad_token_id: int = 0
    pooler: bool = True

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size", "max_positions")
        for name in (*sizes, "type_vocab_size"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
        for name in ("hidden_dropout", "attention_dropout"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value < 1:
                raise ValueError(f"{name} is a probability, at least 0 and below 1, not {value!r}")
        for name in ("initializer_range", "layer_norm_epsilon"):
            value = getattr(self, name)
            if not _is_number(value) or not value > 0:
                raise ValueError(f"{name} must be a number above 0, not {value!r}")
        if self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size {self.hidden_size} is not a multiple of num_heads {self.num_heads}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {self.activation!r}")
        if not isinstance(self.pad_token_id, int) or not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id!r} is not an id below vocab_size {self.vocab_size}")
        if not isinstance(self.pooler, bool):
            raise ValueError(f"pooler must be True or False, not {self.pooler!r}")

    def check_vocabulary(self, pieces: int) -> None:
        """Raises ValueError unless a vocabulary of that many pieces can belong to this model.

        An embedding table has a row for each piece, or a few more: some are rounded up to a multiple of 8 to 128.
        """
        if all(-(-pieces // multiple) * multiple != self.vocab_size for multiple in (1, 8, 16, 32, 64, 128)):
            raise ValueError(
                f"the vocabulary has {pieces} pieces, but the model's embedding table has {self.vocab_size} rows: "
                "they do not belong together"
            )

    # The sizes of the paper, and those of Turc et al. 2019 ("Well-Read Students Learn Better").

    @classmethod
    def base(cls, **changes: Any) -> BertConfig:
        """BERT-Base: 12 layers, 768 wide, 12 heads; 110 M parameters. `changes` replace single fields."""
        return cls._of_size(12, 768, **changes)

    @classmethod
    def large(cls, **changes: Any) -> BertConfig:
        """BERT-Large: 24 layers, 1024 wide, 16 heads; 335 M parameters."""
        return cls._of_size(24, 1024, **changes)

    @classmethod
    def tiny(cls, **changes: Any) -> BertConfig:
        """BERT-Tiny: 2 layers, 128 wide, 2 heads; 4.4 M parameters."""
        return cls._of_size(2, 128, **changes)

    @classmethod
    def mini(cls, **changes: Any) -> BertConfig:
        """BERT-Mini: 4 layers, 256 wide, 4 heads; 11.2 M parameters."""
        return cls._of_size(4, 256, **changes)

    @classmethod
    def small(cls, **changes: Any) -> BertConfig:
        """BERT-Small: 4 layers, 512 wide, 8 heads; 28.8 M parameters."""
        return cls._of_size(4, 512, **changes)

    @classmethod
    def medium(cls, **changes: Any) -> BertConfig:
        """BERT-Medium: 8 layers, 512 wide, 8 heads; 41.4 M parameters."""
        return cls._of_size(8, 512, **changes)

    @classmethod
    def _of_size(cls, num_layers: int, hidden_size: int, /, **changes: Any) -> BertConfig:
        # In every published size a head is 64 wide and the feed-forward layer four times as wide as the hidden state.
        size = {
            "num_layers": num_layers,
            "hidden_size": hidden_size,
            "num_heads": hidden_size // 64,
            "intermediate_size": 4 * hidden_size,
        }
        return cls(**{**size, **changes})

    # Files.

    @classmethod
    def read(cls, path: str | Path) -> BertConfig:
        """Reads Google's `bert_config.json` (told by its name) or Hugging Face's `config.json` (any other name).

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is not a JSON object, is of another kind of model, or lacks or misstates a value.
        """
        path = Path(path)
        values = files.read_json(path)
        read = cls.from_google if path.name == GOOGLE_FILE_NAME else cls.from_hugging_face
        try:
            return read(values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def write(self, path: str | Path) -> None:
        """Writes Google's `bert_config.json` when the path has that name, else Hugging Face's `config.json`."""
        path = Path(path)
        values = self.to_google() if path.name == GOOGLE_FILE_NAME else self.to_hugging_face()
        files.write_texts(path.parent, {path.name: files.to_json(values)})

    @classmethod
    def from_hugging_face(cls, values: dict[str, Any]) -> BertConfig:
        """From the object in a Hugging Face `config.json` with `model_type` "bert"."""
        family = values.get("model_type", "bert")
        if family != "bert":
            raise ValueError(f"model_type is {family!r}; this version reads 'bert'")
        positions = values.get("position_embedding_type", "absolute")
        if positions != "absolute":
            raise ValueError(f"position_embedding_type is {positions!r}; only 'absolute' is supported")
        if values.get("is_decoder") or values.get("add_cross_attention"):
            raise ValueError(
                "this is a decoder (is_decoder or add_cross_attention is set); only encoders are supported"
            )
        return cls(activation=_activation(values.get("hidden_act", "gelu")), **_fields(values))

    def to_hugging_face(self) -> dict[str, Any]:
        """The object for a Hugging Face `config.json`."""
        return {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "position_embedding_type": "absolute",
            "hidden_act": ACTIVATIONS[self.activation][0],
            **{theirs: getattr(self, ours) for ours, theirs in _JSON_NAMES.items()},
        }

    @classmethod
    def from_google(cls, values: dict[str, Any]) -> BertConfig:
        """From the object in a `bert_config.json`. What it calls "gelu" is the tanh approximation."""
        activation = _activation(values.get("hidden_act", "gelu"))
        return cls(activation="gelu_tanh" if activation == "gelu" else activation, **_fields(values))

    def to_google(self) -> dict[str, Any]:
        """The object for a `bert_config.json`.

        Raises:
            ValueError: Google's code cannot express the activation: its "gelu" is the tanh approximation.
        """
        if self.activation not in ("gelu_tanh", "relu"):
            raise ValueError(f"a {GOOGLE_FILE_NAME} has gelu_tanh or relu, not {self.activation!r}")
        names = {ours: theirs for ours, theirs in _JSON_NAMES.items() if ours not in _NOT_IN_GOOGLE_FILES}
        return {
            "hidden_act": self.activation.removesuffix("_tanh"),
            **{theirs: getattr(self, ours) for ours, theirs in names.items()},
        }

    def to_dict(self) -> dict[str, Any]:
        """The fields by name; `BertConfig(**config.to_dict())` is the same config."""
        return dataclasses.asdict(self)


def _fields(values: dict[str, Any]) -> dict[str, Any]:
    missing = [theirs for ours, theirs in _JSON_NAMES.items() if ours in _REQUIRED and theirs not in values]
    if missing:
        raise ValueError(f"{', '.join(missing)} is missing")
    # A null stands for "not set" in these files.
    return {ours: values[theirs] for ours, theirs in _JSON_NAMES.items() if values.get(theirs) is not None}


def _activation(name: Any) -> str:
    for ours, theirs in ACTIVATIONS.items():
        if name in theirs:
            return ours
    known = ", ".join(name for theirs in ACTIVATIONS.values() for name in theirs)
    raise ValueError(f"hidden_act is {name!r}; known are {known}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
