"""Runs cases on a real platform and says which verdicts are not true."""

import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tests.fuzz.verdicts.case import Case, Expected, Generator, one_of
from tests.fuzz.verdicts.code import functions
from tests.fuzz.verdicts.code.cpp import cpp_case
from tests.fuzz.verdicts.code.crossings import crossing_case
from tests.fuzz.verdicts.code.fences import fence_case
from tests.fuzz.verdicts.code.forgers import forger_case, shape_case
from tests.fuzz.verdicts.code.functions import function_case
from tests.fuzz.verdicts.code.lies import lie_case
from tests.fuzz.verdicts.code.loads import load_case
from tests.fuzz.verdicts.code.python import python_case, stdio_case
from tests.fuzz.verdicts.code.unusual import unusual_case
from tests.fuzz.verdicts.code.wires import wire_case
from tests.fuzz.verdicts.datasets.openings import opening_case
from tests.fuzz.verdicts.datasets.results import result_case
from tests.fuzz.verdicts.datasets.sets import set_case
from tests.fuzz.verdicts.mathematics.answers import answer_case, bomb_case
from tests.fuzz.verdicts.mathematics.disguises import disguise_case
from tests.fuzz.verdicts.mathematics.harnesses import harness_case
from tests.fuzz.verdicts.mathematics.notations import notation_case
from tests.fuzz.verdicts.mathematics.operations import operation_case
from tests.fuzz.verdicts.mathematics.published import published_case
from tests.fuzz.verdicts.mathematics.quotients import quotient_case
from tests.fuzz.verdicts.mathematics.several.amounts import amount_case
from tests.fuzz.verdicts.mathematics.several.around import around_case
from tests.fuzz.verdicts.mathematics.several.comments import comment_case
from tests.fuzz.verdicts.mathematics.several.offers import offer_case
from tests.fuzz.verdicts.mathematics.several.ways import way_case
from tests.fuzz.verdicts.mathematics.several.wrappings import wrapped_label_case, wrapping_case
from tests.fuzz.verdicts.mathematics.spellings import spelling_case
from tests.fuzz.verdicts.mathematics.statements import statement_case
from tests.fuzz.verdicts.stages import brittle
from tests.fuzz.verdicts.stages.brittle import brittle_case
from tests.fuzz.verdicts.stages.combined import combined_case
from tests.fuzz.verdicts.stages.forms import form_case
from tests.fuzz.verdicts.stages.graded import graded_case
from tests.fuzz.verdicts.stages.judged import judged_case
from tests.fuzz.verdicts.stages.judges import judge_case
from tests.fuzz.verdicts.stages.numbers import number_case
from tests.fuzz.verdicts.stages.programs import program_case
from tests.fuzz.verdicts.stages.queries import query_case
from tests.fuzz.verdicts.stages.readers import reader_case
from tests.fuzz.verdicts.stages.sources import source_case
from tests.fuzz.verdicts.stages.transcripts import transcript_case
from tests.fuzz.verdicts.text.abroad import abroad_case
from tests.fuzz.verdicts.text.documents import document_case, text_case
from tests.fuzz.verdicts.text.few_words import few_words_case, instructed_place_case
from tests.fuzz.verdicts.text.instructed import instructed_case
from tests.fuzz.verdicts.text.keywords import keyword_case
from tests.fuzz.verdicts.text.labels import label_case
from tests.fuzz.verdicts.text.open_rows import nested_case, open_rows_case
from tests.fuzz.verdicts.text.places import (
    json_place_case,
    long_thought_case,
    query_place_case,
    words_case,
)
from tests.fuzz.verdicts.text.selections import selection_case
from tests.fuzz.verdicts.text.texts import choice_case, exact_case, regex_case, schema_case
from tests.fuzz.verdicts.text.withdrawals import remark_case, withdrawn_block_case

from assay.client import Client, Request, Result
from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.verifiers.local import LocalPipelines

GENERATORS: Final[Mapping[str, tuple[Generator, float]]] = {
    "python": (python_case, 30),
    "lies": (lie_case, 10),
    "unusual": (unusual_case, 10),
    "shapes": (shape_case, 8),
    "forgers": (forger_case, 8),
    "crossings": (crossing_case, 2),
    "wires": (wire_case, 2),
    "stdio": (stdio_case, 8),
    "fences": (fence_case, 3),
    "openings": (opening_case, 4),
    "results": (result_case, 6),
    "sets": (set_case, 6),
    "numbers": (number_case, 2),
    "cpp": (cpp_case, 0.5),
    "functions": (function_case, 3),
    "loads": (load_case, 0.3),
    "answers": (answer_case, 34),
    "spellings": (spelling_case, 16),
    "notations": (notation_case, 16),
    "comments": (comment_case, 8),
    "operations": (operation_case, 4),
    "quotients": (quotient_case, 2),
    "ways": (way_case, 4),
    "offers": (offer_case, 4),
    "around": (around_case, 3),
    "amounts": (amount_case, 4),
    "wrappings": (wrapping_case, 6),
    "disguises": (disguise_case, 12),
    "statements": (statement_case, 14),
    "published": (published_case, 14),
    "harnesses": (harness_case, 14),
    "bombs": (bomb_case, 0.5),
    "choice": (choice_case, 8),
    "labels": (label_case, 8),
    "wrapped_labels": (wrapped_label_case, 3),
    "selections": (selection_case, 8),
    "exact": (exact_case, 3),
    "regex": (regex_case, 2),
    "schema": (schema_case, 14),
    "documents": (document_case, 6),
    "keywords": (keyword_case, 10),
    "instructed": (instructed_case, 6),
    "few_words": (few_words_case, 1),
    "instructed_places": (instructed_place_case, 1),
    "texts": (text_case, 2),
    "json_places": (json_place_case, 6),
    "query_places": (query_place_case, 1),
    "words": (words_case, 4),
    "long_thoughts": (long_thought_case, 0.5),
    "withdrawn_blocks": (withdrawn_block_case, 3),
    "remarks": (remark_case, 2),
    "abroad": (abroad_case, 3),
    "open_rows": (open_rows_case, 1),
    "nested": (nested_case, 0.3),
    "queries": (query_case, 1.5),
    "programs": (program_case, 1),
    "judged": (judged_case, 0.8),
    "combined": (combined_case, 1),
    "judges": (judge_case, 2),
    "brittle": (brittle_case, 2),
    "graded": (graded_case, 0.8),
    "forms": (form_case, 3),
    "readers": (reader_case, 2),
    "sources": (source_case, 0.8),
    "transcripts": (transcript_case, 3),
}
"""By name: how a case is drawn, and its share."""
_BATCH_CASES: Final = 256
_BATCHES_AT_ONCE: Final = 4
_REFUSED: Final = "refused at the door"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A verdict that is not true."""

    index: int
    case: Case
    outcome: str
    reward: float | None
    verdict: str
    error: str

    def as_json(self) -> dict[str, Any]:
        """Plain data; bytes as their `repr`."""
        response = self.case.response
        return {
            "index": self.index,
            "pipeline": self.case.pipeline,
            "kind": self.case.kind,
            "expected": self.case.expected.value,
            "outcome": self.outcome,
            "reward": self.reward,
            "verdict": self.verdict,
            "error": self.error[:500],
            "response": response if isinstance(response, str) else repr(response),
            "reference": dict(self.case.reference),
            "messages": list(self.case.messages),
            "artifacts": {name: repr(content) for name, content in self.case.artifacts.items()},
        }


@dataclass(slots=True)
class Report:
    """What a run saw."""

    cases: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        """Count what another run saw, too."""
        self.cases += other.cases
        self.kinds += other.kinds
        self.verdicts += other.verdicts
        self.findings += other.findings


def draw(seed: int, index: int, only: Sequence[str] = ()) -> Case:
    """The case of this seed and index: always the same.

    Args:
        seed: of the run.
        index: of the case in the run.
        only: names of `GENERATORS` to draw from; empty: all.
    """
    rng = random.Random(f"{seed}:{index}")
    names = {name: share for name, (_, share) in GENERATORS.items() if not only or name in only}
    return GENERATORS[one_of(rng, names)][0](rng)


def is_true(expected: Expected, outcome: Outcome, reward: float | None) -> bool:
    """Whether a verdict may stand."""
    if expected is Expected.NOT_RIGHT:
        return reward != 1.0
    if expected is Expected.UNJUDGED:
        return outcome is Outcome.INFRA_FAILED and reward is None
    judged = outcome in {Outcome.SCORED, Outcome.RESOURCE_LIMIT} and reward is not None
    if expected is Expected.EITHER:
        return judged
    return judged and (reward == 1.0) is (expected is Expected.RIGHT)


async def judge(
    client: Client, cases: Iterable[tuple[int, Case]], advance: Callable[[int], None]
) -> Report:
    """Score all cases, several batches at once."""
    report = Report()
    pieces = _pieces(cases)

    async def work() -> None:
        for key, piece in pieces:
            await _judge_piece(client, json.loads(key), piece, report)
            advance(len(piece))

    async with asyncio.TaskGroup() as group:
        for _ in range(_BATCHES_AT_ONCE):
            group.create_task(work())
    report.findings.sort(key=lambda finding: finding.index)
    return report


def judge_here(cases: Iterable[tuple[int, Case]]) -> Report:
    """Judge cases in this process, one after the other, up to the first finding.

    Without a platform: what a handler raises is the platform's failure, as it is in a worker. What
    ends the process that judges it is left out.
    """
    report = Report()
    with (
        patch.object(sys, "path", [str(brittle.PATH), *sys.path]),
        tempfile.TemporaryDirectory() as scratch,
    ):
        verifiers = VerifierSettings(function_paths=(functions.PATH,))
        local = LocalPipelines(scratch=Path(scratch), verifiers=verifiers)
        try:
            for index, case in cases:
                if case.kind == brittle.ENDS_SLOT:
                    continue
                _add(report, index, case, _judged_here(local, case))
                if report.findings:
                    break
        finally:
            local.close()
    return report


def _judged_here(local: LocalPipelines, case: Case) -> tuple[str, float | None, str, str]:
    try:
        ended = local.judge_request(
            case.pipeline, case.response, case.reference, settings=case.settings,
            messages=case.messages, artifacts=case.artifacts,
        )  # fmt: skip
    except InvalidRequest as error:
        return _REFUSED, None, "", error.message
    except Exception as error:  # noqa: BLE001 - whatever a handler raises
        return Outcome.INFRA_FAILED.value, None, "", repr(error)
    return ended.outcome.value, ended.reward, ended.evidence.verdict, ended.evidence.error


def _pieces(cases: Iterable[tuple[int, Case]]) -> Iterator[tuple[str, list[tuple[int, Case]]]]:
    """Cases of one pipeline with one set of settings go together."""
    waiting: dict[str, list[tuple[int, Case]]] = {}
    for index, case in cases:
        key = json.dumps([case.pipeline, dict(case.settings)])
        piece = waiting.setdefault(key, [])
        piece.append((index, case))
        if len(piece) == _BATCH_CASES:
            yield key, waiting.pop(key)
    yield from waiting.items()


async def _judge_piece(
    client: Client, key: tuple[str, dict[str, Any]], piece: list[tuple[int, Case]], report: Report
) -> None:
    pipeline, settings = key
    name = f"fuzz-{pipeline}-{abs(hash(json.dumps(settings)))}"
    task = await client.register_task(name, pipeline=pipeline, settings=settings)
    batch = await client.open_batch(task)
    asked = dict(piece)
    while asked:
        requests = [
            Request(
                request_id=str(index),
                response=case.response,
                reference=dict(case.reference),
                messages=case.messages,
                artifacts=dict(case.artifacts),
            )
            for index, case in asked.items()
        ]
        try:
            await batch.submit(requests)
            break
        except InvalidRequest as error:
            index = _refused_index(error, list(asked))
            case = asked.pop(index)
            _add(report, index, case, (_REFUSED, None, "", error.message))
    await batch.seal()
    async for result in batch.results():
        index = int(result.request_id)
        _add(report, index, asked[index], _said(result))


def _refused_index(error: InvalidRequest, indices: Sequence[int]) -> int:
    place = error.field.partition("]")[0].removeprefix("requests[")
    return indices[int(place)] if place.isdigit() else indices[0]


def _said(result: Result) -> tuple[str, float | None, str, str]:
    evidence = result.evidence
    return result.outcome.value, result.reward, evidence.verdict, evidence.error


def _add(report: Report, index: int, case: Case, said: tuple[str, float | None, str, str]) -> None:
    outcome, reward, verdict, error = said
    report.cases += 1
    report.kinds[f"{case.pipeline}/{case.kind}"] += 1
    report.verdicts[f"{outcome} {verdict}"] += 1
    refused = outcome == _REFUSED
    true = (
        case.expected is Expected.NOT_RIGHT
        if refused
        else is_true(case.expected, Outcome(outcome), reward)
    )
    if not true:
        report.findings.append(
            Finding(
                index=index, case=case, outcome=outcome, reward=reward, verdict=verdict, error=error
            )
        )
