"""WordPiece, BERT's tokenizer, in the TensorFlow graph."""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.formats.tokenizers import wordpiece
from keras_bert.formats.tokenizers.tokenizer_json import TOKENS, words_before
from keras_bert.formats.tokenizers.wordpiece import WordPieceArguments
from keras_bert.text.pairs import PairFormat
from keras_bert.text.strings import Normalizer, lower_dotted_capitals, normalize_unless
from keras_bert.text.tokenizer import Tokenizer, Tokens, merge_rows, tokenize_around
from keras_bert.text.vocabulary import describe_source, read_tokens

_WHITE_SPACE = re.compile(r"\s")  # the characters of str.isspace
_SPACE = r"[\t\n\r\p{Z}]"
_MAX_CHARS = 2**28  # TensorFlow Text counts their bytes in int32
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]"


@keras.saving.register_keras_serializable(package="keras_bert")
class WordPieceTokenizer(Tokenizer):
    """The tokenizer of Google's original BERT (Devlin et al. 2018, `FullTokenizer`), id for id.

    It removes control characters, lower-cases, strips accents, and splits the text into words at white space and around
    punctuation and CJK characters. Each word is split, from the left, into the longest tokens in the vocabulary.

    Args:
        vocabulary: path of a `vocab.txt`, or the list of tokens; the index is the id.
        lowercase: whether to lower-case (True for `uncased` models).
        strip_accents: whether to drop accents; default: as `lowercase`, like the original.
        split_on_cjk: whether each CJK ideograph is a word. (False is several times slower.)
        max_chars_per_word: words with more characters, after normalization, become the unknown token.
        special_tokens_in_text: whether to recognize special tokens, such as `[MASK]`, in the text, rather than split
            them like other text. Leave it off for text from untrusted sources.
        unk_token, cls_token, sep_token, pad_token, mask_token: the special tokens, all in the vocabulary.
        separators: the number of separator tokens between the texts of a pair; 2 in MPNet (Song et al. 2020).
        second_type_id: the type id of the second text of a pair; 0 in MPNet.
        added_tokens: tokens of the vocabulary that are matched anywhere in normalized text before it is split into
            words. If two begin at the same place, the longer one is matched. The tokens are normalized like the text.
        more_special_tokens: further special tokens of the vocabulary, such as markers of entities, recognized only with
            `special_tokens_in_text`.
        packing: how texts become rows: "special", with `[CLS]` and `[SEP]` or the like; "plain", without them; or
            "known", without them, where a row's mask leaves out unknown tokens. The last two are for static vectors.

    Attributes:
        vocabulary, vocabulary_size, unk_token_id, ...: see `Tokenizer`.

    Raises:
        FileNotFoundError, ValueError: there is no vocabulary file, or it is damaged or lacks a special token.

    Example:
        >>> tokenizer = WordPieceTokenizer.from_preset("all-MiniLM-L6-v2")
        >>> tokenizer.tokenize(["Unaffable naïveté!", ""])
        <tf.RaggedTensor [[14477, 20961, 3468, 15743, 2618, 999], []]>
        >>> ids, starts, ends = tokenizer.tokenize_with_offsets("Café noir")
        >>> [("Café noir".encode()[a:b]).decode() for a, b in zip(starts, ends)]
        ['Café', 'noir']
        >>> tokenizer.detokenize(ids).numpy().decode()
        'cafe noir'
    """

    _LISTS = ("vocabulary",)
    is_whole = False  # a vocab.txt does not show whether its end is missing
    _format = wordpiece

    def __init__(
        self,
        vocabulary: str | Path | Sequence[str],
        lowercase: bool = WordPieceArguments.lowercase,
        strip_accents: bool | None = WordPieceArguments.strip_accents,
        split_on_cjk: bool = WordPieceArguments.split_on_cjk,
        max_chars_per_word: int = WordPieceArguments.max_chars_per_word,
        special_tokens_in_text: bool = WordPieceArguments.special_tokens_in_text,
        unk_token: str = WordPieceArguments.unk_token,
        cls_token: str = WordPieceArguments.cls_token,
        sep_token: str = WordPieceArguments.sep_token,
        pad_token: str = WordPieceArguments.pad_token,
        mask_token: str = WordPieceArguments.mask_token,
        separators: int = WordPieceArguments.separators,
        second_type_id: int = WordPieceArguments.second_type_id,
        added_tokens: Sequence[str] = WordPieceArguments.added_tokens,
        more_special_tokens: Sequence[str] = WordPieceArguments.more_special_tokens,
        packing: str = WordPieceArguments.packing,
    ):
        if not 1 <= max_chars_per_word <= _MAX_CHARS:
            raise ValueError(f"max_chars_per_word is {max_chars_per_word}; expected 1 to {_MAX_CHARS}")
        names = (unk_token, cls_token, sep_token, pad_token, mask_token)
        special_tokens = dict(zip(TOKENS, names, strict=True))
        tokens = read_tokens(vocabulary, special_tokens, [*added_tokens, *more_special_tokens])
        begins_word = [not token.startswith("##") for token in tokens]
        super().__init__(tokens, special_tokens, special_tokens_in_text, begins_word, more_special_tokens)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_on_cjk = split_on_cjk
        self.max_chars_per_word = max_chars_per_word
        self.pair_format = PairFormat(separators, second_type_id, packing=packing)

        strip = lowercase if strip_accents is None else strip_accents
        self._normalizer = BertNormalizer(lowercase, strip, split_on_cjk, max_chars_per_word)
        self.added_tokens = list(added_tokens)
        with tf.init_scope(), tf.device("CPU"):
            self._added = self._normalized_ids(self.added_tokens)
            self._tokens = tf.constant(self.vocabulary)
            try:
                words = words_before(tokens, self.more_special_tokens)
                self._wordpiece = _build_fast_wordpiece(
                    tuple(tokens), words, unk_token, split_on_cjk, max_chars_per_word
                )
            except RuntimeError as error:
                raise ValueError(f"{describe_source(vocabulary)} has only special tokens ({error})") from None

    def _normalized_ids(self, added_tokens: Sequence[str]) -> dict[str, int]:
        """Maps the added tokens, as they are in normalized text, to their ids."""
        texts = self._normalizer(tf.constant(added_tokens))[0].numpy() if added_tokens else []
        for token, text in zip(added_tokens, texts, strict=True):
            if not text:
                raise ValueError(f"normalization leaves nothing of the added token {token!r}")
        ids = map(self.vocabulary.index, added_tokens)
        return {text.decode(): index for text, index in zip(texts, ids, strict=True)}

    def _tokenize_text(self, strings: tf.Tensor, rows: tf.Tensor | None, with_offsets: bool) -> Tokens:
        normalized, plain = self._normalizer(strings, rows)
        tokens = tokenize_around(
            self._added,
            None,
            normalized,
            lambda chunks, row: self._tokenize_chunk(chunks, plain if row is None else tf.gather(plain, row)),
            spaces_alike=True,
        )
        if with_offsets:
            ids, *spans = tokens
            moved = ~plain & (normalized != strings)
            tokens = _if_any(moved, lambda: (ids, *self._normalizer.original_offsets(strings, moved, *spans)), tokens)
        return tokens

    def _tokenize_chunk(self, normalized: tf.Tensor, plain: tf.Tensor) -> Tokens:
        """Tokenizes normalized text between added tokens; the offsets are offsets into it."""
        tokens = self._split_into_tokens(normalized)
        may_be_too_long = ~self._normalizer.rows_of_short_words(tf.boolean_mask(normalized, ~plain))
        return _if_any(may_be_too_long, lambda: self._limit_word_length(normalized, *tokens), tokens)

    def _split_into_tokens(self, normalized: tf.Tensor) -> Tokens:
        """Tokenizes normalized text, whatever the length of its words."""
        if self.split_on_cjk:
            return self._wordpiece.tokenize_with_offsets(normalized)
        words, word_starts, _ = tf_text.regex_split_with_offsets(
            normalized, f"{_SPACE}|{_PUNCTUATION}", keep_delim_regex_pattern=_PUNCTUATION
        )  # [batch, (words)]
        tokens = self._wordpiece.tokenize_with_offsets(words.values)  # [words, (tokens)]
        return merge_rows(tokens, word_starts.values, words.row_splits)

    def _limit_word_length(
        self, normalized: tf.Tensor, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> Tokens:
        """Replaces each word of over `max_chars_per_word` characters by one unknown token."""
        begins_word = tf.gather(self.begins_word, ids.values)  # bool [tokens]
        first = tf.where(begins_word)[:, 0]  # [words], the index of each word's first token
        after_last = tf.concat([first[1:], [tf.size(ids.values, tf.int64)]], 0)
        word_starts = tf.gather(starts.values, first)
        word_ends = tf.gather(ends.values, after_last[: tf.size(first)] - 1)
        word_rows = tf.gather(ids.value_rowids(), first)
        origin = tf.cast(tf.gather(tf.cumsum(tf.strings.length(normalized), exclusive=True), word_rows), tf.int64)
        data = tf.io.decode_raw(tf.strings.reduce_join(normalized), tf.uint8)
        begins_char = tf.cast((data & 0xC0) != 0x80, tf.int32)  # [bytes]
        chars_before = tf.concat([[0], tf.cumsum(begins_char)], 0)
        word_chars = tf.gather(chars_before, origin + word_ends) - tf.gather(chars_before, origin + word_starts)
        word = tf.cumsum(tf.cast(begins_word, tf.int32)) - 1  # [tokens]
        too_long = tf.gather(word_chars > self.max_chars_per_word, word)
        values = (
            tf.where(too_long, self.unk_token_id, ids.values),
            starts.values,
            tf.where(too_long, tf.gather(word_ends, word), ends.values),
        )
        keep = ids.with_values(begins_word | ~too_long)
        return tuple(tf.ragged.boolean_mask(ids.with_values(value), keep) for value in values)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins `##` tokens, and removes spaces around punctuation. Capitals and accents are not restored."""
        return join_tokens(ids.with_flat_values(tf.gather(self._tokens, ids.flat_values)))


def _if_any(rows: tf.Tensor, change: Callable[[], Tokens], tokens: Tokens) -> Tokens:
    """Returns `change()` if any of `rows` (bool) is True, else `tokens`. Most batches skip the work of `change`."""
    return tf.cond(tf.reduce_any(rows), change, lambda: tokens)


@functools.lru_cache(maxsize=4)
def _build_fast_wordpiece(
    vocabulary: tuple[str, ...], words: int, unk_token: str, split_on_cjk: bool, max_chars_per_word: int
) -> tf_text.FastWordpieceTokenizer:
    """Builds the vocabulary's trie. It is cached, because this is slow and many models have the same vocabulary."""
    # White space (U+2028 in Chinese BERT) and what is no word are replaced by a placeholder that no text matches.
    trie_tokens = [
        f"[{i}: no word]" if i >= words or _WHITE_SPACE.search(token) else token for i, token in enumerate(vocabulary)
    ]
    return tf_text.FastWordpieceTokenizer(
        trie_tokens,
        max_bytes_per_word=4 * max_chars_per_word,  # it counts bytes; _limit_word_length counts characters
        token_out_type=tf.int32,
        unknown_token=unk_token,
        no_pretokenization=not split_on_cjk,  # its own word splitting always splits CJK
    )


# -- Normalization.

# Google's clean_text removes U+0000, U+FFFD, and categories Cc and Cf, except tab, line feed and carriage return.
_REMOVED = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\p{Cf}\x{fffd}"
_CJK_IDEOGRAPHS = r"\x{4e00}-\x{9fff}"


@dataclass(frozen=True)
class BertNormalizer(Normalizer):
    """The normalization of the original BERT's `BasicTokenizer`, in its order."""

    # Control characters are removed; letters lowered as by `str.lower`, without case folding; then decomposed (NFD),
    # and nonspacing marks (category Mn) dropped.

    lowercase: bool
    strip_accents: bool
    split_on_cjk: bool = True  # this and the next: the tokenizer's rules for words, for `plain_rows`
    max_chars_per_word: int = 200

    def plain_rows(self, strings: tf.Tensor) -> tf.Tensor:
        """Marks rows of ASCII, typographic signs, ideographs, and no long word, which skip the Unicode steps."""
        return self._match_short_words(strings, "[0-9A-Za-z]")

    def rows_of_short_words(self, strings: tf.Tensor) -> tf.Tensor:
        """Marks rows, nearly all in most languages, in which `plain_rows`' separators show that no word is too long."""
        return self._match_short_words(strings, "[^{separators}]")

    def _match_short_words(self, strings: tf.Tensor, char: str) -> tf.Tensor:
        separators = r"\t\n\r -/:-@\[-`{-~\x{2010}-\x{2027}\x{2030}-\x{2043}\x{2045}-\x{2051}\x{2053}-\x{205e}"
        separators += _CJK_IDEOGRAPHS if self.split_on_cjk else ""
        most = min(self.max_chars_per_word, 200)  # for longer words, RE2's automaton does not fit into its memory
        word = f"{char.format(separators=separators)}{{0,{most}}}"
        return tf.strings.regex_full_match(strings, f"(?:{word}[{separators}]+)*{word}")

    def __call__(self, strings: tf.Tensor, rows: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Normalizes string `[batch]`, whose numbers in messages are `rows`, and returns it with its `plain_rows`."""
        plain = self.plain_rows(strings)
        # ASCII is lowered first, without ICU, which would follow the locale: a Turkish one lowers I to a dotless ı.
        lowered = tf.strings.lower(strings) if self.lowercase else strings
        return normalize_unless(plain, lowered, rows, self._normalize), plain

    def _normalize(self, strings: tf.Tensor) -> tf.Tensor:
        strings = tf.strings.regex_replace(strings, f"[{_REMOVED}]+", "")
        if self.lowercase:
            strings = strings if self.strip_accents else lower_dotted_capitals(strings)
            strings = tf.strings.lower(strings, encoding="utf-8")
        if self.strip_accents:
            strings = tf.strings.regex_replace(tf_text.normalize_utf8(strings, "NFD"), r"\p{Mn}+", "")
        return strings

    def _normalize_characters(self, chars: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        present = tf.strings.length(tf.strings.regex_replace(chars, f"[{_REMOVED}]+", "")) > 0
        results = self._normalize(tf.strings.lower(chars) if self.lowercase else chars)
        return results, present & (tf.strings.length(results) == 0)


# -- Joins tokens into text. Tokenization loses the spaces around punctuation, so rules guess them.

_CJK = r"\x{3001}-\x{30ff}\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{ff01}-\x{ff20}\x{20000}-\x{2fa1f}"
_LETTER = r"[\p{L}\p{M}]"

# (pattern, replacement), in order. RE2 has no look-around and its matches do not overlap, so the rule of a pattern that
# may repeat (3 , 000 , 000) is applied twice.
_RULES = (
    (r"(^| )##", ""),
    # Between digits: 3.5, 10:30, 1,000,000.
    (r"(\d) ([.:]) (\d)", r"\1\2\3"),
    *[(r"(\d) , (\d\d\d)\b", r"\1,\2")] * 2,
    # Apostrophes: don't, she’s, o'clock, l'amour.
    (rf"({_LETTER}) (['’]) (s|t|re|ve|ll|d|m|S|T|RE|VE|LL|D|M)\b", r"\1\2\3"),
    (rf"\b([a-zA-Z]) (['’]) ({_LETTER})", r"\1\2\3"),
    # Inside words: well-known, and/or, snake_case, [MASK]-like.
    *[(r"([\pL\pN\]]) ([-/_]) ([\pL\pN\[])", r"\1\2\3")] * 2,
    # Straight quotes open and close in turn.
    (r'" ([^"]*?) "', r'"\1"'),
    (r"(^|[ (\[\"“])' ([^']*?) '( |[)\].,!?;:\"”]|$)", r"\1'\2'\3"),
    (rf"({_LETTER}) '( |$)", r"\1'\2"),  # the dogs' tails
    (r" ([.,!?;:)\]}%…”’»])", r"\1"),
    (r"([(\[{“‘«$£€#@¿¡]) ", r"\1"),
    # Chinese and Japanese are written without spaces.
    *[(rf"([{_CJK}]) ([{_CJK}])", r"\1\2")] * 2,
)


def join_tokens(tokens: tf.RaggedTensor) -> tf.Tensor:
    """Joins `##` tokens, and removes spaces around punctuation: string `[batch, (tokens)]` -> string `[batch]`."""
    text = tf.strings.reduce_join(tokens, axis=-1, separator=" ")
    for pattern, replacement in _RULES:
        text = tf.strings.regex_replace(text, pattern, replacement)
    return text
