"""The tests' own API server says nothing that a real one does not."""

import json
from typing import Any

import pytest
from tests.kubernetes.api_server import ApiServer, Fault
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.exchanges import FORBIDDEN, RECORDED, beyond, have
from tests.kubernetes.real_server import RealServer


def recorded() -> dict[str, Any]:
    """The real one's answers by the name of the question."""
    found = json.loads(RECORDED.read_text("utf-8"))
    return {one["name"]: one for one in found["answers"]}


def test_the_version_of_the_recorded_server_is_known() -> None:
    assert json.loads(RECORDED.read_text("utf-8"))["version"].startswith("v1.")


@pytest.mark.fake_api
async def test_every_answer_is_one_that_a_real_server_gave(
    server: ApiServer, cluster: Cluster
) -> None:
    real = recorded()
    answers = await have(cluster, rights=False)
    forbidden = Fault(method=FORBIDDEN.method, part=FORBIDDEN.path, status=403)
    server.faults.append(forbidden)
    assert {one.name for one in answers} == set(real) - {FORBIDDEN.name}
    wrong = {
        one.name: (one.status, real[one.name]["status"], beyond(one.body, real[one.name]["body"]))
        for one in answers
        if one.status != real[one.name]["status"] or beyond(one.body, real[one.name]["body"])
    }
    assert wrong == {}


async def test_a_real_server_still_answers_as_recorded(
    cluster: Cluster, real: RealServer | None
) -> None:
    if real is None:
        pytest.skip("KUBEBUILDER_ASSETS has no kube-apiserver")
    known = recorded()
    answers = await have(cluster, rights=True)
    assert {one.name: one.status for one in answers} == {
        name: one["status"] for name, one in known.items()
    }
    for one in answers:
        assert beyond(known[one.name]["body"], one.body) == [], one.name
