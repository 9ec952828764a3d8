"""What is read from a response of `cuda` without running it."""

import contextlib
import string
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from assay.sandbox.port import MIB
from assay.verifiers.cuda.cpp_text import code_of, tokens_of
from assay.verifiers.cuda.definition import TRIALS_MAX, WARM_UPS, CudaSettings
from assay.verifiers.cuda.device_code import device_code
from assay.verifiers.cuda.measure import Trial, call_s, speed_up
from assay.verifiers.cuda.solution import Unreadable, read_solution

ADVERSARIAL = Path("../shared/data/kernelbench/adversarial_kernels").resolve()
CPP = st.text(alphabet=string.ascii_letters + "0_#<>{}()[]\"'/*\\\n\t ;:=R.", max_size=200)


def loaded(cuda: str) -> str:
    return (
        "from torch.utils.cpp_extension import load_inline\n"
        f"SOURCE = {cuda!r}\n"
        "module = load_inline(name='m', cpp_sources='', cuda_sources=SOURCE, functions=['f'])\n"
        "class ModelNew:\n    pass\n"
    )


KERNEL = "__global__ void f(float* a) { a[0] = 1; }\n"
LAUNCH = "void g(float* a) { f<<<1, 1>>>(a); }\n"


@given(CPP)
def test_every_text_is_its_tokens(text: str) -> None:
    assert "".join(token.text for token in tokens_of(text)) == text
    assert code_of(text) == code_of(text)
    device_code(text)


@given(st.text(max_size=200))
def test_every_response_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Unreadable):
        read_solution(text)


def test_words_in_comments_and_literals_are_no_code() -> None:
    for hidden in (
        f"// {KERNEL}",
        f"/* {KERNEL} {LAUNCH} */",
        'const char* s = "__global__ <<<";',
        'const char* s = R"x(__global__ f<<<1,1>>> )" )x";',
        "// line goes on \\\n__global__ f<<<1, 1>>>",
        "char c = '\"'; /* __global__ */ // f<<<",
    ):
        assert "__global__" not in code_of(hidden), hidden
        assert read_solution(loaded(hidden)).fault == "no_kernel", hidden


def test_a_kernel_that_nothing_launches_is_none() -> None:
    assert read_solution(loaded(KERNEL)).fault == "kernel_not_launched"
    assert read_solution(loaded(KERNEL + "// f<<<1, 1>>>(a);")).fault == "kernel_not_launched"
    assert read_solution(loaded(KERNEL + LAUNCH)).fault == ""


@pytest.mark.parametrize(
    "sources",
    [
        "SOURCE.replace('x', 'y')",
        "[SOURCE, other()]",
        "f'{SOURCE}'",
        "UNKNOWN",
    ],
)
def test_nothing_is_said_of_a_source_that_is_not_a_constant(sources: str) -> None:
    program = loaded("").replace("cuda_sources=SOURCE", f"cuda_sources={sources}")
    found = read_solution(program)
    assert not found.is_known
    assert found.fault == ""


def test_a_name_with_two_values_is_not_a_constant() -> None:
    assert not read_solution("SOURCE = 'a'\n" + loaded(KERNEL)).is_known


def test_sources_are_found_as_lists_sums_and_by_position() -> None:
    program = loaded(KERNEL).replace("cuda_sources=SOURCE", f"cuda_sources=[SOURCE + {LAUNCH!r}]")
    assert read_solution(program).cuda == (KERNEL + LAUNCH,)
    program = loaded(KERNEL).replace(
        "name='m', cpp_sources='', cuda_sources=SOURCE", "'m', '', SOURCE"
    )
    assert read_solution(program).cuda == (KERNEL,)


def test_a_kernel_of_triton_is_a_kernel() -> None:
    program = "import triton\n@triton.jit\ndef k():\n    pass\nclass ModelNew:\n    pass\n"
    assert read_solution(program).fault == ""
    assert read_solution(program.replace("@triton.jit\n", "")).fault == "no_kernel"


@pytest.mark.skipif(not ADVERSARIAL.is_dir(), reason="the data of KernelBench is not here")
def test_adversarial_kernels_of_kernelbench_have_no_kernel_of_their_own() -> None:
    texts = [path.read_text("utf-8") for path in sorted(ADVERSARIAL.glob("*.py"))]
    assert [read_solution(text).fault for text in texts] == ["no_kernel"] * 3


def test_host_functions_are_left_out_and_lines_stay() -> None:
    source = (
        "#include <torch/extension.h>\n"
        "#define TILE 16\n"
        "struct P { int n; };\n"
        "using torch::Tensor;\nstruct Host { torch::Tensor t; };\nconst auto o = at::kFloat;\n"
        "namespace inner {\n"
        "template <typename T> __device__ T twice(T x) { return x + x; }\n"
        "}\n"
        "torch::Tensor host(torch::Tensor a) {\n  return a;\n}\n"
        "__global__ void k(P p) { int x[] = {1, 2}; if (p.n) { x[0] = inner::twice(1); } }\n"
    )
    code = device_code(source)
    assert code.reason == ""
    assert "torch" not in code.text
    assert "twice(T x)" in code.text
    assert code.text.count("\n") == source.count("\n") - 1  # of the directive that is left out
    assert "__global__ void k" in code.text


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("#include <cuda_fp16.h>\n" + KERNEL, "needs the header cuda_fp16.h"),
        ("__device__ std::pair<int, int> f();", "device code uses std"),
        ("__global__ void f() { at::Half x; }", "device code uses at"),
        (KERNEL + "}", "its braces do not match"),
        (KERNEL + "void f() {", "its braces do not match"),
    ],
)
def test_what_cannot_be_compiled_alone_is_named(source: str, reason: str) -> None:
    assert device_code(source).reason == reason


@given(
    st.integers(512, 65_536).map(lambda n: n * MIB),
    st.integers(3, TRIALS_MAX),
    st.integers(0, 1_024 * MIB),
)
def test_the_outputs_that_wait_for_the_reference_never_fill_the_box(
    memory: int, trials: int, output: int
) -> None:
    """Else a right program with large outputs would break the limit of memory."""
    settings = CudaSettings(memory_bytes=memory, trials=trials)
    if output > settings.output_bytes:
        with pytest.raises(ValidationError, match="output_bytes_max: at most"):
            CudaSettings(memory_bytes=memory, trials=trials, output_bytes_max=output)
    else:
        settings = CudaSettings(memory_bytes=memory, trials=trials, output_bytes_max=output)
    assert 0 < settings.output_bytes * (trials + WARM_UPS + 1) <= memory // 2


TIME = st.floats(min_value=0, max_value=10)
TRIALS = st.lists(st.builds(Trial, TIME, TIME, TIME), min_size=1, max_size=8)


@given(TRIALS, TRIALS, st.lists(st.floats(0, 1), min_size=8, max_size=8), st.booleans())
def test_moving_work_out_of_the_call_gains_at_most_what_the_reference_varies(
    own: Sequence[Trial], reference: Sequence[Trial], shares: list[float], early: bool
) -> None:
    """Whatever part of each call is done in another step, the time stays above what the quickest
    trial must have worked."""
    moved = []
    for trial, share in zip(own, shares, strict=False):
        part = trial.call_s * share
        more = (part, 0.0) if early else (0.0, part)
        moved.append(Trial(trial.prepare_s + more[0], trial.call_s - part, trial.give_s + more[1]))
    floor = min(one.total_s for one in own) - max(one.around_s for one in reference)
    assert call_s(moved, reference) >= floor - 1e-9
    assert call_s(own, reference) >= floor - 1e-9


@given(TRIALS)
def test_the_reference_is_as_fast_as_itself_or_slower_never_faster(own: Sequence[Trial]) -> None:
    assert speed_up(own, own) <= 1.0


def test_a_kernel_of_half_the_time_is_twice_as_fast() -> None:
    reference = [Trial(0.1, 0.02, 0.1)] * 3
    assert speed_up([Trial(0.1, 0.01, 0.1)] * 3, reference) == pytest.approx(2.0)
    # The same, with all of the work before the call.
    assert speed_up([Trial(0.11, 0.0, 0.1)] * 3, reference) == pytest.approx(2.0)
