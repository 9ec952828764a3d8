"""Where commands print text for people. What prints JSON does not wait for this to be imported."""

import re
from typing import Any, Final

from rich.console import Console
from rich.text import Text

_UNPRINTED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What a terminal obeys, or cannot show: controls, marks of direction, lone surrogates."""


def printable(text: str) -> str:
    """The text with escapes in place of what a terminal would obey."""
    return _UNPRINTED.sub(lambda found: ascii(found[0])[1:-1], text)


class TextConsole(Console):
    """Prints any text as it is. Ids, messages and evidence come from callers and responses, so
    brackets in them are no markup, and control characters do not reach the terminal."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of `Console`
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - as there
        """Every text that is printed passes here."""
        return super().render_str(printable(text), **options)


out = TextConsole()
err = TextConsole(stderr=True)
