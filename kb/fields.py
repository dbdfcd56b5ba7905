"""The fields of a YAML document, read one by one; every fault is remembered and nothing is raised."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from skewscope.kb.problems import Problem, listed, nearest
from skewscope.kb.yamlfile import Document, Path_, kind_of

MOST_TEXT = 4096
MOST_HINTS = 50


@dataclass
class Fields:
    """A document being read. What is faulty reads as its default, so that reading goes on to the next fault."""

    document: Document
    problems: list[Problem] = field(default_factory=list)

    def fault(self, path: Path_, found: str, expected: str, hint: str = "") -> None:
        """Remembers a fault at a field."""
        self.problems.append(self.document.problem(path, found, expected, hint))

    def at(self, path: Path_) -> Any:
        """The value at a path, None where there is none."""
        value = self.document.data
        for part in path:
            if isinstance(part, int):
                value = value[part] if isinstance(value, list) and part < len(value) else None
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return value

    def known(self, path: Path_, required: Iterable[str], optional: Iterable[str] = ()) -> bool:
        """Whether a mapping is there; its unknown and missing fields are faults."""
        value, required = self.at(path), list(required)
        if not isinstance(value, dict):
            self.fault(path, kind_of(value), "a mapping")
            return False
        names = [*required, *optional]
        for key in value:
            if key not in names:
                self.problems.append(self.document.unknown_key((*path, str(key)), names))
        for key in required:
            if value.get(key) is None:
                self.fault((*path, key), "no value", f"the field {key!r}")
        return True

    def items(self, path: Path_, most: int = 1_000_000) -> Iterator[Path_]:
        """The path of each item of a list; a missing list is an empty one."""
        value = self.at(path)
        if value is None:
            return
        if not isinstance(value, list):
            self.fault(path, kind_of(value), "a list")
            return
        if len(value) > most:
            self.fault(path, f"{len(value)} items", f"at most {most}")
        for index in range(min(len(value), most)):
            yield (*path, index)

    def text(self, path: Path_, *, without: str = "", choice: Iterable[str] = ()) -> str:
        """The text at a path, '' where it is missing or faulty."""
        value, choice = self.at(path), list(choice)
        if value is None:
            return ""
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MOST_TEXT:
            hint = "Put it in quotes." if isinstance(value, int | float) else ""
            found = f"{kind_of(value)} ({value!r:.40})"
            self.fault(path, found, f"a line of text of at most {MOST_TEXT} characters", hint)
            return ""
        if bad := next((c for c in without if c in value), ""):
            self.fault(path, f"{value!r}", f"a name without {bad!r}")
            return ""
        if choice and value not in choice:
            self.fault(path, f"{value!r}", f"one of {listed(choice)}", self.nearest(value, choice))
            return ""
        return value

    def texts(self, path: Path_, **how: Any) -> tuple[str, ...]:
        """The texts of a list, without the faulty ones."""
        return tuple(text for item in self.items(path) if (text := self.some_text(item, **how)))

    def some_text(self, path: Path_, **how: Any) -> str:
        """Like `text`, where nothing at all is a fault too."""
        if self.at(path) is None:
            self.fault(path, "nothing", "text")
        return self.text(path, **how)

    def count(self, path: Path_, most: int) -> int:
        """The whole number at a path, 0 where it is missing or faulty."""
        value = self.at(path)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            self.fault(path, f"{kind_of(value)} ({value!r:.40})", f"a whole number from 0 to {most}")
            return 0
        return value

    def nearest(self, name: str, names: Iterable[str]) -> str:
        """A hint for the first faults; looking for the nearest of many names is dear."""
        return nearest(name, names) if len(self.problems) < MOST_HINTS else ""

    def version(self, newest: int = 1) -> None:
        """Checks the field `version`."""
        value = self.at(("version",))
        if value is not None and (isinstance(value, bool) or value not in range(1, newest + 1)):
            hint = "It was written for a newer Skewscope." if isinstance(value, int) and value > newest else ""
            self.fault(("version",), f"{value!r:.40}", f"a version up to {newest}", hint)


def finite(value: Any) -> bool:
    """Whether a value is a number that one can count with."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
