"""Traces, which a collector of OpenTelemetry gets if its packages are installed and its address is set."""

import http.server
import logging
import sys
import threading

import pytest
from aiohttp import web

from keras_bert.server import tracing

from ..support.messages import assert_names
from .servers import wait_until

pytestmark = pytest.mark.timing

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
INSTRUMENTATION = "opentelemetry.instrumentation.aiohttp_server"


def test_nothing_changes_without_an_address_or_without_the_packages(monkeypatch, caplog):
    before = web.Application
    monkeypatch.delenv(ENDPOINT, raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with caplog.at_level(logging.WARNING):
        tracing.start_traces()
        assert not caplog.messages
        monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
        tracing.start_traces()
    (message,) = caplog.messages
    assert_names(message, "opentelemetry", ENDPOINT)
    assert "no traces; pip install opentelemetry-sdk" in message
    assert web.Application is before


def test_a_collector_gets_a_trace_of_each_request(start, toy_versions, monkeypatch):
    instrumentation = pytest.importorskip(INSTRUMENTATION)
    proto = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    from opentelemetry import trace

    bodies = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format, *args):
            pass

    collector = http.server.HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "")  # so that it is unset again
    monkeypatch.delenv("OTEL_SERVICE_NAME")
    try:
        server = start(toy_versions, api_key="s3cret")
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        headers = {"Authorization": "Bearer s3cret", "traceparent": parent}
        assert server.post(":predict", {"instances": [1]}, headers=headers).status_code == 200
        wait_until(lambda: trace.get_tracer_provider().force_flush() and bodies)  # a span ends after its answer
    finally:
        instrumentation.AioHttpServerInstrumentor().uninstrument()
        trace.get_tracer_provider().shutdown()
        collector.shutdown()
        collector.server_close()
    requests = [proto.ExportTraceServiceRequest.FromString(body) for body in bodies]
    resources = [each for request in requests for each in request.resource_spans]
    (span,) = [span for each in resources for scope in each.scope_spans for span in scope.spans]
    attributes = {each.key: each.value for each in span.attributes}
    assert span.trace_id.hex() == parent.split("-")[1]
    assert attributes["http.target"].string_value == "/v1/models/toy:predict"
    names = {each.key: each.value.string_value for each in resources[0].resource.attributes}
    assert names["service.name"] == "keras-bert"
    assert not any(b"s3cret" in body for body in bodies)
