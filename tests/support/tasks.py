"""A case of each task: a small model with settings that are no defaults, what it is asked, what it learns from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertMaskedLM,
    BertMultipleChoice,
    BertMultiVectorEncoder,
    BertNextSentence,
    BertQuestionAnswerer,
    BertReranker,
    BertSentenceEncoder,
    BertSparseEncoder,
    BertTokenClassifier,
)
from keras_bert.tasks.kinds.classes import Numbers, Several

from . import small

TEXTS = ["good film", "bad plot and dull music", "", "cold river story"]
PAIR = (TEXTS, TEXTS[1:] + TEXTS[:1])
WORDS = [["good", "film", "."], ["bad", "plot", "and", "dull", "music"], ["warm"], ["the", "film", "story"]]
TAGS = [["O", "B-x", "O"], ["O", "B-x", "I-x", "O", "O"], ["O"], ["O", "B-x", "I-x"]]
CONTEXTS = ["the film was good", "bad plot and dull music", "warm", "she loved the bank by the river, and not the film"]
ASKED = (["what is good?", "movie", "is it warm?", "where?"], CONTEXTS)
SPANS = [[("film", 4)], [("bad plot", 0)], [], [("river", CONTEXTS[3].index("river"))]]
LISTS = [["warm", "a film"], ["dull", "good"], ["", "river"], ["story", "the plot"]]
MASKED = ["the [MASK] was good", "[MASK] and [MASK] plot", "[MASK]", "a warm [MASK] day"]
POSITIONS = {
    **{name: each.numpy() for name, each in small.preprocessor()(tf.constant(TEXTS)).items()},
    "masked_lm_positions": np.tile(np.int32([1, 0]), (4, 1)),
}
TOKENS = np.arange(8).reshape(4, 2) + 5
WINDOWS = {"sequence_length": 8, "stride": 3}


class Case(NamedTuple):
    """A task, its settings, and examples.

    Attributes:
        kind: its class.
        settings: arguments of the class, none of them a default.
        verb: the name of the method that answers.
        columns: the arguments of the verb: a list for each text that the task reads.
        served: makes an answer of the verb of the outputs of its serving signature, for one text; for choices, of a
            question's outputs and choices.
        x, y: what `fit` takes.
        text: settings of the preprocessor.
        loss: the loss, if the task has none of its own.
        head: the name of its class in Hugging Face's `config.json`.
        config: fields of `BertConfig`.
    """

    kind: type
    settings: dict[str, Any]
    verb: str
    columns: tuple[list[Any], ...]
    served: Callable[[dict[str, Any]], Any]
    x: Any
    y: Any
    head: str
    text: dict[str, Any]
    loss: str | None = None
    config: dict[str, Any] = {}  # noqa: RUF012

    def model(self, **config: Any) -> Any:
        """A new model, always with the same weights; `config` are fields of `BertConfig`."""
        encoder = small.encoder(**{"num_layers": 1, **self.config, **config})
        return small.shaken(self.kind(encoder, small.preprocessor(**self.text), **self.settings))

    def model_without_dropout(self) -> Any:
        """The same with an exact training."""
        settings = {name: value for name, value in self.settings.items() if name != "dropout"}
        return self._replace(settings=settings).model()

    def ask(self, model: Any, *columns: Any) -> Any:
        """The answers to its columns, or to others."""
        return getattr(model, self.verb)(*(columns or self.columns))


def _probable(row: dict[str, Any]) -> list[dict[str, Any]]:
    answers = [
        _fields(label=each[0], probability=each[1]) for each in zip(row["labels"], row["probabilities"], strict=True)
    ]
    return sorted((each for each in answers if each["probability"] >= 0.5), key=lambda each: -each["probability"])


def _fields(**values: Any) -> dict[str, Any]:
    return values


def _words(row: dict[str, Any]) -> list[dict[str, Any]]:
    columns = zip(row["words"], row["labels"], row["probabilities"], strict=True)
    return [_fields(word=word, label=label, probability=value) for word, label, value in columns if word]


def _chosen(row: dict[str, Any]) -> dict[str, Any]:
    index = int(np.argmax(row["logit"]))
    probabilities = (np.exp(row["logit"]) / np.exp(row["logit"]).sum()).tolist()
    return _fields(
        index=index, text=row["choice"][index], probability=probabilities[index], probabilities=probabilities
    )


def _filled(row: dict[str, Any]) -> dict[str, Any]:
    masks = [
        [_fields(token=token, probability=value) for token, value in zip(*mask, strict=True)]
        for mask in zip(row["tokens"], row["probabilities"], strict=True)
        if mask[0][0]
    ]
    return {"text": row["filled"], "masks": masks}


LABELS = {"labels": ["a", "b", "c"], "dropout": 0.3, "window_pooling": "max"}
CASES = {
    "classes": Case(
        BertClassifier, LABELS, "classify", (TEXTS,),
        lambda row: {name: row[name] for name in ("label", "probability")},
        TEXTS, ["a", "b", "b", "c"], "BertForSequenceClassification", WINDOWS,
    ),
    "classes by the mean of tokens": Case(
        BertClassifier, LABELS, "classify", (TEXTS,),
        lambda row: {name: row[name] for name in ("label", "probability")},
        TEXTS, ["a", "b", "b", "c"], "BertModel", {}, config={"pooler": False, "pooling": "unit_mean"},
    ),
    "words": Case(
        BertTokenClassifier, {"labels": ["O", "B-x", "I-x"], "dropout": 0.3}, "tag", (WORDS,), _words,
        WORDS, TAGS, "BertForTokenClassification", WINDOWS,
    ),
    "words of a CRF": Case(
        BertTokenClassifier, {"labels": ["O", "B-x", "I-x"], "crf": "BIO"}, "tag", (WORDS,), _words,
        WORDS, TAGS, "BertForTokenClassification", {},
    ),
    "questions": Case(
        BertQuestionAnswerer, {"max_answer_length": 4, "no_answer_threshold": -1.5, "dropout": 0.3}, "answer", ASKED,
        lambda row: row, ASKED, SPANS, "BertForQuestionAnswering", {"stride": 5},
    ),
    "choices": Case(
        BertMultipleChoice, {"dropout": 0.3}, "choose", (TEXTS, LISTS), _chosen,
        (TEXTS, *map(list, zip(*LISTS, strict=True))), [0, 1, 1, 0], "BertForMultipleChoice", {},
    ),
    "masks": Case(
        BertMaskedLM, {}, "fill", (MASKED,), _filled, POSITIONS, TOKENS, "BertForMaskedLM",
        {"tokenizer": small.tokenizer(special_tokens_in_text=True), "max_sequence_length": 48},
    ),
    "next sentence": Case(
        BertNextSentence, {"dropout": 0.3}, "score", PAIR, lambda row: row["probability"],
        PAIR, [0, 1, 1, 0], "BertForNextSentencePrediction", {},
    ),
    "vectors": Case(
        BertSentenceEncoder,
        {
            "pooling": "max", "dense": {"units": 8, "activation": "tanh", "use_bias": True}, "truncate_dim": 6,
            "prompts": {"query": "you ask: ", "story": "the story "}, "default_prompt": "query",
            "column_prompts": ["query", "story"], "normalize": False, "similarity": "dot", "window_pooling": "max",
        },
        "encode", (TEXTS,), lambda row: row["embedding"], PAIR, None, "BertModel",
        {"max_sequence_length": 8, "stride": 3},
    ),
    "weights of tokens": Case(
        BertSparseEncoder, {"pooling": "sum", "activation": "log1p_relu"}, "encode", (TEXTS,),
        lambda row: dict(each for each in zip(row["tokens"], row["weights"], strict=True) if each[0]),
        PAIR, None, "BertForMaskedLM", {},
    ),
    "vectors of tokens": Case(
        BertMultiVectorEncoder,
        {
            "dense": [{"units": 8, "activation": "tanh", "use_bias": True, "use_residual": True}], "normalize": False,
            "prompts": {"query": "you ask: ", "document": "the story "}, "query_length": 12, "mean_maxsim": True,
            "query_expansion": {"length": 9, "attend": False, "token": "[SEP]"}, "skipped_tokens": ["and", "dull"],
        },
        "encode", (TEXTS,),
        lambda row: np.array(row["embeddings"], "float32")[np.array(row["mask"]) > 0],
        PAIR, None, "BertModel", {},
    ),
    "scores": Case(
        BertReranker, {"activation": "identity", "dropout": 0.3}, "score", PAIR, lambda row: row["score"],
        PAIR, [0, 1, 1, 0], "BertForSequenceClassification", {},
    ),
    "pairs": Case(
        BertClassifier, {**LABELS, "pairs": True}, "classify", PAIR,
        lambda row: {name: row[name] for name in ("label", "probability")},
        PAIR, ["a", "b", "b", "c"], "BertForSequenceClassification", {},
    ),
    "several labels": Case(
        BertClassifier, {**LABELS, "problem_type": Several.PROBLEM_TYPE}, "classify", (TEXTS,), _probable,
        TEXTS, [["a"], [], ["a", "b"], ["c"]], "BertForSequenceClassification", {},
    ),
    "numbers": Case(
        BertClassifier, {**LABELS, "problem_type": Numbers.PROBLEM_TYPE}, "classify", (TEXTS,),
        lambda row: dict(zip(LABELS["labels"], row["values"], strict=True)),
        TEXTS, [[0.5, 1.0, 2.0]] * 4, "BertForSequenceClassification", {},
    ),
}  # fmt: skip
# One case for each network. The others are last in `CASES`: so the tests of a case run together, and share its model.
NETWORKS = [name for name in CASES if name not in ("pairs", "several labels", "numbers")]
