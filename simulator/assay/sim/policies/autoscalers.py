"""Stock autoscalers with their documented defaults.

They see counts, never batches. `ceiling` is the `maxReplicas` that each of them needs. For defaults
in CPU utilisation, a slot counts as fully used while it runs a request.
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from typing import Final

from assay.model.arrays import SECOND_NS
from assay.model.observation import Cause, Observation, PoolView, Sizing
from assay.model.policy import PoolPolicy, Sharing

HPA_SYNC_S: Final = 15.0
HPA_TOLERANCE: Final = 0.1
HPA_DOWN_WINDOW_S: Final = 300.0


class StaticPeak(PoolPolicy):
    """A fixed number of slots."""

    name = "static_peak"

    def __init__(self, slots: tuple[int, ...]) -> None:
        self.slots = slots

    def decide(self, observation: Observation) -> Sizing:
        """Return the constant size."""
        return Sizing(targets=self.slots)


class Serverless(PoolPolicy):
    """One slot per request, started and stopped with it: every stage has a cold start."""

    name = "serverless"
    sharing: Sharing = "shared"
    elastic = True

    def decide(self, observation: Observation) -> Sizing:
        """Sizes are not used."""
        return Sizing(targets=tuple(0 for _ in observation.pools))


class TickingPolicy(PoolPolicy, ABC):
    """Decides at regular intervals, independently of events."""

    tick_s = HPA_SYNC_S

    def __init__(self, ceiling: tuple[int, ...]) -> None:
        self.ceiling = ceiling
        self.next_ns = 0
        self.targets = tuple(self.floor for _ in ceiling)

    @property
    def floor(self) -> int:
        """Minimum slots of a pool."""
        return 1

    def decide(self, observation: Observation) -> Sizing:
        """Keep the targets until the next tick."""
        now_ns = observation.now_ns
        if observation.cause is Cause.START or now_ns >= self.next_ns:
            self.next_ns = now_ns + round(self.tick_s * SECOND_NS)
            self.targets = tuple(
                max(self.floor, min(self.ceiling[p], self.tick(p, view, now_ns)))
                for p, view in enumerate(observation.pools)
            )
        return Sizing(targets=self.targets, wake_ns=self.next_ns)

    @abstractmethod
    def tick(self, pool: int, view: PoolView, now_ns: int) -> int:
        """The number of slots that the autoscaler wants now."""


class Window:
    """Values of the last `span_s` seconds."""

    def __init__(self, span_s: float) -> None:
        self.span_ns = round(span_s * SECOND_NS)
        self.values: deque[tuple[int, float]] = deque()

    def add(self, now_ns: int, value: float) -> None:
        """Add a value and drop those that are too old."""
        self.values.append((now_ns, value))
        while self.values[0][0] <= now_ns - self.span_ns:
            self.values.popleft()

    def mean(self) -> float:
        """Mean of the values, which have even intervals."""
        return sum(value for _, value in self.values) / len(self.values)

    def largest(self) -> float:
        """Maximum of the values."""
        return max(value for _, value in self.values)


class Hpa(TickingPolicy):
    """Kubernetes HorizontalPodAutoscaler v2 on utilisation: 15 s loop, 80 %, tolerance 10 %.

    Up by at most max(4, 100 %) in 15 s, at once; down to the highest recommendation of 300 s.
    """

    name = "hpa"

    def __init__(self, ceiling: tuple[int, ...], *, utilisation: float = 0.8) -> None:
        super().__init__(ceiling)
        self.utilisation = utilisation
        self.past = [Window(HPA_DOWN_WINDOW_S) for _ in ceiling]

    def load(self, view: PoolView) -> float:
        """Load in slots."""
        return view.running / self.utilisation

    def tick(self, pool: int, view: PoolView, now_ns: int) -> int:
        ready = max(view.idle + view.running, 1)
        wanted = self.load(view)
        if abs(wanted / ready - 1) <= HPA_TOLERANCE:
            wanted = view.target
        wanted = min(math.ceil(wanted), max(view.target + 4, 2 * view.target))
        self.past[pool].add(now_ns, wanted)
        return max(wanted, min(view.target, int(self.past[pool].largest())))


class Keda(Hpa):
    """KEDA on the queue's length (5 waiting items per slot), polled every 30 s, through the HPA.

    From 0 to 1 at the next poll once anything waits; to 0 after 300 s without waiting items.
    """

    name = "keda"
    poll_s = 30.0
    cooldown_s = 300.0

    def __init__(self, ceiling: tuple[int, ...], *, items_per_slot: float = 5.0) -> None:
        super().__init__(ceiling)
        self.items_per_slot = items_per_slot
        self.active_ns = [-1 for _ in ceiling]
        self.next_poll_ns = [0 for _ in ceiling]

    @property
    def floor(self) -> int:
        """Scales to zero."""
        return 0

    def load(self, view: PoolView) -> float:
        """Average value: the queue's length per slot."""
        return view.waiting / self.items_per_slot

    def tick(self, pool: int, view: PoolView, now_ns: int) -> int:
        if view.waiting + view.running > 0:
            self.active_ns[pool] = now_ns
        if view.target == 0:
            if now_ns < self.next_poll_ns[pool]:
                return 0
            self.next_poll_ns[pool] = now_ns + round(self.poll_s * SECOND_NS)
            return 1 if view.waiting > 0 else 0
        idle_ns = now_ns - self.active_ns[pool]
        if idle_ns >= round(self.cooldown_s * SECOND_NS):
            return 0
        return max(1, super().tick(pool, view, now_ns))


class Kpa(TickingPolicy):
    """Knative pod autoscaler, one request per slot: 2 s tick, 70 % of 1, a window of 60 s and
    one of a tenth of it.

    Panics when the short window needs twice the ready slots, and never scales down in panic.
    """

    name = "kpa"
    tick_s = 2.0
    panic_threshold = 2.0
    panic_share = 0.1
    grace_s = 30.0

    def __init__(
        self, ceiling: tuple[int, ...], *, utilisation: float = 0.7, stable_s: float = 60.0
    ) -> None:
        super().__init__(ceiling)
        self.utilisation = utilisation
        self.stable_s, self.panic_s = stable_s, self.panic_share * stable_s
        self.stable = [Window(self.stable_s) for _ in ceiling]
        self.panic = [Window(self.panic_s) for _ in ceiling]
        self.panic_until_ns = [-1 for _ in ceiling]
        self.busy_ns = [-1 for _ in ceiling]

    @property
    def floor(self) -> int:
        """Scales to zero."""
        return 0

    def tick(self, pool: int, view: PoolView, now_ns: int) -> int:
        present = view.running + view.waiting
        self.stable[pool].add(now_ns, present)
        self.panic[pool].add(now_ns, present)
        if present:
            self.busy_ns[pool] = now_ns
        ready = max(view.idle + view.running, 1)
        stable = math.ceil(self.stable[pool].mean() / self.utilisation)
        panic = math.ceil(self.panic[pool].mean() / self.utilisation)
        stable = max(stable, ready // 2 if view.held else 0)
        if panic >= self.panic_threshold * ready:
            self.panic_until_ns[pool] = now_ns + round(self.stable_s * SECOND_NS)
        if now_ns < self.panic_until_ns[pool]:
            return max(panic, view.target)
        if stable == 0 and now_ns - self.busy_ns[pool] < round(self.grace_s * SECOND_NS):
            return min(1, view.target)
        return stable


class RayServe(TickingPolicy):
    """Ray Serve: 2 running requests per replica, look-back 30 s, delays 30 s up and 600 s down."""

    name = "ray_serve"
    tick_s = 10.0
    look_back_s = 30.0
    up_delay_s = 30.0
    down_delay_s = 600.0

    def __init__(self, ceiling: tuple[int, ...], *, ongoing: float = 2.0) -> None:
        super().__init__(ceiling)
        self.ongoing = ongoing
        self.seen = [Window(self.look_back_s) for _ in ceiling]
        self.up_since_ns = [-1 for _ in ceiling]
        self.down_since_ns = [-1 for _ in ceiling]

    def tick(self, pool: int, view: PoolView, now_ns: int) -> int:
        """One control loop: a desired size takes effect after it has lasted for its delay."""
        self.seen[pool].add(now_ns, view.running + view.waiting)
        wanted = math.ceil(self.seen[pool].mean() / self.ongoing)
        wanted = max(self.floor, min(self.ceiling[pool], wanted))
        up = lasted(self.up_since_ns, pool, now_ns, wish=wanted > view.target)
        down = lasted(self.down_since_ns, pool, now_ns, wish=wanted < view.target)
        if up >= self.up_delay_s or down >= self.down_delay_s:
            self.up_since_ns[pool] = self.down_since_ns[pool] = -1
            return wanted
        return view.target


def lasted(since_ns: list[int], pool: int, now_ns: int, *, wish: bool) -> float:
    """Seconds that a desired size has lasted without a break."""
    if not wish:
        since_ns[pool] = -1
        return -1.0
    if since_ns[pool] < 0:
        since_ns[pool] = now_ns
    return (now_ns - since_ns[pool]) / SECOND_NS
