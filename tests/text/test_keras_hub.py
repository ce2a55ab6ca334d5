"""KerasHub's tokenizers: their files, made here as KerasHub writes them, and, live, their ids."""

import json

import pytest

from keras_bert.text import BytePairTokenizer, WordPieceTokenizer, load_tokenizer

from ..support.keras_hub import (
    BYTE_PAIRS,
    MERGES,
    ROBERTA_TOKENS,
    TOKENS,
    write_byte_pairs,
    write_tokenizer,
    write_wordpiece,
)
from ..support.messages import error_names

TEXTS = [
    "I love pizza, don't you?",
    "Café München über naïve ÀÉ",
    "中文 text 2024年, 3.5%",
    "  tabs\tand\nlines  ",
    "",
    "a" * 100,
    "a" * 101,
    "U.S.A. e-mail@x.org (hello) $100 1990, a1b2 — “quoted” 😀",
]


@pytest.mark.parametrize("class_name", ["BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"])
def test_word_tokens(class_name, tmp_path, untraced):
    write_wordpiece(tmp_path, class_name)
    tokenizer = load_tokenizer(tmp_path)
    assert isinstance(tokenizer, WordPieceTokenizer)
    assert (tokenizer.vocabulary, tokenizer.lowercase, tokenizer.strip_accents) == (TOKENS, False, False)
    assert tokenizer.tokenize(["a café 中文 A", "a" * 100, "a" * 101]).to_list() == [
        [5, 8, 9, 11, 12, 1],
        [5] + 99 * [6],
        [1],
    ]
    assert load_tokenizer(tmp_path, lowercase=True).tokenize(["A"]).to_list() == [[5]]


def test_settings_of_word_tokens(tmp_path, untraced):
    write_wordpiece(
        tmp_path, lowercase=True, strip_accents=True, special_tokens_in_strings=True, split_on_cjk=False, oov_token="b"
    )
    tokenizer = WordPieceTokenizer.from_preset(tmp_path)
    assert tokenizer.tokenize(["Café [MASK] 中文"]).to_list() == [[7, 4, 10]]


def test_an_older_file_says_less(tmp_path, untraced):
    """KerasHub's defaults stand, which are not ours."""
    write_wordpiece(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"class_name": "BertTokenizer", "config": {}, "registered_name": "keras_nlp>Bert"}))
    assert load_tokenizer(tmp_path).tokenize(["A café"]).to_list() == [[1, 8, 9]]


def test_byte_pairs(tmp_path, untraced):
    write_byte_pairs(tmp_path, add_prefix_space=True)
    tokenizer = load_tokenizer(tmp_path)
    assert isinstance(tokenizer, BytePairTokenizer)
    assert [tokenizer.vocabulary[i] for i in tokenizer.tokenize("love 1990").numpy()] == ["Ġlove", "Ġ", "19", "90"]


def test_sentencepiece(xlm_model, xlm_roberta, tmp_path, untraced):
    plain = {"proto": None, "sequence_length": None, "add_bos": False, "add_eos": False}
    write_tokenizer(tmp_path, "XLMRobertaTokenizer", {"vocabulary.spm": xlm_model.read_bytes()}, **plain)
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.get_config() == xlm_roberta.get_config()


REFUSED = {
    "no split": (write_wordpiece, {"split": False}, load_tokenizer, ["split", False, True]),
    "another prefix": (write_wordpiece, {"suffix_indicator": "@@"}, load_tokenizer, ["suffix_indicator", "'@@'"]),
    "a length": (write_wordpiece, {"sequence_length": 16}, load_tokenizer, ["sequence_length", 16, None]),
    "a string": (write_wordpiece, {"lowercase": "yes"}, load_tokenizer, ["'yes'", "config.lowercase", "true or false"]),
    "tokens": (write_wordpiece, {"special_tokens": ["[NAME]"]}, load_tokenizer, ["special_tokens", "['[NAME]']"]),
    "tokens of byte pairs": (
        *(write_byte_pairs, {"unsplittable_tokens": [*ROBERTA_TOKENS, "<user>"]}, load_tokenizer),
        ["unsplittable_tokens", "<user>"],
    ),
    "a class": (write_wordpiece, {"class_name": "GPT2Tokenizer"}, load_tokenizer, ["GPT2Tokenizer", "BertTokenizer"]),
    "a class of WordPiece": (
        *(write_wordpiece, {"class_name": "GPT2Tokenizer"}, WordPieceTokenizer.from_preset),
        ["GPT2Tokenizer", "BertTokenizer"],
    ),
    "a type": (write_wordpiece, {}, BytePairTokenizer.from_preset, ["BertTokenizer", "type WordPiece", "not BPE"]),
}


@pytest.mark.parametrize(("write", "settings", "read", "words"), REFUSED.values(), ids=REFUSED)
def test_settings_that_would_give_other_ids_are_refused(write, settings, read, words, tmp_path):
    write(tmp_path, **settings)
    with error_names(ValueError, tmp_path / "tokenizer.json", *words):
        read(tmp_path)


def test_albert_is_refused_with_a_way_out(albert_model, tmp_path):
    write_tokenizer(tmp_path, "AlbertTokenizer", {"vocabulary.spm": albert_model.read_bytes()})
    with error_names(ValueError, "AlbertTokenizer", "assets/tokenizer/vocabulary.spm", "spiece.model"):
        load_tokenizer(tmp_path)


def test_files_that_are_not_whole(tmp_path):
    write_wordpiece(tmp_path)
    (tmp_path / "assets/tokenizer/vocabulary.txt").unlink()
    with error_names(FileNotFoundError, "assets/tokenizer/vocabulary.txt"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"class_name": "BertTokenizer"}')
    with error_names(ValueError, "tokenizer.json", "no config", "object"):
        load_tokenizer(tmp_path)


# -- Live


@pytest.fixture(scope="module")
def models():
    return pytest.importorskip("keras_hub").models


def same_ids(theirs, directory):
    theirs.save_to_preset(str(directory))
    expected = [[int(number) for number in ids] for ids in theirs(TEXTS)]
    assert load_tokenizer(directory).tokenize(TEXTS).to_list() == expected


@pytest.mark.parity
@pytest.mark.parametrize(
    ("kind", "lowercase", "strip_accents"),
    [("Bert", False, False), ("Bert", True, True), ("DistilBert", True, False), ("Electra", False, True)],
)
def test_ids_of_word_tokens(models, kind, lowercase, strip_accents, vocabulary, tmp_path, untraced):
    tokenizer = getattr(models, f"{kind}Tokenizer")
    same_ids(tokenizer(vocabulary, lowercase=lowercase, strip_accents=strip_accents), tmp_path)


@pytest.mark.parity
@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_ids_of_byte_pairs(models, add_prefix_space, tmp_path, untraced):
    vocabulary = {token: i for i, token in enumerate(BYTE_PAIRS)}
    same_ids(models.RobertaTokenizer(vocabulary, MERGES, add_prefix_space=add_prefix_space), tmp_path)


@pytest.mark.parity
def test_ids_of_sentencepiece(models, xlm_model, tmp_path, untraced):
    same_ids(models.XLMRobertaTokenizer(xlm_model.read_bytes()), tmp_path)
