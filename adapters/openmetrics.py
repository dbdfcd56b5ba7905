"""OpenMetrics and Prometheus text, with or without times, at the speed of a dictionary look-up.

The text before the value is an opaque key: it is parsed once, and every later line of the series costs two splits, a
look-up and two numbers. Whatever does not fit goes line by line through the exact grammar, which also tells what is
wrong. Structure above the line (order of families, repeated metadata) is not judged: a reader of telemetry needs none.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters import grammar
from skewscope.adapters.grammar import Labels, excerpt
from skewscope.engine.feed import F64, I32, Block, empty
from skewscope.kb.problems import InputError, Problem, nearest

CHUNK = 1 << 20
MOST_LINE = 1 << 16
MOST_SERIES = 4_000_000
MOST_KEY_BYTES = 1 << 29
MOST_COMMENTS = 50_000
MOST_SAMPLES = 50_000_000
MOST_FAULTS = 10
INFO = b"_info{"

# Seconds reach 1e11 in the year 5138; milliseconds reached it in 1973.
MOST_SECONDS = 1e11


class Target(NamedTuple):
    """Where the values of a series go."""

    number: int
    scale: float = 1.0
    blanks: bool = False
    """Whether its exporter writes certain large numbers for `no value` (see `BLANKS`)."""


Known = Callable[[str, Labels], Sequence[Target]]
"""Gives the targets of a metric name and its labels, none for a series that nobody wants."""

# What DCGM writes where it has no value: blank, not found, not supported, no permission; as int32, int64 and fp64.
BLANKS = np.array([*range(2147483632, 2147483636), *range(140737488355328, 140737488355332), 2.0**63])


class Stream(Protocol):
    """Bytes to be read in blocks."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, none at the end."""
        ...


class Part(NamedTuple):
    """Some samples as they were written."""

    slots: I32
    values: F64
    times: F64 | None
    """None where the caller is to say."""


class Row(NamedTuple):
    """One sample as its line has it; the time is NaN where the line has none."""

    slot: int
    value: float
    time: float


@dataclass
class Page:
    """One text while it is read."""

    file: str
    at: float | None
    """The time of samples without one."""
    faults: list[Problem] = field(default_factory=list)
    ended: int = 0
    """The line of `# EOF`."""
    whole: bool = True
    """Whether every time so far was a whole number, as milliseconds are."""
    late: int = 0
    """The first line whose time is beyond all seconds."""
    parts: list[Part] = field(default_factory=list)
    samples: int = 0

    def fault(self, line: int, found: str, expected: str, hint: str = "") -> None:
        """Remembers a fault, and gives up where there are too many."""
        self.faults.append(Problem(self.file, line, "", found, expected, hint))
        if len(self.faults) >= MOST_FAULTS:
            raise InputError(self.faults)


def read(stream: Stream, file: str, known: Known, at: float | None = None) -> Block:
    """The samples of one text; see `Exposition.read`."""
    return Exposition(known).read(stream, file, at)


class Exposition:
    """Reads texts that have series in common: what was learned from one serves the next."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._slot: dict[bytes, int] = {}
        self._comments: set[bytes] = set()
        self._bytes = 0
        # Slot 0 is for series that nobody wants.
        self._targets: list[tuple[Target, ...]] = [()]

    @property
    def remembered(self) -> int:
        """Bytes of the texts of series that it has learned."""
        return self._bytes

    def read(self, stream: Stream, file: str, at: float | None = None) -> Block:
        """The wanted samples of a text; `at` is the time of lines without one.

        Raises:
            InputError: a line is no exposition; the first faults are told, nothing is given.
        """
        page = Page(file, at)
        for first, lines in _chunks(stream, page):
            self._take(lines, first, page)
        if page.faults:
            raise InputError(page.faults)
        return self._block(page)

    def _take(self, lines: list[bytes], first: int, page: Page) -> None:
        if page.ended or b"# EOF" in lines:
            lines = _before_end(lines, first, page)
        if not lines:
            return
        keys, columns = _columns(lines)
        slots = np.array(self._slots(keys, page), np.int32)
        quick = slots >= 0
        if not quick.all():
            columns = [[text for text, fits in zip(c, quick.tolist(), strict=True) if fits] for c in columns]
        numbers = _numbers(columns)
        if numbers is None or (len(numbers) == 1 and page.at is None):
            quick[:] = False
        else:
            self._store(page, slots[quick], numbers, first + np.flatnonzero(quick))
        self._put(lines, np.flatnonzero(~quick).tolist(), first, page)

    def _slots(self, keys: list[bytes], page: Page) -> list[int]:
        """The slot of each key; -1 for what is no text of a series, as far as splitting at blanks can tell."""
        new = [key for key in dict.fromkeys(keys) if key and key not in self._slot and not key.startswith(b"#")]
        # Series that tell what the labels of others mean come first.
        new.sort(key=lambda key: INFO not in key)
        for key in new:
            match = grammar.SERIES.match(key)
            if match and match.end() == len(key) and len(key) < MOST_LINE:
                # What is faulty is told by the exact grammar, which knows the line.
                with suppress(ValueError):
                    self._learn(key, match, page)
        get = self._slot.get
        return [get(key, -1) for key in keys]

    def _learn(self, key: bytes, match: re.Match[bytes], page: Page) -> int:
        """The slot of a text of a series seen for the first time."""
        name, labels = grammar.series(match)
        targets = tuple(self._known(name, labels))
        slot = len(self._targets) if targets else 0
        if targets:
            self._targets.append(targets)
        self._slot[key] = slot
        self._bytes += len(key)
        if len(self._slot) > MOST_SERIES or self._bytes > MOST_KEY_BYTES:
            hint = "Does a label hold an id or a time?"
            page.fault(0, f"more than {len(self._slot) - 1} series", "fewer", hint)
            raise InputError(page.faults)
        return slot

    def _put(self, lines: list[bytes], which: list[int], first: int, page: Page) -> None:
        """Stores single lines, read by the exact grammar; faults are remembered."""
        read = [(first + n, row) for n in which if (row := self._row(lines[n], first + n, page))]
        for timed in (False, True):
            rows = [(line, row) for line, row in read if math.isfinite(row.time) == timed]
            if rows:
                columns = [np.array([row.value for _, row in rows]), np.array([row.time for _, row in rows])]
                slots = np.array([row.slot for _, row in rows], np.int32)
                self._store(page, slots, columns[: 1 + timed], np.array([line for line, _ in rows]))

    def _row(self, line: bytes, number: int, page: Page) -> Row | None:
        text = line.strip(b" \t\r")
        if not text or text in self._comments:
            return None
        if text.startswith(b"#"):
            self._comment(text, number, page)
            return None
        try:
            return self._sample(text, number, page)
        except ValueError as error:
            page.fault(number, f"{error} in {excerpt(text)}", grammar.SAMPLE, grammar.guess(text))
            return None

    def _sample(self, text: bytes, number: int, page: Page) -> Row | None:
        match = grammar.SERIES.match(text) if len(text) <= MOST_LINE else None
        rest = grammar.REST.fullmatch(text, match.end()) if match else None
        if match is None or rest is None:
            raise ValueError("no sample" if len(text) <= MOST_LINE else f"a line of {len(text)} bytes")
        grammar.check_exemplar(rest["exemplar"])
        value = grammar.number(rest["value"])
        time = math.nan if rest["time"] is None else grammar.time(rest["time"])
        if rest["time"] is None and page.at is None:
            hint = "Pages without times are an input of kind prometheus-pages."
            page.fault(number, f"no time in {excerpt(text)}", "a time after the value", hint)
            return None
        key = match[0]
        slot = self._slot.get(key)
        if slot is None:
            slot = self._learn(key, match, page)
        return Row(slot, value, time)

    def _comment(self, text: bytes, number: int, page: Page) -> None:
        match = grammar.METADATA.fullmatch(text)
        if match and match["what"] == b"TYPE":
            word = (match["text"] or b"").decode("utf-8", "replace")
            if word not in grammar.TYPES:
                found, expected = f"an unknown type {word[:40]!r}", f"one of {', '.join(grammar.TYPES)}"
                page.fault(number, found, expected, nearest(word, grammar.TYPES))
                return
        elif match and not match["name"]:
            page.fault(number, excerpt(text), f"a metric's name after {match['what'].decode()}")
            return
        # Pages repeat their comments: a look-up is cheaper than the grammar.
        if len(self._comments) < MOST_COMMENTS and len(text) < 1024:
            self._comments.add(text)

    def _store(self, page: Page, slots: I32, numbers: list[F64], lines: NDArray[np.int64]) -> None:
        """Keeps what somebody wants of values, or of values and times."""
        if len(numbers) == 2:
            late = np.abs(numbers[1]) > MOST_SECONDS
            if late.any():
                page.late = page.late or int(lines[np.argmax(late)])
            page.whole = page.whole and bool((numbers[1] == np.floor(numbers[1])).all())
        wanted = slots > 0
        part = Part(slots[wanted], numbers[0][wanted], numbers[1][wanted] if len(numbers) == 2 else None)
        page.parts.append(part)
        page.samples += len(part.slots)
        if page.samples > MOST_SAMPLES:
            page.fault(int(lines[0]), f"more than {MOST_SAMPLES} samples", "fewer", "Cut it into shorter ones.")
            raise InputError(page.faults)

    def _block(self, page: Page) -> Block:
        """What a page held, in seconds and in the signals' units."""
        milliseconds = bool(page.late) and page.whole and not page.ended
        if page.late and not milliseconds:
            hint = "OpenMetrics counts seconds; whole milliseconds belong to the older text without '# EOF'."
            found, expected = "a time some thousands of years away", "seconds since 1970"
            raise InputError([Problem(page.file, page.late, "", found, expected, hint)])
        if not page.parts:
            return empty()
        unit = 1e3 if milliseconds else 1.0
        slots = np.concatenate([part.slots for part in page.parts])
        values = np.concatenate([part.values for part in page.parts])
        times = np.concatenate(
            [np.full(len(p.slots), page.at) if p.times is None else p.times / unit for p in page.parts]
        )
        layers = range(max(map(len, self._targets)))
        return joined_as_read([self._layer(n, slots, values, times) for n in layers])

    def _layer(self, n: int, slots: NDArray[np.int32], values: F64, times: F64) -> Block:
        """The samples of each series for its nth target: few series have more than one."""
        nobody = Target(-1)
        targets = [each[n] if len(each) > n else nobody for each in self._targets]
        numbers = np.array([target.number for target in targets], np.int32)[slots]
        values = values * np.array([target.scale for target in targets])[slots]
        blanks = np.array([target.blanks for target in targets])
        if blanks.any():
            values = np.where(blanks[slots] & np.isin(values, BLANKS), np.nan, values)
        wanted = numbers >= 0
        return Block(times[wanted], numbers[wanted], values[wanted])


def joined_as_read(blocks: Sequence[Block]) -> Block:
    """All samples of several blocks in one, in the order of the blocks."""
    parts = [block for block in blocks if len(block)]
    if len(parts) < 2:
        return parts[0] if parts else empty()
    return Block(
        np.concatenate([b.time for b in parts]),
        np.concatenate([b.series for b in parts]),
        np.concatenate([b.value for b in parts]),
    )


def _chunks(stream: Stream, page: Page) -> Iterator[tuple[int, list[bytes]]]:
    """Whole lines in bounded numbers, with the number of the first."""
    rest, number = b"", 1
    while block := _block(stream, page):
        block = rest + block
        cut = block.rfind(b"\n")
        if len(block) - cut - 1 > MOST_LINE:
            page.fault(number + block.count(b"\n"), "a line without end", f"lines of at most {MOST_LINE} bytes")
            raise InputError(page.faults)
        if cut >= 0:
            lines = block[:cut].split(b"\n")
            yield number, lines
            number += len(lines)
        rest = block[cut + 1 :]
    if rest == b"# EOF":
        yield number, [rest]
    elif rest.strip():
        hint = "Was the file cut off?"
        page.fault(number, f"the end of the text in the middle of {excerpt(rest)}", "a line feed", hint)


def _block(stream: Stream, page: Page) -> bytes:
    try:
        return stream.read(CHUNK)
    except (OSError, EOFError, ValueError) as error:
        raise InputError([Problem(page.file, 0, "", f"bytes that cannot be read ({error})", "readable text")]) from None


def _before_end(lines: list[bytes], first: int, page: Page) -> list[bytes]:
    """The lines before `# EOF`; after it nothing may come."""
    end = 0
    if not page.ended:
        end = lines.index(b"# EOF")
        page.ended = first + end
        end += 1
    after = next((n for n in range(end, len(lines)) if lines[n].strip()), None)
    if after is not None:
        page.fault(first + after, "text after '# EOF'", "nothing", "Two dumps in one file? Split them.")
        raise InputError(page.faults)
    return lines[: max(end - 1, 0)]


def _timed(lines: list[bytes]) -> bool:
    """Whether the first sample of these lines has a time; a guess that only decides what is quick."""
    line = next((line for line in lines if line and not line.startswith(b"#")), b"")
    match = grammar.SERIES.match(line)
    rest = grammar.REST.match(line, match.end()) if match else None
    return bool(rest and rest["time"])


def _columns(lines: list[bytes]) -> tuple[list[bytes], list[list[bytes]]]:
    """What stands before the numbers, and the numbers: values, or values and times."""
    heads, lasts = _cut(lines)
    if not _timed(lines):
        return heads, [lasts]
    keys, values = _cut(heads)
    return keys, [values, lasts]


def _cut(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Each line before and after its last blank. A plain loop: fewer objects live at once than in any other way."""
    heads, lasts = [], []
    for line in lines:
        head, _, last = line.rpartition(b" ")
        heads.append(head)
        lasts.append(last)
    return heads, lasts


def _numbers(columns: list[list[bytes]]) -> list[F64] | None:
    """The numbers of each column, None when any of them needs the exact grammar."""
    # Python reads 1_000 as a number; nobody else does.
    if any(b"_" in b"".join(column) for column in columns):
        return None
    try:
        numbers = [np.array(list(map(float, column)), np.float64) for column in columns]
    except ValueError:
        return None
    return numbers if len(numbers) < 2 or np.isfinite(numbers[1]).all() else None
