"""Byte pairs as in ModernBERT: composed text, tokens found anywhere in it, pairs of one type. As Hugging Face's."""

import itertools
import json

import pytest

from keras_bert.text import load_tokenizer

from ..support import small
from ..support.messages import error_names
from ..support.texts import SENTENCES
from ..support.tokenization import NASTY, ODD_WORDS, random_texts

ADDED = small.ADDED_TOKENS
PARTS = [*ADDED, *small.SPECIAL, "<|end|>", "e\u0301", "n", " ", "    ", "\n", "\0", "\1", "the", "'s", "日本", "|"]
PARTS += ["\u1100\u1161"]
TEXTS = [*SENTENCES, *ODD_WORDS, *random_texts(PARTS, 300, 9), *random_texts(NASTY, 60, 30)]


@pytest.fixture(scope="module")
def tokenizer(merges):
    return small.modern_byte_pairs(merges)


@pytest.fixture(scope="module")
def saved(tokenizer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("modern")
    tokenizer.save_preset(directory)
    return directory


@pytest.fixture
def theirs(saved, tokenizers):
    return tokenizers.Tokenizer.from_file(str(saved / "tokenizer.json"))


def test_same_as_hugging_face(tokenizer, theirs):
    theirs.encode_special_tokens = True  # special tokens in text are text
    ids = tokenizer.tokenize(TEXTS).to_list()
    assert ids == [each.ids for each in theirs.encode_batch(TEXTS, add_special_tokens=False)]
    assert {*range(tokenizer.vocabulary_size - len(ADDED), tokenizer.vocabulary_size)} <= {*itertools.chain(*ids)}


def test_special_tokens_as_hugging_face(merges, theirs, untraced):
    aware = small.modern_byte_pairs(merges, special_tokens_in_text=True)
    want = [each.ids for each in theirs.encode_batch(TEXTS, add_special_tokens=False)]
    assert aware.tokenize(TEXTS).to_list() == want


@pytest.mark.parametrize("prefix", [False, True])
def test_saved_and_read(merges, tokenizer, saved, prefix, tmp_path, untraced):
    assert sorted(file.name for file in saved.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    assert load_tokenizer(saved).get_config() == tokenizer.get_config()
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_text("of another tokenizer")
    changes = {"add_prefix_space": prefix, "separators": 2, "second_type_id": 1, "added_tokens": ADDED[:1]}
    other = small.modern_byte_pairs(merges, **changes)
    with error_names(FileExistsError, tmp_path, "vocab.json", "overwrite"):
        other.save_preset(tmp_path)
    other.save_preset(tmp_path, overwrite=True)
    assert load_tokenizer(tmp_path).get_config() == other.get_config()
    (tmp_path / "tokenizer_config.json").unlink()
    assert load_tokenizer(tmp_path).get_config() == other.get_config()


def test_merges_as_strings_and_the_padding_and_truncation_of_a_training(tokenizer, saved, tmp_path, untraced):
    """They change nothing."""
    content = json.loads((saved / "tokenizer.json").read_text("utf-8"))
    content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    content["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    content["padding"] = {"strategy": {"Fixed": 4}, "direction": "Right", "pad_id": 0, "pad_token": "[PAD]"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert load_tokenizer(tmp_path).get_config() == tokenizer.get_config()


def test_offsets(tokenizer, untraced):
    """Of composed characters, the span of their parts."""
    texts = ["cafe\u0301  [unused0]|||\u00a0né x", "", "ne\u0301e\u0301", "鑫c\u0327\u0301鑫", "plain   "]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == tokenizer.tokenize(texts).to_list()
    cut = [
        [(tokenizer.vocabulary[i], text.encode()[a:b]) for i, a, b in zip(*row, strict=True)]
        for text, *row in zip(texts, ids.to_list(), starts.to_list(), ends.to_list(), strict=True)
    ]
    added = [[part.decode() for token, part in row if token in ADDED] for row in cut]
    assert added == [["  ", "[unused0]", "|||", "né"], [], ["ne\u0301"], [], ["   "]]
    assert [part for _, part in cut[3]] == [
        *(bytes([byte]) for byte in "鑫".encode()),
        *["c\u0327\u0301".encode()] * len("\u1e09".encode()),
        *(bytes([byte]) for byte in "鑫".encode()),
    ]
    assert tokenizer.detokenize(ids).numpy()[2].decode() == "n\u00e9\u00e9"


def test_words(tokenizer, untraced):
    """Runs of spaces begin a word."""
    (words,) = tokenizer.group_by_word(tokenizer.tokenize(["x  y", "x[unused0] y"]))
    assert [[tokenizer.detokenize(word).numpy() for word in row] for row in words.to_list()] == [
        [b"x", b"  y"],
        [b"x[unused0]", b" y"],
    ]


def test_what_is_not_utf8(tokenizer, untraced):
    with error_names(ValueError, "valid UTF-8", "row 1"):
        tokenizer.tokenize(["a  b", b"  \xff", "b"])


# -- Published files


PROBE = "Hello, world!  It's 2026: naïve café 日本語 \n\n    indented"
IDS = [12092, 13, 1533, 2, 50276, 1147, 434, 1384, 1731, 27, 36060, 36241, 209, 49868, 19119, 241, 15267, 50274, 527]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["modernbert-base", "modernbert-base-transformers5", "modernbert-base-string-merges"])
def test_published_files(shared_data, name):
    ours = load_tokenizer(shared_data / "modern" / name)
    assert ours.tokenize(PROBE).numpy().tolist() == [*IDS, 8006]
    assert (ours.cls_token_id, ours.sep_token_id, ours.pad_token_id, ours.mask_token_id) == (50281, 50282, 50283, 50284)
