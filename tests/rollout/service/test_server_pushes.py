"""Weights pushed through the service to a remote engine, beside the same pushes to a native one.

Each server is a real one in front of our engine: Assay's own, and the routes of vLLM and SGLang.
What decides is equality: the same pushes to the native service give the same tokens and log-probs.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("fastapi")
pytest.importorskip("httpx")
pytest.importorskip("tokenizers")

import numpy as np
from tests.rollout import sglang_server, vllm_server
from tests.rollout.service.test_pushes import tensors
from tests.rollout.service.test_remote_engine import Own, said, service
from tests.rollout.service.test_service import prompts, take
from tests.rollout.serving import serving
from tests.rollout.test_adapter_files import LORA, lora_arrays

from assay.client.rollouts import SamplingParams, Weight
from assay.core.errors import AssayError, FailedPrecondition, InvalidRequest
from assay.rollout import Runtime, RuntimeOptions
from assay.rollout.demo.checkpoint import write_folder
from assay.rollout.demo.transformer import Shape, initial
from assay.rollout.models import DType, Engine, load_model, tensors_of
from assay.rollout.models.engine import EngineSettings
from assay.rollout.server.app import Served, build_app
from assay.rollout.server.command import _stage_below

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKENS_MAX = 64
SHAPE = Shape(dim=64, layers=1, hidden=64, positions=TOKENS_MAX)
SAMPLED = SamplingParams(temperature=0.9, max_tokens=8)
ADAPTER: dict[str, Any] = {**LORA, "target_modules": "all-linear"}
TAKES = {"assay": "lora", "vllm": "lora", "sglang": "full"}


@contextmanager
def served(dialect: str, base: Path, pushed: Path) -> Iterator[tuple[str, Any]]:
    """The URL of a server with this API, and its application."""
    settings = EngineSettings(weight_dtype=DType.F32, threads=1, seq_len_max=TOKENS_MAX)
    with ExitStack() as stack:
        engine = stack.enter_context(Engine.create(load_model(base), settings))
        bounds = RuntimeOptions(seq_len_max=TOKENS_MAX)
        runtime = stack.enter_context(Runtime(engine, 12, bounds))
        limits: dict[str, Any] = {
            "name": "base",
            "vocab_size": SHAPE.vocabulary,
            "seq_len_max": TOKENS_MAX,
        }

        def stage(version: int) -> None:
            [folder] = pushed.glob(f"version-{version}-*")
            engine.stage(version, tensors_of(load_model(folder)))

        if dialect == "assay":
            app = build_app(runtime, Served(**limits, stage=_stage_below(pushed, engine)))
        elif dialect == "vllm":
            app = vllm_server.build(engine, runtime, Served(**limits))
        else:
            app = sglang_server.build(runtime, stage)
        yield stack.enter_context(serving(app)), app


def weights(seed: int) -> dict[str, Weight]:
    return tensors(initial(SHAPE, seed))


class Pair:
    """A service on a server, and one on the native engine."""

    def __init__(self, kind: str, remote: Own, native: Own, base: Path) -> None:
        self.kind, self.remote, self.native = kind, remote, native
        self._arrays = lora_arrays(load_model(base))
        self._sessions = 0

    async def push(self, own: Own, version: int) -> None:
        if self.kind == "full":
            await own.client.push_weights(version, weights(version))
        else:
            scaled = {name: np.float32(version) * a for name, a in self._arrays.items()}
            config = {**ADAPTER, "target_modules": sorted({n.split(".")[-3] for n in scaled})}
            await own.client.push_adapter(version, config, tensors(scaled))

    async def use(self, version: int, *, push: bool = True) -> None:
        for own in (self.remote, self.native):
            if push:
                await self.push(own, version)
            done = await own.client.activate(version, mode="finish")
            assert done.policy_version == version

    async def same(self, version: int) -> None:
        """Both services now make the same tokens, with weights of this version."""
        self._sessions += 1
        made = []
        for own in (self.remote, self.native):
            session = await own.client.open_session(f"s{self._sessions}", sampling=SAMPLED)
            await session.submit(prompts(2))
            groups = sorted(await take(session, 2), key=lambda group: group.group_id)
            made.append([said(group) for group in groups])
            versions = {v for g in groups for t in g.trajectories for v, _ in t.policy_versions}
            assert versions == {version}, [t.evidence for g in groups for t in g.trajectories]
        assert made[0] == made[1]


@pytest.mark.parametrize("dialect", TAKES)
async def test_the_same_pushes_give_the_same_tokens_as_on_the_native_engine(
    dialect: str, tmp_path: Path
) -> None:
    base = write_folder(tmp_path / "base", SHAPE, initial(SHAPE, 0))
    pushed = tmp_path / "pushed"
    common: dict[str, Any] = {"tokens_max": TOKENS_MAX, "tokenizer": base}
    with served(dialect, base, pushed) as (url, app):
        async with AsyncExitStack() as stack:
            remote = await stack.enter_async_context(
                service(
                    tmp_path / "a",
                    engine_url=url,
                    engine_dialect=dialect,
                    engine_model="base" if dialect == "vllm" else "",
                    engine_vocab_size=SHAPE.vocabulary,
                    engine_weights_dir=pushed,
                    **common,
                )
            )
            native = await stack.enter_async_context(
                service(tmp_path / "b", model=base, weight_dtype="f32", **common)
            )
            pair = Pair(TAKES[dialect], remote, native, base)
            assert list((await remote.client.status()).unsupported) == ["StreamTrace"]
            await pair.same(0)
            for version in (1, 2):
                await pair.use(version)
                await pair.same(version)
            await pair.use(1, push=False)  # the previous version is the rollback
            await pair.same(1)
            await wrong_pushes(pair, pushed)
            await pair.use(3)
            await pair.same(3)
            assert len(list(pushed.iterdir())) <= 3, "older folders are removed"
            if dialect == "vllm":
                assert app.state.unloaded == ["assay-policy-2"]


async def wrong_pushes(pair: Pair, pushed: Path) -> None:
    """Each is refused by name, leaves no folder, and changes no weights."""
    client, before, whole = pair.remote.client, sorted(pushed.iterdir()), weights(9)
    name, one = next(iter(whole.items()))
    zeros = {name: Weight(dtype="F64", shape=one.shape, data=one.data)}

    async def refused(push: Any, kind: type[AssayError], field: str) -> None:
        with pytest.raises(kind) as caught:
            await push
        assert caught.value.field == field, caught.value
        assert sorted(pushed.iterdir()) == before

    if pair.kind == "full":
        await refused(client.push_adapter(9, ADAPTER, whole), FailedPrecondition, "kind")
        await refused(client.push_weights(1, whole), InvalidRequest, "version")
        await refused(client.push_weights(9, zeros), InvalidRequest, f"tensors.{name}")
        await refused(client.push_weights(9, {}), FailedPrecondition, "tensor")
    else:
        await refused(client.push_adapter(1, ADAPTER, whole), InvalidRequest, "version")
        await refused(client.push_adapter(9, ADAPTER, zeros), InvalidRequest, f"tensors.{name}")
        foreign = client.push_adapter(9, ADAPTER, whole)  # only the server knows its tensors
        await refused(foreign, FailedPrecondition, "")
    with pytest.raises(FailedPrecondition):
        await client.activate(9)
