"""The planner on this machine, on real work: two tasks, three batches each, changing pool sizes.

    python -m benchmarks.planner.live [--batches 3] [--span-s 40] [--json] [--figure FILE]

The same run twice, each on a platform of its own: with the planner (pools from 0 up), and with
static pools as large as the planner's ever were. `code.cpp` requests are the right and wrong
CodeContests solutions of the tests, each made a new source (so each compiles); `math` requests are
real GSM8K answers. Arrivals are a real RL step (PolyTrace `search_r1`), its time axis compressed.
Sampled: the worker host's pools, five times per second. d = completion - (opening + T), T from the
store's history. A deadline is the service's own estimate except for a task's first batch.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.cli.operate.status_client import list_pools
from assay.cli.plan.plot import Point, plot_stages
from assay.client import Client, Request
from assay.core.ids import TaskId, TenantId
from assay.sim.files import read_arrivals
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
STAGES = ("cpp.compile", "cpp.run", "extract", "math.verify")
CAP = 3
DELAY_BUDGET_MS = 2_000
"""D of both tasks."""
CASES_S_MAX = 900.0


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


def cpp_cases(count: int) -> list[Request]:
    """Solutions of the tests, each with a unique source."""
    problems = [json.loads(line) for line in PROBLEMS.read_text().splitlines()]
    files = sorted(SOLUTIONS.glob("*.cpp"))
    return [
        Request(
            request_id=f"r{k}",
            response=f"```cpp\n// sample {k}\n{files[k % len(files)].read_text()}\n```",
            reference={"test": json.loads(problems[int(files[k % len(files)].name[1:3])]["test"])},
        )
        for k in range(count)
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
    client: Client, store: Store, task: Task, batches: int, span_s: float
) -> list[BatchFigures]:
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
            await batch.submit([case])
        assert batch is not None
        async with asyncio.timeout(CASES_S_MAX):
            async for _ in batch.results():
                pass
        status = await batch.status()
        deadlines[batch.batch_id] = status.deadline_ns
        await asyncio.sleep(GAP_S)
    history = await store.history(TENANT, TaskId(task.name), batches_max=batches)
    return [
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


async def measure(
    name: str, tasks: Sequence[Task], overrides: Mapping[str, str], batches: int, span_s: float
) -> Measured:
    """One run on a separate platform."""
    measured = Measured(name=name)
    async with local_platform(overrides) as run, Client(run.addresses.grpc) as client:
        store = open_store(run.settings.store, data_dir=run.settings.data_dir)
        sampling = asyncio.create_task(sample(run, store, measured.samples))
        try:
            found = await asyncio.gather(
                *(train(client, store, task, batches, span_s) for task in tasks)
            )
        finally:
            sampling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
            await store.close()
        measured.batches = [one for task in found for one in task]
    return measured


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
    return {
        **planned(),
        "ASSAY_WORKER__SLOTS_BY_STAGE": json.dumps(peaks),
        "ASSAY_PLANNER__ENABLED": "false",
    }


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


async def main(args: argparse.Namespace) -> None:
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
    ours = await measure("planner", tasks, planned(), args.batches, args.span_s)
    peaks = {stage: ours.most(stage) for stage in STAGES}
    still = await measure("static", tasks, static(peaks), args.batches, args.span_s)
    draw(ours, args.figure)
    for report in (pools_table([ours, still]), batches_table([ours, still])):
        report.show(as_json=args.json)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--span-s", type=float, default=40.0, help="of a batch's arrivals")
    parser.add_argument("--cpp", type=int, default=12, help="code.cpp requests per batch")
    parser.add_argument("--math", type=int, default=200, help="math requests per batch")
    parser.add_argument("--figure", type=Path, default=OUT / "planner" / "live.png")
    parser.add_argument("--json", action="store_true")
    asyncio.run(main(parser.parse_args()))
