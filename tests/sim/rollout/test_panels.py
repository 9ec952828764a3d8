"""Orbit's panels: the published activities follow from the published lengths by the rules."""

import pytest

from assay.sim.rollout.orbit import PANELS
from assay.sim.rollout.timeline import figures

# Per panel, as published: utilisation of the slots and of the trainer in per cent, rollouts that
# ended, training steps, peak of the queue.
PUBLISHED = [
    (47, 20, 4, 2, 2),
    (57, 20, 6, 2, 2),
    (83, 53, 10, 4, 4),
    (87, 53, 10, 4, 4),
    (95, 53, 10, 4, 4),
]
# (start, end) of every rollout per slot, as drawn.
ACTIVITIES: list[list[list[tuple[float, float]]]] = [
    [[(0, 9), (16, 21)], [(0, 5), (16, 25)]],
    [[(0, 8), (12, 16), (24, 30)], [(0, 4), (12, 20), (24, 28)]],
    [
        [(0, 5), (5, 9), (9, 14), (17, 23), (23, 28)],
        [(0, 6), (6, 10), (10, 14), (17, 22), (22, 28)],
    ],
    [[(0, 7), (8, 14), (15, 21), (22, 28), (29, 30)]] * 2,
    [
        [(0, 5), (5, 11), (11, 17), (17, 24), (24, 30)],
        [(0, 7), (7, 13), (13, 19), (19, 26), (26, 30)],
    ],
]
PAUSES: list[list[tuple[float, float]]] = [
    [(12, 16), (28, 30)],
    [(11, 12), (23, 24)],
    [(14, 17), (28, 30)],
    [(7, 8), (14, 15), (21, 22), (28, 29)],
    [(8, 8.4), (15, 15.4), (22, 22.4), (29, 29.4)],
]
ACTIVE_VERSIONS = [[0, 1], [0, 1, 2], [0, 2], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
EVERY_PANEL = pytest.mark.parametrize("at", range(5), ids=[p.architecture.name for p in PANELS])


@EVERY_PANEL
def test_the_figures_are_the_published_ones(at: int) -> None:
    found = figures(PANELS[at].run())
    assert (
        round(100 * found.rollout_utilisation),
        round(100 * found.trainer_utilisation),
        found.generations,
        found.steps,
        found.queue_peak,
    ) == PUBLISHED[at]


@EVERY_PANEL
def test_every_activity_is_where_it_is_drawn(at: int) -> None:
    timeline = PANELS[at].run()
    drawn = [
        [x for g in timeline.generations if g.slot == slot for x in (g.start, g.end)]
        for slot in range(timeline.slots)
    ]
    expected = [[x for span in slot for x in span] for slot in ACTIVITIES[at]]
    assert drawn == [pytest.approx(slot) for slot in expected]
    assert [x for p in timeline.pauses for x in (p.start, p.end)] == pytest.approx(
        [x for span in PAUSES[at] for x in span]
    )
    assert [version for _, version in timeline.versions] == ACTIVE_VERSIONS[at]


@EVERY_PANEL
def test_a_rollout_has_the_version_that_was_active_at_its_start(at: int) -> None:
    timeline = PANELS[at].run()
    for generation in timeline.generations:
        active = [v for since, v in timeline.versions if since <= generation.start + 1e-9]
        assert generation.version == active[-1]
