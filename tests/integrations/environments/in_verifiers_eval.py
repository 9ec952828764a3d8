"""Runs verifiers' own command `vf-eval`, as the documentation has it, on the example's taskset.

`in_verifiers_eval.py PATH TEXT ...`, with the path of the example, and what a model says to the
first tasks; to all others it says the last. The model is a server in this process with as much of
OpenAI's API as `vf-eval` asks for: streamed chat completions. Prints, as JSON, the rewards of
traces without an error by task, and the others' errors.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HARNESS = ("--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess")


class Model(ThreadingHTTPServer):
    """Says one text per task, which it knows by the first number of the prompt."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.texts = texts

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def said(self, prompt: str) -> str:
        number = int(re.findall(r"\d+", prompt)[0])
        return self.texts[min(number, len(self.texts) - 1)]


class Answer(BaseHTTPRequestHandler):
    """One chat completion: an event per piece, and the end that a stream has."""

    server: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = self.server.said(str(body["messages"][-1]["content"]))
        events = [
            *(_chunk({"role": "assistant", "content": piece}) for piece in text.partition(" ")),
            _chunk({}, finish_reason="stop"),
            {**_chunk({}), "choices": [], "usage": _USED},
        ]
        told = b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in events)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(told + b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """The output is for the result."""


_USED = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    head = {"id": "given", "object": "chat.completion.chunk", "created": 1, "model": "given"}
    return {**head, "choices": [choice]}


def command(example: Path, model: Model, folder: str) -> str:
    """Run `vf-eval`; what it wrote.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        [
            Path(sys.executable).parent / "vf-eval",
            example.stem,
            "--model",
            "given",
            "--client.base-url",
            model.url,
            *HARNESS,
        ],
        cwd=folder,
        env={
            **os.environ,
            "HOME": folder,
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(example.parent), os.environ.get("PYTHONPATH")))
            ),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    written = list(Path(folder).glob("outputs/*/traces.jsonl"))
    if done.returncode or not written:
        raise RuntimeError(done.stdout + done.stderr)
    return written[0].read_text()


def main(path: str, *texts: str) -> None:
    model = Model(texts)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        lines = command(Path(path), model, folder).splitlines()
    traces = [trace for line in lines for trace in json.loads(line)["traces"]]
    traces.sort(key=lambda trace: trace["task"]["data"]["idx"])
    found: dict[str, Any] = {"rewards": {}, "errors": {}}
    for trace in traces:
        name = trace["task"]["data"]["idx"]
        if trace.get("errors"):
            found["errors"][name] = str(trace["errors"])
        else:
            found["rewards"][name] = trace["rewards"]["assay"]["score"]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
