"""WordPieceTokenizer: options, offsets, detokenization, and every way TensorFlow runs it."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.text import WordPieceTokenizer

from ..support.messages import error_names
from ..support.small import SPECIAL, VOCABULARY
from ..support.tokenization import compare_word_tokens, words_of

WORDS = [*SPECIAL, "a", "##a", "é", "##é", "b", "##b", "ж", "##ж", "中", "[", "]", "mask"]


def test_ids_of_the_original(shared_data, real_tokenizer, untraced):
    """Ids that Google's and TF Hub's own code gave."""
    vectors = json.loads((shared_data / "verified_vectors.json").read_text("utf-8"))["bert_en_uncased_preprocess_3"]
    assert real_tokenizer.tokenize([*vectors]).to_list() == [ids[1:-1] for ids in vectors.values()]


def test_forms_of_input(tokenizer):
    want = tokenizer.tokenize(["hello world", "naïve"]).to_list()
    for texts in (np.array(["hello world", "naïve"]), ("hello world", "naïve"), [b"hello world", "naïve".encode()]):
        assert tokenizer.tokenize(texts).to_list() == want
    one = tokenizer.tokenize("hello world")
    assert one.dtype == tf.int32
    assert one.numpy().tolist() == want[0]
    assert tokenizer.tokenize([]).shape == (0, None)
    assert tokenizer.tokenize(["", " \t\x00"]).to_list() == [[], []]


def test_offsets_count_bytes_of_the_text_as_given(tokenizer):
    text = "\x00Crème BRÛLÉE 漢字🙂\u200b e\u0301 ＡＢ"
    _, starts, ends = tokenizer.tokenize_with_offsets(text)
    assert starts.dtype == ends.dtype == tf.int64
    cut = [text.encode()[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    assert "".join(cut) == "CrèmeBRÛLÉE漢字🙂e\u0301ＡＢ"


@pytest.mark.parametrize("limit", [1, 5, 200])
def test_long_words(limit, untraced):
    """The limit counts characters after normalization; the op beneath counts bytes."""
    tokenizer = WordPieceTokenizer(WORDS, max_chars_per_word=limit, strip_accents=False)
    lengths = [limit - 1, limit, limit + 1, 2 * limit, 5 * limit]
    words = [char * length for char in "aжé中" for length in lengths]
    mixed = ["ab" * (limit // 2) + "ж" * (limit - limit // 2 * 2), "\u200b".join("ж" * limit), "a" * limit + "中" + "b"]
    compare_word_tokens(
        tokenizer, [*words, *mixed, " ".join(words), "a " + "ж" * (limit + 1) + "," + "b" * limit, "", "é" * limit]
    )
    stripping = WordPieceTokenizer(WORDS, max_chars_per_word=limit)
    compare_word_tokens(
        stripping, ["á" * limit, "á" * (limit + 1), "a\u0301" * limit + " b", "a\u0301" * (limit + 1) + " b"]
    )


@pytest.mark.parametrize("length", [100, 101])
def test_one_row_with_a_long_word(length, untraced):
    """Batches in which no row can have a word over the limit skip the count of characters."""
    tokenizer = WordPieceTokenizer(WORDS, max_chars_per_word=100)
    for char in "aж":
        compare_word_tokens(tokenizer, ["a b", f"é, {char * length}’ b", "中"])


def test_words_that_are_longer_than_regular_expressions_count(untraced):
    tokenizer = WordPieceTokenizer(WORDS, max_chars_per_word=1500)
    for char in "aж":
        rows = tokenizer.tokenize([char * 1500, char * 1501]).to_list()
        assert [len(rows[0]), rows[1]] == [1500, [tokenizer.unk_token_id]]


def test_special_tokens_in_text(tokenizer, untraced):
    text = "Plot is the [MASK] of story.[SEP]Not, naïve [mask]"
    mask, sep = tokenizer.mask_token_id, tokenizer.sep_token_id
    assert mask not in tokenizer.tokenize(text).numpy()
    aware = WordPieceTokenizer(VOCABULARY, special_tokens_in_text=True)
    ids, starts, ends = aware.tokenize_with_offsets([text, "", "[MASK][MASK]", "plain"])
    parts = [tokenizer.tokenize(part).numpy().tolist() for part in text.replace("[SEP]", "[MASK]").split("[MASK]")]
    assert ids.to_list() == [
        [*parts[0], mask, *parts[1], sep, *parts[2]],
        [],
        [mask, mask],
        tokenizer.tokenize("plain").numpy().tolist(),
    ]
    for token, start, end in zip(ids[0], starts[0], ends[0], strict=True):
        cut = text.encode()[start:end].decode()
        normalized = cut if cut in (aware.vocabulary[mask], aware.vocabulary[sep]) else cut.lower().replace("ï", "i")
        assert aware.vocabulary[token].removeprefix("##") == normalized
    with error_names(ValueError, "row 2"):
        aware.tokenize_with_offsets([b"a", b"[MASK] b [MASK]", b"[MASK] \xff"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_harmless_differences_of_the_file(end, tmp_path):
    content = end.join([*SPECIAL, "a"])
    for text in (content, content + end, "\ufeff" + content):
        (tmp_path / "vocab.txt").write_bytes(text.encode())
        assert WordPieceTokenizer(tmp_path / "vocab.txt").vocabulary == [*SPECIAL, "a"]


def test_a_token_of_white_space_is_in_no_text(untraced):
    """Chinese BERT has U+2028, which splits words."""
    tokenizer = WordPieceTokenizer([*SPECIAL, "\u2028", "a", "##a"])
    assert tokenizer.tokenize(["\u2028", "a\u2028a"]).to_list() == [[], [6, 6]]


PUNCTUATED = [
    "Hello, world!",
    "I don't know; she's 50% sure (or not).",
    'He said "yes" and left.',
    "It costs $3.50, or 1,000,000 in all, at 10:30.",
    "A well-known state-of-the-art and/or thing.",
    "“Really?” she asked: ‘No…’",
    "Wait... what?! [no]",
    "It’s five o'clock.",
    "The dogs' tails",
    "The 'best' one",
    "漢字とかな。中文，好！",
    "",
]


def test_detokenize_puts_punctuation_where_a_reader_expects_it(untraced):
    tokenizer = WordPieceTokenizer([*SPECIAL, *words_of(PUNCTUATED)], lowercase=False)
    texts = tokenizer.detokenize(tokenizer.tokenize(PUNCTUATED)).numpy().tolist()
    assert [text.decode() for text in texts] == PUNCTUATED


def test_detokenize_forms(tokenizer):
    ids = tokenizer.tokenize(["watching, don't!", "film"])
    want = [b"watching, don't!", b"film"]
    assert tokenizer.detokenize(ids).numpy().tolist() == want
    assert tokenizer.detokenize(ids.to_list()).numpy().tolist() == want
    assert tokenizer.detokenize(ids.to_tensor()).numpy().tolist() == want  # [PAD] is left out
    assert tokenizer.detokenize(tf.cast(ids, tf.int64)).numpy().tolist() == want
    assert tokenizer.detokenize(ids[0]).numpy() == want[0]
    assert tokenizer.detokenize([]).numpy() == b""
    assert tf.function(tokenizer.detokenize)(ids).numpy().tolist() == want
    film, ending = (tokenizer.vocabulary.index(token) for token in ("film", "##ing"))
    assert tokenizer.detokenize([2, film, 4, 1, 3]).numpy() == b"film [MASK] [UNK]"
    assert tokenizer.detokenize([ending, film]).numpy() == b"ing film"


def test_made_while_a_graph_is_traced():
    made = []

    @tf.function
    def trace(texts):
        made.append(WordPieceTokenizer(WORDS))
        return made[0].tokenize_with_offsets(texts)[0].values

    trace(tf.constant(["á b"]))
    assert made[0].tokenize_with_offsets(["a á"])[0].to_list() == [[5, 5]]
    assert made[0].tokenize_with_offsets(["ж"])[2].to_list() == [[2]]


def test_preset_round_trip(tmp_path):
    tokenizer = WordPieceTokenizer(VOCABULARY, lowercase=False, strip_accents=True, split_on_cjk=False)
    (tmp_path / "config.json").write_text("{}")
    tokenizer.save_preset(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "tokenizer_config.json", "vocab.txt"]
    again = WordPieceTokenizer.from_preset(tmp_path)
    assert again.get_config() == tokenizer.get_config()
    assert WordPieceTokenizer.from_preset(tmp_path, lowercase=True).lowercase
    with error_names(FileExistsError, tmp_path, "vocab.txt, tokenizer_config.json", "overwrite"):
        tokenizer.save_preset(tmp_path)
    WordPieceTokenizer(WORDS).save_preset(tmp_path, overwrite=True)
    assert WordPieceTokenizer.from_preset(tmp_path).vocabulary == WORDS


@pytest.mark.slow
@pytest.mark.parametrize("text", ["hello wörld " * 80_000, "é" * 500_000], ids=["words", "one word"])
def test_a_megabyte(real_tokenizer, text):
    ids, starts, ends = real_tokenizer.tokenize_with_offsets(text)
    assert starts[0] == 0
    assert ends[-1] == len(text.rstrip().encode())
    assert len(ids) == (160_000 if " " in text else 1)
