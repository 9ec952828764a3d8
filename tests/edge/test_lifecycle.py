"""Signals become an event, once; the ready file exists exactly while the service listens."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest
import structlog

from assay.edge.lifecycle import (
    CHECK,
    EXIT_CONFIGURATION,
    EXIT_UNAVAILABLE,
    PARTIAL_LEAST,
    PAUSE,
    POSTPONED_S_MAX,
    Collector,
    listening,
    stop_on_signals,
    warn_of_service_links,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_sets_the_event(number: signal.Signals) -> None:
    with stop_on_signals() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        async with asyncio.timeout(60):
            await stop.wait()


async def test_a_second_signal_acts_in_the_ordinary_way() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(60):
            await stop.wait()
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_a_sign_stands_while_somebody_listens(tmp_path: Path) -> None:
    ready = tmp_path / "run" / "reward.json"
    with listening(ready, {"grpc": "127.0.0.1:1"}):
        assert json.loads(ready.read_text()) == {"grpc": "127.0.0.1:1", "pid": os.getpid()}
        assert [path.name for path in ready.parent.iterdir()] == ["reward.json"]
    assert not ready.exists()


async def test_a_sighup_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0)
            assert not stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


NO_SUCH = f"no such setting in assay {version('assay')}"
SERVICE = """
from assay.config.settings import load_settings
from assay.core.errors import DependencyDown
from assay.edge import lifecycle
import asyncio, os, sys

async def serve():
    with lifecycle.starting():
        load_settings()
        match os.environ["FAILURE"]:
            case "file": open("/proc/none")
            case "down": raise DependencyDown("the store is\\naway")

lifecycle.run_service("service", serve(), run=asyncio.run, given=sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("what", "environment", "code", "said"),
    [
        ("", {"ASSAY_STOER__URL": "x"}, EXIT_CONFIGURATION, f"ASSAY_STOER__URL: {NO_SUCH}"),
        ("", {"ASSAY_STORE__ULR": "x"}, EXIT_CONFIGURATION, f"(ASSAY_STORE__ULR): {NO_SUCH}"),
        ("", {"ASSAY_STORE__TIMEOUT_S": "soon"}, EXIT_CONFIGURATION, "ASSAY_STORE__TIMEOUT_S"),
        ("file", {}, EXIT_CONFIGURATION, "/proc/none: No such file"),
        ("down", {}, EXIT_UNAVAILABLE, "dependency_down: the store is away"),
    ],
)
async def test_what_keeps_a_service_from_starting_is_one_line_and_an_exit_code(
    what: str, environment: dict[str, str], code: int, said: str
) -> None:
    await refused_start(environment | {"FAILURE": what}, code, said)


async def refused_start(environment: dict[str, str], code: int, said: str, *arguments: str) -> None:
    """The service ends with this code, and with one line that says this."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVICE, *arguments),
        env={**inherited, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        told, _ = await process.communicate()
    assert process.returncode == code
    assert said in told.decode()
    assert told.decode().count("\n") == 1


@pytest.mark.parametrize(("argument", "code"), [("--help", 0), ("model", EXIT_CONFIGURATION)])
async def test_a_service_says_that_it_takes_no_arguments(argument: str, code: int) -> None:
    await refused_start({"FAILURE": ""}, code, "a service takes no arguments", argument)


@pytest.mark.parametrize(
    ("environment", "code", "said"),
    [
        ({"ASSAY_STORE__ATTEMPTS_MAX": "7"}, 0, "takes these settings"),
        ({"ASSAY_STORE__ATTEMPTS_MOST": "7"}, EXIT_CONFIGURATION, "STORE__ATTEMPTS_MOST"),
        ({"ASSAY_NEWS": "7"}, EXIT_CONFIGURATION, f"ASSAY_NEWS: {NO_SUCH}"),
    ],
)
async def test_settings_are_checked_without_a_start(
    environment: dict[str, str], code: int, said: str
) -> None:
    """The start would fail."""
    await refused_start(environment | {"FAILURE": "down"}, code, said, CHECK)


def test_variables_of_services_are_named_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SERVICE_HOST", "10.96.0.7")
    monkeypatch.setenv("ASSAY_SERVICE_PORT", "8470")
    with structlog.testing.capture_logs() as lines:
        warn_of_service_links()
        monkeypatch.delenv("ASSAY_SERVICE_HOST")
        warn_of_service_links()
    [line] = lines
    assert line["event"] == "service_links_ignored"
    assert line["variables"] == ["ASSAY_SERVICE_HOST", "ASSAY_SERVICE_PORT"]


def test_a_sign_that_another_has_put_up_is_left_alone(tmp_path: Path) -> None:
    ready = tmp_path / "reward.json"
    with listening(ready, {"grpc": "127.0.0.1:1"}):
        ready.write_text('{"grpc": "127.0.0.1:2", "pid": 1}')
    assert "127.0.0.1:2" in ready.read_text()


def test_a_sign_of_one_who_was_killed_is_replaced(tmp_path: Path) -> None:
    ready = tmp_path / "reward.json"
    ready.write_text("{}")
    with listening(ready, {"grpc": "127.0.0.1:1"}):
        assert "127.0.0.1:1" in ready.read_text()


def test_what_a_start_made_is_not_searched_for_garbage_while_the_service_listens(
    tmp_path: Path,
) -> None:
    made = [{"made": "by the start"}]
    frozen = gc.get_freeze_count()
    with listening(tmp_path / "reward.json", {"grpc": "127.0.0.1:1"}):
        assert gc.get_freeze_count() > frozen
        assert not any(one is made for one in gc.get_objects())
    assert any(one is made for one in gc.get_objects())


def test_full_collections_wait_for_a_moment_with_few_calls() -> None:
    full: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        full.extend([1] * (phase == "stop" and info["generation"] == 2))

    def hold_much() -> int:
        before = len(full)
        held: list[object] = [[] for _ in range(100_000)]
        del held
        return len(full) - before

    calls = 1_000
    gc.collect()
    gc.freeze()
    gc.collect()
    gc.callbacks.append(count)
    try:
        assert hold_much(), "without a collector, at any moment"
        collector = Collector(lambda: calls, now_s=0.0)
        try:
            assert not hold_much()
            assert not collector.look(1.0)
            calls = 3
            assert collector.look(2.0)
            assert not collector.look(3.0), "nothing new"
            calls = 1_000
            assert not hold_much()
            assert collector.look(2.0 + POSTPONED_S_MAX), "not forever"
        finally:
            collector.close()
        assert hold_much()
    finally:
        gc.callbacks.remove(count)
        gc.unfreeze()


def test_a_full_collection_that_took_long_is_followed_by_a_pause() -> None:
    """Few calls may hold many objects; each collection then delays the calls of all."""
    cpu_s = iter([0.0, 0.1, 10.0, 10.001, 20.0, 29.0, 30.0, 30.001])
    gc.collect()
    gc.freeze()
    collector = Collector(lambda: 3, now_s=0.0, cpu_s=lambda: next(cpu_s))

    def look(now_s: float) -> bool:
        for _ in range(PARTIAL_LEAST + 1):
            gc.collect(1)
        return collector.look(now_s)

    try:
        assert look(1.0)
        assert not look(0.9 + 0.1 * PAUSE)
        assert look(1.1 + 0.1 * PAUSE)
        assert look(2.0 + 0.1 * PAUSE), "the second was short"
        assert look(2.1 + 0.1 * PAUSE + POSTPONED_S_MAX), "no pause is longer"
    finally:
        collector.close()
        gc.unfreeze()
