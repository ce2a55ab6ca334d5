"""Strings <-> WordPiece ids, as published BERT models were trained, in the TensorFlow graph."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert import presets
from keras_bert.text.detokenization import join_pieces
from keras_bert.text.inputs import as_strings, readable_errors, require
from keras_bert.text.normalization import BertNormalizer
from keras_bert.text.tokenizer_files import read_wordpiece_files, write_wordpiece_files
from keras_bert.text.vocabulary import check_vocabulary, read_vocabulary

_SPACE = r"[\t\n\r\p{Z}]"
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]"

Pieces = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]  # ids, starts, ends: each [batch, (pieces)]


@keras.saving.register_keras_serializable(package="keras_bert")
class WordPieceTokenizer:
    """Exactly the tokenization of Google's original BERT (Devlin et al. 2018, `FullTokenizer`).

    Control characters go, the text is lower-cased and stripped of accents, words are split at white space, around
    punctuation and around CJK characters, and each word is cut into the longest pieces that the vocabulary has, from
    the left. It works eagerly, in `tf.function`, in `tf.data` and in a SavedModel.

    Args:
        vocabulary: path of a `vocab.txt`, or the list of pieces; the index is the id.
        lowercase: whether to lower-case (True for `uncased` models).
        strip_accents: whether to drop accents; default: as `lowercase`, which is what the original does.
        split_on_cjk: whether each CJK ideograph is a word of its own. (False is several times slower.)
        max_chars_per_word: longer words, in characters after normalization, are the unknown token.
        special_tokens_in_text: whether a special token that stands in the text, such as `[MASK]`, is that token
            rather than text to split. Leave it off for text that others wrote.
        unk_token, cls_token, sep_token, pad_token, mask_token: the names of the special tokens in the vocabulary.

    Attributes:
        vocabulary: list of str.
        vocabulary_size: int.
        unk_token_id, cls_token_id, sep_token_id, pad_token_id, mask_token_id: int.

    Raises:
        FileNotFoundError: no vocabulary file there.
        ValueError: the vocabulary is empty, damaged, has duplicates, or lacks a special token.

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

    def __init__(
        self,
        vocabulary: str | Path | Sequence[str],
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_on_cjk: bool = True,
        max_chars_per_word: int = 200,
        special_tokens_in_text: bool = False,
        unk_token: str = "[UNK]",
        cls_token: str = "[CLS]",
        sep_token: str = "[SEP]",
        pad_token: str = "[PAD]",
        mask_token: str = "[MASK]",
    ):
        if max_chars_per_word < 1:
            raise ValueError(f"max_chars_per_word is {max_chars_per_word}, but a word has at least 1 character")
        is_path = isinstance(vocabulary, str | os.PathLike)
        self.vocabulary = read_vocabulary(vocabulary) if is_path else list(vocabulary)
        self.vocabulary_size = len(self.vocabulary)
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_on_cjk = split_on_cjk
        self.max_chars_per_word = max_chars_per_word
        self.special_tokens_in_text = special_tokens_in_text
        self.special_tokens = {
            "unk_token": unk_token,
            "cls_token": cls_token,
            "sep_token": sep_token,
            "pad_token": pad_token,
            "mask_token": mask_token,
        }
        check_vocabulary(self.vocabulary, self.special_tokens, str(vocabulary) if is_path else "the vocabulary")
        self.unk_token_id = self.vocabulary.index(unk_token)
        self.cls_token_id = self.vocabulary.index(cls_token)
        self.sep_token_id = self.vocabulary.index(sep_token)
        self.pad_token_id = self.vocabulary.index(pad_token)
        self.mask_token_id = self.vocabulary.index(mask_token)

        strip = lowercase if strip_accents is None else strip_accents
        self._normalizer = BertNormalizer(lowercase, strip, split_on_cjk, max_chars_per_word)
        # Tensors made here outlive whatever graph is being traced, and never visit a GPU, which has no string ops.
        with tf.init_scope(), tf.device("CPU"):
            self._pieces = tf.constant(self.vocabulary)
            self._is_suffix = tf.constant([piece.startswith("##") for piece in self.vocabulary])
            self._wordpiece = tf_text.FastWordpieceTokenizer(
                [_matched(piece, index) for index, piece in enumerate(self.vocabulary)],
                max_bytes_per_word=4 * max_chars_per_word,  # it counts bytes; _limit_word_length counts characters
                token_out_type=tf.int32,
                unknown_token=unk_token,
                no_pretokenization=not split_on_cjk,  # its own word splitting always splits CJK
            )
        signature = [tf.TensorSpec([None], tf.string)]
        self._ids = tf.function(self._tokenize_batch, input_signature=signature)
        self._ids_and_offsets = tf.function(self._tokenize_batch_with_offsets, input_signature=signature)

    def tokenize(self, strings: Any) -> tf.RaggedTensor:
        """Strings -> ids, without `[CLS]` and `[SEP]`.

        Args:
            strings: string `[batch]` in any form (list of str, NumPy array, tensor), or one string.

        Returns:
            int32 `[batch, (pieces)]` ragged; `[pieces]` for one string. No pieces for an empty text.

        Raises:
            TypeError, ValueError: not strings, or of rank over 1, or with a lone surrogate.
            ValueError (in a graph, tf.errors.InvalidArgumentError): a row is not valid UTF-8.
        """
        strings = as_strings(strings)
        with readable_errors():
            return self._ids(strings) if strings.shape.rank else self._ids(strings[None])[0]

    def tokenize_with_offsets(self, strings: Any) -> Pieces:
        """Strings -> ids, and the bytes each piece stands for.

        Args:
            strings: as for `tokenize`.

        Returns:
            `(ids, starts, ends)`, int32, int64, int64, each `[batch, (pieces)]`; `string.encode()[start:end]` is the
            text of the piece in the string as given, with its capitals and accents.

        Raises:
            As `tokenize`.
        """
        strings = as_strings(strings)
        with readable_errors():
            if strings.shape.rank:
                return self._ids_and_offsets(strings)
            ids, starts, ends = self._ids_and_offsets(strings[None])
        return ids[0], starts[0], ends[0]

    def group_by_word(self, ids: tf.RaggedTensor, *others: tf.RaggedTensor) -> tuple[tf.RaggedTensor, ...]:
        """Pieces -> the pieces of each word.

        Args:
            ids: int32 `[batch, (pieces)]`, from `tokenize`.
            *others: something else about each piece, of the same shape, such as its offsets.

        Returns:
            As many ragged tensors `[batch, (words), (pieces)]`. A word starts with each piece that is no `##` piece.

        Example:
            >>> tokenizer = WordPieceTokenizer.from_preset("all-MiniLM-L6-v2")
            >>> tokenizer.group_by_word(tokenizer.tokenize(["Unaffable you"]))
            (<tf.RaggedTensor [[[14477, 20961, 3468], [2017]]]>,)
        """
        begins_word = ~tf.gather(self._is_suffix, ids.values)  # bool [pieces]
        first = tf.where(begins_word)[:, 0]  # [words], the index of each word's first piece
        word_splits = tf.concat([first, [tf.size(ids.values, tf.int64)]], 0)
        words_before = tf.concat([[0], tf.cumsum(tf.cast(begins_word, tf.int64))], 0)  # [pieces + 1]
        row_splits = tf.gather(words_before, ids.row_splits)
        return tuple(
            tf.RaggedTensor.from_nested_row_splits(each.values, [row_splits, word_splits], validate=False)
            for each in (ids, *others)
        )

    def detokenize(self, ids: Any) -> tf.Tensor:
        """Ids -> readable strings: `##` pieces stitched, punctuation where a reader expects it.

        Lost capitals, accents and spacing stay lost. `[CLS]`, `[SEP]` and `[PAD]` are left out, `[UNK]` and `[MASK]`
        stay, because they stand for text.

        Args:
            ids: integers `[batch, (pieces)]`, ragged, dense or nested lists; or `[pieces]` for one text.

        Returns:
            string `[batch]`, or `[]` for one text.

        Raises:
            ValueError: not integers, or not of rank 1 or 2.
            ValueError (in a graph, tf.errors.InvalidArgumentError): an id is outside the vocabulary.
        """
        ids = ids if tf.is_tensor(ids) else tf.ragged.constant(ids, dtype=tf.int32)
        if not ids.dtype.is_integer or ids.shape.rank not in (1, 2):
            raise ValueError(f"got {ids.dtype.name} of shape {ids.shape}; expected integer ids [batch, (pieces)]")
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
        pieces = ids.with_flat_values(tf.gather(self._pieces, tf.where(known, flat, 0)))
        return join_pieces(tf.ragged.boolean_mask(pieces, ids.with_flat_values(shown)))

    def _tokenize_batch(self, strings: tf.Tensor) -> tf.RaggedTensor:
        return self._tokenize(strings, with_offsets=False)[0]

    def _tokenize_batch_with_offsets(self, strings: tf.Tensor) -> Pieces:
        return self._tokenize(strings, with_offsets=True)

    def _tokenize(self, strings: tf.Tensor, with_offsets: bool) -> Pieces:
        with tf.device("CPU"):
            if self.special_tokens_in_text:
                return self._tokenize_around_special_tokens(strings, with_offsets)
            return self._tokenize_text(strings, None, with_offsets)

    def _tokenize_text(self, strings: tf.Tensor, rows: tf.Tensor | None, with_offsets: bool) -> Pieces:
        normalized, plain = self._normalizer(strings, rows)
        pieces = self._split_into_pieces(normalized)
        pieces = _if_any(~plain, lambda: self._limit_word_length(normalized, *pieces), pieces)
        if with_offsets:
            moved = ~plain & (normalized != strings)
            pieces = _if_any(moved, lambda: self._to_original_offsets(strings, moved, *pieces), pieces)
        return pieces

    def _split_into_pieces(self, normalized: tf.Tensor) -> Pieces:
        """Normalized text -> pieces, with offsets into the normalized text."""
        if self.split_on_cjk:
            return self._wordpiece.tokenize_with_offsets(normalized)
        words, word_starts, _ = tf_text.regex_split_with_offsets(
            normalized, f"{_SPACE}|{_PUNCTUATION}", keep_delim_regex_pattern=_PUNCTUATION
        )  # [batch, (words)]
        pieces = self._wordpiece.tokenize_with_offsets(words.values)  # [words, (pieces)]
        return _merge_rows(pieces, word_starts.values, words.row_splits)

    def _limit_word_length(
        self, normalized: tf.Tensor, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> Pieces:
        """Makes one unknown token of each word of over `max_chars_per_word` characters."""
        begins_word = ~tf.gather(self._is_suffix, ids.values)  # bool [pieces]
        first = tf.where(begins_word)[:, 0]  # [words], the index of each word's first piece
        after_last = tf.concat([first[1:], [tf.size(ids.values, tf.int64)]], 0)
        word_starts = tf.gather(starts.values, first)
        word_ends = tf.gather(ends.values, after_last[: tf.size(first)] - 1)
        # No word has more characters than bytes, so hardly any batch has one to count.
        suspect = word_ends - word_starts > self.max_chars_per_word

        def collapse() -> Pieces:
            word_rows = tf.gather(ids.value_rowids(), first)
            origin = tf.cast(tf.gather(tf.cumsum(tf.strings.length(normalized), exclusive=True), word_rows), tf.int64)
            data = tf.io.decode_raw(tf.strings.reduce_join(normalized), tf.uint8)
            begins_char = tf.cast((data & 0xC0) != 0x80, tf.int32)  # [bytes]
            chars_before = tf.concat([[0], tf.cumsum(begins_char)], 0)
            word_chars = tf.gather(chars_before, origin + word_ends) - tf.gather(chars_before, origin + word_starts)
            word = tf.cumsum(tf.cast(begins_word, tf.int32)) - 1  # [pieces]
            too_long = tf.gather(word_chars > self.max_chars_per_word, word)
            values = (
                tf.where(too_long, self.unk_token_id, ids.values),
                starts.values,
                tf.where(too_long, tf.gather(word_ends, word), ends.values),
            )
            keep = ids.with_values(begins_word | ~too_long)
            return tuple(tf.ragged.boolean_mask(ids.with_values(value), keep) for value in values)

        return _if_any(suspect, collapse, (ids, starts, ends))

    def _to_original_offsets(
        self, strings: tf.Tensor, moved: tf.Tensor, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> Pieces:
        """Offsets into the normalized text -> offsets into `strings`, in the rows where bytes moved."""
        rows = tf.where(moved)[:, 0]
        pieces = tf.ragged.range(tf.gather(ids.row_starts(), rows), tf.gather(ids.row_limits(), rows))
        spans = self._normalizer.original_offsets(
            tf.gather(strings, rows),
            pieces.value_rowids(),
            tf.gather(starts.values, pieces.values),
            tf.gather(ends.values, pieces.values),
        )
        return ids, *(
            old.with_values(tf.tensor_scatter_nd_update(old.values, pieces.values[:, None], new))
            for old, new in zip((starts, ends), spans, strict=True)
        )

    def _tokenize_around_special_tokens(self, strings: tf.Tensor, with_offsets: bool) -> Pieces:
        tokens = list(self.special_tokens.values())
        pattern = "|".join(re.escape(token) for token in sorted(tokens, key=len, reverse=True))
        chunks, starts, ends = tf_text.regex_split_with_offsets(strings, pattern, pattern)  # [batch, (chunks)]
        is_token = tf.equal(chunks.values[:, None], tf.constant(tokens))  # [chunks, special tokens]
        token_ids = tf.constant([self.vocabulary.index(token) for token in tokens])
        special = tf.reduce_any(is_token, axis=1)
        text = tf.where(special, "", chunks.values)  # a chunk is either text or a special token
        pieces = self._tokenize_text(text, chunks.value_rowids(), with_offsets)
        count = tf.cast(special, tf.int64)
        found = tf.boolean_mask(tf.gather(token_ids, tf.argmax(is_token, axis=1)), special)
        length = tf.boolean_mask(ends.values - starts.values, special)
        pieces = tuple(
            tf.concat([old, tf.RaggedTensor.from_row_lengths(new, count)], axis=1)
            for old, new in zip(pieces, (found, tf.zeros_like(length), length), strict=True)
        )
        return _merge_rows(pieces, starts.values, chunks.row_splits)

    def get_config(self) -> dict[str, Any]:
        """The arguments, with the vocabulary itself in place of its path."""
        return {
            "vocabulary": list(self.vocabulary),
            "lowercase": self.lowercase,
            "strip_accents": self.strip_accents,
            "split_on_cjk": self.split_on_cjk,
            "max_chars_per_word": self.max_chars_per_word,
            "special_tokens_in_text": self.special_tokens_in_text,
            **self.special_tokens,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "WordPieceTokenizer":
        return cls(**config)

    @classmethod
    def from_preset(cls, handle: str | Path, **overrides: Any) -> "WordPieceTokenizer":
        """Reads the tokenizer of a preset: `vocab.txt` and `tokenizer_config.json`, or `tokenizer.json`.

        Args:
            handle: a directory, the name of an installed preset, or `hf://org/name`; see `presets.resolve`.
            **overrides: arguments of the constructor, in place of what the files say.

        Raises:
            FileNotFoundError: no such preset, or it has no vocabulary.
            ValueError: its tokenizer is not a WordPiece one, or its vocabulary is damaged.
        """
        return cls(**(read_wordpiece_files(presets.resolve(handle)) | overrides))

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes `vocab.txt` and `tokenizer_config.json`, which `from_preset` and `transformers` read.

        Args:
            directory: made if need be; other files in it are left alone.
            overwrite: whether to replace these two files.

        Raises:
            FileExistsError: one of the two is there already.
        """
        write_wordpiece_files(directory, self.get_config(), overwrite)


def _if_any(rows: tf.Tensor, change: Callable[[], Pieces], pieces: Pieces) -> Pieces:
    """`change()` if any of `rows` (bool) is true, else `pieces`: what few batches need costs the others nothing."""
    return tf.cond(tf.reduce_any(rows), change, lambda: pieces)


def _matched(piece: str, index: int) -> str:
    """What text can match: not a piece of white space (Chinese BERT has U+2028), because that splits words first."""
    return f"[{index}: white space]" if any(map(str.isspace, piece)) else piece


def _merge_rows(pieces: Pieces, origins: tf.Tensor, row_splits: tf.Tensor) -> Pieces:
    """[parts, (pieces)] -> [batch, (pieces)]: row_splits [batch + 1] groups the parts, origins [parts] places them."""
    ids, starts, ends = pieces
    splits = tf.gather(ids.row_splits, row_splits)
    shift = tf.gather(origins, ids.value_rowids())
    values = (ids.values, starts.values + shift, ends.values + shift)
    return tuple(tf.RaggedTensor.from_row_splits(value, splits, validate=False) for value in values)
