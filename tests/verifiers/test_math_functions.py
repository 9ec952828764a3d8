"""Functions by cases, polar form, figures, sets with dots: generated, with wrong ones near."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.verify import judge

SETTINGS = MathSettings()
EQUAL = {
    r"\begin{cases} x & x \ge 0 \\ -x & x < 0 \end{cases}": (
        "|x|", r"f(x)=\left|x\right|", r"\lvert x\rvert", r"\sqrt{x^2}",
        r"\begin{cases} x & x > 0 \\ 0 & x = 0 \\ -x & \text{otherwise} \end{cases}",
        r"\begin{cases} -x & x \in (-\infty, 0) \\ x & x \in [0, \infty) \end{cases}",
    ),
    "|x|": (r"\begin{cases} x & x \ge 0 \\ -x & x < 0 \end{cases}",),
    r"\begin{cases} x + 1 & x \neq 2 \\ 0 & x = 2 \end{cases}": (
        r"\begin{cases} 0 & x = 2 \\ x + 1 & \text{otherwise} \end{cases}",
        r"\begin{cases} x + 1 & x < 2 \\ 0 & x = 2 \\ 1 + x & x > 2 \end{cases}",
    ),
    r"2e^{i\theta}": (r"2(\cos\theta + i\sin\theta)", r"2\cos\theta + 2i\sin\theta"),
    r"2\cos\theta + 2i\sin\theta": (r"2e^{i\theta}", r"2\exp(i\theta)"),
    r"e^{ix} + e^{-ix}": (r"2\cos x",),
    r"\overline{AB}": ("AB", "BA", r"\overline{BA}", "segment AB", r"\text{segment } AB"),
    r"\angle ABC": (r"\angle CBA", "angle ABC", "ABC"),
    r"\overleftrightarrow{PQ}": ("line PQ", "QP"),
    r"(-\infty, 2) \cup (2, \infty)": (
        r"x \neq 2", r"\mathbb{R} - \{2\}", r"\{x \mid x \ne 2\}",
        r"\{x \in \mathbb{R} : x \neq 2\}", r"\text{all real numbers except } 2",
    ),
    r"x \equiv \pm 2 \pmod{5}": (
        r"x \equiv 2, 3 \pmod 5", r"x \equiv 2 \pmod 5 \text{ or } x \equiv 3 \pmod 5",
    ),
}  # fmt: skip
OTHERS = {
    r"\begin{cases} x & x \ge 0 \\ -x & x < 0 \end{cases}": (
        "x", "-x", "-|x|", "|x+1|", "|2x|", "|y|", "x^2",
        r"\begin{cases} x & x > 0 \\ -x & x < 0 \end{cases}",
        r"\begin{cases} x & x \ge 1 \\ -x & x < 1 \end{cases}",
    ),
    r"\begin{cases} 1 & x > 0 \\ 0 & x \le 0 \end{cases}": (
        r"\begin{cases} 1 & x \ge 0 \\ 0 & x < 0 \end{cases}", "1", "0",
    ),
    "|x|": (r"\begin{cases} x & x \ge 0 \\ x & x < 0 \end{cases}",),
    r"\begin{cases} x + 1 & x \neq 2 \\ 0 & x = 2 \end{cases}": (
        r"\begin{cases} 0 & x = 1 \\ x + 1 & \text{otherwise} \end{cases}", "x + 1",
    ),
    r"2e^{i\theta}": (r"2(\cos\theta - i\sin\theta)", r"2(\sin\theta + i\cos\theta)", "2"),
    r"2\cos\theta + 2i\sin\theta": (r"2e^{-i\theta}", r"e^{i\theta}", r"2e^{\theta}"),
    r"\overline{AB}": ("AC", r"\overline{AC}", "A", "ABC", "line AB"),
    r"\angle ABC": (r"\angle BAC", "BAC"),
    r"\triangle ABC": (r"\triangle BAC",),
    r"\overrightarrow{AB}": (r"\overrightarrow{BA}", "BA"),
    "AB": (r"\overline{AB}",),
    r"(-\infty, 2) \cup (2, \infty)": (
        r"x \ne -2", r"\mathbb{R}", r"\{x \mid x = 2\}", r"\mathbb{R} - \{-2\}", "2",
    ),
    r"x \equiv \pm 2 \pmod{5}": (r"x \equiv 2 \pmod 5", r"x \equiv 1, 4 \pmod 5"),
    r"\{1, 2, 4, \ldots, 16\}": (r"\{1, 2, \ldots, 16\}", r"\{1, 2, 4, 16\}"),
    r"1, 2, 3, \ldots": ("1, 2, 3", r"1, 2, 3, \ldots, 9"),
}  # fmt: skip


def _passes(gold: str, answer: str) -> bool:
    return judge((gold,), answer, SETTINGS).passed is True


@pytest.mark.parametrize(("gold", "said"), [(g, a) for g, all_ in EQUAL.items() for a in all_])
def test_the_same_in_another_form_passes(gold: str, said: str) -> None:
    assert _passes(gold, said)


@pytest.mark.parametrize(("gold", "said"), [(g, a) for g, all_ in OTHERS.items() for a in all_])
def test_another_one_does_not_pass(gold: str, said: str) -> None:
    assert not _passes(gold, said)


SLOPES = st.integers(-9, 9).filter(bool)
SHIFTS = st.integers(-20, 20)


@settings(max_examples=40, deadline=None)
@given(SLOPES, SHIFTS, st.integers(1, 12), SHIFTS, st.integers(-1, 1), st.booleans())
def test_an_absolute_value_by_cases(
    slope: int, root: int, below: int, shift: int, off: int, first: bool
) -> None:
    bound = f"\\frac{{{root}}}{{{below}}}"
    rising, falling = (f"{sign * slope}(x - {bound}) + {shift}" for sign in (1, -1))
    upper, lower = (rising, falling) if slope > 0 else (falling, rising)
    cases = [f"{upper} & x \\ge {bound}", f"{lower} & x < {bound}"]
    gold = "\\begin{cases} " + " \\\\ ".join(cases if first else cases[::-1]) + " \\end{cases}"
    assert _passes(gold, f"{abs(slope)}|x - {bound}| + {shift}")
    assert _passes(f"f(x) = {abs(slope)}|x - {bound}| + {shift}", gold)
    assert _passes(gold, f"{abs(slope)}|x - {bound}| + {shift + off}") == (off == 0)
    assert _passes(gold, f"{abs(slope) + off}|x - {bound}| + {shift}") == (off == 0)
    assert not _passes(gold, upper)
    assert not _passes(gold, lower)


@settings(max_examples=10, deadline=None)
@given(SLOPES, SLOPES, st.integers(1, 5), st.sampled_from(["\\theta", "x", "t"]))
def test_a_complex_number_in_polar_form(size: int, turn: int, off: int, name: str) -> None:
    gold = f"{size}e^{{{turn}i{name}}}"
    assert _passes(gold, f"{size}(\\cos({turn}{name}) + i\\sin({turn}{name}))")
    assert not _passes(gold, f"{size}(\\cos({turn}{name}) - i\\sin({turn}{name}))")
    assert not _passes(gold, f"{size + off}(\\cos({turn}{name}) + i\\sin({turn}{name}))")
    assert not _passes(gold, f"{size}(\\cos({turn + off}{name}) + i\\sin({turn + off}{name}))")


@given(
    st.integers(-20, 20), st.integers(-7, 7).filter(bool), st.integers(4, 30), st.integers(-1, 1)
)
def test_a_set_with_dots_is_its_integers(first: int, step: int, count: int, off: int) -> None:
    said = [str(first + step * at) for at in range(count + off)]
    gold = ", ".join(str(first + step * at) for at in range(count))
    dots = f"\\{{{said[0]}, {said[1]}, \\ldots, {said[-1]}\\}}"
    assert _passes(f"\\{{{gold}\\}}", dots) == (off == 0)
    assert _passes(dots, f"\\{{{gold}\\}}") == (off == 0)
    last = int(said[-1]) + (1 if abs(step) > 1 else step)
    assert not _passes(f"\\{{{', '.join(said)}\\}}", dots.replace(f", {said[-1]}\\", f", {last}\\"))
