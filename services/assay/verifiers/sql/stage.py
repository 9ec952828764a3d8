"""The stage `sql.run`: runs the response's query and the reference's in separate boxes.

The result of a reference's query is kept per process. A query of the reference that fails is the
reference's fault (`REJECTED_INVALID`), and so is one without a row on any database, because a query
that finds nothing would pass.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from assay.config.settings import SandboxSettings
from assay.core.outcome import Outcome
from assay.core.tools.lru import TenantCache
from assay.core.verdict import Ended, Evidence, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, HarnessRun, Limits, RunStatus, SandboxError
from assay.verifiers.code.scoring import PASS, bounded_text
from assay.verifiers.code.source.programs import program_of
from assay.verifiers.port import HandlerContext, ReferenceAudit, Work, resource_limited, scored
from assay.verifiers.sql import harness
from assay.verifiers.sql.compare import QueryResult, ResultRule, results_equal
from assay.verifiers.sql.definition import (
    CHANGES,
    QUERIES,
    WORDS,
    Engine,
    RowOrder,
    SqlReference,
    SqlSettings,
)
from assay.verifiers.sql.order import (
    Widened,
    has_order,
    is_distinct,
    order_columns,
    unlimited,
    widened,
)
from assay.verifiers.sql.ties import with_ties
from assay.verifiers.total import total

_HARNESS: Final = "sql"
_KEPT_ROWS_MAX: Final = 1_000_000
"""Rows of results of references that a process keeps."""
_OWN_MEMORY_BYTES: Final = 128 * MIB
"""Of the interpreter and the rows on their way."""
_OUTPUT_BYTES: Final = 128 * MIB


class InvalidQuery(Exception):
    """The reference's own query or setup fails; the message names the field."""


class Reply:
    """What the harness said about one query on one database."""

    def __init__(self, report: dict[str, Any], use: ResourceUse) -> None:
        self.use = use
        self.error = str(report.get("error", ""))
        self.setup_error = str(report.get("setup_error", ""))
        self.check_error = str(report.get("check_error", ""))
        self.limit = str(report.get("limit", ""))
        if "too_many" in report:
            self.limit = RunStatus.OUTPUT_LIMIT.value
        rows = report.get("rows", [])
        self.names = [str(name) for name in report.get("names", [])]
        self.result = QueryResult(columns=int(report.get("columns", 0)), rows=rows)

    @property
    def failure(self) -> str:
        """Why there is no result."""
        return self.setup_error or self.error or self.check_error or self.limit


class SqlHandler:
    """Runs each query on the reference's databases, and compares results."""

    def __init__(self, context: HandlerContext) -> None:
        self._sandbox = context.sandbox
        self._scratch = context.scratch
        self._launchers: dict[Engine, ZygoteLauncher] = {}
        self._libraries: dict[Engine, str] = {}
        self._kept: TenantCache[str, tuple[QueryResult, ...]] = TenantCache(
            weight_max=_KEPT_ROWS_MAX, weigh=lambda kept: 1 + sum(len(one.rows) for one in kept)
        )

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each query by itself."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """End the launchers."""
        for launcher in self._launchers.values():
            launcher.close()

    def _one(self, work: Work) -> Ended:
        settings: SqlSettings = work.settings
        reference: SqlReference = work.reference
        begins = CHANGES if reference.check else QUERIES
        sql = program_of(work.response, settings.extraction, settings.block, WORDS, begins=begins)
        if sql is None or not sql.strip():
            return scored(passed=False, settings=settings, evidence=Evidence(verdict="no_program"))
        try:
            wanted = self._wanted(reference, settings, work.tenant)
        except InvalidQuery as invalid:
            evidence = Evidence(verdict="invalid_reference", error=bounded_text(str(invalid)))
            return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence)
        return total(
            lambda: self._judged(sql, reference, settings, wanted),
            control=lambda: self._reply("SELECT 1", reference, 0, settings),
            at_fault=lambda error: scored(
                passed=False,
                settings=settings,
                evidence=Evidence(
                    verdict="broke_the_run",
                    extracted=bounded_text(sql),
                    error=bounded_text(str(error)),
                ),
            ),
        )

    def _judged(
        self,
        sql: str,
        reference: SqlReference,
        settings: SqlSettings,
        wanted: tuple[QueryResult, ...],
    ) -> Ended:
        use, passed = ResourceUse(), 0
        verdict, error = PASS, ""
        rule = rule_of(reference, settings)
        for at, expected in enumerate(wanted):
            reply = self._reply(sql, reference, at, settings)
            use = use.plus(reply.use)
            if reply.limit:
                verdict = reply.limit
            elif reply.failure:
                verdict, error = "sql_error", reply.failure
            elif not results_equal(reply.result, expected, rule):
                rows = f"{len(reply.result.rows)} rows of {reply.result.columns} columns"
                verdict, error = "wrong_answer", rows
            if verdict != PASS:
                break
            passed += 1
        evidence = Evidence(
            verdict=verdict,
            tests_passed=passed,
            tests_total=len(wanted),
            failed_test=None if verdict == PASS else passed,
            extracted=bounded_text(sql),
            error=bounded_text(error),
        )
        if verdict.endswith("_limit"):
            return resource_limited(settings=settings, evidence=evidence, use=use)
        return scored(passed=verdict == PASS, settings=settings, evidence=evidence, use=use)

    def _wanted(
        self, reference: SqlReference, settings: SqlSettings, tenant: str
    ) -> tuple[QueryResult, ...]:
        """The right results, one per database.

        Raises:
            InvalidQuery: the reference has none.
            SandboxError: its query could not be run.
        """
        key = hashlib.sha256(
            f"{reference.model_dump_json()}\0{settings.model_dump_json()}".encode(
                "utf-8", "surrogatepass"
            )
        ).hexdigest()
        kept = self._kept.get(tenant, key)
        if kept is None:
            kept = self._made(reference, settings)
            self._kept.put(tenant, key, kept)
        return kept

    def _made(self, reference: SqlReference, settings: SqlSettings) -> tuple[QueryResult, ...]:
        if reference.rows is not None:
            columns = len(reference.rows[0]) if reference.rows else 0
            made = [
                QueryResult(
                    columns=columns,
                    rows=[[_as_text(value) for value in row] for row in reference.rows],
                )
            ]
            if any(len(row) != columns for row in reference.rows):
                raise InvalidQuery("reference.rows: rows of different lengths")
        else:
            made = [
                self._result_of_reference(reference, at, settings)
                for at in range(len(reference.databases))
            ]
        if settings.reference_audit is ReferenceAudit.REFUSE and not any(
            result.rows for result in made
        ):
            message = "the result has no row on any database, so a query that finds nothing passes"
            raise InvalidQuery(f"reference: {message}")
        return tuple(made)

    def _result_of_reference(
        self, reference: SqlReference, at: int, settings: SqlSettings
    ) -> QueryResult:
        reply = self._reply(reference.query, reference, at, settings)
        if reply.setup_error:
            raise InvalidQuery(f"reference.databases[{at}].setup: {reply.setup_error}")
        if reply.check_error:
            raise InvalidQuery(f"reference.check: {reply.check_error}")
        if reply.failure:
            raise InvalidQuery(f"reference.query: database {at}: {reply.failure}")
        if settings.row_order is not RowOrder.AUTO:
            return reply.result
        query = reference.check or reference.query
        columns = order_columns(query, reply.names)
        result = replace(reply.result, order_columns=columns)
        wide = Widened(query, columns) if columns is not None else widened(query, reply.names)
        if wide is None or not has_order(query) or not result.rows:
            return result
        return self._with_ties(wide, reference, at, settings, result)

    def _with_ties(
        self,
        wide: Widened,
        reference: SqlReference,
        at: int,
        settings: SqlSettings,
        result: QueryResult,
    ) -> QueryResult:
        """The result with what its order and its LIMIT leave open, where that can be asked."""
        cut = unlimited(wide.query)
        # Of distinct rows that are cut off, those shown do not tell how many places a row has.
        is_known = result.order_columns is not None or (cut and is_distinct(wide.query))
        asked = [] if is_known else [(wide.query, 0)]
        for query, skipped in [*([cut] if cut else []), *asked]:
            told = self._told(query, reference, at, settings)
            found = with_ties(
                result,
                told.result.rows,
                wide.columns,
                skipped=skipped,
                is_cut=cut is not None and query == cut.query,
                is_distinct=is_distinct(query),
            )
            if not told.failure and found is not None:
                return found
        return result

    def _told(self, query: str, reference: SqlReference, at: int, settings: SqlSettings) -> Reply:
        """What the query that is compared says in this form."""
        if reference.check:
            changed = reference.model_copy(update={"check": query})
            return self._reply(reference.query, changed, at, settings)
        return self._reply(query, reference, at, settings)

    def _reply(self, sql: str, reference: SqlReference, at: int, settings: SqlSettings) -> Reply:
        launcher = self._launcher(settings.engine)
        order = {
            "engine": settings.engine.value,
            "library": self._libraries.get(settings.engine, ""),
            "setup": reference.databases[at].setup,
            "sql": sql.encode("utf-8", "replace").decode("utf-8"),
            "check": reference.check,
            "rows_max": settings.rows_max,
            "memory_mib": settings.memory_bytes // MIB,
        }
        result = launcher.run_harness(
            HarnessRun(
                module=_HARNESS,
                payload=json.dumps(order).encode("ascii"),
                limits=Limits(
                    cpu_s=settings.cpu_s,
                    blocked_s=settings.blocked_s,
                    memory_bytes=settings.memory_bytes + _OWN_MEMORY_BYTES,
                    address_bytes=2 * settings.memory_bytes + 2_048 * MIB,
                    output_bytes=_OUTPUT_BYTES,
                ),
            )
        )
        use = ResourceUse(cpu_s=result.cpu_s, memory_bytes_peak=result.memory_bytes_peak)
        if result.status.is_limit:
            return Reply({"limit": result.status.value}, use)
        try:
            return Reply(json.loads(result.channel), use)
        except ValueError:
            tail = result.stderr[-300:].decode("utf-8", "replace")
            raise SandboxError(f"no report of a query: {result.status.value} {tail}") from None

    def _launcher(self, engine: Engine) -> ZygoteLauncher:
        if engine not in self._launchers:
            shown: tuple[Path, ...] = ()
            if engine is Engine.DUCKDB:
                library = duckdb_library(self._scratch)
                self._libraries[engine] = str(library)
                shown = (library,)
            self._launchers[engine] = _open(self._sandbox, shown)
        return self._launchers[engine]


def _open(sandbox: SandboxSettings, shown: tuple[Path, ...]) -> ZygoteLauncher:
    inside = Inside(readable=shown, harnesses={_HARNESS: Path(harness.__file__)})
    return ZygoteLauncher(sandbox, Clock(), inside=inside)


def duckdb_library(scratch: Path) -> Path:
    """A directory with DuckDB and nothing else of this environment.

    Raises:
        RuntimeError: it is not installed.
    """
    try:
        files = distribution("duckdb").files or []
    except PackageNotFoundError:
        raise RuntimeError("duckdb is not installed (pip install 'assay[duckdb]')") from None
    library = scratch.absolute() / "duckdb-library"
    if not library.exists():
        unfinished = library.with_name(f"{library.name}.{os.getpid()}")
        for file in files:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = unfinished / file
                target.parent.mkdir(parents=True, exist_ok=True)
                _link_or_copy(Path(str(file.locate())), target)
        unfinished.rename(library)
    return library


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def rule_of(reference: SqlReference, settings: SqlSettings) -> ResultRule:
    """What counts in a comparison."""
    compared = reference.check or reference.query
    ordered = settings.row_order is RowOrder.YES or (
        settings.row_order is RowOrder.AUTO and has_order(compared)
    )
    return ResultRule(
        ordered=ordered,
        duplicates=settings.duplicates,
        column_order=settings.column_order,
        tolerance=settings.float_tolerance,
    )


def _as_text(value: object) -> str:
    """A value of `reference.rows` as the harness writes it."""
    if value is None:
        return "n"
    if isinstance(value, (bool, int)):
        return f"i{int(value)}"
    return f"f{value!r}" if isinstance(value, float) else f"t{value}"
