"""Rewards from Assay in NeMo-Gym: a resources server whose `/verify` asks the platform.

    pip install . nemo-gym      # where the server runs
    assay up                     # on the machine that scores
    gym env init --resources-server sums   # this file as its app.py, assay in requirements.txt
    ASSAY_URL=HOST:8470 ASSAY_PIPELINE=math gym env start --resources-server sums --model-type ...

A response that the platform could not judge has `mask_sample`. docs/integrations/nemo.md
"""

from nemo_gym.base_resources_server import (
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from pydantic import ConfigDict

from assay.integrations.environments.nemo_gym import Scored


class VerifyRequest(BaseVerifyRequest):
    """A row, whatever its fields, and the response."""

    model_config = ConfigDict(extra="allow")


class VerifyResponse(BaseVerifyResponse):
    """The row, the reward, and whether it counts."""

    model_config = ConfigDict(extra="allow")


class Server(Scored, SimpleResourcesServer):
    """A resources server of NeMo-Gym with rewards from Assay."""

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        """Judge a response."""
        return VerifyResponse.model_validate(await self.assay(body.model_dump()))


if __name__ == "__main__":
    Server.run_webserver()
