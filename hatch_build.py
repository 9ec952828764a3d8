"""Build hook: compile the C into the wheel, or in place for an editable install.

Two libraries are made from `runtime/assay/rollout/native/`: `libassay_rollout.so`, the runtime, and
`libassay_guard.so`, the allocation counter that the hot-path guard preloads; one from
`services/assay/sandbox/native/`: `libassay_box.so`, pid 1 of the sandbox's boxes. Only a C11
compiler is needed (`$CC`, else `cc`). `python hatch_build.py` compiles in place, without
installing.

They are Linux only, and clients do not need them: without a compiler, or on another system, the
wheel is made without the libraries, tagged for every platform. `assay.rollout` then raises
`NativeUnavailable` when it is used, and boxes are set up in Python, at twice the cost.
`ASSAY_NATIVE=required` makes that case an error instead.

With `ASSAY_COMPILED=required` the wheel also has the planner's loops as machine code, for the
Python that builds it (`assay.planner.process.shipped_code`): the build then needs numba.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("runtime/assay/rollout/native")
BOX = Path("services/assay/sandbox/native")
OBJECTS = Path("build/native")
PRELOAD = "guard_preload"
FLAGS = ["-std=c11", "-O3", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-pthread"]
INIT_FLAGS = [
    *("-std=c11", "-Os", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-fno-pic"),
    *("-fno-stack-protector", "-U_FORTIFY_SOURCE", "-fno-asynchronous-unwind-tables"),
]
INIT_LINK_FLAGS = ["-static", "-nostdlib", "-no-pie", "-s", "-Wl,--build-id=none"]

REQUIRED_VARIABLE = "ASSAY_NATIVE"
"""Set to `required`: no wheel without the libraries."""
COMPILED_VARIABLE = "ASSAY_COMPILED"
"""Set to `required`: the planner's machine code is in the wheel."""
ROOTS = ("services", "runtime", "simulator", "proto")
PLANNER = "assay/planner/compiled"


class NativeImpossible(RuntimeError):
    """The libraries cannot be compiled here; the message says what is missing."""


def compiler() -> str:
    """Return the path of the C compiler: `$CC` if set, else `cc`.

    Raises:
        NativeImpossible: there is none, or this is not Linux.
    """
    if sys.platform != "linux":
        raise NativeImpossible(f"assay's rollout runtime needs Linux, and this is {sys.platform}")
    name = os.environ.get("CC", "cc")
    found = shutil.which(name)
    if found is None:
        raise NativeImpossible(
            f"assay needs a C11 compiler to build its rollout runtime and found no {name!r}:"
            " install gcc or clang (Debian: apt-get install gcc libc6-dev), or name one in $CC"
        )
    return found


def run(command: list[str]) -> None:
    """Run a compiler command; its error output becomes the message of the error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")


def compile_objects(sources: list[Path], objects: Path, flags: list[str]) -> list[Path]:
    """Compile in parallel; keep objects that are newer than their source and every header."""
    objects.mkdir(parents=True, exist_ok=True)
    headers_ns = max(h.stat().st_mtime_ns for s in sources for h in s.parent.glob("*.h"))

    def compile_one(source: Path) -> Path:
        made = objects / f"{source.stem}.o"
        newest_ns = max(headers_ns, source.stat().st_mtime_ns)
        if not made.exists() or made.stat().st_mtime_ns < newest_ns:
            scratch = made.with_suffix(f".{os.getpid()}.tmp")
            run([compiler(), *flags, "-c", str(source), "-o", str(scratch)])
            scratch.replace(made)
        return made

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(compile_one, sources))


def link(objects: list[Path], output: Path, flags: list[str]) -> Path:
    """Link one shared library; it replaces the old file, which running processes keep."""
    scratch = output.with_suffix(f".{os.getpid()}.tmp")
    run([compiler(), *flags, "-shared", "-o", str(scratch), *map(str, objects), "-lm", "-ldl"])
    scratch.replace(output)
    return output


def build(
    native: Path, objects: Path, *, sanitize: str = "", output: Path | None = None
) -> list[Path]:
    """Compile both libraries and return their paths.

    Args:
        native: folder of the sources.
        objects: folder for object files, kept between builds.
        sanitize: value of `-fsanitize`; empty: none.
        output: folder for the libraries; by default that of the sources.
    """
    extra = [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer"] if sanitize else []
    flags = [*FLAGS, *extra]
    output = output or native
    output.mkdir(parents=True, exist_ok=True)
    folder = objects / (sanitize.replace(",", "-") or "plain")
    made = compile_objects(sorted(native.glob("*.c")), folder, flags)
    guard = [o for o in made if o.stem == PRELOAD]
    return [
        link([o for o in made if o not in guard], output / "libassay_rollout.so", flags),
        link(guard, output / "libassay_guard.so", FLAGS),
    ]


def build_box(native: Path, objects: Path) -> Path:
    """Compile the sandbox's library in the folder of its sources and return its path."""
    objects = objects.absolute() / "box"
    flags = list(FLAGS)
    if platform.machine() == "x86_64":
        flags.append(f'-DBOX_INIT="{build_init(native, objects / "init")}"')
        # An object that is newer than its own source contains the program as it was.
        (objects / "apart.o").unlink(missing_ok=True)
    made = compile_objects(sorted(native.glob("*.c")), objects, flags)
    return link(made, native / "libassay_box.so", FLAGS)


def build_init(native: Path, objects: Path) -> Path:
    """Compile what pid 1 of a box becomes, a program without a C library, for the library."""
    made = compile_objects([*native.glob("init/*.c"), native / "await.c"], objects, INIT_FLAGS)
    scratch = objects / f"init.{os.getpid()}.tmp"
    run([compiler(), *INIT_LINK_FLAGS, "-o", str(scratch), *map(str, made)])
    return scratch.replace(objects / "init")


COMPILE = """
import runpy, sys
sys.path[:0] = sys.argv[2:]
runpy.run_module("assay.planner.process.shipped_code", run_name="__main__", alter_sys=True)
"""


def compile_plans(root: Path, output: Path) -> Path:
    """Compile the planner's loops into a folder; returns it.

    Its process finds what pip installed for the build as this one does, by the environment. The
    sources are put on its path afterwards: pip takes away what the outer environment has there.
    """
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    roots = [str(root / one) for one in ROOTS]
    command = [sys.executable, "-c", COMPILE, str(output), *roots]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return output


class NativeBuildHook(BuildHookInterface[Any]):
    """Runs `build` for wheels and editable installs, and ships what it made."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs: to compile the planner's loops, all that its service needs."""
        if os.environ.get(COMPILED_VARIABLE) != "required":
            return []
        core = self.metadata.core
        extras = [*core.optional_dependencies["server"], *core.optional_dependencies["planner"]]
        own = f"{core.name}["  # an extra that names another one
        return [*core.dependencies, *(one for one in extras if not one.startswith(own))]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, include the libraries, and mark the wheel as made for this platform.

        Raises:
            NativeImpossible: as its name says, and the libraries are required.
            RuntimeError: the compiler reports an error.
        """
        if os.environ.get(COMPILED_VARIABLE) == "required" and version != "editable":
            made = compile_plans(Path(self.root), Path(self.root, "build/compiled"))
            build_data["force_include"][str(made)] = PLANNER
        try:
            compiler()
        except NativeImpossible as reason:
            if os.environ.get(REQUIRED_VARIABLE) == "required":
                raise
            self.app.display_warning(f"without the rollout runtime: {reason}")
            return
        root = Path(self.root)
        libraries = build(root / NATIVE, root / OBJECTS)
        libraries.append(build_box(root / BOX, root / OBJECTS))
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{system}"
        build_data["artifacts"].extend(str(p.relative_to(self.root)) for p in libraries)


if __name__ == "__main__":
    HERE = Path(__file__).parent
    for path in (*build(HERE / NATIVE, HERE / OBJECTS), build_box(HERE / BOX, HERE / OBJECTS)):
        sys.stdout.write(f"{path}\n")
