"""The candidate's process: runs the program and serves the referee's requests on its module.

Nothing here is trusted by the referee: the program may change all of it.
"""

from __future__ import annotations

import builtins
import importlib
import json
import marshal
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from assay.verifiers.code.referee.errors import DETAILS, NOTES_MAX, PARENTS_MAX
from assay.verifiers.code.referee.frames import Frames
from assay.verifiers.code.referee.held import (
    HANDLES_MAX,
    KEPT_CHARS_MAX,
    Shared,
    kept_of,
)
from assay.verifiers.code.referee.library import PATH, path_form
from assay.verifiers.code.referee.operations import OPERATIONS, kind_of, linked
from assay.verifiers.code.referee.stand_ins import Printed, follow, stand_in
from assay.verifiers.code.referee.values import (
    TEXT_CHARS_MAX,
    Decoder,
    Encoder,
    Malformed,
    Value,
    WireForm,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULE: Final = "solution"
_ARGUMENTS_CHARS_MAX: Final = 1024 * 1024
"""Bound on an exception's arguments; a larger argument is cut to the beginning of its text."""
_MRO: Final = type.__dict__["__mro__"]
_BASES: Final = type.__dict__["__bases__"]
_OWN_MAX: Final = 20_000
"""Objects beside which an instance of a type derived from data is sent with its handle; beyond
them, only its value is sent, as for a list of very many."""
_CHAIN_MAX: Final = 6
"""Causes of causes of an exception."""
_CALLS: Final = frozenset({"call", "call_method", "make"})
"""Operations whose last operand are keywords."""
_MARSHAL_WITHOUT_REFERENCES: Final = 2
"""Later versions write equal values in different ways, depending on who else refers to them."""
_ANCESTORS_MAX: Final = 8
"""Generations of exception classes that are described."""


def _at_once() -> None:
    """The candidate waits for messages without a time limit."""


class _Given(NamedTuple):
    """The operands of a request."""

    operands: Value
    sent: bytes | None
    """Their form; `None` if the program cannot reach a container of them."""
    known: list[object]
    """All containers that both sides can name: shared ones, then those of the operands."""
    at: int
    """Where those of the operands begin."""
    shared: list[object]


def _sent(
    operation: str, forms: WireForm, operands: Value, containers: Sequence[object]
) -> bytes | None:
    """The form of operands; `None` if they are in no container that the program gets to see.

    The list of the operands does not count, nor do the keywords of a call, which Python copies.
    """
    unseen = [operands, operands[-1]] if operation in _CALLS else [operands]
    if all(any(one is other for other in unseen) for one in containers[: len(unseen) + 1]):
        return None
    return _written_out(forms)


def _written_out(form: WireForm) -> bytes:
    """Of the same JSON the same bytes; faster than JSON itself."""
    return marshal.dumps(form, _MARSHAL_WITHOUT_REFERENCES)


class Candidate:
    """Serves the referee's requests on the program's module."""

    def __init__(self, descriptor: int) -> None:
        self._frames = Frames(descriptor)
        self._objects: list[object] = []
        self._number_of: dict[int, int] = {}
        self._given: dict[int, tuple[object, WireForm]] = {}
        """Objects that the tests sent and the forms in which they were sent, by `id`."""
        self._built: dict[int, tuple[object, WireForm]] = {}
        """Linked nodes that were made for the tests and their forms, by `id`."""
        self._redirected: WireForm = [False, None, [], False]
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._replaced: list[tuple[ModuleType, str, Value]] = []
        """Functions in whose place those of the tests stand: module, name, the function."""
        self._module = ModuleType(MODULE)
        self._shared = Shared()

    def serve(self, payload: str) -> None:
        """Run the program, then answer until the referee hangs up.

        `payload` is a preamble, a NUL (which Python text cannot contain), and the program.
        """
        preamble, _, source = payload.partition("\0")
        self._module.__file__ = f"/box/{MODULE}.py"
        sys.modules[MODULE] = self._module
        try:
            _leave_source(self._module.__file__, source)
            exec(compile(preamble, "preamble", "exec", dont_inherit=True), {})  # noqa: S102 - as below
            code = compile(source, self._module.__file__, "exec", dont_inherit=True)
            exec(code, self._module.__dict__)  # noqa: S102 - this is the purpose of the box
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            _show(error)
            self._send_raised(error)
        else:
            self._frames.send(["ok", None, None, 0])
        try:
            while True:
                self._answer(self._frames.receive(_at_once))
        except EOFError:
            return

    def _answer(self, request: WireForm) -> None:
        operation, forms, streams, news, keeps, (dropped, refreshed) = request
        self._shared.drop(dropped)
        shared = self._shared.containers
        decoder = Decoder(self._resolve, shared)
        for number, contents in refreshed:
            decoder.refill(number, contents)
            self._shared.told(shared[number])
        at = len(decoder.numbered)
        operands = decoder.decode(forms)
        known = list(decoder.numbered)
        given = _Given(operands, _sent(operation, forms, operands, known[at:]), known, at, shared)
        self._redirect(streams)
        follow(news)
        try:
            result = OPERATIONS[operation](self, *operands)
            if operation == "make":
                self._frames.send(["ok", self._made(result), None, 0])
                return
            self._frames.send(self._reply(result, given, keeps))
        except StopIteration as error:
            self._frames.send(["end", self._encoder().encode(error.value)])
        except StopAsyncIteration:
            self._frames.send(["end", None])
        except BaseException as error:  # noqa: BLE001 - the program may raise anything
            self._send_raised(error)

    def _redirect(self, streams: WireForm) -> None:
        """Use the standard streams that the tests substituted for their own."""
        if streams == self._redirected:
            return
        self._redirected = streams
        captured, stdin, functions, complains = streams
        own_stdin, own_stdout, own_stderr = self._streams
        printed = Printed(lambda text: self._frames.send(["printed", text]))
        replaced: Value = {
            "stdout": printed if captured else own_stdout,
            "stdin": self._resolve(stdin) if stdin else own_stdin,
            "stderr": Printed(lambda text: self._frames.send(["complained", text]))
            if complains
            else own_stderr,
        }
        vars(sys).update(replaced)
        for module, name, own in self._replaced:
            vars(module)[name] = own
        self._replaced.clear()
        for module_name, name, form in functions:
            holder = importlib.import_module(module_name)
            names = vars(holder)
            if name in names:
                self._replaced.append((holder, name, names[name]))
                names[name] = self._resolve(form)

    def _made(self, result: object) -> WireForm:
        """Encode instances of the program's classes as objects, even if derived from data types."""
        if type_of(result).__module__ == MODULE:
            return self._numbered(result)
        return self._encoder().encode(result)

    def _reply(self, result: object, given: _Given, keeps: int) -> WireForm:
        encoder = self._encoder(given.known)
        form = encoder.encode(result)
        found = kept_of(encoder, len(given.known), keeps)
        chars = len(json.dumps(form)) if found else 0
        changed = self._shared.changed(given.shared)
        if given.sent is not None:
            before = Encoder(self._brief, given.known[: given.at], own=self._known)
            if _written_out(before.encode(given.operands)) != given.sent:
                changed += range(given.at, len(given.known))
        after = [[number, encoder.contents(given.known[number])] for number in changed]
        for number in changed:
            self._shared.told(given.known[number])
        if chars > KEPT_CHARS_MAX:
            chars = 0
        if chars:
            self._shared.add(found, chars)
        return ["ok", form, after or None, chars]

    def _encoder(self, known: Sequence[object] = ()) -> Encoder:
        return Encoder(self._handle, known, is_program=True, own=self._own)

    def _own(self, value: Value) -> WireForm:
        """The handle of an instance of a class of the program that is derived from data."""
        if type_of(value).__module__ != MODULE or len(self._objects) >= _OWN_MAX:
            return None
        return self._numbered(value)

    def _known(self, value: Value) -> WireForm:
        number = self._number_of.get(id(value))
        return None if number is None else ["h", number]

    def _handle(self, value: Value) -> WireForm:
        given = self._given.get(id(value))
        if given is not None:
            return given[1][:2]
        if (path := path_form(value)) is not None:
            return path
        if isinstance(value, BaseException):
            return ["x", *self._raised(value)[1:]]
        if type_of(value) is type and vars(builtins).get(_name_of(value)) is value:
            return ["y", _name_of(value)]
        return self._numbered(value)

    def _numbered(self, value: Value, depth: int = 0) -> WireForm:
        number = self._number_of.get(id(value))
        if number is None:
            number = len(self._objects)
            if number >= HANDLES_MAX:
                raise Malformed("too many objects")
            self._objects.append(value)
            self._number_of[id(value)] = number
        kind = kind_of(value)
        parents: WireForm = self._parents(value, depth) if kind == "exception" else ""
        return ["h", number, kind, _name_of(value), parents]

    def _parents(self, kind: Value, depth: int) -> WireForm:
        """What an exception class of the program is derived from, at last its builtin base."""
        bases = _BASES.__get__(kind) if depth < _ANCESTORS_MAX else ()
        own = [base for base in bases if issubclass(base, BaseException)]
        forms = [self._class_of(base, depth + 1) for base in own if not is_builtin(base)]
        return [*forms[: PARENTS_MAX - 1], builtin_base(kind)]

    def _brief(self, value: Value) -> WireForm:
        """The form in which the referee sent this object."""
        given = self._given.get(id(value)) or self._built.get(id(value))
        if given is not None:
            return given[1]
        if (path := path_form(value)) is not None:
            return path
        name: Value = getattr(value, "__name__", None)
        if type_of(name) is str and getattr(builtins, name, None) is value:
            return ["y", name]
        return ["h", self._number_of.get(id(value), -1)]

    def _resolve(self, form: list[Any]) -> object:
        if form[0] == "h":
            return self._objects[form[1]]
        if form[0] == "y":
            return getattr(builtins, form[1])
        if form[0] == "x":
            return self._remembered(_exception(self, form), form)
        if form[0] in ("k", "o", "I"):
            return self._remembered(stand_in(self.touch, form), form)
        if form[0] == "N":
            return self._nodes(form)
        if form[0] == PATH:
            return Path(form[1])
        raise Malformed("an unknown form")

    def _nodes(self, form: list[Any]) -> object:
        """Make linked nodes of the program's class, or of the class of the preamble."""
        name = form[1]
        kind: Value = self._module.__dict__.get(name) or vars(builtins).get(name) or _Node
        items = Decoder(self._resolve).decode(["t", form[2]])
        made = linked(kind, list(items), is_tree=name == "TreeNode")
        self._built[id(made)] = (made, form)
        return made

    def _remembered(self, value: object, form: WireForm) -> object:
        """The object that this number referred to before, if any."""
        known = self._number_of.get(-1 - form[1])
        if known is not None:
            return self._objects[known]
        if len(self._objects) >= HANDLES_MAX:
            raise Malformed("too many objects")
        self._number_of[-1 - form[1]] = len(self._objects)
        self._objects.append(value)
        self._given[id(value)] = (value, form)
        return value

    def _send_raised(self, error: BaseException) -> None:
        """Describe the exception; if its class prevents that, report only that one was raised."""
        try:
            given = self._given.get(id(error))
            self._frames.send(["again", given[1][1]] if given else self._raised(error))
        except OSError:
            raise
        except BaseException:  # noqa: BLE001 - the program's own exception classes may do anything
            blank = ["raise", "Exception", None, ["l", 0, []], "", self._numbered(None), None]
            self._frames.send(blank)

    def _raised(self, error: BaseException, depth: int = 0) -> WireForm:
        """Describe the exception: its builtin class, the program's class if any, its arguments,
        and what `errors.describe` reads."""
        kind = type_of(error)
        base = builtin_base(kind)
        own = None if is_builtin(kind) else self._class_of(kind)
        try:
            text = str.__str__(str(error))[:TEXT_CHARS_MAX]
        except BaseException:  # noqa: BLE001 - the same
            text = ""
        try:
            arguments = self._encoder().encode(list(_arguments(error)))
            if len(json.dumps(arguments)) > _ARGUMENTS_CHARS_MAX:
                arguments = ["l", 0, [text]]
        except BaseException:  # noqa: BLE001 - the same
            arguments = ["l", 0, []]
        number = self._numbered(error)
        return ["raise", base, own, arguments, text, number, self._details(error, depth)]

    def _details(self, error: BaseException, depth: int) -> WireForm:
        """Its cause, context, notes and attributes; `None` if there are none of them."""
        try:
            cause, context, hidden = (
                vars(BaseException)[f"__{name}__"].__get__(error)
                for name in ("cause", "context", "suppress_context")
            )
            notes = [note for note in getattr(error, "__notes__", ()) if type_of(note) is str]
            named = {} if is_builtin(type_of(error)) else vars(error)
            named = {name: named[name] for name in DETAILS if name in named}
            if cause is context is None and not (notes or named):
                return None
            encoder = self._encoder()
            chain = [self._chained(one, depth + 1) for one in (cause, context)]
            told = ["t", [*chain, hidden, *encoder.many((notes[:NOTES_MAX], named), 0)]]
            return told if len(json.dumps(told)) < _ARGUMENTS_CHARS_MAX else None
        except BaseException:  # noqa: BLE001 - the program's own exception classes may do anything
            return None

    def _chained(self, error: object, depth: int) -> WireForm:
        if depth > _CHAIN_MAX or not isinstance(error, BaseException):
            return None
        given = self._given.get(id(error))
        return given[1][:2] if given else ["x", *self._raised(error, depth)[1:]]

    def _class_of(self, kind: type, depth: int = 0) -> WireForm:
        """Describe an exception class: as one of the standard library, or as one of the program."""
        module: Value = kind.__module__
        if type_of(module) is str and module.partition(".")[0] in sys.stdlib_module_names:
            return ["xs", module, kind.__name__]
        return self._numbered(kind, depth)

    def lookup(self, name: str) -> object:
        """A global of the program."""
        try:
            return self._module.__dict__[name]
        except KeyError:
            message = f"name {name!r} is not defined"
            raise NameError(message) from None

    def assign(self, name: str, value: object) -> None:
        """Set a global of the program."""
        self._module.__dict__[name] = value

    def unassign(self, name: str) -> None:
        """Delete a global of the program."""
        if name not in self._module.__dict__:
            message = f"name {name!r} is not defined"
            raise NameError(message)
        del self._module.__dict__[name]

    def names(self) -> list[str]:
        """Public globals of the program, as `import *` imports them."""
        listed: Value = self._module.__dict__.get("__all__")
        if type_of(listed) is list:
            return [name for name in listed if type_of(name) is str]
        return [name for name in self._module.__dict__ if not name.startswith("_")]

    def touch(self, number: int, operation: str, operands: list[Value]) -> object:
        """Ask the referee for an operation on an object of the tests."""
        form = self._encoder().encode(operands)
        self._frames.send(["touch", number, operation, form])
        while True:
            message = self._frames.receive(_at_once)
            if message[0] == "result":
                return Decoder(self._resolve).decode(message[1])
            if message[0] == "end":
                raise StopIteration(Decoder(self._resolve).decode(message[1]))
            if message[0] == "error":
                error: Value = Decoder(self._resolve).decode(message[1])
                raise error
            self._answer(message)


class _Node:
    """A node for a program that does not name the class."""

    def __init__(self, val: Value) -> None:
        self.val = val
        self.next = self.left = self.right = None


def _exception(candidate: Candidate, form: list[Any]) -> BaseException:
    """An exception from the tests, with its builtin class: `["x", number, class, arguments]`."""
    kind = getattr(builtins, form[2])
    arguments: Value = Decoder(candidate._resolve).decode(form[3])  # noqa: SLF001 - its own
    try:
        made: BaseException = kind(*arguments)
    except TypeError:
        made = BaseException.__new__(kind)
        made.args = tuple(arguments)
    return made


def _leave_source(path: str, source: str) -> None:
    """Let tracebacks and `inspect` find the program; a full scratch file system is ignored."""
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            file.write(source)
    except OSError:
        return


def _show(error: BaseException) -> None:
    """Write a traceback to stderr, if the exceptions can be printed."""
    try:
        traceback.print_exception(error)
    except BaseException:  # noqa: BLE001 - the program's own exception classes may do anything
        return


def _name_of(value: Value) -> str:
    try:
        named = value if kind_of(value) in ("callable", "exception") else type_of(value)
        name = getattr(named, "__name__", None)
    except BaseException:  # noqa: BLE001 - the program's own attributes may do anything
        name = None
    return str(name)[:80] if type_of(name) is str else "object"


def _arguments(error: BaseException) -> tuple[Value, ...]:
    found: tuple[Value, ...] = BaseException.__dict__["args"].__get__(error)
    if isinstance(error, OSError) and len(found) == 2 and error.filename is not None:
        more = () if error.filename2 is None else (None, error.filename2)
        return (*found, error.filename, *more)  # `args` leaves them out
    return found


def builtin_base(kind: object) -> str:
    """The name of the nearest builtin class."""
    mro: tuple[type, ...] = _MRO.__get__(kind) if issubclass(type_of(kind), type) else ()
    return next((str(base.__name__) for base in mro if is_builtin(base)), "Exception")


def is_builtin(kind: type) -> bool:
    return kind.__module__ == "builtins" and getattr(builtins, kind.__name__, None) is kind
