"""Repeats the log of a simulated run on another store: every result must be the same.

The other store has a clock of its own that cannot be set, so instants are left out of the
comparison, and minutes of a run take a moment. Deadlines are moved so that batches keep their
order; leases are made long. A log in which time itself decides (leases that expired, claims
that were cancelled in a worker's hands) cannot be compared; `is_fit` reports that.
"""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from assay.core.errors import AssayError
from assay.core.records import Claim, Lease, Report
from assay.sim.platform.nodes import EPOCH_NS
from assay.sim.platform.store import Command
from assay.store.port import Store

COMPARED: Final = frozenset(
    {
        *("put_task", "get_task", "open_batch", "submit", "seal", "get_batch", "results"),
        *("claim", "beat", "finish", "reap", "prioritize", "depths", "mark_at_risk", "history"),
    }
)
"""Commands that are repeated; the others do not change their state."""
LEASE_S: Final = 3_000.0
GAP_NS_MIN: Final = 300 * 10**6
"""Gap between two deadlines, so that no delay of the replay changes their order."""


class Difference(NamedTuple):
    """A result that differs."""

    at: int
    command: Command
    answer: object


def is_fit(log: Sequence[Command]) -> bool:
    """Whether nothing in the log depends on the speed of time."""
    deadlines: list[int] = []
    for command in log:
        if command.name == "cancel":
            return False
        if command.name == "reap" and (command.answer.redelivered or command.answer.dead):
            return False
        if command.name == "open_batch" and not isinstance(command.answer, AssayError):
            record, created = command.answer
            deadlines += [record.deadline_ns] if created else []
        if command.name == "prioritize" and command.args[2]:
            deadlines.append(command.args[2])
    deadlines.sort()
    gaps = (b - a for a, b in pairwise(deadlines) if a != b)
    return min(gaps, default=GAP_NS_MIN) >= GAP_NS_MIN


async def carry_out_again(
    log: Sequence[Command], store: Store, now_ns: Callable[[], int]
) -> Difference | None:
    """The first result that differs; `now_ns` is the time of the store's machine."""
    begun_ns = now_ns()
    leases: dict[Lease, Lease] = {}
    for at, command in enumerate(log):
        if command.name not in COMPARED:
            continue
        args, options = _moved(command, begun_ns, now_ns(), leases)
        try:
            answer = await getattr(store, command.name)(*args, **options)
        except AssayError as error:
            answer = error
        if command.name == "claim" and not isinstance(answer, AssayError):
            _learn(leases, command.answer, answer)
        expected = command.answer
        if command.name == "beat":
            expected = [leases.get(lease, lease) for lease in expected]
        if timeless(answer) != timeless(expected):
            return Difference(at, command, answer)
    return None


def _learn(leases: dict[Lease, Lease], before: Sequence[Claim], now: Sequence[Claim]) -> None:
    for one, other in zip(before, now, strict=False):
        leases[one.lease] = other.lease


def _moved(
    command: Command, begun_ns: int, now_ns: int, leases: dict[Lease, Lease]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The command's arguments, with the other store's instants and leases."""
    args, options = list(command.args), dict(command.options)
    match command.name:
        case "open_batch":
            after_ns = args[0].deadline_after_ms * 1_000_000
            due_ns = command.now_ns - EPOCH_NS + after_ns + begun_ns
            left_ms = max(1, (due_ns - now_ns) // 1_000_000)
            args[0] = dataclasses.replace(args[0], deadline_after_ms=left_ms)
        case "prioritize":
            args[2] = args[2] and args[2] - EPOCH_NS + begun_ns
        case "claim":
            options["lease_s"] = LEASE_S
        case "beat":
            options["lease_s"] = LEASE_S
            options["leases"] = [leases.get(one, one) for one in options["leases"]]
        case "finish":
            args[1] = [_report(report, leases) for report in args[1]]
    return tuple(args), options


def _report(report: Report, leases: dict[Lease, Lease]) -> Report:
    return dataclasses.replace(report, lease=leases.get(report.lease, report.lease))


def timeless(value: object) -> object:
    """Remove instants, fences, and what is counted from them."""
    if isinstance(value, AssayError):
        return type(value).__name__, value.field
    if isinstance(value, list | tuple):
        return [timeless(one) for one in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    own = {"oldest_age_s", "slack_ms", "fence", "arrived_after_ns"}
    names = [field.name for field in dataclasses.fields(value)]
    kept = [name for name in names if name not in own and not name.endswith("_at_ns")]
    kept = [name for name in kept if not name.endswith("_ns") or name == "service_ns"]
    return type(value).__name__, {name: timeless(getattr(value, name)) for name in kept}
