"""TF Serving's REST interface: https://www.tensorflow.org/tfx/serving/api_rest"""

from __future__ import annotations

import functools
import re
from typing import Any
from urllib.parse import unquote

from keras_bert.server import vector_clients
from keras_bert.server.errors import Code, ServingError, invalid_argument
from keras_bert.server.json_arrays import abbreviate, is_bytes, to_array, to_lists
from keras_bert.server.model import Arrays, Model, ModelSpec, Signature, check_rows
from keras_bert.server.predicting import Answer, Prediction
from keras_bert.server.versions import Models

MODEL_URL = r"/v1/models/(?P<model>[^/:]+)(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"


def error_document(error: ServingError, http_status: int) -> dict[str, Any]:
    return {"error": error.message}


def status(models: Models, match: re.Match[str], document: dict[str, Any]) -> Answer:
    """Answers with TF Serving's status; of a whole model, also with what OpenAI's clients retrieve."""
    spec = _model_spec(match)
    versions = models.find(spec.name)
    is_whole = not (match["version"] or match["label"])
    return versions.status(spec) | (vector_clients.model_entry(versions) if is_whole else {})


def metadata(models: Models, match: re.Match[str], document: dict[str, Any]) -> Answer:
    spec = _model_spec(match)
    return models.find(spec.name).metadata(spec)


def predict(models: Models, match: re.Match[str], document: dict[str, Any]) -> Answer:
    if (verb := match["verb"].lower()) != "predict":
        raise ServingError(Code.UNIMPLEMENTED, f"this server answers :predict; use TF Serving for :{verb}")
    return _model_spec(match), _parse


def _model_spec(match: re.Match[str]) -> ModelSpec:
    version, label = match["version"], match["label"]
    if version and (len(version) > 4000 or int(version) >= 2**63):  # Python reads no longer ones, protocols no larger
        raise invalid_argument(f"not a model and its version: {match[0]}")
    return ModelSpec(unquote(match["model"]), int(version) if version else None, unquote(label) if label else None)


def _parse(model: Model, document: dict[str, Any]) -> Prediction:
    """Parses a request, whose inputs are in rows ("instances") or columns ("inputs")."""
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid_argument(f"signature_name is {abbreviate(name)}, not a string")
    signature = model.signature(name)
    in_rows = "instances" in document
    if in_rows == ("inputs" in document):
        raise invalid_argument('a request has either "instances" or "inputs"')
    columns = _columns(document["instances"], signature) if in_rows else document["inputs"]
    return Prediction(signature, _to_arrays(columns, signature), functools.partial(_to_document, in_rows))


def _columns(rows: object, signature: Signature) -> dict[str, list[object]] | list[object]:
    """Turns rows with names into columns with names. Rows without names are the only column, and stay as they are."""
    if not isinstance(rows, list) or not rows:
        raise invalid_argument('"instances" is not a list of at least one row')
    check_rows(len(rows))
    if not _is_named(rows[0]):
        return rows
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != signature.inputs.keys():
            names = ", ".join(signature.inputs)
            raise invalid_argument(f"instances[{number}] is not an object with exactly the keys {names}")
    return {name: [row[name] for row in rows] for name in signature.inputs}


def _to_arrays(columns: Any, signature: Signature) -> Arrays:
    """Converts columns to arrays. They have names, unless the signature has only one input."""
    if not _is_named(columns):
        if len(signature.inputs) != 1:
            several = f"the signature {signature.name} has several inputs"
            raise invalid_argument(f"{several}: give objects with the keys {', '.join(signature.inputs)}")
        columns = dict.fromkeys(signature.inputs, columns)
    if missing := [name for name in signature.inputs if name not in columns]:
        raise invalid_argument(f'"inputs" lacks {", ".join(missing)}')
    return {name: to_array(columns[name], name, spec) for name, spec in signature.inputs.items()}


def _is_named(value: object) -> bool:
    return isinstance(value, dict) and not is_bytes(value)


def _to_document(in_rows: bool, outputs: Arrays) -> dict[str, Any]:
    """Makes a response in rows or in columns, as the request. A single output has no name."""
    sizes = {array.shape[:1] for array in outputs.values()}
    if in_rows and (len(sizes) > 1 or () in sizes):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in outputs.items())
        raise invalid_argument(f'the outputs cannot be split into rows: {shapes}; ask with "inputs"')
    columns = {name: to_lists(array, name.endswith("_bytes")) for name, array in outputs.items()}
    if len(columns) == 1:
        (answer,) = columns.values()
    elif in_rows:
        answer = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    else:
        answer = columns
    return {"predictions" if in_rows else "outputs": answer}
