"""The grammar of answers: numbers, lists, sets, tuples, ratios, times, units, words.

docs/verdicts.md describes the grammar with examples. `read` turns text into a tree of the classes
below. The mathematical meaning of an element is not decided here: an `Element` that is not a plain
number keeps its text.
"""

from assay.verifiers.math.grammar.read import read
from assay.verifiers.math.grammar.relations import region
from assay.verifiers.math.grammar.remarks import is_mathematics, without_remark
from assay.verifiers.math.grammar.tree import (
    ITEMS_MAX,
    Answer,
    Based,
    Chain,
    Date,
    Element,
    Items,
    Matrix,
    Named,
    Number,
    Prose,
    Ratio,
    Time,
    Union,
    Words,
    are_same,
)
from assay.verifiers.math.grammar.words import meaning, words_form

__all__ = [
    "ITEMS_MAX",
    "Answer",
    "Based",
    "Chain",
    "Date",
    "Element",
    "Items",
    "Matrix",
    "Named",
    "Number",
    "Prose",
    "Ratio",
    "Time",
    "Union",
    "Words",
    "are_same",
    "is_mathematics",
    "meaning",
    "read",
    "region",
    "without_remark",
    "words_form",
]
