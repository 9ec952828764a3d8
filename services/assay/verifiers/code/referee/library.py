"""Values of the standard library's own types on the wire: data that is not of a builtin type.

Only instances of exactly these types are data; an instance of a subclass may have methods of the
program's and stays an object there. Invariants: a value is made from its parts by the type's own
constructor, which opens, resolves and looks up nothing of the sender's choosing (a `ZoneInfo` reads
the machine's table of that zone); decoding is total, as all of `values`. A concrete `Path` is its
text for the tests, and its files are those of the program (`path_form`, `proxies.program_path`).
"""

from __future__ import annotations

import array
import datetime
import inspect
import ipaddress
import pathlib
import re
import sys
import time
import uuid
from collections import ChainMap, UserDict, UserList, UserString
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    Value = Any
    """Any value of a program or a test."""
    WireForm = Any
    """JSON as received or as it will be sent; may be hostile."""

    class Encoder(Protocol):
        """What makes the wire forms of the values inside of one."""

        def many(self, values: Iterable[Value], depth: int) -> list[WireForm]:
            """Their wire forms."""

        def mutable(self, tag: str, value: object, depth: int, *extra: WireForm) -> WireForm:
            """The wire form of a container, numbered so that its identity is kept."""

    class Decoder(Protocol):
        """What makes the values of the wire forms inside of one."""

        def many(self, forms: WireForm, depth: int) -> list[Value]:
            """The values of several forms, at one depth."""


_PATHS: Final[dict[str, type[pathlib.PurePath]]] = {
    kind.__name__: kind for kind in (pathlib.PurePosixPath, pathlib.PureWindowsPath)
}
_ADDRESSES: Final[dict[str, Callable[[str], object]]] = {
    kind.__name__: kind
    for kind in (
        *(ipaddress.IPv4Address, ipaddress.IPv4Network, ipaddress.IPv4Interface),
        *(ipaddress.IPv6Address, ipaddress.IPv6Network, ipaddress.IPv6Interface),
    )
}
PATH: Final = "PP"
_CONCRETE: Final = type(pathlib.Path())
_IsoDate: Final = type(datetime.date.min.isocalendar())
_NAME_MAX: Final = 80
_ZONE: Final = re.compile(
    r"[A-Za-z]{1,20}(?:[_+-]?[A-Za-z0-9]{1,20}){0,4}(?:/[A-Za-z0-9_+-]{1,30}){0,2}"
)
_PATTERN_CHARS_MAX: Final = 2_000
_FLAGS: Final = (
    re.ASCII | re.IGNORECASE | re.LOCALE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE
)
"""Not `DEBUG`, which prints."""
_FORMATS: Final = frozenset("bBhHiIlLqQfd")
"""Of memory views; the others cannot be rebuilt from bytes."""


def _text(form: WireForm) -> str:
    if type(form) is not str:
        raise TypeError("not text")
    return form


def _pairs(of: Decoder, forms: WireForm, depth: int) -> dict[Value, Value]:
    return dict(of.many(pair, depth) for pair in forms)


def _pairs_out(to: Encoder, pairs: Any, depth: int) -> WireForm:  # noqa: ANN401 - of anything
    return [to.many(pair, depth) for pair in pairs]


def is_name(name: object) -> bool:
    """Whether a rebuilt namespace may have it: no attribute that Python looks up itself."""
    return (
        type(name) is str
        and len(name) <= _NAME_MAX
        and name.isidentifier()
        and not (name.startswith("__") and name.endswith("__") and len(name) > len("____"))
    )


def _isocalendar(parts: list[Value]) -> Value:
    year, week, weekday = parts
    return datetime.date.fromisocalendar(year, week, weekday).isocalendar()


def _zone(of: Decoder, form: list[Any], depth: int) -> Value:
    return datetime.timezone(*of.many(form[1], depth))


def _user_dict(of: Decoder, form: list[Any], depth: int) -> Value:
    return UserDict(_pairs(of, form[1], depth))


def _chained(of: Decoder, form: list[Any], depth: int) -> Value:
    return ChainMap(*(_pairs(of, pairs, depth) for pairs in form[1]))


def _struct_time_out(to: Encoder, value: time.struct_time, depth: int) -> WireForm:
    return ["Tz", to.many((*value, value.tm_zone, value.tm_gmtoff), depth)]


def _pattern_out(_to: Encoder, value: re.Pattern[Any], _depth: int) -> WireForm | None:
    said = value.pattern
    if type(said) not in (str, bytes) or len(said) > _PATTERN_CHARS_MAX:
        return None
    is_text = type(said) is str
    return ["re", said if is_text else said.decode("latin-1"), is_text, value.flags & _FLAGS]


def _pattern(_of: Decoder, form: list[Any], _depth: int) -> Value:
    said, flags = _text(form[1]), re.RegexFlag(form[3]) & _FLAGS
    if len(said) > _PATTERN_CHARS_MAX:
        raise ValueError("a long pattern")
    return re.compile(said if form[2] else said.encode("latin-1"), flags)


def _zone_info_out(_to: Encoder, value: Any, _depth: int) -> WireForm | None:  # noqa: ANN401 - of a module that may be absent
    key = value.key
    return ["Tk", key] if type(key) is str and _ZONE.fullmatch(key) else None


def _zone_info(_of: Decoder, form: list[Any], _depth: int) -> Value:
    from zoneinfo import ZoneInfo

    if not _ZONE.fullmatch(_text(form[1])):
        raise ValueError("no zone")
    return ZoneInfo(form[1])


def _normal(of: Decoder, form: list[Any], depth: int) -> Value:
    from statistics import NormalDist

    mean, deviation = of.many(form[1], depth)
    return NormalDist(mean, deviation)


def _view_out(_to: Encoder, value: memoryview, _depth: int) -> WireForm | None:
    if value.ndim != 1 or value.format not in _FORMATS:
        return None
    return ["mv", value.tobytes().decode("latin-1"), value.format]


def _view(_of: Decoder, form: list[Any], _depth: int) -> memoryview:
    return memoryview(_text(form[1]).encode("latin-1")).cast(form[2])


WRITERS: Final[dict[type, Callable[[Encoder, Any, int], Any]]] = {
    **{
        kind: lambda _to, value, _depth: ["P", type(value).__name__, str(value)]
        for kind in _PATHS.values()
    },
    **{
        kind: lambda _to, value, _depth: ["ip", type(value).__name__, str(value)]
        for kind in _ADDRESSES.values()
        if isinstance(kind, type)
    },
    uuid.UUID: lambda _to, value, _depth: ["u", value.hex],
    array.array: lambda to, value, depth: to.mutable("A", value, depth, value.typecode),
    MappingProxyType: lambda to, value, depth: ["mp", _pairs_out(to, value.items(), depth)],
    ChainMap: lambda to, value, depth: [
        "mc",
        [_pairs_out(to, dict(one).items(), depth) for one in value.maps],
    ],
    UserDict: lambda to, value, depth: ["md", _pairs_out(to, value.data.items(), depth)],
    UserList: lambda to, value, depth: ["ml", to.many(value.data, depth)],
    UserString: lambda _to, value, _depth: ["ms", value.data],
    memoryview: _view_out,
    time.struct_time: _struct_time_out,
    datetime.timezone: lambda to, value, depth: ["To", to.many(value.__getinitargs__(), depth)],
    _IsoDate: lambda to, value, depth: ["Ti", to.many(value, depth)],
    re.Pattern: _pattern_out,
    type(NotImplemented): lambda _to, _value, _depth: ["!"],
}
"""By exact type."""
_LATE_WRITERS: Final[dict[tuple[str, str], Callable[[Encoder, Any, int], Any]]] = {
    ("zoneinfo", "ZoneInfo"): _zone_info_out,
    ("statistics", "NormalDist"): lambda to, value, depth: [
        "nd",
        to.many((value.mean, value.stdev), depth),
    ],
}
"""Of modules that are imported by the few programs that use them."""
READERS: Final[dict[str, Callable[[Decoder, Any, int], Any]]] = {
    "P": lambda _of, form, _depth: _PATHS[form[1]](_text(form[2])),
    "ip": lambda _of, form, _depth: _ADDRESSES[form[1]](_text(form[2])),
    "u": lambda _of, form, _depth: uuid.UUID(hex=_text(form[1])),
    "mp": lambda of, form, depth: MappingProxyType(_pairs(of, form[1], depth)),
    "mc": _chained,
    "md": _user_dict,
    "ml": lambda of, form, depth: UserList(of.many(form[1], depth)),
    "ms": lambda _of, form, _depth: UserString(_text(form[1])),
    "mv": _view,
    "Tz": lambda of, form, depth: time.struct_time(of.many(form[1], depth)),
    "To": _zone,
    "Ti": lambda of, form, depth: _isocalendar(of.many(form[1], depth)),
    "re": _pattern,
    "Tk": _zone_info,
    "nd": _normal,
    "!": lambda _of, _form, _depth: NotImplemented,
}


def writer_of(kind: type) -> Callable[[Encoder, Any, int], Any] | None:
    """What writes values of exactly this type; `None` if the type is not of the library."""
    write = WRITERS.get(kind)
    if write is not None:
        return write
    for (module, name), late in _LATE_WRITERS.items():
        if vars(sys.modules.get(module, sys)).get(name) is kind:
            return late
    return None


def path_form(value: object) -> WireForm | None:
    """The form of a concrete path of this machine; `None` for other values."""
    return [PATH, str(value)] if type(value) is _CONCRETE else None


def namespace_form(to: Encoder, value: object, depth: int) -> WireForm | None:
    """The form of a `SimpleNamespace` that the program returns; `None` for other values.

    One of the tests goes to the program by reference, so this is not among the writers.
    """
    if type(value) is not SimpleNamespace or not all(map(is_name, vars(value))):
        return None
    return to.mutable("N=", value, depth)


def signature_from(told: Value) -> inspect.Signature:
    """A signature from data: name, kind, defaults and annotations of each parameter.

    Raises:
        AttributeError: it is not a signature.
    """
    try:
        returned, parameters = told
        return inspect.Signature(
            [
                inspect.Parameter(
                    name,
                    _PARAMETER_KINDS[kind],
                    default=default[0] if default else inspect.Parameter.empty,
                    annotation=annotation[0] if annotation else inspect.Parameter.empty,
                )
                for name, kind, default, annotation in parameters
            ],
            return_annotation=returned[0] if returned else inspect.Signature.empty,
        )
    except (TypeError, ValueError, IndexError):
        raise AttributeError("__signature__") from None


_PARAMETER_KINDS: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)
