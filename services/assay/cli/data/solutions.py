"""Runs a data set's own solution in a box, for the results that its file leaves out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from assay.config.settings import Settings
from assay.core.errors import InvalidRequest
from assay.datasets.port import Outputs, Refused
from assay.edge.clock import Clock
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, Limits, PythonRun, RunStatus
from assay.verifiers.code.literals import form_of
from assay.verifiers.intake import plain_json
from assay.verifiers.packages import program_packages

CPU_S_MAX: Final = 60.0
"""Of all calls of one solution."""
_SOLUTION: Final = "solution_module.py"
_PROGRAM: Final = (Path(__file__).parent / "solution_calls.py").read_bytes()
_FAILS: Final = "the solution fails on its own inputs"


class Solutions:
    """Boxes for solutions; they are no more trusted than responses."""

    def __init__(self, settings: Settings) -> None:
        """Start the zygote.

        Raises:
            IsolationUnavailable: this host cannot isolate untrusted code.
        """
        inside = Inside(
            python_path=settings.verifiers.program_paths,
            packages=program_packages(settings.verifiers),
        )
        self._launcher = ZygoteLauncher(settings.sandbox, Clock(), inside=inside)

    def results(self, wanted: Outputs) -> Sequence[str]:
        """Return the result of each call as a Python literal.

        Raises:
            Refused: the solution fails, breaks a limit, or returns no data.
        """
        order = json.dumps({"function": wanted.function, "inputs": wanted.inputs})
        run = PythonRun(
            source=_PROGRAM,
            stdin=order.encode("ascii"),
            files={_SOLUTION: wanted.program.encode("utf-8", "surrogatepass")},
            limits=Limits(
                cpu_s=CPU_S_MAX,
                wall_s=3 * CPU_S_MAX,
                memory_bytes=2_048 * MIB,
                output_bytes=256 * MIB,
            ),
        )
        result = self._launcher.run_python(run)
        if result.status is not RunStatus.EXITED or result.exit_code:
            told = result.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise Refused(_FAILS, told[:300] or result.status.value)
        return _answer(result.stdout, len(wanted.inputs))

    def close(self) -> None:
        """End the zygote."""
        self._launcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _answer(written: bytes, calls: int) -> Sequence[str]:
    """Read what the box wrote, which the solution may have written as well."""
    try:
        answer = plain_json(written, "results")
    except InvalidRequest as error:
        raise Refused(_FAILS, error.message) from None
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list) or len(results) != calls:
        raise Refused(_FAILS, "it does not give one result per call")
    for result in results:
        try:
            form_of(str(result))
        except ValueError as error:
            raise Refused("a result that is not data", str(error)[:200]) from None
    return [str(result) for result in results]
