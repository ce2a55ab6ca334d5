"""The kind WordLabels: a label for each word of a sentence; entities if the labels follow a scheme."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.counted import counted
from keras_bert.tasks import metrics
from keras_bert.tasks.base.columns import Labels, Targets, Texts, as_list, label_index, rare_label_warnings
from keras_bert.tasks.entities import OUTSIDE, LabelScheme, WordAnswer, find_entities
from keras_bert.tasks.kinds import Kind, Score, TaughtBatch, only_answer, share_of_most_frequent
from keras_bert.tasks.kinds.class_weights import ClassWeight, balanced_weights, chosen_weights
from keras_bert.tasks.training_step import LossTerm, averaged, divergence, weighted_mean
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from keras_bert.tasks.heads import ClassifierHead
    from keras_bert.tasks.heads.crf import CRF

IGNORED = -1  # the target of all but a word's first token


class WordLabels(Kind[list[WordAnswer]]):
    """One of `labels` for each word. With a CRF, the labels of a sentence depend on each other.

    Measures are `f1`, `precision` and `recall` of entities if labels follow a scheme; else `accuracy` of words. For
    entities, truncated words count as "O"; for `accuracy`, they are wrong.
    """

    def __init__(self, labels: list[str], crf: CRF | None = None) -> None:
        self.labels, self.crf = labels, crf
        self.scheme([])  # raises

    def scheme(self, labels: Iterable[Sequence[str]]) -> LabelScheme:
        """Finds the scheme of labels: those of the model, and those of examples, which the model may lack."""
        return LabelScheme.detect([*self.labels, *(name for sentence in labels for name in sentence)])

    def loss(self) -> keras.losses.Loss:
        if self.crf is not None:
            return self.crf.loss
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=IGNORED)

    def _targets(self, labels: Any) -> Any:
        """Checks arrays of the labels of tokens: indices, or -1 where ignored."""
        are_numbers = isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf"
        if are_numbers and (bad := labels[~np.isin(labels, np.arange(IGNORED, len(self.labels)))]).size:
            raise ValueError(
                f"labels are an array with {bad[0]}; expected the indices of {', '.join(self.labels)}, from 0, and "
                f"{IGNORED} for tokens to ignore"
            )
        return labels

    def indices(self, words: Sequence[Sequence[str]], labels: Sequence[Sequence[str | int]]) -> tf.Tensor:
        """Converts the labels of sentences to indices, int32 `[words]`."""
        indices = []
        for number, each in enumerate(zip(words, labels, strict=True)):
            _check_labels(number, *each)
            try:
                indices += [label_index(label, self.labels) for label in each[1]]
            except ValueError as error:
                raise ValueError(f"sentence {number} (from 0): {error}") from None
        return tf.constant(indices, tf.int32)

    def warnings(self, targets: tf.RaggedTensor) -> list[str]:
        return rare_label_warnings(self.labels, self._counts(targets), "words")

    def _counts(self, targets: Targets | tf.RaggedTensor) -> np.ndarray:
        """Counts the words of each label, int64 `[labels]`."""
        numbers = np.ravel(getattr(targets, "flat_values", targets))
        return np.bincount(numbers[numbers >= 0], minlength=len(self.labels))

    def initialize_head(self, head: ClassifierHead | None, targets: tf.RaggedTensor) -> None:
        """Sets the bias to the log frequencies of the labels, and initializes a new CRF from their sequences.

        At the rates of fine-tuning, a bias hardly moves: without this, a head must learn how rare labels are through
        its kernel.
        """
        if head is not None and head.is_new:
            counts = 1 + self._counts(targets)
            head.logits.bias.assign(np.log(counts / counts.sum()))
        if self.crf is not None:
            self.crf.start_from(row[row >= 0] for row in map(np.array, targets.to_list()))

    def class_weights(self, weights: ClassWeight, targets: Targets | None) -> np.ndarray:
        """Lists the weight of each label, float32 `[labels]`."""
        if self.crf is not None:
            raise ValueError(
                "class_weight weighs single words, but a CRF's loss is that of whole sentences; use crf=False"
            )
        if isinstance(weights, Mapping):
            return chosen_weights(weights, self.labels)
        assert targets is not None  # `fit` refuses to balance a dataset
        return balanced_weights(self._counts(targets))

    def sample_weights(self, targets: Tensor, class_weights: np.ndarray) -> Tensor:
        """Computes a weight for each token, float32 of the shape of the targets; 0 where they are ignored."""
        weights = tf.gather(class_weights, tf.maximum(targets, 0))
        return tf.where(targets == IGNORED, 0.0, weights)

    def check_teacher(self, teacher: Kind[list[WordAnswer]]) -> None:
        assert isinstance(teacher, WordLabels)
        if teacher.crf is None:
            return
        if self.crf is None:
            raise ValueError(
                "the teacher has a CRF, but the student has none; the teacher's emissions are no answers without its "
                "transition scores; make the student with crf=True"
            )
        if teacher.crf.scheme != self.crf.scheme:
            raise ValueError(
                f"the scheme of the teacher's CRF: {teacher.crf.scheme}, of the student's: {self.crf.scheme}; they "
                "must be the same"
            )

    def distillation_terms(self, batch: TaughtBatch) -> list[LossTerm]:
        """Averages the loss on the labels and the divergence from the teacher, a mean over words as well.

        With a CRF, the logits are the emissions. The teacher's transition scores are not compared.
        """
        (label_term,) = batch.terms
        divergences = divergence(*batch.outputs, batch.temperature)  # the shape of the targets
        if batch.sample_weight is not None:
            weights = ops.cast(batch.sample_weight, divergences.dtype)
            axes = len(divergences.shape) - len(weights.shape)  # of sentences, or of words
            divergences = divergences * ops.reshape(weights, (*ops.shape(weights), *(1,) * axes))
        return [averaged(label_term, weighted_mean(divergences, ops.not_equal(batch.targets, IGNORED)))]

    def check_labels(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> None:
        assert labels is not None  # else there are no examples
        for each in zip(range(len(labels)), check_sentences(columns[0]), self.plain(labels), strict=True):
            _check_labels(*each)
        self.scheme(self._names(labels))  # raises

    def score(self, answers: Sequence[list[WordAnswer]], labels: Labels | None) -> Score:
        """Measures words or entities. The error of an answer is its number of wrong words."""
        references = self._names(() if labels is None else labels)
        predictions = [[answer["label"] for answer in sentence] for sentence in answers]
        pairs = [[*zip(*each, strict=True)] for each in zip(references, predictions, strict=True)]
        errors = np.array([sum(label != answer for label, answer in sentence) for sentence in pairs], float)
        scheme = self.scheme(references)
        if scheme.meanings:
            columns = [[*map(scheme.bioes, each)] for each in (references, predictions)]
            measures = metrics.entity_f1(*columns)
            has_entities = [any(label != OUTSIDE for row in each for label in row) for each in columns]
            return Score(
                measures,
                errors,
                compute_details=lambda: metrics.entities_by_kind(*columns),
                baselines={"f1": 0.0},  # of no entity
                only_answer="no entity" if has_entities == [True, False] else None,
            )
        words = [(label, str(answer)) for sentence in pairs for label, answer in sentence]  # "None": truncated
        columns = tuple(label for label, _ in words), tuple(answer for _, answer in words)
        classes = list(dict.fromkeys([*self.labels, *columns[0]]))
        return Score(
            metrics.accuracy(*columns),
            errors,
            compute_details=lambda: metrics.by_class(*columns, classes),
            baselines={"accuracy": share_of_most_frequent(columns[0])},
            only_answer=only_answer(columns[1], columns[0]),
        )

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[list[WordAnswer]]:
        return [[WordAnswer(word="", label=name, probability=1) for name in each] for each in self._names(labels or ())]

    def fields(self, answer: object) -> Mapping[str, object]:
        return {"entities": answer}

    def compared(self, answer: list[WordAnswer], label: Sequence[str | int]) -> list[dict[str, object]]:
        """Lists the entities, or without a scheme the words, of which the label or the answer is wrong.

        `word` is the number of the first word, from 0. Words that only one of both sees as an entity lack the other.
        """
        (references,), predictions = self._names([label]), [each["label"] for each in answer]
        scheme = self.scheme([references])
        if scheme.meanings:
            columns = [
                {(each.first, each.end): each.label for each in find_entities(names, scheme)}
                for names in (references, predictions)
            ]
        else:
            columns = [{(i, i + 1): name for i, name in enumerate(names)} for names in (references, predictions)]
        rows = []
        for start, end in sorted(columns[0].keys() | columns[1].keys()):
            given, predicted = (each.get((start, end)) for each in columns)
            if given != predicted:
                words, known = " ".join(each["word"] for each in answer[start:end]), [*answer[start:end]]
                probabilities = [each["probability"] for each in known if each["probability"] is not None]
                row = {"word": start, "words": words, "label": given, "answer": predicted}
                rows.append({**row, "probability": float(np.mean(probabilities)) if probabilities else None})
        return rows

    def _names(self, labels: Iterable[Sequence[str | int]]) -> list[list[str]]:
        """Converts numbers of labels to names. A name that the model lacks may occur: no answer equals it."""
        names = self.labels
        return [[each if isinstance(each, str) else names[label_index(each, names)] for each in row] for row in labels]


def check_sentences(sentences: Texts | Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Returns sentences as a list. Raises TypeError unless each is a list of words."""
    checked = as_list(sentences, "sentences", "sentence")
    for number, words in enumerate(checked):
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise TypeError(f"sentence {number} (from 0) is {words!r:.60}; expected a list of words, each a str")
    return checked


def _check_labels(sentence: int, words: Sequence[str], labels: object) -> None:
    """Raises TypeError or ValueError unless the labels of a sentence are a list with one for each word."""
    if isinstance(labels, str | bytes) or not isinstance(labels, Sized):
        raise TypeError(f"labels[{sentence}] is {labels!r:.60}; expected a list with a label for each word")
    if len(words) != len(labels):
        raise ValueError(f"sentence {sentence} (from 0) has {counted(words, 'word')}, but {counted(labels, 'label')}")
