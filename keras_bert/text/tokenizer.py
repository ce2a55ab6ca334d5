"""The base class of all tokenizers: their interface, special tokens and words."""

import copy
import functools
import inspect
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.formats import Preset
from keras_bert.formats.tokenizers.tokenizer_files import TokenizerFiles
from keras_bert.formats.tokenizers.tokenizer_json import TOKENS
from keras_bert.text.packing import Ids, as_ids, pack
from keras_bert.text.pairs import BERT_PAIRS, PairFormat
from keras_bert.text.strings import SPACES, Strings, as_strings, readable_errors, require

Tokens = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]  # ids, starts, ends: each [batch, (tokens)]
T = TypeVar("T", bound="Tokenizer")


class TokenizerFormat(Protocol):
    """A module of `formats/tokenizers/`: reads and writes the arguments of a class of tokenizers."""

    def read_files(self, preset_files: TokenizerFiles, /) -> dict[str, Any]: ...

    def write_files(self, directory: str | Path, arguments: dict[str, Any], overwrite: bool) -> None: ...

    def json_of(self, arguments: dict[str, Any]) -> dict[str, Any]: ...  # the content of a `tokenizer.json`


class Tokenizer:
    """The base class of the three tokenizers, which turn strings into ids and back.

    They work eagerly, in `tf.function`, in `tf.data` and in a SavedModel, and capture only constants.

    Attributes:
        vocabulary: list of str; the index is the id.
        vocabulary_size: int.
        special_tokens: `unk_token`, `cls_token`, `sep_token`, `pad_token` and `mask_token` -> tokens in the vocabulary.
        unk_token_id, cls_token_id, sep_token_id, pad_token_id, mask_token_id: int.
        special_ids: set of int: the ids of all special tokens, of `more_special_tokens` and of the family's own, too.
        begins_word: bool `[vocabulary_size]`: whether each token begins a word.
        pair_format: the format of a packed pair of texts.
        is_whole: whether the vocabulary comes from files whose format shows if the end is missing.
    """

    pair_format: PairFormat = BERT_PAIRS
    is_whole = True
    _mask_takes_space = False  # whether the mask token includes the white space before it
    _has_spaces = False  # whether white space has tokens
    _symbols: Sequence[str] = ()  # tokens that are split off the text first
    _format: ClassVar[TokenizerFormat]
    _LISTS: ClassVar[tuple[str, ...]] = ()  # arguments, lists in `get_config()`; the constructor takes files too

    def __init__(
        self,
        vocabulary: Sequence[str],
        special_tokens: Mapping[str, str],
        special_tokens_in_text: bool,
        begins_word: Sequence[bool],
        more_special_tokens: Sequence[str] = (),
    ):
        self.vocabulary = list(vocabulary)
        self.vocabulary_size = len(self.vocabulary)
        self.special_tokens = dict(special_tokens)
        self.special_tokens_in_text = special_tokens_in_text
        self.more_special_tokens = [token for token in more_special_tokens if token not in special_tokens.values()]
        self.unk_token_id, self.cls_token_id, self.sep_token_id, self.pad_token_id, self.mask_token_id = (
            self.vocabulary.index(special_tokens[name]) for name in TOKENS
        )
        self.special_ids = {*map(self.vocabulary.index, (*special_tokens.values(), *self.more_special_tokens))}
        # Tensors made here outlive the graph being traced, and stay off the GPU, which has no string ops.
        with tf.init_scope(), tf.device("CPU"):
            self.begins_word = tf.constant(begins_word, tf.bool)
        compiled = functools.partial(tf.function, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        self._ids = compiled(lambda strings: self._tokenize(strings, with_offsets=False)[0])
        self._ids_and_offsets = compiled(lambda strings: self._tokenize(strings, with_offsets=True))

    if not TYPE_CHECKING:  # to a type checker, it would mean that a tokenizer has any attribute

        def __getattr__(self, name: str) -> Any:
            """Names the method that does what one of other libraries' tokenizers does."""
            ours = {"encode": "tokenize", "decode": "detokenize", "batch_decode": "detokenize"}.get(name)
            raise AttributeError(f"a {type(self).__name__} has no {name!r}" + (f"; call {ours!r}" if ours else ""))

    def tokenize(self, strings: Strings) -> tf.RaggedTensor:
        """Turns strings into ids, without the special tokens of a sequence, such as `[CLS]` and `[SEP]`.

        Args:
            strings: string `[batch]` (list of str, NumPy array or tensor), or one string.

        Returns:
            int32 `[batch, (tokens)]` ragged; `[tokens]` for one string. An empty text has no tokens.

        Raises:
            TypeError, ValueError: not strings, a rank over 1, or a lone surrogate.
            ValueError (in a graph, tf.errors.InvalidArgumentError): a text is not valid UTF-8.
        """
        texts = as_strings(strings)
        with readable_errors():
            return self._ids(texts) if texts.shape.rank else self._ids(texts[None])[0]

    def tokenize_with_offsets(self, strings: Strings) -> Tokens:
        """Turns strings into ids and the byte span of each token. Arguments and errors are those of `tokenize`.

        Returns:
            `(ids, starts, ends)`, int32, int64, int64, each `[batch, (tokens)]`. `string.encode()[start:end]` is the
            text of the token in the original string, with capitals and accents, without the space before it.
        """
        texts = as_strings(strings)
        with readable_errors():
            if texts.shape.rank:
                return self._ids_and_offsets(texts)
            ids, starts, ends = self._ids_and_offsets(texts[None])
        return ids[0], starts[0], ends[0]

    def tokenize_words(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Tokenizes each word, string `[batch, (words)]`, by itself: int32 `[batch, (words), (tokens)]`.

        Use it if words have labels. If tokens include the space before them, every word gets a space, even the first
        (`add_prefix_space=True` in `transformers`). Every word has a token: if normalization leaves nothing of a word,
        such as a lone control character, it becomes the unknown token (in `transformers`, it has no token). Errors are
        those of `tokenize`, with the index of the word in the batch.

        Example:
            >>> from keras_bert.text import WordPieceTokenizer
            >>> tokenizer = WordPieceTokenizer.from_preset("all-MiniLM-L6-v2")
            >>> tokenizer.tokenize_words(tf.ragged.constant([["Unaffable", "\\u200b", "you"], []]))
            <tf.RaggedTensor [[[14477, 20961, 3468], [100], [2017]], []]>
        """
        _check_ragged(words, "words")
        tokens = self.tokenize(self._with_space(words.values))  # [words, (tokens)]
        missing = tf.cast(tokens.row_lengths() == 0, tf.int64)
        unknown = tf.fill([tf.reduce_sum(missing)], self.unk_token_id)
        return words.with_values(tf.concat([tokens, tf.RaggedTensor.from_row_lengths(unknown, missing)], axis=1))

    def group_by_word(self, ids: tf.RaggedTensor, *others: tf.RaggedTensor) -> tuple[tf.RaggedTensor, ...]:
        """Groups tokens by word, which begins with each row, and with each token that `begins_word` marks.

        Args:
            ids: int32 `[batch, (tokens)]`, from `tokenize`.
            *others: other values of the tokens, of the same shape, such as offsets.

        Returns:
            One ragged tensor `[batch, (words), (tokens)]` for each argument.

        Example:
            >>> from keras_bert.text import WordPieceTokenizer
            >>> tokenizer = WordPieceTokenizer.from_preset("all-MiniLM-L6-v2")
            >>> tokenizer.group_by_word(tokenizer.tokenize(["Unaffable you"]))
            (<tf.RaggedTensor [[[14477, 20961, 3468], [2017]]]>,)
        """
        for each in (ids, *others):
            _check_ragged(each, "ids")
        begins_word = tf.gather(self.begins_word, ids.values)  # bool [tokens]
        begins_row = tf.boolean_mask(ids.row_starts(), ids.row_lengths() > 0)[:, None]
        begins_word = tf.tensor_scatter_nd_update(begins_word, begins_row, tf.ones_like(begins_row[:, 0], tf.bool))
        first = tf.where(begins_word)[:, 0]  # [words], the index of each word's first token
        word_splits = tf.concat([first, [tf.size(ids.values, tf.int64)]], 0)
        words_before = tf.concat([[0], tf.cumsum(tf.cast(begins_word, tf.int64))], 0)  # [tokens + 1]
        row_splits = tf.gather(words_before, ids.row_splits)
        return tuple(
            tf.RaggedTensor.from_nested_row_splits(each.values, [row_splits, word_splits], validate=False)
            for each in (ids, *others)
        )

    def detokenize(self, ids: Ids) -> tf.Tensor:
        """Turns ids into text, without `[CLS]`, `[SEP]` and `[PAD]` (`<s>`, `</s>` and `<pad>`).

        Other special tokens stay, because they stand for text: the unknown token, the mask, markers such as `[E1]`.

        Args:
            ids: integers `[batch, (tokens)]`, ragged, dense or nested lists; `[tokens]` for one text.

        Returns:
            string `[batch]`, or `[]` for one text.

        Raises:
            ValueError: not integers, or not of rank 1 or 2.
            ValueError (in a graph, tf.errors.InvalidArgumentError): an id is outside the vocabulary.
        """
        tokens = as_ids(ids)
        if tokens.shape.rank == 1:
            return self.detokenize(tf.RaggedTensor.from_row_splits(tokens, [0, tf.size(tokens)]))[0]
        if not isinstance(tokens, tf.RaggedTensor):
            tokens = tf.RaggedTensor.from_tensor(tokens)
        known = self.check_ids(tokens.flat_values)
        flat = tf.cast(tokens.flat_values, tf.int32)
        left_out_ids = (self.cls_token_id, self.sep_token_id, self.pad_token_id)
        shown = tf.reduce_all([flat != token for token in left_out_ids], axis=0)
        tokens = tokens.with_flat_values(tf.where(known, flat, 0))
        return self._join(tf.ragged.boolean_mask(tokens, tokens.with_flat_values(shown)))

    def check_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """Raises as `detokenize` if an id is unknown.

        Returns:
            bool, of the shape of `ids`: whether each id is known. Graphs that drop assertions need it.
        """
        ids = tf.cast(ids, tf.int64)
        known = (ids >= 0) & (ids < self.vocabulary_size)
        message = f"an id outside the vocabulary, which has ids from 0 to {self.vocabulary_size - 1}:"
        require(tf.reduce_all(known), message, tf.boolean_mask(ids, ~known)[:1])
        return known

    def pack(self, segments: Sequence[tf.RaggedTensor], sequence_length: tf.Tensor | int) -> dict[str, tf.Tensor]:
        """Packs segments with this tokenizer's special tokens into padded rows, int32 `[batch, sequence_length]`."""
        special_ids = self.cls_token_id, self.sep_token_id, self.pad_token_id
        return pack(segments, sequence_length, *special_ids, self.pair_format, self.unk_token_id)

    def _tokenize(self, strings: tf.Tensor, with_offsets: bool) -> Tokens:
        with tf.device("CPU"):
            tokenize_text = functools.partial(self._tokenize_text, with_offsets=with_offsets)
            special = (*self.more_special_tokens, *self.special_tokens.values())
            tokens = [*self._symbols, *(special if self.special_tokens_in_text else ())]
            ids = {token: self.vocabulary.index(token) for token in tokens}
            mask = self.special_tokens["mask_token"]
            return tokenize_around(ids, mask if self._mask_takes_space else None, strings, tokenize_text)

    def _tokenize_text(self, strings: tf.Tensor, rows: tf.Tensor | None, with_offsets: bool) -> Tokens:
        """Tokenizes string `[batch]`, whose numbers in messages are `rows`; spans are right only `with_offsets`."""
        raise NotImplementedError

    def _with_space(self, strings: tf.Tensor) -> tf.Tensor:
        """Puts a space before each word, if tokens include it."""
        return strings

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins the tokens of valid ids, int32 `[batch, (tokens)]`, into string `[batch]`."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments, with the content of files in place of their paths."""
        values = {**vars(self), **self.special_tokens, **vars(self.pair_format)}
        names = inspect.signature(type(self)).parameters
        return {name: copy.copy(values[name]) for name in names if name in values}

    @classmethod
    def from_config(cls: type[T], config: dict[str, Any]) -> T:
        """Makes the tokenizer of a `get_config()`. Raises ValueError if vocabulary or merges are not lists."""
        # A configuration holds the content of files, never their paths. By a path, the author of a `.keras` file could
        # have any file of this computer read.
        for name in cls._LISTS:
            if not isinstance(config.get(name), list | tuple):
                raise ValueError(
                    f"the configuration of a {cls.__name__} has {reprlib.repr(config.get(name))} in {name}; expected a "
                    f"list (a path is for the constructor: {cls.__name__}({name}=...))"
                )
        return cls(**config)

    @classmethod
    def from_preset(cls: type[T], handle: str | Path | Preset, **overrides: Any) -> T:
        """Reads a preset's tokenizer of this class; see `load_tokenizer`, which chooses the class by the files.

        Raises:
            ValueError: also if the files are of another kind, contradict each other, or have a setting that would
                change the ids. `tokenizer_config.json` takes precedence over other files.
        """
        with Preset.open(handle) as preset:
            return cls._from_files(preset.tokenizer_files, overrides)

    @classmethod
    def _from_files(cls: type[T], preset_files: TokenizerFiles, overrides: dict[str, Any]) -> T:
        arguments = cls._format.read_files(preset_files)
        try:
            tokenizer = cls(**(arguments | overrides))
        except ValueError as error:
            if overrides or str(preset_files.directory) in str(error):
                raise
            raise ValueError(f"the tokenizer's files in {preset_files.directory}: {error}") from error
        from_files = {name: token for name, token in tokenizer.special_tokens.items() if name not in overrides}
        preset_files.check(tokenizer.vocabulary, from_files)
        if tokenizer.special_tokens_in_text:
            mask = tokenizer.special_tokens["mask_token"] if cls._mask_takes_space else None
            preset_files.check_flags(tokenizer.special_tokens, mask, cls._has_spaces)
        return tokenizer

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes the tokenizer's files and `tokenizer_config.json`, which `from_preset` and `transformers` read.

        The files are `vocab.txt`; `vocab.json` and `merges.txt`; or the SentencePiece model and `tokenizer.json`. Only
        `tokenizer.json` is written for "albert-transformers", as in `transformers`, and for byte pairs and WordPiece
        that are not RoBERTa's, BERT's or MPNet's, such as ModernBERT's. With `overwrite`, all files of another
        tokenizer in the directory are removed; without, they raise FileExistsError. Others stay.
        """
        self._format.write_files(directory, self.get_config(), overwrite)

    def tokenizer_json(self) -> dict[str, Any]:
        """Makes the content of a `tokenizer.json`, for the library `tokenizers`.

        For ordinary text it gives the same ids; see `docs/guides/runtimes.md`.
        """
        return self._format.json_of(self.get_config())


def _check_ragged(value: tf.RaggedTensor, name: str) -> None:
    if not isinstance(value, tf.RaggedTensor) or value.shape.rank != 2:
        kind = type(value).__name__
        raise TypeError(f"{name} is a {kind}; expected a ragged tensor [batch, ({name})]: tf.ragged.constant({name})")


def tokenize_around(
    added: Mapping[str, int],
    with_space: str | None,
    strings: tf.Tensor,
    tokenize_text: Callable[[tf.Tensor, tf.Tensor | None], Tokens],
    spaces_alike: bool = False,
) -> Tokens:
    """Matches `added` tokens (token -> id) in texts, string `[batch]`, longest first, and tokenizes what is between."""
    # `with_space` is the added token that includes the white space before it, or None. `tokenize_text` is called with
    # the chunks between, string `[chunks]`, and their rows, int64. With `spaces_alike`, any white space matches a
    # space.
    if not added:
        return tokenize_text(strings, None)
    patterns = {token: re.escape(token) for token in sorted(added, key=len, reverse=True)}
    spaces_alike &= any(" " in token for token in added)
    if spaces_alike:
        patterns = {token: pattern.replace(r"\ ", SPACES) for token, pattern in patterns.items()}
    if with_space is not None and with_space in added:
        patterns[with_space] = f"{SPACES}*{patterns[with_space]}"
    pattern = "|".join(patterns.values())
    # The operation ends a text at U+0000, so it gets U+0001 in its place: offsets in bytes stay the same.
    searched = tf.strings.regex_replace(strings, r"\x00", "\x01")
    chunks, starts, ends = tf_text.regex_split_with_offsets(searched, pattern, pattern)  # [batch, (chunks)]
    rows = tf.gather(strings, chunks.value_rowids())
    texts = tf.strings.substr(rows, starts.values, ends.values - starts.values)
    names = kept = texts
    if spaces_alike:
        names = tf.strings.regex_replace(names, SPACES, " ")
    if with_space is not None and with_space in added:
        names = kept = tf.strings.regex_replace(names, f"^{patterns[with_space]}$", with_space)
    index = KnownStrings(list(added))(names)  # [chunks], -1 for text
    special = index >= 0
    text = tf.where(special, "", texts)  # a chunk is either text or a token
    tokens = tokenize_text(text, chunks.value_rowids())
    count = tf.cast(special, tf.int64)
    ids = tf.gather(tf.constant(list(added.values())), tf.boolean_mask(index, special))
    last = tf.boolean_mask(ends.values - starts.values, special)
    first = last - tf.boolean_mask(tf.cast(tf.strings.length(kept), tf.int64), special)
    tokens = tuple(
        tf.concat([old, tf.RaggedTensor.from_row_lengths(new, count)], axis=1)
        for old, new in zip(tokens, (ids, first, last), strict=True)
    )
    return merge_rows(tokens, starts.values, chunks.row_splits)


def merge_rows(tokens: Tokens, origins: tf.Tensor, row_splits: tf.Tensor) -> Tokens:
    """Joins chunks into rows: `row_splits`, `[batch + 1]`, groups them; `origins`, `[chunks]`, is added to offsets."""
    ids, starts, ends = tokens
    splits = tf.gather(ids.row_splits, row_splits)
    shift = tf.gather(origins, ids.value_rowids())
    values = (ids.values, starts.values + shift, ends.values + shift)
    return tuple(tf.RaggedTensor.from_row_splits(value, splits, validate=False) for value in values)


class KnownStrings:
    """An index of known strings, all different, in a graph: of constants, searched by hash, not a lookup table."""

    def __init__(self, known: Sequence[str] | tf.Tensor):
        with tf.init_scope(), tf.device("CPU"):
            known = tf.convert_to_tensor(known)
            hashes = _hash(known)
            order = tf.argsort(hashes)
            # One more, for a search past the end.
            self._hashes = tf.concat([tf.gather(hashes, order), [tf.int64.max]], 0)
            self._known = tf.concat([tf.gather(known, order), [""]], 0)
            self._index = tf.concat([order, [-1]], 0)

    def __call__(self, strings: tf.Tensor) -> tf.Tensor:
        """Looks up the index of each string, `[n]`: int32 `[n]`, -1 for a string that is not known."""
        place = tf.searchsorted(self._hashes, _hash(strings))
        # Another string may have the same hash.
        return tf.where(tf.gather(self._known, place) == strings, tf.gather(self._index, place), -1)


def _hash(strings: tf.Tensor) -> tf.Tensor:
    return tf.strings.to_hash_bucket_fast(strings, tf.int64.max)
