"""Log lines are JSON objects with bound ids; tracebacks show code, never values."""

from __future__ import annotations

import io
import json
import logging
from typing import TYPE_CHECKING

import grpc
import pytest
import structlog
from grpc._cython import cygrpc  # type: ignore[attr-defined]  # not in the stubs
from hypothesis import given
from hypothesis import strategies as st

from assay.config.telemetry import TelemetrySettings
from assay.edge import logs
from assay.edge.logs import LinePace

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Logging as other tests expect it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger(logs.GRPC).filters.clear()
    structlog.reset_defaults()


class OneTrace:
    """A tracer inside a span."""

    def ids(self) -> dict[str, str]:
        """Ids of the span that is current."""
        return {"trace_id": "t1", "span_id": "s1"}


def _configured(**settings: object) -> io.StringIO:
    stream = io.StringIO()
    logs.configure(
        TelemetrySettings.model_validate(settings),
        tracer=OneTrace(),  # type: ignore[arg-type]  # logs ask for ids only
        stream=stream,
    )
    return stream


def test_a_line_is_an_event_with_fields_bound_ids_and_the_trace() -> None:
    stream = _configured()
    log = structlog.get_logger("test")
    with logs.bound(call_id="c1", batch_id="b1"):
        log.info("batch_opened", size=512)
    log.info("batch_closed")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "event": "batch_opened",
        "size": 512,
        "call_id": "c1",
        "batch_id": "b1",
        "trace_id": "t1",
        "span_id": "s1",
        "level": "info",
    }
    assert "call_id" not in second


def test_lines_of_libraries_look_the_same() -> None:
    stream = _configured()
    with logs.bound(call_id="c1"):
        logging.getLogger("uvicorn").warning("bad %s", "weather")
    [line] = map(json.loads, stream.getvalue().splitlines())
    assert (line["event"], line["level"], line["call_id"]) == ("bad weather", "warning", "c1")


def test_the_level_is_kept() -> None:
    stream = _configured(log_level="warning")
    structlog.get_logger("test").info("chatter")
    structlog.get_logger("test").warning("trouble")
    [line] = map(json.loads, stream.getvalue().splitlines())
    assert line["event"] == "trouble"


@pytest.mark.parametrize("log_json", [True, False])
def test_a_traceback_shows_where_and_never_with_what(log_json: bool) -> None:
    stream = _configured(log_json=log_json)
    token = "sword" + "fish"
    try:
        _fail(token)
    except ValueError:
        structlog.get_logger("test").exception("call_failed")
    text = stream.getvalue()
    assert "_fail" in text
    assert "swordfish" not in text


def _fail(token: str) -> None:
    message = f"a token of {len(token)} letters"
    raise ValueError(message)


def test_texts_of_callers_cannot_forge_a_line() -> None:
    stream = _configured()
    structlog.get_logger("test").info("call_refused", why='x"}\n{"event": "forged"}')
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.logs_errors
@pytest.mark.parametrize("log_json", [True, False])
def test_an_answer_that_grpc_could_not_send_to_a_client_that_left_is_no_line(
    log_json: bool,
) -> None:
    stream = _configured(log_json=log_json)
    logger = logging.getLogger(logs.GRPC)
    for error in (cygrpc.ExecuteBatchError("Failed"), grpc.aio.UsageError("RPC finished")):
        try:
            raise error
        except grpc.aio.BaseError:
            logger.exception("raised by servicer method [/assay.v1.RewardService/Score]")
    text = stream.getvalue()
    assert "ExecuteBatchError" not in text
    assert "RPC finished" in text, "a fault of ours is"


@given(
    gaps=st.lists(st.floats(0, 3), max_size=300), per_s=st.integers(1, 20), burst=st.integers(1, 9)
)
def test_lines_that_callers_cause_keep_their_pace_and_none_is_forgotten(
    gaps: list[float], per_s: int, burst: int
) -> None:
    pace, now_s, written, counted = LinePace(per_s, burst=burst), 100.0, 0, 0
    for gap in gaps:
        now_s += gap
        left_out = pace.line("acme", now_s)
        if left_out is not None:
            written, counted = written + 1, counted + left_out + 1
    assert written <= burst + per_s * sum(gaps) + 1
    assert not gaps or written >= min(len(gaps), burst)
    last = pace.line("acme", now_s + 60)
    assert last is not None
    assert counted + last == len(gaps)
    assert pace.line("other", now_s) == 0


def test_a_pause_gives_the_whole_burst_back() -> None:
    pace = LinePace(10, burst=3)
    assert [pace.line("acme", 5.0) for _ in range(5)] == [0, 0, 0, None, None]
    assert [pace.line("acme", 9.0) for _ in range(4)] == [2, 0, 0, None]
