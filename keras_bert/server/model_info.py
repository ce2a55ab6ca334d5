"""GetModelMetadata and GetModelStatus, for both protocols."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_pb2

from keras_bert.server.errors import invalid_argument
from keras_bert.server.versions import LoadedVersion, Versions


def lease(versions: Versions, request: Any) -> AbstractContextManager[LoadedVersion]:
    """The version that the `model_spec` of a request asks for; see `Versions.lease`."""
    if not request.HasField("model_spec"):
        raise invalid_argument("Missing ModelSpec")
    spec = request.model_spec
    choice = spec.WhichOneof("version_choice")
    return versions.lease(
        spec.name,
        spec.version.value if choice == "version" else None,
        spec.version_label if choice == "version_label" else None,
    )


def model_spec(versions: Versions, version: LoadedVersion, signature_name: str) -> model_pb2.ModelSpec:
    """The `model_spec` of a response."""
    spec = model_pb2.ModelSpec(name=versions.name, signature_name=signature_name)
    spec.version.value = version.number
    return spec


def metadata(
    versions: Versions, request: get_model_metadata_pb2.GetModelMetadataRequest
) -> get_model_metadata_pb2.GetModelMetadataResponse:
    """The signatures of a version, which are the only kind of metadata."""
    if not request.HasField("model_spec"):
        raise invalid_argument("Missing ModelSpec")
    if not request.metadata_field:
        raise invalid_argument("GetModelMetadataRequest must specify at least one metadata_field")
    for kind in request.metadata_field:
        if kind != "signature_def":
            raise invalid_argument(f"Metadata field {kind} is not supported")
    with lease(versions, request) as version:
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name, definition in version.model.definitions.items():
            signatures.signature_def[name].CopyFrom(definition)
        response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=model_spec(versions, version, ""))
    response.metadata["signature_def"].Pack(signatures)
    return response


def status(
    versions: Versions, request: get_model_status_pb2.GetModelStatusRequest
) -> get_model_status_pb2.GetModelStatusResponse:
    """The states of one version or of all."""
    if not request.HasField("model_spec"):
        raise invalid_argument("Missing ModelSpec")
    spec = request.model_spec
    number = spec.version.value if spec.HasField("version") else None
    response = get_model_status_pb2.GetModelStatusResponse()
    for found, each in versions.status(spec.name, number).items():
        one = response.model_version_status.add(version=found, state=each.state)
        one.status.error_code = each.error.code.value[0] if each.error else 0
        one.status.error_message = each.error.message if each.error else ""
    return response
