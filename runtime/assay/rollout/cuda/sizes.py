"""Every size and offset of one kernel, computed once and handed to its compiler as constants; pure.

Matrices are padded with zeros to whole tiles (16 outputs, 32 inputs), the model's width to 32, and
heads so that they are whole eights and all queries of a row whole tiles; an offset is in bytes. The
kernel's sources hold no number of their own: what is here is the only copy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from assay.rollout.interface.checks import check_integer
from assay.rollout.models.errors import UnsupportedModel

if TYPE_CHECKING:
    from assay.rollout.models.model import ModelConfig

_LINE: Final = 256
_ROW_LINE: Final = 16
"""Eight rows of it are whole lines of the cache."""
HEAD_DIM_MAX: Final = 256
RANK_MAX: Final = 256
SHARED_BYTES_MAX: Final = 227 * 1024
"""Dynamic shared memory of a block on sm_90, sm_100 and sm_103."""
SHARED_BYTES_GENERAL: Final = 99 * 1024
"""The same where it is least: sm_86, sm_89, sm_120."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """How the kernel is cut; the defaults are for sm_90 and later."""

    rows: int = 256
    """Token rows of a step: decoding rollouts and prompt positions together; a multiple of 8."""
    block_tokens: int = 16
    """Positions of a KV block; a multiple of 8."""
    chunk: int = 32
    """Positions whose keys and values a warp reads at once; a multiple of 32."""
    threads: int = 256
    """Workers of a block; one more warp brings weights."""
    slice: int = 1024
    """Logits that one warp reduces."""
    piece: int = 16
    """KiB of weights that the copy engine brings at once; a multiple of a block's warps."""
    stages: int = 8
    """Pieces in a block's ring of weights."""
    dataflow_rows: int = 8
    """Most rows of a decode step whose blocks wait for words instead of at barriers; 0: none."""
    wide: int = 5
    """Attention's chunks per two warps from which one warp takes all chunks of a segment; 0:
    never."""
    adapter_rank: int = 0
    """Highest rank of a LoRA adapter; 0: none can be staged, and the kernel has no code for one."""
    general: bool = False
    """For devices from sm_80 on: without sm_90's copy engine and its handing over of registers."""

    @property
    def feeder(self) -> int:
        """Threads of a block beside its workers: a warp, or a group of four warps where registers
        are handed out by such groups."""
        return 32 if self.general else 128

    def for_less(self) -> Tuning:
        """The general kernel, whose ring of weights fits where shared memory is least."""
        return replace(self, general=True, piece=min(self.piece, 8), stages=min(self.stages, 4))


EMULATED: Final = Tuning(rows=16, block_tokens=8, chunk=32, threads=64, slice=64, piece=2, stages=4)
"""For the host build, where a thread is a fiber."""


def up(n: int, to: int) -> int:
    """The next multiple."""
    return -(-n // to) * to


@dataclass(frozen=True)
class Sizes:
    """Of a model, a tuning and a longest sequence."""

    config: ModelConfig
    tuning: Tuning = field(default_factory=Tuning)
    seq_max: int = 4096

    def __post_init__(self) -> None:
        """Refuse what the kernel does not take.

        Raises:
            UnsupportedModel: names the part of the model.
            InvalidRollout: `rows` or `seq_max`.
        """
        c = self.config
        if self.head_dim > HEAD_DIM_MAX:
            raise UnsupportedModel(
                f"the CUDA kernel needs head_dim up to {HEAD_DIM_MAX}, not {c.head_dim}"
            )
        check_integer("rows", self.tuning.rows // 8, 1, 128)
        check_integer("seq_max", self.seq_max, 2, c.positions_max)
        check_integer("dataflow_rows", self.tuning.dataflow_rows, 0, min(8, self.tuning.rows))
        check_integer("adapter_rank", self.tuning.adapter_rank, 0, RANK_MAX)

    @property
    def dim(self) -> int:
        """Width of a state, padded to 32."""
        return up(self.config.dim, 32)

    @property
    def head_dim(self) -> int:
        """Padded, each half of a head for itself."""
        return up(self.config.head_dim, max(8, 32 // math.gcd(32, self.config.n_heads)))

    @property
    def q_dim(self) -> int:
        return self.config.n_heads * self.head_dim

    @property
    def kv_dim(self) -> int:
        return self.config.n_kv_heads * self.head_dim

    @property
    def extras(self) -> str:
        """What it costs beyond a shape that the kernel was cut for; empty: nothing."""
        c = self.config
        widths = {"dim": (c.dim, self.dim), "head_dim": (c.head_dim, self.head_dim)}
        found = [f"{name} {n} is padded to {to}" for name, (n, to) in widths.items() if n != to]
        found += [name for name in ("out_bias", "mlp_bias") if getattr(c, name)]
        return ", ".join(found)

    @property
    def qkv_outputs(self) -> int:
        return up(self.q_dim + 2 * self.kv_dim, 16)

    @property
    def hidden(self) -> int:
        return up(self.config.hidden_dim, 32)

    @property
    def vocab_outputs(self) -> int:
        return up(self.config.vocab_size, 16)

    @property
    def rank(self) -> int:
        """Rows of A of one projection: whole eights."""
        return up(self.tuning.adapter_rank, 8)

    def low(self, projections: int) -> int:
        """Width of A x where so many projections have one input."""
        return up(projections * self.rank, 32)

    @cached_property
    def adapter(self) -> dict[str, int]:
        """Offsets in a layer of an adapter; `ADAPTER_LAYER_BYTES` is its size."""
        parts = {
            "QKV": (self.low(3), self.dim, self.qkv_outputs),
            "OUT": (self.low(1), self.q_dim, self.dim),
            "GATE_UP": (self.low(2), self.dim, 2 * self.hidden),
            "DOWN": (self.low(1), self.hidden, self.dim),
        }
        sizes = {}
        for name, (low, inputs, outputs) in parts.items():
            sizes[f"{name}_A"] = 2 * low * inputs
            sizes[f"{name}_B"] = 2 * outputs * low
        return _places(sizes, "ADAPTER_LAYER_BYTES")

    @property
    def chunks_max(self) -> int:
        return -(-self.seq_max // self.tuning.chunk)

    @property
    def slices(self) -> int:
        return -(-self.config.vocab_size // self.tuning.slice)

    @cached_property
    def layer(self) -> dict[str, int]:
        """Offsets in a layer's weights; `LAYER_BYTES` is its size."""
        c = self.config
        return _places(
            {
                "QKV_WEIGHTS": 2 * self.qkv_outputs * self.dim,
                "OUT_WEIGHTS": 2 * self.dim * self.q_dim,
                "GATE_UP_WEIGHTS": 4 * self.hidden * self.dim,
                "DOWN_WEIGHTS": 2 * self.dim * self.hidden,
                "ATTN_NORM": 4 * self.dim,
                "FFN_NORM": 4 * self.dim,
                "Q_NORM": 4 * self.head_dim,
                "K_NORM": 4 * self.head_dim,
                "QKV_BIAS": 4 * self.qkv_outputs,
                "OUT_BIAS": 4 * self.dim * c.out_bias,
                "GATE_UP_BIAS": 8 * self.hidden * c.mlp_bias,
                "DOWN_BIAS": 4 * self.dim * c.mlp_bias,
            },
            "LAYER_BYTES",
        )

    @cached_property
    def model(self) -> dict[str, int]:
        """Offsets in one slot of weights; `WEIGHT_BYTES` is its size."""
        c = self.config
        embed = 2 * self.vocab_outputs * self.dim
        places = _places(
            {
                "EMBED": embed,
                "HEAD": 0 if c.tied_embeddings else embed,
                "FINAL_NORM": 4 * self.dim,
                "LAYERS": c.n_layers * self.layer["LAYER_BYTES"],
            },
            "WEIGHT_BYTES",
        )
        return {**places, "HEAD": places["EMBED"]} if c.tied_embeddings else places

    @cached_property
    def exchange(self) -> dict[str, int]:
        """Offsets of what blocks give each other in a layer, in bytes per row.

        `ROW_BYTES` is the sum. `IN` enters the layer, `MID` its gated network.
        """
        dim = self.dim
        residual = {"RESIDUAL": 4 * dim, "NORMED": 2 * dim, "SQUARES": 4 * (dim // 16)}
        widths = {
            **{f"{name}_IN": n for name, n in residual.items()},
            "QKV": 4 * (self.q_dim + 2 * self.kv_dim),
            "ATTENDED": 2 * self.q_dim,
            **{f"{name}_MID": n for name, n in residual.items()},
            "GATED": 2 * self.hidden,
            "LOW_QKV": 2 * self.low(3),
            "LOW_OUT": 2 * self.low(1),
            "LOW_GATE_UP": 2 * self.low(2),
            "LOW_DOWN": 2 * self.low(1),
        }
        return _places(widths, "ROW_BYTES", line=_ROW_LINE)

    @cached_property
    def scratch(self) -> dict[str, int]:
        """Offsets in the scratch; `SCRATCH_BYTES` is its size."""
        c, rows, flowing = self.config, self.tuning.rows, self.tuning.dataflow_rows
        part = c.n_heads * self.chunks_max * (self.head_dim + 2)
        row_bytes = self.exchange["ROW_BYTES"]
        return _places(
            {
                "EXCHANGE": rows * row_bytes,
                "DATAFLOW": 2 * (c.n_layers + 1) * flowing * row_bytes,
                "LOGITS": 4 * rows * c.vocab_size,
                "PARTS": 8 * rows * part,
                "TURNED": 2 * rows * self.q_dim,
                "SLICES": 12 * rows * self.slices,
                "TOKENS": 4 * rows,
                "LOGPS": 4 * rows,
            },
            "SCRATCH_BYTES",
        )

    @property
    def state_head(self) -> int:
        """At least the size of `assay_kernel_state`, which its lists follow."""
        return up(1024 + 84 * self.tuning.rows, _LINE)

    def state_bytes(self, slots: int, kv_blocks: int) -> int:
        """The kernel's own memory (`set_up` in kernel.cu)."""
        width = -(-self.seq_max // self.tuning.block_tokens)
        per_slot = (384, 40, 24, 52, 8 * width, 4, 4)
        others = (4 * kv_blocks, 4 * self.tuning.rows)
        sizes = (*(slots * size for size in per_slot), *others)
        return self.state_head + sum(up(size, 64) for size in sizes)

    def kv_block_bytes(self) -> int:
        """Keys and values of one block, all layers."""
        return 4 * self.config.n_layers * self.tuning.block_tokens * self.kv_dim

    def bytes_a_step(self, contexts: list[int]) -> int:
        """Fewest bytes that one decode step reads: weights once, keys and values of each
        context."""
        c = self.config
        head = 2 * c.vocab_size * c.dim
        q_dim, kv_dim = c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim
        layer = 2 * c.dim * (q_dim + 2 * kv_dim + q_dim + 3 * c.hidden_dim)
        return head + c.n_layers * (layer + 4 * kv_dim * sum(contexts))

    @cached_property
    def defines(self) -> dict[str, str]:
        """The constants of the sources."""
        c, t = self.config, self.tuning
        numbers = {
            "DIM": self.dim,
            "NORM_DIM": c.dim,
            "LAYERS": c.n_layers,
            "HEADS": c.n_heads,
            "KV_HEADS": c.n_kv_heads,
            "HEAD_DIM": self.head_dim,
            "NORM_HEAD_DIM": c.head_dim,
            "HIDDEN": self.hidden,
            "VOCAB": c.vocab_size,
            "QK_NORM": int(c.qk_norm),
            "QKV_BIAS": int(c.qkv_bias),
            "OUT_BIAS": int(c.out_bias),
            "MLP_BIAS": int(c.mlp_bias),
            "GENERAL": int(t.general),
            "ROWS": t.rows,
            "BLOCK": t.block_tokens,
            "CHUNK": t.chunk,
            "CHUNKS_MAX": self.chunks_max,
            "THREADS": t.threads,
            "SLICE": t.slice,
            "PIECE": t.piece,
            "STAGES": t.stages,
            "DATAFLOW_ROWS": t.dataflow_rows,
            "WIDE": t.wide,
            "QKV_OUTPUTS": self.qkv_outputs,
            "VOCAB_OUTPUTS": self.vocab_outputs,
            "RANK": self.rank,
            "LOW_QKV": self.low(3),
            "LOW_GATE_UP": self.low(2),
            "LOW_ONE": self.low(1),
        }
        defines = {f"A_{name}": f"{value}u" for name, value in numbers.items()}
        defines["A_EPS"] = f"{c.rms_eps:.9e}f"
        defines["A_SCORE_SCALE"] = f"{c.head_dim**-0.5:.9e}f"
        defines["A_STATE_BYTES"] = f"{self.state_head}ull"
        exchange = dict(self.exchange)
        defines["A_ROW_BYTES"] = f"{exchange.pop('ROW_BYTES')}ull"
        defines |= {f"A_ROW_AT_{name}": f"{at}ull" for name, at in exchange.items()}
        places = {**self.layer, **self.model, **self.scratch, **self.adapter}
        for name in ("LAYER_BYTES", "WEIGHT_BYTES", "SCRATCH_BYTES", "ADAPTER_LAYER_BYTES"):
            defines[f"A_{name}"] = f"{places.pop(name)}ull"
        return defines | {f"A_AT_{name}": f"{at}ull" for name, at in places.items()}


def _places(bytes_of: dict[str, int], total: str, *, line: int = _LINE) -> dict[str, int]:
    places, at = {}, 0
    for name, size in bytes_of.items():
        places[name] = at
        at = up(at + size, line)
    return {**places, total: at}
