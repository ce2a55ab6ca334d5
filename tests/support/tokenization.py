"""Compares tokenizers with the plain ones of `reference`; texts to compare them on."""

import io
import random
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import tensorflow as tf

from keras_bert.formats.tokenizers.tokenizer_json import template
from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer

from .reference import bytepair, wordpiece
from .texts import SENTENCES

# Characters with a rule of their own.
NASTY = "ΣσςİIıßẞÅÅKſﬁé\u0301\u0307\u0323\u0344\u200b\u200d\u00ad\ufeff\0\ufffd\x7f\x85\u2028\u00a0\u3000\u180e"
NASTY += "一〇々가각ﾊ豈𠀀😀🏽\ue000.,'’-_[]#$^`~中 \t\n\raAbB19"
# Texts that byte pairs split in special ways.
ODD_WORDS = ["", " ", "  ", "\n", " \n", "a  b", "a \n b ", "  's", " 's", "''s", "'s's'll've", "I'LL 'll", "x'd9'm"]
ODD_WORDS += ["\u3000'ta", "a\u00a0 b", "\u00a0\u00a0b", "1½²Ⅷ٣a", "<s>", "<mask>", "'", "'r", "'v e"]
ODD_WORDS += ["a\0b\x7f\x85\ufeff\ufffd\U0010ffff\U000e0041"]
# Texts that ALBERT's preparation or SentencePiece changes.
ODD_PIECES = ["", " ", "a  b", "in 2010, 1, x92000, 1,2,3, the", "a\x1cb\x1fe\x85c\x0bd", "``a''"]
ODD_PIECES += ["ÉÀ½ İ ÄΣ ΟΔΟΣ 3,\u00a0"]
ODD_PIECES += ["½", "\u0301", "line \0nul\0", "\u0301 a\u0301", "İÌÍĨĮ", "[CLS]a[SEP] <s>", "\u200ba", "K ſ ㎏ 漢字"]
UNIGRAM_TEXTS = [*SENTENCES, *ODD_PIECES, "Hello (world). a.b x-y", "`` ''' a'", "（x） \x85a", "😀 a👩‍👩‍👧b"]
UNIGRAM_TEXTS += ["한국어 हिन्दी ไทยนี้ ΟΔΟΣ", "", " a  b\t\nc "]


# What sentencepiece and Hugging Face's tokenizers do otherwise with the same model: marks behind a character that its
# normalization changes, U+0085 (XLM-RoBERTa's), and a "▁" in the text.
UNLIKE = re.compile("[\x85▁]|[^\0-\x7f][\u0300-\u036f]|\u20e3|[\u0900-\u0dff\u0e00-\u0e7f]")


def random_texts(chars: Sequence[str], count: int, longest: int = 40) -> list[str]:
    """Texts of up to `longest` random characters, the same in each call."""
    generator = random.Random(0)
    return ["".join(generator.choices(chars, k=generator.randrange(longest + 1))) for _ in range(count)]


def words_of(texts: Sequence[str]) -> list[str]:
    """A vocabulary for WordPiece: the words of the texts in every spelling, their halves, and their characters."""
    spellings = [(lower, strip) for lower in (True, False) for strip in (True, False)]
    words = [word for text in texts for each in spellings for word in wordpiece.words(wordpiece.normalize(text, *each))]
    words = sorted({"".join(char for char, _ in word) for word in words})
    parts = [part for word in words for part in (word, word[: len(word) // 2 + 1], *word)]
    parts += [f"##{part}" for word in words for part in (word[len(word) // 2 + 1 :], *word) if part]
    return [token for token in dict.fromkeys(parts) if not any(map(str.isspace, token))]


def compare_word_tokens(tokenizer: WordPieceTokenizer, texts: Sequence[str]) -> None:
    """Asserts that ids and offsets are those of the reference."""
    setting = {
        "lowercase": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "split_on_cjk": tokenizer.split_on_cjk,
        "max_chars": tokenizer.max_chars_per_word,
    }
    strips = tokenizer.lowercase if tokenizer.strip_accents is None else tokenizer.strip_accents
    vocabulary = {token: index for index, token in enumerate(tokenizer.vocabulary)}
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert tokenizer.tokenize(texts).to_list() == ids.to_list()
    for text, *got in zip(texts, ids.to_list(), starts.to_list(), ends.to_list(), strict=True):
        want = wordpiece.tokenize(text, vocabulary, **setting)
        assert got[0] == [vocabulary[token] for token, _, _ in want], ascii(text)
        byte = [0]
        for char in text:
            byte.append(byte[-1] + len(char.encode()))
        assert got[1] == [byte[first] for _, first, _ in want], ascii(text)
        stops = [last + 1 for _, _, last in want]
        if strips:  # stripped accents belong to the letter before them
            stops = [_after_marks(text, stop) for stop in stops]
        assert got[2] == [byte[stop] for stop in stops], ascii(text)


def _after_marks(text: str, stop: int) -> int:
    while stop < len(text) and unicodedata.category(text[stop]) == "Mn":
        stop += 1
    return stop


def compare_byte_pairs(tokenizer: BytePairTokenizer, texts: Sequence[str]) -> None:
    """Asserts that ids and offsets are those of the reference, and that the ids give the texts back."""
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    index = {token: i for i, token in enumerate(tokenizer.vocabulary)}
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert tokenizer.tokenize(texts).to_list() == ids.to_list()
    byte_of = {symbol: byte for byte, symbol in bytepair.SYMBOLS.items()}
    for text, row, first, last in zip(texts, ids.to_list(), starts.to_list(), ends.to_list(), strict=True):
        tokens = bytepair.tokenize(text, ranks)
        assert row == [index[token] for token in tokens], ascii(text)
        data, place = text.encode(), 0
        for token, start, end in zip(tokens, first, last, strict=True):
            raw = bytes(byte_of[symbol] for symbol in token)
            place += len(raw)
            assert end == place
            skipped = raw.startswith(b" ") and not raw.decode(errors="replace").isspace()
            assert data[start:end] == raw[skipped:], ascii(text)
    assert tokenizer.detokenize(ids).numpy().tolist() == [text.encode() for text in texts]


def is_known(char: str) -> bool:
    """Whether both Python's and TensorFlow's version of Unicode have the character."""
    in_python = unicodedata.category(char) not in ("Cs", "Cn")
    return in_python and (tf.strings.unicode_script(ord(char)) != 103 or unicodedata.category(char) == "Co")


def prepared(text: str, lowercase: bool = True, strip_accents: bool = True) -> str:
    """A text as google-research/albert prepares it for SentencePiece."""
    if strip_accents:
        text = unicodedata.normalize("NFKD", " ".join(text.split()))
        text = "".join(char for char in text if not unicodedata.combining(char))
    return text.lower() if lowercase else text


def albert_pieces(model: Any, text: str, **setting: bool) -> Iterator[str]:
    """Yields the tokens of google/sentencepiece's `model`; those that end in a digit and a comma are split."""
    for token in model.encode(prepared(text, **setting), out_type=str):
        if re.search(r"\d,$", token):
            number = model.encode(token[:-1].replace("▁", ""), out_type=str)
            if not token.startswith("▁"):
                number[0] = number[0].removeprefix("▁")
            yield from [part for part in number if part]
            yield ","
        else:
            yield token


def check_sentencepiece_spans(tokenizer: SentencePieceTokenizer, texts: Sequence[str]) -> None:
    """Asserts that spans are in order and within the text, and that in plain ASCII texts they spell their tokens."""
    ids, starts, ends = (ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts))
    assert tokenizer.tokenize(texts).to_list() == ids
    for text, *spans in zip(texts, ids, starts, ends, strict=True):
        before = 0
        for token_id, start, end in zip(*spans, strict=True):
            assert before <= start <= end <= len(text.encode()), ascii(text)
            before = start
            cut = text.encode()[start:end].decode()  # and whole characters
            token = tokenizer.vocabulary[token_id].replace("▁", "")
            spells = token_id != tokenizer.unk_token_id and not token.startswith("<0x")
            if text.isascii() and text.isprintable() and spells:
                assert (cut.strip().lower() if tokenizer.lowercase else cut.strip()) == token


ALBERT_SYMBOLS = ["(", ")", '"', "-", "."]


def wordpiece_json(tokenizer: WordPieceTokenizer) -> dict[str, Any]:
    """The `tokenizer.json` of a tokenizer with BERT's special tokens in front, as transformers 5 writes it."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    cls, sep = (("[CLS]", tokenizer.cls_token_id), ("[SEP]", tokenizer.sep_token_id))
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": token, **flags} for i, token in enumerate(tokenizer.vocabulary[:5])],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": tokenizer.split_on_cjk,
            "strip_accents": tokenizer.strip_accents,
            "lowercase": tokenizer.lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template(cls, sep, separators=1, second_type_id=1),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {token: i for i, token in enumerate(tokenizer.vocabulary)},
        },
    }


def bytepair_json(tokenizer: BytePairTokenizer) -> dict[str, Any]:
    """The `tokenizer.json` of a tokenizer with RoBERTa's special tokens, as transformers 5 writes it."""
    special = tokenizer.special_tokens.values()
    vocabulary = {token: i for i, token in enumerate(tokenizer.vocabulary)}
    cls, sep = (["<s>", tokenizer.cls_token_id], ["</s>", tokenizer.sep_token_id])
    return {
        "added_tokens": [{"id": vocabulary[token], "content": token, "special": True} for token in special],
        "normalizer": None,
        "post_processor": {"type": "RobertaProcessing", "sep": sep, "cls": cls},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": tokenizer.add_prefix_space, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": [list(pair) for pair in tokenizer.merges]},
    }


def train_albert() -> bytes:
    """A small SentencePiece model with ALBERT's special tokens and symbols."""
    names = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1, "control_symbols": ["[CLS]", "[SEP]", "[MASK]"]}
    sentences = [text for text in SENTENCES if not re.search("[가-힣]", text)]
    sentences += ["in 2010, 1, 2, of 10, and 1,2,3 or 12, the 2010, of a film x7, y7, z7, u7, v7, w7,"] * 9
    return train_sentencepiece(sentences, **names, user_defined_symbols=ALBERT_SYMBOLS)


def train_xlm_roberta() -> bytes:
    """A small SentencePiece model with XLM-RoBERTa's own layout: <unk>, <s>, </s> first."""
    return train_sentencepiece(SENTENCES, unk_id=0, bos_id=1, eos_id=2, pad_id=-1)


def train_deberta() -> bytes:
    """A small SentencePiece model with DeBERTa's special tokens, and a token for each byte."""
    names = dict(zip(("pad", "bos", "eos", "unk"), ("[PAD]", "[CLS]", "[SEP]", "[UNK]"), strict=True))
    ids = {f"{name}_id": index for index, name in enumerate(names)}
    pieces = {f"{name}_piece": token for name, token in names.items()}
    return train_sentencepiece(SENTENCES, **ids, **pieces, byte_fallback=True, vocab_size=850)


def train_sentencepiece(sentences: Sequence[str], **options: Any) -> bytes:
    library = pytest.importorskip("sentencepiece", reason="needs sentencepiece to train a small model")
    words = [word for text in sentences for word in text.split()]
    texts = iter([*sentences, *words, *"1234567890,1,2"] * 5)
    options = {"minloglevel": 2, "character_coverage": 1.0, "vocab_size": 600, **options}
    model = io.BytesIO()
    library.SentencePieceTrainer.train(sentence_iterator=texts, model_writer=model, **options)
    return model.getvalue()
