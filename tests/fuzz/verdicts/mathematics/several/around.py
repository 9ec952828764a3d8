r"""What stands around an answer and makes it a part of another one: `x > \boxed{5}`."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

_STRICT: Final = ("<", ">", "\\ne", "\\lt", "\\gt", "!=", "\u2260")
_WEAK: Final = ("\\le", "\\ge", "\\leq", "\\geqslant", "\u2264", "\u2265")
_NAMES: Final = ("x", "2x", "f(x)", "a + b", "\\theta", "n^2", "|y|", "x_1")
_PLACES: Final = ("{}", "${}$", "\\[{}\\]", "So ${}$.", "Therefore, {}.", "**{}**", "- ${}$")
_BRACKETS: Final = ("[)", "()", "(]", "[]")
_OPERATIONS: Final = (
    *("{} over {n}", "{} minus {n}", "{} plus x", "{} times {n}", "{} to the 2nd", "{} squared"),
    *("half of {}", "{n}% of {}", "three times {}", "the sum of {n} and {}", "two thirds of {}"),
    *("the reciprocal of {}", "{n} less than {}", "minus {}", "{} and a half"),
)
_DENIALS: Final = (
    *("La respuesta no es {}.", "Die Antwort ist nicht {}.", "{} es incorrecto.", "{} ist falsch."),
    *(
        "La r\u00e9ponse n'est pas {}.",
        "A resposta n\u00e3o \u00e9 {}.",
        "\u7b54\u6848\u4e0d\u662f{}",
    ),
    *("\u7b54\u3048\u306f{}\u3067\u306f\u306a\u3044", "\u9519\u8bef\u7b54\u6848\u662f{}"),
    *("\uc815\ub2f5\uc740 {}\uac00 \uc544\ub2d9\ub2c8\ub2e4", "Cevap {} de\u011fil."),
)


def around_case(rng: random.Random) -> Case:
    """A right value in a place where it is no answer, or only has something beside it."""
    value = str(rng.randint(12, 999))
    box = f"\\boxed{{{value}}}"
    kind, said = rng.choice((_related, _enclosed, _operated, _denied, _remarked))(rng, box, value)
    is_right = kind == "remark"
    return Case(
        pipeline="math",
        kind=f"around: {kind}",
        response=rng.choice(("", "We work.\n\n")) + said,
        reference={"answers": [value]},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )


def _related(rng: random.Random, box: str, _value: str) -> tuple[str, str]:
    sign, name = rng.choice(_STRICT), rng.choice(_NAMES)
    twice = rng.choice(_STRICT + _WEAK)
    said = rng.choice(
        (f"{name} {sign} {box}", f"{box} {sign} {name}", f"0 {twice} x {twice} {box}")
    )
    return "relation", rng.choice(_PLACES).format(said)


def _enclosed(rng: random.Random, box: str, _value: str) -> tuple[str, str]:
    opens, closes = rng.choice(_BRACKETS)
    members = rng.choice((f"{box}, \\infty", f"-\\infty, {box}", f"{box}, 1000", f"1, {box}, 3"))
    return "bracket", rng.choice(_PLACES).format(f"{opens}{members}{closes}")


def _operated(rng: random.Random, box: str, value: str) -> tuple[str, str]:
    words = rng.choice(_OPERATIONS)
    marked = rng.choice((box, f"${box}$"))
    if rng.random() < 0.5:
        return "operation", words.format(marked, n=rng.randint(2, 9))
    said = words.format(rng.choice((value, f"${value}$")), n=rng.randint(2, 9))
    return "operation", rng.choice(("The answer is {}.", "<answer>{}</answer>", "#### {}")).format(
        said
    )


def _denied(rng: random.Random, box: str, value: str) -> tuple[str, str]:
    return "denial", rng.choice(_DENIALS).format(rng.choice((box, value, f"${value}$")))


def _remarked(rng: random.Random, box: str, _value: str) -> tuple[str, str]:
    sign, weak = rng.choice(_STRICT[:-2] + _WEAK), rng.choice(_WEAK)
    said = rng.choice((f"{box} {sign} 5", f"abc {weak} {box}", f"x = {box}", f"x = {box} {sign} 0"))
    return "remark", rng.choice(_PLACES).format(said)
