"""The pipeline `sql`: a query is right if its result is that of the reference."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from pydantic import Field, model_validator

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.sandbox.port import MIB
from assay.verifiers.code.controls import EMPTY, GOLD, response_of
from assay.verifiers.code.source.choices import BlockChoice, Extraction
from assay.verifiers.port import (
    Control,
    PipelineDefinition,
    PipelineSettings,
    Reference,
    StageDefinition,
    Tools,
)

SQL_RUN: Final = StageName("sql.run")
DATABASES_MAX: Final = 16
SETUP_CHARS_MAX: Final = 4_000_000
QUERY_CHARS_MAX: Final = 100_000
ROWS_MAX: Final = 100_000
WORDS: Final = frozenset(
    {
        *("sql", "sqlite", "sqlite3", "duckdb", "postgresql", "postgres", "psql", "pgsql"),
        *("plpgsql", "mysql", "mariadb", "mssql", "tsql", "t-sql", "plsql", "sparksql"),
        *("bigquery", "snowflake", "oracle", "ansi-sql"),
    }
)

QUERIES: Final = (
    r"(?i:(?:^|[;(])\s{0,20}(?:select|with|from|table|pragma|show|describe|desc|summarize|explain"
    r"|pivot|unpivot|call)\b|(?:\A|;)\s{0,20}values\b|\breturning\b)"
)
"""What a block with a result has; one that only makes an index or tables has none."""
CHANGES: Final = (
    r"(?i:(?:^|[;)])\s{0,20}(?:insert|update|delete|replace\s{1,4}into|merge|create|drop|alter"
    r"|truncate)\b)"
)
"""What a block has that changes the database; one that only looks at it afterwards has none."""


class Engine(StrEnum):
    """What runs the queries."""

    SQLITE = "sqlite"
    DUCKDB = "duckdb"


class RowOrder(StrEnum):
    """Whether the order of rows counts."""

    AUTO = "auto"
    """If the reference's query ends in an ORDER BY of its own; rows that this leaves open may stand
    in any order among themselves."""
    YES = "yes"
    """Each row has its own place."""
    NO = "no"


class SqlSettings(PipelineSettings):
    """Which engine runs the queries, and what of their results counts."""

    engine: Engine = Engine.SQLITE
    """Which engine runs setup and queries; `duckdb` needs the extra `assay[duckdb]`."""
    extraction: Extraction = Extraction.AUTO
    """Where in the response the query is."""
    block: BlockChoice = BlockChoice.LAST
    """Which of several blocks."""
    row_order: RowOrder = RowOrder.AUTO
    """Whether the order of rows counts."""
    duplicates: bool = True
    """Whether it counts how often a row occurs."""
    column_order: bool = True
    """Whether the order of columns counts; if not, any order that makes the results equal will do
    (at most 8 columns)."""
    float_tolerance: float = Field(default=1e-6, ge=0, le=1)
    """Allowed absolute or relative error of a number."""
    cpu_s: float = Field(default=5.0, gt=0, le=60)
    """CPU time of the query on one database, with its setup."""
    blocked_s: float = Field(default=5.0, gt=0, le=60)
    """Time that it may be blocked."""
    memory_bytes: int = Field(default=512 * MIB, ge=64 * MIB, le=4_096 * MIB)
    """Memory of the engine."""
    rows_max: int = Field(default=10_000, gt=0, le=ROWS_MAX)
    """Most rows of a result; a longer one ends the request as RESOURCE_LIMIT."""


class Database(Reference):
    """A state of the database."""

    setup: str = Field(default="", max_length=SETUP_CHARS_MAX)
    """Statements that make it."""


class SqlReference(Reference):
    """The databases, and the right query or its rows."""

    databases: tuple[Database, ...] = Field(
        default=(Database(),), min_length=1, max_length=DATABASES_MAX
    )
    """The query is run on each."""
    query: str = Field(default="", max_length=QUERY_CHARS_MAX)
    """The right query; no response ever sees it."""
    rows: tuple[tuple[str | int | float | bool | None, ...], ...] | None = Field(
        default=None, max_length=ROWS_MAX
    )
    """The right result, in place of `query`; with one database."""
    check: str = Field(default="", max_length=QUERY_CHARS_MAX)
    """Compare the result of this query, run afterwards on the database that the response's
    statements leave, in place of their own: for INSERT, UPDATE, DELETE and DDL."""

    @model_validator(mode="after")
    def _one_result(self) -> "SqlReference":
        if (self.rows is None) == (not self.query.strip()):
            raise ValueError("give exactly one of query, rows")
        if self.rows is not None and len(self.databases) != 1:
            raise ValueError("rows: with one database only")
        return self


SQL_STAGE: Final = StageDefinition(
    spec=StageSpec(
        name=SQL_RUN,
        resources=Resources(memory_bytes=1_024 * MIB),
        timeout_s=20_000.0,
        on_demand=True,
    ),
    handler="assay.verifiers.sql.stage:SqlHandler",
    runs_untrusted_code=True,
)


def _controls(reference: SqlReference, settings: SqlSettings) -> list[Control]:
    """The reference's own query, and one without rows."""
    programs = [(EMPTY, "SELECT 1 WHERE 0", False)]
    if reference.query:
        programs.insert(0, (GOLD, reference.query, True))
    return [
        Control(name=name, response=response_of(text, settings.extraction, "sql"), passes=passes)
        for name, text, passes in programs
    ]


def define_pipelines(settings: VerifierSettings) -> Iterable[PipelineDefinition]:
    """The pipeline `sql`."""
    del settings
    yield PipelineDefinition(
        spec=PipelineSpec(
            name=PipelineName("sql"),
            description="A query has the result of the reference's, on each of its databases.",
            stages=(SQL_RUN,),
        ),
        stages=(SQL_STAGE,),
        settings=SqlSettings,
        reference=SqlReference,
        controls=_controls,
        tools=Tools(distributions=("duckdb",)),
        example_reference={
            "databases": [{"setup": "CREATE TABLE t(a INT); INSERT INTO t VALUES (1), (2);"}],
            "query": "SELECT sum(a) FROM t",
        },
    )
