"""The harness of `cuda.compile`: compiles one source with NVRTC in a box and reports the result.

A source is as hostile as a program: it can make a compiler read files, never end, or break. The
zygote loads this file by itself: standard library only.
"""

from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from assay.sandbox.port import Box

_LOG_BYTES_MAX: Final = 16_000
_SUCCESS: Final = 0
_COMPILATION: Final = 6
"""NVRTC_ERROR_COMPILATION: of all results the only one that is a source's fault."""


def main(payload: bytes, box: Box) -> None:
    """Compile; the report has `status` (NVRTC's result), `log` and `cubin_bytes`."""
    order = json.loads(payload)
    box.confine_self()
    nvrtc = ctypes.CDLL(order["library"])
    source = order["source"].encode("utf-8", "surrogateescape")
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None)
    log, size = b"", 0
    if status == _SUCCESS:
        options = [option.encode() for option in order["options"]]
        status = nvrtc.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*options)
        )
        log = _log(nvrtc, program)
    if status == _SUCCESS:
        size = _size(nvrtc, "nvrtcGetCUBINSize", program)
    report = {
        "status": status,
        "log": log.decode("utf-8", "replace")[-_LOG_BYTES_MAX:],
        "cubin_bytes": size,
        "is_fault": status == _COMPILATION,
    }
    box.channel_write(json.dumps(report).encode("ascii"))


def _size(nvrtc: ctypes.CDLL, function: str, program: ctypes.c_void_p) -> int:
    size = ctypes.c_size_t()
    getattr(nvrtc, function)(program, ctypes.byref(size))
    return size.value


def _log(nvrtc: ctypes.CDLL, program: ctypes.c_void_p) -> bytes:
    room = ctypes.create_string_buffer(_size(nvrtc, "nvrtcGetProgramLogSize", program) + 1)
    nvrtc.nvrtcGetProgramLog(program, room)
    return room.value
