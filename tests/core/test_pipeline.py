"""Which stages come after a stage."""

from assay.core.ids import PipelineName, StageName
from assay.core.pipeline import PipelineSpec, followers


def pipeline(name: str, *stages: str) -> PipelineSpec:
    return PipelineSpec(
        name=PipelineName(name), description="", stages=tuple(map(StageName, stages))
    )


def test_what_follows_a_stage_follows_it_in_each_pipeline() -> None:
    found = followers(
        [
            pipeline("cpp", "compile", "run", "report"),
            pipeline("cpp.short", "compile", "run"),
            pipeline("one", "program.compile", "program.run"),
            pipeline("other", "program.compile", "judged.run"),
            pipeline("alone", "run"),
        ]
    )
    assert found == {"compile": ("run",)}
    assert followers([pipeline("cpp", "a", "b", "c")]) == {"a": ("b", "c"), "b": ("c",)}
