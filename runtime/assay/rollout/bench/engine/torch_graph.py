"""A decode step of torch captured in a CUDA graph: what the persistent kernel is measured beside.

The same shape in bf16 with random weights, fused weights of queries, keys and values and of gates
and ups, keys and values at fixed places, torch's own attention for grouped heads over exactly the
context, a token sampled at temperature 1 and its log-prob. One graph per batch, replayed; nothing
is compiled by inductor.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from assay.rollout.models.model import ModelConfig

Tensor: TypeAlias = Any
"""`torch.Tensor`: torch is an extra."""
_WARM_UPS = 3


@dataclass(frozen=True, slots=True)
class _Layer:
    attn_norm: Tensor
    qkv: Tensor
    qk_norm: Tensor
    out: Tensor
    ffn_norm: Tensor
    gate_up: Tensor
    down: Tensor


class GraphedTorch:
    """Raises what torch raises without a GPU; `assay[torch]` brings it."""

    def __init__(self, config: ModelConfig, batch: int, context: int) -> None:
        import torch

        self._torch, self._c = torch, config
        self._batch, self._context = batch, context
        with torch.device("cuda"), torch.inference_mode():
            self._layers = [self._random_layer() for _ in range(config.n_layers)]
            self._head = self._random(config.vocab_size, config.dim)
            self._norm = self._ones(config.dim)
            self._tokens = torch.zeros(batch, dtype=torch.long)
            self._logps = torch.zeros(batch)
            shape = (2, config.n_layers, batch, config.n_kv_heads, context, config.head_dim)
            self._cache = self._random(*shape)
            self._place = torch.tensor([context - 1])
            self._cosine, self._sine = self._turns()
            self._graph = self._capture()

    def _random(self, *shape: int) -> Tensor:
        return self._torch.randn(shape, dtype=self._torch.bfloat16) * 0.02

    def _ones(self, *shape: int) -> Tensor:
        return self._torch.ones(shape, dtype=self._torch.bfloat16)

    def _random_layer(self) -> _Layer:
        c = self._c
        q_dim, kv_dim = c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim
        return _Layer(
            attn_norm=self._ones(c.dim),
            qkv=self._random(q_dim + 2 * kv_dim, c.dim),
            qk_norm=self._ones(c.n_heads + c.n_kv_heads, c.head_dim),
            out=self._random(c.dim, q_dim),
            ffn_norm=self._ones(c.dim),
            gate_up=self._random(2 * c.hidden_dim, c.dim),
            down=self._random(c.dim, c.hidden_dim),
        )

    def _turns(self) -> tuple[Tensor, Tensor]:
        torch, c = self._torch, self._c
        powers = torch.arange(0, c.head_dim, 2, dtype=torch.float32) / c.head_dim
        angles = (self._context - 1) * c.rope_theta**-powers
        both = torch.cat([angles, angles])
        return both.cos().bfloat16(), both.sin().bfloat16()

    def _attend(self, layer: _Layer, index: int, x: Tensor) -> Tensor:
        torch, c = self._torch, self._c
        heads, size = c.n_heads + c.n_kv_heads, c.head_dim
        functional = torch.nn.functional
        qkv = functional.linear(x, layer.qkv).view(self._batch, -1, size)
        turned = functional.rms_norm(qkv[:, :heads], (size,), eps=c.rms_eps) * layer.qk_norm
        half = torch.cat([-turned[..., size // 2 :], turned[..., : size // 2]], dim=-1)
        turned = turned * self._cosine + half * self._sine
        keys, values = self._cache[0, index], self._cache[1, index]
        keys.index_copy_(2, self._place, turned[:, c.n_heads :, None])
        values.index_copy_(2, self._place, qkv[:, heads:, None])
        mixed = functional.scaled_dot_product_attention(
            turned[:, : c.n_heads, None], keys, values, enable_gqa=True
        )
        return functional.linear(mixed.reshape(self._batch, -1), layer.out)

    def _step(self) -> None:
        torch, c = self._torch, self._c
        functional = torch.nn.functional
        x = functional.embedding(self._tokens, self._head)
        for index, layer in enumerate(self._layers):
            normed = functional.rms_norm(x, (c.dim,), layer.attn_norm, c.rms_eps)
            x = x + self._attend(layer, index, normed)
            normed = functional.rms_norm(x, (c.dim,), layer.ffn_norm, c.rms_eps)
            gate, up = functional.linear(normed, layer.gate_up).chunk(2, dim=-1)
            x = x + functional.linear(functional.silu(gate) * up, layer.down)
        x = functional.rms_norm(x, (c.dim,), self._norm, c.rms_eps)
        logps = functional.linear(x, self._head).float().log_softmax(-1)
        drawn = (logps.exp() / torch.empty_like(logps).exponential_()).argmax(-1)
        self._logps.copy_(logps.gather(-1, drawn[:, None])[:, 0])
        self._tokens.copy_(drawn)

    def _capture(self) -> Tensor:
        torch = self._torch
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        return graph

    def handed_over(self, steps: int, *, graphed: bool) -> tuple[float, float]:
        """Seconds of a step that the host starts and whose token it reads before the next: as one
        graph, or kernel by kernel; and of this process's CPU time."""
        torch = self._torch
        step = self._graph.replay if graphed else self._step
        with torch.device("cuda"), torch.inference_mode():
            for _ in range(_WARM_UPS):
                step()
            torch.cuda.synchronize()
            began, cpu = time.perf_counter(), time.process_time()
            for _ in range(steps):
                step()
                self._tokens[0].item()
            ended, cpu_ended = time.perf_counter(), time.process_time()
        return (ended - began) / steps, (cpu_ended - cpu) / steps

    def seconds_per_step(self, steps: int) -> float:
        """Of `steps` replays, by the device's events."""
        torch = self._torch
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.inference_mode():
            self._graph.replay()
            first.record()
            for _ in range(steps):
                self._graph.replay()
            last.record()
            torch.cuda.synchronize()
        return float(first.elapsed_time(last)) / 1e3 / steps
