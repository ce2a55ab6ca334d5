"""Reads and writes google/sentencepiece's models, serialized `ModelProto`s, and checks them."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory, text_format

from keras_bert.text.packing import BERT_PAIRS, ROBERTA_PAIRS, PairFormat

# The used parts of google/sentencepiece's sentencepiece_model.proto; protobuf keeps all others. There, `type` is an
# enumeration, which would hide unknown numbers.
_SCHEMA = """
    name: "keras_bert/sentencepiece_model.proto"
    message_type {
      name: "SentencePiece"
      field { name: "piece" number: 1 type: TYPE_STRING }
      field { name: "score" number: 2 type: TYPE_FLOAT }
      field { name: "type" number: 3 type: TYPE_INT32 default_value: "1" }
    }
    message_type {
      name: "TrainerSpec"
      field { name: "model_type" number: 3 type: TYPE_INT32 }
    }
    message_type {
      name: "NormalizerSpec"
      field { name: "precompiled_charsmap" number: 2 type: TYPE_BYTES }
    }
    message_type {
      name: "ModelProto"
      field { name: "pieces" number: 1 type: TYPE_MESSAGE type_name: "SentencePiece" label: LABEL_REPEATED }
      field { name: "trainer_spec" number: 2 type: TYPE_MESSAGE type_name: "TrainerSpec" }
      field { name: "normalizer_spec" number: 3 type: TYPE_MESSAGE type_name: "NormalizerSpec" }
    }
"""

# SentencePiece.Type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
_TYPES = range(1, 7)  # and UNUSED
_UNIGRAM = 1  # TrainerSpec.ModelType


def _model_class() -> Any:
    pool = descriptor_pool.DescriptorPool()  # not the default pool: other libraries register these names there
    pool.AddSerializedFile(text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto()).SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ModelProto"))


ModelProto = _model_class()


def read_model(model: bytes) -> ModelProto:
    """Parses and checks a serialized `ModelProto`. TensorFlow Text's operation ends the process on some bad models.

    The result has `pieces` (each with `piece`, a str, `score`, the natural logarithm of its probability, and `type`,
    one of the above; the index is the id), and `normalizer_spec.precompiled_charsmap`.

    Raises:
        ValueError: the bytes are not a model, or a piece is empty, repeated, has a U+0000, or a score that is not
            finite.

    Example:
        >>> model = unigram_model([("<unk>", 0.0, UNKNOWN), ("▁a", -1.5, NORMAL)], b"")
        >>> [(each.piece, each.score, each.type) for each in read_model(model).pieces]
        [('<unk>', 0.0, 2), ('▁a', -1.5, 1)]
    """
    try:
        proto = ModelProto.FromString(model)
        pieces = [(each.piece, each.score, each.type) for each in proto.pieces]
    except message.DecodeError as error:
        raise ValueError(f"it cannot be read ({error})") from None
    if not pieces:
        raise ValueError("it has no pieces")
    seen: dict[str, int] = {}
    for number, (text, score, kind) in enumerate(pieces):
        if not isinstance(text, str):  # invalid UTF-8 stays bytes
            raise ValueError(f"piece {number} is {text!r}, which is not UTF-8")
        if not text or "\0" in text:
            raise ValueError(f"piece {number} is {'empty' if not text else f'{text!r}, with a U+0000'}")
        if text in seen:
            raise ValueError(f"piece {number} is {text!r}, like piece {seen[text]}")
        if not math.isfinite(score):
            raise ValueError(f"piece {number}, {text!r}, has the score {score}")
        if kind == BYTE and not re.fullmatch("<0x[0-9A-F]{2}>", text):
            raise ValueError(f"piece {number}, {text!r}, has the type of a byte; expected <0x00> to <0xFF>")
        if kind not in _TYPES:
            raise ValueError(f"piece {number}, {text!r}, has the type {kind}; expected {_TYPES[0]} to {_TYPES[-1]}")
        seen[text] = number
    unknown = sum(kind == UNKNOWN for _, _, kind in pieces)
    if unknown != 1:
        raise ValueError(f"it has {unknown} pieces of the type for unknown text; expected 1")
    return proto


def unigram_model(pieces: Iterable[tuple[str, float, int]], charsmap: bytes) -> bytes:
    """A serialized model of type Unigram, with SentencePiece's defaults: a space in front, runs of spaces become one.

    Args:
        pieces: the text, score (rounded to float32) and type of each piece.
        charsmap: the table of the normalization, `precompiled_charsmap`.
    """
    proto = ModelProto(trainer_spec={"model_type": _UNIGRAM}, normalizer_spec={"precompiled_charsmap": charsmap})
    for text, score, kind in pieces:
        proto.pieces.add(piece=text, score=score, type=kind)
    return proto.SerializeToString()


# -- How each model family uses its SentencePiece model.

SPACE = "▁"  # in SentencePiece's tokens


def ends_in_comma(token: str) -> bool:
    """Whether a token ends in a digit and a comma; ALBERT splits such tokens."""
    return len(token) > 1 and token[-1] == "," and token[-2].isdigit()


@dataclass(frozen=True)
class SentencePieceFamily:
    """How a model family uses its SentencePiece model."""

    model: str | None  # the name of the model's file; None: the model is only in `tokenizer.json`
    transformers_class: str  # the tokenizer's class in transformers
    model_inputs: tuple[str, ...]  # the outputs of that class, in its usual order
    special_tokens: dict[str, str]
    pair_format: PairFormat
    lowercase: bool = False  # default of the tokenizer's argument
    strip_accents: bool = False  # default of the tokenizer's argument
    first: tuple[str, ...] = ()  # the vocabulary: `first`, the model's tokens after `skipped` ones, `last`
    hidden: tuple[str, ...] = ()  # those of `first` whose scores in `tokenizer.json` keep them out of texts
    skipped: int = 0
    last: tuple[str, ...] = ()
    splits_commas: bool = False  # whether to split a comma off a digit, as `encode_pieces` of google-research/albert
    # Whether our files name a class of transformers that follows tokenizer.json: `transformers_class` would normalize
    # text in its own way.
    as_any_class: bool = False
    # Whether to normalize as transformers 5 does for ALBERT, see `CompatibilityNormalizer`, and to begin a word after
    # each user-defined symbol of the model, such as `-`.
    as_transformers: bool = False


_NAMES = {"unk_token": "<unk>", "pad_token": "<pad>"}
_ALBERT = {
    "transformers_class": "AlbertTokenizer",
    "model_inputs": ("input_ids", "token_type_ids", "attention_mask"),
    "special_tokens": {**_NAMES, "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"},
    "pair_format": BERT_PAIRS,
    "lowercase": True,
    "strip_accents": True,
}

FAMILIES = {
    "albert": SentencePieceFamily("spiece.model", **_ALBERT, splits_commas=True),
    "albert-transformers": SentencePieceFamily(None, **_ALBERT, as_transformers=True),
    # fairseq's dictionary begins with four tokens of its own, the model with <unk>, <s> and </s>.
    "xlm-roberta": SentencePieceFamily(
        "sentencepiece.bpe.model",
        "XLMRobertaTokenizer",
        ("input_ids", "attention_mask"),
        {**_NAMES, "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"},
        ROBERTA_PAIRS,
        first=("<s>", "<pad>", "</s>", "<unk>"),
        skipped=3,
        last=("<mask>",),
    ),
    # fairseq's dictionary has its own tokens, of which <pad> and <unk> are used, and then all of the model's.
    "camembert": SentencePieceFamily(
        "sentencepiece.bpe.model",
        "CamembertTokenizer",
        ("input_ids", "attention_mask"),
        {**_NAMES, "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"},
        ROBERTA_PAIRS,
        first=("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
        hidden=("<unk>NOTUSED",),
        skipped=1,
        last=("<mask>",),
    ),
    "deberta-v2": SentencePieceFamily(
        "spm.model",
        "DebertaV2Tokenizer",
        ("input_ids", "token_type_ids", "attention_mask"),
        {name: f"[{name[:-6].upper()}]" for name in ("unk_token", "pad_token", "cls_token", "sep_token", "mask_token")},
        BERT_PAIRS,
        last=("[MASK]",),
        as_any_class=True,
    ),
}
