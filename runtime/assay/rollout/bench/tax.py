"""`tax`: what handing one decode step to a worker costs, and what keeping the worker in its loop saves.

Four ways, each with free cores, with the worker's core shared with the host, and with a hog on top:
eventfd for every step; both sides polling a word; a descriptor and a completion a step through rings
with spin-then-park waiting; and one descriptor for a whole rollout of steps, as the runtime does it.
A step is counted by the worker when it has run it.
"""

from __future__ import annotations

from assay.rollout.bench.machine import cpus, this_machine
from assay.rollout.bench.native import Tax, tax
from assay.rollout.bench.report import Report

STEPS_AN_ORDER = 256


def measure(repeats: int, seconds: float, command: str) -> Report:
    """The whole bench; `seconds` a sample."""
    first, last = cpus()
    report = Report("Cost of handing over a step", command, this_machine())
    places = (
        ("free cores", (first, last), 0),
        ("one core", (first, first), 0),
        ("one core and a hog", (first, first), 1),
    )
    for place, pinned, hogs in places:
        for mode in Tax:
            samples = []
            for _ in range(repeats):
                steps, took = tax(
                    mode, cpus=pinned, hogs=hogs, steps_an_order=STEPS_AN_ORDER, seconds=seconds
                )
                if steps:
                    samples.append(took / steps * 1e9)
            report.add(f"{mode.name.lower()}, {place}", "ns/step", samples or [seconds * 1e9])
    return report
