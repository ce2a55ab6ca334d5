"""What is no text, or no vocabulary, fails with a message that says what came and what to do."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text import WordPieceTokenizer

from ..support import small
from ..support.small import SPECIAL

EXPECTED = "expected a str, a list of str"
BAD_TEXTS = {
    "none": (None, TypeError, f"got None as text; {EXPECTED}"),
    "int": (3, TypeError, f"got int32 of shape .* as text; {EXPECTED}"),
    "ints": ([1, 2], TypeError, f"got int32 of shape .* as text; {EXPECTED}"),
    "floats": (np.array([1.0]), TypeError, f"got float64 of shape .* as text; {EXPECTED}"),
    "none inside": (["a", None], TypeError, rf"text 1 is None \(NoneType\); {EXPECTED}"),
    "int inside": (["a", "b", 7], TypeError, rf"text 2 is 7 \(int\); {EXPECTED}"),
    "none in an array": (np.array(["a", None], dtype=object), TypeError, rf"text 1 is None \(NoneType\); {EXPECTED}"),
    "nested": ([["a"], ["b"]], ValueError, rf"got strings of shape \(2, 1\); {EXPECTED}"),
    "unequally nested": ([["a"], ["b", "c"]], TypeError, rf"text 0 is \['a'\] \(list\); {EXPECTED}"),
    "ragged": (tf.ragged.constant([["a"]]), ValueError, f"got a RaggedTensor of shape .* as text; {EXPECTED}"),
    "dict": ({"text": "a"}, TypeError, r"texts is a dict with the columns 'text'; .* table\['text'\]"),
    "set": ({"a"}, TypeError, "texts is a set, which has no order; pass a list"),
    "generator": ((text for text in "ab"), TypeError, f"cannot read generator as text; {EXPECTED}"),
    "lone surrogate": (["ok", "ab\udc80"], ValueError, r"text 1 has the lone surrogate '\\udc80' at character 2"),
    "one lone surrogate": ("\ud83d", ValueError, r"text 0 has the lone surrogate '\\ud83d' at character 0"),
    "latin-1": ([b"fine", b"caf\xe9"], ValueError, "not valid UTF-8 .*: the text in row 1"),
    "encoded surrogate": (
        tf.constant(["a", "é", b"\xed\xa0\x80"]),
        ValueError,
        "not valid UTF-8 .*: the text in row 2",
    ),
    "overlong": ([b"\xc0\xaf"], ValueError, "not valid UTF-8 .*: the text in row 0"),
    "cut short": (["😀".encode()[:3]], ValueError, "not valid UTF-8 .*: the text in row 0"),
}


@pytest.fixture
def preprocessor():
    return small.preprocessor()


@pytest.mark.parametrize("case", BAD_TEXTS)
def test_bad_text(tokenizer, preprocessor, case, untraced):
    texts, error, message = BAD_TEXTS[case]
    for function in (tokenizer.tokenize, tokenizer.tokenize_with_offsets, preprocessor):
        with pytest.raises(error, match=message):
            function(texts)
    with pytest.raises(error, match=message):
        preprocessor((texts, texts))


def test_bad_text_in_a_graph(tokenizer):
    texts = tf.constant([b"fine", b"\xff"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"not valid UTF-8 .*: the text in row\] \[1\]"):
        list(tf.data.Dataset.from_tensors(texts).map(tokenizer.tokenize))


def test_bad_text_of_a_cased_tokenizer(untraced):
    cased = WordPieceTokenizer(small.VOCABULARY, lowercase=False)
    with pytest.raises(ValueError, match="not valid UTF-8"):
        cased.tokenize([b"fine", b"\xff"])


def test_empty_text_is_fine(preprocessor, untraced):
    for text in ("", "   ", "\x00"):
        assert preprocessor([text])["input_mask"].numpy().sum() == 2
    assert preprocessor([])["input_word_ids"].shape == (0, 3)
    assert preprocessor(("", ""))["input_type_ids"].numpy().tolist() == [0, 0, 1]


BAD_FILES = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n", "is empty"),
    "hole": (b"[PAD]\n[UNK]\n\na\n", "is damaged: line 3 is empty"),
    "duplicate": (b"[PAD]\na\nb\na\n", "has 'a' twice, in lines 2 and 4"),
    "space": (b"[PAD]\na b\n", "is damaged: line 2 has white space or a NUL inside, 'a b'"),
    "tab-separated": (b"[PAD]\t0\na\t1\n", "is damaged: line 1 has white space"),
    "zeros": (b"[PAD]\n\0\0\0\0\n", "is damaged: line 2 has white space or a NUL"),
    "not UTF-8": (b"[PAD]\na\n\xff\xfe\n", "line 3, is not UTF-8: bad byte 0xff"),
    "one long line": (b"x" * 300, "line 1 has over 256 bytes, 'xxx"),
    "cut off": ("\n".join(SPECIAL[:3]).encode(), r"has no \[SEP\]; add it, or pass its name there as sep_token="),
    "other names": (b"<s>\n</s>\n<unk>\n<pad>\n", r"has no \[UNK\]; add it, or pass its name there as unk_token="),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_vocabulary_file(case, tmp_path):
    content, message = BAD_FILES[case]
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        WordPieceTokenizer(path)
    assert str(path) in str(raised.value)


def test_bad_vocabulary_list():
    with pytest.raises(ValueError, match="the vocabulary is empty"):
        WordPieceTokenizer([])
    with pytest.raises(TypeError, match="a token must be a str, but line 6 is 7"):
        WordPieceTokenizer([*SPECIAL, 7])
    with pytest.raises(ValueError, match="has 'a' twice"):
        WordPieceTokenizer([*SPECIAL, "a", "a"])
    with pytest.raises(ValueError, match=r"has no \[MASK\]"):
        WordPieceTokenizer(SPECIAL[:4])
    with pytest.raises(ValueError, match="max_chars_per_word is 0"):
        WordPieceTokenizer(SPECIAL, max_chars_per_word=0)


def test_missing_vocabulary(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file .*nowhere"):
        WordPieceTokenizer(tmp_path / "nowhere.txt")
    with pytest.raises(FileNotFoundError, match=r"has no vocab\.txt or tokenizer\.json; it holds nothing"):
        WordPieceTokenizer.from_preset(tmp_path)


@pytest.mark.parametrize("content", ["{} \n", "\r\n{}", "{}\r\n", "\ufeff{}\n"])
def test_harmless_differences_of_the_file(content, tmp_path):
    separator = "\r\n" if "\r" in content else "\n"
    (tmp_path / "vocab.txt").write_bytes(content.strip(" \r\n").format(separator.join([*SPECIAL, "a"])).encode())
    assert WordPieceTokenizer(tmp_path / "vocab.txt").vocabulary == [*SPECIAL, "a"]


def test_a_token_of_white_space_is_never_found(untraced):
    """Chinese BERT has U+2028, which splits words."""
    tokenizer = WordPieceTokenizer([*SPECIAL, "\u2028", "a", "##a"])
    assert tokenizer.tokenize(["\u2028", "a\u2028a"]).to_list() == [[], [6, 6]]
