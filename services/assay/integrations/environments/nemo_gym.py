"""NeMo-Gym: a resources server whose `/verify` asks the platform.

    class Server(Scored, SimpleResourcesServer):
        async def verify(self, body: VerifyRequest) -> VerifyResponse:
            return VerifyResponse.model_validate(await self.assay(body.model_dump()))

A response that was not judged has `mask_sample` (also in `instance_config`, where NeMo-RL looks)
beside the number 0.0, and the class of its failure. NeMo-RL zeroes the loss of a masked sample, but
counts its 0.0 in the group's mean: `nemo_rl.install_baseline` there takes it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from assay.client import Outcome
from assay.core.tools.labels import output_text, row_label
from assay.integrations.sample import Sample, group_of, reference_of
from assay.integrations.scorer import shared_scorer

UNSCORED: Final = 0.0
"""The number beside `mask_sample`."""


class Scored:
    """To be mixed in before `nemo_gym.base_resources_server.SimpleResourcesServer`."""

    assay_scoring: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Options of `Scoring`; the variables of docs/integrations hold without a pipeline."""

    async def assay(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Judge the last message of the assistant; the answer of `/verify`.

        Args:
            body: a `BaseVerifyRequest` and the fields of its row, as a plain object. The first of
                `assay.core.tools.labels.ROW_LABELS` is what the response is judged by.

        Raises:
            InvalidRequest: `response.output` is not a list.
        """
        judged = await shared_scorer(self.assay_scoring).judge_one_async(
            Sample(
                response=output_text(body["response"].get("output")),
                reference=reference_of(row_label(body)),
                group_id=group_of(body["responses_create_params"].get("input", "")),
            )
        )
        if judged.reward is not None:
            return {**body, "reward": judged.reward, "reward_components": {"reward": judged.reward}}
        return {**body, **masked(body.get("instance_config"), judged.outcome, judged.cause)}


def masked(instance_config: object, outcome: str, cause: str) -> dict[str, Any]:
    """The fields of an answer without a reward."""
    instance = instance_config if isinstance(instance_config, Mapping) else {}
    return {
        "reward": UNSCORED,
        "mask_sample": True,
        "instance_config": {**instance, "mask_sample": True},
        "_ng_failure_class": outcome,
        "_ng_failure_terminal": outcome == Outcome.REJECTED_INVALID.value,
        "_ng_failure_message": cause,
    }
