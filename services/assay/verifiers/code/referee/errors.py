"""The program's exceptions as the tests see them: real exceptions with a builtin base class."""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING, Any, Final

from assay.verifiers.code.referee.values import TEXT_CHARS_MAX, Malformed, Value, type_of

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType, TracebackType

    Ask = Callable[..., Value]
    """Send an operation with its operands to the program; its answer."""

PARENTS_MAX: Final = 8
_HELPERS_MAX: Final = 3
"""Functions of the tests that call each other before one asserts."""
_SHOWN_MAX: Final = 10**100
_LIBRARY: Final = frozenset(
    {"dataclasses", "json.decoder", "decimal", "queue", "_queue", "asyncio.exceptions", "fractions"}
    | {"concurrent.futures._base", "statistics", "struct", "zlib", "configparser", "_csv", "re"}
    | {"re._constants", "copy", "graphlib", "ipaddress", "binascii", "sqlite3", "subprocess"}
)
"""Modules whose exception classes are kept. Modules with exceptions that a test runner does not
treat as errors, such as `unittest.SkipTest`, are left out."""


def exception_class(
    ask: Ask, form: list[Any], understood: Callable[[list[Any]], object]
) -> type[BaseException]:
    """A class of the program: `["h", number, "exception", name, parents]`.

    Parents are names of builtins or forms of other exception classes, which `understood` reads. So
    `except` finds a class by one that it is derived from in the program.
    """
    _, number, _, name, parents = form
    name = name[:80] if type_of(name) is str and name.isidentifier() else "object"
    if type_of(parents) is not list or not 0 < len(parents) <= PARENTS_MAX:
        raise Malformed("an exception class without parents")
    found: list[type[BaseException]] = []
    for parent in parents:
        kind = understood(parent) if type_of(parent) is list else exception_named(parent)
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            continue
        if not any(issubclass(known, kind) for known in found):
            found.append(kind)
    return _exception_class(ask, number, name, found or [Exception])


def library_exception(form: list[Any]) -> type[BaseException] | None:
    """A class of the standard library, `["xs", module, name]`, if the tests have loaded it."""
    _, module, name = form
    if type_of(module) is not str or type_of(name) is not str:
        raise Malformed("an invalid class name")
    if module not in _LIBRARY or module not in sys.modules:
        return None
    found = vars(sys.modules[module]).get(name)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def exception_named(name: object) -> type[BaseException]:
    found = getattr(builtins, name, None) if type_of(name) is str else None  # type: ignore[call-overload]
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    return Exception


def _exception_class(
    ask: Ask, number: int, name: str, parents: Sequence[type[BaseException]]
) -> type[BaseException]:
    """Represents an exception class of the program in the tests."""
    libraries = [
        next(
            kind
            for kind in parent.__mro__
            if "_assay_number" not in vars(kind) and issubclass(kind, BaseException)
        )
        for parent in parents
    ]
    base: type[BaseException] = max(libraries, key=lambda kind: len(kind.__mro__))

    def attribute(self: Value, wanted: str) -> Value:
        if wanted.startswith("__"):
            raise AttributeError(wanted)
        if "_assay_proxy" not in self.__dict__:  # created by the tests: the program creates it too
            made = ask("call", type_of(self), self.args, {})
            own = made.__dict__ if isinstance(made, BaseException) else {}
            self.__dict__["_assay_proxy"] = own.get("_assay_proxy")
        if self.__dict__["_assay_proxy"] is None:
            raise AttributeError(wanted)
        return getattr(self.__dict__["_assay_proxy"], wanted)

    members = {
        "_assay_number": number,
        "__getattr__": attribute,
        "__init__": lambda self, *given: BaseException.__init__(self, *given),
        "__new__": lambda kind, *given: base.__new__(kind, *given),
        "__str__": lambda self: self.__dict__.get("_assay_text") or base.__str__(self),
    }
    try:
        return type_of(name, tuple(parents), members)
    except TypeError:  # parents that Python does not combine
        return type_of(name, (base,), members)


def said_by(error: BaseException) -> str:
    """Describe an exception without a request to the program; never raises."""
    text = error.__dict__.get("_assay_text")
    if type_of(text) is not str:
        text = " ".join(_shown(given) for given in error.args[:5])
    return f"{type_of(error).__name__}: {text}"[:TEXT_CHARS_MAX]


def _shown(value: object) -> str:
    kind = type_of(value)
    if kind is str:
        return str(value)[:TEXT_CHARS_MAX]
    if kind is int:
        return str(value) if abs(int(value)) < _SHOWN_MAX else "(a large integer)"  # type: ignore[call-overload]
    return repr(value) if kind in (bool, float, type(None)) else f"({kind.__name__})"


DETAILS: Final = (
    *("msg", "doc", "pos", "lineno", "colno", "pattern"),
    *("returncode", "cmd", "output", "stderr", "timeout"),
)
"""Attributes of exceptions of the standard library, such as `JSONDecodeError`, that are data."""
_DETAIL_TYPES: Final = (type(None), bool, int, float, str, bytes, list, tuple)
NOTES_MAX: Final = 20


def describe(error: BaseException, details: Value) -> None:
    """Give a rebuilt exception what the program said beside its class and its arguments.

    Args:
        details: its cause, its context, whether that is hidden, its notes, and attributes by name.

    Raises:
        Malformed: they do not describe an exception.
    """
    if type_of(details) is not tuple or len(details) != 5:
        raise Malformed("no details of an exception")
    cause, context, hidden, notes, named = details
    error.__cause__ = cause if isinstance(cause, BaseException) else None
    error.__context__ = context if isinstance(context, BaseException) else None
    error.__suppress_context__ = hidden is True
    if type_of(notes) is not list or type_of(named) is not dict:
        raise Malformed("no notes of an exception")
    for note in notes[:NOTES_MAX]:
        if type_of(note) is str:
            error.add_note(note[:TEXT_CHARS_MAX])
    for name, value in named.items():
        if name in DETAILS and type_of(value) in _DETAIL_TYPES:
            error.__dict__[name] = value


def text_of(error: BaseException) -> str:
    """The text of an exception of the tests; it may hold an object of the program."""
    try:
        return str(error)[:TEXT_CHARS_MAX]
    except Exception:  # noqa: BLE001 - whatever the program raises
        return said_by(error)


def plain_exception(kind: type[BaseException], text: str) -> BaseException:
    made = BaseException.__new__(kind)
    made.args = (text,)
    return made


class Control:
    """Exceptions of the program that Python itself would take for the end of a loop or of a task,
    and context managers of the program that end a block before the tests have asserted.

    `all(map(check, cases))` is true when `check` raises `StopIteration`; a group of tasks ignores a
    task that raises `CancelledError`. So it is changed unless the tests that are running name it.
    """

    _ENDS: Final = frozenset({"StopIteration", "StopAsyncIteration", "CancelledError"})
    _ITERATING: Final = frozenset(
        {"next", "send", "throw", "async_next", "async_send", "async_throw", "iter", "async_iter"}
    )

    def __init__(self, sources: Mapping[str, str]) -> None:
        """Remember the tests: file name in a traceback -> text."""
        self._sources = sources

    def changed(self, error: BaseException, operation: str) -> BaseException | None:
        """The exception to raise instead; `None` if `error` may be raised by this operation."""
        names = [kind.__name__ for kind in type_of(error).__mro__]
        name = next((name for name in names if name in self._ENDS), "")
        if not name:
            return None
        iterates = operation in self._ITERATING and name != "CancelledError"
        if iterates or any(name in text for text in self._running()):
            return None
        return RuntimeError(f"the program raised {name}")

    def skips_assertions(self, trace: TracebackType | None) -> bool:
        """Whether ending the `with` block at the first place of `trace` would skip assertions.

        An assertion of a constant (`assert False, "not reached"`) is meant to be skipped.
        """
        text = self._sources.get(trace.tb_frame.f_code.co_filename) if trace else None
        if trace is None or text is None:
            return False
        import ast  # few tests need it, and it loads slowly

        line = trace.tb_lineno
        blocks = [
            node
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.With | ast.AsyncWith)
            and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        head = trace.tb_frame.f_lineno  # while its block is left, a frame is at the block's head
        left = [node for node in blocks if node.lineno <= head <= _last_line_of_head(node)]
        asserting = self._asserting() if blocks else frozenset()
        return any(
            last >= line
            for node in left or blocks
            if not _expects_failures(node)
            for last in _lines_of_assertions(node, asserting)
        )

    def _asserting(self) -> frozenset[str]:
        """Functions of the tests that assert, or call one that does."""
        import ast  # as above

        functions = [
            node
            for text in self._sources.values()
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        found: frozenset[str] = frozenset()
        for _ in range(_HELPERS_MAX):
            found |= {one.name for one in functions if any(_lines_of_assertions(one, found))}
        return found

    def _running(self) -> Iterator[str]:
        """The texts of the tests that are on the stack."""
        frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the only way to the stack
        while frame is not None:
            text = self._sources.get(frame.f_code.co_filename)
            if text is not None:
                yield text
            frame = frame.f_back


def _last_line_of_head(block: ast.With | ast.AsyncWith) -> int:
    return max(block.lineno, block.body[0].lineno - 1)


def _expects_failures(block: ast.With | ast.AsyncWith) -> bool:
    """Whether the block names `AssertionError` for anything but to raise it."""
    import ast  # as above

    raised = {
        id(inner)
        for node in ast.walk(block)
        if isinstance(node, ast.Raise)
        for inner in ast.walk(node)
    }
    return any(
        isinstance(node, ast.Name) and node.id == "AssertionError" and id(node) not in raised
        for node in ast.walk(block)
    )


def _lines_of_assertions(
    block: ast.With | ast.AsyncWith | ast.FunctionDef | ast.AsyncFunctionDef,
    asserting: frozenset[str],
) -> Iterator[int]:
    """The last line of each assertion in the block; a call of a function in `asserting` is one, and
    so is an `AssertionError` that is raised on a condition."""
    import ast  # as above

    for statement in block.body:
        for node in ast.walk(statement):
            asserts = isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant)
            if isinstance(node, ast.Call):
                name = _name_called(node)
                asserts = name.startswith("assert") or name in asserting
            if isinstance(node, ast.Raise) and node.exc is not None and node is not statement:
                asserts = any(
                    isinstance(inner, ast.Name) and inner.id == "AssertionError"
                    for inner in ast.walk(node.exc)
                )
            if asserts and isinstance(node, ast.stmt | ast.expr):
                yield node.end_lineno or node.lineno


def _name_called(call: ast.Call) -> str:
    found = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
    return str(found)
