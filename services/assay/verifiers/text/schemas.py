"""Compiles a caller's schema into a validator, or reports why it cannot.

Everything that could fail while a response is judged fails here, on submission: an unknown dialect,
a keyword with a malformed value, an unresolved reference, a pattern that Python cannot express, a
schema that would apply itself to the same value endlessly. Only schemas reachable from the root are
checked. Referenced documents are never fetched: they are found among `documents` and the
metaschemas, or refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # has no stubs
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import lookup_recursive_ref

from assay.verifiers.options import Dialect
from assay.verifiers.text.dialects import (
    SPECIFICATIONS,
    VALIDATORS,
    Json,
    Judge,
    Number,
    dialect_named,
)
from assay.verifiers.text.ecma_regex import Untranslatable, translate

NODES_MAX: Final = 200_000
"""Values of a schema and its documents."""
_IN_PLACE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_IN_PLACE: Final = ("not", "if", "then", "else")
_SINGLE: Final = (
    "additionalProperties",
    "additionalItems",
    "propertyNames",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_NAMED: Final = ("properties", "patternProperties")
_NAMED_IN_PLACE: Final = ("dependencies", "dependentSchemas")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_REF_STANDS_ALONE: Final = (Dialect.DRAFT_4, Dialect.DRAFT_6, Dialect.DRAFT_7)
Path: TypeAlias = tuple[str | int, ...]
Resolver: TypeAlias = Any


class SchemaRefused(ValueError):
    """The schema cannot judge.

    `path` leads to the faulty value from the root of `document`, or of the schema if that is
    `None`; a step `$ref` follows the reference.
    """

    def __init__(self, why: str, path: Path = (), document: str | None = None) -> None:
        super().__init__(why)
        self.path = path
        self.document = document


class _Place(NamedTuple):
    schema: Json
    resolver: Resolver
    path: Path


def prepare(schema: Json, documents: Mapping[str, Json], dialect: Dialect) -> Judge:
    """Return a validator of the library for `schema`.

    Args:
        schema: an object or a truth value.
        documents: other documents by the URI that references name.
        dialect: the dialect of a schema without `$schema`.

    Raises:
        SchemaRefused: it cannot judge.
    """
    named = _dialect_of(schema, dialect)
    root = _exact(schema)
    others = {uri: _exact(document) for uri, document in documents.items()}
    _check_form(root, named)
    for uri, document in others.items():
        if _dialect_of(document, named) is not named:
            raise SchemaRefused("in another dialect than the schema", ("$schema",), uri)
        _check_form(document, named, uri)
    specification = SPECIFICATIONS[named]
    resources = [(uri, specification.create_resource(other)) for uri, other in others.items()]
    registry = REGISTRY.combine(Registry().with_resources(resources).crawl())
    resolver = registry.resolver_with_root(specification.create_resource(root))
    _Walk(root, list(others.values()), named, resolver).run()
    return VALIDATORS[named](root, registry=registry)


def _dialect_of(schema: Json, default: Dialect) -> Dialect:
    if not isinstance(schema, dict) or "$schema" not in schema:
        return default
    named = dialect_named(schema["$schema"])
    if named is None:
        known = ", ".join(dialect.value for dialect in Dialect)
        message = f"{str(schema['$schema'])[:200]!r} is not one of the dialects {known}"
        raise SchemaRefused(message, ("$schema",))
    return named


def _exact(value: Json) -> Json:
    """A copy with exact numbers: the shortest decimal for the same double."""
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return Number(repr(value)) if isinstance(value, float) else value


def _check_form(schema: Json, dialect: Dialect, document: str | None = None) -> None:
    metaschema = VALIDATORS[dialect].META_SCHEMA
    judge = validator_for(metaschema, default=VALIDATORS[dialect])(metaschema)
    try:
        error = next(judge.iter_errors(schema), None)
    except (RecursionError, SchemaError) as failed:
        message = f"it could not be checked: {failed!r}"[:300]
        raise SchemaRefused(message, document=document) from None
    if error is not None:
        path = tuple(error.absolute_path)
        raise SchemaRefused(str(error.message)[:300], path, document)


class _Walk:
    """Visits every reachable schema once."""

    def __init__(
        self, root: Json, others: Sequence[Json], dialect: Dialect, resolver: Resolver
    ) -> None:
        self._dialect = dialect
        self._root = root
        self._start = resolver
        self._specification = SPECIFICATIONS[dialect]
        self._own = {id(node) for tree in (root, *others) for node in _nodes(tree)}
        self._seen: dict[int, _Place] = {}
        self._waiting: list[_Place] = []
        self._in_place: dict[int, list[int]] = {}
        self._patterns: list[tuple[dict[str, Json], str, str, Path]] = []
        self._references: list[tuple[_Place, str]] = []

    def run(self) -> None:
        """Check the schemas, then translate their patterns to Python.

        Raises:
            SchemaRefused: it cannot judge.
        """
        self._add(_Place(self._root, self._start, ()))
        while self._waiting:
            self._look(self._waiting.pop())
        self._refuse_endless()
        if self._translate_patterns():
            for place, keyword in self._references:
                self._targets(place, keyword)

    def _add(self, place: _Place) -> int:
        key = id(place.schema)
        if isinstance(place.schema, dict) and key in self._own and key not in self._seen:
            self._seen[key] = place
            self._waiting.append(place)
        elif not isinstance(place.schema, (dict, bool)):
            raise SchemaRefused("refers to something that is not a schema", place.path)
        return key

    def _look(self, place: _Place) -> None:
        schema = place.schema
        edges = self._in_place.setdefault(id(schema), [])
        if place.path and _dialect_of(schema, self._dialect) is not self._dialect:
            raise SchemaRefused("another dialect inside a schema", (*place.path, "$schema"))
        for keyword in _REFERENCES:
            if keyword in schema and keyword in VALIDATORS[self._dialect].VALIDATORS:
                self._references.append((place, keyword))
                edges += [self._add(target) for target in self._targets(place, keyword)]
        if "$ref" in schema and self._dialect in _REF_STANDS_ALONE:
            return  # its siblings are ignored
        for inner, is_in_place, steps in self._inner(schema):
            if isinstance(inner, bool):
                continue
            resource = self._specification.create_resource(inner)
            resolver = place.resolver.in_subresource(resource)
            key = self._add(_Place(inner, resolver, (*place.path, *steps)))
            if is_in_place:
                edges.append(key)
        self._note_patterns(schema, place.path)

    def _inner(self, schema: Mapping[str, Json]) -> Iterator[tuple[Json, bool, Path]]:
        """Subschemas of `schema`, whether they apply to the same value, and their paths."""
        known = VALIDATORS[self._dialect].VALIDATORS
        for keyword in schema.keys() & known.keys() | (schema.keys() & {"then", "else"}):
            value = schema[keyword]
            if keyword in _IN_PLACE:
                yield value, True, (keyword,)
            elif keyword in _SINGLE or (keyword == "items" and not isinstance(value, list)):
                yield value, False, (keyword,)
            elif keyword in _IN_PLACE_LISTS or keyword in ("items", "prefixItems"):
                for index, inner in enumerate(value):
                    yield inner, keyword in _IN_PLACE_LISTS, (keyword, index)
            elif keyword in _NAMED or keyword in _NAMED_IN_PLACE:
                for name, inner in value.items():
                    if isinstance(inner, (dict, bool)):
                        yield inner, keyword in _NAMED_IN_PLACE, (keyword, name)

    # -- references ----------------------------------------------------------------------------
    def _targets(self, place: _Place, keyword: str) -> list[_Place]:
        path = (*place.path, keyword)
        reference = place.schema[keyword]
        try:
            resolved = place.resolver.lookup(reference)
            found = [resolved]
            if keyword == "$recursiveRef":
                found.append(lookup_recursive_ref(place.resolver))
        except (Unresolvable, ValueError, RecursionError) as error:
            why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            message = f"refers to {reference[:200]!r}, which does not exist ({why}); references "
            raise SchemaRefused(message + "are not fetched, give `documents`", path) from None
        if keyword != "$ref":
            found += self._dynamic_targets(resolved, keyword)
        return [_Place(one.contents, one.resolver, path) for one in found]

    def _dynamic_targets(self, resolved: Json, keyword: str) -> Iterable[Json]:
        """All possible targets of a dynamic reference, for any path that reaches it."""
        anchor = resolved.contents
        if keyword == "$dynamicRef" and isinstance(anchor, dict) and "$dynamicAnchor" in anchor:
            fragment = f"#{anchor['$dynamicAnchor']}"
        elif keyword == "$recursiveRef":
            fragment = "#"
        else:
            return
        for place in tuple(self._seen.values()):
            with_root = isinstance(place.schema, dict) and (
                place.schema.get("$recursiveAnchor") is True
                or place.schema.get("$dynamicAnchor") is not None
            )
            if with_root:
                try:
                    yield place.resolver.lookup(fragment)
                except Unresolvable:
                    continue

    def _refuse_endless(self) -> None:
        """A cycle of schemas on the same value would never end."""
        state: dict[int, int] = {}
        for start in self._in_place:
            stack = [(start, iter(self._in_place[start]))] if start not in state else []
            state.setdefault(start, 1)
            while stack:
                node, following = stack[-1]
                after = next(following, None)
                if after is None:
                    state[node] = 2
                    stack.pop()
                elif state.get(after) == 1:
                    message = "it applies itself to the same value endlessly"
                    raise SchemaRefused(message, self._seen[after].path)
                elif after not in state:
                    state[after] = 1
                    stack.append((after, iter(self._in_place.get(after, ()))))

    # -- patterns ------------------------------------------------------------------------------
    def _note_patterns(self, schema: dict[str, Json], path: Path) -> None:
        if isinstance(schema.get("pattern"), str):
            self._patterns.append((schema, "pattern", schema["pattern"], (*path, "pattern")))
        for pattern in schema.get("patternProperties", ()):
            place = (*path, "patternProperties", pattern)
            self._patterns.append((schema, "patternProperties", pattern, place))

    def _translate_patterns(self) -> bool:
        """True if names in `patternProperties` changed."""
        renamed = False
        for serial, (schema, keyword, pattern, path) in enumerate(self._patterns):
            try:
                translated = translate(pattern, serial=serial)
            except Untranslatable as error:
                message = f"{pattern[:100]!r} is not a supported pattern: {error}"
                raise SchemaRefused(message[:300], path) from None
            if keyword == "pattern":
                schema[keyword] = translated
            elif translated != pattern:
                renamed = True
                _rename(schema[keyword], pattern, translated)
        return renamed


def _rename(named: dict[str, Json], old: str, new: str) -> None:
    while new in named:
        new += "(?:)"  # two patterns with the same meaning stay separate
    named[new] = named.pop(old)


def _nodes(tree: Json) -> Iterator[Json]:
    """Every object and list of a tree."""
    waiting = [tree]
    count = 0
    while waiting:
        node = waiting.pop()
        count += 1
        if count > NODES_MAX:
            raise SchemaRefused(f"more than {NODES_MAX} values")
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def shown(path: Sequence[str | int]) -> str:
    """A path in the form of error messages: `.properties.a[0]`."""
    plain = re.compile(r"[A-Za-z0-9_$-]{1,80}")
    return "".join(
        f".{step}" if isinstance(step, str) and plain.fullmatch(step) else f"[{step!r}]"
        for step in path
    )
