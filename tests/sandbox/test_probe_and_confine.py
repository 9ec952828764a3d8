"""The doctor's findings, the refusal, and the confinement of a warm worker (in its own process)."""

import json
import subprocess
import sys

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.probe import probe, require_isolation
from assay.sandbox.seccomp import compile_filter


def test_the_probe_says_what_this_host_gives() -> None:
    report = probe(SandboxSettings(), Clock())
    assert report.isolated
    assert report.mode in {"namespaces", f"namespaces+cgroup-{report.cgroup}"}
    assert json.loads(json.dumps(report.as_dict()))["mode"] == report.mode


def test_isolation_is_granted_here() -> None:
    assert require_isolation(SandboxSettings(), Clock()).isolated


def test_a_backend_that_is_asked_for_is_the_one_reported() -> None:
    report = probe(SandboxSettings(cgroup="none"), Clock())
    assert report.mode == "namespaces"
    assert any("memory and processes" in line for line in report.advice)


REFUSED = """
import json, logging, sys
from assay.config.settings import SandboxSettings
from assay.core.errors import IsolationUnavailable
from assay.edge.clock import Clock
from assay.sandbox import linux
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun
import errno, os, pyseccomp
from assay.sandbox.probe import probe, require_isolation
logging.basicConfig(format="%(levelname)s %(message)s")
linux.forbid_new_privileges()
rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
refuse = pyseccomp.ERRNO(errno.EPERM)
for call in ("unshare", "setns", "mount", "pivot_root"):
    rules.add_rule(refuse, call)
for flag in (0x20000, 0x10000000, 0x20000000):
    rules.add_rule(refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
rules.load()
report = probe(SandboxSettings(allow_unisolated=True), Clock())
refusals = []
for act in (require_isolation, ZygoteLauncher, BubblewrapLauncher):
    try:
        act(SandboxSettings(), Clock())
    except IsolationUnavailable as error:
        refusals.append(error.message)
insisting = SandboxSettings(allow_unisolated=True)
bare = []
for opened in (ZygoteLauncher(insisting, Clock()), BubblewrapLauncher(insisting, Clock())):
    with opened as launcher:
        result = launcher.run(CommandRun(argv=("cat", "in"), files={"in": b"text"}))
        bare.append([launcher.isolated, result.stdout.decode()])
print(json.dumps([report.as_dict(), refusals, bare]))
"""


def test_a_host_that_gives_no_namespaces_is_refused_unless_the_operator_insists() -> None:
    """The host is a process under a filter that denies namespaces, as those of containers do."""
    done = subprocess.run(
        [sys.executable, "-c", REFUSED], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    report, refusals, bare = json.loads(done.stdout)
    assert (report["mode"], report["isolated"]) == ("unisolated", False)
    assert "ot permitted" in report["namespaces"]["detail"]
    assert len(refusals) == 3
    assert "unprivileged_userns_clone" in refusals[0]
    assert "procMount" in refusals[0]
    assert bare == [[False, "text"], [False, "text"]]
    assert done.stderr.decode().count("CRITICAL untrusted code runs WITHOUT ISOLATION") == 2


def test_the_filter_is_compiled_once() -> None:
    assert compile_filter() is compile_filter()
    assert len(compile_filter()) % 8 == 0


CONFINED = """
import json, os, socket, sys, threading
from assay.config.settings import SandboxSettings
from assay.sandbox.confine import confine_process
ours, theirs = socket.socketpair()
confinement = confine_process(SandboxSettings(), memory_bytes=512 << 20)
def outcome(act):
    try:
        act()
    except BaseException as error:
        return type(error).__name__
    return "DONE"
heard = []
hears = threading.Thread(target=lambda: heard.append(ours.recv(5)))
hears.start()
theirs.send(b"hello")
hears.join()
import xml.dom.minidom  # a module that was not loaded before
answers = {
    "socket": outcome(socket.socket),
    "unix": outcome(lambda: socket.socket(socket.AF_UNIX)),
    "write": outcome(lambda: open("/tmp/confined", "w")),
    "read": outcome(lambda: open("/etc/passwd")),
    "home": outcome(lambda: os.listdir("/home")),
    "fork": outcome(os.fork),
    "exec": outcome(lambda: os.execv("/bin/true", ["true"])),
    "memory": outcome(lambda: bytearray(1 << 30)),
    "root": outcome(lambda: os.setuid(0)),
    "kill": outcome(lambda: os.kill(os.getppid(), 0)),
}
print(json.dumps({
    "answers": answers, "uid": os.getuid(), "missing": confinement.missing,
    "network": confinement.network, "files": confinement.files, "seccomp": confinement.seccomp,
    "heard": heard[0].decode(),
}))
"""


def test_a_confined_worker_keeps_its_pipes_and_loses_the_rest() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONFINED], capture_output=True, check=True, timeout=60
    )
    found = json.loads(done.stdout)
    assert found["uid"] != 0
    assert found["heard"] == "hello"
    assert found["missing"] == []
    assert (found["network"], found["files"], found["seccomp"]) == (True, True, True)
    assert "DONE" not in found["answers"].values(), found["answers"]


SIGNALLED = """
import ctypes, errno, json, os, signal, sys, threading
from assay.sandbox import linux
from assay.sandbox.seccomp import compile_filter, numbers_of
program = compile_filter(exec_allowed=False, fork_allowed=False, sockets_allowed=False)
threading.Thread(target=lambda: None).start()
heard = []
signal.signal(signal.SIGALRM, lambda *_: heard.append("alarm"))
linux.forbid_new_privileges()
linux.Filter(program).apply_to_all_threads()
names = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
numbers = {name: number for number, name in numbers_of(names).items()}
libc = ctypes.CDLL(None, use_errno=True)
found = {}
for name, number in numbers.items():
    who = [os.getppid()] * (2 if "tg" in name else 1)
    result = libc.syscall(ctypes.c_long(number), *who, *([0] * 3))
    found[name] = "DONE" if result >= 0 else errno.errorcode[ctypes.get_errno()]
signal.setitimer(signal.ITIMER_REAL, 0.001)
while not heard: pass
print(json.dumps([found, heard]))
"""


def test_a_confined_process_signals_no_other_of_its_own_uid() -> None:
    """Not even the host that started it; its timers still interrupt it."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED], capture_output=True, check=True, timeout=60
    )
    found, heard = json.loads(done.stdout)
    assert set(found.values()) == {"EPERM"}, found
    assert len(found) == 5
    assert heard == ["alarm"]


COMPILED_IN_ADVANCE = """
import pyseccomp
from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.confine import confine_process
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.seccomp import compile_in_advance
compile_in_advance()
def refuse(*_):
    raise AssertionError("a filter is compiled")
pyseccomp.SyscallFilter = refuse
for cgroup in ("auto", "none"):
    ZygoteLauncher(SandboxSettings(cgroup=cgroup), Clock()).close()
confine_process(SandboxSettings(), memory_bytes=2**30)
print("confined", flush=True)
"""


def test_what_is_forked_after_the_filters_were_compiled_compiles_none() -> None:
    code = [sys.executable, "-c", COMPILED_IN_ADVANCE]
    said = subprocess.run(code, capture_output=True, text=True, check=False, timeout=60)
    assert said.stdout == "confined\n", said.stderr
