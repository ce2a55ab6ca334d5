"""How each model family uses its SentencePiece model."""

from dataclasses import dataclass

from keras_bert.text.packing import BERT_PAIRS, ROBERTA_PAIRS, PairFormat

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
