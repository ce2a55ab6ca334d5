"""learn_vocabulary: the tokenizer finds what the learner learned; special tokens; arguments; Ctrl-C; corpora."""

import itertools
import os
import re
import signal
import sys
import threading
import time
from collections import Counter

import pytest

from keras_bert.text import (
    BytePairTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    learn_vocabulary,
    learning,
    load_tokenizer,
)

from ..support.learning import OTHER, SIZES, compare, wordpiece_of_hugging_face
from ..support.messages import assert_names, error_names
from ..support.processes import HANGS
from ..support.reference import bytepair as reference
from ..support.texts import SENTENCES

tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers, which learns")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, which learns")
pytestmark = pytest.mark.usefixtures("untraced")
KINDS = [*SIZES]


@pytest.fixture(scope="module")
def learned():
    return {kind: learn_vocabulary(SENTENCES * 3, SIZES[kind], kind) for kind in KINDS}


@pytest.mark.slow
def test_a_book_gives_much_the_same_as_hugging_face_s_own_learner(shared_data):
    """Which numbers tokens, and breaks ties, by chance: hence not all, and not in order."""
    book = (shared_data / "gutenberg/Alice-s-Adventures-in-Wonderland_11.txt").read_text("utf-8").split("\n")
    tokenizer = learn_vocabulary(book, 2000)
    assert (tokenizer.vocabulary_size, len({*tokenizer.vocabulary})) == (2000, 2000)
    compare(tokenizer, wordpiece_of_hugging_face(tokenizer), [*book, *OTHER])
    learner = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    learner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    learner.train_from_iterator(book, tokenizers.trainers.WordPieceTrainer(vocab_size=2000, show_progress=False))
    ours, theirs = (
        {token for token in each if len(token.removeprefix("##")) > 1}
        for each in (tokenizer.vocabulary, learner.get_vocab())
    )
    assert len(ours & theirs) > 0.97 * len(ours)


def test_each_merge_is_of_the_most_frequent_pair():
    words = Counter(word for text in SENTENCES * 3 for word in reference.words(text))
    counts = {tuple(reference.SYMBOLS[byte] for byte in word.encode()): n for word, n in words.items()}
    for merge in learn_vocabulary(SENTENCES * 3, 261 + 60, "bytepair").merges:
        pairs = Counter()
        for word, times in counts.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += times
        assert pairs[merge] == max(pairs.values())
        counts = {tuple(reference.merge(word, {merge: 0})): times for word, times in counts.items()}


def test_special_tokens_are_where_each_family_has_them(learned):
    assert [type(learned[kind]) for kind in KINDS] == [WordPieceTokenizer, BytePairTokenizer, SentencePieceTokenizer]
    assert [each.vocabulary_size for each in learned.values()] == list(SIZES.values())
    bert, roberta, albert = (tokenizer.vocabulary for tokenizer in learned.values())
    assert bert[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert [*roberta[:4], roberta[-1]] == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert albert[:13] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *'()"-.–£€']


def test_no_word_of_known_characters_is_unknown(learned):
    """Also of those that were seen only at the beginning of words, or only by themselves."""
    chars = "".join(SENTENCES).replace("\0", "")
    for tokenizer in (learned["wordpiece"], learn_vocabulary(SENTENCES, 850, lowercase=False)):
        texts = [chars[i] + chars[-i] + chars[i // 2] for i in range(1, len(chars))]
        assert tokenizer.unk_token_id not in tokenizer.tokenize(texts).values.numpy()
        # Nothing is spent on what never stands inside a word.
        assert not {"##,", "##我"} & {*tokenizer.vocabulary}
        assert {",", "我", "##q"} < {*tokenizer.vocabulary}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ["elan", "zoe"]),
        ({"lowercase": False}, ["Élan", "ÉLAN", "Zoë"]),
        ({"strip_accents": False}, ["élan", "zoë"]),
        ({"lowercase": False, "strip_accents": True}, ["Elan", "ELAN", "Zoe"]),
    ],
)
@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece"])
@pytest.mark.filterwarnings("ignore:the vocabulary has")
def test_cased_and_accents(kind, settings, words, tmp_path):
    tokenizer = learn_vocabulary(["Élan ÉLAN Zoë"] * 9, 40, kind, **settings)
    letters = {char for char in "".join(tokenizer.vocabulary[5:]) if char.isalpha()}
    assert letters == {*(letter for word in words for letter in word)}
    assert tokenizer.unk_token_id not in tokenizer.tokenize(["Élan Zoë"]).values.numpy()
    tokenizer.save_preset(tmp_path)
    assert load_tokenizer(tmp_path).tokenize(["Élan Zoë"]).to_list() == tokenizer.tokenize(["Élan Zoë"]).to_list()


def test_character_coverage():
    texts = ["abcab " * 500, "☃"]
    every, most = (learn_vocabulary(texts, 11 + i, character_coverage=share) for i, share in ((2, 1.0), (0, 0.99)))
    assert "☃" in every.vocabulary
    assert most.vocabulary[5:] == ["a", "b", "c", "##a", "##b", "##c"]
    assert [most.vocabulary[i] for i in most.tokenize("☃ ab☃ cab")] == ["[UNK]", "[UNK]", "c", "##a", "##b"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_size_that_is_too_small_says_the_least_that_works(kind):
    with pytest.raises(ValueError, match="size is 5") as caught:
        learn_vocabulary(SENTENCES, 5, kind)
    least = int(re.search(r"at least ([\d,]+)", str(caught.value))[1].replace(",", ""))
    assert learn_vocabulary(SENTENCES, least, kind).vocabulary_size == least
    with error_names(ValueError, "size", f"at least {least:,}"):
        learn_vocabulary(SENTENCES, least - 1, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_tokens_than_asked_for(kind):
    with pytest.warns(UserWarning, match="1,000") as caught:
        tokenizer = learn_vocabulary(["so few words, so few"], 1000, kind)
    assert_names(str(caught[0].message), "vocabulary", f"{tokenizer.vocabulary_size} tokens", "corpus")
    assert caught[0].filename == __file__
    assert tokenizer.unk_token_id not in tokenizer.tokenize("so few words").numpy()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kind": "unigram"}, ["kind", "'unigram'", "wordpiece, bytepair, sentencepiece"]),
        ({"size": 0}, ["size", 0, "special tokens"]),
        *(({"size": each}, ["size", repr(each), "whole number"]) for each in ("40", 30.0, True, None)),
        ({"character_coverage": "1"}, ["character_coverage", "'1'", "number"]),
        ({"character_coverage": 0.5}, ["character_coverage", 0.5, "0.98 to 1"]),
        *(
            ({"kind": "bytepair", **each}, ["byte pairs", "lowercase, strip_accents and character_coverage"])
            for each in ({"lowercase": True}, {"strip_accents": True}, {"character_coverage": 0.99})
        ),
    ],
)
def test_arguments_that_make_no_sense(arguments, words):
    with error_names(ValueError, *words):
        learn_vocabulary(**{"corpus": ["a text"], "size": 100, **arguments})


@pytest.mark.parametrize(("kind", "library"), [*zip(KINDS, ["tokenizers"] * 2 + ["sentencepiece"], strict=True)])
def test_a_library_that_is_not_installed_is_missed_before_the_corpus_is_read(kind, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with error_names(ImportError, library, "keras-bert-models[vocab]"):
        learn_vocabulary((pytest.fail("it is read") for _ in range(1)), 300, kind)


def test_long_words_are_learned_up_to_what_a_token_can_hold():
    """TensorFlow Text takes tokens of up to 256 bytes; WordPiece words of over 200 characters are unknown."""
    texts = ["𠮟" * 3 + "ก" * 150, "b" * 300, "=" * 3000]
    tokenizer = learn_vocabulary(texts * 4, 18)
    assert max(map(len, tokenizer.vocabulary)) <= 60 + len("##")
    assert "b" not in tokenizer.vocabulary
    assert learn_vocabulary(texts * 4, 280, "bytepair").vocabulary_size == 280
    assert learn_vocabulary(texts * 4, 20, "sentencepiece").tokenize(texts[2]).shape[0] >= 1


def test_fertility(learned):
    texts = ["one two", "", "three ☯"]  # the last is in no vocabulary
    ids = learned["wordpiece"].tokenize(texts).values.numpy()
    found = learning.fertility(learned["wordpiece"], texts)
    assert found == (len(ids) / 4, (7 + 9) / len(ids), 1 / len(ids))
    with error_names(ValueError, "corpus", "empty"):
        learning.fertility(learned["wordpiece"], [""])


@pytest.mark.timing
def test_ctrl_c_does_not_wait_for_a_library():
    """Which lets no signal through: hence another thread. What fails there, fails here."""
    threads = []
    before_the_test = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a job in the background

    def learn():
        threads.append(threading.current_thread())
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(HANGS)

    before = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            learning.wait_for(learn)
    finally:
        signal.signal(signal.SIGINT, before_the_test)
    assert time.monotonic() - before < HANGS
    assert threads[0] is not threading.main_thread()
    with pytest.raises(ZeroDivisionError):
        learning.wait_for(lambda: 1 / 0)


# -- Corpora: texts, files, directories, samples of large ones, and what is refused


def test_files_directories_and_iterators_are_the_same_corpus(tmp_path):
    texts = [sentence for sentence in SENTENCES if "\0" not in sentence]
    lines = [" ".join(text.split()) for text in texts]
    (tmp_path / "a.txt").write_text("\ufeff" + "\r\n".join(lines[:9]) + "\n\n", "utf-8")
    (tmp_path / "b.txt").write_text("\n".join(lines[9:]), "utf-8")
    (tmp_path / "c.log").write_text("something else", "utf-8")
    expected = learn_vocabulary(lines, 640).vocabulary
    for corpus in (iter(lines), tmp_path, [tmp_path / "a.txt", tmp_path / "b.txt"], [tmp_path / "a.txt", *lines[9:]]):
        assert learn_vocabulary(corpus, 640).vocabulary == expected


@pytest.mark.parametrize("batch_bytes", [1, 7, 100])
def test_lines_are_the_same_however_a_file_is_read(tmp_path, monkeypatch, batch_bytes):
    monkeypatch.setattr(learning, "_BATCH_BYTES", batch_bytes)
    (tmp_path / "a.txt").write_text("\ufeffone é two\nthree\n\n  four \r\nfive", "utf-8")
    batches = [*learning.read_batches(tmp_path / "a.txt")]
    assert b" ".join(b" ".join(batch) for batch in batches) == "one é two three four five".encode()


def test_a_corpus_is_read_as_it_is_needed():
    taken = []

    def texts():
        for i in range(100_000):
            taken.append(i)
            yield "1234 " * 200

    next(learning.read_batches(texts()))
    assert len(taken) < 10_000


def test_rare_words_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(learning, "_MAX_WORDS", 4)
    words = Counter()
    learning.count_words(words, "aaabbcccddef")
    assert words == {"a": 3, "b": 2, "c": 3, "d": 2}
    learning.count_words(words, "ghaa")
    assert words == {"a": 5, "b": 2, "c": 3, "d": 2}


@pytest.mark.parametrize("batch_bytes", [2**20, 30])
def test_sentencepiece_thins_what_is_too_large(monkeypatch, batch_bytes):
    texts = [f"word{i} and{i % 7}" for i in range(200)]
    whole = learn_vocabulary(texts, 40, "sentencepiece")
    fourth = learn_vocabulary(texts[::4], 40, "sentencepiece")
    monkeypatch.setattr(learning, "_BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(learning, "_MAX_BYTES", sum(map(len, texts)) // 3)
    assert learn_vocabulary(iter(texts), 40, "sentencepiece").model == fourth.model != whole.model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("corpus", [[], [""], ["", " \n\t"], iter(())])
def test_an_empty_corpus(kind, corpus):
    if kind == "bytepair" and corpus and any(corpus):
        return  # white space is text to it
    with error_names(ValueError, "corpus", "empty", "words"):
        learn_vocabulary(corpus, 500, kind)


@pytest.mark.parametrize(
    ("corpus", "error", "words"),
    [
        ("corpus.txt", TypeError, ["corpus", "str", "'corpus.txt'", "pathlib.Path"]),
        (["a", 5], TypeError, ["text 1", 5, "int", "pathlib.Path"]),
        ({"text": ["a"]}, TypeError, ["corpus", "dict", "table['text']"]),
        (None, TypeError, ["corpus", None]),
        (["a", "b", "c\ud800"], ValueError, ["text 2", "surrogate", r"'\ud800'", "character 1"]),
    ],
)
def test_what_is_no_text(corpus, error, words):
    with error_names(error, *words):
        learn_vocabulary(corpus, 100)


@pytest.mark.parametrize("batch_bytes", [2**20, 1000])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"caf\xe9 noir", ["line 1", "UTF-8", "0xe9", "byte 3", "iconv"]),
        (b"a line\n" * 5000 + b"\xff", ["line 5001", "UTF-8", "0xff", "byte 0"]),
        ("text".encode("utf-16"), ["line 1", "UTF-16"]),
        ("text".encode("utf-16-le"), ["line 1", "0x00"]),
        (b"a line\n" * 5000 + b"PK\0", ["line 5001", "0x00"]),
    ],
)
def test_files_that_are_no_text(content, words, batch_bytes, tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    monkeypatch.setattr(learning, "_BATCH_BYTES", batch_bytes)
    with error_names(ValueError, path, *words):
        learn_vocabulary(path, 100)


def test_files_that_are_missing(tmp_path):
    path = tmp_path / "a.txt"
    with error_names(FileNotFoundError, "no file", path):
        learn_vocabulary([path], 100)
    with error_names(FileNotFoundError, "directory", tmp_path, "no .txt files"):
        learn_vocabulary(tmp_path, 100)
    path.symlink_to("gone.txt")
    with error_names(FileNotFoundError, path, "link", "gone.txt"):
        learn_vocabulary(tmp_path, 100)
    path.unlink()
    os.mkfifo(path)
    with error_names(ValueError, path, "pipe"):
        learn_vocabulary(tmp_path, 100)
    (tmp_path / "b.csv").write_text("text\na film\n")
    with error_names(ValueError, tmp_path / "b.csv", "a table (CSV)", "expected text"):
        learn_vocabulary(tmp_path / "b.csv", 100)
