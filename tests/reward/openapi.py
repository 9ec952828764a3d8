"""The operations of an OpenAPI document, and requests that fit them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method and a path."""

    name: str
    method: str
    path: str
    schema: Mapping[str, Any] | None
    document: Mapping[str, Any]

    def request(self, given: Mapping[str, Any]) -> tuple[str, bytes | None]:
        """A path and a body in which each field of a name in `given` has that value."""
        path = self.path.format(**{"batch_id": "x", "task_id": "x", "sha256": "0" * 64, **given})
        if self.schema is None:
            return path, None
        return path, json.dumps(self._filled(self.schema, given)).encode()

    def _filled(self, schema: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        if "$ref" in schema:
            return self._filled(
                self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], given
            )
        for way in ("anyOf", "oneOf", "allOf"):
            if way in schema:
                return self._filled(schema[way][0], given)
        match schema.get("type"):
            case "object":
                needed = schema.get("required", [])
                return {
                    name: _fitting(given[name], one) if name in given else self._filled(one, given)
                    for name, one in schema.get("properties", {}).items()
                    if name in given or name in needed or _names(one)
                }
            case "array":
                return [self._filled(schema["items"], given)]
            case "integer" | "number":
                return 1
            case "boolean":
                return True
            case "string":
                return "x"
        return {}


def _names(schema: Mapping[str, Any]) -> bool:
    """Whether it is a list of names: of several such lists, a call may need one."""
    return schema.get("type") == "array" and schema["items"].get("type") == "string"


def _fitting(value: Any, schema: Mapping[str, Any]) -> Any:
    return value.decode() if isinstance(value, bytes) else value


async def operations(http: httpx.AsyncClient) -> list[Operation]:
    """Every operation under `/v1/`."""
    document = (await http.get("/openapi.json")).json()
    found = []
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            content = described.get("requestBody", {}).get("content", {})
            found.append(
                Operation(
                    name=described["operationId"].partition("_v1_")[0],
                    method=method.upper(),
                    path=path,
                    schema=content.get("application/json", {}).get("schema"),
                    document=document,
                )
            )
    return found
