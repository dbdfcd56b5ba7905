"""Inputs of kind `nvidia-smi`: a log of `nvidia-smi --query-gpu=... --format=csv -l N`, with `timestamp` and `index`.

Columns are found by the header, wherever it repeats, and have the names of the exporter that reads the same output, so
that new columns need no change here. Numbers are in the unit of their cell, else in that of the header. A log without a
header needs the label `query`: what was given to `--query-gpu`. One without `index` is of one GPU, unless two rows are
of one poll. Where polls follow one another that fast, even distances of the rows tell that each is a poll of its own.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

import numpy as np

from skewscope.adapters.formats.log_lines import decode_head, read_block_lines
from skewscope.adapters.formats.log_times import find_stamp, parse_offset
from skewscope.adapters.inputs.counter_dumps import READING_S
from skewscope.adapters.inputs.file_origin import OWN_TIME, find_node, join_notes, own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.kb.problems import InputError, Problem

MAX_COLUMNS = 1000
CACHED_CELLS = 1 << 16
HINT = "Take it with `nvidia-smi --query-gpu=timestamp,index,... --format=csv -l 1`."

# Names that the query takes, and the older ones, by the name that the header prints.
ALIASES = {
    "clocks.sm": "clocks.current.sm",
    "clocks.gr": "clocks.current.graphics",
    "clocks.mem": "clocks.current.memory",
    "clocks.video": "clocks.current.video",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
}
SUBSTITUTES = {"clocks.current.graphics": "clocks.current.sm", "power.draw.instant": "power.draw"}
"""Columns that stand for another one in a log without it."""
IDENTITY = {"index": "gpu", "uuid": "uuid", "pci.bus_id": "pci_bus_id", "hostname": "node"}
"""Columns that say where a row is from, and the labels that they become."""
UNITS = {"MHz": ("clock_hz", 1e6), "W": ("watts", 1.0), "%": ("ratio", 0.01), "MiB": ("bytes", 2.0**20)}
"""By unit: how the exporter ends a metric's name, and the factor."""
BARE_UNITS = {"clocks.": "MHz", "power.": "W", "utilization.": "%", "memory.": "MiB"}
"""Units of columns whose header and cells have none, by how their names begin."""
REASON = re.compile(r"clocks_(?:event|throttle)_reasons\.(?P<reason>\w+)")
REASON_BITS = {
    "gpu_idle": 1,
    "applications_clocks_setting": 2,
    "sw_power_cap": 4,
    "hw_slowdown": 8,
    "sync_boost": 16,
    "sw_thermal_slowdown": 32,
    "hw_thermal_slowdown": 64,
    "hw_power_brake_slowdown": 128,
}
"""Bits of the mask of reasons, by the columns that have one reason each."""
REASONS = "nvidia_smi_clocks_event_reasons_active"
FLAGS = {"Active": 1.0, "Not Active": 0.0, "Yes": 1.0, "No": 0.0}
COLUMN = re.compile(r"(?P<name>[\w.]+)(?: \[(?P<unit>[^\]]*)\])?")
NUMBER = re.compile(r"(?P<number>-?\d+(?:\.\d+)?)(?: (?P<unit>[A-Za-z%/]+))?")
BITS = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
ROW = re.compile(r"(?:19|20)\d\d/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?, ")
MESSAGE = re.compile(
    r"Failed to initialize NVML|Unable to determine the device handle|NVIDIA-SMI has failed|No devices were found"
    r"|GPU access blocked|GPU is lost|Make sure that the latest NVIDIA driver"
)
"""How lines begin that the program writes in place of rows while it cannot reach the driver or a GPU."""
MAX_SHOWN = 80
ANSWERS, SOURCE = "skewscope_host_up", "nvidia-smi"
"""Metric that says whether a poll was answered, and its label `source`."""
POLL_S = 0.5
"""Rows further apart are of two polls."""
MIN_EVEN_ROWS = 40
EVEN_SHARE, EVEN_TAIL = 0.5, 0.05
SHORTEST_POLL_S = 0.01
"""Rows closer than POLL_S are polls of one GPU, if at least so many lie evenly: the distance that one in twenty falls
short of is at least such a part of the one that one in twenty exceeds, and no shorter than a poll. Of 1,717 published
logs of one GPU each 0.1 s, 1,701 are so even; rows of one poll of two and of eight GPUs are 0 to 4 ms apart."""
ONLY_GPU = "0"
"""Index of the GPU of a log that names none."""
MAX_DAMAGED = 0.01
"""Share of rows with too few or too many cells that is left out with a note; with more, the file is no such log."""
TIME = "timestamp"
GPU_COLUMNS = frozenset(("index", "uuid", "pci.bus_id"))
"""Columns that tell GPUs apart."""
KNOWN = re.compile(
    r"(?:utilization|clocks|(?:enforced\.)?power|temperature|memory|clocks_event_reasons(?:_counters)?|ecc\.errors|pcie)"
    r"\.[\w.]+"
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name and its unit in the header."""

    name: str
    unit: str = ""


@dataclass
class CsvReader:
    """Reads the rows of one log under the newest header."""

    file: str
    labels: Mapping[str, str]
    collector: SeriesCollector
    offset: float = 0.0
    columns: list[Column] = field(default_factory=list)
    rows: int = 0
    """Rows that gave samples."""
    node: str = ""
    """Node of rows that do not name theirs."""
    messages: int = 0
    """Lines of the program in place of rows."""
    first_message: str = ""
    """The first of them, with its line."""
    polls: list[float] = field(default_factory=list)
    """Time of the first row of each poll that gave rows."""
    nodes: set[str] = field(default_factory=set)
    """Nodes of all rows: with several, no line says whose poll failed."""
    failed: list[int] = field(default_factory=list)
    """Of each line in place of rows: how many polls had given rows by then."""
    damaged: list[tuple[int, str]] = field(default_factory=list)
    """Line and description of each row whose cells are not those of the header."""
    is_of_one_gpu: bool = False
    """Whether no column names the GPU of a row."""
    untimed: list[set[str]] = field(default_factory=list)
    """The GPUs of each poll whose rows have no time."""
    times: list[float] = field(default_factory=list)
    """Time of each row whose GPU no column names."""
    first_close: int = 0
    """Line of the first of them that may be of the poll of the row before it; 0 without any."""
    _timed: int = -1
    """Place of the column with the time of a row; -1 for none."""
    _identity: list[tuple[str, int]] = field(default_factory=list)
    """Labels of a row, and the place of the column of each; -1 for none."""
    _reasons: list[tuple[int, int]] = field(default_factory=list)
    """Places of the columns with one reason each, and the bit of that."""
    _measured: list[tuple[int, Column, dict[str, tuple[str, float] | None]]] = field(default_factory=list)
    """Place and column of each number, and what its cells mean that were read before."""
    """Columns of numbers, with their places."""
    _newest: tuple[str, float | None] = ("", None)
    """Text and time of the newest row."""

    def count_message(self, number: int, text: str) -> None:
        """Counts a line that the program wrote in place of rows: there is no sample then."""
        self.messages += 1
        self.failed.append(len(self.polls))
        self.first_message = self.first_message or f"{text[:MAX_SHOWN]!r} (line {number})"

    def message_note(self) -> str:
        """Returns what is to be said of the messages; '' without any."""
        if not self.messages:
            return ""
        lines = "a line in place of a row" if self.messages == 1 else f"{self.messages} lines in place of rows"
        return f"nvidia-smi wrote {lines}, first {self.first_message}; nothing is known of its GPUs then"

    def add_answers(self) -> None:
        """Adds whether each poll was answered, where one was not; lines without a time lie evenly between two polls.

        Nothing is known of polls before the first that was answered, not even a time.
        """
        if not self.failed or len(self.polls) < 2 or len(self.nodes) != 1:
            return
        usual = float(np.median(np.diff(self.polls)))
        labels = {"node": next(iter(self.nodes)), "source": SOURCE}
        for time in self.polls:
            self.collector.add(ANSWERS, labels, time, 1.0)
        for before, count in sorted(Counter(filter(None, self.failed)).items()):
            begin = self.polls[before - 1]
            step = (self.polls[before] - begin) / (count + 1) if before < len(self.polls) else usual
            for number in range(1, count + 1):
                self.collector.add(ANSWERS, labels, begin + number * step, 0.0)

    def read_row(self, number: int, cells: list[str]) -> None:
        """Adds the samples of a row.

        Raises:
            InputError: its time or GPU is missing.
        """
        time = self._stamp(cells[self._timed]) if self._timed >= 0 else self._next_time(cells)
        if time is None:
            what = f"the timestamp {cells[self._timed]!r:.40}"
            raise self.input_error(number, what, "one such as 2026/11/22 10:00:00.123")
        if not self.polls or time - self.polls[-1] > POLL_S:
            self.polls.append(time)
        elif self.is_of_one_gpu:
            self.first_close = self.first_close or number
        if self.is_of_one_gpu:
            self.times.append(time)
        place = {label: cells[at] if at >= 0 else "" for label, at in self._identity}
        place["gpu"] = place["gpu"] or (ONLY_GPU if self.is_of_one_gpu else "")
        place["node"] = place["node"] or self.node
        self.nodes.add(place["node"])
        self.rows += 1
        mask = read_reasons(self._reasons, cells) if self._reasons else None
        if mask is not None:
            self.collector.add(REASONS, place, time, mask, number)
        add = self.collector.add
        for at, column, known in self._measured:
            cell = cells[at]
            if cell not in known:
                if len(known) >= CACHED_CELLS:
                    known.clear()
                known[cell] = parse_cell(column, cell)
            if (found := known[cell]) is not None:
                add(found[0], place, time, found[1], number)

    def _stamp(self, text: str) -> float | None:
        """Returns the time of a row, seconds since 1970; rows of one poll have the same."""
        if text != self._newest[0]:
            self._newest = text, find_stamp(text, self.offset)
        return self._newest[1]

    def _next_time(self, cells: Sequence[str]) -> float:
        """Returns the time of a row without one: a GPU that comes again begins the next poll."""
        known = {column.name: cell for column, cell in zip(self.columns, cells, strict=True)}
        gpu = next((known[name] for name in GPU_COLUMNS if known.get(name)), ONLY_GPU)
        self.untimed.append(set() if not self.untimed or gpu in self.untimed[-1] else self.untimed.pop())
        self.untimed[-1].add(gpu)
        return own_time(self.file) + READING_S * (len(self.untimed) - 1)

    def time_note(self) -> str:
        """Returns what is taken for the times of rows without any; '' where they have some."""
        more = f", and {READING_S:g} s between polls" if len(self.untimed) > 1 else ""
        return f"{OWN_TIME}{more}" if self.untimed else ""

    def check_rows(self) -> None:
        """Checks that each row whose GPU no column names is a poll of its own.

        Raises:
            InputError: some may be of several GPUs.
        """
        if self.first_close and not are_even(self.times):
            hint = "Add index to the query; for one GPU, give the input the label gpu."
            what = f"no column index or uuid, and two rows within {POLL_S:g} s"
            raise self.input_error(self.first_close, what, "the GPU of each row", hint)

    def input_error(self, number: int, found: str, expected: str, hint: str = HINT) -> InputError:
        """Returns the error of a line."""
        return InputError([Problem(self.file, number, "", found, expected, hint)])

    def take_header(self, number: int, columns: list[Column]) -> None:
        """Uses the columns of a header for the rows that follow.

        Raises:
            InputError: it has too many columns, or two of one name.
        """
        names = [column.name for column in columns]
        self.is_of_one_gpu = not GPU_COLUMNS & set(names) and not self.labels.get("gpu")
        if len(names) > MAX_COLUMNS or len(set(names)) < len(names):
            raise self.input_error(number, "too many columns, or two of one name", f"at most {MAX_COLUMNS} names")
        self.columns = [
            replace(column, name=other) if (other := SUBSTITUTES.get(column.name)) and other not in names else column
            for column in columns
        ]
        places = {column.name: at for at, column in enumerate(self.columns)}
        self._timed = places.get(TIME, -1)
        self._identity = [(label, places.get(name, -1)) for name, label in IDENTITY.items()]
        self._reasons = find_reasons(self.columns)
        self._measured = [
            (at, column, {})
            for at, column in enumerate(self.columns)
            if column.name not in IDENTITY and not is_reason(column)
        ]


def are_even(times: Sequence[float]) -> bool:
    """Returns whether rows lie as evenly in time as polls of one GPU, and not in bunches."""
    if len(times) < MIN_EVEN_ROWS:
        return False
    short, long = np.quantile(np.diff(times), (EVEN_TAIL, 1 - EVEN_TAIL)).tolist()
    return bool(short >= max(SHORTEST_POLL_S, EVEN_SHARE * long))


def parse_cell(column: Column, cell: str) -> tuple[str, float] | None:
    """Returns the metric and the number of a cell in the exporter's unit; None where it has none."""
    # Gaudi's hl-smi writes the same table, with `aip` for what is of the whole device.
    stem = "nvidia_smi_" + column.name.replace(".aip", ".gpu").replace(".", "_")
    if cell in FLAGS:
        return stem, FLAGS[cell]
    if BITS.fullmatch(cell):
        return stem, float(int(cell, 16))
    match = NUMBER.fullmatch(cell)
    if match is None:
        return None
    bare = next((unit for start, unit in BARE_UNITS.items() if column.name.startswith(start)), "")
    ending, factor = UNITS.get(match["unit"] or column.unit or bare, ("", 1.0))
    return f"{stem}_{ending}" if ending else stem, float(match["number"]) * factor


def is_reason(column: Column) -> bool:
    """Returns whether a column has one reason, which the mask of all reasons has too."""
    match = REASON.fullmatch(column.name)
    return bool(match and match["reason"] in REASON_BITS)


def find_reasons(columns: Sequence[Column]) -> list[tuple[int, int]]:
    """Returns the places of the columns that have one reason each, and the bits of those in the mask of all reasons.

    A log that has the mask itself gives that.
    """
    if any(column.name == "clocks_event_reasons.active" for column in columns):
        return []
    matches = [(at, REASON.fullmatch(column.name)) for at, column in enumerate(columns)]
    return [(at, REASON_BITS[match["reason"]]) for at, match in matches if match and match["reason"] in REASON_BITS]


def read_reasons(reasons: Sequence[tuple[int, int]], cells: Sequence[str]) -> float | None:
    """Returns the mask of the reasons that hold a clock down; None where no cell says whether one does."""
    known = [(bit, FLAGS[cells[at]]) for at, bit in reasons if cells[at] in FLAGS]
    return float(sum(bit for bit, is_active in known if is_active)) if known else None


def parse_header(text: str) -> list[Column]:
    """Returns the columns of a header; none where the line is not one."""
    if text[:1].isdecimal():
        return []
    cells = split_cells(text)
    if len(cells) < 2 or not any(KNOWN.match(cell) or cell in (TIME, "index", "uuid") for cell in cells):
        return []
    matches = [COLUMN.fullmatch(cell) for cell in cells]
    if not all(matches) or any(cell.isdecimal() for cell in cells):
        return []
    return [Column(ALIASES.get(m["name"], m["name"]), m["unit"] or "") for m in matches if m]


def split_cells(text: str) -> list[str]:
    """Returns the cells of a line without blanks around them."""
    return [cell.strip() for cell in text.split(",")]


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file are a log of nvidia-smi in CSV, with or without a header.

    What other programs print may contain a table of it without times: then it is no log.
    """
    every = decode_head(head)
    lines = [line for line in every if "," in line][:2]
    headers = [line for line in lines if parse_header(line) and KNOWN.search(line)]
    return any(TIME in line or line == every[0] for line in headers) or any(map(ROW.match, lines))


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of a log, one for each numeric column of each GPU.

    Raises:
        InputError: it is no such log, or a row is damaged.
    """
    reader = CsvReader(name, labels, SeriesCollector(name), parse_offset(labels, name))
    reader.node, unnamed = find_node(labels, name)
    if query := labels.get("query"):
        reader.take_header(0, [Column(ALIASES.get(cell, cell)) for cell in split_cells(query)])
    last = 0
    for number, text in read_block_lines(file, name):
        if text:
            _read_line(reader, number, text)
            last = number
    cut = reader.damaged.pop() if reader.damaged and reader.damaged[-1][0] == last else None
    if not reader.rows:
        line, found = cut or (0, "no row")
        raise reader.input_error(line, found, "rows of nvidia-smi in CSV")
    if len(reader.damaged) > MAX_DAMAGED * reader.rows:
        line, found = reader.damaged[0]
        raise reader.input_error(line, found, f"{len(reader.columns)} cells, as in the header")
    reader.check_rows()
    reader.add_answers()
    has_host = any(column.name == "hostname" for column in reader.columns)
    reader.collector.note = join_notes(
        f"ends inside a row (line {cut[0]}), which is left out" if cut else "",
        _damage_note(reader.damaged),
        reader.message_note(),
        reader.time_note(),
        f"no column index: taken for GPU {ONLY_GPU}" if reader.is_of_one_gpu else "",
        "" if has_host else unnamed,
    )
    return reader.collector.series()


def _damage_note(damaged: Sequence[tuple[int, str]]) -> str:
    if not damaged:
        return ""
    rows = "a damaged row is" if len(damaged) == 1 else f"{len(damaged)} damaged rows are"
    return f"{rows} left out, first line {damaged[0][0]} with {damaged[0][1]}"


def _read_line(reader: CsvReader, number: int, text: str) -> None:
    """Reads a header, a row or a message."""
    if MESSAGE.match(text):
        reader.count_message(number, text)
        return
    if columns := parse_header(text):
        reader.take_header(number, columns)
        return
    cells = split_cells(text)
    if not reader.columns:
        if ROW.match(text):
            hint = "Take it without noheader, or give the input the label query with the list of columns."
            raise reader.input_error(number, "a row before any header", "the names of the columns", hint)
        raise reader.input_error(number, f"{text!r:.60}", "a header such as `timestamp, index, power.draw [W]`")
    if len(cells) != len(reader.columns):
        reader.damaged.append((number, f"{len(cells)} cells"))
        return
    reader.read_row(number, cells)


READER = artefact_reader(
    "nvidia-smi CSV log",
    read_series,
    recognise,
    exporter="dcgm",
    placed_by_name=True,
)
