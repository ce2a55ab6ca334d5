"""Learns a vocabulary from a corpus. Needs the extra `vocab`."""

import concurrent.futures
import functools
import io
import itertools
import json
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert import files
from keras_bert.choices import VOCABULARIES, check_choice
from keras_bert.data.table_formats import text_files
from keras_bert.extras import import_extra
from keras_bert.progress import progress_bar
from keras_bert.text.arguments import check_many, lone_surrogate
from keras_bert.text.bytepair import BytePairTokenizer
from keras_bert.text.sentencepiece import CompatibilityNormalizer, SentencePieceTokenizer
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.vocabulary import byte_symbols
from keras_bert.text.wordpiece import BertNormalizer, WordPieceTokenizer
from keras_bert.text.words import split_words

Corpus = Path | Iterable[str | Path]

_BATCH_BYTES = 2**20


def read_batches(corpus: Corpus) -> Iterator[list[bytes]]:
    """Reads a corpus, as for `learn_vocabulary`, in batches of about a megabyte, and shows how far it is."""
    if isinstance(corpus, str | bytes):
        raise TypeError(f"the corpus is one {type(corpus).__name__}, {corpus!r:.60}; expected texts, or a pathlib.Path")
    corpus = [corpus] if isinstance(corpus, Path) else corpus
    check_many(corpus, "corpus")
    total = None
    if isinstance(corpus, list | tuple):
        corpus = [each for one in corpus for each in (text_files(one) if isinstance(one, Path) else [one])]
        paths = [each for each in corpus if isinstance(each, Path)]
        total = sum(path.stat().st_size for path in paths) if len(paths) == len(corpus) else None
    batch: list[bytes] = []
    size = 0
    with progress_bar(total, "B", desc="reading", unit_scale=True) as bar:
        for text in _read_texts(corpus):
            batch.append(text)
            size += len(text)
            if size >= _BATCH_BYTES:
                yield batch
                bar.update(size)
                batch, size = [], 0
        if batch:
            yield batch
            bar.update(size)


def _read_texts(corpus: Iterable[str | Path]) -> Iterator[bytes]:
    for number, each in enumerate(corpus):
        if isinstance(each, Path):
            yield from itertools.chain.from_iterable(map(_read_file, text_files(each)))
            continue
        if not isinstance(each, str):
            raise TypeError(f"text {number} is {each!r:.60} ({type(each).__name__}); expected a str or a pathlib.Path")
        try:
            yield each.encode()
        except UnicodeEncodeError as error:
            raise lone_surrogate(number, error) from None


def _read_file(path: Path) -> Iterator[bytes]:
    """Reads the non-empty lines of a file. A line of many megabytes is cut at spaces."""
    for number, line in enumerate(files.read_lines(path), start=1):
        if "\0" in line:
            raise ValueError(f"{path}, line {number}, is not text: it has a byte 0x00")
        text, start = line.encode().strip(), 0
        while len(text) - start > _BATCH_BYTES:
            end = text.find(b" ", start + _BATCH_BYTES) + 1 or len(text)
            yield text[start:end].strip()
            start = end
        if start < len(text):
            yield text[start:]


# -- Counts words.

LONGEST_WORD = 200  # characters; longer ones are unknown to WordPieceTokenizer
_MAX_WORDS = 2**21  # distinct words, some hundred megabytes; beyond it, the rarest are dropped


@functools.cache
def _make_splitter() -> tf_text.FastWordpieceTokenizer:
    """Makes a tokenizer with the words of WordPieceTokenizer. Each of them is one token of its vocabulary."""
    return tf_text.FastWordpieceTokenizer(
        ["[UNK]", "a"], unknown_token="[UNK]", token_out_type=tf.int32, max_bytes_per_word=4 * LONGEST_WORD
    )


def split_into_words(normalized: tf.Tensor) -> list[str]:
    """Splits normalized texts, string `[batch]`, into words as WordPieceTokenizer does."""
    with tf.device("CPU"):
        _, starts, ends = _make_splitter().tokenize_with_offsets(normalized)  # int64 [batch, (words)]
    rows = normalized.numpy()
    origins = np.repeat(np.cumsum([0, *map(len, rows[:-1])]), starts.row_lengths())
    data = b"".join(rows)
    places = zip((starts.values + origins).numpy().tolist(), (ends.values + origins).numpy().tolist(), strict=True)
    return [data[start:end].decode() for start, end in places]


def inside_words(chars: Sequence[str]) -> list[str]:
    """Picks the characters that may be inside a word: all but punctuation and CJK ideographs, which are words."""
    with tf.device("CPU"):
        lengths = _make_splitter().tokenize(tf.constant([f"a{char}" for char in chars])).row_lengths().numpy()
    return [char for char, length in zip(chars, lengths, strict=True) if length == 1]


def count_words(words: Counter, new_words: Iterable) -> None:
    """Adds words to the counts, and drops the rarest when there are too many."""
    words.update(new_words)
    rarest = 1
    while len(words) > _MAX_WORDS:
        for word in [word for word, times in words.items() if times <= rarest]:
            del words[word]
        rarest *= 2


def alphabet(words: Counter[str], character_coverage: float) -> list[str]:
    """Lists the characters of words in ascending order, but the rarest, up to a share of `1 - character_coverage`."""
    counts: Counter[str] = Counter()
    for word, times in words.items():
        for char in word:
            counts[char] += times
    room = (1 - character_coverage) * sum(counts.values())
    for char in sorted(counts, key=lambda char: (counts[char], char)):
        room -= counts[char]
        if room < 0:
            break
        del counts[char]
    return sorted(counts)


# -- Learns.

T = TypeVar("T")

_MIN_FREQUENCY = 2  # rarer pairs are not merged
_MAX_TOKEN_LENGTH = 60  # symbols; in UTF-8, well below TensorFlow Text's limit
_MAX_REPETITIONS = 1000  # the most repetitions of a word in one string


def _learn_pairs(
    words: Mapping[str, int], first: Sequence[str], size: int, prefix: str = ""
) -> tuple[list[str], list[tuple[str, str]]]:
    """Merges the most frequent pairs of symbols first (Sennrich et al. 2016), by Hugging Face's `tokenizers`."""
    # `words` counts words, without spaces. The vocabulary begins with `first`, which has all their symbols: the library
    # would number symbols with the prefix of those inside words at random, which decides ties. Returns it, up to `size`
    # tokens, and the merged pairs, earliest first.
    tokenizers = import_extra("tokenizers", "tokenizers", extra="vocab")

    def expand_words() -> Iterator[str]:  # the library takes no counts
        for word, count in words.items():
            for done in range(0, count, _MAX_REPETITIONS):
                yield f"{word} " * min(count - done, _MAX_REPETITIONS)

    learner = tokenizers.Tokenizer(tokenizers.models.BPE())
    learner.pre_tokenizer = tokenizers.pre_tokenizers.CharDelimiterSplit(" ")
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=_MIN_FREQUENCY,
        special_tokens=list(first),
        continuing_subword_prefix=prefix,
        max_token_length=_MAX_TOKEN_LENGTH,
        show_progress=False,
    )
    wait_for(lambda: learner.train_from_iterator(expand_words(), trainer))
    model = json.loads(learner.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].get), [tuple(pair) for pair in model["merges"]]


def wait_for(work: Callable[[], T]) -> T:
    """Runs `work`, C++ or Rust code, in a thread, so that Ctrl-C works meanwhile. Shows a clock."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    with progress_bar(None, "", bar_format="learning tokens: {elapsed}") as clock:
        while not concurrent.futures.wait([future], timeout=0.2).done:
            clock.update(0)
    return future.result()


# Each family's special tokens, in its order; RoBERTa has its mask at the end.
_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA, _ROBERTA_LAST = ("<s>", "<pad>", "</s>", "<unk>"), ("<mask>",)
_ALBERT = ("[CLS]", "[SEP]", "[MASK]")  # after <pad> and <unk>
# Never part of another token: google-research/albert, README, "Learning a vocabulary".
_ALBERT_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")

# SentencePiece needs 20 times this memory. From a larger corpus, it gets every second, fourth, ... text.
_MAX_BYTES = 2**27


def learn_vocabulary(
    corpus: Corpus,
    size: int,
    kind: str = "wordpiece",
    lowercase: bool | None = None,
    strip_accents: bool | None = None,
    character_coverage: float = 1.0,
) -> Tokenizer:
    """Learns a vocabulary from a corpus, to pre-train a model for a language or domain that no vocabulary fits.

    The tokenizer's own operations normalize the text and split it into words, so that it later matches the learned
    tokens. The result is deterministic. The corpus may be larger than memory, because words are counted as they are
    read (of more than 128 MiB, SentencePiece learns from a part).

    - `"wordpiece"`, BERT's: pairs are merged by frequency (Sennrich et al. 2016), with `##` inside words, as Hugging
      Face's `tokenizers` learns it (Google's own code, Schuster and Nakajima 2012, is not public). Each character of
      the corpus is a token, so that no word of these characters is unknown.
    - `"bytepair"`, RoBERTa's: the same with bytes; capitals and accents stay.
    - `"sentencepiece"`, ALBERT's: a unigram model (Kudo 2018), by google/sentencepiece with ALBERT's settings.

    Args:
        corpus: texts (str), from a list or an iterator; or paths (`pathlib.Path`) of UTF-8 files with one text per
            line, or of directories of .txt files.
        size: the size of the vocabulary, special tokens included.
        kind: as above.
        lowercase: whether to lower-case; default: yes, as BERT's `uncased` models and ALBERT; never for byte pairs.
        strip_accents: whether to drop accents; default: as `lowercase`.
        character_coverage: the share of all occurrences of characters, from 0.98 to 1, that tokens cover; the rarest
            characters are unknown. In a corpus of many scripts, 0.9995 leaves more of the vocabulary to words.

    Returns:
        A `WordPieceTokenizer`, `BytePairTokenizer` or `SentencePieceTokenizer`. `save_preset(directory)` writes its
        files; `BertPreprocessor(tokenizer)` makes the inputs of a model with this vocabulary. If too few tokens occur
        twice in the corpus, the vocabulary has fewer than `size` tokens, with a warning.

    Raises:
        ImportError: the library that learns this kind is not installed.
        FileNotFoundError, TypeError, ValueError: a part of the corpus is missing, or not text; or the corpus is empty,
            or `size` too small for its characters (the message gives the smallest).

    Example:
        >>> tokenizer = learn_vocabulary(["a low cat, a slow cat", "the lowest, slowest cat"] * 2, size=32)
        >>> tokenizer.vocabulary[:5], tokenizer.vocabulary[-5:]
        (['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'], ['low', 'sl', '##es', 'slow', '##est'])
        >>> [tokenizer.vocabulary[i] for i in tokenizer.tokenize("A Low, slow toast")]
        ['a', 'low', ',', 'slow', 't', '##o', '##a', '##s', '##t']
    """
    check_choice("kind", kind, VOCABULARIES)
    for name, value, expected in (("size", size, Integral), ("character_coverage", character_coverage, Real)):
        if not isinstance(value, expected) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r:.60}; expected a {'whole ' * (expected is Integral)}number")
    if size < 1:
        raise ValueError(f"size is {size}; expected at least the special tokens")
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(f"character_coverage is {character_coverage}; expected a share from 0.98 to 1")
    library = "sentencepiece" if kind == "sentencepiece" else "tokenizers"
    import_extra(library, library, extra="vocab")  # raises before the corpus is read
    if kind == "bytepair":
        if lowercase or strip_accents or character_coverage != 1:
            raise ValueError(
                "byte pairs cover all bytes, and keep capitals and accents; leave out lowercase, strip_accents "
                "and character_coverage"
            )
        tokenizer: Tokenizer = _learn_bytepair(corpus, size)
    else:
        lowercase = True if lowercase is None else lowercase
        strip_accents = lowercase if strip_accents is None else strip_accents
        learn = _learn_wordpiece if kind == "wordpiece" else _learn_sentencepiece
        tokenizer = learn(corpus, size, lowercase, strip_accents, character_coverage)
    if tokenizer.vocabulary_size < size:
        warnings.warn(
            f"the vocabulary has {tokenizer.vocabulary_size:,} tokens, not {size:,}: no others occur twice in the "
            "corpus; use more text for more tokens",
            stacklevel=2,
        )
    return tokenizer


class Fertility(NamedTuple):
    """The fit of a vocabulary to a corpus: fewer tokens per word, and fewer unknown ones, are better."""

    tokens_per_word: float  # white space separates words (Rust et al. 2021, section 4)
    bytes_per_token: float  # UTF-8; comparable for languages without spaces too
    unknown: float  # share of unknown tokens


def fertility(tokenizer: Tokenizer, corpus: Corpus) -> Fertility:
    """Measures a vocabulary on the first 16 megabytes of a corpus; see `learn_vocabulary` for its form and errors.

    Raises:
        ValueError: also if the corpus has no words.

    Example:
        >>> tokenizer = WordPieceTokenizer.from_preset("all-MiniLM-L6-v2")
        >>> fertility(tokenizer, ["Unaffable you", "\\u2603"])  # the snowman is unknown
        Fertility(tokens_per_word=1.666..., bytes_per_token=3.2, unknown=0.2)
    """
    words = size = tokens = unknown = 0
    for batch in islice(read_batches(corpus), 16):
        ids = tokenizer.tokenize(batch).values
        words += sum(len(text.decode().split()) for text in batch)
        size += sum(map(len, batch))
        tokens += int(tf.size(ids))
        unknown += int(tf.math.count_nonzero(ids == tokenizer.unk_token_id))
    _check_not_empty([tokens and words])
    return Fertility(tokens / words, size / tokens, unknown / tokens)


def _learn_wordpiece(
    corpus: Corpus, size: int, lowercase: bool, strip_accents: bool, character_coverage: float
) -> WordPieceTokenizer:
    normalizer = BertNormalizer(lowercase, strip_accents)
    words: Counter[str] = Counter()
    for batch in read_batches(corpus):
        with tf.device("CPU"):
            normalized, _ = normalizer(tf.constant(batch))
        count_words(words, split_into_words(normalized))
    words = Counter({word: times for word, times in words.items() if len(word) <= LONGEST_WORD})
    _check_not_empty(words)
    chars = alphabet(words, character_coverage)
    first = [*_BERT, *chars, *(f"##{char}" for char in inside_words(chars))]
    if size < len(first):
        raise _too_small_error(size, len(first))
    known = {*chars}
    words_of_known = {word: times for word, times in words.items() if known.issuperset(word)}
    vocabulary, _ = _learn_pairs(words_of_known, first, size, prefix="##")
    return WordPieceTokenizer(vocabulary, lowercase=lowercase, strip_accents=strip_accents)


def _learn_bytepair(corpus: Corpus, size: int) -> BytePairTokenizer:
    symbols = byte_symbols()
    first = [*_ROBERTA, *sorted(symbols)]
    if size < (min_size := len(first) + len(_ROBERTA_LAST)):
        raise ValueError(f"size is {size}; the special tokens and the 256 bytes need at least {min_size}")
    words: Counter[bytes] = Counter()
    for batch in read_batches(corpus):
        with tf.device("CPU"):
            count_words(words, split_words(tf.constant(batch)).values.numpy())
    _check_not_empty(words)
    spelled_words = {word.decode("latin-1").translate(symbols): times for word, times in words.items()}
    tokens, merges = _learn_pairs(spelled_words, first, size - len(_ROBERTA_LAST))
    return BytePairTokenizer([*tokens, *_ROBERTA_LAST], merges)


def _learn_sentencepiece(
    corpus: Corpus, size: int, lowercase: bool, strip_accents: bool, character_coverage: float
) -> SentencePieceTokenizer:
    sentencepiece = import_extra("sentencepiece", "sentencepiece", extra="vocab")
    normalizer = CompatibilityNormalizer(lowercase, strip_accents)
    texts: list[bytes] = []
    held_bytes, step, texts_read = 0, 1, 0
    for batch in read_batches(corpus):
        with tf.device("CPU"):
            normalized = normalizer(tf.constant(batch))[0].numpy()
        chosen = normalized[-texts_read % step :: step].tolist()
        texts += chosen
        held_bytes += sum(map(len, chosen))
        texts_read += len(batch)
        while held_bytes > _MAX_BYTES and len(texts) > 1:
            texts, step = texts[::2], 2 * step
            held_bytes = sum(map(len, texts))
    _check_not_empty(map(bytes.strip, texts))
    model = io.BytesIO()
    options = {
        "model_type": "unigram",
        "vocab_size": size,
        "hard_vocab_limit": False,
        "character_coverage": character_coverage,
        "max_sentence_length": 2**30,
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": -1,
        "eos_id": -1,
        "pad_piece": "<pad>",
        "unk_piece": "<unk>",
        "control_symbols": list(_ALBERT),
        "user_defined_symbols": list(_ALBERT_SYMBOLS),
        "minloglevel": 2,
    }
    train = sentencepiece.SentencePieceTrainer.train
    try:
        wait_for(lambda: train(sentence_iterator=iter(texts), model_writer=model, **options))
    except RuntimeError as error:
        if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
            raise _too_small_error(size, int(match[1])) from None
        raise ValueError(f"google/sentencepiece cannot learn from this corpus: {error}") from None
    return SentencePieceTokenizer(model.getvalue(), lowercase=lowercase, strip_accents=strip_accents)


def _check_not_empty(words: Iterable) -> None:
    if not any(words):
        raise ValueError("the corpus is empty: there are no words in it")


def _too_small_error(size: int, min_size: int) -> ValueError:
    return ValueError(
        f"size is {size:,}; the special tokens and the characters of this corpus need at least {min_size:,}, or fewer "
        "with a lower character_coverage, such as 0.9995"
    )
