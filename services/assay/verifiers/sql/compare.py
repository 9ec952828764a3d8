"""Compares two results of queries, outside of every box. Pure, and total on any rows.

A value is text with a letter for its type, as the harness writes it. Numbers, also in lists,
structs and maps, are equal within the tolerance, but an integer equals no other integer, and of
inexact numbers only those that rounding makes of it. Everything else has to be the same. NULL
equals NULL only.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import accumulate, groupby
from typing import Final

from assay.verifiers.sql.nested import NESTED, Nested, read, shape

Row = Sequence[str]
_NUMBERS: Final = frozenset("if")
TRIES_MAX: Final = 2_000_000
"""Values that one comparison of results may look at; each of a pair of rows counts."""
_CLEAR: Final = 1e-3
"""Share of the tolerance within which two floats are compared exactly."""
_ROUNDING: Final = Fraction(1, 2**50)
"""Relative error of an inexact number that stands for an integer: a few units in its last place."""
_BIG: Final = 1e300
"""Beyond it the difference of two floats may be no float."""
PERMUTED_COLUMNS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Rows of `columns` values each."""

    columns: int
    rows: Sequence[Row]
    order_columns: Sequence[int] | None = None
    """Of an expected result: the columns that its order goes by. Rows equal in all of them may
    stand in any order among themselves. `None`: each row has its own place."""
    row_places: Sequence[int] | None = None
    """The place of each row, if the order goes by what is no column of the result."""
    pools: Mapping[int, Sequence[Row]] = field(default_factory=dict)
    """By place, all rows of which a LIMIT or an OFFSET has left some; another choice is as good."""

    def places(self) -> Sequence[int]:
        """The place of each row in the order; rows in any order among themselves share one."""
        if self.row_places is not None:
            return self.row_places
        if self.order_columns is None:
            return range(len(self.rows))
        return places_of(self.rows, self.order_columns)


def places_of(rows: Sequence[Row], columns: Sequence[int]) -> Sequence[int]:
    """The place of each row in an order by these columns."""
    keys = [[_as_key(row[at]) for at in columns] for row in rows]
    changes = [at > 0 and keys[at] != keys[at - 1] for at in range(len(keys))]
    return list(accumulate(changes))


def _as_key(value: str) -> object:
    """Numbers of any type are equal in an order."""
    number = _number(value) if value[:1] in _NUMBERS else None
    return value if number is None else number


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRule:
    """What counts when two results are compared."""

    ordered: bool
    duplicates: bool
    column_order: bool
    tolerance: float


def results_equal(actual: QueryResult, expected: QueryResult, rule: ResultRule) -> bool:
    """Whether two results are the same under `rule`."""
    if actual.columns != expected.columns:
        return False
    actual, expected = _read(actual), _read(expected)
    budget = [TRIES_MAX]
    places = expected.places()
    if expected.pools and rule.ordered and rule.duplicates and rule.column_order:
        return len(actual.rows) == len(expected.rows) and _chosen(
            actual.rows, expected, rule.tolerance, budget
        )
    if rule.column_order or actual.columns > PERMUTED_COLUMNS_MAX:
        return _rows_equal(actual.rows, expected.rows, rule, budget, places)
    given, wanted = _columns(actual), _columns(expected)
    candidates = [
        [at for at, column in enumerate(given) if _can_stand_for(column, other, rule)]
        for other in wanted
    ]
    return any(_orders(given, wanted, candidates, rule, [], budget, places))


def _read(result: QueryResult) -> QueryResult:
    """The result with its lists, structs and maps read once."""
    if not any(value[:1] in NESTED for row in result.rows for value in row):
        return result
    pools = {place: _read_rows(rows) for place, rows in result.pools.items()}
    places = result.places()
    return replace(result, rows=_read_rows(result.rows), row_places=places, pools=pools)


def _read_rows(rows: Sequence[Row]) -> list[Row]:
    return [[read(value) if value[:1] in NESTED else value for value in row] for row in rows]


def _columns(result: QueryResult) -> list[list[str]]:
    return [[row[at] for row in result.rows] for at in range(result.columns)]


def _can_stand_for(given: Sequence[str], wanted: Sequence[str], rule: ResultRule) -> bool:
    """Whether two columns have the same values, apart from their order. Numbers may differ by the
    tolerance."""
    texts = [
        Counter(shape(one) for one in side if one[:1] not in _NUMBERS) for side in (given, wanted)
    ]
    numbers = [
        sorted(_rough(one) for one in side if one[:1] in _NUMBERS) for side in (given, wanted)
    ]
    if rule.duplicates:
        return (
            texts[0] == texts[1]
            and len(numbers[0]) == len(numbers[1])
            and all(_may_be_close(a, b, rule.tolerance) for a, b in zip(*numbers, strict=True))
        )
    return texts[0].keys() == texts[1].keys() and all(
        _has_neighbour(one, others, rule.tolerance)
        for side, others in (numbers, reversed(numbers))
        for one in side
    )


def _has_neighbour(number: float, others: Sequence[float], tolerance: float) -> bool:
    at = bisect_left(others, number)
    return any(_may_be_close(number, one, tolerance) for one in others[max(0, at - 1) : at + 1])


def _orders(
    given: Sequence[Sequence[str]],
    wanted: Sequence[Sequence[str]],
    candidates: Sequence[Sequence[int]],
    rule: ResultRule,
    chosen: list[int],
    budget: list[int],
    places: Sequence[int],
) -> Iterator[bool]:
    """Choose the columns one after the other; each must fit together with those before it."""
    place = len(chosen)
    if place == len(wanted):
        yield True
        return
    seen = set[tuple[str, ...]]()
    # In order and without duplicates, a part of the columns may have other duplicates.
    is_telling = place + 1 == len(wanted) or rule.duplicates or not rule.ordered
    wanted_rows = list(zip(*wanted[: place + 1], strict=True))
    for at in candidates[place]:
        column = tuple(given[at])
        if at in chosen or column in seen or budget[0] < 0:
            continue
        seen.add(column)
        order = [*chosen, at]
        rows = list(zip(*(given[one] for one in order), strict=True))
        budget[0] -= len(rows) * len(order)
        if not is_telling or _rows_equal(rows, wanted_rows, rule, budget, places):
            yield from _orders(given, wanted, candidates, rule, order, budget, places)


def _rows_equal(
    actual: Sequence[Row],
    expected: Sequence[Row],
    rule: ResultRule,
    budget: list[int],
    places: Sequence[int],
) -> bool:
    columns = len(expected[0]) if expected else 1
    budget[0] -= max(len(actual), len(expected)) * columns
    if rule.ordered:
        if not rule.duplicates:
            first = {
                tuple(row): place for row, place in reversed([*zip(expected, places, strict=True)])
            }
            actual, expected = _distinct(actual), _distinct(expected)
            places = [first[tuple(row)] for row in expected]
        return len(actual) == len(expected) and _placed(actual, expected, places, rule, budget)
    if rule.duplicates:
        return len(actual) == len(expected) and _matched(actual, expected, rule.tolerance, budget)
    return _covered(actual, expected, rule.tolerance, budget) and _covered(
        expected, actual, rule.tolerance, budget
    )


def _placed(
    actual: Sequence[Row],
    expected: Sequence[Row],
    places: Sequence[int],
    rule: ResultRule,
    budget: list[int],
) -> bool:
    """Whether as many rows stand where the expected ones do; those of one place in any order."""
    for _, together in groupby(range(len(expected)), key=places.__getitem__):
        at, *more = together
        if not more:
            if not _row_close(actual[at], expected[at], rule.tolerance):
                return False
            continue
        end = more[-1] + 1
        if not _matched(actual[at:end], expected[at:end], rule.tolerance, budget):
            return False
    return True


def _chosen(
    actual: Sequence[Row], expected: QueryResult, tolerance: float, budget: list[int]
) -> bool:
    """Whether the rows of each place are those expected there, or as many of its pool."""
    places = expected.places()
    for place, together in groupby(range(len(actual)), key=places.__getitem__):
        at, *more = together
        end = more[-1] + 1 if more else at + 1
        budget[0] -= (end - at) * expected.columns
        pool, rows = expected.pools.get(place), actual[at:end]
        if pool is not None and not _among(rows, pool, tolerance, budget):
            return False
        if pool is None and not _matched(rows, expected.rows[at:end], tolerance, budget):
            return False
    return True


def _weight(row: Row) -> int:
    """Values that a comparison of a row looks at."""
    return len(row) + sum(len(value.numbers) for value in row if isinstance(value, Nested))


def _distinct(rows: Sequence[Row]) -> list[Row]:
    return list({tuple(row): row for row in rows}.values())


def _row_close(one: Row, other: Row, tolerance: float) -> bool:
    return len(one) == len(other) and all(
        value_close(a, b, tolerance) for a, b in zip(one, other, strict=True)
    )


def value_close(one: str, other: str, tolerance: float) -> bool:
    """Whether two values are equal."""
    if one == other:
        return True
    if one[:1] in NESTED and one[:1] == other[:1]:
        return _nested_close(read(one), read(other), tolerance)
    integers = (one[:1] == "i") + (other[:1] == "i")
    if one[:1] not in _NUMBERS or other[:1] not in _NUMBERS:
        return False
    if not _may_be_close(_rough(one), _rough(other), tolerance):
        return False
    if not integers and (told := _clearly_close(one, other, tolerance)) is not None:
        return told
    a, b = _number(one), _number(other)
    if a is None or b is None:
        return _special(one) == _special(other) != ""
    if a == b:
        return True
    if not tolerance or integers == 2:
        return False
    error, allowed = abs(a - b), Fraction(tolerance)
    relative = min(_ROUNDING, allowed) if integers else allowed
    return error <= allowed or error <= relative * max(abs(a), abs(b))


def _nested_close(one: Nested, other: Nested, tolerance: float) -> bool:
    """Whether all is equal at the same places."""
    return one.shape == other.shape and all(
        value_close(a, b, tolerance) for a, b in zip(one.numbers, other.numbers, strict=True)
    )


def _may_be_close(one: float, other: float, tolerance: float) -> bool:
    """False only for numbers that no rule finds equal: a test that costs little."""
    if not (math.isfinite(one) and math.isfinite(other)):
        return True
    error = abs(one - other)
    return error <= 2 * tolerance * max(1.0, abs(one), abs(other)) + 1e-12 * max(
        abs(one), abs(other)
    )


def _clearly_close(one: str, other: str, tolerance: float) -> bool | None:
    """Whether two inexact numbers are equal; `None` where only exact numbers tell."""
    a, b = _rough(one), _rough(other)
    if not tolerance or not (math.isfinite(a) and math.isfinite(b)) or max(abs(a), abs(b)) > _BIG:
        return None
    error, allowed = abs(a - b), tolerance * max(1.0, abs(a), abs(b))
    if abs(error - allowed) <= _CLEAR * allowed or "nan" in (one + other).lower():
        return None
    return error < allowed


def _number(value: str) -> Fraction | None:
    """An exact number; `None` for infinity and not-a-number."""
    text = value[1:]
    try:
        return Fraction(text) if len(text) < 400 else Fraction(float(text))
    except (ValueError, OverflowError, ZeroDivisionError):
        return None


def _special(value: str) -> str:
    try:
        number = float(value[1:])
    except (ValueError, OverflowError):
        return ""
    return "nan" if math.isnan(number) else str(number) if math.isinf(number) else ""


def _exact_key(row: Row) -> tuple[str, ...]:
    """What two rows must share to be equal, whatever the tolerance."""
    return tuple("#" if value[:1] in _NUMBERS else shape(value) for value in row)


def _buckets(rows: Iterable[Row]) -> dict[tuple[str, ...], list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[_exact_key(row)].append(row)
    return found


def _matched(
    actual: Sequence[Row], expected: Sequence[Row], tolerance: float, budget: list[int]
) -> bool:
    """Whether the rows can be paired."""
    given, wanted = _buckets(actual), _buckets(expected)
    if {key: len(rows) for key, rows in given.items()} != {
        key: len(rows) for key, rows in wanted.items()
    }:
        return False
    return all(_paired(given[key], wanted[key], tolerance, budget) for key in wanted)


def _among(
    given: Sequence[Row], wanted: Sequence[Row], tolerance: float, budget: list[int]
) -> bool:
    """Whether each row can be paired with one of its own, of perhaps more."""
    more = _buckets(wanted)
    for key, rows in _buckets(given).items():
        over, left = [*map(tuple, rows)], [*map(tuple, more.get(key, []))]
        partner: dict[int, int] = {}
        found = (
            _find_partner(at, over, left, tolerance, partner, budget) for at in range(len(over))
        )
        if not all(found):
            return False
    return True


def _paired(given: list[Row], wanted: list[Row], tolerance: float, budget: list[int]) -> bool:
    """Pair identical rows first, then the others by search (Kuhn's algorithm)."""
    rest = Counter(map(tuple, wanted))
    rest.subtract(map(tuple, given))
    left = [row for row, count in rest.items() for _ in range(max(0, count))]
    over = [row for row, count in rest.items() for _ in range(max(0, -count))]
    left.sort(key=_sort_key)
    over.sort(key=_sort_key)
    if all(_row_close(a, b, tolerance) for a, b in zip(over, left, strict=True)):
        return True
    partner: dict[int, int] = {}
    return all(_find_partner(at, over, left, tolerance, partner, budget) for at in range(len(over)))


def _find_partner(
    start: int,
    over: list[tuple[str, ...]],
    left: list[tuple[str, ...]],
    tolerance: float,
    partner: dict[int, int],
    budget: list[int],
) -> bool:
    """An augmenting path from `start`, without recursion; `partner` maps `left` to `over`."""
    unseen, came_from = list(range(len(left))), dict[int, int]()
    waiting = [start]
    while waiting:
        at = waiting.pop()
        others = []
        for place in unseen:
            budget[0] -= _weight(left[place])
            if budget[0] < 0:
                return False
            if not _row_close(over[at], left[place], tolerance):
                others.append(place)
                continue
            came_from[place] = at
            if place not in partner:
                _flip(place, start, partner, came_from)
                return True
            waiting.append(partner[place])
        unseen = others
    return False


def _flip(place: int, start: int, partner: dict[int, int], came_from: dict[int, int]) -> None:
    held = {owner: owned for owned, owner in partner.items()}
    while True:
        owner = came_from[place]
        before = held.get(owner)
        partner[place] = owner
        if owner == start or before is None:
            return
        place = before


def _sort_key(row: Sequence[str]) -> tuple[float, ...]:
    return tuple(_rough(value) for value in row if value[:1] in _NUMBERS)


def _rough(value: str) -> float:
    try:
        number = float(value[1:])
    except (ValueError, OverflowError):
        return 0.0
    return 0.0 if math.isnan(number) else number


def _covered(rows: Sequence[Row], by: Sequence[Row], tolerance: float, budget: list[int]) -> bool:
    """Whether each row is one of `by`."""
    known = _buckets(_distinct(by))
    exact = set(map(tuple, by))
    for row in _distinct(rows):
        if tuple(row) in exact:
            continue
        found = known.get(_exact_key(row), [])
        budget[0] -= len(found) * _weight(row)
        if budget[0] < 0 or not any(_row_close(row, other, tolerance) for other in found):
            return False
    return True
