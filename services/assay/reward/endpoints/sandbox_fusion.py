"""SandboxFusion's API under `/v1/sandboxfusion`.

Invariants: `SandboxError` and HTTP errors are the platform's, never a program's; a program that
breaks a limit, crashes or breaks its box has `Failed`. `/submit` answers `accepted` only where the
program was judged. 504 means "busy, or waited too long: try again". Equal sources are compiled
once, equal calls that wait at the same time run once.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from assay.core.errors import InvalidRequest
from assay.core.ids import kept_for, owner_of
from assay.core.outcome import Outcome
from assay.core.verdict import Evidence
from assay.reward.drafts import ScoreDraft
from assay.reward.endpoints.calling import JSON, Answer, Calling, Kept, tenant, unscored
from assay.reward.endpoints.sandbox_fusion_bodies import UNAVAILABLE
from assay.reward.reading import Form
from assay.sandbox.port import RunStatus
from assay.verifiers.code.scoring import LIMITS, PASS
from assay.verifiers.execution.report import RunReport, Step, unpack_report

PAYLOADS: Final = r"sandboxfusion/(run_code|submit)"
_TIME: Final = frozenset({RunStatus.CPU_LIMIT.value, RunStatus.BLOCKED_LIMIT.value})
_LIMIT_CODES: Final = {RunStatus.MEMORY_LIMIT.value: -9, RunStatus.OUTPUT_LIMIT.value: -25}
"""Exit codes that stand for limits: those of a program killed by the kernel."""
_EXIT_CODE: Final = re.compile(r"exit code (-?\d+)")


def routes(calling: Calling, kept: Kept) -> APIRouter:
    """The routes of SandboxFusion's API."""
    router = APIRouter(prefix="/v1/sandboxfusion")

    @router.get("/v1/ping", name="SandboxFusionPing")
    async def ping() -> str:
        """Answer as SandboxFusion does."""
        return "pong"

    @router.get("/list_datasets", name="SandboxFusionDatasets")
    async def list_datasets() -> list[str]:
        """No data set is stored here; `/submit` brings the row."""
        return []

    @router.post("/run_code", name="SandboxFusionRunCode")
    async def run_code(request: Request) -> Response:
        """Run a program in the sandbox and return what it did."""

        async def finish(answer: Answer) -> dict[str, Any]:
            return await _run_answer(answer, kept)

        try:
            found = await calling.answer_once(request, Form.SANDBOX_FUSION_RUN, _with_wait, finish)
        except InvalidRequest as error:
            if UNAVAILABLE not in error.message:
                raise
            found = _run_body("SandboxError", message=error.message)
        return _json(found)

    @router.post("/submit", name="SandboxFusionSubmit")
    async def submit(request: Request) -> Response:
        """Judge a completion against the row that comes with it."""

        async def finish(answer: Answer) -> dict[str, Any]:
            return _submit_answer(answer)

        found = await calling.answer_once(request, Form.SANDBOX_FUSION_SUBMIT, _with_wait, finish)
        return _json(found)

    return router


def _json(value: object) -> Response:
    """JSON in ASCII: an `id` of the caller's may be no Unicode text, and comes back as it came."""
    return Response(json.dumps(value), media_type=JSON)


def _with_wait(draft: ScoreDraft, context: Mapping[str, Any]) -> ScoreDraft:
    return replace(draft, timeout_s=float(context["wait_s"]))


# -- /run_code -----------------------------------------------------------------------------------
async def _run_answer(answer: Answer, kept: Kept) -> dict[str, Any]:
    [result] = answer.results.values()
    if not result.outcome.carries_reward:
        return _run_body("SandboxError", message=answer.reward("run")[1])
    owner = owner_of((tenant().tenant_id,))
    key = kept_for(owner, str(answer.context["report"]))
    packed = await kept(str(answer.context["pipeline"]), key)
    if packed is None:
        return _run_body("SandboxError", message="the report is no longer kept")
    return _report_body(unpack_report(packed))


def _report_body(report: RunReport) -> dict[str, Any]:
    return _run_body(
        "Success" if report.verdict == PASS else "Failed",
        compiled=_step_body(report.compiled),
        ran=_step_body(report.ran),
        files={
            name: base64.b64encode(content).decode("ascii")
            for name, content in report.files.items()
        },
    )


def _step_body(step: Step | None) -> dict[str, Any] | None:
    if step is None:
        return None
    verdict = step.verdict.removeprefix("compile_")
    stderr = step.stderr.decode("utf-8", "replace")
    if verdict in _TIME:
        return _command_body(None, step=step, stderr=stderr)
    if verdict in LIMITS:
        note = f"{verdict.replace('_', ' ')} exceeded"
        stderr = f"{stderr}\n{note}" if stderr else note
        return _command_body(_LIMIT_CODES[verdict], step=step, stderr=stderr)
    return _command_body(step.exit_code, step=step, stderr=stderr)


def _command_body(code: int | None, *, step: Step, stderr: str) -> dict[str, Any]:
    return {
        "status": "TimeLimitExceeded" if code is None else "Finished",
        "execution_time": step.wall_s,
        "return_code": code,
        "stdout": step.stdout.decode("utf-8", "replace"),
        "stderr": stderr,
    }


def _run_body(
    status: str,
    *,
    message: str = "",
    compiled: dict[str, Any] | None = None,
    ran: dict[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    return {
        "status": status,
        "message": message,
        "compile_result": compiled,
        "run_result": ran,
        "executor_pod_name": None,
        "files": dict(files or {}),
    }


# -- /submit -------------------------------------------------------------------------------------
def _submit_answer(answer: Answer) -> dict[str, Any]:
    """The answer, once all requests were judged.

    Raises:
        DependencyDown: one was not, through no fault of the completion.
        InvalidRequest: the row cannot judge any program.
    """
    for request_id, result in answer.results.items():
        if result.outcome is Outcome.REJECTED_INVALID:
            message = f"config.provided_data: {answer.evidence(request_id).error}"
            raise InvalidRequest(message, field="config.provided_data")
        if not result.outcome.carries_reward:
            raise unscored(answer.reward(request_id)[1])
    evidences = [answer.evidence(request_id) for request_id in answer.results]
    extracted = str(answer.context["extracted"])
    return {
        "id": answer.context["id"],
        "accepted": all(one.verdict == PASS for one in evidences),
        "extracted_code": extracted,
        "full_code": None,
        "test_code": None,
        "tests": _tests(answer.context, evidences),
        "extracted_type": "fenced" if extracted else "empty",
        "extra": None,
    }


def _tests(context: Mapping[str, Any], evidences: list[Evidence]) -> list[dict[str, Any]]:
    """The tests that ran, in order, as far as the evidence tells."""
    compiled = bool(context["compiled"])
    infos = context["tests"]
    if context["each"]:
        return [_test(one, compiled, infos, at) for at, one in enumerate(evidences)]
    [evidence] = evidences
    passed = replace(evidence, verdict=PASS, stderr_tail="", error="")
    tests = [_test(passed, compiled, infos, at) for at in range(evidence.tests_passed)]
    if evidence.verdict != PASS:
        tests.append(_test(evidence, compiled, infos, len(tests)))
    return tests


def _test(evidence: Evidence, compiled: bool, infos: list[Any], at: int) -> dict[str, Any]:  # noqa: FBT001
    info = infos[at] if at < len(infos) else None
    return {
        "passed": evidence.verdict == PASS,
        "exec_info": _exec_info(evidence, compiled=compiled),
        "test_info": info,
    }


def _exec_info(evidence: Evidence, *, compiled: bool) -> dict[str, Any]:
    """What a run did, from a verdict: outputs are not kept when they are compared."""
    verdict = evidence.verdict
    if verdict.startswith("compile_"):
        failed = Step(
            verdict=verdict,
            exit_code=1 if verdict == "compile_error" else None,
            stderr=evidence.stderr_tail.encode(),
        )
        return _report_body(RunReport(compiled=failed))
    code = _EXIT_CODE.search(evidence.error)
    exit_code = int(code[1]) if code else 0 if verdict in {PASS, "wrong_answer"} else 1
    ran = Step(verdict=verdict, exit_code=exit_code, stderr=evidence.stderr_tail.encode())
    built = Step(verdict=PASS, exit_code=0) if compiled else None
    found = _report_body(RunReport(compiled=built, ran=ran))
    return {**found, "status": "Success" if exit_code == 0 and verdict not in LIMITS else "Failed"}
