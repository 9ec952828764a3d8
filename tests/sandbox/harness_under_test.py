"""A harness whose payload says what to try; standard library only, as harnesses are."""

import contextlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any


def main(payload: bytes, box: Any) -> None:
    wanted = json.loads(payload)
    theirs, ours = socket.socketpair()
    candidate = CANDIDATES[wanted["candidate"]]

    def run() -> None:
        candidate(theirs, wanted)

    pid = box.spawn_confined(run, keep_fds=[theirs.fileno()])
    theirs.close()
    sealed = box.unseal()
    if wanted.get("spawn_again"):
        box.spawn_confined(run, keep_fds=[])
    box.confine_self()
    ours.sendall(b"go")
    heard = b""
    while data := ours.recv(65_536):
        heard += data
    _, status = os.waitpid(pid, 0)
    report = {
        "heard": heard.decode(),
        "status": status,
        "sealed": sealed.decode(),
        "ready": box is not None,
    }
    box.channel_write(json.dumps(report).encode())
    if wanted.get("fail"):
        raise ValueError("the harness is wrong")


def _say(connection: socket.socket, value: object) -> None:
    connection.sendall(json.dumps(value).encode())
    connection.close()


def search_memory(connection: socket.socket, wanted: dict[str, Any]) -> None:
    """Look for the sealed part in all of this process's memory.

    The pattern is known with every bit turned over only, so that the search does not find itself.
    """
    connection.recv(2)
    turned = bytes.fromhex(wanted["turned"])
    table = bytes(byte ^ 0xFF for byte in range(256))
    places = read = 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in list(maps):
            span, rights = line.split()[:2]
            start, end = (int(number, 16) for number in span.split("-"))
            if "r" not in rights or line.rstrip().endswith(("[vvar]", "[vsyscall]")):
                continue
            try:
                memory.seek(start)
                content = memory.read(end - start)
            except (OSError, ValueError, OverflowError):
                continue
            read += len(content)
            places += content.translate(table).count(turned)
    _say(connection, {"places": places, "read": read})


def look_around(connection: socket.socket, wanted: dict[str, Any]) -> None:
    connection.recv(2)
    seen = {
        "pid": os.getpid(),
        "pids": sorted(filter(str.isdigit, os.listdir("/proc"))),
        "descriptors": len(os.listdir("/proc/self/fd")) - 1,
        "files": os.listdir("/box") + os.listdir("/tmp"),
        "variables": sorted(os.environ),
        "capabilities": "CapEff:\t0000000000000000" in Path("/proc/self/status").read_text(),
    }
    for pid in (-1, os.getppid()):
        with contextlib.suppress(OSError):
            os.kill(pid, 9)
    _say(connection, seen)


def leave(connection: socket.socket, wanted: dict[str, Any]) -> None:
    connection.recv(2)
    os._exit(7)


def patch_everything(connection: socket.socket, wanted: dict[str, Any]) -> None:
    """Change what the referee uses, print a verdict, and leave as if all were well."""
    connection.recv(2)
    vars(json)["dumps"] = lambda value: '{"heard": "forged"}'
    vars(sys.modules["json"])["loads"] = None
    print('{"heard": "forged", "status": 0}', flush=True)
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, b'{"heard": "forged"}')
    sys.exit(0)


def fork_for_ever(connection: socket.socket, wanted: dict[str, Any]) -> None:
    connection.recv(2)
    while True:
        with contextlib.suppress(OSError):
            os.fork()


def dies(connection: socket.socket, wanted: dict[str, Any]) -> None:
    connection.recv(2)
    raise ValueError("candidate")


CANDIDATES = {
    function.__name__: function
    for function in (search_memory, look_around, leave, patch_everything, fork_for_ever, dies)
}
