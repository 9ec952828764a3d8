"""`run.python` and `run.cpp`: programs run in real boxes, and the report tells what they did."""

import base64
import os
from typing import Any

import pytest

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.report import RunReport, report_key, unpack_report
from assay.verifiers.local import LocalPipelines

CALL = "a name that no one guesses"
OUT_OF_MEMORY = "memory_limit" if os.geteuid() == 0 else "runtime_error"
"""Without a cgroup it is addresses that run out, and an interpreter says so itself."""


def report_of(bench: LocalPipelines, pipeline: str, program: str, **run: Any) -> RunReport:
    """Run it, check that evidence and report agree, and return the report."""
    reference = {"call": CALL, **run}
    ended = bench.judge(pipeline, program, reference)
    key = report_key(program.encode(), ProgramRun.model_validate(reference))
    packed = bench.artifacts.get(key)
    assert packed is not None
    report = unpack_report(packed)
    assert ended.evidence.verdict == report.verdict
    limited = report.ran is not None and report.ran.exit_code is None
    assert ended.outcome is (Outcome.RESOURCE_LIMIT if limited else Outcome.SCORED)
    assert ended.reward == float(report.verdict == "pass")
    return report


PYTHON = """
import sys
text = sys.stdin.read()
print(open("data/in.txt").read() + text)
print("told", file=sys.stderr)
open("out.bin", "wb").write(bytes([0, 255]))
sys.exit(int(text))
"""
CPP = """
#include <fstream>
#include <iostream>
int main() {
    int code;
    std::cin >> code;
    std::string given;
    std::ifstream("data/in.txt") >> given;
    std::cout << given << code << std::endl;
    std::cerr << "told" << std::endl;
    std::ofstream("out.bin").write("\\0\\377", 2);
    return code;
}
"""


@pytest.mark.parametrize(("pipeline", "program"), [("run.python", PYTHON), ("run.cpp", CPP)])
def test_a_program_reads_its_input_and_its_files_and_the_report_has_all_that_it_wrote(
    bench: LocalPipelines, pipeline: str, program: str
) -> None:
    files = {"data/in.txt": base64.b64encode(b"given").decode()}
    wanted = {"files": files, "collect": ["out.bin", "missing.bin"]}
    for code, verdict in ((0, "pass"), (3, "runtime_error")):
        report = report_of(bench, pipeline, program, stdin=str(code), **wanted)
        assert report.ran is not None
        assert (report.ran.verdict, report.ran.exit_code) == (verdict, code)
        assert report.ran.stdout.split() in ([b"given%d" % code], [b"given", b"%d" % code])
        assert report.ran.stderr == b"told\n"
        assert report.files == {"out.bin": bytes([0, 255])}
        assert (report.compiled is None) == (pipeline == "run.python")


def test_outputs_larger_than_evidence_are_whole(bench: LocalPipelines) -> None:
    report = report_of(bench, "run.python", "print('x' * 3_000_000)")
    assert report.ran is not None
    assert report.ran.stdout == b"x" * 3_000_000 + b"\n"


@pytest.mark.parametrize(
    ("program", "limits", "verdict"),
    [
        ("while True: pass", {"cpu_s": 0.2}, "cpu_limit"),
        ("import time; time.sleep(60)", {"blocked_s": 0.2}, "blocked_limit"),
        ("print('x' * 10_000)", {"output_bytes": 1_000}, "output_limit"),
        ("x = bytearray(200_000_000)", {"memory_bytes": 64 * 2**20}, OUT_OF_MEMORY),
        ("import os; os.abort()", {}, "crashed"),
    ],
)
def test_a_broken_limit_is_reported_and_is_the_programs_own(
    bench: LocalPipelines, program: str, limits: dict[str, Any], verdict: str
) -> None:
    report = report_of(bench, "run.python", program, **limits)
    assert report.ran is not None
    assert report.ran.verdict == verdict


def test_what_the_compiler_refuses_is_reported_with_its_words(bench: LocalPipelines) -> None:
    report = report_of(bench, "run.cpp", "int main() { return missing; }")
    assert report.ran is None
    assert report.compiled is not None
    assert report.compiled.exit_code == 1
    assert b"missing" in report.compiled.stderr


def test_without_a_name_of_the_call_nothing_is_kept(bench: LocalPipelines) -> None:
    ended = bench.judge("run.python", "print(1)", {"stdin": ""})
    assert ended.reward == 1.0
    assert report_key(b"print(1)", ProgramRun()) == ""


@pytest.mark.parametrize(
    ("run", "field"),
    [
        ({"files": {"../x": ""}}, "reference.files"),
        ({"files": {"/x": ""}}, "reference.files"),
        ({"files": {"program": ""}}, "reference.files"),
        ({"files": {"x": "?"}}, "reference.files"),
        ({"collect": ["a/../b"]}, "reference.collect"),
        ({"cpu_s": 1e9}, "reference.cpu_s"),
    ],
)
def test_a_wrong_field_is_named(bench: LocalPipelines, run: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        bench.judge("run.python", "", run)
    assert refused.value.field == field
