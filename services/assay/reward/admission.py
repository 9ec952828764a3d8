"""All checks of a call that are made before the store is involved.

Each fault is one `InvalidRequest` or `TooLarge` that names the field as a path
(`requests[3].reference.answers`). A response is any bytes: NUL and invalid UTF-8 are judged like
the rest, so that no response can cause its message to be refused. References, ids and settings are
UTF-8; a reference may contain NUL as `\\u0000` in its JSON strings (a test's input is any text). A
transcript is text of the candidate too: only its form, its size and its count are checked.

References are parsed by the pipeline's model; the K responses of a group share one reference, and
training steps return to their prompts, so equal bytes are parsed once while they are cached.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from assay.config.settings import RewardSettings
from assay.core.errors import InvalidRequest, NotFound, TooLarge
from assay.core.ids import (
    NAME_FORM,
    REQUEST_FORM,
    BatchId,
    GroupId,
    PipelineName,
    RequestId,
    TaskId,
    is_file_path,
)
from assay.core.records import Artifact, NewRequest, Quota
from assay.core.store_limits import GROUP_JUDGED_MAX, no_group
from assay.core.tools.lru import TenantCache
from assay.core.tools.response import CUT
from assay.reward.drafts import BatchDraft, Message, RequestDraft, TaskDraft
from assay.verifiers.execution.definition import ProgramRun
from assay.verifiers.intake import parse_messages, parse_reference
from assay.verifiers.port import PipelineDefinition

BATCH_SIZE_MAX: Final = 1_000_000
"""Requests per batch; also the bound of a group and of a task's batch size."""
SPAN_MS_MAX: Final = 7 * 24 * 3600 * 1000
"""A week: the longest deadline and delay budget."""
INSTANT_NS_MIN: Final = 10**18
"""September 2001: an instant before it is in another unit than nanoseconds."""
SETTINGS_BYTES_MAX: Final = 64 * 1024
SETTINGS_COMMAS_MAX: Final = 1_024
"""Bound of the values in settings, because they are parsed between other calls."""
SOUND_BYTES_MAX: Final = 4 * 1024**2
"""Most valid references in the cache."""
SOUND_ENTRY_BYTES: Final = 200
"""Size of a cache entry in addition to its bytes."""

MESSAGES_MAX: Final = 4_096
"""Messages of one transcript."""
ARTIFACTS_MAX: Final = 64
"""Artifacts of one request."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def check_task(draft: TaskDraft) -> None:
    """Check all fields except the pipeline and its settings.

    Raises:
        InvalidRequest: a field is wrong.
        TooLarge: the settings are too large.
    """
    name(draft.task_id, "task.task_id")
    bounded(draft.batch_size, "task.batch_size", most=BATCH_SIZE_MAX)
    if draft.delay_budget_ms is not None:
        bounded(draft.delay_budget_ms, "task.delay_budget_ms", most=SPAN_MS_MAX)
    if not (math.isfinite(draft.trainer_cost_rate) and draft.trainer_cost_rate >= 0):
        message = "task.trainer_cost_rate: a finite number, not negative"
        raise InvalidRequest(message, field="task.trainer_cost_rate")
    check_settings_size(draft.settings_json)


def check_settings_size(settings_json: bytes) -> None:
    """Bound the settings before they are parsed.

    Raises:
        TooLarge: they are over `SETTINGS_BYTES_MAX` or `SETTINGS_COMMAS_MAX`.
    """
    if settings_json.count(b",") > SETTINGS_COMMAS_MAX:
        message = f"settings: more than {SETTINGS_COMMAS_MAX} commas"
        raise TooLarge(message, field="settings")
    if len(settings_json) > SETTINGS_BYTES_MAX:
        message = f"settings: {len(settings_json)} bytes; at most {SETTINGS_BYTES_MAX}"
        raise TooLarge(message, field="settings")


def check_batch(draft: BatchDraft, now_ns: int) -> None:
    """Check an OpenBatch.

    Raises:
        InvalidRequest: a field is wrong.
    """
    name(draft.task_id, "task_id")
    if draft.batch_id:
        name(draft.batch_id, "batch_id")
    bounded(draft.size, "size", most=BATCH_SIZE_MAX)
    bounded(draft.group_size, "group_size", most=BATCH_SIZE_MAX)
    if draft.deadline_ms is not None:
        bounded(draft.deadline_ms, "deadline_ms", least=1, most=SPAN_MS_MAX)
    if draft.deadline_ns is not None:
        if draft.deadline_ms is not None:
            message = "deadline_ns: give it or deadline_ms, not both"
            raise InvalidRequest(message, field="deadline_ns")
        instant(draft.deadline_ns, "deadline_ns", now_ns)


def check_group_size(draft: BatchDraft, definition: PipelineDefinition, quota: Quota) -> None:
    """Check that a batch whose groups are judged as a whole says when a group is complete, and that
    the tenant may have a group's requests open at once: otherwise none would ever be judged.

    Raises:
        InvalidRequest: it does not, or its groups are too large.
        TooLarge: the tenant may not.
    """
    if definition.group_stage is None:
        return
    # A batch with a size is sealed when it is reached: then its groups are complete.
    least = 0 if draft.size else 1
    bounded(draft.group_size, "group_size", least=least, most=GROUP_JUDGED_MAX)
    field = "group_size" if draft.group_size else "size"
    together, most = draft.group_size or draft.size, quota.requests_open_max
    if together > most:
        message = f"{field}: {together} must be open at once; requests_open_max is {most}"
        raise TooLarge(message, field=field)


def instant(value_ns: int, field: str, now_ns: int) -> int:
    """Return Unix time in nanoseconds, at most a week from now. The past is no error: a call that
    is repeated after a lost reply may come late.

    Raises:
        InvalidRequest: it is later, or must be in another unit.
    """
    return bounded(value_ns, field, least=INSTANT_NS_MIN, most=now_ns + SPAN_MS_MAX * 1_000_000)


def name(text: str, field: str) -> str:
    """Return a well-formed name of a task, batch or pipeline.

    Raises:
        InvalidRequest: it is missing or malformed.
    """
    return _form(text, field, NAME_FORM)


def task_name(text: str, field: str = "task_id") -> TaskId:
    """Check a task's name: see `name`."""
    return TaskId(name(text, field))


def batch_name(text: str, field: str = "batch_id") -> BatchId:
    """Check a batch's name: see `name`."""
    return BatchId(name(text, field))


def pipeline_of(
    pipelines: Mapping[PipelineName, PipelineDefinition], text: str, field: str
) -> PipelineDefinition:
    """Return the pipeline of that name.

    Raises:
        InvalidRequest: the name is missing or malformed.
        NotFound: there is none.
    """
    definition = pipelines.get(PipelineName(name(text, field)))
    if definition is None:
        message = f"{field}: no pipeline {text!r}; available: {', '.join(sorted(pipelines))}"
        raise NotFound(message, field=field)
    return definition


def bounded(value: int, field: str, *, most: int, least: int = 0) -> int:
    """Return a number that is within its bounds.

    Raises:
        InvalidRequest: it is not.
    """
    if not least <= value <= most:
        raise InvalidRequest(f"{field}: {value} is not within {least} to {most}", field=field)
    return value


class RequestCheck:
    """Checks the requests of messages."""

    def __init__(self, settings: RewardSettings) -> None:
        self._settings = settings
        self._requests_max = settings.requests_per_message_max
        self._response_bytes_max = settings.response_bytes_max
        self._reference_bytes_max = settings.reference_bytes_max
        self._sound: TenantCache[tuple[PipelineName, bytes], int] = TenantCache(
            weight_max=SOUND_BYTES_MAX, weigh=lambda cost_bytes: cost_bytes
        )

    def count(self, requests: int) -> None:
        """Check the number of requests in a message, before they are processed.

        Raises:
            InvalidRequest: there are none.
            TooLarge: there are too many.
        """
        if not requests:
            raise InvalidRequest("requests: the message contains no request", field="requests")
        if requests > self._requests_max:
            message = f"requests: {requests} in one message; at most {self._requests_max}"
            raise TooLarge(message, field="requests")

    def check_message(
        self, message: Message, definition: PipelineDefinition, tenant: str = ""
    ) -> list[NewRequest]:
        """Return the message's requests, ready to be stored; of a message whose requests are
        accepted each by itself, those that can be.

        Raises:
            InvalidRequest, TooLarge: as `check`; where each counts by itself, all are refused.
        """
        if not message.each:
            return self.check(message.requests, definition, tenant)
        self.count(len(message.requests))
        found: list[NewRequest] = []
        refused: InvalidRequest | TooLarge | None = None
        for draft in message.requests:
            try:
                found += self.check([draft], definition, tenant)
            except (InvalidRequest, TooLarge) as error:
                refused = refused or error
        if refused is not None and not found:
            raise refused
        return found

    def check(
        self, drafts: Sequence[RequestDraft], definition: PipelineDefinition, tenant: str = ""
    ) -> list[NewRequest]:
        """Return the message's requests, ready to be stored; all of them or none.

        A reference that was found sound is not read again for the same tenant.

        Raises:
            InvalidRequest: a field is missing or malformed, or an id occurs twice.
            TooLarge: too many requests, or a payload over its limit.
        """
        self.count(len(drafts))
        seen: dict[str, int] = {}
        requests = []
        for index, draft in enumerate(drafts):
            request_id, group_id, response, reference, messages, artifacts = draft
            if not (REQUEST_FORM.fullmatch(request_id) and _is_group(group_id)):
                _refuse_ids(draft, index)
            if seen.setdefault(request_id, index) != index:
                _refuse_twice(request_id, seen[request_id], index)
            if messages or artifacts:
                check_attached(draft, definition, self._settings, f"requests[{index}]")
            if len(response) > self._response_bytes_max:
                response, mark = self._cut(response, definition, index)
                artifacts = (*artifacts, mark)
            if self._sound.get(tenant, (definition.spec.name, reference)) is None:
                self._check_reference(reference, definition, index)
                cost_bytes = len(reference) + SOUND_ENTRY_BYTES
                self._sound.put(tenant, (definition.spec.name, reference), cost_bytes)
            requests.append(
                NewRequest(
                    request_id=RequestId(request_id),
                    group_id=GroupId(group_id),
                    response=response,
                    reference=reference,
                    messages=messages,
                    artifacts=artifacts,
                )
            )
        if definition.group_stage is not None:
            _check_groups(requests)
        return requests

    def _cut(
        self, response: bytes, definition: PipelineDefinition, index: int
    ) -> tuple[bytes, Artifact]:
        """What is stored of a response that is too long, and the mark by which a worker knows it:
        a response that refused its message would leave all of its requests without a reward.

        Raises:
            TooLarge: it is no response to judge but a program to run, whose caller waits.
        """
        if issubclass(definition.reference, ProgramRun):
            field = f"requests[{index}].response"
            message = f"{field}: {len(response)} bytes; at most {self._response_bytes_max}"
            raise TooLarge(message, field=field)
        mark = Artifact(name=CUT, content=b"%d" % len(response))
        return response[: self._response_bytes_max], mark

    def _check_reference(
        self, reference: bytes, definition: PipelineDefinition, index: int
    ) -> None:
        field = f"requests[{index}].reference"
        if not reference:
            raise InvalidRequest(f"{field}: missing", field=field)
        if len(reference) > self._reference_bytes_max:
            message = f"{field}: {len(reference)} bytes; at most {self._reference_bytes_max}"
            raise TooLarge(message, field=field)
        try:
            parse_reference(definition, reference)
        except InvalidRequest as error:
            prefix = f"requests[{index}]."
            raise InvalidRequest(prefix + error.message, field=prefix + error.field) from None


def check_attached(
    draft: RequestDraft, definition: PipelineDefinition, settings: RewardSettings, place: str
) -> None:
    """Check a request's transcript and artifacts.

    Raises:
        InvalidRequest: one is malformed, or the pipeline takes no artifacts.
        TooLarge: one is over its limit.
    """
    if draft.messages:
        _check_messages(draft.messages, settings.messages_bytes_max, f"{place}.messages")
    if draft.artifacts:
        _check_artifacts(draft, definition, settings.request_artifacts_bytes_max, place)


def _check_groups(requests: Sequence[NewRequest]) -> None:
    sizes: Counter[GroupId] = Counter()
    for index, request in enumerate(requests):
        if not request.group_id:
            raise no_group(index)
        sizes[request.group_id] += 1
        if sizes[request.group_id] > GROUP_JUDGED_MAX:
            field = f"requests[{index}].group_id"
            message = f"{field}: more than {GROUP_JUDGED_MAX} requests of one group"
            raise InvalidRequest(message, field=field)


def _check_messages(messages: bytes, bytes_max: int, field: str) -> None:
    if len(messages) > bytes_max:
        raise TooLarge(f"{field}: {len(messages)} bytes; at most {bytes_max}", field=field)
    count = len(parse_messages(messages, field))
    if count > MESSAGES_MAX:
        raise TooLarge(f"{field}: {count} messages; at most {MESSAGES_MAX}", field=field)


def _check_artifacts(
    draft: RequestDraft, definition: PipelineDefinition, bytes_max: int, place: str
) -> None:
    field = f"{place}.artifacts"
    if not definition.takes_artifacts:
        message = f"{field}: pipeline {definition.spec.name} takes none"
        raise InvalidRequest(message, field=field)
    if len(draft.artifacts) > ARTIFACTS_MAX:
        message = f"{field}: {len(draft.artifacts)} artifacts; at most {ARTIFACTS_MAX}"
        raise TooLarge(message, field=field)
    size = sum(len(artifact.content) for artifact in draft.artifacts)
    if size > bytes_max:
        raise TooLarge(f"{field}: {size} bytes in all; at most {bytes_max}", field=field)
    seen: set[str] = set()
    for index, artifact in enumerate(draft.artifacts):
        name = artifact.name
        if artifact.sha256:
            _check_reference_to_upload(artifact, f"{field}[{index}].sha256")
        fault = ""
        if not is_file_path(name):
            fault = f"{name[:80]!r} is not a relative path of a file"
        elif name in seen:
            fault = f"{name!r} occurs twice"
        if fault:
            raise InvalidRequest(f"{field}[{index}].name: {fault}", field=f"{field}[{index}].name")
        seen.add(name)


def _check_reference_to_upload(artifact: Artifact, field: str) -> None:
    if artifact.content:
        raise InvalidRequest(f"{field}: give it or the content, not both", field=field)
    if not _SHA256.fullmatch(artifact.sha256):
        raise InvalidRequest(f"{field}: must be 64 lower-case hex digits", field=field)


def _form(text: str, field: str, form: re.Pattern[str]) -> str:
    if form.fullmatch(text):
        return text
    what = f"{text[:80]!r} is not of the form {form.pattern}" if text else "missing"
    raise InvalidRequest(f"{field}: {what}", field=field)


def _is_group(group_id: str) -> bool:
    return not group_id or REQUEST_FORM.fullmatch(group_id) is not None


def _refuse_ids(draft: RequestDraft, index: int) -> None:
    _form(draft.request_id, f"requests[{index}].request_id", REQUEST_FORM)
    _form(draft.group_id, f"requests[{index}].group_id", REQUEST_FORM)


def _refuse_twice(request_id: str, first: int, index: int) -> None:
    field = f"requests[{index}].request_id"
    message = f"{field}: {request_id!r} is already requests[{first}] of this message"
    raise InvalidRequest(message, field=field)
