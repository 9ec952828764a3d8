"""`code.checked` and `code.interactive`: programs of the reference judge, out of reach."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.verifiers.judged.points import share_of

CHECKER = """
import sys
text, output, answer = (open(name).read() for name in sys.argv[1:4])
try:
    a, b = map(int, output.split())
except ValueError:
    print("not two numbers", file=sys.stderr)
    sys.exit(2)
if a + b != int(text):
    print(f"{a} + {b} is not {text.strip()}", file=sys.stderr)
    sys.exit(1)
"""
SPLITS: dict[str, Any] = {
    "tests": [{"stdin": f"{n}\n", "answer": f"{n} 0\n"} for n in (5, 17, 40)],
    "checker": {"language": "python", "source": CHECKER},
}
PYTHON = {"language": "python", "extraction": "raw"}
SPLITTER = "n = int(input())\nprint(n - 3, 3)\n"

CPP_CHECKER = """
#include "tiny.h"
int main(int argc, char **argv) {
  std::ifstream in(argv[1]), out(argv[2]);
  long n, a, b;
  in >> n;
  if (!(out >> a >> b)) return 2;
  return a + b == n ? 0 : 1;
}
"""

GUESS = """
import sys
n = int(open(sys.argv[1]).read())
for _ in range(12):
    try:
        guess = int(input())
    except (EOFError, ValueError):
        print("no number", file=sys.stderr)
        sys.exit(2)
    if guess == n:
        print("=", flush=True)
        sys.exit(0)
    print("<" if n < guess else ">", flush=True)
print("too many questions", file=sys.stderr)
sys.exit(1)
"""
GUESSES: dict[str, Any] = {
    "tests": [{"stdin": f"{n}\n"} for n in (1, 500, 1000)],
    "interactor": {"language": "python", "source": GUESS},
}
BISECTION = """
low, high = 1, 1000
while True:
    middle = (low + high) // 2
    print(middle, flush=True)
    told = input()
    if told == "=":
        break
    if told == "<":
        high = middle - 1
    else:
        low = middle + 1
"""
BISECTION_CPP = """
#include <iostream>
#include <string>
int main() {
  int low = 1, high = 1000;
  std::string told;
  for (;;) {
    int middle = (low + high) / 2;
    std::cout << middle << std::endl;
    if (!(std::cin >> told) || told == "=") return 0;
    if (told == "<") high = middle - 1; else low = middle + 1;
  }
}
"""
TIGHT = {"cpu_s": 0.4, "blocked_s": 0.5, "memory_bytes": 64 * 1024**2, "output_bytes": 100_000}


@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        (SPLITTER, "pass"),
        ("n = int(input())\nprint(0, n)\n", "pass"),
        ("n = int(input())\nprint(n, n)\n", "wrong_answer"),
        ("print('a b')", "wrong_answer"),
        ("raise SystemExit(3)", "runtime_error"),
    ],
)
def test_a_checker_decides_where_several_outputs_are_right(
    bench: Any, program: str, verdict: str
) -> None:
    ended = bench.judge("code.checked", program, SPLITS, **PYTHON)
    assert ended.evidence.verdict == verdict
    assert ended.reward == float(verdict == "pass")


def test_the_message_of_the_checker_is_evidence(bench: Any) -> None:
    ended = bench.judge("code.checked", "print(1, 1)", SPLITS, **PYTHON)
    assert "1 + 1 is not 5" in ended.evidence.error


def test_a_checker_in_cpp_with_a_header_is_compiled_once(bench: Any) -> None:
    reference = {
        **SPLITS,
        "checker": {"source": CPP_CHECKER, "headers": {"tiny.h": "#include <fstream>\n"}},
    }
    assert bench.judge("code.checked", SPLITTER, reference, **PYTHON).reward == 1.0
    made = bench.artifacts.made
    assert bench.judge("code.checked", "print(1, 1)", reference, **PYTHON).reward == 0.0
    assert bench.artifacts.made == made


def only_in(year: str) -> str:
    """Refused by all but one standard of C++."""
    return f"#if __cplusplus / 100 != {year}\n#error other\n#endif\n"


def test_program_and_checker_in_cpp_are_compiled_in_the_standard_that_takes_them(
    bench: Any,
) -> None:
    program = '#include <iostream>\nint main() { int n; std::cin >> n; std::cout << n << " 0"; }'
    checker = only_in("2017").replace("!=", "<=") + CPP_CHECKER.replace("tiny.h", "fstream")
    reference = {"tests": SPLITS["tests"][:1], "checker": {"source": checker}}
    source = only_in("2014") + program
    assert bench.judge("code.checked", source, reference, extraction="raw").reward == 1.0
    ended = bench.judge("code.checked", source, reference, extraction="raw", standard="gnu++17")
    assert (ended.reward, ended.evidence.verdict) == (0.0, "compile_error")
    ended = bench.judge("code.checked", only_in("1999"), reference, extraction="raw")
    assert (ended.reward, ended.evidence.verdict) == (0.0, "compile_error")
    with pytest.raises(InvalidRequest, match="standard"):
        bench.judge("code.checked", "", SPLITS, standard="auto", **PYTHON)


def test_partial_credit_counts_the_tests_that_the_checker_accepts(bench: Any) -> None:
    program = "n = int(input())\nprint(n if n < 30 else n + 1, 0)\n"
    ended = bench.judge("code.checked", program, SPLITS, **PYTHON, partial_credit=True)
    assert ended.reward == pytest.approx(2 / 3)


def giving(said: str, code: int = 7) -> dict[str, Any]:
    """Three tests, of ten points each; the checker's points, or what else it says, for each."""
    source = f"""
import sys
text, output = open("input").read().strip(), open("output").read()
sys.stderr.write({said})
sys.exit({code})
"""
    return {**SPLITS, "checker": {"language": "python", "source": source}, "points_max": 10}


ECHO = "'points ' + output.split()[0] + ' of ten'"


@pytest.mark.parametrize(
    ("program", "reward", "passed"),
    [
        ("print(10)", 1.0, 3),
        ("print(25)", 1.0, 3),
        ("print(2.5)", 0.25, 0),
        ("print(10 if int(input()) == 5 else 1)", 0.4, 1),
        ("print(0)", 0.0, 0),
        ("print(-3)", 0.0, 0),
        ("print('nan')", 0.0, 0),  # no points: the checker has failed for this output alone
    ],
)
def test_points_of_a_checker_are_the_share_of_a_test(
    bench: Any, program: str, reward: float, passed: int
) -> None:
    ended = bench.judge("code.checked", program, giving(ECHO), **PYTHON, partial_credit=True)
    assert ended.outcome is Outcome.SCORED
    assert ended.reward == pytest.approx(reward)
    assert ended.evidence.tests_passed == passed


def test_without_partial_credit_part_of_the_points_is_none(bench: Any) -> None:
    ended = bench.judge("code.checked", "print(9.9)", giving(ECHO), **PYTHON)
    assert (ended.reward, ended.evidence.verdict) == (0.0, "wrong_answer")
    assert ended.evidence.error == "points 9.9 of ten"


@pytest.mark.parametrize(
    "reference",
    [giving("'points 10'") | {"points_max": None}, giving("'found: points 10'"), giving("''")],
    ids=["no points_max", "not at the beginning", "nothing said"],
)
def test_code_7_without_points_is_a_failure_of_the_judge(
    bench: Any, reference: dict[str, Any]
) -> None:
    ended = bench.judge("code.checked", "print(10)", reference, **PYTHON)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert "exit code 7" in ended.evidence.error


def test_a_quoted_line_gives_no_points(bench: Any) -> None:
    """What the program wrote comes after the judge's own points, on a line of its own."""
    said = "'points 1 found:\\n' + output"
    ended = bench.judge(
        "code.checked", "print('points 10')", giving(said), **PYTHON, partial_credit=True
    )
    assert ended.reward == pytest.approx(0.1)


@given(
    st.binary(max_size=40) | st.from_regex(rb"points [0-9.eE+-]{0,12}.{0,4}"), st.floats(1e-9, 1e9)
)
def test_any_messages_are_a_share_or_none(messages: bytes, points_max: float) -> None:
    share = share_of(messages, points_max)
    assert share is None or 0.0 <= share <= 1.0
    assert share is None or messages.startswith(b"points")
    assert share_of(messages, None) is None
    assert share_of(b"x" + messages, points_max) is None


SNOOPS = [
    # the jury's answer, the checker and its files
    "import os\nprint(' '.join(f for f in os.listdir('.') + os.listdir('/tmp')))",
    "import os, signal\nos.kill(-1, signal.SIGKILL)",
    "open('output', 'w').write('5 0')\nopen('checker', 'w').write('')\n",
    "import os\nos.symlink('answer', 'output')\nprint(open('output').read())",
]


@pytest.mark.parametrize("program", SNOOPS)
def test_a_program_reaches_neither_the_checker_nor_its_files(bench: Any, program: str) -> None:
    ended = bench.judge("code.checked", program, SPLITS, **PYTHON)
    assert ended.outcome is Outcome.SCORED
    assert ended.reward == 0.0


CRASHES = "import sys\nif 'bomb' in open(sys.argv[2]).read(): raise MemoryError\n"
HANGS = "import sys\nwhile 'bomb' in open(sys.argv[2]).read(): pass\n"


@pytest.mark.parametrize("source", [CRASHES.replace("raise MemoryError", "sys.exit(3)"), HANGS])
def test_an_output_that_breaks_the_checker_is_refused_by_it(bench: Any, source: str) -> None:
    reference = {**SPLITS, "checker": {"language": "python", "source": source}}
    ended = bench.judge("code.checked", "print('bomb')", reference, **PYTHON, judge_cpu_s=0.5)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert ended.evidence.verdict == "wrong_answer"
    assert "the checker cannot judge it" in ended.evidence.error


SLOW_CHECKER = """
import sys, time
output = open("output").read()
for _ in range(len(output)):
    began = time.process_time()
    while time.process_time() - began < 0.2: pass
sys.exit(output.split() != ["1"])
"""


def test_the_time_of_a_checker_is_bounded_for_all_tests_together(bench: Any) -> None:
    """How long it takes is up to the response: here, to how much white space that prints."""
    tests = [{"stdin": "", "answer": "1"}] * 20
    reference = {"tests": tests, "checker": {"language": "python", "source": SLOW_CHECKER}}
    found = bench.judge(
        "code.checked", "print('1  ')", reference, **PYTHON, partial_credit=True, total_judge_s=1.5
    )
    assert found.outcome is Outcome.SCORED
    assert found.evidence.verdict == "not_run"
    assert 0 < found.evidence.tests_passed <= 3
    assert found.evidence.failed_test == found.evidence.tests_passed


@pytest.mark.parametrize(
    ("checker", "message"),
    [
        ({"language": "python", "source": "raise SystemExit(3)"}, "reference.checker: test 0"),
        ({"source": "int main() { return x; }"}, "reference.checker.source: compile_error"),
    ],
)
def test_a_checker_that_works_for_no_output_is_the_references_fault(
    bench: Any, checker: dict[str, str], message: str
) -> None:
    ended = bench.judge("code.checked", SPLITTER, {**SPLITS, "checker": checker}, **PYTHON)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert message in ended.evidence.error


def test_a_program_that_breaks_after_it_was_accepted_is_no_right_one(bench: Any) -> None:
    program = f"{BISECTION}\nraise SystemExit(5)\n"
    ended = bench.judge("code.interactive", program, GUESSES, **PYTHON)
    assert (ended.evidence.verdict, ended.reward) == ("runtime_error", 0.0)


def test_a_checker_that_accepts_silence_is_refused(bench: Any) -> None:
    reference = {**SPLITS, "checker": {"language": "python", "source": "pass"}}
    ended = bench.judge("code.checked", SPLITTER, reference, **PYTHON)
    assert ended.outcome is Outcome.REJECTED_INVALID
    kept = bench.judge("code.checked", SPLITTER, reference, **PYTHON, reference_audit="off")
    assert kept.reward == 1.0


@pytest.mark.parametrize(("program", "language"), [(BISECTION, "python"), (BISECTION_CPP, "cpp")])
def test_a_program_that_asks_well_passes(bench: Any, program: str, language: str) -> None:
    ended = bench.judge("code.interactive", program, GUESSES, language=language, extraction="raw")
    assert (ended.evidence.verdict, ended.evidence.tests_passed) == ("pass", 3)
    assert ended.reward == 1.0


@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        ("for n in range(999, 0, -1):\n    print(n, flush=True)\n    input()\n", "wrong_answer"),
        ("print('x', flush=True)\ninput()\n", "wrong_answer"),
        ("pass", "wrong_answer"),
        ("input()\n", "blocked_limit"),  # each waits for the other
        ("while True: pass", "cpu_limit"),
        ("import time\ntime.sleep(60)", "blocked_limit"),
        ("while True: print(1001)", None),
        ("import sys\nsys.stdout.write('1' * 10_000_000)", "output_limit"),
        ("raise SystemExit(5)", "runtime_error"),
        ("import os\nos.kill(os.getpid(), 9)", "crashed"),
        ("x = bytearray(1 << 30)", "runtime_error"),
        ("import os\nwhile True: os.fork()", None),
        ("import os, signal\nos.kill(-1, 9)\nos.kill(1, 9)", None),
        (f"{BISECTION}\nimport time\ntime.sleep(60)", "blocked_limit"),  # no one else runs
        (f"{BISECTION}\nimport os\nos.kill(os.getpid(), 19)", "blocked_limit"),
        (f"{BISECTION}\nwhile True: pass", "cpu_limit"),
    ],
)
def test_how_a_conversation_can_fail(bench: Any, program: str, verdict: str | None) -> None:
    ended = bench.judge("code.interactive", program, GUESSES, **PYTHON, **TIGHT)
    assert ended.outcome in {Outcome.SCORED, Outcome.RESOURCE_LIMIT}
    assert ended.reward == 0.0
    if verdict == "runtime_error" and "bytearray" in program:
        assert ended.evidence.verdict in {"runtime_error", "memory_limit", "crashed"}
    elif verdict in {"runtime_error", "crashed"}:
        # An interactor that finds the end of its input first refuses, and ends the program.
        assert ended.evidence.verdict in {verdict, "wrong_answer"}, ended.evidence
    elif verdict:
        assert ended.evidence.verdict == verdict, ended.evidence


THIEVES = [
    # the number is in a file of the interactor, in its memory and in its descriptors
    "import os\nfor root, _, names in (x for top in ('/box', '/tmp', '/scratch') "
    "for x in os.walk(top)):\n"
    "    for name in names:\n"
    "        try: text = open(f'{root}/{name}').read(10)\n"
    "        except Exception: continue\n"
    "        if text.strip() in ('1', '500', '1000'): print(text, flush=True)\n",
    "import os\nfor pid in os.listdir('/proc'):\n"
    "    if pid.isdigit() and int(pid) != os.getpid():\n"
    "        print(open(f'/proc/{pid}/cmdline').read(), flush=True)\n",
    "import os\nfor fd in range(3, 300):\n"
    "    try: print(os.read(fd, 100).decode(), flush=True)\n"
    "    except OSError: pass\n",
    "import gc\nfor each in gc.get_objects():\n"
    "    if isinstance(each, dict) and 'interactor' in each: print(each, flush=True)\n",
]


@pytest.mark.parametrize("program", THIEVES)
def test_a_program_finds_nothing_of_the_interactor(bench: Any, program: str) -> None:
    one = {**GUESSES, "tests": [{"stdin": "500\n"}]}
    ended = bench.judge("code.interactive", program, one, **PYTHON)
    assert ended.reward == 0.0
    assert ended.outcome in {Outcome.SCORED, Outcome.RESOURCE_LIMIT}


def test_an_interactor_that_fails_for_every_program_is_the_references_fault(bench: Any) -> None:
    reference = {**GUESSES, "interactor": {"language": "python", "source": "1 / 0"}}
    crashed = bench.judge("code.interactive", BISECTION, reference, **PYTHON)
    assert crashed.reward == 0.0  # Python's own exit code 1 refuses
    reference = {**GUESSES, "interactor": {"language": "python", "source": "exit(3)"}}
    ended = bench.judge("code.interactive", BISECTION, reference, **PYTHON)
    assert ended.outcome is Outcome.REJECTED_INVALID
    assert "reference.interactor: test 0: exit code 3" in ended.evidence.error


def test_a_response_that_used_up_the_time_of_all_tests_voids_no_reference(bench: Any) -> None:
    """The control has its own time: what is left may be too little for any program."""
    slow = "import time\ntime.sleep(0.3)\n" + GUESS
    reference = {**GUESSES, "interactor": {"language": "python", "source": slow}}
    program = "import time\ntime.sleep(0.7)\n" + BISECTION.replace(
        "low, high = 1, 1000", "low, high = 1, 1"
    ).replace('if told == "=":', 'if told != "=":\n        input()\n    else:')
    times = {"blocked_s": 0.8, "total_blocked_s": 0.9}
    ended = bench.judge("code.interactive", program, reference, **PYTHON, **times)
    assert (ended.outcome, ended.evidence.verdict) == (Outcome.RESOURCE_LIMIT, "blocked_limit")
    assert (ended.reward, ended.evidence.failed_test) == (0.0, 1)


def test_an_interactor_that_accepts_silence_is_refused(bench: Any) -> None:
    reference = {**GUESSES, "interactor": {"language": "python", "source": "pass"}}
    ended = bench.judge("code.interactive", "print(1)", reference, **PYTHON)
    assert ended.outcome is Outcome.REJECTED_INVALID


def test_a_reference_without_a_judge_is_named(bench: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"reference\.checker"):
        bench.judge("code.checked", "1", {"tests": [{"stdin": "1"}]})


@pytest.mark.parametrize(
    ("questions", "ends", "reward"),
    [(1, 0, 1.0), (2, 0, 0.5), (4, 0, 0.25), (2, 3, 0.0)],
)
def test_points_of_an_interactor_need_a_program_that_ends_well(
    bench: Any, questions: int, ends: int, reward: float
) -> None:
    """It counts questions and gives eight points for one, four for two."""
    interactor = """
import sys
asked = 0
for line in sys.stdin:
    asked += 1
    if line.strip() == "end":
        break
    print("go on", flush=True)
sys.stderr.write(f"points {8 / (asked - 1) if asked > 1 else 0}")
sys.exit(7)
"""
    program = f"""
import sys
for _ in range({questions}):
    print("?", flush=True)
    input()
print("end", flush=True)
sys.stdin.read()  # until the interactor has ended, which ends no program
raise SystemExit({ends})
"""
    reference = {
        "tests": [{"stdin": ""}],
        "interactor": {"language": "python", "source": interactor},
        "points_max": 8,
    }
    ended = bench.judge("code.interactive", program, reference, **PYTHON, partial_credit=True)
    assert ended.outcome is Outcome.SCORED
    assert ended.reward == pytest.approx(reward)
