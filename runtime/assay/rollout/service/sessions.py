"""Open sessions, and the reward batches of each.

Invariant: a reward batch is sealed once, when it is marked `last` and all its groups have ended.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from assay.core.errors import FailedPrecondition
from assay.core.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.rollout.service.groups import Groups
    from assay.rollout.service.records import (
        EndedGroup,
        GroupSpec,
        RewardBatch,
        SessionKey,
        SessionSpec,
    )
    from assay.rollout.service.rewards import RewardDesk

BATCHES_OPEN_MAX: Final = 1_024
"""Reward batches of a session that are not marked `last`: they are kept, here and in the reward
service, until the session closes."""


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
    closed: bool = False


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

    @property
    def enough(self) -> bool:
        """Whether its other groups are not needed."""
        return 0 < self.enough_groups <= self.counted

    def count(self, group: EndedGroup) -> None:
        """One of its groups ended."""
        whole = all(one.judged.outcome is not Outcome.CANCELLED for one in group.trajectories)
        self.counted += whole and not (self.only_varied and group.summary.degenerate)


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

    Both calls return the batches that have enough groups now: the caller ends their other groups.
    """

    def __init__(self, desk: RewardDesk) -> None:
        self._desk = desk

    def begin(
        self, session: Session, fresh: Sequence[GroupSpec], batches: Sequence[RewardBatch]
    ) -> list[str]:
        """Groups were accepted, with what their trainer said of their batches."""
        for spec in fresh:
            opened = session.batches.setdefault(spec.batch_id, OpenBatch())
            opened.groups += 1
            opened.cut = False
        for batch in batches:
            self._desk.open_batch(session.key, batch.batch_id, deadline_s=batch.deadline_s)
            opened = session.batches.setdefault(batch.batch_id, OpenBatch())
            opened.last = opened.last or batch.last
            opened.enough_groups = batch.enough_groups or opened.enough_groups
            opened.only_varied = opened.only_varied or batch.only_varied
        named = {*(spec.batch_id for spec in fresh), *(one.batch_id for one in batches)}
        return [batch_id for batch_id in named if self._looked_at(session, batch_id)]

    def group_ended(self, session: Session, group: EndedGroup) -> list[str]:
        """One of their groups ended."""
        batch_id = group.spec.batch_id
        opened = session.batches.get(batch_id)
        if opened is None:
            return []
        opened.groups -= 1
        opened.count(group)
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
