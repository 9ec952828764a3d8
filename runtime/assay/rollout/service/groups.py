"""The groups of one session, from prompts to trajectories: a pure state machine.

    waiting -> running -> ended -> read -> acknowledged (gone)

Invariants (tests/rollout/service/test_groups.py):
  - a group is in exactly one of the four places, and `open` counts them all;
  - each member ends once, with one outcome, and a reward only if it was judged;
  - a group that was read keeps its position until a cursor at or beyond it is acknowledged; reading
    again from an earlier cursor gives the same groups in the same order;
  - a group that is too stale at its first read is never returned: dropped, or generated again.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from assay.core.errors import Conflict, NotFound, Saturated, TooLarge
from assay.core.group import can_vary, summarize
from assay.core.ids import GroupId
from assay.rollout.service.records import (
    NOT_DECODED,
    Decoded,
    EndedGroup,
    GroupSpec,
    Judged,
    SessionSpec,
    Trajectory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from assay.core.trajectory import TrajectoryTokens

RETRY_AFTER_S: Final = 0.1
SEED_STEP: Final = 1 << 32
"""Added to the seed of a group that is generated again, so that its responses differ."""
SEED_MASK: Final = (1 << 64) - 1
STALE_RETRIES_MAX: Final = 4
"""A group that was too stale this many times is dropped: its trainer is faster than rollouts."""


@dataclass(slots=True, kw_only=True)
class GroupMember:
    """One rollout of a running group."""

    index: int
    seed: int
    submitted_ns: int
    number: int = 0
    """Identifies it in the engine while it runs; another one when it is generated again."""
    attempts: int = 1
    decoded: Decoded | None = None
    decoded_ns: int = 0
    judged: Judged | None = None
    ended_ns: int = 0


@dataclass(slots=True, kw_only=True)
class Running:
    """A group with rollouts in the engine, or waiting for rewards."""

    spec: GroupSpec
    members: list[GroupMember]
    left: int
    cut: bool = False
    """The members that are left were cancelled because the group cannot vary."""

    def can_vary(self, minority_min: int) -> bool:
        ended = [m.judged for m in self.members if m.decoded is not None]
        rewards = [None if judged is None else judged.reward for judged in ended]
        return can_vary(rewards, self.left, minority_min)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """Groups of a session by state, and counts of the stale ones."""

    waiting: int
    running: int
    ended: int
    read: int
    stale_dropped: int
    stale_retried: int

    @property
    def open(self) -> int:
        """Submitted and not acknowledged."""
        return self.waiting + self.running + self.ended + self.read


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGroup:
    """A group as it is returned."""

    position: int
    group: EndedGroup
    staleness: int


@dataclass(slots=True)
class Groups:
    """See the module."""

    spec: SessionSpec
    waiting: deque[GroupSpec] = field(default_factory=deque)
    running: dict[str, Running] = field(default_factory=dict)
    ended: deque[EndedGroup] = field(default_factory=deque)
    read: OrderedDict[int, ReadGroup] = field(default_factory=OrderedDict)
    held_bytes: int = 0
    """Of all open groups, at most; see `GroupSpec.bytes_max`."""
    _known: dict[str, GroupSpec] = field(default_factory=dict)
    _ended: dict[str, EndedGroup] = field(default_factory=dict)
    """Ended and not acknowledged, by name: what can be continued."""
    _position: int = 0
    _dropped: int = 0
    _retried: int = 0

    @property
    def position(self) -> int:
        """Position of the group that was read last; 0 before the first."""
        return self._position

    def responses_to_come(self) -> int:
        """Rollouts that have not ended and will want a reward."""
        waiting = sum(spec.k for spec in self.waiting if spec.scored)
        return waiting + sum(one.left for one in self.running.values() if one.spec.scored)

    def counts(self) -> GroupCounts:
        """Number of groups per state."""
        return GroupCounts(
            waiting=len(self.waiting),
            running=len(self.running),
            ended=len(self.ended),
            read=len(self.read),
            stale_dropped=self._dropped,
            stale_retried=self._retried,
        )

    # -- in ------------------------------------------------------------------------------------
    def accept(self, specs: Sequence[GroupSpec]) -> list[GroupSpec]:
        """Accept all of these groups, or none; return those that were not known before.

        Raises:
            Conflict, Saturated: as `fresh`.
        """
        fresh = self.fresh(specs)
        self.add(fresh)
        return fresh

    def fresh(self, specs: Sequence[GroupSpec]) -> list[GroupSpec]:
        """Those of these groups that are not known.

        Raises:
            Conflict: a `group_id` is open with other content.
            Saturated: there would be more than `groups_open_max`.
            TooLarge: these alone are more.
        """
        fresh: dict[str, GroupSpec] = {}
        for i, spec in enumerate(specs):
            known = self._known.get(spec.group_id) or fresh.get(spec.group_id)
            if known is None:
                fresh[spec.group_id] = spec
            elif known != spec:
                message = f"group {spec.group_id!r} is open with other content"
                raise Conflict(message, field=f"prompts[{i}].group_id")
        if len(fresh) > self.spec.groups_open_max:
            message = f"prompts: {len(fresh)}; groups_open_max is {self.spec.groups_open_max}"
            raise TooLarge(message, field="prompts")
        if self.counts().open + len(fresh) > self.spec.groups_open_max:
            message = f"groups_open_max of the session is {self.spec.groups_open_max}"
            raise Saturated(message, field="prompts", retry_after_s=RETRY_AFTER_S)
        return list(fresh.values())

    def add(self, fresh: Sequence[GroupSpec]) -> None:
        """Accept groups that `fresh` returned."""
        self._known.update((spec.group_id, spec) for spec in fresh)
        self.waiting.extend(fresh)
        self.held_bytes += sum(spec.bytes_max for spec in fresh)

    def is_open(self, group_id: str) -> bool:
        """Whether it was accepted and is not acknowledged."""
        return group_id in self._known

    def histories(
        self, group_id: str, continues: str, members: Sequence[int]
    ) -> tuple[TrajectoryTokens, ...]:
        """The trajectories that group `group_id` continues: these members of group `continues`.

        A group that is submitted again finds what it found before, even if the group before it was
        acknowledged meanwhile.

        Raises:
            NotFound: no such group has ended, or it was acknowledged.
            IndexError: it has no such member.
        """
        known = self._known.get(group_id)
        before = None if known is None else [turn.member for turn in known.turns]
        if known is not None and (known.continues, before) == (continues, list(members)):
            return known.histories
        ended = self._ended.get(continues)
        if ended is None:
            message = f"no group {continues!r} ended and is not acknowledged"
            raise NotFound(message, field="continues")
        return tuple(ended.trajectories[member].tokens for member in members)

    # -- with the engine -------------------------------------------------------------------------
    def start(self, now_ns: int) -> Running:
        """Move the first waiting group to running."""
        spec = self.waiting.popleft()
        members = [
            GroupMember(index=i, seed=(spec.seed + i) & SEED_MASK, submitted_ns=now_ns)
            for i in range(spec.k)
        ]
        running = Running(spec=spec, members=members, left=spec.k)
        self.running[spec.group_id] = running
        return running

    def put_back(self, running: Running) -> None:
        """The engine had no room: put it at the head of the waiting groups."""
        del self.running[running.spec.group_id]
        self.waiting.appendleft(running.spec)

    def end(
        self, running: Running, member: GroupMember, decoded: Decoded, judged: Judged, now_ns: int
    ) -> EndedGroup | None:
        """A member ended; return its group if that has ended."""
        member.decoded, member.judged, member.ended_ns = decoded, judged, now_ns
        member.decoded_ns = member.decoded_ns or now_ns
        running.left -= 1
        if running.left:
            return None
        del self.running[running.spec.group_id]
        return self._end_group(_ended(running))

    def end_waiting(
        self, chosen: Callable[[GroupSpec], bool], judged: Judged, now_ns: int
    ) -> list[EndedGroup]:
        """End the chosen groups that have no started rollouts, and return them."""
        gone = [spec for spec in self.waiting if chosen(spec)]
        self.waiting = deque(spec for spec in self.waiting if not chosen(spec))
        return [self._end_group(_never_started(spec, judged, now_ns)) for spec in gone]

    def _end_group(self, group: EndedGroup) -> EndedGroup:
        self.ended.append(group)
        self._ended[group.spec.group_id] = group
        return group

    # -- out -----------------------------------------------------------------------------------
    def acknowledge(self, cursor: int) -> None:
        """Drop the groups up to and including this position."""
        while self.read and next(iter(self.read)) <= cursor:
            _, done = self.read.popitem(last=False)
            self._forget(done.group.spec.group_id)

    def read_again(self, cursor: int) -> Iterator[ReadGroup]:
        """Groups after `cursor` that were read before and are not acknowledged, in order."""
        if cursor >= self._position or not self.read:
            return iter(())
        known = max(0, cursor + 1 - next(iter(self.read)))  # positions have no gaps
        return itertools.islice(self.read.values(), known, None)

    def take(
        self, version: int, on_again: Callable[[EndedGroup], None] = lambda _group: None
    ) -> ReadGroup | None:
        """The next ended group, given the active `version`; `None` when there is none.

        `on_again` is called with each group that is too stale and will be generated again.
        """
        while self.ended:
            group = self.ended.popleft()
            staleness = group.staleness(version)
            if self.spec.staleness_max is not None and staleness > self.spec.staleness_max:
                if self._stale(group, version):
                    on_again(group)
                continue
            self._position += 1
            out = ReadGroup(position=self._position, group=group, staleness=staleness)
            self.read[self._position] = out
            return out
        return None

    def _stale(self, group: EndedGroup, version: int) -> bool:
        """Drop the group, or have it generated again; returns whether it is."""
        if not self._worth_again(group, version):
            self._forget(group.spec.group_id)
            self._dropped += 1
            return False
        del self._ended[group.spec.group_id]
        again = replace(group.spec, seed=(group.spec.seed + SEED_STEP) & SEED_MASK)
        self.waiting.appendleft(again)
        self._retried += 1
        return True

    def _worth_again(self, group: EndedGroup, version: int) -> bool:
        """Whether the group can become fresh enough: turns before its own are not made again."""
        submitted = self._known[group.spec.group_id]
        retries = ((group.spec.seed - submitted.seed) & SEED_MASK) // SEED_STEP
        oldest = group.spec.oldest_version
        before = 0 if oldest is None else version - oldest
        fresh = self.spec.staleness_max is None or before <= self.spec.staleness_max
        return self.spec.retry_stale and fresh and retries < STALE_RETRIES_MAX

    def _forget(self, group_id: str) -> None:
        self.held_bytes -= self._known.pop(group_id).bytes_max
        del self._ended[group_id]


def _ended(running: Running) -> EndedGroup:
    trajectories = tuple(_trajectory(running.spec, member) for member in running.members)
    rewards = [t.judged.reward for t in trajectories]
    return EndedGroup(
        spec=running.spec,
        trajectories=trajectories,
        summary=summarize(GroupId(running.spec.group_id), rewards),
    )


def _never_started(spec: GroupSpec, judged: Judged, now_ns: int) -> EndedGroup:
    trajectories = tuple(
        Trajectory(
            member=i,
            seed=(spec.seed + i) & SEED_MASK,
            tokens=spec.tokens(i, NOT_DECODED),
            stop=NOT_DECODED.stop,
            judged=judged,
            attempts=0,
            submitted_ns=now_ns,
            decoded_ns=now_ns,
            ended_ns=now_ns,
        )
        for i in range(spec.k)
    )
    summary = summarize(GroupId(spec.group_id), [None] * spec.k)
    return EndedGroup(spec=spec, trajectories=trajectories, summary=summary)


def _trajectory(spec: GroupSpec, member: GroupMember) -> Trajectory:
    if member.decoded is None or member.judged is None:
        message = f"member {member.index} has not ended"
        raise ValueError(message)
    return Trajectory(
        member=member.index,
        seed=member.seed,
        tokens=spec.tokens(member.index, member.decoded),
        stop=member.decoded.stop,
        judged=member.judged,
        attempts=member.attempts,
        submitted_ns=member.submitted_ns,
        decoded_ns=member.decoded_ns,
        ended_ns=member.ended_ns,
    )
