"""From the signal to the end: say so, drain, stop.

A service is told to stop once (SIGTERM, SIGINT); a second signal kills it in the ordinary way.
Where a service listens stands in a file while it does, so that ports may be any free ones.
"""

import asyncio
import ctypes
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None)

log = structlog.get_logger(__name__)


@contextmanager
def stop_on_signals(owner_pid: int = 0) -> Iterator[asyncio.Event]:
    """Set the event at the first SIGTERM or SIGINT, or when our parent `owner_pid` dies."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGTERM, signal.SIGINT)

    def told(number: signal.Signals) -> None:
        log.info("stop_asked", signal=number.name)
        stop.set()
        for each in signals:
            loop.remove_signal_handler(each)

    for number in signals:
        loop.add_signal_handler(number, told, number)
    if owner_pid:
        _at_parents_death(signal.SIGTERM)
        if os.getppid() != owner_pid:  # it is gone already
            stop.set()
    try:
        yield stop
    finally:
        if owner_pid:
            _at_parents_death(0)
        for number in signals:
            loop.remove_signal_handler(number)


def _at_parents_death(number: int) -> None:
    """Have the kernel send us this signal then; 0 = none."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


@contextmanager
def listening(sign: Path, addresses: Mapping[str, str]) -> Iterator[None]:
    """Keep `addresses` (and our pid) in the file `sign` for the length of the block."""
    content = json.dumps({**addresses, "pid": os.getpid()})
    sign.parent.mkdir(parents=True, exist_ok=True)
    fresh = sign.with_suffix(f".{os.getpid()}.new")
    fresh.write_text(content, encoding="utf-8")
    fresh.replace(sign)
    try:
        yield
    finally:
        # Another process may have taken our place already.
        if sign.exists() and sign.read_text(encoding="utf-8") == content:
            sign.unlink()
