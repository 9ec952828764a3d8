"""Whether an empty program passes a Python reference, where no run is needed to decide it.

An empty program prints nothing and defines nothing. It passes tests with stdin only if they expect
no output, and calls only of names that every module has. Only a data set's own preamble, which may
print, and test code, which may check nothing, need a run (`AuditingHandler.lets_pass`).
"""

from assay.verifiers.code.compare import output_equal
from assay.verifiers.code.references import PythonReference
from assay.verifiers.code.settings import PythonSettings


def known_to_pass(reference: PythonReference, settings: PythonSettings) -> bool | None:
    """Whether an empty program passes; `None` if only a run can tell."""
    if reference.calls is not None:
        return None if reference.calls.function.startswith("__") else False
    if reference.asserts is not None or reference.preamble or settings.preamble_text:
        return None
    return all(output_equal(b"", test.stdout, settings.comparison) for test in reference.tests)
