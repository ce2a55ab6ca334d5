"""Requests of vector clients: OpenAI's embeddings; reranking in the form of Cohere and Jina, and that of TEI.

https://platform.openai.com/docs/api-reference/embeddings, https://docs.cohere.com/reference/rerank,
https://huggingface.github.io/text-embeddings-inference (TEI)
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from keras_bert.server.errors import MAX_BYTES, Code, ServingError, invalid_argument
from keras_bert.server.json_arrays import abbreviate, to_bytes, to_lists
from keras_bert.server.model import TOKEN_COUNT, Arrays, Model, ModelSpec, Signature, check_rows
from keras_bert.server.predicting import Answer, Prediction
from keras_bert.server.versions import Models, Versions

# OpenAI's, and those of Azure's clients, which may name the model there.
EMBEDDINGS_URL = "(?:/openai)?/v1/embeddings|(?:/openai|/v1)/deployments/(?P<model>[^/]+)/embeddings"
_MAX_LEVELS = 100  # of documents that are returned; Python writes JSON recursively


class _Ability(NamedTuple):
    """What a model's signature must have to answer a kind of request."""

    inputs: tuple[str, ...]
    output: str
    task: str

    def signature(self, model: Model) -> Signature | None:
        found = model.signatures.get(TOKEN_COUNT)
        if found is None or tuple(found.inputs) != self.inputs:
            return None
        return found if {self.output, "token_count"} <= found.outputs.keys() else None


_EMBEDS = _Ability(("text",), "embedding", "sentence encoder")
_RERANKS = _Ability(("text", "text_pair"), "score", "reranker")


def error_document(error: ServingError, http_status: int) -> dict[str, Any]:
    """Makes OpenAI's form of an error."""
    kind = "invalid_request_error" if http_status < 500 else "server_error"
    code = "model_not_found" if http_status == 404 and error.field == "model" else error.code.name.lower()
    return {"error": {"message": error.message, "type": kind, "param": error.field, "code": code}}


def models(models: Models, match: re.Match[str], document: dict[str, Any]) -> Answer:
    return {"object": "list", "data": [entry for each in models.by_name.values() if (entry := model_entry(each))]}


def model_entry(versions: Versions) -> dict[str, Any]:
    """Describes a model in OpenAI's form; empty if none of its versions is served."""
    if versions.current is None:
        return {}
    created = int(versions.current.since)
    return {"id": versions.name, "object": "model", "created": created, "owned_by": "keras_bert"}


def embeddings(models: Models, match: re.Match[str], document: dict[str, Any]) -> Answer:
    named = {"model": unquote(match["model"])} if match["model"] else document
    return _find_model(models, named, _EMBEDS), _parse_embeddings


def rerank(models: Models, match: re.Match[str], document: dict[str, Any]) -> Answer:
    return _find_model(models, document, _RERANKS), _parse_rerank


def _find_model(models: Models, document: dict[str, Any], ability: _Ability) -> ModelSpec:
    """Reads which model a request names; if it names none, finds the only one that can answer it."""
    name = document.get("model")
    if name is None:
        served = [each.current.model for each in models.by_name.values() if each.current is not None]
        names = [model.name for model in served if ability.signature(model) is not None]
        if len(names) != 1:
            known = ", ".join(names) or f"there is no {ability.task}"
            raise invalid_argument(f"the request names no model; served: {known}", field="model")
        (name,) = names
    if not isinstance(name, str):
        raise invalid_argument(f"model is {abbreviate(name)}, not a string", field="model")
    return ModelSpec(models.named(name).name)


def _signature(model: Model, ability: _Ability) -> Signature:
    signature = ability.signature(model)
    if signature is None:
        raise invalid_argument(
            f"{model.name} is no {ability.task}, or an old export of one: it has no signature {TOKEN_COUNT} from "
            f"{' and '.join(ability.inputs)} to {ability.output} and token_count, as export_serving writes it",
            field="model",
        )
    return signature


_EXPECTED = {str: "a string", list: "a list", int: "a whole number", bool: "true or false"}
_EMBEDDINGS = {"model": str, "input": (str, list), "encoding_format": str, "dimensions": int, "user": str}
_RERANK = {"model": str, "query": str, "documents": list, "top_n": int, "return_documents": bool}
_TEI = {"model": str, "query": str, "texts": list, "return_text": bool, "raw_scores": bool, "truncate": bool}
_TEI |= {"truncation_direction": str}


def _wrong(field: str, value: object, expected: str) -> ServingError:
    return invalid_argument(f"{field} is {abbreviate(value)}; expected {expected}", field=field)


def _read(document: dict[str, Any], types: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Checks the fields of a request. Those that are missing are None."""
    fields = {name: value for name, value in document.items() if value is not None}
    for name, value in fields.items():
        if name not in types:
            raise invalid_argument(f"{name} is not supported; the fields are {', '.join(types)}", field=name)
        if not isinstance(value, types[name]) or (isinstance(value, bool) and types[name] is not bool):
            raise _wrong(name, value, _EXPECTED.get(types[name], "a string, or a list of strings"))
    for name in required:
        if name not in fields:
            raise invalid_argument(f"the request lacks {name}", field=name)
    return dict.fromkeys(types) | fields


def _texts(field: str, values: list[Any]) -> np.ndarray:
    if not values:
        raise _wrong(field, values, "at least one text")
    check_rows(len(values))
    for number, value in enumerate(values):
        if isinstance(value, int | list) and field == "input":
            raise invalid_argument(
                "input has token ids, whose tokenizer may be another than the model's; send strings (in LangChain: "
                "check_embedding_ctx_length=False)",
                field=field,
            )
        if not isinstance(value, str):
            raise _wrong(f"{field}[{number}]", value, "a string")
    return np.array([to_bytes(value) for value in values], object)


def _check_returnable(documents: list[Any]) -> None:
    """Raises ServingError for documents that an answer in JSON cannot hold: NaN, or many levels."""
    values, levels = documents, 0
    while values:
        levels += 1
        if levels > _MAX_LEVELS:
            raise invalid_argument(f"documents have over {_MAX_LEVELS} levels of lists and objects", field="documents")
        for each in values:
            if isinstance(each, float) and not math.isfinite(each):
                raise _wrong("documents", each, "numbers that an answer in JSON can return")
            if isinstance(each, str):
                to_bytes(each)
        inner = [[*each, *each.values()] if isinstance(each, dict) else each for each in values]
        values = [each for values in inner if isinstance(values, list) for each in values]


def _finite(values: np.ndarray) -> np.ndarray:
    """Returns a model's answer. Raises ServingError if it has NaN or infinity, which JSON does not know."""
    finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if not finite.all():
        message = f"the model's answer to text {int(np.argmin(finite))} is not finite"
        raise ServingError(Code.INTERNAL, message)
    return values


def _usage(outputs: Arrays) -> dict[str, int]:
    tokens = int(outputs["token_count"].sum())
    return {"prompt_tokens": tokens, "total_tokens": tokens}


def _parse_embeddings(model: Model, document: dict[str, Any]) -> Prediction:
    signature = _signature(model, _EMBEDS)
    fields = _read(document, _EMBEDDINGS, "input")
    texts, encoding, size = fields["input"], fields["encoding_format"] or "float", fields["dimensions"]
    if encoding not in ("float", "base64"):
        raise _wrong("encoding_format", encoding, "float or base64")
    vectors = {name: spec.shape or () for name, spec in signature.outputs.items() if name.startswith("embedding")}
    sizes = {shape[-1]: name for name, shape in vectors.items() if len(shape) == 2}
    output = "embedding" if size is None else sizes.get(size)
    if output is None:
        known = ", ".join(map(str, sizes))
        raise _wrong("dimensions", size, f"{known} (export_serving(dimensions=...) adds sizes that the model has)")

    def to_document(outputs: Arrays) -> dict[str, Any]:
        vectors = _finite(outputs[output])
        if encoding == "base64":
            values = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
        else:
            values = to_lists(vectors)
        data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(values)]
        return {"object": "list", "data": data, "model": model.name, "usage": _usage(outputs)}

    return Prediction(signature, {"text": _texts("input", [texts] if isinstance(texts, str) else texts)}, to_document)


def _parse_rerank(model: Model, document: dict[str, Any]) -> Prediction:
    signature = _signature(model, _RERANKS)
    is_tei = "texts" in document
    name, score = ("texts", "score") if is_tei else ("documents", "relevance_score")
    fields = _read(document, _TEI if is_tei else _RERANK, "query", name)
    top, documents = fields.get("top_n"), fields[name]
    if top is not None and top < 1:
        raise _wrong("top_n", top, "1 or more")
    if fields.get("raw_scores"):
        raise _wrong("raw_scores", True, "false: the model has one kind of score")
    most = model.most_tokens if fields.get("truncate") is False else None
    if fields.get("truncate") is False and most is None:
        raise _wrong("truncate", False, "true: the model truncates long texts")
    if fields.get("return_documents"):
        _check_returnable(documents)
    if (direction := fields.get("truncation_direction")) and direction.lower() != "right":
        raise _wrong("truncation_direction", direction, "Right: the model keeps the beginning of long texts")
    texts = [each["text"] if isinstance(each, dict) and "text" in each else each for each in documents]
    query = _texts("query", [fields["query"]])
    if len(query[0]) * len(texts) > MAX_BYTES:
        raise invalid_argument(f"the query, once for each of {len(texts)} {name}, is over {MAX_BYTES} bytes", "query")
    pairs = {"text": np.repeat(query, len(texts)), "text_pair": _texts(name, texts)}

    def to_document(outputs: Arrays) -> Any:
        longest = int(outputs["token_count"].argmax())
        if most is not None and outputs["token_count"][longest] >= most:
            raise invalid_argument(
                f"{name}[{longest}] and the query fill the {most} tokens that the model reads, so they may be longer; "
                "truncate: true lets the model cut them",
                field="truncate",
            )
        scores = to_lists(_finite(outputs["score"]))
        order = outputs.get("logit", outputs["score"])  # old exports have scores only, of which high ones are equal
        best = np.argsort(-order, kind="stable")[:top].tolist()
        results = [{"index": index, score: scores[index]} for index in best]
        for each in results:
            if fields.get("return_text"):
                each["text"] = texts[each["index"]]
            if fields.get("return_documents"):
                document = documents[each["index"]]
                each["document"] = {"text": document} if isinstance(document, str) else document
        return results if is_tei else {"model": model.name, "results": results, "usage": _usage(outputs)}

    return Prediction(signature, pairs, to_document)
