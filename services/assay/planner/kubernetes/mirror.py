"""A copy of all objects of one kind under a selector, kept current by a list and its watch.

Invariants: after a list the copy has exactly the objects of the list; a watch resumes from the last
version seen, and a version that is too old (410) leads to a new list. Events may be repeated. Where
the server's newest version is older than one that was seen, its store was set back to a backup: a
watch would be silent until the versions are reached again. So everything is listed, and what was
known by versions is forgotten.
"""

from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

import structlog

from assay.core.errors import AssayError
from assay.edge.clock import Clock
from assay.planner.kubernetes.api import Gone, KubernetesApi, Refused, pause
from assay.planner.kubernetes.pods import Json, older, part

View_co = TypeVar("View_co", covariant=True)
View = TypeVar("View")
NOT_ASKED: Final = "the API server was not asked yet"
QUICK_S: Final = 1.0
"""A watch that ends sooner than this counts as failed, or it would be opened without a pause."""

log = structlog.get_logger(__name__)


class Parse(Protocol[View_co]):
    """Reads an object; `before` = what was known of it."""

    def __call__(self, found: Json, *, before: object) -> View_co: ...


class Mirror(Generic[View]):
    """Kept current while `run` runs."""

    def __init__(
        self,
        api: KubernetesApi,
        path: str,
        selector: str,
        *,
        parse: Parse[View],
        seen: Callable[[View], None],
        clock: Clock,
        set_back: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._path = path
        self._selector = selector
        self._parse = parse
        self._seen = seen
        self._clock = clock
        self._set_back = set_back
        self._newest = ""
        """The last version seen."""
        self.objects: dict[str, View] = {}
        """By name."""
        self.listed = False
        """Whether there is a copy at all."""
        self.lost_ns = 0
        """Monotonic instant since which it is not kept current."""
        self.why = NOT_ASKED
        """Why it is not kept current; empty = it is."""

    async def run(self) -> None:
        """List and watch until cancelled."""
        version, failures, was_cut = "", 0, False
        while True:
            begun_ns = self._clock.monotonic_ns()
            try:
                if was_cut and older(await self._api.newest(self._path, self._selector), version):
                    version = ""
                version = version or await self._list()
                was_cut = False
                async for event in self._api.watch(self._path, self._selector, version):
                    version, failures = self._take(event) or version, 0
                    self._newest = version
                if (self._clock.monotonic_ns() - begun_ns) / 1e9 < QUICK_S:
                    raise Refused(0, "the API server ends its watches at once")
                self._current()
            except Gone as error:
                if not version:  # no list can be obtained either
                    self._lost(error.message)
                version = ""
                log.info("listed_again", path=self._path)
                if failures:
                    await self._clock.sleep(QUICK_S)
                failures += 1
            except AssayError as error:
                self._lost(error.message)
                was_cut = True
                if isinstance(error, Refused):
                    version = ""
                log.info("watch_interrupted", path=self._path, why=error.message)
                await pause(self._clock, error, failures)
                failures += 1

    async def _list(self) -> str:
        items, version = await self._api.list_all(self._path, self._selector)
        if older(version, self._newest):
            log.warning("set_back_to_a_backup", path=self._path, version=version)
            self._set_back()
        self._newest = version
        found = {}
        for item in items:
            name = _name(item)
            found[name] = self._parse(item, before=self.objects.get(name))
        self.objects = found
        for view in found.values():
            self._seen(view)
        self._current()
        return version

    def _take(self, event: Json) -> str:
        self._current()
        item = part(event, "object")
        name, kind = _name(item), event.get("type")
        if kind == "DELETED":
            self.objects.pop(name, None)
        elif kind in {"ADDED", "MODIFIED"}:
            view = self._parse(item, before=self.objects.get(name))
            self.objects[name] = view
            self._seen(view)
        return str(part(item, "metadata").get("resourceVersion") or "")

    def _current(self) -> None:
        self.listed, self.why = True, ""

    def _lost(self, why: str) -> None:
        if not self.why:
            self.lost_ns = self._clock.monotonic_ns()
        self.why = why


def _name(item: Json) -> str:
    return str(part(item, "metadata").get("name") or "")
