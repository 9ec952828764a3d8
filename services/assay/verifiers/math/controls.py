"""Creates responses with a known verdict from a reference, to test the reference.

A gold must pass in every usual carrier. Its mutants must fail: another sign, another digit, a part
of a list, a list in another order if order matters. Mutants with the same value are left out (`-0`,
`\\pm`, a digit beyond the rounding). Pure text to text; nothing is judged here.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from assay.verifiers.math import notation
from assay.verifiers.math.definition import MathReference, MathSettings
from assay.verifiers.math.equality import numbers, residues
from assay.verifiers.math.extract import CARRIERS
from assay.verifiers.math.grammar import Answer, Element, Items, Named, Number, Prose, Ratio
from assay.verifiers.math.reading import Read, read_gold
from assay.verifiers.options import Strategy
from assay.verifiers.port import Control

_ONE_SENTENCE: Final = frozenset({Strategy.ANSWER_IS, Strategy.ANSWER_COLON, Strategy.HASHES})
"""Carriers that hold one sentence on one line."""
_SENTENCES: Final = re.compile(r"(?a)\n|\.\s")
_DIGIT: Final = re.compile(r"(?a)\d")
_EQUALS: Final = re.compile(r"(?a)(?<![<>!\\])=|\\approx")
_IN_COMMAND: Final = re.compile(r"\\begin\{[^{}]*\}(?:\{[^{}]*\})?|\\end\{[^{}]*\}")
_SOLUTION_CHARS: Final = 400
_EVEN: Final = re.compile(
    r"(?a)^\s*\(?[^()+-]*\)?\s*\^\s*\{?\s*\d*[02468]\s*\}?$|^\\?\|.*\|$|\\pm|\\mp|\\cos|\\infty"
)


def controls(reference: MathReference, settings: MathSettings) -> Sequence[Control]:
    """The controls of every answer; see `PipelineDefinition.controls`."""
    found: list[Control] = []
    golds = [read_gold(text, settings.option_strings) for text in reference.answers]
    for at, text in enumerate(reference.answers):
        for name, response, passes in _of_one(text, settings):
            if not passes and _is_another_gold(response, golds, settings):
                continue
            found.append(Control(name=f"answers[{at}] {name}", response=response, passes=passes))
    return found


def _of_one(text: str, settings: MathSettings) -> Iterator[tuple[str, str, bool]]:
    strategies = [one for one in CARRIERS if one in settings.strategies]
    if is_solution(text):
        yield "gold", text, True
        return
    for strategy in strategies:
        if strategy in _ONE_SENTENCE and _SENTENCES.search(text):
            continue
        yield f"gold as {strategy}", carried(text, strategy), True
    for name, mutant in mutants(text, settings):
        yield name, carried(mutant, strategies[0] if strategies else Strategy.WHOLE), False


def is_solution(text: str) -> bool:
    """Whether the reference is a worked solution, which contains its own carrier."""
    return "\\boxed" in text or "####" in text or "<answer>" in text or len(text) > _SOLUTION_CHARS


def carried(text: str, strategy: Strategy) -> str:
    """`text` as in a response; a box contains no dollar signs."""
    if strategy is Strategy.BOXED:
        text = notation.peel(text) if text.strip().startswith(("$", "\\(", "\\[")) else text
    return CARRIERS[strategy].format(text)


def mutants(text: str, settings: MathSettings) -> Iterator[tuple[str, str]]:
    """Wrong answers that differ little from `text`: `(name of the change, wrong answer)`."""
    gold = read_gold(text, settings.option_strings)
    if gold is None or gold.form != gold.answer.form:
        return  # the position of the answer is unknown; a mutant might change another part
    for name, mutant in (
        ("sign_flipped", _sign_flipped(text, gold.answer)),
        ("digit_changed", _digit_changed(text)),
        ("part_left_out", _part_left_out(gold.answer)),
        ("order_changed", _order_changed(gold.answer)),
    ):
        if mutant and not _is_same(gold, mutant, settings):
            yield name, mutant


def _sign_flipped(text: str, answer: Answer) -> str | None:
    plain = notation.tidy(text)
    match answer:
        case Number(value=value) if value:
            return plain[1:].strip() if plain.startswith("-") else f"-{plain}"
        case Element() if not _EVEN.search(plain) and not _is_relation(plain):
            if not re.search(r"(?a)\d|\\frac|\\sqrt|\\pi|[A-Za-z]", plain) or plain.startswith(
                "\\text"
            ):
                return None
            if re.match(r"(?a)[\\{\[(|]", plain) and not plain.startswith(
                ("\\frac", "\\sqrt", "\\pi")
            ):
                return None
            return f"-({plain})" if not answer.unit else None
        case Items(items=items) if items and isinstance(items[0], Number):
            return _items_text(answer, [_negated(items[0]), *map(text_of, items[1:])])
    return None


def _negated(number: Number) -> str:
    said = text_of(number)
    return said[1:] if said.startswith("-") else f"-{said}"


def _is_relation(text: str) -> bool:
    return re.search(r"[=<>]|\\(?:le|ge|neq|in|approx|equiv)(?![A-Za-z])", text) is not None


def _digit_changed(text: str) -> str | None:
    """Change the first leading digit of a number; in a chain, that of the last value."""
    commands = [match.span() for match in _IN_COMMAND.finditer(text)]
    last_side = max((match.end() for match in _EQUALS.finditer(text)), default=0)
    for match in _DIGIT.finditer(text, last_side):
        at = match.start()
        if any(start <= at < end for start, end in commands):
            continue
        digit = str(int(match[0]) % 9 + 1)
        return text[:at] + digit + text[at + 1 :]
    return None


def _part_left_out(answer: Answer) -> str | None:
    if not isinstance(answer, Items) or len(answer.items) < 2 or answer.brackets == "pm":
        return None
    return _items_text(answer, [text_of(item) for item in answer.items[:-1]])


def _order_changed(answer: Answer) -> str | None:
    match answer:
        case Items(kind="tuple", items=items, brackets="()"):
            return _items_text(answer, [text_of(item) for item in reversed(items)])
        case Ratio(terms=terms):
            return ":".join(text_of(term) for term in reversed(terms))
        case Named(name=name, value=Items(kind="tuple", brackets="()") as value):
            inner = _order_changed(value)
            return None if inner is None else f"{name}={inner}"
    return None


def _items_text(answer: Items, parts: Sequence[str]) -> str:
    inner = ", ".join(parts)
    if answer.kind == "list":
        return inner
    opening, closing = ("\\{", "\\}") if answer.kind == "set" else tuple(answer.brackets)
    return f"{opening}{inner}{closing}"


def text_of(answer: Answer) -> str:
    """An answer as text that parses to the same answer."""
    match answer:
        case Items():
            return _items_text(answer, [text_of(item) for item in answer.items])
        case Element(text=text, unit=unit):
            return f"{text} \\text{{ {unit}}}" if unit else text
        case Number():
            return numbers.number_text(answer)
    return answer.form


def _is_same(gold: Read, mutant: str, settings: MathSettings) -> bool:
    """Whether the mutant equals the gold, by rules that need no algebra."""
    read = read_gold(mutant, settings.option_strings)
    if read is None or read.form == gold.form:
        return True
    if isinstance(read.answer, Prose) or isinstance(gold.answer, Prose):
        return False
    if residues.same(gold, read):
        return True
    return _plainly_equal(gold.answer, read.answer, settings)


def _plainly_equal(gold: Answer, other: Answer, settings: MathSettings) -> bool:
    if isinstance(gold, Number) and isinstance(other, Number):
        return numbers.numbers_equal(gold, other, settings)
    if isinstance(gold, Ratio) and isinstance(other, Ratio):
        return numbers.proportional(gold.terms, other.terms)
    if isinstance(gold, Items) and isinstance(other, Items):
        same_length = len(gold.items) == len(other.items)
        if gold.kind == "tuple":
            return same_length and all(
                _plainly_equal(one, two, settings)
                for one, two in zip(gold.items, other.items, strict=True)
            )
        return all(
            any(_plainly_equal(one, two, settings) for two in there)
            for here, there in ((gold.items, other.items), (other.items, gold.items))
            for one in here
        )
    return bool(gold.form) and gold.form == other.form


def _is_another_gold(response: str, golds: Sequence[Read | None], settings: MathSettings) -> bool:
    """Several golds are alternatives: a mutant of one may be right for another."""
    if len(golds) < 2:
        return False
    read = read_gold(response, settings.option_strings)
    return read is not None and any(
        gold is not None
        and (gold.form == read.form or _plainly_equal(gold.answer, read.answer, settings))
        for gold in golds
    )
