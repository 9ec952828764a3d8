"""Running Python code in a forked process as an interpreter that was just started would.

Loaded by the zygote: standard library only, and little of it.
"""

import atexit
import contextlib
import gc
import marshal
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, TracebackType
from typing import Any, Final, NoReturn, TextIO

from assay.sandbox.box.channel import python_part, python_request
from assay.sandbox.box.renewal import renew

_FIRST: Final[list[Any]] = [sys.stdin, sys.stdout, sys.stderr]
"""The streams that a program begins with; it may replace every name of theirs."""
_REHEARSALS: Final = 40
"""An interpreter specialises code after a few calls, and stops to count some calls later."""
_REHEARSED: Final = b"""\0
import sys

def main():
    number = int(input())
    numbers = [number + at for at in range(3)]
    words = " ".join(map(str, sorted(numbers))).split()
    print(len(words), *words, f"{number}")

main()
print(sys.stdin.read())
"""


def run_source(where: str, source: bytes, argv: Sequence[str], env: dict[str, str]) -> NoReturn:
    """Run like `python program.py ARGS` in `where`, without starting an interpreter.

    `source` is a prelude, a NUL (which Python text cannot contain), and the program.
    """
    set_variables(env)
    program = _program(where, source, argv)
    gc.enable()
    os._exit(exit_code_of(program, hidden_frames=2))


def _program(where: str, source: bytes, argv: Sequence[str]) -> Callable[[], None]:
    """Make the module of a program, and return what runs it."""
    prelude, _, source = source.partition(b"\0")
    path = f"{where}/{argv[0]}"
    main = ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    sys.argv[:] = argv
    sys.path.insert(0, where)

    def program() -> None:
        if prelude:
            exec(compile(prelude, "preamble", "exec", dont_inherit=True), {})  # noqa: S102 - as below
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102 - this is the purpose of the sandbox

    return program


def exit_code_of(run: Callable[[], None], hidden_frames: int) -> int:
    """Call `run`, shut down as the interpreter does after its main program; return its exit code.

    Args:
        run: the main program.
        hidden_frames: number of Assay's frames at the head of its tracebacks.
    """
    main = sys.modules["__main__"]
    code = 0
    try:
        run()
    except SystemExit as leaving:
        code = _exit_code(leaving)
    except BaseException as error:  # noqa: BLE001 - any exception of the program is shown
        code = 1
        trace = sys.exc_info()[2]
        for _ in range(hidden_frames):
            trace = trace.tb_next if trace else None
        _show(error, trace)
    return _finalize(code, main)


# What follows reads a program's objects by the methods of their builtin bases: a program may
# have replaced its own.
def _show(error: BaseException, trace: TracebackType | None) -> None:
    """Show `error` by the program's hook, which may be gone, or fail itself."""
    hook = getattr(sys, "excepthook", sys.__excepthook__)
    BaseException.with_traceback(error, trace)
    with contextlib.suppress(BaseException):
        try:
            hook(type(error), error, trace)
        except BaseException:  # noqa: BLE001 - a hook of the program may raise anything
            traceback.print_exc()
            sys.__excepthook__(type(error), error, trace)


def _exit_code(leaving: SystemExit) -> int:
    value: object
    try:
        value = leaving.code
    except BaseException:  # noqa: BLE001 - a property of the program; then as the interpreter does
        value = leaving
    if value is None:
        return 0
    if issubclass(type(value), int):
        number = int.__add__(value, 0)  # type: ignore[operator]  # an integer, whatever its class
        return number & 0xFF if -(1 << 63) <= number < 1 << 63 else 0xFF
    with contextlib.suppress(BaseException):
        (getattr(sys, "stderr", None) or _FIRST[2]).write(f"{value}\n")
    return 1


def _finalize(code: int, main: ModuleType) -> int:
    """Shut down in the interpreter's order (`Py_FinalizeEx`), whatever names the program deleted.

    Threads and exit hooks; then the streams are flushed, while the program's globals are there (a
    stream of its own may need them); then the globals go, and with them what they alone held, such
    as open files; last, the first streams are flushed, into which a destructor may have written.
    """
    threading: Any = sys.modules.get("threading")
    exits: Any = atexit
    try:
        if threading is not None:
            threading._shutdown()  # noqa: SLF001 - what the interpreter itself calls here
        exits._run_exitfuncs()  # noqa: SLF001 - the same
    except BaseException:  # noqa: BLE001 - exit hooks of the program may raise anything
        traceback.print_exc()
    return _left(code, main)


def _left(code: int, main: ModuleType) -> int:
    """The streams and the globals of a program that has ended; returns its exit code."""
    whole = _flushed(getattr(sys, "stdout", None), getattr(sys, "stderr", None))
    sys.stdin, sys.stdout, sys.stderr = _FIRST
    main.__dict__.clear()
    gc.collect()
    whole = _flushed(*_FIRST[1:]) and whole
    return code if whole else code or 120


def _flushed(*streams: TextIO | None) -> bool:
    """Whether all could be flushed; a program may put anything in the place of a stream."""
    whole = True
    for stream in streams:
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException:  # noqa: BLE001 - a stream of the program may raise anything
            whole = False
    return whole


def rehearse() -> None:
    """Run a small program several times in the zygote.

    What an interpreter does for the first times it does by writing: to the caches of types, to the
    counters of code until that is specialised, to tables of addresses in libraries. Each box would
    write the same to copies of its own, of a hundred pages.
    """
    before = sys.modules["__main__"], list(sys.argv), list(sys.path)
    with _descriptors_kept():
        reader, writer = os.pipe()
        for _ in range(_REHEARSALS):
            stdin = os.memfd_create("stdin", os.MFD_CLOEXEC)
            os.pwrite(stdin, b"1\n", 0)
            for number, descriptor in enumerate((stdin, writer, writer)):
                os.dup2(descriptor, number)
            os.close(stdin)
            renew_standard_streams()
            _rehearse_once()
            os.read(reader, 1 << 16)
        os.close(reader)
        os.close(writer)
    sys.modules["__main__"], sys.argv[:], sys.path[:] = before


def _rehearse_once() -> None:
    renew()
    run = python_part(_request())
    set_variables(run["env"])
    program = _program("/box", run["source"], run["argv"])
    main = sys.modules["__main__"]
    program()
    _left(0, main)


def _request() -> int:
    run = {"argv": ("program.py",), "env": _prepared, "source": _REHEARSED}
    descriptor = os.memfd_create("request", os.MFD_CLOEXEC)
    os.write(descriptor, python_request(marshal.dumps(run)))
    return descriptor


@contextlib.contextmanager
def _descriptors_kept() -> Iterator[None]:
    """Put 0, 1 and 2 back at the end."""
    kept = [os.dup(number) for number in range(3)]
    try:
        yield
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


_prepared: dict[str, str] = {}
"""The variables that the zygote has set for the programs to come."""


def prepare_variables(env: dict[str, str]) -> None:
    """Set, in the zygote, the variables that nearly every program gets: each copies a page."""
    set_variables(env)
    _prepared.update(env)


def set_variables(env: dict[str, str]) -> None:
    """Make `env` all of this process's variables; those that are so already cost nothing."""
    for name in _prepared.keys() - env.keys():
        del os.environ[name]
    for name, value in env.items():
        if _prepared.get(name) != value:
            os.environ[name] = value


def prepare_standard_streams() -> None:
    """Open, in the zygote, the streams of the programs to come.

    A stream asks its descriptor only when it is opened: whether it can seek, and how large its
    buffer is to be. So 0, 1 and 2 are then of the kinds that every program gets: a sealed file in
    memory and two pipes. A program need not open its own, nor put them in their places: both copy
    pages. What the zygote itself writes to them goes to its own descriptors 1 and 2.
    """
    with _descriptors_kept():
        stdin = os.memfd_create("stdin", os.MFD_CLOEXEC)
        reader, writer = os.pipe()
        for number, descriptor in enumerate((stdin, writer, writer)):
            os.dup2(descriptor, number)
        renew_standard_streams()
        for descriptor in (stdin, reader, writer):
            os.close(descriptor)


def renew_standard_streams() -> None:
    """Replace this process's streams by new ones on descriptors 0, 1 and 2."""
    streams: Any = _open_standard_streams()
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]  # as at a start
    _FIRST[:] = streams


def _open_standard_streams() -> list[TextIO]:
    """Text streams on descriptors 0, 1 and 2."""
    return [
        open(0, encoding="utf-8", errors="surrogateescape", closefd=False),
        open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False),
        open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False),
    ]
