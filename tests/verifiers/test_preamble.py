"""Programs written for harnesses that import for them: right ones pass, wrong ones are not helped.

Programs are put together from snippets by a seed. What a right one returns is computed here, in
this process, after the star imports that LeetCode itself makes.
"""

import builtins
import json
import random
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.verdict import Ended
from assay.verifiers.code.source.preamble import Preamble, _star_names, preamble_for

Judge = Callable[..., Ended]
PYTHON = "code.python"
STAR = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json"),
)
NODES = """
class ListNode:
    def __init__(self, val=0, next=None): self.val, self.next = val, next
class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val, self.left, self.right = val, left, right
"""
LEETCODE = "\n".join(
    [
        *(f"from {name} import *" for name in STAR),
        "from typing import List, Optional, Dict, Set, Tuple, Deque, DefaultDict, Union, Any",
        *(f"import {name}" for name in STAR if name not in {"bisect", "copy", "datetime"}),
        NODES,
    ]
)
ANNOTATIONS = (
    "List[int]",
    "Optional[List[int]]",
    "Union[List[int], Deque[int]]",
    "'Optional[ListNode]'",
    "Optional[TreeNode]",
    "Dict[str, Set[int]]",
    "DefaultDict[int, Tuple[int, ...]]",
    "Any",
)
SNIPPETS = (
    "q = deque(nums); q.rotate(1); out.append(q.popleft())",
    "out.append(Counter(nums).most_common(1)[0][1])",
    "out.append(gcd(*nums[:2]))",
    "out.extend(accumulate(nums, max))",
    "out.append(reduce(xor, nums))",
    "h = nums[:]; heapify(h); heappush(h, 3); out.append(heappop(h))",
    "out.extend(nlargest(2, nums))",
    "out.append(bisect_left(sorted(nums), nums[0]))",
    "out.append(min(nums + [inf]))",
    "out.append(min(nums + [math.inf, float('inf')]))",
    "d = defaultdict(list)\nfor x in nums: d[x % 3].append(x)\nout.append(len(d))",
    "out.append(comb(len(nums), 2) + isqrt(99) + ceil(log2(5)) + floor(2.5))",
    "out.append(sum(1 for _ in permutations(nums[:3])) + sum(1 for _ in combinations(nums, 2)))",
    "out.extend(a * b for a, b in pairwise(nums))",
    "out.append(len(list(product(range(2), repeat=3))) + sum(chain.from_iterable([nums, nums])))",
    "out.extend(k for k, _ in groupby(sorted(nums)))",
    "out.extend(sorted(nums, key=cmp_to_key(lambda a, b: b - a)))",
    "out.append(max(enumerate(nums), key=itemgetter(1))[0])",
    "out.append(ascii_lowercase[nums[0] % 26] + string.digits[1])",
    "out.append(sys.maxsize == maxsize)",
    "out.append(re.sub('[0-9]', 'd', str(nums)))",
    "out.append(sum(collections.deque(nums)) + sum(itertools.islice(nums, 2)))",
    "out.append(functools.reduce(operator.add, nums))",
    "c = deepcopy([nums]); c[0][0] = 99; out.append(nums[0])",
    "out.append(median(nums) == statistics.median(nums))",
    "out.append(json.loads(json.dumps(nums))[0])",
    "o = OrderedDict.fromkeys(nums); o.move_to_end(nums[0]); out.append(next(reversed(o)))",
    "node = ListNode(1, ListNode(2)); out.append(node.next.val)",
    "root = TreeNode(5, TreeNode(3)); out.append(root.left.val + root.val)",
    "@cache\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nout.append(fib(50))",
    "@lru_cache(None)\ndef f(n): return 1 if n == 0 else f(n - 1) + 1\nout.append(f(300))",
    "def down(n): return 0 if n == 0 else 1 + down(n - 1)\nout.append(down(5000))",
    "out.append(len(list(zip_longest(nums, [1]))))",
)


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.split("\n"))


def generated(seed: int) -> tuple[str, list[Any], list[Any]]:
    """A program, its arguments, and the result."""
    rng = random.Random(seed)
    is_method = rng.random() < 0.7
    annotation = rng.choice(ANNOTATIONS)
    pad = 8 if is_method else 4
    body = "".join(indented(one, pad) for one in rng.sample(SNIPPETS, rng.randint(2, 6)))
    result = rng.choice(["int", "Any"])
    first = "self, " if is_method else ""
    head = f"def run({first}nums: {annotation}) -> List[{result}]:\n"
    lines = indented("out = []", pad) + body + indented("return out", pad)
    program = f"class Solution:\n    {head}{lines}" if is_method else head + lines
    if rng.random() < 0.3:
        program = f"from __future__ import annotations\n{program}"
    if rng.random() < 0.3:
        program = f'"""A docstring."""\n{program}'
    nums = [rng.randint(1, 60) for _ in range(rng.randint(3, 7))]
    module = ModuleType("leetcode")
    exec(LEETCODE, module.__dict__)
    exec(compile(program, "program", "exec", dont_inherit=True), module.__dict__)
    run = module.__dict__["Solution"]().run if is_method else module.__dict__["run"]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        return program, [nums], json.loads(json.dumps(run(list(nums))))
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("seed", range(60))
def test_generated_programs_in_leetcode_style_pass(judge: Judge, seed: int) -> None:
    program, args, expected = generated(seed)
    reference = {"calls": {"function": "run", "cases": [{"args": args, "expected": expected}]}}
    ended = judge(PYTHON, f"```python\n{program}```", reference)
    assert ended.reward == 1.0, (seed, program, ended.evidence)


@pytest.mark.parametrize("seed", range(60, 75))
def test_the_same_programs_fail_for_their_names_alone(judge: Judge, seed: int) -> None:
    program, args, expected = generated(seed)
    reference = {"calls": {"function": "run", "cases": [{"args": args, "expected": expected}]}}
    ended = judge(PYTHON, f"```python\n{program}```", reference, preamble="none")
    assert ended.reward == 0.0
    wrong = [*expected, 0]
    reference = {"calls": {"function": "run", "cases": [{"args": args, "expected": wrong}]}}
    assert judge(PYTHON, f"```python\n{program}```", reference).reward == 0.0


PRINTS = [
    ("print(gcd(12, 18), Counter('aab')['a'])", "6 2"),
    ("print(sum(map(int, sys.stdin.read().split())), __name__)", "6 __main__"),
    ("if __name__ == '__main__':\n    print(reduce(mul, [2, 3]))", "6"),
    ("from math import *\nprint(ceil(1.5), defaultdict(int)[1])", "2 0"),
    ("import sys\nprint(maxsize == sys.maxsize, bisect([1, 2], 1))", "True 1"),
    ("print(bisect.bisect_left([1, 2], 2), copy.copy([1]), copy([2]))", None),
    ("print(2 ** 20000 > 0, len(str(10 ** 6000)))", "True 6001"),
]


@pytest.mark.parametrize(("program", "stdout"), PRINTS)
def test_programs_that_read_stdin_have_the_names_too(
    judge: Judge, program: str, stdout: str | None
) -> None:
    reference = {"tests": [{"stdin": "1 2 3\n", "stdout": stdout or ""}]}
    reward = judge(PYTHON, f"```python\n{program}\n```", reference).reward
    assert reward == (0.0 if stdout is None else 1.0)


OWN = [
    "def gcd(a, b):\n    return 'own'\ndef run():\n    return gcd(4, 6)",
    "gcd = lambda a, b: 'own'\nrun = lambda: gcd(1, 2)",
    "class ListNode:\n    def __init__(self): self.v = 'own'\ndef run():\n    return ListNode().v",
    "List = {int: 'own'}\ndef run():\n    return List[int]",
    "from operator import concat as gcd\ndef run():\n    return gcd('o', 'wn')",
    "try:\n    reduce\nexcept NameError:\n    pass\ndef run():\n    inf = 'own'\n    return inf",
    "import builtins\nbuiltins.input = lambda: 'own'\ndef run(): return input(*deque())",
]


@pytest.mark.parametrize("program", OWN)
def test_a_programs_own_names_win(judge: Judge, program: str) -> None:
    reference = {"calls": {"function": "run", "cases": [{"expected": "own"}]}}
    ended = judge(PYTHON, f"```python\n{program}\n```", reference)
    assert ended.reward == 1.0, ended.evidence


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [("gcd", [4, 6], 2), ("comb", [5, 2], 10), ("sub", [5, 2], 3), ("median", [[1, 2, 3]], 2)],
)
def test_a_name_of_the_preamble_is_none_of_the_programs(
    judge: Judge, name: str, args: list[Any], expected: int
) -> None:
    """A program that mentions the function it was asked to write has not written it."""
    call = ", ".join(map(repr, args))
    program = f"```python\nx = {name}({call})\n```"
    calls = {"function": name, "cases": [{"args": args, "expected": expected}]}
    assert judge(PYTHON, program, {"calls": calls}, preamble="leetcode").reward == 0.0
    told = f"assert {name}({call}) == {expected}"
    for code in (told, f"import solution\nassert solution.{name}({call}) == {expected}"):
        asserts = {"code": [code], "functions": [name]}
        assert judge(PYTHON, program, {"asserts": asserts}, preamble="leetcode").reward == 0.0


def test_lines_of_errors_are_the_programs(judge: Judge) -> None:
    program = "from __future__ import annotations\nx: List[int] = deque()\n\n1 / 0\n"
    ended = judge(PYTHON, program, {"tests": [{"stdout": "x"}]}, extraction="raw")
    assert 'program.py", line 4' in ended.evidence.stderr_tail


def test_test_code_gives_no_names_unless_a_class_solution_asks_for_them(judge: Judge) -> None:
    reference = {"asserts": {"code": ["assert f([1]) == 1"], "functions": ["f"]}}
    plain = "def f(xs: List[int]):\n    return xs[0]\n"
    assert judge(PYTHON, plain, reference, extraction="raw").reward == 0.0
    assert judge(PYTHON, plain, reference, extraction="raw", preamble="standard").reward == 1.0
    reference = {"asserts": {"code": ["assert Solution().f([1]) == 1"], "functions": ["Solution"]}}
    method = "class Solution:\n    def f(self, xs: List[int]):\n        return xs[0]\n"
    assert judge(PYTHON, method, reference, extraction="raw").reward == 1.0


def test_a_data_sets_own_preamble_is_given(judge: Judge) -> None:
    case = {"function": "f", "cases": [{"expected": 42}]}
    reference = {"calls": case, "preamble": "import math as m\nHELP = 40\n"}
    program = "def f(): return HELP + m.floor(2.5)"
    assert judge(PYTHON, program, reference, extraction="raw").reward == 1.0
    assert judge(PYTHON, program, {"calls": case}, extraction="raw").reward == 0.0
    text = "HELP = 40\nm = __import__('math')"
    ended = judge(PYTHON, program, {"calls": case}, extraction="raw", preamble_text=text)
    assert ended.reward == 1.0


MBPP = {
    "test_imports": ["import math", "from collections import Counter"],
    "test_list": ["assert math.isclose(f(4), 2.0)", "assert Counter(g()) == Counter('ab')"],
}


def test_imports_of_tests_are_there_for_tests_and_programs(judge: Judge) -> None:
    program = "def f(x): return math.sqrt(x)\ndef g(): return ['b', 'a']\n"
    assert judge(PYTHON, program, MBPP, extraction="raw").reward == 1.0
    without = {"test_list": MBPP["test_list"]}
    assert judge(PYTHON, program, without, extraction="raw").reward == 0.0
    wrong = "def f(x): return 3.0\ndef g(): return ['b', 'a']\n"
    assert judge(PYTHON, wrong, MBPP, extraction="raw").reward == 0.0


# --- the text alone ------------------------------------------------------------------------------


@given(
    st.text() | st.lists(st.sampled_from([*_star_names(), "os", "x", ".", "(", "#"])).map(" ".join)
)
def test_a_preamble_is_python_for_any_program(program: str) -> None:
    for preset in (Preamble.STANDARD, Preamble.LEETCODE):
        compile(preamble_for(program, preset=preset), "preamble", "exec")
    assert preamble_for(program, preset=Preamble.NONE) == ""


def test_no_name_of_the_preamble_is_a_builtin_or_an_exception() -> None:
    assert not [name for name in _star_names() if hasattr(builtins, name)]
    assert {"List", "deque", "gcd", "cache", "accumulate", "inf", "heappush"} <= set(_star_names())


def test_only_names_that_occur_are_imported() -> None:
    text = preamble_for("x = deque([1]); obj.gcd(2); # heappop\n", preset=Preamble.LEETCODE)
    assert "import deque" in text
    assert "gcd" not in text
    assert "Counter" not in text
