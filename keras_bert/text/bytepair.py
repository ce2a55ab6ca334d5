"""Byte-level BPE, the tokenizer of RoBERTa, ModernBERT and EuroBERT, in the TensorFlow graph."""

import itertools
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.choices import check_choice
from keras_bert.formats.tokenizers import byte_pairs
from keras_bert.formats.tokenizers.byte_pairs import BytePairArguments
from keras_bert.formats.tokenizers.tokenizer_files import TokenizerFiles
from keras_bert.formats.tokenizers.tokenizer_json import TOKENS
from keras_bert.text.pairs import PairFormat
from keras_bert.text.strings import normalize_unless, numbers_of
from keras_bert.text.tokenizer import KnownStrings, Tokenizer, Tokens, tokenize_around
from keras_bert.text.vocabulary import (
    byte_symbols,
    bytes_of_tokens,
    check_merges,
    describe_source,
    read_ids,
    read_merges,
)
from keras_bert.text.words import begins_run, find_run_starts, split_words

_SPACE_SYMBOLS = "ĉĊċČčĠ"  # tab, line feed, vertical tab, form feed, carriage return, space


@keras.saving.register_keras_serializable(package="keras_bert")
class BytePairTokenizer(Tokenizer):
    """The tokenizer of RoBERTa (Liu et al. 2019, section 4.4), id for id: GPT-2's byte-level byte-pair encoding.

    Text is split into words, each with the space before it, and words into bytes. Bytes are merged into tokens in the
    order of the merges. No text is unknown, and without `normalization`, `detokenize` returns every byte. The
    vocabulary has one printable symbol for each byte, as in the file: `Ġ` is the space.

    ModernBERT (Warner et al. 2024) composes text, has tokens for runs of spaces, and packs pairs as BERT does, with
    type id 0 for both texts. EuroBERT (Boizard et al. 2025) has Llama 3's vocabulary and splits words like it.

    Args:
        vocabulary: path of a `vocab.json`, or its content (token -> id), or the list of tokens; the index is the id.
        merges: path of a `merges.txt`, or its lines (`"Ġ t"`), or pairs of tokens; earliest first.
        add_prefix_space: whether to put a space before a text that begins without one, so that its first word has the
            same tokens as elsewhere. RoBERTa was trained without it. Only with `split="gpt2"`.
        special_tokens_in_text: as for `WordPieceTokenizer`, like the other arguments that are not here. `<mask>` then
            includes the white space before it, as in RoBERTa's fill-in example.
        added_tokens: as for `WordPieceTokenizer`, written as text.
        normalization: "NFC" composes letters and marks first; None leaves text as it is.
        second_cls: whether the second text of a pair begins with `cls_token` too.
        split: how text is split into words: "gpt2" (Radford et al. 2019; RoBERTa, ModernBERT), "digits" (the same, but
            each number is a word: SmolLM), "llama3" (also OpenAI's cl100k_base; EuroBERT).
        ignore_merges: whether a word that is in the vocabulary is one token even if no merges make it (Llama 3).

    Attributes:
        merges: list of pairs of str. For the others, see `Tokenizer`.

    Raises:
        FileNotFoundError, ValueError: there is no such file, or the vocabulary and the merges contradict each other, or
            lack a special token or a byte of UTF-8.

    Offsets leave out the space at the beginning of a token, unless the token is all white space. A token may begin or
    end within a character, so that its bytes are not valid UTF-8. If a token is part of a composed character, its span
    is the whole character. Characters newer than TensorFlow's version of Unicode count as symbols, and are separated
    from the letters beside them.

    Example:
        >>> letters = {symbol: i for i, symbol in enumerate(byte_symbols())}
        >>> others = ["Ġm", "or", "Ġmor", "<s>", "</s>", "<pad>", "<unk>", "<mask>"]
        >>> tokenizer = BytePairTokenizer([*letters, *others], ["Ġ m", "o r", "Ġm or"])
        >>> ids, starts, ends = tokenizer.tokenize_with_offsets("No more")
        >>> [tokenizer.vocabulary[i] for i in ids], starts.numpy().tolist(), ends.numpy().tolist()
        (['N', 'o', 'Ġmor', 'e'], [0, 1, 3, 6], [1, 2, 6, 7])
        >>> tokenizer.detokenize(ids).numpy()
        b'No more'
    """

    _LISTS = ("vocabulary", "merges")
    _mask_takes_space = _has_spaces = True
    _format = byte_pairs

    def __init__(
        self,
        vocabulary: str | Path | Mapping[str, int] | Sequence[str],
        merges: str | Path | Sequence[str] | Sequence[tuple[str, str]],
        add_prefix_space: bool = BytePairArguments.add_prefix_space,
        special_tokens_in_text: bool = BytePairArguments.special_tokens_in_text,
        unk_token: str = BytePairArguments.unk_token,
        cls_token: str = BytePairArguments.cls_token,
        sep_token: str = BytePairArguments.sep_token,
        pad_token: str = BytePairArguments.pad_token,
        mask_token: str = BytePairArguments.mask_token,
        more_special_tokens: Sequence[str] = BytePairArguments.more_special_tokens,
        added_tokens: Sequence[str] = BytePairArguments.added_tokens,
        normalization: str | None = BytePairArguments.normalization,
        separators: int = BytePairArguments.separators,
        second_type_id: int = BytePairArguments.second_type_id,
        second_cls: bool = BytePairArguments.second_cls,
        split: str = BytePairArguments.split,
        ignore_merges: bool = BytePairArguments.ignore_merges,
        packing: str = BytePairArguments.packing,
    ):
        if normalization not in (None, "NFC"):
            raise ValueError(f"normalization is {normalization!r}; expected 'NFC' or None")
        check_choice("split", split, byte_pairs.SPLIT_PATTERNS)
        if add_prefix_space and byte_pairs.SPLIT_PATTERNS[split].before != []:  # each word would get one
            raise ValueError(f"add_prefix_space is True with split={split!r}; it is for split='gpt2' only")
        names = (unk_token, cls_token, sep_token, pad_token, mask_token)
        special_tokens = dict(zip(TOKENS, names, strict=True))
        ids = read_ids(vocabulary, special_tokens, [*more_special_tokens, *added_tokens])
        tokens = sorted(ids, key=ids.__getitem__)
        self.merges = read_merges(merges)
        check_merges(self.merges, ids, describe_source(vocabulary))
        special = {*special_tokens.values(), *more_special_tokens}
        spaces = (*_SPACE_SYMBOLS, " ", "\t", "\n")  # the last three in added tokens, which are written as text
        begins_word = [token in special or token.startswith(spaces) for token in tokens]
        super().__init__(tokens, special_tokens, special_tokens_in_text, begins_word, more_special_tokens)
        self.add_prefix_space, self.added_tokens = add_prefix_space, list(added_tokens)
        self.normalization, self.split, self.ignore_merges = normalization, split, ignore_merges
        self.pair_format = PairFormat(separators, second_type_id, second_cls, packing)
        self._added = {
            unicodedata.normalize("NFC", token) if normalization else token: ids[token] for token in added_tokens
        }
        # Bytes without a token never occur in UTF-8, and the text is checked to be UTF-8.
        byte_ids = [ids.get(symbol, self.unk_token_id) for symbol in byte_symbols()]
        self._rules = MergeRules(self.merges, ids, byte_ids)
        self._make_tables({*added_tokens, *special})

    def _make_tables(self, as_text: Collection[str]) -> None:
        """Makes the tables of tokens, of which those `as_text` are written as plain text."""
        token_bytes = bytes_of_tokens(self.vocabulary, as_text)
        with tf.init_scope(), tf.device("CPU"):
            self._token_bytes = tf.constant(token_bytes)
            self._lengths = tf.strings.length(self._token_bytes)
            # The length of the space before a word in each token: 0 or 1 byte.
            skipped = [each.startswith(b" ") and not each.decode(errors="replace").isspace() for each in token_bytes]
            self._skipped = tf.constant(skipped, tf.int64)
            # Most words are one token: a hash finds them without merging.
            if self.ignore_merges:
                is_whole = tf.constant([token not in as_text for token in self.vocabulary])
            else:
                merged = self._rules(self._token_bytes)  # [tokens, (tokens)]
                first = tf.gather(merged.values, merged.row_starts())
                is_whole = (merged.row_lengths() == 1) & (first == tf.range(len(token_bytes)))
            whole = tf.where(is_whole)[:, 0]
            self._whole = KnownStrings(tf.gather(self._token_bytes, whole))
            self._whole_ids = tf.cast(whole, tf.int32)

    def _tokenize_text(self, strings: tf.Tensor, rows: tf.Tensor | None, with_offsets: bool) -> Tokens:
        text = compose(strings, rows) if self.normalization else strings
        tokens = tokenize_around(
            self._added, None, text, lambda chunks, row: self._tokenize_chunk(chunks, numbers_of(row, rows))
        )
        if not self.normalization or not with_offsets:
            return tokens
        ids, starts, ends = tokens
        spans = uncomposed_offsets(strings, text, ids.value_rowids(), starts.values, ends.values)
        return ids, *map(ids.with_values, spans)

    def _tokenize_chunk(self, strings: tf.Tensor, rows: tf.Tensor | None) -> Tokens:
        """Tokenizes normalized text between added tokens; the offsets are offsets into it."""
        moved = tf.zeros_like(strings, tf.int64)  # [batch], the number of bytes put before the text
        if self.add_prefix_space:
            before, strings = strings, self._with_space(strings)
            moved = tf.cast(tf.strings.length(strings) - tf.strings.length(before), tf.int64)
        words = split_words(strings, rows, self.split)
        ids = self._split_into_tokens(words.values)  # [words, (tokens)]
        row_splits = tf.gather(ids.row_splits, words.row_splits)
        ids = tf.RaggedTensor.from_row_splits(ids.values, row_splits, validate=False)
        # Tokens cover the text without gaps, so their lengths add up to offsets. TensorFlow prunes this part if offsets
        # are not wanted.
        lengths = tf.cast(tf.gather(self._lengths, ids.values), tf.int64)
        ends = tf.cumsum(lengths)
        row = ids.value_rowids()
        row_starts = tf.cumsum(tf.cast(tf.strings.length(strings), tf.int64), exclusive=True)
        origin = tf.gather(row_starts + moved, row)
        starts = ends - lengths + tf.gather(self._skipped, ids.values)
        return ids, ids.with_values(tf.maximum(starts - origin, 0)), ids.with_values(ends - origin)

    def _with_space(self, strings: tf.Tensor) -> tf.Tensor:
        lacks_space = (tf.strings.length(strings) > 0) & (tf.strings.substr(strings, 0, 1) != " ")
        return tf.where(lacks_space, tf.strings.join([" ", strings]), strings)

    def _split_into_tokens(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Turns string `[words]` into int32 `[words, (tokens)]`. Each distinct word is merged once."""
        distinct, index = tf.unique(words)
        place = self._whole(distinct)
        whole = place >= 0
        merged = self._rules(tf.boolean_mask(distinct, ~whole))
        count = tf.reduce_sum(tf.cast(whole, tf.int32))
        whole_ids = tf.gather(self._whole_ids, tf.boolean_mask(place, whole))
        whole_ids = tf.RaggedTensor.from_row_lengths(whole_ids, tf.ones([count], tf.int64))
        order = tf.where(whole, tf.cumsum(tf.cast(whole, tf.int32)), count + tf.cumsum(tf.cast(~whole, tf.int32))) - 1
        return tf.gather(tf.concat([whole_ids, merged], 0), tf.gather(order, index))

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins the bytes of the tokens, even if they are not valid UTF-8."""
        return tf.strings.reduce_join(ids.with_flat_values(tf.gather(self._token_bytes, ids.flat_values)), axis=-1)

    @classmethod
    def _from_files(cls, preset_files: TokenizerFiles, overrides: dict[str, Any]) -> "BytePairTokenizer":
        tokenizer = super()._from_files(preset_files, overrides)
        for path, merges in byte_pairs.merges_in_files(preset_files):
            if read_merges(merges) != tokenizer.merges:
                raise ValueError(
                    f"{path} has other merges than the rest of {preset_files.directory}: these files contradict each "
                    "other; keep the files of the tokenizer that the model was trained with"
                )
        return tokenizer

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"merges": [" ".join(pair) for pair in self.merges]}


# -- Canonical composition (NFC) in the TensorFlow graph, and a map from composed bytes to original bytes.

# Characters that never change and never compose: those before the combining marks (U+0300), typographic quotes and
# dashes, and CJK ideographs. Most rows have no others, and skip the operation.
_COMPOSED = r"[\x00-\x{2ff}\x{2010}-\x{2027}\x{4e00}-\x{9fff}]*"


def compose(strings: tf.Tensor, rows: tf.Tensor | None = None) -> tf.Tensor:
    """Composes letters and marks, string `[batch]`: `e` and U+0301 become `é`. `rows` has the numbers in messages."""
    plain = tf.strings.regex_full_match(strings, _COMPOSED)
    return normalize_unless(plain, strings, rows, lambda others: tf_text.normalize_utf8(others, "NFC"))


def uncomposed_offsets(
    strings: tf.Tensor, composed: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Maps spans of the composed bytes of `rows` to spans of `strings`, of whole characters: int64 `[spans]`."""
    changed = composed != strings  # [batch]

    def map_back() -> tuple[tf.Tensor, tf.Tensor]:
        texts, maps = tf_text.normalize_utf8_with_offsets_map(tf.boolean_mask(strings, changed), "NFC")
        places = tf.ragged.range(tf.cast(tf.strings.length(texts), tf.int64) + 1)  # [changed rows, (bytes + 1)]
        source = tf_text.find_source_offsets(maps, places).values  # within a composed character, its end
        outside = tf.concat([source[1:] != source[:-1], [True]], 0)  # [bytes of the changed rows]
        begin = find_run_starts(outside)
        moved = tf.where(tf.gather(changed, rows))  # [spans in changed rows, 1]
        row = tf.gather(tf.cumsum(tf.cast(changed, tf.int64)) - 1, tf.gather_nd(rows, moved))
        origin = tf.gather(places.row_starts(), row)
        first = tf.gather(source, tf.gather(begin, origin + tf.gather_nd(starts, moved)))
        last = tf.gather(source, origin + tf.gather_nd(ends, moved))
        return tuple(tf.tensor_scatter_nd_update(old, moved, new) for old, new in ((starts, first), (ends, last)))

    return tf.cond(tf.reduce_any(changed), map_back, lambda: (starts, ends))


# -- Merges byte pairs (Sennrich et al. 2016), many words at a time.

_NO_RANK = np.int32(2**31 - 1)  # the rank of a pair that no rule merges

# Words of more bytes are merged in stretches, so that fewer rounds are needed.
_STRETCH = 64


class MergeRules:
    """The merge rules of a vocabulary, applied to words in the TensorFlow graph with constants and no lookup tables."""

    # Each step takes the earliest rule that fits a word, and merges the first pair that the rule matches. If every
    # token has only one rule, whose parts come from earlier rules, all pairs of the rule are merged in one step, from
    # left to right. Llama 3's tokens have a rule for each way to make them, so their pairs are merged one by one.
    # A long word would take many steps, each over the whole word. So it is cut in two ways into stretches, those of the
    # second cut half a stretch later. Where both cuts have the same token, the tokens of the word are those of one cut
    # up to that token, and those of the other cut after it. Proof: the first merge across a border of that token would
    # also be the first merge across it in one of the cuts, because the pairs of a cut are among those of the word.

    def __init__(self, merges: Sequence[tuple[str, str]], ids: Mapping[str, int], byte_ids: Sequence[int]):
        parts = map(ids.__getitem__, itertools.chain.from_iterable(merges))
        pairs = np.fromiter(parts, np.int64, 2 * len(merges)).reshape(-1, 2)
        results = np.fromiter(map(ids.__getitem__, map("".join, merges)), np.int32, len(merges))
        self._base = max(ids.values()) + 1
        self._one_at_a_time = not _are_nested(pairs, results, np.asarray(byte_ids, np.int32), self._base)
        # If several rules have the same pair, the last one counts.
        keys, from_end = np.unique(pairs[::-1] @ [self._base, 1], return_index=True)
        ranks = len(merges) - 1 - from_end
        with tf.init_scope(), tf.device("CPU"):
            # One more key, so that a search past the end finds a key that does not match.
            self._keys = tf.constant(np.append(keys, np.iinfo(np.int64).max))
            self._ranks = tf.constant(np.append(ranks, _NO_RANK).astype(np.int32))
            self._results = tf.constant(results)
            self._byte_ids = tf.constant(np.asarray(byte_ids, np.int32))
        # Traced once for all functions that use it.
        self._merge_graph = tf.function(
            self._merge_words, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )

    def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Merges the bytes of words, string `[words]`, into tokens, int32 `[words, (tokens)]`."""
        return self._merge_graph(words)

    def _merge_words(self, words: tf.Tensor) -> tf.RaggedTensor:
        lengths = tf.strings.length(words)  # int32 [words]
        data = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8), tf.int32)  # [bytes]
        symbols = tf.gather(self._byte_ids, data)
        heads = self._merge_in_stretches(symbols, lengths)
        is_head = heads >= 0
        heads_before = tf.concat([[0], tf.cumsum(tf.cast(is_head, tf.int64))], 0)  # [bytes + 1]
        splits = tf.gather(heads_before, tf.concat([[0], tf.cumsum(lengths)], 0))
        return tf.RaggedTensor.from_row_splits(tf.boolean_mask(heads, is_head), splits, validate=False)

    def _merge_in_stretches(self, symbols: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Merges words of any length. If the two cuts of a word never agree, its stretches grow."""
        starts = tf.cumsum(lengths, exclusive=True)  # [words]

        def merge_pending(
            heads: tf.Tensor, pending: tf.Tensor, stretch: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            half = stretch // 2
            count = tf.gather(lengths, pending)
            word = tf.repeat(tf.range(tf.size(pending)), count)  # [bytes of the pending words]
            offset = tf.ragged.range(count).values  # a byte's position in its word
            source = tf.repeat(tf.gather(starts, pending), count) + offset  # its position in `symbols`
            first, second = self._merge_two_ways(tf.gather(symbols, source), word, offset, count, stretch)
            agree = (first >= 0) & (first == second)
            # Stretch k covers the halves k and k + 1 of a word. In each half but the first and the last, the result
            # switches from the stretch that ends there to the one that begins there, at the first token of both.
            half_index = offset // half
            begins_half = offset % half == 0
            half_number = tf.cumsum(tf.cast(begins_half, tf.int32)) - 1  # numbers the halves of all words
            index = tf.range(tf.size(offset))
            switch = tf.gather(tf.math.segment_min(tf.where(agree, index, _NO_RANK), half_number), half_number)
            is_last = half_index == (tf.gather(count, word) - 1) // half
            switch = tf.where((half_index == 0) | is_last, _NO_RANK, switch)
            decider = half_index - tf.cast(index <= switch, tf.int32)  # the stretch that decides, -1 in the first half
            # The first half of a word is in stretch 0 only.
            merged = tf.where((half_index == 0) | (decider % 2 == 0), first, second)
            stuck_bytes = (switch == _NO_RANK) & (half_index > 0) & ~is_last
            stuck = tf.math.segment_max(tf.cast(stuck_bytes, tf.int32), word) > 0  # [pending]
            heads = tf.tensor_scatter_nd_update(heads, source[:, None], merged)
            return heads, tf.boolean_mask(pending, stuck), stretch * 4

        # A stretch over the whole word has no halves that must agree, so the loop ends before `stretch` exceeds int32.
        heads, _, _ = tf.while_loop(
            lambda heads, pending, stretch: tf.size(pending) > 0,
            merge_pending,
            (tf.fill(tf.shape(symbols), -1), tf.where(lengths > 0)[:, 0], tf.constant(_STRETCH)),
            shape_invariants=(tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([])),
        )
        return heads

    def _merge_two_ways(
        self, symbols: tf.Tensor, word: tf.Tensor, offset: tf.Tensor, count: tf.Tensor, stretch: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Merges in stretches from 0 on and, in words longer than one, also in stretches from half of one on."""
        half = stretch // 2
        repeated = tf.where((tf.gather(count, word) > stretch) & (offset >= half))[:, 0]
        stretches = tf.concat([offset // stretch, tf.gather(offset - half, repeated) // stretch], 0)
        words = tf.concat([word, tf.gather(word, repeated) + tf.size(count)], 0)
        groups = tf.cumsum(tf.cast(begins_run(words) | begins_run(stretches), tf.int32)) - 1
        heads = self._merge(tf.concat([symbols, tf.gather(symbols, repeated)], 0), groups)
        size = tf.size(symbols)
        second = tf.tensor_scatter_nd_update(tf.fill([size], -1), repeated[:, None], heads[size:])
        return heads[:size], second

    def _merge(self, symbols: tf.Tensor, groups: tf.Tensor) -> tf.Tensor:
        """Merges ids of bytes by the rules: a token's id where it begins, else -1, int32 `[symbols]`."""

        def merge_round(
            heads: tf.Tensor, symbols: tf.Tensor, groups: tf.Tensor, places: tf.Tensor, ranks: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            best = tf.gather(tf.math.segment_min(ranks, groups), groups)
            active = best != _NO_RANK  # words without a fitting rule are done
            left = tf.where((ranks == best) & active)[:, 0]
            if self._one_at_a_time:  # the first place in each word
                left = tf.boolean_mask(left, begins_run(tf.gather(groups, left)))
            else:
                left = _pick_every_other(left)
            merged = tf.gather(self._results, tf.gather(ranks, left))
            keep = tf.tensor_scatter_nd_update(active, left[:, None] + 1, tf.zeros_like(left, tf.bool))
            heads = tf.tensor_scatter_nd_update(heads, tf.gather(places, left)[:, None], merged)
            heads = tf.tensor_scatter_nd_update(
                heads, tf.gather(places, left + 1)[:, None], tf.fill(tf.shape(left), -1)
            )
            symbols = tf.tensor_scatter_nd_update(symbols, left[:, None], merged)
            index = tf.gather(tf.cumsum(tf.cast(keep, tf.int64)), left) - 1  # the index of `left` among the kept
            kept = tf.where(keep)[:, 0]
            symbols, groups, places, ranks = (tf.gather(each, kept) for each in (symbols, groups, places, ranks))
            changed = tf.concat([index, tf.maximum(index - 1, 0)], 0)
            ranks = tf.tensor_scatter_nd_update(ranks, changed[:, None], self._pair_ranks(symbols, groups, changed))
            groups = tf.cumsum(tf.cast(begins_run(groups), tf.int32)) - 1
            return heads, symbols, groups, places, ranks

        places = tf.range(tf.size(symbols))
        ranks = self._pair_ranks(symbols, groups, places)
        vector = tf.TensorShape([None])
        return tf.while_loop(
            lambda heads, symbols, groups, places, ranks: tf.reduce_any(ranks != _NO_RANK),
            merge_round,
            (symbols, symbols, groups, places, ranks),
            shape_invariants=(vector,) * 5,
        )[0]

    def _pair_ranks(self, symbols: tf.Tensor, groups: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Looks up the rank, int32, of the pair that begins at each symbol of `index`."""
        following = tf.minimum(index + 1, tf.size(symbols, index.dtype) - 1)
        in_word = (following != index) & (tf.gather(groups, index) == tf.gather(groups, following))
        left, right = (tf.cast(tf.gather(symbols, each), tf.int64) for each in (index, following))
        key = left * self._base + right
        place = tf.searchsorted(self._keys, key)
        known = in_word & (tf.gather(self._keys, place) == key)
        return tf.where(known, tf.gather(self._ranks, place), _NO_RANK)


def _pick_every_other(index: tf.Tensor) -> tf.Tensor:
    """Picks the first, third, ... of each run of consecutive numbers, int64: in aaa, only the first aa is merged."""
    first = tf.gather(index, find_run_starts(begins_run(index - tf.range(tf.size(index, tf.int64)))))
    return tf.boolean_mask(index, (index - first) % 2 == 0)


def _are_nested(pairs: np.ndarray, results: np.ndarray, byte_ids: np.ndarray, size: int) -> bool:
    """Checks that each token has one rule, whose parts are bytes or come from earlier rules; ids are below `size`."""
    rule_of_token = np.full(size, _NO_RANK)  # the rule that makes a token; -1: none makes a byte
    rule_of_token[byte_ids] = -1
    if np.any(rule_of_token[results] == -1) or len(np.unique(results)) < len(results):
        return False
    rule_of_token[results] = np.arange(len(results))
    return bool(np.all(rule_of_token[pairs] < rule_of_token[results][:, None]))
