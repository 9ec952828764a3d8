"""What Assay reads from a C++ source: the headers that it begins with, and what it is equal to."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.verifiers.code.cpp.prelude import EVERYTHING, leading_headers, prelude_text
from assay.verifiers.code.cpp.same import shared_text

BLANKS = st.sampled_from([" ", "\n", "\t", "  \n ", " /* a ' \" comment */ ", "// it's #one\n"])
TOKENS = st.lists(
    st.sampled_from(
        [
            *("int", "x", "R", "u8", "+", "++", "-", ">", ">>", "=", "<", "(", ")", "{", "}", ";"),
            *("1", "1.5e+3", "0x1'000", ".", '"a // b"', "'\"'", 'R"x(a /* ")" )x"', "&", "&&"),
            *(":", ","),
        ]
    ),
    max_size=30,
)


@pytest.mark.parametrize(
    ("source", "headers"),
    [
        ("#include <bits/stdc++.h>\nint main() {}", (EVERYTHING,)),
        ("// a\n/* b\n*/ # include <vector> // c\r\n\n#include<map>\n", ("vector", "map")),
        ("#include <map>\n#include <vector>\n#include <map>", ("map", "vector")),
        ("#include <map>\n#include <bits/stdc++.h>\n#include <set>\n", ("map", EVERYTHING)),
        ("#include <map>\n#include <ext/pb_ds/assoc_container.hpp>\n", ("map",)),
        ("#define NDEBUG\n#include <vector>\n", ()),
        ('#pragma GCC optimize("O3")\n#include <vector>\n', ()),
        ("int x;\n#include <vector>\n", ()),
        ('#include "vector"\n', ()),
        ("#include <cassert>\n", ()),
        ("#include <vector> int x;\n", ()),
        ("#include <vector> /*\n*/ #include <map>\n", ()),
        ("#include <vector> \\\n#include <map>\n", ()),
        ("// a \\\n#include <map>\n", ()),
        ("// a ??/\n#include <map>\n", ()),
        ("/* #include <map>\n", ()),
        ("#include <map>\n#include <../../../etc/passwd>\n", ("map",)),
        ("\N{ZERO WIDTH NO-BREAK SPACE}#include <map>\n", ()),
    ],
)
def test_only_headers_that_nothing_precedes_count(source: str, headers: tuple[str, ...]) -> None:
    assert leading_headers(source) == headers


@given(st.text(alphabet="#include <>map\n/*\\\"'? ", max_size=80))
def test_any_text_begins_with_standard_headers_only(source: str) -> None:
    assert re.fullmatch(rb"(#include <map>\n)?", prelude_text(leading_headers(source)))


@given(TOKENS, st.data())
def test_comments_and_blanks_between_tokens_change_nothing(
    tokens: list[str], data: st.DataObject
) -> None:
    wide = "".join(token + data.draw(BLANKS) for token in tokens)
    if shared_text(wide) != wide:  # else it is same as itself only
        assert shared_text(wide) == shared_text(" ".join(tokens) + " ")


@given(TOKENS, TOKENS)
def test_other_tokens_are_another_program(one: list[str], other: list[str]) -> None:
    """A C++ lexer splits the shared text into the tokens of the source."""
    if one != other:
        assert shared_text("\n".join(one)) != shared_text("\n".join(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a + +b;", "a ++b;"),
        ("x = 1 .e;", "x = 1.e;"),
        ("x = a. 5;", "x = a.5;"),
        ('auto x = "a" s;', 'auto x = "a"s;'),
        ('f("a  b");', 'f("a b");'),
        ('f(R"(a  b)");', 'f(R"(a b)");'),
        ('f(R"x(a //)" \n)x");', 'f(R"x(a )" \n)x");'),
        ("f('/*'); // '", "f('/*  '); // '"),
        ("#define f (x)\nf(1)", "#define f(x)\nf(1)"),
        ("#define s(x) #x\ns(a b)", "#define s(x) #x\ns(a  b)"),
        ("int x = __LINE__;", "\nint x = __LINE__;"),
        ("assert(x);", "\nassert(x);"),
        ("#define a\nb", "#define a b"),
        ("x; // a \\\ny;", "x; // a\ny;"),
        ("#if 0\nit's // x\n#endif", "#if 0\nit's\n#endif"),
        ("a /* b", "a /*  b"),
        ('R"(a // b', 'R"(a // c'),
        ("return x;", "returnx;"),
        ("1 'a'", "1'a'"),
        ("int x; /*\n*/ #define X 1", "int x;\n#define X 1"),
        ("puts(__STRING(1 + 1));", "puts(__STRING(1+1));"),
        ("#include <term_entry.h>\nPAIRED(1 + 1)", "#include <term_entry.h>\nPAIRED(1+1)"),
        ('#include "a.h"\nS(1 + 1)', '#include "a.h"\nS(1+1)'),
        ("#include HEADER\nS(1 + 1)", "#include HEADER\nS(1+1)"),
    ],
)
def test_blanks_that_may_matter_are_kept(one: str, other: str) -> None:
    assert shared_text(one) != shared_text(other)


def test_no_macro_of_a_header_turns_blanks_into_a_string() -> None:
    """A source that uses one of the compiler's own headers' is the same as itself only."""
    folders = [Path("/usr/include/c++"), *Path("/usr/lib").glob("gcc/*/*/include")]
    folders += [*Path("/usr/include").glob("*/sys"), *Path("/usr/include").glob("*/bits")]
    headers = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    found = {
        name
        for path in headers
        for name, parameters, body in _FUNCTION_MACRO.findall(path.read_text("utf-8", "replace"))
        if set(re.findall(r"\w+", parameters)) & set(_STRINGIFIED.findall(body))
    }
    of_containers = {name for name in found if name.startswith("PB_DS_")}  # assertions of their own
    unequal = {name for name in found if shared_text(f"{name}(1 + 1)") == f"{name}(1 + 1)"}
    assert "__STRING" in unequal
    assert {name for name in found - unequal - of_containers if name.startswith("__")} == set()
    for name in found - unequal - of_containers:
        header = next(path for path in headers if name in path.read_text("utf-8", "replace"))
        wide = f"#include <{header.name}>\nchar *s = {name}(1 + 1);"
        assert shared_text(wide) == wide, name


_FUNCTION_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w, .]*)\)((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE
)
_STRINGIFIED = re.compile(r"(?<!#)#[ \t]*(\w+)")


def test_sources_that_differ_in_comments_and_blanks_are_the_same() -> None:
    one = "#include <map> // maps\n\n// adds\nint  main()\n{\n  return 0; /* ok */\n}\n"
    assert shared_text(one) == shared_text("#include <map>\nint main() { return 0; }")


@pytest.mark.parametrize("part", ['R"(', "/*", '"', "'", "#", "\\\n", 'u8R"x(', "/* */", "//\n"])
def test_a_long_text_takes_linear_time(part: str) -> None:
    """A quadratic scan of this length would take minutes."""
    source = part * 200_000
    assert isinstance(shared_text(source), str)
    assert isinstance(leading_headers(source), tuple)
