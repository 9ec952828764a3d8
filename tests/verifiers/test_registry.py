"""Which pipelines there are, and what happens when two disagree."""

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.ids import PipelineName, StageName
from assay.verifiers import noop
from assay.verifiers.intake import parse_reference, parse_settings
from assay.verifiers.math.definition import AUDIT_CPU_S_MAX, EXTRACT_CPU_S_MAX
from assay.verifiers.port import ENTRY_POINT_GROUP
from assay.verifiers.registry import (
    PipelineClash,
    PipelineMalformed,
    load_handler,
    load_pipelines,
    stages_of,
)

[NOOP] = noop.define_pipelines(VerifierSettings())


def entry(monkeypatch: pytest.MonkeyPatch, given: object) -> EntryPoint:
    module = type(sys)("a_users_pipelines")
    module.__dict__["given"] = given
    monkeypatch.setitem(sys.modules, "a_users_pipelines", module)
    return EntryPoint(name="user", value="a_users_pipelines:given", group=ENTRY_POINT_GROUP)


SETTINGS_REQUIRED = {
    *("python_function", "composite", "shape"),
    *(
        "llm_judge",
        "llm_judge.pairwise",
        "llm_judge.listwise",
        "reward_model",
        "reward_model.local",
    ),
}
"""Their tasks have to name a function, components, rules or a provider."""


def test_every_built_in_pipeline_has_an_example_reference_that_its_model_accepts() -> None:
    import json

    for definition in load_pipelines(found=()).values():
        if definition.spec.name not in SETTINGS_REQUIRED:
            parse_settings(definition, b"")
        parse_reference(definition, json.dumps(definition.example_reference).encode())
        assert definition.spec.description


def test_what_a_pipelines_boxes_may_use_by_default_fits_into_a_slot_of_its_stages() -> None:
    for pipeline in load_pipelines(found=()).values():
        slot = max(stage.spec.resources.memory_bytes for stage in pipeline.stages)
        for name, field in pipeline.settings.model_fields.items():
            if name.endswith("memory_bytes"):
                assert field.default <= slot, (pipeline.spec.name, name)


def test_loading_definitions_imports_no_handler() -> None:
    import subprocess

    code = (
        "import sys; from assay.verifiers.registry import load_pipelines; load_pipelines(found=());"
        "print([m for m in ('math_verify', 'sympy', 'pyseccomp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_handler_can_be_loaded() -> None:
    for stage in stages_of(load_pipelines(found=())).values():
        assert callable(load_handler(stage))


def test_an_entry_point_may_give_a_definition_a_list_or_a_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = replace(NOOP, spec=replace(NOOP.spec, name=PipelineName("mine")))
    for given in (mine, [mine], lambda _settings: mine):
        found = [entry(monkeypatch, given)]
        assert PipelineName("mine") in load_pipelines(found=found)


def test_the_same_definition_twice_is_no_clash(monkeypatch: pytest.MonkeyPatch) -> None:
    load_pipelines(found=[entry(monkeypatch, NOOP)])


def test_one_pipeline_name_with_two_definitions_is_a_clash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(NOOP, spec=replace(NOOP.spec, description="mine now"))
    with pytest.raises(PipelineClash, match="pipeline noop of a_users_pipelines:given"):
        load_pipelines(found=[entry(monkeypatch, other)])


def test_one_stage_name_with_two_definitions_is_a_clash(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = replace(NOOP.stages[0], handler="mine:Handler")
    spec = replace(NOOP.spec, name=PipelineName("mine"))
    other = replace(NOOP, spec=spec, stages=(stage,))
    with pytest.raises(PipelineClash, match="stage noop"):
        load_pipelines(found=[entry(monkeypatch, other)])


@pytest.mark.parametrize("given", [42, None, [NOOP, 42], lambda _settings: 1 / 0])
def test_an_entry_point_that_gives_no_definition_is_named(
    monkeypatch: pytest.MonkeyPatch, given: object
) -> None:
    with pytest.raises(PipelineMalformed, match="a_users_pipelines:given"):
        load_pipelines(found=[entry(monkeypatch, given)])


def test_a_definition_whose_stages_disagree_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = replace(NOOP.spec, name=PipelineName("mine"), stages=(StageName("other"),))
    with pytest.raises(PipelineMalformed, match="name different stages"):
        load_pipelines(found=[entry(monkeypatch, replace(NOOP, spec=spec))])


def test_a_handler_that_is_not_there_is_named() -> None:
    stage = replace(NOOP.stages[0], handler="assay.verifiers.noop:Absent")
    with pytest.raises(PipelineMalformed, match="noop:Absent"):
        load_handler(stage)


def test_the_operators_cpu_limits_reach_the_stages() -> None:
    stages = stages_of(load_pipelines(VerifierSettings(math_cpu_s=1.5), found=()))
    assert stages[StageName("math.verify")].spec.cpu_s_max == (
        1.5 + AUDIT_CPU_S_MAX + EXTRACT_CPU_S_MAX
    )


def test_no_pipeline_module_lies_outside_the_package() -> None:
    for stage in stages_of(load_pipelines(found=())).values():
        module = load_handler(stage).__module__
        assert module.startswith("assay.verifiers.")
        assert Path(sys.modules[module].__file__ or "").exists()


def test_a_pipeline_of_an_entry_point_can_be_a_component(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = replace(NOOP, spec=replace(NOOP.spec, name=PipelineName("mine")))
    pipelines = load_pipelines(found=[entry(monkeypatch, mine)])
    settings = b'{"components": {"a": {"pipeline": "mine"}}}'
    assert parse_settings(pipelines[PipelineName("composite")], settings)
    with pytest.raises(InvalidRequest, match="'mine' cannot be a component"):
        parse_settings(load_pipelines(found=())[PipelineName("composite")], settings)
