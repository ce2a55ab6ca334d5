"""TF Serving's gRPC services."""

# ruff: noqa: N802  the methods have the names of the protocol
from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2_grpc
from tensorflow_serving.apis import model_pb2, model_service_pb2_grpc, prediction_service_pb2_grpc
from tensorflow_serving.apis.get_model_metadata_pb2 import (
    GetModelMetadataRequest,
    GetModelMetadataResponse,
    SignatureDefMap,
)
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusRequest, GetModelStatusResponse
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from keras_bert.server.errors import MAX_BYTES, Code, ServingError, internal_error, invalid_argument
from keras_bert.server.model import ModelSpec
from keras_bert.server.predicting import Predictor
from keras_bert.server.requests import Requests
from keras_bert.server.saved_model import from_array, to_arrays
from keras_bert.server.versions import SIGNATURES, Models

_log = logging.getLogger(__name__)


class _Interceptor(grpc.aio.ServerInterceptor):
    """Parses every request, and turns exceptions into gRPC's status codes, where gRPC itself would answer UNKNOWN."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler | None]],
        details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        handler = await continuation(details)
        if handler is None:
            return None
        kind = "unary_stream" if handler.response_streaming else "unary_unary"
        parse: Any = handler.request_deserializer
        _, service, name = details.method.split("/")
        is_health = service.startswith("grpc.health.")

        async def answer(message: bytes, context: grpc.aio.ServicerContext) -> Message:
            async def work() -> Message:
                try:
                    if not is_health:
                        given = dict(context.invocation_metadata() or ())
                        self._requests.check_key(str(given.get("authorization", "")))
                    return await getattr(handler, kind)(parse(message), context)
                except DecodeError as error:
                    raise invalid_argument(f"the request cannot be parsed: {error}") from None
                except NotImplementedError:
                    raise ServingError(Code.UNIMPLEMENTED, f"{details.method} is not implemented") from None

            try:
                if is_health:  # while the server stops, too
                    return await work()
                return await self._requests.answer("grpc", name, work, context.time_remaining())
            except ServingError as error:
                await context.abort(grpc.StatusCode[error.code.name], error.message)
            except grpc.aio.AbortError:
                raise
            except Exception as error:
                _log.exception("%s failed", details.method)
                await context.abort(grpc.StatusCode.INTERNAL, internal_error(error).message)

        # Handlers are named tuples, although grpc's types do not show it.
        return handler._replace(request_deserializer=None, **{kind: answer})  # pyright: ignore[reportAttributeAccessIssue]


def _read(spec: model_pb2.ModelSpec) -> ModelSpec:
    version = spec.version.value if spec.HasField("version") else None
    return ModelSpec(spec.name, version, spec.version_label if spec.HasField("version_label") else None)


class Service(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    """Answers Predict, GetModelMetadata and GetModelStatus. TF Serving's other methods are not implemented."""

    def __init__(self, models: Models, predictor: Predictor) -> None:
        self._models = models
        self._predictor = predictor

    async def Predict(self, request: PredictRequest, context: grpc.aio.ServicerContext) -> PredictResponse:
        asked = _read(request.model_spec)
        with self._models.find(asked.name).lease(asked) as version:
            signature = version.model.signature(request.model_spec.signature_name)
            output_names = signature.chosen_outputs(request.output_filter)
            inputs = to_arrays(request.inputs, signature)
            outputs = await self._predictor.predict(version.model, signature, inputs)
            response = PredictResponse(outputs={name: from_array(outputs[name]) for name in output_names})
            response.model_spec.name, response.model_spec.signature_name = asked.name, signature.name
            response.model_spec.version.value = version.number
            return response

    async def GetModelMetadata(
        self, request: GetModelMetadataRequest, context: grpc.aio.ServicerContext
    ) -> GetModelMetadataResponse:
        if set(fields := request.metadata_field) != {SIGNATURES}:
            raise invalid_argument(f"metadata_field is {', '.join(fields[:10]) or 'empty'}; expected {SIGNATURES}")
        asked = _read(request.model_spec)
        found = self._models.find(asked.name).metadata(asked)
        response = json_format.ParseDict({"model_spec": found["model_spec"]}, GetModelMetadataResponse())
        response.metadata[SIGNATURES].Pack(json_format.ParseDict(found["metadata"][SIGNATURES], SignatureDefMap()))
        return response

    async def GetModelStatus(
        self, request: GetModelStatusRequest, context: grpc.aio.ServicerContext
    ) -> GetModelStatusResponse:
        asked = _read(request.model_spec)
        return json_format.ParseDict(self._models.find(asked.name).status(asked), GetModelStatusResponse())


class Rpc(NamedTuple):
    """gRPC's server, and its health service."""

    server: grpc.aio.Server
    health: health.aio.HealthServicer


def new_server(models: Models, predictor: Predictor, requests: Requests, most_connections: int, timeout: float) -> Rpc:
    """Makes a server with all services, which is not started."""
    milliseconds = min(2**31 - 1, int(1000 * timeout) + 1)
    server = grpc.aio.server(
        interceptors=[_Interceptor(requests)],
        options=[
            ("grpc.max_receive_message_length", MAX_BYTES),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_allowed_incoming_connections", most_connections),
            ("grpc.server_handshake_timeout_ms", min(milliseconds, 120_000)),
            ("grpc.max_connection_idle_ms", milliseconds),
            ("grpc.so_reuseport", 0),  # otherwise a second server on this port would take half of the requests
        ],
    )
    service, health_service = Service(models, predictor), health.aio.HealthServicer()
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(service, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(service, server)
    health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
    return Rpc(server, health_service)
