"""Inputs of kind `profile-summary`: the table that a profiler prints of a whole run, a row for each operation.

Such a table has no steps and no ranks. It says what the time went to: where waiting for data or communication has a
part of it that no healthy job has, that is the finding.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.inputs.file_origin import find_node, own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.messages import metric_of
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import NothingKnownError, Problem
from skewscope.kb.table_rows import TableHeader, find_header

HEAD_LINES = 400
MAX_LINE = 4000
VALUE = re.compile(r"(?P<number>\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)\s?(?P<unit>s|ms|us|\u00b5s|ns|%)?")
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "ns": 1e-9, "%": 1.0, "": 1.0}


@dataclass(frozen=True, slots=True)
class Profiler:
    """What one profiler prints."""

    tool: str
    names: str
    """Column of the operations..."""
    times: str
    """...and of their time, without that of the operations in them where it is of a processor."""
    others: tuple[str, ...] = ()
    """Other columns whose names contain those."""
    whole: re.Pattern[str] | None = None
    """A line with the time of all; None where it is that of all rows."""
    whole_rows: tuple[str, ...] = ()
    """Operations that contain all others, the outermost first."""


PROFILERS = (
    Profiler(
        "PyTorch",
        "Name",
        "Self CUDA",
        ("Self CUDA %", "Self CPU", "Self CPU %", "CPU total", "CPU total %", "CPU time avg", "CUDA total"),
        re.compile(r"^Self CUDA time total: (?P<time>\S+)"),
    ),
    Profiler(
        "PyTorch",
        "Name",
        "CPU total",
        ("Self CPU", "Self CPU %", "CPU total %", "CPU time avg"),
        re.compile(r"^Self CPU time total: (?P<time>\S+)"),
    ),
    Profiler(
        "Lightning", "Action", "Total time (s)", ("Mean duration (s)", "Num calls", "Percentage %"), None, ("Total",)
    ),
    Profiler("Nsight Systems", "Name", "Time (%)", ("Total Time (ns)", "Instances")),
    Profiler("Nsight Systems", "Name", "Time(%)", ("Total Time (ns)", "Instances")),
    Profiler("rocprof", "Name", "TotalDurationNs", ("Calls", "AverageNs", "Percentage")),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the time of a job that may be too large."""

    event: str
    what: str
    operations: re.Pattern[str]
    most: float
    """Share of the time beyond which it is a finding."""


PARTS = (
    Part(
        "profile-waits-for-data",
        "waiting for data",
        re.compile(
            r"dataloader|get_train_batch|fetch_next|train_batch_fetch|batch.generator|IteratorGetNext", re.IGNORECASE
        ),
        # As of the steps of a log: a quarter is work that is lost in any case.
        0.25,
    ),
    Part(
        "profile-communicates",
        "communication",
        re.compile(r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|sendrecv", re.IGNORECASE),
        # More than everything else together.
        0.5,
    ),
)


class Share(NamedTuple):
    """A part of the time of a table."""

    part: Part
    share: float
    largest: str
    """The operation with the most of it."""


@dataclass(slots=True)
class ProfileTable:
    """One table."""

    profiler: Profiler
    header: TableHeader
    times: dict[str, float] = field(default_factory=dict)
    """By operation."""
    whole: float = 0.0

    def shares(self) -> Iterator[Share]:
        """Yields the parts that are known, of tables with any time."""
        outer = next((self.times[name] for name in self.profiler.whole_rows if name in self.times), 0.0)
        whole = self.whole or outer or sum(self.times.values())
        for part in PARTS if whole > 0 else ():
            own = {name: time for name, time in self.times.items() if part.operations.search(name)}
            if own:
                yield Share(part, min(sum(own.values()) / whole, 1.0), max(own, key=own.__getitem__))


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether the first bytes of a file have the table of a profiler."""
    return any(table.times for table in read_tables(decode_head(head)[:HEAD_LINES]))


def read_tables(lines: Sequence[str]) -> list[ProfileTable]:
    """Returns the tables of a text; one that is of two profilers is given for each."""
    tables: list[ProfileTable] = []
    current: list[ProfileTable] = []
    for text in lines:
        line = text[:MAX_LINE].replace("\t", " ")
        if headers := [each for one in PROFILERS if (each := _open_table(one, line))]:
            current = headers
            tables += headers
        for table in current if not headers else ():
            _read_line(table, line)
    return tables


def _open_table(profiler: Profiler, line: str) -> ProfileTable | None:
    if profiler.names not in line or profiler.times not in line:
        return None
    header = find_header(line, (profiler.names, profiler.times), profiler.others)
    return ProfileTable(profiler, header) if header else None


def _read_line(table: ProfileTable, line: str) -> None:
    if table.profiler.whole and (match := table.profiler.whole.match(line)):
        table.whole = _to_number(match["time"]) or 0.0
        return
    cells = table.header.split_row(line)
    time = _to_number(cells.get(table.profiler.times, "")) if cells else None
    if cells and time is not None:
        name = cells[table.profiler.names]
        table.times[name] = table.times.get(name, 0.0) + time


def _to_number(text: str) -> float | None:
    match = VALUE.fullmatch(text.strip())
    return float(match["number"].replace(",", "")) * UNITS[match["unit"] or ""] if match else None


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns a message for each part of the time that is too large.

    Raises:
        InputError: there are too many lines; NothingKnownError: none is.
    """
    tables = read_tables([text for _, text in read_lines(file, name)])
    shares = [share for table in tables for share in table.shares()]
    node, note = find_node(labels, name)
    collector = SeriesCollector(name, note)
    for share in shares:
        if share.share > share.part.most:
            text = f"{share.part.what} takes {100 * share.share:.0f} % of the time, most of it {share.largest[:120]}"
            message = {"node": node, "message": text[0].upper() + text[1:]}
            collector.add(metric_of(catalogue().events[share.part.event].signal), message, own_time(name), 1.0)
    if not (series := collector.series()):
        said = ", ".join(f"{share.part.what} {100 * share.share:.0f} %" for share in shares) or "no such part"
        found = (
            f"the times of {sum(len(each.times) for each in tables)} operations, of which {said}: too little to judge"
        )
        hint = "`nsys export --type sqlite` of the profile itself says the time of each step and rank."
        raise NothingKnownError([Problem(name, 0, "", found, "the tables of other ranks, or times of steps", hint)])
    return series


READER = artefact_reader(
    "table of operations that a profiler prints (PyTorch, Lightning, Nsight Systems, rocprof)",
    read_series,
    recognise,
    placed_by_name=True,
)
