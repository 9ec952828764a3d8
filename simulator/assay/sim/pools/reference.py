"""One stage's queue and workers, without time and without I/O.

The driver (the simulator's heap, or a test on virtual time) hands over *everything that happened at
one instant*; the pool owns the order in which it takes effect: lost workers first, then workers
that come free, then resizing, then admission, then starts, earliest batch first.

Always true after `handle`:

* every admitted item is waiting or running, or has left through exactly one effect;
* nothing waits while a worker is idle;
* workers start waiting items in the order of `core.ordering`: tenants by their virtual times, a
  tenant's items by their keys; an item that lost its worker keeps its key and is not charged again;
* `held = starting + idle + running`, and workers above the target leave as soon as they are idle.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from assay.core.errors import InvalidRequest
from assay.core.fair_queue import FairQueue, Price
from assay.core.ordering import COST_US_MIN, OrderKey


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Item:
    """A request at this stage; `key` decides which of its tenant's is served next."""

    key: OrderKey
    attempt: int = 1
    """Claims of this stage so far, this one included."""
    tenant: int = 0
    weight: float = 1.0
    """The tenant's."""
    cost_us: int = COST_US_MIN
    """What its tenant is charged."""
    charged: int = field(default=0, compare=False)
    """By how much the tenant's virtual time was moved for it ..."""
    claim: int = field(default=0, compare=False)
    """... by the start of this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A request reached the stage."""

    item: Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A worker is done with its item."""

    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A worker that was starting can take work."""

    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A worker is gone, with whatever it was doing."""

    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """The planner wants this many workers."""

    target: int


Event = Arrived | Finished | Ready | Lost | Resized


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """`worker` runs `item` from now on."""

    worker: int
    item: Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A new worker is to be started; it reports `Ready` when it is up."""

    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A worker leaves: idle, or not yet up."""

    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """The queue is full."""

    item: Item


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """The item lost its last permitted worker: a dead letter."""

    item: Item


Effect = Start | Order | Release | Reject | GiveUp


class StagePool:
    """See the module. Worker numbers count up and are never used twice."""

    def __init__(self, *, items_max: int, attempts_max: int, workers_max: int) -> None:
        if workers_max < 0:
            raise InvalidRequest("workers_max is negative", field="workers_max")
        self._items_max = items_max
        self._attempts_max = attempts_max
        self._workers_max = workers_max
        self._target = 0
        self._next_worker = 0
        self._waiting: FairQueue[int, Item] = FairQueue()
        self._claims = 0
        self._starting: list[int] = []
        self._idle: list[int] = []
        self._running: dict[int, Item] = {}

    @property
    def target(self) -> int:
        """Workers wanted."""
        return self._target

    @property
    def waiting(self) -> tuple[Item, ...]:
        """In no particular order."""
        return tuple(self._waiting)

    @property
    def running(self) -> dict[int, Item]:
        """Worker -> item (a copy)."""
        return dict(self._running)

    @property
    def starting(self) -> int:
        """Workers ordered and not yet up."""
        return len(self._starting)

    @property
    def idle(self) -> int:
        """Workers up and without an item."""
        return len(self._idle)

    @property
    def held(self) -> int:
        """Workers paid for: starting, idle and running."""
        return len(self._starting) + len(self._idle) + len(self._running)

    def handle(self, simultaneous: Iterable[Event]) -> list[Effect]:
        """Everything that happened at one instant; workers come free before items are admitted."""
        events = list(simultaneous)
        effects: list[Effect] = []
        for event in events:
            if isinstance(event, Lost):
                effects += self._lose(event.worker)
        for event in events:
            if isinstance(event, Finished):
                self._running.pop(event.worker)
                heappush(self._idle, event.worker)
            elif isinstance(event, Ready) and event.worker in self._starting:
                self._starting.remove(event.worker)
                heappush(self._idle, event.worker)
            elif isinstance(event, Resized):
                self._retarget(event.target)
        arrived = sorted(event.item for event in events if isinstance(event, Arrived))
        return effects + self._resize() + self._admit(arrived) + self._start_waiting()

    def _retarget(self, target: int) -> None:
        if not 0 <= target <= self._workers_max:
            message = f"target {target} is not in [0, {self._workers_max}]"
            raise InvalidRequest(message, field="target")
        self._target = target

    def _lose(self, worker: int) -> list[Effect]:
        if worker in self._starting:
            self._starting.remove(worker)
        elif worker in self._idle:
            self._idle.remove(worker)
            self._idle.sort()
        elif worker in self._running:
            return self._deliver_again(self._running.pop(worker))
        return []

    def _deliver_again(self, item: Item) -> list[Effect]:
        if item.attempt >= self._attempts_max:
            return [GiveUp(item=item)]
        self._wait(replace(item, attempt=item.attempt + 1))
        return []

    def _wait(self, item: Item) -> None:
        self._waiting.push(item.tenant, item.key, item, claims=self._claims)

    def _price(self, item: Item) -> Price | None:
        if self._waiting.shares.charged(item.charged, item.claim):
            return None
        return Price(item.cost_us, item.weight)

    def _resize(self) -> list[Effect]:
        """Order what is missing; let go, latest first, what is too much and not running."""
        effects: list[Effect] = []
        while self.held < self._target:
            self._starting.append(self._next_worker)
            effects.append(Order(worker=self._next_worker))
            self._next_worker += 1
        while self.held > self._target and self._starting:
            effects.append(Release(worker=self._starting.pop()))
        while self.held > self._target and self._idle:
            worker = max(self._idle)
            self._idle.remove(worker)
            self._idle.sort()
            effects.append(Release(worker=worker))
        return effects

    def _admit(self, arrived: list[Item]) -> list[Effect]:
        effects: list[Effect] = []
        for item in arrived:
            if len(self._waiting) < self._items_max + len(self._idle):
                self._wait(item)
            else:
                effects.append(Reject(item=item))
        return effects

    def _start_waiting(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._idle and self._waiting:
            worker, (item, charged) = heappop(self._idle), self._waiting.pop(self._price)
            self._claims += 1
            charged = item.charged if charged is None else charged
            item = replace(item, charged=charged, claim=self._claims)
            self._running[worker] = item
            effects.append(Start(worker=worker, item=item))
        return effects
