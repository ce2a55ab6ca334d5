"""Family: all that is special about a family of models, as names and numbers. `families/` has a file for each.

Nothing here reads or writes files, and `BertConfig` reads the fields of heads. `row_translator.py` follows the names.
A format is the form in which a library stores models: names, shapes and files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from keras_bert.choices import ENCODER_POOLINGS

if TYPE_CHECKING:
    from keras_bert.config import BertConfig

T = TypeVar("T")
Layers = Mapping[str, str | list[str]]  # this package's name of a layer, or of one weight -> the format's name or names
# Raises ValueError if the value of a field is wrong: `config.check_field`, with the field, the value, and its key.
Check = Callable[[str, Any, str], None]
Reader = Callable[[dict[str, Any], Check], dict[str, Any]]


class Storage(NamedTuple):
    """A format's way to store this package's kernels, `[inputs, outputs]`, and other weights; see `storage.py`."""

    transposed: tuple[str, ...] = ()  # suffixes of the names of weights that are `[outputs, inputs]` in the file
    # Whether attention has an axis for the heads: query `[hidden, heads, size]`, output `[heads, size, hidden]`.
    splits_heads: bool = False
    # Whether the file's position table lacks RoBERTa's first rows, which are for padding. They are read as zeros.
    lacks_padding_positions: bool = False
    cut_tables: tuple[str, ...] = ()  # weights of which a file may have more rows; only the first ones are read
    # This package's name of a layer in a block -> for each of its outputs, the index of that output in the file.
    orders: Mapping[str, Callable[[BertConfig], list[int]]] = {}


_OF_PYTORCH = {"kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias", "embeddings": ".weight"}


def _unchanged(value: T, *_: Check) -> T:
    return value


class Dialect(NamedTuple):
    """Functions that translate a family's unusual files to the form that its table describes, and back."""

    # Values of a configuration file -> values that the table reads. Raises ValueError if the table cannot express them.
    read: Reader = _unchanged
    write: Callable[[dict[str, Any]], dict[str, Any]] = _unchanged  # entries of the table -> entries of a file
    name: Callable[[str], str] = _unchanged  # name of a weight in older files -> name in the table


class Row(NamedTuple):
    """A format's names for the configuration and the weights of one family.

    A row of weights maps the path of a layer in this package's encoder or head to the format's name of that layer, or
    to a list of names:

        several names   the layer concatenates several layers of the format, such as query, key and value
        no names        the format has no such layer; its weights are zeros

    A row may also be a single weight ("logits/kernel"). `{i}` is the index of a layer, or of a group of layers.
    """

    classes: str  # prefix of the family's class names in the format's library: "Bert" of BertModel
    embeddings: Layers
    block: Layers
    endings: Mapping[str, str] = _OF_PYTORCH  # kind of a weight -> suffix to the name of the layer
    last: Mapping[str, str | list[str]] = {}  # between the last block and the pooler
    pooler: Mapping[str, str | list[str]] = {}  # empty if the family has no pooler
    heads: Mapping[str, Layers] = {}
    # Field of BertConfig -> key or keys of the configuration file. "a.b" is key b of the object under key a. If a field
    # has several keys, the first one in a file is read, and all are written.
    config: Mapping[str, str | tuple[str, ...]] = {}
    # As `config`, but written only if the value is not the default.
    written_if_changed: Mapping[str, str] = {}
    values: Mapping[str, object] = {}  # field -> its value if the file leaves it out
    # Field -> name of a value in files -> name in this package. If a value has several names, the first one is written.
    choices: Mapping[str, Mapping[str, str]] = {}
    # Key of an option of other networks -> the only value that is supported. A file may leave the key out.
    fixed_values: Mapping[str, object] = {}
    # Key of an option that a file must have -> its supported values. The first one is written.
    required_options: Mapping[str, tuple[object, ...]] = {}
    # Key of an option that the config determines -> its value. A file may repeat this value, but not contradict it.
    implied: Mapping[str, Callable[[BertConfig], object]] = {}
    without_effect: Collection[str] = ()  # keys of options that do not change what this package computes
    storage: Storage = Storage(transposed=("kernel",))  # as PyTorch's
    prefix: str = ""  # begins the names of the encoder's weights in a file with heads
    dialect: Dialect = Dialect()


class SentencePieceFamily(NamedTuple):
    """The use that a model family makes of its SentencePiece model."""

    model: str | None  # the name of the model's file; None: the model is only in `tokenizer.json`
    transformers_class: str  # the tokenizer's class in transformers
    model_inputs: tuple[str, ...]  # the outputs of that class, in its usual order
    special_tokens: dict[str, str]  # none: all are the model's unknown token
    separators: int  # between the texts of a pair
    second_type_id: int  # of the second text of a pair
    lowercase: bool = False  # default of the tokenizer's argument
    strip_accents: bool = False  # default of the tokenizer's argument
    first: tuple[str, ...] = ()  # the vocabulary is `first`, the model's tokens without the first `skipped`, and `last`
    hidden: tuple[str, ...] = ()  # tokens of `first` with so low a score in `tokenizer.json` that no text has them
    skipped: int = 0
    last: tuple[str, ...] = ()
    splits_commas: bool = False  # whether to split a comma off a digit, as `encode_pieces` of google-research/albert
    # Whether written files name transformers' generic class, which follows tokenizer.json, because `transformers_class`
    # would normalize text in its own way.
    as_any_class: bool = False
    # Whether to normalize as transformers 5 does for ALBERT, see `CompatibilityNormalizer`, and to begin a word after
    # each user-defined symbol of the model, such as `-`.
    as_transformers: bool = False
    packing: str = "special"  # one of `choices.PACKINGS`
    is_alone: bool = False  # whether its `tokenizer.json` is read without a model, and known by its special tokens
    pads_punctuation: bool = False  # whether to put spaces around ASCII's punctuation; then tokens may span words


class Family(NamedTuple):
    """A family of models: its names in the files of transformers, its published sizes, and its tokenizer."""

    name: str  # the `model_type` in config.json, which is `BertConfig.family`
    hugging_face: Row  # other formats have their names in their files: `libraries/keras_hub.py`, `tensorflow/tf1.py`
    in_tensorflow: str = ""  # name of the encoder's layer in the TensorFlow classes of transformers 4
    heads: Mapping[str, Any] = {}  # the fields of its heads that differ from BERT's
    size: Mapping[str, Any] = {}  # the fields that differ from BERT's in all published sizes
    sizes: Mapping[str, Mapping[str, Any]] = {}  # name of a size -> its other fields
    tokenizer_class: str = ""  # that transformers 5 takes if `tokenizer_config.json` names none
    wordpiece: Mapping[str, int] = {}  # the arguments of `WordPieceTokenizer` that follow from this class alone
    follows_tokenizer_json: bool = False  # whether transformers 5 does, whichever class the files name
    sentencepiece: Mapping[str, SentencePieceFamily] = {}  # by the name of such a tokenizer
    packing: str = "special"  # one of `choices.PACKINGS`


def size(layers: int, hidden: int, heads: int | None = None, **others: Any) -> dict[str, Any]:
    """Lists the fields of a size. In most, a head is 64 wide, and the feed-forward layer four times the hidden size."""
    sizes = {"num_layers": layers, "hidden_size": hidden, "num_heads": heads or hidden // 64}
    return {**sizes, "intermediate_size": 4 * hidden, **others}


def defaults_of(size: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the options of a published size that are defaults for a file that leaves them out."""
    return {name: value for name, value in size.items() if name not in ("vocab_size", "pooler")}


# -- Parts of many rows.

# "gelu" is x * Phi(x), with the error function. "gelu_tanh" is Google's approximation. After 12 layers, the outputs of
# the two differ by 1.6e-3.
ACTIVATIONS = {
    **dict.fromkeys(("gelu", "gelu_python"), "gelu"),
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast"), "gelu_tanh"),
    "relu": "relu",
    **dict.fromkeys(("silu", "swish"), "silu"),
}
CLASSIFIER_POOLINGS = {each.name: name for name, each in ENCODER_POOLINGS.items() if not each.is_late}
# Some files have the width of a head. In some of these families, it must be `hidden_size / num_heads`.
HEAD_DIM = {"head_dim": "head_dim"}
HEAD_SIZE = {"head_dim": lambda config: config.head_size}
QKV = ("query", "key", "value")
# Options of every model in transformers, with the values of a plain encoder.
NO_DECODER = {
    **dict.fromkeys(("is_decoder", "is_encoder_decoder", "add_cross_attention"), False),
    "pruned_heads": {},
    "quantization_config": None,
}

# Keys of Hugging Face's `config.json` that do not change what this package computes, in every family. A key that is
# neither here nor in a family's row gets a warning, because it might change the model's outputs.
# In every model: the origin of the file, the form of a call's result, and the generation of text.
_FILE = """
    _attn_implementation_autoset _commit_hash _name_or_path auto_map dtype export_model_type finetuning_task kwargs
    language name name_or_path pretrained_model_name_or_path task_specific_params tokenizer_class torch_dtype
    transformers.js_config transformers_version trust_remote_code
"""
_CALLS = """
    _attn_implementation attn_implementation chunk_size_feed_forward gradient_checkpointing output_attentions
    output_hidden_states output_past return_dict tf_legacy_loss torchscript use_bfloat16 use_cache
"""
_GENERATION = """
    bad_words_ids begin_suppress_tokens cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample
    early_stopping encoder_no_repeat_ngram_size eos_token_ids exponential_decay_length_penalty forced_bos_token_id
    forced_eos_token_id length_penalty max_length min_length no_repeat_ngram_size num_beam_groups num_beams
    num_return_sequences output_scores prefix remove_invalid_values repetition_penalty return_dict_in_generate
    suppress_tokens temperature tie_encoder_decoder top_k top_p typical_p
"""
# Special tokens come from the tokenizer's files. Whether a decoder is tied to the embeddings, the weights show.
_TOKENS = """
    bos_token bos_token_id cls_token cls_token_id eos_token eos_token_id mask_token mask_token_id pad_token sep_token
    sep_token_id tie_weights_ tie_word_embeddings
"""
# The labels and the task's settings, which tasks read; `label2id` and `num_labels` follow from `id2label`.
_TASKS = """
    _num_labels architectures id2label keras_bert label2id matryoshka_dimensions model_type num_labels problem_type
    sbert_ce_default_activation_function sentence_transformers
"""
# Rates of dropout in heads: tasks have an argument `dropout` instead.
_HEADS = """
    classifier_dropout classifier_dropout_prob cls_dropout pooler_dropout qa_dropout seq_classif_dropout
    summary_first_dropout summary_last_dropout
"""
# Of heads for multiple choice that only ELECTRA has, whose table checks them.
_SUMMARIES = "summary_activation summary_proj_to_labels summary_type summary_use_proj"
EVERYWHERE = frozenset(" ".join([_FILE, _CALLS, _GENERATION, _TOKENS, _TASKS, _HEADS, _SUMMARIES]).split())


# -- Functions of dialects.


def newer_keys(names: Mapping[str, str]) -> Reader:
    """Makes a `Dialect.read` that renames older keys to the table's; two different values raise ValueError."""

    def read(values: dict[str, Any], check: Check) -> dict[str, Any]:
        renamed = {key: value for key, value in values.items() if key not in names}
        for older, key in names.items():
            value, current = values.get(older), value_at(values, key)
            if value is not None and current not in (None, value):
                raise ValueError(f"{older} is {value!r}, but {key}, its newer name, is {current!r}; drop one")
            if value is not None:
                put(renamed, key, value)
        return renamed

    return read


def without_equal_sizes(embedding: str, hidden: str, default: int | None = None) -> Reader:
    """Makes a `Dialect.read` that sets the embeddings' width (or `default`) to None if it is the hidden size."""

    def read(values: dict[str, Any], check: Check) -> dict[str, Any]:
        size = default if values.get(embedding) is None else values[embedding]
        return {**values, embedding: None if size == values.get(hidden) else size}

    return read


def put(values: dict[str, Any], key: str, value: object) -> None:
    """Sets the value at a key. Dots lead into objects, which are copied."""
    *outer, last = key.split(".")
    for each in outer:
        values[each] = values = dict(values.get(each) or {})
    values[last] = value


def value_at(values: Mapping[str, object], key: str) -> Any:
    """Looks up the value at a key. Dots lead into objects. None if the key is missing."""
    value: object = values
    for each in key.split("."):
        value = value.get(each) if isinstance(value, Mapping) else None
    return value
