"""A Kubernetes API server for tests: real HTTP, real watch streams, Deployments and pods.

Kept like the real one: one resource version for all objects, pages with `continue` tokens, watches
that replay what happened after a version and answer 410 for one that was compacted, bookmarks,
merge patches of the scale subresource with managed fields, `Status` bodies. It runs no controllers;
a test makes the pods, as with a bare kube-apiserver and etcd.
"""

import asyncio
import copy
import json
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from aiohttp import web

Object = dict[str, Any]
EVENTS_MAX = 100_000
"""Older ones are compacted, as etcd does every few minutes."""
PATCH_TYPES = {"application/merge-patch+json", "application/strategic-merge-patch+json"}


@dataclass(slots=True, kw_only=True)
class Fault:
    """What the next requests of this kind get."""

    method: str
    part: str
    """Some text of the path."""
    status: int
    """0: the connection ends."""
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that came."""

    method: str
    path: str
    watch: bool
    query: dict[str, str]
    body: Object


class ApiServer:
    """Objects by (kind, name); events in order."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.events: list[tuple[int, str, str, Object]] = []
        self.version = 100
        self.compacted = 0
        self.faults: list[Fault] = []
        self.calls: deque[Call] = deque(maxlen=100_000)
        self.streams: set[web.StreamResponse] = set()
        self.bookmark_s = 60.0
        self._news = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0

    # -- life ----------------------------------------------------------------------------------
    async def start(self) -> None:
        """Listen, on the port of before if there was one."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close all connections; objects stay."""
        runner, self._runner = self._runner, None
        if runner is not None:
            self.cut_watches()
            await runner.cleanup()

    def cut_watches(self) -> None:
        """Break the connections of all watches."""
        cut(self.streams)

    def compact(self) -> None:
        """Forget all events: older versions are gone."""
        self.compacted = self.version
        self.events.clear()

    # -- objects -------------------------------------------------------------------------------
    def put(self, kind: str, found: Object, event: str) -> Object:
        """Store a new version of an object."""
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        name = found["metadata"]["name"]
        if event == "DELETED":
            del self.objects[kind, name]
        else:
            self.objects[kind, name] = found
        self.events.append((self.version, kind, event, copy.deepcopy(found)))
        if len(self.events) > EVENTS_MAX:
            self.compacted = self.events[EVENTS_MAX // 2][0]
            del self.events[: EVENTS_MAX // 2 + 1]
        news, self._news = self._news, asyncio.Event()
        news.set()
        return found

    # -- requests ------------------------------------------------------------------------------
    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw) if raw else {}
        watch = request.query.get("watch") == "true"
        call = Call(
            method=request.method, path=request.path, watch=watch, query=dict(request.query),
            body=body,
        )  # fmt: skip
        self.calls.append(call)
        fault = injected(self.faults, call, request)
        if fault is not None:
            return fault
        steps = request.path.strip("/").split("/")
        kind, rest = _kind(steps)
        if watch:
            return await self._watch(request, kind)
        if not rest:
            return self._list(request, kind) if request.method == "GET" else self._make(kind, body)
        found = self.objects.get((kind, rest[0]))
        if found is None:
            return _status(404, f'{kind} "{rest[0]}" not found')
        return self._one(request, kind, found, rest[1:], body)

    def _list(self, request: web.Request, kind: str) -> web.Response:
        token = request.query.get("continue", "")
        at, _, version = token.partition(":")
        if version and int(version) < self.compacted:
            return _status(410, "The provided continue parameter is too old")
        limit = int(request.query.get("limit", "0")) or len(self.objects) + 1
        selected = [
            one
            for (of, _), one in sorted(self.objects.items())
            if of == kind and _selects(request, one)
        ]
        begin = int(at or 0)
        page = selected[begin : begin + limit]
        metadata = {"resourceVersion": str(self.version)}
        if begin + limit < len(selected):
            metadata["continue"] = f"{begin + limit}:{self.version}"
        items = [{k: v for k, v in one.items() if k not in {"kind", "apiVersion"}} for one in page]
        named = {"pods": "PodList", "deployments": "DeploymentList"}.get(kind, "List")
        return web.json_response({"kind": named, "metadata": metadata, "items": items})

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        after = int(request.query.get("resourceVersion") or self.version)
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        self.streams.add(answer)
        try:
            async with asyncio.timeout(float(request.query.get("timeoutSeconds", "300"))):
                async for event in self._events(kind, after):
                    if event["type"] in {"ERROR", "BOOKMARK"} or _selects(request, event["object"]):
                        await answer.write(json.dumps(event).encode() + b"\n")
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self.streams.discard(answer)
        return answer

    async def _events(self, kind: str, after: int) -> AsyncIterator[Object]:
        while True:
            if after < self.compacted:
                told = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                yield {"type": "ERROR", "object": told}
                return
            news = self._news
            begin = bisect_right(self.events, after, key=itemgetter(0))
            for version, of, event, found in self.events[begin:]:
                after = version
                if of == kind:
                    yield {"type": event, "object": found}
            try:
                async with asyncio.timeout(self.bookmark_s):
                    await news.wait()
            except TimeoutError:
                metadata = {"resourceVersion": str(max(after, self.version))}
                after = max(after, self.version)
                yield {"type": "BOOKMARK", "object": {"metadata": metadata}}

    def _make(self, kind: str, body: Object) -> web.Response:
        if (kind, body["metadata"]["name"]) in self.objects:
            return _status(409, "already exists")
        body["metadata"].setdefault("creationTimestamp", "2026-11-01T00:00:00Z")
        return web.json_response(self.put(kind, body, "ADDED"), status=201)

    def _one(
        self, request: web.Request, kind: str, found: Object, rest: list[str], body: Object
    ) -> web.Response:
        if request.method == "DELETE":
            return web.json_response(self.put(kind, found, "DELETED"))
        if request.method == "PATCH":
            if request.content_type not in PATCH_TYPES:
                return _status(415, f"the body of the request was {request.content_type}")
            if rest == ["scale"]:
                return self._scale(request, kind, found, body)
            changed = _merged(found, body)
            return web.json_response(self.put(kind, changed, "MODIFIED"))
        return web.json_response(_scale_of(found) if rest == ["scale"] else found)

    def _scale(self, request: web.Request, kind: str, found: Object, body: Object) -> web.Response:
        version = body.get("metadata", {}).get("resourceVersion")
        if version is not None and version != found["metadata"]["resourceVersion"]:
            return _status(409, "the object has been modified; please apply your changes")
        replicas = body.get("spec", {}).get("replicas")
        if not isinstance(replicas, int) or replicas < 0:
            return _status(422, "spec.replicas: must be greater than or equal to 0")
        if found["spec"].get("replicas", 1) != replicas:
            found = copy.deepcopy(found)
            found["spec"]["replicas"] = replicas
            manager = request.query.get("fieldManager", "unknown")
            others = [
                entry
                for entry in found["metadata"].get("managedFields", [])
                if "f:replicas" not in entry["fieldsV1"].get("f:spec", {})
            ]
            owned = {
                "manager": manager, "operation": "Update", "subresource": "scale",
                "fieldsV1": {"f:spec": {"f:replicas": {}}},
            }  # fmt: skip
            found["metadata"]["managedFields"] = [*others, owned]
            self.put(kind, found, "MODIFIED")
        return web.json_response(_scale_of(found))


def cut(streams: set[web.StreamResponse]) -> None:
    """Break the connections of these answers."""
    for stream in list(streams):
        transport = stream._req.transport if stream._req is not None else None
        if transport is not None:
            transport.abort()


def injected(faults: list[Fault], call: Call, request: web.Request) -> web.Response | None:
    """What a fault makes of a call; `None`: it is served."""
    for fault in faults:
        if fault.times and fault.method == call.method and fault.part in call.path:
            fault.times -= 1
            if not fault.status and request.transport is not None:
                request.transport.abort()
            return _status(fault.status or 500, "injected", fault.headers)
    return None


def _scale_of(found: Object) -> Object:
    metadata = {k: found["metadata"][k] for k in ("name", "resourceVersion")}
    return {
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": found["spec"].get("replicas", 1)},
    }  # fmt: skip


def _kind(steps: list[str]) -> tuple[str, list[str]]:
    """`apis/apps/v1/namespaces/x/deployments/name/scale` -> `deployments`, [name, scale]."""
    at = steps.index("namespaces") + 2
    return steps[at], steps[at + 1 :]


def _selects(request: web.Request, found: Object) -> bool:
    labels = found["metadata"].get("labels", {})
    wanted = [one.split("=") for one in request.query.get("labelSelector", "").split(",") if one]
    return all(labels.get(key) == value for key, value in wanted)


def _merged(found: Any, patch: Any) -> Any:
    """A JSON merge patch, by RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(found) if isinstance(found, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def _status(code: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "message": message}  # fmt: skip
    return web.json_response(body, status=code, headers=headers)
