"""Every family, with the kind of tokenizer that it has, from texts through an export, `load` and its tokenizer."""

import functools
import re

import numpy as np
import pytest

from keras_bert import BertConfig, BertPreprocessor, BertSentenceEncoder
from keras_bert.formats.families import ULTRABERT
from keras_bert.runtimes import export_onnx, export_openvino, load
from keras_bert.text import SentencePieceTokenizer, WordPieceTokenizer

from ..support import small, tokenization
from ..support.encoders import random_encoder
from ..support.reference import bytepair
from ..support.texts import SENTENCES

pytest.importorskip("tf2onnx", reason="needs the extra runtimes")
pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")
pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]

WORDS = [token for token in tokenization.words_of(SENTENCES) if token not in small.SPECIAL]
MPNET = {name: f"<{name[:-6]}>" for name in ("pad_token", "mask_token")} | {"cls_token": "<s>", "sep_token": "</s>"}
merges = functools.cache(lambda: bytepair.train(SENTENCES, 120))


def piece(train, family):
    return SentencePieceTokenizer(train(), family=family)


TOKENIZERS = {
    "wordpiece": lambda: WordPieceTokenizer([*small.SPECIAL, *WORDS]),
    "mpnet": lambda: WordPieceTokenizer(
        [*MPNET.values(), "<unk>", "[UNK]", *WORDS], **MPNET, separators=2, second_type_id=0
    ),
    "gpt2": lambda: small.byte_pairs(merges()),
    "modernbert": lambda: small.modern_byte_pairs(merges()),
    "llama3": lambda: small.modern_byte_pairs(merges(), split="llama3", normalization=None),
    "digits": lambda: small.modern_byte_pairs(merges(), split="digits", normalization=None),
    "albert": lambda: piece(tokenization.train_albert, "albert"),
    "xlm-roberta": lambda: piece(tokenization.train_xlm_roberta, "xlm-roberta"),
    "camembert": lambda: piece(tokenization.train_xlm_roberta, "camembert"),
    "deberta-v2": lambda: piece(tokenization.train_deberta, "deberta-v2"),
}
# What `tokenizers` reads otherwise than the tokenizers in the graph do: it drops characters for private use, has no
# final sigma, and normalizes a character with several marks, or with vowel signs, by the first of them.
PRIVATE, SIGMA, MARKS = "\ue000", "Σ", "[^\0-\x7f][\u0300-\u036f]|[\u0300-\u036f]{2}|\u0344"
# Family -> a size with its switches, changes of it, its tokenizer, and the texts that get other ids.
TABLE = {
    "bert": ("bert-base", {}, "wordpiece", f"{PRIVATE}|{SIGMA}"),
    "ernie": ("bert-base", {}, "wordpiece", f"{PRIVATE}|{SIGMA}"),
    "distilbert": ("distilbert-base", {}, "wordpiece", f"{PRIVATE}|{SIGMA}"),
    "electra": ("electra-small", {"embedding_size": 16}, "wordpiece", f"{PRIVATE}|{SIGMA}"),
    "nomic_bert": ("nomic-bert-2048", {}, "wordpiece", f"{PRIVATE}|{SIGMA}"),
    "gte": ("gte-large-en-v1.5", {"rope_factor": 1.0}, "wordpiece", f"{PRIVATE}|{SIGMA}"),
    "neobert": ("neobert", {}, "wordpiece", f"{PRIVATE}|{SIGMA}"),
    "mpnet": ("mpnet-base", {}, "mpnet", f"{PRIVATE}|{SIGMA}"),
    "roberta": ("roberta-base", {}, "gpt2", None),
    "modernbert": ("modernbert-base", {"local_window": 6}, "modernbert", None),
    "eurobert": ("eurobert-610m", {"num_key_value_heads": 2}, "llama3", None),
    "ultrabert": (
        "eurobert-210m",
        ULTRABERT.size | {"family": "ultrabert", "local_window": 6},
        "digits",
        None,
    ),
    "albert": ("albert-base", {"embedding_size": 16}, "albert", f"{SIGMA}|[\u0980-\u0dff]"),
    "xlm-roberta": ("xlm-roberta-base", {}, "xlm-roberta", MARKS),
    "new": ("gte-large-en-v1.5", {}, "xlm-roberta", MARKS),
    "jina_embeddings_v3": ("jina-embeddings-v3", {}, "xlm-roberta", MARKS),
    "camembert": ("xlm-roberta-base", {}, "camembert", MARKS),
    "deberta-v2": ("deberta-v3-base", {"disentangled_buckets": 4}, "deberta-v2", MARKS),
}
SIZES = {"hidden_size": 24, "num_layers": 1, "num_heads": 4, "intermediate_size": 40, "max_positions": 32}
SPELLED = "[CLS] [SEP] [MASK] [PAD] [UNK] <s> </s> <mask> <pad> <unk> <|end|> <0x41> <0xF0> <s>NOTUSED ▁ ▁▁a a▁ Ġa ##a"
HOSTILE = [spelled.join(around) for spelled in SPELLED.split() for around in (("", ""), ("a", "b"), (" ", " x"))]
HOSTILE += [
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
HOSTILE += [
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
HOSTILE += tokenization.random_texts(tokenization.NASTY + "<>[]/|sCLSEPMAKunk▁Ġ#0x4F½㎏ﬁ\x85\u2028", 300, 30)
TEXTS = [*SENTENCES, *tokenization.UNIGRAM_TEXTS, *tokenization.ODD_WORDS, *tokenization.ODD_PIECES, *HOSTILE]


@pytest.mark.parametrize(
    ("export", "family"), [*((export_onnx, each) for each in TABLE), (export_openvino, "deberta-v2")]
)
def test_texts_through_an_export(export, family, tmp_path):
    size, changes, kind, unlike = TABLE[family]
    tokenizer = TOKENIZERS[kind]()
    values = {"vocab_size": tokenizer.vocabulary_size, "pad_token_id": tokenizer.pad_token_id, "family": family}
    encoder = random_encoder(**BertConfig.named(size).to_dict() | SIZES | values | changes)
    ours = BertSentenceEncoder(encoder, BertPreprocessor(tokenizer, sequence_length=None, max_sequence_length=32))
    export(ours, tmp_path / "out")
    theirs = load(tmp_path / "out")
    expected = tokenizer.tokenize(TEXTS).to_list()
    found = [each.ids for each in theirs.preprocessor.tokenizer.encode_batch(TEXTS, add_special_tokens=False)]
    rows = zip(TEXTS, expected, found, strict=True)
    assert [(text, *row) for text, *row in rows if row[0] != row[1] and not re.search(unlike or "$^", text)] == []
    same = [text for text, *row in zip(TEXTS, expected, found, strict=True) if row[0] == row[1]]
    for name, value in theirs.preprocessor((same[:20], same[20:40])).items():
        np.testing.assert_array_equal(value, ours.preprocessor((same[:20], same[20:40]))[name])
    np.testing.assert_allclose(theirs.encode(same[:20]), ours.encode(same[:20]), atol=1e-4)
    np.testing.assert_allclose(theirs.encode(same[9]), ours.encode(same[9]), atol=1e-4)
