"""TF Serving's gRPC services."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from keras_bert.server import tensor_protos
from keras_bert.server.errors import ServingError, failed_precondition
from keras_bert.server.model_info import lease, metadata, model_spec, status
from keras_bert.server.predicting import Predictor, example_signature
from keras_bert.server.signatures import CLASSIFY, DEFAULT, REGRESS
from keras_bert.server.versions import Versions

_log = logging.getLogger(__name__)

Method = Callable[[Any, Any, grpc.aio.ServicerContext], Awaitable[Any]]


def _answering_errors(method: Method) -> Method:
    """Turns exceptions into gRPC's status codes."""

    @functools.wraps(method)
    async def answer(service: Any, request: Any, context: grpc.aio.ServicerContext) -> Any:
        try:
            return await method(service, request, context)
        except ServingError as error:
            await context.abort(error.code, error.message)
        except Exception as error:
            _log.exception("%s failed", method.__name__)
            await context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")

    return answer


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict, Classify, Regress and GetModelMetadata."""

    def __init__(self, versions: Versions, predictor: Predictor) -> None:
        self._versions = versions
        self._predictor = predictor

    @_answering_errors
    async def Predict(  # noqa: N802
        self, request: predict_pb2.PredictRequest, context: grpc.aio.ServicerContext
    ) -> predict_pb2.PredictResponse:
        with lease(self._versions, request) as version:
            name = request.model_spec.signature_name or DEFAULT
            signature = version.model.signatures.get(name)
            if signature is None:
                raise failed_precondition(f'Serving signature key "{name}" not found.')
            chosen = signature.chosen_outputs(list(request.output_filter))
            inputs = {key: tensor_protos.to_array(key, proto) for key, proto in request.inputs.items()}
            outputs = await self._predictor.predict(version.model, signature, inputs, context.time_remaining())
            return predict_pb2.PredictResponse(
                model_spec=model_spec(self._versions, version, name),
                outputs={key: tensor_protos.from_array(outputs[key]) for key in chosen},
            )

    @_answering_errors
    async def Classify(  # noqa: N802
        self, request: classification_pb2.ClassificationRequest, context: grpc.aio.ServicerContext
    ) -> classification_pb2.ClassificationResponse:
        with lease(self._versions, request) as version:
            name = request.model_spec.signature_name or DEFAULT
            signature = example_signature(version.model, name, CLASSIFY)
            examples = tensor_protos.examples(request.input)
            rows = await self._predictor.classify(version.model, signature, examples, context.time_remaining())
            response = classification_pb2.ClassificationResponse(model_spec=model_spec(self._versions, version, name))
            for row in rows:
                response.result.classifications.add(classes=[{"label": label, "score": score} for label, score in row])
            return response

    @_answering_errors
    async def Regress(  # noqa: N802
        self, request: regression_pb2.RegressionRequest, context: grpc.aio.ServicerContext
    ) -> regression_pb2.RegressionResponse:
        with lease(self._versions, request) as version:
            name = request.model_spec.signature_name or DEFAULT
            signature = example_signature(version.model, name, REGRESS)
            examples = tensor_protos.examples(request.input)
            values = await self._predictor.regress(version.model, signature, examples, context.time_remaining())
            response = regression_pb2.RegressionResponse(model_spec=model_spec(self._versions, version, name))
            for value in values.tolist():
                response.result.regressions.add(value=value)
            return response

    @_answering_errors
    async def GetModelMetadata(  # noqa: N802
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: grpc.aio.ServicerContext
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        return metadata(self._versions, request)


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions

    @_answering_errors
    async def GetModelStatus(  # noqa: N802
        self, request: get_model_status_pb2.GetModelStatusRequest, context: grpc.aio.ServicerContext
    ) -> get_model_status_pb2.GetModelStatusResponse:
        return status(self._versions, request)


def new_server(versions: Versions, predictor: Predictor, max_bytes: int) -> tuple[grpc.aio.Server, Any]:
    """A server of all services, not yet started, and its health service.

    Args:
        versions: the model's versions.
        predictor: answers requests.
        max_bytes: the maximum size of a request.
    """
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", max_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),  # or else a second server on the same port would take half of the requests
        ]
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(versions, predictor), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(versions), server)
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    return server, servicer
