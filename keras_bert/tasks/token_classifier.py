"""BertTokenClassifier: labels words, and finds entities in texts (Devlin et al. 2018, section 5.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.answers.columns import Labels, Targets, Texts, checked_labels
from keras_bert.answers.entities import scheme_of
from keras_bert.answers.words import Tagger, check_sentences
from keras_bert.counted import counted
from keras_bert.data import Examples
from keras_bert.data.task_files import TagFiles
from keras_bert.encoder import BertEncoder
from keras_bert.tasks.base.by_length import GraphBySentence, flat_tokens
from keras_bert.tasks.base.columns import Inputs
from keras_bert.tasks.base.storable import Part
from keras_bert.tasks.base.task import BertTask, TokenizedExamples, ToTrain
from keras_bert.tasks.heads.crf import CRF
from keras_bert.tasks.heads.long_text import sequence_output, token_mask
from keras_bert.tasks.kinds.words import IGNORED, WordLabels
from keras_bert.tasks.steps.training_step import LossTerm
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor
from keras_bert.text.packing import first_tokens
from keras_bert.text.words import find_words


@keras.saving.register_keras_serializable(package="keras_bert")
class BertTokenClassifier(Tagger, BertTask):
    """A model that predicts the label of each word, for named entities or parts of speech.

    A word's label is that of its first token, as in the paper; training ignores the other tokens.

    Args:
        encoder, preprocessor: see `BertTask`. With a preprocessor that makes windows, long texts are read whole: the
            label of a word comes from the window where it has the most context.
        labels: those of a scheme for entities, such as BIO ("O", "B-PER", "I-PER", ...), BIOES, BILOU or BMES, see
            `answers.entities.LabelScheme`; or labels without a prefix, such as "NOUN".
        dropout: the rate before the head; by default the encoder's `hidden_dropout`.
        crf: True adds a `CRF`, in which the labels of a sentence depend on each other. Training maximizes the
            likelihood of whole sentences. An answer is the best path without transitions that the labels' scheme
            forbids; a probability is that of the word's label over all paths. The name of a scheme also adds a CRF. It
            is needed for "IOB1", which has the labels of BIO and is read as BIO by default.

    Call arguments:
        inputs: texts, or packed inputs, see `BertTask`.

    Returns:
        float32 `[batch, seq_length, labels]`: the logits of each token, special tokens included; with windows
        `[batch, windows, seq_length, labels]`.

    Raises:
        TypeError, ValueError: an argument is bad, or labels look like those of a scheme for entities, but are none.

    Example:
        >>> model = BertTokenClassifier.from_preset("all-MiniLM-L6-v2", labels=["O", "B-PER", "I-PER"])
        >>> [[answer["word"] for answer in sentence] for sentence in model.tag([["Ada", "Lovelace", "wrote"]])]
        [['Ada', 'Lovelace', 'wrote']]
        >>> all("Ada wrote."[each["start"] : each["end"]] == each["text"] for each in model.entities(["Ada wrote."])[0])
        True
    """

    preprocessor: BertPreprocessor
    kind: WordLabels
    _by_length: GraphBySentence

    READS_WINDOWS = True
    EQUAL_IN_TEACHER = ("labels",)
    PARTS = (Part("crf", lambda model: model.crf and model.crf.weights, is_in_graph=False),)

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        labels: Sequence[str],
        dropout: float | None = None,
        crf: bool | str = False,
        **kwargs: Any,
    ) -> None:
        labels = checked_labels(labels, min_count=2)
        super().__init__(encoder, preprocessor, **kwargs)
        if preprocessor.truncation == "head_tail":
            raise ValueError(
                "truncation (long_text) is head_tail, which cuts words out of the middle; these would have no "
                "labels; use long_text='windows', which cuts nothing, or 'truncate'"
            )
        self.labels = labels
        WordLabels(labels)  # raises
        self._add_head(len(labels), dropout)
        self.crf = None
        if crf:
            scheme = scheme_of(labels) if crf is True else crf
            self.crf = CRF(len(labels), scheme, labels if scheme else None, name="crf")
            self.crf.build()
        self.kind = WordLabels(labels, self.crf)
        self._by_length = GraphBySentence(
            preprocessor, lambda segments: tf.stack(self._predict_words(*segments), axis=-1), self._graphs
        )

    @classmethod
    def to_train(cls, settings: TagFiles, preset: str | Path, examples: Examples) -> ToTrain:
        arguments: dict[str, Any] = {"long_text": settings.long_text, "sequence_length": settings.sequence_length}
        if settings.crf:
            arguments["crf"] = scheme_of(examples.label_names, examples.labels or ()) or True
        return cls.from_preset(preset, labels=examples.label_names, **arguments), {}

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        hidden = sequence_output(self.encoder, self.packed(inputs), training)
        return ops.cast(self.head(hidden, training=training), "float32")

    def _predict_words(self, tokens: tf.RaggedTensor, begins: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Predicts each word's label (-1: none) and its probability, float32 `[batch, words]` each."""
        packed = self.preprocessor.pack(tokens)
        logits = self(packed, training=False)  # [batch, seq_length, labels], or with windows
        mask = token_mask(self.preprocessor, tokens, packed["input_word_ids"])
        counts = _count_kept_tokens(mask)
        is_first = first_tokens(begins, counts) > 0  # [batch, (kept tokens)]
        token_logits = tf.RaggedTensor.from_row_lengths(tf.boolean_mask(logits, mask), counts)
        word_logits = tf.ragged.boolean_mask(token_logits, is_first)
        max_words = tf.reduce_max(tf.concat([[0], tf.reduce_sum(begins, axis=1)], 0))
        logits = word_logits.to_tensor(shape=tf.stack([-1, max_words, len(self.labels)]))
        is_word = tf.sequence_mask(word_logits.row_lengths(), max_words)  # [batch, words]
        if self.crf is None:
            probabilities = ops.softmax(logits)
            best = tf.argmax(logits, axis=-1, output_type=tf.int32)
        else:
            probabilities, best = self.crf.marginals(logits, is_word), self.crf.decode(logits, is_word)
        probability = tf.gather(probabilities, tf.maximum(best, 0), batch_dims=2)
        return tf.where(is_word, tf.cast(best, tf.float32), -1.0), tf.where(is_word, probability, 0.0)

    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves `text`, string `[batch]`, with the label of each word.

        Returns:
            `words`, string `[batch, words]`, padded with ""; `starts` and `ends`, int32, offsets of words in characters
            (code points), padded with -1; `labels`, string, with prefixes, and `probabilities`, float32. Padding and
            truncated words have label "" and probability 0.
        """
        words, starts, ends = find_words(text)
        tokens = self.preprocessor.tokenizer.tokenize_words(words)
        best, probabilities = self._predict_words(*flat_tokens(tokens))  # [batch, words]
        return {
            "words": words.to_tensor(""),
            "labels": tf.gather(tf.constant(["", *self.labels]), tf.cast(best, tf.int32) + 1),
            "probabilities": probabilities,
            "starts": starts.to_tensor(-1),
            "ends": ends.to_tensor(-1),
        }

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `logits` and, without a CRF, `probabilities`, float32 `[batch, seq_length, labels]` each, of tokens.

        A CRF labels the words of a sentence together, and packed inputs do not show where words begin.
        """
        logits = self(inputs, training=False)
        return {"logits": logits} if self.crf is not None else {"logits": logits, "probabilities": ops.softmax(logits)}

    def examples(self, x: Texts, y: Labels | None) -> TokenizedExamples:
        """Tokenizes lists of words, with lists of labels, by name or by number.

        `targets` are ragged int32 `[sentences, (tokens)]`: a label's index at the first token of a word, else -1.

        Raises:
            TypeError, ValueError: a sentence is not a list of str, the numbers of words and labels differ, or the model
                has no such label. The message has the sentence's index, from 0.
        """
        x, y = check_sentences(x), self.kind.plain(y)
        if y is None:
            raise ValueError(f"got {counted(x, 'sentence')}, but no labels")
        if len(x) != len(y):
            raise ValueError(f"got {counted(x, 'sentence')}, but labels for {len(y):,}")
        labels = self.kind.indices(x, y)
        tokens, begins = self._by_length.tokenize(x)
        targets = tf.fill(tf.shape(begins.values), IGNORED)
        targets = tf.tensor_scatter_nd_update(targets, tf.where(begins.values > 0), labels)
        return TokenizedExamples((tokens,), begins.with_values(targets), self._by_length.lengths([tokens]))

    def label_terms(self, x: Inputs | None, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> list[LossTerm]:
        sample_weight = sample_weight if self.crf is not None else _weights_of_words(sample_weight, y)
        return super().label_terms(x, y, y_pred, sample_weight)

    def batch(
        self, segments: tuple[tf.RaggedTensor, ...], targets: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Packs a batch of `examples` into `(x, y)`. `y` is int32 of the shape of `input_word_ids`, -1 where ignored.

        A token in several windows has its label only in the window where it has the most context.
        """
        packed = self.preprocessor.pack(segments)
        mask = token_mask(self.preprocessor, segments[0], packed["input_word_ids"])
        values = first_tokens(targets, _count_kept_tokens(mask)).values
        ignored = tf.fill(tf.shape(mask), IGNORED)
        return packed, tf.tensor_scatter_nd_update(ignored, tf.where(mask), values)

    def arrays(self, x: Texts | Inputs, y: Labels | None) -> tuple[Inputs, Targets | None]:
        if not (isinstance(x, list) and x and (isinstance(x[0], list | tuple) or isinstance(y, list))):
            return super().arrays(x, y)
        if y is None:
            return self.preprocessor.pack(self._by_length.tokenize(check_sentences(x))[0]), None
        examples = self.examples(x, y)
        return self.batch(examples.segments, examples.targets)

    def compute_metrics(
        self, x: Inputs, y: tf.Tensor, y_pred: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> dict[str, Tensor]:
        """Computes metrics as Keras does, but over first tokens of words: other tokens have no label."""
        if y is None:
            return super().compute_metrics(x, y, y_pred, sample_weight)
        is_word = tf.not_equal(y, tf.cast(IGNORED, y.dtype))
        columns = (y, y_pred, _weights_of_words(sample_weight, y))
        word_columns = (None if each is None else tf.boolean_mask(each, is_word) for each in columns)
        return super().compute_metrics(x, *word_columns)


def _weights_of_words(sample_weight: Tensor | None, y: Tensor) -> Tensor | None:
    """Repeats the weights of sentences, `[batch]`, for their words; weights of words stay as they are."""
    if sample_weight is None or len(sample_weight.shape) != 1:
        return sample_weight
    return tf.broadcast_to(tf.reshape(sample_weight, (-1, *(1,) * (len(y.shape) - 1))), tf.shape(y))


def _count_kept_tokens(mask: tf.Tensor) -> tf.Tensor:
    """Counts the tokens of each text that packing kept, int64 `[batch]`, in the result of `token_mask`."""
    return tf.math.count_nonzero(mask, axis=list(range(1, len(mask.shape))))
