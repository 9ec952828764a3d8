"""LiveCodeBench, `code_generation` and `code_generation_lite`.

Test cases are JSON text or, to hide them from crawlers, base64 of zlib of a pickle of that text. A
pickle can run any code, so it is read by an unpickler that resolves no name and returns only text.
"""

import base64
import binascii
import io
import pickle
import zlib
from typing import Any, Final, NoReturn

from assay.datasets.code_tests import PYTHON, call_tests, stdin_tests
from assay.datasets.port import (
    DataRecord,
    DataRow,
    Refused,
    Source,
    identity,
    json_of,
    parsed,
    text,
)

PACKED_BYTES_MAX: Final = 512 * 1024 * 1024
"""Limit on unpacked test cases; the largest published ones are some tens of megabytes."""
_STDIN: Final = "stdin"
_FUNCTIONAL: Final = "functional"


class _TextOnly(pickle.Unpickler):
    """Resolves no class and no function, so nothing can be called."""

    def find_class(self, module: str, name: str) -> NoReturn:
        message = f"it names {module}.{name}"
        raise pickle.UnpicklingError(message)

    def persistent_load(self, _name: object) -> NoReturn:
        raise pickle.UnpicklingError("it names an object outside")


def convert(record: DataRecord, line: int, pipeline: str) -> DataRow:
    """Return the row of a problem: public and private tests together, as in its harness."""
    name = identity(record, line, "livecodebench", "question_id")
    tests = [*_tests(record, "public_test_cases"), *_tests(record, "private_test_cases")]
    kinds = {test["testtype"] for test in tests}
    if len(kinds) > 1:
        raise Refused("stdin tests and calls in one problem")
    pairs = [(test["input"], test["output"]) for test in tests]
    if kinds == {_FUNCTIONAL}:
        reference = call_tests(_function(record), pairs, unwrapped=False)
    else:
        reference = stdin_tests(pairs)
    prompt = text(record, "question_content", empty=True)
    starter = record.get("starter_code")
    if isinstance(starter, str) and starter.strip():
        prompt = f"{prompt}\n\n{starter}"
    return DataRow(request_id=name, pipeline=pipeline, reference=reference, prompt=prompt)


def _function(record: DataRecord) -> str:
    metadata = parsed(record, "metadata")
    name = metadata.get("func_name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise Refused("calls without `metadata.func_name`")
    return name


def _tests(record: DataRecord, key: str) -> list[dict[str, Any]]:
    value = record.get(key)
    if isinstance(value, str):
        packed = value.lstrip()[:1] not in {"[", "{"} and value.strip()
        value = json_of(unpacked(value) if packed else value or "[]", key)
    if not isinstance(value, list):
        raise Refused(f"no test cases under `{key}`")
    for at, test in enumerate(value):
        kind = test.get("testtype") if isinstance(test, dict) else None
        if kind not in {_STDIN, _FUNCTIONAL}:
            raise Refused("a test of an unknown type", f"{key}[{at}]")
        if not isinstance(test.get("input"), str) or not isinstance(test.get("output"), str):
            raise Refused("a test that is not text", f"{key}[{at}]")
    return value


def unpacked(value: str) -> str:
    """Return the text in base64 of zlib of a pickle.

    Raises:
        Refused: it is something else, or larger than `PACKED_BYTES_MAX`.
    """
    try:
        found = _TextOnly(io.BytesIO(_inflated(value))).load()
    except Refused:
        raise
    except (binascii.Error, zlib.error) as error:
        raise Refused("packed tests that cannot be unpacked", str(error)) from None
    except Exception as error:  # noqa: BLE001 - a hostile pickle may raise anything
        raise Refused("packed tests that are not plain text", str(error)[:200]) from None
    if not isinstance(found, str):
        raise Refused("packed tests that are not plain text", type(found).__name__)
    return found


def _inflated(value: str) -> bytes:
    stream = zlib.decompressobj()
    data = stream.decompress(base64.b64decode(value, validate=True), PACKED_BYTES_MAX)
    if not stream.eof:
        raise Refused("packed tests that are too large or cut off")
    return data


SOURCE: Final = Source(
    name="livecodebench",
    about="LiveCodeBench code generation: stdin tests, or calls of a method of `Solution`.",
    convert=convert,
    pipelines=(PYTHON,),
)
