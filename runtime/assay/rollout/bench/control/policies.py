"""`policies`: FIFO, shortest remaining first and prefix sharing on one skewed workload.

A dozen prompts, a few of them popular, whose rollouts arrive at different times; most responses are
short and a few long; more work than slots, and a KV arena with room for a few prompts beside the
decoding rollouts. The worker is stepped manually, so time is counted in its steps and the same seed
gives the same figures on any machine. Every repeat is another workload.

How often a waiting rollout is passed is read from the trace: it counts admissions of later
arrivals. At most `aging_max` may pass it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.rollout.bench.harness.machine import this_machine
from assay.rollout.bench.harness.report import Report
from assay.rollout.errors import EngineSaturated
from assay.rollout.layout import AdmissionPolicy, Event
from assay.rollout.library.engines import ProbeEngine
from assay.rollout.local.options import RuntimeOptions
from assay.rollout.local.runtime import Runtime
from assay.rollout.local.trace import percentile

if TYPE_CHECKING:
    from assay.rollout.layout import TraceRecord

ROLLOUTS = 480
PROMPTS = 12
PROMPT_TOKENS = 192
SHORT_TOKENS, LONG_TOKENS = (4, 16), (96, 128)
LONG_SHARE = 0.15
SLOTS = 128
CREDITS = 16
KV_BLOCKS = 128
AGING_MAX = 256
NEVER = 1 << 40
STEPS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Variant:
    """One policy with one bound on waiting."""

    policy: AdmissionPolicy
    aging_max: int

    def __str__(self) -> str:
        aging = "no aging" if self.aging_max == NEVER else f"aging {self.aging_max}"
        name = self.policy.name.lower().replace("_", " ")
        return name if self.policy is AdmissionPolicy.FIFO else f"{name}, {aging}"


VARIANTS = (
    Variant(AdmissionPolicy.FIFO, AGING_MAX),
    Variant(AdmissionPolicy.SHORTEST_REMAINING, NEVER),
    Variant(AdmissionPolicy.SHORTEST_REMAINING, AGING_MAX),
    Variant(AdmissionPolicy.PREFIX_SHARING, NEVER),
    Variant(AdmissionPolicy.PREFIX_SHARING, AGING_MAX),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One rollout to submit."""

    prompt: list[int]
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Result of one policy on one workload."""

    waits_steps: list[int]
    """Steps from submission to completion of every rollout, ascending."""
    steps: int
    prefilled: int
    prefill_asked: int
    passed_most: int

    @property
    def mean_steps(self) -> float:
        """Of the time from submission to completion."""
        return sum(self.waits_steps) / len(self.waits_steps)


def workload(seed: int) -> list[Request]:
    """In order of arrival: popular prompts more often, most responses short."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    popularity = [1 / (1 + i) for i in range(PROMPTS)]
    prompts = [[(p + 1) * 17 % 251] * PROMPT_TOKENS for p in range(PROMPTS)]
    return [
        Request(
            prompt=rng.choices(prompts, popularity)[0],
            max_tokens=rng.randint(*(LONG_TOKENS if rng.random() < LONG_SHARE else SHORT_TOKENS)),
        )
        for _ in range(ROLLOUTS)
    ]


def passed_most(records: list[TraceRecord]) -> int:
    """The most rollouts that were admitted before one that had arrived earlier."""
    came: dict[tuple[int, int], int] = {}
    waiting: dict[tuple[int, int], int] = {}
    most = 0
    for r in records:
        name = (r.slot, r.generation)
        if r.event == Event.CONSUMED:
            came[name], waiting[name] = len(came), 0
        elif r.event == Event.PREFILL_BEGIN:
            most = max(most, waiting.pop(name))
            for other in waiting:
                waiting[other] += came[other] < came[name]
    return most


def serve(requests: list[Request], variant: Variant) -> Served:
    """Run all of them through a manually stepped runtime, submitting as slots become free."""
    options = RuntimeOptions(
        seq_len_max=PROMPT_TOKENS + LONG_TOKENS[1],
        kv_blocks=KV_BLOCKS,
        decode_credits=CREDITS,
        prefill_chunk=64,
        policy=variant.policy,
        aging_max=variant.aging_max,
        trace=True,
    )
    engine = ProbeEngine(batch_max=2 * CREDITS)
    with Runtime(engine, SLOTS, options, start=False) as runtime:
        waits = _waits_steps(runtime, requests)
        records, _, lost = runtime.read_trace()
        stats = runtime.stats()
    if lost:
        raise RuntimeError(f"{lost} events were overwritten")
    return Served(
        waits_steps=sorted(waits),
        steps=stats.steps,
        prefilled=stats.prefill_tokens,
        prefill_asked=len(requests) * (PROMPT_TOKENS - 1),
        passed_most=passed_most(records),
    )


def _waits_steps(runtime: Runtime, requests: list[Request]) -> list[int]:
    """Steps from each request's submission to its completion, by order of completion."""
    began: list[int] = []
    waits: list[int] = []
    for now in range(STEPS_MAX):
        while len(began) < len(requests) and _submitted(runtime, requests[len(began)], len(began)):
            began.append(now)
        runtime.step()
        waits += [now + 1 - began[c.user_id] for c in runtime.poll()]
        if len(waits) == len(requests):
            return waits
    raise RuntimeError(f"{len(waits)} of {len(requests)} rollouts ended in {STEPS_MAX} steps")


def _submitted(runtime: Runtime, request: Request, number: int) -> bool:
    try:
        runtime.submit(
            request.prompt,
            max_tokens=request.max_tokens,
            seeds=[number],
            user_ids=[number],
            want_reward=False,
        )
    except EngineSaturated:
        return False
    return True


def measure(repeats: int, command: str) -> Report:
    """Run the whole bench; each repeat is one workload, the same for every policy."""
    report = Report("Policies on a skewed workload", command, this_machine())
    loads = [workload(seed) for seed in range(1, repeats + 1)]
    for variant in VARIANTS:
        runs = [serve(requests, variant) for requests in loads]
        saved = [100 * (1 - r.prefilled / r.prefill_asked) for r in runs]
        report.add(f"{variant}: completion, mean", "steps", [r.mean_steps for r in runs])
        p95 = [percentile(r.waits_steps, 0.95) for r in runs]
        report.add(f"{variant}: completion, p95", "steps", p95)
        report.add(f"{variant}: whole load", "steps", [float(r.steps) for r in runs])
        report.add(f"{variant}: prefill saved", "% of tokens", saved)
        passed = [float(r.passed_most) for r in runs]
        report.add(f"{variant}: passed at most", "rollouts", passed)
    return report
