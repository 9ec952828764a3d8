"""Limits of a CUDA engine, and what its memory is divided into; pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.rollout.cuda.link import Limits
from assay.rollout.cuda.sizes import Sizes, Tuning
from assay.rollout.interface.checks import check_integer, check_number


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaOptions:
    """Limits of one engine."""

    slots: int = 256
    """Rollouts alive at once."""
    seq_len_max: int = 4096
    """Tokens of prompt and response together."""
    kv_blocks: int | None = None
    """Blocks of the KV arena; None: enough for every decoding rollout at full length."""
    decode_credits: int | None = None
    """Rollouts decoding at once; None: the smaller of `slots` and the rows of a step."""
    reward_credits: int | None = None
    """Rollouts waiting for a score; None: `slots`."""
    trajectory_credits: int | None = None
    """Ended rollouts not yet polled; None: `slots`."""
    prefill_chunk: int = 128
    """Prompt tokens that a step may prefill beside its decode rows."""
    sm_max: int | None = None
    """Multiprocessors of the kernel; None: all. Fewer leave the rest to other kernels."""
    hang_s: float = 10.0
    """Silence of the kernel's heartbeat after which it counts as hung."""
    weight_slots: int = 2
    """1: staging is refused, and half of the weights' memory is saved."""
    tuning: Tuning = field(default_factory=Tuning)
    trace_events_max: int = 1 << 16
    """Instants that the trace keeps; a power of two."""
    generation_first: int = 1
    index_first: int = 0

    def check(self) -> None:
        """Refuse impossible limits.

        Raises:
            InvalidRollout: `field` names the limit.
        """
        check_integer("slots", self.slots, 1, 1 << 16)
        check_integer("seq_len_max", self.seq_len_max, 2, 1 << 20)
        check_integer("prefill_chunk", self.prefill_chunk, 1, self.tuning.rows)
        check_integer("weight_slots", self.weight_slots, 1, 2)
        check_integer("generation_first", self.generation_first, 1, (1 << 32) - 1)
        check_integer("index_first", self.index_first, 0, (1 << 64) - 1)
        check_integer("trace_events_max", self.trace_events_max.bit_count(), 1, 1)
        check_integer("trace_events_max", self.trace_events_max, 2, 1 << 24)
        check_number("hang_s", self.hang_s, 0.1, 3600.0)
        for name in (
            "kv_blocks",
            "decode_credits",
            "reward_credits",
            "trajectory_credits",
            "sm_max",
        ):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 1, 1 << 30)

    def limits(self, sizes: Sizes) -> Limits:
        """As the kernel reads them."""
        decode = min(self.slots, self.decode_credits or self.tuning.rows, self.tuning.rows)
        width = -(-self.seq_len_max // sizes.tuning.block_tokens)
        return Limits(
            slots=self.slots,
            seq_max=self.seq_len_max,
            kv_blocks=self.kv_blocks or decode * width,
            decode_credits=decode,
            reward_credits=self.reward_credits or self.slots,
            trajectory_credits=self.trajectory_credits or self.slots,
            generation_first=self.generation_first,
            prefill_chunk=self.prefill_chunk,
            index_first=self.index_first,
            trace_events=self.trace_events_max,
        )
