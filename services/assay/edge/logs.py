"""Logs are events with fields: `log.info("batch_opened", size=512)`, never a formatted sentence.

Ids are bound once with `bound(...)` and stand on every line below; a trace's ids are added by a
processor. Lines of libraries that use the standard `logging` come out in the same form. Lines that
callers cause have a pace (`LinePace`).
"""

import logging
import math
import sys
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager
from typing import Any, Final, TextIO

import structlog

from assay.config.telemetry import TelemetrySettings
from assay.edge.tracing import NoTracer, Tracer

GRPC: Final = "grpc._cython.cygrpc"
"""The logger of gRPC's event loop."""
NOT_SENT: Final = "ExecuteBatchError"
"""Its error of an answer that it could not send, because the client had just gone."""

Event = MutableMapping[str, Any]
Processor = Callable[[Any, str, Event], Any]


def configure(
    settings: TelemetrySettings, *, tracer: Tracer | None = None, stream: TextIO | None = None
) -> None:
    """Configure logging of this process; called once by an entry point."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared = _shared_processors(tracer or NoTracer())
    renderer: Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if settings.log_json
        # Plain: a traceback that shows local variables would show payloads and tokens.
        else structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    )
    tail: list[Processor] = [structlog.processors.format_exc_info] if settings.log_json else []
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *tail,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger(GRPC).addFilter(is_no_lost_client)


class LinePace:
    """At most `per_s` lines of each key, after a burst: callers that are refused fill no log.

    What is left out is counted, and the count stands on the key's next line. It keeps a number per
    key for good, so keys are a tenant's name, never what a caller chose.
    """

    def __init__(self, per_s: float, *, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._free_s: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def line(self, key: str, now_s: float) -> int | None:
        """Lines left out since the last one of this key; `None`: this one is left out, too."""
        free_s = max(self._free_s.get(key, -math.inf), now_s - self._burst / self._per_s)
        if free_s + 1 / self._per_s > now_s:
            self._left_out[key] = self._left_out.get(key, 0) + 1
            return None
        self._free_s[key] = free_s + 1 / self._per_s
        return self._left_out.pop(key, 0)


def bound(**fields: str) -> AbstractContextManager[object]:
    """Put fields on every log line inside the block (and in the tasks started there)."""
    return structlog.contextvars.bound_contextvars(**fields)


def is_no_lost_client(record: logging.LogRecord) -> bool:
    """Whether it is about something else than a client that has gone: gRPC writes a traceback for
    each one that it has not yet noticed, so that clients could fill the log."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != NOT_SENT


def _shared_processors(tracer: Tracer) -> list[Processor]:
    def add_trace(_logger: Any, _method: str, event: Event) -> Event:  # noqa: ANN401 structlog's form
        event.update(tracer.ids())
        return event

    return [
        structlog.contextvars.merge_contextvars,
        add_trace,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
