"""The stage `function.run`: one call of the user's function in a fresh box.

A function that raises or returns no finite number cannot say anything about the response: that is
an infrastructure failure, whose error names the function. One that breaks a limit was led there by
the response: RESOURCE_LIMIT.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from assay.core.outcome import Outcome
from assay.core.verdict import Ended, Evidence, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.launcher import Inside, ZygoteLauncher
from assay.sandbox.port import HarnessRun, Limits
from assay.verifiers.function import harness
from assay.verifiers.function.definition import FunctionReference, FunctionSettings
from assay.verifiers.port import HandlerContext, Work, resource_limited

_HARNESS: Final = "function"


class FunctionFailed(Exception):
    """The user's function raised, or returned what is no reward."""


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
        return self._judge(work.response, work.reference, work.settings)

    def _judge(
        self, response: str, reference: FunctionReference, settings: FunctionSettings
    ) -> Ended:
        order = {
            "function": settings.function,
            "response": response,
            "reference": reference.value,
        }
        result = self._launcher.run_harness(
            HarnessRun(
                module=_HARNESS,
                payload=json.dumps(order).encode("ascii"),
                limits=Limits(
                    cpu_s=settings.cpu_s,
                    wall_s=3 * settings.cpu_s + 2,
                    memory_bytes=settings.memory_bytes,
                ),
            )
        )
        use = ResourceUse(cpu_s=result.cpu_s, memory_bytes_peak=result.memory_bytes_peak)
        if result.status.is_limit:
            evidence = Evidence(verdict=result.status.value)
            return resource_limited(settings=settings, evidence=evidence, use=use)
        record = json.loads(result.channel or b'{"failed": "the function ended its process"}')
        if "failed" in record:
            message = f"{settings.function}: {record['failed']}"
            raise FunctionFailed(message)
        evidence = Evidence(verdict="scored", extracted=record["details"])
        return Ended(outcome=Outcome.SCORED, reward=record["score"], evidence=evidence, use=use)
