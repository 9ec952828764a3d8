"""Drives an engine without the control core: for tests, benches and offline scoring.

A `Driver` owns a KV arena and hands out block ids in order; it never frees one. The control core
has the real allocator.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.layout import Sampler, SeqStep
from assay.rollout.library.binding import load
from assay.rollout.models.engine import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from assay.rollout.models.engine import Engine


@dataclass(frozen=True)
class TokenSampling:
    """Sampling parameters of a token; see sampler.h. temperature 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0


@dataclass
class Rollout:
    """One sequence: its block table and how many positions of it hold K and V."""

    blocks: list[int]
    sampling: TokenSampling = field(default_factory=TokenSampling)
    length: int = 0
    shared_blocks: int = 0


@dataclass(frozen=True)
class Produced:
    """Result of a step for one entry."""

    token: int
    logp: float
    policy_version: int


class Driver:
    """Runs batches of rollouts over an arena of `n_blocks` KV blocks."""

    def __init__(self, engine: Engine, n_blocks: int) -> None:
        self.engine = engine
        self._library = load()
        self._block_bytes = engine.info.kv_block_bytes
        self._block_tokens = engine.settings.block_tokens
        self._n_blocks = n_blocks
        self._next_block = 0
        # A KV arena may hold anything before its first use, NaN included.
        self._arena = np.full(n_blocks * self._block_bytes + 64, 0xFF, dtype=np.uint8)
        self._base = (self._arena.ctypes.data + 63) & ~63

    def new(self, positions_max: int, sampling: TokenSampling | None = None) -> Rollout:
        """An empty rollout with room for positions_max positions."""
        return Rollout(self._take(positions_max, 0), sampling or TokenSampling())

    def fork(self, prefix: Rollout, positions_max: int, sampling: TokenSampling) -> Rollout:
        """A rollout over the prefix's full blocks; its partial last block is copied."""
        full, rest = divmod(prefix.length, self._block_tokens)
        own = self._take(positions_max, full)
        if rest:
            self.copy_block(own[0], prefix.blocks[full], rest)
        return Rollout(prefix.blocks[:full] + own, sampling, prefix.length, full)

    def copy_block(self, target: int, source: int, n_positions: int) -> None:
        """Copy the first n_positions of a block."""
        self._library.assay_engine_kv_copy(
            self.engine.address, self._block(target), self._block(source), n_positions
        )

    def prefill(self, rollout: Rollout, tokens: Sequence[int], chunk: int) -> None:
        """Compute K and V of the tokens, `chunk` per step, without logits."""
        for at in range(0, len(tokens), chunk):
            self.step([rollout], [list(tokens[at : at + chunk])], want_logits=False)

    def step(
        self,
        rollouts: Sequence[Rollout],
        tokens: Sequence[Sequence[int]],
        *,
        want_logits: bool = True,
    ) -> list[Produced]:
        """One engine step: each rollout is fed its tokens."""
        entries, keep = self._entries(rollouts, tokens, want_logits=want_logits)
        status = self._library.assay_engine_step(
            self.engine.address, self._base, entries, len(rollouts)
        )
        self._check(status)
        del keep
        for rollout, fed in zip(rollouts, tokens, strict=True):
            rollout.length += len(fed)
        return [Produced(e.out_token, e.out_logp, e.policy_version) for e in entries]

    def decode(
        self, rollouts: Sequence[Rollout], first: Sequence[int], n_tokens: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """n_tokens steps in native code, each rollout fed its own last token.

        first: the first token fed to each rollout. Returns tokens and log-probs, (steps, rollouts).
        """
        entries, keep = self._entries(rollouts, [[token] for token in first], want_logits=True)
        tokens = np.zeros((n_tokens, len(rollouts)), np.int32)
        logps = np.zeros((n_tokens, len(rollouts)), np.float32)
        status = self._library.assay_engine_decode_run(
            self.engine.address,
            self._base,
            entries,
            len(rollouts),
            n_tokens,
            tokens.ctypes.data,
            logps.ctypes.data,
        )
        self._check(status)
        del keep
        for rollout in rollouts:
            rollout.length += n_tokens
        return tokens, logps

    def logits(self, index: int) -> NDArray[np.float32]:
        """Logits, (vocab_size,), of entry `index` of the last step."""
        address = self._library.assay_engine_logits(self.engine.address, index)
        if not address:
            raise EngineError(-1, f"entry {index} of the last step asked for no logits")
        raw = (ctypes.c_float * self.engine.config.vocab_size).from_address(address)
        return np.array(raw, dtype=np.float32)

    def _take(self, positions_max: int, already: int) -> list[int]:
        n = -(-positions_max // self._block_tokens) - already
        if self._next_block + n > self._n_blocks:
            raise MemoryError(f"the driver's {self._n_blocks} KV blocks are used up")
        taken = list(range(self._next_block, self._next_block + n))
        self._next_block += n
        return taken

    def _block(self, block: int) -> int:
        return self._base + block * self._block_bytes

    def _check(self, status: int) -> None:
        if status != 0:
            text = self._library.assay_engine_status_text(status)
            raise EngineError(status, text.decode())

    def _entries(
        self,
        rollouts: Sequence[Rollout],
        tokens: Sequence[Sequence[int]],
        *,
        want_logits: bool,
    ) -> tuple[ctypes.Array[SeqStep], list[object]]:
        """The batch as C structures, and the buffers that must outlive the call."""
        entries = (SeqStep * len(rollouts))()
        keep: list[object] = []
        for entry, rollout, fed in zip(entries, rollouts, tokens, strict=True):
            ids = np.asarray(fed, dtype=np.int32)
            table = np.asarray(rollout.blocks, dtype=np.uint32)
            how = rollout.sampling
            sampler = Sampler(
                temperature=how.temperature,
                top_p=how.top_p,
                min_p=how.min_p,
                top_k=how.top_k,
                seed=how.seed,
            )
            entry.tokens = ids.ctypes.data
            entry.n_tokens = len(ids)
            entry.pos0 = rollout.length
            entry.block_table = table.ctypes.data
            entry.n_blocks = len(table)
            entry.shared_blocks = rollout.shared_blocks
            entry.want_logits = want_logits
            entry.sampler = ctypes.pointer(sampler)
            keep += [ids, table, sampler]
        return entries, keep
