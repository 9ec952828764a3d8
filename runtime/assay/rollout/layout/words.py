"""Numbers that C and Python share: states, outcomes, kinds, credits, events and limits."""

from __future__ import annotations

from enum import IntEnum, IntFlag

STOP_IDS_MAX = 8
STOP_STRINGS_MAX = 4
STOP_BYTES_MAX = 48
LINE_BYTES = 64
NONE = 0xFFFFFFFF
MASK64 = (1 << 64) - 1


class State(IntEnum):
    """State of a rollout; see `TRANSITIONS`."""

    FREE = 0
    PREFILL_READY = 1
    DECODING = 2
    REWARD_PENDING = 3
    TRAJECTORY_READY = 4
    DONE = 5


TRANSITIONS: dict[State, frozenset[State]] = {
    State.FREE: frozenset({State.PREFILL_READY}),
    State.PREFILL_READY: frozenset({State.DECODING, State.DONE}),
    State.DECODING: frozenset({State.REWARD_PENDING, State.DONE}),
    State.REWARD_PENDING: frozenset({State.TRAJECTORY_READY, State.DONE}),
    State.TRAJECTORY_READY: frozenset({State.DONE}),
    State.DONE: frozenset({State.FREE}),
}
"""Current state to the states that may follow."""


class RolloutOutcome(IntEnum):
    """How a rollout ended; set once, when it is DONE."""

    NONE = 0
    COMPLETED = 1
    CANCELLED = 2
    CRASHED = 3
    NOT_FINITE = 4


class Stop(IntEnum):
    """Why decoding ended."""

    NONE = 0
    LENGTH = 1
    ID = 2
    STRING = 3


class Kind(IntEnum):
    """What a descriptor requests."""

    FREE = 1
    PREFILL = 2
    DECODE = 3
    REWARD = 4
    TRAJECTORY = 5
    DONE = 6
    CANCEL = 7


class Flag(IntFlag):
    """Flags of a rollout."""

    NO_REWARD = 1


class Hold(IntFlag):
    """Credits that a rollout holds."""

    DECODE = 1
    REWARD = 2
    TRAJECTORY = 4


class Credit(IntEnum):
    """Kinds of credit; the order of the credit lines in memory."""

    DECODE = 0
    REWARD = 1
    TRAJECTORY = 2
    KV = 3


class Status(IntEnum):
    """Status codes of the C functions."""

    OK = 0
    EMPTY = 1
    SATURATED = 2
    STALE = 3
    INVALID = 4
    MISMATCH = 5
    CLOSED = 6
    STALLED = 7


class AdmissionPolicy(IntEnum):
    """Which rollout is admitted, and stepped, first."""

    FIFO = 0
    SHORTEST_REMAINING = 1
    PREFIX_SHARING = 2


class PauseMode(IntEnum):
    """How a pause leaves running rollouts."""

    IN_PLACE = 0
    """Held between two steps; keys and values are kept."""
    FINISH = 1
    """Nothing is admitted; held when all running rollouts have ended."""
    RETRACT = 2
    """Held; running rollouts release their keys and values, which are computed again when they are
    admitted again, before all others. Generated tokens are kept."""


class Event(IntEnum):
    """Instants the trace ring records."""

    POSTED = 1
    CONSUMED = 2
    PREFILL_BEGIN = 3
    PREFILL_END = 4
    STEP_BEGIN = 5
    STEP_END = 6
    DECODE_DONE = 7
    REWARD_POSTED = 8
    SCORED = 9
    TRAJECTORY_TAKEN = 10
    TRAJECTORY_DONE = 11
    COMPLETION_VISIBLE = 12
    OBSERVED = 13
