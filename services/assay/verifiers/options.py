"""Choices that settings and references of pipelines offer, without what carries them out.

Every process reads the definitions of all pipelines; few of them look for an answer or apply a
schema, which takes half a second to import.
"""

from enum import StrEnum


class Strategy(StrEnum):
    """How an answer is marked."""

    TAG = "tag"
    """`<answer>18</answer>`; a `\\boxed{}` inside is unwrapped too."""
    BOXED = "boxed"
    """`\\boxed{18}` or `\\fbox{18}` with balanced braces. Boxes separated only by `and`, commas and
    similar words are one answer with several parts: naming two values to be safe names both."""
    HASHES = "hashes"
    """`#### 18`, to the end of the line."""
    ANSWER_IS = "answer_is"
    """`The answer is 18`, to the end of the sentence."""
    ANSWER_COLON = "answer_colon"
    """A line `A: 18`, `Answer: 18` or `**Final answer:** 18`."""
    LAST_NUMBER = "last_number"
    """The last number of the text, at any position."""
    TAIL = "tail"
    """The last lines (at most 500 characters), for a judge that searches for the answer itself."""
    WHOLE = "whole"
    """The whole response without surrounding white space."""


class Dialect(StrEnum):
    """Dialects of JSON Schema, named as in the official test suite."""

    DRAFT_4 = "draft4"
    DRAFT_6 = "draft6"
    DRAFT_7 = "draft7"
    DRAFT_2019_09 = "draft2019-09"
    DRAFT_2020_12 = "draft2020-12"
