"""What the services of a platform wrote to their logs: how much, and what speaks of a fault.

Whatever callers do and whichever part dies, a service answers with an error of the contract and
says so in a line. A traceback means an error that no one foresaw, and one that callers can cause
lets them fill the disk.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FAULT: Final = re.compile(
    r"Traceback \(most recent call last\)|Exception in |Exception ignored|BaseException"
    r"|was never (retrieved|awaited)|was destroyed but it is pending|Fatal Python error"
    r"|unhandled exception|ResourceWarning"
)
"""What CPython, asyncio, gRPC and uvicorn write about an error that nothing has caught."""
ERROR: Final = re.compile(r'"level": "(error|critical)"|\[(\x1b\[\w+)*(error|critical) ')
"""The level of a line, in both forms of `ASSAY_TELEMETRY__LOG_JSON`."""
FAULT_CHARS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The logs of all parts, together."""

    size_bytes: int
    error_lines: int
    """Of the levels error and critical."""
    faults: Counter[str]
    """What speaks of a fault of ours, by part and text: the last line of each traceback."""

    @classmethod
    def of(cls, data_dir: Path) -> "Logged":
        """Read what the parts below `data_dir` have logged since it was made."""
        size_bytes = error_lines = 0
        faults: Counter[str] = Counter()
        for file in sorted((data_dir / "logs").glob("*.log*")):
            text = file.read_text(errors="replace")
            size_bytes += file.stat().st_size
            lines = text.splitlines()
            error_lines += sum(1 for line in lines if ERROR.search(line))
            faults.update(f"{file.stem}: {said}" for said in _faults(lines))
        return cls(size_bytes=size_bytes, error_lines=error_lines, faults=faults)


def _faults(lines: list[str]) -> Iterator[str]:
    """One text per fault: of a traceback the error that it ends with."""
    begun = ""
    for line in lines:
        if begun:
            if line and not line[0].isspace():
                yield line[:FAULT_CHARS]
                begun = ""
        elif line.startswith("{"):
            yield from _fault_of(line)
        elif FAULT.search(line):
            if "Traceback" in line:
                begun = line
            else:
                yield line[:FAULT_CHARS]
    if begun:
        yield begun[:FAULT_CHARS]


def _fault_of(line: str) -> Iterator[str]:
    """Of an event: what it is called, and the error that it shows."""
    if FAULT.search(line) is None:
        return
    try:
        event = json.loads(line)
    except ValueError:  # it was cut off
        yield line[:FAULT_CHARS]
        return
    shown = str(event.get("exception") or event.get("traceback") or "").strip()
    said = str(event["event"]).strip().partition("\n")[0]
    yield f"{said}: {shown.rpartition(chr(10))[2]}"[:FAULT_CHARS]
