"""Requests of vector clients: OpenAI's embeddings; reranking in the form of Cohere and Jina, and that of TEI.

https://platform.openai.com/docs/api-reference/embeddings, https://docs.cohere.com/reference/rerank,
https://huggingface.github.io/text-embeddings-inference (TEI)
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from keras_bert.server.errors import MAX_BYTES, Code, ServingError, failed_precondition, invalid_argument
from keras_bert.server.json_arrays import abbreviate, to_bytes, to_lists
from keras_bert.server.model import TOKEN_COUNT, Arrays, Model, ModelSpec, Signature, check_rows
from keras_bert.server.predicting import Answer, Parse, Prediction
from keras_bert.server.versions import Models, Versions

# OpenAI's, and those of Azure's clients, which may name the model there.
EMBEDDINGS_URL = "(?:/openai)?/v1/embeddings|(?:/openai|/v1)/deployments/(?P<model>[^/]+)/embeddings"
_MAX_LEVELS = 100  # of documents that are returned; Python writes JSON recursively


class Ability(NamedTuple):
    """What a model's signature must have to answer a kind of request."""

    task: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str = TOKEN_COUNT  # of the signature

    def signature(self, model: Model) -> Signature | None:
        found = model.signatures.get(self.name)
        if found is None or tuple(found.inputs) != self.inputs:
            return None
        return found if {*self.outputs} <= found.outputs.keys() else None


EMBEDS = Ability("sentence encoder", ("text",), ("embedding", "token_count"))
RERANKS = Ability("reranker", ("text", "text_pair"), ("score", "token_count"))
COMPARES_TOKENS = RERANKS._replace(task="multi-vector encoder", name="rerank")


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


def answering(name: str, parse: Parse, *abilities: Ability) -> Callable[..., Answer]:
    """Makes what answers a URL: its name, in metrics, and how to parse a request for a model with an ability."""

    def answer(models: Models, match: re.Match[str], document: dict[str, Any]) -> Answer:
        named = match.groupdict().get("model")
        return _find_model(models, {"model": unquote(named)} if named else document, *abilities), parse

    answer.__name__ = name
    return answer


def _find_model(models: Models, document: dict[str, Any], *abilities: Ability) -> ModelSpec:
    """Reads which model a request names; if it names none, finds the only one that has one of the abilities."""
    name = document.get("model")
    if name is None:
        served = [each.current.model for each in models.by_name.values() if each.current is not None]
        names = [model.name for model in served if not abilities or any(each.signature(model) for each in abilities)]
        if len(names) != 1:
            known = ", ".join(names) or f"there is no {tasks_of(abilities) or 'model'}"
            raise invalid_argument(f"the request names no model; served: {known}", field="model")
        (name,) = names
    if not isinstance(name, str):
        raise invalid_argument(f"model is {abbreviate(name)}, not a string", field="model")
    return ModelSpec(models.find(name).name)


def tasks_of(abilities: Sequence[Ability]) -> str:
    return " or ".join(dict.fromkeys(each.task for each in abilities))


def signature_of(model: Model, *abilities: Ability) -> Signature:
    """Finds the signature that has one of the abilities."""
    for ability in abilities:
        if (signature := ability.signature(model)) is not None:
            return signature
    needed = abilities[0]
    raise failed_precondition(
        f"{model.name} is no {tasks_of(abilities)}, or an old export of one: it has no signature {needed.name} from "
        f"{' and '.join(needed.inputs)} to {' and '.join(needed.outputs)}, as export_serving writes it",
        field="model",
    )


_EXPECTED = {str: "a string", list: "a list", int: "a whole number", bool: "true or false", dict: "an object"}
_EMBEDDINGS = {"model": str, "input": (str, list), "encoding_format": str, "dimensions": int, "user": str}
_RERANK = {"model": str, "query": str, "documents": list, "top_n": int, "return_documents": bool}
_TEI = {"model": str, "query": str, "texts": list, "return_text": bool, "raw_scores": bool, "truncate": bool}
_TEI |= {"truncation_direction": str}


def wrong(field: str, value: object, expected: str) -> ServingError:
    return invalid_argument(f"{field} is {abbreviate(value)}; expected {expected}", field=field)


def read_fields(document: dict[str, Any], types: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Checks the fields of a request. Those that are missing are None."""
    fields = {name: value for name, value in document.items() if value is not None}
    for name, value in fields.items():
        if name not in types:
            raise invalid_argument(f"{name} is not supported; the fields are {', '.join(types)}", field=name)
        if not isinstance(value, types[name]) or (isinstance(value, bool) and types[name] is not bool):
            raise wrong(name, value, _EXPECTED.get(types[name], "a string, or a list of strings"))
    for name in required:
        if name not in fields:
            raise invalid_argument(f"the request lacks {name}", field=name)
    return dict.fromkeys(types) | fields


def as_texts(field: str, values: str | list[Any]) -> np.ndarray:
    """Converts a string, or strings, to bytes. Raises ServingError if there are none, too many, or other values."""
    values = [values] if isinstance(values, str) else values
    if not values:
        raise invalid_argument(f"{field} is empty; expected at least one text", field=field, http_status=400)
    check_rows(len(values))
    for number, value in enumerate(values):
        if isinstance(value, int | list) and field in ("input", "inputs"):
            raise invalid_argument(
                f"{field} has token ids, whose tokenizer may be another than the model's; send strings (in LangChain: "
                "check_embedding_ctx_length=False)",
                field=field,
            )
        if not isinstance(value, str):
            raise wrong(f"{field}[{number}]", value, "a string")
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
                raise wrong("documents", each, "numbers that an answer in JSON can return")
            if isinstance(each, str):
                to_bytes(each)
        inner = [[*each, *each.values()] if isinstance(each, dict) else each for each in values]
        values = [each for values in inner if isinstance(values, list) for each in values]


def finite(values: np.ndarray) -> np.ndarray:
    """Returns a model's answer. Raises ServingError if it has NaN or infinity, which JSON does not know."""
    finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if not finite.all():
        raise ServingError(Code.INTERNAL, f"the model's answer to text {int(np.argmin(finite))} is not finite")
    return values


def _usage(outputs: Arrays) -> dict[str, int]:
    tokens = int(outputs["token_count"].sum())
    return {"prompt_tokens": tokens, "total_tokens": tokens}


def embedding_of(signature: Signature, size: int | None) -> str:
    """Finds the output with vectors of a size; None: whole ones."""
    vectors = {name: spec.shape or () for name, spec in signature.outputs.items() if name.startswith("embedding")}
    sizes = {shape[-1]: name for name, shape in vectors.items() if len(shape) == 2}
    output = "embedding" if size is None else sizes.get(size)
    if output is None:
        known = ", ".join(map(str, sizes))
        raise wrong("dimensions", size, f"{known} (export_serving(dimensions=...) adds sizes that the model has)")
    return output


def check_direction(fields: Mapping[str, Any]) -> None:
    if (direction := fields.get("truncation_direction")) and direction.lower() != "right":
        raise wrong("truncation_direction", direction, "Right: the model keeps the beginning of long texts")


def _parse_embeddings(model: Model, document: dict[str, Any]) -> Prediction:
    signature = signature_of(model, EMBEDS)
    fields = read_fields(document, _EMBEDDINGS, "input")
    texts, encoding = fields["input"], fields["encoding_format"] or "float"
    if encoding not in ("float", "base64"):
        raise wrong("encoding_format", encoding, "float or base64")
    output = embedding_of(signature, fields["dimensions"])

    def to_document(outputs: Arrays) -> dict[str, Any]:
        vectors = finite(outputs[output])
        if encoding == "base64":
            values = [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]
        else:
            values = to_lists(vectors)
        data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(values)]
        return {"object": "list", "data": data, "model": model.name, "usage": _usage(outputs)}

    return Prediction(signature, {"text": as_texts("input", texts)}, to_document)


def _parse_rerank(model: Model, document: dict[str, Any]) -> Prediction:
    signature = signature_of(model, RERANKS, COMPARES_TOKENS)
    is_tei = "texts" in document
    name, score = ("texts", "score") if is_tei else ("documents", "relevance_score")
    fields = read_fields(document, _TEI if is_tei else _RERANK, "query", name)
    top, documents = fields.get("top_n"), fields[name]
    if top is not None and top < 1:
        raise wrong("top_n", top, "1 or more")
    is_raw = fields.get("raw_scores") or False
    if is_raw and "logit" not in signature.outputs:
        raise wrong("raw_scores", True, "false: the export has no logits")
    most = model.most_tokens if fields.get("truncate") is False else None
    if fields.get("truncate") is False and most is None:
        raise wrong("truncate", False, "true: the model truncates long texts")
    if fields.get("return_documents"):
        _check_returnable(documents)
    check_direction(fields)
    texts = [each["text"] if isinstance(each, dict) and "text" in each else each for each in documents]
    query = as_texts("query", fields["query"])
    if len(query[0]) * len(texts) > MAX_BYTES:
        raise invalid_argument(f"the query, once for each of {len(texts)} {name}, is over {MAX_BYTES} bytes", "query")
    pairs = {"text": np.repeat(query, len(texts)), "text_pair": as_texts(name, texts)}

    def to_document(outputs: Arrays) -> Any:
        longest = int(outputs["token_count"].argmax())
        if most is not None and outputs["token_count"][longest] >= most:
            raise invalid_argument(
                f"{name}[{longest}] and the query fill the {most} tokens that the model reads, so they may be longer; "
                "truncate: true lets the model cut them",
                field="truncate",
            )
        scores = to_lists(finite(outputs["logit" if is_raw else "score"]))
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


embeddings = answering("embeddings", _parse_embeddings, EMBEDS)
rerank = answering("rerank", _parse_rerank, RERANKS, COMPARES_TOKENS)
