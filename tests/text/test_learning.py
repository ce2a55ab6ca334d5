"""learn_vocabulary: the tokenizer finds what the learner learned; the order of special tokens; errors; Ctrl-C."""

import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from keras_bert.text import (
    BytePairTokenizer,
    SentencePieceTokenizer,
    WordPieceTokenizer,
    learn_vocabulary,
    learning,
    learning_corpus,
    learning_pairs,
    learning_words,
)
from keras_bert.text.loading import load_tokenizer

from . import reference, reference_bytepair
from .test_sentencepiece import albert_pieces
from .test_unicode import SENTENCES

tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers, which learns")
sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, which learns")

KINDS = ["wordpiece", "bytepair", "sentencepiece"]
SIZES = {"wordpiece": 900, "bytepair": 600, "sentencepiece": 400}
HANGS = 600
# Nothing of it was learned from.
OTHER = [
    "",
    "Zebras quizzed a judge's ex-wife: 12,345.67%?!",
    "<s> [CLS] </s><mask>[MASK] ## ##a",
    "naïve NAÏVE Ångström e\u0301\u0301 \u0301",
    "😀 👩\u200d👩 ☃ 漢字かな 한글 עברית",
    "a" * 201,
    "x\u2028y\u3000z\x00\x7f\ufffd",
]


@pytest.fixture(scope="module")
def learned():
    """A small vocabulary of each kind, from sentences in many languages."""
    return {kind: learn_vocabulary(SENTENCES * 3, SIZES[kind], kind) for kind in KINDS}


@pytest.fixture(scope="module")
def book(shared_data):
    return (shared_data / "gutenberg/Alice-s-Adventures-in-Wonderland_11.txt").read_text("utf-8").split("\n")


def wordpiece_of_hugging_face(tokenizer):
    """With BERT's parts, as transformers puts them together."""
    ids = {piece: index for index, piece in enumerate(tokenizer.vocabulary)}
    model = tokenizers.models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=200)
    reader = tokenizers.Tokenizer(model)
    reader.normalizer = tokenizers.normalizers.BertNormalizer(
        lowercase=tokenizer.lowercase, strip_accents=tokenizer.strip_accents, handle_chinese_chars=True
    )
    reader.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return reader


def bytepair_of_hugging_face(tokenizer):
    ids = {piece: index for index, piece in enumerate(tokenizer.vocabulary)}
    reader = tokenizers.Tokenizer(tokenizers.models.BPE(ids, tokenizer.merges))
    reader.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return reader


def compare(tokenizer, reader, texts):
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        assert ids == reader.encode(text, add_special_tokens=False).ids, ascii(text)


@pytest.mark.parametrize("cased", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_wordpiece_is_hugging_face_s_and_google_s(book, cased):
    tokenizer = learn_vocabulary(book, 2000, lowercase=not cased)
    assert (tokenizer.vocabulary_size, len({*tokenizer.vocabulary})) == (2000, 2000)
    assert tokenizer.unk_token_id not in tokenizer.tokenize(book).values
    compare(tokenizer, wordpiece_of_hugging_face(tokenizer), [*book, *OTHER])
    texts = [*book[:300], *OTHER, *SENTENCES]
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        found = reference.tokenize(text, {*tokenizer.vocabulary}, lowercase=not cased)
        assert [tokenizer.vocabulary[i] for i in ids] == [piece for piece, *_ in found], ascii(text)


def test_wordpiece_learns_what_hugging_face_s_own_trainer_does(book):
    """Which numbers pieces, and breaks ties, by chance: hence not all, and not in order."""
    tokenizer = learn_vocabulary(book, 2000)
    learner = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    learner.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    learner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    learner.train_from_iterator(book, tokenizers.trainers.WordPieceTrainer(vocab_size=2000, show_progress=False))
    ours, theirs = (
        {piece for piece in each if len(piece.removeprefix("##")) > 1}
        for each in (tokenizer.vocabulary, learner.get_vocab())
    )
    assert len(ours & theirs) > 0.97 * len(ours)


def test_bytepair_is_hugging_face_s(book, learned):
    tokenizer = learn_vocabulary(book, 2000, "bytepair")
    assert tokenizer.vocabulary_size == 2000
    compare(tokenizer, bytepair_of_hugging_face(tokenizer), [*book, *SENTENCES, *OTHER])
    compare(learned["bytepair"], bytepair_of_hugging_face(learned["bytepair"]), [*SENTENCES, *OTHER])


def test_each_merge_is_of_the_most_frequent_pair():
    words = Counter(word for text in SENTENCES * 3 for word in reference_bytepair.words(text))
    counts = {tuple(reference_bytepair.SYMBOLS[byte] for byte in word.encode()): n for word, n in words.items()}
    for merge in learn_vocabulary(SENTENCES * 3, 261 + 100, "bytepair").merges:
        pairs = Counter()
        for word, times in counts.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += times
        assert pairs[merge] == max(pairs.values())
        counts = {tuple(reference_bytepair.merge(word, {merge: 0})): times for word, times in counts.items()}


@pytest.mark.parametrize("cased", [False, True])
def test_sentencepiece_is_google_s(book, cased):
    tokenizer = learn_vocabulary(book, 2000, "sentencepiece", lowercase=not cased)
    assert tokenizer.vocabulary_size == 2000
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    texts = [*filter(None, book), *SENTENCES, *OTHER]
    ties = 0
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        pieces = albert_pieces(model, text, lowercase=not cased, strip_accents=not cased)
        expected = [model.piece_to_id(piece) for piece in pieces]
        if ids != expected and "\0" not in text:  # the original's Python wrapper ends a text there
            # Versions of SentencePiece take another one of two ways that are equally likely, such as 0 00 and 00 0.
            scores = [sum(map(model.get_score, each)) for each in (ids, expected)]
            assert scores[0] == pytest.approx(scores[1], abs=1e-4), ascii(text)
            assert model.decode(ids) == model.decode(expected)
            ties += 1
    assert ties < len(texts) / 500


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
        assert tokenizer.unk_token_id not in tokenizer.tokenize(texts).values
        # Nothing is spent on what never stands inside a word.
        assert not {"##,", "##我"} & {*tokenizer.vocabulary}
        assert {",", "我", "##q"} < {*tokenizer.vocabulary}


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_read(learned, kind, tmp_path):
    learned[kind].save_preset(tmp_path)
    read = load_tokenizer(tmp_path)
    assert read.get_config() == learned[kind].get_config()
    assert read.tokenize(OTHER).to_list() == learned[kind].tokenize(OTHER).to_list()


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
@pytest.mark.filterwarnings("ignore:the corpus gave")
def test_cased_and_accents(kind, settings, words, tmp_path):
    tokenizer = learn_vocabulary(["Élan ÉLAN Zoë"] * 9, 40, kind, **settings)
    letters = {char for char in "".join(tokenizer.vocabulary[5:]) if char.isalpha()}
    assert letters == {*(letter for word in words for letter in word)}
    assert tokenizer.unk_token_id not in tokenizer.tokenize(["Élan Zoë"]).values
    tokenizer.save_preset(tmp_path)
    assert load_tokenizer(tmp_path).tokenize(["Élan Zoë"]).to_list() == tokenizer.tokenize(["Élan Zoë"]).to_list()


@pytest.mark.slow
def test_the_same_vocabularies_in_another_process(learned):
    code = (
        "from keras_bert.text import learn_vocabulary; from tests.text.test_unicode import SENTENCES\n"
        f"for kind, size in {SIZES}.items(): print(learn_vocabulary(SENTENCES * 3, size, kind).get_config())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "1", "PYTHONIOENCODING": "utf-8"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=True,
    )
    assert result.stdout.decode().splitlines() == [str(tokenizer.get_config()) for tokenizer in learned.values()]


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
    monkeypatch.setattr(learning_corpus, "_BATCH_BYTES", batch_bytes)
    (tmp_path / "a.txt").write_text("\ufeffone é two\nthree\n\n  four \r\nfive", "utf-8")
    batches = [*learning.read_batches(tmp_path / "a.txt")]
    assert b" ".join(b" ".join(batch) for batch in batches) == "one é two three four five".encode()


def test_a_corpus_is_read_as_it_is_needed():
    taken = []

    def texts():
        for i in range(100_000):
            taken.append(i)
            yield "1234 " * 200

    batches = learning.read_batches(texts())
    assert [len(taken) for _ in zip(range(3), batches, strict=False)] == [1049, 2098, 3147]


def test_rare_words_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(learning_words, "_MOST_WORDS", 4)
    words = Counter()
    learning_words.count(words, "aaabbcccddef")
    assert words == {"a": 3, "b": 2, "c": 3, "d": 2}
    learning_words.count(words, "ghaa")
    assert words == {"a": 5, "b": 2, "c": 3, "d": 2}


@pytest.mark.parametrize("batch_bytes", [2**20, 30])
def test_sentencepiece_thins_what_is_too_large(monkeypatch, batch_bytes):
    texts = [f"word{i} and{i % 7}" for i in range(200)]
    whole = learn_vocabulary(texts, 40, "sentencepiece")
    fourth = learn_vocabulary(texts[::4], 40, "sentencepiece")
    monkeypatch.setattr(learning_corpus, "_BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(learning, "_MOST_BYTES", sum(map(len, texts)) // 3)
    assert learn_vocabulary(iter(texts), 40, "sentencepiece").model == fourth.model != whole.model


def test_character_coverage():
    texts = ["abcab " * 500, "☃"]
    every, most = (learn_vocabulary(texts, 11 + i, character_coverage=share) for i, share in ((2, 1.0), (0, 0.99)))
    assert "☃" in every.vocabulary
    assert most.vocabulary[5:] == ["a", "b", "c", "##a", "##b", "##c"]
    assert [most.vocabulary[i] for i in most.tokenize("☃ ab☃ cab")] == ["[UNK]", "[UNK]", "c", "##a", "##b"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_size_that_is_too_small_says_the_least_that_works(kind):
    with pytest.raises(ValueError, match=r"^size is 5; .* need at least ([\d,]+)") as caught:
        learn_vocabulary(SENTENCES, 5, kind)
    least = int(re.search(r"at least ([\d,]+)", str(caught.value))[1].replace(",", ""))
    assert learn_vocabulary(SENTENCES, least, kind).vocabulary_size == least
    with pytest.raises(ValueError, match=f"need at least {least:,}"):
        learn_vocabulary(SENTENCES, least - 1, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_pieces_than_asked_for(kind):
    with pytest.warns(UserWarning, match=r"^the corpus gave \d+ pieces, not 1,000: ") as caught:
        tokenizer = learn_vocabulary(["so few words, so few"], 1000, kind)
    assert f"gave {tokenizer.vocabulary_size} pieces" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert tokenizer.unk_token_id not in tokenizer.tokenize("so few words")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("corpus", [[], [""], ["", " \n\t"], iter(())])
def test_an_empty_corpus(kind, corpus):
    if kind == "bytepair" and corpus and any(corpus):
        return  # white space is text to it
    with pytest.raises(ValueError, match="^the corpus is empty: there are no words in it$"):
        learn_vocabulary(corpus, 500, kind)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "unigram"}, "kind is 'unigram'; expected one of wordpiece, bytepair, sentencepiece"),
        ({"size": 0}, "size is 0; a vocabulary has at least its special tokens"),
        ({"character_coverage": 0.5}, "character_coverage is 0.5; expected a share from 0.98 to 1"),
        ({"kind": "bytepair", "lowercase": True}, "byte pairs are made of all bytes, and keep capitals"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        learn_vocabulary(**{"corpus": ["a text"], "size": 100, **arguments})


def test_what_is_no_text():
    with pytest.raises(TypeError, match="^the corpus is one str, 'corpus.txt'; expected texts, or a pathlib.Path$"):
        learn_vocabulary("corpus.txt", 100)
    with pytest.raises(TypeError, match="^text 1 is 5 \\(int\\); expected a str or a pathlib.Path$"):
        learn_vocabulary(["a", 5], 100)
    with pytest.raises(ValueError, match="^text 2 has the lone surrogate '.ud800' at character 1, "):
        learn_vocabulary(["a", "b", "c\ud800"], 100)


def test_files_that_are_no_text(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    for content, message in (
        (b"caf\xe9 noir", "is not UTF-8 text: byte 0xe9 at offset 3; convert it first"),
        (b"a line\n" * 5000 + b"\xff", "is not UTF-8 text: byte 0xff at offset 35,000; "),
        ("text".encode("utf-16"), "is no text: it has a byte 0x00 at offset 3"),
        (b"a line\n" * 5000 + b"PK\0", "is no text: it has a byte 0x00 at offset 35,002"),
    ):
        path.write_bytes(content)
        for batch_bytes in (2**20, 1000):
            monkeypatch.setattr(learning_corpus, "_BATCH_BYTES", batch_bytes)
            with pytest.raises(ValueError, match=f"^{re.escape(f'{path} {message}')}"):
                learn_vocabulary(path, 100)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=f"^there is no file {path}$"):
        learn_vocabulary([path], 100)
    with pytest.raises(FileNotFoundError, match=f"^the directory {tmp_path} has no .txt files$"):
        learn_vocabulary(tmp_path, 100)


@pytest.mark.parametrize(("kind", "library"), [*zip(KINDS, ["tokenizers"] * 2 + ["sentencepiece"], strict=True)])
def test_a_library_that_is_not_installed(kind, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    message = f"^learning a vocabulary of this kind needs {library}: pip install 'keras-bert-models\\[vocab\\]'$"
    with pytest.raises(ImportError, match=message):
        learn_vocabulary(["a text"], 300, kind)


def test_long_words_are_learned_up_to_what_a_piece_can_hold():
    """TensorFlow Text takes pieces of up to 256 bytes; WordPiece words of over 200 characters are unknown."""
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
    with pytest.raises(ValueError, match="^the corpus is empty"):
        learning.fertility(learned["wordpiece"], [""])


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
            learning_pairs.wait_for(learn)
    finally:
        signal.signal(signal.SIGINT, before_the_test)
    assert time.monotonic() - before < HANGS
    assert threads[0] is not threading.main_thread()
    with pytest.raises(ZeroDivisionError):
        learning_pairs.wait_for(lambda: 1 / 0)
