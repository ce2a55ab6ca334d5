"""The base class of all tokenizers: their interface, special tokens, and words."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import tensorflow as tf

from keras_bert import presets
from keras_bert.text.packing import BERT_PAIRS, PairFormat
from keras_bert.text.splitting import Tokens, tokenize_around
from keras_bert.text.strings import as_strings, readable_errors, require

T = TypeVar("T", bound="Tokenizer")


class Tokenizer:
    """The interface of the tokenizers; subclasses turn text into tokens, and tokens into text.

    Args:
        vocabulary: the tokens; the index is the id.
        special_tokens: `unk_token`, `cls_token`, `sep_token`, `pad_token` and `mask_token`, all in the vocabulary.
        special_tokens_in_text: whether a special token in the text is that token.
        begins_word: for each token, whether a word begins with it.

    Attributes:
        vocabulary: list of str.
        vocabulary_size: int.
        special_tokens: dict of str, name of the argument -> token.
        unk_token_id, cls_token_id, sep_token_id, pad_token_id, mask_token_id: int.
        begins_word: bool `[vocabulary_size]`, as given.
        pair_format: how a pair of texts is packed.
    """

    pair_format: PairFormat = BERT_PAIRS
    # Whether white space before the mask token belongs to it: it does where tokens include the space before them.
    _mask_takes_space = False
    # Tokens that are split off the text before all else.
    _symbols: Sequence[str] = ()
    # A directory's files -> the arguments of the class, and back.
    _read_files: ClassVar[Callable[[Path], dict[str, Any]]]
    _write_files: ClassVar[Callable[[str | Path, dict[str, Any], bool], None]]

    def __init__(
        self,
        vocabulary: Sequence[str],
        special_tokens: Mapping[str, str],
        special_tokens_in_text: bool,
        begins_word: Sequence[bool],
    ):
        self.vocabulary = list(vocabulary)
        self.vocabulary_size = len(self.vocabulary)
        self.special_tokens = dict(special_tokens)
        self.special_tokens_in_text = special_tokens_in_text
        self.unk_token_id = self.vocabulary.index(special_tokens["unk_token"])
        self.cls_token_id = self.vocabulary.index(special_tokens["cls_token"])
        self.sep_token_id = self.vocabulary.index(special_tokens["sep_token"])
        self.pad_token_id = self.vocabulary.index(special_tokens["pad_token"])
        self.mask_token_id = self.vocabulary.index(special_tokens["mask_token"])
        # Tensors made here outlive the graph being traced, and stay off the GPU, which has no string ops.
        with tf.init_scope(), tf.device("CPU"):
            self.begins_word = tf.constant(begins_word, tf.bool)
        signature = [tf.TensorSpec([None], tf.string)]
        self._ids = tf.function(self._tokenize_batch, input_signature=signature, autograph=False)
        self._ids_and_offsets = tf.function(
            self._tokenize_batch_with_offsets, input_signature=signature, autograph=False
        )

    def tokenize(self, strings: Any) -> tf.RaggedTensor:
        """Strings -> ids, without the special tokens of a sequence, such as `[CLS]` and `[SEP]`.

        Args:
            strings: string `[batch]` in any form (list of str, NumPy array, tensor), or one string.

        Returns:
            int32 `[batch, (tokens)]` ragged; `[tokens]` for one string. No tokens for an empty text.

        Raises:
            TypeError, ValueError: not strings, or of rank over 1, or with a lone surrogate.
            ValueError (in a graph, tf.errors.InvalidArgumentError): a row is not valid UTF-8.
        """
        strings = as_strings(strings)
        with readable_errors():
            return self._ids(strings) if strings.shape.rank else self._ids(strings[None])[0]

    def tokenize_with_offsets(self, strings: Any) -> Tokens:
        """Strings -> ids, and the span of bytes of each token.

        Args:
            strings: as for `tokenize`.

        Returns:
            `(ids, starts, ends)`, int32, int64, int64, each `[batch, (tokens)]`; `string.encode()[start:end]` is the
            token's text in the string as given, with its capitals and accents, without the space before it.

        Raises:
            As `tokenize`.
        """
        strings = as_strings(strings)
        with readable_errors():
            if strings.shape.rank:
                return self._ids_and_offsets(strings)
            ids, starts, ends = self._ids_and_offsets(strings[None])
        return ids[0], starts[0], ends[0]

    def tokenize_words(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """Words -> the tokens of each, as in `transformers` with `is_split_into_words=True`.

        Each word is tokenized by itself. Where tokens include the space before them, each word has one, the first of a
        text too (`add_prefix_space=True` there). Unlike there, a word that normalization leaves empty, such as a lone
        control character, is the unknown token, so that every word has a token.

        Args:
            words: string `[batch, (words)]`.

        Returns:
            int32 `[batch, (words), (tokens)]`, at least one token a word.

        Raises:
            As `tokenize`; the row in the message is the number of the word in the batch.

        Example:
            >>> from keras_bert.text import WordPieceTokenizer
            >>> tokenizer = WordPieceTokenizer.from_preset("all-MiniLM-L6-v2")
            >>> tokenizer.tokenize_words(tf.ragged.constant([["Unaffable", "\\u200b", "you"], []]))
            <tf.RaggedTensor [[[14477, 20961, 3468], [100], [2017]], []]>
        """
        tokens = self.tokenize(self._with_space(words.values))  # [words, (tokens)]
        missing = tf.cast(tokens.row_lengths() == 0, tf.int64)
        unknown = tf.fill([tf.reduce_sum(missing)], self.unk_token_id)
        return words.with_values(tf.concat([tokens, tf.RaggedTensor.from_row_lengths(unknown, missing)], axis=1))

    def group_by_word(self, ids: tf.RaggedTensor, *others: tf.RaggedTensor) -> tuple[tf.RaggedTensor, ...]:
        """Groups tokens by word.

        Args:
            ids: int32 `[batch, (tokens)]`, from `tokenize`.
            *others: other values of the tokens, of the same shape, such as their offsets.

        Returns:
            One ragged tensor `[batch, (words), (tokens)]` for each argument. A word starts with each row, and with each
            token that does not continue one: one without `##`, or (byte pairs, SentencePiece) with a space before it.

        Example:
            >>> from keras_bert.text import WordPieceTokenizer
            >>> tokenizer = WordPieceTokenizer.from_preset("all-MiniLM-L6-v2")
            >>> tokenizer.group_by_word(tokenizer.tokenize(["Unaffable you"]))
            (<tf.RaggedTensor [[[14477, 20961, 3468], [2017]]]>,)
        """
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

    def detokenize(self, ids: Any) -> tf.Tensor:
        """Ids -> text.

        `[CLS]`, `[SEP]` and `[PAD]` (or `<s>`, `</s>` and `<pad>`) are left out. The unknown token and the mask stay,
        because they stand for text.

        Args:
            ids: integers `[batch, (tokens)]`, ragged, dense or nested lists; or `[tokens]` for one text.

        Returns:
            string `[batch]`, or `[]` for one text.

        Raises:
            ValueError: not integers, or not of rank 1 or 2.
            ValueError (in a graph, tf.errors.InvalidArgumentError): an id is outside the vocabulary.
        """
        ids = ids if tf.is_tensor(ids) else tf.ragged.constant(ids, dtype=tf.int32)
        if not ids.dtype.is_integer or ids.shape.rank not in (1, 2):
            raise ValueError(f"got {ids.dtype.name} of shape {ids.shape}; expected integer ids [batch, (tokens)]")
        if ids.shape.rank == 1:
            return self.detokenize(tf.RaggedTensor.from_row_splits(ids, [0, tf.size(ids)]))[0]
        if not isinstance(ids, tf.RaggedTensor):
            ids = tf.RaggedTensor.from_tensor(ids)
        flat = tf.cast(ids.flat_values, tf.int32)
        known = (flat >= 0) & (flat < self.vocabulary_size)
        message = f"an id outside the vocabulary, whose ids are 0 to {self.vocabulary_size - 1}:"
        require(tf.reduce_all(known), message, tf.boolean_mask(flat, ~known)[:1])
        silent = (self.cls_token_id, self.sep_token_id, self.pad_token_id)
        shown = tf.reduce_all([flat != token for token in silent], axis=0)
        ids = ids.with_flat_values(tf.where(known, flat, 0))
        return self._join(tf.ragged.boolean_mask(ids, ids.with_flat_values(shown)))

    def _tokenize_batch(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return self._tokenize(strings, with_offsets=False)[0]

    def _tokenize_batch_with_offsets(self, strings: tf.Tensor) -> Tokens:
        return self._tokenize(strings, with_offsets=True)

    def _tokenize(self, strings: tf.Tensor, with_offsets: bool) -> Tokens:
        with tf.device("CPU"):
            tokenize_text = functools.partial(self._tokenize_text, with_offsets=with_offsets)
            tokens = [*self._symbols, *(self.special_tokens.values() if self.special_tokens_in_text else ())]
            if not tokens:
                return tokenize_text(strings, None)
            ids = {token: self.vocabulary.index(token) for token in tokens}
            mask = self.special_tokens["mask_token"]
            return tokenize_around(ids, mask if self._mask_takes_space else None, strings, tokenize_text)

    def _tokenize_text(self, strings: tf.Tensor, rows: tf.Tensor | None, with_offsets: bool) -> Tokens:
        """string `[batch]` -> tokens; `rows`, int64 `[batch]`, are the row numbers for error messages.

        Without offsets, `starts` and `ends` may be any int64 of the shape of `ids`.
        """
        raise NotImplementedError

    def _with_space(self, strings: tf.Tensor) -> tf.Tensor:
        """Puts a space before each word, if it is part of the word's first token."""
        return strings

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """int32 `[batch, (tokens)]`, all in the vocabulary -> string `[batch]`."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """The arguments, with the content of files in place of their paths."""
        raise NotImplementedError

    @classmethod
    def from_config(cls: type[T], config: dict[str, Any]) -> T:
        return cls(**config)

    @classmethod
    def from_preset(cls: type[T], handle: str | Path, **overrides: Any) -> T:
        """Reads a preset's tokenizer: the files of its class, or `tokenizer.json`; and `tokenizer_config.json`, if any.

        They are `vocab.txt` (WordPiece); `vocab.json` and `merges.txt` (byte pairs); `spiece.model` or
        `sentencepiece.bpe.model` (SentencePiece). KerasHub's `tokenizer.json` is read too. `load_tokenizer` finds the
        class.

        Args:
            handle: a directory, the name of an installed preset, or `hf://org/name`; see `presets.resolve`.
            **overrides: arguments of the constructor, in place of what the files say.

        Raises:
            FileNotFoundError: no such preset, or it has no such tokenizer.
            ValueError: a file is damaged, of another kind, or has a setting that would give other ids.
        """
        return cls(**(cls._read_files(presets.resolve(handle)) | overrides))

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes the tokenizer's files, which `from_preset` and `transformers` read, with `tokenizer_config.json`.

        They are `vocab.txt`; `vocab.json` and `merges.txt`; or the SentencePiece model and `tokenizer.json` (for
        "albert-transformers" this alone, as `transformers` itself saves it).

        Args:
            directory: created if missing; other files in it are left alone.
            overwrite: whether to replace these files.

        Raises:
            FileExistsError: one of them is there already.
        """
        type(self)._write_files(directory, self.get_config(), overwrite)
