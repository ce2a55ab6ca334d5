"""Evaluation of a model on examples, by the measures of its task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_bert.tasks.classifier import MULTI_LABEL, REGRESSION, BertClassifier
from keras_bert.tasks.question_answerer import BertQuestionAnswerer
from keras_bert.tasks.task import columns_of
from keras_bert.tasks.token_classifier import BertTokenClassifier
from keras_bert.training import metrics, squad_metrics


def evaluate(model: Any, x: Any, y: Any) -> dict[str, float]:
    """Measures a model on examples. The first measure is the one to choose models by.

    Args:
        model: a task model.
        x: examples, as `fit` takes them.
        y: their labels, by name.

    Returns:
        Classes: `accuracy`. Several labels per text: `micro_f1` and others. Regression: `spearman`, `pearson`. Words
        with entity labels (`B-place`, `I-place`, `O`): `f1`, `precision` and `recall` of entities, where words that
        were cut off count as `O`; with other labels, such as parts of speech: `accuracy`. Questions: `f1` and
        `exact_match` of SQuAD 1.1; if some have no answer, the measures of SQuAD 2.0, with the best threshold
        (`best_f1_thresh`, for `no_answer_threshold`).

    Raises:
        ImportError: the measure needs the extra `train`.
        TypeError: there are no measures for this model.
        ValueError: the model lacks a label, or the numbers of examples and labels differ.
    """
    check(model, x, y)
    return measures(model, answers(model, x), y)


def check(model: Any, x: Any, y: Any) -> None:
    """Raises the errors of `evaluate` that can be found before the model runs."""
    _of_task(model)
    model.targets(y)
    count = len(x[0] if isinstance(x, tuple) else x)
    if count != len(y):
        raise ValueError(f"there are {count:,} examples to evaluate with, but labels of {len(y):,}")


def answers(model: Any, x: Any) -> list[Any]:
    """A model's answers to examples, for `measures` or for a closer look.

    Args:
        model, x: as for `evaluate`.

    Returns:
        For each example the result of `classify`, of `tag`, or of `answer` (the best two).
    """
    answer, _ = _of_task(model)
    return answer(model, x)


def measures(model: Any, given: list[Any], y: Any) -> dict[str, float]:
    """The measures of `answers`; see `evaluate`."""
    _, measure = _of_task(model)
    return measure(model, given, y)


def _of_task(model: Any) -> tuple[Callable[..., list[Any]], Callable[..., dict[str, float]]]:
    for kind, both in _TASKS.items():
        if isinstance(model, kind):
            return both
    raise TypeError(f"no measures are known for a {type(model).__name__}; evaluate it with Keras's own metrics")


def _classes(model: BertClassifier, x: Any) -> list[Any]:
    columns = columns_of(x)
    return model.classify(list(zip(*columns, strict=True)) if len(columns) > 1 else x, progress=False)


def _of_classes(model: BertClassifier, given: list[Any], y: Any) -> dict[str, float]:
    if model.problem_type == REGRESSION:
        numbers = np.array([list(answer.values()) for answer in given])
        found = metrics.correlation(np.ravel(np.asarray(y, np.float64)), np.ravel(numbers))
        return {"spearman": found["spearman"], "pearson": found["pearson"]}
    if model.problem_type == MULTI_LABEL:
        predicted = model.targets([[each["label"] for each in answer] for answer in given])
        labels = np.asarray(model.targets(y))
        measured = metrics.f1(labels.astype(int), predicted.astype(int), "micro")
        return {"micro_f1": measured.pop("micro_f1"), **measured, **metrics.accuracy(labels, predicted)}
    return metrics.accuracy(model.targets(y), model.targets([answer["label"] for answer in given]))


def _of_words(model: BertTokenClassifier, given: list[Any], y: Any) -> dict[str, float]:
    given = [[answer["label"] for answer in sentence] for sentence in given]
    if not all(label == "O" or label[:2] in ("B-", "I-") for label in model.labels):
        pairs = [pair for labels in zip(y, given, strict=True) for pair in zip(*labels, strict=True)]
        return metrics.accuracy(*zip(*((right, str(label)) for right, label in pairs), strict=True))
    measured = metrics.entity_f1(y, [[label or "O" for label in labels] for labels in given])
    return {"f1": measured.pop("f1"), **measured}


def _of_spans(model: BertQuestionAnswerer, given: list[Any], y: Any) -> dict[str, float]:
    right = [[text for text, _ in answers] for answers in y]
    if all(right):
        measured = squad_metrics.squad_v1(right, [ranked[0]["answer"] for ranked in given])
    else:
        # "No answer" may be ranked first; the search for the best threshold needs the answer behind it.
        spans = [next((each["answer"] for each in ranked if each["answer"]), "") for ranked in given]
        scores = [ranked[0]["no_answer_score"] for ranked in given]
        threshold = float("inf") if model.no_answer_threshold is None else model.no_answer_threshold
        measured = squad_metrics.squad_v2(right, spans, scores, threshold)
    return {"f1": measured.pop("f1"), **measured}


_TASKS = {
    BertClassifier: (_classes, _of_classes),
    BertTokenClassifier: (lambda model, x: model.tag(x, progress=False), _of_words),
    BertQuestionAnswerer: (lambda model, x: model.answer(*x, top_k=2, progress=False), _of_spans),
}
