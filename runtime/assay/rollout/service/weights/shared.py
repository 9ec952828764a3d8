"""Tensors in a file that a trainer on this machine wrote into the shared folder.

The file is in the safetensors layout. It is read, not mapped: a sender that truncates it meanwhile
causes an error and cannot end this process. Its metadata may hold checksums: `sha256.NAME` is the
SHA-256 of the bytes of tensor NAME, in hex.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import struct
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.core.errors import FailedPrecondition, InvalidRequest, NotFound
from assay.rollout.errors import InvalidWeights, WeightsProblem
from assay.rollout.models.tensor_checks import PIECES_KEPT
from assay.rollout.service.weights.parts import Assembly, Head, Passage, WeightPart

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from pathlib import Path

    from assay.rollout.service.weights.parts import Begin, PushSpec

FIELD: Final = "shared_file"
HEADER_BYTES_MAX: Final = 16 << 20
READ_BYTES_MAX: Final = 1 << 30
"""Per call of the operating system."""
TOGETHER_BYTES: Final = 4 << 20
"""Small tensors are read together up to this size."""
PIECE_BYTES: Final = 1 << 20
"""Of a tensor that is passed on: a cache still holds what was read when it is packed."""
_NAME: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,255}")


def tensors_in(folder: Path | None, name: str, begin: Begin[Assembly]) -> Iterator[Assembly]:
    """The tensors of the file, one at a time; those for which `begin` returns `None` are skipped.

    Raises:
        FailedPrecondition: there is no shared folder.
        NotFound: no such file.
        InvalidRequest: the name is not that of a file in the folder, or the file is no safetensors.
        InvalidWeights: `begin` refuses a tensor, or the file ends within it.
    """
    with _opened(folder, name) as file:
        for together in _bundles(_entries(file)):
            if len(together) == 1:
                yield from _alone(file, together[0], begin)
            else:
                yield from _together(file, together, begin)


def message_in(folder: Path | None, push: PushSpec) -> WeightPart | None:
    """The file of a push as one message, if its tensors are few bytes that are read together.

    Raises:
        As `tensors_in`.
    """
    with _opened(folder, push.shared_file) as file:
        bundles = list(_bundles(_entries(file)))
        if len(bundles) != 1 or len(bundles[0]) == 1:
            return None
        heads = tuple(one.head for one in bundles[0])
        return WeightPart(push=push, together=heads, data=_read_together(file, bundles[0]))


def passing_in(
    folder: Path | None, name: str, begin: Callable[[Head], Assembly | Passage | None]
) -> Generator[tuple[Passage, Iterator[memoryview]], None, None]:
    """The tensors of the file with their bytes, in pieces that are read when they are asked for,
    those of a tensor before the next one. They take turns in `PIECES_KEPT` + 1 buffers.

    Raises:
        As `tensors_in`; within a tensor as well.
    """
    with _opened(folder, name) as file:
        buffers = cycle([np.empty(PIECE_BYTES, np.uint8).data for _ in range(PIECES_KEPT + 1)])
        for one in _entries(file):
            tensor = begin(one.head)
            if isinstance(tensor, Passage):
                if one.end - one.start != tensor.size:
                    raise _wrong_size(one)
                yield tensor, _pieces(file, one, buffers)


def _pieces(file: int, one: _Entry, buffers: Iterator[memoryview]) -> Iterator[memoryview]:
    for at in range(one.start, one.end, PIECE_BYTES):
        room = next(buffers)[: min(PIECE_BYTES, one.end - at)]
        got = 0
        while got < len(room):
            if (n := os.preadv(file, [room[got:]], at + got)) == 0:
                raise _cut(one.head)
            got += n
        yield room


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tensor of the file, and where its bytes are."""

    head: Head
    start: int
    end: int


def _entries(file: int) -> Iterator[_Entry]:
    table, first = _table(file)
    checksums = table.pop("__metadata__", None) or {}
    for tensor, entry in table.items():
        head, start, end = _head(tensor, entry, checksums)
        yield _Entry(head, first + start, first + end)


def _bundles(entries: Iterator[_Entry]) -> Iterator[list[_Entry]]:
    """Tensors that follow each other and are read together, since one read costs as much as a
    small tensor; others by themselves."""
    together: list[_Entry] = []
    for one in entries:
        follows = together and one.start == together[-1].end
        if not follows or one.end - together[0].start > TOGETHER_BYTES:
            if together:
                yield together
            together = []
        together.append(one)
    if together:
        yield together


def _together(file: int, entries: list[_Entry], begin: Begin[Assembly]) -> Iterator[Assembly]:
    first, data = entries[0].start, _read_together(file, entries)
    for one in entries:
        assembly = begin(one.head, data[one.start - first : one.end - first])
        if assembly is not None:
            yield assembly


def _read_together(file: int, entries: list[_Entry]) -> memoryview:
    first = entries[0].start
    data = np.empty(entries[-1].end - first, dtype=np.uint8).data
    got = 0
    while got < len(data) and (n := os.preadv(file, [data[got:]], first + got)) > 0:
        got += n
    for one in entries:
        if one.head.size != one.end - one.start:
            raise _wrong_size(one)
        if one.end - first > got:
            raise _cut(one.head)
    return data


def _alone(file: int, one: _Entry, begin: Begin[Assembly]) -> Iterator[Assembly]:
    assembly = begin(one.head, None)
    if assembly is None:
        return
    if one.end - one.start != len(assembly.room):
        raise _wrong_size(one)
    _read(file, assembly, one.start)
    yield assembly


@contextlib.contextmanager
def _opened(folder: Path | None, name: str) -> Iterator[int]:
    if folder is None:
        raise FailedPrecondition("rollout.shared_dir is not set on this service", field=FIELD)
    if not _NAME.fullmatch(name):
        raise _wrong("the name of a file in rollout.shared_dir")
    # No link is followed and no pipe is waited for.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(folder / name, flags)
    except FileNotFoundError:
        raise NotFound(f"no file {name!r} in rollout.shared_dir", field=FIELD) from None
    except OSError as error:
        raise _wrong(f"cannot be opened: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise _wrong("not a regular file")
        yield file
    finally:
        os.close(file)


def _table(file: int) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and where its data begin."""
    try:
        (length,) = struct.unpack("<Q", os.pread(file, 8, 0))
        if length > HEADER_BYTES_MAX:
            raise _wrong(f"its header is above {HEADER_BYTES_MAX} bytes")
        table = json.loads(os.pread(file, length, 8))
        if not isinstance(table, dict):
            raise _wrong("its header is not an object")
        return table, 8 + length
    except (struct.error, ValueError, TypeError, RecursionError) as error:
        raise _wrong(f"not a safetensors file: {error}") from None


def _head(
    name: str, entry: Mapping[str, Any], checksums: Mapping[str, Any]
) -> tuple[Head, int, int]:
    try:
        start, end = map(int, entry["data_offsets"])
        shape = tuple(map(int, entry["shape"]))
        sha256 = str(checksums.get(f"sha256.{name}", ""))
        head = Head(name=name, dtype=str(entry["dtype"]), shape=shape, sha256=sha256)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise _wrong(f"tensor {name}: {error!r}") from None
    if not 0 <= start <= end < 1 << 62:
        raise _wrong(f"tensor {name}: data_offsets")
    return head, start, end


def _read(file: int, assembly: Assembly, at: int) -> None:
    while not assembly.whole:
        got = os.preadv(file, [assembly.room[:READ_BYTES_MAX]], at)
        if got == 0:
            raise _cut(assembly.head)
        assembly.filled(got)
        at += got


def _wrong(problem: str) -> InvalidRequest:
    return InvalidRequest(f"{FIELD}: {problem}", field=FIELD)


def _wrong_size(one: _Entry) -> InvalidWeights:
    detail = f"{one.end - one.start} bytes for {one.head.shape}"
    return InvalidWeights(one.head.where, WeightsProblem.SHAPE, detail)


def _cut(head: Head) -> InvalidWeights:
    return InvalidWeights(head.where, WeightsProblem.SHAPE, "the file ends within the tensor")
