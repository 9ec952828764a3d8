"""A host's lives: the next one gives back at once what a killed one held."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from assay.core.errors import DependencyDown
from assay.core.hosts.record import HostRecord
from assay.core.ids import StageName, WorkerId
from assay.core.records import Reaped
from assay.worker.membership import Life, Membership

STAGES = [StageName("a"), StageName("b"), StageName("c")]

DIES = """
import os, sys
from pathlib import Path
from assay.worker.membership import Life
life = Life(Path(sys.argv[1]), "first")
print("alive", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


def test_the_next_life_knows_the_killed_one_and_not_before_it_is_dead(tmp_path: Path) -> None:
    file = tmp_path / "run" / "worker.life"
    with subprocess.Popen(
        [sys.executable, "-c", DIES, str(file)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "alive\n"
        assert Life(file, WorkerId("second")).predecessor is None, "the first one lives"
        process.stdin.write("\n")
        process.stdin.flush()
        process.wait()
    life = Life(file, WorkerId("third"))
    assert life.predecessor == "first"
    life.end()
    after = Life(file, WorkerId("fourth"))
    assert after.predecessor is None, "the third one ended in order"
    after.end()


def test_the_file_is_not_inherited_by_what_the_host_starts(tmp_path: Path) -> None:
    life = Life(tmp_path / "worker.life", WorkerId("one"))
    listed = subprocess.run(
        [sys.executable, "-c", "import os; print(*map(os.readlink, ["
         "f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd') if n != '3']))"],
        check=False, capture_output=True, text=True, close_fds=False,
    )  # fmt: skip
    assert "worker.life" not in listed.stdout
    life.end()
    assert os.path.getsize(tmp_path / "worker.life") == 0


class Told:
    """A store that notes the calls of a membership; it is down for the call of this number."""

    def __init__(self, *, down_at: int = -1) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.down_at = down_at
        self.registered = asyncio.Event()

    def _note(self, *call: str) -> None:
        if len(self.calls) == self.down_at:
            self.down_at = -1
            raise DependencyDown("away")
        self.calls.append(call)

    async def take_back(self, stage: StageName, worker: WorkerId, *, attempts_max: int) -> Reaped:
        self._note("take back", stage, worker)
        return Reaped(redelivered=0, dead=0, expired=0, completed=())

    async def drop_host(self, worker: WorkerId) -> None:
        self._note("drop", worker)

    async def put_host(self, host: HostRecord, *, lease_s: float) -> None:
        self._note("put", host.worker)
        self.registered.set()


async def told_by(predecessor: str | None, store: Told) -> list[tuple[str, ...]]:
    """The calls of a host that follows this one, until it is registered."""

    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    parts: Any = {
        "store": store,
        "life": SimpleNamespace(predecessor=predecessor and WorkerId(predecessor)),
        "clock": SimpleNamespace(sleep=at_once),
        "metrics": None,
    }
    membership = Membership(**parts, stages=STAGES, attempts_max=3)
    membership.begin(
        HostRecord(
            worker=WorkerId("second"), address="127.0.0.1:1", stages=tuple(STAGES), cores=2,
            memory_bytes=2**30, slots_max=4,
        )
    )  # fmt: skip
    async with asyncio.timeout(30):
        await store.registered.wait()
    calls = list(store.calls)
    await membership.leave()
    return calls


async def test_a_host_gives_back_every_stage_of_the_killed_one_before_it_registers() -> None:
    after = [*(("take back", stage, "first") for stage in STAGES), ("drop", "first")]
    assert await told_by("first", Told()) == [*after, ("put", "second")]
    assert await told_by(None, Told()) == [("put", "second")]


async def test_what_a_lost_store_kept_from_being_given_back_is_given_back_later() -> None:
    for down_at in range(4):
        calls = await told_by("first", Told(down_at=down_at))
        assert [call for call in calls if call[0] == "take back"][-1] == ("take back", "c", "first")
        assert {call[1] for call in calls if call[0] == "take back"} == set(STAGES)
        assert calls[-1] == ("put", "second")
