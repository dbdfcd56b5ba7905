"""Problems in input files, with file, line, found, expected and a hint.

Everything that reads a file collects `Problem`s and goes on; only the command line turns them into an exit code.

SkewscopeError
  InputError          one or more problems in a file, a stream or an argument
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem: where, what was found, what was expected, what to do."""

    file: str
    line: int
    """1-based; 0 where there are no lines (a directory, a binary file)."""
    field: str
    """Dotted path inside the file, a byte offset, or '' for the whole."""
    found: str
    expected: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        field = f" {self.field}:" if self.field else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{place}:{field} found {self.found}, expected {self.expected}.{hint}"


class SkewscopeError(Exception):
    """Base class of the errors of this package."""


class InputError(SkewscopeError):
    """The input is invalid; `problems` lists all reasons."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type["InputError"], tuple[tuple[Problem, ...]]]:
        # An exception is pickled by its message, from which the problems could not be restored.
        return InputError, (self.problems,)


class NothingKnownError(InputError):
    """The input was read, and has nothing that could be judged."""

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Problem, ...]]]:
        return NothingKnownError, (self.problems,)


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Returns a hint with the closest of `names`; '' where none is close."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f"Did you mean {close[0]!r}?" if close else ""


def join_names(names: Sequence[str], most: int = 8) -> str:
    """Joins names to one phrase, cut after `most`."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
