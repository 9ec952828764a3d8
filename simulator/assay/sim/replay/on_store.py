"""Repeats the log of a simulated run on another store and on the model: both must stay the same.

The other store has a clock of its own that cannot be set, and minutes of a run take a moment. So
the model (`Twin`) runs again beside it, by that clock: deadlines are moved so that batches keep
their order, leases are long, and a lease that expired in the run is renewed for a moment only and
then taken back. After every command the results are compared, without instants; the whole states
are compared at the checkpoints and at the end (`store_state`). A log whose deadlines are so close
that the delays of the replay could swap them cannot be compared; `is_fit` reports that.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from assay.core.errors import AssayError
from assay.core.ids import BatchId, GroupId, RequestId, StageName, TenantId
from assay.core.records import Claim, Lease, Report
from assay.sim.platform.nodes import EPOCH_NS
from assay.sim.platform.store import LIMITS, SimulatedCall, run
from assay.sim.replay.store_state import difference
from assay.store.port import Store
from assay.testing.memory_store import MemoryStore
from assay.testing.queue_model import QueueModel

NOT_REPEATED: Final = frozenset(
    {
        *("artifact_begin", "artifact_put", "artifact_get", "artifact_abandon", "check", "ping"),
        *("natural_spans_ns", "permit"),
    }
)
"""Artifacts and permits are no part of the queue; spans are measured by the clock."""
LEASE_S: Final = 3_000.0
OVER_S: Final = 0.002
"""Lease of a request whose lease expired in the run, times its place among those."""
GAP_NS_MIN: Final = 300 * 10**6
"""Gap between two deadlines, so that no delay of the replay changes their order."""
SECOND_NS: Final = 10**9
NEAR_NS: Final = 30 * 10**6
"""A cancelled request is charged its full seconds: not this close to one."""
END: Final = "end"
"""The node of the commands after a run, by which everything expires."""

Key = tuple[TenantId, BatchId, RequestId, GroupId]
"""Of a request, or with an empty request id of a whole group."""


class Difference(NamedTuple):
    """A result that differs."""

    at: int
    command: SimulatedCall
    answer: object
    expected: object


def is_fit(log: Sequence[SimulatedCall]) -> bool:
    """Whether no two deadlines are so close that the replay could swap them."""
    deadlines: list[int] = []
    for command in log:
        is_done = not isinstance(command.answer, AssayError)
        if command.name == "open_batch" and is_done:
            record, created = command.answer
            deadlines += [record.deadline_ns] if created else []
        if command.name == "open_filled" and is_done:
            deadlines.append(command.args[0].deadline_of(command.now_ns))
        if command.name == "prioritize" and command.args[2]:
            deadlines.append(command.args[2])
    deadlines.sort()
    gaps = (b - a for a, b in pairwise(deadlines) if a != b)
    return min(gaps, default=GAP_NS_MIN) >= GAP_NS_MIN


class FixedClock:
    """Shows what it was set to."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        """Unix time in nanoseconds."""
        return self.ns


class Model:
    """A store in memory by a given time."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self._memory = MemoryStore(self.clock, LIMITS)

    @property
    def queue(self) -> QueueModel:
        """The model's state, to be compared with the store's."""
        return self._memory.model

    def carry_out(self, name: str, args: Sequence[Any], options: dict[str, Any], at_ns: int) -> Any:  # noqa: ANN401 - any command
        """Its answer, which may be an error."""
        self.clock.ns = at_ns
        return run(self._memory, name, tuple(args), options)

    def leased(self, stage: StageName) -> dict[Key, Lease]:
        """The leases of a stage by request."""
        jobs = self.queue.stages.leases[stage].values()
        return {
            (*job.batch.key, job.request.request_id, job.request.group_id): Lease(
                job_id=job.job_id, fence=job.fence
            )
            for job in sorted(jobs, key=lambda job: (job.expires_ns, job.job_id))
        }


class Replay:
    """One replay of a log on a store, beside the model by the store's clock."""

    def __init__(
        self,
        store: Store,
        now_ns: Callable[[], Awaitable[int]],
        read_state: Callable[[], Awaitable[dict[str, Any]]],
    ) -> None:
        """`now_ns` and `read_state` ask the store's server for its time and all of its keys."""
        self._store = store
        self._now_ns = now_ns
        self._read_state = read_state
        self._past = Model()
        """By the log's clock: knows which leases expired."""
        self._twin = Model()
        self._begun_ns = 0
        self._of: dict[Lease, Key] = {}
        """The requests of the log's leases."""
        self._leases: dict[Key, Lease] = {}
        """Their newest leases in the store, and in the model beside it: fences follow the clock."""
        self._twins: dict[Key, Lease] = {}

    async def differences(
        self, log: Sequence[SimulatedCall], *, checkpoint_every: int
    ) -> AsyncIterator[Difference]:
        """The results, and at checkpoints the states, that differ."""
        self._begun_ns = await self._now_ns()
        for at, command in enumerate(one for one in log if one.node != END):
            if command.name in NOT_REPEATED:
                continue
            if command.name == "reap":
                await self._let_expire(command)
            if command.name in {"cancel", "cancel_requests"}:
                await self._avoid_full_seconds()
            now_ns = await self._now_ns()
            args, options = self._moved(command, now_ns)
            answer = await self._answer(command.name, *self._leased(args, options, self._leases))
            args, options = self._leased(args, options, self._twins)
            expected = self._twin.carry_out(command.name, args, options, now_ns)
            self._past.carry_out(command.name, command.args, command.options, command.now_ns)
            if command.name == "claim":
                self._learn(command, answer, expected)
            if timeless(answer) != timeless(expected):
                yield Difference(at, command, answer, expected)
            if at % checkpoint_every == 0:
                async for one in self._states(at, command):
                    yield one
        async for one in self._states(len(log), log[-1]):
            yield one

    async def _states(self, at: int, command: SimulatedCall) -> AsyncIterator[Difference]:
        state = await self._read_state()
        for key, here, there in difference(self._twin.queue, state):
            yield Difference(at, command, {key: there}, {key: here})

    async def _answer(self, name: str, args: list[Any], options: dict[str, Any]) -> object:
        try:
            answer: object = await getattr(self._store, name)(*args, **options)
        except AssayError as error:
            return error
        return answer

    async def _let_expire(self, command: SimulatedCall) -> None:
        """What has expired in the log when this reap takes it back, expires here too."""
        stage: StageName = command.args[0]
        past = self._past.queue.stages.leases[stage].values()
        over = {job.job_id for job in past if job.expires_ns <= command.now_ns}
        keys = [key for key, one in self._past.leased(stage).items() if one.job_id in over]
        keys = [key for key in keys if key in self._twin.leased(stage)]
        for place, key in enumerate(keys, 1):
            lease_s, now_ns = place * OVER_S, await self._now_ns()
            await self._store.beat(stage, lease_s=lease_s, leases=[self._leases[key]])
            options = {"lease_s": lease_s, "leases": [self._twins[key]]}
            self._twin.carry_out("beat", [stage], options, now_ns)
        if keys:
            await asyncio.sleep((len(keys) + 2) * OVER_S)

    async def _avoid_full_seconds(self) -> None:
        """Wait while a request has been held for about a full number of seconds."""
        while any(map(_is_near_full_second, await self._held_ns())):  # noqa: ASYNC110 - time itself
            await asyncio.sleep(NEAR_NS / 1e9)

    async def _held_ns(self) -> list[int]:
        now_ns = await self._now_ns()
        leases = self._twin.queue.stages.leases.values()
        return [now_ns - job.claimed_ns for jobs in leases for job in jobs.values()]

    def _learn(self, command: SimulatedCall, answer: object, expected: object) -> None:
        """Which requests the leases are of: the log's, the store's, the model's."""
        if not isinstance(command.answer, AssayError):
            self._of.update((one.lease, _key(one)) for one in command.answer)
        if isinstance(answer, list) and isinstance(expected, list):
            self._leases.update((_key(one), one.lease) for one in answer)
            self._twins.update((_key(one), one.lease) for one in expected)

    def _moved(self, command: SimulatedCall, now_ns: int) -> tuple[list[Any], dict[str, Any]]:
        """The command's arguments, with the other store's instants."""
        args, options = list(command.args), dict(command.options)
        match command.name:
            case "open_batch" | "open_filled":
                due_ns = args[0].deadline_of(command.now_ns) - EPOCH_NS + self._begun_ns
                left_ms = max(1, (due_ns - now_ns) // 1_000_000)
                args[0] = dataclasses.replace(args[0], deadline_after_ms=left_ms, deadline_ns=0)
            case "prioritize":
                args[2] = args[2] and args[2] - EPOCH_NS + self._begun_ns
            case "claim" | "beat" | "put_host":
                options["lease_s"] = LEASE_S
        return args, options

    def _leased(
        self, args: list[Any], options: dict[str, Any], leases: dict[Key, Lease]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The same arguments with these leases; one of a request that is not known stays."""

        def now(lease: Lease) -> Lease:
            known = self._of.get(lease)
            return lease if known is None else leases.get(known, lease)

        if "leases" in options:
            options = {**options, "leases": [now(one) for one in options["leases"]]}
        if (
            len(args) > 1
            and isinstance(args[1], list)
            and any(isinstance(r, Report) for r in args[1])
        ):
            reports = [dataclasses.replace(one, lease=now(one.lease)) for one in args[1]]
            args = [args[0], reports, *args[2:]]
        return args, options


def _is_near_full_second(held_ns: int) -> bool:
    over_ns = held_ns % SECOND_NS
    return held_ns > SECOND_NS // 2 and min(over_ns, SECOND_NS - over_ns) < NEAR_NS


def _key(claim: Claim) -> Key:
    return claim.task.tenant, claim.batch_id, claim.request_id, claim.group_id


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
