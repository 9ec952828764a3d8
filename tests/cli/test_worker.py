"""`assay worker` serves; `assay worker-token` makes tokens that the API takes."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.running import PROCESS_S_MAX
from typer.testing import CliRunner

from assay.cli.main import app
from assay.cli.platform.worker import DAYS_MAX, UNITS_S, duration
from assay.config.settings import StoreSettings
from assay.core.errors import InvalidRequest
from assay.edge.clock import Clock
from assay.edge.work.tokens import WorkerKeys
from assay.store.port import Store

KEY = "k" * 40


async def test_a_worker_serves_the_stages_of_its_options_until_it_is_stopped(
    tmp_path: Path, store_settings: StoreSettings, store: Store
) -> None:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}
    given = ("--stage", "noop", "--slots", "1", "--data-dir", str(tmp_path))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "assay.cli", "worker", *given),
        env={
            **inherited,
            "ASSAY_STORE__URL": store_settings.url,
            "ASSAY_STORE__SHARD": store_settings.shard,
            "ASSAY_WORKER__CONTROL_PORT": "0",
        },
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(PROCESS_S_MAX):
            while not (hosts := await store.hosts()):
                assert process.returncode is None
                await asyncio.sleep(0.05)
        assert hosts[0].stages == ("noop",)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), PROCESS_S_MAX) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_a_token_says_its_stages_and_its_end(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(KEY)
    run = CliRunner().invoke(
        app,
        ["worker-token", "--stage", "run", "--stage", "compile", "--stage", "run",
         "--key-file", str(file), "--for", "2h", "--name", "pod"],
        standalone_mode=False,
    )  # fmt: skip
    assert run.exit_code == 0, run.exception
    found = WorkerKeys.parsed(file.read_bytes()).read(run.stdout.strip())
    assert (found.stages, found.name, found.worker) == (("run", "compile"), "pod", "")
    left_s = (found.expires_ns - Clock().now_ns()) / 1e9
    assert 7_100 < left_s <= 7_200


def test_a_file_without_a_good_key_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("short")
    run = CliRunner().invoke(
        app, ["worker-token", "--stage", "run", "--key-file", str(file)],
        standalone_mode=False,
    )  # fmt: skip
    assert isinstance(run.exception, InvalidRequest)
    assert run.exception.field == "key_file"


@given(st.integers(0, 10**6), st.sampled_from("smhd"))
def test_durations_are_read_as_they_say(number: int, unit: str) -> None:
    seconds = number * UNITS_S[unit]
    if 0 < seconds <= DAYS_MAX * 86_400:
        assert duration(f"{number}{unit}").total_seconds() == seconds
    else:
        with pytest.raises(InvalidRequest):
            duration(f"{number}{unit}")


@given(st.text(max_size=12))
def test_any_other_text_is_refused_in_words(text: str) -> None:
    if not (text[:-1].isascii() and text[:-1].isdecimal() and text[-1:] in UNITS_S):
        with pytest.raises(InvalidRequest):
            duration(text)
