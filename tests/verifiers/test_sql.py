"""`sql`: the result decides; a query is as hostile as a program."""

import contextlib
import importlib.util
import math
import sqlite3
from dataclasses import replace
from fractions import Fraction
from random import Random
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.verifiers.sql import compare
from assay.verifiers.sql.compare import QueryResult, ResultRule, results_equal, value_close
from assay.verifiers.sql.definition import SqlReference, SqlSettings
from assay.verifiers.sql.order import has_order, order_columns
from assay.verifiers.sql.stage import rule_of

SETUP = (
    "CREATE TABLE people(name TEXT, age INT, weight DOUBLE);"
    "INSERT INTO people VALUES ('Ann', 30, 61.5), ('Bob', 30, NULL), ('Cid', NULL, 80.25);"
)
REFERENCE: dict[str, Any] = {
    "databases": [{"setup": SETUP}],
    "query": "SELECT name, age FROM people WHERE age = 30",
}
TIGHT = {"cpu_s": 1.0, "blocked_s": 1.0, "memory_bytes": 64 * 1024**2, "rows_max": 1_000}


@pytest.fixture(params=["sqlite", "duckdb"])
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "duckdb" and importlib.util.find_spec("duckdb") is None:
        pytest.skip("duckdb is not installed")
    return name


@pytest.mark.parametrize(
    ("query", "verdict"),
    [
        ("SELECT name, age FROM people WHERE age = 30", "pass"),
        (
            "Thus:\n```sql\nSELECT name, 30 FROM people WHERE age >= 30 ORDER BY 1 DESC;\n```",
            "pass",
        ),
        ("SELECT name, 30.0000001 FROM people WHERE age = 30", "pass"),
        ("SELECT name, age FROM people", "wrong_answer"),
        ("SELECT age, name FROM people WHERE age = 30", "wrong_answer"),
        ("SELECT name FROM people WHERE age = 30", "wrong_answer"),
        ("SELECT name, age FROM people WHERE age = 30 UNION ALL SELECT 'Ann', 30", "wrong_answer"),
        ("SELECT nothing FROM people", "sql_error"),
        ("this is no query", "sql_error"),
        ("SELECT name, '30' FROM people WHERE age = 30", "wrong_answer"),
        ("", "no_program"),
    ],
)
def test_a_query_is_judged_by_its_result(bench: Any, engine: str, query: str, verdict: str) -> None:
    ended = bench.judge("sql", query, REFERENCE, engine=engine)
    assert ended.evidence.verdict == verdict, ended.evidence
    assert ended.reward == float(verdict == "pass")


def test_every_database_of_the_reference_counts(bench: Any, engine: str) -> None:
    other = SETUP.replace("'Bob', 30", "'Bob', 31")
    reference = {**REFERENCE, "databases": [{"setup": SETUP}, {"setup": other}]}
    lucky = "SELECT name, 30 FROM people WHERE age IS NOT NULL"
    ended = bench.judge("sql", lucky, reference, engine=engine)
    assert (ended.reward, ended.evidence.tests_passed) == (0.0, 1)


def test_order_counts_where_the_reference_orders(bench: Any, engine: str) -> None:
    reference = {**REFERENCE, "query": "SELECT name FROM people ORDER BY name DESC"}
    right, wrong = "SELECT name FROM people ORDER BY 1 DESC", "SELECT name FROM people ORDER BY 1"
    assert bench.judge("sql", right, reference, engine=engine).reward == 1.0
    assert bench.judge("sql", wrong, reference, engine=engine).reward == 0.0
    assert bench.judge("sql", wrong, reference, engine=engine, row_order="no").reward == 1.0


def test_a_result_may_be_given_as_rows(bench: Any, engine: str) -> None:
    reference = {"databases": [{"setup": SETUP}], "rows": [["Cid", None]]}
    query = "SELECT name, age FROM people WHERE age IS NULL"
    assert bench.judge("sql", query, reference, engine=engine).reward == 1.0
    assert bench.judge("sql", query + " AND 1 = 0", reference, engine=engine).reward == 0.0


def test_statements_that_change_data_are_judged_by_a_query_afterwards(
    bench: Any, engine: str
) -> None:
    reference = {
        "databases": [{"setup": SETUP}],
        "query": "DELETE FROM people WHERE age IS NULL; SELECT 1;",
        "check": "SELECT name FROM people",
    }
    right = "DELETE FROM people WHERE name = 'Cid'; SELECT count(*) FROM people;"
    assert bench.judge("sql", right, reference, engine=engine).reward == 1.0
    shadow = "CREATE TEMP VIEW people AS SELECT 'Ann' AS name UNION ALL SELECT 'Bob'; SELECT 1;"
    assert bench.judge("sql", shadow, reference, engine=engine).reward == 0.0


BOMBS = {
    "endless recursion": (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
    ),
    "many rows": (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) "
        "SELECT i FROM n"
    ),
    "product": "SELECT count(*) FROM " + ", ".join(f"people p{n}" for n in range(40)),
}


@pytest.mark.parametrize("name", sorted(BOMBS))
def test_a_query_without_an_end_breaks_a_limit(bench: Any, engine: str, name: str) -> None:
    ended = bench.judge("sql", BOMBS[name], REFERENCE, engine=engine, **TIGHT)
    assert ended.reward == 0.0
    assert ended.outcome in {Outcome.RESOURCE_LIMIT, Outcome.SCORED}
    assert ended.evidence.verdict in {"cpu_limit", "memory_limit", "output_limit", "sql_error"}


HOSTILE = [
    "ATTACH 'other.db' AS o; SELECT name, age FROM people WHERE age = 30",
    "PRAGMA writable_schema = 1; SELECT name, age FROM people WHERE age = 30",
    "SELECT load_extension('x'), 30",
    "SELECT readfile('/etc/passwd'), 30",
    "COPY people TO '/tmp/x.csv'; SELECT 'Ann', 30 UNION ALL SELECT 'Bob', 30",
    "INSTALL httpfs; LOAD httpfs; SELECT 'Ann', 30 UNION ALL SELECT 'Bob', 30",
    "SET enable_external_access = true; SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/proc/self/environ')",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_a_query_reaches_nothing_but_its_database(bench: Any, engine: str, query: str) -> None:
    ended = bench.judge("sql", query, REFERENCE, engine=engine)
    assert (ended.reward, ended.evidence.verdict) == (0.0, "sql_error"), ended.evidence


def test_a_zero_blob_is_bounded(bench: Any) -> None:
    ended = bench.judge("sql", "SELECT zeroblob(40000000), 30", REFERENCE, **TIGHT)
    assert ended.reward == 0.0
    assert ended.outcome in {Outcome.RESOURCE_LIMIT, Outcome.SCORED}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"query": "SELECT x FROM people"}, "reference.query: database 0"),
        ({"databases": [{"setup": "CREATE nothing"}]}, "reference.databases[0].setup"),
        ({"check": "SELECT x FROM nothing"}, "reference.check"),
        ({"query": "SELECT 1 WHERE 0"}, "no row on any database"),
    ],
)
def test_a_reference_that_cannot_judge_is_refused_by_name(
    bench: Any, engine: str, change: dict[str, Any], field: str
) -> None:
    ended = bench.judge("sql", "SELECT 1", {**REFERENCE, **change}, engine=engine)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert field in ended.evidence.error


def test_a_reference_has_one_result(bench: Any) -> None:
    with pytest.raises(InvalidRequest, match="exactly one of query, rows"):
        bench.judge("sql", "SELECT 1", {**REFERENCE, "rows": [[1]]})


@pytest.mark.parametrize(
    ("query", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("SELECT a FROM t ORDER BY a LIMIT 3", True),
        ("SELECT * FROM (SELECT a FROM t ORDER BY a)", False),
        ("SELECT rank() OVER (ORDER BY a) FROM t", False),
        ("SELECT 'x ORDER BY a' FROM t -- ORDER BY a", False),
        ('SELECT a FROM t ORDER BY "x from y"', True),
        ("SELECT a FROM t ORDER BY `x from y`", True),
        ("SELECT a FROM t ORDER BY [x from y]", True),
        ("SELECT a FROM (SELECT `x (` AS a FROM t) ORDER BY a", True),
        ("SELECT a FROM (SELECT [o'k] AS a, [x)] FROM t) ORDER BY `o'k`", True),
        ("SELECT `a ORDER BY b` FROM t", False),
        ("SELECT [a ORDER BY b] FROM t", False),
    ],
)
def test_only_an_order_of_the_whole_result_counts(query: str, ordered: bool) -> None:
    assert rule_of(SqlReference(query=query), SqlSettings()).ordered is ordered


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("i1", "f1.0", True),
        ("i1", "t1", False),
        ("n", "n", True),
        ("n", "i0", False),
        ("n", "t", False),
        ("f0.1", "f0.10000001", True),
        ("f0.1", "f0.11", False),
        ("fnan", "fnan", True),
        ("finf", "f-inf", False),
        ("i9007199254740993", "i9007199254740992", False),
        ("i123456789", "i123456700", False),
        ("i123456789", "f123456700.0", False),
        ("f123456700.0", "i123456789", False),
        ("i123456789", "f123456789.0000001", True),
        ("i9007199254740993", "f9007199254740992.0", True),
        ("f123456789.5", "f123456789.0", True),
        ("tAnn", "tann", False),
    ],
)
def test_values(one: str, other: str, equal: bool) -> None:
    assert value_close(one, other, 1e-6) is equal


VALUES = st.one_of(
    st.just("n"),
    st.integers(-3, 3).map(lambda n: f"i{n}"),
    st.sampled_from([0.1, 0.5, 2.0, 0.1 + 1e-9]).map(lambda x: f"f{x!r}"),
    st.sampled_from(["ta", "tb", "t1"]),
)
ROWS = st.lists(st.lists(VALUES, min_size=2, max_size=2), max_size=7)


def rule(*, ordered: bool = False, columns: bool = True, tolerance: float = 1e-6) -> ResultRule:
    return ResultRule(ordered=ordered, duplicates=True, column_order=columns, tolerance=tolerance)


@settings(max_examples=300)
@given(ROWS, st.randoms(use_true_random=False))
def test_rows_in_any_order_are_the_same_unless_order_counts(rows: Any, random: Any) -> None:
    mixed = random.sample(rows, len(rows))
    one, other = QueryResult(columns=2, rows=rows), QueryResult(columns=2, rows=mixed)
    assert results_equal(one, other, rule())
    assert results_equal(one, other, rule(ordered=True)) == all(
        value_close(a, b, 1e-6)
        for left, right in zip(rows, mixed, strict=True)
        for a, b in zip(left, right, strict=True)
    )
    swapped = QueryResult(columns=2, rows=[list(reversed(row)) for row in mixed])
    assert results_equal(one, swapped, rule(columns=False))


@settings(max_examples=300)
@given(ROWS, ROWS)
def test_without_tolerance_rows_are_equal_as_bags(rows: Any, others: Any) -> None:
    def bag(of: Any) -> list[tuple[Any, ...]]:
        def norm(value: str) -> tuple[str, object]:
            return ("#", float(value[1:])) if value[0] in "if" else ("x", value)

        return sorted((tuple(norm(value) for value in row) for row in of), key=repr)

    equal = results_equal(
        QueryResult(columns=2, rows=rows), QueryResult(columns=2, rows=others), rule(tolerance=0)
    )
    assert equal == (bag(rows) == bag(others))


def test_partners_are_found_where_a_sort_would_pair_wrongly() -> None:
    wanted = [["f1.0", "i1"], ["f1.0000001", "i9"]]
    given_rows = [["f1.0000001", "i1"], ["f1.0", "i9"]]
    assert results_equal(
        QueryResult(columns=2, rows=given_rows), QueryResult(columns=2, rows=wanted), rule()
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=6),
    st.permutations(range(3)),
    st.sampled_from([(True, True), (True, False), (False, True), (False, False)]),
)
def test_columns_in_any_order_are_the_same_under_every_rule(
    rows: Any, order: Any, kinds: tuple[bool, bool]
) -> None:
    ordered, duplicates = kinds
    own = ResultRule(ordered=ordered, duplicates=duplicates, column_order=False, tolerance=1e-6)
    given_rows = [[row[at] for at in order] for row in rows]
    if not duplicates:
        given_rows += given_rows[-1:]
    one, other = QueryResult(columns=3, rows=given_rows), QueryResult(columns=3, rows=rows)
    assert results_equal(one, other, own)
    last = [*given_rows[-1][:-1], "tz"]
    assert not results_equal(QueryResult(columns=3, rows=[*given_rows[:-1], last]), other, own)


@pytest.mark.parametrize("duplicates", [True, False])
@pytest.mark.parametrize("kind", ["other numbers", "the same columns", "equal columns"])
def test_an_order_of_columns_is_found_or_not_within_a_bound(kind: str, duplicates: bool) -> None:
    """All 40,320 orders of eight columns of numbers would keep a worker for hours."""
    random = Random(kind)
    numbers = [[f"f{random.randint(0, 99) / 7!r}" for _ in range(8)] for _ in range(1_000)]
    others = [[f"f{random.randint(0, 99) / 7!r}" for _ in range(8)] for _ in range(1_000)]
    if kind != "other numbers":
        columns = [random.sample(column, 1_000) for column in zip(*numbers, strict=True)]
        others = [list(row) for row in zip(*columns, strict=True)]
    if kind == "equal columns":
        numbers, others = [[row[:1] * 8 for row in side] for side in (numbers, others)]
        others[0] = [*others[0][:-1], "f0.125"]
    own = ResultRule(ordered=False, duplicates=duplicates, column_order=False, tolerance=1e-6)
    one, other = QueryResult(columns=8, rows=others), QueryResult(columns=8, rows=numbers)
    before_s = process_time()
    assert not results_equal(one, other, own)
    assert process_time() - before_s < 30


def _near(columns: int, rows: int, *, last: float) -> QueryResult:
    """Rows whose values are all within the tolerance of each other, apart from the last column."""
    random = Random(f"{last}")
    return QueryResult(
        columns=columns,
        rows=[
            [*(f"f{1 + random.random() * 1e-7!r}" for _ in range(columns - 1)), f"f{at + last!r}"]
            for at in range(rows)
        ],
    )


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    looks = [0]

    def close(one: str, other: str, tolerance: float) -> bool:
        looks[0] += 1
        return value_close(one, other, tolerance)

    monkeypatch.setattr(compare, "value_close", close)
    return looks


@pytest.mark.parametrize("kinds", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("size", [(8, 300), (8, 30), (40, 2_000), (2, 10_000)])
def test_a_comparison_looks_at_so_many_values_whatever_the_rows(
    size: tuple[int, int], kinds: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are a response's, and nothing else bounds the slot that compares them."""
    looks = _counted(monkeypatch)
    monkeypatch.setattr(compare, "TRIES_MAX", 200_000)
    ordered, duplicates = kinds
    own = ResultRule(ordered=ordered, duplicates=duplicates, column_order=False, tolerance=1e-6)
    assert not results_equal(_near(*size, last=0.5), _near(*size, last=0.0), own)
    assert looks[0] <= 2 * compare.TRIES_MAX


def test_a_search_for_partners_looks_at_so_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 600 rows can stand for each other, apart from one that can for none."""
    looks = _counted(monkeypatch)
    monkeypatch.setattr(compare, "TRIES_MAX", 50_000)
    close = [[f"f{1 + at * 1e-11!r}"] for at in range(600)]
    other = [[f"f{1 + at * 1e-11 + 3e-12!r}"] for at in range(599)]
    given_rows, wanted = (
        QueryResult(columns=1, rows=close),
        QueryResult(columns=1, rows=[["f0.5"], *other]),
    )
    assert not results_equal(given_rows, wanted, rule())
    assert looks[0] <= 2 * compare.TRIES_MAX


@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.one_of(st.floats(0, 3), st.floats(1 - 1e-9, 1 + 1e-9)),
    st.sampled_from([1e-9, 1e-6, 0.01, 0.5]),
)
def test_inexact_numbers_are_equal_within_the_tolerance_exactly(
    one: float, share: float, tolerance: float
) -> None:
    other = one + share * tolerance * max(1.0, abs(one))
    a, b = f"f{one!r}", f"f{other!r}"
    if math.isfinite(other):
        left, right = Fraction(repr(one)), Fraction(repr(other))
        error, most = abs(left - right), max(Fraction(1), abs(left), abs(right))
        assert value_close(a, b, tolerance) is (error <= Fraction(tolerance) * most)


# --- rows that the order leaves open -------------------------------------------------------------

SCORES = (
    "CREATE TABLE s(name TEXT, points INT, team TEXT);"
    "INSERT INTO s VALUES ('a', 3, 'x'), ('b', 5, 'y'), ('c', 3, 'y'), ('d', 5, NULL),"
    " ('e', 1, 'x'), ('f', 3, NULL);"
)
GOES_BY = {
    "its name": ("SELECT name, points FROM s ORDER BY points", [1]),
    "its number": ("SELECT name, points FROM s ORDER BY 2 DESC;", [1]),
    "an alias": ("SELECT name, points * 2 AS p FROM s ORDER BY p DESC", [1]),
    "a quoted alias": ('SELECT name, points AS "p q" FROM s ORDER BY "P Q" ASC', [1]),
    "its expression": ("SELECT name, s.points FROM s ORDER  BY s.points", [1]),
    "two columns": ("SELECT name, points, team FROM s ORDER BY points, team DESC", [1, 2]),
    "a comment": ("SELECT name, points FROM s ORDER BY points -- , name", [1]),
    "an aggregate": ("SELECT team, count(*) FROM s GROUP BY team ORDER BY COUNT(*) DESC", [1]),
    "a with": (
        "WITH q AS (SELECT * FROM s ORDER BY name) SELECT name, team FROM q ORDER BY team",
        [1],
    ),
    "all columns": ("SELECT * FROM s ORDER BY points", [1]),
    "a union": ("SELECT name, points FROM s UNION SELECT name, 0 FROM s ORDER BY points", [1]),
    "a limit": ("SELECT name, points FROM s ORDER BY points DESC LIMIT 2", [1]),
    "another column": ("SELECT name FROM s ORDER BY points", None),
    "another table's": ("SELECT s.points FROM s JOIN s AS t ON 1 ORDER BY t.points", None),
    "a column and another": ("SELECT name, team FROM s ORDER BY team, points", None),
    "another expression": ("SELECT name, points FROM s ORDER BY -points", None),
    "a collation": ("SELECT name, points FROM s ORDER BY name COLLATE NOCASE", None),
    "one of two": ("SELECT points AS p, name AS p FROM s ORDER BY p", None),
    "no column": ("SELECT name FROM s ORDER BY 7", None),
    "a text": ("SELECT name FROM s ORDER BY 'name'", None),
}


@pytest.mark.parametrize("kind", GOES_BY)
def test_the_columns_of_an_order_are_known_or_not(kind: str) -> None:
    query, columns = GOES_BY[kind]
    names = {"all columns": ["name", "points", "team"], "an alias": ["name", "p"]}.get(kind)
    if names is None:
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            database.executescript(SCORES)
            ordered = query.replace("ORDER BY 7", "ORDER BY 1")
            names = [one[0] for one in database.execute(ordered).description]
    assert order_columns(query, names) == columns


@settings(max_examples=300)
@given(st.text(alphabet="select order by from ()'\"`[],.;*1a\n-/", max_size=60))
def test_any_text_has_an_order_or_not(query: str) -> None:
    assert has_order(query) in (True, False)
    columns = order_columns(query, ["a", "1"])
    assert columns is None or set(columns) <= {0, 1}


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
    st.sampled_from([(True, True), (True, False), (False, True), (False, False)]),
)
def test_rows_of_one_place_may_stand_in_any_order(
    pairs: list[tuple[int, int]], random: Random, kinds: tuple[bool, bool]
) -> None:
    duplicates, column_order = kinds
    rows = [[f"i{key}", f"t{text}"] for key, text in sorted(pairs, key=lambda pair: pair[0])]
    wanted = QueryResult(columns=2, rows=rows, order_columns=[0])
    own = ResultRule(ordered=True, duplicates=duplicates, column_order=column_order, tolerance=1e-6)
    mixed = random.sample(rows, len(rows))
    tied = sorted(mixed, key=lambda row: row[0])
    assert results_equal(QueryResult(columns=2, rows=tied), wanted, own)
    distinct = list(dict.fromkeys(map(tuple, mixed)))
    shown = mixed if duplicates else distinct
    in_order = [row[0] for row in shown] == sorted(row[0] for row in shown)
    assert results_equal(QueryResult(columns=2, rows=mixed), wanted, own) == in_order
    other = [*tied[:-1], [tied[-1][0], "tother"]]
    assert not results_equal(QueryResult(columns=2, rows=other), wanted, own)
    fixed = replace(wanted, order_columns=None)
    assert results_equal(QueryResult(columns=2, rows=tied), fixed, own) == (
        list(map(tuple, tied)) == list(map(tuple, rows))
        if duplicates
        else list(dict.fromkeys(map(tuple, tied))) == list(dict.fromkeys(map(tuple, rows)))
    )


@pytest.mark.parametrize(
    ("query", "ties", "wrong"),
    [
        (GOES_BY["its number"][0], "points DESC, name DESC", "points, name DESC"),
        (GOES_BY["its expression"][0], "points, name DESC", "name"),
        (GOES_BY["two columns"][0].replace("name, ", ""), "points, team DESC", "points, team"),
    ],
)
def test_an_order_may_be_finer_than_the_references(
    bench: Any, engine: str, query: str, ties: str, wrong: str
) -> None:
    reference = {"databases": [{"setup": SCORES}], "query": query}
    what = query[: query.index(" FROM")]
    for tail, reward in ((ties, 1.0), (wrong, 0.0)):
        response = f"{what} FROM s ORDER BY {tail}"
        assert bench.judge("sql", response, reference, engine=engine).reward == reward, tail
    exact = f"{what} FROM s ORDER BY {ties}"
    given_order = {
        **reference,
        "query": f"{what} FROM s ORDER BY {ties.replace('name DESC', 'name')}",
    }
    kept = bench.judge("sql", exact, given_order, engine=engine, row_order="yes").reward
    assert kept == float("name" not in ties)


def test_texts_that_are_not_utf8_are_compared_by_their_bytes(bench: Any) -> None:
    reference = {"databases": [{}], "query": "SELECT CAST(x'ff41' AS TEXT)"}
    for text, reward in (("ff41", 1.0), ("fe41", 0.0), ("efbfbd41", 0.0), ("41", 0.0)):
        assert bench.judge("sql", f"SELECT CAST(x'{text}' AS TEXT)", reference).reward == reward
