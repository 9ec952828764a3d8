"""Identifiers, each with its own type so that they cannot be mixed up."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final, NewType

TenantId = NewType("TenantId", str)
TaskId = NewType("TaskId", str)
BatchId = NewType("BatchId", str)
GroupId = NewType("GroupId", str)
RequestId = NewType("RequestId", str)
WorkerId = NewType("WorkerId", str)
StageName = NewType("StageName", str)
PipelineName = NewType("PipelineName", str)
JobId = NewType("JobId", str)
"""The store's own name of a request: its sequence number, zero-padded, so that names sort in the
order of arrival."""

NAME_FORM: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""Form of the names of tasks, batches, stages and pipelines."""
REQUEST_FORM: Final = re.compile(r"[A-Za-z0-9._:/-]{1,256}")
"""Form of the ids of requests and groups: trainers use ids such as `step12/prompt7:k3`."""
_NO_FILE_PATH: Final = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_FILE_PATH_BYTES_MAX: Final = 1_024
_FILE_PATH_PARTS_MAX: Final = 16
_FILE_NAME_BYTES_MAX: Final = 255
_STEPS: Final = frozenset({".", ".."})


def is_file_path(path: str) -> bool:
    """Whether a path leads to a file below where it starts. A candidate may choose names: spaces
    and letters of any script are names like others. No empty part: a slash at the end would make
    the kernel follow a last link."""
    if len(path) > _FILE_PATH_BYTES_MAX or _NO_FILE_PATH.search(path):
        return False
    parts = path.split("/")
    return (
        len(parts) <= _FILE_PATH_PARTS_MAX
        and _STEPS.isdisjoint(parts)
        and all(1 <= len(part.encode()) <= _FILE_NAME_BYTES_MAX for part in parts)
        and len(path.encode()) <= _FILE_PATH_BYTES_MAX
    )


OWNER_CHARS: Final = 32
_OWNER: Final = re.compile(rf"of:([0-9a-f]{{{OWNER_CHARS}}}):")
REPORT: Final = "report-"
"""Beginning of the names of reports of runs."""


def owner_of(tenants: Iterable[str]) -> str:
    """Whose something is that is made for work of these tenants, as a part of its name."""
    return hashlib.sha256("\n".join(sorted(set(tenants))).encode()).hexdigest()[:OWNER_CHARS]


def kept_for(owner: str, key: str) -> str:
    """The name of an artifact that only the works of `owner` share."""
    return f"of:{owner}:{key}"


def owner_in(key: str) -> str:
    """Whose artifact has this name: what `kept_for` put into it; empty if it did not."""
    found = _OWNER.search(key)
    return "" if found is None else found[1]


def is_report(key: str) -> bool:
    """Whether the artifact of this name is the report of a run, which is read outside of hosts."""
    return key.partition(":")[2].partition(":")[2].startswith(REPORT)


def blob_name(tenant: TenantId, content: bytes) -> str:
    """Of a large part: its SHA-256, and whose it is.

    Tenants have no part in common: a part that is there already is not sent again, and the time of
    a call would tell one tenant what another has sent.
    """
    return f"{hashlib.sha256(content).hexdigest()}.{owner_of((tenant,))}"
