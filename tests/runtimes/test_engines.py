"""Exports answer as their engine says: every task on an engine in NumPy, with answers that are computed by hand.

No runtime is needed. Texts are words of the vocabulary, one token each.
"""

import functools
import itertools
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from keras_bert.engines.loading import MODELS
from keras_bert.engines.models import Engine
from keras_bert.task_table import TASKS
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor

from ..support import small
from ..support.messages import error_names, warning_names

ID = {token: index for index, token in enumerate(small.VOCABULARY)}
TABLE, HEAD, TO_TOKENS, PATHS = (
    np.random.default_rng(0).normal(size=size).astype(np.float32) for size in ((len(ID), 4), (4, 3), (4, len(ID)), 15)
)
LONGEST, STRIDE = 10, 3
TEXTS = ["good film", "the bad plot and the dull music", "", "a cold river on the bank", "very good"]
LONG = [*TEXTS, "the story was very good and the actor was warm and not dull like the plot"]
OTHERS = ["warm", "", "story and time", "the film", "it"]
LABELS = ["O", "B-x", "I-x"]


# -- The engine: a token has its values, which its segment and its position change


def values_of(ids, types, mask):
    return (TABLE[ids] * (1 + types[..., None]) + np.arange(ids.shape[-1])[:, None] / 10) * mask[..., None]


class Fake:
    """Runs packed inputs, and remembers their masks."""

    def __init__(self, outputs: Callable[..., dict[str, Any]]) -> None:
        self.outputs, self.masks = outputs, []

    def run(self, inputs):
        ids, mask, types = (inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids"))
        assert ids.dtype == np.int32
        self.masks.append(mask)
        return {name: np.float32(each) for name, each in self.outputs(ids, mask, values_of(ids, types, mask)).items()}


def in_context(values):
    return values + values.sum(axis=1, keepdims=True)


def _largest_weights(ids, mask, values):
    weights = np.zeros((len(ids), len(ID)))
    for row, tokens in enumerate(ids):
        np.maximum.at(weights[row], tokens, np.maximum(values[row, :, 0], 0) * mask[row])
    return {"weights": weights}


# -- By hand


def row(*texts):
    """The values of a row's tokens, `[tokens, 4]`, of words."""
    tokens = ["[CLS]", *texts[0], "[SEP]", *(word for text in texts[1:] for word in [*text, "[SEP]"])]
    first = len(texts[0]) + 2
    return np.array([TABLE[ID[each]] * (1 + (place >= first)) + place / 10 for place, each in enumerate(tokens)])


def windows(words, room):
    """The places of windows' first words, and the windows."""
    starts = [0]
    while starts[-1] + room < len(words):
        starts.append(starts[-1] + STRIDE)
    return [(start, words[start : start + room]) for start in starts]


def pooled(text, how):
    """The sums of the rows of a text's windows, pooled."""
    return how([row(words).sum(axis=0) for _, words in windows(text.split(), LONGEST - 2)], axis=0)


def count_in_windows(words):
    return sum(2 + len(each) for _, each in windows(words, LONGEST - 2))


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


def unit(vector):
    return vector / np.linalg.norm(vector)


def cut(text):
    return text.split()[: LONGEST - 2]


def classified(logits):
    return {"label": "abc"[logits.argmax()], "probability": softmax(logits).max()}


def logits_in_windows(words):
    """Each word's logits in the window in which the fewer of its neighbours on a side are most."""
    found = []
    for place in range(len(words)):
        inside = [(start, each) for start, each in windows(words, LONGEST - 2) if 0 <= place - start < len(each)]
        best = max(inside, key=lambda it: min(place - it[0], len(it[1]) - 1 - place + it[0]) + len(it[1]) / 100)
        found.append((row(best[1]) @ HEAD)[1 + place - best[0]])
    return np.array(found)


def tagged(words, logits):
    answers = [
        {"word": word, "label": LABELS[each.argmax()], "probability": softmax(each).max()}
        for word, each in zip(words, logits, strict=False)
    ]
    return answers + [{"word": word, "label": None, "probability": None} for word in words[len(logits) :]]


CRF = {"start": PATHS[:3], "transitions": PATHS[3:12].reshape(3, 3), "end": PATHS[12:]}


def tagged_by_paths(words):
    """The best of all paths of labels that BIO allows, and the share of all of those that agree with it on a word."""
    emissions, paths = (row(words) @ HEAD)[1:-1], {}
    for path in itertools.product(range(3), repeat=len(words)):
        if not any(one == 0 and other == 2 for one, other in itertools.pairwise([0, *path])):
            score = sum(CRF["transitions"][each] for each in itertools.pairwise(path))
            score += sum(each[label] for each, label in zip(emissions, path, strict=True))
            paths[path] = np.exp(score + (CRF["start"][path[0]] + CRF["end"][path[-1]] if path else 0))
    best = max(paths, key=paths.get)
    shares = [sum(p for each, p in paths.items() if each[i] == label) for i, label in enumerate(best)]
    shares = np.array(shares) / sum(paths.values())
    return [
        {"word": word, "label": LABELS[label], "probability": share}
        for word, label, share in zip(words, best, shares, strict=True)
    ]


def answered(question, context):
    """The best span of up to two words in any window, or no answer, over whose score it must be by 0.5."""
    words, first = context.split(), len(question.split()) + 2
    spans, nothing = {}, np.inf
    for start, window in windows(words, LONGEST - 3 - len(question.split())):
        starts, ends = in_context(row(question.split(), window)[None])[0, :, :2].T
        nothing = min(nothing, starts[0] + ends[0])
        for one, other in itertools.combinations_with_replacement(range(len(window)), 2):
            context_left = {
                begin: min(start + one - begin, len(each) - 1 - start - one + begin) + len(each) / 100
                for begin, each in windows(words, LONGEST - 3 - len(question.split()))
                if 0 <= start + one - begin < len(each)
            }
            if other - one < 2 and max(context_left, key=context_left.get) == start:
                spans[start + one, start + other] = starts[first + one] + ends[first + other]
    ranked = sorted(spans, key=lambda each: -spans[each])[:20]
    probabilities = softmax(np.array([*(spans[each] for each in ranked), nothing]))
    best = nothing - spans[ranked[0]]
    if best > -0.5:
        chosen = {"answer": "", "start": 0, "end": 0, "score": nothing, "probability": probabilities[-1]}
        return {**chosen, "no_answer_score": best}
    text = " ".join(words[ranked[0][0] : ranked[0][1] + 1])
    start = len(" ".join([*words[: ranked[0][0]], ""]))
    places = {"start": start, "end": start + len(text), "score": spans[ranked[0]]}
    return {"answer": text, **places, "probability": probabilities[0], "no_answer_score": best}


def logit(*texts):
    """The sum of a pair's row, of whose longer text words are left out while there are too many."""
    first, second = (text.split() for text in texts)
    while len(first) + len(second) > LONGEST - 3:
        (first if len(first) > len(second) else second).pop()
    return row(first, second).sum(axis=0)


def chosen(question, choices):
    logits = np.array([logit(question, each)[0] for each in choices])
    best, probabilities = int(logits.argmax()), softmax(logits)
    answer = {"index": best, "text": choices[best], "probability": probabilities[best]}
    return {**answer, "probabilities": probabilities.tolist()}


def weighted(text):
    tokens, weights = ["[CLS]", *cut(text), "[SEP]"], {}
    for token, value in zip(tokens, row(cut(text))[:, 0], strict=True):
        weights[token] = max(weights.get(token, 0), value)
    return {token: value for token, value in sorted(weights.items(), key=lambda each: -each[1]) if value > 0}


def of_document(text):
    """The vectors of a document's tokens after its prompt, without those that are skipped."""
    words = ["the", *text.split()][: LONGEST - 2]
    kept = [i for i, word in enumerate(["[CLS]", *words, "[SEP]"]) if word not in SKIPPED]
    return row(words)[kept].reshape(-1, 4)


def of_query(text):
    """The vectors of a query's tokens, of which it has 6 or 7: [MASK] where the text ends, to which none attends."""
    words = text.split()[:5]
    rows = [*row(words)[: len(words) + 2], *([[0] * 4] * (4 - len(words)))]
    return np.array(rows)


SKIPPED = ["[CLS]", "[SEP]", "and", "the"]
VECTORS = {
    "pooling": "sum", "dense": None, "prompts": {"none": "", "query": "you see "}, "default_prompt": None,
    "include_prompt": True, "column_prompts": ["query", "none"], "truncate_dim": None, "matryoshka_dimensions": [2, 4],
    "similarity": "cosine", "normalize": True, "window_pooling": "mean",
}  # fmt: skip
CLASSES = {"labels": ["a", "b", "c"], "problem_type": "single_label_classification", "pairs": False}


@functools.cache
def tokenizer():
    with tempfile.TemporaryDirectory() as folder:
        return ArrayPreprocessor.from_preset(small.write_preset(Path(folder)), special_tokens_in_text=True).tokenizer


class Case(NamedTuple):
    """A task on an engine: its settings, the engine's outputs of ids, mask and values, what is asked and answered."""

    task: str
    settings: dict[str, Any]
    outputs: Callable[..., dict[str, Any]]
    verb: str
    columns: tuple[list[Any], ...]
    answer: Callable[..., Any]  # of one text of each column
    served: Callable[..., dict[str, Any]] | None = None  # the outputs of the signature with all, by the same texts
    stride: int | None = None
    head: Callable[..., dict[str, Any]] | None = None
    parts: dict[str, np.ndarray] = {}  # noqa: RUF012
    truncated: int = 0  # the number that the warning names

    def model(self):
        rows = ArrayPreprocessor(tokenizer(), None, max_sequence_length=LONGEST, stride=self.stride)
        fake = Fake(self.outputs)
        return fake, MODELS[self.task](Engine(fake.run, self.head, self.parts), rows, self.settings)


def mean_of(text):
    return pooled(text, np.mean)


def without_prompt(text):
    """The vector of a text behind its prompt of two tokens, which, as [CLS], is not pooled."""
    found = windows(["you", "see", *text.split()], LONGEST - 2)
    return unit(np.mean([unit(row(words)[3 * (start == 0) :].sum(axis=0)) for start, words in found], axis=0))


CASES = {
    "classes in windows, max": Case(
        "BertClassifier", {**CLASSES, "window_pooling": "max"},
        lambda ids, mask, values: {"features": values.sum(axis=1), "logits": values.sum(axis=1) @ HEAD},
        "classify", (LONG,), lambda text: classified(pooled(text, np.max) @ HEAD),
        lambda text: {
            "labels": [b"a", b"b", b"c"], "probabilities": softmax(pooled(text, np.max) @ HEAD),
            "label": classified(pooled(text, np.max) @ HEAD)["label"].encode(),
            "probability": classified(pooled(text, np.max) @ HEAD)["probability"],
        },
        STRIDE, lambda inputs: {"logits": inputs["features"] @ HEAD},
    ),
    "numbers in windows, mean": Case(
        "BertClassifier", {**CLASSES, "problem_type": "regression", "window_pooling": "mean"},
        lambda ids, mask, values: {"logits": values.sum(axis=1) @ HEAD},
        "classify", (LONG,), lambda text: dict(zip("abc", mean_of(text) @ HEAD, strict=True)),
        lambda text: {"values": mean_of(text) @ HEAD}, STRIDE,
    ),
    "several classes of pairs": Case(
        "BertClassifier",
        {**CLASSES, "problem_type": "multi_label_classification", "pairs": True, "window_pooling": "max"},
        lambda ids, mask, values: {"logits": values.sum(axis=1) @ HEAD},
        "classify", (TEXTS, OTHERS),
        lambda *texts: [
            {"label": name, "probability": each}
            for each, name in sorted(zip(sigmoid(logit(*texts) @ HEAD), "abc", strict=True), reverse=True)
            if each >= 0.5
        ],
        lambda *texts: {"probabilities": sigmoid(logit(*texts) @ HEAD), "labels": [b"a", b"b", b"c"]}, truncated=1,
    ),
    "words": Case(
        "BertTokenClassifier", {"labels": LABELS}, lambda ids, mask, values: {"logits": values @ HEAD},
        "tag", ([text.split() for text in LONG],),
        lambda words: tagged(words, (row(words[: LONGEST - 2]) @ HEAD)[1:-1]), truncated=8,
    ),
    "words in windows": Case(
        "BertTokenClassifier", {"labels": LABELS}, lambda ids, mask, values: {"logits": values @ HEAD},
        "tag", ([text.split() for text in LONG],), lambda words: tagged(words, logits_in_windows(words)), stride=STRIDE,
    ),
    "words of a CRF": Case(
        "BertTokenClassifier", {"labels": LABELS, "crf": "BIO"}, lambda ids, mask, values: {"logits": values @ HEAD},
        "tag", ([text.split() for text in TEXTS],), tagged_by_paths, parts=CRF,
    ),
    "questions": Case(
        "BertQuestionAnswerer", {"max_answer_length": 2, "no_answer_threshold": 0.5},
        lambda ids, mask, values: {
            "start_logits": in_context(values)[..., 0], "end_logits": in_context(values)[..., 1],
        },
        "answer", (["film", "was it", "the plot"] * 2, [LONG[1], LONG[5], LONG[3], *reversed(LONG[3:])]), answered,
        lambda *texts: {**answered(*texts), "answer": answered(*texts)["answer"].encode()}, STRIDE,
    ),
    "scores": Case(
        "BertReranker", {"activation": "sigmoid", "labels": None},
        lambda ids, mask, values: {"logits": values.sum(axis=1)[:, :1]},
        "score", (LONG[:5], [*OTHERS[:4], LONG[5]]), lambda *texts: sigmoid(logit(*texts)[0]),
        lambda *texts: {
            "score": sigmoid(logit(*texts)[0]), "logit": logit(*texts)[0],
            "token_count": min(LONGEST, 3 + sum(len(text.split()) for text in texts)),
        },
        truncated=2,
    ),
    "choices": Case(
        "BertMultipleChoice", {}, lambda ids, mask, values: {"logits": values.sum(axis=1)[:, :1]},
        "choose", (TEXTS[2:], [["warm", "a film"], ["dull"], ["good", "", "river"]]), chosen,
    ),
    "next sentence": Case(
        "BertNextSentence", {}, lambda ids, mask, values: {"logits": values.sum(axis=1)[:, :2]},
        "score", (TEXTS, OTHERS), lambda *texts: softmax(logit(*texts)[:2])[0],
        lambda *texts: {"probability": softmax(logit(*texts)[:2])[0]}, truncated=1,
    ),
    "vectors": Case(
        "BertSentenceEncoder", {**VECTORS, "normalize": False},
        lambda ids, mask, values: {"embedding": values.sum(axis=1)},
        "encode", (LONG,), lambda text: row(cut(text)).sum(axis=0),
        lambda text: {
            "embedding": row(cut(text)).sum(axis=0), "embedding_2": row(cut(text)).sum(axis=0)[:2],
            "token_count": len(cut(text)) + 2,
        },
        truncated=1,
    ),
    "vectors in windows, after a prompt, max": Case(
        "BertSentenceEncoder",
        {**VECTORS, "normalize": False, "window_pooling": "max", "default_prompt": "query"},
        lambda ids, mask, values: {"embedding": values.sum(axis=1)},
        "encode", (LONG,), lambda text: pooled(f"you see {text}", np.max),
        lambda text: {
            "embedding": pooled(f"you see {text}", np.max), "embedding_2": pooled(f"you see {text}", np.max)[:2],
            "token_count": count_in_windows(["you", "see", *text.split()]),
        },
        STRIDE,
    ),
    "vectors of length 1 in windows, without their prompt": Case(
        "BertSentenceEncoder", {**VECTORS, "default_prompt": "query", "include_prompt": False},
        lambda ids, mask, values: {
            "embedding": [unit(each) for each in values.sum(axis=1)], "sequence_output": values,
        },
        "encode", (LONG,), without_prompt,
        lambda text: {
            "embedding": without_prompt(text), "embedding_2": unit(without_prompt(text)[:2]),
            "token_count": count_in_windows(["you", "see", *text.split()]),
        },
        STRIDE,
        lambda inputs: {
            "embedding": np.array([
                unit(each) for each in (inputs["sequence_output"] * inputs["input_mask"][..., None]).sum(axis=1)
            ])
        },
    ),
    "weights of tokens": Case(
        "BertSparseEncoder", {"pooling": "max", "activation": "relu", "query_table": True}, _largest_weights,
        "encode", (LONG,), weighted, truncated=1,
    ),
    "vectors of documents": Case(
        "BertMultiVectorEncoder",
        {
            "dense": None, "normalize": False, "prompts": {"document": "the "}, "query_length": 7,
            "query_expansion": {"length": 6, "attend": False, "token": None}, "skipped_tokens": SKIPPED,
            "token_pooling": None, "mean_maxsim": False,
        },
        lambda ids, mask, values: {"embeddings": values},
        "encode", (LONG,), of_document, truncated=1,
    ),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def check(found, expected):
    """Compares answers, numbers within 1e-5 of their size."""
    if isinstance(expected, dict):
        assert [*found] == [*expected]
        found, expected = [*found.values()], [*expected.values()]
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for each in zip(found, expected, strict=True):
            check(*each)
    elif isinstance(expected, np.ndarray | float | np.number):
        np.testing.assert_allclose(np.array(found, float), expected, rtol=2e-5, atol=2e-5)
    else:
        assert found == expected


def test_each_task_has_a_class_that_answers_its_exports():
    assert MODELS.keys() == {task.model for task in TASKS}


@pytest.mark.filterwarnings("ignore:(texts|truncated words)")
def test_each_text_gets_its_answer_in_batches_of_similar_length(case):
    fake, model = case.model()
    ask, expected = getattr(model, case.verb), [case.answer(*each) for each in zip(*case.columns, strict=True)]
    for tokens in (1024, 24, 1):
        fake.masks.clear()
        check([*ask(*case.columns, batch_tokens=tokens)], expected)
        if case.stride is None or case.verb == "answer":  # else a batch's windows run together
            assert all(mask.size <= tokens or len(mask) == 1 for mask in fake.masks)
        assert all(mask[:, 3:].any(axis=0).all() for mask in fake.masks)  # no column of padding alone
    check([*ask(*(column[::-1] for column in case.columns))], expected[::-1])
    check(ask(*(column[0] for column in case.columns)), expected[0])
    none = ask(*([] for _ in case.columns))
    assert len(none) == 0
    if case.truncated:
        with warning_names(case.truncated):
            ask(*case.columns)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.served])
def test_a_server_gets_the_outputs_of_a_signature(name):
    _, model = CASES[name].model()
    columns = [*CASES[name].columns]
    served = [CASES[name].served(*each) for each in zip(*columns, strict=True)]
    signature = [*model.signatures][-1]
    inputs = {
        each: np.array([text.encode() for text in column], object)
        for each, column in zip(model.text_names, columns, strict=True)
    }
    check_served(model, signature, inputs, {each: [row[each] for row in served] for each in served[0]})
    check_served(
        model, signature, {each: texts[:0] for each, texts in inputs.items()}, {each: [] for each in served[0]}
    )
    with error_names(ValueError, "text 1", "UTF-8", "byte 1"):
        model.serve(signature, inputs | {model.text_names[-1]: np.array([b"a", b"a\xff"], object)})


def check_served(model, signature, inputs, expected):
    found, specs = model.serve(signature, inputs), model.signatures[signature].outputs
    assert found.keys() == specs.keys() == expected.keys()
    for name, values in found.items():
        assert values.dtype == specs[name].dtype
        assert specs[name].accepts(values.shape)
        check(values.tolist(), [np.array(each).tolist() for each in expected[name]])


def padded(rows, padding):
    return [[*row, *[padding] * (max(map(len, rows)) - len(row))] for row in rows]


@pytest.mark.filterwarnings("ignore:texts")
def test_a_server_gets_words_tokens_and_vectors_of_texts_of_any_length():
    texts = {"text": np.array([text.encode() for text in LONG], object)}
    words = [text.split() for text in LONG]
    answers = [tagged(each, logits_in_windows(each)) for each in words]
    starts = [[len(" ".join([*each[:place], ""])) for place in range(len(each))] for each in words]
    ends = [[start + len(word) for start, word in zip(*each, strict=True)] for each in zip(starts, words, strict=True)]
    _, model = CASES["words in windows"].model()
    found = model.tag(["watching", "film"])  # the label of a word is that of its first token
    logits = row(["watch", "##ing", "film"]) @ HEAD
    check(found, tagged(["watching", "film"], logits[[1, 3]]))
    check_served(model, "serving_default", texts, {
        "words": padded([[word.encode() for word in each] for each in words], b""),
        "labels": padded([[each["label"].encode() for each in row] for row in answers], b""),
        "probabilities": padded([[float(each["probability"]) for each in row] for row in answers], 0.0),
        "starts": padded(starts, -1), "ends": padded(ends, -1),
    })  # fmt: skip
    _, model = CASES["weights of tokens"].model()
    weights = [weighted(text) for text in LONG]
    check_served(model, "serving_default", texts, {
        "tokens": padded([[token.encode() for token in each] for each in weights], b""),
        "weights": padded([[float(weight) for weight in each.values()] for each in weights], 0.0),
    })  # fmt: skip


def test_words_that_are_cut_have_no_label_for_a_server():
    _, model = CASES["words"].model()
    found = model.serve("serving_default", {"text": np.array([LONG[5].encode()], object)})
    for name in ("labels", "probabilities"):
        assert [bool(each) for each in found[name][0]] == [True] * (LONGEST - 2) + [False] * 8


def max_sim(query, document):
    """Khattab and Zaharia 2020, equation 3, a token at a time; of no tokens, what the documentation says."""
    return sum(max(float(q @ d) for d in document) for q in query) if len(document) else -1e9


def test_queries_and_documents_of_a_multi_vector_encoder():
    queries = ["film", "film film", "a cold river on the bank was it", "film", "", "dull"]
    fake, model = CASES["vectors of documents"].model()
    with warning_names(1):
        check(model.encode_query(queries), [of_query(each) for each in queries])
    fake.masks.clear()
    check(model.encode_query(["dull", "film", ""], batch_tokens=12), [of_query(each) for each in ("dull", "film", "")])
    assert [mask.shape for mask in fake.masks] == [(2, 6), (1, 6)]  # [MASK]s are counted
    check(model.encode_query("dull"), of_query("dull"))
    inputs = {"text": np.array([each.encode() for each in queries], object)}
    lengths = [min(7, max(6, 2 + len(each.split()))) for each in queries]
    found = model.serve("query", inputs)
    assert found["mask"].sum(axis=1).tolist() == lengths
    for vectors, mask, each in zip(found["embeddings"], found["mask"], queries, strict=True):
        check(vectors[mask > 0], of_query(each))
        assert not vectors[mask == 0].any()
    documents = [LONG[0], "and the", *LONG[1:4], LONG[5]]
    inputs["text_pair"] = np.array([each.encode() for each in documents], object)
    scores = [max_sim(of_query(q), of_document(d)) for q, d in zip(queries, documents, strict=True)]
    counts = [min(LONGEST, 3 + len(each.split())) for each in documents]  # with the prompt; of skipped tokens, too
    counts = [count + min(7, 2 + len(each.split())) for count, each in zip(counts, queries, strict=True)]  # no [MASK]
    check_served(model, "rerank", inputs, {"score": scores, "token_count": counts})
    found = model.serve("with_token_count", {"text": inputs["text_pair"]})
    assert found["token_count"].tolist() == [min(LONGEST, 3 + len(each.split())) for each in documents]
    for vectors, mask, each in zip(found["embeddings"], found["mask"], documents, strict=True):
        check(vectors[mask > 0], of_document(each))
        assert not vectors[mask == 0].any()
    scores = [max_sim(of_query("dull"), of_document(each)) for each in documents]
    with warning_names(1):
        ranked = model.rank("dull", documents)
    check([each["score"] for each in ranked], sorted(scores, reverse=True))
    assert [each["index"] for each in ranked[-2:]] == [1, 3]  # of which all tokens are skipped


def test_the_weights_of_queries_come_from_the_table():
    table = np.zeros(len(ID), np.float32)
    table[[ID["film"], ID["the"], ID["bank"], ID["dull"]]] = [2, 0.5, 4, 1]
    _, model = CASES["weights of tokens"]._replace(parts={"query_weights": table}).model()
    query = "the film the film was it this that he she bank"  # more tokens than the model reads
    with warning_names(1, LONGEST):
        assert model.encode_query([query, "dull bank film", ""]) == [
            {"film": 2, "the": 0.5}, {"bank": 4, "film": 2, "dull": 1}, {},
        ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.encode_query("film " * LONGEST) == {"film": 2}
    assert model.encode_query("dull bank film", top_k=2) == {"bank": 4, "film": 2}


def fill_by_hand(words, k):
    """The candidates of each mask; the surest is filled first, and read for the others."""
    words, found = [*words], {}
    while "[MASK]" in words:
        logits = in_context(row(words)[None])[0]
        odds = {
            place: softmax((logits[1 + place] @ TO_TOKENS).astype(float))
            for place, word in enumerate(words)
            if word == "[MASK]"
        }
        place = max(odds, key=lambda each: odds[each].max() / (1 - odds[each].max()))
        best = np.argsort(-odds[place])[:k]
        found[place] = [{"token": small.VOCABULARY[i], "probability": odds[place][i]} for i in best]
        words[place] = small.VOCABULARY[best[0]]
    return [found[place] for place in sorted(found)]


@pytest.mark.filterwarnings("ignore:texts")
def test_masks_are_filled_one_by_one():
    texts = ["the [MASK] was good", "[MASK] and [MASK] on [MASK]", "[MASK]"]
    outputs = lambda ids, mask, values: {"logits": in_context(values) @ TO_TOKENS}  # noqa: E731
    _, model = Case("BertMaskedLM", {}, outputs, "fill", (texts,), fill_by_hand).model()
    expected = [fill_by_hand(each.split(), 3) for each in texts]
    found = model.fill(texts, top_k=3)
    check([each["masks"] for each in found], expected)
    assert found[0]["text"] == f"the {expected[0][0][0]['token']} was good".replace(" ##", "")
    check(model.fill(texts[0], top_k=1)["masks"], [[each[0]] for each in expected[0]])
    served = model.serve("serving_default", {"text": np.array([each.encode() for each in texts], object)})
    names = [[[each["token"].encode() for each in mask] for mask in fill_by_hand(text.split(), 5)] for text in texts]
    assert served["tokens"].tolist() == padded(names, [b""] * 5)
    assert served["filled"].tolist() == [each["text"].encode() for each in model.fill(texts)]
    assert served["probabilities"].shape == (3, 3, 5)
    for text in ("good", "the [MASK] " + "film " * 20 + "[MASK]"):
        with error_names(ValueError, "text 0", "[MASK]"):
            model.fill(text)


def test_an_output_that_is_not_finite_is_refused():
    for name in ("classes in windows, max", "scores", "vectors", "questions"):
        case = CASES[name]
        broken = case._replace(
            outputs=lambda ids, mask, values: {
                each: np.where(np.arange(len(ids)).reshape(-1, *[1] * (np.ndim(array) - 1)) == 0, np.nan, array)
                for each, array in case.outputs(ids, mask, values).items()  # noqa: B023
            }
        )
        with error_names(ValueError, "not finite"):
            getattr(broken.model()[1], case.verb)(*case.columns)


def damaged(name, value, *words):
    """The model of a case whose engine gives `value` in the rows that have one of these words."""
    _, model = CASES[name].model()
    run, ids = model._engine.run, [ID[word] for word in words]

    def damaged_run(inputs):
        is_hit, outputs = np.isin(inputs["input_ids"], ids).any(axis=1), run(inputs)
        for array in outputs.values():
            array[is_hit, ..., -1 if name == "weights of tokens" else slice(None)] = value  # one among many zeros
        return outputs

    model._engine = model._engine._replace(run=damaged_run)
    return model


def of_server(texts):
    return {"text": np.array([text.encode() for text in texts], object)}


@pytest.mark.parametrize("ask", ["tag", "entities", "serve"])
@pytest.mark.parametrize("name", ["words", "words in windows", "words of a CRF"])
def test_words_that_were_read_but_are_not_finite_are_refused_not_called_truncated(name, ask):
    model = damaged(name, np.nan, "river")

    def answers(*texts):
        if ask == "serve":
            return model.serve("serving_default", of_server(texts))
        asked = [text.split() for text in texts] if ask == "tag" else [*texts]
        return getattr(model, ask)(asked[0] if len(asked) == 1 else asked)

    with error_names(ValueError, "1 of 1 text", "not finite", "text 1"):
        answers(TEXTS[3])
    with error_names(ValueError, "1 of 5 texts", "not finite", "text 4"):
        answers(*TEXTS)
    answers(TEXTS[0])
    assert model.tag([]) == []


def test_words_that_are_cut_are_no_damage_and_hide_none():
    words = LONG[5].split()
    with warning_names("truncated words", 8):
        found = damaged("words", np.nan, "plot").tag(words)  # the last word
    assert [each["label"] is None for each in found] == [False] * (LONGEST - 2) + [True] * 8
    with error_names(ValueError, "1 of 1 text", "not finite"):
        damaged("words", np.nan, "story").tag(words)
    with error_names(ValueError, "1 of 2 texts", "not finite", "text 2"):  # in the last window alone
        damaged("words in windows", np.nan, "plot").tag([["good"], words])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_not_finite_is_found_among_zeros(value):
    model = damaged("weights of tokens", value, "river")
    for options in ({}, {"top_k": 1}):
        with error_names(ValueError, "1 of 5 texts", "not finite", "text 4"):
            model.encode(TEXTS, **options)
    with error_names(ValueError, "1 of 5 texts", "not finite", "text 4"):
        model.serve("serving_default", of_server(TEXTS))
    check(model.encode(TEXTS[:3]), [weighted(text) for text in TEXTS[:3]])


def test_the_window_that_is_not_finite_is_named_by_its_place():
    model = damaged("questions", np.nan, "story")
    for tokens in (1024, 1):  # the longest windows are computed first
        with error_names(ValueError, "1 of 4 windows", "not finite", "window 3"):
            model.answer(["film"] * 4, ["good film", "bad film", "the story", TEXTS[3]], batch_tokens=tokens)


@pytest.mark.filterwarnings("ignore:(invalid|divide)")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_masks_whose_logits_are_not_finite_are_refused_and_end(value):
    outputs = lambda ids, mask, values: {"logits": np.full((*ids.shape, len(ID)), value)}  # noqa: E731
    _, model = Case("BertMaskedLM", {}, outputs, "fill", ([],), fill_by_hand).model()
    for text in ("[MASK]", "[MASK] and [MASK] on [MASK]"):
        with error_names(ValueError, "1 of 1 text", "not finite"):
            model.fill(text)
        with error_names(ValueError, "1 of 1 text", "not finite"):
            model.serve("serving_default", of_server([text]))


def test_calls_that_are_wrong():
    _, model = CASES["vectors"].model()
    for call in (model, model.encode):
        with error_names(TypeError, "text 1", "None", "str"):
            call(["good", None])
    with error_names(ValueError, "batch_tokens", 0):
        model.encode("good", batch_tokens=0)
    with error_names(ValueError, "passage", "query"):
        model.encode("good", prompt="passage")
    with error_names(AttributeError, "BertSentenceEncoder", "classify", "encode"):
        model.classify("good")
    with error_names(ValueError, "pooling", "fixed", "max"):
        model.configure(pooling="max")
    with error_names(ValueError, "passage", "query"):
        model.configure(default_prompt="passage")
    model.configure(default_prompt="query", pooling=None)
    check(model.encode("good"), row(["you", "see", "good"]).sum(axis=0))
    check(model.encode("good", prompt="none"), row(["good"]).sum(axis=0))
    model.configure(normalize=True)
    check(model.encode("good"), unit(row(["you", "see", "good"]).sum(axis=0)))
    model.configure(normalize=False)
    check(model.encode("good"), row(["you", "see", "good"]).sum(axis=0))
    _, of_length_1 = CASES["vectors of length 1 in windows, without their prompt"].model()
    with error_names(ValueError, "normalize", "fixed at True", "export the model again", "normalize=False"):
        of_length_1.configure(normalize=False, default_prompt="none")
    assert (of_length_1.normalize, of_length_1.default_prompt) == (True, "query")
    for value in (True, None):
        of_length_1.configure(normalize=value)
    check(of_length_1.encode("good"), without_prompt("good"))
    _, model = CASES["vectors"].model()
    without_head = CASES["vectors of length 1 in windows, without their prompt"]._replace(head=None)
    with error_names(ValueError, "head", "include_prompt=False"):
        without_head.model()[1].encode("good")
    with warning_names(LONGEST, 1):
        whole = " ".join(cut(LONG[5]))  # fills a row
        check(model([LONG[5], whole])["embedding"], np.array([row(cut(whole)).sum(axis=0)] * 2))
    _, model = CASES["scores"].model()
    single = {"text": np.array([b"film"], object), "text_pair": np.array([b"warm", b"it"], object)}
    check(
        [*model.serve("serving_default", single)["score"]], [sigmoid(logit("film", each)[0]) for each in ("warm", "it")]
    )
    chooser = CASES["choices"].model()[1]
    asked = {"question": np.array([b"film"] * 2, object), "choice": single["text_pair"]}
    check([*chooser.serve("serving_default", asked)["logit"]], [logit("film", each)[0] for each in ("warm", "it")])
    with error_names(ValueError, "2 texts", "1 in text_pair"):
        model.serve("serving_default", {"text": single["text_pair"], "text_pair": single["text"]})
