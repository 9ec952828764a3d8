"""Spans go to a real collector when an endpoint is set; otherwise nothing is imported."""

from __future__ import annotations

import subprocess
import sys
from concurrent import futures
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from assay.edge.tracing import NoTracer, batch_trace, tracer

if TYPE_CHECKING:
    from collections.abc import Iterator


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self.endpoint = ""

    def Export(self, request: Any, context: Any) -> Any:
        for resource in request.resource_spans:
            self.services |= {
                a.value.string_value
                for a in resource.resource.attributes
                if a.key == "service.name"
            }
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector() -> Iterator[Collector]:
    """An OTLP collector over gRPC."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=1))
    collector = Collector()
    add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    add(collector, server)
    collector.endpoint = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield collector
    server.stop(None).wait()


def test_spans_reach_the_collector_under_the_callers_trace(collector: Collector) -> None:
    tracing = tracer(service="assay-test", endpoint=collector.endpoint)
    parent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    with tracing.span("Submit", parent=parent):
        ids = tracing.ids()
        with tracing.span("store"):
            assert tracing.ids()["trace_id"] == ids["trace_id"]
    assert tracing.ids() == {}
    tracing.close()
    spans = {span.name: span for span in collector.spans}
    assert set(spans) == {"Submit", "store"}
    assert spans["Submit"].trace_id.hex() == "ab" * 16 == ids["trace_id"]
    assert spans["Submit"].parent_span_id.hex() == "cd" * 8
    assert spans["store"].parent_span_id == spans["Submit"].span_id
    assert collector.services == {"assay-test"}


def test_runs_of_a_batch_share_a_trace_wherever_they_are(collector: Collector) -> None:
    trace = batch_trace("red", "b1")
    for host in ("one", "two"):
        tracing = tracer(service=host, endpoint=collector.endpoint)
        tracing.record(f"stage {host}", began_ns=1, ended_ns=2, attributes={}, parent=trace.parent)
        tracing.record(f"other {host}", began_ns=1, ended_ns=2, attributes={})
        tracing.close()
    traces = {span.name: span.trace_id.hex() for span in collector.spans}
    assert traces["stage one"] == traces["stage two"] == trace.trace_id
    assert len({*traces.values(), batch_trace("redb", "1").trace_id}) == 4


def test_without_an_endpoint_there_is_nothing() -> None:
    tracing = tracer(service="assay-test", endpoint="")
    assert isinstance(tracing, NoTracer)
    with tracing.span("Submit", parent="nonsense"):
        assert tracing.ids() == {}
    tracing.close()


def test_without_an_endpoint_the_exporter_is_not_imported() -> None:
    code = (
        "import sys; from assay.edge.tracing import tracer; tracer(service='x', endpoint='');"
        "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert said.stdout.strip() == "[]"
