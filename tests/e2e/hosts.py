"""The platform as separate processes, each of which is killed in the middle of real requests.

    python -m tests.e2e.hosts --seed 7                    5,000 requests
    python -m tests.e2e.hosts --seed 7 --requests 300     a short version
    python -m tests.e2e.hosts --previous TREE             half of the parts are of another release

`TREE` is a checkout of the release before, with its compiled parts; one API, one planner and the
host on the store then run its code, the others the present one.

Two APIs, two planners, a Valkey, and two worker hosts of three stages: one on the store, one by the
API with a token of its own and no access to the store. Where this is root with `ip`, the second
host is in a network namespace of its own, and another user if that one may read the interpreter;
its link is cut for longer than a host's record lives, and slow and lossy for as long where the
kernel can do that (`tc netem`).
Beside that, every link between two parts has a trouble of its own for as long, drawn from the seed:
API and store, planner and store, host and store, host and API, planner and host are cut silently,
reset, or made slow (`tests.e2e.links`). The clocks of some parts are wrong by a minute and more.
Every part is killed once (SIGKILL), the planner that leads and the one that stands by, in an order
drawn from the seed, and started again. No trouble comes before requests are in flight: acknowledged
and without a result; more are submitted in its midst. At the end every request must have ended
once, with the reward that it deserves, every batch by its deadline; the time until another planner
leads must be under `FAILOVER_S_MAX`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc
from tests.e2e.links import TROUBLES, Link, linked
from tests.e2e.training import DEADLINE_S, Row, Trainer

from assay.client import Backoff, Client, Request
from assay.config.ready_files import Part, ready_file
from assay.core.ids import StageName
from assay.edge.clock import Clock
from assay.edge.work.tokens import WorkerKeys, WorkerPass
from assay.store.embedded import EmbeddedValkey
from assay.v1 import planner_pb2, planner_pb2_grpc

STAGES: Final = ("math.verify", "match")
FAILOVER_S_MAX: Final = 15.0
"""Beside the machine's own load: the lease is 4 s."""
LEASE_S: Final = 4.0
START_S_MAX: Final = 180.0
RUN_S_MAX: Final = 1_200.0
TROUBLE_S: Final = 12.0
"""A host's record lives for 5 s."""
LINK: Final = ("cut", "slow")
SKEW_S: Final = {"api2": -45, "planner2": 60, "direct": -90, "remote": 90}
"""By how much the clock of a part is ahead."""
PORTIONS: Final = 4
"""Of the requests, per trouble: at most three until some are in flight, one into the trouble."""
USER: Final = 64_900


@dataclass(slots=True, kw_only=True)
class Process:
    """One part, and how to start it again."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    ready: Path
    log: Path
    running: subprocess.Popen[bytes] | None = None
    lives: int = 0

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        self.ready.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(  # noqa: ASYNC220 it returns at once
                list(self.argv), env=dict(self.environment), stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.lives += 1
        end_s = time.monotonic() + START_S_MAX
        while not self.ready.exists():
            if self.running.poll() is not None or time.monotonic() > end_s:
                message = f"{self.name} does not start: {self.log.read_text()[-2_000:]}"
                raise RuntimeError(message)
            await asyncio.sleep(0.1)

    def addresses(self) -> Mapping[str, str]:
        """Where it listens."""
        return dict(json.loads(self.ready.read_text()))

    def kill(self) -> None:
        """SIGKILL to it and all that it started."""
        if self.running is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait()


@dataclass(slots=True, kw_only=True)
class Run:
    """The processes of one run, and what was seen."""

    folder: Path
    store: EmbeddedValkey
    parts: dict[str, Process] = field(default_factory=dict)
    failover_s: list[float] = field(default_factory=list)
    links: dict[str, Link] = field(default_factory=dict)
    in_flight: dict[str, int] = field(default_factory=dict)
    """Requests without a result when a trouble came."""
    slowest_s: float = 0.0
    """The longest that a batch took."""
    previous: Path | None = None
    """Tree of the release before; half of the parts run it."""

    def code(self, *, old: bool) -> dict[str, str]:
        """The environment that chooses the release of a part."""
        if self.previous is None or not old:
            return {}
        roots = ("services", "runtime", "simulator", "proto")
        return {"PYTHONPATH": ":".join(str(self.previous / root) for root in roots)}


def command(name: str, module: str) -> list[str]:
    """What runs a part, by its own clock."""
    if name in SKEW_S:
        skewed = Path(__file__).with_name("skewed.py")
        return [sys.executable, str(skewed), str(SKEW_S[name]), module]
    return [sys.executable, "-m", module]


SEES_US = """
import subprocess, sys
import assay.worker.build
subprocess.run([sys.executable, "-c", ""], check=True)  # as a host starts its slots
"""


def free_port() -> str:
    """Below those that connections get: a part that is started again must find it free."""
    for _ in range(100):
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("0.0.0.0", port))
            return str(port)
    raise RuntimeError("no port is free")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Between the platform and the remote host."""

    prefix: Sequence[str] = ()
    """What starts a process at the other side; empty: there is one network only."""
    here: str = "127.0.0.1"
    there: str = "127.0.0.1"
    link: str = ""
    """Our end."""

    def cut(self, *, off: bool) -> None:
        """Let nothing pass, or all again."""
        subprocess.run(["ip", "link", "set", self.link, "down" if off else "up"], check=True)

    def slow(self, *, on: bool) -> bool:
        """Delay and lose packets, or no longer; returns whether the kernel can."""
        act = ["add", "dev", self.link, "root", "netem", "delay", "150ms", "50ms", "loss", "3%"]
        less = ["del", "dev", self.link, "root"]
        return shutil.which("tc") is not None and _succeeds(["tc", "qdisc", *(act if on else less)])


@asynccontextmanager
async def own_network() -> AsyncIterator[Network]:
    """A namespace for another user's process, where this is root."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "setpriv"))):
        yield Network()
        return
    tag = secrets.token_hex(3)
    name, here, there = f"assay{tag}", f"10.213.{secrets.randbelow(250)}.1", ""
    there = here[:-1] + "2"

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    ip("netns", "add", name)
    try:
        ip("link", "add", f"va{tag}", "type", "veth", "peer", "name", f"vb{tag}", "netns", name)
        ip("addr", "add", f"{here}/30", "dev", f"va{tag}")
        ip("link", "set", f"va{tag}", "up")
        ip("-n", name, "addr", "add", f"{there}/30", "dev", f"vb{tag}")
        for device in (f"vb{tag}", "lo"):
            ip("-n", name, "link", "set", device, "up")
        within = ["ip", "netns", "exec", name]
        user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        trying = [*within, *user, sys.executable, "-c", SEES_US]
        sees_us = await asyncio.to_thread(_succeeds, trying)
        prefix = [*within, *(user if sees_us else ())]
        yield Network(prefix=prefix, here=here, there=there, link=f"va{tag}")
    finally:
        ip("netns", "del", name)


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def environment(data_dir: Path, **settings: str) -> dict[str, str]:
    """A part's environment; nothing of ours but the path."""
    data_dir.mkdir(parents=True, exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}
    named = {f"ASSAY_{name}": value for name, value in settings.items()}
    return {**kept, "ASSAY_DATA_DIR": str(data_dir), "OMP_NUM_THREADS": "1", **named}


def api(run: Run, number: int, host: str, key_file: Path) -> Process:
    """One replica of the API; it keeps its ports when it is started again."""
    data_dir = run.folder / f"api{number}"
    return Process(
        name=f"api{number}",
        argv=command(f"api{number}", "assay.reward"),
        environment=environment(
            data_dir,
            STORE__URL=f"redis://{run.links[f'api{number}-store'].address}",
            REWARD__HOST=host,
            REWARD__GRPC_PORT=free_port(),
            REWARD__HTTP_PORT=free_port(),
            REWARD__WORKER_PORT=free_port(),
            REWARD__WORKER_KEY_FILE=str(key_file),
            OPERATOR__ALLOW_OPEN_PORTS="true",
        )
        | run.code(old=number == 1),
        ready=ready_file(data_dir, Part.REWARD),
        log=run.folder / f"api{number}.log",
    )


def planner(run: Run, number: int) -> Process:
    data_dir = run.folder / f"planner{number}"
    return Process(
        name=f"planner{number}",
        argv=command(f"planner{number}", "assay.planner"),
        environment=environment(
            data_dir,
            STORE__URL=f"redis://{run.links[f'planner{number}-store'].address}",
            PLANNER__GRPC_PORT=free_port(),
            PLANNER__LEASE_S=str(LEASE_S),
            PLANNER__SLOTS_MIN="1",
            PLANNER__SLOTS_MAX="3",
        )
        | run.code(old=number == 1),
        ready=ready_file(data_dir, Part.PLANNER),
        log=run.folder / f"planner{number}.log",
    )


def host(
    run: Run, name: str, prefix: Sequence[str], listens: str, port: str, **settings: str
) -> Process:
    """A worker host of the three stages, which planners reach by its link."""
    data_dir = run.folder / name
    given = environment(
        data_dir,
        WORKER__STAGES=json.dumps(STAGES),
        WORKER__SLOTS="1",
        WORKER__CONTROL_HOST=listens,
        WORKER__CONTROL_PORT=port,
        WORKER__ADDRESS=run.links[f"planner-{name}"].address,
        OPERATOR__ALLOW_OPEN_PORTS="true",
        **settings,
    )
    if prefix:
        os.chown(data_dir, USER, USER)
    return Process(
        name=name,
        argv=[*prefix, *command(name, "assay.worker")],
        environment=given | run.code(old=name == "direct"),
        ready=ready_file(data_dir, Part.WORKER),
        log=run.folder / f"{name}.log",
    )


def rows(count: int, draw: random.Random) -> list[Row]:
    """Requests, each with its pipeline and the reward that it deserves."""
    found = []
    for number in range(count):
        value, right = draw.randrange(10_000), draw.random() < 0.6
        said = value if right else value + 1
        if number % 3:
            response, pipeline = f"So the answer is \\boxed{{{said}}}.", "math"
            reference: dict[str, object] = {"answers": [str(value)]}
        else:
            response, pipeline, reference = str(said), "exact", {"answers": [str(value)]}
        request = Request(request_id=f"r{number}", response=response, reference=reference)
        found.append((pipeline, request, float(right)))
    return found


async def leads(part: Process) -> bool:
    """Whether a planner says that it leads."""
    try:
        async with grpc.aio.insecure_channel(part.addresses()["grpc"]) as channel:
            stub = planner_pb2_grpc.PlannerServiceStub(channel)
            return (await stub.GetPlan(planner_pb2.GetPlanRequest(), timeout=2)).leading
    except (grpc.aio.AioRpcError, OSError, ValueError):
        return False


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    end_s = time.monotonic() + START_S_MAX
    while not await holds():
        if time.monotonic() > end_s:
            raise AssertionError(what)
        await asyncio.sleep(0.1)


async def kill_planner(run: Run, draw: random.Random, *, leader: bool) -> None:
    """Kill the one that leads, or the other: then the one that is left must lead in time."""
    names = ["planner1", "planner2"]
    leading = [name for name in names if await leads(run.parts[name])]
    first = leading[0] if leading else draw.choice(names)
    second = next(name for name in names if name != first)
    victim, other = (first, second) if leader else (second, first)
    begun_s = time.monotonic()
    run.parts[victim].kill()
    await until(lambda: leads(run.parts[other]), f"{other} does not lead")
    run.failover_s.append(time.monotonic() - begun_s)
    await run.parts[victim].start()


async def trouble_the_link(network: Network, what: str, trouble_s: float) -> None:
    """Cut it, or make it slow, for longer than the records and leases of its host live."""
    trouble = network.cut if what == "cut" else None
    if trouble is not None:
        trouble(off=True)
    elif not network.slow(on=True):
        print("this kernel cannot slow a link down", flush=True)
        return
    try:
        await asyncio.sleep(trouble_s)
    finally:
        if trouble is not None:
            trouble(off=False)
        else:
            network.slow(on=False)


def troubles_of(run: Run, network: Network, trouble_s: float) -> list[str]:
    """What happens in a run, in no order."""
    found = ["api1", "api2", "planner", "standby", "direct", "remote", "store"]
    found += ["cut", "slow"] if network.link and trouble_s else []
    return found + (list(run.links) if trouble_s else [])


async def trouble(run: Run, name: str, draw: random.Random, network: Network, s: float) -> None:
    """One of them, until the part is up again or the link as it was."""
    if name in run.links:
        await run.links[name].trouble(draw.choice(TROUBLES), s)
    elif name in LINK:
        await trouble_the_link(network, name, s)
    elif name in {"planner", "standby"}:
        await kill_planner(run, draw, leader=name == "planner")
    elif name == "store":
        os.kill(run.store.pid or 0, signal.SIGKILL)
    else:
        run.parts[name].kill()
        await run.parts[name].start()


async def trouble_all_once(
    run: Run,
    trainer: Trainer,
    draw: random.Random,
    order: Sequence[str],
    pause_s: float,
    one: Callable[[str], Awaitable[None]],
) -> None:
    """Each trouble comes while requests are in flight, and others are submitted in its midst."""
    for name in order:
        await asyncio.sleep(pause_s)
        run.in_flight[name] = await trainer.in_flight(draw)
        print(f"{name}: {run.in_flight[name]} requests in flight", flush=True)
        trainer.submit_portion()
        await one(name)
    await trainer.submit_all()


def credentials(folder: Path) -> tuple[Path, Path]:
    """The API's key for workers, and the token of the host without access to the store."""
    key, token = folder / "keys", folder / "remote.token"
    key.write_text(secrets.token_hex(32))
    key.chmod(0o600)
    one = WorkerPass(
        stages=tuple(map(StageName, STAGES)),
        expires_ns=Clock().now_ns() + 3_600 * 10**9,
        name="remote",
    )
    token.write_text(WorkerKeys.parsed(key.read_bytes()).mint(one))
    return key, token


async def assembled(run: Run, network: Network, stack: AsyncExitStack) -> list[Process]:
    """All parts, not started, and the links between them, which end with the stack."""

    async def link(name: str, target: str, listens: str = "127.0.0.1") -> Link:
        run.links[name] = await stack.enter_async_context(linked(name, target, listens=listens))
        return run.links[name]

    here, (key, token) = network.here, credentials(run.folder)
    for name in ("api1", "api2", "planner1", "planner2", "direct"):
        await link(f"{name}-store", run.store.url.removeprefix("unix://"))
    ports = {"direct": free_port(), "remote": free_port()}
    await link("planner-direct", f"127.0.0.1:{ports['direct']}")
    await link("planner-remote", f"{network.there}:{ports['remote']}", here)
    found = [api(run, 1, here, key), api(run, 2, here, key), planner(run, 1), planner(run, 2)]
    doors = []
    for part in found[:2]:
        port = part.environment["ASSAY_REWARD__WORKER_PORT"]
        doors.append((await link(f"{part.name}-remote", f"{here}:{port}", here)).address)
    by_api = {"WORKER__API": ",".join(doors), "WORKER__API_TOKEN_FILE": str(token)}
    own_store = f"redis://{run.links['direct-store'].address}"
    found.append(host(run, "direct", [], "127.0.0.1", ports["direct"], STORE__URL=own_store))
    found.append(host(run, "remote", network.prefix, network.there, ports["remote"], **by_api))
    return found


async def play(
    seed: int,
    count: int,
    pause_s: float,
    *,
    previous: Path | None = None,
    trouble_s: float = 0.0,
) -> Run:
    """One run; raises AssertionError for what must not be."""
    draw = random.Random(seed)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-e2e-")))
        folder.chmod(0o755)
        network = await stack.enter_async_context(own_network())
        store = EmbeddedValkey(folder / "store")
        await store.start()
        stack.push_async_callback(store.stop)
        keeping = asyncio.create_task(store.keep_alive())
        stack.callback(keeping.cancel)
        run = Run(folder=folder, store=store, previous=previous)
        found = await assembled(run, network, stack)
        run.parts = {part.name: part for part in found}
        for part in found:
            stack.callback(part.kill)
        await asyncio.gather(*(part.start() for part in found))
        backoff = Backoff(first_s=0.2, longest_s=2.0, total_s=RUN_S_MAX)
        clients = [
            await stack.enter_async_context(
                Client(run.parts[name].addresses()["grpc"], backoff=backoff)
            )
            for name in ("api1", "api2")
        ]
        order = troubles_of(run, network, trouble_s)
        draw.shuffle(order)
        async with asyncio.timeout(RUN_S_MAX), asyncio.TaskGroup() as group:
            trainer = Trainer(clients, group, rows(count, draw), PORTIONS * len(order))
            await trouble_all_once(
                run, trainer, draw, order, pause_s,
                lambda name: trouble(run, name, draw, network, trouble_s),
            )  # fmt: skip
        trainer.check()
        run.slowest_s = trainer.slowest_s
        for name, one in run.links.items():
            if trouble_s and not one.passed:
                raise AssertionError(f"nothing passed {name}")
        if max(run.failover_s) > FAILOVER_S_MAX:
            message = f"another planner led after {max(run.failover_s):.1f} s"
            raise AssertionError(message)
        print(
            f"the remote host: network namespace of its own {bool(network.link)}, "
            f"another user {'setpriv' in network.prefix}"
        )
        return run


def main() -> None:
    """See the head of this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between two kills")
    parser.add_argument("--previous", type=Path, help="a checkout of the release before")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    begun_s = time.monotonic()
    run = asyncio.run(
        play(
            options.seed,
            options.requests,
            options.pause,
            previous=options.previous,
            trouble_s=TROUBLE_S,
        )
    )
    print(
        f"{options.requests} requests, nothing lost; another planner led after "
        f"{max(run.failover_s):.1f} s; at least {min(run.in_flight.values())} in flight at each of "
        f"{len(run.in_flight)} troubles; the slowest batch took {run.slowest_s:.1f} s of "
        f"{DEADLINE_S:.0f} s; {time.monotonic() - begun_s:.0f} s in all"
    )


if __name__ == "__main__":
    main()
