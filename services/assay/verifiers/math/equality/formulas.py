r"""Chemical formulas and reactions by their spelling: `\ce{H2O}`, `H2O`, `H_2O`. Pure.

Only for a reference that is one: symbols of elements with counts, brackets and a charge. Letters
keep their case, counts their place. In a reaction the substances of a side may stand in any order.
"""

import re
from typing import Final

from assay.verifiers.math.grammar import Answer, Element, Named, Prose, Words

_ELEMENTS: Final = (
    "H|He|Li|Be|B|C|N|O|F|Ne|Na|Mg|Al|Si|P|S|Cl|Ar|K|Ca|Sc|Ti|V|Cr|Mn|Fe|Co|Ni|Cu|Zn|Ga|Ge|As|Se"
    "|Br|Kr|Rb|Sr|Y|Zr|Nb|Mo|Tc|Ru|Rh|Pd|Ag|Cd|In|Sn|Sb|Te|I|Xe|Cs|Ba|La|Ce|Nd|Sm|Eu|W|Pt|Au|Hg"
    "|Tl|Pb|Bi|Ra|Th|U|Pu"
)
_GROUP: Final = rf"(?:(?:{_ELEMENTS})\d{{0,3}})"
_SUBSTANCE: Final = re.compile(
    rf"\d{{0,3}}(?:{_GROUP}|\((?:{_GROUP}){{1,9}}\)\d{{0,3}}){{1,20}}(?:\^?\d?[+-])?(?:\((?:s|l|g|aq)\))?"
)
_WRAPPED: Final = re.compile(r"\\(?:ce|text|mathrm|rm|mathsf)(?![A-Za-z])")
_ARROW: Final = re.compile(r"\\(?:long)?rightarrow|\\to(?![A-Za-z])|-+>|=(?!=)|\u2192")
_BLANK: Final = re.compile(r"[\s{}$~_|]|\\[,;:! ]|\.$")
_PLUS: Final = re.compile(r"(?<=[\w)])\+(?=[\dA-Z(])")
_SINGLE: Final = re.compile(r"[A-Z][a-z]?")
_SURELY: Final = re.compile(rf"\\ce(?![A-Za-z])|\{{(?:{_ELEMENTS})\}}_")
"""As a chemist writes, and a mathematician does not."""
_TWO_LETTERS: Final = re.compile(rf"(?=[A-Z][a-z])(?:{_ELEMENTS})(?![a-z])")
_CAPITAL: Final = re.compile("[A-Z]")
_GROUPS: Final = re.compile(_GROUP)
_CHARS_MAX: Final = 300
_Spelling = tuple[tuple[str, ...], ...]


def same(gold: Answer, answer: Answer) -> bool | None:
    """Whether both are the same formula or reaction; `None` if they may be something else."""
    one, two = _written(gold), _written(answer)
    if one is None or two is None or not _CAPITAL.search(one):
        return None
    is_single = "\\ce" in one or "\\ce" in two
    wanted, said = (_spelling(text, is_single=is_single) for text in (one, two))
    if wanted is None or said is None:
        return None
    if wanted == said:
        return True
    return False if _is_chemistry(one) or _is_chemistry(two) else None


def _written(answer: Answer) -> str | None:
    """The text as it is written: that of a quantity ends before its unit, its form does not."""
    if not isinstance(answer, Named | Element | Words | Prose):
        return None
    text = answer.form or answer.text
    return text if len(text) <= _CHARS_MAX else None


def _is_chemistry(text: str) -> bool:
    """Whether text is surely chemistry; `CO` and `OC`, also products of names, are not."""
    if _SURELY.search(text):
        return True
    bare = _BLANK.sub("", _WRAPPED.sub("", text))
    is_more = len(_GROUPS.findall(bare)) > 1 or any(map(str.isdecimal, bare.lstrip("0123456789")))
    return is_more and _TWO_LETTERS.search(bare) is not None


def _spelling(text: str, *, is_single: bool) -> _Spelling | None:
    bare = _BLANK.sub("", _WRAPPED.sub("", text))
    sides = _ARROW.split(bare)
    if len(sides) > 2 or (len(sides) == 1 and not is_single and _SINGLE.fullmatch(bare)):
        return None
    found = [_PLUS.split(side) if len(sides) == 2 else [side] for side in sides]
    if not all(_SUBSTANCE.fullmatch(one) for side in found for one in side):
        return None
    return tuple(tuple(sorted(map(_charged, side))) for side in found)


def _charged(substance: str) -> str:
    return substance.replace("^", "") if substance[-1] in "+-" else substance
