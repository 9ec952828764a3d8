"""What the gateway for agents adds to a turn, at many sessions.

A rollout service in a process of its own serves a random model. Each session makes a turn every
`--period` seconds over HTTP, and each turn continues the conversation. Then this process gives the
same prompts, with the same seeds at the same times, to the runtime alone. Reported: latencies of
both, the median of the difference per turn, and the share of turns whose token ids are the same.
A turn lasts from the first byte of its call to the last byte of the answer; an agent's own JSON is
not the gateway's.

    python -m benchmarks.rollout.gateway --sessions 200 --turns 6 --period 4
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tokenizers

from assay.rollout import Runtime, RuntimeOptions, Sampling
from assay.rollout.models import Engine, load_model, load_tokenizer
from assay.rollout.models.engine import EngineSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

VOCAB, TOKENS_MAX, BATCH_MAX, THREADS = 512, 1024, 64, 1
START_S_MAX = 120.0
WORDS = ["sum", "add", "and", "the", "total", "then", "more", "less", "of", "two"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(slots=True, kw_only=True)
class Turn:
    """One turn, both ways."""

    at_s: float
    seed: int
    prompt: list[int]
    ids: list[int]
    gateway_s: float
    direct_s: float = 0.0
    direct_ids: list[int] | None = None


def write_model(folder: Path) -> Path:
    """A llama2.c checkpoint of random weights, and a tokenizer with a chat template."""
    dim, hidden, layers, positions = 64, 176, 2, TOKENS_MAX
    rng = np.random.default_rng(1)
    n = VOCAB * dim + layers * (2 * dim + 4 * dim * dim + 3 * dim * hidden) + dim
    values = rng.normal(0, 0.2, n + positions * (dim // 4)).astype(np.float32)
    header = struct.pack("<7i", dim, hidden, layers, 4, 4, VOCAB, positions)
    (folder / "model.bin").write_bytes(header + values.tobytes())
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator([" ".join(WORDS), "system user assistant"], trainer)
    backend.save(str(folder / "tokenizer.json"))
    config = {"eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder / "model.bin"


@contextmanager
def service(folder: Path, model: Path, slots: int) -> Iterator[tuple[str, int]]:
    """The rollout service in a process of its own; yields the gateway's URL and the process."""
    chosen = {
        "ASSAY_DATA_DIR": folder / "data",
        "ASSAY_ROLLOUT__MODEL": model,
        "ASSAY_ROLLOUT__TOKENIZER": folder / "tokenizer.json",
        "ASSAY_ROLLOUT__TOKENS_MAX": TOKENS_MAX,
        "ASSAY_ROLLOUT__BATCH_MAX": BATCH_MAX,
        "ASSAY_ROLLOUT__THREADS": THREADS,
        "ASSAY_ROLLOUT__SLOTS": slots,
        **{f"ASSAY_ROLLOUT__{name}_PORT": 0 for name in ("GRPC", "HTTP", "GATEWAY")},
    }
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}
    environment = inherited | {name: str(value) for name, value in chosen.items()}
    command = [sys.executable, "-m", "assay.rollout"]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    ready = folder / "data" / "run" / "rollout.json"
    try:
        until_s = time.monotonic() + START_S_MAX
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > until_s:
                raise SystemExit("the rollout service did not start")
            time.sleep(0.05)
        yield json.loads(ready.read_text())["gateway"], process.pid
    finally:
        process.terminate()
        process.wait()


def event_loop_cpu_s(pid: int) -> float:
    """CPU time of the process's first thread: its event loop, without decoding."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def process_cpu_s(pid: int) -> float:
    """CPU time of all its threads: decoding too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def writes_of(pid: int) -> int:
    """System calls of the process that wrote, to connections and to wake its own threads."""
    counters = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in counters if line.startswith("syscw"))


class Connection:
    """A minimal HTTP/1.1 client, so that little of the latency is the client's."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def post(self, path: str, body: object) -> tuple[Any, float]:
        """One call; its answer, and the seconds from its first byte to the answer's last."""
        raw = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n"
        raw = head.encode() + b"Content-Type: application/json\r\n\r\n" + raw
        begun_s = time.monotonic()
        self._writer.write(raw)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(answer.partition("content-length:")[2].partition("\r\n")[0])
        content = await self._reader.readexactly(length)
        spent_s = time.monotonic() - begun_s
        parsed = json.loads(content)
        if not answer.startswith("http/1.1 20"):
            raise SystemExit(f"{answer.splitlines()[0]}: {parsed}")
        return parsed, spent_s


async def agent(url: str, number: int, chosen: argparse.Namespace, zero_s: float) -> list[Turn]:
    """The turns of one session."""
    host, _, port = url.removeprefix("http://").partition(":")
    http = Connection(host, int(port))
    await http.open()
    rng = random.Random(number)
    session, _ = await http.post("/sessions", {"seed": number << 16})
    path = f"/sessions/{session['session_id']}/v1/chat/completions"
    messages: list[dict[str, str]] = []
    turns = []
    for turn in range(chosen.turns):
        at_s = (number / chosen.sessions + turn) * chosen.period
        await asyncio.sleep(max(0.0, zero_s + at_s - time.monotonic()))
        messages.append({"role": "user", "content": " ".join(rng.choices(WORDS, k=12))})
        body = {"messages": messages, "max_tokens": chosen.tokens, "return_token_ids": True}
        begun_s = time.monotonic()
        answer, spent_s = await http.post(path, body)
        [choice] = answer["choices"]
        messages.append(choice["message"])
        turns.append(
            Turn(
                at_s=begun_s - zero_s,
                seed=(number << 16) + turn,
                prompt=answer["prompt_token_ids"],
                ids=choice["token_ids"],
                gateway_s=spent_s,
            )
        )
    return turns


async def through_the_gateway(url: str, chosen: argparse.Namespace) -> list[Turn]:
    zero_s = time.monotonic() + 1.0
    agents = (agent(url, number, chosen, zero_s) for number in range(chosen.sessions))
    return sorted((t for s in await asyncio.gather(*agents) for t in s), key=lambda t: t.at_s)


def direct(folder: Path, model: Path, turns: list[Turn], chosen: argparse.Namespace) -> None:
    """The same work in the runtime alone."""
    loaded, tokenizer = load_model(model), load_tokenizer(folder / "tokenizer.json")
    settings = EngineSettings(threads=THREADS, batch_max=BATCH_MAX, seq_len_max=TOKENS_MAX)
    options = RuntimeOptions(seq_len_max=TOKENS_MAX)
    table = tokenizer.token_bytes(loaded.config.vocab_size)
    with (
        Engine.create(loaded, settings) as engine,
        Runtime(engine, chosen.slots, options, token_bytes=table) as runtime,
    ):
        zero_s, sent, begun = time.monotonic() + 1.0, 0, {}
        left = len(turns)
        while left:
            now_s = time.monotonic() - zero_s
            while sent < len(turns) and turns[sent].at_s <= now_s:
                one = turns[sent]
                begun[sent] = time.monotonic()
                runtime.submit(
                    one.prompt,
                    max_tokens=chosen.tokens,
                    seeds=[one.seed],
                    sampling=Sampling(),
                    user_ids=[sent],
                    stop_ids=list(tokenizer.eos_ids),
                    want_reward=False,
                )
                sent += 1
            next_s = turns[sent].at_s - now_s if sent < len(turns) else 1.0
            runtime.wait(max(1e-4, min(next_s, 0.1)))
            for ended in runtime.poll():
                turns[ended.user_id].direct_s = time.monotonic() - begun[ended.user_id]
                turns[ended.user_id].direct_ids = list(ended.tokens)
                left -= 1


def report(turns: list[Turn], cpu_s: float, writes: int, chosen: argparse.Namespace) -> None:
    """Print the figures."""
    gateway = np.array([turn.gateway_s for turn in turns]) * 1e3
    alone = np.array([turn.direct_s for turn in turns]) * 1e3
    same = sum(turn.ids == turn.direct_ids for turn in turns)
    rate = chosen.sessions / chosen.period
    print(f"{chosen.sessions} sessions, {len(turns)} turns at {rate:.0f} per second")
    for name, values in (("through the gateway", gateway), ("the runtime alone", alone)):
        p50, p95, p99 = np.percentile(values, [50, 95, 99])
        print(f"{name:22} p50 {p50:6.2f} ms   p95 {p95:6.2f} ms   p99 {p99:6.2f} ms")
    added = np.percentile(gateway, 50) - np.percentile(alone, 50)
    per_turn = np.median(gateway - alone)
    print(f"added at p50 {added:.2f} ms; median difference per turn {per_turn:.2f} ms")
    print(f"CPU time of the event loop per turn {1e3 * cpu_s / len(turns):.2f} ms")
    print(f"system calls that write, per turn {writes / len(turns):.1f}")
    print(f"token ids equal to the engine's: {same} of {len(turns)} turns")


def main() -> None:
    """Run both and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--period", type=float, default=4.0, help="seconds between turns")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--slots", type=int, default=256)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = write_model(folder)
        with service(folder, model, chosen.slots) as (url, pid):
            before_s, written = event_loop_cpu_s(pid), writes_of(pid)
            turns = asyncio.run(through_the_gateway(url, chosen))
            cpu_s, writes = event_loop_cpu_s(pid) - before_s, writes_of(pid) - written
        direct(folder, model, turns, chosen)
    report(turns, cpu_s, writes, chosen)


if __name__ == "__main__":
    main()
