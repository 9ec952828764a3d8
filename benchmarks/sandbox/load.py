"""Stability of rewards under load: the same responses on an idle machine and beside busy processes.

    python -m benchmarks.sandbox.load [--busy 20] [--responses 200] [--callers 8]
                                      [--cpu 0.25] [--json]

`--responses` right programs use 80 % of their CPU limit, or sleep for 80 % of their time limit, in
one test or several, with stdin, as calls, in C++, in a thread, in a child process. Wrong ones use
140 % of their CPU limit, or sleep for 115 % or 280 % of their time limit. Each is judged once on
the machine as it is and once beside `--busy` processes that never sleep. Every reward must be
correct, and both passes must agree; the times show the slowdown.

Blocked time is never counted too high, so on a busy machine it may be counted too low, by the
margin in `docs/sandbox.md`. What sleeps for 115 % of a quarter of a second is 38 ms over its limit,
which is inside of that margin: these cases are `undecided`, shown and counted apart.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.core.verdict import Ended
from assay.verifiers.local import LocalPipelines
from benchmarks.harness.report import Report, percentile

SPIN = """
import sys, time
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
"""
CPP_SPIN = """
#include <ctime>
#include <iostream>
int main() {{
  while (std::clock() < {seconds} * CLOCKS_PER_SEC) ;
  long number; std::cin >> number; std::cout << number * 2;
}}
"""
TESTS = {"tests": [{"stdin": "21\n", "stdout": "42\n"}]}
FOUR_TESTS = {"tests": [{"stdin": f"{n}\n", "stdout": f"{2 * n}\n"} for n in range(4)]}
CALLS = {
    "calls": {"function": "double", "cases": [{"args": [n], "expected": 2 * n} for n in (1, 2)]}
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of response."""

    name: str
    pipeline: str = "code.python"
    response: str
    reference: dict[str, Any]
    reward: float
    undecided: bool = False
    """It is over its limit by less than the margin of the measurement on a busy machine."""


def cases(cpu_s: float) -> list[Case]:
    """All kinds; both limits are `cpu_s`."""
    most, more = 0.8 * cpu_s, 1.4 * cpu_s
    answer = "print(int(input()) * 2)\n"
    child = "import os\nif os.fork() == 0:\n    spin({0})\n    os._exit(0)\nos.wait()\n"
    thread = "import threading\nt = threading.Thread(target=time.sleep, args=({0},))\n"
    thread += "t.start()\nt.join()\n"
    cpp, python = "code.cpp", "code.python"
    slightly = 1.15 * cpu_s
    told: list[tuple[str, str, str, dict[str, Any], float]] = [
        ("busy", python, f"{SPIN}spin({most})\n{answer}", TESTS, 1.0),
        ("asleep", python, f"{SPIN}time.sleep({most})\n{answer}", TESTS, 1.0),
        ("both", python, f"{SPIN}time.sleep({most})\nspin({most})\n{answer}", TESTS, 1.0),
        ("asleep in a thread", python, f"{SPIN}{thread.format(most)}{answer}", TESTS, 1.0),
        ("four tests", python, f"{SPIN}spin({most / 2})\n{answer}", FOUR_TESTS, 1.0),
        ("in a child", python, f"{SPIN}{child.format(most)}{answer}", TESTS, 1.0),
        (
            "calls",
            python,
            f"{SPIN}def double(x):\n    spin({most})\n    return 2 * x\n",
            CALLS,
            1.0,
        ),
        ("C++", cpp, CPP_SPIN.format(seconds=most), TESTS, 1.0),
        ("too busy", python, f"{SPIN}spin({more})\n{answer}", TESTS, 0.0),
        ("too sleepy", python, f"{SPIN}time.sleep({more * 2})\n{answer}", TESTS, 0.0),
        ("just too sleepy", python, f"{SPIN}time.sleep({slightly})\n{answer}", TESTS, 0.0),
        ("the same in a thread", python, f"{SPIN}{thread.format(slightly)}{answer}", TESTS, 0.0),
        ("C++ too busy", cpp, CPP_SPIN.format(seconds=more), TESTS, 0.0),
    ]
    return [
        Case(
            name=name,
            pipeline=pipeline,
            response=response,
            reference=reference,
            reward=reward,
            undecided=str(slightly) in response,
        )
        for name, pipeline, response, reference, reward in told
    ]


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Start this many processes that never sleep."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


LOCAL: dict[str, LocalPipelines] = {}
"""The pipelines of this process, which judges one response at a time, as a worker's slot does."""


def open_local(scratch: str, artifacts: dict[str, bytes]) -> None:
    """Begin to judge; compiled programs are shared."""
    LOCAL["mine"] = LocalPipelines(scratch=Path(scratch, str(os.getpid())))
    LOCAL["mine"].artifacts.kept.update(artifacts)


def judge(case: Case, cpu_s: float) -> tuple[Ended | None, float]:
    """Return `None` if the attempt failed, and the seconds that it took."""
    began = time.perf_counter()
    limits = {"cpu_s": cpu_s, "blocked_s": cpu_s}
    try:
        ended = LOCAL["mine"].judge(case.pipeline, case.response, case.reference, **limits)
    except Exception as error:  # noqa: BLE001 - failed attempts are counted
        print(f"{case.name}: {error}", file=sys.stderr)
        return None, time.perf_counter() - began
    return ended, time.perf_counter() - began


def compiled(scratch: str, kinds: list[Case], cpu_s: float) -> dict[str, bytes]:
    """Judge each kind once; returns the compiled programs."""
    open_local(scratch, {})
    with LOCAL.pop("mine") as local:
        LOCAL["mine"] = local
        for kind in kinds:
            judge(kind, cpu_s)
        return local.artifacts.kept


def main() -> int:
    """Measure and report; 1 if a reward was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--busy", type=int, default=20)
    parser.add_argument("--responses", type=int, default=200, help="right ones")
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--cpu", type=float, default=0.25)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    kinds = cases(arguments.cpu)
    responses = _responses(kinds, arguments.responses)
    report = Report(
        title=f"Rewards idle and beside {arguments.busy} busy processes",
        columns=(
            "case",
            "responses",
            "right_idle",
            "right_busy",
            "same",
            "p50_s_idle",
            "p50_s_busy",
        ),
    )
    idle, loaded, load = _both(kinds, responses, arguments)
    wrong = undecided = 0
    for kind in kinds:
        at = [number for number, one in enumerate(responses) if one is kind]
        rewards = [[_reward(told[number]) for number in at] for told in (idle, loaded)]
        right = [sum(reward == kind.reward for reward in found) for found in rewards]
        missed = 2 * len(at) - sum(right)
        failed = sum(reward is None for found in rewards for reward in found)
        wrong += failed if kind.undecided else missed
        undecided += missed - failed if kind.undecided else 0
        report.add(
            case=kind.name,
            responses=len(at),
            right_idle=right[0],
            right_busy=right[1],
            same=sum(one == other for one, other in zip(*rewards, strict=True)),
            p50_s_idle=percentile([idle[number][1] for number in at], 0.5),
            p50_s_busy=percentile([loaded[number][1] for number in at], 0.5),
        )
    report.show(as_json=arguments.json)
    honest = [at for at, one in enumerate(responses) if one.reward]
    upheld = sum(_reward(loaded[at]) == 1.0 for at in honest)
    print(
        f"{upheld} of {len(honest)} honest programs right beside {arguments.busy} busy processes; "
        f"{wrong} rewards of {2 * len(responses)} wrong; {undecided} programs passed that slept "
        f"for less than the margin over their limit; load average {load:.0f}",
        file=sys.stderr,
    )
    return 1 if wrong else 0


def _both(
    kinds: list[Case], responses: list[Case], arguments: argparse.Namespace
) -> tuple[list[tuple[Ended | None, float]], list[tuple[Ended | None, float]], float]:
    """What each response got on the machine as it is and beside busy processes; the load then."""
    with tempfile.TemporaryDirectory() as scratch:
        programs = compiled(scratch, kinds, arguments.cpu)
        with ProcessPoolExecutor(
            arguments.callers, initializer=open_local, initargs=(scratch, programs)
        ) as callers:
            limit = [arguments.cpu] * len(responses)
            idle = list(callers.map(judge, responses, limit))
            with busy(arguments.busy):
                loaded = list(callers.map(judge, responses, limit))
                load = os.getloadavg()[0]
    return idle, loaded, load


def _responses(kinds: list[Case], honest: int) -> list[Case]:
    """This many right ones, evenly over their kinds, and one wrong one of each kind per round."""
    right = [kind for kind in kinds if kind.reward]
    wrong = [kind for kind in kinds if not kind.reward]
    found: list[Case] = []
    for at in range(honest):
        found.append(right[at % len(right)])
        if at % len(right) == 0:
            found += wrong
    return found


def _reward(told: tuple[Ended | None, float]) -> float | None:
    return told[0].reward if told[0] is not None else None


if __name__ == "__main__":
    sys.exit(main())
