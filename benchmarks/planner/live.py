"""The planner on this machine, on real work: two tasks, three batches each, changing pool sizes.

    python -m benchmarks.planner.live [--batches 3] [--span-s 40] [--json] [--figure FILE]
    python -m benchmarks.planner.live --calls 4    # only lone calls, from pools without a slot

The same run three times, each on a platform of its own: with the planner (pools from 0 up), with a
reaction (what runs and waits and two more while a batch is open, the most of the last six seconds,
once per second), and with static pools as large as the planner's ever were. Beside the tasks, every
five seconds a lone `Score` call, of each pipeline in turn. `code.cpp` requests are the right and
wrong CodeContests solutions of the tests, each made a new source (so each compiles); `math`
requests are real GSM8K answers. Arrivals are a real RL step (PolyTrace `search_r1`), its time axis
compressed. Sampled: the worker host's pools, five times per second. d = completion - (opening + T),
T from the store's history. A deadline is the service's own estimate but for a task's first batch.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.cli.operate.status_client import list_pools, resize_pool
from assay.cli.plan.plot import Point, plot_stages
from assay.client import Client, Request
from assay.core.ids import TaskId, TenantId
from assay.sim.files import read_arrivals
from assay.sim.policies.autoscalers import Window
from assay.sim.policies.rivals import REACTION_KEEP_S, REACTION_SPARE
from assay.store.port import Store
from assay.store.valkey import open_store
from benchmarks.harness.platform_run import Run, local_platform
from benchmarks.harness.report import OUT, Report
from benchmarks.harness.workloads import SHARED, gsm8k

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = ROOT / "tests" / "verifiers" / "solutions"
PROBLEMS = SHARED / "sandboxfusion" / "code_eval_code_contests.jsonl"
ARRIVALS = SHARED / "arrivals" / "polytrace_search_r1.csv"
TENANT = TenantId("default")
SAMPLE_S = 0.2
GAP_S = 8.0
"""Duration of the training step, from a batch's end to the next rollouts."""
HINT_S = 4.0
"""Time from the hint to the first request."""
STAGES = ("cpp.compile", "cpp.run", "math.verify")
CAP = 3
DELAY_BUDGET_MS = 2_000
"""D of both tasks."""
CASES_S_MAX = 900.0
REACT_EVERY_S = 1.0
LONE_EVERY_S = 5.0
CALL_PARTS = tuple(f"{stage}: {word}" for stage in STAGES[:2] for word in ("queued", "busy"))
LONE_MAX = 200
"""Different lone requests."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """The requests of one trainer."""

    name: str
    pipeline: str
    size: int
    starts_after_s: float
    cases: Sequence[Request]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """All pools at one instant."""

    at_s: float
    desired: Mapping[str, int]
    ready: Mapping[str, int]
    busy: Mapping[str, int]
    queued: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class BatchFigures:
    """One batch as it went."""

    task: str
    number: int
    requests: int
    span_s: float
    """T"""
    delay_s: float
    """d"""
    slack_s: float
    """Time left until its deadline."""


@dataclass(kw_only=True)
class Measured:
    """What one run measured."""

    name: str
    samples: list[Sample] = field(default_factory=list)
    batches: list[BatchFigures] = field(default_factory=list)
    lone_s: dict[str, list[float]] = field(default_factory=dict)
    """Pipeline -> elapsed times of lone calls."""
    open: set[str] = field(default_factory=set)
    """Tasks with a batch that is open at present."""

    def steps(self, stage: str) -> list[int]:
        """Changes of the wanted size, up and down."""
        pairs = itertools.pairwise(one.desired.get(stage, 0) for one in self.samples)
        return [b - a for a, b in pairs if b != a]

    def per_minute(self, count: int) -> float:
        """Of the length of this run."""
        return 60 * count / (self.samples[-1].at_s - self.samples[0].at_s)

    def reversals(self, stage: str) -> int:
        """Steps up after one down, and down after one up."""
        return sum(a * b < 0 for a, b in itertools.pairwise(self.steps(stage)))

    def slot_seconds(self, stage: str) -> float:
        """Held: wanted or still there."""
        pairs = itertools.pairwise(self.samples)
        return sum(
            max(a.desired.get(stage, 0), a.ready.get(stage, 0)) * (b.at_s - a.at_s)
            for a, b in pairs
        )

    def busy_seconds(self, stage: str) -> float:
        """Slot-seconds at work."""
        pairs = itertools.pairwise(self.samples)
        return sum(a.busy.get(stage, 0) * (b.at_s - a.at_s) for a, b in pairs)

    def most(self, stage: str) -> int:
        """Slots at once."""
        return max((s.ready.get(stage, 0) for s in self.samples), default=0)


def cpp_cases(count: int, *, first: int = 0) -> list[Request]:
    """Solutions of the tests, each with a unique source, from the sample `first` on."""
    problems = [json.loads(line) for line in PROBLEMS.read_text().splitlines()]
    files = sorted(SOLUTIONS.glob("*.cpp"))
    return [
        Request(
            request_id=f"r{k}",
            response=f"```cpp\n// sample {k}\n{files[k % len(files)].read_text()}\n```",
            reference={"test": json.loads(problems[int(files[k % len(files)].name[1:3])]["test"])},
        )
        for k in range(first, first + count)
    ]


def math_cases(count: int) -> list[Request]:
    return [
        Request(request_id=f"r{k}", response=case.response, reference=case.reference)
        for k, case in enumerate(itertools.islice(gsm8k(), count))
    ]


def arrivals(count: int, span_s: float, step: int) -> list[float]:
    """Seconds after the rollouts' start: a real step, thinned evenly and compressed."""
    curves = read_arrivals(ARRIVALS)
    curve = curves[step % len(curves)]
    chosen = [float(curve[round(k * (len(curve) - 1) / (count - 1))]) for k in range(count)]
    return [HINT_S + (at - chosen[0]) * span_s / (chosen[-1] - chosen[0]) for at in chosen]


async def train(
    client: Client, store: Store, task: Task, batches: int, span_s: float, into: Measured
) -> None:
    """One trainer: hint, submit as rollouts finish, wait for the batch, train, again."""
    registered = await client.register_task(
        task.name,
        pipeline=task.pipeline,
        batch_size=task.size,
        delay_budget_ms=DELAY_BUDGET_MS,
        trainer_cost_rate=8.0,
    )
    await asyncio.sleep(task.starts_after_s)
    deadlines = {}
    for number in range(batches):
        cases = task.cases[number * task.size : (number + 1) * task.size]
        await client.hint(registered, size=task.size)
        begun = time.perf_counter()
        batch = None
        for at_s, case in zip(arrivals(task.size, span_s, number), cases, strict=True):
            await asyncio.sleep(max(0.0, begun + at_s - time.perf_counter()))
            if batch is None:
                batch = await client.open_batch(registered, size=task.size)
                into.open.add(task.name)
            await batch.submit([case])
        assert batch is not None
        async with asyncio.timeout(CASES_S_MAX):
            async for _ in batch.results():
                pass
        into.open.discard(task.name)
        status = await batch.status()
        deadlines[batch.batch_id] = status.deadline_ns
        await asyncio.sleep(GAP_S)
    history = await store.history(TENANT, TaskId(task.name), batches_max=batches)
    into.batches += [
        BatchFigures(
            task=task.name,
            number=number,
            requests=len(record.requests),
            span_s=record.natural_span_ns / 1e9,
            delay_s=(record.completed_ns - record.opened_ns - record.natural_span_ns) / 1e9,
            slack_s=(deadlines[record.batch_id] - record.completed_ns) / 1e9,
        )
        for number, record in enumerate(reversed(history))
    ]


async def sample(run: Run, store: Store, into: list[Sample]) -> None:
    """Sample the pools until cancelled."""
    begun = time.perf_counter()
    while True:
        pools, depths = await asyncio.gather(
            list_pools(run.addresses.control),
            store.depths(list(STAGES)),  # type: ignore[arg-type] # names
        )
        if pools is not None:
            into.append(
                Sample(
                    at_s=time.perf_counter() - begun,
                    desired={p.stage: p.slots_desired for p in pools.pools},
                    ready={p.stage: p.slots_ready for p in pools.pools},
                    busy={p.stage: p.slots_busy for p in pools.pools},
                    queued={d.stage: d.queued for d in depths},
                )
            )
        await asyncio.sleep(SAMPLE_S)


async def react(run: Run, measured: Measured) -> None:
    """Size the pools by what runs and waits, until cancelled."""
    seen = {stage: Window(REACTION_KEEP_S) for stage in STAGES}
    while True:
        await asyncio.sleep(REACT_EVERY_S)
        if not measured.samples:
            continue
        now = measured.samples[-1]
        spare = REACTION_SPARE if measured.open else 0
        for stage, window in seen.items():
            work = now.busy.get(stage, 0) + now.queued.get(stage, 0)
            window.add(time.monotonic_ns(), work + spare)
            slots = min(CAP, int(window.largest()))
            if slots != now.desired.get(stage, 0):
                await resize_pool(run.addresses.control, stage=stage, slots=slots)


async def call_alone(
    client: Client, cases: Mapping[str, Sequence[Request]], into: Measured
) -> None:
    """A lone call of each pipeline in turn, until cancelled."""
    for number in itertools.count():
        for pipeline, known in cases.items():
            await asyncio.sleep(LONE_EVERY_S)
            begun = time.perf_counter()
            await client.score([known[number % len(known)]], pipeline=pipeline)
            into.lone_s.setdefault(pipeline, []).append(time.perf_counter() - begun)


async def measure(
    name: str,
    tasks: Sequence[Task],
    lone: Mapping[str, Sequence[Request]],
    overrides: Mapping[str, str],
    options: argparse.Namespace,
) -> Measured:
    """One run on a separate platform."""
    measured = Measured(name=name)
    async with (
        local_platform(overrides) as run,
        Client(run.addresses.grpc) as client,
        store_of(run) as store,
        beside(sample(run, store, measured.samples)),
        beside(call_alone(client, lone, measured)),
        beside(react(run, measured) if name == "reaction" else asyncio.sleep(0)),
    ):
        await asyncio.gather(
            *(
                train(client, store, task, options.batches, options.span_s, measured)
                for task in tasks
            )
        )
    return measured


@contextlib.asynccontextmanager
async def store_of(run: Run) -> AsyncIterator[Store]:
    """A connection of its own."""
    store = open_store(run.settings.store, data_dir=run.settings.data_dir)
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """`work` for the length of the block, whose failure is the block's."""
    task = asyncio.create_task(work)
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def planned() -> dict[str, str]:
    """Pools from 0 up to the cap, sized by the planner."""
    return {
        "ASSAY_WORKER__SLOTS": "0",
        "ASSAY_WORKER__STAGES": json.dumps(STAGES),
        "ASSAY_PLANNER__ENABLED": "true",
        "ASSAY_PLANNER__SLOTS_MAX": str(CAP),
    }


def static(peaks: Mapping[str, int]) -> dict[str, str]:
    """Static pools of that size."""
    return {**unplanned(), "ASSAY_WORKER__SLOTS_BY_STAGE": json.dumps(peaks)}


def unplanned() -> dict[str, str]:
    """Pools from 0 up, which no one sizes."""
    return {**planned(), "ASSAY_PLANNER__ENABLED": "false"}


def draw(measured: Measured, path: Path) -> None:
    """Demand, plan (desired slots) and actual, as measured."""
    points = {
        stage: [
            Point(
                at_s=s.at_s,
                demand=s.busy.get(stage, 0) + s.queued.get(stage, 0),
                planned=s.desired.get(stage, 0),
                actual=s.ready.get(stage, 0),
                busy=s.busy.get(stage, 0),
            )
            for s in measured.samples
        ]
        for stage in STAGES
    }
    plot_stages(points, path, title="code.cpp and math, three batches each, measured")


def pools_table(runs: Sequence[Measured]) -> Report:
    """Slot-seconds per stage."""
    columns = (
        "stage",
        *(f"{run.name}: {word}" for run in runs for word in ("held", "busy", "most")),
    )
    report = Report(title="Slot-seconds", columns=columns)
    for stage in STAGES:
        row: dict[str, object] = {"stage": stage}
        for run in runs:
            row[f"{run.name}: held"] = round(run.slot_seconds(stage), 1)
            row[f"{run.name}: busy"] = round(run.busy_seconds(stage), 1)
            row[f"{run.name}: most"] = run.most(stage)
        report.add(**row)
    total: dict[str, object] = {"stage": "all"}
    for run in runs:
        total[f"{run.name}: held"] = round(sum(run.slot_seconds(s) for s in STAGES), 1)
        total[f"{run.name}: busy"] = round(sum(run.busy_seconds(s) for s in STAGES), 1)
    report.add(**total)
    return report


def batches_table(runs: Sequence[Measured]) -> Report:
    """d and slack per batch."""
    report = Report(
        title="Batches", columns=("run", "task", "batch", "requests", "T (s)", "d (s)", "slack (s)")
    )
    for run in runs:
        for one in run.batches:
            report.add(
                run=run.name,
                task=one.task,
                batch=one.number + 1,
                requests=one.requests,
                **{
                    "T (s)": round(one.span_s, 2),
                    "d (s)": round(one.delay_s, 2),
                    "slack (s)": round(one.slack_s, 2),
                },
            )
    return report


def churn_table(runs: Sequence[Measured]) -> Report:
    """How often the wanted sizes change and turn, and what a lone call waits."""
    report = Report(
        title="Changes of size per minute, and lone calls",
        columns=("of", *(run.name for run in runs)),
    )
    for stage in STAGES:
        report.add(
            of=f"{stage}: resizes, reversals",
            **{
                run.name: f"{run.per_minute(len(run.steps(stage))):.1f}, "
                f"{run.per_minute(run.reversals(stage)):.1f}"
                for run in runs
            },
        )
    for pipeline in sorted({name for run in runs for name in run.lone_s}):
        told: dict[str, str] = {}
        for run in runs:
            waits = sorted(run.lone_s.get(pipeline, []))
            if waits:
                middle, late = waits[len(waits) // 2], waits[int(len(waits) * 0.95)]
                told[run.name] = f"{middle:.2f}, {late:.2f} s of {len(waits)}"
        report.add(of=f"lone {pipeline}: p50, p95", **told)
    return report


async def first_calls(count: int) -> Report:
    """Lone `code.cpp` calls on a new platform with the planner, and where their time goes."""
    report = Report(title="First calls (s)", columns=("call", "took", *CALL_PARTS))
    measured = Measured(name="calls")
    async with (
        local_platform(planned()) as run,
        Client(run.addresses.grpc) as client,
        store_of(run) as store,
        beside(sample(run, store, measured.samples)),
    ):
        for number, case in enumerate(cpp_cases(count)):
            await asyncio.sleep(2 * LONE_EVERY_S)
            known, begun = len(measured.samples), time.perf_counter()
            await client.score([case], pipeline="code.cpp")
            took_s = time.perf_counter() - begun
            pairs = list(itertools.pairwise(measured.samples[known:]))
            parts = {
                f"{stage}: {word}": round(
                    sum(b.at_s - a.at_s for a, b in pairs if getattr(a, word).get(stage, 0)), 1
                )
                for stage in STAGES[:2]
                for word in ("queued", "busy")
            }
            report.add(call=number + 1, took=round(took_s, 2), **parts)
    return report


async def main(args: argparse.Namespace) -> None:
    if args.calls:
        (await first_calls(args.calls)).show(as_json=args.json)
        return
    sizes = {"cpp": args.cpp, "math": args.math}
    tasks = [
        Task(
            name="live-cpp", pipeline="code.cpp", size=sizes["cpp"], starts_after_s=0.0,
            cases=cpp_cases(sizes["cpp"] * args.batches),
        ),
        Task(
            name="live-math", pipeline="math", size=sizes["math"], starts_after_s=args.span_s / 3,
            cases=math_cases(sizes["math"] * args.batches),
        ),
    ]  # fmt: skip
    lone = {
        "code.cpp": cpp_cases(LONE_MAX, first=sizes["cpp"] * args.batches),
        "math": math_cases(LONE_MAX),
    }
    ours = await measure("planner", tasks, lone, planned(), args)
    reaction = await measure("reaction", tasks, lone, unplanned(), args)
    peaks = {stage: ours.most(stage) for stage in STAGES}
    still = await measure("static", tasks, lone, static(peaks), args)
    runs = [ours, reaction, still]
    draw(ours, args.figure)
    for report in (pools_table(runs), batches_table(runs), churn_table(runs)):
        report.show(as_json=args.json)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--span-s", type=float, default=40.0, help="of a batch's arrivals")
    parser.add_argument("--cpp", type=int, default=12, help="code.cpp requests per batch")
    parser.add_argument("--math", type=int, default=200, help="math requests per batch")
    parser.add_argument("--calls", type=int, help="only so many lone code.cpp calls")
    parser.add_argument("--figure", type=Path, default=OUT / "planner" / "live.png")
    parser.add_argument("--json", action="store_true")
    asyncio.run(main(parser.parse_args()))
