"""Learns a vocabulary from a corpus. Needs the extra `vocab`."""

import io
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import tensorflow as tf

from keras_bert.extras import needed
from keras_bert.text.byte_level import byte_symbols, split_words
from keras_bert.text.bytepair import BytePairTokenizer
from keras_bert.text.compatibility import CompatibilityNormalizer
from keras_bert.text.learning_corpus import Corpus, read_batches
from keras_bert.text.learning_pairs import learn_pairs, wait_for
from keras_bert.text.learning_words import LONGEST_WORD, alphabet, count, inside_words, words_of
from keras_bert.text.normalization import BertNormalizer
from keras_bert.text.sentencepiece import SentencePieceTokenizer
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.wordpiece import WordPieceTokenizer

KINDS = ("wordpiece", "bytepair", "sentencepiece")

# Each family's special tokens, in its order; RoBERTa has its mask at the end.
_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA, _ROBERTA_LAST = ("<s>", "<pad>", "</s>", "<unk>"), ("<mask>",)
_ALBERT = ("[CLS]", "[SEP]", "[MASK]")  # after <pad> and <unk>
# Never part of another token: google-research/albert, README, "Learning a vocabulary".
_ALBERT_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")

# SentencePiece needs 20 times this memory. From a larger corpus, it gets every second, fourth, ... text.
_MOST_BYTES = 2**27


def learn_vocabulary(
    corpus: Corpus,
    size: int,
    kind: str = "wordpiece",
    lowercase: bool | None = None,
    strip_accents: bool | None = None,
    character_coverage: float = 1.0,
) -> Tokenizer:
    """Learns a vocabulary from a corpus.

    The tokenizer's own operations normalize the text and split it into words, so that it will find the learned tokens.
    The result is deterministic. The corpus may be larger than memory, because words are counted as they are read (from
    over 128 MiB, SentencePiece learns from a part). Progress is shown on a terminal.

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
        FileNotFoundError: there is no such file.
        TypeError: an element of the corpus is not text.
        ValueError: the kind is unknown, the corpus is empty, a file is not UTF-8, or the size is too small for the
            characters (the message gives the smallest).

    Example:
        >>> tokenizer = learn_vocabulary(["a low cat, a slow cat", "the lowest, slowest cat"] * 2, size=32)
        >>> tokenizer.vocabulary[:5], tokenizer.vocabulary[-5:]
        (['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'], ['low', 'sl', '##es', 'slow', '##est'])
        >>> [tokenizer.vocabulary[i] for i in tokenizer.tokenize("A Low, slow toast")]
        ['a', 'low', ',', 'slow', 't', '##o', '##a', '##s', '##t']
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(KINDS)}")
    if size < 1:
        raise ValueError(f"size is {size}; expected at least the special tokens")
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(f"character_coverage is {character_coverage}; expected a share from 0.98 to 1")
    if kind == "bytepair":
        if lowercase or strip_accents or character_coverage != 1:
            raise ValueError(
                "byte pairs are made of all bytes, and keep capitals and accents: leave out lowercase, strip_accents "
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
    """How well a vocabulary fits a corpus."""

    tokens_per_word: float  # white space separates words (Rust et al. 2021, section 4)
    bytes_per_token: float  # UTF-8; comparable for languages without spaces too
    unknown: float  # share of unknown tokens


def fertility(tokenizer: Tokenizer, corpus: Corpus) -> Fertility:
    """Measures a vocabulary on the first 16 megabytes of a corpus; see `learn_vocabulary` for its form.

    Raises:
        ValueError: the corpus has no words. For files, as `learn_vocabulary`.

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
    if not tokens or not words:
        raise ValueError("the corpus is empty: there are no words in it")
    return Fertility(tokens / words, size / tokens, unknown / tokens)


def _learn_wordpiece(
    corpus: Corpus, size: int, lowercase: bool, strip_accents: bool, character_coverage: float
) -> WordPieceTokenizer:
    normalizer = BertNormalizer(lowercase, strip_accents)
    words: Counter[str] = Counter()
    for batch in read_batches(corpus):
        with tf.device("CPU"):
            normalized, _ = normalizer(tf.constant(batch))
        count(words, words_of(normalized))
    words = Counter({word: times for word, times in words.items() if len(word) <= LONGEST_WORD})
    _check_any(words)
    chars = alphabet(words, character_coverage)
    inner = inside_words(chars)
    least = len(_BERT) + len(chars) + len(inner)
    if size < least:
        raise _too_small(size, least)
    # The library numbers ## tokens in a random order, which decides ties. So each character that begins a word, and
    # each that continues one, is replaced by a symbol of one character.
    symbols = [chr(0x20000 + index) for index in range(len(chars) + len(inner))]
    begins = dict(zip(chars, symbols[: len(chars)], strict=True))
    goes_on = dict(zip(map(ord, inner), symbols[len(chars) :], strict=True))
    spelled = {
        begins[word[0]] + word[1:].translate(goes_on): times
        for word, times in words.items()
        if begins.keys() >= set(word)
    }
    learned, _ = learn_pairs(spelled, symbols, size - len(_BERT))
    text = dict(zip(map(ord, symbols), [*chars, *inner], strict=True))
    prefix = dict.fromkeys(symbols, "##") | dict.fromkeys(begins.values(), "")
    vocabulary = [prefix[token[0]] + token.translate(text) for token in learned]
    return WordPieceTokenizer([*_BERT, *vocabulary], lowercase=lowercase, strip_accents=strip_accents)


def _learn_bytepair(corpus: Corpus, size: int) -> BytePairTokenizer:
    symbols = byte_symbols()
    least = len(_ROBERTA) + len(symbols) + len(_ROBERTA_LAST)
    if size < least:
        raise ValueError(f"size is {size}; the special tokens and the 256 bytes need at least {least}")
    words: Counter[bytes] = Counter()
    for batch in read_batches(corpus):
        with tf.device("CPU"):
            count(words, split_words(tf.constant(batch)).values.numpy())
    _check_any(words)
    spelled = {word.decode("latin-1").translate(symbols): times for word, times in words.items()}
    tokens, merges = learn_pairs(spelled, sorted(symbols), size - len(_ROBERTA) - len(_ROBERTA_LAST))
    return BytePairTokenizer([*_ROBERTA, *tokens, *_ROBERTA_LAST], merges)


def _learn_sentencepiece(
    corpus: Corpus, size: int, lowercase: bool, strip_accents: bool, character_coverage: float
) -> SentencePieceTokenizer:
    sentencepiece = needed("sentencepiece", "sentencepiece", extra="vocab")
    normalizer = CompatibilityNormalizer(lowercase, strip_accents)
    texts: list[bytes] = []
    held, step, read = 0, 1, 0
    for batch in read_batches(corpus):
        with tf.device("CPU"):
            normalized = normalizer(tf.constant(batch)).numpy()
        chosen = normalized[-read % step :: step].tolist()
        texts += chosen
        held += sum(map(len, chosen))
        read += len(batch)
        while held > _MOST_BYTES and len(texts) > 1:
            texts, step = texts[::2], 2 * step
            held = sum(map(len, texts))
    _check_any(map(bytes.strip, texts))
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
        if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error)):
            raise _too_small(size, int(least[1])) from None
        raise ValueError(f"google/sentencepiece cannot learn from this corpus: {error}") from None
    return SentencePieceTokenizer(model.getvalue(), lowercase=lowercase, strip_accents=strip_accents)


def _check_any(words: Iterable) -> None:
    if not any(words):
        raise ValueError("the corpus is empty: there are no words in it")


def _too_small(size: int, least: int) -> ValueError:
    return ValueError(
        f"size is {size:,}; the special tokens and the characters of this corpus need at least {least:,}, or fewer "
        "with a lower character_coverage, such as 0.9995"
    )
