"""The runtime's errors are kinds of the platform's, so that one table translates them all."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from assay.core import errors as core
from assay.edge.status import STATUS, detail_of
from assay.rollout import errors
from assay.rollout.errors import CrashCause, Limit, RolloutError
from assay.rollout.models import load_tokenizer
from assay.rollout.models.errors import UnsupportedModel

if TYPE_CHECKING:
    from pathlib import Path

KINDS = [
    (errors.InvalidRollout("prompt", "empty"), core.InvalidRequest),
    (errors.EngineSaturated(Limit.REWARD), core.Saturated),
    (errors.RolloutGone("ended"), core.FailedPrecondition),
    (
        errors.InvalidWeights("version", errors.WeightsProblem.VERSION, "taken"),
        core.InvalidRequest,
    ),
    (errors.WeightsNotReady("not staged"), core.FailedPrecondition),
    (errors.RuntimeClosed("closed"), core.FailedPrecondition),
    (errors.EngineLent("lent"), core.FailedPrecondition),
    (errors.WorkerStalled("late"), core.DeadlinePassed),
    (errors.WorkerCrashed(CrashCause.ENGINE, -3, [4, 5]), core.DependencyDown),
    (errors.ServerLost("no answer"), core.DependencyDown),
    (errors.ServerRefused("no", status=400), core.FailedPrecondition),
    (errors.HostExhausted("no memory"), core.DependencyDown),
    (errors.NativeUnavailable("no library"), core.DependencyDown),
]


@pytest.mark.parametrize(("error", "kind"), KINDS)
def test_the_edge_translates_it_as_what_it_is(
    error: core.AssayError, kind: type[core.AssayError]
) -> None:
    assert isinstance(error, RolloutError)
    detail = detail_of(error)
    assert (detail.status, detail.reason) == (STATUS[kind], kind.reason)


def test_every_error_of_the_runtime_is_among_them() -> None:
    ours = {one for one in RolloutError.__subclasses__() if one.__module__ == errors.__name__}
    assert {type(error) for error, _ in KINDS} == ours


def test_the_field_and_the_time_to_come_back_reach_the_caller() -> None:
    assert detail_of(errors.InvalidRollout("prompt", "empty")).field == "prompt"
    assert detail_of(errors.EngineSaturated(Limit.SLOTS)).retry_after_ms > 0


def test_a_model_that_cannot_be_loaded_is_the_callers_to_change() -> None:
    pytest.importorskip("numpy")
    from assay.rollout.models import CorruptModel, EngineError, UnsupportedModel

    for error in (CorruptModel("cut short"), UnsupportedModel("sliding"), EngineError(-1, "no")):
        assert detail_of(error).status == STATUS[core.InvalidRequest]
    assert isinstance(CorruptModel("cut short"), ValueError)


def test_a_missing_package_of_readers_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UnsupportedModel, match=r"tokenizer.json: pip install 'assay\[rollout\]'"):
        load_tokenizer(file)
