"""All simulations of a run as plain data: what `--json`, the page and the plots are made from."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from assay.sim.rollout import fit
from assay.sim.rollout.orbit import PANELS, TICKS
from assay.sim.rollout.sweep import ARCHITECTURES, AXES, Axis, Point, Scene, sweep
from assay.sim.rollout.timeline import Timeline, figures

_FIT_NOTE: Final = (
    "Orbit's published means of four warm rollouts on four GPUs. Batch size and skew of the "
    "lengths are not published and assumed; training time is what the step leaves beside wait "
    "and update."
)


def _number(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def timeline_record(timeline: Timeline) -> dict[str, Any]:
    """A timeline with its figures."""
    return {
        "name": timeline.name,
        "slots": timeline.slots,
        "generations": [
            [g.slot, g.start, g.end, g.version, g.group, g.ended] for g in timeline.generations
        ],
        "pauses": [[s.start, s.end] for s in timeline.pauses],
        "pushes": [[s.start, s.end] for s in timeline.pushes],
        "fetches": [[slot, s.start, s.end] for slot, s in timeline.fetches],
        "steps": [[s.start, s.end, s.version, s.staleness, s.tokens] for s in timeline.steps],
        "queue": [list(one) for one in timeline.queue],
        "versions": [list(one) for one in timeline.versions],
        "figures": {name: _number(value) for name, value in asdict(figures(timeline)).items()},
    }


def _section(title: str, note: str, unit: str, timelines: Sequence[Timeline]) -> dict[str, Any]:
    return {
        "title": title,
        "note": note,
        "unit": unit,
        "until": timelines[0].until,
        "panels": [timeline_record(one) for one in timelines],
    }


def panels_section() -> dict[str, Any]:
    """The five published panels."""
    note = (
        f"Two slots, {TICKS:.0f} ticks, lengths as published: the rules of the simulation give "
        "the published activities, utilisations and versions."
    )
    return _section("Orbit's panels", note, "ticks", [panel.run() for panel in PANELS])


def drawn_section(scene: Scene, seed: int, until: float) -> dict[str, Any]:
    """Eight architectures on the same lengths, short enough to draw."""
    note = (
        f"{scene.slots} slots, K = {scene.k}, {scene.groups_per_step} groups per step, log-normal "
        f"lengths of mean {scene.mean:.0f} tokens and skew {scene.sigma}, seed {seed}."
    )
    timelines = [scene.run(one, seed, until) for one in ARCHITECTURES]
    return _section("The same lengths under eight architectures", note, "s", timelines)


def _sweep_record(axis: Axis, points: Sequence[Point]) -> dict[str, Any]:
    return {
        "label": axis.label,
        "values": list(axis.values),
        "series": [
            {
                "name": one.name,
                **{
                    figure: [
                        _number(getattr(p.figures, figure))
                        for p in points
                        if p.architecture == one.name
                    ]
                    for figure in ("tokens_per_gpu", "staleness_mean", "step_time", "discarded")
                },
            }
            for one in ARCHITECTURES
        ],
    }


def _fit_record(title: str, *, shared: bool) -> dict[str, Any]:
    parameters, rows = fit.fit(shared=shared)
    return {
        "title": title,
        "parameters": asdict(parameters),
        "rows": [
            {
                "name": row.measured.name,
                "train_wait": row.train_wait,
                "step": row.step,
                "tokens_per_gpu": row.tokens_per_gpu,
                "measured": asdict(row.measured),
                "error_max": max(abs(error) for error in row.errors().values()),
            }
            for row in rows
        ],
    }


def report(
    scene: Scene, *, seed: int, drawn_s: float, until_s: float, progress: Callable[[str], None]
) -> Mapping[str, Any]:
    """Simulate everything; `progress` gets the name of what comes next."""
    progress("panels")
    sections = [panels_section(), drawn_section(scene, seed, drawn_s)]
    fits = []
    for title, shared in (
        ("With a length and a training time per architecture:", False),
        ("With one length and one training time per number of GPUs:", True),
    ):
        progress("fit")
        fits.append(_fit_record(title, shared=shared))
    sweeps = {}
    for name, axis in AXES.items():
        progress(f"sweep: {name}")
        sweeps[name] = _sweep_record(axis, sweep(axis, scene, seed=seed, until=until_s))
    return {
        "simulated": True,
        "seed": seed,
        "scene": asdict(scene),
        "sections": sections,
        "fit": {"note": _FIT_NOTE, "fits": fits},
        "sweeps": list(sweeps.values()),
    }


STAGES: Final = 3 + len(AXES)
"""Calls of `progress` in one report."""
