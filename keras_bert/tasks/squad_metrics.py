"""Exact match and F1 of answers, in percent, as in SQuAD's official evaluation scripts."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_v1(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> dict[str, float]:
    """Exact match and F1 of version 1.1, where every question has an answer.

    Both ignore case, punctuation and articles. Each prediction is compared with the answer that fits best.

    Args:
        answers: for each question, one or more answers by people.
        predictions: for each question the predicted answer.

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
    for number, given in enumerate(answers, start=1):
        if not given:
            raise ValueError(f"question {number} has no answer; use squad_v2 for questions without answers")
    return {
        "exact_match": _percent(_best(_exact, answers, predictions)),
        "f1": _percent(_best(_overlap, answers, predictions)),
    }


def squad_v2(
    answers: Sequence[Sequence[str]],
    predictions: Sequence[str],
    no_answer_scores: Sequence[float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """Exact match and F1 of version 2.0, where some questions have no answer.

    Args:
        answers: for each question, the answers by people; empty if it has no answer.
        predictions: for each question, the predicted answer; an empty string for no answer.
        no_answer_scores: for each question, the probability that it has no answer, or a score that grows with it.
        threshold: if a question's score is higher, its prediction counts as no answer.

    Returns:
        The names of the official script: `exact` and `f1`, in percent, and `total`, the number of questions; the same
        with the prefixes `HasAns_` and `NoAns_`, for questions with and without answers, if there are any. With scores
        also `best_exact` and `best_f1`, in percent, and their thresholds, `best_exact_thresh` and `best_f1_thresh`.

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
    answerable = [bool(given) for given in answers]
    # Answers of only punctuation and articles are left out; a question without other answers gets an empty one.
    answers = [[answer for answer in given if _words(answer)] or [""] for given in answers]
    scores = {"exact": _best(_exact, answers, predictions), "f1": _best(_f1, answers, predictions)}
    counted = scores
    if no_answer_scores is not None:
        refused = [score > threshold for score in no_answer_scores]
        counted = {
            name: [
                float(not able) if no else value for value, no, able in zip(values, refused, answerable, strict=True)
            ]
            for name, values in scores.items()
        }
    result: dict[str, float] = {}
    for prefix, chosen in {
        "": [True] * len(answers),
        "HasAns_": answerable,
        "NoAns_": [not able for able in answerable],
    }.items():
        if any(chosen):
            for name, values in counted.items():
                result[prefix + name] = _percent([value for value, one in zip(values, chosen, strict=True) if one])
            result[f"{prefix}total"] = sum(chosen)
    if no_answer_scores is not None:
        for name, values in scores.items():
            best, at = _best_threshold(values, predictions, no_answer_scores, answerable)
            result |= {f"best_{name}": best, f"best_{name}_thresh": at}
    return result


def _best_threshold(
    values: list[float], predictions: Sequence[str], no_answer_scores: Sequence[float], answerable: list[bool]
) -> tuple[float, float]:
    """The best score over all thresholds, in percent, and its threshold: 0.0 if answering no question is best."""
    current = best = float(answerable.count(False))  # the threshold is below all scores: no question is answered
    threshold = 0.0
    for place in sorted(range(len(values)), key=lambda place: no_answer_scores[place]):
        # The threshold rises to this question's score, so this question is answered too. Equal scores count one by one,
        # as in the official script.
        current += values[place] if answerable[place] else -bool(predictions[place])
        if current > best:
            best, threshold = current, float(no_answer_scores[place])
    return 100 * best / len(values), threshold


def _check(answers: Sequence[Sequence[str]], predictions: Sequence[str]) -> None:
    if len(answers) != len(predictions) or not len(answers):
        raise ValueError(f"{len(answers):,} questions have {len(predictions):,} predictions")
    if any(isinstance(given, str) for given in answers):
        raise ValueError("answers are strings; pass a list of strings for each question")


def _best(
    measure: Callable[[list[str], list[str]], float], answers: Sequence[Sequence[str]], predictions: Sequence[str]
) -> list[float]:
    """For each prediction, the highest `measure` over the answers to its question."""
    return [
        max(measure(_words(answer), _words(prediction)) for answer in given)
        for given, prediction in zip(answers, predictions, strict=True)
    ]


def _words(text: str) -> list[str]:
    """Words in lower case, without punctuation and articles. Punctuation goes first, so "the-a" is one word."""
    return re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(_PUNCTUATION)).split()


def _exact(answer: list[str], prediction: list[str]) -> float:
    return float(answer == prediction)


def _overlap(answer: list[str], prediction: list[str]) -> float:
    """F1 of words; 0 if no word is in both, or both are empty."""
    common = sum((Counter(answer) & Counter(prediction)).values())
    # 2 / (1 / precision + 1 / recall), with precision = common / len(prediction) and recall = common / len(answer)
    return 2 * common / (len(answer) + len(prediction)) if common else 0.0


def _f1(answer: list[str], prediction: list[str]) -> float:
    """F1 of words for version 2.0: an empty prediction is right if the answer is empty."""
    return _overlap(answer, prediction) if answer and prediction else _exact(answer, prediction)


def _percent(values: Sequence[float]) -> float:
    return 100 * sum(values) / len(values)
