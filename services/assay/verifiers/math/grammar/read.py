"""Applies the rules in their order; the first that matches decides.

The same rules apply to references and responses. Invariants: total (any text has a tree, `Prose` if
no rule matches), pure, and linear in the text times the nesting depth, which is bounded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.grammar.brackets import (
    read_bracketed,
    read_empty_set,
    read_matrix,
    read_outward,
    read_solutions,
    read_union,
)
from assay.verifiers.math.grammar.calendar import read_date, read_hours, read_time
from assay.verifiers.math.grammar.chains import read_chain
from assay.verifiers.math.grammar.lists import read_list, read_plus_minus
from assay.verifiers.math.grammar.numbers import (
    read_based,
    read_foreign_decimal,
    read_mixed,
    read_number,
    read_spelled,
)
from assay.verifiers.math.grammar.parts import read_cases, read_parts
from assay.verifiers.math.grammar.quantities import read_marks, read_quantity
from assay.verifiers.math.grammar.relations import (
    ascending,
    read_computed,
    read_contradiction,
    read_named,
    read_ratio,
)
from assay.verifiers.math.grammar.tree import Answer, Element, Prose, Reader
from assay.verifiers.math.grammar.vectors import read_vector
from assay.verifiers.math.grammar.words import read_expression, read_reals, read_words

DEPTH_MAX: Final = 12
"""Maximum bracket depth that is read as structure; deeper brackets stay text."""
CHARS_MAX: Final = 4_000
"""A longer text is prose."""

_RULES: Final[tuple[Callable[[str, Reader], Answer | None], ...]] = (
    # Forms that are one element although they contain words or commas.
    read_date,
    read_hours,
    read_outward,
    read_reals,
    read_empty_set,
    read_spelled,
    read_mixed,
    read_foreign_decimal,
    read_marks,
    read_cases,
    read_parts,
    read_solutions,
    # Several elements.
    read_list,
    # One element.
    read_vector,
    read_based,
    read_number,
    read_matrix,
    read_time,
    read_union,
    read_bracketed,
    read_plus_minus,
    read_words,
    read_contradiction,
    read_named,
    read_computed,
    read_ratio,
    read_quantity,
    read_expression,
)


@dataclass(frozen=True, slots=True)
class _Level:
    """Reads at one depth."""

    depth: int = 0

    def part(self, text: str) -> Answer:
        """Read a part of the text, one level deeper."""
        return _Level(self.depth + 1).read(text)

    def read(self, text: str) -> Answer:
        """Apply the rules to normalised `text`."""
        if self.depth > DEPTH_MAX:
            return Element(text=text, form=notation.form(text))
        if notation.is_plain(text) and (number := read_number(text, self)) is not None:
            return number
        text = ascending(text)
        found = self._by_rules(text)
        return (read_chain(text, self, found) or found) if self.depth == 0 else found

    def _by_rules(self, text: str) -> Answer:
        for rule in _RULES:
            found = rule(text, self)
            if found is not None:
                return found
        return Prose(text=text, form=notation.form(text))


def read(text: str) -> Answer:
    """Parse `text` as an answer."""
    if len(text) > CHARS_MAX:
        return Prose(text=text, form=notation.form(text))
    return _Level().read(notation.tidy(text))
