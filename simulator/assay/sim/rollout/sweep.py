"""What changes when one input does: skew of lengths, cost of a push, number of slots.

Eight architectures run the same lengths on the same fleet: the five of `orbit`, and beside them
over-provisioning with the rest discarded, the same with the rest resumed (APRIL, arXiv 2509.18521),
and training without a batch barrier from weights that slots fetch from a relay (Laminar, arXiv
2510.12633). All figures are simulated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from assay.sim.rollout.architecture import (
    Architecture,
    Fleet,
    InFlight,
    Push,
    Work,
    lognormal_groups,
)
from assay.sim.rollout.engine import simulate
from assay.sim.rollout.orbit import (
    ASYNC_FULL,
    ASYNC_ONE_SLOT,
    ASYNC_TWO_SLOTS,
    SYNC_ADAPTER,
    SYNC_FULL,
)
from assay.sim.rollout.timeline import Figures, Timeline, figures

OVER_PROVISION = 0.5
DISCARD = Architecture(
    "synchronous, adapter, over-provisioned",
    barrier=True,
    push=Push.PAUSED,
    over_provision=OVER_PROVISION,
)
APRIL = replace(DISCARD, name="synchronous, adapter, over-provisioned, resumed", resume=True)
LAMINAR = Architecture(
    "asynchronous, full weights from a relay",
    barrier=False,
    push=Push.RELAYED,
    in_flight=InFlight.KEEP,
)
ARCHITECTURES: Sequence[Architecture] = (
    SYNC_FULL,
    SYNC_ADAPTER,
    DISCARD,
    APRIL,
    ASYNC_FULL,
    ASYNC_ONE_SLOT,
    ASYNC_TWO_SLOTS,
    LAMINAR,
)
_FULL = (SYNC_FULL, ASYNC_FULL, LAMINAR)


@dataclass(frozen=True, slots=True)
class Scene:
    """The inputs that all architectures share; seconds and tokens."""

    k: int = 8
    groups_per_step: int = 8
    mean: float = 300.0
    sigma: float = 0.8
    longest: float = 2048.0
    slots: int = 64
    token: float = 0.008
    token_per_rollout: float = 0.00005
    train: float = 1.5
    push_full: float = 2.0
    push_adapter: float = 0.15
    flip: float = 0.02
    buffer: float = 2.0
    """Groups begun and not trained on, without a barrier, in steps."""
    staleness_max: int | None = None
    parameters: float = 4e9
    adapter_share: float = 0.01
    """Of the parameters."""

    def fleet(self, architecture: Architecture) -> Fleet:
        """The fleet as the architecture uses it."""
        full = architecture in _FULL
        return Fleet(
            slots=self.slots,
            train=self.train,
            push=self.push_full if full else self.push_adapter,
            flip=0.0 if architecture.push is Push.PAUSED else self.flip,
            token=self.token,
            token_per_rollout=self.token_per_rollout,
            gpus=4,
            payload_bytes=int(2 * self.parameters * (1.0 if full else self.adapter_share)),
        )

    def work(self, architecture: Architecture, seed: int) -> Work:
        """The same lengths for every architecture."""
        groups = lognormal_groups(
            seed, k=self.k, mean=self.mean, sigma=self.sigma, longest=self.longest
        )
        room = self.buffer * self.groups_per_step + self.slots / self.k
        return Work(
            groups,
            groups_per_step=self.groups_per_step,
            open_groups_max=None if architecture.barrier else int(room),
            staleness_max=self.staleness_max,
        )

    def run(self, architecture: Architecture, seed: int, until: float) -> Timeline:
        """Simulate one architecture."""
        return simulate(
            architecture, self.fleet(architecture), self.work(architecture, seed), until
        )


@dataclass(frozen=True, slots=True)
class Axis:
    """One input and its values."""

    label: str
    values: Sequence[float]
    set: Callable[[Scene, float], Scene]


AXES: Final[Mapping[str, Axis]] = MappingProxyType(
    {
        "skew": Axis(
            "skew of the lengths (deviation of the logarithm)",
            (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2),
            lambda scene, value: replace(scene, sigma=value),
        ),
        "push": Axis(
            "duration of a push of all weights, seconds (an adapter: 7.5 % of it)",
            (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
            lambda scene, value: replace(scene, push_full=value, push_adapter=0.075 * value),
        ),
        "slots": Axis(
            "decode slots",
            (16, 32, 64, 96, 128, 192, 256),
            lambda scene, value: replace(scene, slots=int(value)),
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Point:
    """One architecture at one value of an input."""

    architecture: str
    value: float
    figures: Figures


def sweep(axis: Axis, scene: Scene, *, seed: int, until: float) -> list[Point]:
    """Simulate every architecture at every value of the axis."""
    return [
        Point(one.name, value, figures(axis.set(scene, value).run(one, seed, until)))
        for value in axis.values
        for one in ARCHITECTURES
    ]
