"""Parts of a platform that are forked from a warm process."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from assay.cli.platform import forks as forks_module
from assay.cli.platform.children import Platform
from assay.cli.platform.forks import ForkedPart, PartForks
from assay.core.errors import DependencyDown
from assay.edge.clock import Clock
from assay.store import warden
from assay.worker.forking import processes

PART = """
import gc, json, os, signal, sys, threading, time
from pathlib import Path

out = Path(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: (out.with_suffix(".term").touch(), os._exit(7)))
facts = {
    "argv": sys.argv, "environment": dict(os.environ), "pid": os.getpid(),
    "threads": threading.active_count(), "name": __name__,
    "shared": "assay.worker.build" in sys.modules, "frozen": gc.get_freeze_count(),
    "command": Path("/proc/self/cmdline").read_bytes().decode(),
    "descriptors": [
        os.readlink(one) for one in Path("/proc/self/fd").iterdir() if os.path.lexists(one)
    ],
}
print("said to the log", flush=True)
out.with_suffix(".new").write_text(json.dumps(facts))
out.with_suffix(".new").replace(out)
if len(sys.argv) > 2:
    sys.exit(int(sys.argv[2]))
time.sleep(600)
"""

FROZEN_MIN = 50_000
"""Objects of the imports, which a collection would write to."""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that the warm process can import; `part` is one."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "part.py").write_text(PART)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
async def forks(tmp_path: Path, modules: Path) -> AsyncIterator[PartForks]:
    assert modules.exists()
    forks = PartForks(tmp_path / "warm.log")
    yield forks
    await forks.close()


async def start(forks: PartForks, folder: Path, *given: str) -> ForkedPart:
    """Fork `part`, which tells its facts in `folder/facts`."""
    lock = os.open(folder / "part.lock", os.O_RDWR | os.O_CREAT)
    log = os.open(folder / "part.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        return await forks.fork(
            ["-m", "part", str(folder / "facts"), *given],
            environment={"ONE": "1", "PATH": os.environ["PATH"]},
            lock=lock,
            log=log,
            drain_s=5.0,
        )
    finally:
        os.close(lock)
        os.close(log)


async def facts_in(folder: Path) -> Mapping[str, object]:
    """What the part told of itself."""
    async with asyncio.timeout(30):
        while not (folder / "facts").exists():
            await asyncio.sleep(0.01)
    facts: Mapping[str, object] = json.loads((folder / "facts").read_text())
    return facts


async def test_a_part_runs_as_if_it_had_been_started_by_itself(
    forks: PartForks, tmp_path: Path
) -> None:
    part = await start(forks, tmp_path, "5")
    assert await part.wait() == 5 == part.returncode
    facts = await facts_in(tmp_path)
    assert facts["name"] == "__main__"
    assert facts["environment"] == {"ONE": "1", "PATH": os.environ["PATH"]}
    assert str(facts["command"]).split("\0")[:4] == ["python", "-P", "-m", "part"]
    assert facts["shared"] is True
    assert int(str(facts["frozen"])) > FROZEN_MIN
    assert facts["threads"] == 1
    assert (tmp_path / "part.log").read_text() == "said to the log\n"
    log, lock = (str(tmp_path / name) for name in ("part.log", "part.lock"))
    opened = [name for name in facts["descriptors"] if not name.startswith("/proc/")]  # type: ignore[attr-defined]
    assert sorted(opened) == sorted([log, log, lock, "/dev/null"])  # no channel, no owner


async def test_signals_reach_it_through_its_warden(forks: PartForks, tmp_path: Path) -> None:
    part = await start(forks, tmp_path)
    facts = await facts_in(tmp_path)
    assert warden.wards_pid(part.pid) == facts["pid"]
    part.send_signal(signal.SIGTERM)
    assert await part.wait() == 7
    assert (tmp_path / "facts.term").exists()
    part.kill()  # it is gone: nothing happens


async def test_the_death_of_its_warden_is_its_own(forks: PartForks, tmp_path: Path) -> None:
    part = await start(forks, tmp_path)
    pidfd = os.pidfd_open(int(str((await facts_in(tmp_path))["pid"])))
    part.kill()
    assert await part.wait() == -signal.SIGKILL
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(pidfd, gone.set)
    async with asyncio.timeout(10):
        await gone.wait()
    asyncio.get_running_loop().remove_reader(pidfd)
    os.close(pidfd)


async def test_a_part_outlives_the_warm_process_which_is_started_again(
    forks: PartForks, tmp_path: Path
) -> None:
    first = await start(forks, tmp_path)
    await facts_in(tmp_path)
    warm = int(Path(f"/proc/{first.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(warm, signal.SIGKILL)
    (tmp_path / "facts").unlink()
    second: ForkedPart | None = None
    async with asyncio.timeout(30):
        while second is None:
            with contextlib.suppress(DependencyDown):  # it may be believed to live
                second = await start(forks, tmp_path, "3")
    assert await second.wait() == 3
    assert first.returncode is None
    first.send_signal(signal.SIGTERM)
    async with asyncio.timeout(10):
        assert await first.wait() != 0  # when it ended is known, and not how


def warm_process() -> int:
    """The one that this process has started."""
    [pid] = [
        pid
        for pid in processes.children(os.getpid())
        if b"assay.cli.platform.warm" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return pid


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not reached():
            await asyncio.sleep(0.01)


class Leaving(asyncio.Future[ForkedPart]):
    """An answer whose caller goes away in the moment in which it comes."""

    caller: asyncio.Task[ForkedPart] | None = None

    def set_result(self, result: ForkedPart, /) -> None:
        super().set_result(result)
        if self.caller is not None:
            self.caller.cancel()


@pytest.mark.parametrize("leaves", ["before", "as it comes"])
async def test_a_part_that_is_forked_for_a_caller_that_has_left_is_ended(
    forks: PartForks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: str
) -> None:
    loop = asyncio.get_running_loop()
    assert await (await start(forks, tmp_path, "0")).wait() == 0  # it is warm
    answer = Leaving(loop=loop)
    monkeypatch.setattr(loop, "create_future", lambda: answer)
    leaving = asyncio.create_task(start(forks, tmp_path))
    if leaves == "before":
        await asyncio.sleep(0)
        leaving.cancel()
    else:
        answer.caller = leaving
    await asyncio.sleep(0)
    monkeypatch.undo()
    await asyncio.wait((leaving,))
    assert leaving.cancelled()
    assert await (await start(forks, tmp_path, "3")).wait() == 3, "the next caller has its own"
    await until(lambda: not processes.children(warm_process()))


async def test_a_caller_that_leaves_while_the_warm_process_imports_leaves_it_to_the_others(
    forks: PartForks, tmp_path: Path
) -> None:
    before = set(processes.children(os.getpid()))
    leaving, staying = (asyncio.create_task(start(forks, tmp_path, code)) for code in "03")
    await asyncio.sleep(0)
    [warm] = set(processes.children(os.getpid())) - before  # it has begun, and answers later
    leaving.cancel()
    await asyncio.wait((leaving,))
    assert await (await staying).wait() == 3
    assert warm_process() == warm


async def test_a_warm_process_that_hung_forks_nothing_when_it_goes_on(
    forks: PartForks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was asked for has been started in another way meanwhile."""
    assert await (await start(forks, tmp_path, "0")).wait() == 0
    warm = warm_process()
    (tmp_path / "facts").unlink()
    monkeypatch.setattr(forks_module, "FORK_S_MAX", 0.05)
    os.kill(warm, signal.SIGSTOP)
    with pytest.raises(DependencyDown):
        await start(forks, tmp_path)
    with contextlib.suppress(ProcessLookupError):
        os.kill(warm, signal.SIGCONT)
    await until(lambda: not Path(f"/proc/{warm}").exists())
    assert not (tmp_path / "facts").exists()


def test_a_part_is_drained_when_its_owner_dies(tmp_path: Path, modules: Path) -> None:
    script = textwrap.dedent(
        f"""
        import asyncio, sys
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from assay.cli.platform.forks import PartForks
        from tests.cli.test_forks import start

        async def own():
            folder = Path({str(tmp_path)!r})
            part = await start(PartForks(folder / "warm.log"), folder)
            print(part.pid, flush=True)
            await part.wait()

        asyncio.run(own())
        """
    )
    assert modules.exists()
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pidfd = os.pidfd_open(int(owner.stdout.readline()))
        asyncio.run(facts_in(tmp_path))
        owner.kill()
    signal.pidfd_send_signal(pidfd, 0)  # not reaped yet, or alive
    asyncio.run(_until(tmp_path / "facts.term"))
    os.close(pidfd)


async def _until(path: Path) -> None:
    async with asyncio.timeout(10):
        while not path.exists():
            await asyncio.sleep(0.01)


async def test_where_a_module_starts_a_thread_each_part_is_started_by_itself(
    tmp_path: Path, modules: Path
) -> None:
    (modules / "sitecustomize.py").write_text(
        "import sys, threading, time\n"
        "if 'assay.cli.platform.warm' in sys.orig_argv:\n"
        "    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    forks = PartForks(tmp_path / "warm.log")
    platform = Platform(clock=Clock(), log_dir=tmp_path / "logs", forks=forks)
    child = await platform.start(
        "part",
        ["-m", "part", str(tmp_path / "facts")],
        ready_file=tmp_path / "run/part",
        drain_s=5.0,
    )
    try:
        assert (await facts_in(tmp_path))["shared"] is False
        assert isinstance(child.process, asyncio.subprocess.Process)
        assert "started a thread" in (tmp_path / "warm.log").read_text()
    finally:
        await platform.stop()


OWN = """
import asyncio, gc, os, sys
from pathlib import Path
from assay.cli.platform.attached import begin_own

def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()

assert begin_own("127.0.0.1:1", None) is None
assert children() == []
forks = begin_own("", Path(sys.argv[1]))
root, warm = children()  # a root server of slots, for the host to come
assert gc.get_freeze_count() > int(sys.argv[2])
folder = Path(sys.argv[1])

async def main():
    lock, log = (os.open(folder / name, os.O_RDWR | os.O_CREAT) for name in ("lock", "log"))
    part = await forks.fork(
        ["-m", "part", str(folder / "facts")],
        environment=dict(os.environ), lock=lock, log=log, drain_s=5.0,
    )
    assert children() == [root, warm]
    while not (folder / "facts").exists():
        await asyncio.sleep(0.01)
    part.kill()
    await part.wait()
    await forks.close()
    assert children() in ([root], [])

asyncio.run(main())
if children():  # no host has come: it ends by itself
    os.waitpid(int(root), 0)
assert children() == []
"""


def test_a_command_that_will_need_a_platform_forks_its_parts_from_itself(
    tmp_path: Path, modules: Path
) -> None:
    assert modules.exists()
    done = subprocess.run(
        [sys.executable, "-c", OWN, str(tmp_path), str(FROZEN_MIN)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "facts").read_text())["shared"]


SCORE = """
import sys
from assay.cli.main import main
from assay.cli.platform.forks import PartForks

def spawned(self):
    sys.exit("an interpreter was started")

PartForks._spawned = spawned
sys.argv = ["assay", "score", sys.argv[1], "--pipeline", "math", "--out", sys.argv[2]]
main()
"""


def test_a_scored_file_starts_no_interpreter_for_the_parts_of_its_platform(tmp_path: Path) -> None:
    """It has imported a third of what they need, which would be there twice."""
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows.write_text(json.dumps({"response": "\\boxed{5}", "reference": {"answers": ["5"]}}) + "\n")
    command = [sys.executable, "-c", SCORE, str(rows), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())["reward"] == 1.0
