"""What the rollout service costs on top of its engine, over real gRPC on loopback.

    python -m benchmarks.rollout.service --model MODEL [--groups 32] [--k 8] [--tokens 64]
    python -m benchmarks.rollout.service --only reading --only flight

The service runs as its own process. `--only` chooses measurements; all by default:

* `throughput` (needs `--model`): tokens/s through gRPC beside those of the runtime alone, which
  runs in this process with the same settings, and CPU of the service's event loop per rollout.
  Rounds alternate, so that a change of the machine's load hits both; ratios are of pairs
* `rewards`: a platform with real workers judges the responses; milliseconds from the end of a
  response in the engine until its reward request was handed to gRPC, and until the reward service
  had stored it, by the time stamps of the trajectories. Each round is one reward batch, fed for
  `--window-s`, so that it lasts no longer on a large model
* `push` (needs `--model`): adapters pushed while tokens are made, into the second slot, and with
  the engine held during the push as on an engine with a single slot. Windows alternate
* `reading`: MB/s of reading ended groups again and again, by length of the responses, on a tiny
  model: packing, gRPC, and numpy views of every column here
* `flight`: many groups in flight on a tiny model, each replaced when it was read: memory, slots,
  credits, files and threads after each turnover; exits non-zero if memory grows or one is lost
"""

import argparse
import asyncio
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from assay.client.rollouts import (
    Prompt,
    RolloutClient,
    RolloutGroup,
    RolloutSession,
    SamplingParams,
    StepBatch,
)
from assay.rollout import Runtime, RuntimeOptions, Sampling
from assay.rollout.errors import EngineSaturated
from assay.rollout.models import Engine, load_model
from assay.rollout.models.engine import EngineSettings
from benchmarks.harness.platform_run import local_platform
from benchmarks.harness.report import Report, Spread, percentile
from benchmarks.rollout.bare import bare
from benchmarks.rollout.process import Service, service, tiny_model
from benchmarks.rollout.pushes import Bench, push_table
from benchmarks.rollout.whole import Alone, Way, Whole, whole_report

PROMPT_TOKENS = 16
READ_LENGTHS = (64, 256, 1024, 4096)
READ_TOKENS = 1 << 17
READ_TIMES = 20
GROUPS_MAX = 1 << 20
FLIGHT_TOKENS = 32
GROWTH_MAX = 1.05
"""Memory of the second half of the turnovers over that of the first half."""


def prompts(groups: int, k: int, name: str, **more: object) -> Iterator[Prompt]:
    """Prompts that share no prefix."""
    for i in range(groups):
        ids = [1 + (i + j) % 100 for j in range(PROMPT_TOKENS)]
        yield Prompt(group_id=f"{name}/{i}", prompt_ids=ids, k=k, seed=1_000 * i, **more)  # type: ignore[arg-type]


async def read(session: RolloutSession, groups: int) -> list[RolloutGroup]:
    """The next groups, acknowledged."""
    found: list[RolloutGroup] = []
    async for group in session.groups():
        found.append(group)
        session.acknowledge(group)
        if len(found) == groups:
            break
    return found


# -- throughput ------------------------------------------------------------------------------------
async def through_grpc(session: RolloutSession, chosen: argparse.Namespace, name: str) -> float:
    """Tokens per second of one round, submitted and read over gRPC."""
    began_s = time.perf_counter()
    await session.submit(prompts(chosen.groups, chosen.k, name))
    groups = await read(session, chosen.groups)
    tokens = sum(len(one.response_ids) for group in groups for one in group.trajectories)
    return tokens / (time.perf_counter() - began_s)


def direct(runtime: Runtime, chosen: argparse.Namespace) -> float:
    """Tokens per second of the same round, by the runtime alone."""
    began_s, ended = time.perf_counter(), []
    for prompt in prompts(chosen.groups, chosen.k, "direct"):
        while True:
            try:
                runtime.submit(
                    prompt.prompt_ids,
                    max_tokens=chosen.tokens,
                    seeds=range(prompt.seed, prompt.seed + prompt.k),
                    sampling=Sampling(temperature=1.0),
                    want_reward=False,
                )
                break
            except EngineSaturated:
                runtime.wait(0.01)
                ended += runtime.poll()
    ended += runtime.drain(60.0)
    return sum(len(one.tokens) for one in ended) / (time.perf_counter() - began_s)


@dataclass(slots=True)
class Through:
    """Rounds through gRPC."""

    tokens_s: list[float] = field(default_factory=list)
    loop_ms: list[float] = field(default_factory=list)
    """CPU of the event loop per rollout."""
    beside_share: list[float] = field(default_factory=list)
    """CPU of everything but decoding, of service and client, percent of a decoding thread's."""

    async def round(
        self, running: Service, session: RolloutSession, chosen: argparse.Namespace, name: str
    ) -> None:
        """Measure one round."""
        loop_s, decoding_s = running.loop_cpu_s(), running.decoding_cpu_s()
        beside_s = running.beside_cpu_s() + time.process_time()
        self.tokens_s.append(await through_grpc(session, chosen, name))
        beside_s = running.beside_cpu_s() + time.process_time() - beside_s
        decoding_s = running.decoding_cpu_s() - decoding_s
        self.loop_ms.append(1e3 * (running.loop_cpu_s() - loop_s) / (chosen.groups * chosen.k))
        self.beside_share.append(100 * beside_s / decoding_s)


async def throughput(chosen: argparse.Namespace) -> None:
    """Tokens/s of both contenders, and CPU of what is not decoding.

    Every second pair of rounds is in the reverse order. Decoding takes every core, so what gRPC
    takes from it is at most the CPU beside it, which hardly depends on other load; the ratio of
    tokens/s does.
    """
    tokens_max = 2 * chosen.tokens + 64
    settings = EngineSettings(batch_max=chosen.batch, seq_len_max=tokens_max)
    grpc, alone = Through(), []
    async with (
        served(chosen, tokens_max) as (running, client),
        opened(client, chosen.tokens) as session,
    ):
        await through_grpc(session, chosen, "warm")
        with (
            Engine.create(load_model(chosen.model), settings) as engine,
            Runtime(
                engine, slots=chosen.slots, options=RuntimeOptions(seq_len_max=tokens_max)
            ) as runtime,
        ):
            await asyncio.to_thread(direct, runtime, chosen)
            for turn in range(chosen.rounds):
                if turn % 2:
                    alone.append(await asyncio.to_thread(direct, runtime, chosen))
                await grpc.round(running, session, chosen, f"g{turn}")
                if turn % 2 == 0:
                    alone.append(await asyncio.to_thread(direct, runtime, chosen))
    title = f"Through gRPC: {chosen.groups} groups of {chosen.k}, {chosen.tokens} tokens each"
    report = Report(title=title, columns=("figure", "median (least-most)"))
    ratios = [100 * a / b for a, b in zip(grpc.tokens_s, alone, strict=True)]
    for name, values in (
        ("of the runtime's own tokens/s, %", ratios),
        ("tokens/s through gRPC", grpc.tokens_s),
        ("tokens/s of the runtime alone", alone),
        ("CPU beside decoding, % of a decoding thread's", grpc.beside_share),
        ("CPU of the event loop per rollout, ms", grpc.loop_ms),
    ):
        report.add(figure=name, **{"median (least-most)": Spread.of(values)})
    report.show(as_json=chosen.json)


# -- rewards ---------------------------------------------------------------------------------------
async def rewards(chosen: argparse.Namespace) -> None:
    """From the end of a response to its reward request."""
    asked_ms, stored_ms = [], []
    async with (
        local_platform() as platform,
        served(chosen, 2 * chosen.tokens + 64, reward_url=platform.addresses.grpc) as (_, client),
        opened(client, chosen.tokens, pipeline="noop") as session,
    ):
        for turn in range(1 + chosen.rounds):
            groups = await one_batch(session, chosen, f"step-{turn}")
            if turn == 0:
                continue  # warm-up: connections, workers
            for one in (one for group in groups for one in group.trajectories):
                asked_ms.append((one.reward_asked_ns - one.decoded_ns) / 1e6)
                stored_ms.append((one.reward_stored_ns - one.decoded_ns) / 1e6)
    title = f"End of a response -> its reward request, {len(asked_ms)} responses, milliseconds"
    report = Report(title=title, columns=("until", "p50", "p99", "most"))
    for name, values in (
        ("handed to gRPC", asked_ms),
        ("stored by the reward service", stored_ms),
    ):
        p50, p99 = percentile(values, 0.5), percentile(values, 0.99)
        report.add(until=name, p50=p50, p99=p99, most=max(values))
    report.show(as_json=chosen.json)


async def one_batch(
    session: RolloutSession, chosen: argparse.Namespace, batch: str
) -> list[RolloutGroup]:
    """The groups of one reward batch: as many as the engine holds, replaced for `--window-s`."""
    ahead = chosen.slots // chosen.k + 1
    fresh = prompts(GROUPS_MAX, chosen.k, batch, batch_id=batch, reference={})
    end_s = time.perf_counter() + chosen.window_s
    await session.submit(itertools.islice(fresh, ahead))
    found: list[RolloutGroup] = []
    async for group in session.groups():
        found.append(group)
        session.acknowledge(group)
        ahead -= 1
        if time.perf_counter() < end_s:
            await session.submit([next(fresh)])
            ahead += 1
        elif ahead == 0:
            break
    await session.submit([], batches=[StepBatch(batch_id=batch, last=True)])
    return found


# -- reading ---------------------------------------------------------------------------------------
async def reading(chosen: argparse.Namespace) -> None:
    """MB/s of reading ended groups."""
    columns = ("tokens per response", "groups", "MB/s", "service ms/MB", "client ms/MB")
    report = Report(title=f"Reading groups of {chosen.k}", columns=columns)
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_model(Path(folder), max(READ_LENGTHS) + PROMPT_TOKENS)
        settings = {"tokens_max": max(READ_LENGTHS) + PROMPT_TOKENS, "slots": 256, "batch_max": 64}
        async with (
            service(model, **settings) as running,
            RolloutClient(running.address) as client,
        ):
            for tokens in READ_LENGTHS:
                groups = max(1, READ_TOKENS // (chosen.k * tokens))
                async with opened(client, tokens) as session:
                    await session.submit(prompts(groups, chosen.k, "read"))
                    rates = [await read_once(session, groups, running) for _ in range(READ_TIMES)]
                rates = rates[1:]  # the first reading waits for the engine
                report.add(
                    **{
                        "tokens per response": tokens,
                        "groups": groups,
                        "MB/s": Spread.of([rate for rate, _, _ in rates]),
                        "service ms/MB": statistics.median(service for _, service, _ in rates),
                        "client ms/MB": statistics.median(here for _, _, here in rates),
                    }
                )
    report.show(as_json=chosen.json)


async def read_once(
    session: RolloutSession, groups: int, running: Service
) -> tuple[float, float, float]:
    """MB/s of reading all groups, which are not acknowledged, and CPU of both sides per MB."""
    before_s, began_s, here_s = running.loop_cpu_s(), time.perf_counter(), time.thread_time()
    size = seen = 0
    async for group in session.groups():
        for one in group.trajectories:
            for column in (one.response_ids, one.response_mask, one.rollout_logp):
                size += np.asarray(column).nbytes
        seen += 1
        if seen == groups:
            break
    took_s, megabytes = time.perf_counter() - began_s, size / 1e6
    here_ms = 1e3 * (time.thread_time() - here_s)
    service_ms = 1e3 * (running.loop_cpu_s() - before_s)
    return megabytes / took_s, service_ms / megabytes, here_ms / megabytes


# -- in flight -------------------------------------------------------------------------------------
async def flight(chosen: argparse.Namespace) -> int:
    """Groups in flight without growth; returns 1 if memory grew or a slot or credit is lost."""
    groups, k = chosen.flight_groups, chosen.flight_k
    columns = ("turnover", "in flight", "RSS MiB", "files", "threads", "groups/s")
    report = Report(title=f"{groups:,} groups of {k} in flight", columns=columns)
    resident: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        tokens_max = FLIGHT_TOKENS + PROMPT_TOKENS
        settings = {"tokens_max": tokens_max, "slots": groups * k, "batch_max": 64}
        async with (
            service(tiny_model(Path(folder), tokens_max), **settings) as running,
            RolloutClient(running.address) as client,
            opened(client, FLIGHT_TOKENS) as session,
        ):
            before = (await client.status()).engine
            ahead = groups + groups // 2  # some wait, so that every slot is taken at all times
            await session.submit(prompts(ahead, k, "0"))
            for turn in range(1, chosen.turnovers + 1):
                began_s = time.perf_counter()
                in_flight: list[float] = []
                sampling = asyncio.create_task(sample(client, in_flight))
                await replace_all(session, groups, k, str(turn))
                took_s = time.perf_counter() - began_s
                sampling.cancel()
                resident.append(running.resident_bytes() / 1024**2)
                row = {"in flight": Spread.of(in_flight), "groups/s": groups / took_s}
                row |= {"RSS MiB": resident[-1], "turnover": turn}
                report.add(files=running.files(), threads=running.threads(), **row)
            await read(session, ahead)
            after = (await client.status()).engine
    report.show(as_json=chosen.json)
    names = [name for name in after if name.endswith("_available") or name == "slots_free"]
    lost = sum(before[name] - after[name] for name in names if name != "kv_available")
    settled = resident[1:]  # the first turnover fills what is kept
    early = statistics.median(settled[: len(settled) // 2])
    late = statistics.median(settled[len(settled) // 2 :])
    print(f"slots and credits that did not come back: {lost}")
    print(f"memory, second half over first half: {late / early:.3f}")
    return int(lost != 0 or late > GROWTH_MAX * early)


async def sample(client: RolloutClient, in_flight: list[float]) -> None:
    """Note how many rollouts are in the engine, until cancelled."""
    while True:
        in_flight.append((await client.status()).engine["in_flight"])
        await asyncio.sleep(0.2)


async def replace_all(session: RolloutSession, groups: int, k: int, name: str) -> None:
    """Read this many groups, and submit another one for each of them."""
    fresh, seen, held = prompts(groups, k, name), 0, 0
    async for group in session.groups():
        session.acknowledge(group)
        seen, held = seen + 1, held + 1
        if held == 16 or seen == groups:
            await session.submit([next(fresh) for _ in range(held)])
            held = 0
        if seen == groups:
            return


# -- all -------------------------------------------------------------------------------------------
@asynccontextmanager
async def served(
    chosen: argparse.Namespace, tokens_max: int, **settings: object
) -> AsyncIterator[tuple[Service, RolloutClient]]:
    """A service of `--model`, or of a tiny one, and a client of it."""
    with tempfile.TemporaryDirectory() as folder:
        model = chosen.model or tiny_model(Path(folder), tokens_max)
        bounds = {"slots": chosen.slots, "batch_max": chosen.batch, "tokens_max": tokens_max}
        async with (
            service(model, **bounds, **settings) as running,
            RolloutClient(running.address) as client,
        ):
            yield running, client


@asynccontextmanager
async def opened(
    client: RolloutClient, tokens: int, **options: object
) -> AsyncIterator[RolloutSession]:
    """A session whose responses have this many tokens."""
    sampling = SamplingParams(temperature=1.0, max_tokens=tokens)
    session = await client.open_session("bench", sampling=sampling, **options)  # type: ignore[arg-type]
    yield session
    await session.close()


def shared_memory() -> Path | None:
    """A folder in memory; `None`: this system has none."""
    folder = Path("/dev", "shm")
    return folder if folder.is_dir() else None


async def push(chosen: argparse.Namespace) -> None:
    """Adapters pushed while tokens are made."""
    with tempfile.TemporaryDirectory(dir=shared_memory()) as folder:
        async with (
            served(chosen, 2 * chosen.tokens + 64, shared_dir=folder) as (running, client),
            opened(client, chosen.tokens) as session,
        ):
            bench = Bench(
                running=running,
                client=client,
                model=load_model(chosen.model),
                shared_dir=Path(folder),
                chosen=chosen,
            )
            report = await push_table(bench, session)
    report.show(as_json=chosen.json)


async def whole(chosen: argparse.Namespace) -> None:
    """Whole weights pushed to an engine at rest, in each way."""
    over, unchecked = Way(beside_floor=True), Way(beside_floor=True)
    by_memory, in_file, alone = Way(), Way(), Alone()
    ways = {"gRPC": over, "gRPC, without checksums of the sender": unchecked}
    ways |= {"shared memory": by_memory, "gRPC, one set in memory": in_file}
    model, tokens_max = load_model(chosen.model), 2 * chosen.tokens + 64
    with (
        tempfile.TemporaryDirectory(dir=shared_memory()) as shared,
        tempfile.TemporaryDirectory() as disk,
    ):
        async with (
            bare() as floor,
            served(chosen, tokens_max, shared_dir=shared) as (running, client),
        ):
            pushes = Whole(running, client, model)
            pushes.write(Path(shared))
            for _ in range(1 + chosen.rounds):
                await floor.measure(pushes.megabytes)
                pushes.alone(alone)
                await pushes.measure(over)
                await pushes.measure(unchecked, checksums=False)
                await pushes.measure(by_memory, shared=True)
        async with served(chosen, tokens_max, second_slot_dir=disk) as (running, client):
            pushes = Whole(running, client, model)
            for _ in range(1 + chosen.rounds):
                await pushes.measure(in_file)
    whole_report(ways, floor, alone, pushes.megabytes).show(as_json=chosen.json)


MEASUREMENTS: dict[str, Callable[[argparse.Namespace], Awaitable[int | None]]] = {
    "throughput": throughput,
    "rewards": rewards,
    "push": push,
    "whole": whole,
    "reading": reading,
    "flight": flight,
}
OF_A_MODEL = frozenset({"throughput", "push", "whole"})


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a model's folder or file")
    parser.add_argument("--only", action="append", choices=list(MEASUREMENTS))
    parser.add_argument("--groups", type=int, default=32)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core-share", type=float, default=0.05)
    parser.add_argument("--window-s", type=float, default=5.0, help="of `push`, `rewards`")
    parser.add_argument("--push-every-s", type=float, default=0.25)
    parser.add_argument("--flight-groups", type=int, default=1_000)
    parser.add_argument("--flight-k", type=int, default=16)
    parser.add_argument("--turnovers", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


async def main(chosen: argparse.Namespace) -> int:
    """Run what was chosen; return the exit status."""
    status = 0
    for name in chosen.only or MEASUREMENTS:
        if name in OF_A_MODEL and chosen.model is None:
            if chosen.only:
                raise SystemExit(f"{name} needs --model")
            continue
        status |= await MEASUREMENTS[name](chosen) or 0
    return status


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
