"""The referee and the candidate: what the candidate can see, touch, and make believe.

`harness_under_test.py` is the harness; its payload names what the candidate tries.
"""

import json
import os
from dataclasses import replace
from typing import Any

import pytest
from tests.sandbox.ways import QUICK

from assay.core.errors import InvalidRequest
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import HarnessResult, HarnessRun, RunStatus, SandboxError

SEALED = b"SEALED-" + os.urandom(24).hex().encode()


def judge(zygote: ZygoteLauncher, candidate: str, **wanted: Any) -> HarnessResult:
    payload = json.dumps({"candidate": candidate, **wanted}).encode()
    limits = replace(QUICK, cpu_s=1.5)
    return zygote.run_harness(
        HarnessRun(module="under_test", payload=payload, sealed=SEALED, limits=limits)
    )


def report(result: HarnessResult) -> dict[str, Any]:
    assert result.status is RunStatus.EXITED, result
    found: dict[str, Any] = json.loads(result.channel)
    assert found["sealed"] == SEALED.decode()
    return found


def test_the_candidates_memory_holds_no_copy_of_what_is_sealed(zygote: ZygoteLauncher) -> None:
    turned = bytes(byte ^ 0xFF for byte in SEALED).hex()
    heard = json.loads(report(judge(zygote, "search_memory", turned=turned))["heard"])
    assert heard["read"] > 1_000_000
    assert heard["places"] == 0


def test_the_search_finds_what_the_payload_shows(zygote: ZygoteLauncher) -> None:
    shown = "SHOWN-" + os.urandom(24).hex()
    turned = bytes(byte ^ 0xFF for byte in shown.encode()).hex()
    result = judge(zygote, "search_memory", turned=turned, shown=shown)
    assert json.loads(report(result)["heard"])["places"] > 0


def test_the_candidate_sees_itself_alone_and_holds_its_own_pipe_only(
    zygote: ZygoteLauncher, fallback: ZygoteLauncher
) -> None:
    for launcher in (zygote, fallback):
        seen = json.loads(report(judge(launcher, "look_around"))["heard"])
        assert seen["pid"] == 1
        assert seen["pids"] == ["1"]
        assert seen["descriptors"] == 4
        assert seen["files"] == []
        assert seen["variables"] == []
        assert seen["capabilities"] is True


def test_a_candidate_that_leaves_ends_itself_only(zygote: ZygoteLauncher) -> None:
    found = report(judge(zygote, "leave"))
    assert found["status"] == 7 << 8
    assert found["heard"] == ""


def test_a_candidate_that_raises_ends_with_1_and_a_traceback(zygote: ZygoteLauncher) -> None:
    result = judge(zygote, "dies")
    assert report(result)["status"] == 1 << 8
    assert b"ValueError: candidate" in result.stderr


def test_a_candidate_cannot_write_to_the_channel_nor_change_the_referee(
    zygote: ZygoteLauncher,
) -> None:
    result = judge(zygote, "patch_everything")
    assert report(result)["status"] == 0
    assert b"forged" in result.stdout


def test_limits_count_the_referee_and_the_candidate_together(zygote: ZygoteLauncher) -> None:
    result = judge(zygote, "fork_for_ever")
    assert result.status is RunStatus.CPU_LIMIT


def test_nothing_is_forked_once_the_sealed_part_is_read(zygote: ZygoteLauncher) -> None:
    with pytest.raises(SandboxError, match="after unseal"):
        judge(zygote, "leave", spawn_again=True)


def test_a_harness_that_raises_is_an_error_of_ours(zygote: ZygoteLauncher) -> None:
    with pytest.raises(SandboxError, match="the harness is wrong"):
        judge(zygote, "leave", fail=True)


def test_an_unknown_harness_is_refused(zygote: ZygoteLauncher) -> None:
    with pytest.raises(InvalidRequest):
        zygote.run_harness(HarnessRun(module="absent", payload=b""))
