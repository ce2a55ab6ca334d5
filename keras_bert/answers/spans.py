"""Answers to questions: a span of the context, or "no answer" (Devlin et al. 2018, section 4.2)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, NamedTuple, TypedDict, overload

import numpy as np
from tqdm import tqdm

from keras_bert.answers import Answers, Score, metrics
from keras_bert.answers.activations import softmax
from keras_bert.answers.answerer import DROPOUT, Answerer, Setting
from keras_bert.answers.by_length import check_batch_tokens
from keras_bert.answers.columns import Labels, Texts, check_top_k
from keras_bert.counted import counted
from keras_bert.progress import progress_bar
from keras_bert.text.arguments import SPACES, list_of_str

NUM_BEST = 20  # run_squad.py's n_best_size
QUESTIONS_AT_A_TIME = 4096


class SpanAnswer(TypedDict):
    """An answer to a question; see `BertQuestionAnswerer.answer`."""

    answer: str
    start: int
    end: int
    score: float
    probability: float
    no_answer_score: float


@dataclass(frozen=True)
class SpanAnswers(Answers[list[SpanAnswer]]):
    """Labels are answers to a question, (text, start); none if it has none. An answer is the two best spans."""

    # Measures are SQuAD 1.1's `f1` and `exact_match`; if some questions have no answer, SQuAD 2.0's, of which
    # `best_f1_thresh` is the `no_answer_threshold` with the highest F1.

    no_answer_threshold: float | None

    def check_labels(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> None:
        for number, answers in enumerate(self.plain(labels)):
            check_answers(number, answers)

    def choose(self, labels: Labels | None, answers: Sequence[list[SpanAnswer]] | None = None) -> dict[str, float]:
        """Chooses the threshold of the highest F1 if some questions have no answer; without answers, run_squad.py's."""
        if self.no_answer_threshold is not None or labels is None or all(map(len, labels)):
            return {}
        if answers is None:
            return {"no_answer_threshold": 0.0}
        return {"no_answer_threshold": self.score(answers, labels).measures["best_f1_thresh"]}

    def with_settings(self, settings: Mapping[str, Any]) -> SpanAnswers:
        return dataclasses.replace(self, **settings)

    def score(self, answers: Sequence[list[SpanAnswer]], labels: Labels | None) -> Score:
        """Measures as SQuAD does. An answer that is no exact match is a mistake; its error is its probability."""
        references = [[text for text, _ in each] for each in (() if labels is None else labels)]
        threshold = float("inf") if self.no_answer_threshold is None else self.no_answer_threshold
        # "No answer" may rank first; the search for the best threshold needs the answer after it.
        spans = [next((each["answer"] for each in ranked if each["answer"]), "") for ranked in answers]
        no_answer_scores = [ranked[0]["no_answer_score"] for ranked in answers]
        best = ["" if score > threshold else span for span, score in zip(spans, no_answer_scores, strict=True)]
        baselines: dict[str, float] = {}
        if all(references):
            scores = metrics.squad_v1(references, best)
        else:
            no_answer = 100 * references.count([]) / len(references)
            baselines = {"f1": no_answer, "exact": no_answer}
            scores = metrics.squad_v2(references, spans, no_answer_scores, threshold)
        is_right = metrics.exact_matches([each or [""] for each in references], best)
        probabilities = np.maximum([ranked[0]["probability"] for ranked in answers], np.finfo(float).tiny)
        return Score(
            {"f1": scores.pop("f1"), **scores},
            np.where(is_right, 0.0, probabilities),
            baselines=baselines,
            only_answer="no answer" if any(references) and not any(best) else None,
        )

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[list[SpanAnswer]]:
        texts = [answers[0][0] if answers else "" for answers in self.plain(labels)]
        rest = {"start": 0, "end": 0, "score": 0.0, "probability": 1.0}
        return [[SpanAnswer(answer=each, no_answer_score=-np.inf if each else np.inf, **rest)] for each in texts]

    def columns(self, answer: list[SpanAnswer]) -> dict[str, object]:
        return {name: answer[0][name] for name in ("answer", "probability")}

    def compared(self, answer: list[SpanAnswer], label: Sequence[tuple[str, int]]) -> list[dict[str, object]]:
        """Puts the right answers and the model's best one side by side; each is empty if there is none."""
        references = " | ".join(dict.fromkeys(text for text, _ in label))
        return [{"label": references, **self.columns(answer)}]


def checked_questions(questions: str | Iterable[str], contexts: str | Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns both as lists of str. Raises TypeError or ValueError if they differ in length, or a text is empty."""
    if isinstance(questions, str) or isinstance(contexts, str):
        raise TypeError("one of question and context is a str, the other is not; pass two str, or two lists")
    questions, contexts = list_of_str(questions, "question", "question"), list_of_str(contexts, "context", "context")
    if len(questions) != len(contexts):
        raise ValueError(f"got {counted(questions, 'question')}, but {counted(contexts, 'context')}")
    for name, texts in (("question", questions), ("context", contexts)):
        for number, text in enumerate(texts):
            if not text or text.isspace():
                raise ValueError(f"{name} {number} (from 0) is empty")
    return questions, contexts


def check_answers(number: int, answers: object) -> None:
    """Raises ValueError if the answers to a question are not pairs (text, start)."""
    if isinstance(answers, str) or not isinstance(answers, Sequence) or not all(map(_is_answer, answers)):
        raise ValueError(
            f"the answers to question {number} (from 0) are {answers!r:.60}; expected [(text, start), ...]"
        )


def _is_answer(answer: object) -> bool:
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        return False
    return isinstance(answer[0], str) and isinstance(answer[1], Integral)


class QuestionAnswerer(Answerer):
    """What answers questions from their contexts."""

    VERB = "answer"
    SETTINGS = (Setting("max_answer_length", int), Setting("no_answer_threshold", (float, None)), DROPOUT)
    kind: SpanAnswers
    text_names = ("question", "context")
    no_answer_threshold: float | None
    max_answer_length: int

    def _answers(
        self, questions: list[str], contexts: list[str], top_k: int, batch_tokens: int, bar: tqdm
    ) -> list[list[SpanAnswer]]:
        """Finds up to `top_k` answers to each question, best first."""
        raise NotImplementedError

    @overload
    def answer(
        self, question: str, context: str, top_k: Literal[1] = 1, batch_tokens: int = 1024, progress: bool | None = None
    ) -> SpanAnswer: ...
    @overload
    def answer(
        self,
        question: Iterable[str],
        context: Iterable[str],
        top_k: Literal[1] = 1,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> list[SpanAnswer]: ...
    @overload
    def answer(
        self,
        question: str | Iterable[str],
        context: str | Iterable[str],
        top_k: int,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> Any: ...
    def answer(
        self,
        question: str | Iterable[str],
        context: str | Iterable[str],
        top_k: int = 1,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> SpanAnswer | list[SpanAnswer] | list[list[SpanAnswer]]:
        """Answers a question from its context, or many questions.

        Args:
            question, context: two str, or two lists of the same length.
            top_k: the number of answers, at most 20.
            batch_tokens, progress: see `BertClassifier.classify`.

        Returns:
            For each question, a dict; if `top_k` is more than 1, a list of up to `top_k` dicts, best first. A dict has:

            - `answer`: the text, `context[start:end]`; empty for "no answer", see `no_answer_threshold`.
            - `start`, `end`: the answer's offsets in characters (code points); 0 and 0 for "no answer".
            - `score`: the start logit plus the end logit.
            - `probability`: 0 to 1, a softmax over the 20 best scores.
            - `no_answer_score`: the score of "no answer" minus the score of the best answer; the same for all answers
              to a question. The score of "no answer" is the start logit plus the end logit of `[CLS]`, in the window
              where this sum is lowest.

        Raises:
            TypeError, ValueError: the numbers of questions and contexts differ, one is not a str or is empty, `top_k`
                is not 1 to 20, or an output is not finite, which a damaged model may cause.
        """
        check_top_k(top_k, NUM_BEST)
        check_batch_tokens(batch_tokens)
        self.warn_if_untrained()
        is_one = False
        if isinstance(question, str) and isinstance(context, str):
            is_one, question, context = True, [question], [context]
        questions, contexts = checked_questions(question, context)
        answers: list[list[SpanAnswer]] = []
        with progress_bar(0, "windows", progress) as bar:
            for first in range(0, len(questions), QUESTIONS_AT_A_TIME):
                chunk = slice(first, first + QUESTIONS_AT_A_TIME)
                answers.extend(self._answers(questions[chunk], contexts[chunk], top_k, batch_tokens, bar))
        results = answers if top_k > 1 else [ranked[0] for ranked in answers]
        return results[0] if is_one else results

    def answers(self, x: Texts, progress: bool | None = None) -> list[list[SpanAnswer]]:
        """Finds the two best answers to each question. The best may be "no answer"."""
        return self.answer(*x, top_k=2, progress=progress)


# -- The search for the best spans, as in run_squad.py (`write_predictions`); serving signatures do it in the graph.

# The score of an impossible span: far below any real score, but finite, so that differences and means are never NaN.
NEVER = -1e9


class Spans(NamedTuple):
    """Spans of tokens, best first, `[count]` each."""

    scores: np.ndarray  # float32, the start logit plus the end logit
    firsts: np.ndarray  # int, the first token
    lasts: np.ndarray


def best_spans(start: np.ndarray, end: np.ndarray, may_start: np.ndarray, max_length: int) -> Spans:
    """Finds a window's best spans from logits, `[tokens]`, on a tie the first; `may_start` marks the most context."""
    ends = np.pad(end, (0, max_length), constant_values=NEVER)
    ends = np.lib.stride_tricks.sliding_window_view(ends, max_length)[: len(start)]  # [tokens, max_length]
    scores = (np.where(may_start, start, np.float32(NEVER))[:, None] + ends).ravel()
    if len(scores) > NUM_BEST:
        least = np.partition(scores, -NUM_BEST)[-NUM_BEST]
        found = np.flatnonzero(scores >= least)
    else:
        found = np.arange(len(scores))
    found = found[np.argsort(-scores[found], kind="stable")][:NUM_BEST]
    return Spans(scores[found], found // max_length, found // max_length + found % max_length)


def rank_spans(
    context: str,
    offsets: tuple[np.ndarray, np.ndarray],
    windows: Sequence[Spans],
    no_answer: float,
    threshold: float | None,
    top_k: int,
) -> list[SpanAnswer]:
    """Ranks the spans of all windows of a context, together with "no answer", which scores `no_answer`."""
    # `offsets` are those of the context's tokens, in characters. "no answer" ranks above every span whose score is
    # lower by more than the threshold; without one, only if no valid span exists.
    scores, firsts, lasts = (np.concatenate(each) for each in zip(*windows, strict=True))
    order = np.argsort(-scores, kind="stable")[:NUM_BEST]
    spans = [(0, 0) if scores[i] <= NEVER / 2 else (offsets[0][firsts[i]], offsets[1][lasts[i]]) for i in order]
    # If a character has several tokens, only one of them covers it. The others cover no text and are no answer; nor is
    # white space, which has tokens in byte pairs.
    is_text = [bool(context[start:end].strip(SPACES)) for start, end in spans]
    scores = np.append(np.where(is_text, scores[order], NEVER), NEVER).astype(np.float32)
    nothing = np.float32(no_answer)
    no_answer_score = float(nothing - scores.max())
    last = np.float32(NEVER / 4)  # below every real span, above NEVER
    rank = np.append(scores - nothing, last if threshold is None else np.float32(-threshold))
    probabilities = softmax(np.append(scores, nothing + last if threshold is None else nothing).astype(np.float64))
    answers: list[SpanAnswer] = []
    for place in np.argsort(-rank, kind="stable")[:top_k].tolist():  # on a tie, the span wins
        if answers and rank[place] <= last / 2:
            break
        start, end = spans[place] if place < len(spans) else (0, 0)
        score, probability = float(np.append(scores, nothing)[place]), float(probabilities[place])
        answers.append(
            SpanAnswer(
                answer=context[start:end], start=int(start), end=int(end), score=score, probability=probability,
                no_answer_score=no_answer_score,
            )
        )  # fmt: skip
    return answers
