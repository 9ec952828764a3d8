"""Cost of isolation: a bare interpreter, the zygote's sandboxes and bubblewrap's, in one run.

    python -m benchmarks.sandbox.isolation [--seconds 4] [--concurrency 1 4 16] [--json] [--plot]

Closed loop: each caller starts its next program when the last one ended. Callers are spread over
one process per core, each with its own launcher, like worker slots. All programs are trivial, so
the figure is the cost of the sandbox. The methods alternate within each concurrency, because other
load on a shared machine changes during the benchmark; `stolen_pct` is the
share of CPU time that the hypervisor gave to other guests in the meantime.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, HarnessRun, PythonRun
from benchmarks.harness.report import OUT, Report, bar_plot, percentile

Orders = Any
"""`multiprocessing` queue of (method, callers, seconds), ended by `None`."""
Answers = Any
"""`multiprocessing` queue of the names of the methods, then of lists of seconds."""
SOURCE: Final = b"print(1)"
INTERPRETER: Final = os.path.realpath(sys.executable)
HARNESS: Final = """
import os, socket
def main(payload, box):
    theirs, ours = socket.socketpair()
    pid = box.spawn_confined(lambda: theirs.sendall(b"answer"), keep_fds=[theirs.fileno()])
    theirs.close()
    box.unseal()
    box.confine_self()
    box.channel_write(ours.recv(64))
    os.waitpid(pid, 0)
"""


def bare_spawn() -> None:
    """No isolation: the cost of a fresh interpreter."""
    subprocess.run([INTERPRETER, "-c", SOURCE.decode()], check=True, stdout=subprocess.PIPE, env={})


def ways(held: ExitStack, scratch: Path) -> dict[str, Callable[[], None]]:
    """Open the launchers of one process; returns a function per method that runs it once."""
    harness = scratch / "harness.py"
    harness.write_text(HARNESS)
    inside = Inside(harnesses={"nested": harness})
    zygote = held.enter_context(ZygoteLauncher(SandboxSettings(), Clock(), inside=inside))
    bubblewrap = held.enter_context(BubblewrapLauncher(SandboxSettings(), Clock()))

    def expect(seen: bytes, wanted: bytes) -> None:
        if seen != wanted:
            raise RuntimeError(f"{seen!r} is not {wanted!r}")

    def in_bubblewrap(*argv: str, wanted: bytes) -> None:
        expect(bubblewrap.run(CommandRun(argv=argv)).stdout, wanted)

    echo = CommandRun(argv=("/bin/echo", "1"))
    nested = HarnessRun(module="nested", payload=b"")
    return {
        "bare python -c": bare_spawn,
        "zygote python": lambda: expect(zygote.run_python(PythonRun(source=SOURCE)).stdout, b"1\n"),
        "zygote harness + candidate": lambda: expect(zygote.run_harness(nested).channel, b"answer"),
        "zygote echo": lambda: expect(zygote.run(echo).stdout, b"1\n"),
        "bubblewrap echo": lambda: in_bubblewrap("/bin/echo", "1", wanted=b"1\n"),
        "bubblewrap python -c": lambda: in_bubblewrap(
            INTERPRETER, "-c", SOURCE.decode(), wanted=b"1\n"
        ),
    }


def _slot(orders: Orders, answers: Answers) -> None:
    """One worker slot: for each order (method, callers, seconds) run a closed loop and reply."""
    scratch = OUT / f"sandbox-{os.getpid()}"
    scratch.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        held.callback(scratch.rmdir)
        held.callback((scratch / "harness.py").unlink)
        does = ways(held, scratch)
        answers.put(list(does))
        while (order := orders.get()) is not None:
            name, callers, seconds = order
            answers.put(_loop(does[name], callers, seconds))


def _loop(run: Callable[[], None], callers: int, seconds: float) -> list[float]:
    end = time.perf_counter() + seconds

    def caller(_: int) -> list[float]:
        took = []
        while (began := time.perf_counter()) < end:
            run()
            took.append(time.perf_counter() - began)
        return took

    if callers == 0:
        return []
    with ThreadPoolExecutor(callers) as pool:
        return [one for took in pool.map(caller, range(callers)) for one in took]


class Slots:
    """The processes that run the callers."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.orders = [context.Queue() for _ in range(count)]
        self.answers = [context.Queue() for _ in range(count)]
        self.processes = [
            context.Process(target=_slot, args=(orders, answers))
            for orders, answers in zip(self.orders, self.answers, strict=True)
        ]
        for process in self.processes:
            process.start()
        self.names = [answers.get() for answers in self.answers][-1]

    def measure(self, name: str, concurrency: int, seconds: float) -> list[float]:
        """Run `concurrency` callers for `seconds`; returns how long each run took."""
        count = len(self.processes)
        for number, orders in enumerate(self.orders):
            callers = concurrency // count + (number < concurrency % count)
            orders.put((name, callers, seconds))
        return [one for answers in self.answers for one in answers.get()]

    def close(self) -> None:
        """End the processes."""
        for orders in self.orders:
            orders.put(None)
        for process in self.processes:
            process.join()


def _busy_ticks() -> tuple[int, int, int]:
    """All CPU time of the machine so far: total, idle, stolen."""
    fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields), fields[3] + fields[4], fields[7]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", action="store_true")
    arguments = parser.parse_args()
    report = Report(
        title="One trivial program a run, closed loop",
        columns=("way", "concurrency", "runs_per_s", "p50_ms", "p99_ms", "runs", "stolen_pct"),
    )
    rates: dict[str, float] = {}
    slots = Slots(len(os.sched_getaffinity(0)))
    try:
        for concurrency in arguments.concurrency:
            for name in slots.names:
                slots.measure(name, concurrency, 0.3)  # caches, and the box kept ready
                before = _busy_ticks()
                took = slots.measure(name, concurrency, arguments.seconds)
                after = _busy_ticks()
                rates[f"{name}, {concurrency}"] = len(took) / arguments.seconds
                report.add(
                    way=name,
                    concurrency=concurrency,
                    runs_per_s=len(took) / arguments.seconds,
                    p50_ms=percentile(took, 0.5) * 1e3,
                    p99_ms=percentile(took, 0.99) * 1e3,
                    runs=len(took),
                    stolen_pct=100.0 * (after[2] - before[2]) / max(1, after[0] - before[0]),
                )
    finally:
        slots.close()
    report.show(as_json=arguments.json)
    if arguments.plot:
        print(bar_plot(OUT / "sandbox.png", "Isolated runs", "runs/s", rates), file=sys.stderr)


if __name__ == "__main__":
    main()
