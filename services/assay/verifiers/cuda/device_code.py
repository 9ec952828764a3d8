"""The part of a CUDA source that runs on the device, for a compiler that takes nothing else; pure.

A source of KernelBench mixes kernels with host functions on torch's tensors. NVRTC compiles kernels
in a tenth of a second without torch's headers, where the whole source takes half a minute: a typing
error is found on a CPU worker before a GPU is held. Host functions are left out. What cannot be
told apart with certainty is not compiled here (`reason`): it is no fault of the source.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.verifiers.cuda.cpp_text import Token, tokens_of

_HOST_HEADERS: Final = re.compile(
    r"torch/|ATen/|c10/|pybind11/|cuda(_runtime(_api)?)?\.h$|cu(blas|dnn|fft|sparse|rand)\w*\.h$"
    r"|device_launch_parameters\.h$|vector_types\.h$"
)
"""Of host code, or of what NVRTC knows by itself."""
_PLAIN_HEADERS: Final = frozenset(
    (
        *("assert.h", "cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstdio"),
        *("cstdlib", "float.h", "iostream", "limits.h", "math.h", "math_constants.h", "stddef.h"),
        *("stdint.h", "stdio.h", "stdlib.h", "string", "vector"),
    )
)
"""Their device part is in `PRELUDE` or in NVRTC, or there is none."""
_DEVICE_WORDS: Final = frozenset({"__global__", "__device__", "__constant__", "__managed__"})
_KEPT_FIRST: Final = frozenset(
    {"struct", "class", "enum", "union", "using", "typedef", "constexpr", "const", "static_assert"}
)
_HOST_NAMES: Final = frozenset({"torch", "at", "c10", "std", "pybind11", "cutlass", "cute", "cub"})
UNMATCHED: Final = "its braces do not match"
PRELUDE: Final = """\
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long uint64_t; typedef unsigned long uintptr_t; typedef unsigned int uint;
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define CUDART_INF_F __int_as_float(0x7f800000)
#define M_PI 3.14159265358979323846
"""
"""What headers of the toolkit and the C library bring that kernels commonly use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """What NVRTC is given."""

    text: str
    reason: str = ""
    """Why it is not compiled here; empty: it is."""


def device_code(source: str) -> DeviceCode:
    """Keep directives, types, constants and what runs on the device; drop host functions."""
    kept, reason = _kept(list(tokens_of(source)))
    words = _host_names(list(tokens_of(kept)))
    reason = reason or (f"device code uses {min(words)}" if words else "")
    return DeviceCode(text=kept, reason=reason)


@dataclass(slots=True)
class _Reader:
    """Reads a source token by token, and keeps what the device needs."""

    out: list[str] = field(default_factory=list)
    part: list[Token] = field(default_factory=list)
    """The declaration that is being read."""
    reason: str = ""
    depth: int = 0
    opened: int = 0
    """Depth of the scopes that are kept open, such as a namespace."""

    def read(self, token: Token) -> None:
        if token.kind == "directive" and self.depth == self.opened:
            kept, missing = _directive(token.text)
            self.out.append(kept)
            self.reason = self.reason or missing
            return
        self.part.append(token)
        if token.text == "{":
            self._open()
        elif token.text == "}":
            self._close()
        elif token.text == ";" and self.depth == self.opened:
            self._end(_declaration)

    def _open(self) -> None:
        self.depth += 1
        if self.depth == self.opened + 1 and _opens_scope(self.part):
            self._end(_text)
            self.opened = self.depth

    def _close(self) -> None:
        self.depth -= 1
        if self.depth < self.opened:
            self._end(_text)
            if self.depth < 0:
                self.reason = self.reason or UNMATCHED
            self.opened = self.depth = max(self.depth, 0)
        elif self.depth == self.opened and not _goes_on(self.part):
            self._end(_declaration)

    def _end(self, kept: Callable[[list[Token]], str]) -> None:
        """The declaration ends here."""
        self.out.append(kept(self.part))
        self.part = []

    def is_open(self) -> bool:
        """Whether something is left to close."""
        return bool(self.depth or self.opened) or any(one.kind != "space" for one in self.part)


def _kept(tokens: Sequence[Token]) -> tuple[str, str]:
    reader = _Reader()
    for token in tokens:
        if token.kind != "comment":
            reader.read(token)
    if reader.is_open():
        reader.reason = reader.reason or UNMATCHED
    return "".join(reader.out), reader.reason


def _directive(text: str) -> tuple[str, str]:
    """What is kept of it, and why it cannot be compiled here."""
    named = re.match(r"\s*#\s*include\s*[<\"]\s*([^>\"]+)", text)
    if named is None:
        return text, ""
    header = named[1].strip()
    if header in _PLAIN_HEADERS or _HOST_HEADERS.search(header):
        return "", ""
    return "", f"needs the header {header}"


def _opens_scope(part: Sequence[Token]) -> bool:
    """Whether a brace opens a namespace or `extern "C"`, whose content is looked at by itself."""
    words = [token.text for token in part if token.kind in {"word", "text"}]
    return words[:1] == ["namespace"] or words == ["extern", '"C"']


def _goes_on(part: Sequence[Token]) -> bool:
    """Whether a declaration goes on behind its closing brace: a type, or a value in braces."""
    words = [token.text for token in part if token.kind == "word"]
    if words[:1] == ["template"] or "__global__" in words:
        words = [word for word in words if word in {"struct", "class", "union", *_DEVICE_WORDS}]
    head = words[:1]
    is_type = head and head[0] in {"struct", "class", "enum", "union", "typedef"}
    return bool(is_type) or _is_value(part)


def _is_value(part: Sequence[Token]) -> bool:
    depth = 0
    for token in part:
        if token.text in "({[" and token.text:
            depth += 1
        elif token.text in ")}]" and token.text:
            depth -= 1
        elif token.text == "=" and depth == 0:
            return True
    return False


def _declaration(part: Sequence[Token]) -> str:
    words = [token.text for token in part if token.kind == "word"]
    is_kept = not _DEVICE_WORDS.isdisjoint(words) or (
        bool(words) and (words[0] in _KEPT_FIRST or words[:2] in (["static", "const"],))
    )
    if words[:1] == ["template"] and {"struct", "class"} & set(_behind_angle(part)):
        is_kept = True
    if is_kept and _DEVICE_WORDS.isdisjoint(words) and _host_names(part):
        is_kept = False
    # As many lines as it had, so that the compiler's line numbers are those of the source.
    text = _text(part)
    return text if is_kept else "\n" * text.count("\n")


def _host_names(part: Sequence[Token]) -> set[str]:
    """Namespaces of the host's libraries that it uses."""
    code = [token for token in part if token.kind not in {"space", "comment"}]
    return {
        name.text
        for name, following in itertools.pairwise(code)
        if following.text == "::" and name.text in _HOST_NAMES
    }


def _behind_angle(part: Sequence[Token]) -> list[str]:
    """The first words behind the parameters of a template."""
    depth = 0
    words: list[str] = []
    for token in part:
        if token.text in {"<", ">"}:
            depth += 1 if token.text == "<" else -1
            if depth == 0:
                words = []
        elif token.kind == "word" and depth == 0:
            words.append(token.text)
            if len(words) == 1 and words[0] != "template":
                return words
    return words


def _text(part: Sequence[Token]) -> str:
    return "".join(token.text for token in part)
