"""Invariants of the services after every instant, and of everything at the end.

The ledger checks the store, command by command. This module checks the worker hosts, the slots and
the planners, which are visible between instants, and that nothing is left at the end.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from assay.core.errors import AssayError
from assay.core.ids import StageName
from assay.core.records import Lease
from assay.sim.platform.faults import Kind
from assay.sim.platform.ledger.entries import Finding, require
from assay.sim.platform.nodes import EPOCH_NS
from assay.sim.platform.pipelines import BATCH_MAX, FIRST
from assay.sim.platform.planning import SLOTS_MAX
from assay.sim.platform.store import LIMITS, TIMEOUT_S, SimulatedCall, Witness
from assay.sim.platform.world import LEASE_S, HostNode, World
from assay.worker.assignment import AHEAD_EACH_MAX, AHEAD_HOLD_S_MAX, AHEAD_HOLDS
from assay.worker.slots.process import SlotProcess, SlotState
from assay.worker.store_health import PAUSE_S_MAX
from assay.worker.supervisor import Supervisor

SlotPlace = tuple[str, StageName]
"""A node and a stage."""

IDLE_S_MAX: Final = TIMEOUT_S + PAUSE_S_MAX + 0.1
"""How long a request may wait beside an idle slot after a fault: a call that was made during it
fails, then a pause, then another call."""
IDLE_LOOK_S: Final = 0.05
"""Time between two looks at that."""
CALM_IDLE_S_MAX: Final = 0.5
"""The same without faults: shorter than the time between two sweeps, which wake hosts too."""
WITHDRAWN_S_MAX: Final = 1.5
"""How long a slot may go on with what was cancelled, without faults: a beat and its answer."""
STOCKED_S_MAX: Final = 2.0
"""How long a pool that has all its slots may go on starting some: one fork."""
LEFT_S_MAX: Final = 0.5
"""How long requests of a score may go on after its caller has left."""

SWEEPS: Final = 4
OVERDUE_NS: Final = LIMITS.batch_overdue_ns + 700 * 10**9
"""Later than any batch may end, and earlier than results expire."""
LATER_NS: Final = 100_000 * 10**9
"""Longer than any retention time."""


class Known(Witness):
    """What each node knows from the answers of the store, and must follow.

    * A lease that a node knows to be lost or settled is not renewed again.
    * A node never takes back a lease that it holds itself: it renews first.
    * A planner that knows that another leads does not lead.
    * A host is forgotten by others, and followed by its next life, without any lease.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.lost: dict[tuple[str, Lease], float] = {}
        """Since when it knows."""
        self.follows: dict[str, bool] = {}
        self._settled: set[tuple[str, Lease]] = set()
        self._taken: dict[tuple[str, str], set[StageName]] = defaultdict(set)
        """By who took leases back, and from which host: the stages."""
        self._holds: dict[str, dict[Lease, None]] = defaultdict(dict)

    def on_call(self, node: str, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        if name != "beat":
            return
        over = [
            lease
            for lease in options["leases"]
            if (node, lease) in self._settled or (node, lease) in self.lost
        ]
        if over:
            finding = Finding(f"a lease that is known to be over is renewed; node={node!r}")
            self._world.findings.append(finding)

    def on_answer(self, command: SimulatedCall) -> None:
        node, answer = command.node, command.answer
        if isinstance(answer, AssayError):
            return
        holds = self._holds[node]
        match command.name:
            case "claim":
                holds.update(dict.fromkeys(claim.lease for claim in answer))
            case "beat":
                now_s = self._world.loop.time()
                self.lost.update({(node, lease): now_s for lease in answer})
                self._drop(node, answer)
            case "finish":
                leases = [report.lease for report in command.args[1]]
                self._settled.update((node, lease) for lease in leases)
                self._drop(node, leases)
            case "lead":
                self.follows[node] = not answer.leads

    def on_command(self, command: SimulatedCall) -> None:
        self._given_up(command)
        if command.name != "reap" or _may_lose_time(self._world):
            return
        leased = self._world.ledger.leased[command.args[0]].values()
        mine = [e.lease for e in leased if e.lease in self._holds[command.node]]
        expired = {e.lease for e in leased if e.expires_ns <= command.now_ns}
        if not expired.isdisjoint(mine):
            finding = Finding(f"a node takes back its own leases; node={command.node!r}")
            self._world.findings.append(finding)

    def _given_up(self, command: SimulatedCall) -> None:
        """Who forgets a host has taken back its leases of all stages before, and so has a host that
        joins after a life that was killed."""
        node, over = command.node, None
        match command.name:
            case "take_back":
                self._taken[node, command.args[1]].add(command.args[0])
            case "drop_host" if command.args[0] != node:
                over = command.args[0]
            case "put_host":
                over = self._world.predecessors.get(node)
        if over is not None and self._taken[node, over] != set(self._world.stages):
            finding = Finding(f"a host is forgotten that may hold leases; host={over!r}")
            self._world.findings.append(finding)

    def _drop(self, node: str, leases: Iterable[Lease]) -> None:
        for lease in leases:
            self._holds[node].pop(lease, None)


class InstantChecks:
    """Keeps state across instants."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known = world.server.witness = Known(world)
        self._idle_since: dict[SlotPlace, float] = {}
        self._stocked_since: dict[SlotPlace, float] = {}
        self._was_brisk: set[SlotPlace] = set()
        """Where enough assignments in succession were short."""
        self._look_again_s = 0.0
        self._seen: dict[str, int] = {}
        self._scored_since_s = 0.0

    def look(self) -> None:
        """Check all of this instant.

        Raises:
            Finding: one is violated.
        """
        world = self._world
        if world.findings:
            raise world.findings[0]
        leaders = [one.node.name for one in world.planners.values() if _leads(one)]
        for leader in leaders:
            follows = self._known.follows.get(leader, False)
            require(not follows, "a planner leads although another does")
        if len(leaders) > 1 and not self._lead_is_unsafe():
            require(False, "two planners lead", leaders=leaders)  # noqa: FBT003
        self._scores()
        for life in world.hosts.values():
            if life.node.is_alive and self._seen.get(life.node.name) != life.node.events:
                self._seen[life.node.name] = life.node.events
                self._look_at_host(life)
        self._conserves_work()

    def _scores(self) -> None:
        """No request of a score runs whose caller has its answer, or has left."""
        world = self._world
        if not world.is_calm or world.scorer is None or world.scorer.is_waiting:
            self._scored_since_s = world.loop.time()
        elif world.loop.time() - self._scored_since_s > LEFT_S_MAX:
            tenant = world.scorer.tenant.tenant_id
            left = [
                key for key, one in world.ledger.batches.items() if key[0] == tenant and one.live
            ]
            require(not left, "a score is abandoned and goes on", batches=left)

    def _lead_is_unsafe(self) -> bool:
        """A store that forgets, or whose clock jumps ahead, gives the lead away too soon; two may
        lead until the old leader's lease has expired."""
        return _may_lose_time(self._world)

    def _look_at_host(self, life: HostNode) -> None:
        for supervisor in life.supervisors.values():
            slots = list(supervisor._pool._slots)  # noqa: SLF001 - inspection is the purpose
            self._slots(life.node.name, supervisor, slots)
            self._starts_no_more(life.node.name, supervisor, len(slots))
            self._not_in_vain(life.node.name, supervisor, slots)
            self._gives_out(supervisor)
            self._note_idle(life, supervisor)

    def _slots(self, node: str, supervisor: Supervisor, slots: list[SlotProcess]) -> None:
        pool = supervisor._pool  # noqa: SLF001
        desired = pool._desired  # noqa: SLF001
        require(desired <= SLOTS_MAX, "a pool over its cap")
        batch_max = BATCH_MAX if supervisor.stage == FIRST else 1
        held = [id(one) for one in supervisor._waiting._claims]  # noqa: SLF001
        for slot in slots:
            state, assignment = slot.state, slot.assignment
            if assignment is not None:
                require(state is SlotState.BUSY, "a slot that is not busy has work", state=state)
                require(len(assignment.held) <= batch_max, "an assignment over the batch size")
                held += [id(one) for one in assignment.open.values()]
                ahead = slot.ahead
                require(ahead is None or len(ahead.held) <= batch_max, "too much is sent ahead")
                held += [id(one) for one in ahead.open.values()] if ahead is not None else []
            elif len(slots) > desired:
                require(state is not SlotState.STARTING, "more slots than wanted start")
                require(state is not SlotState.IDLE, "a slot that is not wanted is idle")
        require(len(set(held)) == len(held), "a claim in two places of a host")
        reports = supervisor._reports  # noqa: SLF001
        is_stuck = reports._waiting and reports._sending is None  # noqa: SLF001
        require(not is_stuck, "reports wait, and nothing sends them")
        waiting = len(supervisor._waiting)  # noqa: SLF001
        may_be_ahead = self._world.slots.brisk or self._works_briskly(node, supervisor)
        each = max(batch_max, AHEAD_EACH_MAX) if may_be_ahead else batch_max
        room = max(len(slots), desired) * each
        require(waiting <= room, "more is claimed than slots can take")

    def _works_briskly(self, node: str, supervisor: Supervisor) -> bool:
        """Its assignments were short, by chance, so that it has claimed ahead of its slots."""
        holds_s = supervisor._waiting._holds_s  # noqa: SLF001
        place = node, supervisor.stage
        if len(holds_s) >= AHEAD_HOLDS and sum(holds_s) <= AHEAD_HOLDS * AHEAD_HOLD_S_MAX:
            self._was_brisk.add(place)
        return place in self._was_brisk

    def _starts_no_more(self, node: str, supervisor: Supervisor, slots: int) -> None:
        """A pool that has all its slots stops starting some, after the one that it has begun."""
        pool, key, now_s = supervisor._pool, (node, supervisor.stage), self._world.loop.time()  # noqa: SLF001
        starts = pool._restocking is not None and not pool._failures  # noqa: SLF001
        if starts and slots >= pool._desired:  # noqa: SLF001
            since_s = self._stocked_since.setdefault(key, now_s)
            require(now_s - since_s <= STOCKED_S_MAX, "slots are started that no one wants")
        else:
            self._stocked_since.pop(key, None)

    def _not_in_vain(self, node: str, supervisor: Supervisor, slots: list[SlotProcess]) -> None:
        """A node that learns that a lease is lost drops its work at once."""
        lost, now_s = self._known.lost, self._world.loop.time()
        if not lost:
            return
        for held in supervisor._waiting._claims:  # noqa: SLF001
            require((node, held.claim.lease) not in lost, "a claim waits whose lease is lost")
        for slot in slots:
            known = {lost.get((node, lease)) for lease in _works_on(slot)}
            require(known != {now_s}, "a slot works for a lease that is lost")

    def _gives_out(self, supervisor: Supervisor) -> None:
        """A claim that any slot may judge does not wait beside an idle one of its own host."""
        waiting = supervisor._waiting._claims  # noqa: SLF001
        waits = any(not held.fresh for held in waiting) and not supervisor._is_draining  # noqa: SLF001
        require(not (waits and supervisor._pool.idle), "a claim waits beside an idle slot")  # noqa: SLF001

    def _note_idle(self, life: HostNode, supervisor: Supervisor) -> None:
        """Note since when the host could claim a request.

        A claim that needs a fresh slot keeps an idle one from others until the fresh one is ready.
        """
        key = life.node.name, supervisor.stage
        if supervisor._capacity() > 0 and not supervisor._is_draining:  # noqa: SLF001
            self._idle_since.setdefault(key, self._world.loop.time())
        else:
            self._idle_since.pop(key, None)

    def _conserves_work(self) -> None:
        """No request waits beside an idle slot while no fault is at work."""
        world = self._world
        now_s = world.loop.time()
        if world.striking or world.jumps or now_s < self._look_again_s:
            return
        self._look_again_s = now_s + IDLE_LOOK_S
        if world.is_calm and world.ledger.withdrawn:
            self._stops_what_was_withdrawn()
        idle_s_max = CALM_IDLE_S_MAX if world.is_calm else IDLE_S_MAX
        for stage in world.stages:
            waits_ns = world.ledger.waits_since_ns(stage)
            since_s = 0.0 if waits_ns is None else (waits_ns - EPOCH_NS) / 1e9
            since_s = max(since_s, world.calm_since_s)
            if waits_ns is None or now_s - since_s <= idle_s_max:
                continue
            for life in world.hosts.values():
                idle_s = self._idle_since.get((life.node.name, stage), now_s)
                is_idle = life.node.is_alive and now_s - max(since_s, idle_s) > idle_s_max
                require(not is_idle, "a request waits beside an idle slot", stage=stage)

    def _stops_what_was_withdrawn(self) -> None:
        """A slot ends soon after all that it works on was cancelled."""
        withdrawn = self._world.ledger.withdrawn
        now_ns = EPOCH_NS + self._world.loop.time() * 1e9
        for life in self._world.hosts.values():
            for supervisor in life.supervisors.values():
                for slot in supervisor._pool.busy:  # noqa: SLF001
                    since_ns = [withdrawn.get(lease, now_ns) for lease in _works_on(slot)]
                    late_s = (now_ns - max(since_ns, default=now_ns)) / 1e9
                    require(late_s <= WITHDRAWN_S_MAX, "a slot goes on with what was cancelled")


def _may_lose_time(world: World) -> bool:
    """Leases may expire too soon: the store has just forgotten writes, or its clock jumped."""
    forgets = {Kind.FAIL_OVER, Kind.STORE_CLOCK_JUMP}
    now_s = world.loop.time()
    return any(
        fault.kind in forgets and fault.at_s <= now_s <= fault.at_s + 2 * LEASE_S
        for fault in world.faults
    )


def _works_on(slot: SlotProcess) -> list[Lease]:
    """The lease of its current work, or all of them if no one knows which is current."""
    if slot.assignment is None:
        return []
    current = slot.assignment.current
    works = slot.assignment.open.values() if current is None else [current]
    return [held.claim.lease for held in works]


def _leads(one: object) -> bool:
    return one.node.is_alive and one.lease.leads  # type: ignore[attr-defined, no-any-return]


def check_end(world: World) -> None:
    """Check that nothing is left after everything stopped.

    Raises:
        Finding: something is left.
    """
    ledger, server = world.ledger, world.server
    leased = [entry for stage in ledger.leased.values() for entry in stage.values()]
    require(not leased, "leases are left", leases=len(leased))
    require(not server.memory.watchers, "watchers are left", watchers=server.memory.watchers)
    require(not server.blocked, "blocked calls are left")
    for node in world.nodes():
        left = [task.get_name() for task in node.tasks if not task.done()]
        require(not left, "tasks are left", node=node.name, tasks=left)
    for key, batch in ledger.batches.items():
        if key[0].startswith("tenant"):
            require(batch.has_ended(forgets=world.forgets), "a batch never ended", batch=key)
    # Batches that no one ends expire: everything shows it. Later their results expire too.
    server.clock.offset_ns += OVERDUE_NS
    for stage in world.stages:
        server.carry_out("end", "reap", (stage,), {"attempts_max": 3, "jobs_max": 10_000})
    for key in ledger.batches:
        server.carry_out("end", "get_batch", key, {})
        server.carry_out("end", "results", key, {"cursor": 0, "entries_max": 10_000})
    for _ in range(SWEEPS):
        server.clock.offset_ns += LATER_NS
        for stage in world.stages:
            options = {"attempts_max": 3, "jobs_max": 10_000}
            server.carry_out("end", "reap", (stage,), options)
    if world.findings:
        raise world.findings[0]
    model = server.model
    left_keys = {
        "batches": len(model.batch_book.batches),
        "jobs": len(model.batch_book.jobs),
        "over": len(model.batch_book.over),
        "letters": sum(map(len, model.batch_book.letters.values())),
        "leases": sum(map(len, model.stages.leases.values())),
        "queued": sum(map(len, model.stages.queues.values())),
    }
    held = [h for h in model.batch_book.held.values() if h.requests or h.payload_bytes or h.batches]
    require(not any(left_keys.values()), "keys are left", **left_keys)
    require(not held, "quotas are left used", held=held)
