"""The standard headers with which a C++ source begins. Pure.

A precompiled header takes their place only if nothing stands before them that could change what
they mean: no macro, no pragma, no other text. So only a run of `#include <standard header>` at the
very beginning counts, with nothing but blanks and comments between.
"""

import re
from typing import Final

EVERYTHING: Final = "bits/stdc++.h"
"""GCC's header that includes the whole library."""
_NAMES: Final = """
algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts
condition_variable coroutine deque exception execution expected filesystem format forward_list
fstream functional future initializer_list iomanip ios iosfwd iostream istream iterator latch
limits list locale map memory memory_resource mutex new numbers numeric optional ostream queue
random ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span
spanstream sstream stack stdexcept stop_token streambuf string string_view strstream syncstream
system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility
valarray variant vector version cctype cerrno cfenv cfloat cinttypes ciso646 climits clocale
cmath csetjmp csignal cstdarg cstdbool cstddef cstdint cstdio cstdlib cstring ctgmath ctime
cuchar cwchar cwctype ctype.h errno.h float.h inttypes.h limits.h locale.h math.h setjmp.h
signal.h stdarg.h stddef.h stdint.h stdio.h stdlib.h string.h time.h wchar.h wctype.h
"""
STANDARD: Final = frozenset(_NAMES.split())
"""`assert.h` and `cassert` are missing: what they define depends on macros at each inclusion."""
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|//[^\n\\]*(?=\n)|/\*(?s:.*?)\*/)*")
_INCLUDE: Final = re.compile(r"#[ \t]*include[ \t]*<([a-z0-9_+./]+)>")
_LINE_END: Final = re.compile(r"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)*(?://[^\n\\]*(?=\n))?(?:\r?\n|\Z)")
_CONTINUED: Final = "??/"
"""A backslash in older standards: it continues the line of a comment."""


def leading_headers(source: str) -> tuple[str, ...]:
    """Return the standard headers at the beginning of `source`, in order, each once.

    In another order the program would mean the same, but its functions could come in another order.
    After the header that includes them all none counts.
    """
    found: dict[str, None] = {}
    at = 0
    while _CONTINUED not in source and EVERYTHING not in found:
        include = _INCLUDE.match(source, _skipped(source, at))
        end = include and _LINE_END.match(source, include.end())
        if not (include and end and (include[1] == EVERYTHING or include[1] in STANDARD)):
            break
        found[include[1]] = None
        at = end.end()
    return tuple(found)


def prelude_text(headers: tuple[str, ...]) -> bytes:
    """Return the text of a header that includes `headers`."""
    return "".join(f"#include <{name}>\n" for name in headers).encode("ascii")


def _skipped(source: str, at: int) -> int:
    blank = _BLANK.match(source, at)
    return at if blank is None else blank.end()
