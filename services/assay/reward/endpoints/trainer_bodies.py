"""Messages of trainers that ask an HTTP endpoint for rewards, as requests. Pure.

A label becomes a reference as in the adapters (`assay.core.tools.labels`). The pipeline is not in
the message but in the endpoint's address. Requests of one message are accepted each by
itself: one that is refused is unscored and stops no other.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from assay.core.errors import InvalidRequest
from assay.core.tools.labels import group_of, output_text, reference_of, row_label
from assay.core.tools.response import response_bytes
from assay.reward.drafts import Message, RequestDraft, ScoreDraft


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class OpenRlhfBody(_Body):
    """The body of `--reward.remote_url http://...`."""

    query: list[str]
    prompts: list[str]
    labels: list[Any]


class SlimeBody(_Body):
    """The body of slime's `remote_rm`."""

    prompt: Any = ""
    response: str
    label: Any = None


class RollBody(_Body):
    """The body of ROLL's `submit_url`."""

    prompt: Any = ""
    response: str
    reward_info: Any
    data_id: Any = ""
    timeout: float = Field(default=300.0, gt=0, le=7 * 24 * 3600)


def openrlhf_message(body: object) -> Message:
    """What the model wrote is the query without the prompt in front of it."""
    asked = OpenRlhfBody.model_validate(body)
    sizes = {len(asked.query), len(asked.prompts), len(asked.labels)}
    if len(sizes) > 1:
        message = "query, prompts, labels: lists of one length"
        raise InvalidRequest(message, field="labels")
    drafts = [
        _draft(at, query.removeprefix(prompt), label, prompt)
        for at, (query, prompt, label) in enumerate(
            zip(asked.query, asked.prompts, asked.labels, strict=True)
        )
    ]
    return _message(drafts, context=json.dumps({"count": len(drafts)}))


def slime_message(body: object) -> Message:
    """slime's body, which has one sample."""
    asked = SlimeBody.model_validate(body)
    return _message([_draft(0, asked.response, asked.label, asked.prompt)])


def roll_message(body: object) -> Message:
    """One sample; `reward_info` is `{"ground_truth": ...}`, or the reference itself."""
    asked = RollBody.model_validate(body)
    info = asked.reward_info
    label = info["ground_truth"] if isinstance(info, Mapping) and "ground_truth" in info else info
    draft = _draft(0, asked.response, label, asked.data_id or asked.prompt)
    return _message([draft], context=json.dumps({"timeout_s": asked.timeout}))


class NemoGymBody(BaseModel):
    """The body of `/verify`: a row, the created response, and whatever else the row holds."""

    model_config = ConfigDict(extra="allow")

    responses_create_params: dict[str, Any] = Field(default_factory=dict)
    response: dict[str, Any]


def nemo_gym_message(body: object) -> Message:
    """One sample: the text of the assistant's messages in the response's output."""
    asked = NemoGymBody.model_validate(body)
    row = asked.model_extra or {}
    label = row_label(row)
    text = output_text(asked.response.get("output"))
    draft = _draft(0, text, label, asked.responses_create_params.get("input", ""))
    echoed = {
        **row,
        "responses_create_params": asked.responses_create_params,
        "response": asked.response,
    }
    return _message([draft], context=json.dumps(echoed))


def _draft(at: int, response: str, label: object, prompt: object) -> RequestDraft:
    reference = json.dumps(reference_of(label)).encode()
    return RequestDraft(f"r{at}", group_of(prompt), response_bytes(response), reference)


def _message(drafts: Sequence[RequestDraft], context: str = "") -> Message:
    return Message(score=ScoreDraft(), requests=drafts, each=True, context=context)
