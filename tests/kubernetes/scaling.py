"""A scaler under test, with the numbers that a store would give it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from tests.store.driver import FIRST

from assay.core.errors import DependencyDown
from assay.core.hosts.record import BUSY_UNKNOWN, HostRecord
from assay.core.ids import StageName, WorkerId
from assay.edge.metrics import Metrics
from assay.planner.build import PlannerService
from assay.planner.kubernetes.scaler import KubernetesScaler
from assay.planner.session.messages import PoolState


class Scaling:
    """A scaler and what it reads beside the API server."""

    scaler: KubernetesScaler

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.busy: dict[StageName, int] = {}

    async def running(self, stages: Sequence[StageName]) -> Mapping[StageName, int]:
        return {stage: self.busy.get(stage, 0) for stage in stages}

    async def pool(self, stage: str) -> PoolState:
        """The pool as it is seen now; fails if there is none."""
        return next(pool for pool in await self.scaler.pools() if pool.stage == stage)

    async def seen(self, stage: str) -> PoolState | None:
        """The pool, or `None` while the API server does not answer."""
        try:
            return await self.pool(stage)
        except (DependencyDown, StopIteration, RuntimeError):
            return None

    async def resize(self, stage: str, slots: int) -> PoolState:
        return await self.scaler.resize(StageName(stage), slots)


def write_kubeconfig(file: Path, *, port: int, token: str) -> None:
    """How a scaler reaches an API server of this machine."""
    file.write_text(
        f"""
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: {token}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
"""
    )


def host_of(pod: str, life: str = "ab", busy: int = BUSY_UNKNOWN) -> HostRecord:
    """Record of the worker host in a pod."""
    return HostRecord(
        worker=WorkerId(f"{pod}:1:{life}~0123"), address="10.0.0.1:8472", stages=(FIRST,), cores=1,
        memory_bytes=1, slots_max=1, busy=busy,
    )  # fmt: skip


RunScaler = Callable[..., Scaling]
RunPlanner = Callable[..., Awaitable[PlannerService]]
