"""Hostile workers at the port of workers: whatever they send gets a typed answer and moves nothing
that is not theirs; however many wait, the others work."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from tests.store.driver import FIRST, SECOND, Driver, requests
from tests.store.remote import WorkPort, token_for

from assay.core.errors import Saturated
from assay.core.ids import WorkerId
from assay.core.outcome import Outcome
from assay.core.records import EndRequest, FinishStatus, Report, StageReport
from assay.edge.work.tokens import WorkerPass
from assay.store.port import Store
from assay.v1 import worker_pb2

LONG_S = 600.0
NAME = WorkerId("honest")
ROUNDS = 250
TYPED = {
    grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION,
}  # fmt: skip
SERVICE = worker_pb2.DESCRIPTOR.services_by_name["WorkService"]


class Fuzzer:
    """Draws messages of any kind, with what it has seen among what it tries."""

    def __init__(self, seed: int, seen: list[str]) -> None:
        self.draw = random.Random(seed)
        self.seen = seen
        self.fences: list[int] = []

    def text(self) -> str:
        drawn = (
            "", "a", str(FIRST), str(SECOND), "judge", "x" * 300, "x" * 70_000, "..", "\0",
            "é\u202e", "a~b~c~d", "127.0.0.1:1", "unix:/x", "w:1:ab~0", "*", "{}",
        )  # fmt: skip
        return self.draw.choice([*drawn, *self.seen])

    def value(self, field: FieldDescriptor) -> Any:
        kinds, draw = FieldDescriptor, self.draw
        match field.cpp_type:
            case kinds.CPPTYPE_INT32:
                return draw.choice([0, 1, -1, 7, 2**31 - 1, -(2**31)])
            case kinds.CPPTYPE_INT64:
                return draw.choice([0, 1, -1, 2**63 - 1, -(2**63), *self.fences])
            case kinds.CPPTYPE_UINT32 | kinds.CPPTYPE_UINT64:
                return draw.choice([0, 1, 7, 2**32 - 1])
            case kinds.CPPTYPE_DOUBLE | kinds.CPPTYPE_FLOAT:
                return draw.choice([0.0, 1.0, -1.0, 1e-9, 1e308, float("nan"), float("inf")])
            case kinds.CPPTYPE_BOOL:
                return draw.random() < 0.5
            case kinds.CPPTYPE_ENUM:
                return draw.choice([0, 1, 2, 3, 4, 5, 6, 99])
            case kinds.CPPTYPE_STRING if field.type == kinds.TYPE_BYTES:
                return draw.choice([b"", b"\xc1", b"x" * 1_000, b"{}"])
        if field.name in ("stage", "stages") and draw.random() < 0.6:
            return str(FIRST)  # a stage of its token, or few calls would get as far as the store
        return self.text()

    def fill(self, message: Any, depth: int = 0) -> Any:
        for field in message.DESCRIPTOR.fields:
            if self.draw.random() < 0.25:
                continue
            target = getattr(message, field.name)
            if field.message_type and field.message_type.GetOptions().map_entry:
                self.entry(target, field.message_type.fields_by_name, depth)
            elif field.message_type and field.is_repeated:
                for _ in range(self.draw.choice([0, 1, 2, 5]) if depth < 3 else 0):
                    self.fill(target.add(), depth + 1)
            elif field.message_type:
                if depth < 4 and (not field.containing_oneof or self.draw.random() < 0.5):
                    self.fill(target, depth + 1)
            elif field.is_repeated:
                target.extend(self.value(field) for _ in range(self.draw.choice([0, 1, 2, 40])))
            else:
                setattr(message, field.name, self.value(field))
        if "wait_ms" in message.DESCRIPTOR.fields_by_name and message.wait_ms > 50:
            message.wait_ms = 50  # or one draw would wait for the longest time
        if "seconds" in message.DESCRIPTOR.fields_by_name:
            message.seconds = min(message.seconds, 0.05)
        return message

    def entry(self, target: Any, named: Any, depth: int) -> None:
        key = self.value(named["key"])
        if named["value"].message_type:
            self.fill(target[key], depth + 1)
        else:
            target[key] = self.value(named["value"])

    def content(self, kind: Any) -> bytes:
        """A message, or bytes that are not a message."""
        whole = bytes(self.fill(kind()).SerializeToString())
        how = self.draw.random()
        if how < 0.1:
            return whole[: self.draw.randrange(len(whole) + 1)]
        if how < 0.2:
            return self.draw.randbytes(self.draw.choice([1, 40, 2_000]))
        return whole + (b"\xfa\xff\x03\x01x" if how < 0.3 else b"")  # a field that no one has


@pytest.fixture
async def port(store: Store, tmp_path: Path) -> AsyncIterator[WorkPort]:
    one = WorkPort(store, tmp_path)
    await one.start()
    yield one
    await one.listener.stop()


@pytest.mark.parametrize("seed", [1, 2])
async def test_any_message_gets_a_typed_answer_and_moves_nothing_of_others(
    store: Store, port: WorkPort, seed: int
) -> None:
    drive = Driver(store)
    await drive.open()
    await drive.submit(requests("mine", "a", "b", "c"))
    honest, hostile = port.worker(FIRST, name="honest"), port.worker(FIRST, name="hostile")
    (mine,) = await honest.claim(FIRST, claims_max=1, lease_s=LONG_S, worker=NAME)
    theirs = await hostile.claim(FIRST, claims_max=1, lease_s=LONG_S, worker=NAME)
    seen = [mine.lease.job_id, mine.lease.job_id.split("~")[0], theirs[0].lease.job_id]
    seen += [honest.session, hostile.session]
    fuzzer, codes = Fuzzer(seed, seen[:3]), Counter[grpc.StatusCode]()
    fuzzer.fences += [mine.lease.fence] * 8
    await (caller := port.worker("judge", name="caller")).ping()
    tokens = [
        *[hostile.session] * 6,
        *[caller.session] * 2,
        token_for(FIRST),
        "",
        "x",
        seen[-2][:-2],
    ]
    options = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(port.address, options=options) as channel:
        for _ in range(ROUNDS):
            name = fuzzer.draw.choice([one.name for one in SERVICE.methods])
            request = SERVICE.methods_by_name[name].input_type
            kind = getattr(worker_pb2, request.name)
            call: Any = channel.unary_unary(f"/assay.v1.WorkService/{name}")
            metadata = (("authorization", f"Bearer {fuzzer.draw.choice(tokens)}"),)
            calling = call(fuzzer.content(kind), metadata=metadata, timeout=60)
            code, trailers = await calling.code(), dict(await calling.trailing_metadata() or ())
            codes[code] += 1
            assert code in TYPED, (name, code, await calling.details())
            assert code is grpc.StatusCode.OK or trailers.get("reason"), (name, code)
    assert len(codes) >= 3, "it reached more than one check"
    assert codes[grpc.StatusCode.OK] > ROUNDS // 20
    depth = await drive.depth()
    ended = {one.request_id for one in await drive.results()}
    dead = depth.dead_letters
    assert "mine" not in ended
    batch = await drive.batch()
    assert batch.queued + batch.running + batch.ended == 4, dead
    times = StageReport(worker=NAME, started_after_ns=1, finished_after_ns=2)
    end = EndRequest(outcome=Outcome.SCORED, reward=1.0, body=b"")
    finished = await honest.finish(FIRST, [Report(lease=mine.lease, report=times, finish=end)], 3)
    assert finished.statuses == (FinishStatus.DONE,), "its lease is as it was"
    for one in (honest, hostile, caller):
        await one.close()


async def test_a_thousand_waiting_workers_of_one_token_leave_room_for_the_others(
    store: Store, tmp_path: Path
) -> None:
    port = WorkPort(store, tmp_path, waits_max=300)
    await port.start()

    def hostile(number: int) -> WorkerPass:
        worker = WorkerId(f"hostile-{number}")
        return WorkerPass(stages=(FIRST,), expires_ns=2**62, name="taken-over", worker=worker)

    waits = [
        asyncio.create_task(
            port.gateway.claim(hostile(number), [FIRST], claims_max=0, lease_s=1.0, wait_ms=30_000)
        )
        for number in range(1_000)
    ]
    refused: list[asyncio.Task[Any]] = []
    async with asyncio.timeout(60):
        while len(refused) < 800:
            await asyncio.sleep(0.01)
            refused = [task for task in waits if task.done() and task.exception()]
    assert len(refused) == 800, "two thirds of 300 wait"
    for task in refused:
        error = task.exception()
        assert isinstance(error, Saturated)
        assert error.retry_after_s
    drive = Driver(store)
    honest = port.worker(FIRST, token=token_for(FIRST, name="honest"))
    waiting = asyncio.create_task(honest.wait_for_work([FIRST], timeout_s=30.0))
    await drive.open()
    await drive.submit(requests(*(f"r{number}" for number in range(4))))
    claims = await honest.claim(FIRST, claims_max=9, lease_s=LONG_S, worker=NAME)
    assert not await honest.beat(FIRST, lease_s=LONG_S, leases=[one.lease for one in claims])
    for task in [*waits, waiting]:
        task.cancel()
    await asyncio.gather(*waits, waiting, return_exceptions=True)
    again = await port.gateway.claim(hostile(0), [FIRST], claims_max=0, lease_s=1.0, wait_ms=1)
    assert not again.claims, "those that have ended wait no more"
    await honest.close()
    await port.listener.stop()
