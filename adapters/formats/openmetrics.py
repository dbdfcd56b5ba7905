"""Parser of OpenMetrics and Prometheus text, with or without timestamps.

The text before the value is a key that is parsed once; every later line of the series costs two splits, a dictionary
look-up and two numbers. Lines that do not fit go through the exact grammar, which also reports errors. Structure above
the line (order of families, repeated metadata) is not checked.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.formats import openmetrics_grammar
from skewscope.adapters.formats.bounds import KEY_BYTES, LINES, SAMPLES, SERIES, Bound
from skewscope.adapters.formats.exposition_runs import skip_runs
from skewscope.adapters.formats.openmetrics_grammar import Labels, excerpt
from skewscope.engine.ingest.feed import Block, empty_block
from skewscope.engine.model.arrays import F64, I32
from skewscope.kb.problems import InputError, Problem, suggest_name

CHUNK = 1 << 20
MAX_LINE = 1 << 16
MAX_COMMENTS = 50_000
MAX_FAULTS = 10
MAX_TYPES_BYTES = 16 << 20
TYPE_LINE = re.compile(rb"^# TYPE (\S{1,500}) (\w{1,20})", re.MULTILINE)
INFO_MARK = b"_info{"
TEXT_BOUNDS = (SERIES, KEY_BYTES, LINES, SAMPLES)

# Seconds reach 1e11 in the year 5138; milliseconds reached it in 1973.
MAX_SECONDS = 1e11


class SeriesTarget(NamedTuple):
    """The series that receives the values of a line."""

    number: int
    scale: float = 1.0
    has_blanks: bool = False
    """Whether its exporter writes certain large numbers for `no value` (see `BLANK_VALUES`)."""


TargetLookup = Callable[[str, Labels], Sequence[SeriesTarget]]
"""Returns the targets of a metric name and its labels; none for a series that is not needed."""

# Values that DCGM writes for no value: blank, not found, not supported, no permission; as int32, int64 and fp64.
BLANK_VALUES = np.array([*range(2147483632, 2147483636), *range(140737488355328, 140737488355332), 2.0**63])


class ByteStream(Protocol):
    """A binary stream that is read in blocks."""

    def read(self, size: int, /) -> bytes:
        """Returns at most `size` bytes, none at the end."""
        ...


class SampleChunk(NamedTuple):
    """Parsed samples; arrays are [sample]."""

    slots: I32
    values: F64
    times: F64 | None
    """Timestamps as written; None where the lines have none."""


class ParsedSample(NamedTuple):
    """One parsed line; the time is NaN where the line has none."""

    slot: int
    value: float
    time: float


@dataclass
class ParseState:
    """State of parsing one text."""

    file: str
    default_time: float | None
    """Time of lines without a timestamp, in seconds since 1970."""
    problems: list[Problem] = field(default_factory=list)
    end_line: int = 0
    """Line number of `# EOF`."""
    all_times_whole: bool = True
    """Whether every timestamp so far was a whole number, as milliseconds are."""
    late_line: int = 0
    """First line whose timestamp is too large for seconds."""
    chunks: list[SampleChunk] = field(default_factory=list)
    sample_count: int = 0
    limits: dict[Bound, int] = field(default_factory=lambda: {one: one.limit() for one in TEXT_BOUNDS})

    def refuse(self, bound: Bound, hint: str) -> NoReturn:
        """Raises InputError with the problems so far and a bound that the text exceeds."""
        raise InputError([*self.problems, bound.problem(self.file, hint=hint)])

    def add_problem(self, line: int, found: str, expected: str, hint: str = "") -> None:
        """Adds a problem; raises InputError at the limit."""
        self.problems.append(Problem(self.file, line, "", found, expected, hint))
        if len(self.problems) >= MAX_FAULTS:
            raise InputError(self.problems)


def read(stream: ByteStream, file: str, known: TargetLookup, at: float | None = None) -> Block:
    """Returns the samples of one text; see `ExpositionReader.read`."""
    return ExpositionReader(known).read(stream, file, at)


class ExpositionReader:
    """Parses texts that have series in common; parsed keys are cached between texts."""

    def __init__(self, known: TargetLookup) -> None:
        self._find_targets = known
        self._slot_by_key: dict[bytes, int] = {}
        self._comments: set[bytes] = set()
        self._key_bytes = 0
        # Slot 0 is for series that are not needed.
        self._targets: list[tuple[SeriesTarget, ...]] = [()]
        self.prompts = 0
        """Lines left out so far because they are prompts of a shell."""

    @property
    def cached_bytes(self) -> int:
        """Bytes of the cached keys."""
        return self._key_bytes

    def read(self, stream: ByteStream, file: str, at: float | None = None) -> Block:
        """Returns the samples of a text; `at` is the time of lines without a timestamp, in seconds since 1970.

        Raises:
            InputError: a line does not parse; it has the first problems of the text.
        """
        page = ParseState(file, at)
        for first, block in _read_blocks(stream, page):
            self._parse_lines(block.split(b"\n"), first, page)
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
        """Returns the slot of each key; -1 for a key that needs the exact grammar."""
        new = [key for key in dict.fromkeys(keys) if key and key not in self._slot_by_key and not key.startswith(b"#")]
        # Info series come first: they define labels of other series.
        new.sort(key=lambda key: INFO_MARK not in key)
        for key in new:
            match = openmetrics_grammar.SERIES.match(key)
            if match and match.end() == len(key) and len(key) < MAX_LINE:
                # The exact grammar reports the error, with its line.
                with suppress(ValueError):
                    self._add_key(key, match, page)
        get = self._slot_by_key.get
        return [get(key, -1) for key in keys]

    def _add_key(self, key: bytes, match: re.Match[bytes], page: ParseState) -> int:
        """Returns the slot of a new key."""
        name, labels = openmetrics_grammar.parse_series(match)
        targets = tuple(self._find_targets(name, labels))
        slot = len(self._targets) if targets else 0
        if targets:
            self._targets.append(targets)
        self._slot_by_key[key] = slot
        self._key_bytes += len(key)
        _check_keys(len(self._slot_by_key), self._key_bytes, page)
        return slot

    def _store_exact(self, lines: list[bytes], which: list[int], first: int, page: ParseState) -> None:
        """Parses single lines by the exact grammar and stores them; problems are collected."""
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
            if openmetrics_grammar.is_prompt(text):
                self.prompts += 1
                return None
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
        # Texts repeat their comments: a look-up is cheaper than the grammar.
        if len(self._comments) < MAX_COMMENTS and len(text) < 1024:
            self._comments.add(text)

    def _store(self, page: ParseState, slots: I32, numbers: list[F64], lines: NDArray[np.int64]) -> None:
        """Stores the needed samples; `numbers` are values, or values and timestamps."""
        if len(numbers) == 2:
            late = np.abs(numbers[1]) > MAX_SECONDS
            if late.any():
                page.late_line = page.late_line or int(lines[np.argmax(late)])
            page.all_times_whole = page.all_times_whole and bool((numbers[1] == np.floor(numbers[1])).all())
        wanted = slots > 0
        part = SampleChunk(slots[wanted], numbers[0][wanted], numbers[1][wanted] if len(numbers) == 2 else None)
        page.chunks.append(part)
        page.sample_count += len(part.slots)
        if page.sample_count > page.limits[SAMPLES]:
            page.refuse(SAMPLES, "Cut it into shorter ones.")

    def _build_block(self, page: ParseState) -> Block:
        """Returns the samples of a text, in seconds since 1970 and in the signals' units."""
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
        """Returns the samples of each series for its nth target; few series have more than one."""
        none = SeriesTarget(-1)
        targets = [each[n] if len(each) > n else none for each in self._targets]
        numbers = np.array([target.number for target in targets], np.int32)[slots]
        blanks = np.array([target.has_blanks for target in targets])
        if blanks.any():
            values = np.where(blanks[slots], drop_blanks(values), values)
        values = values * np.array([target.scale for target in targets])[slots]
        wanted = numbers >= 0
        return Block(times[wanted], numbers[wanted], values[wanted])


def drop_blanks(values: F64) -> F64:
    """Returns values of DCGM, with NaN for those that stand for no value."""
    return np.where(np.isin(values, BLANK_VALUES), np.nan, values)


def list_types(stream: ByteStream) -> dict[str, str]:
    """Returns the types that a text declares, by metric; those in its first 16 MiB."""
    found = TYPE_LINE.finditer(stream.read(MAX_TYPES_BYTES))
    return {match[1].decode("utf-8", "replace"): match[2].decode("ascii", "replace") for match in found}


def list_series(stream: ByteStream, file: str) -> Iterator[tuple[str, Labels]]:
    """Yields metric name and labels of each series of a text, in the order of their first lines.

    Lines that do not parse are left out: `read` reports them.

    Raises:
        InputError: the text cannot be read, or has too many series.
    """
    page = ParseState(file, None)
    keys: dict[bytes, None] = {}
    known = key_bytes = 0
    for _, block in _read_blocks(stream, page):
        for key, lines in skip_runs(block):
            # One search a line is half the time of splitting off value and timestamp.
            heads = [line[: line.rfind(b"}") + 1] or line.partition(b" ")[0] for line in _drop_exemplars(lines)]
            keys.update(dict.fromkeys(heads))
            keys.setdefault(key)
        new = list(islice(keys, known, None))
        known, key_bytes = len(keys), key_bytes + sum(map(len, new))
        _check_keys(known, key_bytes, page)
        yield from _parse_keys(new)


def _parse_keys(keys: Iterable[bytes]) -> Iterator[tuple[str, Labels]]:
    for key in keys:
        match = openmetrics_grammar.SERIES.match(key)
        if match and match.end() == len(key) and not key.startswith(b"#"):
            with suppress(ValueError):
                yield openmetrics_grammar.parse_series(match)


def _check_keys(count: int, key_bytes: int, page: ParseState) -> None:
    """Raises InputError for too many series, or too long ones."""
    hint = "Does a label hold an id or a time?"
    if count > page.limits[SERIES]:
        page.refuse(SERIES, hint)
    if key_bytes > page.limits[KEY_BYTES]:
        page.refuse(KEY_BYTES, hint)


def _drop_exemplars(lines: list[bytes]) -> list[bytes]:
    """Returns the lines, those with exemplars cut after the labels of their series."""
    if not any(b" # {" in line for line in lines):
        return lines
    cut = (openmetrics_grammar.SERIES.match(line) if b" # {" in line else None for line in lines)
    return [match[0] if match else line for match, line in zip(cut, lines, strict=True)]


def concat_blocks(blocks: Sequence[Block]) -> Block:
    """Concatenates blocks, in their order."""
    parts = [block for block in blocks if len(block)]
    if len(parts) < 2:
        return parts[0] if parts else empty_block()
    return Block(
        np.concatenate([b.time for b in parts]),
        np.concatenate([b.series for b in parts]),
        np.concatenate([b.value for b in parts]),
    )


def _read_blocks(stream: ByteStream, page: ParseState) -> Iterator[tuple[int, bytes]]:
    """Yields (number of the first line, complete lines without the last line feed) block by block."""
    rest, number = b"", 1
    while block := _read_block(stream, page):
        block = rest + block
        cut = block.rfind(b"\n")
        if len(block) - cut - 1 > MAX_LINE:
            page.add_problem(number + block.count(b"\n"), "a line without end", f"lines of at most {MAX_LINE} bytes")
            raise InputError(page.problems)
        if cut >= 0:
            count = block.count(b"\n", 0, cut + 1)
            if number + count - 1 > page.limits[LINES]:
                page.refuse(LINES, "Cut it into shorter ones.")
            yield number, block[:cut]
            number += count
        rest = block[cut + 1 :]
    if rest == b"# EOF" or openmetrics_grammar.is_prompt(rest):
        yield number, rest
    elif rest.strip():
        hint = "Was the file cut off?"
        page.add_problem(number, f"the end of the text in the middle of {excerpt(rest)}", "a line feed", hint)


def _read_block(stream: ByteStream, page: ParseState) -> bytes:
    try:
        return stream.read(CHUNK)
    except (OSError, EOFError, ValueError) as error:
        raise InputError([Problem(page.file, 0, "", f"bytes that cannot be read ({error})", "readable text")]) from None


def _lines_before_end(lines: list[bytes], first: int, page: ParseState) -> list[bytes]:
    """Returns the lines before `# EOF`; text after it is an error."""
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
    """Guesses from the first sample whether lines have timestamps; a wrong guess only costs time."""
    line = next((line for line in lines if line and not line.startswith(b"#")), b"")
    match = openmetrics_grammar.SERIES.match(line)
    rest = openmetrics_grammar.REST.match(line, match.end()) if match else None
    return bool(rest and rest["time"])


def _split_columns(lines: list[bytes]) -> tuple[list[bytes], list[list[bytes]]]:
    """Returns the keys, and the columns of numbers: values, or values and timestamps."""
    heads, lasts = _split_last(lines)
    if not _has_times(lines):
        return heads, [lasts]
    keys, values = _split_last(heads)
    return keys, [values, lasts]


def _split_last(lines: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Splits each line at its last blank. A plain loop keeps the fewest objects alive at once."""
    heads, lasts = [], []
    for line in lines:
        head, _, last = line.rpartition(b" ")
        heads.append(head)
        lasts.append(last)
    return heads, lasts


def _parse_numbers(columns: list[list[bytes]]) -> list[F64] | None:
    """Returns [line] float64 per column; None when a number needs the exact grammar."""
    # Python parses 1_000 as a number; the format does not allow it.
    if any(b"_" in b"".join(column) for column in columns):
        return None
    try:
        numbers = [np.array(list(map(float, column)), np.float64) for column in columns]
    except ValueError:
        return None
    return numbers if len(numbers) < 2 or np.isfinite(numbers[1]).all() else None
