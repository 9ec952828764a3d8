"""`code.cpp`: compiled once, in a box; run test by test, each in a fresh one."""

from collections.abc import Callable
from typing import Any

import pytest

from assay.config.settings import SandboxSettings, StoreSettings
from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher
from assay.verifiers.code import settings as code_settings
from assay.verifiers.code.cpp import compiler as compilers
from assay.verifiers.code.settings import STANDARDS, CppSettings

Judge = Callable[..., Ended]
CPP = "code.cpp"
ADD = {"tests": [{"stdin": f"{n} 3\n", "stdout": f"{n + 3}\n"} for n in range(10)]}
ADDER = (
    "#include <bits/stdc++.h>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b; }\n"
)
SMALL = '#include <cstdio>\nint main() { int a, b; scanf("%d %d", &a, &b); printf("%d", a + b); }\n'


def test_ten_tests_of_a_big_header_cost_one_compilation(bench: Any) -> None:
    made = bench.artifacts.made
    ended = bench.judge(CPP, f"```cpp\n{ADDER}```", ADD)
    assert (ended.reward, ended.evidence.tests_passed) == (1.0, 10)
    assert bench.artifacts.made == made + 1
    again = bench.judge(CPP, ADDER, {"tests": ADD["tests"][:1]})
    assert again.reward == 1.0
    assert bench.artifacts.made == made + 1
    assert again.use.cpu_s < ended.use.cpu_s


def test_a_failed_compilation_is_a_verdict_and_kept_too(bench: Any) -> None:
    made = bench.artifacts.made
    for _ in range(2):
        ended = bench.judge(CPP, "int main() { return x; }", ADD)
        assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
        assert ended.evidence.verdict == "compile_error"
        assert "'x' was not declared" in ended.evidence.stderr_tail
    assert bench.artifacts.made == made + len(STANDARDS)


IN_STANDARDS = {
    "c++17": 'if (int n = 0; n == 0) std::puts(std::string_view{"ok"}.data());',
    "gnu++23": (
        'std::vector v{3}; for (int n : v | std::views::take(1)) std::puts(n == 3 ? "ok" : "no");'
    ),
    "gnu++14": 'using namespace std; struct Taken { byte kept = 0; }; puts("ok");',
}
INCLUDED = "#include <bits/stdc++.h>\ntypedef unsigned char byte;\n"


@pytest.mark.parametrize("standard", STANDARDS)
def test_a_program_is_compiled_in_the_standard_that_takes_it(bench: Any, standard: str) -> None:
    source = f"{INCLUDED}int main() {{ {IN_STANDARDS[standard]} }}\n"
    reference = {"tests": [{"stdout": "ok\n"}]}
    assert bench.judge(CPP, source, reference).reward == 1.0
    for other in STANDARDS[: STANDARDS.index(standard)]:
        ended = bench.judge(CPP, source, reference, standard=other)
        assert ended.evidence.verdict == "compile_error"


def test_what_no_standard_takes_has_the_error_of_the_first(bench: Any) -> None:
    source = "#if __cplusplus == 201703L\n#error first\n#else\n#error later\n#endif\n"
    ended = bench.judge(CPP, source, ADD)
    assert (ended.outcome, ended.evidence.verdict) == (Outcome.SCORED, "compile_error")
    assert "first" in ended.evidence.stderr_tail


def test_a_standard_that_the_compiler_does_not_know_is_not_tried(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_settings, "STANDARDS", ("c++17", "gnu++99", "gnu++14"))
    source = f"{INCLUDED}int main() {{ {IN_STANDARDS['gnu++14']} }}\n"
    assert bench.judge(CPP, source, {"tests": [{"stdout": "ok\n"}]}).reward == 1.0
    ended = bench.judge(CPP, "int main() { return y; }", ADD)
    assert (ended.outcome, ended.evidence.verdict) == (Outcome.SCORED, "compile_error")


def test_a_program_serves_sources_that_differ_in_comments_and_blanks_only(bench: Any) -> None:
    made = bench.artifacts.made
    source = "int main()\n{\n  return 7 - 7; // it's right\n}\n"
    reference = {"tests": [{"stdout": ""}]}
    for one in (source, "/* so */ int main(){return 7-7;}", source.replace("  ", "\t\t")):
        assert bench.judge(CPP, one, reference).reward == 1.0
    assert bench.artifacts.made == made + 1
    bench.judge(CPP, source.replace("7 - 7", "7 - 8"), reference)
    assert bench.artifacts.made == made + 2


def test_an_error_names_the_lines_of_its_own_source(bench: Any) -> None:
    tails = [
        bench.judge(CPP, f"{lines}int main() {{ return y; }}", ADD).evidence.stderr_tail
        for lines in ("", "\n", "\n// a\n")
    ]
    assert [
        f"program.cpp:{line}:" in tail for line, tail in zip((1, 2, 3), tails, strict=True)
    ] == [True] * 3


def test_flags_are_part_of_what_is_shared(bench: Any) -> None:
    made = bench.artifacts.made
    source = (
        "#include <cstdio>\nauto f = [](auto... x) { return (x + ...); };\n"
        'int main() { printf("%d", f(1, 2)); }\n'
    )
    reference = {"tests": [{"stdout": "3"}]}
    assert bench.judge(CPP, source, reference, standard="c++17").reward == 1.0
    assert bench.judge(CPP, source, reference, standard="c++20", optimize="0").reward == 1.0
    assert bench.artifacts.made == made + 2


def test_an_evicted_program_is_compiled_again(bench: Any) -> None:
    bench.judge(CPP, SMALL, ADD)
    definition = bench.pipelines[CPP]
    bench.artifacts.kept.clear()
    handler = bench.handler(definition.stages[1])
    work = bench.work(CPP, SMALL, ADD, handover=b"cpp-gone")
    [ended] = handler.run([work])
    assert ended.reward == 1.0


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("int main() { for (;;); }", "cpu_limit"),
        ("int main() { return 3; }", "runtime_error"),
        ("int main() { __builtin_trap(); }", "crashed"),
        ('#include <cstdio>\nint main() { puts("5"); }', "wrong_answer"),
        (
            "#include <vector>\nint main() { std::vector<char> v(1 << 30, 1); return v[5] - 1; }",
            "memory_limit",
        ),
        (
            '#include <cstdio>\nint main() { for (;;) puts("xxxxxxxxxxxxxxxxxxxxxxxxx"); }',
            "output_limit",
        ),
        (
            "int f(int n) { volatile char x[1000]; x[0] = n; return f(n + 1) + x[0]; }"
            "int main() { return f(0); }",
            "crashed",
        ),
    ],
)
def test_how_a_program_can_fail(judge: Judge, source: str, verdict: str) -> None:
    ended = judge(CPP, source, ADD, cpu_s=0.5, output_bytes=100_000, memory_bytes=256 << 20)
    assert ended.reward == 0.0
    allowed = {verdict, "crashed"} if verdict == "memory_limit" else {verdict}
    assert ended.evidence.verdict in allowed
    assert ended.outcome is (
        Outcome.RESOURCE_LIMIT if ended.evidence.verdict.endswith("limit") else Outcome.SCORED
    )


HOSTILE_SOURCES = {
    "a compile bomb": (
        "template <int N> struct A { using L = typename A<N - 1>::T; using R = A<N - 1>;"
        " struct T { typename R::T a; char b[N]; }; };\n"
        "template <> struct A<0> { struct T {}; };\n"
        "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i; return s; }\n"
        + "".join(f"constexpr long v{n} = f({1_000_000 + n});\n" for n in range(500))
        + "int main() {}"
    ),
    "an endless header": "#include </dev/zero>\nint main() {}",
    "the standard input": "#include </dev/stdin>\nint main() {}",
    "the list of users": "#include </etc/passwd>\nint main() {}",
    "the host's files by the assembler": 'asm(".incbin \\"/etc/passwd\\"");\nint main() {}',
    "a giant array": "char x[1L << 34] = {1};\nint main() { return x[5]; }",
    "a plugin": '#pragma GCC plugin evil\n#include "/proc/1/environ"\nint main() {}',
}


@pytest.mark.parametrize("source", HOSTILE_SOURCES.values(), ids=HOSTILE_SOURCES.keys())
def test_a_hostile_source_ends_in_a_verdict(judge: Judge, source: str) -> None:
    ended = judge(CPP, source, ADD, compile_cpu_s=2.0, compile_memory_bytes=256 << 20)
    assert ended.reward == 0.0
    assert "root:" not in ended.evidence.stderr_tail
    assert judge(CPP, SMALL, ADD).reward == 1.0


@pytest.mark.parametrize(("answer", "reward"), [("a + b", 1.0), ("a - b", 0.0)])
def test_signals_to_its_parent_leave_a_program_judged_by_its_output(
    judge: Judge, answer: str, reward: float
) -> None:
    """Pid 1 of a box is a Python process, which has a handler for SIGINT."""
    source = (
        "#include <csignal>\n#include <iostream>\n#include <unistd.h>\n"
        f"int main() {{ long a, b; std::cin >> a >> b; std::cout << {answer} << std::flush;"
        " for (int s = 1; s < 65; s++) if (s != SIGSTOP) kill(getppid(), s), kill(1, s); }"
    )
    ended = judge(CPP, source, {"tests": ADD["tests"][:1]})
    assert (ended.reward, ended.evidence.verdict) == (reward, "pass" if reward else "wrong_answer")


def test_code_that_runs_before_main_sees_no_expected_output(judge: Judge) -> None:
    source = (
        "#include <cstdio>\n#include <cstdlib>\n"
        '__attribute__((constructor)) void early() { puts("3"); exit(0); }\nint main() {}'
    )
    assert judge(CPP, source, ADD).evidence.failed_test == 1


def test_a_compiler_that_does_not_work_is_no_verdict(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = BubblewrapLauncher(SandboxSettings(), Clock())
    try:
        compiler = compilers.Compiler(launcher, bench.artifacts)
        monkeypatch.setattr(compiler, "_flags", lambda _settings: ("-fno-such-flag",))
        made = bench.artifacts.made
        with pytest.raises(RuntimeError, match="no-such-flag"):
            compiler.compile("int main() {}", CppSettings())
        assert bench.artifacts.made == made
        monkeypatch.setattr(compilers, "_COMPILER", "no-such-compiler")
        with pytest.raises(RuntimeError, match="not installed"):
            compilers.Compiler(launcher, bench.artifacts)
    finally:
        launcher.close()


def test_a_compiled_program_fits_into_the_store() -> None:
    assert StoreSettings().artifact_bytes_max > compilers._PROGRAM_BYTES_MAX
