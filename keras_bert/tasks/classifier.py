"""BertClassifier: classification and regression of texts or pairs (Devlin et al. 2018, section 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.data import TextExamples
from keras_bert.encoder import BertEncoder
from keras_bert.formats import hugging_face
from keras_bert.tasks.columns import checked_labels, columns_of, one_or_many
from keras_bert.tasks.long_text import POOLINGS, classify_texts
from keras_bert.tasks.problem_types import PROBLEM_TYPES, SingleLabel
from keras_bert.tasks.storable import TaskPreset
from keras_bert.tasks.task import BertTask, TokenizedExamples
from keras_bert.tasks.training_step import Part, weighted_mean
from keras_bert.text import BertPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert")
class BertClassifier(BertTask):
    """Predicts the class of a text, or of a pair of texts.

    Args:
        encoder, preprocessor: see `BertTask`. With a preprocessor that makes windows, long texts are read whole.
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
        TypeError, ValueError: a bad argument.

    Example:
        >>> model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> tuple(model(["What a film!", "Never again."]).shape)
        (2, 2)
        >>> [answer["label"] in ("good", "bad") for answer in model.classify(["What a film!", "Never again."])]
        [True, True]
    """

    HEAD = "sequence"
    EXAMPLES = TextExamples
    STATED_ELSEWHERE = ("labels", "problem_type")
    ANSWERS_PROGRAM = """\
labels = open("labels.txt", encoding="utf-8").read().splitlines()
for values in outputs.get("probabilities", outputs.get("values")):
    print(dict(zip(labels, values.tolist())))"""

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        labels: Sequence[str],
        problem_type: str = SingleLabel.NAME,
        pairs: bool = False,
        window_pooling: str = "mean",
        dropout: float | None = None,
        **kwargs: Any,
    ) -> None:
        if problem_type not in PROBLEM_TYPES:
            raise ValueError(f"problem_type is {problem_type!r}; expected {', '.join(PROBLEM_TYPES)}")
        if window_pooling not in POOLINGS:
            raise ValueError(f"window_pooling is {window_pooling!r}; expected {' or '.join(POOLINGS)}")
        problem = PROBLEM_TYPES[problem_type]
        labels = checked_labels(labels, least=problem.LEAST_LABELS)
        super().__init__(encoder, preprocessor, **kwargs)
        self.labels = labels
        self._problem = problem(labels)
        self.pairs = pairs
        self.window_pooling = window_pooling
        self._add_head(len(labels), dropout)

    @property
    def problem_type(self) -> str:
        """Hugging Face's name of the problem type."""
        return self._problem.NAME

    @property
    def text_names(self) -> tuple[str, ...]:
        return ("text", "text_pair") if self.pairs else ("text",)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if not isinstance(inputs, dict):
            self._check_pairs(isinstance(inputs, tuple | list))
        logits = classify_texts(self.encoder, self.head, self.packed(inputs), self.window_pooling, training)
        return ops.cast(logits, "float32")

    def training_loss(self) -> keras.losses.Loss:
        """The loss to compile with: cross-entropy, binary cross-entropy per label, or mean squared error."""
        return self._problem.loss()

    def loss_for(self, examples: TokenizedExamples) -> keras.losses.Loss:
        self._problem.check_loss_targets(examples.targets)
        return self.training_loss()

    def classify(
        self,
        text: str | Iterable[str],
        text_pair: str | Iterable[str] | None = None,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> Any:
        """Predicts the label of a text or pair, or of many.

        Args:
            text: a str, or many.
            text_pair: for pairs, the second text: a str, or as many as there are first texts.
            batch_tokens: the most tokens in a batch, padding included; a longer text is a batch of its own.
            progress: whether to show a progress bar; by default on a terminal, if it takes longer than a second.

        Returns:
            A dict: `label`, and `probability`, 0 to 1. For multi-label classification, a list of such dicts, one for
            each label of probability 0.5 or more, most probable first. For regression, a dict from label to number. For
            many texts, a list of these.

        Raises:
            TypeError, ValueError: an item is not a str, the classifier takes pairs but gets single texts, or the
                reverse, or the numbers of first and second texts differ.

        Warns:
            UserWarning: the number of texts that were truncated to the model's maximum length.
        """
        self._check_pairs(text_pair is not None)
        is_one, texts = one_or_many(text, *(() if text_pair is None else (text_pair,)))
        answers = []
        for chunk in self._by_length(texts, batch_tokens, progress):
            values = ops.convert_to_numpy(self._problem.values(np.stack(chunk)))  # [texts, labels]
            answers.extend(map(self._problem.answer, values))
        return answers[0] if is_one else answers

    @property
    def serve(self) -> Callable[..., dict[str, Any]]:
        """The serving signature, for `text`, or for `text` and `text_pair`, string `[batch]` each.

        It returns, for regression, `values`, float32 `[batch, labels]`; else `labels`, string `[batch, labels]`, and
        `probabilities`, float32 of that shape; with one class per text also its `label` and `probability`, `[batch]`.
        """

        def serve_texts(text: Any) -> dict[str, Any]:
            return self._served(self(text, training=False))

        def serve_pairs(text: Any, text_pair: Any) -> dict[str, Any]:
            return self._served(self((text, text_pair), training=False))

        return serve_pairs if self.pairs else serve_texts

    def _served(self, logits: Any) -> dict[str, Any]:
        return self._problem.served(self._problem.values(logits))

    def serve_packed(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """`logits`, and `probabilities` (regression: `values`), float32 `[batch, labels]` each."""
        logits = self(inputs, training=False)
        return {"logits": logits, self._problem.VALUES: self._problem.values(logits)}

    def targets(self, y: Any) -> Any:
        """Labels, as names or indices -> targets of the loss. Tensors, and arrays with a row per text, stay as they
        are.

        Raises:
            TypeError: these are not labels of many texts.
            ValueError: there is no label of this name or index, a row has another number of labels than the model, or
                for regression a value is not a finite number.
        """
        return self._problem.targets(y)

    @property
    def label_columns(self) -> Sequence[str]:
        return self.labels

    def examples(self, x: Any, y: Any) -> TokenizedExamples:
        self._check_pairs(len(columns_of(x)) > 1)
        return super().examples(x, y)

    def _check_pairs(self, are_pairs: bool) -> None:
        if are_pairs == self.pairs:
            return
        wanted = "pairs: two texts, or two lists of texts" if self.pairs else "single texts; pairs need pairs=True"
        raise ValueError(f"this classifier takes {wanted}")

    def target_warnings(self, targets: Any) -> list[str]:
        return self._problem.target_warnings(targets)

    def start_from(self, targets: Any) -> None:
        """For regression: a new head starts at the mean of the targets, with a kernel that grows with their spread."""
        kernel, bias = self.head.logits.kernel, self.head.logits.bias
        initial = self._problem.location_and_scale(targets)
        is_new = not np.any(ops.convert_to_numpy(bias))  # training leaves no bias at exactly 0
        if initial is not None and is_new:
            mean, spread = initial
            bias.assign(mean)
            kernel.assign(ops.convert_to_numpy(kernel) * spread)

    def scales(self, targets: Any) -> dict[str, Any]:
        """For regression: the head learns at a rate that grows with the spread of the targets."""
        initial = self._problem.location_and_scale(targets)
        return {} if initial is None else {weight.path: initial[1] for weight in self.head.logits.weights}

    def class_weights(self, weights: Mapping[Any, float]) -> dict[int, float]:
        return self._problem.class_weights(weights)

    # -- Learning from a teacher

    def check_teacher(self, teacher: Any) -> None:
        super().check_teacher(teacher)
        for name in ("labels", "problem_type", "pairs"):
            theirs, ours = (getattr(model, name) for model in (teacher, self))
            if theirs != ours:
                raise ValueError(f"{name} of the teacher: {theirs}, of the student: {ours}; they must be the same")

    def distillation_parts(
        self, parts: list[Part], teacher: Any, x: Any, y_pred: Any, sample_weight: Any, temperature: float
    ) -> list[Part]:
        """The mean of the loss on the labels and the distance from the teacher, as in DistilBERT's fine-tuning."""
        (of_labels,) = parts
        theirs = ops.stop_gradient(teacher(x, training=False))  # [batch, labels]
        apart = self._problem.distance(theirs, y_pred, temperature)
        if sample_weight is not None:
            apart = apart * ops.cast(sample_weight, apart.dtype)
        of_teacher = weighted_mean(apart, ops.ones_like(apart))
        return [of_labels._replace(mean=0.5 * of_labels.mean + 0.5 * of_teacher.mean)]

    # -- Measures

    @property
    def example_settings(self) -> dict[str, Any]:
        return {"problem_type": self.problem_type}

    def answers(self, x: Any) -> list[Any]:
        return self.classify(*columns_of(x), progress=False)

    def measures(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        """`accuracy`; with several labels per text, `micro_f1` and others; for regression, `spearman`, `pearson`, `mae`
        (the mean absolute error), `rmse` (the root of the mean squared error), and `rmse_baseline`, that of always
        saying the mean of the labels.
        """
        return self._problem.measures(answers, y)

    def details(self, answers: Sequence[Any], y: Any) -> dict[str, float]:
        """Macro averages, and precision, recall, F1 and support of each class, see `metrics.by_class`; for regression,
        nothing.
        """
        return self._problem.details(answers, y)

    def mistakes(self, answers: Sequence[Any], y: Any) -> list[int]:
        """The indices of wrongly answered texts; for regression, of those with an error of at least `rmse`, the
        largest first.
        """
        return self._problem.mistakes(answers, y)

    def worst(self, answers: Sequence[Any], y: Any) -> list[int]:
        return self._problem.worst(answers, y)

    def compared(self, answer: Any, label: Any) -> list[dict[str, Any]]:
        return self._problem.compared(answer, label)

    def answer_columns(self, answer: Any) -> dict[str, Any]:
        return self._problem.answer_columns(answer)

    def confusion(self, answers: Sequence[Any], y: Any) -> tuple[list[str], np.ndarray] | None:
        return self._problem.confusion(answers, y)

    def answer_fields(self, *texts: list[str]) -> Iterable[dict[str, Any]]:
        answers, name = self.classify(*texts, progress=False), self._problem.FIELD
        return answers if name is None else [{name: answer} for answer in answers]

    # -- Files

    @classmethod
    def _arguments(cls, found: TaskPreset, given: dict[str, Any]) -> dict[str, Any]:
        stated = found.hugging_face.get("problem_type") if found.has_head else None
        labels = found.labels(given.pop("labels", None))
        return {"problem_type": stated or SingleLabel.NAME, **found.settings, **given, "labels": labels}

    def _takes_head(self, found: TaskPreset) -> bool:
        return found.head_fits(self.labels)

    def settings(self) -> dict[str, Any]:
        return {
            "labels": self.labels,
            "problem_type": self.problem_type,
            "pairs": self.pairs,
            "window_pooling": self.window_pooling,
            "dropout": self.dropout_rate,
        }

    def hugging_face_settings(self) -> dict[str, Any]:
        return {**hugging_face.label_names(self.labels), "problem_type": self.problem_type}
