"""OpenTelemetry spans, when an endpoint is set; otherwise nothing is imported or done."""

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol


class Tracer(Protocol):
    """Opens spans and records those that have ended."""

    def span(self, name: str, *, parent: str = "") -> AbstractContextManager[object]:
        """A span around a block; `parent` is a W3C `traceparent`."""

    def record(
        self,
        name: str,
        *,
        began_ns: int,
        ended_ns: int,
        attributes: Mapping[str, str | int],
        parent: str = "",
    ) -> None:
        """Record a finished span; instants are Unix time, `parent` is a W3C `traceparent`."""

    def ids(self) -> dict[str, str]:
        """`trace_id` and `span_id` of the current span, for log lines; empty outside of one."""

    def close(self) -> None:
        """Export the remaining spans."""


class NoTracer:
    """Tracing is off."""

    def span(self, name: str, *, parent: str = "") -> AbstractContextManager[object]:
        """Open no span."""
        del name, parent
        return nullcontext()

    def record(
        self,
        name: str,
        *,
        began_ns: int,
        ended_ns: int,
        attributes: Mapping[str, str | int],
        parent: str = "",
    ) -> None: ...

    def ids(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        """Nothing to export."""


class BatchTrace(NamedTuple):
    """The trace to which the runs of a batch's stages belong, on whatever host they are."""

    trace_id: str
    """16 bytes, in hexadecimal."""
    parent: str
    """W3C `traceparent` of its runs."""


def batch_trace(tenant: str, batch_id: str) -> BatchTrace:
    """The trace of a batch: made of its names, so that hosts agree without telling each other."""
    ids = hashlib.sha256(f"{tenant}\0{batch_id}".encode()).hexdigest()
    trace_id, span_id = ids[:32], ids[32:48]
    return BatchTrace(trace_id, f"00-{trace_id}-{span_id}-01")


def tracer(*, service: str, endpoint: str) -> Tracer:
    """Build the tracer of a service; `endpoint` is an OTLP gRPC collector, or empty."""
    return _OpenTelemetry(service=service, endpoint=endpoint) if endpoint else NoTracer()


class _OpenTelemetry:
    def __init__(self, *, service: str, endpoint: str) -> None:
        # Imported here because it costs 30 MB and most installations trace nothing.
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        exporter = OTLPSpanExporter(endpoint=endpoint, insecure=not endpoint.startswith("https"))
        self._provider = TracerProvider(resource=Resource.create({"service.name": service}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("assay")
        self._extract = TraceContextTextMapPropagator().extract
        self._current_span = trace.get_current_span

    def span(self, name: str, *, parent: str = "") -> AbstractContextManager[object]:
        context = self._extract({"traceparent": parent}) if parent else None
        return self._tracer.start_as_current_span(name, context=context)

    def record(
        self,
        name: str,
        *,
        began_ns: int,
        ended_ns: int,
        attributes: Mapping[str, str | int],
        parent: str = "",
    ) -> None:
        context = self._extract({"traceparent": parent}) if parent else None
        span = self._tracer.start_span(
            name, context=context, start_time=began_ns, attributes=dict(attributes)
        )
        span.end(ended_ns)

    def ids(self) -> dict[str, str]:
        context = self._current_span().get_span_context()
        if not context.is_valid:
            return {}
        return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}

    def close(self) -> None:
        self._provider.shutdown()
