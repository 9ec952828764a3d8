"""What is said of every trajectory beside its tokens, as one record of fixed size on the wire.

A group of short responses costs what its trajectories cost, so that these are packed and unpacked
by one call per group and not field by field. `Group.records` in rollout.proto has the layout.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from assay.core.errors import InvalidRequest

_LAYOUT: Final = struct.Struct("<iiiBB?xdQqqqqqq")
RECORD_BYTES: Final = _LAYOUT.size


class TrajectoryRecord(NamedTuple):
    """One trajectory; numbers as in rollout.proto."""

    member: int
    tokens: int
    attempts: int
    finish_reason: int
    outcome: int
    rewarded: bool
    """Whether `reward` is one."""
    reward: float
    """0 where there is none."""
    seed: int
    policy_version: int
    """Of all its tokens, or 0: it has several, and an entry in `Group.trajectories`."""
    submitted_ns: int
    decoded_ns: int
    ended_ns: int
    reward_asked_ns: int
    reward_stored_ns: int


def packed_records(records: Iterable[TrajectoryRecord]) -> bytes:
    """The records, one after the other."""
    return b"".join([_LAYOUT.pack(*record) for record in records])


def records_in(data: bytes) -> Iterator[TrajectoryRecord]:
    """The records of `packed_records`.

    Raises:
        InvalidRequest: not a whole number of records.
    """
    if len(data) % RECORD_BYTES:
        raise InvalidRequest(f"records: {RECORD_BYTES} bytes each", field="records")
    return map(TrajectoryRecord._make, _LAYOUT.iter_unpack(data))
