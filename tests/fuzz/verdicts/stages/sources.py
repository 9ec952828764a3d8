"""Programs in other languages that end, print or compile in unusual ways.

Each prints the sum of the numbers that it reads, or is wrong; a few may be either, since it is up
to the machine whether a process that was left behind prints in time.
"""

import random
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected, one_of
from tests.fuzz.verdicts.stages.programs import LANGUAGES_HERE

_C_HEAD: Final = (
    "#include <stdio.h>\n#include <unistd.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "#include <signal.h>\n#include <sys/wait.h>\n"
)
_C_SUM: Final = 'long n, t = 0; while (scanf("%ld", &n) == 1) t += n; '
_JAVA_SUM: Final = (
    "public static void main(String[] a) { java.util.Scanner s = new java.util.Scanner(System.in);"
    " long t = 0; while (s.hasNextLong()) t += s.nextLong(); System.out.println(t); }"
)
_BASH_SUM: Final = "t=0; for n in $(cat); do t=$((t + n)); done; "
_JS_SUM: Final = (
    "const t = String(require('fs').readFileSync(0, 'utf8').trim().split(/\\s+/).map(Number)"
    ".reduce((a, b) => a + b, 0)); "
)
_CPP_HEAD: Final = "#include <bits/stdc++.h>\nusing namespace std;\n"
_SOURCES: Final[dict[str, dict[Expected, tuple[str, ...]]]] = {
    "c": {
        Expected.RIGHT: (
            'int main() { SUM FILE *f = fopen("/dev/stdout", "w"); fprintf(f, "%ld", t); fclose(f); }',
            'int main() { SUM FILE *f = fopen("/proc/self/fd/1", "w"); if (!f) return 9; fprintf(f, "%ld", t); }',
            'int main() { SUM printf("%ld", t); return 256; }', 'int main() { SUM printf("%ld", t); fflush(0); quick_exit(0); }',
            'int main() { SUM char b[40]; sprintf(b, "echo %ld", t); char *a[] = {"/bin/sh", "-c", b, 0}; execv(a[0], a); }',
        ),
        Expected.EITHER: (
            'int main() { SUM printf("%ld", t); fflush(0); if (!fork()) sleep(60); }',
            'int main() { SUM printf("%ld", t); fflush(0); if (!fork()) for (;;) fork(); }',
            'int main() { SUM if (!fork()) { usleep(100000); printf("%ld", t); } }',
        ),
        Expected.WRONG: (
            'int main() { SUM printf("%ld", t); fflush(0); kill(getpid(), SIGSTOP); }', 'int main() { SUM printf("%ld", t); exit(-1); }', 'int main() { SUM printf("%ld", t); quick_exit(0); }',
            "int main() { for (;;) { if (!fork()) { if (!fork()) pause(); _exit(0); } wait(0); } }", "int main() { raise(SIGKILL); }", "int main() { alarm(1); for (;;) pause(); }",
            "int main() { signal(SIGXCPU, SIG_IGN); signal(SIGTERM, SIG_IGN); for (;;) ; }",
            '#pragma GCC optimize("-fdump-tree-all=/tmp/x")\n__attribute__((optimize("-fplugin=/x"))) int f() { return 1; } int main() { }',
            '#pragma GCC system_header\n#include "../../etc/shadow"\nint main() { }', "int x[1 << 28] = {[0 ... (1 << 28) - 1] = 7}; int main() { }", 'char b[200000000] = "x"; int main() { printf("%d", b[0]); }',
            "int main() { " + "{" * 5_000 + "}" * 5_000 + " }", "int main() { return " + "- " * 20_000 + "1; }", "int " + "*" * 50_000 + "p; int main() { }", "#define X0 x\n" + "".join(f"#define X{i} X{i - 1} X{i - 1}\n" for i in range(1, 40)) + "int main() { X39 }",
            "#if 1\n" * 5_000 + "int main() { }", "__attribute__((cleanup(main))) int x; int main() { }", "int main() { \xc3\x28 }",
        ),
    },
    "javascript": {
        Expected.RIGHT: (
            "import fs from 'fs'; console.log(fs.readFileSync(0, 'utf8').trim().split(/\\s+/).map(Number).reduce((a, b) => a + b));",
            "SUM process.stdout.write(t + '\\n', () => process.reallyExit(0))", "SUM process.exitCode = 3; console.log(t); process.exitCode = 0",
        ),
        Expected.EITHER: (
            "SUM console.log(t); process.stdin.on('data', () => {}); process.stdin.resume()",
            "SUM require('child_process').spawn('sleep', ['60'], {detached: true, stdio: 'inherit'}).unref(); console.log(t)",
        ),
        Expected.WRONG: (
            "SUM process.stdout.write(t); process.exitCode = 3", "SUM console.log(t); process.kill(process.pid, 'SIGSTOP'); for (;;) ;", "SUM console.log(t); setTimeout(() => {}, 1e9)", "SUM console.log(t); queueMicrotask(function f() { queueMicrotask(f) })",
            "SUM console.log(t); process.on('exit', () => { for (;;) ; })", "SUM console.log(t); process.on('exit', () => process.exit(9))", "require('v8').setFlagsFromString('--max-old-space-size=99999'); const a = []; for (;;) a.push(new Array(1e6).fill(a))",
            "require('vm').runInNewContext('while (1) ;', {}, {timeout: 1e9})", "Error.prepareStackTrace = () => { throw 1 }; throw new Error", "process.emit('SIGTERM'); process.abort()", "const s = 'x'.repeat(2 ** 29 - 24); const b = []; for (;;) b.push(Buffer.from(s))",
            "SUM require('fs').closeSync(1); console.log(t)", "SUM console.log(t); new (require('worker_threads').Worker)('for (;;) ;', {eval: true})", "(" * 50_000, "/" + "(" * 5_000 + ")" * 5_000 + "/", "var a = " + "[" * 20_000 + "]" * 20_000,
        ),
    },
    "bash": {
        Expected.RIGHT: ("SUM echo $t; kill -9 $PPID", "SUM (sleep 0.05; echo $t) | cat", "SUM printf '\\n\\n %d \\n\\n' $t", "SUM exec 3>&1 1>/dev/null; echo $t >&3"),
        Expected.EITHER: ("SUM echo $t; (sleep 60 &) ; exit 0", "SUM ulimit -v 1; echo $t", "SUM echo $t\r"),
        Expected.WRONG: (
            "SUM echo $t; kill -STOP $$", "SUM echo $t; exec sleep 60", "SUM trap 'exit 9' EXIT; echo $t", "SUM echo $t; kill -9 $$", "for ((;;)); do (:); done", "while :; do coproc sleep 99; done",
            "a=(); while :; do a+=($(printf 'x%.0s' {1..1000})); done", "SUM printf $t; printf '\\0'", "f() { f | f & }; f", "mkfifo /tmp/p; exec 3<>/tmp/p; read -u3", "find / -exec cat {} + 2>/dev/null | head -c 900000",
            "cd /proc/1; ls -l fd exe root; echo 6 > fd/0", "truncate -s 100T x; cat x", "SUM { echo $t; } 1>&2", "ln -s /dev/zero z; . ./z", "eval \"$(printf '(%.0s' {1..20000})\"", "x='a[$(echo 6 >&2)]'; echo $((x))",
        ),
    },
    "java": {
        Expected.RIGHT: (
            "// public class Fake {}\nclass A { SUM }", "package p.q; public class Main { SUM }", "enum Main { X; SUM }", "interface Main { SUM }", "public class Sum { static class Main { } SUM }", "/* public class B */ public final class Sum { char c = '\"'; SUM }",
        ),
        Expected.WRONG: (
            "public class Main { static { Runtime.getRuntime().addShutdownHook(new Thread(() -> { for (;;) ; })); } SUM }", "public class Main { static { new Thread(() -> { for (;;) ; }).start(); } SUM }", "public class Main { " + "class A { " * 500 + "}" * 500 + " }",
            "public class Main { public static void main(String[] a) { " + "int x; { " * 2_000 + "}" * 2_000 + " } }", "public class Main { static int f(int x) { return f(x + 1) + 1; } public static void main(String[] a) { try { f(0); } catch (Throwable t) { main(a); } } }",
            "public class \\u0000 { }", "@interface Main { } class x { int main; }", "public class Main { public static void main(String[] a) { while (true) new Thread(() -> { try { Thread.sleep(99999); } catch (Exception e) { } }).start(); } }",
        ),
    },
    "rust": {
        Expected.WRONG: (
            '#[no_mangle] pub extern "C" fn write(_: i32, _: *const u8, n: usize) -> isize { n as isize } fn main() { println!("7"); }', 'use std::arch::asm; fn main() { unsafe { asm!("ud2") } }',
            'fn main() { let v: Vec<u8> = Vec::with_capacity(1 << 40); println!("{}", v.len()); }', 'fn main() { println!("6"); loop { std::thread::sleep(std::time::Duration::from_secs(9)); } }',
            '#![recursion_limit = "4294967295"]\nmacro_rules! m { ($($t:tt)*) => { m!{$($t)* x} } } m!{}', "const fn f(n: u128) -> u128 { if n == 0 { 0 } else { f(n - 1) + f(n - 1) } } const X: u128 = f(99); fn main() { println!(\"{}\", X) }", 'include!("/proc/self/environ"); fn main() {}',
        ),
    },
    "cpp": {
        Expected.RIGHT: ("struct S { S() { long n, t = 0; while (cin >> n) t += n; cout << t << endl; } } s; int main() { }", "int main() try { long n, t = 0; while (cin >> n) t += n; cout << t; throw 1; } catch (...) { }"),
        Expected.WRONG: (
            "template<int N> struct F { static const int v = F<N - 1>::v + F<N - 2>::v; }; int main() { cout << F<100000>::v; }", "constexpr int f(int n) { int s = 0; for (int i = 0; i < n; i++) s += i; return s; } constexpr int X = f(2000000000); int main() { cout << X; }",
            "int main() { cout << 6; cout.flush(); throw 1; }", "int main() { cout << 6; set_terminate([] { _exit(0); }); throw 1; }", "template<class T> void f(T t) { f(make_pair(t, t)); } int main() { f(1); }", "namespace std { struct A { ~A() { _exit(0); } } a; } int main() { abort(); }",
            "int main() { vector<int> v; for (;;) v.push_back(1); }", "int main() { cout << 6 << endl; thread t([] { for (;;) ; }); t.detach(); for (;;) ; }", 'asm(".globl main\\nmain: jmp main");',
        ),
    },
}  # fmt: skip
_HEADS: Final = {"c": _C_HEAD, "cpp": _CPP_HEAD}
_SUMS: Final = {"c": _C_SUM, "javascript": _JS_SUM, "bash": _BASH_SUM, "java": _JAVA_SUM}
_FENCES: Final = {"javascript": "js"}
_SHARES: Final = {"c": 1.0, "javascript": 1.0, "bash": 1.0, "java": 0.25, "rust": 0.2, "cpp": 0.25}
_LIMITS: Final = {"cpu_s": 1.5, "blocked_s": 1.0, "output_bytes": 1_000_000}


def source_case(rng: random.Random) -> Case:
    """A program of `_SOURCES`, in a language that is installed here."""
    name = one_of(rng, {one: _SHARES[one] for one in _SOURCES if one in {"cpp", *LANGUAGES_HERE}})
    expected = rng.choice(list(_SOURCES[name]))
    source = rng.choice(_SOURCES[name][expected]).replace("SUM", _SUMS.get(name, ""))
    numbers = [rng.randint(100, 9_999) for _ in range(rng.randint(2, 6))]
    settings: dict[str, Any] = dict(_LIMITS)
    if name in {"c", "java", "rust", "cpp"}:
        settings["compile_cpu_s"] = 8.0
    if name == "java":
        settings["cpu_s"] = 4.0
    return Case(
        pipeline=f"code.{name}",
        kind=f"{name} source: {expected.value}",
        response=f"```{_FENCES.get(name, name)}\n{_HEADS.get(name, '')}{source}\n```",
        reference={
            "tests": [{"stdin": " ".join(map(str, numbers)) + "\n", "stdout": f"{sum(numbers)}\n"}]
        },
        expected=expected,
        settings=settings,
    )
