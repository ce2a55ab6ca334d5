"""Traces requests, if OpenTelemetry is installed and told where to send the traces."""

# Where types are checked, OpenTelemetry is not installed.
# pyright: reportMissingImports=false

import logging
import os

_PACKAGES = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http opentelemetry-instrumentation-aiohttp-server"


def start_traces() -> None:
    """Makes applications of aiohttp from now on send traces. The process sends the last ones when it exits."""
    if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return
    os.environ.setdefault("OTEL_SERVICE_NAME", "keras-bert")
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.instrumentation.aiohttp_server import AioHttpServerInstrumentor
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        logging.getLogger(__name__).warning(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but %s: no traces; pip install %s", error, _PACKAGES
        )
        return
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    AioHttpServerInstrumentor().instrument()
