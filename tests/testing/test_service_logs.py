"""What benchmarks find in the logs of services: faults, and not what callers are refused."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from benchmarks.harness.service_logs import Logged

from assay.config.telemetry import TelemetrySettings
from assay.edge import logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger(logs.GRPC).filters.clear()
    structlog.reset_defaults()


@pytest.mark.logs_errors
@pytest.mark.parametrize("log_json", [True, False])
def test_a_fault_is_found_in_both_forms_of_a_log(tmp_path: Path, *, log_json: bool) -> None:
    stream = io.StringIO()
    logs.configure(TelemetrySettings(log_json=log_json), stream=stream)
    log = structlog.get_logger("test")
    log.info("call_refused", why="message: no Traceback, and no error either")
    log.warning("connection_cut", peer="127.0.0.1")
    for error in (KeyError("one"), ValueError("two")):
        try:
            raise error
        except (KeyError, ValueError):
            log.exception("call_failed")
    logging.getLogger("asyncio").error("Task was destroyed but it is pending!")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "reward.log").write_text(stream.getvalue())
    (tmp_path / "logs" / "worker.log").write_text(json.dumps({"event": "up", "level": "info"}))
    found = Logged.of(tmp_path)
    assert found.error_lines == 3
    assert found.faults.total() == 3
    told = " ".join(found.faults)
    assert "KeyError: 'one'" in told
    assert "ValueError: two" in told
    assert "Task was destroyed" in told
    assert found.size_bytes > len(stream.getvalue())
