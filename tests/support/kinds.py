"""Small tokenizers of every kind, and texts to compare them on: whatever may go wrong in a text."""

import functools

from keras_bert.text import SentencePieceTokenizer, WordPieceTokenizer

from . import small
from .reference import bytepair
from .texts import SENTENCES
from .tokenization import (
    NASTY,
    ODD_PIECES,
    ODD_WORDS,
    UNIGRAM_TEXTS,
    random_texts,
    train_albert,
    train_deberta,
    train_xlm_roberta,
    words_of,
)

WORDS = [token for token in words_of(SENTENCES) if token not in small.SPECIAL]
MPNET = {name: f"<{name[:-6]}>" for name in ("pad_token", "mask_token")} | {"cls_token": "<s>", "sep_token": "</s>"}
merges = functools.cache(lambda: bytepair.train(SENTENCES, 120))


def piece(train, family):
    return SentencePieceTokenizer(train(), family=family)


# What `tokenizers` reads otherwise than the tokenizers in the graph do: it drops characters for private use, has no
# final sigma, and normalizes a character with several marks, or with vowel signs, by the first of them.
PRIVATE, SIGMA, MARKS = "\ue000", "Σ", "[^\0-\x7f][\u0300-\u036f]|[\u0300-\u036f]{2}|\u0344"
# Kind -> what makes its tokenizer, and the texts that get other ids.
KINDS = {
    "wordpiece": (lambda: WordPieceTokenizer([*small.SPECIAL, *WORDS]), f"{PRIVATE}|{SIGMA}"),
    "cased": (lambda: WordPieceTokenizer([*small.SPECIAL, *WORDS], lowercase=False), PRIVATE),
    "accents": (
        lambda: WordPieceTokenizer([*small.SPECIAL, *WORDS], strip_accents=False, split_on_cjk=False),
        f"{PRIVATE}|{SIGMA}",
    ),
    "mpnet": (
        lambda: WordPieceTokenizer(
            [*MPNET.values(), "<unk>", "[UNK]", *WORDS], **MPNET, separators=2, second_type_id=0
        ),
        f"{PRIVATE}|{SIGMA}",
    ),
    "gpt2": (lambda: small.byte_pairs(merges()), None),
    "spaced": (lambda: small.byte_pairs(merges(), add_prefix_space=True), None),
    "modernbert": (lambda: small.modern_byte_pairs(merges()), None),
    "llama3": (lambda: small.modern_byte_pairs(merges(), split="llama3", normalization=None), None),
    "digits": (lambda: small.modern_byte_pairs(merges(), split="digits", normalization=None), None),
    "albert": (lambda: piece(train_albert, "albert"), f"{SIGMA}|[\u0980-\u0dff]"),
    "albert-transformers": (lambda: piece(train_albert, "albert-transformers"), f"{SIGMA}|[\u0980-\u0dff]"),
    "xlm-roberta": (lambda: piece(train_xlm_roberta, "xlm-roberta"), MARKS),
    "camembert": (lambda: piece(train_xlm_roberta, "camembert"), MARKS),
    "deberta-v2": (lambda: piece(train_deberta, "deberta-v2"), MARKS),
}

_SPELLED = "[CLS] [SEP] [MASK] [PAD] [UNK] <s> </s> <mask> <pad> <unk> <|end|> <0x41> <0xF0> <s>NOTUSED ▁ ▁▁a a▁ Ġa ##a"
_HOSTILE = [spelled.join(around) for spelled in _SPELLED.split() for around in (("", ""), ("a", "b"), (" ", " x"))]
_HOSTILE += [
    "\0",
    "a\0b",
    "\ufffd\U0010ffff",
    "a" * 300,
    "漢" * 300,
    "\u0301" * 50,
    "½\u0301",
    "\u200d\u200d",
    "\ufeffa",
]
_HOSTILE += [
    "\r\n\t \x0b\x0c",
    "\x1c\x1d",
    "\x85\x85a",
    "\u2028a",
    " " * 1000,
    "x " * 600,
    "\x1b[31m",
    "'; --",
    "𝔄ﬁ㎏Ａ",
]
_HOSTILE += random_texts(NASTY + "<>[]/|sCLSEPMAKunk▁Ġ#0x4F½㎏ﬁ\x85\u2028", 300, 30)
HOSTILE = [*SENTENCES, *UNIGRAM_TEXTS, *ODD_WORDS, *ODD_PIECES, *_HOSTILE]
