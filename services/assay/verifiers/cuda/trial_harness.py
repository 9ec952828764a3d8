"""The harness of `cuda.run`: a candidate and its reference, each in its own process, on one clock.

This process, pid 1 of the box, forks both before it reads the sealed seeds, asks each for the same
steps and times them itself. The candidate runs first. It has not the seeds before their trial, not
the reference's memory, and is dead, with all that it started, before the reference computes what
it is compared with. Outputs come as bytes in files that are sealed at the end of a trial: what is
not there then does not count. No object of the candidate's is ever loaded here.

The sides' own work (tensors, devices) is a class `Side` in a text that comes with the order. The
zygote loads this file by itself: standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import time
import traceback
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from assay.sandbox.port import Box

_ANSWER_BYTES_MAX: Final = 1 << 16
_ERROR_CHARS_MAX: Final = 2_000
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""A harness has an empty environment. What a side starts has this, behind the tools' folder."""
_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class _Failed(Exception):
    """A side did not do a step."""

    def __init__(self, state: str, step: str, error: str = "") -> None:
        super().__init__(f"{state} in {step}: {error}")
        self.report = {"state": state, "step": step, "error": error[-_ERROR_CHARS_MAX:]}


class _Asked:
    """A side, as this process sees it."""

    def __init__(self, box: Box, name: str, order: dict[str, Any], files: list[int]) -> None:
        theirs, self._line = socket.socketpair()
        keep = [theirs.fileno(), *files]

        def run() -> None:
            _serve(name, order, theirs, files)

        self.name = name
        self.pid = box.spawn_confined(run, keep_fds=keep)
        theirs.close()
        self._rest = b""

    def ask(self, step: str, seconds: float, **more: Any) -> tuple[dict[str, Any], float]:  # noqa: ANN401 - any JSON
        """The answer, and the seconds that it took.

        Raises:
            _Failed: it died, did not answer in time, or says that it cannot.
        """
        if self._rest or select.select([self._line], [], [], 0)[0]:
            raise _Failed(*self._unasked(step))
        began = time.perf_counter()
        try:
            self._line.sendall(json.dumps({"step": step, **more}).encode("ascii") + b"\n")
            answer = self._answer(step, began + seconds)
        except OSError as error:
            raise _Failed("died", step, str(error)) from None
        took = time.perf_counter() - began
        if "failed" in answer:
            raise _Failed("failed", step, str(answer["failed"]))
        return answer, took

    def _unasked(self, step: str) -> tuple[str, str, str]:
        """What it means that there is something to read before a question."""
        if self._rest or self._line.recv(1, socket.MSG_PEEK):
            return "failed", step, "it answers before it is asked"
        return "died", step, self._end()

    def _answer(self, step: str, until: float) -> dict[str, Any]:
        while b"\n" not in self._rest:
            left = until - time.perf_counter()
            if left <= 0 or not select.select([self._line], [], [], left)[0]:
                raise _Failed("hung", step)
            data = self._line.recv(_ANSWER_BYTES_MAX)
            if not data:
                raise _Failed("died", step, self._end())
            self._rest += data
            if len(self._rest) > _ANSWER_BYTES_MAX:
                raise _Failed("failed", step, "its answer is too long")
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise _Failed("failed", step, "its answer is no object")
        return answer

    def _end(self) -> str:
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return f"exit code {os.waitstatus_to_exitcode(status)}"

    def kill(self) -> None:
        """End it and everything that it started: it is pid 1 of its own namespace."""
        self._line.close()
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


def main(payload: bytes, box: Box) -> None:
    """Run the trials of both sides, compare, write one report."""
    order = json.loads(payload)
    made = [_files(order["runs"]), _files(order["runs"])]
    sides = {
        "candidate": _Asked(box, "candidate", order, made[0]),
        "reference": _Asked(box, "reference", order, [*made[1], *made[0]]),
    }
    seeds = json.loads(box.unseal())
    box.confine_self()
    report = {"candidate": _trials(sides["candidate"], order, seeds, made[0])}
    sides["candidate"].kill()
    if report["candidate"]["state"] == "ok":
        given = report["candidate"]["given"]
        report["reference"] = _trials(sides["reference"], order, seeds, made[1], given)
    sides["reference"].kill()
    box.channel_write(json.dumps(report).encode("ascii"))


def _files(number: int) -> list[int]:
    flags = os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC
    return [os.memfd_create("outputs", flags) for _ in range(number)]


def _trials(
    side: _Asked,
    order: dict[str, Any],
    seeds: list[int],
    files: list[int],
    candidates: list[Any] | None = None,
) -> dict[str, Any]:
    """All trials of a side: their times, what it says that it has given, and what it says of
    `candidates`, the outputs of the other side."""
    times, given, compared = [], [], []
    call_s = order["call_s"]
    tolerances = {"absolute": order["absolute"], "relative": order["relative"]}
    try:
        side.ask("load", order["load_s"], seed=seeds[0])
        for number, file in enumerate(files):
            _, prepare = side.ask("prepare", call_s, seed=seeds[1 + number])
            _, call = side.ask("call", call_s)
            answer, give = _given(side, call_s, number, file, order["output_bytes_max"])
            given.append(answer.get("outputs"))
            if candidates is not None:
                found, _ = side.ask(
                    "compare", call_s, number=number, outputs=candidates[number], **tolerances
                )
                compared.append(found)
                os.close(file)  # the side has closed it too: its memory is free
            if number >= order["warm_ups"]:
                times.append([prepare, call, give])
    except _Failed as failed:
        return failed.report
    return {"state": "ok", "times": times, "given": given, "compared": compared}


def _given(
    side: _Asked, seconds: float, number: int, file: int, size_max: int
) -> tuple[dict[str, Any], float]:
    """Have the outputs written, and seal them.

    Raises:
        _Failed: as `_Asked.ask` and `_seal`; the state is `too_large` where the file is full.
    """
    try:
        answer, took = side.ask("give", seconds, number=number)
    except _Failed as failed:
        if os.fstat(file).st_size >= size_max:
            raise _Failed("too_large", "give", f"more than {size_max} bytes") from failed
        raise
    _seal(file, size_max)
    return answer, took


def _seal(file: int, size_max: int) -> None:
    """From here on nothing changes it, nor does a mapping of it exist that could.

    Raises:
        _Failed: the side keeps it open for writing, or wrote too much.
    """
    try:
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        raise _Failed("failed", "give", "it keeps its outputs mapped") from None
    if os.fstat(file).st_size > size_max:
        raise _Failed("too_large", "give", f"more than {size_max} bytes")


def _serve(name: str, order: dict[str, Any], line: socket.socket, files: list[int]) -> None:
    """A side's process: do what is asked until the line closes. Compilers find each other."""
    os.environ["PATH"] = ":".join(filter(None, (order["tools"], _PATH)))
    namespace: dict[str, Any] = {"__name__": "side"}
    exec(compile(order["side"], "side.py", "exec"), namespace)  # noqa: S102 - the platform's own text
    side = namespace["Side"](name, order, files)
    with line.makefile("rb") as asked:
        for each in asked:
            question = json.loads(each)
            step = question.pop("step")
            try:
                answer = getattr(side, step)(**question) or {}
            except BaseException:  # noqa: BLE001 - the candidate may raise anything; it is reported
                answer = {"failed": traceback.format_exc()[-_ERROR_CHARS_MAX:]}
            line.sendall(json.dumps(answer).encode("ascii") + b"\n")
