"""The simulation fitted to a published measurement of three architectures.

Source: Orbit's measurement (Qwen3-4B with an OFT adapter, four GPUs; means of four warm rollouts,
without a spread): duration of the weight update, the trainer's wait, the step, and tokens per GPU
and second. Two fits are made. One has as many parameters as there are figures: it shows which
parameters the figures imply. The other, `shared`, has one training time per number of GPUs and one
response length, as one would expect of one experiment: its errors show how consistent the figures
are.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from assay.sim.rollout.architecture import Fleet, Work, lognormal_groups
from assay.sim.rollout.engine import simulate
from assay.sim.rollout.orbit import ASYNC_ONE_SLOT, ASYNC_TWO_SLOTS, SYNC_ADAPTER
from assay.sim.rollout.timeline import figures

STEPS = 40
"""Training steps per simulation."""
GROUPS, K = 8, 8
"""Groups per step and responses per group: assumed, the source does not state them."""
SIGMA, LONGEST = 0.6, 1024.0
"""Skew of the lengths and their limit: assumed as well."""
ROUNDS = 18
"""Bisections per parameter."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One architecture's figures; seconds, and tokens per GPU and second (None: not published)."""

    name: str
    update: float
    train_wait: float
    step: float
    tokens_per_gpu: float | None


MEASURED: Sequence[Measured] = (
    Measured("synchronous, colocated", 0.105, 7.142, 8.651, None),
    Measured("asynchronous, one slot", 0.169, 2.048, 3.165, 1402.9),
    Measured("asynchronous, two slots", 0.118, 0.384, 2.531, 2106.9),
)


@dataclass(frozen=True, slots=True)
class Parameters:
    """What is fitted, per architecture in the order of `MEASURED`."""

    token: float
    """Seconds per decode step."""
    slots: int
    """Responses decoded at once by the asynchronous architectures."""
    lengths: tuple[float, float, float]
    """Mean tokens per response."""
    train: tuple[float, float, float]
    """Seconds per training step."""
    stall: float
    """Seconds by which a push into the only slot stops decoding longer than its transfer."""


@dataclass(frozen=True, slots=True)
class Row:
    """Measured and simulated figures of an architecture."""

    measured: Measured
    train_wait: float
    step: float
    tokens_per_gpu: float

    def errors(self) -> dict[str, float]:
        """Relative error of each published figure."""
        published = {
            "train_wait": (self.train_wait, self.measured.train_wait),
            "step": (self.step, self.measured.step),
        }
        if self.measured.tokens_per_gpu is not None:
            published["tokens_per_gpu"] = (self.tokens_per_gpu, self.measured.tokens_per_gpu)
        return {name: here / there - 1 for name, (here, there) in published.items()}


def _work(mean: float, seed: int, open_groups: int | None) -> Work:
    lengths: Iterator[Sequence[float]] = lognormal_groups(
        seed, k=K, mean=mean, sigma=SIGMA, longest=LONGEST
    )
    return Work(lengths, groups_per_step=GROUPS, open_groups_max=open_groups)


def predict(parameters: Parameters, at: int, seed: int) -> Row:
    """Simulate one architecture of `MEASURED`."""
    measured, synchronous = MEASURED[at], at == 0
    architecture = (SYNC_ADAPTER, ASYNC_ONE_SLOT, ASYNC_TWO_SLOTS)[at]
    fleet = Fleet(
        slots=GROUPS * K if synchronous else parameters.slots,
        train=parameters.train[at],
        push=measured.update,
        flip=parameters.stall if at == 1 else 0.0,
        token=parameters.token,
        gpus=4,
    )
    # As many groups may be open as are decoded, and one step's beyond.
    room = None if synchronous else math.ceil(parameters.slots / K) + 2 * GROUPS
    timeline = simulate(
        architecture, fleet, _work(parameters.lengths[at], seed, room), STEPS * measured.step
    )
    found = figures(timeline)
    warm = timeline.steps[len(timeline.steps) // 4 : -1]
    tokens = math.fsum(step.tokens for step in warm) / len(warm)
    return Row(measured, found.train_wait, found.step_time, tokens / found.step_time / fleet.gpus)


def _bisect(low: float, high: float, grows: Callable[[float], float], target: float) -> float:
    """The argument at which a growing function reaches the target."""
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        if grows(middle) < target:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _fit(first: Parameters, seed: int) -> Parameters:
    """Fit decode time, slots and stall, in this order; lengths and training times are given."""
    fitted = replace(
        first,
        token=_bisect(
            1e-4,
            0.1,
            lambda token: predict(replace(first, token=token), 0, seed).train_wait,
            MEASURED[0].train_wait,
        ),
    )

    def miss(slots: int) -> float:
        return abs(predict(replace(fitted, slots=slots), 2, seed).step - MEASURED[2].step)

    near = min(range(2 * K, 4 * GROUPS * K, 2 * K), key=miss)
    fitted = replace(fitted, slots=min(range(near - 2 * K + 1, near + 2 * K), key=miss))
    stall = _bisect(
        0.0,
        MEASURED[1].step,
        lambda stall: predict(replace(fitted, stall=stall), 1, seed).step,
        MEASURED[1].step,
    )
    return replace(fitted, stall=stall)


def _tokens_per_response(measured: Measured) -> float:
    return (measured.tokens_per_gpu or 0.0) * 4 * measured.step / (GROUPS * K)


def fit(*, shared: bool, seed: int = 1) -> tuple[Parameters, list[Row]]:
    """Fit the parameters and simulate the three architectures with them.

    With `shared`, responses have one mean length and the asynchronous architectures, which train on
    two GPUs, one training time.
    """
    lengths = [_tokens_per_response(one) for one in MEASURED]
    train = [m.step - m.train_wait - m.update for m in MEASURED]
    lengths[0] = (lengths[1] + lengths[2]) / 2
    if shared:
        lengths = [lengths[0]] * 3
        train[1:] = [(train[1] + train[2]) / 2] * 2
    first = Parameters(
        0.01, GROUPS * K, (lengths[0], lengths[1], lengths[2]), (train[0], train[1], train[2]), 0.0
    )
    parameters = _fit(first, seed)
    return parameters, [predict(parameters, at, seed) for at in range(len(MEASURED))]
