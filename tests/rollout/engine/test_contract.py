"""What an engine refuses, contains and counts."""

from __future__ import annotations

import math
import re
import resource
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.rollout.engine.sources import ENGINE_SOURCES, NATIVE

from assay.rollout.models import DType, Engine, EngineError, Model, ModelConfig, Tensor, TensorKind
from assay.rollout.models.driver import Driver, Rollout, TokenSampling
from assay.rollout.models.engine import EngineSettings, Isa
from assay.rollout.models.errors import CorruptModel

CONFIG = ModelConfig(
    dim=64,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    head_dim=16,
    hidden_dim=112,
    vocab_size=90,
    positions_max=128,
    rms_eps=1e-5,
    tied_embeddings=True,
)

INVALID, NOT_SEALED, TOO_MANY, BAD_TOKEN, BAD_BLOCKS, CONTEXT = -1, -4, -6, -7, -8, -9


def random_model(config: ModelConfig = CONFIG, seed: int = 0) -> Model:
    random = np.random.default_rng(seed)
    return Model(
        config,
        {
            (kind, layer): Tensor.of(random.normal(0.1, 0.15, shape).astype(np.float32))
            for kind, layer, shape in config.tensor_shapes()
        },
    )


@pytest.fixture
def engine() -> Any:
    with Engine.create(random_model(), EngineSettings(weight_dtype=DType.F32)) as made:
        yield made


def status_of(error: pytest.ExceptionInfo[EngineError]) -> int:
    return error.value.status


def test_header_and_python_number_things_alike() -> None:
    header = (NATIVE / "engine.h").read_text()
    names = re.search(r"ASSAY_T_EMBED = 0.*?ASSAY_T_COUNT", header, re.DOTALL)
    assert names is not None
    found = re.findall(r"ASSAY_T_(\w+)", names.group())[:-1]
    assert found == [kind.name for kind in TensorKind]
    for member in Isa:
        assert f"ASSAY_ISA_{member.name} = {member.value}" in header
    for dtype in DType:
        assert f"ASSAY_{dtype.name} = {dtype.value}" in header


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"block_tokens": 24}, "multiple of 16"),
        ({"batch_max": 0}, "batch_max"),
        ({"step_tokens_max": 3}, "step_tokens_max"),
        ({"threads": 1000}, "n_threads"),
        ({"weight_dtype": DType.F16}, "weight_dtype"),
    ],
)
def test_settings_that_no_engine_could_accept(change: dict[str, Any], said: str) -> None:
    with pytest.raises(EngineError, match=said):
        Engine.create(random_model(), EngineSettings(**change))


def test_a_missing_or_misshapen_tensor_is_named() -> None:
    model = random_model()
    tensors = dict(model.tensors)
    del tensors[TensorKind.W_UP, 1]
    with pytest.raises(CorruptModel, match="W_UP of layer 1"):
        Engine.create(Model(CONFIG, tensors))
    tensors[TensorKind.W_UP, 1] = Tensor.of(np.zeros((3, 3), np.float32))
    with pytest.raises(CorruptModel, match=r"\(3, 3\)"):
        Engine.create(Model(CONFIG, tensors))


def test_steps_that_are_refused_compute_nothing(engine: Engine) -> None:
    driver = Driver(engine, 64)
    rollout = driver.new(128)
    for fed, status in (([90], BAD_TOKEN), ([-1], BAD_TOKEN), ([], INVALID), ([1] * 300, CONTEXT)):
        with pytest.raises(EngineError) as error:
            driver.step([rollout], [fed])
        assert status_of(error) == status
    with pytest.raises(EngineError) as error:
        driver.step([driver.new(16) for _ in range(17)], [[1]] * 17)
    assert status_of(error) == TOO_MANY
    rollouts = [driver.new(96) for _ in range(3)]
    with pytest.raises(EngineError) as error:
        driver.step(rollouts, [[1] * 96] * 3)
    assert status_of(error) == TOO_MANY
    short = driver.new(16)
    with pytest.raises(EngineError) as error:
        driver.step([short], [[1] * 17])
    assert status_of(error) == BAD_BLOCKS
    driver.step([rollout], [[1, 2]])
    assert np.isfinite(driver.logits(0)).all()


def test_the_context_ends_where_it_says(engine: Engine) -> None:
    driver = Driver(engine, 16)
    rollout = driver.new(144)
    driver.prefill(rollout, [1] * 127, 64)
    driver.step([rollout], [[1]])
    with pytest.raises(EngineError) as error:
        driver.step([rollout], [[1]])
    assert status_of(error) == CONTEXT


def test_steps_carry_the_version_of_their_weights(engine: Engine) -> None:
    driver = Driver(engine, 8)
    rollout = driver.new(64)
    assert driver.step([rollout], [[1]])[0].policy_version == 0
    engine.policy_version = 2**40 + 7
    assert driver.step([rollout], [[1]])[0].policy_version == 2**40 + 7
    assert engine.policy_version == 2**40 + 7


def test_a_closed_engine_says_so() -> None:
    engine = Engine.create(random_model())
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        _ = engine.address


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_nan_takes_down_one_rollout_only(dtype: DType, isas: list[Isa]) -> None:
    """A poisoned embedding row ruins the rollout that uses it, not its neighbours, nor the next
    tenant of its blocks."""
    model = random_model()
    embed = model.tensors[TensorKind.EMBED, 0].data.copy()
    embed[7] = np.nan
    untied = ModelConfig(**{**CONFIG.__dict__, "tied_embeddings": False})
    tensors = {
        **model.tensors,
        (TensorKind.LM_HEAD, 0): model.tensors[TensorKind.EMBED, 0],
        (TensorKind.EMBED, 0): Tensor.of(embed),
    }
    for isa in isas:
        how = EngineSettings(weight_dtype=dtype, isa=isa)
        with Engine.create(Model(untied, tensors), how) as engine:
            driver = Driver(engine, 8)
            good, bad = driver.new(40, TokenSampling(1.0, seed=1)), driver.new(40)
            clean = driver.step([good], [[1, 2, 3]])[0]
            good.length = 0
            produced = driver.step([bad, good], [[7] * 20, [1, 2, 3]])
            assert produced[0].token == -1
            assert math.isnan(produced[0].logp)
            assert produced[1] == clean
            bad.length = 0
            reused = driver.step([bad], [[1, 2, 3]])
            assert reused[0].token >= 0
            good.length = 0
            driver.step([good], [[1, 2, 3]])
            wanted = driver.logits(0)
            bad.length = 0
            driver.step([bad], [[1, 2, 3]])
            assert np.array_equal(driver.logits(0), wanted)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("n", [1, 5, 15, 16, 17, 30, 31, 32])
def test_a_copied_block_continues_as_its_source(dtype: DType, n: int) -> None:
    how = EngineSettings(weight_dtype=dtype, block_tokens=32)
    with Engine.create(random_model(), how) as engine:
        driver = Driver(engine, 8)
        source, target = driver.new(64), driver.new(64)
        ids = [(3 * i) % 89 for i in range(60)]
        driver.prefill(source, ids, 60)
        driver.copy_block(target.blocks[0], source.blocks[0], n)
        target.length = n
        rest = [(5 * i) % 89 for i in range(20)]
        driver.step([target], [rest])
        found = driver.logits(0)
        fresh = driver.new(64)
        driver.step([fresh], [ids[:n] + rest])
        assert np.array_equal(driver.logits(0), found)


def test_more_threads_than_cores_give_the_same_bits() -> None:
    model = random_model()
    with Engine.create(model, EngineSettings(threads=1)) as engine:
        driver = Driver(engine, 16)
        wanted, _ = driver.decode(
            [driver.new(64, TokenSampling(1.0, seed=s)) for s in range(4)], [1] * 4, 60
        )
    for spin in (1, 0):
        with Engine.create(model, EngineSettings(threads=7, spin_max=spin)) as engine:
            driver = Driver(engine, 16)
            rollouts = [driver.new(64, TokenSampling(1.0, seed=s)) for s in range(4)]
            tokens, _ = driver.decode(rollouts, [1] * 4, 60)
            assert np.array_equal(tokens, wanted)


@pytest.mark.parametrize("threads", [1, 2])
def test_steps_touch_no_page_for_the_first_time(threads: int) -> None:
    """Faults of the whole process over 100 steps, after one step has touched the KV blocks."""
    with Engine.create(random_model(), EngineSettings(threads=threads, batch_max=4)) as engine:
        driver = Driver(engine, 32)
        rollouts = [driver.new(128, TokenSampling(1.0, top_p=0.9, seed=s)) for s in range(4)]
        driver.decode(rollouts, [1] * 4, 100)
        for rollout in rollouts:
            rollout.length = 0
        fewest = min(_faults_of_steps(driver, rollouts) for _ in range(3))
        assert fewest < 5  # ctypes itself may touch a page; a step that did would show 100


def _faults_of_steps(driver: Driver, rollouts: list[Rollout]) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF)
    driver.decode(rollouts, [1] * 4, 100)
    after = resource.getrusage(resource.RUSAGE_SELF)
    for rollout in rollouts:
        rollout.length = 0
    return after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_sanitizers_are_silent(sanitizer: str, tmp_path: Path) -> None:
    """A stress of steps, forks, copies and refusals, built with each sanitizer."""
    program = tmp_path / "stress"
    sources = [NATIVE / f"{name}.c" for name in ENGINE_SOURCES]
    sources += sorted(NATIVE.glob("kernels_*.c"))
    main = Path(__file__).parents[2] / "native" / "engine_stress.c"
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command = ["cc", *flags, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", f"-I{NATIVE}"]
    subprocess.run([*command, str(main), *map(str, sources), "-lm", "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "stressed" in done.stdout
