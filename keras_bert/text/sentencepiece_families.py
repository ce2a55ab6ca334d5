"""How each family of models uses its SentencePiece model, as data without code."""

from dataclasses import dataclass

from keras_bert.text.packing import BERT_PAIRS, ROBERTA_PAIRS, PairFormat

SPACE = "▁"  # as a token of SentencePiece has it


def ends_in_comma(token: str) -> bool:
    """Whether a token is one of those that ALBERT splits: it ends in a digit and a comma."""
    return len(token) > 1 and token[-1] == "," and token[-2].isdigit()


@dataclass(frozen=True)
class SentencePieceFamily:
    """How a family of models uses its SentencePiece model.

    Attributes:
        model: the name of the model's file; None: the model is in `tokenizer.json` only.
        transformers_class: the tokenizer's class in transformers.
        model_inputs: the outputs of that class, in its usual order.
        special_tokens: the names of the special tokens.
        pair_format: how a pair of texts is packed.
        lowercase, strip_accents: the defaults of the tokenizer's arguments.
        first, skipped, last: the vocabulary is `first`, the model's tokens without the first `skipped`, `last`.
        splits_commas: whether a comma behind a digit is a token of its own, as in `encode_pieces` of
            google-research/albert.
        as_transformers: whether text is normalized as transformers 5 does it for ALBERT, see `CompatibilityNormalizer`,
            and a user-defined symbol of the model, such as `-`, ends a word, so that the next one begins behind it.
    """

    model: str | None
    transformers_class: str
    model_inputs: tuple[str, ...]
    special_tokens: dict[str, str]
    pair_format: PairFormat
    lowercase: bool = False
    strip_accents: bool = False
    first: tuple[str, ...] = ()
    skipped: int = 0
    last: tuple[str, ...] = ()
    splits_commas: bool = False
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
    # fairseq's dictionary has four tokens of its own in front, where the model has <unk>, <s> and </s>.
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
}
