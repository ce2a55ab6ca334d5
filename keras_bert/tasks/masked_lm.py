"""BertMaskedLM: predicts the masked tokens of a text (Devlin et al. 2018, section 3.1, task 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.answers.tokens import NO_PREPROCESSOR, FilledAnswers, MaskFiller, TokenTexts
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.encoder import NAMES, check_range
from keras_bert.tasks.base.by_length import GraphByLength
from keras_bert.tasks.base.task import BertTask
from keras_bert.tasks.heads import MaskedLMHead
from keras_bert.tasks.kinds import Kind
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor, BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer
from keras_bert.text.strings import SPACES
from keras_bert.text.tokenizer import Tokenizer


class MaskedTokens(FilledAnswers, Kind[Mapping[str, object]]):
    """Ids of tokens at masked positions. The padding of the positions has the sample weight 0."""

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")


def fill_masks(
    predict: Callable[[dict[str, tf.Tensor], tf.Tensor], tf.Tensor],
    packed: dict[str, tf.Tensor],
    mask_id: int,
    top_k: int,
) -> tf.Tensor:
    """Fills the masks of each row, one per step: the mask whose best candidate is the surest, by its log odds."""
    # Returns candidates for masks, most probable first, float32 `[batch, masks, top_k, 2]`: ids, which float32 holds
    # exactly up to 2^24, and probabilities, 0 where a text has fewer masks. The first candidate replaces the mask.
    first_ids = packed["input_word_ids"]
    batch, seq_length = tf.unstack(tf.shape(first_ids))
    all_positions = tf.tile(tf.range(seq_length)[None], [batch, 1])
    mask_positions = tf.ragged.boolean_mask(all_positions, first_ids == mask_id)
    positions = mask_positions.to_tensor(0)  # [batch, masks]
    masks = tf.shape(positions)[1]

    def has_open_masks(ids: tf.Tensor, is_open: tf.Tensor, *filled: tf.Tensor) -> tf.Tensor:
        return tf.reduce_any(is_open)

    def fill_one(ids: tf.Tensor, is_open: tf.Tensor, *filled: tf.Tensor) -> tuple[tf.Tensor, ...]:
        logits = tf.cast(predict({**packed, "input_word_ids": ids}, positions), tf.float32)
        best, candidates = tf.math.top_k(logits, top_k)
        probabilities = tf.gather(tf.nn.softmax(logits), candidates, batch_dims=2)
        is_best = tf.one_hot(candidates[:, :, 0], tf.shape(logits)[2], on_value=True, off_value=False)
        log_odds = best[:, :, 0] - tf.reduce_logsumexp(tf.where(is_best, tf.float32.min, logits), axis=2)
        best_mask = tf.argmax(tf.where(is_open, log_odds, tf.float32.min), axis=1)
        is_filled_now = tf.one_hot(best_mask, masks, on_value=True, off_value=False) & is_open  # [batch, masks]
        filled = tuple(
            tf.where(is_filled_now[:, :, None], new, old)
            for new, old in zip((candidates, probabilities), filled, strict=True)
        )
        indices = tf.where(is_filled_now)  # [filled now, 2]: row, mask
        token_indices = tf.stack([tf.cast(indices[:, 0], tf.int32), tf.gather_nd(positions, indices)], axis=1)
        ids = tf.tensor_scatter_nd_update(ids, token_indices, tf.gather_nd(candidates[:, :, 0], indices))
        return ids, is_open & ~is_filled_now, *filled

    is_open = tf.sequence_mask(mask_positions.row_lengths(), masks)
    shape = tf.stack([batch, masks, top_k])
    nothing_filled = tf.zeros(shape, tf.int32), tf.zeros(shape, tf.float32)
    # With NaN, which is never the most probable, masks would stay open.
    start = (first_ids, is_open, *nothing_filled)
    _, _, ids, probabilities = tf.while_loop(has_open_masks, fill_one, start, maximum_iterations=masks)
    return tf.stack([tf.cast(ids, tf.float32), probabilities], axis=-1)


class GraphTokenTexts:
    """`TokenTexts` in the graph, for serving signatures."""

    def __init__(self, tokens: TokenTexts) -> None:
        self._mask = tokens.mask
        with tf.init_scope(), tf.device("CPU"):
            self._texts, self._filled = tf.constant(tokens.texts), tf.constant(tokens.filled)
            self._strips_space = tf.constant(tokens.strips_space)

    def decode(self, candidates: tf.Tensor) -> tf.Tensor:
        """Decodes ids with their weights, float32 `[..., 2]`, to string `[...]`, "" where the weight is 0."""
        return tf.where(candidates[..., 1] > 0, tf.gather(self._texts, tf.cast(candidates[..., 0], tf.int32)), "")

    def fill(self, texts: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
        """Replaces the masks in texts, string `[batch]`, with the first candidates; the rest stays as it is."""
        parts = tf.strings.split(texts, self._mask)  # [batch, (masks in the text + 1)]
        count = parts.row_lengths() - 1
        width = tf.reduce_max(tf.concat([tf.ones([1], tf.int64), parts.row_lengths()], 0))  # 1 for an empty batch
        parts = parts.to_tensor("", shape=tf.stack([-1, width]))  # [batch, most masks + 1]
        max_masks = tf.shape(parts)[1] - 1
        num_read = tf.shape(candidates)[1]  # masks that were truncated stay
        first = tf.pad(candidates[:, :, 0], [[0, 0], [0, max_masks - num_read], [0, 0]])  # [batch, max_masks, 2]
        ids, is_filled = tf.cast(first[..., 0], tf.int32), first[..., 1] > 0
        is_mask = tf.sequence_mask(count, max_masks)
        fill_texts = tf.where(is_filled, tf.gather(self._filled, ids), tf.where(is_mask, self._mask, ""))
        texts_before = parts[:, :-1]
        strips_space = is_filled & tf.gather(self._strips_space, ids)
        texts_before = tf.where(strips_space, tf.strings.regex_replace(texts_before, f"{SPACES}+$", ""), texts_before)
        filled = tf.strings.reduce_join(tf.strings.join([texts_before, fill_texts]), axis=1)
        begins_text = tf.reduce_any((texts_before == "")[:, :1] & strips_space[:, :1], axis=1)
        filled = tf.where(begins_text, tf.strings.regex_replace(filled, "^ ", ""), filled)
        return tf.strings.join([filled, parts[:, -1]])


def token_texts(tokenizer: Tokenizer) -> TokenTexts:
    """Makes the decoder of a tokenizer's tokens."""
    mask, includes_space = tokenizer.special_tokens["mask_token"], not isinstance(tokenizer, WordPieceTokenizer)
    return TokenTexts(_texts_of_tokens(tokenizer), mask, includes_space, tokenizer.special_ids)


def _texts_of_tokens(tokenizer: Tokenizer) -> list[str]:
    if isinstance(tokenizer, SentencePieceTokenizer):
        return [token.replace("▁", " ") for token in tokenizer.vocabulary]
    if isinstance(tokenizer, BytePairTokenizer):
        texts = tokenizer.detokenize(tf.range(tokenizer.vocabulary_size)[:, None]).numpy()
        # Special tokens decode to "", so their names are shown. A token may begin or end within a character, which then
        # becomes U+FFFD.
        return [text.decode(errors="replace") or name for text, name in zip(texts, tokenizer.vocabulary, strict=True)]
    return tokenizer.vocabulary


POSITIONS = "masked_lm_positions"


@keras.saving.register_keras_serializable(package="keras_bert")
class BertMaskedLM(MaskFiller, BertTask):
    """An encoder with the masked language modeling head on top.

    Use it to fill masks with `fill`, or to train on masked texts that are already packed.

    Args:
        encoder: a `BertEncoder`.
        preprocessor: maps strings to ids, for `fill` and `serve`. It must have no stride, and its tokenizer must
            recognize the mask token in a text (`special_tokens_in_text=True`). Without a preprocessor, the model takes
            packed inputs only.

    Call arguments:
        inputs: the encoder's dict, plus `masked_lm_positions`, int `[batch, predictions]`: the positions in each row to
            predict, padded with 0. Predictions for this padding are meaningless.

    Returns:
        float `[batch, predictions, vocab_size]`: logits over the vocabulary.

    Raises:
        ValueError: as the encoder does; `masked_lm_positions` is missing or not integer `[batch, predictions]`; or the
            preprocessor has a stride or a tokenizer that does not recognize the mask token.

    Example:
        >>> import numpy as np
        >>> model = BertMaskedLM.from_preset("bert-books")
        >>> inputs = model.preprocessor(["She opened the [MASK]."])  # [CLS] she opened the [MASK] . [SEP]
        >>> tuple(model({**inputs, "masked_lm_positions": np.array([[4]])}).shape)
        (1, 1, 8000)
    """

    kind = MaskedTokens()
    READS_SPECIAL_TOKENS = True
    REQUIRED_HEAD = "masked language modeling head; pre-trained models have one"
    PREPROCESSOR_IS_OPTIONAL = True

    def __init__(self, encoder: BertEncoder, preprocessor: BertPreprocessor | None = None, **kwargs: Any) -> None:
        super().__init__(encoder, preprocessor, **kwargs)
        if preprocessor is not None and not preprocessor.tokenizer.special_tokens_in_text:
            mask = preprocessor.tokenizer.special_tokens["mask_token"]
            raise ValueError(f"the tokenizer reads {mask} as ordinary text; make it with special_tokens_in_text=True")
        if preprocessor is not None:
            self.token_texts = token_texts(preprocessor.tokenizer)
            self._by_length = GraphByLength(
                preprocessor, lambda segments, top_k: self._candidates(preprocessor.pack(segments), top_k), self._graphs
            )
        self.head = MaskedLMHead(encoder.config, dtype=encoder.dtype_policy, name="masked_lm_head")
        self.head.build()
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> Tensor:
        inputs = dict(inputs)
        positions = inputs.pop(POSITIONS, None)
        expected = "expected an integer tensor [batch, predictions]"
        if positions is None:
            raise ValueError(f"{POSITIONS} is missing; {expected}")
        dtype = keras.backend.standardize_dtype(positions.dtype)
        if len(positions.shape) != 2 or "int" not in dtype:
            raise ValueError(f"{POSITIONS} is {dtype} of shape {tuple(positions.shape)}; {expected}")
        if len(getattr(inputs.get(NAMES[0]), "shape", ())) == 2 and isinstance(inputs[NAMES[0]].shape[1], int):
            check_range(POSITIONS, positions, inputs[NAMES[0]].shape[1], "the sequences have the positions")
        return self.logits(self.encoder(inputs, training=training)["sequence_output"], positions)

    def logits(self, sequence_output: Tensor, positions: Tensor) -> Tensor:
        """Computes the head's logits at positions, int `[batch, predictions]`, of `[batch, seq_length, hidden]`."""
        hidden = _gather_rows(sequence_output, positions)  # [batch, predictions, hidden]
        return self.head(hidden, embeddings=self.encoder.embeddings.word_embeddings.embeddings)

    def _candidates(self, packed: dict[str, tf.Tensor], top_k: int) -> tf.Tensor:
        tokenizer = self._required_preprocessor.tokenizer

        def predict(inputs: dict[str, tf.Tensor], positions: tf.Tensor) -> tf.Tensor:
            # The embedding table may have more rows than the vocabulary has tokens.
            return self({**inputs, POSITIONS: positions}, training=False)[:, :, : tokenizer.vocabulary_size]

        return fill_masks(predict, packed, tokenizer.mask_token_id, top_k)

    @property
    def serve(self) -> Callable[[tf.Tensor], dict[str, tf.Tensor]]:
        """The serving signature, for `text`, string `[batch]`; it needs a preprocessor.

        It returns, as `fill` does, `filled`, string `[batch]`; `tokens`, string `[batch, masks, 5]`; and
        `probabilities`, float32 of that shape. For a text with fewer masks, `tokens` are padded with "" and
        `probabilities` with 0. Truncated masks stay as they are.
        """
        preprocessor = self.preprocessor
        if preprocessor is None:
            raise AttributeError(NO_PREPROCESSOR)
        texts = GraphTokenTexts(self.token_texts)

        def serve_texts(text: tf.Tensor) -> dict[str, tf.Tensor]:
            candidates = self._candidates(preprocessor(text), min(5, preprocessor.tokenizer.vocabulary_size))
            tokens = texts.decode(candidates)
            filled = texts.fill(text, candidates)
            return {"filled": filled, "tokens": tokens, "probabilities": candidates[..., 1]}

        return serve_texts

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `logits` of all positions, float `[batch, seq_length, tokens of the vocabulary]`."""
        hidden = self.encoder(inputs, training=False)["sequence_output"]
        logits = self.head(hidden, embeddings=self.encoder.embeddings.word_embeddings.embeddings)
        # The embedding table may have more rows than the vocabulary has tokens.
        return {"logits": logits[..., : self.preprocessor and self.preprocessor.tokenizer.vocabulary_size]}


def _gather_rows(sequences: Tensor, positions: Tensor) -> Tensor:
    """Gathers hidden states at positions: `[batch, seq_length, hidden]`, int `[batch, n]` -> `[batch, n, hidden]`."""
    batch, seq_length, hidden = ops.shape(sequences)
    row_starts = ops.expand_dims(ops.arange(batch, dtype=positions.dtype) * ops.cast(seq_length, positions.dtype), 1)
    return ops.take(ops.reshape(sequences, (-1, hidden)), positions + row_starts, axis=0)
