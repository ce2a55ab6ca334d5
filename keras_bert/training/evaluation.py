"""A model and examples -> how good it is, by the measures of its task."""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_bert.tasks.classifier import MULTI_LABEL, REGRESSION, BertClassifier
from keras_bert.tasks.question_answerer import BertQuestionAnswerer
from keras_bert.tasks.token_classifier import BertTokenClassifier
from keras_bert.training import metrics, squad_metrics


def evaluate(model: Any, x: Any, y: Any) -> dict[str, float]:
    """What a model's answers are worth; the first number is the one by which models of its task are chosen.

    Args:
        model: a task.
        x: examples, as `fit` takes them.
        y: their labels, by name.

    Returns:
        Classes: `accuracy`. Several labels a text: `micro_f1` and others. Numbers: `spearman`, `pearson`. Words with
        labels of entities (`B-place`, `I-place`, `O`): `f1`, `precision` and `recall` of entities, a word that was cut
        off being `O`; with others, such as parts of speech: `accuracy`. Questions: `f1` and `exact_match` as in SQuAD
        1.1; where some have no answer, those of SQuAD 2.0, with the threshold that would be best (`best_f1_thresh`, for
        `no_answer_threshold`).

    Raises:
        ImportError: the measure needs the extra `train`.
        TypeError: the model is none of the tasks.
    """
    for kind, measure in _MEASURES.items():
        if isinstance(model, kind):
            return measure(model, x, y)
    raise TypeError(f"no measures are known for a {type(model).__name__}; evaluate it with Keras's own metrics")


def _of_classifier(model: BertClassifier, x: Any, y: Any) -> dict[str, float]:
    texts = list(zip(*x, strict=True)) if isinstance(x, tuple) else x
    answers = model.classify(texts, progress=False)
    if model.problem_type == REGRESSION:
        numbers = np.array([list(answer.values()) for answer in answers])
        found = metrics.correlation(np.ravel(np.asarray(y, np.float64)), np.ravel(numbers))
        return {"spearman": found["spearman"], "pearson": found["pearson"]}
    if model.problem_type == MULTI_LABEL:
        predicted = model.targets([[each["label"] for each in answer] for answer in answers])
        labels = np.asarray(model.targets(y))
        measured = metrics.f1(labels.astype(int), predicted.astype(int), "micro")
        return {"micro_f1": measured.pop("micro_f1"), **measured, **metrics.accuracy(labels, predicted)}
    names = [label if isinstance(label, str) else model.labels[int(label)] for label in y]
    return metrics.accuracy(names, [answer["label"] for answer in answers])


def _of_token_classifier(model: BertTokenClassifier, x: Any, y: Any) -> dict[str, float]:
    given = [[answer["label"] for answer in answers] for answers in model.tag(x, progress=False)]
    if not all(label == "O" or label[:2] in ("B-", "I-") for label in model.labels):
        pairs = [pair for labels in zip(y, given, strict=True) for pair in zip(*labels, strict=True)]
        return metrics.accuracy(*zip(*((right, str(label)) for right, label in pairs), strict=True))
    measured = metrics.entity_f1(y, [[label or "O" for label in labels] for labels in given])
    return {"f1": measured.pop("f1"), **measured}


def _of_answerer(model: BertQuestionAnswerer, x: Any, y: Any) -> dict[str, float]:
    given = [[text for text, _ in answers] for answers in y]
    ranked = model.answer(*x, top_k=2, progress=False)
    if all(given):
        measures = squad_metrics.squad_v1(given, [answers[0]["answer"] for answers in ranked])
    else:
        # No answer may come first; which threshold is best only shows with the answer that is behind it.
        spans = [next((each["answer"] for each in answers if each["answer"]), "") for answers in ranked]
        scores = [answers[0]["no_answer_score"] for answers in ranked]
        threshold = float("inf") if model.no_answer_threshold is None else model.no_answer_threshold
        measures = squad_metrics.squad_v2(given, spans, scores, threshold)
    return {"f1": measures.pop("f1"), **measures}


_MEASURES = {
    BertClassifier: _of_classifier,
    BertTokenClassifier: _of_token_classifier,
    BertQuestionAnswerer: _of_answerer,
}
