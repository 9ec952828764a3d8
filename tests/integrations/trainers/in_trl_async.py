"""Trains a small random model for five steps with TRL's AsyncGRPOTrainer and Assay's rewards.

`in_trl_async.py`. TRL's own rollout worker runs: its child process, to which the reward function is
pickled, its group-by-group scoring, its queue, and the trainer's loss. Two things need a GPU and
are replaced: the vLLM server, by one that says random words, and the attention kernel, by the same
function in PyTorch. Prints, as JSON, the rewards and advantages of each group that was trained on.
"""

import json
import math
import random
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from in_trl import GROUP, STEPS  # type: ignore[import-not-found]  # beside this program
from in_trl_tools import ANSWERS, model, tokenizer  # type: ignore[import-not-found]
from trl.experimental.async_grpo import (
    AsyncGRPOConfig,
    AsyncGRPOTrainer,
    async_grpo_trainer,
    async_rollout_worker,
)

from assay.integrations.trainers.trl import Reward


class NoTransfer:
    """A `weight_transfer` for a server without weights."""

    def init_weight_transfer(self) -> None:
        """Nothing to open."""

    def pause(self) -> None: ...

    def send_weights(self, iterator: Iterator[Any]) -> None:
        """Read all, as a transfer does."""
        for _ in iterator:
            pass

    def resume(self) -> None:
        """Nothing was paused."""

    def destroy(self) -> None:
        """Nothing was opened."""


class Speaker(BaseHTTPRequestHandler):
    """What TRL's worker asks of a vLLM server; each completion is one of the last words."""

    first = 0

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["return_token_ids"]
        drawn = random.Random(asked.get("seed"))  # TRL sends one since 1.14
        said = self.first + drawn.randrange(len(ANSWERS))
        logprobs = {"token_logprobs": [-math.log(len(ANSWERS))]}
        body = json.dumps({"choices": [{"token_ids": [said], "logprobs": logprobs}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing: the last line of the output is the result."""


@contextmanager
def speaking(first: int) -> Iterator[str]:
    """The URL of such a server; `first` is the id of the first word that it says."""
    Speaker.first = first
    server = ThreadingHTTPServer(("127.0.0.1", 0), Speaker)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def attention(
    query: Any, key: Any, value: Any, q_ends: Any, k_ends: Any, *_lengths: int, **options: Any
) -> Any:
    """`flash_attn_varlen_func`: causal from the right end of each segment; (tokens, heads, dim)."""
    parts = []
    for i in range(len(q_ends) - 1):
        q = query[q_ends[i] : q_ends[i + 1]].transpose(0, 1)
        k, v = (one[k_ends[i] : k_ends[i + 1]].transpose(0, 1) for one in (key, value))
        k, v = (one.repeat_interleave(q.shape[0] // one.shape[0], dim=0) for one in (k, v))
        asked, there = q.shape[1], k.shape[1]
        seen = torch.ones(asked, there, dtype=torch.bool).tril(there - asked)
        weights = (q @ k.transpose(1, 2)) * options["softmax_scale"]
        weights = weights.masked_fill(~seen, -math.inf).softmax(dim=-1)
        parts.append((weights @ v).transpose(0, 1))
    return torch.cat(parts)


class Watched:
    """The queue of samples; remembers what the trainer took from it."""

    def __init__(self, samples: Any) -> None:
        self._samples = samples
        self.groups: dict[int, list[tuple[float, float]]] = defaultdict(list)

    def get(self, *arguments: Any, **options: Any) -> Any:
        sample = self._samples.get(*arguments, **options)
        self.groups[sample.group_id].append((sample.metrics["reward"], sample.advantage))
        return sample

    def __getattr__(self, name: str) -> Any:
        return getattr(self._samples, name)


def without_kernel() -> None:
    """Put `attention` in the kernel's place; before 1.14, where TRL names a kernel, PyTorch's."""
    try:
        from trl.experimental.async_grpo import packing
    except ImportError:
        made = async_grpo_trainer.create_model_from_path
        async_grpo_trainer.create_model_from_path = lambda path, **options: made(
            path, **{**options, "attn_implementation": "eager"}
        )
    else:
        packing._flash_attn = lambda: SimpleNamespace(flash_attn_varlen_func=attention)


def main() -> None:
    words = tokenizer(list(ANSWERS))
    async_rollout_worker.is_vllm_available = lambda: True  # it asks for the package, and uses HTTP
    async_grpo_trainer.get_peak_flops_per_device = lambda *_: None  # a figure of GPUs
    without_kernel()
    with tempfile.TemporaryDirectory() as folder, speaking(len(words) - len(ANSWERS)) as url:
        model(len(words)).save_pretrained(folder)
        trainer = AsyncGRPOTrainer(
            model=folder,
            reward_funcs=Reward("math", reference="answer"),
            args=AsyncGRPOConfig(
                output_dir=folder,
                max_steps=STEPS,
                per_device_train_batch_size=GROUP,
                gradient_accumulation_steps=1,
                num_generations=GROUP,
                max_completion_length=4,
                max_staleness=STEPS,
                token_budget=0,
                vllm_server_base_url=url,
                use_cpu=True,
                bf16=False,
                report_to=[],
                save_strategy="no",
                logging_steps=1,
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict(
                {"prompt": [[{"role": "user", "content": "2 + 3?"}]] * 8, "answer": ["5"] * 8}
            ),
            processing_class=words,
            weight_transfer=NoTransfer(),
        )
        trainer.rollout_queue = watched = Watched(trainer.rollout_queue)
        trainer.train()
        steps = trainer.state.global_step
    groups = [one for one in watched.groups.values() if len(one) == GROUP][:STEPS]
    print(
        json.dumps(
            {
                "steps": steps,
                "rewards": [[None if r != r else r for r, _ in one] for one in groups],
                "advantages": [[advantage for _, advantage in one] for one in groups],
            }
        )
    )


if __name__ == "__main__":
    main()
