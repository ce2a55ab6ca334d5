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

from keras_bert.extras import import_extra
from keras_bert.tasks.entities import OUTSIDE, LabelScheme

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Computes the share of predictions that are right.

    Use it for balanced classes; if one class is rare, prefer `f1` or `matthews`.

    Args:
        labels, predictions: classes `[examples]`; or, for several labels per example, 0 or 1 `[examples, classes]`: a
            prediction is right if its whole row is.

    Raises:
        ValueError: they differ in shape or type, or are empty.

    Example:
        >>> accuracy(["good", "bad", "bad", "bad"], ["good", "bad", "good", "bad"])
        {'accuracy': 0.75}
    """
    labels, predictions = _as_comparable(labels, predictions)
    is_right = (labels == predictions).reshape(len(labels), -1).all(axis=1)
    return {"accuracy": float(is_right.mean())}


def f1(labels: ArrayLike, predictions: ArrayLike, average: str = "binary", positive: int | str = 1) -> dict[str, float]:
    """Computes precision, recall, and F1, their harmonic mean. Each is 0 where it would be 0 / 0.

    Args:
        labels, predictions: classes `[examples]`; or, for several labels per example, 0 or 1 `[examples, classes]`.
        average: "binary", for one of two classes; "macro", the mean over classes, whatever their size; or "micro", over
            all decisions together, which equals accuracy if each example has one label.
        positive: the class to measure with "binary".

    Returns:
        `precision`, `recall` and `f1`; with "macro" and "micro" the average is a prefix: `macro_f1`.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: labels and predictions differ in shape or type, or are empty; or `average` is "binary" and there are
            not two classes.

    Source: C. J. van Rijsbergen, Information Retrieval, 1979, chapter 7.

    Example:
        >>> f1([1, 1, 0, 0], [1, 0, 0, 0])["f1"]  # precision 1, recall 1/2
        0.666...
        >>> f1([[1, 0], [1, 1]], [[1, 0], [0, 1]], average="micro")["micro_recall"]
        0.666...
    """
    if average not in ("binary", "macro", "micro"):
        raise ValueError(f"average is {average!r}; it can be 'binary', 'macro' or 'micro'")
    labels, predictions = _as_comparable(labels, predictions)
    values = import_extra("sklearn.metrics", "scikit-learn").precision_recall_fscore_support(
        labels, predictions, average=average, pos_label=positive, zero_division=0
    )
    prefix = "" if average == "binary" else f"{average}_"
    return {f"{prefix}{name}": float(value) for name, value in zip(("precision", "recall", "f1"), values, strict=False)}


def matthews(labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Computes Matthews' correlation, GLUE's metric for CoLA: 1 if all predictions are right, 0 for chance.

    Use it for classes of different size. It is also 0 if all labels or all predictions are the same.

    Args:
        labels, predictions: classes `[examples]`.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: they differ in shape or type, or are empty.

    Source: B. W. Matthews, Biochimica et Biophysica Acta 405, 1975; for several classes, J. Gorodkin, Computational
    Biology and Chemistry 28, 2004.

    Example:
        >>> matthews([1, 1, 0, 0], [1, 0, 0, 0])  # (1 * 2 - 0 * 1) / sqrt(1 * 2 * 2 * 3)
        {'matthews_correlation': 0.577...}
    """
    labels, predictions = _as_comparable(labels, predictions)
    scikit_learn = import_extra("sklearn.metrics", "scikit-learn")
    if (labels == labels[0]).all() or (predictions == predictions[0]).all():  # scikit-learn sometimes warns here
        return {"matthews_correlation": 0.0}
    return {"matthews_correlation": float(scikit_learn.matthews_corrcoef(labels, predictions))}


def correlation(labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Computes Pearson's correlation of the numbers, and Spearman's of their ranks: GLUE's metrics for STS-B.

    If one side is constant, the correlation is undefined; here it is 0.

    Args:
        labels, predictions: numbers `[examples]`; or several for each example, `[examples, columns]`, for the mean of
            the columns' correlations.

    Raises:
        ImportError: SciPy is not installed.
        ValueError: they differ in shape, are fewer than two, or are not all finite.

    Example:
        >>> correlation([1.0, 2.0, 3.0], [1.0, 2.0, 9.0])
        {'pearson': 0.917..., 'spearman': 1.0}
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

    return {"pearson": mean_over_columns(stats.pearsonr), "spearman": mean_over_columns(stats.spearmanr)}


def average_precision(labels: ArrayLike, scores: ArrayLike) -> dict[str, float]:
    """Computes average precision: the mean of the precisions at each positive example, from the highest score down.

    Use it for scores without a threshold. Without positive examples it is 0.

    Args:
        labels: `[examples]`: True for positive examples.
        scores: numbers `[examples]`; higher for positive examples.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: they differ in length.

    Example:
        >>> average_precision([True, False, True], [0.9, 0.8, 0.7])  # (1/1 + 2/3) / 2
        {'average_precision': 0.833...}
    """
    labels, scores = _as_comparable(labels, scores)
    scikit_learn = import_extra("sklearn.metrics", "scikit-learn")
    return {"average_precision": float(scikit_learn.average_precision_score(labels, scores)) if labels.any() else 0.0}


def entity_f1(labels: Iterable[Iterable[str]], predictions: Iterable[Iterable[str]]) -> dict[str, float]:
    """Computes precision, recall and F1 of entities. An entity is right if its first word, last word and kind are.

    Entities are read as in conlleval, the script of CoNLL's shared tasks: an `I-` that follows no entity of its kind
    begins one. All labels and predictions together decide the scheme, such as BIO, BIOES, BILOU or BMES; see
    `entities.LabelScheme`. Each number is 0 where it would be 0 / 0.

    Args:
        labels, predictions: for each sentence, one label per word: `B-person`, `I-person`, `O`.

    Raises:
        ImportError: seqeval is not installed.
        ValueError: a sentence has more or fewer predictions than labels, a label has another form, or there are no
            sentences.

    Example:
        >>> entity_f1([["B-person", "I-person", "O", "B-group"]], [["B-person", "I-person", "O", "O"]])
        {'precision': 1.0, 'recall': 0.5, 'f1': 0.666...}
    """
    labels, predictions = [list(sentence) for sentence in labels], [list(sentence) for sentence in predictions]
    if len(labels) != len(predictions) or not labels:
        raise ValueError(f"{len(labels):,} sentences have labels and {len(predictions):,} have predictions")
    for number, (sentence_labels, sentence_predictions) in enumerate(zip(labels, predictions, strict=True), start=1):
        if len(sentence_labels) != len(sentence_predictions):
            raise ValueError(
                f"sentence {number} has {len(sentence_labels)} labels and {len(sentence_predictions)} predictions"
            )
    labels, predictions = _to_bioes(labels, predictions)
    seqeval = import_extra("seqeval.metrics", "seqeval")
    measures = {"precision": seqeval.precision_score, "recall": seqeval.recall_score, "f1": seqeval.f1_score}
    return {name: float(measure(labels, predictions, zero_division=0)) for name, measure in measures.items()}


def _to_bioes(*columns: list[list[str]]) -> list[list[list[str]]]:
    """Converts labels of words to BIOES, whose prefixes seqeval reads as conlleval does."""
    present = {label for column in columns for sentence in column for label in sentence}
    scheme = LabelScheme.detect([*present, OUTSIDE])
    if unknown := sorted(present - {OUTSIDE, *scheme.meanings}):
        raise ValueError(
            f"{unknown[0]!r} is not a BIO label, nor one of another scheme of entities: those are O, and B-, I-, E-, "
            "S-, L-, U- or M- before a kind of entity"
        )
    return [[scheme.bioes(sentence) for sentence in column] for column in columns]


def entities_by_kind(labels: Iterable[Iterable[str]], predictions: Iterable[Iterable[str]]) -> dict[str, float]:
    """Computes macro averages, and precision, recall, F1 and support of each kind of entity, as seqeval reports them.

    Arguments and errors are those of `entity_f1`; the keys of the result are those of `by_class`.

    Example:
        >>> measured = entities_by_kind([["B-person", "O", "B-group"]], [["B-person", "O", "O"]])
        >>> measured["macro_f1"], measured["f1 of group"], measured["support of group"]
        (0.5, 0.0, 1)
    """
    labels, predictions = [list(sentence) for sentence in labels], [list(sentence) for sentence in predictions]
    entity_f1(labels, predictions)  # raises
    columns = _to_bioes(labels, predictions)
    if not any(label != OUTSIDE for column in columns for sentence in column for label in sentence):
        return {}  # seqeval cannot average over no kinds
    report = import_extra("seqeval.metrics", "seqeval").classification_report(
        *columns, output_dict=True, zero_division=0
    )
    rows = {name: list(row.values()) for name, row in report.items()}  # precision, recall, F1 and support
    _, macro, _ = rows.pop("micro avg"), rows.pop("macro avg"), rows.pop("weighted avg")
    averages = {f"macro_{kind}": float(value) for kind, value in zip(_METRIC_NAMES[:-1], macro, strict=False)}
    return {**averages, **_name_by_class(list(rows), list(zip(*rows.values(), strict=True)))}


def by_class(labels: ArrayLike, predictions: ArrayLike, classes: Sequence[str]) -> dict[str, float]:
    """Computes macro averages, and precision, recall, F1 and support of each class. Each is 0 where it would be 0 / 0.

    Args:
        labels, predictions: names of classes `[examples]`; or, for several labels per example, 0 or 1
            `[examples, classes]`.
        classes: all classes, in the order of the result.

    Returns:
        The means `macro_precision`, `macro_recall` and `macro_f1`, as in scikit-learn's `classification_report`: over
        the classes in `labels` or `predictions`, or with several labels per example over all classes. Then, for each
        class, `precision of NAME`, `recall of NAME`, `f1 of NAME`, and `support of NAME`, an int: the number of
        examples with this label.

    Raises:
        ImportError: scikit-learn is not installed.

    Example:
        >>> measured = by_class(["good", "good", "bad"], ["good", "bad", "bad"], ["bad", "good"])
        >>> measured["recall of good"], measured["support of good"]
        (0.5, 2)
    """
    labels, predictions = _as_comparable(labels, predictions)
    compute_metrics = import_extra("sklearn.metrics", "scikit-learn").precision_recall_fscore_support
    names = list(classes) if labels.ndim == 1 else None
    values = compute_metrics(labels, predictions, labels=names, zero_division=0)  # each [classes]
    has_examples = np.isin(classes, [labels, predictions]) if names else np.full(len(classes), True)
    macro = {
        f"macro_{kind}": float(metric[has_examples].mean())
        for kind, metric in zip(_METRIC_NAMES[:-1], values, strict=False)
    }
    return {**macro, **_name_by_class(classes, values)}


_METRIC_NAMES = ("precision", "recall", "f1", "support")


def _name_by_class(names: Sequence[str], values: Sequence[Sequence[float]]) -> dict[str, float]:
    """Names the metrics of classes: `values` has a list for each of `_METRIC_NAMES`."""
    return {
        f"{kind} of {name}": int(metric[index]) if kind == "support" else float(metric[index])
        for index, name in enumerate(names)
        for kind, metric in zip(_METRIC_NAMES, values, strict=True)
    }


def errors(labels: ArrayLike, predictions: ArrayLike) -> dict[str, float]:
    """Computes the mean absolute error and the root of the mean squared error, in the unit of the labels.

    Args:
        labels, predictions: numbers `[examples]`; or several for each example, `[examples, columns]`, for the mean of
            the columns' errors.

    Example:
        >>> errors([1.0, 2.0], [1.0, 4.0])
        {'mae': 1.0, 'rmse': 1.414...}
    """
    labels, predictions = _as_comparable(labels, predictions, np.float64)
    differences = np.abs(labels - predictions)
    return {"mae": float(differences.mean()), "rmse": float(np.sqrt(np.square(differences).mean(axis=0)).mean())}


def confusion_matrix(labels: ArrayLike, predictions: ArrayLike, classes: Sequence[str | int]) -> np.ndarray:
    """Counts, for each class, the classes that its examples were predicted as.

    Args:
        labels, predictions: classes `[examples]`.
        classes: all of them, in the order of the rows and columns.

    Returns:
        int64 `[classes, classes]`: row i, column j counts the examples of class i that were predicted as class j.

    Raises:
        ImportError: scikit-learn is not installed.
        ValueError: labels and predictions differ in shape or type, are empty, or are not in `classes`.

    Example:
        >>> confusion_matrix(["good", "bad", "bad"], ["good", "bad", "good"], ["bad", "good"])
        array([[1, 1],
               [0, 1]])
    """
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
    """Computes exact match and F1 of SQuAD 1.1, where every question has an answer.

    Both ignore case, punctuation and articles. Of the reference answers to a question, the one with the highest score
    counts.

    Args:
        answers: for each question, one or more reference answers.
        predictions: for each question, the predicted answer.

    Returns:
        `exact_match`, the percentage of predictions that equal an answer; `f1`, the mean F1 of the predictions' words,
        in percent.

    Raises:
        ValueError: there are more or fewer predictions than questions, no questions, or a question without answers.

    Source: P. Rajpurkar and others, SQuAD, https://arxiv.org/abs/1606.05250, section 6.1; evaluate-v1.1.py.

    Example:
        >>> squad_v1([["the Old Bridge"], ["1999", "in 1999"]], ["old bridge", "in May 1999"])
        {'exact_match': 50.0, 'f1': 90.0}
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
    """Computes exact match and F1 of SQuAD 2.0, where some questions have no answer.

    Args:
        answers: for each question, the reference answers; empty if the question has no answer.
        predictions: for each question, the predicted answer; an empty string for no answer.
        no_answer_scores: for each question, the probability that it has no answer, or a score that grows with it.
        threshold: if a question's score is higher, its prediction counts as no answer.

    Returns:
        A dict with the keys of the official script. Those with "best" are there only with `no_answer_scores`.

        =======================================  ======================================================
        Key                                      Value
        =======================================  ======================================================
        `exact`, `f1`                            percent
        `total`                                  the number of questions
        `HasAns_exact`, and `_f1` and `_total`   the same for questions with an answer, if there are any
        `NoAns_exact`, and `_f1` and `_total`    the same for questions without one, if there are any
        `best_exact`, `best_f1`                  percent, each at its best threshold
        `best_exact_thresh`, `best_f1_thresh`    these thresholds
        =======================================  ======================================================

    Raises:
        ValueError: there are more or fewer predictions, or scores, than questions, or no questions.

    Source: P. Rajpurkar and others, Know What You Don't Know, https://arxiv.org/abs/1806.03822; evaluate-v2.0.py.

    Example:
        >>> squad_v2([["Ada"], []], ["Ada Lovelace", ""])
        {'exact': 50.0, 'f1': 83.3..., 'total': 2, 'HasAns_exact': 0.0, 'HasAns_f1': 66.6..., 'HasAns_total': 1,
         'NoAns_exact': 100.0, 'NoAns_f1': 100.0, 'NoAns_total': 1}
    """
    _check(answers, predictions)
    if no_answer_scores is not None and len(no_answer_scores) != len(answers):
        raise ValueError(f"{len(answers):,} questions have {len(no_answer_scores):,} no_answer_scores")
    answerable = [bool(references) for references in answers]
    # Answers of only punctuation and articles are left out; a question without other answers gets an empty one.
    answers = [[answer for answer in references if _words(answer)] or [""] for references in answers]
    scores = {
        "exact": _best_over_references(_exact, answers, predictions),
        "f1": _best_over_references(_f1, answers, predictions),
    }
    counted = scores
    if no_answer_scores is not None:
        is_refused = [score > threshold for score in no_answer_scores]
        counted = {
            name: [
                float(not is_answerable) if refuses else value
                for value, refuses, is_answerable in zip(values, is_refused, answerable, strict=True)
            ]
            for name, values in scores.items()
        }
    result: dict[str, float] = {}
    for prefix, is_selected in {
        "": [True] * len(answers),
        "HasAns_": answerable,
        "NoAns_": [not is_answerable for is_answerable in answerable],
    }.items():
        if any(is_selected):
            for name, values in counted.items():
                result[prefix + name] = _percent(
                    [value for value, selected in zip(values, is_selected, strict=True) if selected]
                )
            result[f"{prefix}total"] = sum(is_selected)
    if no_answer_scores is not None:
        for name, values in scores.items():
            best, best_threshold = _best_threshold(values, predictions, no_answer_scores, answerable)
            result |= {f"best_{name}": best, f"best_{name}_thresh": best_threshold}
    return result


def exact_matches(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> list[float]:
    """Returns 1 for each prediction that equals one of the answers to its question, else 0."""
    return _best_over_references(_exact, answers, predictions)


def _best_threshold(
    values: list[float], predictions: Sequence[str], no_answer_scores: Sequence[float], answerable: list[bool]
) -> tuple[float, float]:
    """Finds the best score over all thresholds, in percent, and its threshold: 0.0 if answering no question is best."""
    current = best = float(answerable.count(False))  # the threshold is below all scores: no question is answered
    threshold = 0.0
    for index in sorted(range(len(values)), key=lambda index: no_answer_scores[index]):
        # The threshold rises to this question's score, so this question is answered too. Equal scores count one by one,
        # as in the official script.
        current += values[index] if answerable[index] else -bool(predictions[index])
        if current > best:
            best, threshold = current, float(no_answer_scores[index])
    return 100 * best / len(values), threshold


def _check(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> None:
    if len(answers) != len(predictions) or not len(answers):
        raise ValueError(f"{len(answers):,} questions have {len(predictions):,} predictions")
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
    """Splits a text into words in lower case, without punctuation and articles.

    Punctuation is removed first, so "the-a" is one word.
    """
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
