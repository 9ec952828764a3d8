"""Open sessions, and the reward batches of each.

Groups whose trainer names no batch share unnamed ones, of a bounded number of groups and a bounded
time each: one that was kept for as long as the session would grow without end in the reward
service.

Invariant: a reward batch is sealed once, when no more groups of it will start (it is marked `last`,
or unnamed) and all that did have ended. A group that is generated again counts again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from assay.core.errors import FailedPrecondition, Saturated, TooLarge
from assay.core.outcome import Outcome
from assay.edge.door import DoorLimit
from assay.rollout.service.records import UNNAMED_MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.core.ids import TenantId
    from assay.edge.clock import Clock
    from assay.rollout.service.groups import Groups
    from assay.rollout.service.records import (
        EndedGroup,
        GroupSpec,
        RewardBatch,
        SessionKey,
        SessionSpec,
    )
    from assay.rollout.service.rewards import RewardDesk

SESSIONS_MAX: Final = 256
IDLE_S_MAX: Final = 86_400.0
"""A session that no call names for this long, and no stream reads, is closed: one whose trainer
vanished would take its place for good. A day is longer than any training step."""
GROUPS_BYTES_MAX: Final = 4 * 1024**3
TENANT_SHARE: Final = 0.5
"""Share of these totals, and of the engine's slots, that one of several tenants may hold."""
RETRY_AFTER_S: Final = 1.0
BATCHES_OPEN_MAX: Final = 1_024
"""Reward batches of a session that are not marked `last`: they are kept, here and in the reward
service, until the session closes."""


UNNAMED_GROUPS_MAX: Final = 256
UNNAMED_S_MAX: Final = 60.0
"""For how long, and for how many groups, an unnamed reward batch takes more of them."""


@dataclass(slots=True, kw_only=True)
class Session:
    """An open session."""

    key: SessionKey
    spec: SessionSpec
    groups: Groups
    reader: int = 0
    """Number of the reading stream; earlier ones end."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    batches: dict[str, OpenBatch] = field(default_factory=dict)
    unnamed: Unnamed = field(default_factory=lambda: Unnamed())
    closed: bool = False
    held_bytes: int = 0
    """Taken of the tenant's memory; see `Room`."""
    used_ns: int = 0
    """When a call named it last, by the monotonic clock."""
    streams: int = 0
    """That read it now."""

    def is_idle(self, now_ns: int) -> bool:
        """Whether no one has used it for `IDLE_S_MAX`."""
        return self.streams == 0 and now_ns - self.used_ns > IDLE_S_MAX * 1e9


@dataclass(slots=True)
class OpenBatch:
    """A reward batch, from its first prompt until it is sealed."""

    groups: int = 0
    last: bool = False
    enough_groups: int = 0
    only_varied: bool = False
    cut: bool = False
    counted: int = 0
    """Groups that ended and count towards `enough_groups`."""

    def counts(self, group: EndedGroup) -> bool:
        """Whether it counts towards `enough_groups`."""
        whole = all(one.judged.outcome is not Outcome.CANCELLED for one in group.trajectories)
        return whole and not (self.only_varied and group.summary.degenerate)

    @property
    def enough(self) -> bool:
        """Whether its other groups are not needed."""
        return 0 < self.enough_groups <= self.counted


@dataclass(slots=True)
class Unnamed:
    """Reward batches of groups that name none."""

    of_group: dict[str, str] = field(default_factory=dict)
    """Names of the batches, by the ids of the running groups."""
    made: int = 0
    groups: int = 0
    """Groups of the newest one, which is the one that takes more."""
    until_ns: int = 0

    @property
    def newest(self) -> str:
        """Name of the newest batch."""
        return f"{UNNAMED_MARK}{self.made}"

    def next(self, now_ns: int) -> None:
        """Begin another batch."""
        self.made += 1
        self.groups = 0
        self.until_ns = now_ns + round(UNNAMED_S_MAX * 1e9)


class Turns:
    """Whose group starts next: tenants take turns, and so do the sessions of each.

    One that has opened more sessions than another has no more of the engine for it.
    """

    def __init__(self) -> None:
        self._tenants: deque[TenantId] = deque()
        self._sessions: dict[TenantId, deque[SessionKey]] = {}

    def add(self, key: SessionKey) -> None:
        """A session that takes its turn from now on."""
        if key.tenant_id not in self._sessions:
            self._tenants.append(key.tenant_id)
        self._sessions.setdefault(key.tenant_id, deque()).append(key)

    def remove(self, key: SessionKey) -> None:
        """Remove a session: it takes no more turns."""
        sessions = self._sessions[key.tenant_id]
        sessions.remove(key)
        if not sessions:
            del self._sessions[key.tenant_id]
            self._tenants.remove(key.tenant_id)

    def first(self, waits: Callable[[SessionKey], bool]) -> SessionKey | None:
        """The next session with something that waits; it stays the next one until `taken`."""
        for _ in range(len(self._tenants)):
            sessions = self._sessions[self._tenants[0]]
            for _ in range(len(sessions)):
                if waits(sessions[0]):
                    return sessions[0]
                sessions.rotate(-1)
            self._tenants.rotate(-1)
        return None

    def taken(self) -> None:
        """The turn of what `first` returned is over."""
        self._sessions[self._tenants[0]].rotate(-1)
        self._tenants.rotate(-1)


class Room:
    """What tenants hold of the service: open sessions, and memory of their open groups.

    Each has a share that the others cannot take (`DoorLimit`).
    """

    def __init__(
        self,
        *,
        sessions_max: int = SESSIONS_MAX,
        groups_bytes_max: int = GROUPS_BYTES_MAX,
        tenants: Callable[[], int] = lambda: 1,
    ) -> None:
        """Divide these totals among `tenants`, which may change."""
        self._tenants = tenants
        count = tenants()
        self._sessions = DoorLimit(
            "sessions", total=sessions_max, tenants=count, share=TENANT_SHARE
        )
        self._bytes = DoorLimit(
            "bytes of groups that are not acknowledged (rollout.groups_bytes_max)",
            total=groups_bytes_max,
            tenants=count,
            share=TENANT_SHARE,
        )

    def open(self, tenant_id: TenantId) -> None:
        """Another session.

        Raises:
            Saturated: there are too many; names the field.
        """
        self._take(self._sessions, tenant_id, 1, "session.session_id")

    def closed(self, session: Session) -> None:
        """A session has gone, with its groups."""
        self._sessions.give_back(session.key.tenant_id)
        self._bytes.give_back(session.key.tenant_id, session.held_bytes)
        session.held_bytes = 0

    def refused(self, tenant_id: TenantId) -> None:
        """The session that was to be opened was not."""
        self._sessions.give_back(tenant_id)

    def hold(self, session: Session, more: int = 0) -> None:
        """What a session's groups hold now, and `more` bytes besides.

        Raises:
            Saturated: that is too much; names the field.
            TooLarge: that never fits; names the field.
        """
        tenant_id, now = session.key.tenant_id, session.groups.held_bytes
        if now < session.held_bytes:
            self._bytes.give_back(tenant_id, session.held_bytes - now)
            session.held_bytes = now
        if more:
            self._take(self._bytes, tenant_id, more, "prompts")
            session.held_bytes += more

    def _take(self, limit: DoorLimit, tenant_id: TenantId, amount: int, field: str) -> None:
        limit.divide(self._tenants())
        try:
            limit.check_fits(amount)
            limit.take(tenant_id, amount)
        except TooLarge as error:
            raise TooLarge(error.message, field=field) from None
        except Saturated as error:
            raise Saturated(error.message, field=field, retry_after_s=RETRY_AFTER_S) from None


def batch_of(session: Session, spec: GroupSpec) -> str:
    """Name of the reward batch of a group; "": it names none and does not run."""
    return spec.batch_id or session.unnamed.of_group.get(spec.group_id, "")


def check_batches(
    session: Session, specs: Sequence[GroupSpec], batches: Sequence[RewardBatch]
) -> None:
    """Refuse prompts with which too many reward batches would stay open.

    Raises:
        FailedPrecondition: more than `BATCHES_OPEN_MAX` would not be marked `last`.
    """
    if session.spec.reward is None:
        return
    known = session.batches
    named = {spec.batch_id for spec in specs if not session.groups.is_open(spec.group_id)}
    named |= {batch.batch_id for batch in batches}
    named.discard("")
    left = {batch_id for batch_id, batch in known.items() if not batch.last}
    left |= named - known.keys()
    left -= {batch.batch_id for batch in batches if batch.last}
    if len(left) > BATCHES_OPEN_MAX:
        raise FailedPrecondition(
            f"the session would have {len(left)} reward batches that are not marked `last`, of at"
            f" most {BATCHES_OPEN_MAX}: mark those that are complete",
            field="batches",
        )


class Batches:
    """Opens, counts and seals the reward batches of sessions.

    Calls that return batches return those that have enough groups now: the caller ends their other
    groups.
    """

    def __init__(self, desk: RewardDesk, clock: Clock) -> None:
        self._desk = desk
        self._clock = clock

    def begin(
        self, session: Session, fresh: Sequence[GroupSpec], batches: Sequence[RewardBatch]
    ) -> list[str]:
        """Groups were accepted, with what their trainer said of their batches."""
        named = [spec.batch_id for spec in fresh if spec.batch_id]
        for batch_id in named:
            opened = session.batches.setdefault(batch_id, OpenBatch())
            opened.groups += 1
            opened.cut = False
        for batch in batches:
            self._desk.open_batch(session.key, batch.batch_id, deadline_s=batch.deadline_s)
            opened = session.batches.setdefault(batch.batch_id, OpenBatch())
            opened.last = opened.last or batch.last
            opened.enough_groups = batch.enough_groups or opened.enough_groups
            opened.only_varied = opened.only_varied or batch.only_varied
        touched = {*named, *(one.batch_id for one in batches)}
        return [batch_id for batch_id in touched if self._looked_at(session, batch_id)]

    def started(self, session: Session, spec: GroupSpec) -> None:
        """The rollouts of a group have started; its responses will want rewards."""
        if spec.batch_id:
            return
        unnamed, now_ns = session.unnamed, self._clock.monotonic_ns()
        full = unnamed.groups >= UNNAMED_GROUPS_MAX or now_ns >= unnamed.until_ns
        if full or unnamed.newest not in session.batches:
            unnamed.next(now_ns)
            session.batches[unnamed.newest] = OpenBatch(last=True)
        unnamed.groups += 1
        unnamed.of_group[spec.group_id] = unnamed.newest
        session.batches[unnamed.newest].groups += 1

    def again(self, session: Session, group: EndedGroup) -> None:
        """A group that ended was too stale and waits to be generated again."""
        batch_id = group.spec.batch_id
        if not batch_id:
            return
        opened = session.batches.get(batch_id)
        if opened is None:  # it was sealed: this group is all that another one will have
            opened = session.batches[batch_id] = OpenBatch(last=True)
        else:
            opened.counted -= opened.counts(group)
        opened.groups += 1

    def group_ended(self, session: Session, group: EndedGroup) -> list[str]:
        """One of their groups ended."""
        batch_id = batch_of(session, group.spec)
        session.unnamed.of_group.pop(group.spec.group_id, None)
        opened = session.batches.get(batch_id)
        if opened is None:
            return []
        opened.groups -= 1
        opened.counted += opened.counts(group)
        return [batch_id] if self._looked_at(session, batch_id) else []

    def _looked_at(self, session: Session, batch_id: str) -> bool:
        """Seal the batch if it is done; whether what is left of it has to be cancelled."""
        opened = session.batches.get(batch_id)
        if opened is None:
            return False
        if opened.last and opened.groups == 0:
            del session.batches[batch_id]
            self._desk.seal(session.key, batch_id)
            return False
        if not opened.enough or opened.cut:
            return False
        opened.cut = True
        return True
