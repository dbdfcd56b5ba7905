"""Objects of a Kubernetes API server as of now: listed once, then kept by watches that end after a while.

A watch begins at the `resourceVersion` of the list, or of the last event; bookmarks move it on without an object. A
server that has forgotten that version answers 410, and the list is read again (Kubernetes API concepts, "Efficient
detection of changes").
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

MAX_OBJECTS = 500_000
"""Objects that are kept; others are not seen."""
GONE = 410

T = TypeVar("T")
RawObject = Mapping[str, Any]


class ApiAnswerError(Exception):
    """The answer is not that of a Kubernetes API server."""


@dataclass
class ObjectMirror(Generic[T]):
    """What is needed of the objects of one collection."""

    path: str
    """That of the collection, such as /api/v1/nodes."""
    describe: Callable[[RawObject], T]
    """Returns what is needed of an object."""
    version: str = ""
    """That from which to watch; '' to read the list."""
    kept: dict[str, T] = field(default_factory=dict)
    """What is needed of each object, by namespace and name."""
    refused: int = 0
    """Objects above the limit."""
    _listed: dict[str, T] = field(default_factory=dict)
    """Those of the pages of a list that is not yet whole."""

    def take_page(self, answer: bytes) -> str:
        """Takes in a page of a list, and returns the token of the next one; '' where the list is whole.

        Raises:
            ApiAnswerError: it is no list.
        """
        page = _parse(answer)
        items, about = page.get("items"), page.get("metadata")
        if not isinstance(items, list) or not isinstance(about, dict):
            raise ApiAnswerError(f"{self.path}: an answer that is no list of objects")
        for item in items:
            self._keep(self._listed, item)
        if more := str(about.get("continue") or ""):
            return more
        self.kept, self._listed = self._listed, {}
        self.version = str(about.get("resourceVersion") or "")
        return ""

    def list_anew(self) -> None:
        """Forgets from which version to watch: the list is read again. What is kept counts until then."""
        self.version, self._listed = "", {}

    def take_events(self, answer: bytes) -> None:
        """Takes in the events of a watch, one in each line.

        Raises:
            ApiAnswerError: they are none.
        """
        for line in answer.splitlines():
            if line.strip() and not self._take_event(_parse(line)):
                self.list_anew()
                return

    def _take_event(self, event: RawObject) -> bool:
        """Takes in an event; returns whether the watch may go on from it."""
        what, item = event.get("type"), event.get("object")
        if not isinstance(item, dict):
            raise ApiAnswerError(f"{self.path}: an event without an object")
        if what == "ERROR":
            if item.get("code") == GONE:
                return False
            raise ApiAnswerError(f"{self.path}: {item.get('message')!s:.160}")
        if what in ("ADDED", "MODIFIED"):
            self._keep(self.kept, item)
        elif what == "DELETED":
            self.kept.pop(_key_of(item), None)
        elif what != "BOOKMARK":
            raise ApiAnswerError(f"{self.path}: an event of type {what!r:.40}")
        self.version = str(_about(item).get("resourceVersion") or self.version)
        return True

    def _keep(self, there: dict[str, T], item: object) -> None:
        if not isinstance(item, dict):
            raise ApiAnswerError(f"{self.path}: an item that is no object")
        key = _key_of(item)
        if key not in there and len(there) >= MAX_OBJECTS:
            self.refused += 1
            return
        there[key] = self.describe(item)


def list_dicts(value: object) -> Iterable[RawObject]:
    """Returns the objects of a list in an answer; none where it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def member(value: object, *names: str) -> Any:
    """Returns a member of a member of an object; None where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _parse(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ApiAnswerError("an answer that is no JSON") from None
    if not isinstance(found, dict):
        raise ApiAnswerError("an answer that is no object")
    return found


def _about(item: RawObject) -> RawObject:
    about = item.get("metadata")
    return about if isinstance(about, dict) else {}


def _key_of(item: RawObject) -> str:
    about = _about(item)
    return f"{about.get('namespace', '')}/{about.get('name', '')}"
