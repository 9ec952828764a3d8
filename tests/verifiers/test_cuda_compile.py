"""The stage `cuda.compile`, with NVRTC in real boxes; and what needs a GPU, without one."""

import ctypes
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.verifiers.cuda_kernels import KERNELS, solution

from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.errors import DependencyDown
from assay.core.outcome import Outcome
from assay.core.verdict import Ended, HandedOver, StageVerdict
from assay.verifiers.cuda.compile_stage import CompileHandler
from assay.verifiers.cuda.definition import RUN_STAGE, CudaReference, CudaSettings
from assay.verifiers.cuda.gpus import Gpu, GpuBusy, GpuMissing, find_gpus, leased
from assay.verifiers.cuda.run_stage import RunHandler
from assay.verifiers.port import HandlerContext, Work

SHARED = Path("../shared/data/kernelbench").resolve()
NEEDS_DATA = pytest.mark.skipif(not SHARED.is_dir(), reason="the data of KernelBench is not here")
PROBLEM = (
    "class Model:\n    pass\n\ndef get_inputs():\n    return []\n\n"
    "def get_init_inputs():\n    return []\n"
)
REFERENCE = CudaReference(problem=PROBLEM)
GELU = KERNELS["gelu"]


class NoArtifacts:
    """The stage shares none."""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> HandlerContext:
    return HandlerContext(
        artifacts=NoArtifacts(),  # type: ignore[arg-type]
        sandbox=SandboxSettings(),
        verifiers=VerifierSettings(),
        scratch=tmp_path_factory.mktemp("scratch"),
    )


@pytest.fixture(scope="module")
def handler(context: HandlerContext) -> Iterator[CompileHandler]:
    made = CompileHandler(context)
    yield made
    made.close()


def compiled(
    handler: CompileHandler, response: str, settings: CudaSettings | None = None
) -> StageVerdict:
    work = Work(response=response, reference=REFERENCE, settings=settings or CudaSettings())
    (verdict,) = handler.run([work])
    return verdict


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_without_torch_and_without_a_gpu(
    handler: CompileHandler, name: str
) -> None:
    verdict = compiled(handler, solution(KERNELS[name]))
    assert isinstance(verdict, HandedOver), verdict.evidence
    assert verdict.artifact == b'{"unchecked": []}'
    assert verdict.use.cpu_s > 0


@pytest.mark.parametrize("architecture", ["sm_100a", "sm_103a"])
def test_the_architecture_is_a_setting(handler: CompileHandler, architecture: str) -> None:
    settings = CudaSettings(architecture=architecture)
    assert isinstance(compiled(handler, solution(GELU), settings), HandedOver)


@NEEDS_DATA
def test_solutions_of_kernelbench_compile(handler: CompileHandler) -> None:
    for name in ("model_new_ex_1.py", "model_new_ex_add.py", "model_new_ex_add_triton.py"):
        text = (SHARED / "example_solutions" / name).read_text("utf-8")
        verdict = compiled(handler, text)
        assert isinstance(verdict, HandedOver), (name, verdict.evidence)
        assert verdict.artifact == b'{"unchecked": []}'


@NEEDS_DATA
@pytest.mark.parametrize("name", ["non_default_stream", "result_reuse", "zero_out"])
def test_adversarial_kernels_of_kernelbench_earn_nothing(
    handler: CompileHandler, name: str
) -> None:
    text = (SHARED / "adversarial_kernels" / f"{name}_kernel.py").read_text("utf-8")
    verdict = compiled(handler, text)
    assert isinstance(verdict, Ended)
    assert (verdict.outcome, verdict.reward) == (Outcome.SCORED, 0.0)
    assert verdict.evidence.verdict == "no_kernel"
    lenient = CudaSettings(own_kernel=False)
    assert isinstance(compiled(handler, text, lenient), HandedOver)


@NEEDS_DATA
def test_every_problem_of_kernelbench_is_a_reference() -> None:
    paths = sorted((SHARED / "problems").rglob("*.py"))
    assert len(paths) > 200
    for path in paths:
        CudaReference.model_validate({"ref_arch_src": path.read_text("utf-8"), "level": 1})


FAULTS = {
    "an unknown name": GELU.replace("gelu(x[i])", "unknown(x[i])"),
    "a missing semicolon": GELU.replace("y[i] = gelu(x[i]);", "y[i] = gelu(x[i])"),
    "wrong assembly": KERNELS["vectors, constants and assembly"].replace("%laneid", "%nothing"),
    "a template without an end": GELU
    + "template <int N> struct A { static constexpr int x = A<N + 1>::x; };\n"
    "__device__ int never() { return A<0>::x; }\n",
    "a file of the host": GELU + '\n__device__ int x = 0;\n#include "/etc/passwd"\n',
}


@pytest.mark.parametrize("name", list(FAULTS)[:4])
def test_what_does_not_compile_earns_nothing_before_a_gpu_is_held(
    handler: CompileHandler, name: str
) -> None:
    verdict = compiled(handler, solution(FAULTS[name]))
    assert isinstance(verdict, Ended)
    assert verdict.reward == 0.0
    assert verdict.evidence.verdict == "compile_error", verdict.evidence
    assert "kernel.cu" in verdict.evidence.error or "ptxas" in verdict.evidence.error


def test_the_compilers_lines_are_those_of_the_source(handler: CompileHandler) -> None:
    verdict = compiled(handler, solution(FAULTS["an unknown name"]))
    assert isinstance(verdict, Ended)
    line = next(
        at for at, text in enumerate(FAULTS["an unknown name"].split("\n"), 1) if "unknown" in text
    )
    assert re.search(rf"kernel\.cu\({line}\)", verdict.evidence.error), verdict.evidence.error


def test_headers_that_are_not_here_leave_the_source_to_the_run_stage(
    handler: CompileHandler,
) -> None:
    verdict = compiled(handler, solution(FAULTS["a file of the host"]))
    assert isinstance(verdict, HandedOver)
    assert b"needs the header /etc/passwd" in verdict.artifact


def test_a_compilation_without_an_end_breaks_a_limit(handler: CompileHandler) -> None:
    """Two to the power of 26 instances of a template, each cheap."""
    bomb = GELU + (
        "template <int N, int M> struct B { static constexpr long x = "
        "B<N - 1, 2 * M>::x + B<N - 1, 2 * M + 1>::x; };\n"
        "template <int M> struct B<0, M> { static constexpr long x = M; };\n"
        "__device__ long never() { return B<26, 0>::x; }\n"
    )
    settings = CudaSettings(compile_cpu_s=1.0)
    verdict = compiled(handler, solution(bomb), settings)
    assert isinstance(verdict, Ended)
    assert verdict.outcome is Outcome.RESOURCE_LIMIT
    assert verdict.evidence.verdict in {"compile_cpu_limit", "compile_memory_limit"}


@pytest.mark.parametrize(
    ("response", "verdict"),
    [
        ("```python\nclass Model:\n    pass\n```", "no_model"),
        ("```python\nclass ModelNew(\n```", "syntax_error"),
        ("```cpp\nint main() {}\n```", "no_program"),
        ("```python\nclass ModelNew:\n    pass\n```", "no_kernel"),
    ],
)
def test_a_response_without_a_kernel_earns_nothing(
    handler: CompileHandler, response: str, verdict: str
) -> None:
    ended = compiled(handler, response)
    assert isinstance(ended, Ended)
    assert (ended.reward, ended.evidence.verdict) == (0.0, verdict)


@pytest.mark.parametrize(
    "problem", ["", "def (", "class Model:\n    pass\n", "x = " + "(" * 10_000, "a\0b"]
)
def test_a_problem_that_defines_no_model_is_refused_at_the_door(problem: str) -> None:
    with pytest.raises(ValidationError, match="problem"):
        CudaReference(problem=problem)


def test_without_a_driver_the_run_stage_raises_and_rewards_nothing(
    context: HandlerContext,
) -> None:
    if _has_driver():
        pytest.skip("this machine has a driver")
    handler = RunHandler(context)
    work = Work(response=solution(GELU), reference=REFERENCE, settings=CudaSettings())
    with pytest.raises(GpuMissing, match="no NVIDIA driver"):
        handler.run([work])
    handler.close()


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def test_the_run_stage_asks_for_one_gpu() -> None:
    assert RUN_STAGE.spec.resources.gpu == 1
    assert RUN_STAGE.runs_untrusted_code


@pytest.mark.parametrize(
    ("status", "error"), [(100, GpuMissing), (34, GpuMissing), (3, DependencyDown)]
)
def test_what_a_driver_says_decides_who_can_act(
    tmp_path: Path, status: int, error: type[Exception]
) -> None:
    library = _driver(tmp_path, status)
    with pytest.raises(error, match=str(status)):
        find_gpus(tmp_path, library)


def test_gpus_are_the_device_files_that_this_process_sees(tmp_path: Path) -> None:
    library = _driver(tmp_path, 0)
    with pytest.raises(GpuMissing, match="no nvidiaN"):
        find_gpus(tmp_path, library)
    for name in ("nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-modeset"):
        (tmp_path / name).touch()
    found = find_gpus(tmp_path, library)
    assert [gpu.device for gpu in found] == ["nvidia0", "nvidia3"]
    assert found[1].devices(tmp_path) == ("nvidia3", "nvidiactl", "nvidia-uvm")


def _driver(folder: Path, status: int) -> str:
    """A library in the place of the driver that answers with `status`."""
    source, library = folder / "driver.c", folder / "libdriver.so"
    source.write_text(f"int cuInit(unsigned flags) {{ return flags ? -1 : {status}; }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


def test_a_gpu_is_leased_to_one_run_at_a_time(tmp_path: Path) -> None:
    gpus = [Gpu("nvidia0"), Gpu("nvidia1")]
    pauses: list[float] = []
    with leased(gpus, tmp_path, pauses.append) as first:
        with leased(gpus, tmp_path, pauses.append) as second:
            assert {first.device, second.device} == {"nvidia0", "nvidia1"}
            with (
                pytest.raises(GpuBusy, match="nvidia0, nvidia1"),
                leased(gpus, tmp_path, pauses.append, asked_max=3),
            ):
                pass
            assert len(pauses) == 3
        with leased(gpus, tmp_path, pauses.append) as again:
            assert again == second
