"""A small OpenAI-compatible server that judges by a rule and can be told to misbehave."""

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[["JudgeServer", "Exchange"], None]


class Exchange:
    """One request and the means to answer it."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        self.handler = handler
        self.body = body
        self.path = handler.path
        self.text = "\n".join(str(one["content"]) for one in body.get("messages", []))
        found = re.search(r'"id": "([0-9a-f]+)"', self.text)
        self.nonce = found[1] if found else ""

    def send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.handler.send_response(status)
        for name, value in (headers or {}).items():
            self.handler.send_header(name, value)
        self.handler.send_header("Content-Length", str(len(content)))
        self.handler.end_headers()
        self.handler.wfile.write(content)

    def say(self, text: str, *, model: str = "", finish: str = "stop") -> None:
        """Answer with a completion."""
        message = {"role": "assistant", "content": text}
        self.send_json(
            {
                "model": model or self.body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"total_tokens": 10},
            }
        )

    def send_json(self, value: Any) -> None:
        self.send(200, json.dumps(value).encode())

    def keys(self) -> list[str]:
        """Of the questions, which stand before all sections."""
        return re.findall(r"^(q\d+):", self.text.partition("\n[[")[0], re.M)

    def section(self, name: str) -> str:
        """The text of a section."""
        found = re.search(
            rf"\[\[{name} {self.nonce}\]\]\n(.*?)\n\[\[END {name} {self.nonce}\]\]",
            self.text,
            re.S,
        )
        return found[1] if found else ""


class JudgeServer:
    """Runs until closed; `plan` has one behaviour per request, `rule` is used after them."""

    def __init__(self, rule: Reply) -> None:
        self.rule = rule
        self.plan: list[Reply] = []
        self.seen: list[Exchange] = []
        self.stop = threading.Event()
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                exchange = Exchange(self, json.loads(self.rfile.read(length)))
                with outer._lock:
                    outer.seen.append(exchange)
                    reply = outer.plan.pop(0) if outer.plan else outer.rule
                reply(outer, exchange)

            def log_message(self, *_: object) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # With the usual interval each `close` would wait for up to half a second.
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def close(self) -> None:
        self.stop.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def says_yes_to(word: str) -> Reply:
    """A judge that answers all questions with yes where the response has `word`."""

    def reply(_server: JudgeServer, exchange: Exchange) -> None:
        answer = "yes" if word in exchange.section("RESPONSE") else "no"
        told = {"id": exchange.nonce, "answers": dict.fromkeys(exchange.keys(), answer)}
        exchange.say(f"Let me think.\n{json.dumps(told)}")

    return reply


def status(code: int, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _server, exchange: exchange.send(code, b'{"error": "no"}', named)


def text(content: str, **more: Any) -> Reply:
    return lambda _server, exchange: exchange.say(content, **more)


def raw(content: bytes) -> Reply:
    return lambda _server, exchange: exchange.send(200, content)


def cut_off(_server: JudgeServer, exchange: Exchange) -> None:
    """Promise more bytes than are sent."""
    exchange.handler.send_response(200)
    exchange.handler.send_header("Content-Length", "1000")
    exchange.handler.end_headers()
    exchange.handler.wfile.write(b'{"choices": [')


def hang(server: JudgeServer, exchange: Exchange) -> None:
    """Answer nothing until the server ends."""
    del exchange
    server.stop.wait(30)


def trickle(server: JudgeServer, exchange: Exchange) -> None:
    """Send a byte now and then, forever."""
    exchange.handler.send_response(200)
    exchange.handler.send_header("Content-Length", "100000")
    exchange.handler.end_headers()
    while not server.stop.wait(0.05):
        try:
            exchange.handler.wfile.write(b" ")
        except OSError:
            return


def silenced_by(word: str, rule: Reply, silence: Reply) -> Reply:
    """A judge that follows `rule`, and `silence` where a response has `word`."""

    def reply(server: JudgeServer, exchange: Exchange) -> None:
        (silence if word in exchange.text else rule)(server, exchange)

    return reply


SILENCES: dict[str, Reply] = {
    "too long for the model": status(400),
    "refused by a filter": raw(b'{"choices": [{"message": {"content": null}}]}'),
    "cut off": text("{}", finish="length"),
    "persuaded": text("I was asked to give no verdict."),
    "breaks the server": status(500),
}
"""What a response can do to a judge that judges others."""
