"""Effect of one tenant on another: calls of a quiet tenant, before and under attack.

    python benchmarks/tenants.py [--attacks json_bombs_grpc ...] [--seconds 10] [--json]

The victim sends 20 `Score` calls per second (open loop, refused calls are not repeated). Each
attack runs in its own process with its own token, in idle CPU time: it stands for other
machines. Per attack: p99 under attack over p99 quiet, both p50 and p99, the victim's refused calls
and lost results, and the peak memory of the API and the processes it started (PSS).

Everything is real: services and store are processes of their own on this machine.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx
import uvloop
from platform_run import Run, local_platform, processes_below
from report import OUT, Report, bar_plot, percentile
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from assay.reward.reading import run_in_background
from assay.v1 import reward_pb2, reward_pb2_grpc

RATE = 20
CALL_S_MAX = 30.0
SETTLE_S = 2.0
MIB = 1024**2
BOMB_BYTES = 12 * 1000**2
TENANTS = ("victim", "mallory")
SEED = 1
now_s = time.perf_counter


class Attacker:
    """Target and token of an attack, and counts of its calls."""

    def __init__(self, grpc_address: str, http_address: str, token: str) -> None:
        self.grpc_address = grpc_address
        self.http_address = http_address
        self.metadata = (("authorization", f"Bearer {token}"),)
        self.headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
        }
        self.seen: Counter[str] = Counter()
        self.channels = [
            grpc.aio.insecure_channel(
                grpc_address,
                options=[
                    ("grpc.use_local_subchannel_pool", 1),
                    ("grpc.max_send_message_length", -1),
                    ("grpc.max_receive_message_length", -1),
                ],
            )
            for _ in range(4)
        ]
        self.randomness = random.Random(SEED)

    def stub(self) -> Any:  # noqa: ANN401 the stubs do not know aio calls
        return reward_pb2_grpc.RewardServiceStub(self.randomness.choice(self.channels))

    async def tried(self, call: Awaitable[Any]) -> bool:
        """Count how a call ended."""
        try:
            answer = await call
        except grpc.aio.AioRpcError as failed:
            self.seen[failed.code().name] += 1
            return False
        except (httpx.HTTPError, OSError, EOFError, RuntimeError) as failed:
            self.seen[type(failed).__name__] += 1
            return False
        self.seen[str(getattr(answer, "status_code", "ok"))] += 1
        return True

    async def again(self, width: int, act: Callable[[], Awaitable[Any]]) -> None:
        """Do `act` forever, `width` at once; a failure is followed by a short pause."""

        async def one() -> None:
            while True:
                if not await self.tried(act()):
                    await asyncio.sleep(0.02)

        await asyncio.gather(*(one() for _ in range(width)))


# -- the attacks -----------------------------------------------------------------------------------
def bombs(size: int) -> Sequence[bytes]:
    """References that cost much more to read than to send."""
    return [
        b'{"answers":[' + b"[]," * (size // 3) + b"[]]}",
        b'{"answers":[' + b"1," * (size // 2) + b"1]}",
        b'{"answers":[' + b"1" * size + b"]}",
        b"{" + b",".join(b'"%d":1' % i for i in range(size // 11)) + b"}",
        b'{"answers":["' + b"\\u00e9" * (size // 6) + b'"]}',
        b'{"x":' + b"[" * (size // 2) + b"]" * (size // 2) + b"}",
        b'{"answers":[' + b'{"a":{}},' * (size // 9) + b"{}]}",
        b'{"answers":["x' + b"\xf0\x9f\x98\x80" * (size // 4) + b'"]}',
    ]


def _bomb_message(reference: bytes) -> bytes:
    request = reward_pb2.RewardRequest(request_id="r", response=b"x", reference_json=reference)
    return reward_pb2.ScoreRequest(pipeline="exact", requests=[request]).SerializeToString()


def _raw_score(
    attacker: Attacker, body: bytes, compression: grpc.Compression | None = None
) -> Awaitable[Any]:
    call: Any = attacker.randomness.choice(attacker.channels).unary_unary(
        "/assay.v1.RewardService/Score"
    )
    sent: Awaitable[Any] = call(
        body, metadata=attacker.metadata, timeout=60, compression=compression
    )
    return sent


async def nothing(attacker: Attacker) -> None:
    """The control: how much the machine itself varies between the two measurements."""
    await asyncio.Event().wait()


async def json_bombs_grpc(attacker: Attacker) -> None:
    """References of 12 MB, and 4 million empty requests in one message."""
    messages = [*map(_bomb_message, bombs(BOMB_BYTES)), b"\x22\x00" * (BOMB_BYTES // 2)]
    await attacker.again(8, lambda: _raw_score(attacker, attacker.randomness.choice(messages)))


async def small_bombs_grpc(attacker: Attacker) -> None:
    """The same, below the size from which messages are parsed in a separate process."""
    messages = [*map(_bomb_message, bombs(60_000)), b"\x22\x00" * 30_000]
    await attacker.again(8, lambda: _raw_score(attacker, attacker.randomness.choice(messages)))


async def json_bombs_http(attacker: Attacker) -> None:
    """Bodies of 12 MB."""
    head = b'{"pipeline":"exact","requests":[{"request_id":"r","response":"x","reference":'
    many = b'{"pipeline":"exact","requests":[' + b"{}," * (BOMB_BYTES // 3) + b"{}]}"
    whole = [*(head + bomb + b"}]}" for bomb in bombs(BOMB_BYTES)), many]
    async with httpx.AsyncClient(base_url=attacker.http_address, timeout=60) as http:
        await attacker.again(
            8,
            lambda: http.post(
                "/v1/score",
                content=attacker.randomness.choice(whole),
                headers=attacker.headers,
            ),
        )


async def compressed_bombs(attacker: Attacker) -> None:
    """Messages of 1 GB that gzip compresses to 1 MB."""
    body = b"\x22\x00" * (64 * MIB)
    gzip = grpc.Compression.Gzip
    await attacker.again(1, lambda: _raw_score(attacker, body, compression=gzip))


async def big_messages(attacker: Attacker) -> None:
    """Valid `Score` calls of 12 MB."""
    requests = [
        reward_pb2.RewardRequest(request_id=f"r{i}", response=b"x" * 3_000, reference_json=b"{}")
        for i in range(4_000)
    ]
    body = reward_pb2.ScoreRequest(pipeline="noop", requests=requests).SerializeToString()
    await attacker.again(8, lambda: _raw_score(attacker, body))


async def held_streams(attacker: Attacker) -> None:
    """3,000 streams of a batch that never ends."""
    await _open_batch(attacker, "held")
    request = reward_pb2.StreamResultsRequest(batch_id="held")

    async def hold() -> None:
        stream = attacker.stub().StreamResults(request, metadata=attacker.metadata)
        async for _ in stream:
            pass

    await attacker.again(3_000, hold)


async def held_uploads(attacker: Attacker) -> None:
    """1,000 `SubmitStream` calls that send nothing."""

    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async def hold() -> None:
        await attacker.stub().SubmitStream(nothing(), metadata=attacker.metadata)

    await attacker.again(1_000, hold)


async def slow_bodies(attacker: Attacker) -> None:
    """1,500 HTTP bodies, a byte per second each."""
    where = urlsplit(attacker.http_address)

    async def drip() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            head = "".join(f"{name}: {value}\r\n" for name, value in attacker.headers.items())
            head += "host: a\r\ncontent-length: 1000000\r\n\r\n"
            writer.write(f"POST /v1/score HTTP/1.1\r\n{head}".encode())
            while not reader.at_eof():
                writer.write(b"[")
                await writer.drain()
                await asyncio.sleep(1.0)
        finally:
            writer.close()

    await attacker.again(1_500, drip)


async def strangers(attacker: Attacker) -> None:
    """1,500 connections without a token that send headers a byte at a time."""
    where = urlsplit(attacker.http_address)

    async def drip() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        try:
            writer.write(b"POST /v1/score HTTP/1.1\r\n")
            while not reader.at_eof():
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(0.5)
        finally:
            writer.close()

    await attacker.again(1_500, drip)


async def deadline_flood(attacker: Attacker) -> None:
    """Batches of 10,000 requests that are due in a millisecond."""
    await _open_batch(attacker, "first")
    count = iter(range(10**9))

    async def flood() -> None:
        batch = f"due-{next(count)}"
        await _open_batch(attacker, batch, deadline_ms=1)
        for first in range(0, 10_000, 1_000):
            requests = [
                reward_pb2.RewardRequest(
                    request_id=str(first + i), response=b"x", reference_json=b"{}"
                )
                for i in range(1_000)
            ]
            message = reward_pb2.SubmitRequest(batch_id=batch, requests=requests)
            await attacker.stub().Submit(message, metadata=attacker.metadata)

    await attacker.again(2, flood)


async def task_flood(attacker: Attacker) -> None:
    """A new task per call, and `Score` calls with settings of their own."""
    count = iter(range(10**9))

    async def register() -> None:
        task = reward_pb2.Task(task_id=f"t{next(count)}", pipeline="noop")
        request = reward_pb2.RegisterTaskRequest(task=task)
        await attacker.stub().RegisterTask(request, metadata=attacker.metadata)

    async def score() -> None:
        request = reward_pb2.ScoreRequest(
            pipeline="exact",
            settings_json=json.dumps({"reward_pass": 1.0 + next(count) / 1e6}),
            requests=[
                reward_pb2.RewardRequest(
                    request_id="r", response=b"x", reference_json=b'{"answers":["x"]}'
                )
            ],
        )
        await attacker.stub().Score(request, metadata=attacker.metadata, timeout=5)

    await asyncio.gather(attacker.again(8, register), attacker.again(8, score))


async def _open_batch(attacker: Attacker, batch_id: str, *, deadline_ms: int | None = None) -> None:
    task = reward_pb2.Task(task_id="attack", pipeline="noop")
    stub = attacker.stub()
    await stub.RegisterTask(reward_pb2.RegisterTaskRequest(task=task), metadata=attacker.metadata)
    opening = reward_pb2.OpenBatchRequest(
        task_id="attack", batch_id=batch_id, deadline_ms=deadline_ms
    )
    await stub.OpenBatch(opening, metadata=attacker.metadata)


ATTACKS: dict[str, Callable[[Attacker], Awaitable[None]]] = {
    attack.__name__: attack
    for attack in (
        nothing,
        json_bombs_grpc,
        small_bombs_grpc,
        json_bombs_http,
        compressed_bombs,
        big_messages,
        held_streams,
        held_uploads,
        slow_bodies,
        strangers,
        deadline_flood,
        task_flood,
    )
}


async def attack(name: str, seconds: float) -> None:
    """The attacking process; prints its counts at the end."""
    run_in_background(19, idle=True)
    attacker = Attacker(*(os.environ[f"TARGET_{part}"] for part in ("GRPC", "HTTP", "TOKEN")))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ATTACKS[name](attacker)
    print(json.dumps(attacker.seen), flush=True)
    os._exit(0)  # open connections end with the process


# -- the victim ------------------------------------------------------------------------------------
class Victim:
    """Calls at a steady rate, independent of their results."""

    def __init__(self, address: str, token: str) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._stub: Any = reward_pb2_grpc.RewardServiceStub(self._channel)
        self._metadata = (("authorization", f"Bearer {token}"),)

    async def call_for(self, seconds: float) -> tuple[list[float], int, int]:
        """Return latencies in seconds, refused calls and lost results."""
        latencies: list[float] = []
        refused = lost = 0

        async def call(due_s: float) -> None:
            nonlocal refused, lost
            request = reward_pb2.ScoreRequest(
                pipeline="noop",
                requests=[
                    reward_pb2.RewardRequest(
                        request_id="r", response=b"an answer", reference_json=b"{}"
                    )
                ],
            )
            try:
                answer = await self._stub.Score(
                    request, metadata=self._metadata, timeout=CALL_S_MAX
                )
            except grpc.aio.AioRpcError as failed:
                refused += failed.code() is not grpc.StatusCode.DEADLINE_EXCEEDED
                lost += failed.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            else:
                lost += [result.reward for result in answer.results] != [1.0]
            latencies.append(now_s() - due_s)

        begun_s = now_s()
        async with asyncio.TaskGroup() as calls:
            for number in range(round(seconds * RATE)):
                due_s = begun_s + number / RATE
                await asyncio.sleep(max(0.0, due_s - now_s()))
                calls.create_task(call(due_s))
        return latencies, refused, lost


def pss_bytes(pid: int) -> int:
    """Proportional set size of a process."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


class MemoryPeak:
    """Peak memory of a process and its descendants during the block."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.api_bytes = 0
        self.all_bytes = 0

    async def __aenter__(self) -> "MemoryPeak":
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _watch(self) -> None:
        while True:
            api = await asyncio.to_thread(pss_bytes, self._pid)
            below = sum(pss_bytes(pid) for pid in processes_below(self._pid))
            self.api_bytes = max(self.api_bytes, api)
            self.all_bytes = max(self.all_bytes, api + below)
            await asyncio.sleep(0.2)


async def under_attack(
    run: Run, victim: Victim, token: str, name: str, seconds: float
) -> tuple[list[float], int, int, MemoryPeak, dict[str, int]]:
    """Measure during the attack; returns the figures of the victim, memory and the attacker."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--attack", name),
        *("--seconds", str(seconds + 2 * SETTLE_S)),
        env={
            **os.environ,
            "TARGET_GRPC": run.addresses.grpc,
            "TARGET_HTTP": run.addresses.http,
            "TARGET_TOKEN": token,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # thousands of aborted calls
    )
    sign = json.loads((run.settings.data_dir / "run" / "reward.json").read_text())
    async with MemoryPeak(sign["pid"]) as memory:
        await asyncio.sleep(SETTLE_S)
        seen = await victim.call_for(seconds)
        output, _ = await process.communicate()
    return *seen, memory, json.loads(output or b"{}")


async def measure(options: argparse.Namespace) -> None:
    """One platform per attack, so that attacks do not affect each other."""
    report = Report(
        title=f"A tenant's {RATE} Score calls per second while another attacks",
        columns=(
            *("attack", "p99 ratio", "p50 quiet ms", "p50 ms", "p99 quiet ms", "p99 ms"),
            *("refused", "lost", "API MB", "with readers MB", "attacker saw"),
        ),
    )
    bars: dict[str, float | Any] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, transient=True) as progress:
        doing = progress.add_task("", total=len(options.attacks))
        for name in options.attacks:
            progress.update(doing, description=name, advance=1)
            row = await one(name, options.seconds)
            report.add(**row)
            bars[name] = row["p99 ratio"]
    report.show(as_json=options.json)
    with contextlib.suppress(ImportError):  # the plot is optional
        bar_plot(OUT / "tenants.png", report.title, "p99 under attack / p99 quiet", bars)


async def one(name: str, seconds: float) -> dict[str, Any]:
    """One attack, on a separate platform."""
    tokens = {tenant: secrets.token_hex(16) for tenant in TENANTS}
    digests = {
        tenant: {"token_sha256": hashlib.sha256(token.encode()).hexdigest()}
        for tenant, token in tokens.items()
    }
    overrides = {
        "ASSAY_WORKER__STAGES": '["noop", "match"]',
        "ASSAY_WORKER__SLOTS": "1",
        "ASSAY_PLANNER__ENABLED": "false",
        "ASSAY_REWARD__TENANTS": json.dumps(digests),
    }
    async with local_platform(overrides) as run:
        victim = Victim(run.addresses.grpc, tokens["victim"])
        await victim.call_for(2.0)
        quiet, _, _ = await victim.call_for(seconds)
        latencies, refused, lost, memory, saw = await under_attack(
            run, victim, tokens["mallory"], name, seconds
        )
    return {
        "attack": name,
        "p99 ratio": percentile(latencies, 0.99) / percentile(quiet, 0.99),
        "p50 quiet ms": percentile(quiet, 0.5) * 1e3,
        "p50 ms": percentile(latencies, 0.5) * 1e3,
        "p99 quiet ms": percentile(quiet, 0.99) * 1e3,
        "p99 ms": percentile(latencies, 0.99) * 1e3,
        "refused": refused,
        "lost": lost,
        "API MB": memory.api_bytes / 1e6,
        "with readers MB": memory.all_bytes / 1e6,
        "attacker saw": " ".join(f"{k}:{v}" for k, v in sorted(saw.items())),
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--attack", choices=ATTACKS, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    uvloop.run(attack(options.attack, options.seconds) if options.attack else measure(options))


if __name__ == "__main__":
    main()
