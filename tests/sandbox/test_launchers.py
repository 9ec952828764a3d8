"""What honest programs may rely on, the same in every box; and launchers that come and go."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.sandbox.ways import INTERPRETER, QUICK, Launcher, Way, until

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.accounting import cgroup_v2
from assay.sandbox.accounting.backends import open_backend
from assay.sandbox.launchers.base import Mode
from assay.sandbox.launchers.boxes import Zygote
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher, open_command_launcher
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, CommandRun, Limits, PythonRun, RunStatus, SandboxError
from assay.sandbox.uid_claim import UidClaim

ROOMY = Limits(cpu_s=10)


def test_ten_megabytes_of_output_come_back_whole(way: Way) -> None:
    result = way.python("print('x' * 99 + '\\n', end='') or print(('y' * 99 + '\\n') * 104_857)")
    assert result.status is RunStatus.EXITED
    assert len(result.stdout) == 100 + 10_485_700 + 1


def test_ten_megabytes_go_in_and_out_at_once(launcher: Launcher) -> None:
    data = os.urandom(1 << 20) * 10
    result = launcher.run(CommandRun(argv=("cat",), stdin=data, limits=ROOMY))
    assert result.stdout == data


def test_input_that_nobody_reads_stops_nobody(launcher: Launcher) -> None:
    result = launcher.run(CommandRun(argv=("true",), stdin=bytes(4 << 20), limits=ROOMY))
    assert result.exit_code == 0


def test_a_program_has_its_arguments_files_environment_and_directory(way: Way) -> None:
    source = """
    import os, sys
    print(sys.argv[1:], os.getcwd(), open("data/in.txt").read(), os.environ["COLOUR"], __name__)
    print(sorted(os.environ), file=sys.stderr)
    open("out.txt", "w").write("done")
    sys.exit(3)
    """
    result = way.python(
        textwrap.dedent(source),
        argv=("a", "b c"),
        files={"data/in.txt": b"text"},
        env={"COLOUR": "red"},
        collect=("out.txt", "absent"),
        limits=ROOMY,
    )
    assert result.stdout == b"['a', 'b c'] /box text red __main__\n"
    assert result.exit_code == 3
    assert result.files == {"out.txt": b"done"}
    assert eval(result.stderr) in (  # what Python itself adds differs
        ["COLOUR", "HOME", "LANG", "PATH", "TMPDIR", "USER"],
        ["COLOUR", "HOME", "LANG", "LC_CTYPE", "PATH", "PWD", "TMPDIR", "USER"],
        ["COLOUR", "HOME", "LANG", "PATH", "PWD", "TMPDIR", "USER"],
    )


@pytest.mark.parametrize(
    ("source", "code", "stderr"),
    [
        ("raise SystemExit", 0, b""),
        ("import sys; sys.exit('why')", 1, b"why\n"),
        ("import sys; sys.exit(300)", 44, b""),
        ("import os; os._exit(5)", 5, b""),
        ("def f(:", 1, b"SyntaxError"),
        ("1 / 0", 1, b"ZeroDivisionError: division by zero\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, b""),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV, b""),
        ("import os; os.abort()", -signal.SIGABRT, b""),
        ("exit(4)", 4, b""),
    ],
)
def test_a_program_ends_as_the_interpreter_would_end_it(
    request: pytest.FixtureRequest, zygote: ZygoteLauncher, source: str, code: int, stderr: bytes
) -> None:
    result = zygote.run_python(PythonRun(source=source.encode(), limits=QUICK))
    assert result.exit_code == code
    assert result.stderr.endswith(stderr) or stderr in result.stderr
    assert result.status is (RunStatus.EXITED if code >= 0 else RunStatus.SIGNALED)


@pytest.mark.parametrize("kind", [ZygoteLauncher, BubblewrapLauncher])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_what_the_platform_ignores_ends_a_program(
    kind: type[ZygoteLauncher | BubblewrapLauncher], number: signal.Signals
) -> None:
    """`nohup` and background jobs of scripts ignore signals, and children inherit that."""
    before = signal.signal(number, signal.SIG_IGN)
    source = f"import os; os.kill(os.getpid(), {int(number)})"
    try:
        with kind(SandboxSettings(), Clock()) as launcher:
            if isinstance(launcher, ZygoteLauncher):
                result = launcher.run_python(PythonRun(source=source.encode(), limits=QUICK))
            else:
                argv = ("/usr/bin/python3", "-c", source)
                result = launcher.run(CommandRun(argv=argv, limits=QUICK))
    finally:
        signal.signal(number, before)
    assert (result.status, result.exit_code) == (RunStatus.SIGNALED, -number)


def test_a_traceback_shows_the_program_and_nothing_of_ours(
    zygote: ZygoteLauncher, tmp_path: Path
) -> None:
    """As the interpreter shows it; which parts it marks depends on its version."""
    source = "def f(x):\n    return 1 / x\n\nf(0)\n"
    plain = tmp_path / "program.py"
    plain.write_text(source)
    shown = subprocess.run(
        [INTERPRETER, "-I", "-S", str(plain)], capture_output=True, text=True, check=False
    )
    assert "ZeroDivisionError" in shown.stderr
    result = zygote.run_python(PythonRun(source=source.encode()))
    assert result.stderr.decode() == shown.stderr.replace(str(tmp_path), "/box")


def test_exit_hooks_threads_and_destructors_run_at_the_end(way: Way) -> None:
    source = """
    import atexit, threading, time
    class Last:
        def __del__(self): print("destroyed")
    last = Last()
    atexit.register(print, "hook")
    threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
    print("main")
    """
    result = way.python(textwrap.dedent(source), limits=ROOMY)
    assert result.stdout == b"main\nthread\nhook\ndestroyed\n"


ENDS = {
    "a file without a name": "open(1, 'w', closefd=False).write('out')",
    "a file that no one closes": "f = open(1, 'w', closefd=False); f.write('out')",
    "a destructor in a cycle": """
class Node:
    def __del__(self): print('out', end='')
node = Node(); node.me = node
""",
    "standard output replaced by a buffer": (
        "import io, sys\nsys.stdout = io.StringIO(); print('kept back')\n"
        "sys.__stdout__.write('out')"
    ),
    "a wrapper around standard output's bytes": (
        "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer); print('out', end='')"
    ),
    "a stream whose flush needs the program's globals": """
import os, sys
from io import BytesIO, IOBase
class FastIO(IOBase):
    def __init__(self, file):
        self._fd = file.fileno(); self.buffer = BytesIO()
    def write(self, text): return self.buffer.write(text.encode())
    def flush(self):
        os.write(self._fd, self.buffer.getvalue()); self.buffer.truncate(0); self.buffer.seek(0)
sys.stdout = FastIO(sys.stdout)
sys.stdout.write('out')
""",
    "standard output closed": "import os, sys\nos.write(1, b'out'); sys.stdout.close()",
    "standard streams opened again by name": (
        "kept = open('/dev/stdout', 'w')\nkept.write(open('/dev/stdin').read() + 'out')"
    ),
    "standard error opened again": (
        "print('more', file=open('/proc/self/fd/2', 'w'))\nprint('out', end='')"
    ),
    "names of the streams deleted": (
        "import sys\nprint('out', end='', flush=True)\ndel sys.stdout, sys.__stdout__, sys.stderr"
    ),
    "the main module deleted": ("import sys\nprint('out', end='')\ndel sys.modules['__main__']"),
    "the main module replaced": "import sys\nsys.modules['__main__'] = 5\nprint('out', end='')",
    "no standard output": "import os, sys\nos.write(1, b'out'); sys.stdout = None",
    "an exit hook that writes to a file": (
        "import atexit\nf = open(1, 'w', closefd=False); atexit.register(f.write, 'out')"
    ),
    "a daemon thread": (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "print('out', end='')"
    ),
    "a collector that is off": "import gc\ngc.disable(); gc.freeze(); print('out', end='')",
}


@pytest.mark.parametrize("source", ENDS.values(), ids=ENDS)
def test_what_a_program_wrote_arrives_however_it_ends(way: Way, source: str) -> None:
    result = way.python(source, limits=ROOMY)
    assert (result.stdout, result.exit_code) == (b"out", 0), result.stderr


FAILING_ENDS = {
    "words and no standard error": ("import sys\nsys.stderr = None\nsys.exit('no')", 1),
    "what cannot be printed": ("import sys\nclass Odd:\n    __str__ = None\nsys.exit(Odd())", 1),
    "a code of many bits": ("import sys\nsys.exit(1 << 70)", 255),
    "a negative code": ("import sys\nsys.exit(-2)", 254),
    "the least code": ("import sys\nsys.exit(-(1 << 63))", 0),
    "a code that hides its value": (
        "import sys\nclass Odd(int):\n    __int__ = __index__ = __abs__ = None\nsys.exit(Odd(3))",
        3,
    ),
    "an exit that hides its code": (
        "class Odd(SystemExit):\n    code = property(lambda self: 1 / 0)\nraise Odd",
        1,
    ),
    "an exception that hides its trace": (
        "class Odd(Exception):\n    with_traceback = __traceback__ = None\nraise Odd",
        1,
    ),
    "a hook that fails": (
        "import sys\ndef hook(*_): raise ValueError\nsys.excepthook = hook\n1/0",
        1,
    ),
    "the hook deleted": ("import sys\ndel sys.excepthook\n1/0", 1),
    "the hook deleted and no standard error": (
        "import sys\ndel sys.excepthook, sys.stderr, sys.__stderr__\n1/0",
        1,
    ),
}


@pytest.mark.parametrize(("source", "code"), FAILING_ENDS.values(), ids=FAILING_ENDS)
def test_a_program_that_fails_has_the_exit_code_of_the_interpreter(
    way: Way, source: str, code: int
) -> None:
    result = way.python(f"print('out', end='')\n{source}", limits=ROOMY)
    assert (result.stdout, result.exit_code) == (b"out", code), result.stderr


def test_programs_do_not_share_random_numbers_or_modules(zygote: ZygoteLauncher) -> None:
    source = b"import random, re; print(random.random(), hasattr(re, 'mine')); re.mine = 1"
    seen = {zygote.run_python(PythonRun(source=source)).stdout for _ in range(5)}
    assert len(seen) == 5
    assert all(line.endswith(b" False\n") for line in seen)


def test_a_program_that_cannot_be_found_exits_with_127(launcher: Launcher) -> None:
    result = launcher.run(CommandRun(argv=("./absent",)))
    assert result.status is RunStatus.EXITED
    assert result.exit_code == 127
    assert b"absent" in result.stderr


def test_usage_is_measured(way: Way) -> None:
    source = "kept = bytearray(50 << 20)\nfor number in range(2_000_000): pass"
    result = way.python(source, limits=ROOMY)
    assert 50 * MIB < result.memory_bytes_peak < 100 * MIB
    assert 0.02 < result.cpu_s <= result.wall_s * 1.25


def test_runs_from_many_threads_are_each_their_own(way: Way) -> None:
    def one(number: int) -> bytes:
        return way.python(f"print(input(), {number})", stdin=b"%d\n" % number, limits=ROOMY).stdout

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(24))) == [b"%d %d\n" % (n, n) for n in range(24)]


def test_directories_of_the_host_are_shown_read_only_and_imported_from(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "given.py").write_text("answer = 42")
    source = (
        b"import given, os; print(given.answer)\n"
        b"try: open(given.__file__, 'w')\nexcept OSError as error: print(error.errno)"
    )
    inside = Inside(python_path=(tmp_path,))
    with ZygoteLauncher(SandboxSettings(), Clock(), inside=inside) as launcher:
        result = launcher.run_python(PythonRun(source=source))
        assert (result.stdout, result.stderr) == (b"42\n30\n", b"")
    listing = CommandRun(argv=("cat", str(tmp_path / "given.py")))
    with BubblewrapLauncher(SandboxSettings(), Clock(), inside=inside) as launcher:
        assert launcher.run(listing).stdout == b"answer = 42"


def test_the_zygotes_boxes_take_the_place_of_a_missing_bubblewrap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ExitStack() as held:
        found = open_command_launcher(SandboxSettings(), Clock())
        held.callback(found.close)
        assert isinstance(found, BubblewrapLauncher)
        monkeypatch.setenv("PATH", "/nowhere")
        instead = open_command_launcher(SandboxSettings(), Clock())
        held.callback(instead.close)
        assert isinstance(instead, ZygoteLauncher)
        assert instead.run(CommandRun(argv=("echo", "1"))).stdout == b"1\n"


def test_a_killed_zygote_costs_at_most_the_runs_under_way() -> None:
    with ZygoteLauncher(SandboxSettings(), Clock()) as launcher:
        assert launcher.run(CommandRun(argv=("true",))).exit_code == 0
        os.kill(launcher.zygote_pid, signal.SIGKILL)
        for _ in range(3):
            try:
                result = launcher.run(CommandRun(argv=("true",)))
            except SandboxError:
                continue
            assert result.exit_code == 0
            return
        pytest.fail("the launcher did not recover")


def test_a_box_of_a_zygote_that_dies_meanwhile_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with ZygoteLauncher(SandboxSettings(), Clock()) as launcher:
        assert launcher.run(CommandRun(argv=("true",))).exit_code == 0
        before = set(os.listdir("/proc/self/fd"))

        def dead(_self: Zygote, *, until: int) -> None:
            monkeypatch.setattr(Zygote, "_ask", broken)

        def broken(_self: Zygote, *, until: int) -> None:
            raise BrokenPipeError

        monkeypatch.setattr(Zygote, "_ask", dead)  # the box that is ready comes, then no more
        with pytest.raises(SandboxError, match="does not answer"):
            launcher.run(CommandRun(argv=("true",)))
        assert set(os.listdir("/proc/self/fd")) == before


ABANDONED = """
import sys
from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.base import Mode
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import PythonRun, Limits
launcher = ZygoteLauncher(SandboxSettings(), Clock())
print(launcher.zygote_pid, flush=True)
limits = Limits(blocked_s=1000)
launcher.run_python(PythonRun(source=b"import time; time.sleep(1000)", limits=limits))
"""


def test_a_killed_worker_leaves_no_process_and_its_cgroups_are_swept_by_the_next() -> None:
    worker = subprocess.Popen([sys.executable, "-c", ABANDONED], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    zygote = psutil.Process(int(worker.stdout.readline()))
    until(lambda: len(zygote.children(recursive=True)) >= 3, "the program did not start")
    family = [zygote, *zygote.children(recursive=True)]
    left = list(Path("/sys/fs/cgroup").glob(f"**/assay.{worker.pid}.*"))
    worker.kill()
    worker.wait()
    worker.stdout.close()
    until(lambda: not any(process.is_running() for process in family), f"{family} live on")
    with ZygoteLauncher(SandboxSettings(), Clock()):
        assert not any(path.exists() for path in left)


def test_slots_are_claimed_once_and_freed_by_the_end() -> None:
    with ExitStack() as held:
        numbers = [held.enter_context(UidClaim()).number for _ in range(5)]
        assert len(set(numbers)) == 5
    with UidClaim() as again:
        assert again.number <= min(numbers)


@pytest.mark.parametrize("wanted", ["v2", "auto"])
def test_a_tree_of_cgroups_that_can_only_be_read_is_no_backend(
    wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its controllers are there for children, as in a container; what is made there is none."""
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        (tmp_path / name).write_text("cpu memory pids\n")
    monkeypatch.setattr(cgroup_v2, "_own_cgroup", lambda: str(tmp_path))
    if wanted == "v2":
        with pytest.raises(FileNotFoundError):
            open_backend("v2")
    else:
        backend = open_backend("auto")
        assert backend.kind != "v2"
        backend.close()


def test_a_run_works_with_the_v2_backend_and_whatever_controllers_it_has() -> None:
    try:
        open_backend("v2").close()
    except OSError as error:
        pytest.skip(f"no cgroup v2 that this user may use: {error}")
    with ZygoteLauncher(SandboxSettings(cgroup="v2"), Clock()) as launcher:
        assert launcher.cgroup == "v2"
        result = launcher.run_python(
            PythonRun(source=b"while True: pass", limits=replace(QUICK, cpu_s=0.3))
        )
        assert result.status is RunStatus.CPU_LIMIT


def test_without_cgroups_the_tree_is_sampled() -> None:
    spin = b"import os\nos.fork()\nwhile True: pass"
    fill = b"kept = []\nwhile True: kept.append(bytearray(1 << 20))"
    with ZygoteLauncher(SandboxSettings(cgroup="none"), Clock()) as launcher:
        cpu = launcher.run_python(PythonRun(source=spin, limits=replace(QUICK, cpu_s=0.3)))
        memory = launcher.run_python(PythonRun(source=fill, limits=QUICK))
        forks = launcher.run_python(
            PythonRun(source=b"import os\nwhile True: os.fork()", limits=QUICK)
        )
    assert cpu.status is RunStatus.CPU_LIMIT
    assert memory.status is RunStatus.MEMORY_LIMIT or b"MemoryError" in memory.stderr
    assert forks.status.is_limit or forks.exit_code != 0


class BareLauncher(ZygoteLauncher):
    """As on a host that gives no namespaces, where the operator insists."""

    _MODE = Mode.BARE


WITHOUT_NAMESPACES = """
import pyseccomp
from assay.config.settings import SandboxSettings
from assay.core.errors import IsolationUnavailable
from assay.edge.clock import Clock
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun

rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
rules.add_rule(pyseccomp.ERRNO(1), "unshare")
rules.load()
try:
    ZygoteLauncher(SandboxSettings(), Clock())
except IsolationUnavailable as error:
    print("refused:", error)
with ZygoteLauncher(SandboxSettings(allow_unisolated=True), Clock()) as launcher:
    print(launcher.isolated, launcher.run(CommandRun(argv=("echo", "ran"))).stdout.decode())
"""


def test_a_host_without_namespaces_is_refused_unless_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NAMESPACES], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0].startswith("refused: zygote: failed:")
    assert done.stdout.splitlines()[1] == "False ran"
    assert "WITHOUT ISOLATION" in done.stderr


def test_without_isolation_the_tree_still_ends_and_privileges_are_gone() -> None:
    script = "(setsid sleep 1234567 &) ; id -u; pwd; echo text > out"
    with BareLauncher(SandboxSettings(allow_unisolated=True), Clock()) as launcher:
        assert not launcher.isolated
        result = launcher.run(CommandRun(argv=("sh", "-c", script), collect=("out",)))
        uid, directory = result.stdout.decode().split()
        assert int(uid) == launcher.uid != 0
        assert result.files == {"out": b"text\n"}
        until(lambda: not _sleepers(), "a daemon lives on")
        assert not Path(directory).exists()


def _sleepers() -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if "1234567" in str(p.info)]


def test_without_isolation_python_runs_where_the_uid_can_read_it_and_else_is_our_error() -> None:
    source = b"import os, textwrap; print(textwrap.dedent(' x'), os.getuid() != 0)"
    with BareLauncher(SandboxSettings(allow_unisolated=True), Clock()) as launcher:
        if os.path.realpath(sys.executable).startswith("/root/") and os.geteuid() == 0:
            with pytest.raises(SandboxError, match="PermissionError"):
                launcher.run_python(PythonRun(source=source))
        else:
            assert launcher.run_python(PythonRun(source=source)).stdout == b"x True\n"


def test_cpu_time_is_the_verdict_of_a_busy_program(way: Way) -> None:
    started = time.monotonic()
    result = way.python("while True: pass", limits=replace(QUICK, cpu_s=0.3))
    assert result.status is RunStatus.CPU_LIMIT
    assert 0.3 < result.cpu_s < 1.5
    assert time.monotonic() - started < 40


def test_a_box_that_cannot_be_built_is_an_error_of_ours_that_says_why(way: Way) -> None:
    with pytest.raises(SandboxError, match="mount tmpfs"):
        way.python("print(1)", limits=replace(QUICK, disk_bytes=-1))


UNPRIVILEGED = """
import json, os
from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher
from assay.sandbox.launchers.base import Mode
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, PythonRun
from assay.sandbox.probe import require_isolation
os.chdir("/")
report = require_isolation(SandboxSettings(), Clock())
script = "import os; print(os.getuid(), os.path.exists('/etc/passwd'), os.listdir('/box'))"
command = CommandRun(argv=("sh", "-c", "id -u; ls /etc/passwd; echo *"))
with ZygoteLauncher(SandboxSettings(), Clock()) as zygote:
    said = [zygote.run_python(PythonRun(source=script.encode())).stdout.decode()]
    said.append(zygote.run(command).stdout.decode())
with BubblewrapLauncher(SandboxSettings(), Clock()) as bubblewrap:
    said.append(bubblewrap.run(command).stdout.decode())
print(json.dumps([report.mode, report.uid_drop, said]))
"""


def _interpreter_for_everybody() -> str:
    """A Python of this version that another uid can start."""
    for path in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        if not os.access(os.path.dirname(path), os.X_OK) or path.startswith("/root/"):
            continue
        asked = subprocess.run(
            [path, "-c", "import sys; print(sys.version_info[:2])"],
            user=65_534,
            group=65_534,
            extra_groups=[],
            capture_output=True,
            cwd="/",
            check=False,
        )
        if asked.stdout.decode().strip() == str(sys.version_info[:2]):
            return path
    pytest.skip("no Python of this version that an unprivileged uid can start")


def _own_paths() -> list[str]:
    """Where this project and what it needs are imported from, the interpreter's own left out."""
    return [path for path in sys.path if path and not path.startswith(sys.base_prefix)]


@pytest.mark.skipif(os.geteuid() != 0, reason="the suite itself runs unprivileged")
def test_an_unprivileged_worker_has_the_same_boxes() -> None:
    if Path("/proc/sys/kernel/unprivileged_userns_clone").exists():
        allowed = Path("/proc/sys/kernel/unprivileged_userns_clone").read_text().strip()
        if allowed != "1":
            pytest.skip("this kernel gives user namespaces to root only")
    done = subprocess.run(
        [_interpreter_for_everybody(), "-c", UNPRIVILEGED],
        user=65_534,
        group=65_534,
        extra_groups=[],
        capture_output=True,
        cwd="/",
        check=False,
        env={"PYTHONPATH": os.pathsep.join(_own_paths()), "HOME": "/tmp"},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    mode, uid_drop, said = json.loads(done.stdout)
    assert mode.startswith("namespaces")
    assert uid_drop is False
    assert said == ["1000 False ['program.py']\n", "1000\n*\n", "1000\n*\n"]
