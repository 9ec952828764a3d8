"""Engines on a GPU in processes of their own: a process has one of them per device, and the
conformance suite asks what a rollout is alone, while its subject runs."""

from __future__ import annotations

import atexit
import functools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.rollout.cuda.building import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.rollout import Sampling
    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.models import Model

WAIT_S = 120.0
_opened: list[CudaEngine] = []


def _open(make: Callable[..., CudaEngine], model: Model, options: dict[str, Any]) -> None:
    engine = make(model, **options)
    atexit.register(engine.close)
    _opened.append(engine)


def _tokens(prompt: list[int], n: int, seed: int, sampling: Sampling) -> list[int]:
    (engine,) = _opened
    engine.submit(prompt, max_tokens=n, seeds=[seed], sampling=sampling, want_reward=False)
    return list(ended(engine, 1)[0].tokens)


class Elsewhere:
    """One engine in one process, opened by its first rollout."""

    def __init__(self, make: Callable[..., CudaEngine], model: Model, **options: Any) -> None:
        self._pool = ProcessPoolExecutor(
            1,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_open,
            initargs=(make, model, options),
        )
        atexit.register(self._pool.shutdown)

    def tokens(self, prompt: list[int], n: int, seed: int, sampling: Sampling) -> list[int]:
        return self._pool.submit(_tokens, prompt, n, seed, sampling).result(WAIT_S)


@functools.cache
def elsewhere(
    make: Callable[..., CudaEngine], of: Callable[[int], Model], version: int, **options: Any
) -> Elsewhere:
    """The same for the same arguments, so that a suite starts each once."""
    return Elsewhere(make, of(version), **options)
