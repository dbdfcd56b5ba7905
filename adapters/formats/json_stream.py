"""Reads a large JSON object piece by piece: the elements of its long arrays one by one, its other members whole.

Memory is that of one element, so a trace of many gigabytes can be read; its size, depth and parts are limited.
"""

import codecs
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from skewscope.adapters.formats.bounded_json import count_parts
from skewscope.adapters.formats.bounds import PARTS
from skewscope.kb.problems import InputError, Problem

CHUNK = 1 << 20
MAX_ELEMENT = 64 << 20
"""Characters of one element, or of a member that is read whole."""
PARTS_FREE = 2 * CHUNK
"""Characters of a window whose parts are not counted."""
SPACE = " \t\r\n"
DELIMITERS = frozenset(SPACE + ",:]}")
TRUNCATED = "Copy the file again; was the process ended while it wrote?"


def iter_members(stream: BinaryIO, file: str, arrays: Collection[str]) -> Iterator[tuple[str, Any]]:
    """Yields (name, value) of each member of an object in the order of the file.

    A member in `arrays` that is an array is yielded as one pair for each of its elements.

    Raises:
        InputError: the text is no JSON object, is cut off, or an element is too large.
    """
    reader = JsonReader(stream, file)
    reader.expect("{")
    yield from reader.members(arrays)


class CutOffError(InputError):
    """The text ends inside a value."""


@dataclass
class JsonReader:
    """A window on the text of a stream."""

    stream: BinaryIO
    file: str
    text: str = ""
    at: int = 0
    line: int = 1
    is_over: bool = False
    _decoder: json.JSONDecoder = field(default_factory=lambda: json.JSONDecoder(strict=False))
    _bytes: codecs.IncrementalDecoder = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    def error(self, found: str, expected: str, hint: str = "") -> InputError:
        """Returns the error of the current place."""
        return InputError([self._problem(found, expected, hint)])

    def _problem(self, found: str, expected: str, hint: str) -> Problem:
        line = self.line + self.text.count("\n", 0, self.at)
        return Problem(self.file, line, "", found, expected, hint)

    def _cut_off(self, expected: str) -> CutOffError:
        return CutOffError([self._problem("the end of the file", expected, TRUNCATED)])

    def documents(self, objects: Collection[str], arrays: Collection[str]) -> Iterator[tuple[int, str, Any]]:
        """Yields (number of the document, name, value) of the members of the values that follow one another.

        An element of an array that is a document of its own has the name ''. A member in `objects` that is an object is
        yielded as its members; one in `arrays`, of a document or of such a member, as its elements.

        Raises:
            InputError: the text is no JSON objects or arrays, an element is too large, or (CutOffError) the text ends
                inside a value.
        """
        number = 0
        while not self.is_at_end():
            if self.take_if("["):
                yield from ((number, "", element) for element in self.elements())
            else:
                self.expect("{")
                yield from ((number, *member) for member in self.members(arrays, objects))
            number += 1

    def is_at_end(self) -> bool:
        """Returns whether only blanks are left."""
        self._skip_space()
        return self.at >= len(self.text)

    def members(self, arrays: Collection[str], objects: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
        """Yields the members of an object whose brace was taken; see `documents`."""
        if self.take_if("}"):
            return
        while True:
            name = self.value()
            if not isinstance(name, str):
                raise self.error(f"{name!r:.40}", "the name of a member")
            self.expect(":")
            if name in arrays and self.take_if("["):
                yield from ((name, element) for element in self.elements())
            elif name in objects and self.take_if("{"):
                yield from self.members(arrays)
            else:
                yield name, self.value()
            if self.take_if("}"):
                return
            self.expect(",")

    def elements(self) -> Iterator[Any]:
        """Yields the elements of an array whose bracket was taken."""
        if self.take_if("]"):
            return
        while True:
            yield self.value()
            if self.take_if("]"):
                return
            self.expect(",")

    def value(self) -> Any:
        """Returns the next value."""
        while True:
            self._skip_space()
            try:
                value, end = self._decoder.raw_decode(self.text, self.at)
            except RecursionError:
                raise self.error("values nested too deeply", "flatter ones") from None
            except ValueError as error:
                if self.is_over:
                    raise self._broken(error) from None
            else:
                # A number at the end of the window may go on.
                if self.text[end : end + 1] in DELIMITERS or self.is_over:
                    self.at = end
                    return value
            self._read()

    def _broken(self, error: ValueError) -> InputError:
        at = error.pos if isinstance(error, json.JSONDecodeError) else self.at
        if at >= len(self.text.rstrip()) or str(error).startswith("Unterminated"):
            return self._cut_off("the rest of it")
        self.at = at
        return self.error(f"{self.text[at : at + 40]!r}", "JSON")

    def expect(self, mark: str) -> None:
        """Takes a mark.

        Raises:
            InputError: something else comes next.
        """
        if not self.take_if(mark):
            found = self.text[self.at : self.at + 40]
            raise self.error(repr(found), repr(mark)) if found else self._cut_off(repr(mark))

    def take_if(self, mark: str) -> bool:
        """Takes a mark if it comes next; returns whether it does."""
        self._skip_space()
        if self.text[self.at : self.at + 1] != mark:
            return False
        self.at += 1
        return True

    def _skip_space(self) -> None:
        while True:
            while self.at < len(self.text) and self.text[self.at] in SPACE:
                self.at += 1
            if self.at < len(self.text) or self.is_over:
                return
            self._read()

    def _read(self) -> None:
        """Adds text to the window; what was taken leaves it."""
        if len(self.text) - self.at > MAX_ELEMENT:
            raise self.error(f"an element of more than {MAX_ELEMENT} characters", "smaller ones")
        # Doubling keeps the repeated parsing of a long element short.
        data = self.stream.read(max(CHUNK, len(self.text) - self.at))
        self.is_over = not data
        self.line += self.text.count("\n", 0, self.at)
        self.text = self.text[self.at :] + self._bytes.decode(data, final=not data)
        self.at = 0
        # A shorter window has fewer parts than count: only a long element makes it longer.
        if len(self.text) > PARTS_FREE:
            PARTS.check(self.file, count_parts(self.text), "Is it the right file?")
