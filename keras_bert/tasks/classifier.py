"""BertClassifier: classification and regression of texts or pairs (Devlin et al. 2018, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.classes import Classifier
from keras_bert.answers.columns import Targets, checked_labels
from keras_bert.choices import WINDOW_POOLINGS, check_choice
from keras_bert.data import Examples
from keras_bert.data.task_files import ClassifyFiles
from keras_bert.encoder import BertEncoder
from keras_bert.tasks import losses
from keras_bert.tasks.base.columns import Inputs
from keras_bert.tasks.base.task import BertTask, ToTrain
from keras_bert.tasks.heads.long_text import classify_texts, head_inputs, pools_logits
from keras_bert.tasks.kinds.classes import KINDS, OfTexts
from keras_bert.tasks.steps.training_step import LossTerm
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert")
class BertClassifier(Classifier, BertTask):
    """An encoder with a head that predicts the class of a text, or of a pair of texts.

    Use it for sentiment or topics (single texts), entailment or paraphrase (pairs), tags (multi-label classification)
    and graded similarity (regression).

    Args:
        encoder, preprocessor: see `BertTask`. A preprocessor with a stride splits long texts into windows; another one
            truncates them.
        labels: the names of the classes; for regression, the names of the numbers.
        problem_type: "single_label_classification" (one class per text), "multi_label_classification" (any number of
            classes) or "regression".
        pairs: whether inputs are pairs of texts.
        window_pooling: "mean" or "max": how to pool the windows of a long text.
        dropout: the rate before the head; by default the encoder's `hidden_dropout`.

    Call arguments:
        inputs: texts, pairs, or packed inputs, see `BertTask`.

    Returns:
        float32 `[batch, labels]`: logits; for regression the numbers themselves.

    Raises:
        TypeError: the encoder or the preprocessor has another class, or `labels` is not an ordered collection of str.
        ValueError: `problem_type`, `window_pooling` or `dropout` is invalid, or there are too few or equal labels.

    Example:
        >>> model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> tuple(model(["What a film!", "Never again."]).shape)
        (2, 2)
        >>> [answer["label"] in ("good", "bad") for answer in model.classify(["What a film!", "Never again."])]
        [True, True]
    """

    preprocessor: BertPreprocessor
    kind: OfTexts[Any]

    READS_WINDOWS = True
    EQUAL_IN_TEACHER = ("labels", "problem_type", "pairs")

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        labels: Sequence[str],
        problem_type: str = "single_label_classification",
        pairs: bool = False,
        window_pooling: str = "mean",
        dropout: float | None = None,
        **kwargs: Any,
    ) -> None:
        check_choice("problem_type", problem_type, KINDS)
        check_choice("window_pooling", window_pooling, WINDOW_POOLINGS)
        kind = KINDS[problem_type]
        labels = checked_labels(labels, min_count=kind.LEAST_LABELS)
        super().__init__(encoder, preprocessor, **kwargs)
        self.labels = labels
        self.kind = kind(labels)
        self.pairs = pairs
        self.window_pooling = window_pooling
        self._add_head(len(labels), dropout)

    @classmethod
    def to_train(cls, settings: ClassifyFiles, preset: str | Path, examples: Examples) -> ToTrain:
        names = ("problem_type", "long_text", "sequence_length", "pooling")
        arguments: dict[str, Any] = {name: getattr(settings, name) for name in names}
        arguments["pairs"] = "text_pair" in examples.texts
        loss = losses.chosen(settings.loss, settings.problem_type)
        return cls.from_preset(preset, labels=examples.label_names, **arguments), {"loss": loss}

    @property
    def problem_type(self) -> str:
        """Hugging Face's name of the problem type."""
        return self.kind.PROBLEM_TYPE

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        if not isinstance(inputs, dict):
            self.check_pairs(isinstance(inputs, tuple | list))
        logits = classify_texts(self.encoder, self.head, self.packed(inputs), self.window_pooling, training)
        return ops.cast(logits, "float32")

    def features(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        """Computes what the head's last layer reads, float32 `[batch, hidden]`; `logits = features W + b`."""
        pooled = head_inputs(self.encoder, self.head, self.packed(inputs), self.window_pooling, training)
        return ops.cast(self.head.features(pooled, training), "float32")

    def check_head(self, targets: Targets, sample_weight: Targets | None) -> None:
        """Raises the errors that `fit_head` would raise, whatever the features."""
        self.kind.logistic_regression(np.ones([len(targets), 1], np.float32), targets, sample_weight)

    def fit_head(self, features: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None) -> None:
        """Fits the head's last layer to features by logistic regression; see `few_shot`.

        Args:
            features: float32 `[texts, hidden]`, as `features` computes them without dropout.
            targets: those of the texts, as `targets` makes them.
            sample_weight: float32 `[texts]`, or `[texts, labels]` with several labels per text.

        Raises:
            ImportError: scikit-learn is not installed.
            ValueError: the model predicts numbers, or all texts are of one class.
        """
        kernel, bias = self.kind.logistic_regression(features, targets, sample_weight)
        self.head.logits.kernel.assign(kernel)
        self.head.logits.bias.assign(bias)

    @property
    def serve(self) -> Callable[..., dict[str, tf.Tensor]]:
        """The serving signature, for `text`, or for `text` and `text_pair`, string `[batch]` each.

        Its outputs are strings for labels, and float32 for numbers:

        =============  ==========================  ==============================================
        Problem type   `[batch, labels]`           `[batch]`
        =============  ==========================  ==============================================
        single-label   `labels`, `probabilities`   the most probable `label`, its `probability`
        multi-label    `labels`, `probabilities`   none
        regression     `values`                    none
        =============  ==========================  ==============================================
        """

        def serve_texts(text: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._serving_outputs(self(text, training=False))

        def serve_pairs(text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._serving_outputs(self((text, text_pair), training=False))

        return serve_pairs if self.pairs else serve_texts

    def _serving_outputs(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.kind.serving_outputs(logits)

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `logits`, and `probabilities` (regression: `values`), float32 `[batch, labels]` each.

        If texts are read in windows, `features`, float32 `[batch, hidden]`, are what the head reads of a window.
        """
        if not self.head_shapes:
            logits, features = self(inputs, training=False), {}
        else:
            features = {"features": head_inputs(self.encoder, self.head, inputs, self.window_pooling, False)}
            logits = self.serve_head(features)["logits"]
        return {"logits": logits, self.kind.VALUES: self.kind.values(logits), **features}

    @property
    def head_shapes(self) -> dict[str, tuple[int | None, ...]]:
        has_head = self.preprocessor.stride is not None and not pools_logits(self.encoder)
        return {"features": (None, self.encoder.config.hidden_size)} if has_head else {}

    def serve_head(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `logits`, float32 `[batch, labels]`, of `features`, pooled over the windows of each text."""
        return {"logits": ops.cast(self.head(inputs["features"], training=False), "float32")}

    def label_terms(self, x: Inputs | None, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> list[LossTerm]:
        if sample_weight is not None and len(sample_weight.shape) == 2 and sample_weight.shape[1] > 1:
            y, y_pred = ops.expand_dims(y, -1), ops.expand_dims(y_pred, -1)  # a weight for each label of a text
        return super().label_terms(x, y, y_pred, sample_weight)
