"""`cuda.run` with torch's own side on a CPU: real boxes, real torch, real problems; no GPU.

What differs on a GPU is the device's name and that work is waited for. Skipped where torch is not
installed; a CPU build suffices.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.config.environment import SettingError
from assay.config.settings import SandboxSettings
from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.sandbox.launchers.packages import find_packages
from assay.sandbox.port import MIB
from assay.verifiers.cuda.definition import CudaReference, CudaSettings, RewardForm
from assay.verifiers.cuda.run_stage import TORCH_SIDE, Judge, Trials

DATA = Path("../shared/data/kernelbench").resolve()
SETTINGS = CudaSettings(
    trials=3,
    reward_form=RewardForm.CORRECT,
    load_s=300,
    call_s=60,
    memory_bytes=2_048 * MIB,
)
PROBLEM = """
import torch
class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n))
    def forward(self, x):
        return x * self.weight + 1
def get_inputs():
    return [torch.randn(8, 16)]
def get_init_inputs():
    return [16]
"""


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    try:
        packages = find_packages(("torch", "numpy"), setting="these tests")
    except SettingError as missing:
        pytest.skip(str(missing))
    side = TORCH_SIDE.read_text("utf-8")
    opened = Trials(SandboxSettings(), side=side, packages=packages, device="cpu")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def judge(trials: Trials) -> Judge:
    return Judge(trials)


def judged(judge: Judge, program: str, problem: str = PROBLEM) -> Ended:
    return judge.judge(program, CudaReference(problem=problem), SETTINGS)


def new(forward: str, *, before: str = "", more: str = "") -> str:
    """A response whose model has the reference's weights."""
    return f"""
import os, sys, threading, time, torch
{before}
class ModelNew(torch.nn.Module):
    def __init__(self, n=0):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n))
    def forward(self, x):
        {forward}
{more}
"""


RIGHT = "return torch.addcmul(torch.ones_like(x), x, self.weight)"


def test_a_right_program_passes_every_trial_on_fresh_inputs(judge: Judge) -> None:
    fresh = """
        assert not any(torch.equal(x, one) for one in SEEN)
        SEEN.append(x.clone())
        """
    ended = judged(judge, new(f"{fresh.strip()}\n        {RIGHT}", before="SEEN = []"))
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 1.0), ended.evidence
    assert ended.evidence.tests_passed == ended.evidence.tests_total == SETTINGS.trials + 2


WRONG = {
    "zeros": "return torch.zeros_like(x)",
    "memory that holds what it held": "return torch.empty_like(x)",
    "not a number": f"{RIGHT} * float('nan')",
    "half precision inside": "return x.bfloat16().float() * self.weight + 1",
    "another type": f"{RIGHT}.double()",
    "another shape": f"{RIGHT}.flatten()",
    "one output too many": "return [x * self.weight + 1, x]",
    "an earlier answer": """
        self.kept = getattr(self, 'kept', None)
        if self.kept is None: self.kept = x * self.weight + 1
        return self.kept""",
    "an answer by the input's address": """
        self.by = getattr(self, 'by', {})
        return self.by.setdefault(x.data_ptr() % 1, x * self.weight + 1)""",
    "its inputs and weights destroyed": """
        x.zero_(); self.weight.zero_()
        return x * self.weight + 1""",
    "what lies about in memory": """
        import gc
        found = [one for one in gc.get_objects() if type(one) is torch.Tensor
                 and one.shape == x.shape and one is not x]
        return found[0] if found else torch.zeros_like(x)""",
    "computed by a thread, later": """
        out = torch.zeros_like(x)
        done = x * self.weight + 1
        def late():
            while True:
                time.sleep(1e6)
                out.copy_(done)
        threading.Thread(target=late, daemon=True).start()
        return out""",
    "comparison and random numbers replaced": """
        torch.isclose = torch.allclose = torch.equal = lambda *a, **k: torch.tensor(True)
        torch.manual_seed = lambda seed: None
        torch.randn = lambda *a, **k: torch.zeros(*a)
        problem = sys.modules['problem']
        problem.get_inputs = lambda: [torch.zeros(8, 16)]
        problem.Model.forward = lambda self, x: torch.zeros_like(x)
        return torch.zeros_like(x)""",
}


@pytest.mark.parametrize("forward", WRONG.values(), ids=list(WRONG))
def test_a_wrong_output_earns_nothing(judge: Judge, forward: str) -> None:
    ended = judged(judge, new(forward.strip()))
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0), ended.evidence
    assert ended.evidence.verdict == "wrong_answer", ended.evidence


LAZY = """
class Lazy(torch.Tensor):
    pass"""
BROKEN = {
    "a tensor computed when it is looked at": ("return x.as_subclass(Lazy)", "runtime_error"),
    "no tensor": ("return x.tolist()", "runtime_error"),
    "an exception": ("raise MemoryError", "runtime_error"),
    "its process dies": ("os._exit(0)", "crashed"),
    "a bad address": ("import ctypes; ctypes.string_at(1)", "crashed"),
}


@pytest.mark.parametrize(("forward", "verdict"), BROKEN.values(), ids=list(BROKEN))
def test_a_program_that_breaks_is_at_fault_itself(judge: Judge, forward: str, verdict: str) -> None:
    ended = judged(judge, new(forward, before=LAZY))
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0), ended.evidence
    assert ended.evidence.verdict == verdict, ended.evidence


def test_a_clock_that_the_candidate_replaces_measures_nothing(trials: Trials) -> None:
    clocks = """
wait = time.sleep
time.perf_counter = time.time = time.monotonic = lambda: 0.0
torch.cuda.synchronize = lambda *a: None
"""
    program = new(f"wait(0.3); {RIGHT}", before=clocks)
    report, _ = trials.run(program, CudaReference(problem=PROBLEM), SETTINGS)
    assert all(call >= 0.3 for _, call, _ in report["candidate"]["times"])


OUTPUTS = {
    "a number alone": "return x.mean()",
    "indices": "return x.argmax(dim=1)",
    "booleans": "return x > 0",
    "complex numbers": "return torch.fft.fft(x)",
    "a lazily conjugated view": "return torch.fft.fft(x).conj()",
    "half precision": "return x.bfloat16()",
    "a transposed view": "return x.t()",
    "several, one of them empty": "return x, x[:0], x.sum(0)",
    "infinite and undefined values": "return torch.cat([x[:1] / 0, x[:1].sqrt(), x])",
}


@pytest.mark.parametrize("body", OUTPUTS.values(), ids=list(OUTPUTS))
def test_outputs_of_every_type_and_shape_are_compared(judge: Judge, body: str) -> None:
    problem = PROBLEM.replace("return x * self.weight + 1", body)
    ended = judged(judge, new(body), problem)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 1.0), ended.evidence


NEARLY = {
    "an index beside the right one": ("return x.argmax(1) + 50_000", "+ 50_000", "+ 50_001"),
    "another imaginary part": ("return torch.fft.fft(x)", "(x)", "(x).real + 0j"),
    "finite where it is not": ("return torch.cat([x / 0, x])", "x / 0", "x * 1e38"),
}


@pytest.mark.parametrize(("body", "old", "other"), NEARLY.values(), ids=list(NEARLY))
def test_outputs_that_are_nearly_right_are_wrong(
    judge: Judge, body: str, old: str, other: str
) -> None:
    problem = PROBLEM.replace("return x * self.weight + 1", body)
    ended = judged(judge, new(body.replace(old, other)), problem)
    assert (ended.reward, ended.evidence.verdict) == (0.0, "wrong_answer"), ended.evidence


def test_a_reference_without_one_finite_value_is_refused(judge: Judge) -> None:
    body = "return (-1 - x.abs()).sqrt()"
    problem = PROBLEM.replace("return x * self.weight + 1", body)
    ended = judged(judge, new("return x * float('nan')"), problem)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None), ended.evidence


def test_a_reference_that_is_not_equal_to_itself_is_refused(judge: Judge) -> None:
    noise = "(time.time_ns() % 997)"
    problem = "import time" + PROBLEM.replace("self.weight + 1", noise)
    ended = judged(judge, new(RIGHT), problem)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None), ended.evidence
    assert "not equal to itself" in ended.evidence.error


HOST_CODE = {
    "zero_out": "A.zero_(); B.zero_(); return torch.zeros(len(A), B.shape[1])",
    "result_reuse": "return torch.empty(len(A), B.shape[1])",
    "non_default_stream": """
        import threading, time
        out = torch.empty(len(A), B.shape[1])
        def work():
            time.sleep(0.3)
            torch.mm(A, B, out=out)
        threading.Thread(target=work).start()
        return out""",
}
"""What the host code of each adversarial kernel does, in Python; a CPU has threads for streams."""


@pytest.mark.parametrize("name", list(HOST_CODE))
def test_adversarial_kernels_of_kernelbench_are_wrong(judge: Judge, name: str) -> None:
    if not DATA.is_dir():
        pytest.skip("the data of KernelBench is not here")
    text = (DATA / "adversarial_kernels" / f"{name}_kernel.py").read_text("utf-8")
    assert text.count("self.matmul.matmul_cuda(A, B)") == 1
    program = (
        text.replace("N = 2048 * 2", "N = 64")
        .replace("matmul_module = load_inline(", "matmul_module = dict(")
        .replace("return self.matmul.matmul_cuda(A, B)", HOST_CODE[name].strip())
    )
    problem = (DATA / "problems/level1/1_Square_matrix_multiplication_.py").read_text("utf-8")
    ended = judged(judge, program, problem.replace("N = 2048 * 2", "N = 64"))
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0), ended.evidence
    assert ended.evidence.verdict == "wrong_answer", ended.evidence
