"""BertClassifier: classification and regression of texts or pairs (Devlin et al. 2018, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.encoder import BertEncoder
from keras_bert.formats import hugging_face
from keras_bert.tasks import preset
from keras_bert.tasks.label_names import checked_labels, number_of
from keras_bert.tasks.long_text import POOLS, pooled_output
from keras_bert.tasks.task import BertTask, TokenizedExamples, columns_of, plain
from keras_bert.text import BertPreprocessor

# Hugging Face's names of the problem types.
CLASSES, MULTI_LABEL, REGRESSION = PROBLEMS = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
)
_LOSSES = {
    CLASSES: lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    MULTI_LABEL: lambda: keras.losses.BinaryCrossentropy(from_logits=True),
    REGRESSION: lambda: keras.losses.MeanSquaredError(),
}


@keras.saving.register_keras_serializable(package="keras_bert")
class BertClassifier(BertTask):
    """Predicts the class of a text, or of a pair of texts.

    Args:
        encoder, preprocessor: see `BertTask`. With a preprocessor that gives windows, long texts are read whole.
        labels: names of the classes; for regression, of the numbers.
        problem_type: "single_label_classification" (one class per text), "multi_label_classification" (any number of
            classes) or "regression".
        pairs: whether inputs are pairs of texts.
        pool: "mean" or "max": how to pool the windows of a long text.
        dropout: the rate before the head; by default the encoder's `hidden_dropout`.

    Call arguments:
        inputs: texts, pairs, or packed inputs, see `BertTask`.

    Returns:
        float32 `[batch, labels]`: logits; for regression the numbers themselves.

    Raises:
        TypeError, ValueError: a bad argument.

    Example:
        >>> model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> tuple(model(["What a film!", "Never again."]).shape)
        (2, 2)
        >>> [answer["label"] in ("good", "bad") for answer in model.classify(["What a film!", "Never again."])]
        [True, True]
    """

    HEAD = "sequence"

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        labels: Sequence[str],
        problem_type: str = CLASSES,
        pairs: bool = False,
        pool: str = "mean",
        dropout: float | None = None,
        **kwargs: Any,
    ) -> None:
        if problem_type not in PROBLEMS:
            raise ValueError(f"problem_type is {problem_type!r}; expected {', '.join(PROBLEMS)}")
        if pool not in POOLS:
            raise ValueError(f"pool is {pool!r}; expected {' or '.join(POOLS)}")
        labels = checked_labels(labels, least=2 if problem_type == CLASSES else 1)
        super().__init__(encoder, preprocessor, len(labels), dropout, **kwargs)
        self.labels = labels
        self.problem_type = problem_type
        self.pairs = pairs
        self.pool = pool

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if not isinstance(inputs, dict):
            self._check_pairs(isinstance(inputs, tuple | list))
        pooled = pooled_output(self.encoder, self.packed(inputs), self.pool, training, self.reads_pooler)
        return ops.cast(self.head(pooled, training=training), "float32")

    def training_loss(self) -> keras.losses.Loss:
        """The loss to compile with: cross-entropy, binary cross-entropy per label, or mean squared error."""
        return _LOSSES[self.problem_type]()

    def classify(
        self,
        texts: Iterable[str] | Iterable[tuple[str, str]],
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> list[Any]:
        """Predicts the label of each text or pair.

        Args:
            texts: each a str, or a tuple of two.
            batch_tokens: the tokens per batch, padding included.
            progress: whether to show a progress bar; by default on a terminal, if it takes longer than a second.

        Returns:
            For each text a dict: `label`, and `probability`, 0 to 1. For multi-label classification, a list of the
            dicts of at least 0.5, most probable first. For regression, a dict of the numbers by label.

        Raises:
            TypeError, ValueError: `texts` is a single str, or an item is not a text, or not a pair.
        """
        answers = []
        for chunk in self._by_length(self._checked(texts), batch_tokens, progress):
            answers.extend(self._answer(logits) for logits in chunk)
        return answers

    def _answer(self, logits: np.ndarray) -> Any:
        values = self._values(tf.constant(logits)).numpy()
        if self.problem_type == REGRESSION:
            return {label: float(value) for label, value in zip(self.labels, values, strict=True)}
        order = np.argsort(-values, kind="stable")
        answers = [{"label": self.labels[i], "probability": float(values[i])} for i in order]
        if self.problem_type == CLASSES:
            return answers[0]
        return [answer for answer in answers if answer["probability"] >= 0.5]

    def _values(self, logits: Any) -> Any:
        """Logits -> probabilities, or numbers."""
        if self.problem_type == REGRESSION:
            return logits
        return ops.softmax(logits) if self.problem_type == CLASSES else ops.sigmoid(logits)

    @property
    def serve(self) -> Callable[..., dict[str, Any]]:
        """The serving signature, for `text`, or for `text` and `text_pair`, string `[batch]` each.

        Regression: `values`, float32 `[batch, labels]`. Otherwise `labels`, string `[batch, labels]`, and
        `probabilities`, float32 of that shape; with one class per text also its `label` and `probability`, `[batch]`.
        """

        def serve_texts(text: Any) -> dict[str, Any]:
            return self._served(self(text, training=False))

        def serve_pairs(text: Any, text_pair: Any) -> dict[str, Any]:
            return self._served(self((text, text_pair), training=False))

        return serve_pairs if self.pairs else serve_texts

    def _served(self, logits: Any) -> dict[str, Any]:
        values = self._values(logits)
        if self.problem_type == REGRESSION:
            return {"values": values}
        names = tf.constant(self.labels)
        served = {"labels": tf.tile(names[None], [tf.shape(values)[0], 1]), "probabilities": values}
        if self.problem_type == CLASSES:
            served["label"] = tf.gather(names, tf.argmax(values, axis=-1))
            served["probability"] = tf.reduce_max(values, axis=-1)
        return served

    def targets(self, y: Any) -> Any:
        """Names or numbers of labels -> targets of the loss; tensors, and arrays of a row per text, stay.

        Raises:
            ValueError: a name or number is not that of a label, or for regression a value is not finite.
        """
        y = plain(y)
        if y is None or tf.is_tensor(y) or isinstance(y, tf.data.Dataset) or not len(y):
            return y
        if self.problem_type == REGRESSION:
            numbers = np.reshape(np.asarray(y, np.float32), (len(y), -1))
            if bad := np.flatnonzero(~np.isfinite(numbers).all(axis=1)).tolist():
                raise ValueError(f"label {bad[0]} (from 0) is {numbers[bad[0]].tolist()}, which is no number to learn")
            return numbers
        if self.problem_type == CLASSES:
            if np.ndim(y[0]):  # such as probabilities, for another loss
                return np.asarray(y)
            return np.array([number_of(label, self.labels) for label in y], np.int32)
        if isinstance(y, np.ndarray) and y.dtype.kind != "O":
            return y
        hot = np.zeros((len(y), len(self.labels)), np.float32)
        for row, names in enumerate(y):
            hot[row, [number_of(name, self.labels) for name in names]] = 1
        return hot

    def examples(self, x: Any, y: Any) -> TokenizedExamples:
        self._check_pairs(len(columns_of(x)) > 1)
        return super().examples(x, y)

    def _check_pairs(self, are_pairs: bool) -> None:
        if are_pairs == self.pairs:
            return
        wanted = "pairs: a tuple of two, (texts, texts)" if self.pairs else "texts; for pairs, make it with pairs=True"
        raise ValueError(f"this classifier takes {wanted}")

    def _checked(self, texts: Iterable[Any]) -> Iterable[Any]:
        if isinstance(texts, str | bytes):
            raise TypeError(f"texts is a single {type(texts).__name__}; pass a list: [text]")
        for text in texts:
            if isinstance(text, tuple | list) != self.pairs:
                wanted = "pairs of texts: (text, text_pair)" if self.pairs else "texts, each a str"
                raise ValueError(f"this classifier takes a list of {wanted}, not {text!r:.60}")
            yield text

    @classmethod
    def from_preset(
        cls,
        handle: str | Path,
        labels: Sequence[str] | None = None,
        problem_type: str | None = None,
        pairs: bool | None = None,
        pool: str | None = None,
        dropout: float | None = None,
        **kwargs: Any,
    ) -> BertClassifier:
        """A classifier with the encoder of a preset, and the preset's head if it has one for these labels.

        Args:
            handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`.
            labels: by default those of the preset's head. If it has no names, give them in the order of the logits.
                For other labels, a new head is initialized at random.
            problem_type, pairs, pool, dropout: as for the constructor; by default as saved with the preset.
            **kwargs: `sequence_length`, `long_text`, `stride`, `dtype`: see `preset.read`.

        Raises:
            FileNotFoundError: there is no such preset, or it lacks a file.
            ValueError: a file is damaged, an argument is bad, or there are no labels.

        Warns:
            UserWarning: the preset's head is not used: it has as many labels, but different ones.
        """
        found = preset.read(handle, cls.HEAD, **kwargs)
        labels = found.labels(labels)
        given = {"problem_type": problem_type, "pairs": pairs, "pool": pool, "dropout": dropout}
        stated = {"problem_type": found.config.get("problem_type") if found.has_head else None, **found.settings}
        settings = {**stated, **{name: value for name, value in given.items() if value is not None}}
        settings["problem_type"] = settings["problem_type"] or CLASSES
        model = cls(found.encoder, found.preprocessor, labels, **settings)
        if found.head_fits(labels):
            preset.load_head(model, found)
        return model

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "pairs": self.pairs, "pool": self.pool}

    def hugging_face_settings(self) -> dict[str, Any]:
        return {**hugging_face.label_names(self.labels), "problem_type": self.problem_type}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "labels": self.labels, "problem_type": self.problem_type}
