"""The one thing of a box that serves again, its empty network namespace, carries nothing over."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.sandbox.ways import QUICK, until

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import PythonRun, RunResult

if TYPE_CHECKING:
    from tests.sandbox.elsewhere import Unprivileged

WHICH = "import os; print(os.readlink('/proc/self/ns/net'), end=' ')\n"
LEAVE = """
import array, os, socket
keep = []
for name in ("\\0mark", "\\0other"):
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    bound.bind(name)
    # In flight in a cycle: alive after the process, until the kernel collects it.
    left, right = socket.socketpair()
    for end, held in ((left, right), (right, left)):
        fds = array.array("i", [held.fileno(), bound.fileno()])
        end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    keep.append((left, right, bound))
if os.fork() == 0:
    os.setsid()
    import time
    time.sleep(100)
print("left")
"""
LOOK = """
import socket
found = []
for name in ("\\0mark", "\\0other"):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_UNIX, kind) as one:
            try:
                one.connect(name)
                found.append("connected")
            except ConnectionRefusedError:
                pass
            except OSError as error:
                found.append(error.strerror)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind(name)
found += [line.split()[7] for line in open("/proc/self/net/unix") if len(line.split()) > 7]
found += [line for line in open("/proc/self/net/sockstat") if "sockets" in line]
print(sorted(set(found)))
"""
RIGHTS = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
done = []
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
    try:
        socket.socket(family, socket.SOCK_RAW)
        done.append(family)
    except OSError:
        pass
for path in ("ns/net", "ns/user"):
    descriptor = os.open(f"/proc/self/{path}", os.O_RDONLY)
    if libc.setns(descriptor, 0) == 0:
        done.append(path)
for flags in (0x40000000, 0x10000000):
    if libc.unshare(flags) == 0:
        done.append(flags)
print(done, os.path.exists("/proc/sys"), os.path.exists("/sys"))
"""


HOLD = """
import ctypes, os, socket, sys
ctypes.CDLL(None).setns(os.open(f"/proc/{sys.argv[1]}/ns/net", os.O_RDONLY), 0x40000000)
held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
print(os.readlink("/proc/self/ns/net"), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def launcher() -> Iterator[ZygoteLauncher]:
    """Its own, so that no other test takes the namespaces."""
    with ZygoteLauncher(SandboxSettings(), Clock()) as opened:
        assert opened.is_native
        yield opened


def run(launcher: ZygoteLauncher, source: str) -> RunResult:
    return launcher.run_python(PythonRun(source=source.encode(), limits=QUICK))


def network_of(launcher: ZygoteLauncher) -> str:
    return run(launcher, WHICH).stdout.decode()


@pytest.fixture(params=["zygote", "unprivileged zygote"])
def said(request: pytest.FixtureRequest) -> Callable[[str], bytes]:
    """What a program says in a box of a launcher of this user, or of one without privileges."""
    if request.param == "zygote":
        own: ZygoteLauncher = request.getfixturevalue("launcher")
        return lambda source: run(own, source).stdout
    other: Unprivileged = request.getfixturevalue("unprivileged")
    return lambda source: other.run("zygote", source, limits=QUICK).stdout


def test_a_box_gets_a_namespace_that_an_earlier_one_had(said: Callable[[str], bytes]) -> None:
    assert len({said(WHICH) for _ in range(12)}) < 12  # all 12 differ where none serves again


def test_names_that_a_program_left_are_unknown_to_the_next(said: Callable[[str], bytes]) -> None:
    clean = said(LOOK)
    assert b"connected" not in clean
    for _ in range(4):
        assert said(LEAVE) == b"left\n"
        for _ in range(4):
            assert said(LOOK) == clean


def test_a_program_has_no_rights_over_its_namespace(said: Callable[[str], bytes]) -> None:
    for _ in range(4):
        assert said(RIGHTS) == b"[] False False\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="enters the namespace of a box")
def test_a_namespace_in_which_a_socket_lives_serves_no_other_box(
    launcher: ZygoteLauncher,
) -> None:
    """As if the kernel had not collected yet what a program left."""
    assert network_of(launcher)
    zygote = psutil.Process(launcher.zygote_pid)
    until(lambda: len(zygote.children()) == 1, "another box than the waiting one remains")
    [waiting] = zygote.children()
    command = [sys.executable, "-c", HOLD, str(waiting.pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        held = holder.stdout.readline().decode().strip()
        seen = [network_of(launcher).strip() for _ in range(12)]
        # The others serve again, as soon as the machine has time to clean them.
        until(
            lambda: len({network_of(launcher) for _ in range(12)}) < 6, "no namespace serves again"
        )
        holder.communicate()
    assert held.startswith("net:")
    assert seen.count(held) == 1  # the box that waited in it
