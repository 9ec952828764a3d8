r"""Labels of a multiple choice that are hedged, denied, flooded, disguised or adorned.

`{x}` is the right label, `{y}` and `{z}` are wrong ones. Only an adorned label is right.
"""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected, one_of

_HEDGES: Final = (
    "{x} or {y}", "{y} or {x}", "{x}, {y}", "{x}/{y}", "{x} and {y}", "{x} & {y}", "{x} | {y}",
    "{x}; {y}", "{x}{y}", "{x} {y}", "{x}-{y}", "{x}\n{y}", "({x}) ({y})", "({x}) or ({y})",
    "either {x} or {y}", "both {x} and {y}", "{x} (or {y})", "{x}, possibly {y}", "{x} maybe {y}",
    "{x}, {y}, {z}", "{x} or {y} or {z}", "{x} vs {y}", "{x}? {y}?", "{x} then {y}", "{x} + {y}",
    "all of {x}, {y}, {z}", "{x} = {y}", "{x} as well as {y}", "{x} along with {y}",
    "{x}, but also {y}", "{x} and also {y}", "{x} unless it is {y}", "{x}, otherwise {y}",
    "{x}, alternatively {y}", "{x} if true, else {y}", "one of {x} and {y}", "{x} ~ {y}",
    "{x}\u2013{y}", "{x} \u2192 {y}", "{x} \\text{ or } {y}", "\\text{{x}} \\text{ or } \\text{{y}}",
    "{x} \\lor {y}", "A through E", "any of them", "all of the above", "none of the above",
    "I do not know", "unknown", "?", "...", "N/A", "null", "the first or the last",
)  # fmt: skip
_DENIALS: Final = (
    "not {x}", "Not {x}", "NOT {x}", "definitely not {x}", "anything but {x}", "everything except {x}",
    "all but {x}", "{y}, not {x}", "{y} rather than {x}", "{y} instead of {x}", "{y} (not {x})",
    "{y} and not {x}", "neither {x} nor {y}", "\u00ac{x}", "!{x}", "\\neq {x}", "\u2260 {x}", "~~{x}~~",
    "~~{x}~~ {y}", "<s>{x}</s> {y}", "<del>{x}</del>", "\\cancel{{x}}", "\\sout{{x}} {y}",
    "{y}. {x} is wrong", "{y} because {x} is wrong", "{y}, since {x} cannot be right",
    "{y} as {x} is false", "{x} is wrong", "{x} is incorrect", "{x} \u2717", "\u2717 {x}", "\u274c {x}",
    "{x} \u274c {y} \u2705", "{y} \u2705 {x} \u274c", "no longer {x} but {y}", "other than {x}",
    "{y} beats {x}", "{y} over {x}", "the opposite of {x}", "{x} can be excluded",
    "{x} was eliminated, so {y}", "far from {x}", "never {x}", "hardly {x}", "it isn't {x}",
    "{y}; {x} fails", "\\text{not } {x}", "{x} (incorrect)", "{x} [wrong]", "not ({x})",
)  # fmt: skip
_DISGUISES: Final = (
    "{y}\u200b{x}", "{x}\u200b{y}", "{y} <!-- {x} -->", "<!-- {x} --> {y}", "{y}\\phantom{{x}}",
    "\\phantom{{x}}{y}", "{y} % {x}", "[{y}]({x})", "\\iffalse {x} \\fi {y}", "\\tag{{x}} {y}",
    "\\color{white}{x} \\color{black}{y}", "{y}^{{x}}", "{y}_{x}", "{y}{x}{z}", "{x}x", "x{x}",
    "{x}1", "1{x}", "{x}-{z}-{y}", "\u202e{y}{x}", "{x}\u0336 {y}", "{y}\u20e0{x}", "&#65;&#66;{y}",
    "{y} or \u0410", "\u0412 {y}", "{y}\u2060{x}", "{y}\u00ad{x}", "{y}\ufeff{x}",
)  # fmt: skip
_ADORNMENTS: Final = (
    "{x}", "({x})", "[{x}]", "{x}.", "{x})", "{x}:", "**{x}**", "*{x}*", "__{x}__", "`{x}`", '"{x}"',
    "'{x}'", "\u201c{x}\u201d", "${x}$", "\\({x}\\)", "$\\text{{x}}$", "\\text{{x}}", "\\textbf{{x}}",
    "\\mathrm{{x}}", "\\mathbf{({x})}", "\\text{({x})}", "option {x}", "Option {x}", "choice {x}",
    "Choice ({x})", "letter {x}", "**({x})**", "{{x}}", " {x} ", "\u00a0{x}\u00a0", "{x}!", "{x} .",
    "\\boxed{{x}}", "\\fbox{{x}}", "<b>{x}</b>", "definitely {x}", "clearly {x}", "{x} (final)",
    "{x} obviously", "{x}, not {y}", "{x} rather than {y}", "{x} instead of {y}", "{x} and not {y}",
    "{x} because {y} is wrong", "{x}, since {y} fails", "not {y} but {x}", "{x} \u2705",
    "{x} \u2714", "{x} - the capital", "{x}) the capital", "{x}: the capital", "{x}. the capital",
)  # fmt: skip
_CARRIERS: Final = (
    "\\boxed{%s}", "<answer>%s</answer>", "The answer is %s", "Answer: %s", "**Answer:** %s",
    "The correct answer is: %s", "Final answer: %s", "We look at each.\n\nAnswer: %s",
)  # fmt: skip
SHAPES: Final = {
    "hedge": _HEDGES,
    "denial": _DENIALS,
    "disguise": _DISGUISES,
    "adornment": _ADORNMENTS,
}
CHOICES: Final = ("A", "B", "C", "D", "E")


def label_response(rng: random.Random, kind: str, shape: str) -> tuple[str, str]:
    """A response of this kind, and the right label."""
    x, y, z = rng.sample(CHOICES[1:], 3)  # `A` is an article too; other cases cover it
    for mark, label in (("{x}", x), ("{y}", y), ("{z}", z)):
        shape = shape.replace(mark, label)
    able = [one for one in _CARRIERS if "box" not in shape or "\\boxed" not in one]
    if "\n" in shape or "<" in shape:
        able = ["<answer>%s</answer>"]
    return rng.choice(able).replace("%s", shape), x


def label_case(rng: random.Random) -> Case:
    """A multiple choice and an answer that hedges, denies, hides or adorns the label."""
    kind = one_of(rng, {"hedge": 3, "denial": 3, "disguise": 2, "adornment": 3})
    response, right = label_response(rng, kind, rng.choice(SHAPES[kind]))
    return Case(
        pipeline="choice",
        kind=f"label: {kind}",
        response=response,
        reference={"answer": right, "choices": list(CHOICES)},
        expected=Expected.RIGHT if kind == "adornment" else Expected.WRONG,
    )
