"""Parser of traces of PyTorch's profiler (Kineto, Chrome trace JSON): steps, communication and computation of a rank.

Only the events that are needed are kept, as arrays of their times, so a trace of some gigabytes takes little memory.
"""

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skewscope.adapters.formats.bounds import EVENTS
from skewscope.adapters.formats.json_stream import iter_members
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

MAX_STEPS = 100_000
MIN_CLOCK_S = 946_684_800.0
"""Times before the year 2000 do not count from 1970."""
STEP_NAME = re.compile(r"ProfilerStep#(\d{1,12})", re.ASCII)
STEP_CATEGORIES = frozenset({"user_annotation", "operator", "cpu_op", "python_function"})
"""What marks steps on the side of the processor; GPUs have ranges of the same names."""
CALL_CATEGORIES = frozenset({"cpu_op", "operator"})
KERNEL_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
"""Categories of today, and those before PyTorch 1.10."""
LOADER_NAME = "enumerate(DataLoader)#"
OPTIMIZER_NAME = "Optimizer.step#"
COMMUNICATION_KERNELS = ("nccl", "rccl", "mccl", "hccl", "oneccl")
COMMUNICATION_CALLS = ("gloo:", "mpi:", "ucc:")
"""Starts of the names of collectives that run on the CPU; each lasts until the collective is over."""
LAUNCH_CALLS = ("c10d::", "record_param_comms", "nccl:", *COMMUNICATION_CALLS)
MUTUAL = re.compile(r"all_?reduce|all_?gather|all_?to_?all|reduce_?scatter|barrier", re.IGNORECASE)
"""In the names of collectives that no rank ends before all have begun, so all end them together."""
TRANSFERS = frozenset({"send", "recv"})


class TraceGroup(NamedTuple):
    """A process group as a trace describes it."""

    name: str
    description: str
    ranks: Sequence[int]


class TraceStep(NamedTuple):
    """One step that the profiler marked."""

    number: int
    begin: float
    """Microseconds on the clock of the trace."""
    end: float


@dataclass(frozen=True)
class ProfilerTrace:
    """What a trace says of one rank."""

    rank: int | None
    world_size: int
    """0 where unknown."""
    groups: tuple[TraceGroup, ...]
    steps: tuple[TraceStep, ...]
    """In the order of time."""
    loading: F64
    """[wait, (begin, end)] microseconds in which the program waited for its next batch of data."""
    computation: F64
    """[operation, (begin, end)] microseconds on the clock of the trace."""
    communication: dict[tuple[str, bool], F64]
    """[operation, (begin, end)] by name of the process group, '' where it is not said, and by whether they are
    transfers between two ranks."""
    mutual: dict[str, F64]
    """[operation, (begin, end, number)] of the collectives that all ranks end together, by name of the process group.
    The number of a collective in its group is NaN where the trace does not say it."""
    base: float
    """Seconds since 1970 at the zero of the clock; 0 where the clock itself counts from 1970, or from nothing known."""

    def seconds(self, time: float) -> float:
        """Returns the seconds since 1970 of a time of the trace; without a known clock, seconds on its own."""
        return self.base + time / 1e6

    @property
    def has_clock(self) -> bool:
        """Whether times are seconds since 1970."""
        return bool(self.steps) and self.seconds(self.steps[0].begin) >= MIN_CLOCK_S


def is_profiler_trace(head: bytes) -> bool:
    """Returns whether the first bytes of a file are those of a trace of PyTorch's profiler."""
    if head.lstrip()[:1] != b"{":
        return False
    if b'"distributedInfo"' in head:
        return True
    # What a trace says of itself may be behind its events.
    about = b'"schemaVersion"' in head or b'"deviceProperties"' in head or (b'"ph"' in head and b'"cat"' in head)
    return about and b'"traceEvents"' in head


def read_trace(stream: BufferedReader, file: str) -> ProfilerTrace:
    """Returns the content of a trace.

    Args:
        stream: the trace, unpacked.
        file: name for messages.

    Raises:
        InputError: the trace is damaged, cut off or too large.
    """
    reader = _TraceReader(file)
    about: dict[str, Any] = {}
    for name, value in iter_members(stream, file, ("traceEvents",)):
        if name == "traceEvents":
            reader.add(value)
        elif name in ("distributedInfo", "baseTimeNanoseconds", "schemaVersion"):
            about[name] = value
    if not reader.count:
        found = "no event" if about else "no trace: a JSON object without traceEvents"
        raise InputError([Problem(file, 0, "traceEvents", found, "the events of a profiler")])
    return reader.finish(about)


@dataclass
class _TraceReader:
    """Collects what is needed of the events of a trace."""

    file: str
    most: int = field(default_factory=EVENTS.limit)
    count: int = 0
    steps: list[TraceStep] = field(default_factory=list)
    loading: "array[float]" = field(default_factory=lambda: array("d"))
    updates: list[float] = field(default_factory=list)
    """Ends of the steps of an optimizer."""
    kernels: "array[float]" = field(default_factory=lambda: array("d"))
    calls: "array[float]" = field(default_factory=lambda: array("d"))
    """Begin and end of operations on the CPU, which are the computation where no device has any."""
    communication: dict[tuple[str, bool], "array[float]"] = field(default_factory=dict)
    cpu_communication: dict[tuple[str, bool], "array[float]"] = field(default_factory=dict)
    mutual: dict[str, "array[float]"] = field(default_factory=dict)
    cpu_mutual: dict[str, "array[float]"] = field(default_factory=dict)

    def add(self, event: Any) -> None:
        """Takes in one event."""
        self.count += 1
        if self.count > self.most:
            raise InputError([EVENTS.problem(self.file, hint="Profile less.")])
        if not isinstance(event, dict) or event.get("ph") != "X":
            return
        name, category = event.get("name"), event.get("cat")
        begin, length = _to_time(event.get("ts")), _to_time(event.get("dur", 0))
        if not isinstance(name, str) or not isinstance(category, str) or begin is None or length is None:
            return
        span = (begin, begin + max(length, 0.0))
        category = category.lower()
        if category in KERNEL_CATEGORIES:
            self._add_kernel(name, span, event)
        elif not (category in STEP_CATEGORIES and self._add_mark(name, span)):
            self._add_call(name, span, category)

    def _add_mark(self, name: str, span: tuple[float, float]) -> bool:
        """Takes in what marks a step, or a part of one; returns whether it is such a mark."""
        if match := STEP_NAME.fullmatch(name):
            self.steps.append(TraceStep(int(match[1]), *span))
        elif name.startswith(LOADER_NAME):
            self.loading.extend(span)
        elif name.startswith(OPTIMIZER_NAME):
            self.updates.append(span[1])
        else:
            return False
        return True

    def _add_call(self, name: str, span: tuple[float, float], category: str) -> None:
        if name.startswith(COMMUNICATION_CALLS):
            self.cpu_communication.setdefault(("", False), array("d")).extend(span)
            if MUTUAL.search(name):
                self.cpu_mutual.setdefault("", array("d")).extend((*span, math.nan))
        elif category in CALL_CATEGORIES and not name.startswith(LAUNCH_CALLS):
            self.calls.extend(span)

    def _add_kernel(self, name: str, span: tuple[float, float], event: dict[str, Any]) -> None:
        if not name.lower().startswith(COMMUNICATION_KERNELS):
            self.kernels.extend(span)
            return
        raw = event.get("args")
        details = raw if isinstance(raw, dict) else {}
        group = str(details.get("Process Group Name", ""))
        is_transfer = details.get("Collective name") in TRANSFERS
        self.communication.setdefault((group, is_transfer), array("d")).extend(span)
        if MUTUAL.search(name) or MUTUAL.search(str(details.get("Collective name", ""))):
            number = _to_time(details.get("Seq"))
            self.mutual.setdefault(group, array("d")).extend((*span, math.nan if number is None else number))

    def _steps_of_updates(self) -> list[TraceStep]:
        """Returns the steps of a program that marks none: from the end of an optimizer's step to that of the next."""
        return [TraceStep(number, *span) for number, span in enumerate(pairwise(sorted(self.updates)))]

    def _mutual(self, *, on_device: bool) -> dict[str, "array[float]"]:
        return self.mutual if on_device else self.cpu_mutual

    def finish(self, about: dict[str, Any]) -> ProfilerTrace:
        """Returns the trace."""
        on_device = bool(self.kernels or self.communication)
        communication = self.communication if on_device else self.cpu_communication
        information = about.get("distributedInfo")
        info = information if isinstance(information, dict) else {}
        rank, size = info.get("rank"), info.get("world_size")
        base = about.get("baseTimeNanoseconds", 0)
        self.steps = self.steps or self._steps_of_updates()
        if len(self.steps) > MAX_STEPS:
            found = f"{len(self.steps)} steps"
            raise InputError([Problem(self.file, 0, "", found, f"at most {MAX_STEPS}", "Profile fewer.")])
        return ProfilerTrace(
            rank if type(rank) is int and rank >= 0 else None,
            size if type(size) is int and 0 < size < 10**7 else 0,
            _read_groups(info.get("pg_config")),
            tuple(sorted(self.steps, key=lambda step: step.begin)),
            _to_spans(self.loading),
            _to_spans(self.kernels if on_device else self.calls),
            {key: _to_spans(spans) for key, spans in sorted(communication.items())},
            {key: _to_spans(spans, 3) for key, spans in sorted(self._mutual(on_device=on_device).items())},
            (_to_time(base) or 0.0) / 1e9,
        )


def _to_time(value: object) -> float | None:
    """Returns a number as a float; None for anything else, also for what is larger than any time."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e19:
        return None
    return float(value)


def _to_spans(times: "array[float]", columns: int = 2) -> F64:
    """Returns [operation, (begin, end, ...)] of successive numbers, so many for each operation."""
    return np.array(times, np.float64).reshape(-1, columns)


def _read_groups(config: object) -> tuple[TraceGroup, ...]:
    """Returns the groups whose members the trace lists; long lists may be shortened, which makes them unknown."""
    found = []
    for one in config if isinstance(config, list) else ():
        if not isinstance(one, dict):
            continue
        ranks, size = one.get("ranks"), one.get("pg_size")
        if isinstance(ranks, list) and all(type(rank) is int for rank in ranks) and size in (None, len(ranks)):
            description = one.get("pg_desc", "default_pg" if str(one.get("pg_name")) == "0" else "")
            found.append(TraceGroup(str(one.get("pg_name", "")), str(description), tuple(ranks)))
    return tuple(found)


def covered_time(spans: F64, edges: F64) -> F64:
    """Returns [edge - 1] the time that spans cover, alone or together, between one edge and the next.

    Args:
        spans: [span, (begin, end)].
        edges: [edge] times in order.
    """
    if not len(spans):
        return np.zeros(max(len(edges) - 1, 0))
    order = np.argsort(spans[:, 0], kind="stable")
    begin, end = spans[order, 0], np.maximum.accumulate(spans[order, 1])
    # A span that begins before all earlier ones are over only adds what is behind their end.
    start = np.maximum(begin, np.concatenate(([-np.inf], end[:-1])))
    length = np.maximum(end - start, 0.0)
    at = np.searchsorted(start, edges, side="right")
    total = np.concatenate(([0.0], np.cumsum(length)))
    last = np.maximum(at - 1, 0)
    inside = np.clip(edges - start[last], 0.0, length[last])
    covered = np.where(at > 0, total[last] + inside, 0.0)
    return np.diff(covered)
