"""Reads pickles of plain values: dictionaries, lists, tuples, texts, bytes, numbers, truth values and None.

A pickle is a program. This interpreter runs only the instructions that build plain values; it imports nothing,
constructs no object of a class and calls nothing. An instruction that would do so is an error that names what it asks
for. Size, depth and number of instructions are limited.
"""

import pickle
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.formats.bounds import PARTS
from skewscope.kb.problems import InputError, Problem

MAX_BYTES = 256 << 20
MAX_DEPTH = 64
INSTRUCTIONS = 2
"""Instructions of a part: one makes the value, one stores or adds it."""
MAX_LONG_BYTES = 64
"""Bytes of an integer: those of times and sizes have eight."""
PROTOCOLS = range(6)
TRUNCATED = "Copy the file again; was the process ended while it wrote?"

MARK = object()


class _PickleError(Exception):
    """Something that the pickle may not hold, at the current instruction."""

    def __init__(self, found: str, expected: str = "a pickle of plain values", hint: str = "") -> None:
        super().__init__(found)
        self.found, self.expected, self.hint = found, expected, hint


class _TooManyPartsError(Exception):
    """More instructions than are run without being asked to."""


def parse_pickle(data: bytes, file: str) -> Any:
    """Returns the plain value of a pickle.

    Args:
        data: the pickle.
        file: name for messages.

    Raises:
        InputError: the pickle is damaged, too large, or would construct an object.
    """
    if len(data) > MAX_BYTES:
        raise InputError([Problem(file, 0, "", f"{len(data)} bytes", f"at most {MAX_BYTES}")])
    reader = _PickleReader(data, INSTRUCTIONS * PARTS.limit())
    try:
        return reader.run()
    except _TooManyPartsError:
        raise InputError([PARTS.problem(file)]) from None
    except _PickleError as error:
        place = f"byte {reader.start}"
        raise InputError([Problem(file, 0, place, error.found, error.expected, error.hint)]) from None


@dataclass
class _PickleReader:
    """A stack machine for the instructions of plain values."""

    data: bytes
    most: int
    """Instructions that are run."""
    at: int = 0
    start: int = 0
    """Offset of the current instruction."""
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    count: int = 0

    def run(self) -> Any:
        """Returns the value that the pickle leaves."""
        while True:
            self.start = self.at
            code = self.take(1)
            if code == pickle.STOP:
                break
            run = instructions.get(code)
            if run is None:
                self._refuse(code)
            else:
                run(self)
            self.count += 1
            if self.count > self.most:
                raise _TooManyPartsError
        if len(self.stack) != 1 or self.stack[0] is MARK:
            raise _PickleError(f"{len(self.stack)} values at the end", "one")
        _check_depth(self.stack[0])
        return self.stack[0]

    def _refuse(self, code: bytes) -> None:
        """Raises the error of an instruction that is not run."""
        name = NAMES.get(code, "")
        if not name:
            raise _PickleError(f"the byte {code.hex()}", "an instruction of a pickle", "Is it another kind of file?")
        hint = "It was not run. A dump of plain values needs no such instruction; check where the file is from."
        raise _PickleError(f"the instruction {name}{self._wanted(code)}", hint=hint)

    def _wanted(self, code: bytes) -> str:
        """Returns what an instruction would import, as text."""
        if code in (pickle.GLOBAL, pickle.INST):
            module, name = (self.line()[:80] for _ in range(2))
            return f", which would import {module}.{name}"
        if code == pickle.STACK_GLOBAL:
            module, name = (str(word)[:80] for word in (["?", "?", *self.stack])[-2:])
            return f", which would import {module}.{name}"
        return ", which would construct an object" if code in CONSTRUCTING else ""

    def take(self, size: int) -> bytes:
        """Returns the next bytes."""
        if size < 0 or size > len(self.data) - self.at:
            found = f"the end of the file after {len(self.data)} bytes"
            raise _PickleError(
                found, f"{size} more bytes", "Copy the file again; was the process ended while it wrote?"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def line(self, encoding: str = "ascii") -> str:
        """Returns the text up to the next line feed."""
        end = self.data.find(b"\n", self.at)
        if end < 0:
            raise _PickleError("a line without an end", "a line feed")
        return self.take(end + 1 - self.at)[:-1].decode(encoding, "replace")

    def number(self, layout: str) -> Any:
        """Returns the next number in a layout of `struct`."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def pop(self) -> Any:
        """Takes the topmost value."""
        if not self.stack or self.stack[-1] is MARK:
            raise _PickleError("an instruction without its value", "a value before it")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        """Takes the values behind the last mark."""
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is MARK:
                found = self.stack[index + 1 :]
                del self.stack[index:]
                return found
        raise _PickleError("an instruction without its mark", "a mark before it")

    def top(self, kind: type) -> Any:
        """Returns the topmost value, which must be of this kind."""
        if not self.stack or type(self.stack[-1]) is not kind:
            raise _PickleError(f"no {kind.__name__} to add to", f"a {kind.__name__}")
        return self.stack[-1]

    def text(self, size: int) -> str:
        """Returns the next bytes as text."""
        return self.take(size).decode("utf-8", "replace")

    def integer(self, size: int) -> int:
        """Returns the next bytes as a signed integer."""
        if size > MAX_LONG_BYTES:
            raise _PickleError(f"an integer of {size} bytes", f"at most {MAX_LONG_BYTES}")
        return int.from_bytes(self.take(size), "little", signed=True)

    def remember(self, index: int) -> None:
        """Stores the topmost value in the memo."""
        value = self.pop()
        self.stack.append(value)
        self.memo[index] = value

    def recall(self, index: int) -> None:
        """Puts a value of the memo on the stack."""
        if index not in self.memo:
            raise _PickleError(f"the number {index} of no value", "one that was stored before")
        self.stack.append(self.memo[index])

    def add_dictionary(self) -> None:
        """Makes a dictionary of the values behind the last mark (protocol 0)."""
        pairs = self.pop_to_mark()
        self.stack.append({})
        self.set_items(pairs)

    def set_item(self) -> None:
        """Adds a key and a value to the dictionary below them."""
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def set_items(self, pairs: list[Any]) -> None:
        """Adds keys and values to the dictionary on the stack."""
        target = self.top(dict)
        if len(pairs) % 2:
            raise _PickleError("a key without a value", "pairs")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if type(key) not in KEYS:
                raise _PickleError(f"a key of type {type(key).__name__}", "text or a number")
            target[key] = value

    def add_tuple(self, size: int) -> None:
        """Makes a tuple of the topmost values."""
        values = [self.pop() for _ in range(size)]
        self.stack.append(tuple(reversed(values)))

    def add_decimal(self) -> None:
        """Puts the integer or truth value of a line on the stack (protocol 0)."""
        text = self.line()
        value: object = {"00": False, "01": True}.get(text)
        if value is None:
            value = _parse_decimal(text)
        self.stack.append(value)


KEYS = frozenset({str, bytes, int, float, bool, type(None)})


def _parse_decimal(text: str) -> int:
    digits = text.removesuffix("L")
    if len(digits) > 2 * MAX_LONG_BYTES or not re.fullmatch(r"-?\d+", digits, re.ASCII):
        raise _PickleError(f"{digits[:40]!r} for a number", "an integer")
    return int(digits)


def _check_depth(value: Any) -> None:
    """Refuses values that are nested too deeply; a value that occurs several times is followed once."""
    level, seen = [value], set()
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for one in level:
            if type(one) not in (dict, list, tuple) or id(one) in seen:
                continue
            seen.add(id(one))
            inner += one.values() if type(one) is dict else one
        level = inner
        if not level:
            return
    raise _PickleError(f"values nested deeper than {MAX_DEPTH}", "a flat dump")


def _push(make: Callable[[_PickleReader], Any]) -> Callable[[_PickleReader], None]:
    """Returns an instruction that puts a value on the stack."""

    def run(reader: _PickleReader) -> None:
        reader.stack.append(make(reader))

    return run


def _protocol(reader: _PickleReader) -> None:
    number = reader.number("<B")
    if number not in PROTOCOLS:
        raise _PickleError(f"protocol {number}", f"at most {PROTOCOLS[-1]}", "Is the file newer than this program?")


instructions: dict[bytes, Callable[[_PickleReader], object]] = {
    pickle.PROTO: _protocol,
    pickle.FRAME: lambda reader: reader.number("<Q"),
    pickle.MARK: _push(lambda _: MARK),
    pickle.POP: lambda reader: reader.stack.pop() if reader.stack else reader.pop(),
    pickle.NONE: _push(lambda _: None),
    pickle.NEWTRUE: _push(lambda _: True),
    pickle.NEWFALSE: _push(lambda _: False),
    pickle.INT: _PickleReader.add_decimal,
    pickle.LONG: _PickleReader.add_decimal,
    pickle.BININT: _push(lambda reader: reader.number("<i")),
    pickle.BININT1: _push(lambda reader: reader.number("<B")),
    pickle.BININT2: _push(lambda reader: reader.number("<H")),
    pickle.LONG1: _push(lambda reader: reader.integer(reader.number("<B"))),
    pickle.LONG4: _push(lambda reader: reader.integer(reader.number("<i"))),
    pickle.BINFLOAT: _push(lambda reader: reader.number(">d")),
    pickle.BINUNICODE: _push(lambda reader: reader.text(reader.number("<I"))),
    pickle.SHORT_BINUNICODE: _push(lambda reader: reader.text(reader.number("<B"))),
    pickle.BINUNICODE8: _push(lambda reader: reader.text(reader.number("<Q"))),
    pickle.UNICODE: _push(lambda reader: reader.line("raw-unicode-escape")),
    pickle.SHORT_BINSTRING: _push(lambda reader: reader.text(reader.number("<B"))),
    pickle.BINSTRING: _push(lambda reader: reader.text(reader.number("<i"))),
    pickle.BINBYTES: _push(lambda reader: reader.take(reader.number("<I"))),
    pickle.SHORT_BINBYTES: _push(lambda reader: reader.take(reader.number("<B"))),
    pickle.EMPTY_LIST: _push(lambda _: []),
    pickle.EMPTY_DICT: _push(lambda _: {}),
    pickle.EMPTY_TUPLE: _push(lambda _: ()),
    pickle.LIST: _push(_PickleReader.pop_to_mark),
    pickle.DICT: _PickleReader.add_dictionary,
    pickle.TUPLE: _push(lambda reader: tuple(reader.pop_to_mark())),
    pickle.TUPLE1: lambda reader: reader.add_tuple(1),
    pickle.TUPLE2: lambda reader: reader.add_tuple(2),
    pickle.TUPLE3: lambda reader: reader.add_tuple(3),
    pickle.APPEND: lambda reader: (value := reader.pop(), reader.top(list).append(value)),
    pickle.APPENDS: lambda reader: (values := reader.pop_to_mark(), reader.top(list).extend(values)),
    pickle.SETITEM: _PickleReader.set_item,
    pickle.SETITEMS: lambda reader: reader.set_items(reader.pop_to_mark()),
    pickle.PUT: lambda reader: reader.remember(_parse_decimal(reader.line())),
    pickle.GET: lambda reader: reader.recall(_parse_decimal(reader.line())),
    pickle.BINPUT: lambda reader: reader.remember(reader.number("<B")),
    pickle.LONG_BINPUT: lambda reader: reader.remember(reader.number("<I")),
    pickle.MEMOIZE: lambda reader: reader.remember(len(reader.memo)),
    pickle.BINGET: lambda reader: reader.recall(reader.number("<B")),
    pickle.LONG_BINGET: lambda reader: reader.recall(reader.number("<I")),
}
CONSTRUCTING = frozenset(
    (
        *(pickle.REDUCE, pickle.BUILD, pickle.OBJ, pickle.NEWOBJ, pickle.NEWOBJ_EX),
        *(pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.PERSID, pickle.BINPERSID),
    )
)
NAMES = {
    code: name
    for name, code in vars(pickle).items()
    if name.isupper() and isinstance(code, bytes) and len(code) == 1 and code not in instructions
}
"""Names of the instructions that are not run."""
