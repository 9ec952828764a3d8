"""Records in the form in which their authors publish them; the rows were made here.

Of every converter: it gives a row that its pipeline takes, or refuses with a reason; nothing else,
whatever the record holds. Rows are judged by the real pipelines.
"""

import base64
import contextlib
import io
import json
import pickle
import random
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.cli.data.convert import Converter
from assay.core.errors import InvalidRequest
from assay.core.ids import REQUEST_FORM, PipelineName
from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.datasets import livecodebench
from assay.datasets.answers import last_boxed
from assay.datasets.names import RowNames
from assay.datasets.port import DataRow, Outputs, Refused
from assay.datasets.registry import SOURCES, source_named
from assay.verifiers.instructions.rules import RULES, follows
from assay.verifiers.intake import parse_reference, parse_settings
from assay.verifiers.registry import load_pipelines

Judge = Callable[..., Ended]
PIPELINES = load_pipelines(found=())


def converted(source: str, record: dict[str, Any], pipeline: str = "") -> DataRow:
    found = source_named(source)
    assert found is not None
    row = found.convert(record, 7, pipeline or found.pipelines[0])
    assert isinstance(row, DataRow)
    taken_by_its_pipeline(row)
    return row


def taken_by_its_pipeline(row: DataRow) -> None:
    definition = PIPELINES[PipelineName(row.pipeline)]
    parse_reference(definition, json.dumps(row.reference).encode())
    parse_settings(definition, json.dumps(dict(row.settings)).encode())


def reward(judge: Judge, row: DataRow, response: str, **more: Any) -> float | None:
    return judge(row.pipeline, response, row.reference, **{**row.settings, **more}).reward


def packed(tests: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


# --- LiveCodeBench -------------------------------------------------------------------------------

LCB = {
    "question_title": "Pairs",
    "question_content": "Count pairs.",
    "platform": "leetcode",
    "question_id": "9001",
    "starter_code": "class Solution:\n    def countPairs(self, nums: List[int], k: int) -> int:\n",
    "difficulty": "easy",
    "public_test_cases": json.dumps(
        [{"input": "[1, 2, 3]\n2", "output": "2", "testtype": "functional"}]
    ),
    "private_test_cases": packed(
        [{"input": "[12345678901234567890, 4]\n1", "output": "0", "testtype": "functional"}]
    ),
    "metadata": '{"func_name": "countPairs"}',
}
RIGHT = """
class Solution:
    def countPairs(self, nums: List[int], k: int) -> int:
        return sum(1 for a, b in combinations(nums, 2) if abs(a - b) < k or a + b == 3 + k - k)
"""


def test_livecodebench_calls_have_their_starter_and_both_kinds_of_tests(judge: Judge) -> None:
    row = converted("livecodebench", LCB)
    assert row.request_id == "livecodebench/9001"
    assert row.prompt.endswith(LCB["starter_code"])
    cases = row.reference["calls"]["cases"]
    assert [case["args"] for case in cases] == [[[1, 2, 3], 2], [[12345678901234567890, 4], 1]]
    program = "class Solution:\n    def countPairs(self, nums: List[int], k: int) -> int:\n"
    assert reward(judge, row, f"{program}        return 2 if len(nums) == 3 else 0\n") == 1.0
    assert reward(judge, row, f"{program}        return 2\n") == 0.0


def test_livecodebench_stdin(judge: Judge) -> None:
    tests = [{"input": "2 3\n", "output": "5\n", "testtype": "stdin"}]
    record = {**LCB, "public_test_cases": json.dumps(tests), "private_test_cases": packed(tests)}
    row = converted("livecodebench", {**record, "metadata": "{}", "starter_code": ""})
    assert len(row.reference["tests"]) == 2
    assert reward(judge, row, "print(sum(map(int, input().split())))") == 1.0


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("import pathlib; pathlib.Path('/tmp/assay-pickle-ran').touch()",)


HOSTILE_PICKLES = [
    pickle.dumps(Evil()),
    pickle.dumps(["[]", Evil()]),
    b"cposix\nsystem\n(S'touch /tmp/assay-pickle-ran'\ntR.",
    pickle.dumps(["[]"]),
    pickle.dumps(b"[]"),
    b"Pobject\n.",
    b"(l.",
    b"",
    b"\x80\x04\x95" + b"\xff" * 8,
    pickle.dumps("[]")[:-3],
]


@pytest.mark.parametrize("data", HOSTILE_PICKLES)
def test_a_pickle_that_is_not_plain_text_is_refused_and_runs_nothing(data: bytes) -> None:
    sign = Path("/tmp/assay-pickle-ran")
    sign.unlink(missing_ok=True)
    record = {**LCB, "private_test_cases": base64.b64encode(zlib.compress(data)).decode()}
    with pytest.raises(Refused):
        converted("livecodebench", record)
    assert not sign.exists()


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_any_bytes_in_place_of_a_pickle_are_refused_or_text(data: bytes) -> None:
    value = base64.b64encode(zlib.compress(data)).decode()
    with contextlib.suppress(Refused):
        assert isinstance(livecodebench.unpacked(value), str)


def test_packed_tests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livecodebench, "PACKED_BYTES_MAX", 1_000)
    with pytest.raises(Refused, match="too large"):
        livecodebench.unpacked(packed("x" * 2_000))


# --- APPS and TACO -------------------------------------------------------------------------------


def apps(tests: object, **more: object) -> dict[str, Any]:
    solutions = json.dumps(["print 'two'", "print(input()[::-1])"])
    record = {"problem_id": 12, "question": "Reverse it.", "solutions": solutions}
    return {**record, "input_output": json.dumps(tests), "difficulty": "interview", **more}


def test_apps_stdin_and_its_first_solution_in_this_python(judge: Judge) -> None:
    row = converted("apps", apps({"inputs": ["abc\n", ["d", "e"]], "outputs": ["cba\n", ["d"]]}))
    assert row.request_id == "apps/12"
    assert row.reference["solution"] == "print(input()[::-1])"
    assert reward(judge, row, row.reference["solution"]) == 1.0


def test_apps_results_wrapped_in_lists_stand_for_what_is_in_them(judge: Judge) -> None:
    tests = {"fn_name": "f", "inputs": [[2], [3]], "outputs": [[4], [9]]}
    row = converted("apps", apps(tests))
    assert reward(judge, row, "def f(n): return n * n") == 1.0
    assert reward(judge, row, "def f(n): return [n * n]") == 1.0
    assert reward(judge, row, "def f(n): return n + 2") == 0.0
    row = converted("apps", apps({"fn_name": "f", "inputs": [[2], [3]], "outputs": [[4], [3, 6]]}))
    assert reward(judge, row, "def f(n): return [4] if n == 2 else [3, 6]") == 1.0
    assert reward(judge, row, "def f(n): return 4 if n == 2 else [3, 6]") == 0.0


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ("", "nothing under `input_output`"),
        ({"inputs": ["1"], "outputs": []}, "inputs and outputs differ in number"),
        ({"inputs": [], "outputs": []}, "no tests"),
        ({"inputs": [[1]], "outputs": ["1"]}, "a test that is not text"),
        ({"fn_name": "f", "inputs": [[{"1": 2}]], "outputs": [[1]]}, "an argument whose keys"),
    ],
)
def test_apps_problems_that_cannot_be_judged_are_refused(tests: object, reason: str) -> None:
    record = apps(tests)
    if tests == "":
        record["input_output"] = ""
    with pytest.raises(Refused, match=re.escape(reason)):
        converted("apps", record)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e-400", "9" * 5_000, "NaN"])
def test_numbers_that_cannot_be_held_are_refused_with_their_place(number: str) -> None:
    content = f'{{"fn_name": "f", "inputs": [[1], [{number}]], "outputs": [[1], [2]]}}'
    with pytest.raises(Refused, match=r"input_output\.inputs\[1\]\[0\]"):
        converted("apps", {**apps({}), "input_output": content})


def test_taco_limits_become_settings_where_they_are_wider() -> None:
    tests = {"inputs": ["1"], "outputs": ["1"]}
    row = converted("taco", apps(tests, time_limit="7.5 seconds", name="x"))
    assert row.settings == {"cpu_s": 7.5}
    assert converted("taco", apps(tests, time_limit="1.0 seconds")).settings == {}
    assert converted("taco", apps(tests, time_limit=None)).settings == {}


# --- CodeContests --------------------------------------------------------------------------------

CONTEST = {
    "name": "1_A. Sum",
    "description": "Add.",
    "public_tests": {"input": ["1 2\n"], "output": ["3\n"]},
    "private_tests": {"input": ["5 5\n"], "output": ["10\n"]},
    "generated_tests": {"input": [], "output": []},
    "time_limit": {"seconds": 10, "nanos": 500_000_000},
    "memory_limit_bytes": 1_073_741_824,
    "input_file": "",
    "output_file": "",
    "solutions": {
        "language": [2, 1, 3],
        "solution": ["int main() {}", "print 1", "print(sum(map(int, input().split())))"],
    },
}


def test_code_contests_in_both_languages(judge: Judge) -> None:
    row = converted("code_contests", CONTEST)
    assert row.settings == {"cpu_s": 10.5, "memory_bytes": 1_073_741_824}
    assert reward(judge, row, row.reference["solution"]) == 1.0
    row = converted("code_contests", CONTEST, "code.cpp")
    assert row.reference["solution"] == "int main() {}"
    with pytest.raises(Refused, match="file"):
        converted("code_contests", {**CONTEST, "input_file": "in.txt"})


# --- MBPP, HumanEval, EvalPlus -------------------------------------------------------------------

SANITIZED = {
    "source_file": "own",
    "task_id": 2,
    "prompt": "Write a function for the area of a circle.",
    "code": "import math\r\ndef area(r):\r\n    return math.pi * r * r",
    "test_imports": ["import math"],
    "test_list": ["assert math.isclose(area(1), math.pi)", "assert area(0) == 0"],
}
FULL = {
    "text": "Write a function that adds.",
    "code": "def add(a, b):\r\n  return a + b",
    "task_id": 3,
    "test_setup_code": "TWO = 2",
    "test_list": ["assert add(TWO, 3) == 5"],
    "challenge_test_list": [],
}


@pytest.mark.parametrize("record", [SANITIZED, FULL])
def test_mbpp_solutions_pass_their_tests_and_stubs_do_not(
    judge: Judge, record: dict[str, Any]
) -> None:
    row = converted("mbpp", record)
    assert reward(judge, row, row.reference["solution"]) == 1.0
    name = "area" if record is SANITIZED else "add"
    assert reward(judge, row, f"def {name}(*a): return 0") == 0.0
    if record is SANITIZED:
        assert reward(judge, row, "def area(r): return math.pi * r ** 2") == 1.0


HUMAN_EVAL = {
    "task_id": "HumanEval/900",
    "prompt": "def helper(x: int) -> int:\n    return x + 1\n\n\ndef twice(x: int) -> int:\n",
    "entry_point": "twice",
    "canonical_solution": "    return 2 * (helper(x) - 1)\n",
    "test": "def check(candidate):\n    assert candidate(4) == 8\n    assert helper(1) == 2\n",
}


def test_helpers_of_a_humaneval_prompt_are_there_for_program_and_tests(judge: Judge) -> None:
    row = converted("humaneval", HUMAN_EVAL)
    assert row.request_id == "HumanEval/900"
    assert reward(judge, row, HUMAN_EVAL["canonical_solution"]) == 1.0
    assert reward(judge, row, "def twice(x): return helper(x) + x - 1") == 1.0
    assert reward(judge, row, "    return x\n") == 0.0


EVAL_PLUS = {
    "task_id": "HumanEval/901",
    "prompt": "from typing import List, Tuple\ndef ends(xs: List[float]) -> Tuple[float, float]:\n",
    "entry_point": "ends",
    "canonical_solution": "    print('noise')\n    return min(xs), max(xs)\n",
    "contract": "\n    assert xs\n",
    "base_input": [[[1, 2.5]], [[3]]],
    "plus_input": [[[12345678901234567890, -1]]],
    "atol": 0.01,
}


def plus(**more: object) -> Outputs:
    found = SOURCES["evalplus"].convert({**EVAL_PLUS, **more}, 1, "code.python")
    assert isinstance(found, Outputs)
    return found


def test_evalplus_results_make_calls(judge: Judge) -> None:
    wanted = plus()
    assert wanted.inputs == [["[1, 2.5]"], ["[3]"], ["[12345678901234567890, -1]"]]
    row = wanted.row(["(1, 2.5)", "(3, 3)", "(-1, 12345678901234567890)"])
    taken_by_its_pipeline(row)
    assert row.settings == {"value_float_tolerance": 0.01}
    program = "def ends(xs: List[float]) -> Tuple[float, float]:\n    return {0}\n"
    assert reward(judge, row, program.format("(min(xs), max(xs))")) == 1.0
    assert reward(judge, row, row.reference["solution"]) == 1.0
    assert reward(judge, row, program.format("[min(xs), max(xs)]")) == 0.0  # `!=` in Python
    assert reward(judge, row, "def ends(xs): return (0, 0)") == 0.0


@pytest.mark.parametrize(
    ("assertion", "given", "literal"),
    [
        ("assert ends((1, 2)) == 1", [3, 4, 5], "(3, 4, 5)"),
        ("assert ends({1, 2}) == 1", [3, 4], "{3, 4}"),
        ("assert ends([(1, 'a'), (2, 'b')]) == 1", [[3, "c"]], "[(3, 'c')]"),
        ("assert ends(((1, 2), [3])) == 1", [[5, 6, 7], [8, 9]], "((5, 6, 7), [8, 9])"),
        ("assert ends({'a': (1, 2)}) == 1", {"b": [3, 4]}, "{'b': (3, 4)}"),
        ("assert ends(1 + 2j) == 1", "(3-4j)", "(3-4j)"),
        ("assert ends([]) == 1\nassert ends([(1,)]) == 2", [[5], []], "[(5,), ()]"),
        ("assert set(ends((1, 2))) == {1}", [], "()"),
        ("assert ends(list(range(3))) == 1", [1, 2], "[1, 2]"),
        (None, [[1]], "[[1]]"),
    ],
)
def test_evalplus_arguments_have_the_types_of_the_assertion(
    assertion: str | None, given: object, literal: str
) -> None:
    found = plus(assertion=assertion, base_input=[[given]], plus_input={})
    assert found.inputs == [[literal]]


def test_evalplus_arguments_of_such_types_reach_the_program(judge: Judge) -> None:
    wanted = plus(
        assertion="assert ends((1, 2), {3}) == (2, {1, 3})",
        prompt="",
        canonical_solution="def ends(xs, other):\n    return xs[1:], other | set(xs)\n",
        base_input=[[[1, 2], [3]]],
        plus_input=[[[4], []]],
    )
    row = wanted.row(["((2,), {1, 2, 3})", "((), {4})"])
    taken_by_its_pipeline(row)
    assert reward(judge, row, row.reference["solution"]) == 1.0
    assert reward(judge, row, "def ends(xs, other): return list(xs[1:]), other | set(xs)") == 0.0


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"entry_point": "find_zero"}, "special checker"),
        ({"assertion": "assert ends((1, 2)) == ends([1, 2])"}, "types that the file does not show"),
        ({"assertion": "assert ends({1: 2}) == 1"}, "keys that are text"),
        ({"assertion": "assert ends(1j) == 1"}, "other types than the assertion"),
        ({"assertion": "assert ends() == 1"}, None),
        ({"base_input": [3]}, "base_input"),
        ({"canonical_solution": ""}, "canonical_solution"),
    ],
)
def test_evalplus_problems_that_cannot_be_judged_are_refused(
    more: dict[str, Any], reason: str | None
) -> None:
    if reason is None:
        plus(**more)
        return
    with pytest.raises(Refused, match=reason):
        plus(**more)


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("16 - 3 = 13\n#### 13", "13"),
        ("so #### 5\n#### 2,125", "2125"),
        ("x\n#### -1,234,567", "-1234567"),
        ("x\n#### 3, 4", "3, 4"),
        ("x\r\n#### 5\r\nThat is all.\r\n", "5"),
        ("x\n####\n6\n", "6"),
    ],
)
def test_gsm8k_answers(answer: str, gold: str) -> None:
    row = converted("gsm8k", {"question": "q", "answer": answer})
    assert row.reference == {"answers": [gold]}


@pytest.mark.parametrize(
    ("solution", "gold"),
    [
        (r"first \boxed{1}, then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"$\boxed{\left\{1, 2\right\}}$", r"\left\{1, 2\right\}"),
        (r"so \boxed 5 it is", "5"),
        (r"\fbox{x}", "x"),
        (r"so $\boxed 12$.", "12"),
        (r"so \boxed -3,000. Done", "-3,000"),
        (r"\[\boxed 2/3\]", "2/3"),
        (r"is \boxed x, or", "x"),
        (r"\boxed{ (3, \infty) }", r"(3, \infty)"),
    ],
)
def test_the_last_box_of_a_math_solution(solution: str, gold: str) -> None:
    assert converted("math", {"problem": "p", "solution": solution}).reference["answers"] == [gold]


@pytest.mark.parametrize("box", [r"\frac12", "x^2", r"5\pi", r"5\%", "2x", "$", r"\text{a}", "-x"])
@pytest.mark.parametrize("space", ["", " "])
def test_a_box_without_braces_holds_one_token_or_is_refused(box: str, space: str) -> None:
    with pytest.raises(Refused, match="a box without braces"):
        last_boxed(rf"so $\boxed{space}{box}$")


@pytest.mark.parametrize("missing", [None, "", "  ", float("nan"), True, ["3"]])
def test_a_missing_answer_is_that_of_the_solution(missing: object) -> None:
    record = {"problem": "p", "solution": r"\boxed{3}", "answer": missing}
    assert converted("math", record).reference == {"answers": ["3"]}


@given(st.text(alphabet="ab{}\\ $boxed", max_size=80))
def test_boxes_are_found_or_refused(solution: str) -> None:
    with contextlib.suppress(Refused):
        assert last_boxed(solution).strip()


def test_an_answer_field_goes_first() -> None:
    record = {"problem": "p", "solution": r"\boxed{1}", "answer": 27, "unique_id": "test/a/1.json"}
    row = converted("math", record)
    assert row.reference == {"answers": ["27"]}
    assert row.request_id == "math/test/a/1.json"


# --- IFBench -------------------------------------------------------------------------------------
def ifbench(*instructions: tuple[Any, Any]) -> dict[str, Any]:
    names, arguments = zip(*instructions, strict=True)
    return {
        "key": "17",
        "prompt": "Say something.",
        "instruction_id_list": list(names),
        "kwargs": list(arguments),
    }


def test_ifbench_prompts_are_judged_by_each_of_their_instructions(judge: Judge) -> None:
    numbers = ("count:numbers", {"N": 2.0, "keyword": None, "sep": None})
    row = converted("ifbench", ifbench(numbers, ("format:no_whitespace", {"N": None})))
    assert (row.request_id, row.prompt) == ("ifbench/17", "Say something.")
    assert reward(judge, row, "1,a,2") is not None
    assert reward(judge, row, "1a2") == 1.0
    assert reward(judge, row, "1 a 2") == 0.0
    assert reward(judge, row, "1 a 2", reward="share") == 0.5


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        (("words:start_verb", {}), "no pipeline judges words:start_verb"),
        ((7, {}), "no pipeline judges 7"),
        (("count:numbers", {"N": None}), "arguments that do not fit"),
        (("count:numbers", {"N": "x" * 10_000}), "arguments that do not fit"),
        (("count:numbers", ["N"]), "`kwargs` that are not an object"),
    ],
)
def test_ifbench_prompts_that_cannot_be_judged_are_refused(
    instruction: tuple[Any, Any], reason: str
) -> None:
    with pytest.raises(Refused, match=re.escape(reason)):
        converted("ifbench", ifbench(instruction))


# --- IFEval --------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=8), one, max_size=3),
    max_leaves=8,
)
NONE = dict.fromkeys(("num_highlights", "relation", "num_words", "keywords", "letter"))


def ifeval(*instructions: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    names, arguments = zip(*instructions, strict=True)
    kwargs = [{**NONE, **given} for given in arguments]
    return {"key": 1, "prompt": "p", "instruction_id_list": list(names), "kwargs": kwargs}


def words_of(text: str) -> int:
    return len(re.findall(r"\w+", text))


def bullets(text: str) -> int:
    stars = re.findall(r"^\s*\*[^\*].*$", text, re.MULTILINE)
    return len(stars) + len(re.findall(r"^\s*-.*$", text, re.MULTILINE))


def highlights(text: str) -> int:
    found = [one.strip("*") for one in re.findall(r"\*[^\n\*]*\*", text)]
    found += [one[2:-2] for one in re.findall(r"\*\*[^\n\*]*\*\*", text)]
    return sum(1 for one in found if one.strip())


def paragraphs(text: str) -> int:
    """-1 where one in the middle is blank."""
    parts = re.split(r"\s?\*\*\*\s?", text)
    if not all(part.strip() for part in parts[1:-1]):
        return -1
    ends = {0, len(parts) - 1}
    return len(parts) - sum(1 for at in ends if not parts[at].strip())


def two_responses(text: str) -> bool:
    parts = text.split("******")
    if not all(part.strip() for part in parts[1:-1]):
        return False
    said = [part.strip() for part in parts if part.strip()]
    return len(said) == 2 and said[0] != said[1]


def first_word(text: str, *, count: int, at: int, word: str) -> bool:
    parts = text.split("\n\n")
    if len([part for part in parts if part.strip()]) != count or not parts[at - 1].strip():
        return False
    begins = parts[at - 1].split()[0].lstrip("'").lstrip('"')
    return re.split("[.,?!'\"]", begins)[0].lower() == word


CHECKS: list[tuple[str, dict[str, Any], Callable[[str], bool]]] = [
    ("punctuation:no_comma", {}, lambda t: "," not in t),
    ("length_constraints:number_words", {"relation": "at least", "num_words": 4},
     lambda t: words_of(t) >= 4),
    ("length_constraints:number_words", {"relation": "less than", "num_words": 4},
     lambda t: words_of(t) < 4),
    ("keywords:existence", {"keywords": ["cat", "dog"]},
     lambda t: "cat" in t.lower() and "dog" in t.lower()),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]},
     lambda t: not re.search(r"\bcat\b", t, re.IGNORECASE)),
    ("keywords:frequency", {"keyword": "cat", "frequency": 2, "relation": "at least"},
     lambda t: t.lower().count("cat") >= 2),
    ("keywords:frequency", {"keyword": "cat", "frequency": 2, "relation": "less than"},
     lambda t: t.lower().count("cat") < 2),
    ("keywords:letter_frequency",
     {"letter": "C", "let_frequency": 3, "let_relation": "at least"},
     lambda t: t.lower().count("c") >= 3),
    ("startend:quotation", {},
     lambda t: len(t.strip()) > 1 and t.strip()[0] == '"' and t.strip()[-1] == '"'),
    ("startend:end_checker", {"end_phrase": "The Dog."},
     lambda t: t.strip().strip('"').lower().endswith("the dog.")),
    ("detectable_content:number_placeholders", {"num_placeholders": 2},
     lambda t: len(re.findall(r"\[.*?\]", t)) >= 2),
    ("detectable_content:postscript", {"postscript_marker": "P.S."},
     lambda t: bool(re.search(r"p\.\s?s\.", t.lower()))),
    ("combination:repeat_prompt", {"prompt_to_repeat": " the Dog."},
     lambda t: t.strip().lower().startswith("the dog.")),
    ("detectable_format:multiple_sections", {"section_spliter": "cat", "num_sections": 2},
     lambda t: len(re.split(r"\s?cat\s?\d+\s?", t)) - 1 >= 2),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, lambda t: bullets(t) == 2),
    ("detectable_format:number_bullet_lists", {"num_bullets": 1}, lambda t: bullets(t) == 1),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2},
     lambda t: highlights(t) >= 2),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1},
     lambda t: highlights(t) >= 1),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, lambda t: paragraphs(t) == 2),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 1}, lambda t: paragraphs(t) == 1),
    ("detectable_format:title", {},
     lambda t: any(one.lstrip("<").rstrip(">").strip() for one in re.findall(r"<<[^\n]+>>", t))),
    ("detectable_format:constrained_response", {}, lambda t: "My answer is yes." in t.strip()),
    ("combination:two_responses", {}, two_responses),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Cat"},
     lambda t: first_word(t, count=2, at=2, word="cat")),
    ("length_constraints:nth_paragraph_first_word",
     {"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "a"},
     lambda t: first_word(t, count=1, at=1, word="a")),
]  # fmt: skip
PIECES = ("*", "**", "***", "\n- ", "\n* ", "1", "cat 2",
          "cat", "Cat", "concat", "dog", "the dog.", '"', ",", " ", "\n", "[x]", "[", "]", "P. S.",
          "p.s.", "<<", ">>", "My answer is yes.", "a", "\u00e9t\u00e9", "\n\n", "c")  # fmt: skip


MORE_PIECES = {
    "combination:two_responses": ("******", " ******\n"),
    "length_constraints:nth_paragraph_first_word": ("\n\n", "\n\n'\"cat", "A ", "\n\n \n\n"),
}


@pytest.mark.parametrize("seed", range(len(CHECKS)))
def test_instructions_are_judged_as_their_checkers_do(seed: int) -> None:
    name, given_, check = CHECKS[seed]
    pattern = re.compile(
        converted("ifeval", ifeval((name, given_)), "regex").reference["pattern"], re.DOTALL
    )
    pieces = (*PIECES, *MORE_PIECES.get(name, ()))
    rng = random.Random(seed)
    rule, told = RULES[name], []
    arguments = rule.read(given_)
    for _ in range(1_500):
        text = "".join(rng.choices(pieces, k=rng.randint(0, 12)))
        told.append(bool(text.strip()) and check(text))
        assert (pattern.search(text) is not None) == told[-1], (name, text)
        assert follows(rule, arguments, text, loose=False) == told[-1], (name, text)
    assert True in told
    assert False in told


LONG = (
    "******",
    "\n\n",
    "a ******",
    "*",
    "* ",
    "word cat ",
    "\n",
    "\n- ",
    "\n* ",
    " ",
    "[",
    "[\n",
    "<",
    "<<> ",
    "<< >",
    '"',
    "1",
)


@pytest.mark.parametrize("piece", LONG)
def test_no_long_response_makes_matching_hang(piece: str) -> None:
    """Hours with an expression that is quadratic or worse; milliseconds with these."""
    text = piece * (40_000 // len(piece))
    for name, given_, _ in CHECKS:
        row = converted("ifeval", ifeval((name, given_)), "regex")
        re.search(row.reference["pattern"], text, re.DOTALL)


@pytest.mark.parametrize("pipeline", ["regex", "instructions"])
def test_all_instructions_of_a_prompt_must_hold(judge: Judge, pipeline: str) -> None:
    first = ("punctuation:no_comma", dict[str, Any]())
    second = ("keywords:existence", {"keywords": ["cat"]})
    row = converted("ifeval", ifeval(first, second), pipeline)
    assert reward(judge, row, "a cat\nsat") == 1.0
    assert reward(judge, row, "a cat, sat") == 0.0
    assert reward(judge, row, "a dog sat") == 0.0


def python_takes(text: str) -> bool:
    """Remove the fences that IFEval knows, then parse."""
    text = text.strip()
    for mark in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(mark)
    try:
        json.loads(text.removesuffix("```").strip())
    except ValueError:
        return False
    return True


@given(JSON, st.data())
@settings(max_examples=250, deadline=None)
def test_json_and_nothing_else_is_in_json_format(
    judge: Judge, value: object, data: st.DataObject
) -> None:
    text = json.dumps(value, indent=data.draw(st.sampled_from((None, 2))))
    ends = ("", " ", "\n", "```", "```json\n", "```JSON ", "```js", "Here it is: ", "]", "{", ",")
    text = data.draw(st.sampled_from(ends)) + text + data.draw(st.sampled_from(ends))
    cut = data.draw(st.integers(0, len(text)) | st.just(0))
    response = text[: len(text) - cut]
    for pipeline in ("regex", "instructions"):
        row = converted("ifeval", ifeval(("detectable_format:json_format", {})), pipeline)
        assert reward(judge, row, response) == float(python_takes(response)), response


@pytest.mark.parametrize(
    ("response", "right"),
    [
        ('{"cat": 1}', True),
        (" \n```json\n[NaN, -Infinity, 1e999999999]\n```\n", True),
        ("9" * 5_000 + " ", True),
        ("[" * 900 + '"cat"' + "]" * 900, True),
        ('{"dog": 1}', False),
        ("{'cat': 1}", False),
        ('{"cat": 1,}', False),
        ('{"cat": 1} {"cat": 2}', False),
        ('~~~\n{"cat": 1}\n~~~', False),
        ("cat", False),
        ("", False),
    ],
)
def test_json_format_stands_beside_other_instructions(
    judge: Judge, response: str, *, right: bool
) -> None:
    instructions: list[tuple[str, dict[str, Any]]] = [
        ("detectable_format:json_format", {}),
        ("punctuation:no_comma", {}),
    ]
    if "cat" in response or "dog" in response:
        instructions[1] = ("keywords:existence", {"keywords": ["cat"]})
    elif "," in response:
        instructions.pop()
    row = converted("ifeval", ifeval(*instructions), "regex")
    assert reward(judge, row, response) == float(right)


def test_json_nested_without_end_breaks_a_limit(judge: Judge) -> None:
    row = converted("ifeval", ifeval(("detectable_format:json_format", {})), "regex")
    ended = judge(row.pipeline, "[" * 2_000 + "]" * 2_000, row.reference)
    assert (ended.outcome, ended.reward) == (Outcome.RESOURCE_LIMIT, 0.0)
    assert ended.evidence.verdict == "nesting_limit"


def test_an_empty_response_follows_no_instruction(judge: Judge) -> None:
    for name, given_, _ in CHECKS:
        row = converted("ifeval", ifeval((name, given_)), "regex")
        assert reward(judge, row, "") == reward(judge, row, " \n") == 0.0, name


def test_an_instruction_that_is_not_judged_refuses_the_row_by_name() -> None:
    comma = ("punctuation:no_comma", dict[str, Any]())
    german = ("language:response_language", {"language": "de"})
    with pytest.raises(Refused, match="no regular expression judges language:response_language"):
        converted("ifeval", ifeval(comma, german), "regex")
    with pytest.raises(Refused, match="no pipeline judges length_constraints:number_of_letters"):
        converted("ifeval", ifeval(comma, ("length_constraints:number_of_letters", {})))
    assert converted("ifeval", ifeval(comma, german)).pipeline == "instructions"


# --- any record ----------------------------------------------------------------------------------

RECORDS = [
    LCB, apps({"inputs": ["1"], "outputs": ["1"]}), CONTEST, SANITIZED, FULL, HUMAN_EVAL, EVAL_PLUS,
    apps({"fn_name": "f", "inputs": [[1]], "outputs": [[1]]}),
    {"question": "q", "answer": "#### 1"}, {"problem": "p", "solution": r"\boxed{1}"},
    ifeval(*[(name, given_) for name, given_, _ in CHECKS]),
]  # fmt: skip


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_any_record_gives_a_row_or_a_reason(data: st.DataObject) -> None:
    record = dict(data.draw(st.sampled_from(RECORDS)))
    for key in data.draw(st.lists(st.sampled_from(sorted(record)), max_size=3)):
        record[key] = data.draw(JSON | JSON.map(json.dumps))
    source = data.draw(st.sampled_from(sorted(SOURCES.values(), key=lambda one: one.name)))
    with contextlib.suppress(Refused, InvalidRequest):
        row = source.convert(record, 1, source.pipelines[0])
        if isinstance(row, Outputs):
            row = row.row(["1"] * len(row.inputs))
        taken_by_its_pipeline(row)


def test_evalplus_results_without_an_order_are_compared_as_sets(judge: Judge) -> None:
    record = {
        "task_id": "Mbpp/2",
        "prompt": '"""Shared elements."""\n',
        "entry_point": "similar_elements",
        "canonical_solution": "def similar_elements(a, b):\n    return tuple(set(a) & set(b))\n",
        "base_input": [[[3, 4, 5, 6], [5, 7, 4, 10]]],
        "plus_input": [[[100, 200, 300, 400], [400, 300, 1, 100]]],
        "assertion": "assert set(similar_elements((3, 4, 5, 6),(5, 7, 4, 10))) == set((4, 5))",
    }
    found = SOURCES["evalplus"].convert(record, 1, "code.python")
    assert isinstance(found, Outputs)
    row = found.row(["(4, 5)", "(400, 100, 300)"])
    for order, right in (("sorted", 1.0), ("reversed", 1.0), ("set", 1.0), ("str", 0.0)):
        program = f"def similar_elements(a, b):\n    return list({order}([x for x in a if x in b]))"
        assert judge("code.python", program, row.reference).reward == right


# --- ids -----------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=6) | st.sampled_from(["a", "a-2", "a b", "a#2", "x" * 300])))
def test_each_row_has_an_id_of_its_own_that_the_service_takes(names: list[str]) -> None:
    given_ids = RowNames()
    ids = [given_ids.of(f"mbpp/{name}") for name in names]
    assert len(set(ids)) == len(ids)
    assert all(REQUEST_FORM.fullmatch(f"{one}/sample-12") for one in ids)
    again = RowNames()
    assert [again.of(f"mbpp/{name}") for name in names] == ids


@pytest.mark.parametrize(
    ("source", "record", "key"),
    [
        ("gsm8k", {"question": "q", "answer": "#### 5"}, "id"),
        ("math", {"problem": "p", "answer": "5"}, "unique_id"),
        ("mbpp", FULL, "task_id"),
        ("code_contests", CONTEST, "name"),
        ("ifeval", {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}, "key"),
    ],
)
def test_rows_of_records_with_any_names_have_ids_that_the_service_takes(
    source: str, record: dict[str, Any], key: str, tmp_path: Path
) -> None:
    names = [
        "1575_A. Another Sorting Problem",
        "a",
        "a",
        "a-2",
        "Caf\u00e9 \u4e2d",
        "x" * 400,
        "x" * 401,
    ]
    file = tmp_path / "records.jsonl"
    file.write_text(
        "".join(json.dumps({"prompt": "p", **record, key: name}) + "\n" for name in names)
    )
    known = SOURCES[source]
    rows = io.StringIO()
    with contextlib.ExitStack() as stack:
        Converter(known, known.pipelines[0], strict=True).run([file], rows, stack)
    ids = [json.loads(line)["request_id"] for line in rows.getvalue().splitlines()]
    assert len(set(ids)) == len(names)
    assert all(map(REQUEST_FORM.fullmatch, ids))
    assert ids[0].endswith("/1575_A._Another_Sorting_Problem")
    assert ids[1].endswith("/a")
