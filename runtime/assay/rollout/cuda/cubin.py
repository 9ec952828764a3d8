"""What a kernel needs of a multiprocessor, read from its cubin (an ELF file); pure.

Attributes of `.nv.info`: 0x2f is a function's registers (EIATTR_REGCOUNT), 0x11 its stack frame
(EIATTR_FRAME_SIZE). A frame holds spilled registers and arrays with run-time indices: a kernel
without a frame spills nothing.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from assay.rollout.errors.cuda import CorruptCubin

_FRAME_SIZE = 0x11
_REGISTERS = 0x2F
_SIZED_VALUE = 0x04
SECTIONS_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one kernel takes of a multiprocessor."""

    registers: int
    """Per thread."""
    frame_bytes: int
    """Stack per thread: spills and local arrays, of the kernel and every function it calls."""
    shared_bytes: int
    """Static shared memory per block."""


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    at: int
    size: int
    link: int
    info: int


def resources_of(cubin: bytes, kernel: str) -> Resources:
    """Read them.

    Raises:
        CorruptCubin: not an ELF file with this kernel.
    """
    try:
        sections = _sections(cubin)
        _check_kernel(sections, kernel)
        shared = next((s.size for s in sections if s.name == f".nv.shared.{kernel}"), 0)
        return Resources(
            registers=max(_values(cubin, sections, _REGISTERS)),
            frame_bytes=max(_values(cubin, sections, _FRAME_SIZE), default=0),
            shared_bytes=shared,
        )
    except (struct.error, IndexError, ValueError, OverflowError) as problem:
        raise CorruptCubin(f"no kernel {kernel!r} can be read from the cubin") from problem


def _check_kernel(sections: list[_Section], kernel: str) -> None:
    if f".text.{kernel}" not in {section.name for section in sections}:
        raise ValueError("no code of this name")


def _sections(cubin: bytes) -> list[_Section]:
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table_at,) = struct.unpack_from("<Q", cubin, 0x28)
    size, n, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    if not 0 < n <= SECTIONS_MAX or size < 0x40:
        raise ValueError("sections")
    heads = [struct.unpack_from("<IIQQQQIIQQ", cubin, table_at + i * size) for i in range(n)]
    names_at = heads[names_index][4]

    def name(offset: int) -> str:
        start = names_at + offset
        return cubin[start : cubin.index(b"\0", start)].decode("ascii")

    return [_Section(name(h[0]), h[1], h[4], h[5], h[6], h[7]) for h in heads]


def _values(cubin: bytes, sections: list[_Section], wanted: int) -> list[int]:
    """An attribute of every function of the file."""
    found = []
    for section in sections:
        if not section.name.startswith(".nv.info"):
            continue
        at, end = section.at, section.at + section.size
        while at + 4 <= end:
            form, attribute, value = struct.unpack_from("<BBH", cubin, at)
            at += 4
            if form != _SIZED_VALUE:
                continue
            if attribute == wanted and value >= 8:
                found.append(struct.unpack_from("<II", cubin, at)[1])
            at += value
    return found
