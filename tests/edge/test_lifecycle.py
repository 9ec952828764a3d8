"""Signals become an event, once; a sign stands exactly while somebody listens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from assay.edge.lifecycle import listening, stop_on_signals

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
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


SERVICE = """
import asyncio, pathlib, sys
from assay.edge.lifecycle import stop_on_signals

async def main():
    with stop_on_signals(int(sys.argv[1])) as stop:
        pathlib.Path(sys.argv[2]).touch()
        await stop.wait()
        pathlib.Path(sys.argv[3]).touch()

asyncio.run(main())
"""
OWNER = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], str(os.getpid()), *sys.argv[2:]])
"""


async def appears(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.01)


async def test_a_service_stops_when_its_owner_is_killed(tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, SERVICE, str(begun), str(ended)
    )
    await appears(begun)
    owner.kill()
    await owner.wait()
    await appears(ended)


async def test_a_service_whose_owner_is_gone_already_stops_at_once() -> None:
    nobody = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await nobody.wait()
    with stop_on_signals(nobody.pid) as stop:
        assert stop.is_set()


def test_a_sign_stands_while_somebody_listens(tmp_path: Path) -> None:
    sign = tmp_path / "run" / "reward.json"
    with listening(sign, {"grpc": "127.0.0.1:1"}):
        assert json.loads(sign.read_text()) == {"grpc": "127.0.0.1:1", "pid": os.getpid()}
        assert [path.name for path in sign.parent.iterdir()] == ["reward.json"]
    assert not sign.exists()


def test_a_sign_that_another_has_put_up_is_left_alone(tmp_path: Path) -> None:
    sign = tmp_path / "reward.json"
    with listening(sign, {"grpc": "127.0.0.1:1"}):
        sign.write_text('{"grpc": "127.0.0.1:2", "pid": 1}')
    assert "127.0.0.1:2" in sign.read_text()


def test_a_sign_of_one_who_was_killed_is_replaced(tmp_path: Path) -> None:
    sign = tmp_path / "reward.json"
    sign.write_text("{}")
    with listening(sign, {"grpc": "127.0.0.1:1"}):
        assert "127.0.0.1:1" in sign.read_text()
