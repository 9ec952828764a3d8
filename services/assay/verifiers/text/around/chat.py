"""The marks of chat templates with which a response may end: `<|im_end|>`, `</s>`, `<end_of_turn>`.

A trainer that decodes special tokens sends them with the response. Total, linear.
"""

import re
from typing import Final

_CHARS_MAX: Final = 300
"""From the end."""
MARK: Final = r"(?:<[|\uff5c][\w\u2581]{1,30}[|\uff5c]>|</s>|<eos>|<end_of_turn>)"
"""As part of a regular expression; U+FF5C and U+2581 are those of DeepSeek's marks."""
_MARKS: Final = re.compile(rf"{MARK}(?:\s{{0,40}}{MARK}){{0,7}}\s{{0,40}}\Z")


def unended(response: str) -> str:
    """The response without the marks that end it, and the white space behind each."""
    end = response[-_CHARS_MAX:]
    found = _MARKS.search(end) if ">" in end else None
    if found is None or (found[0].strip() == "</s>" and "<s>" in response):  # it was struck through
        return response
    return response[: len(response) - len(end) + found.start()]
