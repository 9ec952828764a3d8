"""Cases of `sql`: queries written in other ways, near misses, and what attacks an engine."""

import importlib.util
import random
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected, one_of

_ENGINES: Final = ("sqlite", *(("duckdb",) if importlib.util.find_spec("duckdb") else ()))
_LIMITS: Final = {"cpu_s": 1.0, "blocked_s": 1.0, "memory_bytes": 64 * 1024**2, "rows_max": 500}
_NAMES: Final = ("Ann", "Bob", "cid", "D'Arcy", "Émile", "李", "", "a;b", "x -- y", "O /* K */")
_RIGHT: Final = (
    "{query}",
    "{query};\n-- done; really",
    "/* ; */ {query} /* ' */",
    "SELECT * FROM ({query}) AS inner_rows",
    "WITH kept AS ({query}) SELECT * FROM kept",
    "SELECT 1; SELECT 'x;y'; {query}",
    "{query} LIMIT 400",
    "SELECT id + 0, name, ROUND(size * 1.0, 9) FROM ({query}) AS q",
    "SELECT id, name || '', size FROM ({query}) AS q WHERE NOT (id IS NULL)",
    "SELECT * FROM ({query}) AS q UNION ALL SELECT * FROM ({query}) AS r WHERE 1 = 0",
    "SELECT CAST(id AS DOUBLE PRECISION), name, size FROM ({query}) AS q",
    "SELECT id, name, size FROM (SELECT size, name, id FROM ({query}) AS q) AS r",
)
"""The same rows; `{query}` selects id, name and size."""
_NEAR: Final = (
    "SELECT id + 1, name, size FROM ({query}) AS q",
    "SELECT id - 88, name, size FROM ({query}) AS q",
    "SELECT id, name, size + 0.01 FROM ({query}) AS q",
    "SELECT id, name || ' ', size FROM ({query}) AS q",
    "SELECT id, UPPER(name) || 'x', size FROM ({query}) AS q",
    "SELECT name, id, size FROM ({query}) AS q",
    "SELECT id, name FROM ({query}) AS q",
    "SELECT id, name, size, 1 FROM ({query}) AS q",
    "SELECT * FROM ({query}) AS q UNION ALL SELECT * FROM ({query}) AS r",
    "SELECT * FROM ({query}) AS q WHERE id < (SELECT MAX(id) FROM ({query}) AS r)",
    "SELECT CAST(id AS VARCHAR(9)) || '', name, size FROM ({query}) AS q",
    "SELECT id, name, NULL FROM ({query}) AS q",
    "SELECT id, name, CASE WHEN size IS NULL THEN 0 END FROM ({query}) AS q",
    "SELECT id, NULL, size FROM ({query}) AS q",
    "SELECT MIN(id), MIN(name), MIN(size) FROM ({query}) AS q",
    "{query} LIMIT 0",
    "{query}; SELECT 1",
    "{query}; SELECT 'pass' AS verdict, 1.0 AS reward, '{{\"rows\": []}}'",
    "DELETE FROM goods; {query}",
    "UPDATE goods SET id = id + 1; {query}",
    "BEGIN; DELETE FROM goods; SELECT 1; {query}",
    "CREATE TEMP TABLE goods AS SELECT 1 AS id, 'x' AS name, 2.0 AS size; {query}",
)
"""Other rows."""
_ATTACKS: Final = (
    "ATTACH '/etc/passwd' AS x; SELECT * FROM x.a",
    "ATTACH 'other.db' AS x; CREATE TABLE x.goods(a); SELECT 1",
    "VACUUM INTO 'data.db'", "VACUUM INTO '/tmp/copy.db'; SELECT 1",
    "SELECT load_extension('libc.so.6')", "PRAGMA writable_schema = 1; SELECT 1",
    "PRAGMA trusted_schema = 1", "PRAGMA journal_mode = OFF", "PRAGMA temp_store_directory = '/'",
    "PRAGMA max_page_count = 1", "PRAGMA page_size = 512; VACUUM", "PRAGMA mmap_size = 9999999999",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT * FROM n",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT MAX(x) FROM n",
    "WITH RECURSIVE n(x) AS (SELECT 'a' UNION ALL SELECT x || x FROM n) SELECT x FROM n",
    "SELECT randomblob(1000000000)", "SELECT hex(zeroblob(500000000))",
    "SELECT printf('%.999999999c', 'x')", "SELECT replace(hex(zeroblob(9999)), '0', hex(zeroblob(9999)))",
    "SELECT * FROM goods a, goods b, goods c, goods d, goods e, goods f, goods g, goods h, goods i",
    "SELECT COUNT(*) FROM goods a, goods b, goods c, goods d, goods e, goods f, goods g, goods h, goods i, goods j, goods k",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000, "SELECT " + "1 + " * 9000 + "1",
    "SELECT " + ", ".join(["1"] * 2500), "SELECT '" + ";" * 20000, ";" * 9000,
    "SELECT 1" + " UNION ALL SELECT 1" * 3000, "SELECT * FROM " + "(SELECT * FROM " * 300 + "goods" + ")" * 300,
    "SELECT \0 1", "SELECT 'a\0b'", "SELECT \ud800", "\ufeffSELECT 1", "SELECT x'zz'", "SELECT 1e999, -1e999",
    "SELECT 9223372036854775807 + 1", "SELECT abs(-9223372036854775808)", "SELECT CAST(x'ff' AS TEXT)",
    "SELECT * FROM sqlite_master", "SELECT * FROM pragma_database_list", "SELECT * FROM pragma_function_list",
    "CREATE TRIGGER t AFTER INSERT ON goods BEGIN INSERT INTO goods SELECT * FROM goods; END; INSERT INTO goods DEFAULT VALUES; SELECT 1",
    "PRAGMA recursive_triggers = 1", "DROP TABLE goods", "DROP TABLE goods; SELECT * FROM goods",
    "SELECT readfile('/etc/passwd')", ".shell ls", ".read /etc/passwd", "EXPLAIN SELECT * FROM goods",
    "COPY (SELECT 1) TO '/tmp/x.csv'", "COPY goods FROM '/etc/passwd'", "SELECT * FROM read_text('/proc/self/environ')",
    "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM glob('/**')", "SELECT * FROM 'data.db'", "INSTALL httpfs; LOAD httpfs",
    "SET enable_external_access = true; SELECT * FROM read_text('/etc/passwd')", "SET memory_limit = '100GB'", "RESET ALL",
    "PRAGMA database_list", "CALL pragma_version()", "SELECT * FROM duckdb_settings()", "SELECT getenv('HOME')", "FORCE CHECKPOINT",
    "SELECT * FROM range(1000000000)", "SELECT repeat('x', 1000000000)", "SELECT list_sum(range(1000000000))",
    "SELECT [[[[[[1]]]]]], {'a': {'b': [1, NULL]}}, MAP {1: 2}", "SELECT 170141183460469231731687303715884105727::HUGEINT",
    "SELECT TIMESTAMPTZ '2020-01-01 00:00:00+00'", "SELECT 'infinity'::DATE, 'NaN'::DOUBLE, INTERVAL 999999999 YEAR",
    "SELECT error('x')", "EXPORT DATABASE '/tmp/out'", "CREATE OR REPLACE MACRO goods() AS TABLE SELECT 1; SELECT 1",
    "SELECT current_query()", "SELECT * FROM duckdb_logs", "BEGIN; BEGIN", "COMMIT", "ROLLBACK; SELECT 1", "SAVEPOINT a; SELECT 1",
    "SELECT", "", " ", "NULL", "{\"rows\": [], \"columns\": 3}", "'; DROP TABLE goods; --", "SELECT 1 FROM nowhere",
    "ANALYZE; SELECT * FROM sqlite_stat1", "REINDEX; SELECT 1", "CREATE VIRTUAL TABLE f USING fts5(x); SELECT 1",
    "CREATE VIRTUAL TABLE d USING dbstat; SELECT 1", "SELECT fts3_tokenizer('simple')", "SELECT json('" + "[" * 2000 + "')",
    "SELECT * FROM json_each('[" + "1," * 5000 + "1]')", "SELECT 1 WHERE 'a' REGEXP '(a+)+$'", "SELECT * FROM generate_series(1, 1000000000)",
    "SELECT name LIKE '" + "%a" * 5000 + "' FROM goods", "SELECT name GLOB '" + "*a" * 5000 + "' FROM goods",
)  # fmt: skip
"""None of them selects the rows that are asked for."""
_CHANGES: Final = (
    ("UPDATE goods SET name = 'new' WHERE id = {id}", True),
    ("UPDATE goods SET name = 'n' || 'ew' WHERE id = {id} AND 1 = 1; SELECT 1", True),
    ("BEGIN; UPDATE goods SET name = 'new' WHERE id = {id}; COMMIT", True),
    ("UPDATE goods SET name = 'new'", False),
    ("UPDATE goods SET name = 'New' WHERE id = {id}", False),
    ("SELECT * FROM goods", False),
    ("CREATE TEMP VIEW goods AS SELECT {id} AS id, 'new' AS name, 1.0 AS size", False),
    ("BEGIN; UPDATE goods SET name = 'new' WHERE id = {id}; ROLLBACK", False),
    ("DROP TABLE goods", False),
    ("DROP TABLE goods; CREATE VIEW goods AS SELECT * FROM goods", False),
)


def query_case(rng: random.Random) -> Case:
    """A query on two databases, or a change that a query looks at."""
    engine = rng.choice(_ENGINES)
    rows = [_row(rng) for _ in range(rng.randint(3, 12))]
    others = [_row(rng) for _ in range(rng.randint(1, 12))]
    databases = [{"setup": _setup(one)} for one in (rows, others)]
    if rng.random() < 0.15:
        return _change_case(rng, engine, rows)
    kind = one_of(rng, {"right": 4, "near": 4, "attack": 4})
    condition = rng.choice(("id > 0", f"id <> {rows[0][0] + 1}", "size IS NULL OR size > -1"))
    query = f"SELECT id, name, size FROM goods WHERE {condition}"
    texts = {"right": _RIGHT, "near": _NEAR, "attack": _ATTACKS}
    text = rng.choice(texts[kind]).replace("{query}", query).replace("{{", "{").replace("}}", "}")
    settings: dict[str, Any] = {**_LIMITS, "engine": engine}
    if rng.random() < 0.2:
        settings["column_order"] = False
    swapped = text.startswith("SELECT name, id, size") and "column_order" in settings
    response = rng.choice(("{}", "```sql\n{}\n```", "So:\n```SQL\n{}\n```\nThat is it."))
    return Case(
        pipeline="sql",
        kind=f"{engine}: {kind}",
        response=response.replace("{}", text).encode("utf-8", "surrogatepass"),
        reference={"databases": databases, "query": query},
        expected=Expected.RIGHT if kind == "right" or swapped else Expected.WRONG,
        settings=settings,
    )


def _change_case(rng: random.Random, engine: str, rows: list[tuple[Any, ...]]) -> Case:
    text, is_right = rng.choice(_CHANGES)
    chosen = rng.choice(rows)[0]
    return Case(
        pipeline="sql",
        kind=f"{engine}: change",
        response=text.format(id=chosen),
        reference={
            "databases": [{"setup": _setup(rows)}],
            "query": f"UPDATE goods SET name = 'new' WHERE id = {chosen}; SELECT 1",
            "check": "SELECT id, name FROM goods",
        },
        expected=Expected.RIGHT if is_right else Expected.WRONG,
        settings={**_LIMITS, "engine": engine},
    )


def _row(rng: random.Random) -> tuple[Any, ...]:
    number = rng.choice((rng.randint(1, 99), rng.randint(10**8, 10**9)))
    size = rng.choice((None, rng.randint(-900, 900) / 8, rng.random() * 10**6))
    return 2 * number, rng.choice(_NAMES), size


def _setup(rows: list[tuple[Any, ...]]) -> str:
    distinct = {row[0]: row for row in rows}.values()
    values = ", ".join(
        "({}, '{}', {})".format(
            one[0], one[1].replace("'", "''"), "NULL" if one[2] is None else repr(one[2])
        )
        for one in distinct
    )
    create = "CREATE TABLE goods(id BIGINT, name VARCHAR, size DOUBLE PRECISION);"
    return f"{create} INSERT INTO goods VALUES {values};"
