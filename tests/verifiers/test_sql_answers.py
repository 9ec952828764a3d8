"""`sql`: which block is the query, and which rows an order or a LIMIT leaves open."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.sql.compare import value_close
from assay.verifiers.sql.nested import read, shape
from assay.verifiers.sql.order import unlimited, widened

SETUP = (
    "CREATE TABLE s(id INTEGER, name TEXT, pts REAL);"
    "INSERT INTO s VALUES (1, 'ann', 3), (2, 'bob', 5), (3, 'cid', 5), (4, 'dee', 5),"
    " (5, 'eve', 3), (6, 'fay', 9);"
)
ASKED = "SELECT name FROM s WHERE pts > 4"
DONE = "UPDATE s SET pts = 0 WHERE id = 2"


@pytest.fixture(params=["sqlite", "duckdb"])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "duckdb":
        pytest.importorskip("duckdb")
    return str(request.param)


def _blocks(*parts: str) -> str:
    return "\n\nThen:\n".join(f"```sql\n{part}\n```" for part in parts)


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        (_blocks(ASKED, "CREATE INDEX by_points ON s(pts);"), 1.0),
        (_blocks(ASKED, "-- Expected:\n-- bob"), 1.0),
        (_blocks(ASKED, ""), 1.0),
        (_blocks("SELECT 1", ASKED), 1.0),
        (_blocks(ASKED, "SELECT 1"), 0.0),
        (_blocks("CREATE INDEX by_points ON s(pts);"), 0.0),
        (f"<sql>{ASKED}</sql>", 1.0),
        (f"[SQL]\n{ASKED}\n[/SQL]", 1.0),
        (f"I look for points.\n<answer>\n{ASKED}\n</answer>", 1.0),
        (f"{ASKED}\n<\uff5cend\u2581of\u2581sentence\uff5c>", 1.0),
        ("<answer>SELECT 1</answer>", 0.0),
    ],
)
def test_the_query_is_the_last_block_that_has_a_result(
    bench: Any, response: str, reward: float
) -> None:
    reference = {"databases": [{"setup": SETUP}], "query": ASKED}
    assert bench.judge("sql", response, reference).reward == reward


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        (_blocks(DONE, "SELECT * FROM s WHERE id = 2"), 1.0),
        (_blocks("SELECT * FROM s", DONE, "-- one row"), 1.0),
        (_blocks(DONE, "DELETE FROM s"), 0.0),
        (_blocks("SELECT * FROM s"), 0.0),
    ],
)
def test_with_a_check_the_last_block_that_changes_something_counts(
    bench: Any, response: str, reward: float
) -> None:
    reference = {
        "databases": [{"setup": SETUP}],
        "query": DONE,
        "check": "SELECT id, pts FROM s",
    }
    assert bench.judge("sql", response, reference).reward == reward


@pytest.mark.parametrize(
    "order",
    ["pts DESC", "s.pts DESC", "abs(pts) DESC", "pts * 1 /* all */ DESC -- end"],
)
def test_rows_that_are_equal_in_what_is_no_column_may_stand_in_any_order(
    bench: Any, engine: str, order: str
) -> None:
    reference = {"databases": [{"setup": SETUP}], "query": f"SELECT name FROM s ORDER BY {order}"}
    for by, reward in (
        ("pts DESC, id", 1.0),
        ("pts DESC, id DESC", 1.0),
        ("pts", 0.0),
        ("id", 0.0),
    ):
        response = f"SELECT name FROM s ORDER BY {by}"
        assert bench.judge("sql", response, reference, engine=engine).reward == reward, by


@pytest.mark.parametrize("what", ["name", "name, pts"])
def test_a_limit_may_leave_any_of_the_rows_that_are_equal_in_the_order(
    bench: Any, engine: str, what: str
) -> None:
    asked = f"SELECT {what} FROM s ORDER BY pts DESC"
    reference = {"databases": [{"setup": SETUP}], "query": f"{asked} LIMIT 3"}
    for response, reward in (
        (f"{asked}, id LIMIT 3", 1.0),
        (f"{asked}, id DESC LIMIT 3", 1.0),
        (f"{asked}, id LIMIT 2", 0.0),
        (f"{asked}, id LIMIT 4", 0.0),
        (f"SELECT {what} FROM s ORDER BY id DESC LIMIT 3", 0.0),
        (f"SELECT * FROM ({asked} LIMIT 1) UNION ALL SELECT * FROM ({asked} LIMIT 1)", 0.0),
        (
            f"SELECT {what} FROM s WHERE id = 6"
            + f" UNION ALL SELECT {what} FROM s WHERE id = 3" * 2,
            0.0,
        ),
    ):
        assert bench.judge("sql", response, reference, engine=engine).reward == reward, response


OPEN = {
    "distinct": ("SELECT DISTINCT name FROM s ORDER BY pts DESC", ""),
    "distinct by an expression": (
        "SELECT DISTINCT name, id FROM s ORDER BY pts + 1 DESC",
        " LIMIT 2",
    ),
    "a limit and an offset": ("SELECT name FROM s ORDER BY pts DESC", " LIMIT 2 OFFSET 1"),
    "an offset within equal rows": ("SELECT name FROM s ORDER BY pts DESC", " LIMIT 2 OFFSET 2"),
    "a column and an offset": ("SELECT name, pts FROM s ORDER BY pts DESC", " LIMIT 3 OFFSET 2;"),
    "all columns by an expression": ("SELECT * FROM s ORDER BY pts + 1 DESC", " LIMIT 4"),
    "all columns and another": ("SELECT *, id * 2 AS d FROM s ORDER BY abs(pts) DESC", ""),
    "a collation": ("SELECT name FROM s ORDER BY substr('aaaaaa', 1, pts) COLLATE NOCASE DESC", ""),
}


@pytest.mark.parametrize("kind", OPEN)
def test_what_distinct_offset_and_all_columns_leave_open(
    bench: Any, engine: str, kind: str
) -> None:
    asked, tail = OPEN[kind]
    if engine == "duckdb":
        asked = asked.replace("1, pts)", "1, pts::INT)")
    reference = {"databases": [{"setup": SETUP}], "query": asked + tail}
    what = asked[: asked.index(" ORDER BY")]
    least = tail.partition(" OFFSET")[0]
    for by, left, reward in (
        ("pts DESC, id", tail, 1.0),
        ("pts DESC, id DESC", tail, 1.0),
        ("pts, id", least, 0.0),
        ("pts, id DESC", least, 0.0),
    ):
        response = f"{what} ORDER BY {by}{left}"
        assert bench.judge("sql", response, reference, engine=engine).reward == reward, by


@pytest.mark.parametrize("order", ["pts DESC", "s.pts DESC", "2 DESC"])
@pytest.mark.parametrize("tail", ["", " LIMIT 2", " LIMIT 3 OFFSET 1"])
def test_what_the_order_of_a_union_leaves_open(
    bench: Any, engine: str, order: str, tail: str
) -> None:
    asked = "SELECT name, pts FROM s WHERE id < 4 UNION SELECT name, pts FROM s ORDER BY "
    reference = {"databases": [{"setup": SETUP}], "query": f"{asked}{order}{tail}"}
    for by, reward in (("pts DESC, id", 1.0), ("pts DESC, id DESC", 1.0), ("pts", 0.0)):
        response = f"SELECT name, pts FROM s ORDER BY {by}{tail}"
        assert bench.judge("sql", response, reference, engine=engine).reward == reward, by


def test_a_union_may_be_ordered_by_an_expression_of_its_columns(bench: Any) -> None:
    pytest.importorskip("duckdb")
    asked = "SELECT name, pts FROM s WHERE id < 4 UNION ALL SELECT name, pts FROM s WHERE id > 3"
    reference = {"databases": [{"setup": SETUP}], "query": f"{asked} ORDER BY pts % 2 LIMIT 5"}
    for by, reward in (("pts % 2, id", 1.0), ("pts % 2, id DESC", 1.0)):
        response = f"SELECT name, pts FROM s ORDER BY {by} LIMIT 5"
        assert bench.judge("sql", response, reference, engine="duckdb").reward == reward, by


def test_rows_that_a_collation_finds_equal_may_stand_in_any_order(bench: Any) -> None:
    setup = "CREATE TABLE t(id INT, a TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'X'), (3, 'y');"
    asked = "SELECT id, a FROM t ORDER BY a COLLATE NOCASE"
    reference = {"databases": [{"setup": setup}], "query": asked}
    for more, reward in ((", id", 1.0), (", id DESC", 1.0), (" DESC", 0.0)):
        assert bench.judge("sql", f"{asked}{more}", reference).reward == reward, more


def test_a_name_may_have_several_keys_under_distinct(bench: Any) -> None:
    """Then the engine decides which of them orders it, and its order is taken as it is."""
    setup = "CREATE TABLE t(a TEXT, b INT); INSERT INTO t VALUES ('x', 1), ('y', 2), ('x', 3);"
    reference: dict[str, Any] = {
        "databases": [{"setup": setup}],
        "query": "SELECT DISTINCT a FROM t ORDER BY b",
    }
    assert bench.judge("sql", "SELECT 'x' UNION ALL SELECT 'y'", reference).reward == 1.0
    assert bench.judge("sql", "SELECT 'y' UNION ALL SELECT 'x'", reference).reward == 0.0
    reference["databases"] = [{"setup": setup.replace("2", "1")}]
    reference["query"] += " LIMIT 2"
    assert bench.judge("sql", reference["query"], reference).reward == 1.0
    orders = ("SELECT 'x' UNION ALL SELECT 'y'", "SELECT 'y' UNION ALL SELECT 'x'")
    assert sum(bench.judge("sql", one, reference).reward for one in orders) == 1.0


def test_with_a_check_equal_rows_may_stand_in_any_order(bench: Any) -> None:
    """An INSERT in another order changes the order in which the check finds them."""
    check = "SELECT name FROM n ORDER BY pts DESC LIMIT 3"
    made = "CREATE TABLE n(name TEXT, pts REAL); INSERT INTO n SELECT name, pts FROM s ORDER BY"
    reference = {"databases": [{"setup": SETUP}], "query": f"{made} id", "check": check}
    for by, reward in (("id", 1.0), ("id DESC", 1.0), ("id LIMIT 4", 0.0)):
        response = f"```sql\n{made} {by}\n```"
        assert bench.judge("sql", response, reference).reward == reward, by


@pytest.mark.parametrize(
    ("query", "response", "reward"),
    [
        ("SELECT [1, 2]", "SELECT [1.0, 2.0]", 1.0),
        ("SELECT [1, 2]", "SELECT [1.0, 2.1]", 0.0),
        ("SELECT [1, 2]", "SELECT [2, 1]", 0.0),
        ("SELECT [[1, 2], [3]]", "SELECT [[1, 2, 3]]", 0.0),
        ("SELECT [0.1 + 0.2]", "SELECT [0.3::DOUBLE]", 1.0),
        ("SELECT [123456789]", "SELECT [123456700]", 0.0),
        ("SELECT {'a': 1, 'b': 'x'}", "SELECT {'a': 1.0, 'b': 'x'}", 1.0),
        ("SELECT {'a': 1, 'b': 'x'}", "SELECT {'a': 1.0, 'b': 'y'}", 0.0),
        ("SELECT {'a': [1, 2]}", "SELECT {'a': [2, 1]}", 0.0),
        ("SELECT [{'c': 2}]", "SELECT [{'c': 2.0::DOUBLE}]", 1.0),
        ("SELECT MAP {'a': 1}", "SELECT MAP {'a': 1.0}", 1.0),
        ("SELECT ['1']", "SELECT [1]", 0.0),
        ("SELECT [1, NULL]", "SELECT [1.0, NULL]", 1.0),
        ("SELECT [1]", "SELECT 1", 0.0),
        ("SELECT [id] FROM s", "SELECT [id * 1.0] FROM s ORDER BY id DESC", 1.0),
        ("SELECT [id] FROM s ORDER BY id", "SELECT [id * 1.0] FROM s ORDER BY id", 1.0),
        ("SELECT [id] FROM s ORDER BY id", "SELECT [id * 1.0] FROM s ORDER BY id DESC", 0.0),
    ],
)
@pytest.mark.parametrize("column_order", [True, False])
def test_numbers_in_lists_structs_and_maps_are_numbers(
    bench: Any, query: str, response: str, reward: float, column_order: bool
) -> None:
    pytest.importorskip("duckdb")
    settings = {"engine": "duckdb", "column_order": column_order}
    reference = {"databases": [{"setup": SETUP}], "query": query}
    assert bench.judge("sql", response, reference, **settings).reward == reward


@given(st.text(alphabet='lm[]"\\if1,.=# ', max_size=30))
def test_any_text_is_a_value_that_equals_itself(text: str) -> None:
    value = read(f"l{text}")
    assert value_close(value, f"l{text}", 0.0)
    assert shape(value) == read(f"l{text}").shape


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT ON (name) name FROM s ORDER BY pts",
        "SELECT 1; SELECT name FROM s ORDER BY pts",
        "SELECT name FROM s ORDER BY name COLLATE UNKNOWN",
        "SELECT pts + 1 AS name FROM s ORDER BY name + pts",
        "SELECT 1 ORDER BY 2 + 3",
        "SELECT name FROM s",
        "",
    ],
)
def test_a_query_that_cannot_be_written_with_more_columns_is_left(query: str) -> None:
    assert widened(query, ["name"]) is None


def test_what_an_order_goes_by_stands_behind_the_columns() -> None:
    found = widened("SELECT a, b FROM s ORDER BY b, s.c DESC LIMIT 2", ["a", "b"])
    assert found is not None
    assert found.columns == [1, 2]
    assert "".join(found.query.split()) == "SELECTa,b,(s.c)FROMsORDERBYb,s.cDESCLIMIT2"
    assert unlimited(found.query) == (found.query.removesuffix("LIMIT 2"), 0)
    query = "SELECT a FROM s ORDER BY a "
    for tail, skipped in (
        *(("LIMIT 2 OFFSET 1;", 1), ("limit 1, 2", 1), ("OFFSET 3", 3), ("OFFSET 3 LIMIT 1", 3)),
        *(("OFFSET 4 ROWS FETCH FIRST 2 ROWS ONLY", 4), ("FETCH NEXT 2 ROWS ONLY", 0)),
    ):
        assert unlimited(query + tail) == (query, skipped), tail
    assert unlimited(f"{query}LIMIT (SELECT 2)") is None
    assert unlimited("SELECT a FROM (SELECT a FROM s LIMIT 2) ORDER BY a") is None
