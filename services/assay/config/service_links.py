"""Variables that Kubernetes puts into every pod of a namespace for each Service of it.

A Service `assay-api` gives `ASSAY_API_SERVICE_HOST`, `ASSAY_API_PORT` and more. Their names begin
as those of our settings do, but they set nothing here. They are known by their forms and by two
that every Service has, so that a misspelt setting is never taken for one. Pods with
`enableServiceLinks: false` have none of them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_HOST: Final = "_SERVICE_HOST"
_NUMBER: Final = "[0-9]{1,5}"
_ADDRESS: Final = "[0-9A-Fa-f:.]{2,45}"
_PORT: Final = "_PORT_[0-9]{1,5}_(?:TCP|UDP|SCTP)"
_FORMS: Final = (
    ("_SERVICE_PORT(?:_[A-Z0-9_]+)?", _NUMBER),
    (f"_PORT|{_PORT}", f"(?:tcp|udp|sctp)://.+:{_NUMBER}"),
    (f"{_PORT}_PROTO", "tcp|udp|sctp"),
    (f"{_PORT}_PORT", _NUMBER),
    (f"{_PORT}_ADDR", _ADDRESS),
)
"""How a name goes on after the Service's, and the form of its value."""


def service_links(environment: Mapping[str, str], *, prefix: str) -> frozenset[str]:
    """Names of the variables that begin so and are about Services, not from an operator."""
    ours = {name: value for name, value in environment.items() if name.startswith(prefix)}
    services = [
        name.removesuffix(_HOST)
        for name, value in ours.items()
        if name.endswith(_HOST)
        and re.fullmatch(_ADDRESS, value)
        and re.fullmatch(_NUMBER, ours.get(f"{name.removesuffix(_HOST)}_SERVICE_PORT", ""))
    ]
    return frozenset(name for service in services for name in _of(service, ours))


def _of(service: str, ours: Mapping[str, str]) -> Iterator[str]:
    yield f"{service}{_HOST}"
    for name, value in ours.items():
        rest = name.removeprefix(service)
        if rest != name and any(
            re.fullmatch(form, rest) and re.fullmatch(text, value) for form, text in _FORMS
        ):
            yield name
