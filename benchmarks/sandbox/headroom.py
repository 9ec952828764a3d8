"""What this machine itself allows: processes, namespaces, compilations.

    python -m benchmarks.sandbox.headroom [--repeats 5] [--seconds 1] [--json] [--plot]

Each repeat measures every step once, in turn, with one thread per core. The forks add up: a fork of
a small program, one into namespaces, one into a network namespace too, a mount. The rates are
limits for any sandbox on this kernel; `benchmarks.service.peers --with-headroom` puts them
beside the peers.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.harness.report import OUT, Report, Spread, bar_plot

HELPER: Final = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
/* Fork into namespaces (flags), mount a tmpfs there if told to, end; `count` times. */
int main(int argc, char **argv) {
    (void)argc;
    unsigned long flags = strtoul(argv[1], 0, 0);
    int mounts = atoi(argv[2]);
    for (int count = atoi(argv[3]); count > 0; count--) {
        long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
            if (mounts && (mount(0, "/", 0, MS_REC | MS_PRIVATE, 0) ||
                           mount("t", "/tmp", "tmpfs", 0, "size=1m"))) _exit(1);
            _exit(0);
        }
        int status;
        if (pid < 0 || waitpid((pid_t)pid, &status, 0) < 0 || status) return 1;
    }
    return 0;
}
"""
INTERPRETER: Final = os.path.realpath(sys.executable)
NEW_USER, NEW_NET = 0x1000_0000, 0x4000_0000
ISOLATED: Final = 0x0002_0000 | 0x0400_0000 | 0x0800_0000 | 0x2000_0000 | NEW_USER
"""Mounts, host name, IPC, processes, users."""
PER_CALL: Final = 16
"""Forks per start of a helper, so that its own start counts little."""
FORKING: Final = f"""
import os
for _ in range({PER_CALL}):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
"""
HELLO: Final = '#include <cstdio>\nint main() { puts("1"); }\n'
BIG: Final = "#include <bits/stdc++.h>\nint main() { std::cout << 1 << std::endl; }\n"


class Step(NamedTuple):
    """Something that a machine can do so many times per second."""

    do: Callable[[], None]
    times: int = 1
    """Per call of `do`."""


def ways(held: contextlib.ExitStack) -> dict[str, Step]:
    """All steps; files are in a folder that `held` removes."""
    folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
    helper = folder / "helper"
    (folder / "helper.c").write_text(HELPER)
    _run(["cc", "-O2", "-o", str(helper), str(folder / "helper.c")])
    sources = {"none": "int main() {}\n", "small": HELLO, "big": BIG}
    for name, text in sources.items():
        (folder / f"{name}.cpp").write_text(text)
    compile_ = ("g++", "-std=c++17", "-O2", "-w", "-o", "/dev/null")

    def forks(flags: int, mounts: int) -> Step:
        return runs(str(helper), str(flags), str(mounts), str(PER_CALL), times=PER_CALL)

    return {
        "fork": forks(0, 0),
        "fork into namespaces": forks(ISOLATED, 0),
        "... and a network": forks(ISOLATED | NEW_NET, 0),
        "... and a mount": forks(ISOLATED | NEW_NET, 1),
        "fork of an interpreter": runs(INTERPRETER, "-I", "-S", "-c", FORKING, times=PER_CALL),
        "spawn of /bin/true": runs("/bin/true"),
        "C++ without headers, syntax": runs("g++", "-fsyntax-only", str(folder / "none.cpp")),
        "C++ with one header": runs(*compile_, str(folder / "small.cpp")),
        "C++ with all headers": runs(*compile_, str(folder / "big.cpp")),
    }


def runs(*command: str, times: int = 1) -> Step:
    """A step that runs a command."""
    return Step(lambda: _run(list(command)), times)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)


def rate(do: Callable[[], None], seconds: float, threads: int) -> float:
    """Calls per second of a closed loop with this number of threads."""
    end_s = time.perf_counter() + seconds

    def loop(_: int) -> int:
        calls = 0
        while time.perf_counter() < end_s or calls == 0:
            do()
            calls += 1
        return calls

    began_s = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        calls = sum(pool.map(loop, range(threads)))
    return calls / (time.perf_counter() - began_s)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", action="store_true")
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    with contextlib.ExitStack() as held:
        steps = ways(held)
        rates: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(options.repeats):
            for name, step in steps.items():
                rates[name].append(step.times * rate(step.do, options.seconds, threads))
    load = os.getloadavg()[0]
    report = Report(
        title=f"Limits of this machine, load {load:.1f}: median (least-most)",
        columns=("step", "per_s"),
    )
    bars = {name: Spread.of(found) for name, found in rates.items()}
    for name, spread in bars.items():
        report.add(step=name, per_s=spread)
    report.show(as_json=options.json)
    if options.plot:
        print(bar_plot(OUT / "headroom.png", "Limits", "per second", bars), file=sys.stderr)


if __name__ == "__main__":
    main()
