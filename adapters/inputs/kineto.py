"""Inputs of kind `kineto`: the trace that PyTorch's profiler wrote for one rank (Chrome trace JSON).

Of each step it gives how long the rank worked, how long it communicated, and how long it only waited in communication.
A diagnosis looks once a second; shorter steps are laid one second apart.
"""

import re
from collections.abc import Iterator, Mapping
from io import BufferedReader
from itertools import pairwise
from pathlib import PurePath

import numpy as np

from skewscope.adapters.formats.kineto import ProfilerTrace, TraceGroup, covered_time, is_profiler_trace, read_trace
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, artefact_reader
from skewscope.adapters.inputs.process_groups import RUN_LABEL, label_run, rank_labels
from skewscope.adapters.inputs.training_steps import STEP_DURATION
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

MAX_TRACE_BYTES = 16 << 30
RANK_IN_NAME = re.compile(r"rank[-_ ]?(\d{1,7})", re.IGNORECASE | re.ASCII)
STEP_SPACING_S = 1.0
"""Least seconds between two steps: a diagnosis takes one value a second of each series."""
DATA_TIME = "skewscope_step_data_time"
OF_GROUP = frozenset((STEP_DURATION, DATA_TIME))
"""What is said of the group: one rank says it."""
MIN_STEPS = 5
"""Steps after which a member that is slower than its peers is told."""


def recognise(head: bytes, name: str) -> bool:  # noqa: ARG001 - traces have any name
    """Returns whether a file is a trace of PyTorch's profiler, by its first bytes."""
    return is_profiler_trace(head)


def read_series(file: BufferedReader, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of a trace.

    Raises:
        InputError: the file is no trace, is damaged, or does not say its rank or its steps.
    """
    return label_run(list_series(read_steps(file, name), name, labels), labels.get(RUN_LABEL, ""))


def read_steps(file: BufferedReader, name: str) -> ProfilerTrace:
    """Returns a trace that has steps.

    Raises:
        InputError: the file is no trace, is damaged, or does not say its steps.
    """
    trace = read_trace(file, name)
    if not trace.steps:
        hint = "Call `step()` of the profiler after each step of the program."
        expected = "events named ProfilerStep#N, or two steps of an optimizer"
        raise InputError([Problem(name, 0, "traceEvents", "no step", expected, hint)])
    return trace


def list_series(
    trace: ProfilerTrace, name: str, labels: Mapping[str, str], *, leads: bool = False
) -> list[LabelledSeries]:
    """Returns the series of a trace with steps.

    Args:
        trace: the trace.
        name: its file, for messages.
        labels: those of the input.
        leads: whether the duration of a step, which is the group's, is taken of this rank even if it is not the first.

    Raises:
        InputError: it does not say its rank.
    """
    rank = find_rank(trace, name, labels)
    groups, world = find_groups(trace, rank)
    windows = step_windows(trace)
    times = step_times(trace, windows)
    sole = (
        [] if _said_rank(trace, name, labels) is not None else ["nothing says its rank: that of a job of one is taken"]
    )
    collector = SeriesCollector(name, "; ".join([*_notes(trace, windows), *sole]))
    place = rank_labels(world.name, world.description, world.ranks, rank)
    for metric, values in _step_values(trace, windows).items():
        if metric not in OF_GROUP:
            _add_all(collector, metric, place, times, values)
        elif leads or place["rank"] == "0":
            _add_all(collector, metric, {"group": place["group"]}, times, values)
    for (used, is_transfer), spans in _spans_by_group(trace, groups, world).items():
        metric = "skewscope_nccl_p2p_time" if is_transfer else "skewscope_nccl_coll_time"
        own = rank_labels(used.name, used.description, used.ranks, rank)
        _add_all(collector, metric, own, times, _mean_lengths(spans, windows))
    return collector.series()


def find_groups(trace: ProfilerTrace, rank: int) -> tuple[dict[str, TraceGroup], TraceGroup]:
    """Returns the groups of a rank by name, and the largest, or that of all ranks where the trace lists none."""
    groups = {group.name: group for group in trace.groups if rank in group.ranks}
    return groups, max(groups.values(), key=lambda group: len(group.ranks), default=_whole_job(trace, rank))


def find_rank(trace: ProfilerTrace, name: str, labels: Mapping[str, str]) -> int:
    """Returns the rank in the job: as the input's labels say, the trace, or the name of the file or its folder.

    A trace without any communication is of a job of one.

    Raises:
        InputError: nothing says it.
    """
    rank = _said_rank(trace, name, labels)
    if rank is None and (trace.communication or trace.groups):
        hint = "Give the input the label `global_rank`, or name the file after its rank, as in rank3.json."
        raise InputError([Problem(name, 0, "distributedInfo.rank", "no rank", "the rank of the process", hint)])
    return rank or 0


def _said_rank(trace: ProfilerTrace, name: str, labels: Mapping[str, str]) -> int | None:
    given = labels.get("global_rank", "")
    if given.isdecimal() and len(given) < 8:
        return int(given)
    if trace.rank is not None:
        return trace.rank
    found = (RANK_IN_NAME.search(part) for part in reversed(PurePath(name).parts[-2:]))
    return next((int(match[1]) for match in found if match), None)


def _spans_by_group(
    trace: ProfilerTrace, groups: Mapping[str, TraceGroup], world: TraceGroup
) -> dict[tuple[TraceGroup, bool], F64]:
    """Returns [operation, (begin, end)] by group, and whether they are transfers between two ranks.

    An operation without the name of its group is the only group's; where there are several, it is left out.
    """
    found: dict[tuple[TraceGroup, bool], F64] = {}
    for (name, is_transfer), spans in trace.communication.items():
        group = groups.get(name) or (world if not name and len(groups) < 2 else None)
        if group is not None:
            before = found.get((group, is_transfer), np.empty((0, 2)))
            found[group, is_transfer] = np.concatenate((before, spans))
    return found


def _whole_job(trace: ProfilerTrace, rank: int) -> TraceGroup:
    """Returns the group of all ranks where a trace lists no groups."""
    return TraceGroup("0", "default_pg", range(max(trace.world_size, rank + 1)))


def step_windows(trace: ProfilerTrace) -> F64:
    """Returns [step, (begin, end)] microseconds; a step lasts until the next one begins."""
    following = [
        after.begin if after.number == step.number + 1 else min(step.end, after.begin)
        for step, after in pairwise(trace.steps)
    ]
    begins = [step.begin for step in trace.steps]
    return np.column_stack((begins, [*following, trace.steps[-1].end]))


def step_times(trace: ProfilerTrace, windows: F64) -> F64:
    """Returns [step] seconds: when it ended, or one second behind the one before."""
    ends = np.array([trace.seconds(end) for end in windows[:, 1]])
    if _median_length(windows) >= STEP_SPACING_S:
        return ends
    begin = trace.seconds(float(windows[0, 0]))
    return np.array([begin + STEP_SPACING_S * n for n in range(1, len(windows) + 1)])


def _median_length(windows: F64) -> float:
    """Returns the median length of a step, in seconds."""
    return float(np.median(windows[:, 1] - windows[:, 0])) / 1e6


def _notes(trace: ProfilerTrace, windows: F64) -> Iterator[str]:
    """Yields what is assumed of the times of the steps."""
    count, length = len(windows), _median_length(windows)
    if length < STEP_SPACING_S:
        which = f"{count} steps of {1e3 * length:.3g} ms are" if count > 1 else f"one step of {1e3 * length:.3g} ms is"
        yield f"{which} laid one second apart, the pace of a diagnosis"
    if count < MIN_STEPS:
        yield f"fewer than {MIN_STEPS} steps, of which no slow rank is told"
    if not trace.has_clock:
        yield "its times do not count from 1970"


def _step_values(trace: ProfilerTrace, windows: F64) -> dict[str, F64]:
    """Returns [step] seconds by metric."""
    edges = windows.reshape(-1)
    communication = np.concatenate([np.empty((0, 2)), *trace.communication.values()])
    computes = covered_time(trace.computation, edges)[::2]
    communicates = covered_time(communication, edges)[::2]
    either = covered_time(np.concatenate((trace.computation, communication)), edges)[::2]
    duration, exposed = windows[:, 1] - windows[:, 0], either - computes
    found = {STEP_DURATION: duration / 1e6}
    if len(trace.loading):
        found[DATA_TIME] = covered_time(trace.loading, edges)[::2] / 1e6
    if len(communication):
        found["skewscope_step_comm_time"] = communicates / 1e6
        found["skewscope_step_wait_time"] = exposed / 1e6
        # What is not waiting is the rank's own: computing, launching, loading.
        found["skewscope_step_compute_time"] = (duration - exposed) / 1e6
    return found


def _mean_lengths(spans: F64, windows: F64) -> F64:
    """Returns [step] the mean microseconds of the operations that end in it; NaN where none does."""
    begin, end = spans.T
    step = np.searchsorted(windows[:, 0], end) - 1
    inside = (step >= 0) & (end <= windows[np.maximum(step, 0), 1])
    counts = np.bincount(step[inside], minlength=len(windows))
    sums = np.bincount(step[inside], weights=(end - begin)[inside], minlength=len(windows))
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _add_all(collector: SeriesCollector, metric: str, labels: Mapping[str, str], times: F64, values: F64) -> None:
    """Adds the values that are known."""
    for time, value in zip(times.tolist(), values.tolist(), strict=True):
        if value == value:  # noqa: PLR0124 - NaN is not equal to itself
            collector.add(metric, labels, time, value)


READER = artefact_reader(
    "PyTorch profiler trace (Kineto)",
    read_series,
    recognise,
    max_bytes=MAX_TRACE_BYTES,
    set_kind="kineto-ranks",
    runs_apart=True,
)
