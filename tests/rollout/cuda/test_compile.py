"""The kernel compiles for every device that it is written for, without a driver, and spills
few words."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'assay[cuda]'")

from typing import TYPE_CHECKING

from assay.rollout.cuda import program as programs
from assay.rollout.cuda.cubin import resources_of
from assay.rollout.cuda.gpu import shared_bytes
from assay.rollout.cuda.program import ARCHITECTURES, compile_program, compile_source, options_of
from assay.rollout.cuda.sizes import SHARED_BYTES_GENERAL, SHARED_BYTES_MAX, Sizes, Tuning
from assay.rollout.errors.cuda import CorruptCubin, KernelRejected
from assay.rollout.models import ModelConfig

if TYPE_CHECKING:
    from pathlib import Path

QWEN3_0_6B = ModelConfig(
    dim=1024,
    n_layers=28,
    n_heads=16,
    n_kv_heads=8,
    head_dim=128,
    hidden_dim=3072,
    vocab_size=151936,
    positions_max=40960,
    rms_eps=1e-6,
    rope_theta=1e6,
    tied_embeddings=True,
    qk_norm=True,
)
ODD = replace(
    QWEN3_0_6B, dim=1000, n_heads=12, n_kv_heads=3, head_dim=100, out_bias=True, mlp_bias=True
)
GENERAL = {
    "sm_80": (ODD, Tuning(adapter_rank=32).for_less()),
    "sm_89": (QWEN3_0_6B, Tuning().for_less()),
    "sm_120": (ODD, Tuning(adapter_rank=32).for_less()),
}
GENERAL_FRAME_BYTES_MAX = 320
"""Its workers have a third fewer registers than those of the fast one."""
FRAME_BYTES_MAX = 128
"""Words of the loops around products and attention, none of what is within."""
SMALL = 'extern "C" __global__ void k(float *p) { p[threadIdx.x] *= 2; }'
SPILLING = """extern "C" __global__ void k(float *p, int n) {
  float kept[64];
  for (int i = 0; i < 64; i++) kept[i] = p[i];
  for (int i = 0; i < n; i++) kept[(i * 7) % 64] += p[i];
  for (int i = 0; i < 64; i++) p[i] = kept[i];
}"""


def test_the_kernel_compiles_without_a_driver_and_spills_few_words(tmp_path: Path) -> None:
    fits_and_is_kept("sm_90a", tmp_path)


@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES) - {"sm_90a"}))
def test_the_kernel_compiles_for_every_other_device(architecture: str, tmp_path: Path) -> None:
    fits_and_is_kept(architecture, tmp_path)


def fits_and_is_kept(architecture: str, folder: Path) -> None:
    """The kernel fits a multiprocessor, spills few words, and is compiled once per folder."""
    sizes = Sizes(QWEN3_0_6B)
    began = time.process_time()
    program = compile_program(sizes.defines, architecture, folder=folder)
    print(architecture, program.resources, f"{time.process_time() - began:.1f} s of CPU")
    assert program.resources.frame_bytes <= FRAME_BYTES_MAX
    assert 0 < program.resources.registers * (sizes.tuning.threads + sizes.tuning.feeder) <= 65536
    assert program.resources.shared_bytes + shared_bytes(sizes) < SHARED_BYTES_MAX
    again = compile_program(sizes.defines, architecture, folder=folder)
    assert again == program
    assert [path.suffix for path in folder.iterdir()] == [".cubin"]


def test_the_kernel_with_adapters_fits_as_well(tmp_path: Path) -> None:
    sizes = Sizes(QWEN3_0_6B, Tuning(adapter_rank=32))
    resources = compile_program(sizes.defines, "sm_90a", folder=tmp_path).resources
    print(resources)
    assert resources.frame_bytes <= FRAME_BYTES_MAX
    assert 0 < resources.registers * (sizes.tuning.threads + sizes.tuning.feeder) <= 65536
    assert resources.shared_bytes + shared_bytes(sizes) < SHARED_BYTES_MAX


@pytest.mark.parametrize("architecture", GENERAL)
def test_the_general_kernel_compiles_for_other_devices(architecture: str, tmp_path: Path) -> None:
    sizes = Sizes(*GENERAL[architecture])
    resources = compile_program(sizes.defines, architecture, folder=tmp_path).resources
    print(architecture, resources)
    assert resources.frame_bytes <= GENERAL_FRAME_BYTES_MAX
    # 9 warps are three on one of the four parts of a multiprocessor, as 12 are.
    assert 0 < resources.registers * (sizes.tuning.threads + 128) <= 65536
    assert resources.shared_bytes + shared_bytes(sizes) < SHARED_BYTES_GENERAL


def test_a_cache_that_can_not_be_written_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    small = {"kernel.cu": SMALL.replace("void k(", f"void {programs.ENTRY}(")}
    monkeypatch.setattr(programs, "sources", lambda: small)
    compiled = compile_program({}, "sm_90a", folder=tmp_path / "file")
    assert compiled.cubin


def test_other_sizes_are_another_program() -> None:
    one, other = Sizes(QWEN3_0_6B).defines, Sizes(QWEN3_0_6B, seq_max=2048).defines
    assert options_of("sm_90a", one) != options_of("sm_90a", other)


def test_a_stack_frame_is_seen() -> None:
    options = ["--gpu-architecture=sm_90a"]
    assert resources_of(compile_source(SMALL, options), "k").frame_bytes == 0
    assert resources_of(compile_source(SPILLING, options), "k").frame_bytes >= 256


def test_a_refusal_carries_the_compilers_words() -> None:
    with pytest.raises(KernelRejected) as refused:
        compile_source("__global__ void k() { undeclared(); }", ["--gpu-architecture=sm_90a"])
    assert "undeclared" in refused.value.log
    assert refused.value.field == "source"


@given(data=st.data())
def test_a_damaged_cubin_is_an_error_with_a_name(data: st.DataObject) -> None:
    whole = bytearray(CUBIN)
    if data.draw(st.booleans()):
        whole = whole[: data.draw(st.integers(0, len(whole)))]
    for _ in range(data.draw(st.integers(0, 4))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptCubin):
        resources_of(bytes(whole), "k")


def test_a_table_of_sections_beyond_all_files_is_an_error_with_a_name() -> None:
    damaged = bytearray(CUBIN)
    damaged[0x28:0x30] = b"\x00\xff\xff\xff\xff\xff\xff\xff"
    with pytest.raises(CorruptCubin):
        resources_of(bytes(damaged), "k")


CUBIN = compile_source(SMALL, ["--gpu-architecture=sm_90a"])


def test_the_compiler_writes_into_no_bytes_that_others_share() -> None:
    compile_source(SMALL, options_of("sm_90a", {}))  # of this one the log is a single byte
    assert [bytes([value])[0] for value in range(256)] == list(range(256))
