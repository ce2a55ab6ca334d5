"""Fills the masks in texts one after the other, the most probable token first. TensorFlow ops only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer
from keras_bert.text.strings import SPACES
from keras_bert.text.tokenizer import Tokenizer


class Candidates(NamedTuple):
    """The candidate tokens for the masks of texts.

    Attributes:
        ids: int32 `[batch, masks, top_k]`, most probable first; the first one is filled in.
        probabilities: float32 of that shape; 0 where a text has fewer masks.
    """

    ids: tf.Tensor
    probabilities: tf.Tensor


def fill_masks(
    predict: Callable[[dict[str, tf.Tensor], tf.Tensor], tf.Tensor],
    packed: dict[str, tf.Tensor],
    mask_id: int,
    top_k: int,
) -> Candidates:
    """Fills the masks of each row. Each step fills the mask with the most probable token.

    Args:
        predict: maps packed inputs and positions, int32 `[batch, masks]`, to logits `[batch, masks, vocab_size]`.
        packed: the encoder's inputs.
        mask_id: the id of the mask token.
        top_k: the number of candidates to return for each mask, from the step that fills it.
    """
    first_ids = packed["input_word_ids"]
    batch, seq_length = tf.unstack(tf.shape(first_ids))
    everywhere = tf.tile(tf.range(seq_length)[None], [batch, 1])
    by_row = tf.ragged.boolean_mask(everywhere, first_ids == mask_id)
    positions = by_row.to_tensor(0)  # [batch, masks]
    masks = tf.shape(positions)[1]

    def go_on(ids: tf.Tensor, is_open: tf.Tensor, *found: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(is_open)

    def fill_one(ids: tf.Tensor, is_open: tf.Tensor, *found: tf.Tensor) -> tuple[tf.Tensor, ...]:
        logits = predict({**packed, "input_word_ids": ids}, positions)
        probabilities, candidates = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), top_k)
        surest = tf.argmax(tf.where(is_open, probabilities[:, :, 0], -1.0), axis=1)
        now = tf.one_hot(surest, masks, on_value=True, off_value=False) & is_open  # [batch, masks]
        found = tuple(
            tf.where(now[:, :, None], new, old) for new, old in zip((candidates, probabilities), found, strict=True)
        )
        where = tf.where(now)  # [filled now, 2]: row, mask
        places = tf.stack([tf.cast(where[:, 0], tf.int32), tf.gather_nd(positions, where)], axis=1)
        ids = tf.tensor_scatter_nd_update(ids, places, tf.gather_nd(candidates[:, :, 0], where))
        return ids, is_open & ~now, *found

    is_open = tf.sequence_mask(by_row.row_lengths(), masks)
    shape = tf.stack([batch, masks, top_k])
    nothing = tf.zeros(shape, tf.int32), tf.zeros(shape, tf.float32)
    _, _, ids, probabilities = tf.while_loop(go_on, fill_one, (first_ids, is_open, *nothing))
    return Candidates(ids, probabilities)


class TokenTexts:
    """Decodes candidate tokens, alone and in place of a mask.

    Args:
        tokenizer: the tokenizer of the tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._mask = tokenizer.special_tokens["mask_token"]
        texts = _token_texts(tokenizer)
        spaced = not isinstance(tokenizer, WordPieceTokenizer)  # whether a token includes the space before it
        with tf.init_scope(), tf.device("CPU"):
            self._texts = tf.constant(texts)
            self._filled = tf.constant(texts if spaced else [text.removeprefix("##") for text in texts])
            self._takes_space = tf.constant([spaced or text.startswith("##") for text in texts])

    def of(self, candidates: Candidates) -> tf.Tensor:
        """string `[batch, masks, top_k]`, "" where there is no mask.

        WordPiece tokens keep their `##`, others the space before them.
        """
        return tf.where(candidates.probabilities > 0, tf.gather(self._texts, candidates.ids), "")

    def fill(self, texts: tf.Tensor, candidates: Candidates) -> tf.Tensor:
        """string `[batch]`: the texts with the first candidates in place of the masks, otherwise unchanged."""
        parts = tf.strings.split(texts, self._mask)  # [batch, (masks in the text + 1)]
        count = parts.row_lengths() - 1
        parts = parts.to_tensor("")  # [batch, most masks + 1]
        most = tf.shape(parts)[1] - 1
        seen = tf.shape(candidates.ids)[1]  # masks beyond the truncated row stay
        ids = tf.pad(candidates.ids[:, :, 0], [[0, 0], [0, most - seen]])
        is_filled = tf.pad(candidates.probabilities[:, :, 0], [[0, 0], [0, most - seen]]) > 0
        is_mask = tf.sequence_mask(count, most)
        fills = tf.where(is_filled, tf.gather(self._filled, ids), tf.where(is_mask, self._mask, ""))
        before = parts[:, :-1]
        takes_space = is_filled & tf.gather(self._takes_space, ids)
        before = tf.where(takes_space, tf.strings.regex_replace(before, f"{SPACES}+$", ""), before)
        filled = tf.strings.reduce_join(tf.strings.join([before, fills]), axis=1)
        begins_text = tf.reduce_any((before == "")[:, :1] & takes_space[:, :1], axis=1)
        filled = tf.where(begins_text, tf.strings.regex_replace(filled, "^ ", ""), filled)
        return tf.strings.join([filled, parts[:, -1]])


def _token_texts(tokenizer: Tokenizer) -> list[str]:
    if isinstance(tokenizer, SentencePieceTokenizer):
        return [token.replace("▁", " ") for token in tokenizer.vocabulary]
    if isinstance(tokenizer, BytePairTokenizer):
        texts = tokenizer.detokenize(tf.range(tokenizer.vocabulary_size)[:, None]).numpy()
        # Special tokens decode to "", so their names are shown. A token may begin or end within a character.
        return [text.decode(errors="replace") or name for text, name in zip(texts, tokenizer.vocabulary, strict=True)]
    return tokenizer.vocabulary
