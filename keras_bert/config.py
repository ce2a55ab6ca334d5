"""BertConfig: the numbers that make one BERT differ from another, and the JSON files that hold them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.families import FAMILIES, KERAS_HUB, KERAS_HUB_CONFIG, SIZES

# Our name of an activation -> what a Hugging Face config.json calls it (its preferred name first).
# "gelu" is x * Phi(x), with the error function; "gelu_tanh" is the approximation that Google's BERT uses (1.6e-3 apart
# at the end of twelve layers).
ACTIVATIONS = {
    "gelu": ("gelu", "gelu_python"),
    "gelu_tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast"),
    "relu": ("relu",),
    "silu": ("silu", "swish"),
}

_REQUIRED = ("vocab_size", "hidden_size", "num_layers", "num_heads", "intermediate_size")
# Google's files have the keys of Hugging Face's, without these.
_NOT_IN_GOOGLE_FILES = ("activation", "layer_norm_epsilon", "pad_token_id")
# Name of a file of Google's -> the family that it is of, which it does not say.
GOOGLE_FILE_NAMES = {"bert_config.json": "bert", "albert_config.json": "albert", "electra_config.json": "electra"}
# What Google's files call "gelu" is the tanh approximation in the code of BERT and ALBERT, the exact one in ELECTRA's.
_GOOGLE_GELU = {"bert": "gelu_tanh", "albert": "gelu_tanh", "electra": "gelu"}


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
        type_vocab_size: kinds of segments (2: first and second sentence). 0: there are no embeddings of segments, and
            `input_type_ids` is not looked at (DistilBERT).
        initializer_range: standard deviation of the truncated normal that weights start from.
        layer_norm_epsilon: added to the variance in layer normalization.
        pad_token_id: id of the padding piece.
        pooler: whether there is a pooler, a dense layer with tanh over the first hidden state. Without one,
            `pooled_output` is that hidden state itself.
        family: whose files it has, and whose heads: a key of `families.FAMILIES`.
        embedding_size: width of the embeddings, which a dense layer then projects to `hidden_size`; None: they are
            `hidden_size` wide, and there is no such layer (Lan et al. 2019, section 3.1).
        num_groups: the layers come in this many groups, within which they share their weights; None: each has its own.
        positions_after_padding: whether positions count from `pad_token_id + 1`, padding pieces excepted, which all
            have the position `pad_token_id` (RoBERTa); else from 0.

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
    family: str = "bert"
    embedding_size: int | None = None
    num_groups: int | None = None
    positions_after_padding: bool = False

    def __post_init__(self) -> None:
        for name in (*_REQUIRED, "max_positions", "type_vocab_size", "embedding_size", "num_groups"):
            value = getattr(self, name)
            least = 0 if name == "type_vocab_size" else 1
            if value is None and name in ("embedding_size", "num_groups"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
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
        for name in ("pooler", "positions_after_padding"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if self.family not in FAMILIES:
            raise ValueError(f"family must be one of {', '.join(FAMILIES)}, not {self.family!r}")
        if self.num_layers % self.groups:
            raise ValueError(f"num_layers {self.num_layers} is not a multiple of num_groups {self.num_groups}")

    @property
    def groups(self) -> int:
        """How many layers have weights of their own."""
        return self.num_layers if self.num_groups is None else self.num_groups

    @property
    def embedding_width(self) -> int:
        """How wide the embeddings are."""
        return self.hidden_size if self.embedding_size is None else self.embedding_size

    @property
    def position_rows(self) -> int:
        """How many rows the table of position embeddings has."""
        return self.max_positions + (self.pad_token_id + 1 if self.positions_after_padding else 0)

    def check_vocabulary(self, pieces: int) -> None:
        """Raises ValueError unless a vocabulary of that many pieces can belong to this model.

        An embedding table has a row for each piece, or a few more: some are rounded up to a multiple of 8 to 128.
        """
        if all(-(-pieces // multiple) * multiple != self.vocab_size for multiple in (1, 8, 16, 32, 64, 128)):
            raise ValueError(
                f"the vocabulary has {pieces} pieces, but the model's embedding table has {self.vocab_size} rows: "
                "they do not belong together"
            )

    @classmethod
    def named(cls, name: str, **changes: Any) -> BertConfig:
        """A published size.

        Args:
            name: a key of `families.SIZES`: "bert-base", "roberta-large", "albert-xxlarge", "electra-small", ...
            **changes: replace single fields.

        Raises:
            ValueError: there is no such size.

        Example:
            >>> from keras_bert import BertConfig
            >>> BertConfig.named("albert-base", vocab_size=21128).embedding_size
            128
        """
        if name not in SIZES:
            raise ValueError(f"there is no size {name!r}; there are {', '.join(SIZES)}")
        return cls(**{**SIZES[name], **changes})

    # The sizes of the paper, and those of Turc et al. 2019 ("Well-Read Students Learn Better").

    @classmethod
    def base(cls, **changes: Any) -> BertConfig:
        """BERT-Base: 12 layers, 768 wide, 12 heads; 110 M parameters. `changes` replace single fields."""
        return cls.named("bert-base", **changes)

    @classmethod
    def large(cls, **changes: Any) -> BertConfig:
        """BERT-Large: 24 layers, 1024 wide, 16 heads; 335 M parameters."""
        return cls.named("bert-large", **changes)

    @classmethod
    def tiny(cls, **changes: Any) -> BertConfig:
        """BERT-Tiny: 2 layers, 128 wide, 2 heads; 4.4 M parameters."""
        return cls.named("bert-tiny", **changes)

    @classmethod
    def mini(cls, **changes: Any) -> BertConfig:
        """BERT-Mini: 4 layers, 256 wide, 4 heads; 11.2 M parameters."""
        return cls.named("bert-mini", **changes)

    @classmethod
    def small(cls, **changes: Any) -> BertConfig:
        """BERT-Small: 4 layers, 512 wide, 8 heads; 28.8 M parameters."""
        return cls.named("bert-small", **changes)

    @classmethod
    def medium(cls, **changes: Any) -> BertConfig:
        """BERT-Medium: 8 layers, 512 wide, 8 heads; 41.4 M parameters."""
        return cls.named("bert-medium", **changes)

    # Files.

    @classmethod
    def read(cls, path: str | Path) -> BertConfig:
        """Reads Google's `bert_config.json`, `albert_config.json` or `electra_config.json`, or, under any other name,
        Hugging Face's or KerasHub's `config.json`.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is not a JSON object, is of another kind of model, or lacks or misstates a value.
        """
        path = Path(path)
        values = files.read_json(path)
        family = GOOGLE_FILE_NAMES.get(path.name)
        try:
            if family:
                return cls.from_google(values, family)
            return cls.from_keras_hub(values) if "class_name" in values else cls.from_hugging_face(values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def write(self, path: str | Path) -> None:
        """Writes one of Google's files when the path has its name, else Hugging Face's `config.json`."""
        path = Path(path)
        values = self.to_google() if path.name in GOOGLE_FILE_NAMES else self.to_hugging_face()
        files.write_texts(path.parent, {path.name: files.to_json(values)})

    @classmethod
    def from_hugging_face(cls, values: dict[str, Any]) -> BertConfig:
        """From the object in a Hugging Face `config.json`; its `model_type` says which family it is."""
        name = values.get("model_type", "bert")
        if name not in FAMILIES:
            raise ValueError(f"model_type is {name!r}; known are {', '.join(FAMILIES)}")
        return cls(**_fields_of_family(values, name))

    def to_hugging_face(self) -> dict[str, Any]:
        """The object for a Hugging Face `config.json`."""
        family = FAMILIES[self.family]
        fields = {
            **self.to_dict(),
            "activation": ACTIVATIONS[self.activation][0],
            "max_positions": self.position_rows,
            "embedding_size": self.embedding_width,
            "num_groups": self.groups,
        }
        return {
            "architectures": [f"{family.classes}Model"],
            "model_type": self.family,
            **{theirs: fields[ours] for ours, theirs in family.config.items()},
        }

    @classmethod
    def from_google(cls, values: dict[str, Any], family: str = "bert") -> BertConfig:
        """From the object in a `bert_config.json`, or in that of another family: "albert" or "electra".

        What these files call "gelu" is what the code of each family computes under that name: in BERT and ALBERT the
        tanh approximation, in ELECTRA the exact function.
        """
        fields = _fields_of_family(values, family)
        if values.get(FAMILIES[family].config["activation"], "gelu") == "gelu":
            fields["activation"] = _GOOGLE_GELU[family]
        return cls(**fields)

    def to_google(self) -> dict[str, Any]:
        """The object for a `bert_config.json`, `albert_config.json` or `electra_config.json`.

        Raises:
            ValueError: Google's code has no such family, or no such activation: the "gelu" of BERT and ALBERT is the
                tanh approximation.
        """
        if self.family not in _GOOGLE_GELU:
            raise ValueError(f"Google's files are of {', '.join(_GOOGLE_GELU)}, not of {self.family}")
        gelu = _GOOGLE_GELU[self.family]
        if self.activation not in (gelu, "relu"):
            raise ValueError(f"a {self.family}_config.json has {gelu} or relu, not {self.activation!r}")
        keys = {ours: key for ours, key in FAMILIES[self.family].config.items() if ours not in _NOT_IN_GOOGLE_FILES}
        fields = {**self.to_dict(), "embedding_size": self.embedding_width, "num_groups": self.groups}
        return {
            "hidden_act": self.activation.removesuffix("_tanh"),
            **{key: fields[ours] for ours, key in keys.items()},
        }

    @classmethod
    def from_keras_hub(cls, values: dict[str, Any]) -> BertConfig:
        """From the object in a KerasHub preset's `config.json`, a serialized backbone."""
        name, arguments = values.get("class_name"), values.get("config")
        if str(name) not in KERAS_HUB:
            raise ValueError(f"class_name is {name!r}; known are {', '.join(KERAS_HUB)}")
        if not isinstance(arguments, dict):
            raise ValueError("it has no 'config'")
        if arguments.get("num_inner_repetitions", 1) != 1:
            raise ValueError(f"num_inner_repetitions is {arguments['num_inner_repetitions']!r}; only 1 is supported")
        family, implied = KERAS_HUB[name]
        fields = {ours: arguments[theirs] for theirs, ours in KERAS_HUB_CONFIG.items() if theirs in arguments}
        if family == "electra" and fields.get("embedding_size") == fields.get("hidden_size"):
            fields["embedding_size"] = None
        dropout = {"attention_dropout": fields["hidden_dropout"]} if "hidden_dropout" in fields else {}
        return cls(**{"family": family, **implied, **fields, **dropout})

    def to_dict(self) -> dict[str, Any]:
        """The fields by name; `BertConfig(**config.to_dict())` is the same config."""
        return dataclasses.asdict(self)


def _fields_of_family(values: dict[str, Any], name: str) -> dict[str, Any]:
    """The fields of BertConfig that a configuration file of a family says, or implies."""
    family = FAMILIES[name]
    _check_plain(values)
    activation = _activation(values.get(family.config["activation"]) or family.values.get("activation", "gelu"))
    fields = {"family": name, **family.values, **_fields(values, family.config), "activation": activation}
    if not family.pooler:
        fields["pooler"] = False
    if fields.get("embedding_size") == fields["hidden_size"] and not family.projects_equal_sizes:
        fields["embedding_size"] = None
    if fields.get("positions_after_padding"):  # the file tells the rows of the table
        fields["max_positions"] = fields.get("max_positions", 512) - fields["pad_token_id"] - 1
    return fields


def _check_plain(values: dict[str, Any]) -> None:
    """Raises ValueError for what changes the arithmetic and is not supported."""
    positions = values.get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise ValueError(f"position_embedding_type is {positions!r}; only 'absolute' is supported")
    if values.get("is_decoder") or values.get("add_cross_attention"):
        raise ValueError("this is a decoder (is_decoder or add_cross_attention is set); only encoders are supported")
    if values.get("use_task_id"):
        raise ValueError("use_task_id is set; embeddings of tasks (of some ERNIE models) are not supported")
    if values.get("inner_group_num", 1) != 1:
        raise ValueError(f"inner_group_num is {values['inner_group_num']!r}; only 1 is supported")


def _fields(values: dict[str, Any], keys: dict[str, str]) -> dict[str, Any]:
    missing = [theirs for ours, theirs in keys.items() if ours in _REQUIRED and theirs not in values]
    if missing:
        raise ValueError(f"{', '.join(missing)} is missing")
    # A null stands for "not set" in these files.
    return {ours: values[theirs] for ours, theirs in keys.items() if values.get(theirs) is not None}


def _activation(name: Any) -> str:
    for ours, theirs in ACTIVATIONS.items():
        if name in theirs:
            return ours
    known = ", ".join(name for theirs in ACTIVATIONS.values() for name in theirs)
    raise ValueError(f"hidden_act is {name!r}; known are {known}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
