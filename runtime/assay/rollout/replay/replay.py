"""Repeats a rollout from its receipt, alone on an engine of its own, and compares every bit.

If the result differs, the reasons are reported: a changed field of the receipt,
other weights, another build or instruction set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.rollout.library.binding import build_id
from assay.rollout.library.engines import libc
from assay.rollout.models.driver import Driver, TokenSampling
from assay.rollout.models.engine import Engine, EngineError, EngineSettings, Isa
from assay.rollout.models.model import DType
from assay.rollout.models.staging import digest_of, weights_sha256

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.rollout.interface.receipts import Receipt, RolloutRecord
    from assay.rollout.models.model import Model

PREFILL_CHUNK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Result of a replay. `differs_at` is the first token that differs; `None`: none differs, or
    nothing could be computed."""

    reproduced: bool
    tokens: int
    differs_at: int | None
    reasons: tuple[str, ...]
    """Why it differs or could not be tried; if it was reproduced, what is different here."""


def replay(record: RolloutRecord, model: Model, *, threads: int = 0) -> Replayed:
    """Repeat the rollout with `model` and compare every token and log-prob."""
    receipt, count = record.receipt, len(record.tokens)
    refusals = _refusals(record, model)
    if refusals:
        return Replayed(reproduced=False, tokens=count, differs_at=None, reasons=refusals)
    notes = _other_code(receipt)
    try:
        tokens, logps = _make(record, model, threads)
    except EngineError as error:  # mostly an instruction set that this machine lacks
        reasons = (*notes, f"engine: {error}")
        return Replayed(reproduced=False, tokens=count, differs_at=None, reasons=reasons)
    apart = tokens != np.array(record.tokens, np.int32)
    apart |= logps.view(np.uint32) != np.array(record.logps, np.float32).view(np.uint32)
    at = int(apart.argmax()) if apart.any() else None
    if at is not None and not notes:
        notes = ("none of the recorded facts differs: the machine computes other bits",)
    return Replayed(reproduced=at is None, tokens=count, differs_at=at, reasons=notes)


def _refusals(record: RolloutRecord, model: Model) -> tuple[str, ...]:
    """Reasons that make a comparison meaningless."""
    receipt = record.receipt
    if record.altered:
        return tuple(f"{name}: changed after the receipt was written" for name in record.altered)
    if not receipt.one_version:
        return (f"weights: they changed under it (versions {list(receipt.versions)})",)
    if _isa(receipt) is None:
        return (f"isa: {receipt.engine.isa} decodes no model here",)
    found = weights_sha256(model.form_sha256(), digest_of(model))
    if receipt.weights and receipt.weights[0] != found:
        return (f"weights: {found[:16]}, the receipt names {receipt.weights[0][:16]}",)
    return ()


def _isa(receipt: Receipt) -> Isa | None:
    return Isa.__members__.get(receipt.engine.isa.upper())


def _other_code(receipt: Receipt) -> tuple[str, ...]:
    engine, reasons = receipt.engine, []
    if engine.build != build_id():
        reasons.append(f"build: {build_id()[:16]}, the receipt names {engine.build[:16]}")
    if engine.libc != libc():
        reasons.append(f"libc: {libc()}, the receipt names {engine.libc}")
    return tuple(reasons)


def _make(
    record: RolloutRecord, model: Model, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    receipt, count = record.receipt, len(record.tokens)
    positions = len(record.prompt) + count
    settings = EngineSettings(
        weight_dtype=DType[receipt.engine.weight_dtype],
        kv_dtype=DType[receipt.engine.kv_dtype],
        isa=_isa(receipt) or Isa.AUTO,
        threads=threads,
        batch_max=1,
        step_tokens_max=PREFILL_CHUNK,
        seq_len_max=positions,
    )
    sampling = TokenSampling(
        temperature=receipt.temperature,
        top_k=receipt.top_k,
        top_p=receipt.top_p,
        min_p=receipt.min_p,
        seed=receipt.seed,
    )
    if count == 0:
        return np.empty(0, np.int32), np.empty(0, np.float32)
    with Engine.create(model, settings) as engine:
        driver = Driver(engine, -(-positions // settings.block_tokens))
        rollout = driver.new(positions, sampling)
        driver.prefill(rollout, record.prompt[:-1], PREFILL_CHUNK)
        tokens, logps = driver.decode([rollout], [record.prompt[-1]], count)
    return tokens[:, 0], logps[:, 0]
