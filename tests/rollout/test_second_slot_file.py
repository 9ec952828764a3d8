"""The second slot of weights in a file: as in memory, but for the memory and the copying."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import replace
from fcntl import F_ADD_SEALS, F_SEAL_GROW, fcntl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("numpy")

import numpy as np
from tests.rollout.test_weight_slots import ALL, MODELS, SETTINGS, alone, stage

from assay.rollout.errors import HostExhausted, InvalidWeights, WeightsNotReady
from assay.rollout.models import Engine, Tensor, TensorKind
from assay.rollout.models.adapters import AdaptedProjection, Adapter, AdapterKind

if TYPE_CHECKING:
    from collections.abc import Callable

VERSIONS = st.integers(0, 3)
CALLS = st.one_of(
    st.tuples(st.just("use"), VERSIONS),
    st.tuples(st.just("stage"), VERSIONS),
    st.tuples(st.just("adapt"), VERSIONS),
    st.tuples(st.just("use adapted"), VERSIONS),
    st.tuples(st.just("damaged"), VERSIONS),
    st.tuples(st.just("activate"), st.integers(0, 13)),
    st.tuples(st.just("back"), st.just(0)),
)


def adapter(version: int) -> Adapter:
    """LoRA of every q and down projection."""
    rng, found = np.random.default_rng(version), []
    for kind, layer, shape in MODELS[0].config.tensor_shapes():
        if kind in {TensorKind.WQ, TensorKind.W_DOWN}:
            a, b = (
                Tensor.of(rng.normal(0, 0.3, s).astype("f4"))
                for s in ((2, shape[1]), (shape[0], 2))
            )
            one = AdaptedProjection(
                tensor=kind,
                layer=layer,
                kind=AdapterKind.LORA,
                rows=shape[0],
                cols=shape[1],
                size=2,
                a=a,
                b=b,
                scale=1.0,
            )
            found.append(one)
    return Adapter(tuple(found))


def call(engine: Engine, name: str, n: int) -> None:
    """One call; adapters have versions from 10 on."""
    if name in {"stage", "use"}:
        stage(engine, n)
    elif name in {"adapt", "use adapted"}:
        engine.stage_adapter(10 + n, adapter(n))
    elif name == "damaged":
        engine.stage(n, ALL[: n - 4])
    elif name == "activate":
        engine.activate(n)
    if name in {"use", "use adapted", "back"}:
        engine.activate(engine.ready_version or 0)


def seen(engine: Engine, act: Callable[[], None]) -> tuple[object, ...]:
    """What a call makes of an engine."""
    refused = ""
    try:
        act()
    except (InvalidWeights, WeightsNotReady) as error:
        refused = repr(error)
    state = (engine.policy_version, engine.ready_version, engine.weights_digest)
    return refused, *state, alone(engine, [1, 5, 9], 4, seed=3)


@settings(max_examples=12)
@example(calls=[("use", 1), ("back", 0), ("use adapted", 2), ("use", 3), ("back", 0), ("back", 0)])
@given(calls=st.lists(CALLS, min_size=4, max_size=12))
def test_whatever_is_called_the_engine_does_as_one_whose_slots_are_in_memory(
    calls: list[tuple[str, int]],
) -> None:
    in_file = replace(SETTINGS, second_slot_dir=Path(tempfile.gettempdir()))
    with (
        Engine.create(MODELS[0], in_file) as one,
        Engine.create(MODELS[0], SETTINGS) as other,
    ):
        for name, n in calls:
            found = seen(one, lambda name=name, n=n: call(one, name, n))  # type: ignore[misc]
            assert found == seen(other, lambda name=name, n=n: call(other, name, n))  # type: ignore[misc]


def resident_kib(folder: Path) -> list[int]:
    """Resident sizes of this process's mappings of files of a folder that have no name any more."""
    found, wanted = [], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            wanted = line.endswith("(deleted)") and str(folder) in line
        elif wanted and line.startswith("Rss:"):
            found.append(int(line.split()[1]))
    return found


def test_staged_weights_are_in_the_file_only_and_say_so(tmp_path: Path) -> None:
    with Engine.create(MODELS[0], replace(SETTINGS, second_slot_dir=tmp_path)) as engine:
        assert engine.stage(1, ALL).in_file
        assert resident_kib(tmp_path) == [0]
        assert not engine.stage_adapter(10, adapter(0)).in_file
        stage(engine, 2)
        engine.activate(2)
        alone(engine, [1, 2], 3, seed=1)
        assert resident_kib(tmp_path) == [0]  # what is in use is in memory
        assert engine.ready_version == 0
        assert list(tmp_path.iterdir()) == []


def full_disk(**_: Any) -> Any:
    """A file that cannot grow."""
    file = os.memfd_create("full", os.MFD_ALLOW_SEALING)
    fcntl(file, F_ADD_SEALS, F_SEAL_GROW)
    return os.fdopen(file, "r+b")


def test_a_full_disk_or_a_folder_that_is_none_is_an_error_of_its_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HostExhausted, match="second slot"):
        Engine.create(MODELS[0], replace(SETTINGS, second_slot_dir=tmp_path / "none"))
    monkeypatch.setattr(tempfile, "TemporaryFile", full_disk)
    with Engine.create(MODELS[0], replace(SETTINGS, second_slot_dir=tmp_path)) as engine:
        before = alone(engine, [1, 2], 3, seed=1)
        with pytest.raises(HostExhausted, match="second_slot_dir"):
            stage(engine, 1)
        with suppress(WeightsNotReady):
            engine.activate(1)
        assert alone(engine, [1, 2], 3, seed=1) == before
