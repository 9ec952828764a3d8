"""Identifiers, each its own type so that one is never taken for another."""

import re
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
"""The store's own name of a request: its sequence number, zero-padded, so that the order of the
names is the order of arrival."""

NAME_FORM: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""Tasks, batches, stages, pipelines."""
REQUEST_FORM: Final = re.compile(r"[A-Za-z0-9._:/-]{1,256}")
"""Requests and groups: trainers like to write `step12/prompt7:k3`."""
