"""Which rollout is in which slot, seen from the host: references, groups, what was handed out; no
I/O.

Invariants:
  - a slot is free, or its rollout is in `rows`; submitted == completed + failed + in flight;
  - a response waits for its score in `awaiting` from its line on the reward ring to its score or
  its end;
  - a completion is handed out once; its slot is free from then on, a generation later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.rollout.errors import EngineSaturated, Limit, RolloutGone
from assay.rollout.interface.rollouts import RolloutRef
from assay.rollout.layout import Completion, RolloutOutcome

if TYPE_CHECKING:
    import array

    from assay.rollout.interface.rollouts import Group


@dataclass(slots=True)
class LedgerTenant:
    """The rollout in a slot."""

    ref: RolloutRef
    user_id: int
    reward_id: int
    prompt: array.array[int]
    cancelled: bool = False
    ended: Completion | None = None


class CudaLedger:
    """One thread at a time; the engine's lock sees to it."""

    def __init__(self, slots: int, generation_first: int, trajectory_credits: int) -> None:
        self._free = deque(RolloutRef(slot, generation_first) for slot in range(slots))
        self._tenants: dict[int, LedgerTenant] = {}
        self._ready: deque[LedgerTenant] = deque()
        self._to_score: deque[tuple[RolloutRef, int, int]] = deque()
        self.awaiting: set[RolloutRef] = set()
        self._trajectory_credits = trajectory_credits
        self.submitted = self.completed = self.failed = 0

    @property
    def slots_free(self) -> int:
        return len(self._free)

    @property
    def in_flight(self) -> int:
        return self.submitted - self.completed - self.failed

    def user_ids_in_flight(self) -> list[int]:
        """Of the rollouts that have not ended."""
        return [t.user_id for t in self._tenants.values() if t.ended is None]

    def take(self, group: Group, prompt: array.array[int]) -> list[LedgerTenant]:
        """A slot for each rollout of a group.

        Raises:
            EngineSaturated: too few slots; nothing changed.
        """
        if len(group.seeds) > len(self._free):
            raise EngineSaturated(Limit.SLOTS)
        taken = []
        for _seed, user_id, reward_id in group.members():
            ref = self._free.popleft()
            tenant = LedgerTenant(ref, user_id, reward_id, prompt)
            self._tenants[ref.slot] = tenant
            taken.append(tenant)
        self.submitted += len(taken)
        return taken

    def tenant(self, ref: RolloutRef) -> LedgerTenant:
        """The rollout, which was not polled.

        Raises:
            RolloutGone: it was, or was never there.
        """
        tenant = self._tenants.get(ref.slot)
        if tenant is None or tenant.ref != ref:
            raise RolloutGone(f"rollout {ref} was polled")
        return tenant

    def running(self, ref: RolloutRef) -> LedgerTenant:
        """The rollout, which has not ended.

        Raises:
            RolloutGone: it ended, or was never there.
        """
        tenant = self._tenants.get(ref.slot)
        if tenant is None or tenant.ref != ref or tenant.ended is not None:
            raise RolloutGone(f"rollout {ref} has ended")
        return tenant

    def responded(self, ref: RolloutRef, length: int, posted_ns: int) -> None:
        """A line of the reward ring."""
        tenant = self._tenants.get(ref.slot)
        if tenant is not None and tenant.ref == ref and tenant.ended is None:
            self.awaiting.add(ref)
            self._to_score.append((ref, length, posted_ns))

    def to_score(self, n: int) -> list[tuple[LedgerTenant, int, int]]:
        """Up to n responses that still wait: tenant, tokens, time of the last token."""
        taken: list[tuple[LedgerTenant, int, int]] = []
        while self._to_score and len(taken) < n:
            ref, length, posted_ns = self._to_score.popleft()
            if ref in self.awaiting:
                taken.append((self._tenants[ref.slot], length, posted_ns))
        return taken

    def scored(self, ref: RolloutRef) -> None:
        """A score was given.

        Raises:
            RolloutGone: it does not wait for one.
            EngineSaturated: as many ended rollouts as there are credits wait to be polled.
        """
        if ref not in self.awaiting:
            raise RolloutGone(f"rollout {ref} does not wait for a score")
        if len(self._ready) >= self._trajectory_credits:
            raise EngineSaturated(Limit.TRAJECTORY)
        self.awaiting.discard(ref)

    def ended(self, line: Completion) -> None:
        """A line of the done ring."""
        tenant = self._tenants.get(line.slot)
        ref = RolloutRef(line.slot, line.generation)
        if tenant is None or tenant.ref != ref or tenant.ended is not None:
            return
        tenant.ended = line
        self.awaiting.discard(ref)
        self._ready.append(tenant)
        if line.outcome == RolloutOutcome.COMPLETED:
            self.completed += 1
        else:
            self.failed += 1

    @property
    def ready(self) -> int:
        """Ended rollouts that were not handed out."""
        return len(self._ready)

    @property
    def has_news(self) -> bool:
        return bool(self._ready or self._to_score)

    def hand_out(self, n: int) -> list[LedgerTenant]:
        """Up to n ended rollouts; `free` each once its results are copied."""
        return [self._ready.popleft() for _ in range(min(n, len(self._ready)))]

    def free(self, ref: RolloutRef) -> None:
        """Its slot's next generation may be submitted."""
        del self._tenants[ref.slot]
        self._free.append(RolloutRef(ref.slot, (ref.generation + 1) & 0xFFFFFFFF))
