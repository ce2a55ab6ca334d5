"""Metrics of predictions against labels.

========================  ===================================================
Metrics                   Range
========================  ===================================================
correlations              -1 to 1
errors                    the unit of the labels
`squad_v1`, `squad_v2`    percent, as in SQuAD's official evaluation scripts
all others                0 to 1
========================  ===================================================

Most of them need scikit-learn, SciPy or seqeval: `pip install 'keras-bert-models[train]'`.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_bert.answers.entities import OUTSIDE, LabelScheme
from keras_bert.counted import counted
from keras_bert.extras import import_extra

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_NAMES = ("precision", "recall", "f1", "support")  # as scikit-learn and seqeval return them


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Computes the share of right predictions: of classes `[examples]`, or of rows of 0 and 1 `[examples, classes]`."""
    labels, predictions = _as_comparable(labels, predictions)
    is_right = (labels == predictions).reshape(len(labels), -1).all(axis=1)
    return {"accuracy": float(is_right.mean())}


def f1(labels: ArrayLike, predictions: ArrayLike, average: str = "binary", positive: int | str = 1) -> dict[str, float]:
    """Computes `precision`, `recall` and `f1` of classes `[examples]`, or of 0 and 1 `[examples, classes]`.

    `average` is "binary", of the class `positive` of two; "macro", the mean over classes; or "micro", over all
    decisions. With the last two, names have a prefix: `macro_f1`. Each is 0 where it would be 0 / 0.
    """
    if average not in ("binary", "macro", "micro"):
        raise ValueError(f"average is {average!r}; it can be 'binary', 'macro' or 'micro'")
    labels, predictions = _as_comparable(labels, predictions)
    values = import_extra("sklearn.metrics", "scikit-learn").precision_recall_fscore_support(
        labels, predictions, average=average, pos_label=positive, zero_division=0
    )
    prefix = "" if average == "binary" else f"{average}_"
    return {f"{prefix}{name}": float(value) for name, value in zip(_NAMES[:-1], values, strict=False)}


def matthews(labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Computes `matthews_correlation` of classes `[examples]`, GLUE's metric for CoLA; 0 if all are the same."""
    labels, predictions = _as_comparable(labels, predictions)
    scikit_learn = import_extra("sklearn.metrics", "scikit-learn")
    if (labels == labels[0]).all() or (predictions == predictions[0]).all():  # scikit-learn sometimes warns here
        return {"matthews_correlation": 0.0}
    return {"matthews_correlation": float(scikit_learn.matthews_corrcoef(labels, predictions))}


def correlation(labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Computes `pearson` of numbers, and `spearman` of their ranks: GLUE's metrics for STS-B.

    Numbers are `[examples]`, or `[examples, columns]` for the mean over the columns. If one side is constant, it is 0.
    """
    labels, predictions = _as_comparable(labels, predictions, dtype=np.float64)
    for name, values in {"labels": labels, "predictions": predictions}.items():
        if values.ndim not in (1, 2) or len(values) < 2:
            raise ValueError(
                f"{name} have the shape {list(values.shape)}; a correlation takes [examples] or [examples, columns], "
                "with two or more examples"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"{np.count_nonzero(~np.isfinite(values)):,} of {values.size:,} {name} are not finite")
    stats = import_extra("scipy.stats", "scipy")
    columns = list(zip(*(values.reshape(len(values), -1).T for values in (labels, predictions)), strict=True))

    def mean_over_columns(correlate: Callable[..., tuple[float, float]]) -> float:
        return float(np.mean([correlate(*each)[0] if np.ptp(each, axis=1).all() else 0.0 for each in columns]))

    return {"spearman": mean_over_columns(stats.spearmanr), "pearson": mean_over_columns(stats.pearsonr)}


def average_precision(labels: ArrayLike, scores: ArrayLike) -> dict[str, float]:
    """Computes `average_precision` of scores `[examples]`, without a threshold; 0 if no label is True."""
    labels, scores = _as_comparable(labels, scores)
    scikit_learn = import_extra("sklearn.metrics", "scikit-learn")
    return {"average_precision": float(scikit_learn.average_precision_score(labels, scores)) if labels.any() else 0.0}


def entity_f1(labels: Iterable[Iterable[str]], predictions: Iterable[Iterable[str]]) -> dict[str, float]:
    """Computes `precision`, `recall` and `f1` of entities: first word, last word and kind must be right.

    There is a label for each word of each sentence, in one scheme, see `entities.LabelScheme`, read as conlleval does:
    an `I-` that follows no entity of its kind begins one.
    """
    columns = _to_bioes(labels, predictions)
    seqeval = import_extra("seqeval.metrics", "seqeval")
    measures = {"f1": seqeval.f1_score, "precision": seqeval.precision_score, "recall": seqeval.recall_score}
    return {name: float(measure(*columns, zero_division=0)) for name, measure in measures.items()}


def _to_bioes(*columns: Iterable[Iterable[str]]) -> list[list[list[str]]]:
    """Converts labels and predictions to BIOES, whose prefixes seqeval reads as conlleval does."""
    labels, predictions = ([list(sentence) for sentence in column] for column in columns)
    if len(labels) != len(predictions) or not labels:
        raise ValueError(f"got labels of {counted(labels, 'sentence')} and predictions of {len(predictions):,}")
    for number, (sentence_labels, sentence_predictions) in enumerate(zip(labels, predictions, strict=True), start=1):
        if len(sentence_labels) != len(sentence_predictions):
            counts = counted(sentence_labels, "label"), counted(sentence_predictions, "prediction")
            raise ValueError(f"sentence {number} has {counts[0]} and {counts[1]}")
    present = {label for column in (labels, predictions) for sentence in column for label in sentence}
    scheme = LabelScheme.detect([*present, OUTSIDE])
    if unknown := sorted(present - {OUTSIDE, *scheme.meanings}):
        raise ValueError(
            f"{unknown[0]!r} is not a BIO label, nor one of another scheme of entities: those are O, and B-, I-, E-, "
            "S-, L-, U- or M- before a kind of entity"
        )
    return [[scheme.bioes(sentence) for sentence in column] for column in (labels, predictions)]


def entities_by_kind(labels: Iterable[Iterable[str]], predictions: Iterable[Iterable[str]]) -> dict[str, float]:
    """Measures each kind of entity as seqeval reports it, with the names of `by_class`."""
    columns = _to_bioes(labels, predictions)
    if not any(label != OUTSIDE for column in columns for sentence in column for label in sentence):
        return {}  # seqeval cannot average over no kinds
    report = import_extra("seqeval.metrics", "seqeval").classification_report(
        *columns, output_dict=True, zero_division=0
    )
    rows = {name: list(row.values()) for name, row in report.items()}  # precision, recall, F1 and support
    _, macro, _ = rows.pop("micro avg"), rows.pop("macro avg"), rows.pop("weighted avg")
    averages = {f"macro_{kind}": float(value) for kind, value in zip(_NAMES[:-1], macro, strict=False)}
    return {**averages, **_name_by_class(list(rows), list(zip(*rows.values(), strict=True)))}


def by_class(labels: ArrayLike, predictions: ArrayLike, classes: Sequence[str]) -> dict[str, float]:
    """Computes macro averages, and for each class `precision of NAME`, `recall of NAME`, and so on; see `_NAMES`.

    Labels and predictions are names of classes `[examples]`, or 0 and 1 `[examples, classes]`. Macro averages are over
    the classes that occur, as in scikit-learn; or with several labels per example, over all.
    """
    labels, predictions = _as_comparable(labels, predictions)
    compute_metrics = import_extra("sklearn.metrics", "scikit-learn").precision_recall_fscore_support
    names = list(classes) if labels.ndim == 1 else None
    values = compute_metrics(labels, predictions, labels=names, zero_division=0)  # each [classes]
    has_examples = np.isin(classes, [labels, predictions]) if names else np.full(len(classes), True)
    macro = {
        f"macro_{kind}": float(metric[has_examples].mean()) for kind, metric in zip(_NAMES[:-1], values, strict=False)
    }
    return {**macro, **_name_by_class(classes, values)}


def _name_by_class(names: Sequence[str], values: Sequence[Sequence[float]]) -> dict[str, float]:
    return {
        f"{kind} of {name}": int(metric[index]) if kind == "support" else float(metric[index])
        for index, name in enumerate(names)
        for kind, metric in zip(_NAMES, values, strict=True)
    }


def errors(labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Computes `mae` and `rmse` of numbers `[examples]`; of `[examples, columns]`, the means over the columns."""
    labels, predictions = _as_comparable(labels, predictions, np.float64)
    differences = np.abs(labels - predictions)
    return {"mae": float(differences.mean()), "rmse": float(np.sqrt(np.square(differences).mean(axis=0)).mean())}


def confusion_matrix(labels: ArrayLike, predictions: ArrayLike, classes: Sequence[str | int]) -> np.ndarray:
    """Counts, int64 `[classes, classes]`: row i, column j counts examples of class i predicted as class j."""
    labels, predictions = _as_comparable(labels, predictions)
    unknown = set(np.unique(labels).tolist() + np.unique(predictions).tolist()) - set(np.asarray(classes).tolist())
    if unknown:  # scikit-learn would ignore these silently
        raise ValueError(f"{sorted(unknown)[0]!r} is not one of the classes, {', '.join(map(repr, classes))}")
    matrix = import_extra("sklearn.metrics", "scikit-learn").confusion_matrix(labels, predictions, labels=list(classes))
    return matrix.astype(np.int64)


def _as_comparable(
    labels: ArrayLike, predictions: ArrayLike, dtype: type | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Converts labels and predictions to arrays. Raises ValueError if they cannot be compared or are empty."""
    labels, predictions = np.asarray(labels, dtype), np.asarray(predictions, dtype)
    if labels.shape != predictions.shape:
        raise ValueError(f"labels {list(labels.shape)} and predictions {list(predictions.shape)} differ in shape")
    if not labels.size:
        raise ValueError("there are no labels to measure predictions with")
    if (labels.dtype.kind in "US") != (predictions.dtype.kind in "US"):
        raise ValueError(f"labels are {labels.dtype} and predictions {predictions.dtype}, which cannot be compared")
    return labels, predictions


# -- Exact match and F1 of answers, in percent, as in SQuAD's official evaluation scripts.

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_v1(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> dict[str, float]:
    """Computes `exact_match` and `f1` of SQuAD 1.1, in percent: the best over the reference answers to each question.

    Both ignore case, punctuation and articles (Rajpurkar et al. 2016, section 6.1; evaluate-v1.1.py).
    """
    _check(answers, predictions)
    for number, references in enumerate(answers, start=1):
        if not references:
            raise ValueError(f"question {number} has no answer; use squad_v2 for questions without answers")
    return {
        "exact_match": _percent(_best_over_references(_exact, answers, predictions)),
        "f1": _percent(_best_over_references(_overlap, answers, predictions)),
    }


def squad_v2(
    answers: Sequence[Sequence[str]],
    predictions: Sequence[str],
    no_answer_scores: Sequence[float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """Computes the measures of SQuAD 2.0 by their names in evaluate-v2.0.py; "" and no references mean "no answer".

    If the score of a question in `no_answer_scores` exceeds the threshold, its prediction counts as no answer. The
    measures named `best_...`, each at its best threshold, are there only with these scores.
    """
    _check(answers, predictions)
    if no_answer_scores is not None and len(no_answer_scores) != len(answers):
        raise ValueError(f"got {counted(answers, 'question')} and {len(no_answer_scores):,} no_answer_scores")
    answerable = np.array([bool(references) for references in answers])
    # Answers of only punctuation and articles are left out; a question without other answers gets an empty one.
    answers = [[answer for answer in references if _words(answer)] or [""] for references in answers]
    scores = {
        "exact": _best_over_references(_exact, answers, predictions),
        "f1": _best_over_references(_f1, answers, predictions),
    }
    is_refused = np.full(len(answers), False) if no_answer_scores is None else np.array(no_answer_scores) > threshold
    with_refusals = {name: np.where(is_refused, ~answerable, values) for name, values in scores.items()}
    result: dict[str, float] = {}
    for prefix, chosen in {"": answerable | True, "HasAns_": answerable, "NoAns_": ~answerable}.items():
        if chosen.any():
            result |= {prefix + name: _percent(values[chosen].tolist()) for name, values in with_refusals.items()}
            result[f"{prefix}total"] = int(chosen.sum())
    if no_answer_scores is not None:
        for name, values in scores.items():
            best, best_threshold = _best_threshold(values, predictions, no_answer_scores, answerable)
            result |= {f"best_{name}": best, f"best_{name}_thresh": best_threshold}
    return result


def exact_matches(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> list[float]:
    """Returns 1 for each prediction that equals one of the answers to its question, else 0."""
    return _best_over_references(_exact, answers, predictions)


def _best_threshold(
    values: list[float], predictions: Sequence[str], no_answer_scores: Sequence[float], answerable: np.ndarray
) -> tuple[float, float]:
    """Finds the best score over all thresholds, in percent, and its threshold."""
    current = best = float((~answerable).sum())  # the threshold is below all scores: no question is answered
    lowest = float(min(no_answer_scores))
    threshold = 0.0 if lowest > 0 else lowest - 1.0  # the official script says 0.0, though scores may be negative
    for index in sorted(range(len(values)), key=lambda index: no_answer_scores[index]):
        # The threshold rises to this question's score, so this question is answered too. Equal scores count one by one,
        # as in the official script.
        current += values[index] if answerable[index] else -bool(predictions[index])
        if current > best:
            best, threshold = current, float(no_answer_scores[index])
    return 100 * best / len(values), threshold


def _check(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> None:
    if len(answers) != len(predictions) or not len(answers):
        raise ValueError(f"got {counted(answers, 'question')} and {counted(predictions, 'prediction')}")
    if any(isinstance(references, str) for references in answers):
        raise ValueError("answers are strings; pass a list of strings for each question")


def _best_over_references(
    measure: Callable[[list[str], list[str]], float], answers: Sequence[Sequence[str]], predictions: Sequence[str]
) -> list[float]:
    """Computes, for each prediction, the highest `measure` over the reference answers to its question."""
    return [
        max(measure(_words(answer), _words(prediction)) for answer in references)
        for references, prediction in zip(answers, predictions, strict=True)
    ]


def _words(text: str) -> list[str]:
    # Punctuation is removed first, so "the-a" is one word.
    return re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_PUNCTUATION)).split()


def _exact(reference: list[str], prediction: list[str]) -> float:
    return float(reference == prediction)


def _overlap(reference: list[str], prediction: list[str]) -> float:
    """Computes F1 of words; 0 if no word is in both, or both are empty."""
    common = sum((Counter(reference) & Counter(prediction)).values())
    # 2 / (1 / precision + 1 / recall), with precision = common / len(prediction) and recall = common / len(answer)
    return 2 * common / (len(reference) + len(prediction)) if common else 0.0


def _f1(reference: list[str], prediction: list[str]) -> float:
    """Computes F1 of words for SQuAD 2.0: an empty prediction is right if the answer is empty."""
    return _overlap(reference, prediction) if reference and prediction else _exact(reference, prediction)


def _percent(values: Sequence[float]) -> float:
    return 100 * sum(values) / len(values)
