"""A model and examples -> how good it is, by the measures of its task."""

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
        ValueError: a text has a label that the model does not have, or examples and labels are not as many.
    """
    check(model, x, y)
    return measures(model, answers(model, x), y)


def check(model: Any, x: Any, y: Any) -> None:
    """Raises what `evaluate` would, as far as it is known before the model computes anything."""
    _of_task(model)
    model.targets(y)
    count = len(x[0] if isinstance(x, tuple) else x)
    if count != len(y):
        raise ValueError(f"there are {count:,} examples to evaluate with, but labels of {len(y):,}")


def answers(model: Any, x: Any) -> list[Any]:
    """What a model answers to examples, for `measures`, and for who wants to look at more of it than these.

    Args:
        model, x: as for `evaluate`.

    Returns:
        For each example what `classify`, `tag` or, with the two best, `answer` gives.
    """
    answer, _ = _of_task(model)
    return answer(model, x)


def measures(model: Any, given: list[Any], y: Any) -> dict[str, float]:
    """What `answers` are worth; see `evaluate`."""
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
        # No answer may come first; which threshold is best only shows with the answer that is behind it.
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
