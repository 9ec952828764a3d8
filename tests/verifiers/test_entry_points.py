"""Whose a name is follows from the tests alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.code.source.entry_points import names_of


@pytest.mark.parametrize(
    ("code", "program", "library"),
    [
        (["assert similar((3, 4)) == (4,)", "assert similar(()) == ()"], {"similar"}, set()),
        (["assert math.isclose(f(2), 3.0)"], {"f"}, {"math"}),
        (["assert isclose(f(2), 3.0)"], {"f"}, {"isclose"}),
        (["assert np.allclose(f(2), [3.0])"], {"f"}, {"np"}),
        (["assert Counter(f(2)) == Counter([1])"], {"f"}, {"Counter"}),
        (["x: List[int] = f(2)\nassert x == [1]"], {"f"}, {"List"}),
        (["assert f(1) == datetime(2020, 1, 1)"], {"f"}, {"datetime"}),
        (["assert longest([Pair(5, 24)], 4) == 3"], {"longest", "Pair"}, set()),
        (["assert f() is Color.RED == Color.RED"], {"f", "Color"}, set()),
        (["try:\n    f()\nexcept (Odd, KeyError):\n    pass"], {"f", "Odd"}, set()),
        (["def check(c):\n    assert c(1) == 2\ncheck(f)"], {"f"}, set()),
        (["class T(Base):\n    pass\nassert T().x == 1"], {"Base"}, set()),
        (["assert f(2) == EXPECTED"], {"f"}, set()),
        (["self.assertEqual(f(2), EXPECTED)"], {"f", "self"}, set()),
        (["with self.assertRaises(Odd):\n    f(2)"], {"f", "self", "Odd"}, set()),
        (["assertEqual(f(2), 4)"], {"f"}, set()),
        (["assert same(f(2), 4)", "assert not differ(f(2), 4) is True"], {"f"}, set()),
        (["assert same([1], [1])", "assert is_bst(Node(1))"], {"same", "is_bst", "Node"}, set()),
        (["assert LIMIT == 4"], {"LIMIT"}, set()),
        (["f(1)\nassert CACHE == {1: 2}"], {"f", "CACHE"}, set()),
        (["f(1)\nassert len(CACHE) == 1 and 2 == CACHE[0] and 3 in CACHE"], {"f", "CACHE"}, set()),
        (["f(1)\nself.assertEqual(CACHE, {1: 2})"], {"f", "self", "CACHE"}, set()),
        (["assert LIMIT == 4 and f(2) == LIMIT"], {"f"}, set()),
        (["assert CASES == [1]\nfor x in CASES:\n    assert f(x) == 1"], {"f"}, set()),
        (["assert MOST[f(2)] == 3"], {"f"}, set()),
        (["assert f(2) == 4\nassert pi == 3"], {"f"}, {"pi"}),
        (["assert lcm(4, 6) == 12"], {"lcm"}, set()),
        (["assert gcd(12, 8) == 4", "assert even(4)"], {"gcd", "even"}, set()),
        (["r = f(2)\nassert gcd(r, 6) == 3"], {"f"}, {"gcd"}),
        (["c = Counter()\nassert c.value == 1"], {"Counter"}, set()),
        (["assert sum(10, 15) == 6"], {"sum"}, set()),
        (["assert sum([1, 2]) == f(3)"], {"f"}, set()),
        (["from solution import f\nassert f(1) == 2"], set(), set()),
        (["from solution import *\nassert f(1) == 2"], {"f"}, set()),
        (["import math\nassert f(1) == math.pi"], {"f"}, set()),
        (["assert all(f(x) for x in [1])"], {"f"}, set()),
        (["assert f(1 =="], set(), set()),
    ],
)
def test_names_of_tests(code: list[str], program: set[str], library: set[str]) -> None:
    names = names_of(tuple(code), "", ())
    assert (set(names.program), set(names.library)) == (program, library)


@pytest.mark.parametrize(
    ("code", "classes"),
    [
        ("assert T(2).area == 4", {"T"}),
        ("t = T(2)\nassert t.area == 4", {"T"}),
        (
            "class A:\n    def a(self):\n        self.t = T(2)\n        assert self.t.area == 4",
            {"T"},
        ),
        ("t: T = T(2)\nassert t.area == 4", {"T"}),
        ("assert (t := T(2)) and t.area == 4", {"T"}),
        ("with T(2) as t:\n    assert t.area == 4", {"T"}),
        ("from solution import T\nassert T(2).area == 4", {"T"}),
        ("from solution import T as U\nassert 2 * U(3) == U(6)", {"T"}),
        ("import solution\nassert solution.T(2) + solution.T(3) == solution.T(5)", {"T"}),
        ("import solution as s\nt = s.T(2)\nassert t.area == 4", {"T"}),
        ("from solution import T\nassert T(2) == 4 and T(2).area == 4", set()),
        ("from solution import T\nassert abs(T(2) - 4) < 1", set()),
        ("from other import T\nassert T(2).area == 4", set()),
        ("import solution\nassert solution.t(2).area == 4", set()),
    ],
)
def test_classes_under_test(code: str, classes: set[str]) -> None:
    """However the tests reach them, and wherever they keep their objects."""
    assert set(names_of((code,), "", ()).classes) == classes


def test_named_entry_points_are_all_there_are() -> None:
    names = names_of(("assert f(2) == helper(3) and isclose(f(1), 2)",), "", ("f",))
    assert (names.program, dict(names.library)) == (("f",), {"isclose": "math:isclose"})


def test_what_setup_defines_is_not_the_programs() -> None:
    setup = "import math\ndef helper(x): return x\n"
    names = names_of(("assert helper(f(2)) == math.pi",), setup, ())
    assert (names.program, dict(names.library)) == (("f",), {})


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_read(code: str, setup: str) -> None:
    names = names_of((code,), setup, ("f",))
    assert names.program == ("f",)
