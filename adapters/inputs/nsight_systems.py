"""Inputs of kind `nsight-systems`: what `nsys export --type sqlite` writes of a report.

Ranges of NVTX that are named after steps are the steps; kernels of NCCL communicate, all others compute. Each process
is a rank. What is derived of them is what `kineto` derives of a trace of PyTorch's profiler.
"""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from skewscope.adapters.formats.bounds import EVENTS
from skewscope.adapters.formats.kineto import COMMUNICATION_KERNELS, MAX_STEPS, ProfilerTrace, TraceStep
from skewscope.adapters.inputs import kineto
from skewscope.adapters.inputs.labelled import LabelledSeries, samples_to_block
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

SQLITE = b"SQLite format 3\0"
TABLES = (b"CUPTI_ACTIVITY_KIND_KERNEL", b"NVTX_EVENTS", b"TARGET_INFO_SESSION_START_TIME")
KERNELS, RANGES, STRINGS = "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "StringIds"
CLOCK = "TARGET_INFO_SESSION_START_TIME"
TEXT_RANGES = "SELECT globalTid, start, end, text FROM NVTX_EVENTS WHERE end IS NOT NULL"
NUMBERED_RANGES = (
    "SELECT globalTid, start, end, COALESCE(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId "
    "WHERE end IS NOT NULL"
)
"""Ranges whose texts may stand in the table of strings."""
ALL_KERNELS = (
    "SELECT globalPid, start, end, value, deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL "
    "LEFT JOIN StringIds ON id = shortName"
)
STEP_NAME = re.compile(
    r"(?:.{0,40}[^a-z]|profiler)?(?:step|iter|iteration|batch)[ _#:=-]*(\d{1,9})(?:[^\d].{0,40})?", re.IGNORECASE
)
UNNUMBERED = re.compile(r"(?:train(?:ing)?[ _-]?)?(?:step|iter|iteration)", re.IGNORECASE)
LOADING = re.compile(
    r"data[ _-]?load|load[ _-]?(?:data|batch)|(?:next|get|fetch)[ _-]?batch|batch[ _-]?generator", re.IGNORECASE
)
PROCESS = 1 << 24
"""A number of a thread or process is that of the process times this, with that of the thread in the rest."""
MAX_WORK = 400_000_000
"""Steps of SQLite's machine that one file may take: some seconds; a view could go on for ever."""
WORK_PERIOD = 1_000_000
MAX_PROCESSES = 1024
EXPECTED = "tables of kernels and of NVTX ranges, as `nsys export --type sqlite` writes them"
HINT = "Mark the steps with NVTX ranges, such as torch.cuda.nvtx.range_push(f'step {n}'), and trace cuda and nvtx."


@dataclass
class RankActivity:
    """What one process did. Times are nanoseconds since the session began."""

    steps: list[tuple[int, int, int]] = field(default_factory=list)
    """Number, begin and end."""
    unnumbered: list[tuple[int, int]] = field(default_factory=list)
    loading: list[tuple[int, int]] = field(default_factory=list)
    computation: list[tuple[int, int]] = field(default_factory=list)
    communication: list[tuple[int, int]] = field(default_factory=list)
    devices: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Number of kernels of each GPU."""

    @property
    def device(self) -> int:
        """The GPU that it uses most."""
        return max(self.devices, key=self.devices.__getitem__, default=0)

    def trace(self, rank: int | None, size: int, begin: float) -> ProfilerTrace:
        """Returns it as a trace of a rank whose clock began at `begin`, seconds since 1970."""
        numbered = self.steps or [(n, *span) for n, span in enumerate(sorted(self.unnumbered))]
        steps = sorted((TraceStep(n, a / 1e3, b / 1e3) for n, a, b in numbered), key=lambda step: step.begin)
        communication = {("", False): _spans(self.communication)} if self.communication else {}
        return ProfilerTrace(
            rank,
            size,
            (),
            tuple(steps),
            _spans(self.loading),
            _spans(self.computation),
            communication,
            {},
            begin,
        )


def _spans(pairs: Sequence[tuple[int, int]]) -> F64:
    """Returns [span, (begin, end)] microseconds."""
    return np.array(pairs, np.float64).reshape(-1, 2) / 1e3


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file is a database with tables of Nsight Systems."""
    return head.startswith(SQLITE) and any(table in head for table in TABLES)


def read_report(path: Path, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all processes of a report.

    Raises:
        InputError: it has no steps, or is damaged.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            activities, begin = _read_tables(database, name)
    except sqlite3.Error as error:
        raise InputError([Problem(name, 0, "", f"no readable database ({error!s:.100})", EXPECTED)]) from None
    ranks = [each for each in activities.values() if each.steps or each.unnumbered]
    if not ranks:
        raise InputError([Problem(name, 0, "NVTX_EVENTS", "no range that is named after a step", "step 1", HINT)])
    if max(len(each.steps) + len(each.unnumbered) for each in ranks) > MAX_STEPS:
        raise InputError([Problem(name, 0, "NVTX_EVENTS", f"more than {MAX_STEPS} steps", "fewer", "Profile less.")])
    if len(ranks) == 1:
        rank = None if kineto.RANK_IN_NAME.search(Path(name).name) else ranks[0].device
        return kineto.list_series(ranks[0].trace(rank, 0, begin), name, labels, leads=True)
    ranks.sort(key=lambda each: each.device)
    series = [
        each
        for rank, activity in enumerate(ranks)
        for each in kineto.list_series(activity.trace(rank, len(ranks), begin), name, {})
    ]
    note = f"{series[0].note}; its {len(ranks)} processes are taken for ranks, in the order of their GPUs".lstrip("; ")
    return [replace(each, note=note) for each in series]


def _read_tables(database: sqlite3.Connection, name: str) -> tuple[dict[int, RankActivity], float]:
    """Returns what each process did, and when the session began, seconds since 1970; 0 where unknown.

    Raises:
        sqlite3.Error: the database is damaged, or takes too long.
    """
    left = iter(range(MAX_WORK // WORK_PERIOD))
    database.set_progress_handler(lambda: next(left, None) is None, WORK_PERIOD)
    database.execute("PRAGMA trusted_schema = OFF")
    kinds = dict(database.execute("SELECT name, type FROM sqlite_master LIMIT 10000"))
    known = {table for table in (KERNELS, RANGES, STRINGS, CLOCK) if kinds.get(table) == "table"}
    if RANGES not in known:
        raise InputError([Problem(name, 0, "", f"no table {RANGES}", EXPECTED, HINT)])
    activities: dict[int, RankActivity] = defaultdict(RankActivity)
    columns = {row[1] for row in database.execute("PRAGMA table_info(NVTX_EVENTS)")}
    query = NUMBERED_RANGES if STRINGS in known and "textId" in columns else TEXT_RANGES
    for process, begin, end, text in _rows(database, name, query):
        _add_range(activities[_process(process)], begin, end, str(text))
    for process, begin, end, text, device in _rows(database, name, ALL_KERNELS) if known >= {KERNELS, STRINGS} else ():
        activity = activities[_process(process)]
        activity.devices[device if isinstance(device, int) else 0] += 1
        is_communication = str(text).lower().startswith(COMMUNICATION_KERNELS)
        (activity.communication if is_communication else activity.computation).append((begin, end))
    if len(activities) > MAX_PROCESSES:
        raise InputError([Problem(name, 0, "", f"{len(activities)} processes", f"at most {MAX_PROCESSES}")])
    query = "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1"
    started = next(iter(database.execute(query)), (0,))[0] if CLOCK in known else 0
    is_time = isinstance(started, int) and 0 < started < 1 << 62
    return activities, started / 1e9 if is_time else 0.0


def _rows(database: sqlite3.Connection, name: str, query: str) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a query whose second and third values are a begin and an end.

    Raises:
        InputError: there are too many.
    """
    most = EVENTS.limit()
    for count, row in enumerate(database.execute(query)):
        if count >= most:
            raise InputError([EVENTS.problem(name, hint="Profile less.")])
        if isinstance(row[1], int) and isinstance(row[2], int) and 0 <= row[1] <= row[2]:
            yield row


def _process(number: object) -> int:
    return number // PROCESS if isinstance(number, int) else 0


def _add_range(activity: RankActivity, begin: int, end: int, text: str) -> None:
    """Adds a range: a step, one that waits for data, or nothing of use."""
    if LOADING.search(text, 0, 200):
        activity.loading.append((begin, end))
    elif match := STEP_NAME.fullmatch(text[:200]):
        activity.steps.append((int(match[1]), begin, end))
    elif UNNUMBERED.fullmatch(text):
        activity.unnumbered.append((begin, end))


def _read_input(source: Input, recording: Recording) -> list[LabelledSeries]:
    path = recording.resolve_path(source.path)
    return read_report(path, recording.display_path(source.path), dict(source.labels))


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of a report.

    Raises:
        InputError: it has no steps, or is damaged.
    """
    return samples_to_block(_read_input(source, recording), source, registry, names)


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields metric and labels of each series of a report.

    Raises:
        InputError: it has no steps, or is damaged.
    """
    yield from ((each.metric, dict(each.labels)) for each in _read_input(source, recording))


READER = InputReader(
    "report of Nsight Systems as SQLite (nsys export)",
    read,
    recognise,
    scan=scan,
    runs_apart=True,
)
"""Steps, computation and communication of the processes of a report."""
