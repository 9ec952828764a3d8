"""`code.LANGUAGE` and `run.LANGUAGE`: compiled once, run in boxes, bounded like any program."""

from pathlib import Path
from typing import Any

import pytest
from tests.verifiers.language_programs import (
    ADDERS,
    CODES,
    FLOODS,
    HOGS,
    LOOPS,
    NOT_PROGRAMS,
    SLEEPS,
)

from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.execution.report import report_key, unpack_report
from assay.verifiers.languages import toolchains as tools
from assay.verifiers.languages.go_packages import go_folder
from assay.verifiers.languages.language import LANGUAGES
from assay.verifiers.local import LocalPipelines

ADD = {"tests": [{"stdin": f"{n} 3\n", "stdout": f"{n + 3}\n"} for n in range(4)]}
ONE = {"tests": [{"stdin": "2 3\n", "stdout": "5\n"}]}
TIGHT = {"cpu_s": 0.4, "blocked_s": 0.4, "memory_bytes": 64 * 1024**2, "output_bytes": 200_000}


def why_missing(language: str) -> str:
    """Why programs of it cannot run here; Go's library is not compiled for a test."""
    try:
        tools.find_toolchain(LANGUAGES[language])
    except tools.ToolMissing as missing:
        return str(missing)
    is_ready = language != "go" or any(go_folder().glob("*/packages"))
    return "" if is_ready else "Go's library is not compiled yet (run a program of code.go once)"


@pytest.fixture(params=sorted(LANGUAGES))
def language(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if why := why_missing(name):
        pytest.skip(why)
    return name


def block(language: str, program: str) -> str:
    return f"Thus:\n```{language}\n{program}\n```\n"


def test_a_right_program_passes_all_its_tests_and_is_compiled_once(
    bench: Any, language: str
) -> None:
    response = block(language, ADDERS[language])
    first = bench.judge(f"code.{language}", response, ADD)
    made = bench.artifacts.made
    second = bench.judge(f"code.{language}", response, ADD)
    assert (first.reward, first.evidence.tests_passed) == (1.0, 4)
    assert second.reward == 1.0
    assert bench.artifacts.made == made


def test_a_wrong_output_is_a_wrong_answer(bench: Any, language: str) -> None:
    wrong = {"tests": [{"stdin": "2 3\n", "stdout": "6\n"}]}
    ended = bench.judge(f"code.{language}", block(language, ADDERS[language]), wrong)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert ended.evidence.verdict == "wrong_answer"


@pytest.mark.parametrize(
    ("programs", "verdicts"),
    [
        (CODES, {"runtime_error"}),
        (LOOPS, {"cpu_limit"}),
        (SLEEPS, {"blocked_limit"}),
        (FLOODS, {"output_limit"}),
        # A runtime with a heap of its own may end the program before the box does.
        (HOGS, {"memory_limit", "runtime_error", "crashed"}),
    ],
    ids=["code", "loop", "sleep", "flood", "hog"],
)
def test_how_a_program_can_fail(
    bench: Any, language: str, programs: dict[str, str], verdicts: set[str]
) -> None:
    limits = TIGHT if programs is not HOGS else {**TIGHT, "cpu_s": 8.0}
    ended = bench.judge(f"code.{language}", block(language, programs[language]), ONE, **limits)
    assert ended.evidence.verdict in verdicts
    is_limit = ended.evidence.verdict.endswith("_limit")
    assert ended.outcome is (Outcome.RESOURCE_LIMIT if is_limit else Outcome.SCORED)
    assert ended.reward == 0.0


@pytest.mark.parametrize("name", sorted(NOT_PROGRAMS))
def test_a_source_that_does_not_compile_is_wrong_and_that_is_kept(bench: Any, name: str) -> None:
    if why := why_missing(name):
        pytest.skip(why)
    for _ in range(2):
        ended = bench.judge(f"code.{name}", NOT_PROGRAMS[name], ONE)
        made = bench.artifacts.made
        assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
        assert ended.evidence.verdict == "compile_error"
        assert ended.evidence.stderr_tail
    assert bench.artifacts.made == made


def test_a_block_in_another_language_is_no_program(bench: Any) -> None:
    ended = bench.judge("code.bash", block("python", "print(5)"), ONE)
    assert ended.evidence.verdict == "no_program"


def test_a_reference_that_silence_passes_is_refused(bench: Any) -> None:
    reference = {"tests": [{"stdin": "1\n", "stdout": "\n"}]}
    ended = bench.judge("code.bash", ":", reference)
    assert ended.outcome is Outcome.REJECTED_INVALID
    kept = bench.judge("code.bash", ":", reference, reference_audit="off")
    assert kept.reward == 1.0


LONG = "'12345\\n'.repeat(200000)"
EXITS = {
    "after one write": f"process.stdout.write({LONG}); process.exit(0);",
    "after console.log": f"console.log({LONG}); process.exit();",
    "after many lines": "for (let i = 0; i < 200000; i++) console.log(12345); process.exit();",
    "in a callback": (
        "require('readline').createInterface({ input: process.stdin })"
        f".on('line', () => {{ console.log({LONG}); process.exit(0); }});"
    ),
    "at the end of input": (
        "process.stdin.on('data', () => 0)"
        f".on('end', () => {{ process.stdout.write({LONG}); process.exit(); }});"
    ),
    "in a module": f"import fs from 'node:fs';\nconsole.log({LONG});\nprocess.exit(0);",
    "by itself": f"console.log({LONG});",
}


@pytest.mark.parametrize("name", EXITS)
def test_what_node_has_printed_before_it_exits_is_its_output(bench: Any, name: str) -> None:
    if why := why_missing("javascript"):
        pytest.skip(why)
    reference = {"tests": [{"stdin": "1\n", "stdout": "12345\n" * 200_000}]}
    assert bench.judge("code.javascript", EXITS[name], reference).reward == 1.0
    reference["tests"][0]["stdout"] += "12345\n"
    assert bench.judge("code.javascript", EXITS[name], reference).reward == 0.0


HOSTILE = {
    "reads the host's files": "cat /etc/passwd /root/.bashrc /proc/1/environ 2>/dev/null; echo 5",
    "writes to the system": "echo x > /usr/bin/x 2>/dev/null && echo no; echo 5",
    "looks for other processes": (
        "for p in /proc/[0-9]*; do cat $p/cmdline; done | tr '\\0' ' ' | grep -c 'assa[y]'; echo 5"
    ),
    "uses the network": "exec 3<>/dev/tcp/127.0.0.1/22 && echo no; echo 5",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_hostile_shell_program_finds_nothing_outside(bench: Any, name: str) -> None:
    program = HOSTILE[name]
    stdout = "0\n5\n" if "grep" in program else "5\n"
    ended = bench.judge("code.bash", program, {"tests": [{"stdin": "", "stdout": stdout}]})
    assert ended.reward == 1.0, ended.evidence


@pytest.mark.parametrize(
    "program",
    [
        ":(){ :|:& };:",
        "while :; do sleep 100 & done",
        "kill -9 -1; kill -9 $$",
        "exec 1>&-; exit 0",
    ],
)
def test_what_a_shell_program_does_to_its_box_is_its_own_fault(bench: Any, program: str) -> None:
    ended = bench.judge("code.bash", program, ONE, **TIGHT)
    assert ended.outcome in {Outcome.SCORED, Outcome.RESOURCE_LIMIT}
    assert ended.reward == 0.0
    after = bench.judge("code.bash", ADDERS["bash"], ONE)
    assert after.reward == 1.0


def test_a_thousand_threads_of_java_end_the_program_only(bench: Any) -> None:
    if why := why_missing("java"):
        pytest.skip(why)
    program = (
        "class A { public static void main(String[] a) { for (int i = 0; i < 5000; i++)\n"
        "  new Thread(() -> { try { Thread.sleep(60000); } catch (Exception e) { } }).start(); } }"
    )
    ended = bench.judge("code.java", program, ONE, **{**TIGHT, "cpu_s": 4.0})
    assert ended.outcome in {Outcome.SCORED, Outcome.RESOURCE_LIMIT}
    assert ended.reward == 0.0


def java_main(number: int) -> str:
    return f"public static void main(String[] a) {{ System.out.println({number}); }}"


STARTS = {
    "the public class": f"class A {{ {java_main(4)} }}\npublic class Z {{ {java_main(5)} }}",
    "the public class in a package": (
        f"package p.q;\nclass A {{ {java_main(4)} }}\npublic class Z {{ {java_main(5)} }}"
    ),
    "not a class inside": (
        f"public class Z {{ static class Main {{ {java_main(4)} }} {java_main(5)} }}"
    ),
    "not a class inside of one that is not public": (
        f"class Z {{ static class A {{ {java_main(4)} }} {java_main(5)} }}"
    ),
    "a class inside, where there is no other": f"class Z {{ static class A {{ {java_main(5)} }} }}",
    "Main": f"class Main {{ {java_main(5)} }}\npublic class A {{ {java_main(4)} }}",
    "the first": f"class A {{ {java_main(5)} }}\nclass B {{ {java_main(4)} }}",
    "a class with letters of another script": f"public class Caf\u00e9 {{ {java_main(5)} }}",
    "a class with a sign of shells": f"public class $PATH {{ {java_main(5)} }}",
}


@pytest.mark.parametrize("name", STARTS)
def test_a_java_program_begins_at(bench: Any, name: str) -> None:
    if why := why_missing("java"):
        pytest.skip(why)
    ended = bench.judge("code.java", STARTS[name], ONE)
    assert ended.reward == 1.0, ended.evidence


def test_an_annotation_runs_no_code_in_the_compiler(bench: Any) -> None:
    if why := why_missing("java"):
        pytest.skip(why)
    program = (
        "import javax.annotation.processing.*;\nimport java.util.*;\n"
        '@SupportedAnnotationTypes("*")\npublic class Main extends AbstractProcessor {\n'
        "  public boolean process(Set<? extends javax.lang.model.element.TypeElement> a,\n"
        "    RoundEnvironment r) { System.exit(0); return true; }\n"
        "  public static void main(String[] a) { System.out.println(5); } }"
    )
    assert bench.judge("code.java", program, ONE).reward == 1.0


def test_a_run_reports_what_the_program_did(bench: Any, language: str) -> None:
    reference = {"call": "a name that no one guesses", "stdin": "2 3\n"}
    ended = bench.judge(f"run.{language}", ADDERS[language], reference)
    key = report_key(ADDERS[language].encode(), ProgramRun.model_validate(reference))
    report = unpack_report(bench.artifacts.get(key))
    assert ended.reward == 1.0
    assert report.ran is not None
    assert (report.ran.stdout.strip(), report.ran.exit_code) == (b"5", 0)
    assert (report.compiled is not None) == LANGUAGES[language].is_compiled


def test_a_file_of_a_run_cannot_take_the_place_of_the_program(bench: Any) -> None:
    with pytest.raises(InvalidRequest, match="the program itself"):
        bench.judge("run.javascript", "1", {"files": {"program.js": ""}})


@pytest.fixture(scope="module")
def without_cgroups(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """As on a host on which no cgroup is writable: memory is sampled, addresses are limited."""
    scratch = tmp_path_factory.mktemp("scratch")
    sandbox = SandboxSettings(cgroup="none")
    with LocalPipelines(scratch=scratch, verifiers=VerifierSettings(), sandbox=sandbox) as made:
        yield made


def test_a_right_program_passes_without_cgroups_too(without_cgroups: Any, language: str) -> None:
    response = block(language, ADDERS[language])
    assert without_cgroups.judge(f"code.{language}", response, ADD).reward == 1.0
    ended = without_cgroups.judge(
        f"code.{language}", block(language, LOOPS[language]), ONE, **TIGHT
    )
    assert ended.evidence.verdict == "cpu_limit"


def test_a_missing_tool_is_never_the_programs_fault(
    bench: Any, new_bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with new_bench(VerifierSettings()) as own:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(tools.ToolMissing, match="C: gcc is not installed"):
            own.judge("code.c", ADDERS["c"], ONE)


def test_a_tool_in_someones_home_is_not_used_because_the_home_would_be_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "node"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho v20.0.0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    with pytest.raises(tools.ToolMissing, match="directory of its own"):
        tools.find_toolchain(LANGUAGES["javascript"])
