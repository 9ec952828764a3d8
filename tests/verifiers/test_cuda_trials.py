"""The trials of `cuda.run`, in real boxes, with a side of plain arrays in place of torch's.

Referee, processes, sealed seeds and outputs, limits and verdicts are those of the GPU stage.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.verifiers import array_side

from assay.config.settings import SandboxSettings
from assay.core.outcome import Outcome
from assay.core.verdict import Ended, ResourceUse
from assay.sandbox.launchers.packages import Packages
from assay.sandbox.port import MIB, SandboxError
from assay.verifiers.cuda.control import Control
from assay.verifiers.cuda.definition import CudaReference, CudaSettings, RewardForm
from assay.verifiers.cuda.run_stage import Judge, Trials, broken
from assay.verifiers.cuda.tools import tools_in
from assay.verifiers.port import ReferenceAudit

PROBLEM = """
class Model:
    def forward(self, a):
        return array("d", (2 * x + 1 for x in a))
def get_inputs(rng):
    return [array("d", (rng.gauss() for _ in range(100)))]
def get_init_inputs():
    return []
"""
REFERENCE = CudaReference(problem=PROBLEM)
SETTINGS = CudaSettings(
    trials=3,
    reward_form=RewardForm.CORRECT,
    load_s=120,
    call_s=60,
    memory_bytes=512 * MIB,
    output_bytes_max=MIB,
)
RIGHT = """
class ModelNew:
    def forward(self, a):
        return array("d", (x + x + 1 for x in a))
"""


@pytest.fixture(scope="module")
def trials() -> Iterator[Trials]:
    side = Path(array_side.__file__).read_text("utf-8")
    opened = Trials(SandboxSettings(), side=side, packages=Packages())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def judge(trials: Trials) -> Judge:
    return Judge(trials)


def of_body(body: str) -> str:
    return f"class ModelNew:\n    def forward(self, a):\n        {body.strip()}\n"


def test_a_right_program_earns_its_speed_up(judge: Judge) -> None:
    settings = SETTINGS.model_copy(update={"reward_form": RewardForm.SPEEDUP, "speedup_max": 2.0})
    ended = judge.judge(RIGHT, REFERENCE, settings)
    assert ended.outcome is Outcome.SCORED
    assert ended.evidence.verdict == "pass"
    assert ended.evidence.tests_passed == ended.evidence.tests_total == SETTINGS.trials + 2
    gain = {one.name: one.value for one in ended.components}["speedup"]
    assert ended.reward == min(gain, 2.0) > 0
    assert not ended.rescorable


WRONG = {
    "zeros": "return array('d', bytes(800))",
    "its input": "return a",
    "another shape": "return array('d', (2 * x + 1 for x in a))[:-1]",
    "another type": "return array('f', (2 * x + 1 for x in a))",
    "less precise": "return array('d', array('f', (round(2 * x + 1, 3) for x in a)))",
    "its first answer again": """
        self.kept = getattr(self, "kept", None) or array('d', (2 * x + 1 for x in a))
        return self.kept""",
    "its inputs destroyed": """
        for at in range(len(a)): a[at] = 0
        return a""",
}


@pytest.mark.parametrize("body", WRONG.values(), ids=list(WRONG))
def test_a_wrong_answer_earns_nothing(judge: Judge, body: str) -> None:
    ended = judge.judge(of_body(body), REFERENCE, SETTINGS)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert ended.evidence.verdict == "wrong_answer"


def test_what_is_not_delivered_when_a_trial_ends_does_not_count(judge: Judge) -> None:
    """A mapping made before the trial's end would let another thread deliver later."""
    program = """
class ModelNew:
    def forward(self, a):
        return a
    def on_give(self, side, number):
        os.ftruncate(side.files[number], 800)
        self.kept = mmap(side.files[number], 800)
"""
    ended = judge.judge(program, REFERENCE, SETTINGS)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert "mapped" in ended.evidence.error


def test_a_candidate_finds_neither_the_seeds_nor_the_other_sides_files(judge: Judge) -> None:
    """All that the referee knew when it forked is the order, which has no seed."""
    program = """
import gc, stat
class ModelNew:
    def __init__(self):
        held = [one for one in gc.get_objects() if isinstance(one, list) and len(one) > 2
                and all(type(x) is int and x > 1 << 40 for x in one)]
        assert not held, "seeds"
        assert not [key for key in SIDE.order if "seed" in key]
        open_files = [fd for fd in range(3, 256) if regular(fd)]
        assert sorted(open_files) == sorted(SIDE.files), open_files
    def forward(self, a):
        return array("d", (2 * x + 1 for x in a))
def regular(fd):
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False
"""
    ended = judge.judge(program, REFERENCE, SETTINGS)
    assert ended.reward == 1.0, ended.evidence.error


NONSENSE = """
        for fd in range(3, 256):
            try:
                os.write(fd, b'[1]' + bytes((10,)))
            except OSError:
                pass
        return a"""
ANSWERS_AHEAD = NONSENSE.replace("b'[1]'", "b'{}'")
BROKEN = {
    "raises": ("raise ValueError('no')", "runtime_error", Outcome.SCORED),
    "dies": ("os._exit(3)", "crashed", Outcome.SCORED),
    "says what is no answer": (NONSENSE, "runtime_error", Outcome.SCORED),
    "answers before it is asked": (ANSWERS_AHEAD, "runtime_error", Outcome.SCORED),
    "gives too much": ("return array('d', bytes(1 << 21))", "output_limit", Outcome.RESOURCE_LIMIT),
}


@pytest.mark.parametrize(("body", "verdict", "outcome"), BROKEN.values(), ids=list(BROKEN))
def test_a_program_that_breaks_is_at_fault_itself(
    judge: Judge, body: str, verdict: str, outcome: Outcome
) -> None:
    ended = judge.judge(of_body(body), REFERENCE, SETTINGS)
    assert (ended.outcome, ended.reward) == (outcome, 0.0)
    assert ended.evidence.verdict == verdict, ended.evidence.error
    if body is ANSWERS_AHEAD:
        # Or its answer was taken for that of the next question, and its outputs were sealed early.
        told = ended.evidence.error
        assert "before it is asked" in told or "Operation not permitted" in told


def test_a_program_that_never_answers_breaks_a_limit(trials: Trials) -> None:
    settings = SETTINGS.model_copy(update={"call_s": 1.0})
    report, _ = trials.run(of_body("__import__('time').sleep(1e6)"), REFERENCE, settings)
    assert report["candidate"]["state"] == "hung"
    assert "reference" not in report
    ended = broken(report["candidate"], settings, "", ResourceUse())
    assert (ended.outcome, ended.reward) == (Outcome.RESOURCE_LIMIT, 0.0)
    assert ended.evidence.verdict == "gpu_time_limit"


@pytest.mark.parametrize("at", ["return array", "return [array", "return []"])
def test_a_reference_that_fails_by_itself_is_refused_by_name(judge: Judge, at: str) -> None:
    problem = PROBLEM.replace(at, "raise ValueError('no')\n    " + at)
    ended = judge.judge(RIGHT, CudaReference(problem=problem), SETTINGS)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert "reference.problem" in ended.evidence.error


def test_a_reference_that_zeros_satisfy_is_refused_unless_told_otherwise(judge: Judge) -> None:
    nothing = CudaReference(problem=PROBLEM.replace("2 * x + 1", "x * 1e-9"))
    program = of_body(WRONG["zeros"])
    assert judge.judge(program, nothing, SETTINGS).outcome is Outcome.REJECTED_INVALID
    lenient = SETTINGS.model_copy(update={"reference_audit": ReferenceAudit.OFF})
    assert judge.judge(program, nothing, lenient).reward == 1.0


def test_a_reference_that_is_not_equal_to_itself_is_refused_by_name(judge: Judge) -> None:
    """Else every response would be wrong, whatever it does."""
    noise = "x + int.from_bytes(os.urandom(2)) for"
    random = CudaReference(problem=PROBLEM.replace("2 * x + 1 for", noise))
    ended = judge.judge(RIGHT, random, SETTINGS)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert "not equal to itself" in ended.evidence.error


def test_a_comparison_that_fails_by_itself_is_no_reward() -> None:
    side = Path(array_side.__file__).read_text("utf-8")
    broken_side = side.replace("def close(", "raise OSError('no memory')\n\n        def close(")
    opened = Trials(SandboxSettings(), side=broken_side, packages=Packages())
    try:
        with pytest.raises(SandboxError, match="failed in compare"):
            Judge(opened).judge(RIGHT, REFERENCE, SETTINGS)
    finally:
        opened.close()


def test_a_kernel_that_is_not_faster_fails_where_speed_is_asked(judge: Judge) -> None:
    settings = SETTINGS.model_copy(
        update={"reward_form": RewardForm.FASTER, "speedup_min": 1_000.0}
    )
    program = RIGHT.replace("return", "__import__('time').sleep(0.1)\n        return")
    ended = judge.judge(program, REFERENCE, settings)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert ended.evidence.verdict == "too_slow"


@pytest.mark.parametrize("step", ["on_prepare(self, a)", "on_give(self, side, number)"])
def test_work_done_beside_the_call_is_in_the_total_of_the_trial(trials: Trials, step: str) -> None:
    program = f"{RIGHT}    def {step}:\n        __import__('time').sleep(0.2)\n"
    report, _ = trials.run(program, REFERENCE, SETTINGS)
    assert all(sum(times) >= 0.2 for times in report["candidate"]["times"])


def test_a_reference_whose_process_dies_is_no_reward(judge: Judge) -> None:
    dying = CudaReference(
        problem=PROBLEM.replace("return array", "os._exit(3)\n        return array")
    )
    with pytest.raises(SandboxError, match="the reference died"):
        judge.judge(RIGHT, dying, SETTINGS)


def test_every_state_of_a_candidate_is_its_own_fault() -> None:
    for state in ("failed", "died", "hung", "too_large", "memory_limit"):
        ended: Ended = broken({"state": state}, SETTINGS, "", ResourceUse())
        assert ended.reward == 0.0


@pytest.mark.parametrize("fault", ["raise OSError('no compiler')", "os._exit(3)"])
def test_a_candidate_that_is_not_loaded_on_a_host_that_loads_nothing_is_no_reward(
    trials: Trials, fault: str
) -> None:
    wrong = Control(program=RIGHT.replace("class", f"{fault}\nclass"), problem=PROBLEM)
    called = of_body("raise OSError('no compiler')")
    for program in (
        RIGHT.replace("class", "raise OSError('mine')\nclass"),
        "import missing\n",
        called,
    ):
        with pytest.raises(SandboxError, match="this host builds no extension"):
            Judge(trials, wrong).judge(program, REFERENCE, SETTINGS)
    assert Judge(trials, wrong).judge(RIGHT, REFERENCE, SETTINGS).reward == 1.0


def test_a_control_that_gives_something_else_is_no_reward_either(trials: Trials) -> None:
    wrong = Control(program=of_body("return array('d', a)"), problem=PROBLEM)
    with pytest.raises(SandboxError, match="this host builds no extension"):
        Judge(trials, wrong).judge("import missing\n", REFERENCE, SETTINGS)


def test_on_a_host_that_loads_the_control_it_is_the_candidates_fault(trials: Trials) -> None:
    judge = Judge(trials, Control(program=RIGHT, problem=PROBLEM))
    for _ in range(2):
        ended = judge.judge("import missing\n", REFERENCE, SETTINGS)
        assert (ended.reward, ended.evidence.verdict) == (0.0, "runtime_error")


def test_a_box_shows_programs_that_are_installed_beside_python(tmp_path: Path) -> None:
    installed = tmp_path / "bin"
    installed.mkdir()
    for name, body in {"ninja": "echo built", "other": "echo other"}.items():
        (installed / name).write_text(f"#!/bin/sh\n{body}\n")
        (installed / name).chmod(0o755)
    tools = tools_in(tmp_path / "scratch", path=str(installed))
    assert tools is not None
    assert [one.name for one in tools.iterdir()] == ["ninja"]
    assert tools_in(tmp_path / "none", ("sh",), path="/usr/bin:/bin") is None
    assert tools_in(tmp_path / "none", ("ninja",), path=str(tmp_path)) is None
    side = Path(array_side.__file__).read_text("utf-8")
    opened = Trials(SandboxSettings(), side=side, packages=Packages(), tools=tools)
    body = f"""
        assert not os.path.exists('{installed}')
        assert os.popen('ninja; ls -d /usr').read() == 'built\\n/usr\\n'
        assert os.environ['PATH'].split(':')[1:] == ['/usr/local/bin', '/usr/bin', '/bin']
        return array('d', (x + x + 1 for x in a))"""
    try:
        ended = Judge(opened).judge(of_body(body), REFERENCE, SETTINGS)
    finally:
        opened.close()
    assert ended.evidence.verdict == "pass", ended.evidence
