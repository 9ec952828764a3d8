"""Fork servers: one whose host dies ends without a word; what no one waits for is not kept."""

import asyncio
import contextlib
import gc
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.errors import IsolationUnavailable
from assay.core.ids import StageName
from assay.worker.forking import processes
from assay.worker.forking.client import ForkClient, ForkServers
from assay.worker.forking.server import packed_settings
from assay.worker.slots.main import SlotSettings


@pytest.mark.parametrize("says", [False, True])
def test_a_fork_server_whose_host_has_died_logs_no_traceback(tmp_path: Path, *, says: bool) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "assay.worker.forking.server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    with ours:
        if says:
            ours.send(packed_settings(slot_settings(tmp_path)))
    _, said = server.communicate(timeout=120)
    assert said == b""
    assert server.returncode == 0


def slot_settings(folder: Path) -> SlotSettings:
    return SlotSettings(
        sandbox=SandboxSettings(),
        verifiers=VerifierSettings(),
        scratch=folder,
        shared=folder / "shared",
    )


async def test_a_root_server_that_begins_beside_other_work_is_the_one_that_serves(
    tmp_path: Path,
) -> None:
    forks = ForkServers(slot_settings(tmp_path), environment=os.environ)
    known = set(processes.children(os.getpid()))
    with forks.begun():
        (begun,) = set(processes.children(os.getpid())) - known
    await forks.warm()
    assert set(processes.children(os.getpid())) - known == {begun}
    await forks.close()
    assert set(processes.children(os.getpid())) == known


async def test_a_root_server_ends_with_the_work_beside_it_that_fails(tmp_path: Path) -> None:
    forks = ForkServers(slot_settings(tmp_path), environment=os.environ)
    known = set(processes.children(os.getpid()))
    with contextlib.suppress(IsolationUnavailable), forks.begun():
        (begun,) = set(processes.children(os.getpid())) - known
        raise IsolationUnavailable("none here")
    async with asyncio.timeout(120):
        while Path(f"/proc/{begun}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            await asyncio.sleep(0.01)
    await forks.close()


HOST_OF_EARLY = """
import asyncio, os, sys
from pathlib import Path
from assay.config.settings import SandboxSettings, VerifierSettings
from assay.worker.forking import processes, roots
from assay.worker.forking.client import ForkServers
from assay.worker.slots.main import SlotSettings

way, folder = sys.argv[1], Path(sys.argv[2])
watched = roots.begin_early(folder / "log")
early, = processes.children(os.getpid())
pid = os.fork()
if not pid:

    async def host():
        more = {"A": "b"} if way == "another environment" else {}
        settings = SlotSettings(
            sandbox=SandboxSettings(),
            verifiers=VerifierSettings(),
            scratch=folder,
            shared=folder / "shared",
        )
        forks = ForkServers(
            settings, environment={**roots.environment_for_slots(os.environ, ()), **more}
        )
        if way == "lost":
            os.kill(early, 9)
            while Path(f"/proc/{early}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                await asyncio.sleep(0.01)
        for again in range(2):
            await forks.warm()
            its_own = bool(processes.children(os.getpid()))
            print("served by:", "its own" if its_own else early, flush=True)
            await forks._end_root()

    asyncio.run(host())
    os._exit(0)
roots.leave_early()
os.waitpid(pid, 0)
os.waitid(os.P_PIDFD, watched, os.WEXITED | os.WNOWAIT)
roots.reap(watched)
print("left:", *processes.children(os.getpid()), early)
"""


@pytest.mark.parametrize("way", ["taken", "another environment", "lost"])
def test_a_root_server_that_begins_before_its_host_serves_it_once(tmp_path: Path, way: str) -> None:
    script = [sys.executable, "-c", HOST_OF_EARLY, way, str(tmp_path)]
    said = subprocess.run(script, stdout=subprocess.PIPE, timeout=120, check=True, text=True).stdout
    first, again = re.findall(r"^served by: (.+)$", said, re.MULTILINE)
    early = re.search(r"^left: (\d+)$", said, re.MULTILINE)  # and no child
    assert early
    assert first == (early[1] if way == "taken" else "its own")
    assert again == "its own"
    assert (tmp_path / "log").read_text() == ""


AHEAD = StageName("noop")


def roots() -> set[int]:
    """The fork servers of this process's hosts."""
    return set(processes.children(os.getpid()))


def stage_servers() -> set[int]:
    """The servers of the stage below them, which have other children as well while they start."""
    found = set[int]()
    for root in roots():
        with contextlib.suppress(OSError):
            for pid in processes.children(root):
                if Path(f"/proc/{pid}/comm").read_text().strip() == f"stage:{AHEAD}":
                    found.add(pid)
    return found


@pytest.mark.parametrize("way", ["it is used", "it is not used", "its root server was lost"])
async def test_a_stage_server_that_is_asked_for_ahead_is_the_one_that_serves(
    tmp_path: Path, way: str
) -> None:
    forks = ForkServers(slot_settings(tmp_path), environment=os.environ)
    known = roots()
    with forks.begun([AHEAD]):
        (root,) = roots() - known
    async with asyncio.timeout(120):
        while not (ahead := stage_servers()):
            await asyncio.sleep(0.01)
        if way == "its root server was lost":
            os.kill(root, signal.SIGKILL)
            while forks._root is not None and not forks._root.is_gone:
                await asyncio.sleep(0.01)
        if way != "it is not used":
            slot = await forks.fork_slot(AHEAD, 1)
            assert len(stage_servers()) == 1
            assert (stage_servers() == ahead) == (way == "it is used")
            slot.kill()
            os.close(slot.pidfd)
            slot.channel.close()
        await forks.close()
    assert roots() == known


SERVER = """
import socket, sys, time
from assay.core.codec import pack
from assay.worker.forking.server import ForkServer

control = socket.socket(fileno=int(sys.argv[1]))
control.recv(1)
control.send(pack(("warm", "")))
ForkServer(control, lambda _name, _channel: time.sleep(600)).serve()
"""


class Leaving(ForkClient):
    """Has callers that go away in the moment in which their answer comes."""

    leaving: asyncio.Task[object] | None = None

    def _answer(self, pid: int, pidfd: int) -> None:
        super()._answer(pid, pidfd)
        if self.leaving is not None:
            self.leaving.cancel()


def started(channel: socket.socket) -> subprocess.Popen[bytes]:
    """A server at this end."""
    command = [sys.executable, "-P", "-c", SERVER, str(channel.fileno())]
    with channel:
        return subprocess.Popen(command, pass_fds=[channel.fileno()])


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Leaving, subprocess.Popen[bytes], socket.socket]]:
    """A client of a server whose children do not look at their channels, as while they start."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = started(theirs)
    client = Leaving(ours)
    async with asyncio.timeout(120):
        yield client, server, ours
        client.close()
        await asyncio.to_thread(server.wait)


def pidfds() -> int:
    """How many processes this one has a descriptor of."""
    names = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if os.path.lexists(one)]
    return names.count("anon_inode:[pidfd]")


@pytest.mark.parametrize("leaves", ["before", "as it comes"])
async def test_a_slot_that_is_forked_for_a_caller_that_has_left_is_ended(leaves: str) -> None:
    held = pidfds()
    async with served() as (client, server, ours):
        ours.send(b"!")
        await client.until_warm()
        asking: asyncio.Task[object] = asyncio.create_task(client.fork("1", socket.SOCK_STREAM))
        if leaves == "before":
            await asyncio.sleep(0)
            asking.cancel()
        else:
            client.leaving = asking
        await asyncio.wait((asking,))
        assert asking.cancelled()
        client.leaving = None
        kept = await client.fork(
            "2", socket.SOCK_STREAM
        )  # its answer comes after that of the first
        while (children := processes.children(server.pid)) != [kept.pid]:
            assert kept.pid in children
            await asyncio.sleep(0.01)
        assert pidfds() == held + 1
        kept.close()
        kept.channel.close()
    assert pidfds() == held


async def test_a_caller_that_leaves_a_server_which_is_not_ready_leaves_it_to_the_others() -> None:
    async with served() as (client, _, ours):
        leaving, staying = (asyncio.create_task(client.until_warm()) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait((leaving,))
        ours.send(b"!")
        await staying
        assert not client.is_gone


async def test_a_server_that_ends_before_it_is_ready_is_no_error_where_no_one_waits_for_it() -> (
    None
):
    async with served() as (client, server, _):
        server.kill()
        while not client.is_gone:
            await asyncio.sleep(0.01)
    del client
    gc.collect()
