"""Pools that are Deployments or SandboxWarmPools: sizes are set by the scale subresource, states
come from watches.

A step of the control loop calls the API server only to change a size. Before a pool is made
smaller, idle pods are marked as those that go first; where the planner may not do that, Kubernetes
chooses. While the API server cannot be reached for longer than `stale_s`, or asks to wait,
`DependencyDown`: pools stay as they are.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from assay.config.kubernetes import KubernetesSettings
from assay.core.errors import DependencyDown, InvalidRequest
from assay.core.ids import StageName
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.planner.kubernetes.api import KubernetesApi, Refused, Unanswered
from assay.planner.kubernetes.costs import annotated, costs
from assay.planner.kubernetes.hosts import PodHosts
from assay.planner.kubernetes.mirror import NOT_ASKED, Mirror
from assay.planner.kubernetes.pods import PodView, part, pod_view
from assay.planner.kubernetes.pool import HELD_UP_S, Pool, Target, target_view
from assay.planner.session.messages import HostState, PoolState

SYNC_S_MAX: Final = 15.0
SYNC_EVERY_S: Final = 0.05
MARKS_AT_ONCE: Final = 16
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/{}/deployments"
WARM_POOLS: Final = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/{}/sandboxwarmpools"

Running = Callable[[Sequence[StageName]], Awaitable[Mapping[StageName, int]]]
"""Requests with a lease, by stage."""

log = structlog.get_logger(__name__)


class KubernetesScaler:
    """Sizes the Deployments of `settings.deployments` and the pools of `settings.warm_pools`."""

    def __init__(
        self,
        settings: KubernetesSettings,
        *,
        running: Running,
        clock: Clock,
        metrics: Metrics,
        hosts: PodHosts | None = None,
    ) -> None:
        self._settings = settings
        self._running = running
        self._hosts = hosts
        self._clock = clock
        self._metrics = metrics
        self._api = KubernetesApi(kubeconfig=settings.kubeconfig, clock=clock)
        namespace = settings.namespace
        self._pools: dict[StageName, Pool] = {}
        self._targets: dict[str, Mirror[Target]] = {}
        """What is sized, by the path of its kind."""
        for kind, named in ((DEPLOYMENTS, settings.deployments), (WARM_POOLS, settings.warm_pools)):
            if named:
                self._add(kind.format(namespace), named)
        self._pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self._pods = Mirror(
            self._api, self._pods_path, settings.selector,
            parse=partial(_pod_view, pool_label=settings.pool_label), seen=self._pod_seen,
            clock=clock,
        )  # fmt: skip
        self._mirrors: Sequence[Mirror[Target] | Mirror[PodView]] = [
            *self._targets.values(),
            self._pods,
        ]
        self._watching: list[asyncio.Task[None]] = []
        self._conditions: dict[StageName, str] = {}
        self._seen: dict[StageName, PoolState] = {}
        self._pods_of: dict[str, list[PodView]] = {}
        """Pods of each stage at the last look."""
        self._may_mark = True
        self._marks_held_until_ns = 0

    def _add(self, path: str, named: Mapping[str, str]) -> None:
        """Pools of one kind."""
        by_name: dict[str, Pool] = {}
        for stage, name in named.items():
            by_name[name] = self._pools[StageName(stage)] = Pool(
                stage=StageName(stage),
                path=path,
                name=name,
                slots_per_pod=self._settings.slots_per_pod_by_stage.get(
                    stage, self._settings.slots_per_pod
                ),
            )
        self._targets[path] = Mirror(
            self._api, path, self._settings.selector,
            parse=target_view, seen=partial(self._target_seen, by_name), clock=self._clock,
            set_back=partial(_set_back, by_name),
        )  # fmt: skip

    # -- the interface of a scaler -------------------------------------------------------------
    async def pools(self) -> Sequence[PoolState]:
        """Current state of all pools that are there."""
        await self._synced()
        if (
            self._hosts is not None and not self._pods.why
        ):  # only an up-to-date copy says who is gone
            await self._hosts.settle(
                self._pods.objects,
                slots_of=self._slots_per_pod,
                now_s=self._clock.monotonic_ns() / 1e9,
            )
        present = self._present()
        running = await self._running(list(present))
        by_stage: dict[str, list[PodView]] = {}
        for pod in self._pods.objects.values():
            by_stage.setdefault(pod.stage, []).append(pod)
        now_s = self._clock.now_ns() / 1e9
        for pool in self._pools.values():
            pool.replaces = self._marks(pool) and self._may_mark
        found = [
            pool.state(
                target, by_stage.get(stage, ()),
                running=running.get(stage, 0), now_s=now_s, ahead_s=self._api.ahead_s,
                patience=self._settings, doubted=self._doubted(stage),
            )
            for stage, (pool, target) in present.items()
        ]  # fmt: skip
        self._seen = {state.stage: state for state in found}
        self._pods_of = by_stage
        self._tell(found)
        return found

    async def resize(self, stage: StageName, slots: int) -> PoolState:
        """Set the size of a pool; does nothing where it has that size."""
        await self._synced()
        pool, target = self._one(stage)
        replicas = pool.pods_for(slots)
        if replicas == pool.replicas(target):
            pool.problem = ""
        else:
            await self._set(pool, replicas)
        if stage not in self._seen:
            await self.pools()
        # Counted at the last look: a step sizes hundreds of pools, and looks once.
        return replace(self._seen[stage], desired=pool.desired(target))

    def hosts(self) -> Sequence[HostState]:
        """The pods of the pools, as last seen, by name."""
        pods = self._pods.objects
        return [
            self._pools[stage].host_of(pods[name])
            for name in sorted(pods)
            if (stage := StageName(pods[name].stage)) in self._pools
        ]

    async def close(self) -> None:
        """Stop watching; pools stay as they are."""
        watching, self._watching = self._watching, []
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        await self._api.close()

    # -- parts ---------------------------------------------------------------------------------
    async def _set(self, pool: Pool, replicas: int) -> None:
        now_s = self._clock.now_ns() / 1e9
        if pool.leaves(now_s):
            return
        if now_s < pool.held_until_s:
            return
        path = f"{pool.path}/{pool.name}/scale"
        if self._hosts is not None and self._marks(pool):
            await self._mark(pool, replicas, self._hosts)
        try:
            scale = await self._api.scale(path, replicas)
        except InvalidRequest as error:
            pool.problem = error.message
            raise
        except Unanswered as error:
            pool.held_up(error.message, self._clock.now_ns() / 1e9)
            raise
        version = str(part(scale, "metadata").get("resourceVersion") or "")
        pool.resized(replicas, version, now_s)
        log.info("pool_scaled", stage=pool.stage, pool=pool.name, replicas=replicas)

    def _marks(self, pool: Pool) -> bool:
        """Whether the pods that go are chosen here; other controllers do not look at costs."""
        return self._settings.mark_idle_pods and "/deployments" in pool.path

    def _doubted(self, stage: StageName) -> Set[str]:
        return frozenset() if self._hosts is None else self._hosts.doubted(stage)

    def _slots_per_pod(self, stage: StageName) -> int:
        return self._pools[stage].slots_per_pod if stage in self._pools else 1

    async def _mark(self, pool: Pool, stay: int, hosts: PodHosts) -> None:
        """Give doubted and idle pods the cost at which they go first. What the API server asks
        before a pod changes may not answer: then the size is set without marks for a while.

        Raises:
            DependencyDown: the API server cannot be reached or asks to wait.
        """
        pods = self._pods_of.get(pool.stage, ())
        if len(pods) <= stay or self._clock.monotonic_ns() < self._marks_held_until_ns:
            return
        doubted = hosts.doubted(pool.stage)
        wanted = list(costs(pods, idle=hosts.idle, stay=stay, doubted=doubted).items())
        for first in range(0, len(wanted), MARKS_AT_ONCE):
            some = wanted[first : first + MARKS_AT_ONCE]
            if not all(await asyncio.gather(*(self._mark_one(name, cost) for name, cost in some))):
                return

    async def _mark_one(self, pod: str, cost: int) -> bool:
        """Return whether the planner may do that; true also for a pod that is gone."""
        try:
            await self._api.patch(f"{self._pods_path}/{pod}", annotated(cost))
        except Unanswered as error:
            self._marks_held_until_ns = self._clock.monotonic_ns() + round(HELD_UP_S * 1e9)
            self._not_marked(error.message)
        except Refused as error:
            if error.status not in {401, 403}:
                return True
            self._not_marked(error.message)
        else:
            self._may_mark = True
        return self._may_mark

    def _not_marked(self, why: str) -> None:
        if self._may_mark:
            log.warning("idle_pods_not_marked", why=why)
        self._may_mark = False

    def _one(self, stage: StageName) -> tuple[Pool, Target]:
        found = self._present().get(stage)
        if found is None:
            raise InvalidRequest(f"stage {stage!r} has no pool here", field="stage")
        return found

    def _present(self) -> dict[StageName, tuple[Pool, Target]]:
        return {
            stage: (pool, target)
            for stage, pool in self._pools.items()
            if (target := self._targets[pool.path].objects.get(pool.name)) is not None
        }

    async def _synced(self) -> None:
        if not self._watching:
            self._watching = [
                asyncio.create_task(mirror.run(), name="kubernetes watch")
                for mirror in self._mirrors
            ]
        try:
            async with asyncio.timeout(SYNC_S_MAX):
                while why := self._why_not_synced():
                    if why != NOT_ASKED:
                        raise DependencyDown(why)
                    await asyncio.sleep(SYNC_EVERY_S)
        except TimeoutError:
            raise DependencyDown(NOT_ASKED) from None

    def _why_not_synced(self) -> str:
        for task in self._watching:
            if task.done():
                task.result()  # a bug: raises it
        patience_ns = self._settings.stale_s * 1e9
        for mirror in self._mirrors:
            lost_for_ns = self._clock.monotonic_ns() - mirror.lost_ns
            if mirror.why and (not mirror.listed or lost_for_ns > patience_ns):
                return mirror.why
        return ""

    def replicas_there(self, stage: str) -> int | None:
        """The size that the pool has by the API server's last news; `None` = it is not there."""
        found = self._present().get(StageName(stage))
        return None if found is None else found[1].replicas

    def _target_seen(self, by_name: Mapping[str, Pool], target: Target) -> None:
        pool = by_name.get(target.name)
        if pool is not None:
            pool.target_seen(target, self._clock.now_ns() / 1e9)

    def _pod_seen(self, pod: PodView) -> None:
        pool = self._pools.get(StageName(pod.stage))
        took_s = pool.pod_seen(pod) if pool is not None else None
        if took_s is not None:
            self._metrics.pool_started(stage=pod.stage, seconds=took_s)

    def _tell(self, pools: Sequence[PoolState]) -> None:
        for pool in pools:
            if self._conditions.get(pool.stage, "") != pool.condition:
                self._conditions[pool.stage] = pool.condition
                log.warning("pool_condition", stage=pool.stage, condition=pool.condition)
            self._metrics.pool_seen(
                stage=pool.stage, desired=pool.desired, ready=pool.ready, busy=pool.busy,
                condition=pool.condition.partition(":")[0],
            )  # fmt: skip


def _set_back(pools: Mapping[str, Pool]) -> None:
    for pool in pools.values():
        pool.set_back()


def _pod_view(found: Mapping[str, object], *, before: object, pool_label: str) -> PodView:
    known = before if isinstance(before, PodView) else None
    return pod_view(found, pool_label=pool_label, before=known)
