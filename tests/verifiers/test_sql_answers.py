"""`sql`: which block is the query, and which rows an order or a LIMIT leaves open."""

from typing import Any

import pytest

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


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT name FROM s ORDER BY pts",
        "SELECT name FROM s UNION SELECT name FROM s ORDER BY pts",
        "SELECT * FROM s ORDER BY pts + 1",
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
    assert unlimited(found.query) == found.query.removesuffix("LIMIT 2")
    assert unlimited("SELECT a FROM s ORDER BY a LIMIT 2 OFFSET 1") is None
    assert unlimited("SELECT a FROM (SELECT a FROM s LIMIT 2) ORDER BY a") is None
