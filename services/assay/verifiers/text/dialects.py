"""The five dialects of JSON Schema, based on `jsonschema` with corrections.

Numbers are exact: an instance holds `int` and `Number` (a decimal), never a binary float, so that
`multipleOf`, bounds and integers are decided by the digits of the text. One collector implements
`unevaluated*` for both dialects that have it. The classes are registered with the library, which
then also uses them for nested schemas.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from jsonschema import validators
from jsonschema.exceptions import ValidationError
from referencing import Specification
from referencing import jsonschema as drafts
from referencing.jsonschema import lookup_recursive_ref

from assay.verifiers.options import Dialect

Json: TypeAlias = Any
Judge: TypeAlias = Any
"""A validator of the library, or its class; their types lack what keywords need."""


class Number(Decimal):
    """A JSON number with a fraction or an exponent, exact."""

    __slots__ = ()

    def __repr__(self) -> str:
        """The number as JSON text, for messages."""
        return str(self)


class BigInteger(Number):
    """A JSON number without fraction and exponent, too long for Python to read as `int`."""

    __slots__ = ()


SPECIFICATIONS: Final[Mapping[Dialect, Specification[Any]]] = {
    Dialect.DRAFT_4: drafts.DRAFT4,
    Dialect.DRAFT_6: drafts.DRAFT6,
    Dialect.DRAFT_7: drafts.DRAFT7,
    Dialect.DRAFT_2019_09: drafts.DRAFT201909,
    Dialect.DRAFT_2020_12: drafts.DRAFT202012,
}
_URIS: Final = {
    "json-schema.org/draft-04/schema": Dialect.DRAFT_4,
    "json-schema.org/draft-06/schema": Dialect.DRAFT_6,
    "json-schema.org/draft-07/schema": Dialect.DRAFT_7,
    "json-schema.org/draft/2019-09/schema": Dialect.DRAFT_2019_09,
    "json-schema.org/draft/2020-12/schema": Dialect.DRAFT_2020_12,
}


def dialect_named(uri: object) -> Dialect | None:
    """The dialect that `$schema` names; with `http` or `https`, with `#` or without."""
    if not isinstance(uri, str):
        return None
    return _URIS.get(uri.removeprefix("https://").removeprefix("http://").removesuffix("#"))


# -- keywords ------------------------------------------------------------------------------------
def is_number(_checker: object, value: object) -> bool:
    """A JSON number: true is not one."""
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def is_integer(_checker: object, value: object) -> bool:
    """From draft 6 on, 1.0 is an integer."""
    if isinstance(value, Decimal):
        return _scaled(value)[1] >= 0
    return isinstance(value, int) and not isinstance(value, bool)


def is_written_integer(_checker: object, value: object) -> bool:
    """In draft 4 an integer has neither fraction nor exponent."""
    return isinstance(value, (int, BigInteger)) and not isinstance(value, bool)


def is_multiple(value: int | Decimal, divisor: int | Decimal) -> bool:
    """Exact, in time and memory that do not grow with the exponents."""
    digits, exponent = _scaled(value)
    divisor_digits, divisor_exponent = _scaled(divisor)
    if not digits or not divisor_digits:
        return not digits
    shift = exponent - divisor_exponent
    if shift >= 0:
        return digits * pow(10, shift, divisor_digits) % divisor_digits == 0
    # `digits` has no trailing zero, so a quotient by ten is never whole.
    return False


def _scaled(value: int | Decimal) -> tuple[int, int]:
    """`m, e` with value = m * 10^e and no trailing zero in m; 0, 0 for zero."""
    number = value if isinstance(value, Decimal) else Decimal(value)
    _, digits, exponent = number.as_tuple()
    count = len(digits)
    while count and digits[count - 1] == 0:
        count -= 1
    if not count or not isinstance(exponent, int):
        return 0, 0
    zeros = len(digits) - count
    whole = int(Decimal((number.is_signed(), digits[:count], 0)))
    return whole, exponent + zeros


def _multiple_of(
    validator: Judge, divisor: int | Decimal, instance: Json, _schema: Json
) -> Iterator[ValidationError]:
    if validator.is_type(instance, "number") and not is_multiple(instance, divisor):
        yield ValidationError(f"{instance!r} is not a multiple of {divisor!r}")


def _unique_items(
    validator: Judge, wanted: Json, instance: Json, _schema: Json
) -> Iterator[ValidationError]:
    if wanted and validator.is_type(instance, "array"):
        seen: set[Hashable] = set()
        for index, item in enumerate(instance):
            before = len(seen)
            seen.add(_identity(item))
            if len(seen) == before:
                yield ValidationError(f"item {index} is a duplicate")
                return


def _identity(value: object) -> Hashable:
    """Equal for equal JSON values and no others; one pass over the value."""
    if isinstance(value, list):
        return ("array", *(_identity(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, _identity(item)) for key, item in value.items()))
    if isinstance(value, bool) or value is None:
        return ("word", str(value))
    return value if isinstance(value, (str, int, Decimal)) else ("other", repr(value))


# -- evaluated by other keywords -----------------------------------------------------------------
def _unevaluated_properties(
    validator: Judge, rest: Json, instance: Json, _schema: Json
) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        evaluated = _evaluated(validator, instance, skip="unevaluatedProperties")
        for name, value in instance.items():
            if name not in evaluated:
                yield from _rest(validator, value, rest, name, "unevaluatedProperties")


def _unevaluated_items(
    validator: Judge, rest: Json, instance: Json, _schema: Json
) -> Iterator[ValidationError]:
    if validator.is_type(instance, "array"):
        evaluated = _evaluated(validator, instance, skip="unevaluatedItems")
        for index, value in enumerate(instance):
            if index not in evaluated:
                yield from _rest(validator, value, rest, index, "unevaluatedItems")


def _rest(
    validator: Judge, value: Json, schema: Json, path: str | int, keyword: str
) -> Iterator[ValidationError]:
    if schema is False:
        error = ValidationError(f"it was not evaluated, and {keyword} is false")
        error.path.appendleft(path)
        yield error
    else:
        yield from validator.descend(value, schema, path=path)


def _evaluated(validator: Judge, instance: Json, *, skip: str = "") -> set[str | int]:
    """Names or indexes of `instance` that the validator's schema, which accepts it, evaluated.

    Core specification 2019-09 and 2020-12, section 11; `skip` is the keyword that asks.
    """
    schema = validator.schema
    if not isinstance(schema, dict):
        return set()
    look = _own_properties if isinstance(instance, dict) else _own_items
    found = look(validator, schema, instance, skip)
    for inner in _in_place(validator, schema, instance):
        if inner.is_valid(instance):
            found |= _evaluated(inner, instance)
    return found


def _own_properties(validator: Judge, schema: Json, instance: Json, skip: str) -> set[str | int]:
    if "additionalProperties" in schema or (
        "unevaluatedProperties" in schema and skip != "unevaluatedProperties"
    ):
        return set(instance)
    found: set[str | int] = set(schema.get("properties", ())) & set(instance)
    for pattern in schema.get("patternProperties", ()):
        found |= {name for name in instance if re.search(pattern, name)}
    return found


def _own_items(validator: Judge, schema: Json, instance: Json, skip: str) -> set[str | int]:
    everything: set[str | int] = set(range(len(instance)))
    if "unevaluatedItems" in schema and skip != "unevaluatedItems":
        return everything
    items = schema.get("items")
    if "$dynamicRef" not in validator.VALIDATORS:  # 2019-09
        if isinstance(items, list):
            return everything if "additionalItems" in schema else set(range(len(items)))
        return everything if items is not None else set()
    if items is not None:
        return everything
    found: set[str | int] = set(range(len(schema.get("prefixItems", ()))))
    if "contains" in schema:
        inner = _inside(validator, schema["contains"])
        found |= {index for index, item in enumerate(instance) if inner.is_valid(item)}
    return found


def _in_place(validator: Judge, schema: Json, instance: Json) -> Iterator[Judge]:
    """Validators of the schemas that are applied to the same instance."""
    resolver = validator._resolver  # noqa: SLF001 - all keywords of the library read it there
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            yield _at(validator, resolver.lookup(schema[keyword]))
    if "$recursiveRef" in schema:
        yield _at(validator, lookup_recursive_ref(resolver))
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from (_inside(validator, inner) for inner in schema.get(keyword, ()))
    if "if" in schema:
        condition = _inside(validator, schema["if"])
        yield condition
        branch = "then" if condition.is_valid(instance) else "else"
        if branch in schema:
            yield _inside(validator, schema[branch])
    if isinstance(instance, dict):
        for keyword in ("dependentSchemas", "dependencies"):
            for name, inner in schema.get(keyword, {}).items():
                if name in instance and not isinstance(inner, list):
                    yield _inside(validator, inner)


def _inside(validator: Judge, schema: Json) -> Judge:
    specification = drafts.DRAFT202012
    if "$dynamicRef" not in validator.VALIDATORS:
        specification = drafts.DRAFT201909
    resource = specification.create_resource(schema)
    resolver = validator._resolver.in_subresource(resource)  # noqa: SLF001
    return validator.evolve(schema=schema, _resolver=resolver)


def _at(validator: Judge, resolved: Json) -> Judge:
    return validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)


# -- the classes ---------------------------------------------------------------------------------
_CORRECTED: Final[dict[str, Any]] = {
    "multipleOf": _multiple_of,
    "uniqueItems": _unique_items,
    # Later metaschemas keep it, with the meaning of older schemas.
    "dependencies": validators.Draft7Validator.VALIDATORS["dependencies"],
}
_UNEVALUATED: Final[dict[str, Any]] = {
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
}


def _corrected(base: Judge, dialect: Dialect) -> Judge:
    integer = is_written_integer if dialect is Dialect.DRAFT_4 else is_integer
    checker = base.TYPE_CHECKER.redefine_many({"number": is_number, "integer": integer})
    keywords = dict(_CORRECTED)
    keywords |= {name: judge for name, judge in _UNEVALUATED.items() if name in base.VALIDATORS}
    extend: Callable[..., Judge] = validators.extend  # the stubs do not declare its types
    return extend(base, keywords, version=dialect.value, type_checker=checker)


VALIDATORS: Final[Mapping[Dialect, Judge]] = {
    Dialect.DRAFT_4: _corrected(validators.Draft4Validator, Dialect.DRAFT_4),
    Dialect.DRAFT_6: _corrected(validators.Draft6Validator, Dialect.DRAFT_6),
    Dialect.DRAFT_7: _corrected(validators.Draft7Validator, Dialect.DRAFT_7),
    Dialect.DRAFT_2019_09: _corrected(validators.Draft201909Validator, Dialect.DRAFT_2019_09),
    Dialect.DRAFT_2020_12: _corrected(validators.Draft202012Validator, Dialect.DRAFT_2020_12),
}
"""Validator classes of the library."""
