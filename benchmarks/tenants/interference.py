"""Effect of one tenant on another: calls of a quiet tenant, before and under attack.

    python -m benchmarks.tenants.interference [--attacks json_bombs_grpc ...] [--seconds 20]
                                             [--json]
    python -m benchmarks.tenants.interference --tenants 1000 --attacks deadline_flood --seconds 60

With `--tenants`, there are so many, in a file that the service reads; one attacks, and the calls of
the victim are those of all others in turn.

The victim sends 20 `Score` calls per second (open loop, refused calls are not repeated). Victim,
attacker and the measurement of memory are processes of their own, so that none of them waits for
another's work. The attacker has its own token and gets idle CPU time only: it stands for other
machines. Where this process may make a control group with `cpu.idle` (as root), the attacker is in
it; elsewhere it has the lowest priority, and a process that wakes may wait for it for a
millisecond or two, in each of the ten steps of a call: see the column `idle`. On a busy machine it
gets next to nothing (`attacker saw`); `--ordinary` gives it the priority of the platform.

Each attack has a platform of its own. Before it begins the victim calls for a while; these quiet
calls of all platforms are taken together, because a p99 of few calls is noise. Nothing of an attack
is in them, also not what it leaves behind.

Per attack: p99 under attack over p99 quiet, with the interval in which 95 of 100 ratios lie when
calls are drawn again from those measured; p50 and p99; the victim's refused calls and lost results;
the peak memory of the API and the processes it started (PSS); cores used by API, store and host;
how much all services logged, how many of these lines are errors, and how many tracebacks and the
like are among them (with `--json`, which): an attack should cause none.

Everything is real: services and store are processes of their own on this machine.
"""

import argparse
import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import random
import secrets
import select
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import uvloop
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from assay.config.priority import run_in_background
from assay.v1 import reward_pb2, reward_pb2_grpc
from benchmarks.harness.platform_run import Run, local_platform
from benchmarks.harness.report import OUT, Report, bar_plot, percentile
from benchmarks.harness.service_logs import Logged
from benchmarks.service.paired import PARTS, cpu_s
from benchmarks.tenants.attacker import Attacker
from benchmarks.tenants.attacks import ATTACKS

RATE = 20
CALL_S_MAX = 30.0
SETTLE_S = 2.0
"""From the attacker's first act to the measurement, unless `--settle` says otherwise."""
BEGIN_S_MAX = 10.0
QUIET_S_MIN = 2.0
QUIET_SHARE = 2.0
"""Quiet calls of all platforms together, per call under one attack."""
RESAMPLES = 1_000
MEMORY_EVERY_S = 0.2
TOLD_EVERY_S = 0.5
FAULTS_SHOWN = 10
"""Texts of faults in the JSON, the most frequent ones."""
ATTACKING = "mallory"
"""The name of the tenant that attacks."""
CPU_GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
"""Version 1 and version 2 of control groups."""
now_s = time.perf_counter


# -- the attacker ----------------------------------------------------------------------------------
@contextmanager
def idle_group() -> Iterator[Path | None]:
    """A control group whose processes get idle CPU time only; `None` where there can be none."""
    for root in CPU_GROUPS:
        group = root / f"assay-attacker-{os.getpid()}"
        with contextlib.suppress(OSError):
            group.mkdir()
            try:
                (group / "cpu.idle").write_text("1")
            except OSError:
                group.rmdir()
                raise
            try:
                yield group
            finally:
                group.rmdir()
            return
    yield None


async def attack(name: str, seconds: float, group: Path | None, *, idle: bool) -> None:
    """The attacking process; prints its counts, over and over: in idle time it may not get to an
    end of its own."""
    if idle:
        run_in_background(19, idle=True)
    if group is not None:
        (group / "cgroup.procs").write_text(str(os.getpid()))
    attacker = Attacker(*(os.environ[f"TARGET_{part}"] for part in ("GRPC", "HTTP", "TOKEN")))

    async def tell() -> None:
        while True:
            print(json.dumps(attacker.seen), flush=True)
            await asyncio.sleep(TOLD_EVERY_S)

    telling = asyncio.create_task(tell())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await ATTACKS[name](attacker)
    telling.cancel()
    print(json.dumps(attacker.seen), flush=True)
    os._exit(0)  # open connections end with the process


# -- the victim ------------------------------------------------------------------------------------
class Victim:
    """Calls at a steady rate, independent of their results."""

    def __init__(self, address: str, tokens: Sequence[str]) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._stub: Any = reward_pb2_grpc.RewardServiceStub(self._channel)
        self._metadata = itertools.cycle([(("authorization", f"Bearer {one}"),) for one in tokens])

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
                    request, metadata=next(self._metadata), timeout=CALL_S_MAX
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


async def be_victim() -> None:
    """The victim's process: a line of stdin says for how many seconds to call."""
    victim = Victim(os.environ["TARGET_GRPC"], os.environ["TARGET_TOKEN"].split(","))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await victim.call_for(float(line))), flush=True)


# -- memory ----------------------------------------------------------------------------------------
def pss_bytes(pid: int) -> int:
    """Proportional set size of a process."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def children(pid: int) -> Iterator[int]:
    """The descendants of a process, without a look at all others."""
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield child
                yield from children(child)


def watch_memory(pid: int) -> None:
    """The measuring process: prints both peaks when its stdin ends."""
    api_peak = all_peak = 0
    while not select.select([sys.stdin], [], [], MEMORY_EVERY_S)[0]:
        api = pss_bytes(pid)
        api_peak = max(api_peak, api)
        all_peak = max(all_peak, api + sum(map(pss_bytes, children(pid))))
    print(json.dumps([api_peak, all_peak]), flush=True)


# -- the measurement -------------------------------------------------------------------------------
@asynccontextmanager
async def part_of(
    run: Run, token: str, *arguments: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """This module as another process, for the duration of the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.tenants.interference", *arguments),
        env={
            **os.environ,
            "TARGET_GRPC": run.addresses.grpc,
            "TARGET_HTTP": run.addresses.http,
            "TARGET_TOKEN": token,
        },
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # thousands of aborted calls
        start_new_session=True,
        limit=2**24,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def told(process: asyncio.subprocess.Process, line: str = "") -> Any:  # noqa: ANN401 JSON
    """Tell a process to go on (or, without a line, to end), and return its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    if line:
        process.stdin.write(f"{line}\n".encode())
    else:
        process.stdin.close()
    return json.loads(await process.stdout.readline() or b"null")


def lines_of(process: asyncio.subprocess.Process) -> asyncio.StreamReader:
    """What a process prints, line by line, to its end."""
    assert process.stdout is not None
    return process.stdout


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One attack: the victim's latencies before and during it, and columns of the table."""

    attack: str
    quiet: Sequence[float]
    attacked: Sequence[float]
    row: Mapping[str, Any]


async def measure(options: argparse.Namespace) -> None:
    """One platform per attack, so that attacks do not affect each other."""
    quiet_s = max(QUIET_S_MIN, QUIET_SHARE * options.seconds / len(options.attacks))
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    found = []
    with Progress(*columns, transient=True) as progress:
        doing = progress.add_task("", total=len(options.attacks))
        for name in options.attacks:
            progress.update(doing, description=name, advance=1)
            found.append(await one(name, quiet_s, options))
    show(found, as_json=options.json)


def show(found: Sequence[Measured], *, as_json: bool) -> None:
    """The table, and the plot if that is possible."""
    quiet = [latency for each in found for latency in each.quiet]
    report = Report(
        title=f"A tenant's {RATE} Score calls per second while another attacks",
        columns=(
            *("attack", "calls", "p99 ratio", "95 %", "p95 ratio"),
            *("p50 ms", "p95 ms", "p99 ms", "refused", "lost"),
            *("API MB", "with readers MB", "cores API/store/host", "idle"),
            *("log KB", "error lines", "faults logged", "attacker saw"),
        ),
    )
    report.add(attack="(quiet)", **latency_columns(quiet))
    bars: dict[str, float | Any] = {}
    for each in found:
        ratio = percentile(each.attacked, 0.99) / percentile(quiet, 0.99)
        low, high = ratio_interval(each.attacked, quiet)
        report.add(
            attack=each.attack,
            **latency_columns(each.attacked),
            **{"p99 ratio": ratio, "95 %": f"{low:.2g}-{high:.2g}"},
            **{"p95 ratio": percentile(each.attacked, 0.95) / percentile(quiet, 0.95)},
            **each.row,
        )
        bars[each.attack] = ratio
    report.show(as_json=as_json)
    with contextlib.suppress(ImportError):  # the plot is optional
        bar_plot(OUT / "tenants.png", report.title, "p99 under attack / p99 quiet", bars)


def latency_columns(latencies: Sequence[float]) -> dict[str, float]:
    """Number of calls, median, p95 and p99."""
    return {
        "calls": len(latencies),
        "p50 ms": percentile(latencies, 0.5) * 1e3,
        "p95 ms": percentile(latencies, 0.95) * 1e3,
        "p99 ms": percentile(latencies, 0.99) * 1e3,
    }


def log_columns(logged: Logged) -> dict[str, Any]:
    """What the platform's parts logged, from their start to the end of the attack."""
    return {
        "log KB": logged.size_bytes / 1e3,
        "error lines": logged.error_lines,
        "faults logged": logged.faults.total(),
        "faults": dict(logged.faults.most_common(FAULTS_SHOWN)),
    }


def ratio_interval(attacked: Sequence[float], quiet: Sequence[float]) -> tuple[float, float]:
    """Where 95 of 100 ratios lie that are computed from calls drawn again from both."""
    chance = random.Random(1)
    ratios = sorted(
        percentile(chance.choices(attacked, k=len(attacked)), 0.99)
        / percentile(chance.choices(quiet, k=len(quiet)), 0.99)
        for _ in range(RESAMPLES)
    )
    return percentile(ratios, 0.025), percentile(ratios, 0.975)


async def one(name: str, quiet_s: float, options: argparse.Namespace) -> Measured:
    """One attack, on a separate platform."""
    names = [ATTACKING, *(f"victim-{number}" for number in range(1, options.tenants))]
    tokens = {tenant: secrets.token_hex(16) for tenant in names}
    digests = {
        tenant: {"token_sha256": hashlib.sha256(token.encode()).hexdigest()}
        for tenant, token in tokens.items()
    }
    file = tempfile.NamedTemporaryFile("w", suffix=".json")  # noqa: SIM115 closed with the stack
    overrides = {
        "ASSAY_WORKER__STAGES": '["noop", "match"]',
        "ASSAY_WORKER__SLOTS": "1",
        "ASSAY_PLANNER__ENABLED": "false",
        "ASSAY_REWARD__TENANTS_FILE": file.name,
    }
    json.dump(digests, file)
    file.flush()
    async with local_platform(overrides) as run:
        with file, contextlib.nullcontext() if options.ordinary else idle_group() as group:
            urgency = ["--group", str(group)] if group else []
            if options.ordinary:
                urgency = ["--ordinary"]
            quiet, attacked, row = await under(
                run, tokens, options, quiet_s, ("--attack", name, *urgency)
            )
            row["idle"] = "yes" if group else "no"
            row |= log_columns(Logged.of(run.settings.data_dir))
            return Measured(attack=name, quiet=quiet, attacked=attacked, row=row)


async def under(
    run: Run,
    tokens: dict[str, str],
    options: argparse.Namespace,
    quiet_s: float,
    attack: Sequence[str],
) -> tuple[Sequence[float], Sequence[float], dict[str, Any]]:
    """The victim's latencies before and during the attack, and the other columns."""
    seconds = options.seconds
    sign = json.loads((run.settings.data_dir / "run" / "reward.json").read_text())
    attack = (*attack, "--seconds", str(seconds + 2 * SETTLE_S))
    others = ",".join(token for name, token in tokens.items() if name != ATTACKING)
    async with (
        part_of(run, others, "--victim") as victim,
        part_of(run, "", "--memory", str(sign["pid"])) as memory,
    ):
        saw: dict[str, int] = {}
        await told(victim, "2.0")
        quiet, _, _ = await told(victim, str(quiet_s))
        async with part_of(run, tokens[ATTACKING], *attack) as attacker:
            with contextlib.suppress(TimeoutError):  # in idle time it may not begin at all
                async with asyncio.timeout(BEGIN_S_MAX):
                    await lines_of(attacker).readline()
            await asyncio.sleep(options.settle)
            before = cpu_s(os.getpid())
            attacked, refused, lost = await told(victim, str(seconds))
            after = cpu_s(os.getpid())
            with contextlib.suppress(TimeoutError):  # in idle time it may not even have begun
                async with asyncio.timeout(2 * SETTLE_S):
                    async for line in lines_of(attacker):
                        saw = json.loads(line)
        api_bytes, all_bytes = await told(memory)
    shares = "/".join(f"{(after[part] - before[part]) / seconds:.2f}" for part in PARTS)
    row = {
        "refused": refused,
        "lost": lost,
        "API MB": api_bytes / 1e6,
        "with readers MB": all_bytes / 1e6,
        "cores API/store/host": shares,
        "attacker saw": " ".join(f"{k}:{v}" for k, v in sorted(saw.items())) or "nothing",
    }
    return quiet, attacked, row


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--seconds", type=float, default=20.0, help="of each attack")
    parser.add_argument("--settle", type=float, default=SETTLE_S, help="seconds before it counts")
    parser.add_argument("--tenants", type=int, default=2, help="one of them attacks")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ordinary", action="store_true", help="the attacker is as urgent as all")
    parser.add_argument("--attack", choices=ATTACKS, help=argparse.SUPPRESS)
    parser.add_argument("--group", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--victim", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        watch_memory(options.memory)
    elif options.victim:
        uvloop.run(be_victim())
    elif options.attack:
        uvloop.run(
            attack(options.attack, options.seconds, options.group, idle=not options.ordinary)
        )
    else:
        uvloop.run(measure(options))


if __name__ == "__main__":
    main()
