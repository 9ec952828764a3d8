"""Running Python code in a forked process as an interpreter that was just started would.

Loaded by the zygote: standard library only, and little of it.
"""

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, NoReturn, TextIO

_FIRST: Final[list[Any]] = [sys.stdin, sys.stdout, sys.stderr]
"""The streams that a program begins with; it may replace every name of theirs."""


def run_source(where: str, source: bytes, argv: Sequence[str], env: dict[str, str]) -> NoReturn:
    """Run like `python program.py ARGS` in `where`, without starting an interpreter.

    `source` is a prelude, a NUL (which Python text cannot contain), and the program.
    """
    prelude, _, source = source.partition(b"\0")
    path = f"{where}/{argv[0]}"
    os.environ.clear()
    os.environ.update(env)
    renew_standard_streams()
    main = ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    sys.argv[:] = argv
    sys.path.insert(0, where)
    gc.enable()

    def program() -> None:
        if prelude:
            exec(compile(prelude, "preamble", "exec", dont_inherit=True), {})  # noqa: S102 - as below
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102 - this is the purpose of the sandbox

    os._exit(exit_code_of(program, hidden_frames=2))


def exit_code_of(run: Callable[[], None], hidden_frames: int) -> int:
    """Call `run`, shut down as the interpreter does after its main program; return its exit code.

    Args:
        run: the main program.
        hidden_frames: number of Assay's frames at the head of its tracebacks.
    """
    code = 0
    try:
        run()
    except SystemExit as leaving:
        code = _exit_code(leaving.code)
    except BaseException as error:  # noqa: BLE001 - any exception of the program is shown
        code = 1
        trace = error.__traceback__
        for _ in range(hidden_frames):
            trace = trace.tb_next if trace else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    return _finalize(code)


def _exit_code(value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value & 0xFF
    sys.stderr.write(f"{value}\n")
    return 1


def _finalize(code: int) -> int:
    """Shut down in the interpreter's order (`Py_FinalizeEx`).

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
    whole = _flushed(sys.stdout, sys.stderr)
    sys.stdin, sys.stdout, sys.stderr = _FIRST
    sys.modules["__main__"].__dict__.clear()
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


def renew_standard_streams() -> None:
    """Open text streams on descriptors 0, 1 and 2, to replace the zygote's."""
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]  # as at a start
    _FIRST[:] = sys.stdin, sys.stdout, sys.stderr
