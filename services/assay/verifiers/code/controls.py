"""Programs whose verdict is known: a right one must pass, one that does nothing must fail.

If a stub passes, the tests are too weak to tell programs apart. If the data set's own solution
fails, the tests are wrong or the limits are too tight. Pure text: nothing runs here.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from assay.verifiers.code.references import CppReference, PythonReference
from assay.verifiers.code.settings import CodeSettings, CppSettings, PythonSettings
from assay.verifiers.code.source.choices import Extraction
from assay.verifiers.code.source.entry_points import names_of
from assay.verifiers.port import Control

EMPTY: Final = "empty_program"
GOLD: Final = "gold"
_RETURNS: Final = {
    "none": "None",
    "zero": "0",
    "empty_text": "''",
    "false": "False",
    "true": "True",
    "empty_list": "[]",
    "input": "(given or [None])[0]",
}
"""Name of a stub -> its constant result."""
_ECHO_PYTHON: Final = "import sys\nsys.stdout.write(sys.stdin.read())\n"
_EMPTY_CPP: Final = "int main() { return 0; }\n"
_ECHO_CPP: Final = "#include <iostream>\nint main() { std::cout << std::cin.rdbuf(); }\n"


def python_controls(reference: PythonReference, settings: PythonSettings) -> Sequence[Control]:
    """Return the data set's solution, if given, an empty program, and stubs."""
    return [
        Control(name=name, response=response_of(text, settings.extraction, "python"), passes=passes)
        for name, text, passes in _python_programs(reference)
    ]


def cpp_controls(reference: CppReference, settings: CppSettings) -> Sequence[Control]:
    """Return the data set's solution, if given, an empty program, and one that echoes its input."""
    return language_controls(reference, settings, name="cpp", empty=_EMPTY_CPP, echo=_ECHO_CPP)


def language_controls(
    reference: CppReference | PythonReference,
    settings: CodeSettings,
    *,
    name: str,
    empty: str,
    echo: str,
) -> Sequence[Control]:
    """As `cpp_controls`, for a language with these programs; `name` is that of its blocks."""
    programs = [(EMPTY, empty, False)]
    if _says_more_than_its_input(reference):
        programs.append(("echo", echo, False))
    if reference.solution:
        programs.insert(0, (GOLD, reference.solution, True))
    return [
        Control(name=kind, response=response_of(text, settings.extraction, name), passes=passes)
        for kind, text, passes in programs
    ]


def empty_program(settings: CodeSettings) -> str:
    """Return the response that must fail any tests; the cheapest control."""
    return response_of("", settings.extraction, "python")


def _python_programs(reference: PythonReference) -> Iterator[tuple[str, str, bool]]:
    if reference.solution:
        yield GOLD, reference.solution, True
    yield EMPTY, "", False
    if reference.tests:
        if _says_more_than_its_input(reference):
            yield "echo", _ECHO_PYTHON, False
        return
    names = _called(reference)
    if names:
        for name, result in _RETURNS.items():
            yield f"returns_{name}", "".join(_stub(path, result) for path in names), False


def _called(reference: PythonReference) -> Sequence[str]:
    """Names that the tests use from the program."""
    if reference.calls is not None:
        return [reference.calls.function]
    if reference.asserts is None:
        return []
    asserts = reference.asserts
    return names_of(tuple(asserts.code), asserts.setup, tuple(asserts.functions)).program


def _stub(path: str, result: str) -> str:
    """A function that returns `result`; for a class, one whose methods all do."""
    name, _, method = path.partition(".")
    if not method and not name[:1].isupper():
        return f"def {name}(*given, **named):\n    return {result}\n\n"
    return (
        f"class {name}:\n"
        f"    def __init__(self, *given, **named):\n        pass\n\n"
        f"    def __getattr__(self, name):\n        return lambda *given, **named: {result}\n\n"
    )


def _says_more_than_its_input(reference: CppReference | PythonReference) -> bool:
    return any(test.stdin.split() != test.stdout.split() for test in reference.tests)


def response_of(program: str, extraction: Extraction, language: str) -> str:
    """The program as a model would send it, in a block of `language`."""
    if extraction is Extraction.RAW:
        return program
    fence = "`" * 3
    while fence in program:
        fence += "`"
    ending = "" if program.endswith("\n") or not program else "\n"
    return f"{fence}{language}\n{program}{ending}{fence}\n"
