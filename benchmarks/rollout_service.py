"""What the rollout service costs on top of its engine, over real gRPC on loopback.

    python benchmarks/rollout_service.py --model MODEL [--groups 32] [--k 8] [--tokens 64]

The service runs as its own process; a second engine with the same settings runs in this one. Rounds
alternate between them, so that a change of the machine's load hits both.

Printed: tokens/s through gRPC and by the runtime alone, and their ratio; CPU of the service's event
loop per rollout; MB/s of reading the same ended groups again; GB/s of pushing whole weights, which
includes checking and packing; tokens/s while adapters are pushed and activated, against rounds
without, and the pauses of the activations.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from assay.client.rollouts import Prompt, RolloutClient, RolloutSession, SamplingParams, Weight
from assay.rollout import Runtime, RuntimeOptions, Sampling
from assay.rollout.errors import EngineSaturated
from assay.rollout.models import Engine, Model, load_model
from assay.rollout.models.engine import EngineSettings
from assay.rollout.models.hugging_face import layer_tensor_name
from assay.rollout.models.model import TensorKind

START_S_MAX = 300.0
RANK = 8
GLOBAL_NAMES = {
    TensorKind.EMBED: "model.embed_tokens.weight",
    TensorKind.LM_HEAD: "lm_head.weight",
    TensorKind.FINAL_NORM: "model.norm.weight",
}


@asynccontextmanager
async def service(chosen: argparse.Namespace) -> AsyncIterator[tuple[str, int]]:
    """A service of the model; yields its address and process id."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "MODEL": chosen.model,
            "GRPC_PORT": 0,
            "HTTP_PORT": 0,
            "GATEWAY_PORT": 0,
            "SLOTS": chosen.slots,
            "BATCH_MAX": chosen.batch,
            "TOKENS_MAX": 2 * chosen.tokens + 64,
        }
        chosen_settings = {f"ASSAY_ROLLOUT__{name}": str(value) for name, value in settings.items()}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "assay.rollout"),
            env={**os.environ, "ASSAY_DATA_DIR": folder, **chosen_settings},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        ready = Path(folder, "run", "rollout.json")
        try:
            yield await asyncio.to_thread(listening_at, ready), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            await process.wait()


def listening_at(ready: Path) -> str:
    """The service's address, when it has started."""
    give_up_s = time.monotonic() + START_S_MAX
    while not ready.exists():
        if time.monotonic() > give_up_s:
            raise TimeoutError("the service did not start")
        time.sleep(0.05)
    return str(json.loads(ready.read_text())["grpc"])


def loop_cpu_s(pid: int) -> float:
    """CPU seconds of the process's main thread: its event loop."""
    fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def prompts(chosen: argparse.Namespace, name: str) -> Iterator[Prompt]:
    for i in range(chosen.groups):
        ids = [1 + (i + j) % 100 for j in range(16)]
        yield Prompt(group_id=f"{name}/{i}", prompt_ids=ids, k=chosen.k, seed=1_000 * i)


async def through_grpc(session: RolloutSession, chosen: argparse.Namespace, name: str) -> float:
    """Tokens per second of one round, submitted and read over gRPC."""
    began_s, tokens, groups = time.perf_counter(), 0, 0
    await session.submit(prompts(chosen, name))
    async for group in session.groups():
        tokens += sum(len(one.response_ids) for one in group.trajectories)
        session.acknowledge(group)
        groups += 1
        if groups == chosen.groups:
            break
    return tokens / (time.perf_counter() - began_s)


def direct(runtime: Runtime, chosen: argparse.Namespace) -> float:
    """Tokens per second of the same round, by the runtime alone."""
    began_s, ended = time.perf_counter(), []
    for prompt in prompts(chosen, "direct"):
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


def whole_weights(model: Model) -> dict[str, Weight]:
    """Every tensor by its Hugging Face name."""
    found = {}
    for (kind, layer), tensor in model.tensors.items():
        if kind is TensorKind.ROPE_INV_FREQ:
            continue
        name = GLOBAL_NAMES.get(kind) or layer_tensor_name((kind, layer))
        data = np.ascontiguousarray(tensor.data)
        found[name] = Weight(dtype=tensor.dtype.name, shape=tensor.shape, data=data.tobytes())
    return found


def adapter(model: Model, seed: int) -> dict[str, Weight]:
    """LoRA of q and v, in every layer."""
    rng, found = np.random.default_rng(seed), {}
    for kind, layer, shape in model.config.tensor_shapes():
        if kind not in {TensorKind.WQ, TensorKind.WV}:
            continue
        module = layer_tensor_name((kind, layer)).removesuffix(".weight")
        for part, size in (("lora_A", (RANK, shape[1])), ("lora_B", (shape[0], RANK))):
            values = rng.normal(0, 0.01, size).astype(np.float32)
            found[f"base_model.model.{module}.{part}.weight"] = Weight(
                dtype="F32", shape=size, data=values.tobytes()
            )
    return found


async def keep_pushing(
    client: RolloutClient,
    model: Model,
    first: int,
    share: float,
    pauses_s: list[float],
    enough: asyncio.Event,
) -> None:
    """Push and activate adapters until it is enough."""
    config = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": 16,
        "target_modules": ["q_proj", "v_proj"],
    }
    version = first
    while not enough.is_set():
        weights = adapter(model, version)
        await client.push_adapter(version, config, weights, core_share_max=share)
        pauses_s.append((await client.activate(version)).pause_s)
        version += 1


async def reading(session: RolloutSession, chosen: argparse.Namespace) -> float:
    """MB/s of reading ended groups, again and again: they are not acknowledged."""
    await session.submit(prompts(chosen, "read"))
    read, seconds = 0, 0.0
    for turn in range(20):
        began_s, groups = time.perf_counter(), 0
        async for group in session.groups():
            groups += 1
            size = sum(9 * len(one.response_ids) for one in group.trajectories)
            read += size if turn else 0  # the first reading waits for the engine
            if groups == chosen.groups:
                break
        seconds += time.perf_counter() - began_s if turn else 0.0
    return read / seconds / 1e6


async def measure(chosen: argparse.Namespace) -> dict[str, float]:
    model = load_model(Path(chosen.model))
    settings = EngineSettings(batch_max=chosen.batch, seq_len_max=2 * chosen.tokens + 64)
    options = RuntimeOptions(seq_len_max=2 * chosen.tokens + 64)
    found: dict[str, float] = {}
    async with service(chosen) as (address, pid), RolloutClient(address) as client:
        session = await client.open_session(
            "bench", sampling=SamplingParams(temperature=1.0, max_tokens=chosen.tokens)
        )
        await through_grpc(session, chosen, "warm")
        with (
            Engine.create(model, settings) as engine,
            Runtime(engine, slots=chosen.slots, options=options) as runtime,
        ):
            await asyncio.to_thread(direct, runtime, chosen)
            grpc, alone, cpu_s = [], [], 0.0
            for turn in range(chosen.rounds):
                before_s = loop_cpu_s(pid)
                grpc.append(await through_grpc(session, chosen, f"g{turn}"))
                cpu_s += loop_cpu_s(pid) - before_s
                alone.append(await asyncio.to_thread(direct, runtime, chosen))
        found["tokens/s through gRPC"] = statistics.median(grpc)
        found["tokens/s of the runtime"] = statistics.median(alone)
        ratios = [a / b for a, b in zip(grpc, alone, strict=True)]
        found["ratio, median of pairs"] = statistics.median(ratios)
        rollouts = chosen.rounds * chosen.groups * chosen.k
        found["ms of event loop CPU per rollout"] = 1e3 * cpu_s / rollouts
        quiet, pushed = [], []
        pauses_s: list[float] = []
        for turn in range(chosen.rounds):
            quiet.append(await through_grpc(session, chosen, f"q{turn}"))
            first = 1_000 * (turn + 1)
            enough = asyncio.Event()
            pushing = asyncio.create_task(
                keep_pushing(client, model, first, chosen.core_share, pauses_s, enough)
            )
            pushed.append(await through_grpc(session, chosen, f"p{turn}"))
            enough.set()
            await pushing
        ratios = [a / b for a, b in zip(pushed, quiet, strict=True)]
        found["decode while adapters are pushed, ratio"] = statistics.median(ratios)
        found["activations"] = len(pauses_s)
        found["pause p99 ms"] = 1e3 * float(np.quantile(pauses_s, 0.99)) if pauses_s else 0.0
        whole = whole_weights(model)
        done = await client.push_weights(1, whole)
        found["whole weights GB/s"] = done.bytes / done.stage_s / 1e9
        found["reading groups MB/s"] = await reading(session, chosen)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--groups", type=int, default=32)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core-share", type=float, default=0.05)
    for what, value in asyncio.run(measure(parser.parse_args())).items():
        print(f"{what:45} {value:12.3f}")
