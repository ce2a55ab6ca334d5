"""BertConfig: the architecture of a BERT encoder and its heads, as numbers and names."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from types import NoneType
from typing import Any, NamedTuple

from keras_bert.choices import ENCODER_POOLINGS
from keras_bert.head_table import HEADS

ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu")
NORMS = ("layer_norm", "rms_norm")
# The largest numbers accepted, because a damaged file may hold 10^12. No model has a thousand layers. Ids and sizes are
# int32, other numbers float32.
_MAX_VALUES = {"num_layers": 1000}
_FROM_ZERO = ("type_vocab_size", "pad_token_id", "global_every", "first_global")
_MAX_INTEGER, _MIN_FLOAT, _MAX_FLOAT = 2**31 - 1, 1e-37, 3e38


@dataclass(frozen=True)
class BertConfig:
    """The architecture of a BERT encoder. The defaults are BERT-Base, uncased (Devlin et al. 2018, section 3).

    Attributes:
        vocab_size: tokens in the vocabulary, V.
        hidden_size: width of a hidden state, H.
        num_layers: Transformer blocks, L. 0: there are only token embeddings, without positions (static vectors).
        num_heads: self-attention heads, A.
        intermediate_size: width of the feed-forward layer, 4H in the paper.
        activation: the feed-forward layer's activation: "gelu" (exact), "gelu_tanh" (Google's approximation), "relu" or
            "silu".
        hidden_dropout: probability of dropping an element of a hidden state in training.
        attention_dropout: probability of dropping an attention weight in training.
        max_positions: the maximum length of a sequence, in tokens.
        type_vocab_size: the number of segment types (2: first and second segment). 0: no segment embeddings, and
            `input_type_ids` is ignored (DistilBERT).
        initializer_range: standard deviation of the truncated normal that initializes weights.
        layer_norm_epsilon: added to the variance in layer normalization.
        pad_token_id: id of the padding token.
        pooler: whether there is a pooler: a dense layer with tanh over the first hidden state. Without a pooler,
            `pooling` decides how `pooled_output` is computed.
        family: the name of the family, which decides on the names in files: a key of `formats.FAMILIES`, or any other
            name for a model that is only saved in Keras's own files. For known families, the default of one of the
            last seven fields below stands for the family's value, even if it is passed: with "modernbert",
            `head_norm=False` becomes True. Files of the family have no other heads. For such heads, choose another
            name.
        embedding_size: width of the embeddings, which a dense layer projects to `hidden_size` (Lan et al. 2019, section
            3.1). None: embeddings are `hidden_size` wide, without a projection.
        num_groups: the number of groups of layers that share weights. None: each layer has weights of its own.
        positions_after_padding: whether positions count from `pad_token_id + 1`, and all padding has the position
            `pad_token_id` (RoBERTa). False: positions count from 0.
        num_key_value_heads: key/value heads, each shared by several query heads (Ainslie et al. 2023, GQA). None: one
            per query head.
        head_dim: width of an attention head. None: `hidden_size / num_heads`, which becomes None if it is given.
        rope_theta: the base of rotary position embeddings, which rotate queries and keys (Su et al. 2021, RoFormer) and
            replace the position embedding table. None: no rotary embeddings.
        rope_factor: slows the rotation down, for texts longer than in training: dimension pair i (from 0) of a head of
            width d rotates by an angle divided by `rope_factor^(2(i + 1)/d)` (Su 2023, kexue.fm/archives/9706; a form
            of the "NTK-aware" scaling of Peng et al. 2023, YaRN, section 3.1).
        local_rope_theta: the base in layers with local attention. None: `rope_theta`.
        global_every: every n-th layer, from `first_global`, attends to the whole text; other layers have local
            attention (Warner et al. 2024, ModernBERT, section 2.1). 1: all layers attend to the whole text; 0: none.
        first_global: the first layer, counted from 0, that attends to the whole text; below `global_every`.
        local_window: the width of local attention: a token attends to tokens at most half of it away (Beltagy et al.
            2020, Longformer, section 3.1).
        relative_buckets: the number of buckets of distances between tokens, each with a learned attention bias, shared
            by all layers (Raffel et al. 2019, T5, section 2.1). None: no such bias.
        disentangled_buckets: the number of buckets of distances on either side, each with an embedding, for
            disentangled attention (He et al. 2020, DeBERTa, section 3.1). These embeddings replace the position
            embedding table. None: no disentangled attention.
        embedding_norm: whether the sum of the embeddings is normalized, before dropout.
        pre_norm: whether normalization comes before attention and feed-forward, and once after the last layer (Xiong et
            al. 2020). False: after each sum. With `embedding_norm`, the first layer has no norm before its attention.
        norm: "layer_norm", or "rms_norm", which subtracts no mean (Zhang and Sennrich 2019, RMSNorm).
        norm_bias: whether layer normalization has a bias.
        attention_bias: whether the dense layers of attention have a bias.
        feed_forward_bias: whether the dense layers of the feed-forward network have a bias.
        intermediate_bias: with `feed_forward_bias`, whether the up-projection has a bias, too (GTE: no; only the
            down-projection has one).
        gated: whether the feed-forward network has a gate (Shazeer 2020, GLU variants): its first layer is twice
            `intermediate_size` wide, and the activation of one half is multiplied by the other half.
        pooling: without a pooler, `pooled_output` is the hidden state of the "first" token, the "mean" of all, or their
            mean scaled to length 1 ("unit_mean"), which is the vector of a text in most sentence encoders.
            "late" (EuroBERT): as "first", but a classifier's logits for a text are the mean of its tokens' logits.
        head_activation: the activation in the dense layers of all heads. None: the next two fields decide.
        masked_lm_activation: the activation in the masked language modeling head. None: `activation`.
        sequence_activation: the activation of a dense layer that a classifier of texts has before its logits, in place
            of the pooler (Liu et al. 2019, RoBERTa). None: there is no such layer.
        sequence_pooler: without such a layer, whether a classifier of texts reads the pooler if `pooling` is "first".
            False: it reads the first hidden state itself (UltraBERT).
        head_norm: whether classifiers of texts, tokens and spans begin like the masked language modeling head: with a
            dense layer, an activation and a normalization. None of these dense layers then has a bias.
        own_decoder: whether the masked language modeling head is a dense layer with weights of its own. False: it
            multiplies by the token embeddings.
        decoder_bias: with `own_decoder`, whether this layer has a bias.
        decoder_width: with `own_decoder`, the width between two dense layers before it, without biases, each with the
            activation (UltraBERT). None: there are no such layers.

    Raises:
        ValueError: a value is out of range, or two values contradict each other.

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
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    rope_theta: float | None = None
    rope_factor: float = 1.0
    local_rope_theta: float | None = None
    global_every: int = 1
    first_global: int = 0
    local_window: int = 128
    relative_buckets: int | None = None
    disentangled_buckets: int | None = None
    embedding_norm: bool = True
    pre_norm: bool = False
    norm: str = "layer_norm"
    norm_bias: bool = True
    attention_bias: bool = True
    feed_forward_bias: bool = True
    intermediate_bias: bool = True
    gated: bool = False
    pooling: str = "first"
    head_activation: str | None = None
    masked_lm_activation: str | None = None
    sequence_activation: str | None = None
    sequence_pooler: bool = True
    head_norm: bool = False
    own_decoder: bool = False
    decoder_bias: bool = True
    decoder_width: int | None = None

    def __post_init__(self) -> None:
        from keras_bert.formats.families import FAMILIES  # not before there is a config, for a quick `--help`

        # Configurations of known families may leave out the fields of heads, which are newer than the other fields.
        family = FAMILIES.get(str(self.family))
        for name, value in family.heads.items() if family else ():
            if getattr(self, name) == getattr(BertConfig, name):  # the default
                object.__setattr__(self, name, value)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if hasattr(value, "item"):  # a NumPy number
                value = value.item()  # a Python number, for JSON
                object.__setattr__(self, field.name, value)
            check_field(field.name, value)
        if self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size {self.hidden_size} is not a multiple of num_heads {self.num_heads}")
        if self.head_dim == self.hidden_size // self.num_heads:
            object.__setattr__(self, "head_dim", None)  # one form, so that equal architectures are equal
        if self.num_heads % self.key_value_heads:
            heads = f"num_key_value_heads {self.num_key_value_heads}"
            raise ValueError(f"num_heads {self.num_heads} is not a multiple of {heads}")
        for name, allowed in _ALLOWED.items():
            if getattr(self, name) not in allowed:
                names = ", ".join(str(each) for each in allowed)
                raise ValueError(f"{name} must be one of {names}, not {getattr(self, name)!r}")
        if not self.num_layers and (self.embedding_norm or self.type_vocab_size):
            raise ValueError(
                "num_layers must be at least 1, not 0, unless embedding_norm is False and type_vocab_size 0, for a "
                "table of token embeddings"
            )
        if self.pad_token_id >= self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id} is not an id below vocab_size {self.vocab_size}")
        if self.groups > self.num_layers:
            raise ValueError(f"num_groups {self.num_groups} are more than num_layers {self.num_layers}")
        if self.rope_theta is not None and self.head_size % 2:
            raise ValueError(f"rotary embeddings (rope_theta) need an even head size, not {self.head_size}")
        if self.first_global >= max(self.global_every, 1):
            raise ValueError(f"first_global {self.first_global} is not below global_every {self.global_every}")
        if self.global_every != 1 and self.groups < self.num_layers:
            raise ValueError("layers that share weights (num_groups) cannot be local and global (global_every)")
        if self.global_every != 1 and self.relative_buckets is not None:
            raise ValueError("local attention (global_every) cannot have a relative bias (relative_buckets)")
        if self.disentangled_buckets is not None and (self.global_every != 1 or self.rope_theta is not None):
            raise ValueError(
                "disentangled attention (disentangled_buckets) can have neither rotary embeddings (rope_theta) nor "
                "local layers (global_every)"
            )

    @property
    def groups(self) -> int:
        """The number of groups of layers that share weights."""
        return self.num_layers if self.num_groups is None else self.num_groups

    def group_of(self, layer: int) -> int:
        """Finds the group of a layer, both counted from 0. Where groups cannot be equal, the first ones are larger.

        Example:
            >>> from keras_bert import BertConfig
            >>> config = BertConfig.named("albert-base", num_layers=5, num_groups=2)
            >>> [config.group_of(layer) for layer in range(5)]
            [0, 0, 0, 1, 1]
        """
        return int(layer / (self.num_layers / self.groups))  # rounded as transformers' code rounds

    @property
    def embedding_width(self) -> int:
        """The width of the embeddings."""
        return self.hidden_size if self.embedding_size is None else self.embedding_size

    @property
    def head_size(self) -> int:
        """The width of an attention head."""
        return self.hidden_size // self.num_heads if self.head_dim is None else self.head_dim

    @property
    def key_value_heads(self) -> int:
        """The number of key/value heads."""
        return self.num_heads if self.num_key_value_heads is None else self.num_key_value_heads

    @property
    def qkv_sizes(self) -> tuple[int, int, int]:
        """The widths of Q, K and V, over all heads."""
        keys = self.key_value_heads * self.head_size
        return self.num_heads * self.head_size, keys, keys

    def is_local(self, layer: int) -> bool:
        """Checks whether a layer, counted from 0, has local attention."""
        return self.global_every == 0 or layer % self.global_every != self.first_global

    def theta(self, layer: int) -> float | None:
        """Finds the base of rotary embeddings in a layer, counted from 0; None: no rotary embeddings."""
        return (self.is_local(layer) and self.local_rope_theta) or self.rope_theta

    def activation_of(self, head: str) -> str:
        """Finds the name of the activation in a head's dense layer."""
        own = self.masked_lm_activation if head == "masked_lm" else None
        own = self.sequence_activation if HEADS[head].of_text else own
        return self.head_activation or own or self.activation

    def reads_pooler(self, head: str) -> bool:
        """Checks whether a head reads the pooler's output, so that a model with this head must have a pooler.

        Example:
            >>> from keras_bert import BertConfig
            >>> [BertConfig.named(name).reads_pooler("sequence") for name in ("bert-base", "roberta-base")]
            [True, False]
        """
        row = HEADS.get(head)
        if row is None or row.of_pooler or not row.of_text or self.head_norm or not self.sequence_pooler:
            return row is not None and row.of_pooler
        if row.is_list:  # RoBERTa's classifier has a layer that is its pooler in all but name
            return self.sequence_activation in (None, "tanh")
        return self.sequence_activation is None and (self.pooler or self.pooling == "first")

    def check_pooler(self, heads: Iterable[str]) -> None:
        """Raises ValueError if one of the heads reads the pooler, but the encoder has none."""
        readers = [head for head in heads if self.reads_pooler(head)]
        if readers and not self.pooler:
            raise ValueError(
                f"the head {readers[0]!r} of a {self.family} reads the pooler, but the encoder has none; build "
                "or load the encoder with pooler=True, which adds a new pooler, to be trained with the head"
            )

    @property
    def position_rows(self) -> int:
        """The number of rows of the position embedding table; 0 without one."""
        if not self.num_layers or self.rope_theta is not None or self.disentangled_buckets is not None:
            return 0
        return self.max_positions + (self.pad_token_id + 1 if self.positions_after_padding else 0)

    def check_vocabulary(self, tokens: int, is_whole: bool = False) -> None:
        """Raises ValueError if a vocabulary with this number of tokens cannot belong to this model.

        An embedding table has a row per token, and may be rounded up to a multiple of 8, 16, 32, 64 or 128 rows. With
        `is_whole`, up to 128 rows or 1% of the rows may be unused: the format of the vocabulary's file shows that no
        token is missing.
        """
        is_rounded_up = any(
            -(-tokens // multiple) * multiple == self.vocab_size for multiple in (1, 8, 16, 32, 64, 128)
        )
        has_unused_rows = is_whole and 0 <= self.vocab_size - tokens <= max(128, self.vocab_size // 100)
        if not is_rounded_up and not has_unused_rows:
            raise ValueError(
                f"the vocabulary has {tokens} tokens, but the model's embedding table has {self.vocab_size} rows; "
                "use the vocabulary that the model was trained with"
            )

    @classmethod
    def named(cls, name: str, **changes: Any) -> BertConfig:
        """Makes the config of a published size, a key of `SIZES`, such as "bert-base"; `changes` are fields to replace.

        Raises:
            ValueError: there is no such size.

        Example:
            >>> from keras_bert import BertConfig
            >>> BertConfig.named("albert-base", vocab_size=21128).embedding_size
            128
        """
        from keras_bert.sizes import SIZES

        if name not in SIZES:
            raise ValueError(f"there is no size {name!r}; the sizes are {', '.join(SIZES)}")
        return cls(**{**SIZES[name], **changes})

    # The sizes of Devlin et al. 2018, and of Turc et al. 2019 ("Well-Read Students Learn Better").

    @classmethod
    def base(cls, **changes: Any) -> BertConfig:
        """Makes BERT-Base: 12 layers, 768 wide, 12 heads; 110 M parameters. `changes` are fields to replace."""
        return cls.named("bert-base", **changes)

    @classmethod
    def large(cls, **changes: Any) -> BertConfig:
        """Makes BERT-Large: 24 layers, 1024 wide, 16 heads; 335 M parameters."""
        return cls.named("bert-large", **changes)

    @classmethod
    def tiny(cls, **changes: Any) -> BertConfig:
        """Makes BERT-Tiny: 2 layers, 128 wide, 2 heads; 4.4 M parameters."""
        return cls.named("bert-tiny", **changes)

    @classmethod
    def mini(cls, **changes: Any) -> BertConfig:
        """Makes BERT-Mini: 4 layers, 256 wide, 4 heads; 11.2 M parameters."""
        return cls.named("bert-mini", **changes)

    @classmethod
    def small(cls, **changes: Any) -> BertConfig:
        """Makes BERT-Small: 4 layers, 512 wide, 8 heads; 28.8 M parameters."""
        return cls.named("bert-small", **changes)

    @classmethod
    def medium(cls, **changes: Any) -> BertConfig:
        """Makes BERT-Medium: 8 layers, 512 wide, 8 heads; 41.4 M parameters."""
        return cls.named("bert-medium", **changes)

    def to_dict(self) -> dict[str, Any]:
        """Lists the fields and values by name; `BertConfig(**config.to_dict())` equals the config."""
        values = dataclasses.asdict(self)
        for name in _NEWER:  # files and runs of other models stay as they are
            if values[name] == getattr(BertConfig, name):
                del values[name]
        return values


_NEWER = ("head_dim", "first_global", "sequence_pooler", "decoder_width")  # left out if they are the defaults


# Field -> its possible values.
_ALLOWED = {
    "activation": ACTIVATIONS,
    "norm": NORMS,
    "pooling": tuple(ENCODER_POOLINGS),
    "head_activation": (*ACTIVATIONS, None),
    "masked_lm_activation": (*ACTIVATIONS, None),
    "sequence_activation": (*ACTIVATIONS, "tanh", None),
}


def check_field(name: str, value: Any, label: str | None = None) -> None:
    """Raises ValueError if the value of a field is of another type or out of range; `label` names it in the message."""
    if name in _ALLOWED:
        return  # `BertConfig` checks these: a file may have other names for the values
    field, maximum = types_of(BertConfig)[name], None
    if field.may_be_none and value is None:
        return
    fits = field.fits(value)
    if field.kind is bool:
        expected = "True or False"
    elif field.kind is str:
        expected = "a name"
    elif name.endswith("dropout"):
        expected, fits = "a probability, at least 0 and below 1", fits and 0 <= value < 1
    elif field.kind is float:
        maximum = _MAX_FLOAT
        expected, fits = "a number above 0", fits and value > 0
        if fits and value < _MIN_FLOAT:
            expected, fits = f"a number of at least {_MIN_FLOAT}", False
    else:
        minimum = 0 if name in _FROM_ZERO or (name == "num_layers" and label is None) else 1  # files have layers
        maximum = _MAX_VALUES.get(name, _MAX_INTEGER)
        expected, fits = f"a whole number of at least {minimum}", fits and value >= minimum
    if fits and maximum is not None and value > maximum:
        expected, fits = f"at most {maximum:,}", False
    if not fits:
        raise ValueError(f"{label or name} must be {expected}, not {reprlib.repr(value)}")


# -- The types of fields. `BertConfig`, the tables of `formats` and the recipes check values by them.

_NUMBERS = {int: Integral, float: Real}  # NumPy's numbers fit, too


class FieldType(NamedTuple):
    """The type of a field."""

    kind: type  # bool, int, float, str or Mapping
    may_be_none: bool

    def fits(self, value: object) -> bool:
        """Checks whether a value is of this type. A whole number is also a float; True and False are not numbers."""
        if value is None:
            return self.may_be_none
        if isinstance(value, bool):
            return self.kind is bool
        return isinstance(value, _NUMBERS.get(self.kind, self.kind))


@functools.cache
def types_of(owner: type) -> dict[str, FieldType]:
    """Reads the types of a class's fields by name, from its annotations, such as `int | None`."""
    types = {}
    for name, hint in typing.get_type_hints(owner).items():
        kinds = typing.get_args(hint) or (hint,)
        types[name] = FieldType(next(kind for kind in kinds if kind is not NoneType), NoneType in kinds)
    return types
