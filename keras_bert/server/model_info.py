"""GetModelMetadata and GetModelStatus, for both protocols."""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataResponse, SignatureDefMap
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusResponse
from tensorflow_serving.apis.model_pb2 import ModelSpec

from keras_bert.server.errors import invalid_argument
from keras_bert.server.versions import LoadedVersion, Versions

SIGNATURES = "signature_def"  # the only kind of metadata


def model_spec(versions: Versions, version: LoadedVersion, signature_name: str) -> ModelSpec:
    """A response's `model_spec`."""
    spec = ModelSpec(name=versions.name, signature_name=signature_name)
    spec.version.value = version.number
    return spec


def metadata(versions: Versions, spec: ModelSpec, fields: Sequence[str]) -> GetModelMetadataResponse:
    """The signatures of a version."""
    if set(fields) != {SIGNATURES}:
        raise invalid_argument(f"metadata_field is {', '.join(fields[:10]) or 'empty'}; expected {SIGNATURES}")
    with versions.lease(spec) as version:
        response = GetModelMetadataResponse(model_spec=model_spec(versions, version, ""))
        response.metadata[SIGNATURES].Pack(SignatureDefMap(signature_def=version.model.definitions))
    return response


def status(versions: Versions, spec: ModelSpec) -> GetModelStatusResponse:
    """The states of one version or of all."""
    response = GetModelStatusResponse()
    for number, found in versions.status(spec).items():
        one = response.model_version_status.add(version=number, state=found.state)
        one.status.error_code = found.error.code.value[0] if found.error else 0
        one.status.error_message = found.error.message if found.error else ""
    return response
