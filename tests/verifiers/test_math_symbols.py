"""Names, signs and formulas that differ, or are the same in another spelling."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.verdicts.mathematics.harnesses import response_of
from tests.fuzz.verdicts.mathematics.pairs import Pairs
from tests.fuzz.verdicts.mathematics.symbols import SYMBOLS

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.equality import letters
from assay.verifiers.math.extract import final_answer
from assay.verifiers.math.lexicon.regions import written_out
from assay.verifiers.math.verify import judge
from assay.verifiers.math.warm import modules

SETTINGS = MathSettings()


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    modules.import_all()


def _passes(gold: str, response: str) -> bool:
    found = final_answer(response, SETTINGS)
    return not isinstance(found, str) and bool(judge((gold,), found.text, SETTINGS).passed)


@pytest.mark.parametrize("pairs", SYMBOLS, ids=lambda pairs: pairs.gold)
def test_right_answers_pass_and_wrong_ones_do_not(pairs: Pairs) -> None:
    refused = [one for one in pairs.right if not _passes(pairs.gold, response_of(one))]
    passed = [one for one in pairs.wrong if _passes(pairs.gold, response_of(one))]
    assert (refused, passed) == ([], [])


NAMES = st.sampled_from(
    [
        *("A", "a", "A'", "a'", "A''", "A_1", "A_1'", "A^T", "I^2", "I^3", r"\Delta", r"\delta"),
        *(r"\frac{dA}{da}", r"\frac{da}{dA}", r"\frac{\partial A}{\partial a}"),
    ]
)


@given(NAMES, NAMES)
def test_two_names_differ_for_a_parser_without_case_primes_and_indices(one: str, two: str) -> None:
    texts = letters.told_apart(f"a+A+{one}", f"a+A+{two}")
    left, right = (re.sub(r"['\s]", "", text).lower() for text in texts)
    assert (left == right) is (one == two)
    alike = letters.told_apart(f"b+{one}", f"b+{one}")
    assert alike[0] == alike[1]


@given(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from(["<", "\\le"]), st.booleans())
def test_a_set_of_integers_is_written_out_with_its_bounds(
    low: int, size: int, sign: str, behind: bool
) -> None:
    high = low + abs(size)
    belongs = r"x \in \mathbb{Z}"
    inner = f"x \\mid {low} {sign} x {sign} {high}, {belongs}" if behind else (
        f"{belongs} \\mid {low} {sign} x {sign} {high}"
    )  # fmt: skip
    members = [n for n in range(low, high + 1) if sign == "\\le" or low < n < high]
    wanted = f"\\{{{', '.join(map(str, members))}\\}}"
    said = written_out(f"\\{{{inner}\\}}")
    assert said == wanted if members else said.startswith("\\{x")


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9))
def test_a_point_is_taken_out_of_an_interval_only_inside_of_it(
    low: int, out: int, high: int
) -> None:
    said = written_out(f"{low} \\le x < {high}, x \\ne {out}")
    inside = low < out < high
    assert said.startswith("x \\in") is inside
    if inside:
        assert said == f"x \\in [{low}, {out}) \\cup ({out}, {high})"
