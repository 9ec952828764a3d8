"""Parses references and extracted answers into trees of `grammar`, by the same rules.

A reference that is itself a worked solution is read like a response. A short one in words is not
searched.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from assay.verifiers.math import agreement, grammar, notation, search
from assay.verifiers.math.grammar import Answer, Chain, Items, Named, Prose, Words, leads
from assay.verifiers.math.lexicon import orders
from assay.verifiers.math.memory import remembered
from assay.verifiers.options import Strategy
from assay.verifiers.text import denials
from assay.verifiers.text.answers import Extracted, extract
from assay.verifiers.text.around import arithmetic, following

_REMEMBERED_MAX: Final = 2_048
_REMEMBERED_CHARS_MAX: Final = 4_000
_REPEATED_CHARS_MAX: Final = 200
"""A longer answer is read each time: hardly two responses give the same, and its tree is large."""
_OPTION_WORDS_MAX: Final = 1_000
"""Words from the end that are searched for an option."""
_SOLUTION_CHARS_MIN: Final = 60
"""A longer reference in sentences may be a solution, which is searched for its answer."""
_DENIED: Final = re.compile(
    r"(?ai)[\s*_$(\[{\"'`\u201c]{0,9}(?:\\(?:text\w{0,6}|math\w{1,6}|mbox)\s?\{\s?)?"
    r"(?:(?:definitely|certainly|clearly|surely|simply|just)\s)?(?:not|never|neither|nor|hardly)(?![A-Za-z])"
)
_SAYS_ANOTHER: Final = re.compile(
    r"(?ai)(?<![a-z\\])(?:but|rather|instead|it(?:'s| is)|actually|correct|right)(?![a-z])|[;.]\s"
)
"""Behind a denial, what may be the answer."""
_LABEL: Final = re.compile("[A-J]")
_OUTSIDE: Final = re.compile(
    r"(?a)\A\s*\$(?P<value>(?=[^$]{0,80}\d)[^$]{1,80})\$\s{0,3}(?P<unit>[A-Za-z])\s*\.?\s*\Z"
)
"""What stands outside of mathematics is text: `$5$ C` are coulombs, and no product."""
_AS_TEXT: Final = r"\g<value>\\text{ \g<unit>}"
_MARKED: Final = (
    Strategy.TAG,
    Strategy.BOXED,
    Strategy.HASHES,
    Strategy.ANSWER_IS,
    Strategy.ANSWER_COLON,
)


@dataclass(frozen=True, slots=True)
class Read:
    """An answer, and the normalised form of its text."""

    form: str
    answer: Answer
    condition: str = ""
    """What the text says about the names in the answer: `k \\in Z`."""


def read_gold(text: str, options: tuple[str, ...] = ()) -> Read | None:
    """Read a reference answer; `None` if it is empty."""
    if not text.strip():
        return None
    if len(text) > _REMEMBERED_CHARS_MAX:
        return _read(text, options, is_gold=True)
    return _gold(text, options)


@remembered(_REMEMBERED_MAX)
def _gold(text: str, options: tuple[str, ...]) -> Read:
    """The K responses of a group share their reference, so it is read once."""
    return _read(text, options, is_gold=True)


def read_answer(text: str, options: tuple[str, ...] = ()) -> Read:
    """Read an answer extracted from a response."""
    if len(text) > _REPEATED_CHARS_MAX:
        return _read(text, options, is_gold=False)
    return _answer(text, options)


def forget() -> None:
    """Read everything again that is read from now on."""
    _gold.cache_clear()
    _answer.cache_clear()


@remembered(_REMEMBERED_MAX)
def _answer(text: str, options: tuple[str, ...]) -> Read:
    """Responses of a group often give the same answer, and the controls of a reference do."""
    return _read(text, options, is_gold=False)


def _read(text: str, options: tuple[str, ...], *, is_gold: bool) -> Read:
    if not options and notation.is_plain(text):
        number = grammar.read(text)
        return Read(number.form, number)
    text = _OUTSIDE.sub(_AS_TEXT, notation.unstruck(notation.undoubled(text)))
    if not is_gold:
        text = _without_lead(leads.without_decoration(text))
        value, said = following.divided(text)
        if said and grammar.is_mathematics(grammar.read(value)):
            if following.takes_back(said):
                return Read(notation.form(text), Prose(text, notation.form(text)))
            text = text if following.states(said) else value
        text = grammar.without_remark(text)
        text = arithmetic.in_symbols(search.opened(text)) or text
        if search.is_of_one_case(text):
            return Read(notation.form(text), Prose(text, notation.form(text)))
        if _DENIED.match(text) and not isinstance(grammar.read(text), Words):
            whole = Prose(text, notation.form(text))
            if _SAYS_ANOTHER.search(text) is None:
                return Read(notation.form(text), whole)
            return _searched(text, whole, options, is_gold=False)
        if denials.begins(text):
            return _searched(text, Prose(text, notation.form(text)), options, is_gold=False)
    if not options and (ordered := _in_order(text, is_gold=is_gold)) is not None:
        return Read(ordered.form, ordered)
    answer = _option(text, options) or grammar.read(text)
    form = answer.form
    condition = ""
    conditioned = None if options else leads.conditioned(text)
    if conditioned is not None:
        main = grammar.read(conditioned.main)
        if not isinstance(main, Prose | Words):
            answer, condition = main, conditioned.condition
    found = _resolved(text, answer, form, options, is_gold=is_gold)
    return replace(found, condition=condition) if condition else found


def _in_order(text: str, *, is_gold: bool) -> Items | None:
    """A list that says in which order it stands. Whether the order counts, the gold decides: its
    items are a tuple then."""
    said = orders.listed(notation.peel(text))
    found = None if said is None else grammar.read(said)
    if not isinstance(found, Items) or (found.kind, found.brackets) != ("list", ""):
        return None
    return replace(found, kind="tuple", brackets="()") if is_gold else found


def _without_lead(text: str) -> str:
    """Without the words that announce the answer, if what they announce is one."""
    rest = leads.without_lead(text)
    return text if rest == text or isinstance(grammar.read(rest), Prose) else rest


def read_labelled(text: str) -> tuple[Read, Read] | None:
    """The label of a choice, and the answer that it stands for: both are stated."""
    if notation.is_plain(text):
        return None
    found = leads.labelled(notation.unstruck(notation.undoubled(text)))
    if found is None:
        return None
    rest = read_answer(found.rest)
    if isinstance(rest.answer, Prose):
        return None
    return read_answer(found.label), rest


def is_label(gold: Read) -> bool:
    """Whether a reference is the label of a choice."""
    return _LABEL.fullmatch(getattr(gold.answer, "text", "")) is not None


def _resolved(
    text: str, answer: Answer, form: str, options: tuple[str, ...], *, is_gold: bool
) -> Read:
    chain = answer.value if isinstance(answer, Named) else answer
    if isinstance(chain, Chain) and isinstance(chain.otherwise, Prose):
        found = agreement.values(chain)
        if found:
            return Read(form, answer)
        answer = chain.otherwise
        if found is not None:  # the sides contradict each other
            return Read(form, answer)
    if not isinstance(answer, Prose) and "\\boxed" not in text and "\\fbox" not in text:
        return Read(form, answer)
    return _searched(text, answer, options, is_gold=is_gold)


def _said_again(marked: Extracted) -> str:
    """The one answer of a text that states it several times; empty if it states several."""
    values = [grammar.read(part) for part in marked.parts]
    is_one = bool(values) and all(grammar.are_same(values[-1], other) for other in values)
    return marked.parts[-1] if is_one else ""


def _searched(text: str, answer: Answer, options: tuple[str, ...], *, is_gold: bool) -> Read:
    """The answer inside a text that is not an answer as a whole."""
    form = answer.form
    if isinstance(answer, Prose) and not answer.text:
        return Read(form, answer)  # all of it is invisible
    if is_gold:
        text = _closed(text)
    marked = extract(text, _MARKED)
    if marked is not None and marked.text != text:
        said = _said_again(marked) or marked.text
        inner = _option(said, options) or grammar.read(said)
        if not isinstance(inner, Prose):
            return Read(form, inner)
        text = said
    elif (opened := search.unboxed(text)) != text and not is_gold:
        whole = grammar.read(opened)  # its box is only a part of it
        if not isinstance(whole, Prose):
            return Read(form, whole)
    elif is_gold and len(text) < _SOLUTION_CHARS_MIN:
        return Read(form, answer)
    if is_gold:
        found = search.find(text)
    else:
        bare = leads.without_lead(search.opened(text))
        is_denied = search.is_denied(text) or search.is_denied(bare)
        commented = None if is_denied else search.is_commented(bare)
        if commented is not None:
            found = commented[0]
        else:
            found = None if is_denied else search.find_affirmed(text)
    return Read(form, _last_option(text, options) or found or answer)


def _closed(text: str) -> str:
    """Whether the reference's box was truncated in the data set."""
    missing = text.count("{") - text.count("}")
    return text + "}" * missing if 0 < missing <= 2 and "\\boxed" in text else text


def _option(text: str, options: tuple[str, ...]) -> Answer | None:
    """Whether it is one of the words that are answers themselves."""
    if not options:
        return None
    said = grammar.words_form(notation.words_of(notation.tidy(text))).casefold()
    for option in options:
        if said == option.casefold():
            return Words(text=option.casefold(), form=option.casefold())
    return None


def _last_option(text: str, options: tuple[str, ...]) -> Answer | None:
    for word in reversed(text.split()[-_OPTION_WORDS_MAX:]) if options else ():
        found = _option(word, options)
        if found is not None:
            return found
    return None
