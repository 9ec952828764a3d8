"""The turns of one session as trajectories: a pure state machine.

    place -> commit | release

A prompt that continues the end of a trajectory joins it; one that continues an earlier point, or an
end that another turn is continuing already, starts a fork; any other starts a new trajectory.

Invariants (tests/rollout/gateway/test_record.py):
  - the tokens of a turn stand in one trajectory with mask 1, once, after exactly the tokens that
    the engine was given;
  - a fork has the tokens before it as its prompt: they are not trained twice;
  - a turn that was released left no trace.
"""

from __future__ import annotations

import array
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from assay.core.trajectory import PolicyTurn, TrajectoryTokens, append_turn
from assay.rollout.gateway.history import Conversation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TOKEN_BYTES: Final = 4
CONVERSATION_CHARS_MAX: Final = 1 << 20
"""A longer conversation is read again with every turn."""


class Placed(StrEnum):
    """Where a turn went."""

    STARTED = "started"
    JOINED = "joined"
    FORKED = "forked"


@dataclass(slots=True, eq=False)
class Point:
    """The end of a committed turn."""

    trajectory: int
    position: int
    """Tokens of the trajectory up to here."""
    continued: bool = False
    """A turn follows it in its trajectory, or is being made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTurn:
    """A turn between `place` and `commit`."""

    how: Placed
    at: Point | None
    """What it continues; `None` for STARTED."""
    prompt: tuple[int, ...]
    """What the engine is given."""
    drifted: bool
    """The prompt was tokenized to other ids than those that were sampled; these were kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One committed turn; times are Unix time in nanoseconds."""

    how: Placed
    drifted: bool
    finish_reason: str
    tokens: int
    received_ns: int
    submitted_ns: int
    decoded_ns: int


@dataclass(slots=True, kw_only=True)
class TurnBranch:
    """Turns that continue one another without a change: one trajectory."""

    tokens: TrajectoryTokens
    turns: list[Turn] = field(default_factory=list)
    parent: Point | None = None
    """Where it was forked."""
    raw: bytes = b""
    """Its token ids, as bytes."""
    text: str | None = None
    """Its whole text, where that is known; `None` for conversations."""


@dataclass(slots=True, kw_only=True)
class TurnCounts:
    """Turns of a session."""

    started: int = 0
    joined: int = 0
    forked: int = 0
    drifted: int = 0
    released: int = 0
    """Turns without a response: the client went away, or the engine failed."""


@dataclass(slots=True)
class TurnRecord:
    """See the module."""

    branches: list[TurnBranch] = field(default_factory=list)
    counts: TurnCounts = field(default_factory=TurnCounts)
    tokens: int = 0
    """Tokens of all trajectories, the prompts of forks included."""
    conversation: Conversation = field(default_factory=Conversation)
    """The last one, for the reading of the next."""
    _points: list[Point] = field(default_factory=list)
    _by_digest: dict[bytes, list[Point]] = field(default_factory=dict)

    # -- where a prompt belongs ------------------------------------------------------------------
    def continued_exactly(self, prompt: Sequence[int]) -> Point | None:
        """The deepest point whose tokens the prompt begins with; a free one if there is one."""
        return _best(self._begins(array.array("i", prompt[:-1]).tobytes()))

    def _begins(self, raw: bytes) -> Iterator[Point]:
        """The deepest point of each trajectory whose tokens `raw` begins with."""
        common: dict[int, int] = {}
        for point in reversed(self._points):  # a trajectory's deepest come first
            index = point.trajectory
            if index not in common:
                common[index] = _common_bytes(raw, self.branches[index].raw) // TOKEN_BYTES
            if point.position <= common[index]:
                common[index] = -1
                yield point

    def keep(self, conversation: Conversation) -> None:
        """Remember it, unless it is too long."""
        small = conversation.chars + len(conversation.text) <= CONVERSATION_CHARS_MAX
        self.conversation = conversation if small else Conversation()

    def continued_by_digest(self, digests: Sequence[bytes]) -> tuple[Point, int] | None:
        """The deepest point of this conversation, and the number of messages up to there.

        The last message is never part of it: something has to follow the point.
        """
        for count in range(len(digests) - 1, 0, -1):
            point = _best(self._by_digest.get(digests[count - 1], ()))
            if point is not None:
                return point, count
        return None

    def continued_by_text(self, prompt: str) -> tuple[Point, str] | None:
        """The longest trajectory whose text the prompt begins with, and the text after it."""
        found, length = None, -1
        for point in self._points:
            branch = self.branches[point.trajectory]
            text = branch.text
            if text is None or TOKEN_BYTES * point.position != len(branch.raw):
                continue
            if length < len(text) < len(prompt) and prompt.startswith(text):
                found, length = point, len(text)
        return None if found is None else (found, prompt[length:])

    def context(self, point: Point) -> list[int]:
        """The tokens up to a point."""
        return self._raw(point).cast("i").tolist()

    def _raw(self, point: Point) -> memoryview:
        return memoryview(self.branches[point.trajectory].raw)[: TOKEN_BYTES * point.position]

    # -- a turn ----------------------------------------------------------------------------------
    def place(
        self, prompt: Sequence[int], at: Point | None = None, added: Sequence[int] | None = None
    ) -> PlacedTurn:
        """Reserve a place for a turn, until `commit` or `release`.

        Args:
            prompt: the tokens of the request's prompt.
            at: the point it continues; None: it starts a trajectory.
            added: tokens after that point, where `prompt` does not begin with its tokens.
        """
        if at is None:
            return PlacedTurn(how=Placed.STARTED, at=None, prompt=tuple(prompt), drifted=False)
        how = Placed.FORKED if at.continued else Placed.JOINED
        at.continued = True
        if added is None:
            return PlacedTurn(how=how, at=at, prompt=tuple(prompt), drifted=False)
        kept = (*self.context(at), *added)
        return PlacedTurn(how=how, at=at, prompt=kept, drifted=kept != tuple(prompt))

    def release(self, place: PlacedTurn) -> None:
        """The turn has no response."""
        self.counts.released += 1
        if place.how is Placed.JOINED and place.at is not None:
            place.at.continued = False

    def commit(
        self,
        place: PlacedTurn,
        policy: PolicyTurn,
        turn: Turn,
        *,
        digest: bytes | None = None,
        text: str | None = None,
    ) -> int:
        """Append the turn; return the index of its trajectory.

        Args:
            place: where; used once.
            policy: the response as the engine made it.
            turn: facts about it.
            digest: identifies the conversation including the reply.
            text: the trajectory's whole text, where it is known.
        """
        index, before, added = self._before(place)
        branch = self.branches[index]
        branch.tokens = append_turn(before, policy, environment=added)
        branch.turns.append(turn)
        branch.raw += array.array("i", [*added, *policy.ids]).tobytes()
        branch.text = text
        self.tokens += len(added) + len(policy.ids)
        point = Point(index, len(branch.raw) // TOKEN_BYTES)
        self._points.append(point)
        if digest is not None:
            self._by_digest.setdefault(digest, []).append(point)
        self._count(place)
        return index

    def _before(self, place: PlacedTurn) -> tuple[int, TrajectoryTokens, Sequence[int]]:
        """The turn's trajectory, its tokens until now, and the environment's new ones."""
        if place.how is Placed.JOINED and place.at is not None:
            index = place.at.trajectory
            return index, self.branches[index].tokens, place.prompt[place.at.position :]
        tokens = TrajectoryTokens.begin(array.array("i", place.prompt))
        self.branches.append(
            TurnBranch(tokens=tokens, parent=place.at, raw=tokens.prompt_ids.tobytes())
        )
        self.tokens += len(place.prompt)
        return len(self.branches) - 1, tokens, ()

    def _count(self, place: PlacedTurn) -> None:
        self.counts.drifted += place.drifted
        match place.how:
            case Placed.STARTED:
                self.counts.started += 1
            case Placed.JOINED:
                self.counts.joined += 1
            case Placed.FORKED:
                self.counts.forked += 1


def _common_bytes(one: bytes, other: bytes) -> int:
    """Length of what both begin with; a few passes over memory, whatever it is."""
    n = min(len(one), len(other))
    if one.startswith(other) or other.startswith(one):
        return n
    differing = int.from_bytes(one[:n], "little") ^ int.from_bytes(other[:n], "little")
    return ((differing & -differing).bit_length() - 1) // 8


def _best(points: Iterable[Point]) -> Point | None:
    """Deepest first, then one that nothing continues, then the newest trajectory."""
    return max(points, key=lambda p: (p.position, not p.continued, p.trajectory), default=None)
