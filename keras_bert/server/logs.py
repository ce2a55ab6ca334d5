"""Keeps the log short, whatever clients do; and traces requests, if OpenTelemetry is installed and told where to."""

# Where types are checked, OpenTelemetry is not installed.
# pyright: reportMissingImports=false

import logging
import os
import time

_SECONDS = 60.0
_MOST = 5  # records of one place in this time
_PACKAGES = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http opentelemetry-instrumentation-aiohttp-server"


class Repetitions(logging.Filter):
    """Leaves out warnings and errors that repeat themselves, and says so: five a minute from each place in the code."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}  # by place: since when, and how many

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        place, now = (record.pathname, record.lineno), time.monotonic()
        start, count = self._counts.get(place, (now, 0))
        note = ""
        if now - start > _SECONDS:
            note = f" ({count - _MOST:,} like it were left out)" if count > _MOST else ""
            start, count = now, 0
        count += 1
        self._counts[place] = start, count
        if count == _MOST:
            note = " (more like it are left out for a minute)"
        record.msg, record.args = f"{record.getMessage()}{note}", ()
        return count <= _MOST


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
