"""Cases of the other languages: programs that add numbers, near misses and attacks.

Languages whose tools are not on this machine are left out, so seeds draw other cases there.
"""

import random
from typing import Final, NamedTuple

from tests.fuzz.verdicts.case import Case, Expected, one_of

from assay.verifiers.languages.language import LANGUAGES
from assay.verifiers.languages.toolchains import ToolMissing, find_toolchain


class _Bodies(NamedTuple):
    share: float
    right: tuple[str, ...]
    near: tuple[str, ...]
    attacks: tuple[str, ...]


_C_READ: Final = 'long long n, t = 0; while (scanf("%lld", &n) == 1) t += n;'
_C_HEAD: Final = (
    "#define _GNU_SOURCE\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "#include <unistd.h>\n#include <signal.h>\n#include <sys/mman.h>\n#include <sys/wait.h>\n"
)
_C: Final = _Bodies(
    0.5,
    (
        "int main(void) { READ printf(\"%lld\\n\", t); }",
        "int main() { READ char b[64]; int k = sprintf(b, \"%lld\", t); write(1, b, k); _exit(0); }",
        "static long long v; void done(void) { printf(\"%lld\", v); } int main() { READ v = t; atexit(done); return 0; }",
        "__attribute__((constructor)) void first(void) { READ printf(\"%lld\", t); } int main() { return 0; }",
        "int main() { READ if (!fork()) { printf(\"%lld\", t); fflush(stdout); _exit(0); } wait(0); return 0; }",
        "void f(int k, long long *t) { long long n; if (scanf(\"%lld\", &n) == 1) { *t += n; f(k + 1, t); } } int main() { long long t = 0; f(0, &t); printf(\"%lld\", t); }",
        "main() { READ return !printf(\"%lld\", t); }",
    ),
    (
        "int main() { READ printf(\"%lld\", t); return 1; }",
        "int main() { READ printf(\"%lld\", t); fflush(stdout); abort(); }",
        "int main() { READ fprintf(stderr, \"%lld\", t); }",
        "int main() { READ printf(\"%lld%c\", t, 0); }",
        "int main() { READ printf(\"%lld %lld\", t, t); }",
        "int main() { READ printf(\"%d\", (int) (t + 1)); }",
        "int main() { READ printf(\"%lld\", t); fflush(stdout); raise(SIGKILL); }",
        "int main() { READ printf(\"%lld\", t); fflush(stdout); *(volatile int *) 0 = 1; }",
        "int main() { READ printf(\"%lld.5\", t); }",
    ),
    (
        "#include \"/dev/zero\"\n", "#include \"/proc/self/environ\"\nint main() {}", "#include \"/etc/passwd\"\n",
        "#error Killed signal terminated program\n", "#include __FILE__\n", "int main() { return x; }", "int main;", "",
        "const char main[] = \"\\xeb\\xfe\";", "static char big[1 << 30] = {1}; int main() { puts(big); }",
        "__asm__(\".incbin \\\"/etc/passwd\\\"\"); int main() { }", "__asm__(\".fill 0x7fffffff\"); int main() { }",
        "__asm__(\".include \\\"/dev/zero\\\"\"); int main() { }", "#define A(x) x x x x x x x x\nint main() { A(A(A(A(A(A(A(A(;)))))))) }",
        "#pragma GCC poison main\nint main() { }", "int main() { for (;;) fork(); }", "int main() { for (;;) ; }", "int main() { pause(); }",
        "int main() { kill(-1, 9); kill(1, 9); kill(getppid(), 9); }", "int main() { kill(getppid(), 19); kill(0, 19); pause(); }",
        "int main() { for (int f = 3; f < 1024; f++) dprintf(f, \"{\\\"verdict\\\": \\\"pass\\\"}\"); }",
        "int main() { for (;;) { char *p = malloc(1 << 20); memset(p, 1, 1 << 20); } }",
        "int main() { system(\"cat /proc/*/cmdline /proc/*/environ; ls -R / 2>/dev/null | head -c 9000\"); }",
        "int main() { int f = memfd_create(\"x\", 0); for (;;) { char b[65536] = {1}; write(f, b, sizeof b); } }",
        "int main() { execl(\"/bin/sh\", \"sh\", \"-c\", \"echo pass; exit 0\", NULL); }", "int main() { for (;;) puts(\"xxxxxxxxxxxxxxxxxxxxx\"); }",
        "int main() { char b[9]; main(); return b[0]; }", "int main() { if (!fork()) { setsid(); for (;;) ; } }", "\0\xff int main() { }",
        "void _start(void) { for (;;) ; }", "int puts(const char *s) { for (;;) ; } int main() { puts(\"1\"); }",
    ),
)  # fmt: skip
_JS_READ: Final = (
    "const t = require('fs').readFileSync(0, 'utf8').split(/\\s+/).filter(Boolean).map(BigInt)"
    ".reduce((a, b) => a + b, 0n);"
)
_JS: Final = _Bodies(
    1.0,
    (
        "READ console.log(String(t));", "READ process.stdout.write(`${t}\\n`);", "READ setTimeout(() => console.log(`${t}`), 5);",
        "READ (async () => { await null; console.log('%s', `${t}`); })();", "READ process.on('exit', () => console.log(t.toString()));",
        "let s = ''; process.stdin.on('data', d => s += d).on('end', () => console.log(s.trim().split(/\\s+/).reduce((a, b) => a + Number(b), 0)));",
        "'use strict'; READ class A { static #v = t; static get v() { return A.#v; } } console.log(`${A.v}`);",
        "import { readFileSync } from 'node:fs'; let t = 0; for (const x of readFileSync(0, 'utf8').match(/-?\\d+/g)) t += +x; console.log(t); export {};",
        "READ require('child_process'); eval('console.log(`${t}`)');",
    ),
    (
        "READ console.log(t);", "READ console.error(`${t}`);", "READ console.log(`${t}`); process.exit(1);", "READ console.log(`${t}`); throw 1;",
        "READ console.log(`${t}`); process.abort();", "READ console.log(`${t}`); Promise.reject(new Error('x'));", "READ console.log(`${t}\\u200b`);",
        "READ console.log(`${t + 1n}`);", "READ console.log(`\"${t}\"`);", "READ console.log([`${t}`]);", "READ console.log(`${t}`); process.kill(process.pid, 'SIGKILL');",
        "READ console.log = () => {}; console.log(`${t}`);",
    ),
    (
        "for (;;) ;", "setInterval(() => {}, 1000);", "const a = []; for (;;) a.push(new Array(1e6).fill(1));", "process.kill(-1, 'SIGKILL'); process.kill(1);",
        "process.kill(process.ppid, 'SIGSTOP'); for (;;) ;", "const f = () => f(); f();", "/(a+)+$/.test('a'.repeat(60) + 'b');", "import('x');", "require('x');", "const = 1;", "",
        "for (;;) console.log('x'.repeat(1e5));", "require('child_process').execSync('cat /proc/*/cmdline; exit 0', {stdio: 'inherit'});", "new Worker('x')",
        "const {Worker} = require('worker_threads'); for (;;) new Worker('for(;;);', {eval: true});", "process.reallyExit(0)", "process.binding('spawn_sync')",
        "require('fs').writeFileSync('/tmp/verdict.json', '{\"verdict\": \"pass\"}'); for (let f = 3; f < 300; f++) try { require('fs').writeSync(f, 'pass') } catch {}",
        "Object.prototype.toString = () => { throw 1 }; String.prototype.split = null; require('fs').readFileSync(0);", "\0\xff", "while (true) { fetch('http://127.0.0.1:1') }",
        "new SharedArrayBuffer(2 ** 40)", "Buffer.allocUnsafeSlow(2 ** 33).fill(1)", "WebAssembly.compile(new Uint8Array(1e8))", "process.setuid(0); process.chroot('/')",
        "require('fs').rmSync('/box', {recursive: true, force: true}); require('fs').rmSync('/tmp', {recursive: true, force: true}); console.log('pass')",
        "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)", "process.dlopen({exports: {}}, '/lib/x86_64-linux-gnu/libc.so.6')", "debugger; require('inspector').open(0, '127.0.0.1', true)",
    ),
)  # fmt: skip
_BASH_READ: Final = "t=0; for n in $(cat); do t=$((t + n)); done;"
_BASH: Final = _Bodies(
    1.0,
    (
        "READ echo $t", "READ printf '%d\\n' \"$t\"", "set -euo pipefail; READ echo \"$t\"", "f() { READ echo $t; }; f", "READ (sleep 0.02; echo $t) & wait",
        "READ trap 'echo $t' EXIT", "tr -s ' ' '\\n' | awk '{t += $1} END {print t}'", "READ exec echo $t", "READ cat <<< $t", "#!/bin/bash\nREAD echo   $t   ",
        "READ declare -A m; m[x]=$t; echo ${m[x]}; :", "READ bash -c \"echo $t\"", "read -ra a; t=0; for n in \"${a[@]}\"; do ((t += n)) || true; done; echo $t",
    ),
    (
        "READ echo $t; exit 1", "READ echo $t; false", "READ echo $t >&2", "READ echo $t; kill -9 $$", "READ echo \"$t,\"", "READ echo $((t + 1))", "READ echo $t $t",
        "READ printf '%s\\0' $t", "READ echo $t; kill -SEGV $$", "READ echo -e \"$t\\x1b[0m\"", "READ printf '\\xff%s' $t",
    ),
    (
        ":(){ :|:& };:", "while :; do :; done", "yes", "kill -9 -1", "kill -STOP 1 $PPID $$", "sleep 60", "exec 1>&-; echo 1", "s=x; while :; do s=$s$s; done", "cat /dev/zero", "cat /dev/zero > f",
        "while :; do sleep 100 & done", "rm -rf / 2>/dev/null; echo pass", "echo pass > /proc/1/fd/1", "for f in /proc/1/fd/*; do echo pass > $f; done", "cat /proc/*/environ /proc/*/cmdline",
        "trap '' TERM INT HUP; while :; do :; done", "mkfifo p; cat p", "ln -sf /dev/zero /tmp/x; cat /tmp/x > /tmp/y", "((a = 1 / 0))", "if", "'", "", "\0", "ulimit -t 999999; while :; do :; done",
        "exec -a pass bash -c 'kill -9 $PPID'", "dd if=/dev/zero of=/tmp/big bs=1M count=9999", "coproc cat; sleep 60", "setsid bash -c 'while :; do :; done' & exit 0", "echo '{\"verdict\": \"pass\"}' | tee /tmp/verdict /box/verdict.json",
        "unshare -r bash", "mount -t tmpfs x /tmp", "chmod 000 /box /tmp; cd /; echo 1", "while :; do mktemp -d; done", "enable -f /lib/x86_64-linux-gnu/libc.so.6 x", "nohup sleep 50 & disown; kill $$",
        "exec < /dev/tty; read x", "python3 -c 'import os; [os.fork() for _ in iter(int, 1)]'", "find / -type f 2>/dev/null | head -c 100000", "export PATH=; ls; exit", "return 0", "exec 3<>/dev/tcp/127.0.0.1/80",
    ),
)  # fmt: skip
_JAVA_READ: Final = (
    "java.util.Scanner in = new java.util.Scanner(System.in); long t = 0;"
    " while (in.hasNextLong()) t += in.nextLong();"
)
_JAVA: Final = _Bodies(
    0.15,
    (
        "public class Main { public static void main(String[] a) { READ System.out.println(t); } }",
        "import java.util.*; class Solve { public static void main(String... a) throws Exception { READ System.out.print(t); System.out.flush(); Runtime.getRuntime().halt(0); } }",
        "public class Main { record P(long v) {} public static void main(String[] a) { READ new Thread(() -> {}).start(); System.out.println(new P(t).v()); } }",
    ),
    (
        "public class Main { public static void main(String[] a) { READ System.out.println(t); System.exit(1); } }",
        "public class Main { public static void main(String[] a) { READ System.out.println(t); throw new RuntimeException(); } }",
        "public class Main { public static void main(String[] a) { READ System.err.println(t); } }",
    ),
    (
        "public class Main { static { while (true) ; } public static void main(String[] a) { } }", "public class Main { }", "class", "",
        "public class Main { public static void main(String[] a) { main(a); } }", "public class Main { public static void main(String[] a) { Runtime.getRuntime().halt(0); } }",
        "public class Main { public static void main(String[] a) throws Exception { new ProcessBuilder(\"kill\", \"-9\", \"-1\").start(); Thread.sleep(99999); } }",
        "public class Main { public static void main(String[] a) { java.util.List<long[]> l = new java.util.ArrayList<>(); while (true) l.add(new long[1 << 20]); } }",
        "public class Main { static final String A = \"" + "x" * 40_000 + "\" + \"" + "y" * 40_000 + "\"; public static void main(String[] a) { } }",
        "public class Main<T extends Main<Main<T>>> { public static void main(String[] a) { String s = \"\"" + " + \"a\"" * 9_000 + "; } }",
    ),
)  # fmt: skip
_RUST_READ: Final = (
    "let mut s = String::new(); std::io::Read::read_to_string(&mut std::io::stdin(), &mut s).unwrap();"
    " let t: i64 = s.split_whitespace().map(|x| x.parse::<i64>().unwrap()).sum();"
)
_RUST: Final = _Bodies(
    0.15,
    (
        'fn main() { READ println!("{}", t); }', 'fn main() { READ print!("{t}"); std::process::exit(0); }',
        'fn main() { READ std::thread::spawn(move || println!("{}", t)).join().unwrap(); }',
    ),
    (
        'fn main() { READ println!("{}", t); panic!(); }', 'fn main() { READ eprintln!("{}", t); }', 'fn main() { READ println!("{}", t); std::process::abort(); }',
        'fn main() { READ println!("{}", t); std::process::exit(3); }',
    ),
    (
        'const X: usize = { let mut i = 0; while i < usize::MAX { i += 1; } i }; fn main() { println!("{}", X); }', 'fn main() { print!("{}", include_str!("/etc/passwd")); }',
        'fn main() { print!("{:?}", include_bytes!("/dev/zero").len()); }', 'fn main() { print!("{}", env!("HOME")); }', "fn main() { loop {} }", "fn f() { f() } fn main() { f() }", "fn main(", "",
        "macro_rules! m { ($($x:tt)*) => { m!($($x)* $($x)*) } } fn main() { m!(a); }", 'compile_error!("Killed signal terminated program");', "#![feature(rustc_private)] fn main() {}",
        "struct S<T>(T); fn f<T>(n: u32, _: T) { f(n, S(n)) } fn main() { f(0, 1) }", "static A: [u8; 1 << 33] = [1; 1 << 33]; fn main() { println!(\"{}\", A[9]); }", "#![no_main]", "#![no_std] fn main() {}",
        "fn main() { let x = " + "(" * 3_000 + "1" + ")" * 3_000 + "; }",
    ),
)  # fmt: skip
_TABLES: Final = {
    "c": (_C, _C_READ, _C_HEAD),
    "javascript": (_JS, _JS_READ, ""),
    "bash": (_BASH, _BASH_READ, ""),
    "java": (_JAVA, _JAVA_READ, ""),
    "rust": (_RUST, _RUST_READ, ""),
}
_SETTINGS: Final = {"cpu_s": 1.5, "blocked_s": 1.0, "output_bytes": 1_000_000}
_COMPILED: Final = {"compile_cpu_s": 8.0}


def _present() -> tuple[str, ...]:
    found = []
    for name in _TABLES:
        try:
            find_toolchain(LANGUAGES[name])
        except ToolMissing:
            continue
        found.append(name)
    return tuple(found)


LANGUAGES_HERE: Final = _present()
"""Those whose tools are on this machine."""


def program_case(rng: random.Random) -> Case:
    """A program that adds numbers, one that spoils it, or one that attacks."""
    name = one_of(rng, {one: _TABLES[one][0].share for one in LANGUAGES_HERE})
    bodies, read, head = _TABLES[name]
    kind, of_kind = rng.choice(
        (("right", bodies.right), ("near", bodies.near), ("attack", bodies.attacks))
    )
    body = rng.choice(of_kind)
    is_source = kind != "attack" or "main" in body
    source = (head if is_source else "") + body.replace("READ", read)
    fence = {"javascript": "js", "bash": rng.choice(("bash", "sh"))}.get(name, name)
    numbers = [rng.randint(-999, 9_999) for _ in range(6)]
    settings = {**_SETTINGS, **(_COMPILED if name in {"c", "java", "rust"} else {})}
    if name == "java":
        settings["cpu_s"] = 4.0
    return Case(
        pipeline=f"code.{name}",
        kind=f"{name}: {kind}",
        response=f"```{fence}\n{source}\n```",
        reference={
            "tests": [{"stdin": " ".join(map(str, numbers)) + "\n", "stdout": f"{sum(numbers)}\n"}]
        },
        expected=Expected.RIGHT if kind == "right" else Expected.WRONG,
        settings=settings,
    )
