"""Static vectors of a sentence encoder (van Dongen and Tulkens 2024, "Model2Vec")."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.config import BertConfig
from keras_bert.encoder import BertEncoder
from keras_bert.formats.families import FAMILIES
from keras_bert.formats.tokenizers import unigram
from keras_bert.progress import progress_bar
from keras_bert.tasks.sentence import BertSentenceEncoder
from keras_bert.text import BertPreprocessor, SentencePieceTokenizer, WordPieceTokenizer
from keras_bert.text.tokenizer import Tokenizer

_UNUSED = re.compile(r"\[unused\d+\]")
_BATCH_TOKENS = 4096


def static_of(
    teacher: BertSentenceEncoder, size: int = 256, sif: float | None = 1e-4, progress: bool | None = None
) -> BertSentenceEncoder:
    """Makes static vectors of a sentence encoder: a vector for each token, whose mean is that of a text.

    Use it where texts are many and a model with layers is too slow; the vectors are worse. The student has no layers:
    its tokens do not see each other. It needs no texts to learn from; `fine_tune` can improve it on pairs.

    The teacher encodes each token of its vocabulary as a text, without scaling. A principal component analysis keeps
    `size` values. Frequent tokens get less weight, `sif / (sif + p)`, where the probability p of the token of rank r is
    proportional to `1 / (r + 1)` (Zipf's law; vocabularies begin with frequent tokens): the smooth inverse frequency of
    Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings".

    Args:
        teacher: a sentence encoder, whose tokenizer is WordPiece, byte pairs or SentencePiece of type Unigram.
        size: the number of values of a vector; at most the teacher's.
        sif: the constant of the weights, between 0 and 1; None: all tokens have the weight 1.
        progress: see `fine_tune`.

    Returns:
        The student, whose vectors have length 1. `save_preset` writes it for model2vec and sentence-transformers, too.

    Raises:
        ValueError: the size or the constant is out of range, or no static model can have the teacher's tokenizer.

    Example:
        >>> teacher = BertSentenceEncoder.from_preset("bert-books")
        >>> student = static_of(teacher, size=64)
        >>> student.encode(["The cat sat.", ""]).shape
        (2, 64)
    """
    if not 1 <= size <= teacher.encoder.config.hidden_size:
        raise ValueError(f"size is {size}; expected 1 to {teacher.encoder.config.hidden_size}, the teacher's")
    if sif is not None and not 0 < sif < 1:
        raise ValueError(f"sif is {sif}; expected a number between 0 and 1, or None")
    tokenizer, ids = _tokenizer_of(teacher.preprocessor.tokenizer)
    vectors = _principal_components(_encode_tokens(teacher, ids, progress), size)
    if sif is not None:
        probabilities = 1 / np.arange(2, len(ids) + 2)
        vectors *= (sif / (sif + probabilities / probabilities.sum()))[:, None]
    without_layers: dict[str, Any] = {**FAMILIES["model2vec"].hugging_face.values, "pooler": False}
    config = BertConfig(family="model2vec", vocab_size=len(ids), hidden_size=size, **without_layers)
    encoder = BertEncoder(config)
    encoder.embeddings.word_embeddings.set_weights([vectors])
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None, max_sequence_length=config.max_positions)
    return BertSentenceEncoder(encoder, preprocessor, similarity=teacher.similarity)


def _tokenizer_of(tokenizer: Tokenizer) -> tuple[Tokenizer, Sequence[int]]:
    """Makes a tokenizer without the tokens that no text has, and lists the ids of its tokens in the old one."""
    dropped = tokenizer.special_ids - {tokenizer.unk_token_id, tokenizer.pad_token_id}
    unused = {token for token in tokenizer.vocabulary if _UNUSED.fullmatch(token)}
    dropped |= {*map(tokenizer.vocabulary.index, unused.difference(tokenizer.get_config().get("added_tokens", ())))}
    ids = [index for index in range(tokenizer.vocabulary_size) if index not in dropped]
    if isinstance(tokenizer, SentencePieceTokenizer):
        return SentencePieceTokenizer(**unigram.static_arguments(tokenizer.tokenizer_json(), ids), packing="known"), ids
    unknown = tokenizer.special_tokens["unk_token"]
    changes: dict[str, Any] = dict.fromkeys(("cls_token", "sep_token", "mask_token"), unknown)
    changes |= {"vocabulary": [tokenizer.vocabulary[index] for index in ids], "more_special_tokens": []}
    packing = "known" if isinstance(tokenizer, WordPieceTokenizer) else "plain"
    return type(tokenizer).from_config({**tokenizer.get_config(), **changes, "packing": packing}), ids


def _encode_tokens(teacher: BertSentenceEncoder, ids: Sequence[int], progress: bool | None) -> np.ndarray:
    """Encodes each token as a text, without scaling: float64 `[tokens, size]`."""
    changes = {"normalize": False, "truncate_dim": None, "matryoshka_dimensions": None}
    unscaled = BertSentenceEncoder(teacher.encoder, teacher.preprocessor, **{**teacher.settings(), **changes})
    if unscaled.dense is not None and teacher.dense is not None:
        unscaled.dense.set_weights(teacher.dense.get_weights())
    preprocessor = BertPreprocessor(teacher.preprocessor.tokenizer, sequence_length=None)
    vectors, rows = [], _BATCH_TOKENS // 3  # [CLS] a [SEP]
    with progress_bar(len(ids), "tokens", progress, desc="encoding the vocabulary") as bar:
        for start in range(0, len(ids), rows):
            batch = tf.RaggedTensor.from_tensor(tf.constant(ids[start : start + rows])[:, None])
            vectors.append(unscaled(preprocessor.pack(batch), training=False).numpy())
            bar.update(len(vectors[-1]))
    return np.concatenate(vectors).astype(np.float64)


def _principal_components(vectors: np.ndarray, size: int) -> np.ndarray:
    """Projects vectors, float64 `[tokens, values]`, on the `size` directions in which they vary most."""
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)  # in ascending order of variance
    return centred @ directions[:, ::-1][:, :size]
