"""C and Python set up the same box; nothing of a box is there for the next."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sandbox.ways import INTERPRETER, QUICK

from assay.sandbox.launchers.order import ENVIRONMENT
from assay.sandbox.launchers.request import packed
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, PythonRun, SandboxError

SHOW = "import os, sys; print(sys.argv[1:], sorted(os.environb.items()), os.listdir('.'))"
LIMITS = (
    *("cpu_s", "file_bytes", "disk_bytes", "inodes"),
    *("open_files", "stack_bytes", "address_bytes", "processes"),
)
SCRIPT = b"#!/bin/sh\necho script $0 $*\n"
PLAIN_NAMES = st.from_regex(r"[a-z][a-z ]{0,6}(/[a-z]{1,3}){0,2}", fullmatch=True)
COMMANDS: Mapping[str, dict[str, Any]] = {
    "missing": {"argv": ("no-such-program",)},
    "missing with a path": {"argv": ("./none",)},
    "missing in a file": {"argv": ("a/b",), "files": {"a": b""}},
    "empty name": {"argv": ("",)},
    "no name": {"argv": ()},
    "a directory": {"argv": ("/usr",)},
    "not executable": {"argv": ("./a",), "files": {"a": SCRIPT}},
    "no format": {"argv": ("./a",), "files": {"a": b"echo 1\n"}, "executables": {"a"}},
    "interpreted": {"argv": ("./a", "x  y"), "files": {"a": SCRIPT}, "executables": {"a"}},
    "on the path": {"argv": ("echo", "-n", "é", "", "\n")},
    "own path": {
        "argv": ("a", "1"),
        "files": {"d/e/a": SCRIPT},
        "executables": {"d/e/a"},
        "env": {"PATH": "/none::/box/d/e:/usr/bin"},
    },
    "current folder on the path": {
        "argv": ("a",),
        "files": {"a": SCRIPT},
        "executables": {"a"},
        "env": {"PATH": ""},
    },
    "refused on the path": {"argv": ("a",), "files": {"a": b""}, "env": {"PATH": "/box:/usr/bin"}},
    "a NUL": {"argv": ("echo", "a\0b")},
    "a NUL in a variable": {"argv": ("env",), "env": {"A": "\0"}},
    "a name with =": {"argv": ("env",), "env": {"A=B": "1"}},
    "an empty variable name": {"argv": ("env",), "env": {"": "1"}},
    "bytes": {"argv": ("printf", "%s", "\udcff"), "env": {"A": "\udc80"}},
    "a lone surrogate": {"argv": ("echo", "\ud800")},
    "too long": {"argv": ("echo", "x" * 200_000)},
    "killed": {"argv": ("sh", "-c", "kill -9 $$")},
    "a signal of the shell": {"argv": ("sh", "-c", "kill -SEGV $$")},
    "a status": {"argv": ("sh", "-c", "exit 200")},
    "no interrupt ignored": {"argv": ("sh", "-c", "kill -INT $$; echo alive")},
    "a broken pipe": {"argv": ("sh", "-c", "yes | head -1; grep Sig[IB] /proc/self/status")},
    "descriptors": {
        "argv": ("sh", "-c", "ls /proc/self/fd; ulimit -a; cat /proc/self/oom_score_adj")
    },
    "status": {
        "argv": ("sh", "-c", "grep -E 'Cap|NoNew|Seccomp|Uid|NSpid|Groups' /proc/self/status")
    },
    "mounts": {
        "argv": ("sh", "-c", "cut -d' ' -f5,6,9 /proc/self/mountinfo; hostname; pwd; umask; id")
    },
    "session": {"argv": ("sh", "-c", "cut -d' ' -f4-7 /proc/self/stat; ls /proc /dev /tmp / -a")},
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_command_ends_alike_in_both(
    zygote: ZygoteLauncher,
    fallback: ZygoteLauncher,
    forked: ZygoteLauncher,
    command: dict[str, Any],
) -> None:
    run = CommandRun(
        limits=QUICK, **{**command, "executables": frozenset(command.get("executables", ()))}
    )
    python = fallback.run(run)
    for native in (zygote.run(run), forked.run(run)):
        assert (native.status, native.exit_code) == (python.status, python.exit_code)
        assert native.stdout == python.stdout
        assert native.stderr == python.stderr


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.text(max_size=8), max_size=4),
    st.dictionaries(st.text(max_size=4), st.text(max_size=8), max_size=3),
    st.dictionaries(PLAIN_NAMES, st.binary(max_size=300), max_size=3),
)
def test_any_text_arrives_alike_in_both(
    zygote: ZygoteLauncher,
    fallback: ZygoteLauncher,
    words: list[str],
    variables: dict[str, str],
    files: dict[str, bytes],
) -> None:
    names = list(files)
    if any(one != other and other.startswith(f"{one}/") for one in names for other in names):
        return  # a file cannot be a folder
    argv = (INTERPRETER, "-I", "-S", "-c", SHOW, *words)
    run = CommandRun(argv=argv, env=variables, files=files, collect=tuple(names))
    native, python = zygote.run(run), fallback.run(run)
    assert (native.exit_code, native.stdout) == (python.exit_code, python.stdout)
    assert native.files == python.files
    if native.exit_code == 0:
        assert native.files == files


@given(st.text(), st.dictionaries(st.text(), st.text()), st.binary())
def test_a_request_says_where_its_parts_are(
    word: str, variables: dict[str, str], data: bytes
) -> None:
    header: dict[str, Any] = {"argv": [word], "env": variables, "files": [("a", data, True)]}
    header |= {"source": data, "limits": dict.fromkeys(LIMITS, -1), "special": 0}
    for kind in ("python", "command", "harness"):
        for native in (True, False):
            request = packed({**header, "kind": kind}, native=native)
            at = int.from_bytes(request[24:32], "little")
            assert 96 <= at < len(request)
            assert (request[4:8] == b"\2\0\0\0") or (native and kind != "harness")


STREAMS = """
import sys
def of(stream):
    told = [repr(stream), stream.fileno(), stream.line_buffering, stream.write_through]
    told += [stream.encoding, stream.errors, stream.newlines, stream.closed, stream.isatty()]
    told += [stream.readable(), stream.writable(), stream.seekable()]
    told += [type(stream.buffer), repr(stream.buffer.raw)]
    told += [stream.buffer.raw.seekable(), stream.buffer.raw._blksize, stream.buffer.raw.closefd]
    return told + [stream.tell() if stream.seekable() else None]
own = [
    open(0, encoding="utf-8", errors="surrogateescape", closefd=False),
    open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False),
    open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False),
]
for name, new in zip(("stdin", "stdout", "stderr"), own):
    given = getattr(sys, name)
    print(of(given) == of(new) or (of(given), of(new)), given is getattr(sys, f"__{name}__"))
sys.stdin.seek(4)
print(input(), sys.stdin.read())
"""


def test_streams_that_were_opened_ahead_are_as_if_the_program_had_opened_them(
    zygote: ZygoteLauncher, fallback: ZygoteLauncher
) -> None:
    run = PythonRun(source=STREAMS.encode(), stdin="one\ntwö\nthree".encode(), limits=QUICK)
    for launcher in (zygote, fallback):
        assert launcher.run_python(run).stdout.decode() == "True True\n" * 3 + "twö three\n"


def test_a_python_program_ends_alike_in_both(
    zygote: ZygoteLauncher, fallback: ZygoteLauncher, forked: ZygoteLauncher
) -> None:
    for source in (
        "import os, sys; print(sys.argv, os.environ, os.listdir('/proc/self/fd'), os.getpid())",
        "raise ValueError('é')",
        "import signal; print([signal.getsignal(n) for n in sorted(signal.valid_signals())])",
        "import threading; t = threading.Thread(target=print, args=(1,)); t.start()",
        "import os\nif os.fork(): os.wait()\nprint(1, flush=True)",
        "import os; os._exit(3)",
        "import resource as r; print([r.getrlimit(n) for n in range(15)])",
        "import random, os; random.random(); print(len(os.urandom(4)))",
        "import mmap; print([l for l in open('/proc/self/maps') if 'memfd' in l])",
        "import os; os.abort()",
        "import sys; sys.stdout.write('no end'); sys.stderr.write('nor here')",
        "import sys; print(input()); print(sys.stdin.buffer.read(3), sys.stdin.read())",
        "import os; print(os.read(0, 4), os.lseek(0, 0, 1)); print(input(), os.lseek(0, 0, 1))",
        "import os; os.dup2(1, 2); os.close(1); print('to no one')",
        "import os, subprocess; print(os.environ, flush=True); subprocess.run(['env'])",
    ):
        run = PythonRun(
            source=source.encode(), argv=("a",), stdin="one\ntwö\nthree".encode(), limits=QUICK
        )
        python = fallback.run_python(run)
        for native in (zygote.run_python(run), forked.run_python(run)):
            assert (native.status, native.exit_code) == (python.status, python.exit_code)
            assert (native.stdout, native.stderr) == (python.stdout, python.stderr)


def test_files_that_do_not_fit_are_no_verdict(
    zygote: ZygoteLauncher, fallback: ZygoteLauncher
) -> None:
    run = CommandRun(
        argv=("true",), files={"a": bytes(1 << 20)}, limits=replace(QUICK, disk_bytes=1 << 16)
    )
    for launcher in (zygote, fallback):
        with pytest.raises(SandboxError, match="No space left"):
            launcher.run(run)
        assert launcher.run(CommandRun(argv=("true",))).exit_code == 0


NAMESPACES = """
import os, time
print(time.monotonic_ns())
time.sleep(0.2)
print(*(os.readlink(f'/proc/self/ns/{name}') for name in sorted(os.listdir('/proc/self/ns'))))
print(time.monotonic_ns())
"""


def test_no_namespace_serves_two_boxes_at_once(zygote: ZygoteLauncher) -> None:
    own = {"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "user", "uts"}
    runs = [PythonRun(source=NAMESPACES.encode())] * 3
    began_ns, ended_ns = 1, 0
    for _ in range(100):  # on a busy machine one may end before another begins
        with ThreadPoolExecutor(3) as pool:
            seen = [result.stdout.split(b"\n") for result in pool.map(zygote.run_python, runs)]
        began_ns = max(int(lines[0]) for lines in seen)
        ended_ns = min(int(lines[2]) for lines in seen)
        if began_ns < ended_ns:
            break
    assert began_ns < ended_ns
    names = {one for lines in seen for one in lines[1].decode().split()}
    names = {one for one in names if one.partition(":")[0] in own}
    assert len(names) == 3 * (len(own) - 1)  # pid_for_children is pid


def test_a_program_has_the_variables_of_its_run_and_no_others(
    zygote: ZygoteLauncher, fallback: ZygoteLauncher
) -> None:
    source = b"import os, subprocess; subprocess.run(['env']); print(sorted(os.environ.items()))"
    usual = {"HOME": "/box", **ENVIRONMENT}
    for wanted in ({}, {"LANG": "C", "MINE": "é"}):
        whole = {**usual, **wanted}
        for launcher in (zygote, fallback):
            lines = launcher.run_python(PythonRun(source=source, env=wanted)).stdout.decode()
            *executed, own = lines.splitlines()
            assert sorted(executed) == sorted(f"{name}={whole[name]}" for name in whole)
            assert own == str(sorted(whole.items()))
