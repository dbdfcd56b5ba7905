"""Inputs of kind `profile-summary`: the table that a profiler prints of a whole run, a row for each operation.

Such a table has no steps and no ranks. It says what the time went to: where waiting for data or communication has a
part of it that no healthy job has, that is the finding.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO, NamedTuple

from skewscope.adapters.formats.log_lines import decode_head, read_lines
from skewscope.adapters.inputs.file_origin import find_node, own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.messages import metric_of
from skewscope.engine.model.parameters import MIN_PAST
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
    scale: float = 1.0
    """Factor from a number without a unit to seconds, or to bytes."""
    calls: str = ""
    """Column of their number, where it counts."""


def _of_device(word: str) -> Profiler:
    """Returns the table of PyTorch as that of the times on a kind of device."""
    columns = (f"Self {word} %", "Self CPU", "Self CPU %", "CPU total", "CPU total %", "CPU time avg", f"{word} total")
    return Profiler("PyTorch", "Name", f"Self {word}", columns, re.compile(rf"^Self {word} time total: (?P<time>\S+)"))


KERNELS, COPIES, SIZES = "Name", "Operation", "Total (MB)"
"""Columns of Nsight Systems: of kernels and calls, of copies by their time or size, and what was copied."""
NSIGHT_COLUMNS = ("Time (%)", "Time(%)", "Num Calls")
CPU_WHOLE = re.compile(r"^Self CPU time total: (?P<time>\S+)")
ON_DEVICES = tuple(map(_of_device, ("CUDA", "XPU", "HPU", "NPU")))
ON_HOST = Profiler(
    "PyTorch",
    "Name",
    "Self CPU",
    ("Self CPU %", "CPU total", "CPU total %", "CPU time avg"),
    CPU_WHOLE,
    calls="# of Calls",
)
"""Without the operations in others: what a call takes itself."""
PROFILERS = (
    *ON_DEVICES,
    ON_HOST,
    Profiler("PyTorch", "Name", "CPU total", ("Self CPU", "Self CPU %", "CPU total %", "CPU time avg"), CPU_WHOLE),
    Profiler(
        "Lightning", "Action", "Total time (s)", ("Mean duration (s)", "Num calls", "Percentage %"), None, ("Total",)
    ),
    *(
        Profiler("Nsight Systems", names, f"Total Time ({unit})", NSIGHT_COLUMNS, scale=scale)
        for unit, scale in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("sec", 1.0))
        for names in (KERNELS, "Range", COPIES)
    ),
    Profiler("Nsight Systems", COPIES, SIZES, scale=1e6),
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
    is_repeated: bool = False
    """Whether a kind counts only where its longest one takes little of its time: few large copies load a model."""


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
    Part("profile-copies-to-gpu", "copying to the GPU", re.compile(r"[Mm]emcpy (HtoD|Host-to-Device)"), 0.25, True),
    Part("profile-copies-from-gpu", "copying from the GPU", re.compile(r"[Mm]emcpy (DtoH|Device-to-Host)"), 0.25, True),
)
MEMORY_OPERATION = re.compile(r"\[CUDA mem|Mem(cpy|set) ")
LAUNCHES = re.compile(
    r"(?:cuda|cu|hip)(?:Ext|Module){0,2}Launch(?:Cooperative)?Kernel\w{0,20}"
    r"|urEnqueueKernelLaunch|zeCommandListAppendLaunchKernel"
)
MIN_LAUNCHES = 1000
MAX_LAUNCH_S = 100e-6
"""Seconds of a launch in the mean: it takes some microseconds; where modules are loaded, or a full queue is waited for,
it takes longer."""
MIN_LAUNCH_SHARE, MAX_BUSY_SHARE = 0.25, 0.5
"""Parts of the processor's time: a quarter is lost in any case, and a GPU that works for less than half idles more."""


class Share(NamedTuple):
    """A part of the time of a table."""

    part: Part
    share: float
    largest: str
    """The operation with the most of it."""
    speed: float | None = None
    """Bytes per second, of copies whose size is known."""

    def __str__(self) -> str:
        """Returns what takes so much of the time, as a sentence."""
        speed = f" at {self.speed / 1e9:.3g} GB/s" if self.speed else ""
        what = f"{self.part.what[0].upper()}{self.part.what[1:]}"
        return f"{what} takes {100 * self.share:.0f} % of the time{speed}, most of it {self.largest[:120]}"


@dataclass(slots=True)
class ProfileTable:
    """One table."""

    profiler: Profiler
    header: TableHeader
    times: dict[str, float] = field(default_factory=dict)
    """By operation."""
    calls: dict[str, float] = field(default_factory=dict)
    """By operation: how often it was called, where that counts."""
    whole: float = 0.0
    longest: dict[str, float] = field(default_factory=dict)
    """Of a single operation of each kind, where the table says it."""
    sizes: Mapping[str, float] = field(default_factory=dict)
    """Bytes of copies, by operation."""

    @property
    def is_of_copies(self) -> bool:
        """Whether it has no kernels beside copies, so that their part of the time is not known."""
        return bool(self.times) and all(MEMORY_OPERATION.search(name) for name in self.times)

    def shares(self) -> Iterator[Share]:
        """Yields the parts that are known, of tables with any time."""
        if self.profiler is ON_HOST:
            return
        outer = next((self.times[name] for name in self.profiler.whole_rows if name in self.times), 0.0)
        whole = self.whole or outer or sum(self.times.values())
        for part in PARTS if whole > 0 and not self.is_of_copies else ():
            own = {name: time for name, time in self.times.items() if self._counts(name, part)}
            if own:
                taken, size = sum(own.values()), sum(self.sizes.get(name, 0.0) for name in own)
                speed = size / taken if size and taken else None
                yield Share(part, min(taken / whole, 1.0), max(own, key=own.__getitem__), speed)

    def _counts(self, name: str, part: Part) -> bool:
        is_few = part.is_repeated and MIN_PAST * self.longest.get(name, 0.0) > self.times[name]
        return bool(part.operations.search(name)) and not is_few


def join_copies(tables: Sequence[ProfileTable]) -> list[ProfileTable]:
    """Returns tables in which those of copies stand with the kernels of the same report, where it has both."""
    kernels = [one for one in tables if one.profiler.names == KERNELS and "Instances" in one.header.names]
    copies = [one for one in tables if one.is_of_copies and one.profiler.times != SIZES]
    sizes = [one.times for one in tables if one.profiler.times == SIZES]
    joined = [
        replace(kernel, times={**kernel.times, **copy.times}, longest=copy.longest, sizes=size)
        for kernel, copy, size in zip(kernels, copies, [*sizes, *[{}] * len(copies)], strict=False)
    ]
    return [*joined, *(one for one in tables if not any(one is each for each in kernels[: len(joined)]))]


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
        table.times[name] = table.times.get(name, 0.0) + time * table.profiler.scale
        longest = next((cells[column] for column in cells if column.startswith("Max")), "")
        table.longest[name] = (_to_number(longest) or 0.0) * table.profiler.scale
        if calls := _to_number(cells.get(table.profiler.calls, "")):
            table.calls[name] = table.calls.get(name, 0.0) + calls


def find_late_launches(tables: Sequence[ProfileTable]) -> str:
    """Returns how much a GPU waits for its kernels to be launched, by the tables of one run; '' where it does not."""
    host = next((one for one in tables if one.profiler is ON_HOST), None)
    busy = max((one.whole for one in tables if one.profiler in ON_DEVICES), default=0.0)
    if host is None or not host.whole or not busy:
        return ""
    names = [name for name in host.calls if LAUNCHES.fullmatch(name)]
    launches, taken = sum(host.calls[name] for name in names), sum(host.times[name] for name in names)
    is_cheap = launches >= MIN_LAUNCHES and taken <= launches * MAX_LAUNCH_S
    if not is_cheap or taken < MIN_LAUNCH_SHARE * host.whole or busy > MAX_BUSY_SHARE * host.whole:
        return ""
    return (
        f"Launching kernels takes {100 * taken / host.whole:.0f} % of the processor's time, in which the GPU works for "
        f"{100 * busy / host.whole:.0f} %: {launches:,.0f} launches of {1e6 * busy / launches:.1f} us of work each"
    )


def _to_number(text: str) -> float | None:
    match = VALUE.fullmatch(text.strip())
    return float(match["number"].replace(",", "")) * UNITS[match["unit"] or ""] if match else None


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns a message for each part of the time that is too large.

    Raises:
        InputError: there are too many lines; NothingKnownError: none is.
    """
    tables = join_copies(read_tables([text for _, text in read_lines(file, name)]))
    shares = [share for table in tables for share in table.shares()]
    node, note = find_node(labels, name)
    collector = SeriesCollector(name, note)
    for share in shares:
        if share.share > share.part.most:
            message = {"node": node, "message": str(share)}
            collector.add(metric_of(catalogue().events[share.part.event].signal), message, own_time(name), 1.0)
    if late := find_late_launches(tables):
        event = catalogue().events["profile-launches-late"]
        collector.add(metric_of(event.signal), {"node": node, "message": late}, own_time(name), 1.0)
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
