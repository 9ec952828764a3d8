"""The stage `function.run`: one call of the user's function in a fresh box.

A function that raises or returns no finite number has not judged the response. A control decides
where the fault lies (`assay.verifiers.total`): if the function returns a number for a trusted
response under the same reference, the response that it cannot read is at fault; if it returns none
for any, the function is at fault, and the error names it. A function that breaks a limit does so
because of the response: RESOURCE_LIMIT.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from assay.core.outcome import Outcome
from assay.core.verdict import (
    TEXT_CHARS_MAX,
    Component,
    Ended,
    Evidence,
    ResourceUse,
    StageVerdict,
)
from assay.edge.clock import Clock
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import HarnessRun, Limits
from assay.verifiers.function import harness
from assay.verifiers.function.definition import FunctionReference, FunctionSettings
from assay.verifiers.port import HandlerContext, Work, resource_limited, scored
from assay.verifiers.total import total

_HARNESS: Final = "function"
_CONTROLS_MAX: Final = 4
"""Number of trusted responses without a number after which the function is at fault."""


_NOTHING: Final = b'{"failed": "the function ended its process"}'


class FunctionFailed(Exception):
    """The user's function raised, or returned something that is not a reward."""


class FunctionHandler:
    """Calls functions in boxes that show the operator's directories."""

    def __init__(self, context: HandlerContext) -> None:
        """Start the zygote.

        Raises:
            IsolationUnavailable: this host cannot isolate untrusted code.
        """
        inside = Inside(
            python_path=context.verifiers.function_paths,
            harnesses={_HARNESS: Path(harness.__file__)},
        )
        self._launcher = ZygoteLauncher(context.sandbox, Clock(), inside=inside)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each response by itself."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """End the zygote."""
        self._launcher.close()

    def _one(self, work: Work) -> Ended:
        settings: FunctionSettings = work.settings
        reference: FunctionReference = work.reference
        return total(
            lambda: self._judge(work, reference, settings),
            control=lambda: self._control(work, reference, settings),
            at_fault=lambda error: _unreadable(error, settings),
        )

    def _control(
        self, work: Work, reference: FunctionReference, settings: FunctionSettings
    ) -> None:
        """Call the function with trusted responses until it returns a number for one.

        Raises:
            FunctionFailed: it returns none.
            SandboxError: it cannot run.
        """
        for response in _trusted_responses(reference.value):
            try:
                self._judge(_trusted(work, response), reference, settings)
            except FunctionFailed as error:
                failure = error
            else:
                return
        raise failure

    def _judge(self, work: Work, reference: FunctionReference, settings: FunctionSettings) -> Ended:
        artifacts = work.artifacts.items()
        order = {
            "function": settings.function,
            "response": work.response,
            "reference": reference.value,
            "messages": list(work.messages),
            "artifacts": {name: b64encode(content).decode() for name, content in artifacts},
        }
        result = self._launcher.run_harness(
            HarnessRun(
                module=_HARNESS,
                payload=json.dumps(order).encode("ascii"),
                limits=Limits(
                    cpu_s=settings.cpu_s,
                    blocked_s=settings.blocked_s,
                    memory_bytes=settings.memory_bytes,
                ),
            )
        )
        use = ResourceUse(cpu_s=result.cpu_s, memory_bytes_peak=result.memory_bytes_peak)
        if result.status.is_limit:
            evidence = Evidence(verdict=result.status.value)
            return resource_limited(settings=settings, evidence=evidence, use=use)
        record = json.loads(result.channel or _NOTHING)
        if "failed" in record:
            message = f"{settings.function}: {record['failed']}"
            raise FunctionFailed(message)
        evidence = Evidence(verdict="scored", extracted=record["details"])
        components = tuple(
            Component(name=name, value=value, weight=weight)
            for name, value, weight in record["components"]
        )
        return Ended(
            outcome=Outcome.SCORED,
            reward=record["score"],
            evidence=evidence,
            use=use,
            components=components,
        )


def _trusted(work: Work, response: str) -> Work:
    """The request without any part that the candidate wrote."""
    messages = [{"role": "assistant", "content": response}] if work.messages else []
    return replace(
        work, response=response, messages=messages, artifacts=dict.fromkeys(work.artifacts, b"")
    )


def _trusted_responses(value: Any) -> Sequence[str]:  # noqa: ANN401 - any JSON
    """Trusted responses: the empty one, and the value of the reference as text."""
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    texts = [each if isinstance(each, str) else json.dumps(each) for each in (value, *held)]
    return list(dict.fromkeys(["", *texts]))[:_CONTROLS_MAX]


def _unreadable(error: Exception, settings: FunctionSettings) -> Ended:
    evidence = Evidence(verdict="broke_the_run", error=str(error)[-TEXT_CHARS_MAX:])
    return scored(passed=False, settings=settings, evidence=evidence)
