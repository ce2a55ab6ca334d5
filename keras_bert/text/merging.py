"""Merges byte pairs (Sennrich et al. 2016), many words at a time."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

_NEVER = np.int32(2**31 - 1)  # the rank of a pair that no rule merges

# Words of more bytes are merged in windows, so that fewer rounds are needed.
_WINDOW = 64


class MergeRules:
    """Applies merge rules to words in the TensorFlow graph, with constants and no lookup tables.

    Every step merges the first pair in a word that the earliest fitting rule matches. If every token has only one rule,
    whose parts come from earlier rules, all pairs of that rule can be merged in one step, from left to right. Llama 3's
    tokens have a rule for each way to make them, and are merged one by one.

    A long word would take many steps, each over the whole word. Instead, it is cut into windows twice; the second
    windows begin half a window later. Where both cuts have the same token, the tokens of the word are those of one cut
    up to that token, and those of the other cut after it. Proof: the first merge across a border of that token would
    also be the first merge across it in one of the cuts, because the pairs of a cut are among those of the word.

    Args:
        merges: pairs of tokens, earliest first; a token is a str of byte symbols.
        ids: token -> id, for all parts and results.
        byte_ids: int `[256]`, the id of each byte.
    """

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
            self._ranks = tf.constant(np.append(ranks, _NEVER).astype(np.int32))
            self._results = tf.constant(results)
            self._byte_ids = tf.constant(np.asarray(byte_ids, np.int32))
        # Traced once for all functions that use it.
        self._apply = tf.function(
            self._merge_words, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )

    def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
        """string `[words]` -> int32 `[words, (tokens)]`."""
        return self._apply(words)

    def _merge_words(self, words: tf.Tensor) -> tf.RaggedTensor:
        lengths = tf.strings.length(words)  # int32 [words]
        data = tf.cast(tf.io.decode_raw(tf.strings.reduce_join(words), tf.uint8), tf.int32)  # [bytes]
        symbols = tf.gather(self._byte_ids, data)
        heads = self._merge_in_windows(symbols, lengths)
        is_head = heads >= 0
        heads_before = tf.concat([[0], tf.cumsum(tf.cast(is_head, tf.int64))], 0)  # [bytes + 1]
        splits = tf.gather(heads_before, tf.concat([[0], tf.cumsum(lengths)], 0))
        return tf.RaggedTensor.from_row_splits(tf.boolean_mask(heads, is_head), splits, validate=False)

    def _merge_in_windows(self, symbols: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """`_merge` for words of any length. If the two cuts of a word never agree, its windows grow."""
        starts = tf.cumsum(lengths, exclusive=True)  # [words]

        def attempt(heads: tf.Tensor, pending: tf.Tensor, window: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            half = window // 2
            count = tf.gather(lengths, pending)
            word = tf.repeat(tf.range(tf.size(pending)), count)  # [bytes of the pending words]
            inside = tf.ragged.range(count).values  # a byte's position in its word
            source = tf.repeat(tf.gather(starts, pending), count) + inside  # its position in `symbols`
            found = self._merge_two_ways(tf.gather(symbols, source), word, inside, count, window)
            first, second = found
            agree = (first >= 0) & (first == second)
            # Window k covers the halves k and k + 1 of a word. In each half but the first and the last, the result
            # switches from the window that ends there to the one that begins there, at the first token of both.
            half_of = inside // half
            begins_half = inside % half == 0
            segment = tf.cumsum(tf.cast(begins_half, tf.int32)) - 1  # numbers the halves of all words
            index = tf.range(tf.size(inside))
            switch = tf.gather(tf.math.segment_min(tf.where(agree, index, _NEVER), segment), segment)
            is_last = half_of == (tf.gather(count, word) - 1) // half
            switch = tf.where((half_of == 0) | is_last, _NEVER, switch)
            by_window = half_of - tf.cast(index <= switch, tf.int32)  # the window that decides, -1 in the first half
            # The first half of a word is in window 0 only.
            merged = tf.where((half_of == 0) | (by_window % 2 == 0), first, second)
            stuck_bytes = (switch == _NEVER) & (half_of > 0) & ~is_last
            stuck = tf.math.segment_max(tf.cast(stuck_bytes, tf.int32), word) > 0  # [pending]
            heads = tf.tensor_scatter_nd_update(heads, source[:, None], merged)
            return heads, tf.boolean_mask(pending, stuck), window * 4

        # A window of the whole word has no halves that must agree. The window must not grow past int32.
        heads, _, _ = tf.while_loop(
            lambda heads, pending, window: tf.size(pending) > 0,
            attempt,
            (tf.fill(tf.shape(symbols), -1), tf.where(lengths > 0)[:, 0], tf.constant(_WINDOW)),
            shape_invariants=(tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([])),
        )
        return heads

    def _merge_two_ways(
        self, symbols: tf.Tensor, word: tf.Tensor, inside: tf.Tensor, count: tf.Tensor, window: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """`_merge` in windows that begin at 0, and again at half a window; the second only in words over a window."""
        half = window // 2
        again = tf.where((tf.gather(count, word) > window) & (inside >= half))[:, 0]
        windows = tf.concat([inside // window, tf.gather(inside - half, again) // window], 0)
        words = tf.concat([word, tf.gather(word, again) + tf.size(count)], 0)
        begins = (words[1:] != words[:-1]) | (windows[1:] != windows[:-1])
        groups = tf.cumsum(tf.concat([[0], tf.cast(begins, tf.int32)], 0))
        heads = self._merge(tf.concat([symbols, tf.gather(symbols, again)], 0), groups)
        size = tf.size(symbols)
        second = tf.tensor_scatter_nd_update(tf.fill([size], -1), again[:, None], heads[size:])
        return heads[:size], second

    def _merge(self, symbols: tf.Tensor, groups: tf.Tensor) -> tf.Tensor:
        """Merges until no rule applies.

        `symbols`, int32 `[symbols]`, are ids of bytes; `groups`, int32 `[symbols]`, the number of the word of each,
        ascending from 0 without gaps. Returns int32 `[symbols]`: the id of the token that begins at a symbol, -1 inside
        tokens.
        """

        def merge_round(
            heads: tf.Tensor, symbols: tf.Tensor, groups: tf.Tensor, places: tf.Tensor, ranks: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            best = tf.gather(tf.math.segment_min(ranks, groups), groups)
            active = best != _NEVER  # words without a fitting rule are done
            left = tf.where((ranks == best) & active)[:, 0]
            left = _first_of_groups(left, groups) if self._one_at_a_time else _every_other_of_runs(left)
            merged = tf.gather(self._results, tf.gather(ranks, left))
            keep = tf.tensor_scatter_nd_update(active, left[:, None] + 1, tf.zeros_like(left, tf.bool))
            heads = tf.tensor_scatter_nd_update(heads, tf.gather(places, left)[:, None], merged)
            heads = tf.tensor_scatter_nd_update(
                heads, tf.gather(places, left + 1)[:, None], tf.fill(tf.shape(left), -1)
            )
            symbols = tf.tensor_scatter_nd_update(symbols, left[:, None], merged)
            index = tf.gather(tf.cumsum(tf.cast(keep, tf.int64)), left) - 1  # the place of `left` without the rest
            kept = tf.where(keep)[:, 0]
            symbols, groups, places, ranks = (tf.gather(each, kept) for each in (symbols, groups, places, ranks))
            changed = tf.concat([index, tf.maximum(index - 1, 0)], 0)
            ranks = tf.tensor_scatter_nd_update(ranks, changed[:, None], self._pair_ranks(symbols, groups, changed))
            begins = tf.cast(groups[1:] != groups[:-1], tf.int32)
            groups = tf.concat([tf.zeros_like(groups[:1]), tf.cumsum(begins)], 0)
            return heads, symbols, groups, places, ranks

        places = tf.range(tf.size(symbols))
        ranks = self._pair_ranks(symbols, groups, places)
        vector = tf.TensorShape([None])
        return tf.while_loop(
            lambda heads, symbols, groups, places, ranks: tf.reduce_any(ranks != _NEVER),
            merge_round,
            (symbols, symbols, groups, places, ranks),
            shape_invariants=(vector,) * 5,
        )[0]

    def _pair_ranks(self, symbols: tf.Tensor, groups: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """int32: the rank of the pair that begins at each symbol of `index`."""
        following = tf.minimum(index + 1, tf.size(symbols, index.dtype) - 1)
        in_word = (following != index) & (tf.gather(groups, index) == tf.gather(groups, following))
        left, right = (tf.cast(tf.gather(symbols, each), tf.int64) for each in (index, following))
        key = left * self._base + right
        place = tf.searchsorted(self._keys, key)
        known = in_word & (tf.gather(self._keys, place) == key)
        return tf.where(known, tf.gather(self._ranks, place), _NEVER)


def _every_other_of_runs(index: tf.Tensor) -> tf.Tensor:
    """int64, ascending: the first, third, ... of each run of consecutive numbers. In aaa, the first aa is merged."""
    begins_run = tf.concat([tf.ones_like(index[:1], tf.bool), index[1:] != index[:-1] + 1], 0)
    first = tf.gather(tf.boolean_mask(index, begins_run), tf.cumsum(tf.cast(begins_run, tf.int32)) - 1)
    return tf.boolean_mask(index, (index - first) % 2 == 0)


def _first_of_groups(index: tf.Tensor, groups: tf.Tensor) -> tf.Tensor:
    """int64, ascending: the first place of each group among `index`."""
    group = tf.gather(groups, index)
    return tf.boolean_mask(index, tf.concat([tf.ones_like(group[:1], tf.bool), group[1:] != group[:-1]], 0))


def _are_nested(pairs: np.ndarray, results: np.ndarray, byte_ids: np.ndarray, size: int) -> bool:
    """Whether each token has one rule, whose parts are bytes or come from earlier rules; `size` is that of `ids`."""
    made = np.full(size, _NEVER)  # the rule that makes a token; -1: none makes a byte
    made[byte_ids] = -1
    if np.any(made[results] == -1) or len(np.unique(results)) < len(results):
        return False
    made[results] = np.arange(len(results))
    return bool(np.all(made[pairs] < made[results][:, None]))
