"""All constraints by the names that IFEval and IFBench give them, and the two ways to apply them.

Pure; own code after the published descriptions; names and arguments are those of the data sets.
Absent: `words:start_verb` (a trained tagger decides) and `words:odd_even_syllables` (a dictionary
does).
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from assay.verifiers.instructions import counting, ifeval, layout, single, wording
from assay.verifiers.instructions.arguments import Arguments, ConstraintFamily

RULES: Final[Mapping[str, ConstraintFamily]] = MappingProxyType(
    {**counting.RULES, **wording.RULES, **layout.RULES, **single.RULES, **ifeval.RULES}
)


def follows(rule: ConstraintFamily, given: Arguments, response: str, *, loose: bool) -> bool:
    """Whether a response follows an instruction; a blank one follows none.

    Args:
        rule: of the instruction.
        given: its arguments.
        response: the text.
        loose: a variant of the text suffices (IFEval's loose accuracy).
    """
    variants = _variants(response) if loose else iter((response,))
    return any(variant.strip() and rule.follows(variant, given) for variant in variants)


def _variants(response: str) -> Iterator[str]:
    """The text, without its first line, its last, both; each also without asterisks."""
    parts = response.split("\n")
    cut = ("\n".join(rest).strip() for rest in (parts[1:], parts[:-1], parts[1:-1]))
    for variant in (response, *cut):
        yield variant
        yield variant.replace("*", "")
