"""TF Serving's gRPC services."""

# ruff: noqa: N802  the methods have the names of the protocol
from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2_grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc
from tensorflow_serving.apis.get_model_metadata_pb2 import GetModelMetadataRequest, GetModelMetadataResponse
from tensorflow_serving.apis.get_model_status_pb2 import GetModelStatusRequest, GetModelStatusResponse
from tensorflow_serving.apis.predict_pb2 import PredictRequest, PredictResponse

from keras_bert.server.errors import MAX_BYTES, ServingError, internal_error, invalid_argument
from keras_bert.server.model import from_array, to_arrays
from keras_bert.server.predicting import Predictor
from keras_bert.server.requests import Requests
from keras_bert.server.versions import Models

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

        async def answer(message: bytes, context: grpc.aio.ServicerContext) -> Message:
            async def work() -> Message:
                try:
                    return await getattr(handler, kind)(parse(message), context)
                except DecodeError as error:
                    raise invalid_argument(f"the request cannot be parsed: {error}") from None
                except NotImplementedError:
                    reason = f"{details.method} is not implemented"
                    raise ServingError(grpc.StatusCode.UNIMPLEMENTED, reason) from None

            try:
                if service.startswith("grpc.health."):  # while the server stops, too
                    return await work()
                return await self._requests.answer("grpc", name, work, context.time_remaining())
            except ServingError as error:
                await context.abort(error.code, error.message)
            except grpc.aio.AbortError:
                raise
            except Exception as error:
                _log.exception("%s failed", details.method)
                await context.abort(grpc.StatusCode.INTERNAL, internal_error(error).message)

        # Handlers are named tuples, although grpc's types do not show it.
        return handler._replace(request_deserializer=None, **{kind: answer})  # pyright: ignore[reportAttributeAccessIssue]


class Service(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    """Answers Predict, GetModelMetadata and GetModelStatus. TF Serving's other methods are not implemented."""

    def __init__(self, models: Models, predictor: Predictor) -> None:
        self._models = models
        self._predictor = predictor

    async def Predict(self, request: PredictRequest, context: grpc.aio.ServicerContext) -> PredictResponse:
        versions = self._models.find(request.model_spec)
        with versions.lease(request.model_spec) as version:
            signature = version.model.signature(request.model_spec.signature_name)
            output_names = signature.chosen_outputs(request.output_filter)
            inputs = to_arrays(request.inputs, signature)
            outputs = await self._predictor.predict(version.model, signature, inputs)
            return PredictResponse(
                model_spec=versions.spec(version, signature.name),
                outputs={name: from_array(outputs[name]) for name in output_names},
            )

    async def GetModelMetadata(
        self, request: GetModelMetadataRequest, context: grpc.aio.ServicerContext
    ) -> GetModelMetadataResponse:
        return self._models.find(request.model_spec).metadata(request.model_spec, request.metadata_field)

    async def GetModelStatus(
        self, request: GetModelStatusRequest, context: grpc.aio.ServicerContext
    ) -> GetModelStatusResponse:
        return self._models.find(request.model_spec).status(request.model_spec)


def new_server(
    models: Models, predictor: Predictor, requests: Requests, most_connections: int, timeout: float
) -> tuple[grpc.aio.Server, health.aio.HealthServicer]:
    """Makes a server with all services, which is not started, and returns it with its health service."""
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
    return server, health_service
