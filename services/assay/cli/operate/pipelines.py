"""`assay pipelines`: what can be judged, and the form of references and settings."""

from dataclasses import asdict

from rich.table import Table

from assay.cli.console import AsJson, print_json
from assay.cli.printed import out
from assay.verifiers.registry import load_pipelines


def pipelines(*, as_json: AsJson = False) -> None:
    """List the pipelines and the form of their references and settings."""
    known = sorted(load_pipelines().values(), key=lambda each: each.spec.name)
    if as_json:
        print_json(
            [
                {
                    **asdict(each.spec),
                    "settings_schema": each.settings.model_json_schema(),
                    "reference_schema": each.reference.model_json_schema(),
                    "example_reference": dict(each.example_reference),
                }
                for each in known
            ]
        )
        return
    table = Table("pipeline", "stages", "what it judges", title="Pipelines", title_justify="left")
    for each in known:
        table.add_row(each.spec.name, " > ".join(each.spec.stages), each.spec.description)
    out.print(table)
