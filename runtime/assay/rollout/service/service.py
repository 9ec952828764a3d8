"""The rollout service: sessions, groups, rewards and weights on one engine.

Everything here runs on one event loop. The engine's calls are short and never wait, except pauses
and activations, which wait in a thread.

Invariants:
  - each accepted group is returned by `read` with K trajectories, each with one outcome,
    and a reward only if a judge gave one;
  - a rollout keeps its slot in the engine until its reward arrives, is given up, or is not needed:
  a slow reward service is back-pressure, bounded by `wait_s_max`.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import structlog

from assay.core.errors import Conflict, DependencyDown, InvalidRequest, NotFound
from assay.edge.lifecycle import to_its_end
from assay.edge.metrics import Metrics
from assay.rollout.layout import PauseMode
from assay.rollout.service.flights import Flights
from assay.rollout.service.groups import Groups
from assay.rollout.service.inspection import RolloutPlace, TraceReaders, server_away
from assay.rollout.service.pauses import Pauses
from assay.rollout.service.pump import Pump
from assay.rollout.service.sessions import Batches, Room, Session, check_batches

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

    from assay.core.ids import TenantId
    from assay.core.trajectory import TrajectoryTokens
    from assay.edge.clock import Clock
    from assay.rollout.interface.rollout_engine import RolloutEngine
    from assay.rollout.interface.rollouts import Activation
    from assay.rollout.service.flights import Guest
    from assay.rollout.service.groups import ReadGroup
    from assay.rollout.service.records import (
        EndedGroup,
        GroupSpec,
        Judged,
        RewardBatch,
        SessionKey,
        SessionSpec,
    )
    from assay.rollout.service.rewards import RewardDesk

log = structlog.get_logger(__name__)

PAGE_GROUPS_MAX: Final = 64
PAGE_TOKENS_MAX: Final = 1 << 18
ENGINE_COUNTS: Final = (
    *("submitted", "completed", "failed", "in_flight", "slots_free"),
    *("decode_available", "reward_available", "trajectory_available", "kv_available"),
    *("queue_prefill", "queue_decode", "queue_reward", "queue_trajectory", "queue_done"),
    *("decode_tokens", "prefill_tokens", "steps", "busy_ns"),
    *("prefix_matched_positions", "prefix_missed_positions"),
    *("requests", "lost", "retracted"),
    *("kv_in_use", "kv_in_use_peak", "kv_cold", "kv_evictions", "kv_bytes", "kv_block_bytes"),
)
"""Counters of the engine that are shown, as far as it has them."""
CREDIT: Final = "_available"
STRICTEST_FIRST: Final = (PauseMode.FINISH, PauseMode.RETRACT, PauseMode.IN_PLACE)
"""What a rollout loses at an activation: nothing, its keys and values, or their version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """Counts per state."""

    sessions: int
    groups_waiting: int
    groups_running: int
    groups_ended: int
    rewards_waiting: int
    policy_version: int
    engine: Mapping[str, int]
    """The engine's own counters, by name."""


class RolloutService:
    """See the module."""

    def __init__(
        self,
        *,
        engine: RolloutEngine,
        desk: Callable[[Callable[[int, Judged], None]], RewardDesk],
        text_of: Callable[[Sequence[int]], bytes],
        clock: Clock,
        new_id: Callable[[], str],
        metrics: Metrics | None = None,
        room: Room | None = None,
    ) -> None:
        """Make a service around an engine.

        Args:
            engine: makes tokens; closed by its creator.
            desk: makes the desk that judges, given the callback for its answers.
            text_of: the response as judges get it.
            clock: for timings.
            new_id: makes pause ids.
            metrics: what happens is counted there; `None`: in metrics that no one reads.
            room: what tenants may hold; `None`: all of the defaults.
        """
        self._room = room or Room()
        self._metrics = metrics or Metrics()
        self._engine = engine
        self._clock = clock
        self._closing: set[asyncio.Task[None]] = set()
        self._desk = desk(lambda number, judged: self.flights.on_judged(number, judged))
        self._sessions: dict[SessionKey, Session] = {}
        self._changing: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()
        """No two calls open or close a session at the same time. Those of other sessions do not
        wait: a reward service may take seconds to answer."""
        self._batches = Batches(self._desk, clock)
        self.flights = Flights(
            engine=engine,
            desk=self._desk,
            text_of=text_of,
            clock=clock,
            metrics=self._metrics,
            sessions=self._sessions,
            batches=self._batches,
        )
        self.pauses = Pauses(engine, new_id)
        self.tracer = TraceReaders(engine, clock)

    def add_guest(self, guest: Guest) -> None:
        """Share the engine with `guest`: while groups and its work wait, they start in turn.

        A group that waits for room is not overtaken, otherwise single rollouts would keep a large
        group waiting forever.
        """
        self.flights.add_guest(guest)

    def start_waiting(self) -> None:
        """Start what waits, as far as the engine has room; for a guest that has new work."""
        self.flights.start_waiting()

    def start(self) -> None:
        """Start serving, on the running event loop."""
        self._pump = Pump(self._engine, self.flights, asyncio.get_running_loop())
        self._pump.start()

    def end_streams(self) -> None:
        """Let every reader finish what has ended, and no more."""
        self.tracer.close()
        self.pauses.end_streams()
        for session in self._sessions.values():
            session.closed = True
            session.changed.set()

    async def close(self) -> None:
        """End all sessions, pauses and streams."""
        self.end_streams()
        self.pauses.close()
        await asyncio.to_thread(self._pump.stop)  # first: it hands responses to the desk
        await self._desk.close()

    @property
    def why_not_ready(self) -> str:
        """Why the service makes no tokens now; empty: it does.

        A failed engine stays failed; a remote engine's server may come back.
        """
        if self.flights.down is not None:
            return "the engine failed"
        away = server_away(self._engine.stats())
        return f"the engine's server does not serve: {away}" if away else ""

    def check(self) -> None:
        """Raise `DependencyDown` when the engine has failed."""
        if self.flights.down is not None:
            raise DependencyDown(f"the engine failed: {self.flights.down.message}")

    # -- sessions ------------------------------------------------------------------------------
    async def open_session(self, key: SessionKey, spec: SessionSpec, *, token: str | None) -> bool:
        """Open a session, or find the identical one; return whether it is new.

        Raises:
            Conflict: a session of that name exists with other content.
            Saturated: there are too many, in total or of this tenant.
            NotFound, InvalidRequest, DependencyDown: from the reward service, see `RewardDesk`.
        """
        self.check()
        async with self._lock_of(key):
            return await self._open(key, spec, token)

    async def _open(self, key: SessionKey, spec: SessionSpec, token: str | None) -> bool:
        known = self._sessions.get(key)
        if known is not None:
            if known.spec != spec:
                raise Conflict(
                    "a session of that name exists with other content", field="session.session_id"
                )
            known.used_ns = self._clock.monotonic_ns()
            return False
        self._room.open(key.tenant_id)
        try:
            if spec.reward is not None:
                await self._desk.open_session(key, spec.reward, token=token)
        except BaseException:
            self._room.refused(key.tenant_id)
            raise
        now_ns = self._clock.monotonic_ns()
        self._sessions[key] = Session(key=key, spec=spec, groups=Groups(spec), used_ns=now_ns)
        self.flights.add_session(key)
        return True

    async def close_session(self, key: SessionKey) -> int:
        """Cancel what has not ended, drop the rest; return how many rollouts were cancelled.

        It is done to its end, also if its caller vanishes meanwhile.
        """
        return await to_its_end(self._close(key))

    async def _close(self, key: SessionKey) -> int:
        async with self._lock_of(key):
            session = self._session(key)
            cancelled = self.cancel(key, None)
            session.closed = True
            session.changed.set()
            del self._sessions[key]
            self._room.closed(session)
            self.flights.remove_session(key)
            self.flights.start_waiting()  # its tenant's share may be free for another
            await self._desk.close_session(key)
        return cancelled

    def close_idle(self) -> None:
        """Close the sessions that no one uses any more; see `sessions.IDLE_S_MAX`."""
        now_ns = self._clock.monotonic_ns()
        for key in [key for key, one in self._sessions.items() if one.is_idle(now_ns)]:
            log.info("session_idle", tenant_id=key.tenant_id, session_id=key.session_id)
            task = asyncio.create_task(self._close_idle(key))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _close_idle(self, key: SessionKey) -> None:
        with contextlib.suppress(NotFound):  # its owner was first
            await self._close(key)

    def _lock_of(self, key: SessionKey) -> asyncio.Lock:
        return self._changing.setdefault(key, asyncio.Lock())

    def spec(self, key: SessionKey) -> SessionSpec:
        """Parameters of a session.

        Raises:
            NotFound: no session has that name.
        """
        return self._session(key).spec

    def histories(
        self, key: SessionKey, group_id: str, continues: str, members: Sequence[int]
    ) -> tuple[TrajectoryTokens, ...]:
        """The trajectories that a new group continues; see `Groups.histories`."""
        return self._session(key).groups.histories(group_id, continues, members)

    def _session(self, key: SessionKey) -> Session:
        session = self._sessions.get(key)
        if session is None:
            raise NotFound(f"no session {key.session_id!r} is open", field="session_id")
        session.used_ns = self._clock.monotonic_ns()
        return session

    # -- groups --------------------------------------------------------------------------------
    def submit(
        self,
        key: SessionKey,
        specs: Sequence[GroupSpec],
        batches: Sequence[RewardBatch] = (),
        *,
        acknowledged: int = 0,
    ) -> int:
        """Accept all groups, or none; return how many are new.

        Args:
            key: the session.
            specs: checked groups.
            batches: known facts about their reward batches.
            acknowledged: cursor up to which groups were handled and are dropped.

        Raises:
            NotFound: no such session.
            InvalidRequest: `acknowledged` is not a position of this session.
            Conflict, Saturated: as `Groups.fresh`; Saturated also as `Room.hold`.
            FailedPrecondition: `BATCHES_OPEN_MAX` reward batches are not marked `last`.
        """
        self.check()
        session = self._session(key)
        _check_position(session, acknowledged, "acknowledged")
        session.groups.acknowledge(acknowledged)
        check_batches(session, specs, batches)
        fresh = session.groups.fresh(specs)
        self._room.hold(session, more=sum(spec.bytes_max for spec in fresh))
        session.groups.add(fresh)
        if session.spec.reward is not None:
            enough = self._batches.begin(session, fresh, batches)
            self.flights.end_enough(session, enough)
            if fresh:
                self._desk.announce(key, session.groups.responses_to_come())
        self.flights.start_waiting()
        return len(fresh)

    def cancel(self, key: SessionKey, group_ids: frozenset[str] | None) -> int:
        """Request the end of groups (`None` = all); return the number of their rollouts.

        They end as CANCELLED, or as what they became in the meantime.
        """
        session = self._session(key)
        if group_ids is None:
            return self.flights.cancel_groups(session, lambda _spec: True)
        return self.flights.cancel_groups(session, lambda spec: spec.group_id in group_ids)

    async def read(
        self, key: SessionKey, cursor: int, *, after: int = 0
    ) -> AsyncGenerator[list[ReadGroup], None]:
        """Groups in the order in which they ended, until the session is closed.

        Args:
            key: the session.
            cursor: groups up to here were handled and are dropped.
            after: groups up to here were received, and are not returned again.

        Raises:
            NotFound: no such session.
            InvalidRequest: a position is not of this session.
        """
        session = self._session(key)
        _check_position(session, cursor, "cursor")
        _check_position(session, after, "after")
        session.groups.acknowledge(cursor)
        self._room.hold(session)
        cursor = max(cursor, after)
        session.reader += 1
        reader = session.reader
        session.changed.set()
        session.streams += 1
        try:
            while True:
                page = self._page(session, cursor)
                if page:
                    yield page
                    cursor = page[-1].position
                elif session.closed:
                    return
                else:
                    await session.changed.wait()
                if session.reader != reader:
                    return
                session.changed.clear()
        finally:
            session.streams -= 1
            session.used_ns = self._clock.monotonic_ns()

    def _page(self, session: Session, cursor: int) -> list[ReadGroup]:
        """The next groups after `cursor`: those that were read before, then new ones."""
        again = _bounded(session.groups.read_again(cursor))
        return again or self._new_page(session)

    def _new_page(self, session: Session) -> list[ReadGroup]:
        version = self._engine.stats().policy_version
        before = session.groups.counts()
        scored = session.spec.reward is not None
        stale: list[EndedGroup] = []
        page = _bounded(iter(lambda: session.groups.take(version, stale.append), None))
        self._room.hold(session)  # groups that are too stale were dropped
        for ended in stale if scored else ():
            self._batches.again(session, ended)
        for group in page:
            result = _result(session, group)
            self._metrics.group_read(result=result, staleness=group.staleness)
        after = session.groups.counts()
        self._metrics.groups_stale(
            dropped=after.stale_dropped - before.stale_dropped,
            retried=after.stale_retried - before.stale_retried,
        )
        self.flights.start_waiting()  # stale ones that are generated again
        return page

    # -- weights and pauses --------------------------------------------------------------------
    async def activate(
        self, version: int, mode: PauseMode | None, *, tenant_id: TenantId
    ) -> Activation:
        """Continue with staged weights.

        Args:
            version: that of the weights.
            mode: what becomes of running rollouts; `None`: as the tenant's open sessions say, and
                the strictest of them if they differ.
            tenant_id: whose call it is. Sessions of others have no say: they could delay it.

        Raises:
            WeightsNotReady: there are none of this version.
            FailedPrecondition, WorkerStalled: as `Pauses.reached`.
        """
        self.check()
        chosen = self._at_activation(tenant_id) if mode is None else mode
        done = await self.pauses.reached(
            chosen, lambda wait_s: self._engine.activate(version, mode=chosen, timeout_s=wait_s)
        )
        self._metrics.weights_activated(pause_s=done.pause_s)
        return done

    def _at_activation(self, tenant_id: TenantId) -> PauseMode:
        asked = [
            session.spec.at_activation
            for key, session in self._sessions.items()
            if key.tenant_id == tenant_id
        ]
        return min(asked, key=STRICTEST_FIRST.index, default=PauseMode.IN_PLACE)

    def pushed(self, *, kind: str, stage_s: float) -> None:
        """Weights were staged."""
        self._metrics.weights_staged(kind=kind, seconds=stage_s)

    def report(self) -> None:
        """Set the gauges."""
        status = self.status()
        self._metrics.rollouts_seen(
            states={
                "in_flight": status.engine["in_flight"] - status.rewards_waiting,
                "reward": status.rewards_waiting,
                "free": status.engine["slots_free"],
            },
            groups={
                "waiting": status.groups_waiting,
                "running": status.groups_running,
                "ended": status.groups_ended,
            },
            credits={
                name.removesuffix(CREDIT): count
                for name, count in status.engine.items()
                if name.endswith(CREDIT)
            },
        )

    def places(self, tenant_id: TenantId) -> list[RolloutPlace]:
        """The rollouts of a tenant's sessions, oldest first, up to `ROLLOUTS_LISTED_MAX`."""
        return self.flights.places(tenant_id)

    def status(self) -> ServiceStatus:
        """Counts per state."""
        stats = self._engine.stats()
        counts = [session.groups.counts() for session in self._sessions.values()]
        return ServiceStatus(
            sessions=len(self._sessions),
            groups_waiting=sum(c.waiting for c in counts),
            groups_running=sum(c.running for c in counts),
            groups_ended=sum(c.ended + c.read for c in counts),
            rewards_waiting=self._desk.waiting,
            policy_version=stats.policy_version,
            engine={name: getattr(stats, name) for name in ENGINE_COUNTS if hasattr(stats, name)},
        )


def _check_position(session: Session, position: int, name: str) -> None:
    if not 0 <= position <= session.groups.position:
        raise InvalidRequest(f"{name}: not a position of this session", field=name)


def _bounded(groups: Iterator[ReadGroup]) -> list[ReadGroup]:
    """The first of these groups, as many as one message may have; others stay in the iterator."""
    page: list[ReadGroup] = []
    tokens = 0
    while len(page) < PAGE_GROUPS_MAX and tokens < PAGE_TOKENS_MAX:
        group = next(groups, None)
        if group is None:
            break
        page.append(group)
        tokens += sum(one.tokens.tokens for one in group.group.trajectories)
    return page


def _result(session: Session, read: ReadGroup) -> str:
    if session.spec.reward is None or not read.group.spec.scored:
        return "unscored"
    return "degenerate" if read.group.summary.degenerate else "varied"
