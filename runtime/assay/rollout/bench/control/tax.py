"""`tax`: the cost of passing one decode step to a worker, and the saving of keeping the worker in
its loop.

Four ways, each with free cores, with the worker's core shared with the host, and with a hog on top:
eventfd for every step; both sides polling a word; one descriptor and one completion per step
through rings with spin-then-park waiting; and one descriptor for a whole rollout of steps, as in
the runtime. A step is counted by the worker after it has run.
"""

from __future__ import annotations

from assay.rollout.bench.control.native import Tax, tax
from assay.rollout.bench.harness.machine import cpus, realtime, this_machine
from assay.rollout.bench.harness.report import Report

STEPS_AN_ORDER = 256


def _samples(
    mode: Tax, pinned: tuple[int, int], hogs: int, repeats: int, seconds: float
) -> list[float]:
    """Nanoseconds per step; a sample without a finished step counts as its whole length."""
    samples = []
    for _ in range(repeats):
        steps, took = tax(
            mode, cpus=pinned, hogs=hogs, steps_an_order=STEPS_AN_ORDER, seconds=seconds
        )
        samples.append(took / max(steps, 1) * 1e9)
    return samples


def measure(repeats: int, seconds: float, command: str, *, free_cores: bool = False) -> Report:
    """Run the whole bench; `seconds` per sample. `free_cores`: two cores at real-time priority; not
    one core, where a polling thread would prevent the other from running."""
    first, last = cpus()
    report = Report("Cost of handing over a step", command, this_machine())
    places = (
        ("free cores", (first, last), 0),
        ("one core", (first, first), 0),
        ("one core and a hog", (first, first), 1),
    )
    for place, pinned, hogs in places:
        with realtime(wanted=free_cores and first != last and pinned[0] != pinned[1]):
            for mode in Tax:
                samples = _samples(mode, pinned, hogs, repeats, seconds)
                report.add(f"{mode.name.lower()}, {place}", "ns/step", samples)
    return report
