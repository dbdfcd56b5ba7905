"""Reads the fields of a YAML document one by one; collects problems instead of raising."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from skewscope.kb.problems import Problem, join_names, suggest_name
from skewscope.kb.yamlfile import Document, FieldPath, type_label

MAX_TEXT = 4096
MAX_HINTS = 50


@dataclass
class FieldReader:
    """Reader of a document. A faulty field reads as its default, so that all problems are found."""

    document: Document
    problems: list[Problem] = field(default_factory=list)

    def add_problem(self, path: FieldPath, found: str, expected: str, hint: str = "") -> None:
        """Adds a problem at a field."""
        self.problems.append(self.document.problem(path, found, expected, hint))

    def value_at(self, path: FieldPath) -> Any:
        """Returns the value at a path; None where there is none."""
        value = self.document.data
        for part in path:
            if isinstance(part, int):
                value = value[part] if isinstance(value, list) and part < len(value) else None
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return value

    def check_keys(self, path: FieldPath, required: Iterable[str], optional: Iterable[str] = ()) -> bool:
        """Returns whether there is a mapping; adds problems for unknown and missing fields."""
        value, required = self.value_at(path), list(required)
        if not isinstance(value, dict):
            self.add_problem(path, type_label(value), "a mapping")
            return False
        names = [*required, *optional]
        for key in value:
            if key not in names:
                self.problems.append(self.document.unknown_key((*path, str(key)), names))
        for key in required:
            if value.get(key) is None:
                self.add_problem((*path, key), "no value", f"the field {key!r}")
        return True

    def item_paths(self, path: FieldPath, most: int = 1_000_000) -> Iterator[FieldPath]:
        """Returns the path of each item of a list; a missing list is empty."""
        value = self.value_at(path)
        if value is None:
            return
        if not isinstance(value, list):
            self.add_problem(path, type_label(value), "a list")
            return
        if len(value) > most:
            self.add_problem(path, f"{len(value)} items", f"at most {most}")
        for index in range(min(len(value), most)):
            yield (*path, index)

    def text(self, path: FieldPath, *, without: str = "", choice: Iterable[str] = ()) -> str:
        """Returns the text at a path; '' where it is missing or faulty."""
        value, choice = self.value_at(path), list(choice)
        if value is None:
            return ""
        if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_TEXT:
            hint = "Put it in quotes." if isinstance(value, int | float) else ""
            found = f"{type_label(value)} ({value!r:.40})"
            self.add_problem(path, found, f"a line of text of at most {MAX_TEXT} characters", hint)
            return ""
        if bad := next((c for c in without if c in value), ""):
            self.add_problem(path, f"{value!r}", f"a name without {bad!r}")
            return ""
        if choice and value not in choice:
            self.add_problem(path, f"{value!r}", f"one of {join_names(choice)}", self.suggest_name(value, choice))
            return ""
        return value

    def texts(self, path: FieldPath, **how: Any) -> tuple[str, ...]:
        """Returns the valid texts of a list."""
        return tuple(text for item in self.item_paths(path) if (text := self.required_text(item, **how)))

    def required_text(self, path: FieldPath, **how: Any) -> str:
        """Like `text`; a missing text is a problem too."""
        if self.value_at(path) is None:
            self.add_problem(path, "nothing", "text")
        return self.text(path, **how)

    def count(self, path: FieldPath, most: int) -> int:
        """Returns the whole number at a path; 0 where it is missing or faulty."""
        value = self.value_at(path)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            self.add_problem(path, f"{type_label(value)} ({value!r:.40})", f"a whole number from 0 to {most}")
            return 0
        return value

    def suggest_name(self, name: str, names: Iterable[str]) -> str:
        """Returns a hint for the first problems only; searching many names is slow."""
        return suggest_name(name, names) if len(self.problems) < MAX_HINTS else ""

    def check_version(self, newest: int = 1) -> None:
        """Checks the field `version`."""
        value = self.value_at(("version",))
        if value is not None and (isinstance(value, bool) or value not in range(1, newest + 1)):
            hint = "It was written for a newer Skewscope." if isinstance(value, int) and value > newest else ""
            self.add_problem(("version",), f"{value!r:.40}", f"a version up to {newest}", hint)


def is_finite_number(value: Any) -> bool:
    """Returns whether a value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
