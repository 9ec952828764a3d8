"""Compares a response's answer with the reference: structure by rules, elements by algebra.

Gold first. Two texts with the same form are equal, whatever they mean. Plain numbers are compared
exactly (decimals to `float_rounding` places) without a computer algebra system.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from assay.verifiers.math import algebra, grammar, numeric
from assay.verifiers.math.definition import MathSettings
from assay.verifiers.math.equality import (
    constants,
    figures,
    forms,
    formulas,
    letters,
    numbers,
    piecewise,
    solutions,
    symbolic,
    systems,
)
from assay.verifiers.math.equality.forms import nearest_first
from assay.verifiers.math.grammar import (
    Answer,
    Based,
    Chain,
    Date,
    Element,
    Items,
    Matrix,
    Named,
    Number,
    Ratio,
    Time,
    Union,
    Words,
)

_Rows = Sequence[Sequence[Answer]]
_BY_FORM: Final = (
    re.compile(r"(?a)\d\}?\s*_"),  # the subscript of a number
    re.compile(r"\\(?:l|c|d)?dots(?:[bcmo])?(?![A-Za-z])"),
)
_DECIMAL: Final = 10
_BINARY: Final = re.compile("1[01]{2,}")
_COMPARISONS_MAX: Final = 4_096
"""Maximum number of element comparisons in one comparison of lists."""


@dataclass(slots=True)
class Comparison:
    """Compares one gold with one answer; counts its work."""

    settings: MathSettings
    has_names: bool = False
    r"""One of them says what its names are (`k \in \mathbb{Z}`), so `3k` is no 3000."""
    elements: int = 0
    works_out: bool = True
    """An exact value is worked out for a rounded gold."""
    error: str = ""
    """Errors of the computer algebra."""

    def equal(self, gold: Answer, answer: Answer) -> bool:
        """Whether `answer` passes for `gold`."""
        if gold.form and gold.form == answer.form:
            return True
        if (said := self._as_statements(gold, answer)) is not None:
            return said
        return self._by_kind(gold, answer)

    def _as_statements(self, gold: Answer, answer: Answer) -> bool | None:
        """What the rules about whole statements say; `None`: none of them is about these."""
        bodies = letters.bodies(forms.statement(gold), forms.statement(answer))
        if bodies is not None:
            ours, theirs = bodies
            return self.equal(grammar.read(ours), grammar.read(theirs))
        if (said := systems.equal(gold, answer, self.equal)) is not None:
            return said
        if (said := formulas.same(gold, answer)) is not None:
            return said
        if (said := solutions.same(gold, answer)) is not None:
            return said
        if any(rule.same(gold, answer) for rule in (piecewise, figures, symbolic)):
            return True
        if (ranked := forms.ranked(gold)) and (isinstance(gold, Items) or forms.labels(answer)):
            return ranked == forms.labels(answer)
        if isinstance(gold, Chain) or isinstance(answer, Chain):
            return self._chains(gold, answer)
        return True if forms.is_nothing(gold) and forms.is_nothing(answer) else None

    def _by_kind(self, gold: Answer, answer: Answer) -> bool:
        """By what they are: matrices, several values, a name with a value, words, one value."""
        answer = answer if forms.are_of_parts(gold) else forms.single(answer)
        gold, answer = forms.spread(gold), forms.spread(answer)
        if Matrix in (type(gold), type(answer)) and Named not in (type(gold), type(answer)):
            return self._matrices(gold, answer)
        if isinstance(gold, Items) or isinstance(answer, Items):
            return self._items(gold, answer)
        if isinstance(gold, Named) or isinstance(answer, Named):
            return self._named(gold, answer)
        if isinstance(gold, Union) or isinstance(answer, Union):
            return self._union(gold, answer)
        if isinstance(gold, Words) or isinstance(answer, Words):
            return forms.word(gold) == forms.word(answer) != ""
        return self._value(gold, answer)

    def control(self, gold: Answer) -> None:
        """Compare a gold with itself by algebra, whatever its form; for its side effects."""
        text = forms.text_of(gold) or forms.region_text(gold)
        if text is not None:
            self._texts(text, f"0+{text}")

    # -- values --------------------------------------------------------------------------------

    def _value(self, gold: Answer, answer: Answer) -> bool:
        if not self.has_names:
            gold, answer = _in_figures(gold, answer)
        match gold, answer:
            case Number(), Number():
                return numbers.numbers_equal(gold, answer, self.settings)
            case Time(), Time():
                if numbers.same_time(gold, answer):
                    return True
                if not numbers.is_reduced_ratio(gold) or not answer.terms:
                    return False
                return self._ratio(numbers.ratio_of(gold), numbers.ratio_of(answer))
            case Date(), Date():
                return numbers.same_date(gold, answer)
            case (Date(), _) | (_, Date()):
                return False
            case (Based(), _) | (_, Based()):
                return self._based(gold, answer)
            case (Number(unit="°"), Element()) if turn := forms.in_radians(gold, answer):
                return self._texts(turn, answer.text)
            case (Element(), Number(unit="°")) if turn := forms.in_radians(answer, gold):
                return self._texts(gold.text, turn)
            case (Number(unit=unit), Element()) if unit and (said := forms.with_unit(answer, unit)):
                return numbers.numbers_equal(gold, said, self.settings)
            case (Element(), Number(unit=unit)) if unit and (said := forms.with_unit(gold, unit)):
                return numbers.numbers_equal(said, answer, self.settings)
            case (Time() | Ratio(), Time() | Ratio()):
                return self._ratio(numbers.ratio_of(gold), numbers.ratio_of(answer))
            case (Time() | Ratio(), Number() | Element()):
                return self._quotient(numbers.ratio_of(gold), answer, gold_first=True)
            case (Number() | Element(), Time() | Ratio()):
                return self._quotient(numbers.ratio_of(answer), gold, gold_first=False)
        extents = forms.endless(gold, answer)
        if extents is not None:
            return self._in_order(*extents)
        return self._element(gold, answer) or self._rounds(gold, answer)

    def _based(self, gold: Answer, answer: Answer) -> bool:
        """Numbers of which at least one names its base: `101_2`, `0x2A`."""
        match gold, answer:
            case Based(), Based():
                return int(gold.digits, gold.base) == int(answer.digits, answer.base)
            case Based(), Number():
                alone = answer.form.upper().lstrip("0") == gold.digits and not answer.unit
                return alone and not gold.is_prefixed
            case Number(), Based():
                fits = answer.base == _DECIMAL or (answer.base == 2 and self._is_binary(gold))
                return fits and gold.form == answer.digits and not answer.is_prefixed
            case Based(), Element(text=text):
                if forms.is_based_so(text, gold):
                    return True
                return text.upper() == gold.digits and not gold.is_prefixed
            case Element(text=text), Based():
                return forms.is_based_so(text, answer)
        return False

    def _rounds(self, gold: Answer, answer: Answer) -> bool:
        """`\\sqrt{2}` for the rounded value 1.4142."""
        if not (isinstance(gold, Number) and isinstance(answer, Element)):
            return False
        if not self.works_out or gold.is_percent:
            return False
        if not self.settings.rounded_golds or gold.unit != answer.unit:
            return False
        value = numeric.approximate(answer.text) if gold.is_decimal else None
        return value is not None and numbers.is_rounded_from(gold, Fraction(value))

    def _element(self, gold: Answer, answer: Answer) -> bool:
        left, right = forms.text_of(gold), forms.text_of(answer)
        if left is None or right is None:
            return False
        if (factor := numbers.conversion(answer, gold)) is not None:
            right = f"{factor} \\cdot ({right})"
        elif not numbers.units_fit(gold, answer):
            return False
        if any(pattern.search(text) for pattern in _BY_FORM for text in (left, right)):
            return False  # equal only in form: math-verify ignores these parts
        if left.count("\\equiv") != right.count("\\equiv"):
            return False  # of a chain it compares the ends
        left, right = letters.indexed(left), letters.indexed(right)
        if letters.are_other_words(left, right) or letters.are_other_names(left, right):
            return False
        right = forms.whole_part(left, right)
        left, right = letters.told_apart(*forms.one_logarithm(left, right))
        return self._computed(left, right) or any(
            self._computed(left, renamed) for renamed in constants.otherwise_named(left, right)
        )

    def _computed(self, left: str, right: str) -> bool:
        self.elements += 1
        if self.elements > _COMPARISONS_MAX:
            return False
        try:
            return algebra.equal(left, right, self.settings)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - sympy may raise anything on values that it cannot compare
            self.error = f"{type(error).__name__}: {_said(error)}"
            return False

    @staticmethod
    def _is_binary(gold: Number) -> bool:
        """`101`: its digits tell that it may be in base 2; those of `42` tell no base."""
        return _BINARY.fullmatch(gold.form) is not None

    # -- ratios --------------------------------------------------------------------------------

    def _ratio(self, gold: Ratio | None, answer: Ratio | None) -> bool:
        if gold is None or answer is None or len(gold.terms) != len(answer.terms):
            return False
        if all(isinstance(term, Number) for term in (*gold.terms, *answer.terms)):
            return numbers.proportional(gold.terms, answer.terms)
        pairs = zip(gold.terms, answer.terms, strict=True)
        return all(self.equal(left, right) for left, right in pairs)

    def _quotient(self, ratio: Ratio | None, other: Answer, *, gold_first: bool) -> bool:
        """A ratio of two terms equals its quotient, unless it is a time of day."""
        if ratio is None or len(ratio.terms) != 2:
            return False
        left, right = (forms.text_of(term) for term in ratio.terms)
        quotient = grammar.read(f"\\frac{{{left}}}{{{right}}}")
        if not isinstance(quotient, Number | Element):
            return False
        return self.equal(quotient, other) if gold_first else self.equal(other, quotient)

    # -- names ---------------------------------------------------------------------------------

    def _named(self, gold: Answer, answer: Answer) -> bool:
        if isinstance(gold, Named) and isinstance(answer, Named):
            if not self.settings.strict or forms.same_name(gold.name, answer.name):
                return self.equal(gold.value, answer.value)
            return self._texts(gold.text, answer.text)
        if isinstance(gold, Named):
            if isinstance(answer, Element) and self._as_stated(gold, answer):
                return self._texts(gold.text, answer.text)
            return self.equal(gold.value, answer)
        if isinstance(answer, Named):
            if isinstance(gold, Element) and self._as_stated(answer, gold):
                return self._texts(gold.text, answer.text)
            return self.equal(gold, answer.value)
        return False

    def _as_stated(self, named: Named, other: Element) -> bool:
        """Whether the other is a relation to be compared with all of the statement; one that gives
        the values of a name, as `1 < x < 3` does, says what `x \\in (1, 3)` says."""
        if not forms.is_relation(other.text):
            return False
        names_values = forms.is_region(named.value) or isinstance(named.value, Union)
        return not (names_values and self.settings.allow_set_relation_comp)

    def _texts(self, gold: str, answer: str) -> bool:
        return self._element(Element(text=gold), Element(text=answer))

    def _chains(self, gold: Answer, answer: Answer) -> bool:
        """Any side stands for a chain whose sides agree; a contradiction has no value."""
        self.works_out = False  # `25\pi \approx 78.5` states 78.5, and no 78.54
        golds, answers = forms.values(gold), forms.values(answer)
        if any(self.equal(one, two) for one in golds for two in answers):
            return True
        one, two = forms.otherwise(gold), forms.otherwise(answer)
        is_tried = one in golds and two in answers
        return bool(golds and answers) and not is_tried and self.equal(one, two)

    # -- several values ------------------------------------------------------------------------

    def _union(self, gold: Answer, answer: Answer) -> bool:
        match gold, answer:
            case Union(), Union() if self._any_order(gold.parts, answer.parts):
                return True
        return self._region_texts(gold, answer)

    def _region_texts(self, gold: Answer, answer: Answer) -> bool:
        """As sets of numbers, by algebra."""
        left, right = forms.region_text(gold), forms.region_text(answer)
        return left is not None and right is not None and self._texts(left, right)

    def _items(self, gold: Answer, answer: Answer) -> bool:
        if forms.letters(gold) and forms.letters(gold) == forms.letters(answer):
            return forms.is_either(gold) or not forms.is_either(answer)
        if isinstance(gold, Items) and isinstance(answer, Items):
            return self._both_items(gold, answer)
        if isinstance(answer, Named):
            return self.equal(gold, answer.value)
        if isinstance(gold, Named):
            return self.equal(gold.value, answer)
        if (said := self._as_decimal(gold, answer)) is not None:
            return said
        if (said := self._as_regions(gold, answer)) is not None:
            return said
        if (element := forms.only(gold)) is not None:
            return self.equal(element, answer)
        if (element := forms.only(answer)) is not None:
            return self.equal(gold, element)
        return not forms.are_values_and_bounds(gold, answer) and self._region_texts(gold, answer)

    def _as_decimal(self, gold: Answer, answer: Answer) -> bool | None:
        """`1,234`, which may be two values or one number, beside a number; `None`: it is not so."""
        if isinstance(gold, Items) and gold.decimal and isinstance(answer, Number):
            fits = answer.is_decimal or not gold.decimal.is_decimal
            return fits and numbers.numbers_equal(gold.decimal, answer, self.settings)
        if isinstance(answer, Items) and answer.decimal and isinstance(gold, Number):
            fits = gold.is_decimal or not answer.decimal.is_decimal
            return fits and numbers.numbers_equal(gold, answer.decimal, self.settings)
        return None

    def _as_regions(self, gold: Answer, answer: Answer) -> bool | None:
        """An interval beside an inequality, regions in any order; `None`: one is neither."""
        if forms.is_region(gold) and isinstance(answer, Element | Named):
            bounds = forms.as_region(answer)
            if bounds is not None:
                return self._in_order(gold, bounds)
        if Union in (type(gold), type(answer)):
            one, other = forms.regions(gold), forms.regions(answer)
            if one and other:
                return self._any_order(one, other)
        return None

    def _both_items(self, gold: Items, answer: Items) -> bool:
        kinds = {gold.kind, answer.kind}
        if (
            gold.decimal
            and answer.decimal
            and numbers.numbers_equal(gold.decimal, answer.decimal, self.settings)
        ):
            return True
        if kinds == {"set", "tuple"} and self.settings.strict:
            return False
        if forms.are_joined_otherwise(gold, answer):
            return False
        if "tuple" in kinds:
            return self._in_order(gold, answer)
        if forms.are_of_parts(gold):
            same_length = len(gold.items) == len(answer.items)
            return same_length and self._pairwise(gold.items, answer.items)
        names = [item.name for item in gold.items if isinstance(item, Named)]
        told_apart = len(names) == len(gold.items) and len(set(names)) == len(names) > 1
        if told_apart and not any(isinstance(item, Named) for item in answer.items):
            return len(gold.items) == len(answer.items) and self._pairwise(gold.items, answer.items)
        ours, theirs = forms.by_name(gold), forms.by_name(answer)
        if len(ours) > 1 and ours.keys() == theirs.keys():
            return all(self.equal(item, theirs[name]) for name, item in ours.items())
        if gold.kind == "list" and _says_less(gold, answer):
            return False
        return self._any_order(gold.items, answer.items)

    def _matrices(self, gold: Answer, answer: Answer) -> bool:
        """Row by row; a single row or column is also a point."""
        match gold, answer:
            case Matrix(rows=left), Matrix(rows=right):
                return self._rows(left, right)
            case Matrix(rows=rows), Items(kind="tuple" | "list") as other:
                return self._matrix_is(rows, other)
            case Items(kind="tuple" | "list") as other, Matrix(rows=rows):
                return self._matrix_is(rows, other)
        left_text, right_text = forms.text_of(gold), forms.text_of(answer)
        return bool(left_text and right_text) and self._texts(left_text or "", right_text or "")

    def _rows(self, gold: _Rows, answer: _Rows) -> bool:
        same_shape = [len(row) for row in gold] == [len(row) for row in answer]
        return same_shape and all(
            self._pairwise(one, two) for one, two in zip(gold, answer, strict=True)
        )

    def _matrix_is(self, rows: _Rows, other: Items) -> bool:
        """`(1, 2)` for a row or a column, `[[1, 2], [3, 4]]` for any matrix."""
        inner = [item.items for item in other.items if isinstance(item, Items)]
        if inner:
            return (
                other.brackets == "[]"
                and len(inner) == len(other.items)
                and self._rows(rows, tuple(inner))
            )
        entries = tuple(entry for row in rows for entry in row)
        is_vector = len(rows) == 1 or all(len(row) == 1 for row in rows)
        is_point = other.brackets in ("()", "[]") and len(other.items) == len(entries)
        return is_vector and is_point and self._pairwise(entries, other.items)

    def _in_order(self, gold: Items, answer: Items) -> bool:
        if len(gold.items) != len(answer.items):
            return False
        may_be_intervals = len(gold.items) < 3 and not forms.is_falling(gold)
        are_tuples = "tuple" == gold.kind == answer.kind
        if may_be_intervals and are_tuples and gold.brackets != answer.brackets:
            return False
        answer = forms.coordinates(answer) if gold.kind == "tuple" else answer
        gold = forms.coordinates(gold) if answer.kind == "tuple" else gold
        if may_be_intervals and answer.kind != "tuple" and gold.brackets != "()":
            return False
        if may_be_intervals and gold.kind != "tuple" and answer.brackets != "()":
            return False
        return self._pairwise(gold.items, answer.items)

    def _pairwise(self, gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
        return all(self.equal(left, right) for left, right in zip(gold, answer, strict=True))

    def _any_order(self, gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
        """Each gold item is among the answers, and each answer among the gold items; of two equally
        long lists, each as often."""
        if len(gold) > grammar.ITEMS_MAX or len(answer) > grammar.ITEMS_MAX:
            return False
        counts = len(gold) == len(answer)
        met: set[int] = set()
        for item in gold:
            near = [at for at in nearest_first(item, answer) if not (counts and at in met)]
            found = next((at for at in near if self.equal(item, answer[at])), None)
            if found is None:
                return False
            met.add(found)
        return all(
            at in met or any(self.equal(gold[near], item) for near in nearest_first(item, gold))
            for at, item in enumerate(answer)
        )


def _says_less(gold: Items, answer: Items) -> bool:
    """An answer with fewer items than the gold; what a gold says twice is to be said twice."""
    if len(gold.items) == len(answer.items):
        return False
    return len(gold.items) > len(answer.items) or forms.repeats(gold)


def _in_figures(gold: Answer, answer: Answer) -> tuple[Answer, Answer]:
    """A magnitude (`25k`) and a duration (`1h30`) as numbers, where the other side is one."""
    if isinstance(gold, Number):
        if isinstance(answer, Time):
            return gold, numbers.as_duration(answer) or answer
        return gold, numbers.magnified(answer, gold) or answer
    if isinstance(answer, Number):
        if isinstance(gold, Time):
            return numbers.as_duration(gold) or gold, answer
        return numbers.magnified(gold, answer) or gold, answer
    return gold, answer


def _said(error: BaseException) -> str:
    """The error's text; creating it may fail too."""
    try:
        return str(error)[:200]
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the text of an exception may not be available
        return "(no text)"
