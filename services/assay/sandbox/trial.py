"""Programs that `assay doctor` and a starting worker run in real boxes to check that they work.

`main` is a harness, loaded by the zygote: standard library only. `python -m assay.sandbox.trial`
confines its own process like a reader of hostile text, and checks whether it can still import.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from assay.sandbox.port import Box

ANSWER: Final = b"6765"
PROGRAM: Final = b"""
import asyncio, csv, ctypes, dataclasses, decimal, fractions, hashlib, json, statistics, threading
def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
found = []
thread = threading.Thread(target=lambda: found.append(fibonacci(20)))
thread.start(); thread.join()
open("out", "w").write(str(found[0]))
print(open("out").read(), end="")
"""
CPP_PROGRAM: Final = b"""
#include <iostream>
#include <map>
int main() { std::map<int, long> f{{0, 0}, {1, 1}};
  for (int i = 2; i <= 20; ++i) f[i] = f[i - 1] + f[i - 2];
  std::cout << f[20]; }
"""


def main(payload: bytes, box: Box) -> None:
    """Query a candidate for the answer, like the harness of function tests."""
    theirs, ours = socket.socketpair()

    def candidate() -> None:
        import decimal  # as a program would, in its own box

        theirs.sendall(str(decimal.Decimal(payload.decode()) * 5).encode())

    pid = box.spawn_confined(candidate, keep_fds=[theirs.fileno()])
    theirs.close()
    box.unseal()
    box.confine_self()
    box.channel_write(ours.recv(64))
    os.waitpid(pid, 0)


def _confined() -> str:
    """Confine this process; returns what no longer works, or an empty text."""
    from assay.config.settings import SandboxSettings
    from assay.sandbox.confine import confine_process

    missing = list(confine_process(SandboxSettings.model_validate_json(sys.argv[1])).missing)
    try:
        import wave  # next to the imported modules, but not imported yet

        wave.Error()
    except ImportError as error:
        missing.append(f"the standard library cannot be imported: {error}")
    return "; ".join(missing)


if __name__ == "__main__":
    sys.exit(_confined() or 0)
