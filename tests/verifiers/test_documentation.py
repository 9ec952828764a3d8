"""The documentation names every pipeline, setting, reference field and verdict that there is."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from assay.verifiers.registry import load_pipelines, stages_of

ROOT = Path(__file__).resolve().parents[2]
VERIFIERS = ROOT / "services" / "assay" / "verifiers"
PIPELINES = load_pipelines(found=())


def fields(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_pipelines_are_documented(name: str) -> None:
    text = (ROOT / "docs" / "pipelines.md").read_text()
    definition = PIPELINES[next(known for known in PIPELINES if known == name)]
    words = {name, *definition.spec.stages, *fields(definition.settings)}
    words |= fields(definition.reference)
    missing = [word for word in words if not re.search(rf"\b{re.escape(word)}\b", text)]
    assert missing == []


def test_verdict_words_are_documented() -> None:
    text = (ROOT / "docs" / "verdicts.md").read_text()
    sources = "".join(path.read_text() for path in VERIFIERS.rglob("*.py"))
    said = set(re.findall(r'verdict="([a-z_]+)"', sources))
    said |= set(re.findall(r'(?:_lost|CandidateGone|_NotKept)\("([a-z_]+)"', sources))
    assert len(said) > 10
    assert [word for word in said if f"`{word}`" not in text] == []


def test_the_stages_that_start_with_their_first_request_are_listed() -> None:
    text = (ROOT / "docs" / "pipelines.md").read_text()
    [told] = re.findall(r"\*\*Stages start with.*?They are(.*?)The first request", text, re.S)
    found = {name for name, stage in stages_of(PIPELINES).items() if stage.spec.on_demand}
    assert set(re.findall(r"`(.+?)`", told)) == found


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_fields_of_settings_and_references_are_described_in_their_forms(name: str) -> None:
    definition = PIPELINES[next(known for known in PIPELINES if known == name)]
    for model in (definition.settings, definition.reference):
        properties = model.model_json_schema().get("properties", {})
        assert [field for field, form in properties.items() if not form.get("description")] == []
