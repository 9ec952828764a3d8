"""What strangers can do to the gRPC ports that are not the API's: frames and headers in bytes.

    python -m benchmarks.tenants.ports [--ports worker planner workers keda] [--attacks NAME ...]
                                       [--seconds 4] [--json]

Of a whole platform on this machine (KEDA's port runs alone, since it needs a cluster), each attack
of `benchmarks.tenants.interference` that shows no token is made at each port by another process,
while this one, with a token of the port and a connection from before, asks it twenty times per
second for what it serves (new connections from the address of an attacker wait). Shown are p50 and
p99 of these calls without and under attack, those that failed or took longer than two seconds, and
by how much the service's memory (RSS) grew at most.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from assay.core.ids import StageName, WorkerId
from assay.edge.clock import Clock
from assay.edge.metrics import Metrics
from assay.edge.work.tokens import WorkerKeys, WorkerPass
from assay.planner.build import keda_guard
from assay.planner.kubernetes.keda import KedaServer
from assay.v1 import externalscaler_pb2, externalscaler_pb2_grpc, worker_pb2
from benchmarks.harness.platform_run import Run, local_platform
from benchmarks.harness.report import Report, percentile
from benchmarks.tenants.attacker import Attacker
from benchmarks.tenants.transport_attacks import TRANSPORT_ATTACKS

TOKEN = "operator"
KEYS = "k" * 64
STAGE = "noop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port, and a call of it that a caller may make."""

    service: str
    """Whose file of addresses has it; empty: it is served for this alone."""
    name: str
    """In that file."""
    path: str
    message: bytes = b""
    token: str = TOKEN


def worker_token() -> str:
    """Of a worker that has enrolled."""
    stages = (StageName(STAGE),)
    one = WorkerPass(stages=stages, expires_ns=2**62, name="bench", worker=WorkerId("bench"))
    return WorkerKeys([KEYS.encode()]).mint(one)


PORTS = {
    "worker": Port(service="worker", name="control", path="/assay.v1.PoolService/ListPools"),
    "planner": Port(service="planner", name="grpc", path="/assay.v1.PlannerService/GetPlan"),
    "workers": Port(
        service="reward",
        name="workers",
        path="/assay.v1.WorkService/Heartbeat",
        message=worker_pb2.HeartbeatRequest(stage=STAGE, lease_s=1.0).SerializeToString(),
        token=worker_token(),
    ),
    "keda": Port(service="", name="", path="/externalscaler.ExternalScaler/IsActive"),
}
NAMES = (
    "stranger_resets",
    "h2_small_headers",
    "h2_endless_fields",
    "h2_ping",
    "h2_settings",
    "h2_held_headers",
    "h2_empty_frames",
)
BY_NAME = {one.__name__: one for one in TRANSPORT_ATTACKS}
RATE = 20
CALL_S_MAX = 2.0
MIB = 1024**2


def attack(name: str, address: str, seconds: float) -> None:
    """The attacking process."""
    os.nice(10)

    async def run() -> None:
        attacker = Attacker(address, "http://127.0.0.1:1", "none")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await BY_NAME[name](attacker)
        print(json.dumps(attacker.seen), flush=True)
        os._exit(0)  # open connections end with the process

    asyncio.run(run())


async def ask_for(channel: grpc.aio.Channel, port: Port, seconds: float) -> tuple[list[float], int]:
    """Latencies in milliseconds, and failed calls."""
    latencies: list[float] = []
    failed = 0
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(port.path)
    metadata = (("authorization", f"Bearer {port.token}"),)

    async def one() -> None:
        nonlocal failed
        began_s = time.perf_counter()
        try:
            await call(port.message, metadata=metadata, timeout=CALL_S_MAX)
        except grpc.aio.AioRpcError:
            failed += 1
        else:
            latencies.append(1_000 * (time.perf_counter() - began_s))

    calls = []
    for _ in range(int(RATE * seconds)):
        calls.append(asyncio.create_task(one()))
        await asyncio.sleep(1 / RATE)
    await asyncio.gather(*calls)
    return latencies or [1_000 * CALL_S_MAX], failed


def rss_bytes(pid: int) -> int:
    """Memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def watched_rss(pid: int) -> Iterator[list[int]]:
    """Its growth, sampled while the block runs."""
    before, seen = rss_bytes(pid), [0]

    async def look() -> None:
        while True:
            seen.append(rss_bytes(pid) - before)
            await asyncio.sleep(0.1)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()


async def serve_keda() -> None:
    """The process of KEDA's port: the planner's own, which wants a pod of every stage."""

    class Active(externalscaler_pb2_grpc.ExternalScalerServicer):
        async def IsActive(  # noqa: N802 - the proto's name
            self, request: object, context: object
        ) -> externalscaler_pb2.IsActiveResponse:
            del request, context
            return externalscaler_pb2.IsActiveResponse(result=True)

    server = KedaServer(
        Active(),  # type: ignore[abstract]  # the other calls are not made
        guard=keda_guard(Clock(), Metrics()),
        time_s=time.monotonic,
        host="127.0.0.1",
        port=0,
    )
    print(json.dumps({"address": await server.start(), "pid": os.getpid()}), flush=True)
    await asyncio.Event().wait()


@asynccontextmanager
async def listening(run: Run, port: Port) -> AsyncIterator[tuple[str, int]]:
    """The port's address, and the process that listens there."""
    if port.service:
        file = run.settings.data_dir / "run" / f"{port.service}.json"
        told = json.loads(file.read_text())
        yield told[port.name], int(told["pid"])
        return
    serve = ("-m", "benchmarks.tenants.ports", "--serve-keda")
    process = await asyncio.create_subprocess_exec(sys.executable, *serve, stdout=-1)
    try:
        assert process.stdout is not None
        told = json.loads(await process.stdout.readline())
        yield told["address"], told["pid"]
    finally:
        process.kill()
        await process.wait()


async def one_port(run: Run, name: str, names: list[str], seconds: float, table: Report) -> None:
    """All attacks at one port."""
    async with listening(run, PORTS[name]) as (address, pid):
        channel = grpc.aio.insecure_channel(address)
        quiet, _ = await ask_for(channel, PORTS[name], seconds)
        for one in names:
            command = ["-m", "benchmarks.tenants.ports", "--attack", one, "--at", address]
            with watched_rss(pid) as grown:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, *command, "--seconds", str(seconds + 3), stdout=-1
                )
                await asyncio.sleep(2)
                found, failed = await ask_for(channel, PORTS[name], seconds)
                told_by, _ = await process.communicate()
            table.add(
                port=name,
                attack=one,
                p50_ms=f"{percentile(quiet, 0.5):.1f} -> {percentile(found, 0.5):.1f}",
                p99_ms=f"{percentile(quiet, 0.99):.1f} -> {percentile(found, 0.99):.0f}",
                failed=f"{failed} of {len(found) + failed}",
                grown_mib=max(grown) // MIB,
                attacker=told_by.decode().strip(),
            )


async def measure(args: argparse.Namespace) -> None:
    """Start a platform, and attack it."""
    columns = ("port", "attack", "p50_ms", "p99_ms", "failed", "grown_mib", "attacker")
    table = Report(title="Strangers at other ports", columns=columns)
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write(KEYS)
        keys.flush()
        await measure_with(keys.name, args, table)
    table.show(as_json=args.json)


async def measure_with(key_file: str, args: argparse.Namespace, table: Report) -> None:
    """The same, with the keys of workers in a file."""
    overrides = {
        "ASSAY_OPERATOR__TOKEN": TOKEN,
        "ASSAY_WORKER__STAGES": f'["{STAGE}"]',
        "ASSAY_REWARD__WORKER_KEY_FILE": key_file,
        "ASSAY_REWARD__WORKER_PORT": "0",
    }
    async with local_platform(overrides) as run:
        for port in args.ports:
            await one_port(run, port, args.attacks, args.seconds, table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ports", nargs="+", choices=PORTS, default=list(PORTS))
    parser.add_argument("--attacks", nargs="+", choices=BY_NAME, default=list(NAMES))
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    parser.add_argument("--at", help=argparse.SUPPRESS)
    parser.add_argument("--serve-keda", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.attack:
        attack(args.attack, args.at, args.seconds)
        return
    if args.serve_keda:
        asyncio.run(serve_keda())
        return
    asyncio.run(measure(args))


if __name__ == "__main__":
    main()
