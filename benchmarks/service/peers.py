"""Assay beside what would be used in its place, in turn on the same machine.

    python -m benchmarks.service.peers [--work python lone cpp math mixed] [--repeats 5]
        [--programs 64] [--at-once 16] [--json] [--plot] [--sandboxfusion URL] [--code-judge URL]
        [--no-cpp]

* python: trivial programs, many at once; lone: the same, one at a time, with the median latency
* cpp: distinct `<bits/stdc++.h>` programs with ten tests each, against `g++ -O2` and ten runs
* math: real answers, against math-verify without its time limits in as many processes
* mixed: 1,536 answers, 504 Python and 8 C++ programs at once (`--scale` takes a part of them);
  `per_s` counts these 2,048 until the last reward

Each repeat runs every peer once, in an order that is rotated, because other load on a shared
machine changes during the run. A ratio is taken within a repeat, to `bare`, and printed with its
spread; beside it stands the target, and whether the median meets it. `bare` for Python is the
interpreter in an empty environment; in this one it may read slow start-up files, and with `-I -S`
it reads none. `cpu_ms` counts all processes of this benchmark (a cgroup: needs root); it leaves out
the servers of others. Peers that isolate nothing are marked. Before the first repeat each peer has
run once, a precompiled header is made, and the platform is idle: the planner compiles its own code
when it first plans.

A server of SandboxFusion or code-judge is started by its own instructions from a checkout, with as
many workers as this machine has cores; Assay does not ship or start them. `headroom.py` has what
the machine itself allows, and runs in the same way (`--with-headroom` puts its rows here too).
"""

import argparse
import asyncio
import contextlib
import io
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Final

import httpx

from assay.client.client import Client
from assay.client.types import Request
from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import PythonRun
from benchmarks.harness.platform_run import local_platform, until_idle, until_planned
from benchmarks.harness.report import OUT, Report, Spread, bar_plot
from benchmarks.harness.workloads import Case, gsm8k, ten_test_cpp, trivial_python
from benchmarks.sandbox.headroom import Step
from benchmarks.sandbox.headroom import ways as machine_steps
from benchmarks.service.run_code import Account

Peer = Callable[[int], Awaitable[None]]
"""Runs this number of programs, at most `at_once` of them at a time."""
INTERPRETER: Final = os.path.realpath(sys.executable)
BUBBLEWRAP: Final = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--clearenv", "--cap-drop", "ALL"),
    *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
)
CPP_FLAGS: Final = ("-std=c++17", "-O2", "-pipe", "-s", "-w")
TIMEOUT_S: Final = 600.0
STAGES: Final = ("math.verify", "python.run", "cpp.compile", "cpp.run")
PLATFORM: Final = {"ASSAY_WORKER__STAGES": json.dumps(STAGES)}
WORKS: Final = ("python", "lone", "cpp", "math", "mixed")
MIXED: Final = {"math": 1_536, "python": 504, "cpp": 8}
CHUNK: Final = 16
"""Answers per call of a process of math-verify."""
MATHS: Final = 1_024
"""Answers per repeat."""
LONE: Final = "one at a time"
TARGETS: Final = {
    ("python", "assay, one batch"): (("of_bare", ">=", 2.0),),
    ("python", "assay, a call per program"): (("of_bare", ">=", 1.4),),
    (LONE, "assay, a call per program"): (("p50_of_bare", "<=", 0.8),),
    ("ten-test C++", "assay, one batch"): (("cpu_of_bare", "<=", 0.45), ("of_bare", ">=", 2.0)),
    ("math", "assay, one batch"): (("of_bare", ">=", 1.0),),
    ("mixed", "assay, three batches"): (("of_bare", ">=", 1.25),),
}
"""Work and peer -> column, comparison and bound."""
COLUMNS: Final = (
    *("work", "peer", "per_s", "of_bare", "p50_ms", "p50_of_bare", "cpu_ms", "cpu_of_bare"),
    "target",
)
WARM_CPP: Final = 8
"""Sources before the first repeat: enough that one process has seen the headers twice."""


class Peers:
    """All peers of this run."""

    def __init__(self, held: contextlib.ExitStack, client: Client, at_once: int) -> None:
        self._client = client
        self._at_once = at_once
        self._threads = held.enter_context(ThreadPoolExecutor(at_once))
        cores = len(os.sched_getaffinity(0))
        self._pool = held.enter_context(ProcessPoolExecutor(cores))
        # All of its processes now: one forked later would keep the pipes of programs open.
        self._pool.submit(os.getpid).result()
        self._launchers = [
            held.enter_context(ZygoteLauncher(SandboxSettings(), Clock())) for _ in range(cores)
        ]
        self._lean = _empty_environment(held)
        self._salt = time.time_ns() % 1_000_000_000

    @cached_property
    def _answers(self) -> list[Case]:
        """Real answers; read when first used, so that other work needs no data set."""
        return list(gsm8k())

    def python(self) -> dict[str, Peer]:
        """Trivial Python programs."""
        source = "print(int(input()) + 1)"
        peers = {
            "bare": self._spawned([self._lean, "-c", source]),
            "bare, this environment": self._spawned([INTERPRETER, "-c", source]),
            "bare -I -S": self._spawned([INTERPRETER, "-I", "-S", "-c", source]),
            "process pool (no isolation)": self._pooled(source),
            "assay, one batch": self._in_one_batch(lambda n: [trivial_python(i) for i in range(n)]),
            "assay, a call per program": self._in_calls,
            "assay's launcher alone": self._launched(source),
        }
        if shutil.which("bwrap"):
            system = os.path.realpath(
                shutil.which("python3", path="/usr/bin") or "/usr/bin/python3"
            )
            peers["bubblewrap"] = self._spawned([*BUBBLEWRAP, system, "-c", source])
        return peers

    def cpp(self) -> dict[str, Peer]:
        """Distinct C++ programs with ten tests each."""
        return {
            "bare": self._compiled,
            "assay, one batch": self._in_one_batch(lambda n: [self._new_cpp() for _ in range(n)]),
        }

    def lone(self) -> dict[str, Peer]:
        """Trivial Python programs, for peers that run one at a time."""
        kept = ("bare", "bare -I -S", "assay, a call per program", "assay's launcher alone")
        every = self.python()
        return {name: every[name] for name in kept}

    def math(self) -> dict[str, Peer]:
        """Real answers; each call takes the next ones, so that no peer has seen them."""
        return {
            "bare": self._verified(),
            "assay, one batch": self._in_one_batch(self._next_answers()),
        }

    def mixed(self) -> dict[str, Peer]:
        """Answers and programs at once; the count is that of all of them."""
        answers = self._next_answers()
        python = self._spawned([self._lean, "-c", "print(int(input()) + 1)"])
        bare = {"math": self._verified(), "python": python, "cpp": self._compiled}
        ours = {
            "math": self._in_one_batch(answers),
            "python": self._in_one_batch(lambda n: [trivial_python(i) for i in range(n)]),
            "cpp": self._in_one_batch(lambda n: [self._new_cpp() for _ in range(n)]),
        }
        return {"bare": _together(bare), "assay, three batches": _together(ours)}

    def step(self, step: Step) -> Peer:
        """Something that the machine itself does."""
        return lambda count: self._in_threads(lambda _: step.do(), max(1, count // step.times))

    def server(self, name: str, url: str) -> Peer:
        """A server of another project that judges the Python programs."""
        ask = {"sandboxfusion": _ask_sandboxfusion, "code-judge": _ask_code_judge}[name]

        async def run(count: int) -> None:
            async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S) as http:
                await self._bounded([lambda: ask(http)] * count)

        return run

    def _new_cpp(self) -> Case:
        self._salt += 1
        return ten_test_cpp(self._salt)

    async def _bounded(self, tasks: list[Callable[[], Awaitable[None]]]) -> None:
        free = asyncio.Semaphore(self._at_once)

        async def one(task: Callable[[], Awaitable[None]]) -> None:
            async with free:
                await task()

        await asyncio.gather(*(one(task) for task in tasks))

    async def _in_threads(self, do: Callable[[int], None], count: int) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, do, i) for i in range(count)))

    def _spawned(self, command: list[str]) -> Peer:
        def do(_: int) -> None:
            _expect(_run(command, b"1\n"), b"2\n")

        return lambda count: self._in_threads(do, count)

    def _pooled(self, source: str) -> Peer:
        async def run(count: int) -> None:
            loop = asyncio.get_running_loop()
            done = [loop.run_in_executor(self._pool, _execute, source) for _ in range(count)]
            for found in await asyncio.gather(*done):
                _expect(found.encode(), b"2\n")

        return run

    def _launched(self, source: str) -> Peer:
        program = PythonRun(source=source.encode(), stdin=b"1\n")

        def do(number: int) -> None:
            launcher = self._launchers[number % len(self._launchers)]
            _expect(launcher.run_python(program).stdout, b"2\n")

        return lambda count: self._in_threads(do, count)

    def _next_answers(self) -> Callable[[int], list[Case]]:
        endless = itertools.cycle(self._answers)
        return lambda count: list(itertools.islice(endless, count))

    def _verified(self) -> Peer:
        take = self._next_answers()

        async def run(count: int) -> None:
            loop = asyncio.get_running_loop()
            pairs = [(case.reference["answers"][0], case.response) for case in take(count)]
            parts = [pairs[at : at + CHUNK] for at in range(0, count, CHUNK)]
            await asyncio.gather(*(loop.run_in_executor(self._pool, _verify, p) for p in parts))

        return run

    def _in_one_batch(self, cases: Callable[[int], list[Case]]) -> Peer:
        async def run(count: int) -> None:
            await self._score(cases(count))

        return run

    async def _in_calls(self, count: int) -> None:
        def call(index: int) -> Callable[[], Awaitable[None]]:
            return lambda: self._score([trivial_python(index)])

        await self._bounded([call(index) for index in range(count)])

    async def _score(self, cases: list[Case]) -> None:
        requests = [
            Request(request_id=str(i), response=case.response, reference=case.reference)
            for i, case in enumerate(cases)
        ]
        found = await self._client.score(requests, pipeline=cases[0].pipeline, timeout_s=TIMEOUT_S)
        for case, reward in zip(cases, found.rewards, strict=True):
            if reward != case.reward:
                raise RuntimeError(f"{case.reward} is right for {case.response!r}, not {reward}")

    async def _compiled(self, count: int) -> None:
        def do(_: int) -> None:
            case = self._new_cpp()
            with tempfile.TemporaryDirectory() as folder:
                source = Path(folder, "a.cpp")
                source.write_text(case.response.removeprefix("```cpp\n").removesuffix("```"))
                binary = str(Path(folder, "a"))
                _run(["g++", *CPP_FLAGS, "-o", binary, str(source)], b"")
                for test in case.reference["tests"]:
                    _expect(_run([binary], test["stdin"].encode()), test["stdout"].encode())

        await self._in_threads(do, count)


def _empty_environment(held: contextlib.ExitStack) -> str:
    """An interpreter whose environment has no packages, hence no start-up files of theirs."""
    folder = held.enter_context(tempfile.TemporaryDirectory())
    venv.create(folder, with_pip=False, symlinks=True)
    return str(Path(folder, "bin", "python"))


def _together(peers: Mapping[str, Peer]) -> Peer:
    """Run a share of each kind of work at the same time."""

    async def run(count: int) -> None:
        share = count / sum(MIXED.values())
        counts = {name: max(1, round(MIXED[name] * share)) for name in peers}
        await asyncio.gather(*(peer(counts[name]) for name, peer in peers.items()))

    return run


def _verify(pairs: list[tuple[str, str]]) -> int:
    """What the math pipeline wraps, in this process, on whole responses."""
    from math_verify import parse, verify  # type: ignore[import-untyped]  # in these processes only

    right = 0
    for gold, response in pairs:
        read = parse(response, parsing_timeout=None)
        right += verify(parse(f"${gold}$", parsing_timeout=None), read, timeout_seconds=None)
    return right


def _run(command: list[str], stdin: bytes) -> bytes:
    return subprocess.run(command, input=stdin, check=True, stdout=subprocess.PIPE).stdout


def _expect(seen: bytes, wanted: bytes) -> None:
    if seen != wanted:
        raise RuntimeError(f"{seen!r} is not {wanted!r}")


def _execute(source: str) -> str:
    """Run a program in this process, as graders without isolation do."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        sys.stdin = io.StringIO("1\n")
        exec(compile(source, "program", "exec"), {"__name__": "__main__"})
    return said.getvalue()


async def _ask_sandboxfusion(http: httpx.AsyncClient) -> None:
    body = {"code": "print(int(input()) + 1)", "language": "python", "stdin": "1\n"}
    found = (await http.post("/run_code", json=body)).json()
    _expect(found["run_result"]["stdout"].encode(), b"2\n")


async def _ask_code_judge(http: httpx.AsyncClient) -> None:
    body = {"type": "python", "solution": "print(int(input()) + 1)", "input": "1\n"}
    found = (await http.post("/judge", json={**body, "expected_output": "2\n"})).json()
    if not found["success"]:
        raise RuntimeError(f"code-judge: {found}")


def machine_ticks() -> tuple[int, int]:
    """CPU time of the machine so far: total, and stolen by the hypervisor."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(fields), fields[7]


@contextlib.contextmanager
def counted() -> Iterator[Account | None]:
    """A cgroup with this process and all that it starts from here on; `None` without root."""
    if os.geteuid() != 0:
        yield None
        return
    account = Account()
    try:
        (account.folder / "cgroup.procs").write_text(str(os.getpid()))
        yield account
    finally:
        (account.folder.parent / "cgroup.procs").write_text(str(os.getpid()))
        account.close()


class Taken:
    """What the repeats of one peer took."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.cpu_ms: list[float] = []
        self.p50_ms: list[float] = []

    async def repeat(self, run: Peer, count: int, account: Account | None, *, alone: bool) -> None:
        """Run `count` programs; `alone`: one after the other, each timed."""
        cpu_s = account.cpu_s() if account else 0.0
        began_s = time.perf_counter()
        each_s = []
        for share in [1] * count if alone else [count]:
            one_s = time.perf_counter()
            await run(share)
            each_s.append(time.perf_counter() - one_s)
        self.rates.append(count / (time.perf_counter() - began_s))
        if account:
            self.cpu_ms.append((account.cpu_s() - cpu_s) / count * 1e3)
        if alone:
            self.p50_ms.append(statistics.median(each_s) * 1e3)


async def measured(
    work: str, peers: Mapping[str, Peer], options: argparse.Namespace, count: int, report: Report
) -> dict[str, Spread]:
    """Run all peers in turn, `repeats` times; returns the ratios of their rates to bare."""
    for run in peers.values():
        await run(max(2, count // 8))  # caches, slots
    await until_idle()
    taken = {name: Taken() for name in peers}
    names = list(peers)
    for repeat in range(options.repeats):
        for at in range(len(names)):
            name = names[(at + repeat) % len(names)]
            await taken[name].repeat(peers[name], count, options.account, alone=work == LONE)
    bare = taken["bare"]
    for name, own in taken.items():
        row = {
            "per_s": Spread.of(own.rates),
            "of_bare": _ratios(own.rates, bare.rates),
            "p50_ms": Spread.of(own.p50_ms) if own.p50_ms else "",
            "p50_of_bare": _ratios(own.p50_ms, bare.p50_ms),
            "cpu_ms": Spread.of(own.cpu_ms) if own.cpu_ms else "",
            "cpu_of_bare": _ratios(own.cpu_ms, bare.cpu_ms),
        }
        report.add(work=work, peer=name, **row, target=_met(TARGETS.get((work, name), ()), row))
    return {name: Spread.of(_each(own.rates, bare.rates)) for name, own in taken.items()}


def _met(targets: Sequence[tuple[str, str, float]], row: Mapping[str, Spread | str]) -> str:
    """Each target of a row, and whether its median meets it."""
    told = []
    for column, comparison, bound in targets:
        found = row[column]
        if isinstance(found, Spread):
            is_met = found.median >= bound if comparison == ">=" else found.median <= bound
            told.append(f"{column} {comparison} {bound:g}: {'met' if is_met else 'missed'}")
    return ", ".join(told)


def _each(own: Sequence[float], bare: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(own, bare, strict=True)]


def _ratios(own: list[float], bare: list[float]) -> Spread | str:
    """Repeat by repeat; empty where it was not measured."""
    return Spread.of(_each(own, bare)) if own else ""


async def measure(options: argparse.Namespace) -> None:
    """Everything, and the report."""
    report = Report(
        title=f"{options.at_once} at once, {options.repeats} repeats in turn: median (least-most)",
        columns=COLUMNS,
    )
    ticks, load = machine_ticks(), os.getloadavg()[0]
    with counted() as account, contextlib.ExitStack() as held:
        options.account = account
        async with local_platform(PLATFORM) as run, Client(run.addresses.grpc) as client:
            peers = Peers(held, client, options.at_once)
            python = peers.python()
            for name in ("sandboxfusion", "code-judge"):
                url = getattr(options, name.replace("-", "_"))
                if url:
                    python[name] = peers.server(name, url)
            if options.with_headroom:
                for name, step in machine_steps(held).items():
                    if not name.startswith("C++"):
                        python[f"limit: {name}"] = peers.step(step)
            works: dict[str, tuple[str, Callable[[], Mapping[str, Peer]], int]] = {
                "python": ("python", lambda: python, options.programs),
                "lone": (LONE, Peers(held, client, 1).lone, options.programs // 4),
                "cpp": ("ten-test C++", peers.cpp, options.at_once),
                "math": ("math", peers.math, MATHS),
                "mixed": ("mixed", peers.mixed, round(sum(MIXED.values()) * options.scale)),
            }
            await until_planned(run, lambda: python["assay, one batch"](options.programs))
            bars = {}
            for name in options.work:
                if not (name == "cpp" and options.no_cpp):
                    what, make, count = works[name]
                    if name in {"cpp", "mixed"}:
                        await peers.cpp()["assay, one batch"](WARM_CPP)
                    found = await measured(what, make(), options, count, report)
                    bars.update({f"{what}: {peer}": ratio for peer, ratio in found.items()})
    now = machine_ticks()
    stolen = 100.0 * (now[1] - ticks[1]) / max(1, now[0] - ticks[0])
    report.columns = [one for one in COLUMNS if any(row[one] != "" for row in report.rows)]
    report.title += f"; load before {load:.1f}, stolen {stolen:.1f} %"
    report.show(as_json=options.json)
    if options.plot:
        path = bar_plot(OUT / "peers.png", "Beside others", "rate / bare", bars)
        print(path, file=sys.stderr)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--work", nargs="+", choices=WORKS, default=["python", "cpp"])
    parser.add_argument("--scale", type=float, default=1.0, help="part of the mixed work")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--programs", type=int, default=64, help="Python programs per repeat")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--sandboxfusion", default="", metavar="URL")
    parser.add_argument("--code-judge", default="", metavar="URL")
    parser.add_argument("--no-cpp", action="store_true")
    parser.add_argument("--with-headroom", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", action="store_true")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
