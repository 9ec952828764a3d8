"""Finds the label of a multiple choice that a response names. Total on any text.

The rules, in the order in which they are applied (docs/pipelines.md has them as a table):

1. What is thought aloud is ignored (`assay.verifiers.text.thoughts`).
2. The first strategy that finds *statements* counts. Each statement is read separately; together
   they must name exactly one label.
3. A sentence that begins with a correction (`Wait`, `Actually`, `Correction`) cancels everything
   before it, if a label is named after it.
4. A statement in a clause that denies it (`I doubt that the answer is B`), only considers it
   (`if the answer is B`, `I thought the answer was B`) or asks names nothing.
5. In a statement a label is *rejected* by words before it (`not B`, `instead of B`,
   `ruled out A and B`) or after it (`B is wrong`); otherwise it is *named*. A rejected label is
   never the result. If the statements of a strategy only reject, the next strategy decides among
   the rest.
6. `A`, `I` and `a` before a lower-case word are words, not labels, unless the word is one that
   follows labels (`A because`, `A is`).
7. Two or more labels in the form of a list of options (`A) Paris B) Rome`) repeat the question;
   a statement in which such a list begins does not count.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from assay.verifiers.options import Strategy
from assay.verifiers.text import denials, markers
from assay.verifiers.text.abroad.english import in_english, is_a_verdict
from assay.verifiers.text.announcements.alternatives import alternative
from assay.verifiers.text.announcements.search import announced
from assay.verifiers.text.answers import extract
from assay.verifiers.text.around import layout, unreal, withdrawn
from assay.verifiers.text.choices.labels import (
    CONSIDERED,
    DENIED,
    END,
    STATEMENT_CHARS_MAX,
    Labels,
    Statement,
    clause_before,
    is_rejecting_after,
    is_rejecting_before,
    labels_of,
)
from assay.verifiers.text.choices.options import LIST_CHARS_MAX
from assay.verifiers.text.choices.plain import plain_text
from assay.verifiers.text.thoughts import answer_part

_WIDE: Final = (Strategy.WHOLE, Strategy.TAIL)
_CLOSED: Final = (Strategy.TAG, Strategy.BOXED)
"""Their statements have an end mark; those of the others end with a sentence or a line."""
_EXPLICIT: Final = (
    Strategy.TAG,
    Strategy.BOXED,
    Strategy.HASHES,
    Strategy.ANSWER_IS,
    Strategy.ANSWER_COLON,
)
_TAIL_CHARS_MAX: Final = 500
_ALONE_CHARS_MAX: Final = 24
"""Of an answer that a reason follows."""
_MARKS: Final = " \n().[]:,;!"
_STATEMENTS_MAX: Final = 256
_LONE_LABEL: Final = re.compile(r"[\s*_$(\[]{0,4}[A-Z][\s*_$)\].]{0,4}")
_EDITED: Final = re.compile(
    r"^[\s*_>#-]{0,6}(?:edit(?:ed)?|correct(?:ion|ed)|update|erratum|revised)"
    r"(?:[ ](?:answer|choice))?[*_]{0,3}\s?[:=\u2014-][*_]{0,3}[ ]{0,3}([^\n]{1,40})$",
    re.IGNORECASE | re.MULTILINE,
)
_OFFERED: Final = {
    Strategy.TAG: markers.tags,
    Strategy.BOXED: markers.boxes,
    Strategy.ANSWER_IS: markers.answers_is,
    Strategy.ANSWER_COLON: markers.answers_colon,
}
"""Statements behind which another label may be offered."""
_TAG: Final = re.compile(r"<(/?)answer>", re.IGNORECASE)
_BOX: Final = re.compile(r"\\(?:boxed|fbox)[ ]{0,4}\{")
_IS: Final = re.compile(
    r"\b(?:answer|choice|option|pick|solution)[ ]{1,4}"
    r"(?:(?P<denied>(?:is|was|will|would|should|must|can|could)(?:n't|[ ]{1,4}not|not)"
    r"|can't|won't|ain't)\b(?:[ ]be\b)?"
    r"|(?:is|was|will[ ]be|would[ ]be|should[ ]be|must[ ]be|has[ ]to[ ]be)\b)"
    r"[ ]{0,4}(?::|\.{2,3}|\u2026)?"
    r"|\bI(?:'d|'ll|[ ]would|[ ]will|'m|[ ]am)?[ ]{1,4}"
    r"(?:go(?:ing)?[ ]with|choose|pick|select|opt[ ]for)\b",
    re.IGNORECASE,
)
_COLON: Final = re.compile(rf"^[ >#-]{{0,12}}{markers.HEADING}", re.IGNORECASE | re.MULTILINE)
_HASHED: Final = re.compile(r"####([^\n]*)")
_HASHES: Final = re.compile(r"####[^\n#]*(?:\s*####[^\n#]*){0,16}\s*\Z")
_RETRACTION: Final = re.compile(
    r"(?:^|[.!?;,>\n\u2013\u2014-])\s{0,4}(?:but\s|oh\s|hmm,?\s|no,?\s)?"
    r"(?:wait|actually|correction|scratch[ ]that"
    r"|on[ ]second[ ]thought|let[ ]me[ ]correct|i[ ]was[ ]wrong|i[ ]made[ ]a[ ]mistake|sorry"
    r"|just[ ]kidding|never[ ]?mind|strike[ ]that|my[ ]mistake|oops|or[ ]rather"
    r"|(?:please[ ])?(?:ignore|disregard|forget|scratch|discard)[ ](?:that|this|it"
    r"|(?:the|my)[ ](?:above|previous|last|first|earlier))"
    r"|hold[ ]on|i[ ]mean|i[ ]take[ ]that[ ]back|i[ ]change[ ]my[ ]mind|no(?=\s?[,:\u2014-]))\b",
    re.IGNORECASE,
)
_SECOND_LOOK: Final = re.compile(
    r"(?:^|[.!?;,>\n\u2013\u2014-])\s{0,4}(?:(?:but|so|then|hmm),?\s)?"
    r"(?:let[ ](?:me|us|'s)[ ](?:re-?\w+|double[ -]check|check[ ]again|think[ ]again)\b"
    r"|(?:on|upon|after|with)[ ](?:\w+[ ])?(?:reflection|thought|consideration|inspection"
    r"|look|review)\b"
    r"|(?:no[, ]+)?(?:that|this|it)(?:'s|[ ]is|[ ]was)[ ](?:wrong|incorrect|false"
    r"|not[ ](?:right|correct)"
    r"|an?[ ](?:mistake|error))(?=\s?[.,;:!\u2014-])|wrong(?=!)"
    r"|i[ ](?:take[ ]back|retract|withdraw)\b"
    r"|(?:everything|all[ ]of[ ]the|the)[ ]above[ ](?:is|was)[ ](?:wrong|incorrect)\b"
    r"|(?:this|that|my|the[ ]above)(?:[ ]answer)?[ ](?:should|must)[ ]be[ ](?:ignored"
    r"|disregarded)\b|(?:nope|no|nah),[ ](?:wrong|incorrect|not[ ]right)\b"
    r"|(?:the|my|this)[ ]answer[ ]does(?:n't|[ ]not)[ ](?:satisfy|fit|match|meet)\b)",
    re.IGNORECASE,
)
"""May begin a correction; it is one if an answer is stated after it."""
_STATES: Final = re.compile(
    r"[\s.!,;:]*(?:(?:so|hence|thus|then|therefore)[, ]+)?"
    r"(?:(?:it|that|this)(?:'s|[ ]is|[ ]must[ ]be|[ ]should[ ]be)|I[ ](?:now[ ])?(?:choose"
    r"|pick|say|select))\b",
    re.IGNORECASE,
)
_BECAUSE: Final = re.compile(
    r"(?:(?<=[.!])\s+(?:because|since|as)\b[^.!?\n]*|\n\s{0,4}(?:explanation|reason(?:ing)?"
    r"|rationale"
    r"|justification|why)\b\W{0,4}(?:\s.*)?\Z)",
    re.IGNORECASE | re.DOTALL,
)
"""Why, behind a label that stands alone."""
_AT_ONCE: Final = re.compile(
    r"(?P<label>\s*[(\[]?\w{1,12}[)\]]?),?\s+(?:because|since)\b[^.!?\n]*", re.IGNORECASE
)
"""`B, since A is too large`."""
_CONCESSION: Final = re.compile(
    r"(?<=\w)[,;]?\s*\b(?:previously|formerly|although|even[ ]though|though|even[ ]if|despite)\b",
    re.IGNORECASE,
)
"""Begins a clause about labels that are not the answer: `B, although A is close`."""
_CONCEDES: Final = ("prev", "formerly", "though", "even", "desp")
"""A concession has one of these in it, whatever its case."""
_OR_LINE: Final = re.compile(r"\n\s{0,4}or\b", re.IGNORECASE)
_GOES_ON: Final = re.compile(r"[^\w\n<>|}]{1,6}\w")
"""Behind a label: there is more on its line."""
_BRACKETED: Final = re.compile(r"\s*\(\s*(\w{1,4})\s*\)\s*")
_SENTENCE_END: Final = re.compile(r"[.!?;](?=\s)|\n")
_WITHDRAWALS_MAX: Final = 16
"""Statements before which one is looked for."""
_LINE_END: Final = re.compile(r"(?:[ ]*\n)+[ ]*")


class Reading(NamedTuple):
    """The result of reading a response."""

    labels: frozenset[str]
    """One = the answer; several = the response names several; empty = it names none."""
    text: str | None
    """The last statement that was read; `None` if there is none."""


def read_choice(response: str, choices: tuple[str, ...], strategies: Sequence[Strategy]) -> Reading:
    """Return the labels that the response names."""
    bare = tuple(match[1] for choice in choices if (match := _BRACKETED.fullmatch(choice)))
    if len({one.casefold() for one in bare}) == len(choices):  # `B` is `(b)`
        found = read_choice(response, bare, strategies)
        named = frozenset(choices[bare.index(one)] for one in found.labels)
        return found._replace(labels=named)
    labels = labels_of(choices)
    text = unreal.without(denials.without_struck(layout.plain(answer_part(response))))
    is_safe = not any(map(is_a_verdict, choices))
    text = in_english(text, bare=is_safe)
    if _is_withdrawn(text, labels, bare=is_safe):
        return Reading(frozenset(), text.strip() or None)
    chosen = labels.lists.without_candidates(text)
    if chosen != text:
        reading = _read(chosen, labels, strategies)
        if len(reading.labels) == 1:
            return reading
    reading = _read(text, labels, strategies)
    if not reading.labels:
        right = labels.lists.judged_right(plain_text(text))
        reading = reading._replace(labels=reading.labels if right is None else frozenset({right}))
    return reading


def _is_withdrawn(text: str, labels: Labels, *, bare: bool) -> bool:
    """`bare`: no label is one that `This is false.` may state."""
    if not withdrawn.is_withdrawn(text):
        return False
    states = bare or any(True for kind in _EXPLICIT for _ in _statements(text, kind))
    reason = withdrawn.reason(text)
    named = labels.read(plain_text(reason), is_direct=False)[0] if reason else ()
    return withdrawn.is_withdrawn(text, states=states) and not named


def _read(text: str, labels: Labels, strategies: Sequence[Strategy]) -> Reading:
    for part in _parts(text, labels):
        rejected: set[str] = set()
        for strategy in strategies:  # a strategy that only rejects leaves the rest to the next
            statements = _of(part, strategy, labels)
            if not statements:
                continue
            named, denied = labels.read_all(statements)
            named -= rejected
            rejected |= denied
            if strategy not in _WIDE:
                rejected |= labels.read(plain_text(part[statements[-1].end :]), is_direct=False)[1]
            if named or not rejected or strategy in _WIDE:
                read = named if len(named) > 1 else named - rejected
                read |= _named_otherwise(part, strategy, strategies, labels) if read else set()
                return Reading(frozenset(read), statements[-1].text)
    return Reading(frozenset(), text.strip() or None)


def _named_otherwise(
    part: str, by: Strategy, strategies: Sequence[Strategy], labels: Labels
) -> set[str]:
    """Labels that other explicit strategies find: `Answer: A`, then `The answer is B`."""
    explicit = [one for one in strategies if one in _EXPLICIT]
    said = [one for kind in explicit for one in list(_statements(part, kind))[-_STATEMENTS_MAX:]]
    if {Strategy.ANSWER_IS, Strategy.ANSWER_COLON} & set(strategies):
        said += _announced(part)
        said += _edited(part)
    if Strategy.HASHES in strategies:
        said += _hashes_before(part, said)
    if by in _OFFERED:
        said += _in_place_of(part, by)
    plain, begins = plain_text(part), sorted(one.start for one in said)
    alone = [
        one
        for one in said
        if labels.named_by(_first_line(one.text)) is not None
        and not _begins_options(plain, one, begins, labels)
    ]
    listed = [one for kind in explicit if kind is not by for one in _of(part, kind, labels)]
    named, denied = labels.read_all(list(dict.fromkeys((*listed, *alone))))
    return named - denied


def _announced(part: str) -> list[Statement]:
    """`Answer - A`, `Result: A`, `| Answer | A |`, but not `Answer - A. Rome`."""
    return [
        Statement(one.end - len(one.text), plain_text(one.text), is_direct=True, end=one.end)
        for one in announced(part)[-_STATEMENTS_MAX:]
        if _GOES_ON.match(part, one.end) is None
    ]


def _edited(part: str) -> list[Statement]:
    """`Edit: B` on a line of its own."""
    return [
        Statement(line.start(1), plain_text(line[1]), is_direct=True, end=line.end())
        for line in islice(_EDITED.finditer(part), _STATEMENTS_MAX)
    ]


def _in_place_of(part: str, by: Strategy) -> list[Statement]:
    """`B` in `\\boxed{A} or B` and in `The answer is A. Or B.`, behind the last statement."""
    marked = _OFFERED[by](part)[-1:]
    if by not in _CLOSED:
        first = [(one, markers.sentence(one.text)) for one in marked]
        others = [
            alternative(part, one.start, part.index(said, one.start) + len(said), said)
            for one, said in first
            if _LONE_LABEL.fullmatch(said)
        ]
    else:
        others = [alternative(part, one.start, one.end) for one in marked]
    return [
        Statement(one.start, plain_text(one.text), is_direct=True, end=one.end)
        for one in (other.statement for other in others if other is not None)
    ]


def _begins_options(
    plain: str, statement: Statement, begins: Sequence[int], labels: Labels
) -> bool:
    """Whether a list of options begins with it, which ends where the next statement begins."""
    begin = statement.start
    next_at = next((at for at in begins if at > begin), len(plain))
    said = max(begin + len(statement.text), _line_end(plain, begin + len(statement.text)))
    last = min(next_at, begin + LIST_CHARS_MAX)
    return labels.lists.begins(plain[begin:last], min(said, last) - begin)


def _first_line(text: str) -> str:
    return text.strip(_MARKS).partition("\n")[0].strip(_MARKS)


def _hashes_before(part: str, statements: Sequence[Statement]) -> list[Statement]:
    """`#### A` directly before another statement is one too; elsewhere it begins a section."""
    plain = plain_text(part)
    begins = [statement.start for statement in statements]
    for find in (markers.answers_is, announced):
        begins += [statement.start for statement in find(part)]
    return [
        Statement(line.start(1), line[1], is_direct=True, end=line.end())
        for line in islice(_HASHED.finditer(plain), _STATEMENTS_MAX)
        if (at := min((one for one in begins if one >= line.end()), default=-1)) >= 0
        and markers.adjoin(plain, line.end(), at)
    ]


def _parts(text: str, labels: Labels) -> Iterator[str]:
    """The response after its last correction that names a label, otherwise all of it."""
    plain = plain_text(text)
    begins = [match.end() for match in _RETRACTION.finditer(plain)]
    for begin in reversed(begins[-16:]):
        named, rejected = labels.read(plain[begin:], is_direct=False)
        if named or rejected:
            yield text_from(text, plain, begin)
            return
    looks = [match.end() for match in _SECOND_LOOK.finditer(plain)]
    for begin in reversed(looks[-16:]):
        rest = text_from(text, plain, begin)
        if _STATES.match(plain, begin) or any(
            True for strategy in _EXPLICIT for _ in _statements(rest, strategy)
        ):
            named, rejected = labels.read(plain[begin:], is_direct=False)
            if named or rejected:
                yield rest
                return
    yield text_from(text, plain, _after_withdrawal(text, plain))


def _after_withdrawal(text: str, plain: str) -> int:
    """Where the last statement begins before which the response takes its answer back, or 0."""
    if not withdrawn.may_be_inside(text):
        return 0
    starts = {one.start for kind in _EXPLICIT for one in _statements(text, kind)}
    starts |= {one.start for find in (markers.answers_is, announced) for one in find(text)}
    for start in sorted(starts, reverse=True)[:_WITHDRAWALS_MAX]:
        begin = max((end.end() for end in _SENTENCE_END.finditer(plain, 0, start)), default=0)
        if begin and withdrawn.is_withdrawn(plain[:begin]):
            return begin
    return 0


def text_from(text: str, plain: str, begin: int) -> str:
    """The rest of `text` that corresponds to the rest of `plain`."""
    return text[begin:] if len(text) == len(plain) else plain[begin:]


def _statements(text: str, strategy: Strategy) -> Iterator[Statement]:
    plain = plain_text(text)
    if strategy is Strategy.TAG:
        yield from _tags(text, plain)
    elif strategy is Strategy.BOXED:
        yield from _boxes(text, plain)
    elif strategy is Strategy.HASHES:
        yield from _hashes(plain)
    elif strategy is Strategy.ANSWER_IS:
        found = [*_answers_is(plain), *_in_other_languages(text, plain)]
        yield from sorted(found, key=lambda statement: statement.start)
    elif strategy is Strategy.ANSWER_COLON:
        yield from _behind_colons(plain)
    elif strategy in _WIDE:
        begin = max(0, len(plain) - _TAIL_CHARS_MAX) if strategy is Strategy.TAIL else 0
        said = _without_reason(plain[begin:])
        if said.strip():
            yield Statement(begin, said, is_direct=False, end=len(plain))
    elif (one := extract(text, (strategy,))) is not None:
        begin = max(0, text.rfind(one.text))
        yield Statement(begin, plain_text(one.text), is_direct=True, end=len(text))


def _hashes(plain: str) -> Iterator[Statement]:
    """At the end of a response; elsewhere `####` begins a heading."""
    ending = _HASHES.search(plain)
    for line in _HASHED.finditer(plain, len(plain) if ending is None else ending.start()):
        yield Statement(line.start(1), line[1], is_direct=True, end=line.end())


def _behind_colons(plain: str) -> Iterator[Statement]:
    for match in _COLON.finditer(plain):
        end = _line_end(plain, match.end())
        if not plain[match.end() : end].strip():  # it is on the next line that says something
            end = _line_end(plain, _past_line_end(plain, end))
        if _OR_LINE.match(plain, end):
            end = _line_end(plain, end + 1)
        said = _before_concession(plain[match.end() : end])
        yield Statement(match.end(), said, is_direct=True, end=end)


def _without_reason(plain: str) -> str:
    """`B. Because C is too large.`: without the reason, if a label stands alone before it."""
    reason = _BECAUSE.search(plain)
    if reason is None or len(plain[: reason.start()].strip(_MARKS)) > _ALONE_CHARS_MAX:
        at_once = _AT_ONCE.match(plain)
        return plain if at_once is None else at_once["label"] + plain[at_once.end() :]
    return plain[: reason.start()] + plain[reason.end() :]


def _before_concession(said: str) -> str:
    """What is said before `although A is close`."""
    folded = said.casefold()
    if not any(part in folded for part in _CONCEDES):  # the search takes ten times as long
        return said
    return _CONCESSION.split(said, 1)[0]


def _is_rejected(plain: str, begin: int, end: int) -> bool:
    """`not [...]`, `[...] is wrong`."""
    return is_rejecting_before(plain, begin) or is_rejecting_after(plain, end)


def _tags(text: str, plain: str) -> Iterator[Statement]:
    begun_at = 0
    opened_at: int | None = None
    for match in _TAG.finditer(text):
        if not match[1]:
            begun_at, opened_at = match.span()
        elif opened_at is not None:
            content = plain_text(text[opened_at : match.start()])
            denied = _is_rejected(plain, begun_at, match.end())
            yield Statement(opened_at, content, is_direct=True, end=match.end(), is_denied=denied)
            opened_at = None


def _boxes(text: str, plain: str) -> Iterator[Statement]:
    at = 0
    while (match := _BOX.search(text, at)) is not None:
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if not depth and not markers.is_blank(text[match.end() : end - 1]):
            denied = _is_rejected(plain, match.start(), end)
            said = plain[match.end() : end - 1]
            yield Statement(match.end(), said, is_direct=True, end=end, is_denied=denied)
        at = end if not depth else len(text)


def _answers_is(plain: str) -> Iterator[Statement]:
    for match in _IS.finditer(plain):
        last = match.end() + STATEMENT_CHARS_MAX
        ending = END.search(plain, _past_line_end(plain, match.end()), last)
        end = ending.start() if ending else min(last, len(plain))
        before = clause_before(plain, match.start())
        asks = ending is not None and ending[0] == "?"
        if asks or CONSIDERED.search(before):
            continue
        denied = (
            match["denied"] is not None
            or DENIED.search(before) is not None
            or denials.of_answer(plain, match.start())
        )
        statement = _before_concession(plain[match.end() : end])
        yield Statement(match.end(), statement, is_direct=True, end=end, is_denied=denied)


def _in_other_languages(text: str, plain: str) -> Iterator[Statement]:
    if text.isascii() or len(text) != len(plain):
        return
    for found in markers.answers_is(text):
        asks = plain[found.end : found.end + 1] == "?" or found.text.endswith(("?", "\uff1f"))
        if not asks and not text[found.start].isascii() and text[found.start] != "\u9009":
            said = plain_text(found.text)
            begin = found.end - len(found.text)
            yield Statement(begin, said, is_direct=True, end=found.end)


def _past_line_end(plain: str, at: int) -> int:
    """A statement may continue after a colon and a line end: `The answer is:` ... `B`."""
    rest = _LINE_END.match(plain, at)
    return rest.end() if rest is not None else at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _of(part: str, strategy: Strategy, labels: Labels) -> list[Statement]:
    found = list(_statements(part, strategy))[-_STATEMENTS_MAX:]
    return _without_options(part, found, strategy, labels)


def _without_options(
    part: str, statements: Sequence[Statement], strategy: Strategy, labels: Labels
) -> list[Statement]:
    """The statements that are not a list of options, and do not begin one."""
    if strategy in _WIDE:
        return list(statements)
    plain = plain_text(part)
    kept = []
    for statement in statements:
        begin, end = statement.start, statement.start + len(statement.text)
        said = end if strategy in _CLOSED else max(end, _line_end(plain, end))
        last = said if strategy in _CLOSED else begin + LIST_CHARS_MAX
        if not labels.lists.begins(plain[begin:last], said - begin):
            kept.append(statement)
    return kept
