"""Rows that an order, a LIMIT, an OFFSET, DISTINCT or a union leaves open, and numbers in lists.

The expected verdict comes from rows that the standard library's own engine makes here: a response
is right if at each place it has a row that the reference's order may have there.
"""

import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected

_COLUMNS: Final = ("name", "name, size", "size, name, place", "name AS n, size", "*", "upper(name), place", "place, name")  # fmt: skip
_KEYS: Final = ("size", "goods.size", "size * 2 + 1", "abs(size)", "place", "length(name)", "round(size / 2)", "-size", "place COLLATE NOCASE", "name COLLATE NOCASE")  # fmt: skip
_TAILS: Final = ("", "", " LIMIT 3", " LIMIT 2 OFFSET 1", " LIMIT 4 OFFSET 2", " LIMIT 1", " LIMIT 20", " LIMIT 3 OFFSET 5", " LIMIT 2, 3", ";", " LIMIT 3;")  # fmt: skip


_UNION: Final = (
    "SELECT name, size, place FROM goods WHERE size < 2 UNION SELECT name, size, place FROM goods"
)


def open_rows_case(rng: random.Random) -> Case:
    """A query with an order, against the same with other rows first among equal ones."""
    rows = [(at, rng.choice("aAbBcD") + "xy"[: rng.randint(0, 2)], rng.randint(0, 3), rng.choice("xyX")) for at in range(rng.randint(4, 9))]  # fmt: skip
    setup = "CREATE TABLE goods(id INT, name TEXT, size INT, place TEXT);" + "".join(
        f"INSERT INTO goods VALUES ({a}, '{b}', {c}, '{d}');" for a, b, c, d in rows
    )
    columns, key = rng.choice(_COLUMNS), rng.choice(_KEYS)
    keys = [key + rng.choice(("", " DESC"))]
    if rng.random() < 0.3:
        keys.append(rng.choice(("place", "size DESC", "length(name)")))
    form = rng.choice(("plain", "plain", "distinct", "union", "filtered"))
    wide = f"SELECT {columns}{{more}} FROM goods"
    if form == "distinct":
        wide = f"SELECT DISTINCT {columns}{{more}} FROM goods"
    elif form == "union":
        wide = f"SELECT t.*{{more}} FROM ({_UNION}) AS t"
        keys = [one for one in keys if one.split()[0] in {"size", "place"}] or [rng.choice(("size", "place DESC"))]  # fmt: skip
    elif form == "filtered":
        wide = f"SELECT {columns}{{more}} FROM (SELECT * FROM goods ORDER BY id DESC) AS goods WHERE size > 0"
    base = _UNION if form == "union" else wide.format(more="")
    tail = rng.choice(_TAILS)
    query = f"{base} ORDER BY {', '.join(keys)}{tail}"
    other = [*keys, rng.choice(("id", "id DESC", "name DESC", "name"))]
    if form == "union":
        other = [*keys, rng.choice(("name", "name DESC", "place DESC"))]
    if rng.random() < 0.35:
        other = rng.choice(([*keys[1:], "name DESC"], ["size", "name"], ["name"], ["place DESC", "size"]))  # fmt: skip
    response = f"{base} ORDER BY {', '.join(other)}{rng.choice((tail, tail, tail, ' LIMIT 3', ''))}"
    expected = _expected(setup, query, response, wide, keys, tail)
    return Case(
        pipeline="sql",
        kind=f"open rows: {form}",
        response=response,
        reference={"databases": [{"setup": setup}], "query": query},
        expected=expected,
    )


def _expected(
    setup: str, query: str, response: str, wide: str, keys: Sequence[str], tail: str
) -> Expected:
    try:
        own, given = _rows(setup, query), _rows(setup, response)
    except sqlite3.Error:
        return Expected.NOT_RIGHT
    if not own:
        return Expected.NOT_RIGHT
    if len(own) != len(given):
        return Expected.WRONG
    bare = [key.removesuffix(" DESC") for key in keys]
    more = [f"lower({key.removesuffix(' COLLATE NOCASE')})" if "NOCASE" in key else key for key in bare]  # fmt: skip
    told = _rows(setup, f"{wide.format(more=', ' + ', '.join(more))} ORDER BY {', '.join(keys)}")
    width = len(own[0])
    shown = [row[:width] for row in told]
    if "DISTINCT" in wide and len(set(shown)) < len(shown):
        return Expected.RIGHT if own == given else Expected.EITHER
    numbers = [int(one) for one in tail.replace(",", " ").replace(";", " ").split() if one.isdecimal()]  # fmt: skip
    skipped = (numbers[0] if "," in tail else numbers[1]) if len(numbers) == 2 else 0
    groups: dict[Any, Counter[Any]] = {}
    for row in told:
        groups.setdefault(row[width:], Counter())[row[:width]] += 1
    places = [row[width:] for row in told][skipped : skipped + len(given)]
    at_place: dict[Any, Counter[Any]] = {}
    for place, row in zip(places, given, strict=True):
        at_place.setdefault(place, Counter())[row] += 1
    fits = all(not rows - groups[place] for place, rows in at_place.items())
    return Expected.RIGHT if fits else Expected.WRONG


@lru_cache(maxsize=64)
def _database(setup: str) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.executescript(setup)
    return database


def _rows(setup: str, query: str) -> list[tuple[Any, ...]]:
    return _database(setup).execute(query).fetchall()


# -- lists ---------------------------------------------------------------------------------------
def nested_case(rng: random.Random) -> Case:
    """Lists, structs and maps of DuckDB with numbers written in another way, or others."""
    value = _value(rng, 3)
    is_right = rng.random() < 0.5
    changed = [False]
    given = _written(rng, value, changed, changes=not is_right)
    return Case(
        pipeline="sql",
        kind="nested",
        response=f"SELECT {given} AS v, 1",
        reference={"databases": [{}], "query": f"SELECT {_written(rng, value, [True], changes=False)} AS v, 1"},
        expected=Expected.WRONG if changed[0] else Expected.RIGHT,
        settings={"engine": "duckdb", "column_order": rng.random() < 0.7},
    )  # fmt: skip


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.choice(("number", "text", "list", "struct", "map") if depth else ("number", "text"))
    if kind == "list":
        one = _value(rng, depth - 1)
        return [one, *([one] if rng.random() < 0.5 else [])]
    if kind == "struct":
        return {name: _value(rng, depth - 1) for name in rng.sample("abc", rng.randint(1, 3))}
    if kind == "map":
        return ("map", rng.choice("xy"), _value(rng, 0))
    return rng.randint(-9, 99) if kind == "number" else rng.choice(("a", "1", "", "[1]", "#"))


def _written(rng: random.Random, value: Any, changed: list[bool], *, changes: bool) -> str:
    if isinstance(value, list):
        kinds = rng.choice(("{}", "{}::DOUBLE", "{}.0")) if all(isinstance(one, int) for one in value) else "{}"  # fmt: skip
        inner = [_written(rng, one, changed, changes=changes) for one in value]
        plain = all(one.lstrip("-").isdecimal() for one in inner)
        return f"[{', '.join(kinds.format(one) if plain else one for one in inner)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"'{name}': {_written(rng, one, changed, changes=changes)}" for name, one in value.items()) + "}"  # fmt: skip
    if isinstance(value, tuple):
        return f"MAP {{'{value[1]}': {_written(rng, value[2], changed, changes=changes)}}}"
    if changes and not changed[0] and rng.random() < 0.6:
        changed[0] = True
        return str(value + 1) if isinstance(value, int) else f"'{value}z'"
    return str(value) if isinstance(value, int) else f"'{value}'"
