"""Tables with a header row: columns are found by their names, in any order, and cells by separators or by their place.

A row of blanks-aligned cells is split at blanks where that gives a cell for each column, else each word belongs to the
column that it stands under: so cells may be empty, or hold several words.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skewscope.kb.model import FormatLine

MAX_COLUMNS = 100
"""Columns of a table; a line with more is no header."""
SEPARATORS = "\t|,;"
CLOCK = re.compile(r"\s*(?P<clock>\d{1,2}:\d\d:\d\d(?: [AP]M)?)\s+")
WORD = re.compile(r"\S+")
RULE = re.compile(r"[\s|+=_-]*")
"""A line drawn below a header."""
CAPTION = re.compile(r"\s*[^\W\d][\w /-]*:\s*")
"""A heading of what is below it."""
WIDE_NAME = re.compile(r"\S+(?: \S+)*")
WIDE_GAP = re.compile(r"\s{2,}")


@dataclass(frozen=True, slots=True)
class TableHeader:
    """The columns of a table as one header line names them."""

    names: tuple[str, ...]
    starts: tuple[int, ...]
    """[column] where its name begins."""
    ends: tuple[int, ...]
    separator: str
    """'' for blanks."""
    has_clock: bool
    """Whether a time of day stands before the names, and before the cells of each row."""

    def split_row(self, line: str) -> dict[str, str] | None:
        """Returns the cells of a row by the names of their columns, and the time of day as ''; None for other lines."""
        clock = CLOCK.match(line) if self.has_clock else None
        if not line.strip() or (self.has_clock and clock is None):
            return None
        cells = self._split(line, clock.end() if clock else 0)
        if cells is None:
            return None
        found = dict(zip(self.names, cells, strict=True))
        return {**found, "": clock["clock"]} if clock else found

    def _split(self, line: str, begin: int) -> Sequence[str] | None:
        if self.separator:
            cells = [_bare(cell) for cell in _split_quoted(line[begin:].strip().strip("|"), self.separator)]
            # A separator may end each line, of the header as well.
            while len(cells) > len(self.names) and not cells[-1]:
                cells.pop()
            return cells if len(cells) == len(self.names) else None
        rest = line[begin:].strip()
        for cells in (rest.split(), WIDE_GAP.split(rest)):
            if len(cells) == len(self.names):
                return cells
        return self._split_by_place(line, begin)

    def _split_by_place(self, line: str, begin: int) -> Sequence[str]:
        words: list[list[str]] = [[] for _ in self.names]
        for match in WORD.finditer(line, begin):
            words[self._column_at(match.start(), match.end())].append(match[0])
        return [" ".join(part) for part in words]

    def _column_at(self, start: int, end: int) -> int:
        """Returns the column under whose name a word stands, else the last one that begins before it."""
        overlaps = [min(end, e) - max(start, s) for s, e in zip(self.starts, self.ends, strict=True)]
        best = max(range(len(overlaps)), key=overlaps.__getitem__)
        return best if overlaps[best] > 0 else max((n for n, s in enumerate(self.starts) if s <= start), default=0)


def _split_quoted(line: str, separator: str) -> list[str]:
    """Returns the cells of a row; in quotes a separator is none."""
    if '"' not in line:
        return line.split(separator)
    return next(csv.reader([line], delimiter=separator), [])


def _bare(cell: str) -> str:
    """Returns the text of a cell without quotes, or brackets around a number as `(1300Mhz)`."""
    text = cell.strip().strip('"')
    return text[1:-1] if text[:1] == "(" and text[-1:] == ")" else text


def find_header(line: str, needed: Sequence[str], known: Sequence[str]) -> TableHeader | None:
    """Returns the columns of a line that has all the names that a table needs; None for other lines.

    Args:
        line: the text of the line.
        needed: names that the header must have, in any order; one such as `RX:` that is not known stands before the
            columns and is none.
        known: names that it may have, which may contain blanks as needed ones may.
    """
    if any(name not in line for name in needed):
        return None
    spans: list[tuple[int, int]] = []
    for name in sorted({*needed, *known}, key=len, reverse=True):
        match = _name_pattern(name, line, spans)
        if match is not None:
            spans.append(match)
        elif name in needed:
            return None
    clock = CLOCK.match(line)
    begin = clock.end() if clock else 0
    separator = next((one for one in SEPARATORS if one in _outside(line, spans)), "")
    other = rf"[^{re.escape(separator)}]"
    name_of = re.compile(rf"(?!\s){other}+(?<!\s)" if separator else r"\S+")
    apart = [match.span() for match in WIDE_NAME.finditer(line, begin)]
    if not separator and {*spans} <= {*apart}:
        # Names of several words, as `MEM USAGE / LIMIT`, stand further apart than their words.
        name_of = WIDE_NAME
    spans += [one.span() for one in name_of.finditer(line, begin) if not _overlaps(one.span(), spans)]
    captions = [one for one in spans if not separator and line[one[1] - 1] == ":" and line[slice(*one)] not in known]
    if any(line[slice(*one)] not in needed for one in captions):
        return None
    spans = sorted(one for one in spans if one not in captions)
    if len(spans) > MAX_COLUMNS:
        return None
    names = tuple(line[start:end].strip('"') for start, end in spans)
    return TableHeader(names, tuple(s for s, _ in spans), tuple(e for _, e in spans), separator, clock is not None)


def _name_pattern(name: str, line: str, taken: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Returns where a name stands in a header as a name of its own, outside of those that were found before."""
    for match in re.finditer(rf'(?<![^\s,;|"]){re.escape(name)}(?![^\s,;|"])', line):
        if not _overlaps(match.span(), taken):
            return match.span()
    return None


def _overlaps(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)


def _outside(line: str, spans: Sequence[tuple[int, int]]) -> str:
    return "".join(" " if _overlaps((n, n + 1), spans) else character for n, character in enumerate(line))


class TablePattern:
    """Finds the cells of the rows below each header of a table. It has the interface of a pattern of a line."""

    mark = ""

    def __init__(self, line: FormatLine, shapes: Mapping[str, str]) -> None:
        """Takes the line of a format, and the expression of each of its fields."""
        self.fields = tuple(line.columns)
        self._needed, self._columns, self._unless = line.table, dict(line.columns), line.unless
        self._shapes = {name: re.compile(text) for name, text in shapes.items()}
        self._header: TableHeader | None = None
        self._has_row = False
        """Whether the newest header has a row: lines between them explain the columns."""

    def restart(self) -> None:
        """Forgets the header of the table."""
        self._header = None

    def find(self, text: str) -> dict[str, str] | None:
        """Returns the texts of the fields that a row has, nothing for a header; None for lines outside of the table."""
        if (header := find_header(text, self._needed, tuple(self._columns.values()))) is not None:
            self._header = None if any(word in text for word in self._unless) else header
            self._has_row = False
            return None if self._header is None else {}
        if self._header is not None and CAPTION.fullmatch(text):
            self._header = None  # what follows has a heading of its own
        if self._header is None:
            return None
        cells = self._header.split_row(text)
        if cells is None:
            if not text.strip():
                self._header = None
            return None
        named = ((field, cells.get(column, "")) for field, column in self._columns.items())
        found = {field: cell for field, cell in named if cell and self._shapes[field].fullmatch(cell)}
        if found:
            self._has_row = True
        elif self._has_row and not RULE.fullmatch(text):
            self._header = None
        return found or None
