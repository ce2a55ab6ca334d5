"""Requests of clients of text-embeddings-inference (TEI): https://huggingface.github.io/text-embeddings-inference

A TEI serves one model. Here, `model` in a request or in its URL names it, else it is the only one that can answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert import __version__
from keras_bert.answers.entities import LabelScheme, locate_entities
from keras_bert.engines.models import of_length_1
from keras_bert.server import vector_clients as clients
from keras_bert.server.errors import MAX_ROWS, Code, ServingError, invalid_argument
from keras_bert.server.json_arrays import to_lists
from keras_bert.server.model import DEFAULT, Arrays, Model, check_rows
from keras_bert.server.predicting import Answer, Prediction
from keras_bert.server.versions import Models

# A base URL of one of several models ends in its name, as in TF Serving's URLs.
BASE_URL = "(?:/v1/models/(?P<model>[^/:]+))?"

_SPARSE = clients.Ability("sparse encoder", ("text",), ("tokens", "weights"), DEFAULT)
_PREDICTS = [
    clients.Ability("classifier or token classifier", inputs, outputs, DEFAULT)
    for inputs in (("text",), ("text", "text_pair"))
    for outputs in (("labels", "probabilities"), ("values",))
]

# What differs from HTTP's status codes of other protocols, and the types of errors by status code.
HTTP_STATUS = {Code.INVALID_ARGUMENT: 422, Code.FAILED_PRECONDITION: 424, Code.INTERNAL: 424}
_ERROR_TYPES = {400: "empty", 424: "backend", 429: "overloaded", 503: "unhealthy", 504: "overloaded"}

_OPTIONS = {"model": str, "truncate": bool, "truncation_direction": str, "prompt_name": str}
_INPUTS = {"inputs": (str, list), **_OPTIONS}
_EMBED = {**_INPUTS, "normalize": bool, "dimensions": int}
_PREDICT = {**_INPUTS, "raw_scores": bool, "parameters": dict}
_TOKENIZE = {"model": str, "inputs": (str, list), "add_special_tokens": bool, "prompt_name": str}
_DECODE = {"model": str, "ids": list, "skip_special_tokens": bool}


def error_document(error: ServingError, http_status: int) -> dict[str, Any]:
    return {"error": error.message, "error_type": _ERROR_TYPES.get(http_status, "validation")}


def _read_texts(model: Model, fields: Mapping[str, Any], columns: Sequence[Any], name: str = "inputs") -> Arrays:
    """Makes the inputs of a signature, a column for each of its texts, with the prompt before the first."""
    clients.check_direction(fields)
    arrays = [clients.as_texts(name, column) for column in columns]
    if prompt := _prompt(model, fields["prompt_name"]):
        arrays[0] = np.array([prompt.encode() + text for text in arrays[0]], object)
    if fields["truncate"] is False:
        _check_lengths(model, arrays, name)
    return dict(zip(("text", "text_pair"), arrays, strict=False))


def _prompt(model: Model, name: str | None) -> str:
    """Finds the text of a prompt, which the request names; "": the export puts the right one, or none, before texts."""
    settings = {} if name is None else model.reading.settings
    if name is None or name == settings.get("default_prompt"):
        return ""
    prompts = settings.get("prompts") or {}
    if name not in prompts:
        raise clients.wrong("prompt_name", name, ", ".join(prompts) or "none: the model has no prompts")
    if settings.get("default_prompt") or not settings.get("include_prompt", True):
        kept = settings.get("default_prompt") or "none"
        raise clients.wrong("prompt_name", name, f"{kept}: another prompt needs an export with default_prompt={name!r}")
    return prompts[name]


def _check_lengths(model: Model, columns: Sequence[np.ndarray], name: str) -> None:
    preprocessor, settings = model.reading.preprocessor, model.reading.settings
    if preprocessor.stride is not None:  # the model reads all windows
        return
    prompt = (settings.get("prompts") or {}).get(settings.get("default_prompt"), "")  # which the export puts there
    segments = [preprocessor.tokenize([prompt + text.decode() for text in column]) for column in columns]
    for number, row in enumerate(zip(*segments, strict=True)):
        count = sum(map(len, row)) + preprocessor.special_tokens(len(row))
        if count > preprocessor.longest:
            raise invalid_argument(
                f"{name}[{number}] has {count} tokens, and the model reads {preprocessor.longest}; truncate: true lets "
                "the model cut it",
                field="truncate",
            )


def _parse_embed(model: Model, document: dict[str, Any]) -> Prediction:
    signature = clients.signature_of(model, clients.EMBEDS)
    fields = clients.read_fields(document, _EMBED, "inputs")
    output = clients.embedding_of(signature, fields["dimensions"])

    def to_document(outputs: Arrays) -> list[list[float]]:
        vectors = clients.finite(outputs[output])
        return to_lists(vectors if fields["normalize"] is False else of_length_1(vectors))

    return Prediction(signature, _read_texts(model, fields, [fields["inputs"]]), to_document)


def _parse_similarity(model: Model, document: dict[str, Any]) -> Prediction:
    signature = clients.signature_of(model, clients.EMBEDS)
    fields = clients.read_fields(document, {"model": str, "inputs": dict, "parameters": dict}, "inputs")
    options = clients.read_fields(fields["parameters"] or {}, _OPTIONS)
    texts = {"source_sentence": str, "sentences": list}
    inputs = clients.read_fields(fields["inputs"], texts, *texts)
    clients.as_texts("sentences", inputs["sentences"])  # raises if there are none

    def to_document(outputs: Arrays) -> list[float]:
        source, *sentences = of_length_1(clients.finite(outputs["embedding"]))
        return to_lists(np.array(sentences) @ source)

    texts = [inputs["source_sentence"], *inputs["sentences"]]
    return Prediction(signature, _read_texts(model, options, [texts], "[source_sentence, *sentences]"), to_document)


def _parse_sparse(model: Model, document: dict[str, Any]) -> Prediction:
    signature = clients.signature_of(model, _SPARSE)
    fields = clients.read_fields(document, _INPUTS, "inputs")
    ids = model.reading.ids

    def to_document(outputs: Arrays) -> list[list[dict[str, Any]]]:
        rows = zip(to_lists(outputs["tokens"]), to_lists(clients.finite(outputs["weights"])), strict=True)
        return [
            [{"index": ids[token], "value": value} for token, value in zip(*row, strict=True) if value] for row in rows
        ]

    return Prediction(signature, _read_texts(model, fields, [fields["inputs"]]), to_document)


def _parse_predict(model: Model, document: dict[str, Any]) -> Prediction:
    signature = clients.signature_of(model, *_PREDICTS)
    fields = clients.read_fields(document, _PREDICT, "inputs")
    is_number, finds_entities = "values" in signature.outputs, "words" in signature.outputs
    if fields["raw_scores"] and not is_number:
        raise clients.wrong("raw_scores", True, "false: the export has probabilities only")
    # Hugging Face's form of a request has "parameters", and of an answer lists of predictions, for one text, too.
    top = clients.read_fields(fields["parameters"] or {}, {} if finds_entities else {"top_k": int}).get("top_k")
    if top is not None and top < 1:
        raise clients.wrong("top_k", top, "1 or more")
    is_batch, rows = _rows(fields["inputs"], len(signature.inputs))
    labels = model.reading.labels if is_number or finds_entities else None

    def to_document(outputs: Arrays) -> list[Any]:
        if finds_entities:
            found = _entities([row[0] for row in rows], outputs, labels or [])
        else:
            scores = to_lists(clients.finite(outputs["values" if is_number else "probabilities"]))
            names = [labels or []] * len(rows) if is_number else to_lists(outputs["labels"])
            found = [
                [{"score": row[i], "label": name[i]} for i in np.argsort(-np.array(row), kind="stable")[:top]]
                for name, row in zip(names, scores, strict=True)
            ]
        return found if is_batch or (fields["parameters"] is not None and not finds_entities) else found[0]

    columns = [[*column] for column in zip(*rows, strict=True)]
    return Prediction(signature, _read_texts(model, fields, columns), to_document)


def _rows(inputs: Any, texts: int) -> tuple[bool, list[list[Any]]]:
    """Reads a row of texts, or a batch of such; says whether it is a batch."""
    is_batch = not isinstance(inputs, str) and any(isinstance(each, list) for each in inputs)
    rows: list[Any] = [*inputs] if is_batch else [[inputs] if isinstance(inputs, str) else inputs]
    check_rows(len(rows))
    for number, row in enumerate(rows):
        name = f"inputs[{number}]" if is_batch else "inputs"
        if not isinstance(row, list):
            raise clients.wrong(name, row, "a list of one or two strings, as inputs is a batch")
        if len(clients.as_texts(name, row)) != texts:
            expected = "a pair, two strings" if texts > 1 else 'one string; a batch is [["a"], ["b"]]'
            raise clients.wrong(name, row, expected)
    return is_batch, rows


def _entities(texts: Sequence[str], outputs: Arrays, labels: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Makes entities as Hugging Face's pipelines return them."""
    scheme = LabelScheme.detect(labels)
    columns = [to_lists(outputs[name]) for name in ("words", "labels", "probabilities", "starts", "ends")]
    found = []
    for text, *row in zip(texts, *columns, strict=True):
        words = [each for each in zip(*row, strict=True) if each[0]]  # others are padding
        answers: Any = [{"word": word, "label": label or None, "probability": p} for word, label, p, *_ in words]
        entities = locate_entities(text, [(start, end) for *_, start, end in words], answers, scheme)
        names = {"entity_group": "label", "score": "probability", "word": "text", "start": "start", "end": "end"}
        found.append([{name: each[ours] for name, ours in names.items()} for each in entities])
    return found


def _parse_tokenize(model: Model, document: dict[str, Any]) -> Prediction:
    fields = clients.read_fields(document, _TOKENIZE, "inputs")
    texts = clients.as_texts("inputs", fields["inputs"])
    prompt, tokenizer = _prompt(model, fields["prompt_name"]), model.reading.preprocessor.tokenizer
    first, last = (
        [{"id": tokenizer.vocabulary.index(token), "text": token, "special": True, "start": None, "stop": None}]
        for token in (tokenizer.special_tokens[name] for name in ("cls_token", "sep_token"))
    )

    def to_document(outputs: Arrays) -> list[list[dict[str, Any]]]:
        found, decoded = [], [prompt + text.decode() for text in texts]
        for text, tokens in zip(decoded, tokenizer.tokenize_with_offsets(decoded), strict=True):
            ends = np.cumsum([0, *(len(each.encode()) for each in text)])  # in bytes, of so many characters
            rows = [
                {"id": i, "text": text[start:end], "special": False, "start": int(ends[start]), "stop": int(ends[end])}
                for i, start, end in zip(*tokens, strict=True)
            ]
            found.append(rows if fields["add_special_tokens"] is False else [*first, *rows, *last])
        return found

    return Prediction(None, {}, to_document)


def _parse_decode(model: Model, document: dict[str, Any]) -> Prediction:
    fields = clients.read_fields(document, _DECODE, "ids")
    tokenizer = model.reading.preprocessor.tokenizer
    rows = fields["ids"] if any(isinstance(each, list) for each in fields["ids"]) else [fields["ids"]]
    check_rows(len(rows))
    if not fields["ids"]:
        raise invalid_argument("ids is empty; expected some", field="ids", http_status=400)
    for number, row in enumerate(rows):
        if not isinstance(row, list):
            raise clients.wrong(f"ids[{number}]", row, "a list of ids, as ids is a batch")
        for each in row:
            if type(each) is not int or not 0 <= each < tokenizer.vocabulary_size:
                raise clients.wrong("ids", each, f"ids from 0 to {tokenizer.vocabulary_size - 1}")
    skips = fields["skip_special_tokens"] is not False
    return Prediction(None, {}, lambda _: tokenizer.library.decode_batch(rows, skip_special_tokens=skips))


def _info(models: Models, model: Model) -> dict[str, Any]:
    reading, longest = model.reading, model.reading.preprocessor.longest
    labels = reading.labels or ["LABEL_0"]
    numbered: dict[str, Any] = {"id2label": {str(i): label for i, label in enumerate(labels)}}
    numbered["label2id"] = {label: i for i, label in enumerate(labels)}
    ranks = any(each.signature(model) for each in (clients.RERANKS, clients.COMPARES_TOKENS))
    kind: dict[str, Any] = {"reranker" if ranks else "classifier": numbered}
    if clients.EMBEDS.signature(model) or _SPARSE.signature(model):
        kind = {"embedding": {"pooling": "splade" if _SPARSE.signature(model) else reading.settings["pooling"]}}
    return {
        **{"model_id": model.name, "served_model_name": model.name, "model_type": kind},
        "model_dtype": "float32",  # of answers
        **{"auto_truncate": True, "max_input_length": longest, "max_client_batch_size": MAX_ROWS},
        **{"max_batch_tokens": longest * models.limits["max_batch_requests"], **models.limits},
        **{"version": __version__, "model_sha": None, "sha": None, "docker_label": None},
    }


# -- What answers each URL


_PARSES: dict[str, tuple[Any, ...]] = {  # by the ends of URLs
    "embed": (_parse_embed, clients.EMBEDS),
    "embed_sparse": (_parse_sparse, _SPARSE),
    "predict": (_parse_predict, *_PREDICTS),
    "similarity": (_parse_similarity, clients.EMBEDS),
    "tokenize": (_parse_tokenize,),
    "decode": (_parse_decode,),
}
_TASKS = (clients.EMBEDS, _SPARSE, *_PREDICTS)
ANSWERS = {name: clients.answering(name, *each) for name, each in _PARSES.items()}


def _parse_task(model: Model, document: dict[str, Any]) -> Prediction:
    clients.signature_of(model, *_TASKS)  # raises
    parses = (parse for parse, *abilities in _PARSES.values() if any(each.signature(model) for each in abilities))
    return next(parses)(model, document)


def info(models: Models, match: re.Match[str], document: dict[str, Any]) -> Answer:
    answer = clients.answering("info", lambda model, _: Prediction(None, {}, lambda _: _info(models, model)))
    return answer(models, match, {})


def task(models: Models, match: re.Match[str], document: dict[str, Any]) -> Answer:
    """Answers a URL that names no task: that of the document, or else of the model."""
    if "texts" in document:
        return clients.rerank(models, match, document)
    if isinstance(document.get("inputs"), dict):
        return ANSWERS["similarity"](models, match, document)
    return clients.answering("task", _parse_task, *_TASKS)(models, match, document)
