"""Finds the program in a response.

Linear, total on any text. It is in a fenced block (`blocks`). An unclosed block counts only if no
block is closed, and a session of an interpreter only if there is nothing else. What a
model thinks aloud (`assay.verifiers.text.thoughts`) has a say only if there is no block behind it.
A block that the text around it takes back (`assay.verifiers.text.around.blocks`) is no program.
Without a fence, `<pre>` in HTML is one (`notebook`). Without either, the marks of chat templates
and of few-shot prompts around the response or its end (`<code>`, `<answer>`, `<sql>`,
`[PYTHON]`, `[BEGIN]`, `<|eot_id|>`) are no part of the program.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from assay.verifiers.code.source.blocks import ELSEWHERE, Block, blocks_of
from assay.verifiers.code.source.choices import BlockChoice, Extraction
from assay.verifiers.code.source.notebook import html_blocks
from assay.verifiers.code.source.openings import opened
from assay.verifiers.text.around import chat
from assay.verifiers.text.around.blocks import BlockContent, standing
from assay.verifiers.text.thoughts import begins_with_thought, behind_thoughts

_BYTE_ORDER_MARK: Final = "\ufeff"
_FRAMES: Final = (
    *(("<code>", "</code>"), ("[PYTHON]", "[/PYTHON]"), ("[BEGIN]", "[DONE]")),
    *((f"<{name}>", f"</{name}>") for name in ("answer", "python", "solution", "sql", "SQL")),
    ("[SQL]", "[/SQL]"),
)
_FRAMES_MAX: Final = 3
_SESSION: Final = re.compile(r"\s{0,100}(?:>>> |In \[\d{1,4}\]: )")
"""What was typed to an interpreter, with its answers."""


def program_of(
    response: str,
    extraction: Extraction,
    choice: BlockChoice,
    languages: frozenset[str],
    defines: Sequence[str] = (),
    begins: str = "",
) -> str | None:
    """Return the program, or `None` if the response has none.

    Blocks named after one of `languages` are preferred to blocks without a name, and these to
    blocks whose word names no language (`solution`); blocks in other languages are never used.

    Args:
        defines: names that the tests use. Of several blocks, those that define one of them are
            preferred: an example of its use, in a block behind the program, is not the program.
        begins: an expression for what every program has, where there is such a thing. Blocks that
            have it are preferred likewise: the part of a program that is explained is not one.
    """
    wants = re.compile(begins, re.MULTILINE) if begins else _definitions(defines)
    if extraction is Extraction.RAW:
        return response
    response = _with_opening(response.removeprefix(_BYTE_ORDER_MARK), languages, wants)
    if 0 < response.count("\r\n") == response.count("\n"):  # to a shell each would be a letter
        response = response.replace("\r\n", "\n")
    response = chat.unended(response)
    answer = behind_thoughts(response) or ""
    said = blocks_of(answer, languages)
    is_taken_back = not all(block.stands for block in said)  # a draft is not in its place
    fenced = said if is_taken_back else blocks_of(response, languages)
    behind = [block for block in said if block.closed and block.stands]
    found = [block for block in fenced if block.stands]
    for blocks in (behind, found):
        wanted = _wanted(blocks, languages)
        defining = _having(wants, wanted)
        if blocks is behind and wants and not defining:
            continue  # behind the thought stands at most an example of its use
        if wanted:
            return _chosen(defining or wanted, choice).removeprefix(_BYTE_ORDER_MARK)
    for blocks in (behind, found):
        unknown = _of_no_known_language(blocks)
        if unknown:
            return _chosen(_having(wants, unknown) or unknown, choice)
    if not fenced:  # an answer in HTML
        pages = _pages(response)
        fenced = [page for page in pages if not page.stands]
        wanted = _wanted([page for page in pages if page.stands], languages)
        if wanted:
            return _chosen(_having(wants, wanted) or wanted, choice)
    if extraction is Extraction.FENCED or fenced:
        return None
    alone = answer.startswith(("\n", "\r")) or (answer and begins_with_thought(response))
    return _unframed(answer if alone else response)


def _pages(response: str) -> list[Block]:
    pages = list(html_blocks(response))
    ends = [(0, 0), *((page.begin, page.end) for page in pages), (len(response), 0)]
    around = [response[before[1] : behind[0]] for before, behind in pairwise(ends)]
    firsts = [page.text.partition("\n")[0] for page in pages]
    stands = standing(around, firsts, BlockContent.PROGRAM) if pages else []
    return [
        Block(page.language, page.text, closed=True, stands=stood)
        for page, stood in zip(pages, stands, strict=True)
    ]


def _chosen(programs: Sequence[str], choice: BlockChoice) -> str:
    return programs[-1 if choice is BlockChoice.LAST else 0]


def _wanted(blocks: Sequence[Block], languages: frozenset[str]) -> list[str]:
    """The best kind of blocks that there is: closed before unclosed, named before unnamed."""
    for closed in (True, False):
        for named in (True, False):
            kind = [
                block.text
                for block in blocks
                if block.closed == closed
                and (block.language in languages if named else not block.language)
            ]
            if kind:
                return [text for text in kind if not _SESSION.match(text)] or kind
    return []


def _of_no_known_language(blocks: Sequence[Block]) -> list[str]:
    """Those with a word that names no language and no kind of text, closed ones first."""
    named = [block for block in blocks if block.language and block.language not in ELSEWHERE]
    return [block.text for block in named if block.closed] or [block.text for block in named]


def _definitions(names: Sequence[str]) -> re.Pattern[str] | None:
    """Finds a definition of one of the names in Python; `None` without names."""
    if not names:
        return None
    said = "|".join(map(re.escape, names))
    return re.compile(
        rf"^[ \t]{{0,12}}(?:(?:async[ \t]{{1,4}})?def|class)[ \t]{{1,4}}(?:{said})\b"
        rf"|^(?:{said})[ \t]{{0,4}}(?::[^=\n]{{0,80}})?=(?!=)",
        re.MULTILINE,
    )


def _having(wants: re.Pattern[str] | None, blocks: Sequence[str]) -> list[str]:
    """The blocks in which there is a match."""
    return [block for block in blocks if wants.search(block)] if wants else []


def _unframed(response: str) -> str:
    """Without what encloses the response or its end; anything else stays as it is, spaces too."""
    for _ in range(_FRAMES_MAX):
        inner = _without_frame(response)
        if inner == response:
            break
        response = inner
    return response


def _without_frame(response: str) -> str:
    stripped = response.strip()
    closing = next((closing for _, closing in _FRAMES if stripped.endswith(closing)), "")
    if not closing:
        return response
    for opening, end in _FRAMES:
        if end == closing and (at := _frame_at(stripped, opening)) >= 0:
            return stripped[at + len(opening) : -len(closing)].strip("\r\n") + "\n"
    return response[: response.rindex(closing)].rstrip() + "\n"  # the prompt has opened it


def _frame_at(text: str, opening: str) -> int:
    """Where the frame begins that `text` ends with; -1: nowhere."""
    return 0 if text.startswith(opening) else text.rfind(opening)


def _with_opening(response: str, languages: frozenset[str], wants: re.Pattern[str] | None) -> str:
    """The response with the fence that its prompt began, if it did."""
    behind = behind_thoughts(response)
    at = 0 if behind is None else len(response) - len(behind)
    thought, told = response[:at], chat.unended(response[at:])
    if "\r" in told:
        told = told.replace("\r\n", "\n")
    begun = opened(told, languages, wants, drafts=thought)
    if begun == told:
        return response
    return f"{thought}\n{begun}" if thought else begun
