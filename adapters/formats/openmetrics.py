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

from skewscope.adapters.formats import openmetrics_grammar
from skewscope.adapters.formats.openmetrics_grammar import Labels, excerpt
from skewscope.engine.ingest.feed import F64, I32, Block, empty_block
from skewscope.kb.problems import InputError, Problem, suggest_name

CHUNK = 1 << 20
MAX_LINE = 1 << 16
MAX_SERIES = 4_000_000
MAX_KEY_BYTES = 1 << 29
MAX_COMMENTS = 50_000
MAX_SAMPLES = 50_000_000
MAX_FAULTS = 10
INFO_MARK = b"_info{"

# Seconds reach 1e11 in the year 5138; milliseconds reached it in 1973.
MAX_SECONDS = 1e11


class SeriesTarget(NamedTuple):
    """Where the values of a series go."""

    number: int
    scale: float = 1.0
    has_blanks: bool = False
    """Whether its exporter writes certain large numbers for `no value` (see `BLANKS`)."""


TargetLookup = Callable[[str, Labels], Sequence[SeriesTarget]]
"""Gives the targets of a metric name and its labels, none for a series that nobody wants."""

# What DCGM writes where it has no value: blank, not found, not supported, no permission; as int32, int64 and fp64.
BLANK_VALUES = np.array([*range(2147483632, 2147483636), *range(140737488355328, 140737488355332), 2.0**63])


class ByteStream(Protocol):
    """Bytes to be read in blocks."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, none at the end."""
        ...


class SampleChunk(NamedTuple):
    """Some samples as they were written."""

    slots: I32
    values: F64
    times: F64 | None
    """None where the caller is to say."""


class ParsedSample(NamedTuple):
    """One sample as its line has it; the time is NaN where the line has none."""

    slot: int
    value: float
    time: float


@dataclass
class ParseState:
    """One text while it is read."""

    file: str
    default_time: float | None
    """The time of samples without one."""
    problems: list[Problem] = field(default_factory=list)
    end_line: int = 0
    """The line of `# EOF`."""
    all_times_whole: bool = True
    """Whether every time so far was a whole number, as milliseconds are."""
    late_line: int = 0
    """The first line whose time is beyond all seconds."""
    chunks: list[SampleChunk] = field(default_factory=list)
    sample_count: int = 0

    def add_problem(self, line: int, found: str, expected: str, hint: str = "") -> None:
        """Remembers a fault, and gives up where there are too many."""
        self.problems.append(Problem(self.file, line, "", found, expected, hint))
        if len(self.problems) >= MAX_FAULTS:
            raise InputError(self.problems)


def read(stream: ByteStream, file: str, known: TargetLookup, at: float | None = None) -> Block:
    """The samples of one text; see `Exposition.read`."""
    return ExpositionReader(known).read(stream, file, at)


class ExpositionReader:
    """Reads texts that have series in common: what was learned from one serves the next."""

    def __init__(self, known: TargetLookup) -> None:
        self._find_targets = known
        self._slot_by_key: dict[bytes, int] = {}
        self._comments: set[bytes] = set()
        self._key_bytes = 0
        # Slot 0 is for series that nobody wants.
        self._targets: list[tuple[SeriesTarget, ...]] = [()]

    @property
    def cached_bytes(self) -> int:
        """Bytes of the texts of series that it has learned."""
        return self._key_bytes

    def read(self, stream: ByteStream, file: str, at: float | None = None) -> Block:
        """The wanted samples of a text; `at` is the time of lines without one.

        Raises:
            InputError: a line is no exposition; the first faults are told, nothing is given.
        """
        page = ParseState(file, at)
        for first, lines in _read_lines(stream, page):
            self._parse_lines(lines, first, page)
        if page.problems:
            raise InputError(page.problems)
        return self._build_block(page)

    def _parse_lines(self, lines: list[bytes], first: int, page: ParseState) -> None:
        if page.end_line or b"# EOF" in lines:
            lines = _lines_before_end(lines, first, page)
        if not lines:
            return
        keys, columns = _split_columns(lines)
        slots = np.array(self._slots_of(keys, page), np.int32)
        quick = slots >= 0
        if not quick.all():
            columns = [[text for text, fits in zip(c, quick.tolist(), strict=True) if fits] for c in columns]
        numbers = _parse_numbers(columns)
        if numbers is None or (len(numbers) == 1 and page.default_time is None):
            quick[:] = False
        else:
            self._store(page, slots[quick], numbers, first + np.flatnonzero(quick))
        self._store_exact(lines, np.flatnonzero(~quick).tolist(), first, page)

    def _slots_of(self, keys: list[bytes], page: ParseState) -> list[int]:
        """The slot of each key; -1 for what is no text of a series, as far as splitting at blanks can tell."""
        new = [key for key in dict.fromkeys(keys) if key and key not in self._slot_by_key and not key.startswith(b"#")]
        # Series that tell what the labels of others mean come first.
        new.sort(key=lambda key: INFO_MARK not in key)
        for key in new:
            match = openmetrics_grammar.SERIES.match(key)
            if match and match.end() == len(key) and len(key) < MAX_LINE:
                # What is faulty is told by the exact grammar, which knows the line.
                with suppress(ValueError):
                    self._add_key(key, match, page)
        get = self._slot_by_key.get
        return [get(key, -1) for key in keys]

    def _add_key(self, key: bytes, match: re.Match[bytes], page: ParseState) -> int:
        """The slot of a text of a series seen for the first time."""
        name, labels = openmetrics_grammar.parse_series(match)
        targets = tuple(self._find_targets(name, labels))
        slot = len(self._targets) if targets else 0
        if targets:
            self._targets.append(targets)
        self._slot_by_key[key] = slot
        self._key_bytes += len(key)
        if len(self._slot_by_key) > MAX_SERIES or self._key_bytes > MAX_KEY_BYTES:
            hint = "Does a label hold an id or a time?"
            page.add_problem(0, f"more than {len(self._slot_by_key) - 1} series", "fewer", hint)
            raise InputError(page.problems)
        return slot

    def _store_exact(self, lines: list[bytes], which: list[int], first: int, page: ParseState) -> None:
        """Stores single lines, read by the exact grammar; faults are remembered."""
        read = [(first + n, row) for n in which if (row := self._parse_line(lines[n], first + n, page))]
        for timed in (False, True):
            rows = [(line, row) for line, row in read if math.isfinite(row.time) == timed]
            if rows:
                columns = [np.array([row.value for _, row in rows]), np.array([row.time for _, row in rows])]
                slots = np.array([row.slot for _, row in rows], np.int32)
                self._store(page, slots, columns[: 1 + timed], np.array([line for line, _ in rows]))

    def _parse_line(self, line: bytes, number: int, page: ParseState) -> ParsedSample | None:
        text = line.strip(b" \t\r")
        if not text or text in self._comments:
            return None
        if text.startswith(b"#"):
            self._parse_comment(text, number, page)
            return None
        try:
            return self._parse_sample(text, number, page)
        except ValueError as error:
            page.add_problem(
                number,
                f"{error} in {excerpt(text)}",
                openmetrics_grammar.SAMPLE_SYNTAX,
                openmetrics_grammar.guess_format(text),
            )
            return None

    def _parse_sample(self, text: bytes, number: int, page: ParseState) -> ParsedSample | None:
        match = openmetrics_grammar.SERIES.match(text) if len(text) <= MAX_LINE else None
        rest = openmetrics_grammar.REST.fullmatch(text, match.end()) if match else None
        if match is None or rest is None:
            raise ValueError("no sample" if len(text) <= MAX_LINE else f"a line of {len(text)} bytes")
        openmetrics_grammar.check_exemplar(rest["exemplar"])
        value = openmetrics_grammar.parse_number(rest["value"])
        time = math.nan if rest["time"] is None else openmetrics_grammar.parse_time(rest["time"])
        if rest["time"] is None and page.default_time is None:
            hint = "Pages without times are an input of kind prometheus-pages."
            page.add_problem(number, f"no time in {excerpt(text)}", "a time after the value", hint)
            return None
        key = match[0]
        slot = self._slot_by_key.get(key)
        if slot is None:
            slot = self._add_key(key, match, page)
        return ParsedSample(slot, value, time)

    def _parse_comment(self, text: bytes, number: int, page: ParseState) -> None:
        match = openmetrics_grammar.METADATA.fullmatch(text)
        if match and match["what"] == b"TYPE":
            word = (match["text"] or b"").decode("utf-8", "replace")
            if word not in openmetrics_grammar.METRIC_TYPES:
                found, expected = (
                    f"an unknown type {word[:40]!r}",
                    f"one of {', '.join(openmetrics_grammar.METRIC_TYPES)}",
                )
                page.add_problem(number, found, expected, suggest_name(word, openmetrics_grammar.METRIC_TYPES))
                return
        elif match and not match["name"]:
            page.add_problem(number, excerpt(text), f"a metric's name after {match['what'].decode()}")
            return
        # Pages repeat their comments: a look-up is cheaper than the grammar.
        if len(self._comments) < MAX_COMMENTS and len(text) < 1024:
            self._comments.add(text)

    def _store(self, page: ParseState, slots: I32, numbers: list[F64], lines: NDArray[np.int64]) -> None:
        """Keeps what somebody wants of values, or of values and times."""
        if len(numbers) == 2:
            late = np.abs(numbers[1]) > MAX_SECONDS
            if late.any():
                page.late_line = page.late_line or int(lines[np.argmax(late)])
            page.all_times_whole = page.all_times_whole and bool((numbers[1] == np.floor(numbers[1])).all())
        wanted = slots > 0
        part = SampleChunk(slots[wanted], numbers[0][wanted], numbers[1][wanted] if len(numbers) == 2 else None)
        page.chunks.append(part)
        page.sample_count += len(part.slots)
        if page.sample_count > MAX_SAMPLES:
            page.add_problem(int(lines[0]), f"more than {MAX_SAMPLES} samples", "fewer", "Cut it into shorter ones.")
            raise InputError(page.problems)

    def _build_block(self, page: ParseState) -> Block:
        """What a page held, in seconds and in the signals' units."""
        milliseconds = bool(page.late_line) and page.all_times_whole and not page.end_line
        if page.late_line and not milliseconds:
            hint = "OpenMetrics counts seconds; whole milliseconds belong to the older text without '# EOF'."
            found, expected = "a time some thousands of years away", "seconds since 1970"
            raise InputError([Problem(page.file, page.late_line, "", found, expected, hint)])
        if not page.chunks:
            return empty_block()
        unit = 1e3 if milliseconds else 1.0
        slots = np.concatenate([part.slots for part in page.chunks])
        values = np.concatenate([part.values for part in page.chunks])
        times = np.concatenate(
            [np.full(len(p.slots), page.default_time) if p.times is None else p.times / unit for p in page.chunks]
        )
        layers = range(max(map(len, self._targets)))
        return concat_blocks([self._target_block(n, slots, values, times) for n in layers])

    def _target_block(self, n: int, slots: NDArray[np.int32], values: F64, times: F64) -> Block:
        """The samples of each series for its nth target: few series have more than one."""
        nobody = SeriesTarget(-1)
        targets = [each[n] if len(each) > n else nobody for each in self._targets]
        numbers = np.array([target.number for target in targets], np.int32)[slots]
        values = values * np.array([target.scale for target in targets])[slots]
        blanks = np.array([target.has_blanks for target in targets])
        if blanks.any():
            values = np.where(blanks[slots] & np.isin(values, BLANK_VALUES), np.nan, values)
        wanted = numbers >= 0
        return Block(times[wanted], numbers[wanted], values[wanted])


def concat_blocks(blocks: Sequence[Block]) -> Block:
    """All samples of several blocks in one, in the order of the blocks."""
    parts = [block for block in blocks if len(block)]
    if len(parts) < 2:
        return parts[0] if parts else empty_block()
    return Block(
        np.concatenate([b.time for b in parts]),
        np.concatenate([b.series for b in parts]),
        np.concatenate([b.value for b in parts]),
    )


def _read_lines(stream: ByteStream, page: ParseState) -> Iterator[tuple[int, list[bytes]]]:
    """Whole lines in bounded numbers, with the number of the first."""
    rest, number = b"", 1
    while block := _read_block(stream, page):
        block = rest + block
        cut = block.rfind(b"\n")
        if len(block) - cut - 1 > MAX_LINE:
            page.add_problem(number + block.count(b"\n"), "a line without end", f"lines of at most {MAX_LINE} bytes")
            raise InputError(page.problems)
        if cut >= 0:
            lines = block[:cut].split(b"\n")
            yield number, lines
            number += len(lines)
        rest = block[cut + 1 :]
    if rest == b"# EOF":
        yield number, [rest]
    elif rest.strip():
        hint = "Was the file cut off?"
        page.add_problem(number, f"the end of the text in the middle of {excerpt(rest)}", "a line feed", hint)


def _read_block(stream: ByteStream, page: ParseState) -> bytes:
    try:
        return stream.read(CHUNK)
    except (OSError, EOFError, ValueError) as error:
        raise InputError([Problem(page.file, 0, "", f"bytes that cannot be read ({error})", "readable text")]) from None


def _lines_before_end(lines: list[bytes], first: int, page: ParseState) -> list[bytes]:
    """The lines before `# EOF`; after it nothing may come."""
    end = 0
    if not page.end_line:
        end = lines.index(b"# EOF")
        page.end_line = first + end
        end += 1
    after = next((n for n in range(end, len(lines)) if lines[n].strip()), None)
    if after is not None:
        page.add_problem(first + after, "text after '# EOF'", "nothing", "Two dumps in one file? Split them.")
        raise InputError(page.problems)
    return lines[: max(end - 1, 0)]


def _has_times(lines: list[bytes]) -> bool:
    """Whether the first sample of these lines has a time; a guess that only decides what is quick."""
    line = next((line for line in lines if line and not line.startswith(b"#")), b"")
    match = openmetrics_grammar.SERIES.match(line)
    rest = openmetrics_grammar.REST.match(line, match.end()) if match else None
    return bool(rest and rest["time"])


def _split_columns(lines: list[bytes]) -> tuple[list[bytes], list[list[bytes]]]:
    """What stands before the numbers, and the numbers: values, or values and times."""
    heads, lasts = _split_last(lines)
    if not _has_times(lines):
        return heads, [lasts]
    keys, values = _split_last(heads)
    return keys, [values, lasts]


def _split_last(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Each line before and after its last blank. A plain loop: fewer objects live at once than in any other way."""
    heads, lasts = [], []
    for line in lines:
        head, _, last = line.rpartition(b" ")
        heads.append(head)
        lasts.append(last)
    return heads, lasts


def _parse_numbers(columns: list[list[bytes]]) -> list[F64] | None:
    """The numbers of each column, None when any of them needs the exact grammar."""
    # Python reads 1_000 as a number; nobody else does.
    if any(b"_" in b"".join(column) for column in columns):
        return None
    try:
        numbers = [np.array(list(map(float, column)), np.float64) for column in columns]
    except ValueError:
        return None
    return numbers if len(numbers) < 2 or np.isfinite(numbers[1]).all() else None
