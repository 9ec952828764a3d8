"""What the platform is doing at one instant, as one value or JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from assay.core.batches.record import BatchRecord, StageDepth

BATCHES_READ_MAX = 100
"""Open batches of a snapshot, the earliest deadlines; others cost nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A stage's worker slots, over all worker hosts that answered."""

    stage: str
    slots_desired: int
    slots_ready: int
    slots_busy: int
    slots_max: int = 0
    """Most that may be asked for; 0 = not known."""
    starts_measured: int = 0
    startup_p50_s: float = 0.0
    startup_p90_s: float = 0.0
    core_cost: float = 0.0
    """Of its hosts, in GPU-seconds per core-second; 0 = as in the settings."""
    condition: str = ""
    """What is wrong with it; empty = nothing that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A worker host, as the planner sees it."""

    host: str
    state: str
    """`Counted`, or why its slots are not counted on."""
    cores: int
    pools: Sequence[Pool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Queues, workers, batches."""

    at_ns: int
    store_round_trip_s: float
    sandbox_mode: str
    depths: Sequence[StageDepth]
    pools: Mapping[str, Pool]
    batches: Sequence[BatchRecord]
    planner: str = ""
    """What it says of itself."""
    hosts: Sequence[Host] = ()
    """The worker hosts that the planner lists; empty: none leads."""
    hosts_all: int = 0

    @property
    def is_calm(self) -> bool:
        """There is no work, and every slot that is wanted is ready."""
        at_work = any(depth.queued or depth.running for depth in self.depths)
        starting = any(pool.slots_ready < pool.slots_desired for pool in self.pools.values())
        return bool(self.pools) and not (self.batches or at_work or starting)

    def looks_like(self, other: "Snapshot") -> bool:
        """Whether it says the same, apart from the instant; work in progress never does."""
        then = replace(other, at_ns=self.at_ns, store_round_trip_s=self.store_round_trip_s)
        return self == then and not self.batches

    def as_json(self) -> dict[str, Any]:
        """Plain data; the same names as in the tables."""
        return {
            "at_ns": self.at_ns,
            "store_round_trip_s": self.store_round_trip_s,
            "sandbox_mode": self.sandbox_mode,
            "planner": self.planner,
            "stages": [
                {**asdict(depth), **slots_of(self.pools.get(depth.stage))} for depth in self.depths
            ],
            "hosts": [asdict(host) for host in self.hosts],
            "hosts_all": self.hosts_all,
            "batches": [batch_json(batch) for batch in self.batches],
        }


def batch_json(batch: BatchRecord) -> dict[str, Any]:
    """A batch as plain data."""
    return {**asdict(batch), "unjudged": batch.unjudged, "bias_avoided": batch.bias_avoided}


def slots_of(pool: Pool | None) -> dict[str, int]:
    """The numbers of a pool's slots; 0 where there is none."""
    return {
        "slots_desired": pool.slots_desired if pool else 0,
        "slots_ready": pool.slots_ready if pool else 0,
        "slots_busy": pool.slots_busy if pool else 0,
    }
