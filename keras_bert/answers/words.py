"""Labels of words, and the entities that they mark."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence, Sized
from typing import Any, overload

import numpy as np

from keras_bert.answers import Answers, Score, metrics, only_answer, share_of_most_frequent
from keras_bert.answers.answerer import DROPOUT, Answerer, Setting
from keras_bert.answers.columns import Labels, Texts, as_list, label_index, one_or_many
from keras_bert.answers.entities import OUTSIDE, EntityAnswer, LabelScheme, WordAnswer, find_entities, locate_entities
from keras_bert.counted import counted
from keras_bert.text.arguments import list_of_str
from keras_bert.text.arrays.words import find_words


class WordAnswers(Answers[list[WordAnswer]]):
    """One of `labels` for each word."""

    # Measures are `f1`, `precision` and `recall` of entities if labels follow a scheme; else `accuracy` of words. For
    # entities, truncated words count as "O"; for `accuracy`, they are wrong.

    FIELD = "entities"

    def __init__(self, labels: list[str]) -> None:
        self.labels = labels
        self.scheme([])  # raises

    def scheme(self, labels: Iterable[Sequence[str]]) -> LabelScheme:
        """Finds the scheme of labels: those of the model, and those of examples, which the model may lack."""
        return LabelScheme.detect([*self.labels, *(name for sentence in labels for name in sentence)])

    def check_labels(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> None:
        assert labels is not None  # else there are no examples
        for each in zip(range(len(labels)), check_sentences(columns[0]), self.plain(labels), strict=True):
            check_labels(*each)
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

    def compared(self, answer: list[WordAnswer], label: Sequence[str | int]) -> list[dict[str, object]]:
        """Lists entities (without a scheme, words) whose label or answer is wrong; one may lack what the other sees."""
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


def check_labels(sentence: int, words: Sequence[str], labels: object) -> None:
    """Raises TypeError or ValueError unless the labels of a sentence are a list with one for each word."""
    if isinstance(labels, str | bytes) or not isinstance(labels, Sized):
        raise TypeError(f"labels[{sentence}] is {labels!r:.60}; expected a list with a label for each word")
    if len(words) != len(labels):
        raise ValueError(f"sentence {sentence} (from 0) has {counted(words, 'word')}, but {counted(labels, 'label')}")


class Tagger(Answerer):
    """What labels words, and finds entities."""

    VERB = "entities"
    SETTINGS = (
        Setting("labels", list),
        DROPOUT,
        Setting("crf", (bool, str), lambda model: bool(model.crf) and (model.crf.scheme or True), is_left_out=True),
    )
    kind: WordAnswers
    labels: list[str]

    @overload
    def tag(self, words: Sequence[str], batch_tokens: int = 1024, progress: bool | None = None) -> list[WordAnswer]: ...
    @overload
    def tag(
        self, words: Iterable[Sequence[str]], batch_tokens: int = 1024, progress: bool | None = None
    ) -> list[list[WordAnswer]]: ...
    def tag(
        self, words: Sequence[str] | Iterable[Sequence[str]], batch_tokens: int = 1024, progress: bool | None = None
    ) -> list[WordAnswer] | list[list[WordAnswer]]:
        """Predicts the label of each word of a sentence, or of many sentences.

        Args:
            words: a sentence, as a list of words; or many.
            batch_tokens, progress: see `BertClassifier.classify`.

        Returns:
            For a sentence, a list with a dict for each word: `word`, `label`, and `probability`, 0 to 1. For truncated
            words, `label` and `probability` are None; with windows, no word is truncated. For many sentences, a list of
            such lists.

        Raises:
            TypeError, ValueError: a sentence is not a list of str, or an output is not finite, which a damaged model
                may cause.

        Warns:
            UserWarning: the number of truncated words.
        """
        if isinstance(words, str | bytes):
            raise TypeError(f"words is a single {type(words).__name__}; pass a list of words, or see entities")
        words = as_list(words, "words", "word")
        is_one = bool(words) and all(isinstance(word, str) for word in words)
        sentences = check_sentences([words] if is_one else words)
        results, _ = self._by_length.counted(sentences, batch_tokens, progress)
        answers = [self._answers(words, rows) for words, rows in zip(sentences, results, strict=True)]
        if truncated := sum(answer["label"] is None for sentence in answers for answer in sentence):
            message = f"truncated words without a label: {truncated:,}; long_text='windows' labels all words"
            warnings.warn(message, stacklevel=2)
        return answers[0] if is_one else answers

    @overload
    def entities(self, text: str, batch_tokens: int = 1024, progress: bool | None = None) -> list[EntityAnswer]: ...
    @overload
    def entities(
        self, text: Iterable[str], batch_tokens: int = 1024, progress: bool | None = None
    ) -> list[list[EntityAnswer]]: ...
    def entities(
        self, text: str | Iterable[str], batch_tokens: int = 1024, progress: bool | None = None
    ) -> list[EntityAnswer] | list[list[EntityAnswer]]:
        """Finds the entities in a text, or in many texts, with their offsets.

        `text.arrays.words.find_words` splits a text into words, and `answers.entities.find_entities` finds the entities
        in the words' labels. If labels have no prefixes and one is "O", words in a row with the same label are one
        entity. Without "O", as for parts of speech, each word is an entity.

        Args:
            text: a str, or many.
            batch_tokens, progress: as for `tag`.

        Returns:
            For a text, a list of dicts in the order of the text: `label`, without prefix; `start` and `end`, in
            characters; `text`, which is `text[start:end]`; `probability`, 0 to 1, the mean over the entity's words. For
            many texts, a list of such lists.

        Raises:
            TypeError, ValueError: a text is not a str.

        Warns:
            UserWarning: the number of truncated words.
        """
        is_one, texts = one_or_many(text)
        texts = list_of_str(texts)
        offsets = find_words(texts)
        words = [[text[start:end] for start, end in row] for text, row in zip(texts, offsets, strict=True)]
        tagged = self.tag(words, batch_tokens, progress)
        scheme = self.kind.scheme([])
        entities = [locate_entities(*each, scheme) for each in zip(texts, offsets, tagged, strict=True)]
        return entities[0] if is_one else entities

    def _answers(self, words: Sequence[str], best: np.ndarray) -> list[WordAnswer]:
        """Makes answers from float `[padded words, 2]`: the index and the probability of each word's label."""
        answers: list[WordAnswer] = []
        for word, (index, probability) in zip(words, best, strict=False):
            label, probability = (self.labels[int(index)], float(probability)) if index >= 0 else (None, None)
            answers.append({"word": word, "label": label, "probability": probability})
        return answers

    def answers(self, x: Collection[Sequence[str]], progress: bool | None = None) -> list[list[WordAnswer]]:
        return self.tag(x, progress=progress)
