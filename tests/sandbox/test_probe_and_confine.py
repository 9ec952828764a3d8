"""The doctor's findings, the refusal, and the confinement of a warm worker (in its own process)."""

import json
import subprocess
import sys

import pytest

from assay.config.settings import SandboxSettings
from assay.core.errors import IsolationUnavailable
from assay.edge.clock import Clock
from assay.sandbox import probe as probing
from assay.sandbox.launcher import UnisolatedLauncher, ZygoteLauncher
from assay.sandbox.probe import open_launcher, probe, require_isolation
from assay.sandbox.seccomp import compile_filter


def test_the_probe_says_what_this_host_gives() -> None:
    report = probe(SandboxSettings(), Clock())
    assert report.isolated
    assert report.mode in {"namespaces", f"namespaces+cgroup-{report.cgroup}"}
    assert json.loads(json.dumps(report.as_dict()))["mode"] == report.mode


def test_a_backend_that_is_asked_for_is_the_one_reported() -> None:
    report = probe(SandboxSettings(cgroup="none"), Clock())
    assert report.mode == "namespaces"
    assert any("memory and processes" in line for line in report.advice)


@pytest.fixture
def _no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that refuses: every zygote says what the kernel would have said."""

    def refuse(*_: object, **__: object) -> None:
        raise IsolationUnavailable("zygote: failed: unshare: Operation not permitted")

    monkeypatch.setattr(probing, "ZygoteLauncher", refuse)
    monkeypatch.setattr(probing, "BubblewrapLauncher", refuse)


@pytest.mark.usefixtures("_no_namespaces")
def test_a_host_without_namespaces_is_refused_with_what_is_missing_and_how_to_get_it() -> None:
    with pytest.raises(IsolationUnavailable, match="unshare: Operation not permitted") as refused:
        require_isolation(SandboxSettings(), Clock())
    assert "unprivileged_userns_clone" in refused.value.message
    assert "procMount" in refused.value.message


@pytest.mark.usefixtures("_no_namespaces")
def test_where_the_operator_insists_the_launcher_has_no_isolation_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with open_launcher(SandboxSettings(allow_unisolated=True), Clock()) as launcher:
        assert type(launcher) is UnisolatedLauncher
    assert caplog.text.count("WITHOUT ISOLATION") == 2


def test_the_launcher_of_this_host_is_the_isolated_one() -> None:
    with open_launcher(SandboxSettings(), Clock()) as launcher:
        assert type(launcher) is ZygoteLauncher


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
threading.Thread(target=lambda: heard.append(ours.recv(5))).start()
theirs.send(b"hello")
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
