"""Values that JSON does not have: as Python literals they reach the program and are compared.

Generated values go through the whole pipeline: a program that returns its argument passes if and
only if the expected value equals it as in Python.
"""

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.core.verdict import Ended
from assay.verifiers.code.literals import form_of, literal
from assay.verifiers.code.referee.equality import python_equal
from assay.verifiers.code.referee.operations import linked
from assay.verifiers.code.referee.values import Linked

Judge = Callable[..., Ended]
PYTHON = "code.python"

KEYS = st.integers() | st.text(max_size=5) | st.binary(max_size=5) | st.booleans() | st.none()
SCALARS = KEYS | st.floats() | st.complex_numbers() | st.decimals(allow_nan=False) | st.fractions()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.tuples(inner)
        | st.just(())
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
        | st.frozensets(KEYS, max_size=3)
        | st.lists(inner, max_size=3).map(deque)
        | st.lists(KEYS, max_size=3).map(Counter)
        | st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict)
        | st.binary(max_size=3).map(bytearray)
    ),
    max_leaves=12,
)


def unlisted(_result: object, _kind: str) -> object:
    raise AssertionError("no linked nodes here")


def same(one: object, other: object) -> bool:
    return python_equal(one, other, 0.0, unlisted)


@given(VALUES)
def test_the_text_of_a_value_is_read_as_the_value(value: Any) -> None:
    found = literal(repr(value))
    assert type(found) is type(value)
    assert same(found, value)
    assert same(value, found)


@given(VALUES, VALUES)
def test_values_are_equal_when_python_says_so(one: Any, other: Any) -> None:
    if "nan" not in f"{one!r}{other!r}".lower():
        assert same(one, other) is bool(one == other)


@pytest.mark.parametrize(
    ("actual", "expected", "equal"),
    [
        ((1.0 + 1e-9, [2]), (1.0, [2]), True),
        ([1], (1,), False),
        ((1,), [1], False),
        ({1, 2}, frozenset({2, 1}), True),
        ({(1, 2): 0.1 + 0.2}, {(1, 2): 0.3}, True),
        ({1: 2, 3: 4}, {1: 2}, False),
        ({1: 2}, {1: 2, 3: 4}, False),
        (123456788, 123456789, False),
        (math.nan, math.nan, True),
        ([math.inf, -math.inf], [math.inf, math.inf], False),
        (1 + 1e-9j, 1 + 0j, True),
        (b"a", "a", False),
        (True, 1, True),
        (Decimal("1.0"), Fraction(1), True),
    ],
)
def test_only_expected_floats_have_a_tolerance(
    actual: object, expected: object, *, equal: bool
) -> None:
    assert python_equal(actual, expected, 1e-6, unlisted) is equal


@pytest.mark.parametrize(
    "text",
    [
        *("__import__('os')", "open('x')", "[x for x in (1,)]", "1 if 1 else 2", "f'{1}'", "x", ""),
        *("range(10)", "set(range(10 ** 9))", "bytearray(10 ** 9)", "Fraction('1e999999999')"),
        *(
            "2 ** 10 ** 10",
            "[1] * 10 ** 9",
            "{**{}}",
            "dict(a=1)",
            "-'a'",
            "{[]}",
            "(1, 2",
            "lambda: 0",
        ),
        *("'x'.join(['a'])", "1 + True", "[" * 200 + "]" * 200, "9" * 5_000, "ListNode(5)"),
        *("frozenset(5)", "\0", "float([])"),
    ],
)
def test_text_that_is_no_literal_is_refused_and_never_evaluated(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        form_of(text)


def calls(*cases: tuple[tuple[str, ...], str], function: str = "f") -> dict[str, Any]:
    listed = [{"args": list(args), "expected": expected} for args, expected in cases]
    return {"calls": {"function": function, "values": "python", "cases": listed}}


@pytest.mark.parametrize("seed", range(3))
def test_generated_values_pass_through_a_program_and_back(judge: Judge, seed: int) -> None:
    drawn: list[str] = []

    @given(VALUES)
    def draw(value: Any) -> None:
        drawn.append(repr(value))

    draw()
    texts = drawn[seed::3][:100]
    reference = calls(*(((text,), text) for text in texts))
    ended = judge(PYTHON, "def f(x):\n    return x\n", reference, extraction="raw")
    assert ended.reward == 1.0, (texts[ended.evidence.failed_test or 0], ended.evidence)
    wrong = judge(PYTHON, "def f(x):\n    return [x]\n", reference, extraction="raw")
    assert wrong.reward == 0.0


def test_the_program_sees_the_types_that_the_text_names(judge: Judge) -> None:
    program = "def f(*xs):\n    return [type(x).__name__ for x in xs]\n"
    args = ("(1,)", "{1}", "frozenset({1})", "1j", "inf", "b''", "deque([1])", "Counter('aab')")
    names = "['tuple', 'set', 'frozenset', 'complex', 'float', 'bytes', 'deque', 'Counter']"
    assert judge(PYTHON, program, calls((args, names))).reward == 1.0


def test_a_value_that_cannot_be_read_names_its_case() -> None:
    from assay.verifiers.code.references import PythonReference

    for bad in ("f(1)", 7):
        with pytest.raises((InvalidRequest, ValueError), match=r"cases\[1\]"):
            PythonReference.model_validate(
                {
                    "calls": {
                        "function": "f",
                        "values": "python",
                        "cases": [
                            {"args": ["1"], "expected": "1"},
                            {"args": [bad], "expected": "1"},
                        ],
                    }
                }
            )


# --- linked lists and trees ----------------------------------------------------------------------

REVERSE = """
class Solution:
    def reverseList(self, head: Optional[ListNode]) -> Optional[ListNode]:
        before = None
        while head:
            head.next, before, head = before, head, head.next
        return before
"""
INVERT = """
class Solution:
    def invertTree(self, root: Optional[TreeNode]) -> Optional[TreeNode]:
        if root:
            root.left, root.right = self.invertTree(root.right), self.invertTree(root.left)
        return root
"""
MERGE = """
class ListNode:
    def __init__(self, x):
        self.val = x
        self.next = None

class Solution:
    def mergeKLists(self, lists):
        found = []
        for node in lists:
            while node:
                found.append(node.val)
                node = node.next
        head = last = ListNode(None)
        for value in sorted(found):
            last.next = ListNode(value)
            last = last.next
        return head.next
"""
PATHS = """
class Solution:
    def paths(self, root):
        if root is None:
            return []
        below = self.paths(root.left) + self.paths(root.right)
        return [(root.val, *path) for path in below] or [(root.val,)]
"""


@pytest.mark.parametrize(
    ("program", "function", "cases"),
    [
        (
            REVERSE,
            "reverseList",
            [
                (("ListNode([1, 2, 3])",), "ListNode([3, 2, 1])"),
                (("ListNode([])",), "ListNode([])"),
                (("None",), "None"),
                (("ListNode([7])",), "ListNode([7])"),
            ],
        ),
        (
            INVERT,
            "invertTree",
            [
                (("TreeNode([4, 2, 7, 1, 3, 6, 9])",), "TreeNode([4, 7, 2, 9, 6, 3, 1])"),
                (("TreeNode([1, None, 2, 3])",), "TreeNode([1, 2, None, None, 3])"),
                (("TreeNode([])",), "TreeNode([])"),
            ],
        ),
        (
            MERGE,
            "mergeKLists",
            [
                (
                    ("[ListNode([1, 4, 5]), ListNode([1, 3, 4]), ListNode([2, 6])]",),
                    "ListNode([1, 1, 2, 3, 4, 4, 5, 6])",
                ),
                (("[]",), "ListNode([])"),
            ],
        ),
        (PATHS, "paths", [(("TreeNode([1, 2, 3, None, 5])",), "[(1, 2, 5), (1, 3)]")]),
    ],
)
def test_linked_nodes_are_made_and_read_as_leetcode_does(
    judge: Judge, program: str, function: str, cases: list[Any]
) -> None:
    ended = judge(PYTHON, program, calls(*cases, function=function))
    assert ended.reward == 1.0, ended.evidence
    args, expected = cases[0]
    changed = expected.replace("1", "8", 1)
    wrong = judge(PYTHON, program, calls((args, changed), function=function))
    assert (wrong.reward, wrong.evidence.verdict) == (0.0, "wrong_answer")


@pytest.mark.parametrize(
    "result",
    [
        "[3, 2, 1]",
        "None",
        "7",
        "head",
        "type('ListNode', (), {'val': property(lambda s: 3), 'next': property(lambda s: s)})()",
        "type('ListNode', (), {'__eq__': lambda *a: True, '__hash__': lambda s: 1})()",
    ],
)
def test_what_is_no_such_list_is_a_wrong_answer(judge: Judge, result: str) -> None:
    program = f"def f(head):\n    return {result}\n"
    ended = judge(PYTHON, program, calls((("ListNode([1, 2, 3])",), "ListNode([3, 2, 1])")))
    assert ended.reward == 0.0


class Node:
    def __init__(self, val: int) -> None:
        self.val = val
        self.left: Any = None
        self.right: Any = None


def level_order(root: Node | None) -> list[int | None]:
    """As LeetCode writes a tree."""
    found: list[int | None] = []
    level = [root]
    while any(level):
        found += [node.val if node else None for node in level]
        level = [child for node in level if node for child in (node.left, node.right)]
    while found and found[-1] is None:
        found.pop()
    return found


TREES = st.recursive(
    st.none(),
    lambda inner: st.tuples(st.integers(0, 9), inner, inner),
    max_leaves=20,
)


@given(TREES)
def test_a_tree_in_level_order_is_built_as_it_was(drawn: Any) -> None:
    def built(tree: Any) -> Node | None:
        if tree is None:
            return None
        node = Node(tree[0])
        node.left, node.right = built(tree[1]), built(tree[2])
        return node

    items = level_order(built(drawn))
    assert Linked("TreeNode", items).items == items
    assert level_order(linked(Node, items, is_tree=True)) == items


# --- the same nodes in test code, as data sets of LeetCode problems write it ----------------------

HELPERS = """
from typing import *
from collections import *
class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next
def list_node(values: list):
    head = last = ListNode()
    for value in values:
        last.next = ListNode(value)
        last = last.next
    return head.next
def is_same_list(one, other):
    while one and other:
        if one.val != other.val:
            return False
        one, other = one.next, other.next
    return one is None and other is None
class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val = val
        self.left = left
        self.right = right
def tree_node(values: list):
    if not values:
        return None
    root = TreeNode(values[0])
    level, rest = deque([root]), deque(values[1:])
    while rest:
        node = level.popleft()
        for side in ("left", "right"):
            value = rest.popleft() if rest else None
            if value is not None:
                setattr(node, side, TreeNode(value))
                level.append(getattr(node, side))
    return root
def is_same_tree(one, other):
    if not one or not other:
        return not one and not other
    return (
        one.val == other.val
        and is_same_tree(one.left, other.left)
        and is_same_tree(one.right, other.right)
    )
"""


@pytest.mark.parametrize(
    ("program", "entry", "tests"),
    [
        (
            REVERSE,
            "Solution().reverseList",
            "assert is_same_list(candidate(head=list_node([1, 2, 3])), list_node([3, 2, 1]))\n"
            "    assert is_same_list(candidate(head=list_node([])), list_node([]))",
        ),
        (
            MERGE,
            "Solution().mergeKLists",
            "assert is_same_list(candidate(lists=[list_node([1, 4]), list_node([1, 3])]),"
            " list_node([1, 1, 3, 4]))",
        ),
        (
            INVERT,
            "Solution().invertTree",
            "assert is_same_tree(candidate(root=tree_node([4, 2, 7, None, 3])),"
            " tree_node([4, 7, 2, None, None, 3]))",
        ),
    ],
)
def test_linked_nodes_of_test_code_work_for_right_programs_only(
    judge: Judge, program: str, entry: str, tests: str
) -> None:
    reference = {
        "prompt": HELPERS,
        "entry_point": entry,
        "test": f"def check(candidate):\n    {tests}\n",
    }
    ended = judge(PYTHON, program, reference)
    assert ended.reward == 1.0, ended.evidence
    method = entry.partition(".")[2]
    wrong = f"class Solution:\n    def {method}(self, *given, **named):\n        return "
    for result in ("None", "[3, 2, 1]", "ListNode(3)", "(list(named.values()) + [None])[0]"):
        assert judge(PYTHON, wrong + result, reference).reward == 0.0, result


LIBRARY = {
    "path": ("Path('a') / 'b.txt'", "Path('a/c.txt')"),
    "pure": ("PureWindowsPath('C:/a')", "PureWindowsPath('D:/a')"),
    "uid": ("UUID(int=7)", "UUID(int=8)"),
    "address": ("ip_address('10.0.0.1')", "ip_address('10.0.0.2')"),
    "network": ("ip_network('10.0.0.0/8')", "ip_network('10.0.0.0/9')"),
    "numbers": ("array('i', [1, 2])", "array('i', [2, 1])"),
    "frozen": ("MappingProxyType({'a': [1]})", "MappingProxyType({'a': [2]})"),
    "space": ("SimpleNamespace(x=1, y=[2])", "SimpleNamespace(x=1, y=[3])"),
    "moment": ("gmtime(0)", "gmtime(86400)"),
    "chained": ("ChainMap({'a': 1}, {'b': 2})", "ChainMap({'a': 1})"),
    "zone": ("timezone(timedelta(hours=2))", "timezone.utc"),
    "seen": ("memoryview(b'ab')", "memoryview(b'ba')"),
    "week": ("date(2020, 5, 5).isocalendar()", "date(2020, 5, 6).isocalendar()"),
}
"""A function's name, its value, and another value."""
IMPORTS = """
from array import array
from collections import ChainMap
from datetime import date, timedelta, timezone
from ipaddress import ip_address, ip_network
from pathlib import Path, PureWindowsPath
from time import gmtime
from types import MappingProxyType, SimpleNamespace
from uuid import UUID
"""


def test_values_of_the_librarys_own_types_equal_those_of_the_tests(judge: Judge) -> None:
    program = IMPORTS + "\n".join(f"def {name}(): return {it[0]}" for name, it in LIBRARY.items())
    tests = [
        f"{IMPORTS}assert {name}() == {value} and {value} == {name}() and {name}() != {other}\n"
        f"assert isinstance({name}(), type({value})) and [{name}()] == [{value}]"
        for name, (value, other) in LIBRARY.items()
    ]
    tests.append(
        "from pathlib import Path\nassert space().y == [2] and path().suffix == '.txt'\n"
        "assert moment().tm_year == 1970\n"
        "path().parent.mkdir(); path().write_text('x'); assert week().week == 19\n"
        "assert reads(path()) == reads(path().parent / 'b.txt') == path().read_text() == 'x'\n"
        "import copy, os; deep = copy.deepcopy([path()])[0].with_suffix('.txt')\n"
        "assert deep.exists() and os.path.exists(deep) and reads(Path(str(deep))) == 'x'\n"
        "assert [each.name for each in deep.parent.iterdir()] == ['b.txt'] and hash(deep)\n"
        "assert deep.stat()[6] == 1 and {deep: 1}[Path('a/b.txt')] == 1\n"
        "assert repr(deep) == repr(Path('a/b.txt')) and f'{deep}' == 'a/b.txt'\n"
        "assert frozen()['a'] == [1] and numbers()[1] == 2"
    )
    program += "\ndef reads(path):\n    with open(path) as file:\n        return file.read()"
    ended = judge(PYTHON, program, {"asserts": {"code": tests}})
    assert ended.evidence.verdict == "pass", ended.evidence
