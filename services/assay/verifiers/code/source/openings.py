"""Marks around a program of which the prompt has written the first one.

A prompt that ends with "```python", `[BEGIN]` or `<code>` makes a model answer with the program and
the closing mark. Pure, linear. Nothing is read as such a mark unless the text before it begins like
a program, and has in it what the program must have; so a fence behind words opens a block.
"""

import re
from collections.abc import Sequence, Set
from typing import Final

_FENCE: Final = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_IN_STRING: Final = ('"""', "'''")
_BEGINNING: Final = re.compile(
    r"(?:\s*+(?:#(?!include|define|pragma)|//)[^\n]*\n|(?!))*+\s*+(?:"  # comments
    r"\"\"\"|'''|#!|/\*|#[ \t]{0,9}(?:include|define|pragma)\b|"
    r"using[ \t]+namespace\b|template[ \t]*<|"
    r"from[ \t]+[\w.]+[ \t]+import\b|import[ \t]+[\w.*]+(?:[ \t]*[,;]|[ \t]+as\b|[ \t]*$)|"
    r"(?:async[ \t]+)?def[ \t]+\w+[ \t]*[(\[]|class[ \t]+\w+[ \t]*[:(\[{]|@\w|return\b|"
    r"(?:for|while|if|with|try)\b[^\n]*[:{][ \t]*$|package[ \t]+[\w.]+;?[ \t]*$|"
    r"(?:[\w.,\[\]* \t]|\([\w, ]{0,80}\)){1,80}[-+*/%|&^]?=(?!=)|[\w.]{1,80}\([^\n]*\)[ \t;]*$|"
    r"(?:public|final|abstract)[ \t]+(?:final[ \t]+)?class\b|(?:pub[ \t]+)?fn[ \t]+\w|"
    r"(?:const|let|var|int|long|void|static|struct|func|signed)[ \t]+\w[^\n]*[;{}(,)=][ \t]*$|"
    r"use[ \t]+\w+::|"
    r"SELECT\s|WITH[ \t]+\w+[ \t]+AS\b|\{[ \t]*$)",
    re.MULTILINE,
)
"""How a program begins, and hardly any sentence."""
_PRINTS: Final = re.compile(
    r"\b(?:print|puts|write|writeln|stdout|cout|printf|echo|console\.log)\b"
)


def opened(
    said: str, languages: Set[str], wants: re.Pattern[str] | None, *, drafts: str = ""
) -> str:
    """What was said, with the fence that its prompt began, if it did.

    A program without any fence gets a pair if there is one in `drafts`: it is the answer then.

    Args:
        said: a response without its thoughts, and without a mark of a chat template at its end.
        languages: names of the wanted language.
        wants: what a program has, where that is known; what continues a prompt is indented.
        drafts: the thoughts.
    """
    if not _BEGINNING.match(said):
        return said
    fences = list(_FENCE.finditer(said))
    if not (fences or "```" in drafts):
        return said
    found = _outside_of_strings(said, fences)
    if found is None:  # of fences, or of any that is not in a string of the program
        return _fenced(said, languages) if (wants or _PRINTS).search(said) else said
    before, behind = said[: found.start()], said[found.end() :]
    if not before.strip():
        return said
    is_whole = bool(wants and wants.search(before)) and not before.rstrip().endswith(":")
    if wants and is_whole and not wants.search(behind):
        return _fenced(before, languages)  # what follows are examples of its use
    continues = before.lstrip("\r\n").startswith(("  ", "\t"))
    is_alone = found[0].strip() == found["fence"] and not found["indent"]
    if not is_alone or _BEGINNING.match(behind) or (wants and not (continues or is_whole)):
        return said
    is_over = wants and not wants.search(behind)
    return _fenced(before, languages) + ("" if is_over else behind)


def _outside_of_strings(text: str, fences: Sequence[re.Match[str]]) -> re.Match[str] | None:
    """The first fence that is in no string of three quotes."""
    opened_by, at = dict.fromkeys(_IN_STRING, 0), 0
    for found in fences:
        for mark in _IN_STRING:
            opened_by[mark] ^= text.count(mark, at, found.start()) % 2
        at = found.start()
        if not any(opened_by.values()):
            return found
    return None


def _fenced(text: str, languages: Set[str]) -> str:
    """All of it in a fence that none of its own can close."""
    own = [len(one["fence"]) + 1 for one in _FENCE.finditer(text)]
    fence = "`" * max([3, *own])
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{min(languages)}\n{text}{end}{fence}\n"
