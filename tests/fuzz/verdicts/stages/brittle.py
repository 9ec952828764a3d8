"""Cases of stages in confined processes whose handler fails while it judges a response.

`assay.verifiers.total.judged` decides with a control whose fault that is: whatever one response
makes the handler do ends as a reward, and what happens to every response never does.
"""

import random
from pathlib import Path
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

PATH: Final = Path(__file__).with_name("brittle_plugin")
_CAUGHT: Final = (
    "value", "lookup", "stop", "text", "long", "group", "os", "assertion", "unicode", "deep", "nested",
)  # fmt: skip
ENDS_SLOT: Final = "brittle: slot"
"""The kind of cases with which the process ends that judges them."""
_ENDS_SLOT: Final = ("spin", "memory", "exit", "interrupt", "leaves", "killed", "aborts")
_ALWAYS: Final = 99
RUNS_MAX: Final = 3
"""So many failures of one response, with a control that succeeds after each, are its fault."""


def brittle_case(rng: random.Random) -> Case:
    """A response that is judged, that fails now and then or always, or a host that fails always."""
    said = rng.choice(("right", "right", "wrong"))
    kind = rng.choice(("judged", "rarely", "always", "slot", "host", "host"))
    response, is_right = said, said == "right"
    if kind == "rarely":
        response = f"{rng.choice(_CAUGHT)} {rng.randint(1, RUNS_MAX - 1)} {said}"
    elif kind in {"always", "slot"}:
        failure = rng.choice(_CAUGHT if kind == "always" else _ENDS_SLOT)
        response, is_right = f"{failure} {_ALWAYS} {said}", False
    expected = Expected.RIGHT if is_right else Expected.WRONG
    return Case(
        pipeline=f"fuzz_brittle.{rng.choice(('plain', 'trusting', 'two'))}",
        kind=f"brittle: {kind}",
        response=response + " " * rng.randint(0, 9),
        reference={"sound": kind != "host"},
        expected=Expected.UNJUDGED if kind == "host" else expected,
    )
