"""Invariants of the services after every instant, and of everything at the end.

The ledger checks the store, command by command. This module checks the worker hosts, the slots and
the planners, which are visible between instants, and that nothing is left at the end.
"""

from collections import Counter
from typing import Final

from assay.sim.platform.faults import Kind
from assay.sim.platform.ledger import require
from assay.sim.platform.pipelines import BATCH_MAX, FIRST, STAGES
from assay.sim.platform.planning import SLOTS_MAX
from assay.sim.platform.world import LEASE_S, HostNode, World
from assay.worker.slots.process import SlotProcess, SlotState
from assay.worker.supervisor import Supervisor

IDLE_S_MAX: Final = 2.0
"""How long a request may wait beside an idle slot when there are no faults."""

SWEEPS: Final = 4
LATER_NS: Final = 100_000 * 10**9
"""Longer than any retention time."""


class InstantChecks:
    """Keeps state across instants."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._idle_since: dict[str, float] = {}
        self._seen: dict[str, int] = {}

    def look(self) -> None:
        """Check every invariant.

        Raises:
            Finding: one is violated.
        """
        world = self._world
        if world.findings:
            raise world.findings[0]
        leaders = [one.node.name for one in world.planners.values() if _leads(one)]
        if not self._lead_is_unsafe():
            require(len(leaders) <= 1, "two planners lead", leaders=leaders)
        for life in world.hosts.values():
            if life.node.is_alive and self._seen.get(life.node.name) != life.node.events:
                self._seen[life.node.name] = life.node.events
                self._look_at_host(life)

    def _lead_is_unsafe(self) -> bool:
        """A store that forgets, or whose clock jumps ahead, gives the lead away too soon; two may
        lead until the old leader's lease has expired."""
        forgets = {Kind.FAIL_OVER, Kind.STORE_CLOCK_JUMP}
        now_s = self._world.loop.time()
        return any(
            fault.kind in forgets and fault.at_s <= now_s <= fault.at_s + 2 * LEASE_S
            for fault in self._world.faults
        )

    def _look_at_host(self, life: HostNode) -> None:
        for supervisor in life.supervisors.values():
            slots = list(supervisor._pool._slots)  # noqa: SLF001 - inspection is the purpose
            self._slots(supervisor, slots)
            if self._world.is_calm:
                self._conserves_work(life, supervisor)

    def _slots(self, supervisor: Supervisor, slots: list[SlotProcess]) -> None:
        pool = supervisor._pool  # noqa: SLF001
        starting = sum(slot.state is SlotState.STARTING for slot in slots)
        stays = sum(not slot.is_leaving for slot in slots)
        require(stays <= pool._desired or not starting, "more slots than wanted start")  # noqa: SLF001
        require(pool._desired <= SLOTS_MAX, "a pool over its cap")  # noqa: SLF001
        batch_max = BATCH_MAX if supervisor.stage == FIRST else 1
        held = Counter[int]()
        for slot in slots:
            assignment = slot.assignment
            require(
                assignment is None or slot.state is SlotState.BUSY,
                "a slot that is not busy has work",
                state=slot.state,
            )
            if assignment is not None:
                require(len(assignment.held) <= batch_max, "an assignment over the batch size")
                held.update(id(one) for one in assignment.open.values())
        held.update(id(one) for one in supervisor._waiting._claims)  # noqa: SLF001
        require(not held or max(held.values()) == 1, "a claim in two places of a host")
        room = max(len(slots), pool._desired) * batch_max  # noqa: SLF001
        waiting = len(supervisor._waiting)  # noqa: SLF001
        require(waiting <= room, "more is claimed than slots can take")

    def _conserves_work(self, life: HostNode, supervisor: Supervisor) -> None:
        """No request waits beside an idle slot."""
        key = f"{life.node.name} {supervisor.stage}"
        waiting = any(self._world.ledger.queued[supervisor.stage].values())
        if not (waiting and supervisor._pool.idle) or supervisor._is_draining:  # noqa: SLF001
            self._idle_since.pop(key, None)
            return
        since_s = self._idle_since.setdefault(key, self._world.loop.time())
        idle_s = self._world.loop.time() - since_s
        require(idle_s <= IDLE_S_MAX, "a request waits beside an idle slot", stage=supervisor.stage)


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
    for node in world._nodes():  # noqa: SLF001
        left = [task.get_name() for task in node.tasks if not task.done()]
        require(not left, "tasks are left", node=node.name, tasks=left)
    for key, batch in ledger.batches.items():
        if key[0].startswith("tenant"):
            require(batch.over, "a batch never ended", batch=key)
    # Records that no one waits for expire, and later their results.
    for _ in range(SWEEPS):
        server.clock.offset_ns += LATER_NS
        for stage in STAGES:
            options = {"attempts_max": 3, "jobs_max": 10_000}
            server.carry_out("end", "reap", (stage,), options)
    if world.findings:
        raise world.findings[0]
    model = server.model
    left_keys = {
        "batches": len(model._batches),  # noqa: SLF001
        "jobs": len(model._jobs),  # noqa: SLF001
        "over": len(model._over),  # noqa: SLF001
        "letters": sum(map(len, model._letters.values())),  # noqa: SLF001
        "leases": sum(map(len, model._leases.values())),  # noqa: SLF001
        "queued": sum(map(len, model._queues.values())),  # noqa: SLF001
    }
    held = [h for h in model._held.values() if h.requests or h.payload_bytes or h.batches]  # noqa: SLF001
    require(not any(left_keys.values()), "keys are left", **left_keys)
    require(not held, "quotas are left used", held=held)
