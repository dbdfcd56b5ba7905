"""Numbers with names in the lines of a text, whatever program prints them.

Four shapes are known: pairs (`cluster.a.rq_retry: 4`, `STAT get_hits 9`), tables below a header row, rows of a name and
a number for each of several places (`Node 0   Node 1`), and series as promtool prints them
(`up{job="a"} => 1 @[1795341600]`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from skewscope.adapters.formats.openmetrics_grammar import is_prompt, parse_labels
from skewscope.adapters.inputs.counter_dumps import Counter
from skewscope.adapters.inputs.influx_lines import SeriesName, map_field
from skewscope.adapters.inputs.number_rows import Cell, label_place, list_numbers, name_number, read_cell
from skewscope.adapters.mapping.column_names import UNIT_WORDS
from skewscope.kb.table_rows import RULE, TableHeader, find_header

MAX_LINE = 2000
"""Characters of a line that is looked at."""
NUMBER = r"[-+]?\d[\d,]{0,30}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?"
PAIR = re.compile(
    r"\s*(?P<name>[A-Za-z_][\w.:/@-]{0,200}?(?: [\w./@()%-]{1,40}){0,4}?) ?[:=]\s*"
    rf"(?P<number>{NUMBER})(?: ?(?P<unit>%|[A-Za-z]{{1,8}})(?=[\s,;]|$)(?!\s*[:=]))?(?=[\s,;]|$)[,;]?"
)
SPACED = re.compile(
    rf"\s*(?:STAT\s+)?(?P<name>[A-Za-z][\w.:()/-]{{1,300}})(?<!:)\s+(?P<number>{NUMBER})"
    rf"(?:\s+(?:{NUMBER}|\.)(?:\s.*)?)?"
)
"""A pair that only blanks divide: its name has several parts; a rate and a description may follow."""
PARTS = re.compile(r"\w[._:]\w")
COMMENT = re.compile(r"\s*(?:[#(].*)?")
HEADING = re.compile(
    r"(?P<begin>[\[=#*-]{0,40}) ?(?P<name>[A-Za-z][\w./@-]{0,60}(?: [\w./@-]{1,40}){0,3}) ?(?P<end>[\]:=#*-]{0,40})"
)
MEASUREMENT, TAGS = re.compile(r"name: (?P<name>\S{1,200})"), re.compile(r"tags: (?P<tags>.{1,300})")
"""What the client of InfluxDB writes above each of its tables."""
TAG = re.compile(r"([\w.-]{1,60})=([^,]{0,200})")
ASKED = re.compile(r"\bSELECT\b.{0,40}?\b(?P<function>[a-z]\w{1,30})\(\"?(?P<field>\w{1,100})\"?\)", re.IGNORECASE)
"""A question to a database whose answer is called by the function alone."""
SERIES = re.compile(r"(?P<name>[A-Za-z_:][\w:]{0,200})?(?P<labels>\{.{0,1900}\})? =>(?: (?P<sample>.*))?")
SAMPLE = re.compile(r"(?P<value>\S{1,40}) @\[(?P<time>\d{1,12}(?:\.\d{1,9})?)\]")
SECTION = "section"
"""Label of what a heading says that is no place."""
PLACE = re.compile(r"[A-Za-z]{1,20}[ _]?\d{1,5}")
WHOLE = frozenset(("total", "all", "sum"))
COLUMN = re.compile(r"[A-Za-z_#%][\w .()\[\]/%#:*-]{0,80}")
FRAMED = re.compile(r"\+-[-+]{0,200}(?:[A-Za-z_#%][\w .()\[\]/%#:*]{0,80}-[-+]{0,200}){2,200}")
"""A header that stands in the frame of its table, as ClickHouse draws it."""
DRAWN = re.compile(r"[-=]{2,}")
"""A part of a rule."""
GAP = re.compile(r"\s{2,}|\t")
MIN_COLUMNS = 3
"""Columns of a table that neither a rule nor separators mark."""


@dataclass
class _Table:
    """A line that may be the header of a table."""

    header: TableHeader
    is_marked: bool
    """Whether more than blanks shows that it is one."""
    has_rows: bool = False


@dataclass
class NumberLines:
    """Finds the numbers of a text, line by line: a parser of dumps."""

    command: str = "the program"
    may_repeat: bool = True
    lines: int = 0
    """Lines that are neither empty nor a prompt, a heading or a rule..."""
    fitting: int = 0
    """...and those of them that have numbers with names, or are the header of some."""
    _labels: dict[str, str] = field(default_factory=dict)
    """Of the section of the text."""
    _measurement: str = ""
    _columns: dict[str, str] = field(default_factory=dict)
    """What a database was asked, by the name that its answer has."""
    _series: tuple[str, dict[str, str]] | None = None
    """The series of promtool that the next lines are of."""
    _table: _Table | None = None
    _before: str = ""
    """The last line that is no rule."""
    _places: Sequence[str] = ()
    """[column] what the numbers of a row are of."""

    def read_line(self, text: str, number: int) -> list[Counter]:
        """Returns the numbers of a line."""
        if self._series and (found := self._read_sample(text)):
            self.lines, self.fitting = self.lines + 1, self.fitting + 1
            return found
        whole = text[:MAX_LINE].rstrip()
        line = whole.strip()
        if line and RULE.fullmatch(line):
            self._read_rule(whole)
            return []
        self._before = whole
        if not line or line[0] == ">" or is_prompt(line.encode()):
            self._begin_part(line)
            return []
        if self._read_heading(line):
            return []
        found = self._read_series(line) or self._read_places(line) or self._read_row(whole) or self._read_pairs(line)
        self.lines += 1
        self.fitting += bool(found) or self._read_header(whole)
        return [each._replace(line=number) for each in filter(_is_named, found)]

    def _begin_part(self, line: str) -> None:
        """Forgets what the lines before were of."""
        self._table, self._places = None, ()
        if line:
            self._labels, self._measurement, self._series = {}, "", None
            self._columns = {match["function"].lower(): match["field"] for match in ASKED.finditer(line)}

    def _read_rule(self, rule: str) -> None:
        """Takes a line that is drawn below a header: where it has gaps, its parts say where the columns are."""
        if self._table:
            self._table.is_marked = True
        spans = [match.span() for match in DRAWN.finditer(rule)]
        if len(spans) < 2 or self._places or (self._table and self._table.has_rows):
            return
        starts, ends = [0, *(end for _, end in spans[:-1])], [*(end for _, end in spans[:-1]), len(self._before)]
        names = tuple(self._before[start:end].strip() for start, end in zip(starts, ends, strict=True))
        if len(set(names)) == len(names) and all(map(COLUMN.fullmatch, names)):
            header = TableHeader(names, tuple(s for s, _ in spans), tuple(e for _, e in spans), "", has_clock=False)
            self._table = _Table(header, is_marked=True)

    def _read_heading(self, line: str) -> bool:
        """Takes what says of what the next lines are; returns whether a line does."""
        if match := MEASUREMENT.fullmatch(line):
            self._measurement, self._labels, self._table = match["name"], {}, None
            return True
        if self._measurement and (match := TAGS.fullmatch(line)):
            self._labels, self._table = dict(TAG.findall(match["tags"])), None
            return True
        match = HEADING.fullmatch(line)
        if match is None or not (match["begin"] or match["end"]):
            return False
        # Of headings that number nothing, those of other sections may have the same names below them.
        name = match["name"]
        self._labels = label_place(name) if re.search(r"\d", name) else {SECTION: name}
        return True

    def _read_series(self, line: str) -> list[Counter]:
        """Takes the series that a line of promtool names, and returns its sample where it has one."""
        match = SERIES.fullmatch(line) if " =>" in line else None
        if match:
            self._series = _parse_series(match)
        return self._read_sample(match["sample"] or "") if match else []

    def _read_sample(self, line: str) -> list[Counter]:
        """Returns the sample of the series that was named last; none for a line that is no sample."""
        sample = SAMPLE.fullmatch(line) if self._series else None
        if sample is None or self._series is None or (value := read_cell(sample["value"])) is None:
            return []
        name, labels = self._series
        return [Counter(name, name, labels, value.value, 0, float(sample["time"]))]

    def _read_places(self, line: str) -> list[Counter]:
        """Returns the numbers of a row that has one for each place that a line before names."""
        count = len(self._places)
        (*words,) = line.split()
        if not count or len(words) <= count:
            return []
        cells, name = [read_cell(word) for word in words[-count:]], " ".join(words[:-count]).rstrip(":")
        if not COLUMN.fullmatch(name):
            return []
        return [
            name_number(name, {**self._labels, **label_place(place)}, cell)
            for place, cell in zip(self._places, cells, strict=True)
            if cell is not None and place.lower() not in WHOLE
        ]

    def _read_row(self, line: str) -> list[Counter]:
        """Returns the numbers of a row of a table."""
        table = self._table
        cells = table.header.split_row(line) if table else None
        if table is None or cells is None:
            return []
        named = {self._columns.get(name, name): text for name, text in cells.items()}
        found = list(map(self._of_measurement, list_numbers(named, self._labels)))
        if not table.is_marked and not (len(found) > 1 and len(cells) >= MIN_COLUMNS and all(cells.values())):
            return []
        if found and not table.has_rows:
            table.has_rows = True
            self.fitting += 1
        return found

    def _of_measurement(self, counter: Counter) -> Counter:
        """Returns a number as a field of the measurement that the text is of, where it is of one."""
        if not self._measurement:
            return counter
        series = SeriesName(self._measurement, dict(counter.labels))
        metric, labels = map_field(series, counter.name, is_histogram=False)
        return counter._replace(metric=metric or counter.metric, labels=labels)

    def _read_pairs(self, line: str) -> list[Counter]:
        """Returns the numbers of a line that consists of pairs."""
        if (match := SPACED.fullmatch(line)) and PARTS.search(match["name"]):
            cell = read_cell(match["number"])
            return [name_number(match["name"], self._labels, cell)] if cell else []
        found, begin = [], 0
        while match := PAIR.match(line, begin):
            cell = read_cell(match["number"])
            unit = (match["unit"] or "").lower()
            if cell is None or (unit and unit not in UNIT_WORDS):
                return []
            found.append(name_number(match["name"], self._labels, Cell(cell.value, unit)))
            begin = match.end()
        return found if COMMENT.fullmatch(line, begin) else []

    def _read_header(self, line: str) -> bool:
        """Takes a line of names of columns or places; returns whether it is surely one: rows show it for columns."""
        wide = GAP.split(line.strip())
        names = wide if len(wide) > 1 else line.split()
        if len(names) > 1 and all(PLACE.fullmatch(name) or name.lower() in WHOLE for name in names):
            self._places, self._table = names, None
            return True
        if not self._table or not self._table.has_rows:
            self._table = _find_table(line)
        return False


def _is_named(counter: Counter) -> bool:
    """Returns whether a number has more of a name than one word without a place, which could mean anything."""
    return not counter.name.isalpha() or counter.time is not None or bool(counter.labels.keys() - {SECTION})


def _parse_series(match: re.Match[str]) -> tuple[str, dict[str, str]] | None:
    """Returns name and labels of a series; None for one without a name, of which nothing says what it is."""
    try:
        labels = dict(parse_labels(match["labels"].encode())) if match["labels"] else {}
    except ValueError:
        return None
    return (match["name"], labels) if match["name"] else None


def _find_table(line: str) -> _Table | None:
    """Returns the table of which a line may be the header; None for other lines."""
    if FRAMED.fullmatch(line.strip()):
        line = "|".join(cell.strip("-") for cell in line.strip().strip("+").split("+"))
    separator = next((one for one in "|\t,;" if one in line.strip("|")), "")
    if separator:
        names = [cell.strip().strip('"') for cell in line.strip().strip("|").split(separator)]
    else:
        wide = GAP.split(line.strip())
        names = wide if len(wide) > 1 else line.split()
    if len(names) < 2 or len(set(names)) < len(names) or not all(map(COLUMN.fullmatch, names)):
        return None
    header = find_header(line, names, names)
    return _Table(header, bool(separator)) if header else None
