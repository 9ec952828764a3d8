"""The languages beside Python and C++, as data. Pure.

Each program reads standard input and writes standard output. `commands.py` has the command lines,
`toolchains.py` finds the tools.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from assay.sandbox.port import MIB, Limits
from assay.verifiers.code.source import choices

GIB: Final = 1_024 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A language and what its programs need to run."""

    name: str
    """In the names of its pipelines: `code.NAME`, `run.NAME`."""
    title: str
    words: frozenset[str]
    """Words after the fence of a block, in lower case."""
    begins: str = ""
    """An expression that matches in every program of it; empty: there is none."""
    tools: tuple[str, ...]
    """Programs that have to be on `PATH`."""
    source: str
    """Name of the source file; for Java, a public class decides."""
    built: str = ""
    """Name of the compiled program; empty: the source itself is run."""
    empty: str
    """A program that does nothing."""
    echo: str
    """A program that prints its input."""
    runtime_bytes: int = 0
    """Memory of the runtime itself, on top of what a task allows the program."""
    reserved_bytes: int = 0
    """Addresses that the runtime reserves without using them."""
    threads: int = 0
    """Threads of the runtime itself, on top of what a box allows."""

    @property
    def is_compiled(self) -> bool:
        """Whether there is a compilation, which can fail."""
        return bool(self.built)

    @property
    def file(self) -> str:
        """The file that is run."""
        return self.built or self.source

    def bounded(self, limits: Limits) -> Limits:
        """Bounds of a box in which the runtime has its own share beside the program's."""
        return Limits(
            cpu_s=limits.cpu_s,
            blocked_s=limits.blocked_s,
            memory_bytes=limits.memory_bytes + self.runtime_bytes,
            address_bytes=2 * limits.memory_bytes + self.runtime_bytes + self.reserved_bytes,
            processes=limits.processes + self.threads,
            output_bytes=limits.output_bytes,
        )


C: Final = Language(
    name="c",
    title="C",
    begins=choices.MAIN,
    words=frozenset({"c", "c11", "c17", "c99", "ansi-c", "gcc", "gnu"}),
    tools=("gcc",),
    source="program.c",
    built="program",
    empty="int main(void) { return 0; }\n",
    echo=(
        "#include <stdio.h>\n"
        "int main(void) { int c; while ((c = getchar()) != EOF) putchar(c); return 0; }\n"
    ),
)
JAVA: Final = Language(
    name="java",
    title="Java",
    begins=choices.MAIN,
    words=frozenset({"java", "java8", "java11", "java17", "java21"}),
    tools=("javac", "java"),
    source="Main.java",
    built="program.jar",
    empty="public class Main { public static void main(String[] args) { } }\n",
    echo=(
        "public class Main { public static void main(String[] args) throws Exception {\n"
        "  System.in.transferTo(System.out); System.out.flush(); } }\n"
    ),
    runtime_bytes=224 * MIB,
    reserved_bytes=4 * GIB,
    threads=32,
)
JAVASCRIPT: Final = Language(
    name="javascript",
    title="JavaScript",
    words=frozenset(
        {"javascript", "js", "node", "nodejs", "mjs", "cjs", "jsx", "ecmascript", "es"}
    ),
    tools=("node",),
    source="program.js",
    empty="\n",
    echo="process.stdin.pipe(process.stdout);\n",
    runtime_bytes=128 * MIB,
    reserved_bytes=4 * GIB,
    threads=16,
)
TYPESCRIPT: Final = Language(
    name="typescript",
    title="TypeScript",
    words=frozenset({"typescript", "ts"}),
    tools=("esbuild", "node"),
    source="program.ts",
    built="program.js",
    empty="const nothing: number = 0;\n",
    echo="process.stdin.pipe(process.stdout);\n",
    runtime_bytes=128 * MIB,
    reserved_bytes=4 * GIB,
    threads=16,
)
GO: Final = Language(
    name="go",
    title="Go",
    begins=r"^\s{0,12}func\s{1,8}main\s{0,8}\(",
    words=frozenset({"go", "golang"}),
    tools=("go",),
    source="program.go",
    built="program",
    empty="package main\n\nfunc main() {}\n",
    echo=(
        'package main\n\nimport (\n\t"io"\n\t"os"\n)\n\n'
        "func main() { io.Copy(os.Stdout, os.Stdin) }\n"
    ),
    runtime_bytes=32 * MIB,
    reserved_bytes=2 * GIB,
    threads=32,
)
RUST: Final = Language(
    name="rust",
    title="Rust",
    begins=r"^[^\n/\"]{0,80}\bfn\s{1,8}main\s{0,8}\(",
    words=frozenset({"rust", "rs", "rust-lang"}),
    tools=("rustc", "cc"),
    source="program.rs",
    built="program",
    empty="fn main() {}\n",
    echo=("fn main() { std::io::copy(&mut std::io::stdin(), &mut std::io::stdout()).unwrap(); }\n"),
)
BASH: Final = Language(
    name="bash",
    title="Bash",
    words=frozenset(
        {"bash", "sh", "shell", "zsh", "ksh", "dash", "posix", "shellscript", "shell-script"}
    ),
    tools=("bash",),
    source="program.sh",
    empty=":\n",
    echo="cat\n",
)
CPP: Final = Language(
    name="cpp",
    title="C++",
    begins=choices.MAIN,
    words=choices.CPP - {"c"},
    tools=("g++",),
    source="program.cpp",
    built="program",
    empty="int main() { return 0; }\n",
    echo="#include <iostream>\nint main() { std::cout << std::cin.rdbuf(); }\n",
)
PYTHON: Final = Language(
    name="python",
    title="Python",
    words=choices.PYTHON,
    tools=(),
    source="program.py",
    empty="pass\n",
    echo="import sys\nsys.stdout.write(sys.stdin.read())\n",
)
LANGUAGES: Final[Mapping[str, Language]] = MappingProxyType(
    {one.name: one for one in (C, JAVA, JAVASCRIPT, TYPESCRIPT, GO, RUST, BASH)}
)
"""The languages with pipelines here; those of Python and C++ are in `assay.verifiers.code`."""
ALL_LANGUAGES: Final[Mapping[str, Language]] = MappingProxyType(
    {**LANGUAGES, CPP.name: CPP, PYTHON.name: PYTHON}
)
