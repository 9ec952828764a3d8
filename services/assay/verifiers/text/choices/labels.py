"""Finds the labels of a multiple choice in a plain text, and which of them the text rejects."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from assay.verifiers.text import denials
from assay.verifiers.text.around import foreign
from assay.verifiers.text.choices.options import OptionLists
from assay.verifiers.text.choices.plain import plain_text
from assay.verifiers.text.choices.quantities import SEARCHED_CHARS_MAX, is_a_quantity

STATEMENT_CHARS_MAX: Final = 500
_MENTIONS_MAX: Final = 256
"""A text that mentions labels more often names all of them: no part of it may be left out."""
_HOPS_MAX: Final = 32
"""Labels and fillers between a label and the word that rejects it."""
END: Final = re.compile(
    r"(?:[.!?](?=\s|$)|\n"
    r"|;(?=\s|$)(?!\s*[(\[]?[A-Z][)\]]?\s*(?:[.,;\n]|$|(?:too|also|as[ ]well)\b)))"
    r"(?!\s{0,4}(?i:or)\b)"
)
"""The end of a statement; a label may follow a semicolon, and `Or ...` takes a statement back."""
_CLAUSE: Final = re.compile(r"[.!?;](?=\s)|[,:\n]|\bbut\b", re.IGNORECASE)
DENIED: Final = re.compile(
    r"(?:\bnot|n't)[ ]+(?:\w+[ ]+)?(?:think|believe|say|mean|agree|feel|see|claim|accept|conclude"
    r"|expect|true|clear|correct|right|case|that|necessarily)\b|\bnot[ ]*(?:the[ ]*)?(?:\w+[ ]*)?$"
    r"|\b(?:no[ ]way|never|doubt|deny|wrong|incorrect|false|disagree|hardly|unlikely|reject)\b",
    re.IGNORECASE,
)
"""Words before a statement, in its clause, that make it name nothing."""
CONSIDERED: Final = re.compile(
    r"\b(?:if|suppos\w+|assum\w+|whether|unless|thought|initially|at[ ]first|first|might|could|may"
    r"|maybe|perhaps|claim\w*|says|some[ ]say|people[ ]say|said|guess(?:ed|ing)|tempt\w+"
    r"|consider\w*|(?:they|others?|he|she|some|many|people|friends?)[ ](?:would[ ]|might[ ]"
    r"|may[ ])?"
    r"(?:answer|say|choose|pick|think|believe)s?|na\u00efve|naive\w*|trap|distractor|decoy"
    r"|red[ ]herring"
    r"|common[ ](?:\w+[ ])?(?:mistake|error|misconception)|mistakenly|(?:not|n't)[ ](?:sure"
    r"|certain)"
    r"|while|whereas|although|though|despite)\b",
    re.IGNORECASE,
)
_EARLIER: Final = re.compile(
    r"\b(?:previous|former|initial|earlier|original|old|first|preliminary|tentative)[ ]"
    r"(?:answer|option|choice|guess|pick|selection)s?[ ]*[:=][ ]*[(\[]?\s*$",
    re.IGNORECASE,
)
"""A heading over an answer that another one may replace."""
_REJECT_BEFORE: Final = re.compile(
    r"(?:\b(?:not|never|neither|nor|cannot|no[ ]longer|refuse[ ]to|far[ ]from|hardly|opposite[ ]of"
    r"|none[ ]of|no(?=[ ]*$)|in[ ]place[ ]of|no[ ]es|non[ ]\u00e8|n\u00e3o[ ]\u00e9"
    r"|n'est[ ]pas|nicht|niet|nie"
    r"|\u043d\u0435|one[ ](?:after|before)|beats?|prefer\w*[ ]\S{1,20}[ ]to|(?:any"
    r"|every)[ ]\w+[ ]but"
    r"|(?:no[ ]?one|no(?:body))(?:[ ](?:would|should|could|can|will|ever)){0,2}"
    r"|instead[ ]of|rather[ ]than|other[ ]than|than|over|unlike"
    r"|except(?:[ ]for)?|without|excluding|(?:any|every)\w*[ ](?:but|besides)"
    r"|all[ ](?:but|besides)|ruled?[ ]out"
    r"|ruling[ ]out"
    r"|eliminat(?:e[ds]?|ing)|exclud(?:e[ds]?|ing)|reject(?:s|ed|ing)?|discard(?:s|ed|ing)?"
    r"|dismiss(?:es|ed|ing)?|against|wrong|incorrect|avoid)|n't|[\u2260\u00ac\u2216]"
    r"|(?:^|\n)\s*[!\u2717\u2718\u274c])\s*[:(\[]?\s*$",
    re.IGNORECASE,
)
_IF_NOT: Final = re.compile(r"\bif[ ]+not[ ]*[(\[]?\s*$", re.IGNORECASE)
_FILLER: Final = re.compile(
    r"(?:\b(?:the|an?|be|been|options?|choices?|answers?|letters?|labels?|correct|right|likely"
    r"|probably|either|both|by|with|for|to|go|goes|choose[sn]?|chose|pick(?:s|ed)?"
    r"|select(?:s|ed)?|says?|said|just|simply|only|really"
    r"|actually|necessarily)|[(\[])\s*$",
    re.IGNORECASE,
)
_REJECT_AFTER: Final = re.compile(
    r"[ )\]]{0,3}(?:(?:is|are|was|were|seems?|looks?|sounds?|appears?|must|has|have|can|could"
    r"|should|would|being|gets?)\b(?:\s+(?:to|be|been|being|clearly|both|all|also|thus"
    r"|therefore|obviously"
    r"|definitely|certainly|simply|just|too|far|less|quite|very|likely|an?|the"
    r"|\w+\s+but)\b){0,3}\s*"
    r"(?:not\b|n't\b|wrong|incorrect|false|out\b|eliminated|excluded|rejected|discarded|dismissed"
    r"|ruled|impossible|invalid|implausible|unlikely|inconsistent|untrue|irrelevant|mistaken"
    r"|bad|poor|weak|worse|no\b|(?:almost|nearly|partially|partly|half)[ ](?:right|correct|true)"
    r"|(?:distractor|trap|decoy|red[ ]herring|mistake|error|(?:second|next)[ -]best|runner-up)\b)"
    r"|(?:isn't|aren't|wasn't|weren't|doesn't|don't|does\s+not|do\s+not|didn't|did\s+not|cannot"
    r"|can't|couldn't|won't|wouldn't|shouldn't|mustn't|fails?\b|contradicts?\b|makes?\s+no\b)"
    r"|[ ]?[(\[:,\u2014-][ ]?(?:this|that|it|which)(?:'s|[ ](?:is|was))[ ](?:an?[ ]|clearly[ ])?"
    r"(?:not\b|wrong|incorrect|false|untrue|impossible|excluded)"
    r"|[ ]?[(\[:\u2014-]?[ ]?(?:wrong|incorrect|false|excluded|eliminated|ruled[ ]out|out)\b"
    r"|,[ ]which[ ](?:is|was)[ ](?:wrong|incorrect|false|not)\b|[\u2717\u2718\u274c])",
    re.IGNORECASE,
)
_ALL_BUT: Final = re.compile(
    r"(?:\b(?:all|any|every\w*|each)\b(?:[ ]+(?:of|the|other|options?|choices?|answers?|one)){0,3}"
    r"[ ]+(?:but|except(?:[ ]for)?|other[ ]than|besides)|\u2216)[ ]*(?:options?[ ]"
    r"|choices?[ ])?\W{0,3}$",
    re.IGNORECASE,
)
"""`All but B are wrong` names B."""
HEDGED: Final = (
    r"(?:,?[ ]?\b(?:perhaps|maybe|possibly|probably|likely|I[ ](?:think|guess|suppose))\b)?"
)
"""May stand behind a label."""
_OPEN: Final = re.compile(
    rf"{HEDGED}[\s)\].,;:!?\u2013\u2014-]*\bor[ ]+(?:\w+[ ]+){{0,2}}?"
    r"(?:none|nothing|neither|no(?:t|[ ]\w+)?|any\w*"
    r"|some\w*|others?|maybe|perhaps|possibly|potentially"
    r"|another|else|what\w+|which\w+|who\w+|don't|do[ ]not|can't|cannot|unknown|unsure)\b",
    re.IGNORECASE,
)
"""An alternative behind a label that is no label: `B or none`, `B or something else`."""
_CONDITION_AFTER: Final = re.compile(
    rf"{HEDGED}[\s)\].,]*\b(?:unless|except[ ](?:when|if))\b(?![ ](?:I\b|there[ ]is[ ]an?[ ]))",
    re.IGNORECASE,
)
"""`B unless n is odd`, but not `B unless I am mistaken`."""
_OTHERWISE: Final = re.compile(
    r"\b(?:otherwise|else)\b[,:]?\s*(?:(?:it|the[ ]answer)(?:'s|[ ]is)\s*)?[(\[]?\s*$",
    re.IGNORECASE,
)
"""Before a label: there is another one for another case."""
_TEMPTS: Final = re.compile(
    r"(?:[ )\]]{0,3},?[ ](?:and|or)[ ][(\[]?\w{1,3}){0,3}"
    r"[ )\]]{0,3}(?:(?:seem|look|appear|sound)s?(?:[ ]to[ ]be)?(?:[ ]\w+){1,2}"
    r"|(?:is|was|are|were)[ ](?:\w+[ ])?(?:plausible|tempting|close|attractive|reasonable|appealing"
    r"|possible))"
    r"(?:[ ]at[ ]first(?:[ ]\w+)?)?,?[ ]+but\b",
    re.IGNORECASE,
)
"""`B seems plausible, but ...`."""
_SINGULAR: Final = re.compile(
    r"(?:is|was|seems|looks|sounds|appears|has|gets|isn't|wasn't|doesn't|does|fails"
    r"|contradicts|makes)\b",
    re.IGNORECASE,
)
"""Refers to one label, not to the list before it: `B, and A is wrong`."""
_REASON: Final = re.compile(
    r"\b(?:because|since|(?<!well )as(?![ ]+well)|due[ ]to|given|where|which|for|here(?:'s"
    r"|[ ]is)[ ]why)\b",
    re.IGNORECASE,
)
_JOINT: Final = re.compile(
    r"[\s)\]]*(?:,|/|&|\+|\b(?:and|or|nor|o|ou|oder|und|et|y|\u0438\u043b\u0438|\u0438)\b)?(?:\s*,?\s*(?:and|or|nor)\b)?\s*"
    r"(?:(?:options?|choices?)\s)?[\s(\[]*",
    re.IGNORECASE,
)
"""Separators between two labels of one list."""
_JOINT_BEFORE: Final = re.compile(
    r"[\s)\]]*(,\s*(?:and|or|nor)|,|/|&|\band|\bor|\bnor)[\s(\[]*$", re.IGNORECASE
)
_FOREIGN_AFTER: Final = re.compile(foreign.NOT_BEHIND, re.IGNORECASE)
_TAKES_ONE: Final = re.compile(r"(?:instead|rather|other|than|over)\b", re.IGNORECASE)
"""Rejects one label, not the list after it: `instead of B, A`."""
_EITHER: Final = re.compile(r"[\W_]*either\b", re.IGNORECASE)
_HEADED: Final = re.compile(r"\s?[).:]\s*\S|\s[-\u2013\u2014]\s")
_JOINED: Final = re.compile(
    r"[\s).:]*(?:,|/|&|\b(?:and|or|o|ou|oder|und|et|y|\u0438\u043b\u0438|\u0438)\b)[\s(]*",
    re.IGNORECASE,
)
_FOLLOWS_LABEL: Final = re.compile(
    r"\s(?:because|since|as|and|or|o|ou|oder|es|est|ist|\u0438\u043b\u0438|nor|but|is|was|are|isn't|which|that|not|rather|instead"
    r"|over|due|given|by|if|so"
    r"|when|while|where|follows|seems|fits|matches|works|makes|gives|describes|states|says"
    r"|cannot|can't"
    r"|doesn't|does|has|can|could|must|fails?|fit|work|both|only|best|then|therefore|thus"
    r"|here|than|remains?|with|through|thru|plus|vs|versus|otherwise|else|too|also|unless|along|together)\b"
)
_GOES_ON: Final = r"(?![\w-]|'\w|\+\+|#(?!\w)|(?<=\d)\.\d)"
"""The letter is part of a longer name: `C++`, `C#`, `B-side`; or of a number: `2.5`."""
_BEGINS: Final = r"(?<![\w'-])(?<!\d\.(?=\d))"
_NAME_BEFORE: Final = re.compile(
    r"\b(?:vitamins?|hepatitis|influenza|types?|grade|plan|schedule|appendix|coefficient)\s{1,4}$",
    re.IGNORECASE,
)
"""The letter is the end of a name: `vitamin C`."""
_WORD_NEXT: Final = re.compile(r"\s[a-z]")
_PRONOUN_NEXT: Final = re.compile(r"\s(?:is|was|because|since|as|or|nor|instead|rather|over)\b")

_ROMAN: Final = re.compile("[IVX]{2,}")
_ROMAN_NEXT: Final = re.compile(rf"(?:{_PRONOUN_NEXT.pattern}|\s(?:and|only)\b)")
"""Among Roman numerals `I` is one too: `I and III`."""


class Statement(NamedTuple):
    start: int
    text: str
    is_direct: bool
    """It begins with the answer, as after `Answer:`; otherwise the answer may be anywhere in it."""
    end: int
    is_denied: bool = False


class _Mention(NamedTuple):
    label: str
    start: int
    end: int


def clause_before(plain: str, at: int) -> str:
    before = plain[max(0, at - SEARCHED_CHARS_MAX) : at]
    begin = 0
    for match in _CLAUSE.finditer(before):
        begin = match.end()
    return before[begin:]


def _form(text: str) -> str:
    return " ".join(plain_text(text).split())


# -- labels --------------------------------------------------------------------------------------
class Labels:
    """The labels of one choice, and the search for them in a text."""

    def __init__(self, choices: tuple[str, ...]) -> None:
        self._by_form = {_form(choice): choice for choice in choices}
        self._by_folded: dict[str, str] = {}
        clashes = set()
        for form, choice in self._by_form.items():
            if self._by_folded.setdefault(form.casefold(), choice) != choice:
                clashes.add(form.casefold())
        for folded in clashes:
            del self._by_folded[folded]
        ordered = sorted(filter(None, self._by_form), key=len, reverse=True)
        words = "|".join(re.escape(form).replace(r"\ ", r"\s+") for form in ordered) or "(?!)"
        self._word = re.compile(rf"{_BEGINS}(?:{words}){_GOES_ON}", re.IGNORECASE)
        self._is_roman = any(map(_ROMAN.fullmatch, self._by_form))
        marked = r"(?:(?<=\()|(?<=option )|(?<=choice )|(?<=letter )|(?<=answer ))"
        self._strong = re.compile(
            rf"{marked}(?:{words}){_GOES_ON}|(?<![\w'(-])(?:{words})(?=\))", re.IGNORECASE
        )
        self.lists = OptionLists(words, choices, self.named_by)
        self._doubled = re.compile(
            rf"(?<![\w'-])(?:{words}){HEDGED}[\s)\].,;]*[(\[]?\s*(?:or|unless|else|if[ ]+not)\b"
            r"(?:\s+(?:maybe|perhaps|possibly|potentially|even|the|answer|it\s+is|it's"
            r"|is))*[\s(\[]*$",
            re.IGNORECASE,
        )
        head = r"\s*+(?:(?:the|option|choice|letter|answer)\s++)*[(\[]?\s*+"
        self._head = re.compile(rf"{head}({words}){_GOES_ON}", re.IGNORECASE)

    def named_by(self, text: str) -> str | None:
        """The label that `text` is: case-sensitive only if two labels differ only in case."""
        form = _form(text)
        return self._by_form.get(form) or self._by_folded.get(form.casefold())

    def read_all(self, statements: Sequence[Statement]) -> tuple[set[str], set[str]]:
        """Labels that statements name and reject."""
        named: set[str] = set()
        rejected: set[str] = set()
        candidates: set[str] = set()
        for statement in statements:
            ours, theirs = self.read(statement.text, is_direct=statement.is_direct)
            if statement.is_denied:
                ours, theirs = self._after_denial(statement.text)
            rejected |= theirs
            if _EITHER.match(statement.text) and len(ours) > 1:
                candidates |= ours
            else:
                named |= ours
        is_decided = len(named) == 1 and named <= candidates
        return (named if is_decided else named | candidates), rejected

    def _after_denial(self, text: str) -> tuple[set[str], set[str]]:
        """`not B but A`: read with the negating word in front."""
        return self.read(f"not {text}", is_direct=False)

    def read(self, text: str, *, is_direct: bool) -> tuple[set[str], set[str]]:
        """Labels that `text` (plain) names, and those that it rejects."""
        whole = self.named_by(text.lstrip(" \n().[]:,;").rstrip(" \n().[]:,;!"))
        if whole is not None:
            return {whole}, set()
        mentions = list(islice(self._mentions(text, is_direct=is_direct), _MENTIONS_MAX + 1))
        if len(mentions) > _MENTIONS_MAX:
            return set(self._by_form.values()), set()
        starts = {m.start: m for m in mentions}
        ends = {m.end: m for m in mentions}
        kept = []
        rejected = set()
        for mention in mentions:
            before = text[max(0, mention.start - SEARCHED_CHARS_MAX) : mention.start]
            doubted = (
                not is_direct
                and DENIED.search(clause_before(text, mention.start))
                and not _IF_NOT.search(before)
            )
            if _ALL_BUT.search(before) and _rejected_after(text, mention, starts):
                kept.append(mention)
            elif (
                doubted
                or _rejected_before(text, mention, ends)
                or _rejected_after(text, mention, starts)
            ):
                rejected.add(mention.label)
            else:
                kept.append(mention)
        if is_direct:
            kept = self._before_reasons(text, kept)
        if any(_is_open(text, m) for m in kept):  # whatever else: not one label
            return set(self._by_form.values()), rejected
        return {m.label for m in kept}, rejected

    def _mentions(self, text: str, *, is_direct: bool) -> Iterator[_Mention]:
        head = self._head.match(text) if is_direct else None
        options = self.lists.starts_in(text) if head is None else frozenset()
        strong = {match.start() for match in self._strong.finditer(text)}
        only_strong_from = len(text)
        if head is not None and _HEADED.match(text, head.end(1)):
            only_strong_from = head.end(1)
        for match in self._word.finditer(text):
            start, end = match.span()
            is_head = head is not None and start == head.start(1)
            label = self._label_at(match[0], is_marked=is_head or start in strong)
            if label is None or start in options or self._is_word(text, match, strong):
                continue
            if _NAME_BEFORE.search(text[max(0, start - SEARCHED_CHARS_MAX) : start]):
                continue
            if (
                start > only_strong_from
                and start not in strong
                and not self._joined(text, head, start)
            ):
                continue
            if not is_direct and (
                is_a_quantity(text, start, end) or self._is_only_considered(text, start, end)
            ):
                continue
            yield _Mention(label, start, end)

    def _is_only_considered(self, text: str, start: int, end: int) -> bool:
        before = text[max(0, start - SEARCHED_CHARS_MAX) : start]
        if self._doubled.search(before):  # `B (or maybe C)`
            return False
        considered = (
            CONSIDERED.search(clause_before(text, start)) is not None
            or _EARLIER.search(before) is not None
        )
        return considered or _TEMPTS.match(text, end) is not None or self._is_asked(text, end)

    def _label_at(self, found: str, *, is_marked: bool) -> str | None:
        form = _form(found)
        exact = self._by_form.get(form)
        if exact is not None:
            return exact
        return self._by_folded.get(form.casefold()) if is_marked or len(form) > 1 else None

    def _is_word(self, text: str, match: re.Match[str], strong: set[int]) -> bool:
        if match[0].upper() not in ("A", "I") or match.start() in strong:
            return False
        if not _WORD_NEXT.match(text, match.end()):
            return match[0].upper() == "I" and text[match.end() : match.end() + 1] == "'"
        follows = _PRONOUN_NEXT if match[0].upper() == "I" else _FOLLOWS_LABEL
        if self._is_roman and match[0] == "I":
            follows = _ROMAN_NEXT
        return follows.match(text, match.end()) is None

    def _is_asked(self, text: str, at: int) -> bool:
        ending = END.search(text, at, at + STATEMENT_CHARS_MAX)
        return ending is not None and ending[0] == "?"

    def _joined(self, text: str, head: re.Match[str] | None, at: int) -> bool:
        """`B) or C`: the label at `at` is joined to the head."""
        if head is None:
            return False
        between = text[head.end(1) : at]
        return _JOINED.fullmatch(between) is not None

    def _before_reasons(self, text: str, kept: list[_Mention]) -> list[_Mention]:
        """`B because A says ...`: text after the first word of a reason is not an answer."""
        if not kept:
            return kept
        reason = _REASON.search(text, kept[0].end)
        return [m for m in kept if reason is None or m.start < reason.start()]


def _is_open(text: str, mention: _Mention) -> bool:
    """Whether it is the answer in one of several cases only."""
    before = text[max(0, mention.start - SEARCHED_CHARS_MAX) : mention.start]
    return (
        _OPEN.match(text, mention.end) is not None
        or _CONDITION_AFTER.match(text, mention.end) is not None
        or _OTHERWISE.search(before) is not None
    )


# -- rejecting words -----------------------------------------------------------------------------
def _rejected_before(text: str, mention: _Mention, ends: Mapping[int, _Mention]) -> bool:
    """Go back over fillers and joined labels to a rejecting word."""
    at = mention.start
    crossed_comma = False
    for _ in range(_HOPS_MAX):
        window = text[max(0, at - SEARCHED_CHARS_MAX) : at]
        if denials.before(text, at):
            return True
        found = _REJECT_BEFORE.search(window)
        if found is not None and _IF_NOT.search(window):  # `B, if not C` names both
            return False
        if found is not None:
            return not crossed_comma or _TAKES_ONE.match(found[0]) is None
        filler = _FILLER.search(window)
        if filler is not None:
            at -= len(window) - filler.start()
            continue
        joint = _JOINT_BEFORE.search(window)
        other = ends.get(at - (len(window) - joint.start())) if joint is not None else None
        if joint is None or other is None:
            return False
        crossed_comma |= joint[1] == ","
        at = other.start
    return True


def _rejected_after(text: str, mention: _Mention, starts: Mapping[int, _Mention]) -> bool:
    """Go on over joined labels to words that reject them all."""
    at = mention.end
    crossed_comma = False
    for _ in range(_HOPS_MAX):
        if _FOREIGN_AFTER.match(text, at):
            return True
        found = _REJECT_AFTER.match(text, at)
        if found is not None:  # `False` may be a label itself: `the statement is False`
            one = _SINGULAR.match(found[0].lstrip(" )]")) is not None
            return not (
                (crossed_comma and one) or any(begin in starts for begin in range(at, found.end()))
            )
        joint = _JOINT.match(text, at)
        other = starts.get(joint.end()) if joint is not None and joint.end() > at else None
        if joint is None or other is None or not joint[0].strip(" ()[]"):
            return False
        crossed_comma |= "," in joint[0]
        at = other.end
    return True


def is_rejecting_before(plain: str, at: int) -> bool:
    """Whether the words that end at `at` reject what begins there."""
    window = plain[max(0, at - SEARCHED_CHARS_MAX) : at].rstrip()
    return _REJECT_BEFORE.search(window) is not None or denials.before(plain, at)


def is_rejecting_after(plain: str, at: int) -> bool:
    """Whether the words that begin at `at` reject what ends there."""
    return _REJECT_AFTER.match(plain, at) is not None or (
        _FOREIGN_AFTER.match(plain, at) is not None
    )


@lru_cache(maxsize=256)
def labels_of(choices: tuple[str, ...]) -> Labels:
    return Labels(choices)
