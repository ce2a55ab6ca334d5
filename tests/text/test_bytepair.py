"""BytePairTokenizer: the same pieces as a slow one, as the original's, and as Hugging Face's; files; long words."""

import json
import random

import hypothesis
import keras
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from keras_bert.text import BytePairTokenizer
from keras_bert.text.byte_level import _kinds, split_words
from keras_bert.text.merging import MergeRules

from . import reference_bytepair as reference
from .test_unicode import SENTENCES

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
ODD = [
    "",
    " ",
    "  ",
    "\n",
    " \n",
    "a  b",
    "a \n b ",
    "  's",
    " 's",
    "''s",
    "'s's'll've",
    "I'LL 'll",
    "x'd9'm",
    "\u3000'ta",
]
ODD += [
    "a\u00a0 b",
    "\u00a0\u00a0b",
    "1½²Ⅷ٣a",
    "<s>",
    "<mask>",
    "a\0b\x7f\x85\ufeff\ufffd\U0010ffff\U000e0041",
    "'",
    "'r",
    "'v e",
]


def make(merges, **options):
    pieces = [*SPECIAL, *reference.SYMBOLS.values(), *dict.fromkeys(a + b for a, b in merges)]
    return BytePairTokenizer(pieces, merges, **options)


@pytest.fixture(scope="module")
def merges():
    return reference.train(SENTENCES, 700)


@pytest.fixture(scope="module")
def tokenizer(merges):
    return make(merges)


@pytest.fixture(scope="module")
def roberta(shared_data):
    return BytePairTokenizer(shared_data / "vocabs/roberta_vocab.json", shared_data / "vocabs/roberta_merges.txt")


def compare(tokenizer, texts):
    """Holds ids, offsets and the way back to the reference."""
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    index = {piece: i for i, piece in enumerate(tokenizer.vocabulary)}
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert tokenizer.tokenize(texts).to_list() == ids.to_list()
    byte_of = {symbol: byte for byte, symbol in reference.SYMBOLS.items()}
    for text, row, first, last in zip(texts, ids.to_list(), starts.to_list(), ends.to_list(), strict=True):
        pieces = reference.tokenize(text, ranks)
        assert row == [index[piece] for piece in pieces], ascii(text)
        data, place = text.encode(), 0
        for piece, start, end in zip(pieces, first, last, strict=True):
            raw = bytes(byte_of[symbol] for symbol in piece)
            place += len(raw)
            assert end == place
            skipped = raw.startswith(b" ") and not raw.decode(errors="replace").isspace()
            assert data[start:end] == raw[skipped:], ascii(text)
    assert tokenizer.detokenize(ids).numpy().tolist() == [text.encode() for text in texts]


def test_sentences_in_many_languages(tokenizer):
    compare(tokenizer, [*SENTENCES, *ODD, " ".join(SENTENCES)])


def test_sentences_with_the_real_vocabulary(roberta):
    compare(roberta, [*SENTENCES, *ODD])


def test_a_real_book(shared_data, roberta):
    book = shared_data / "gutenberg/A-Tale-of-Two-Cities_98.txt"
    compare(roberta, book.read_text("utf-8").split("\n\n")[:1500])


def test_ids_of_the_original(shared_data, roberta):
    vectors = json.loads((shared_data / "verified_vectors.json").read_text("utf-8"))["roberta vocab+merges"]
    for text, ids in vectors.items():
        assert roberta.tokenize(text).numpy().tolist() == ids


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(
    st.lists(st.text(st.sampled_from("'stmdrevl  \n\t\u00a0\u3000é中😀\u0301½1.-") | st.characters()), max_size=4)
)
def test_arbitrary_unicode(tokenizer, known, texts):
    allowed = frozenset(known)
    compare(tokenizer, ["".join(char for char in text if char in allowed) for text in texts])


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(st.lists(st.text("'stmdrevlx  \n\u00a0é1½.-\"", max_size=30), max_size=5))
@hypothesis.example(["a  'sx", "a 'sx 'llama", "a  ", "  ", "", "x'tx'", "'", "\n\n'rex"])
def test_words_of_the_pattern(texts):
    """Whether or not a vocabulary shows it."""
    words = split_words(tf.constant(texts, tf.string)).to_list()
    assert words == [[word.encode() for word in reference.words(text)] for text in texts]


@pytest.fixture(scope="module")
def known():
    """Of what kind a character is, Python's and TensorFlow's Unicode agree on: the newest of one are left out."""
    kinds = _kinds()
    chars = [chr(code) for code in [*range(0xD800), *range(0xE000, 0x30000), 0x10FFFF] if code]
    return {char for char in chars if "OLNS"[kinds[min(ord(char), len(kinds) - 1)]] == reference.kind(char)} | {"\0"}


def test_kinds_of_characters(known):
    assert len(known) > 0.9 * 0x30000


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(st.lists(st.binary(max_size=300) | st.text("abh-", max_size=300).map(str.encode), max_size=3))
def test_merging_of_any_bytes(tokenizer, merges, words):
    """Also those that no text has; long ones are cut into windows."""
    index = {piece: i for i, piece in enumerate(tokenizer.vocabulary)}
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    want = [[index[p] for p in reference.merge([reference.SYMBOLS[b] for b in word], ranks)] for word in words]
    assert tokenizer._rules(tf.constant(words, tf.string)).to_list() == want


@pytest.mark.parametrize("unit", ["a", "ab", "aab", "é漢", "-=", "".join(chr(97 + i * i % 23) for i in range(50))])
def test_long_words(unit):
    """Windows begin wherever they may; the merges make runs of many lengths."""
    texts = [(unit * length)[:length] for length in (63, 64, 65, 95, 96, 97, 128, 129, 160, 161, 1000)]
    tokenizer = make(reference.train([texts[-1][:95], texts[-1][:128], unit * 3], 60))
    assert tokenizer._rules.window
    compare(tokenizer, [*texts, *(f"{text} {text}'s" for text in texts)])


def test_merges_that_cannot_be_cut():
    """abc is made in two ways, and the parts of one rule come later: only whole words are merged, as the rules say."""
    merges = [("b", "c"), ("ab", "c"), ("a", "b"), ("a", "bc"), ("abc", "abc")]
    tokenizer = make(merges)
    assert tokenizer._rules.window is None
    random.seed(0)
    compare(tokenizer, ["".join(random.choices("abc", k=k)) for k in (1, 5, 100, 400)])
    again = make([("a", "b"), ("b", "c"), ("a", "b")])  # the last of equal rules counts, as in a dict
    assert [again.vocabulary[i] for i in again.tokenize("abc")] == ["a", "bc"]


def test_windows_that_never_agree_grow():
    """A piece longer than a window: both cuts have it nowhere."""
    merges = [("a" * 2**i, "a" * 2**i) for i in range(9)]
    tokenizer = make(merges)
    compare(tokenizer, ["a" * 1000, "a" * 511, "b" + "a" * 2000 + "c"])


@pytest.mark.slow
@pytest.mark.parametrize("text", ["hello wörld " * 800_000, "x" * 10_000_000], ids=["words", "one word"])
def test_ten_megabytes(tokenizer, text):
    ids, starts, ends = tokenizer.tokenize_with_offsets(text)
    assert (starts[0], ends[-1]) == (0, len(text.encode()))
    assert tokenizer.detokenize(ids).numpy() == text.encode()


@pytest.mark.parametrize("alphabet", ["abcdefghijklmnopqrstuvwxyz", "漢字仮名交文日本語"])
def test_a_long_word_of_many_letters(tokenizer, merges, alphabet):
    random.seed(1)
    word = "".join(random.choices(alphabet, k=100_000))
    ids = tokenizer.tokenize(word).numpy().tolist()
    assert tokenizer.detokenize(ids).numpy() == word.encode()
    start = reference.tokenize(word[:3000], {pair: rank for rank, pair in enumerate(merges)})
    assert [tokenizer.vocabulary[i] for i in ids[: len(start) - 20]] == start[:-20]


@pytest.mark.slow
def test_prefix_space(merges):
    tokenizer = make(merges, add_prefix_space=True)
    plain = make(merges)
    texts = ["the", " the", "\nthe", "", "é x"]
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert ids.to_list() == plain.tokenize([" the", " the", " \nthe", "", " é x"]).to_list()
    for text, first, last in zip(texts, starts.to_list(), ends.to_list(), strict=True):
        cut = [text.encode()[a:b] for a, b in zip(first, last, strict=True)]
        assert b"".join(cut).replace(b" ", b"") == text.encode().replace(b" ", b"")
    assert tokenizer.detokenize(ids[0]).numpy() == b" the"


@pytest.mark.slow
def test_special_tokens_in_text(merges):
    plain, aware = make(merges), make(merges, special_tokens_in_text=True)
    text = "Paris is  \u3000<mask> of <mask>,<s>x </s>"
    assert plain.mask_token_id not in plain.tokenize(text).numpy()
    ids, starts, ends = aware.tokenize_with_offsets([text, "", "<mask>"])
    parts = [plain.tokenize(part).numpy().tolist() for part in ("Paris is", " of", ",", "x ")]
    mask, cls, sep = aware.mask_token_id, aware.cls_token_id, aware.sep_token_id
    assert ids.to_list() == [[*parts[0], mask, *parts[1], mask, *parts[2], cls, *parts[3], sep], [], [mask]]
    assert aware.tokenize([text, "", "<mask>"]).to_list() == ids.to_list()
    cut = [text.encode()[a:b] for i, a, b in zip(ids[0], starts[0], ends[0], strict=True) if i == mask]
    assert cut == [b"<mask>", b"<mask>"]


def test_words(tokenizer):
    """A word begins with the space before it; what follows without one belongs to it."""
    ids = tokenizer.tokenize(["the fox, it", "", "x"])
    (words,) = tokenizer.group_by_word(ids)
    text = [[tokenizer.detokenize(word).numpy().decode() for word in row] for row in words.to_list()]
    assert text == [["the", " fox,", " it"], [], ["x"]]


def test_detokenize_is_exact(tokenizer):
    ids = tokenizer.tokenize("漢").numpy().tolist()
    assert tokenizer.detokenize(ids[:-1]).numpy() == "漢".encode()[:-1]  # half a character stays half a character
    names = ["<s>", "a", "<mask>", "<unk>", "</s>", "<pad>"]
    assert tokenizer.detokenize([tokenizer.vocabulary.index(name) for name in names]).numpy() == b"a<mask><unk>"


@pytest.mark.parametrize("text", [b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\xaf", "😀".encode()[:3], b"\xc3"])
def test_what_is_not_utf8(tokenizer, text):
    with pytest.raises(ValueError, match="not valid UTF-8 .*: the text in row 1"):
        tokenizer.tokenize(["a", text, "b"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="not valid UTF-8"):
        tf.function(tokenizer.tokenize)(tf.constant([text, b"\xa9"]))


def test_config_round_trip(merges):
    tokenizer = make(merges[:50], add_prefix_space=True, special_tokens_in_text=True)
    config = keras.saving.serialize_keras_object(tokenizer)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert again.get_config() == tokenizer.get_config()
    assert again.tokenize(SENTENCES).to_list() == tokenizer.tokenize(SENTENCES).to_list()


def test_preset_round_trip(merges, tmp_path):
    tokenizer = make(merges, add_prefix_space=True)
    tokenizer.save_preset(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["merges.txt", "tokenizer_config.json", "vocab.json"]
    assert BytePairTokenizer.from_preset(tmp_path).get_config() == tokenizer.get_config()
    assert not BytePairTokenizer.from_preset(tmp_path, add_prefix_space=False).add_prefix_space
    with pytest.raises(FileExistsError, match=r"already has vocab\.json, merges\.txt"):
        tokenizer.save_preset(tmp_path)


def test_reads_tokenizer_json(shared_data, roberta, tmp_path):
    content = json.loads((shared_data / "vocabs/roberta_tokenizer.json").read_text("utf-8"))
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    assert BytePairTokenizer.from_preset(tmp_path).get_config() == roberta.get_config()
    for part, change, message in (
        ("normalizer", {"type": "NFC"}, "normalizes with 'NFC'"),
        ("pre_tokenizer", {"type": "Whitespace"}, "splits text with 'Whitespace'"),
        ("pre_tokenizer", {"type": "ByteLevel", "use_regex": False}, "by another pattern"),
        ("model", content["model"] | {"end_of_word_suffix": "</w>"}, "marks the ends of words with '</w>'"),
        ("model", {"type": "Unigram"}, "holds a Unigram tokenizer, not byte pairs"),
    ):
        path.write_text(json.dumps(content | {part: change}))
        with pytest.raises(ValueError, match=message):
            BytePairTokenizer.from_preset(tmp_path)


PIECES = {piece: i for i, piece in enumerate([*SPECIAL, *reference.SYMBOLS.values(), "ab"])}


@pytest.mark.parametrize(
    ("vocabulary", "merges", "message"),
    [
        ({}, [], "has no <unk>; add it, or pass unk_token="),
        ({**PIECES, "x1": 999}, [], "ids of its 263 pieces are not 0 to 262"),
        ({**PIECES, "x1": "7"}, [], "'x1' has the id '7'"),
        ([*PIECES, "a"], [], "has 'a' twice"),
        ([*PIECES][:-20], [], "has no .; it stands for byte"),
        (PIECES, ["a b", "a"], "merge 1 is 'a'; expected two pieces"),
        (PIECES, ["a b", "ab c"], "merge 1 makes 'abc' of 'ab' and 'c', but the vocabulary has no 'abc'"),
    ],
)
def test_bad_vocabularies(vocabulary, merges, message):
    with pytest.raises(ValueError, match=message):
        BytePairTokenizer(vocabulary, merges)


def test_bad_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no vocabulary file at"):
        BytePairTokenizer(tmp_path / "vocab.json", [])
    (tmp_path / "vocab.json").write_text(json.dumps(PIECES))
    with pytest.raises(FileNotFoundError, match="no merges at"):
        BytePairTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt")
    (tmp_path / "merges.txt").write_bytes(b"#version: 0.2\r\na b\r\n")
    assert BytePairTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt").merges == [("a", "b")]
    (tmp_path / "merges.txt").write_bytes(b"a \xff\n")
    with pytest.raises(ValueError, match=r"merges\.txt is not UTF-8"):
        BytePairTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt")
    (tmp_path / "vocab.json").write_text("[1]")
    with pytest.raises(ValueError, match="holds a JSON list"):
        BytePairTokenizer(tmp_path / "vocab.json", [])


def test_no_merges_at_all():
    compare(make([]), ["ab é", ""])
    assert MergeRules([], {"a": 0}, [0] * 256)(tf.constant(["aa"])).to_list() == [[0, 0]]


@pytest.mark.parity
@pytest.mark.parametrize("prefix", [False, True])
def test_same_as_hugging_face(shared_data, roberta, prefix, tmp_path):
    """What we save, read by transformers, on real text: ids, and the spans of whole words."""
    transformers = pytest.importorskip("transformers")
    ours = BytePairTokenizer(roberta.vocabulary, roberta.merges, add_prefix_space=prefix)
    ours.save_preset(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    book = (shared_data / "gutenberg/Moby-Dick--Or-The-Whale_2701.txt").read_text("utf-8").split("\n\n")[:3000]
    texts = [text for text in [*SENTENCES, *ODD, *book] if not any(token in text for token in SPECIAL)]
    ids, starts, ends = (ragged.to_list() for ragged in ours.tokenize_with_offsets(texts))
    for row, encoding in enumerate(theirs(texts, add_special_tokens=False, return_offsets_mapping=True)["input_ids"]):
        assert ids[row] == encoding, ascii(texts[row])
    if not prefix:  # theirs leaves a real space at the beginning in the span of the first word
        spans = theirs(texts, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        for row, text in enumerate(texts):
            if text.isascii():
                for start, end, span in zip(starts[row], ends[row], spans[row], strict=True):
                    # Of a piece of white space they give the end alone.
                    assert (start, end) == tuple(span) or text[start:end].isspace()


@pytest.mark.parity
def test_special_tokens_as_hugging_face(shared_data, roberta):
    tokenizers = pytest.importorskip("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(shared_data / "vocabs/roberta_tokenizer.json"))
    ours = BytePairTokenizer(roberta.vocabulary, roberta.merges, special_tokens_in_text=True)
    texts = ["Paris is the <mask> of <mask>, ok<mask>  <mask> x", "<s>Hello</s></s>a <pad>  <mask>", "\u3000<mask>a"]
    for text in texts:
        assert ours.tokenize(text).numpy().tolist() == theirs.encode(text, add_special_tokens=False).ids
