"""Inputs of kind `nccl-flight-recorder`: a folder with the dumps of PyTorch's flight recorder, one file for each rank.

The dumps give the newest operations of each rank, and how many collectives it began and completed in each group. A
dump does not say when it was written. PyTorch writes it when an operation runs out of its time, so the state is held
until the first pending operation of the set ran out of its own, for five minutes at most; or until the first file was
written, where that was earlier, as it is when somebody asks for the dumps of a job that works.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.flight_recorder import (
    FlightRecorderDump,
    GroupStatus,
    ProcessGroup,
    RecordedOperation,
    is_flight_recorder_dump,
    parse_dump,
)
from skewscope.adapters.formats.plain_pickle import MAX_BYTES
from skewscope.adapters.inputs.input_warnings import problem_text
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, samples_to_block
from skewscope.adapters.inputs.process_groups import RUN_LABEL, label_run, rank_labels
from skewscope.adapters.inputs.reader import InputReader
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.inputs.written_times import first_write_time, written_label
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import Block
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem, join_names

RANK_IN_NAME = re.compile(r"(\d{1,7})(?:\.(?:json|pkl|pickle|gz|zst))*$", re.ASCII)
COUNTED_NAME = re.compile(r"\d{1,18}", re.ASCII)
HEAD_BYTES = 1 << 16
MAX_PROBLEMS = 20
HOLD_STEP_S = 1.0
"""Seconds between two samples of a state that is held."""
MAX_HOLD_S = 300.0
"""Rules look back over no more."""
CLOCK_MARGIN_S = 60.0
"""A file server's clock may be so far behind those of the ranks."""
PENDING, OVER = 1.0, 0.0


def read(source: Input, recording: Recording, registry: SeriesRegistry, names: MetricResolver) -> Block:
    """Returns the samples of all dumps of the folder.

    Raises:
        InputError: all problems of the dumps.
    """
    return samples_to_block(_read_input(source, recording), source, registry, names)


def scan(source: Input, recording: Recording) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yields metric and labels of each series, for the inference of a topology.

    Raises:
        InputError: all problems of the dumps.
    """
    yield from ((one.metric, dict(one.labels)) for one in _read_input(source, recording))


def _read_input(source: Input, recording: Recording) -> list[LabelledSeries]:
    folder = recording.resolve_path(source.path)
    files = [folder / name for name in recording.list_input_files(source)]
    name = recording.display_path(source.path)
    written = written_label(dict(source.labels), name)
    series = read_series(files, name, is_strict=not source.is_found, written=written)
    return label_run(series, dict(source.labels).get(RUN_LABEL, ""))


def recognise(head: bytes, name: str) -> bool:  # noqa: ARG001 - dumps have any name
    """Returns whether a file is a dump of the flight recorder, by its first bytes."""
    return is_flight_recorder_dump(head)


def read_series(
    files: Sequence[Path], name: str, *, is_strict: bool = True, written: float | None = None
) -> list[LabelledSeries]:
    """Returns the series of the dumps of a folder; files of other kinds are left out.

    Args:
        files: files of the folder.
        name: name of the folder, for messages.
        is_strict: whether a dump that cannot be read is an error; otherwise it is left out with a warning.
        written: when the first dump was written, in seconds since 1970; None: as the files say.

    Raises:
        InputError: all problems of the dumps, or no dump can be read.
    """
    dumps: dict[int, FlightRecorderDump] = {}
    paths: list[Path] = []
    problems: list[Problem] = []
    for path in files:
        try:
            if _read_file(path, f"{name}/{path.name}", dumps):
                paths.append(path)
        except InputError as error:
            problems += error.problems
        if len(problems) >= MAX_PROBLEMS and is_strict:
            break
    if not dumps and not problems:
        problems.append(Problem(name, 0, "", "no dump of the flight recorder", "one file for each rank"))
    elif dumps and not any(dump.operations for dump in dumps.values()) and not (problems and is_strict):
        hint = "Was the recorder on? TORCH_FR_BUFFER_SIZE is the number of operations that it keeps."
        raise InputError(
            [Problem(name, 0, "entries", "no operation in any dump", "the newest ones of each rank", hint)]
        )
    if problems and (is_strict or not dumps):
        raise InputError(problems)
    left_out = [f"{PurePath(each.file).name} is left out: {problem_text(each)}" for each in problems[:MAX_PROBLEMS]]
    return DumpSet(name, dumps, tuple(left_out), first_write_time(paths) if written is None else written).series()


def _read_file(path: Path, shown: str, dumps: dict[int, FlightRecorderDump]) -> bool:
    """Adds the dump of a file by its rank; returns False where the file is of another kind."""
    with open_stream(path, MAX_BYTES) as file:
        if not recognise(file.peek(HEAD_BYTES)[:HEAD_BYTES], path.name):
            return False
        data = file.read()
    match = RANK_IN_NAME.search(path.name)
    if match is None:
        hint = "Name the file after its rank, as PyTorch does: nccl_trace_rank_0."
        raise InputError([Problem(shown, 0, "", "a name without a rank", "one that ends in the rank", hint)])
    rank = int(match[1])
    if rank in dumps:
        found = f"a second dump of rank {rank}, beside {PurePath(dumps[rank].file).name}"
        raise InputError([Problem(shown, 0, "", found, "one for each rank", "Keep the dumps of one stop only.")])
    dumps[rank] = parse_dump(data, shown)
    return True


@dataclass
class DumpSet:
    """The dumps of one job, by rank."""

    name: str
    dumps: Mapping[int, FlightRecorderDump]
    left_out: tuple[str, ...] = ()
    """Files that cannot be read, and why."""
    written: float | None = None
    """When the first of the files was written, in seconds since 1970."""

    def series(self) -> list[LabelledSeries]:
        """Returns the series of all ranks: collectives begun, state of the newest, times of those that are over."""
        last, end = self._last_time(), self._end_time()
        collector = SeriesCollector(self.name, "; ".join(self._notes(end - last)))
        hold = np.arange(last, end + HOLD_STEP_S, HOLD_STEP_S)
        waiting = {each.group for each in self._operations() if each.is_pending}
        # The status counts the transfers of a group as well, and only a mutual collective proves who took part.
        mixed = {each.group for each in self._operations() if each.is_transfer}
        one_sided = {each.group for each in self._operations() if not each.is_mutual} | mixed
        numbers = self._group_places()
        for rank, dump in sorted(self.dumps.items()):
            operations: dict[int, list[RecordedOperation]] = {}
            for each in dump.operations:
                operations.setdefault(each.group_number, []).append(each)
            for number, group in sorted(_groups_by_number(dump, numbers.get(_shape(dump), {})).items()):
                if labels := _group_labels(group, rank):
                    own = operations.get(number, [])
                    _add_durations(collector, labels, own)
                    times = hold if group.name in waiting else hold[:1]
                    status = None if group.name in mixed else dump.status.get(number)
                    _add_progress(collector, labels, own, status, times)
                    if group.name not in one_sided:
                        _add_completed(collector, labels, own, status, times)
        return collector.series()

    def _operations(self) -> Iterator[RecordedOperation]:
        for dump in self.dumps.values():
            yield from dump.operations

    def _last_time(self) -> float:
        """Returns the time of the newest operation, seconds since 1970; 0 where there is none."""
        return max((each.created for each in self._operations()), default=0.0)

    def _time_out(self) -> float:
        """Returns the time at which the first pending operation ran out of its time; the last time without one."""
        last = self._last_time()
        limits = [each.created + each.timeout for each in self._operations() if each.is_pending and each.timeout]
        return min(max(min(limits, default=last), last), last + MAX_HOLD_S)

    def _end_time(self) -> float:
        """Returns the time at which the dumps were written: when an operation ran out of its time, or before.

        A file that is older than its newest operation was copied by something that keeps no times.
        """
        last, end = self._last_time(), self._time_out()
        is_possible = self.written is not None and self.written >= last - CLOCK_MARGIN_S
        return min(end, max(self.written or 0.0, last)) if is_possible else end

    def _group_places(self) -> dict[tuple[str, ...], dict[int, int]]:
        """Returns, by the shape of a dump, the place of each group's number among the groups.

        A rank with nothing pending may have a dump without operations, which does not say the number of its groups. All
        ranks make their groups in one order, so a rank with the same kinds of groups has the same numbers.
        """
        found: dict[tuple[str, ...], dict[int, int]] = {}
        for dump in self.dumps.values():
            order = {name: place for place, name in enumerate(_ordered_names(dump))}
            places = found.setdefault(_shape(dump), {})
            for each in dump.operations:
                place = order.get(each.group, -1)
                # Two different places for one number: the order is not the same after all.
                places[each.group_number] = place if places.get(each.group_number, place) == place else -1
        return found

    def _notes(self, hold: float) -> Iterator[str]:
        """Yields what is assumed or missing; `hold` is how long the state is held, in seconds."""
        yield from self.left_out
        unsaid = "a dump does not say when it was written; its state is held for"
        if self._end_time() < self._time_out():
            yield f"{unsaid} {hold:.3g} s, until the first file was written by its time"
        elif hold:
            yield f"{unsaid} {hold:.0f} s, as it is written when a pending operation runs out of its time"
        groups = {group.ranks for dump in self.dumps.values() for group in dump.groups.values()}
        members = {rank for ranks in groups for rank in ranks}
        if missing := sorted(members - set(self.dumps)):
            yield f"no dump of {len(missing)} of {len(members)} ranks: {join_names([str(r) for r in missing])}"
        if newer := sorted({dump.version for dump in self.dumps.values() if dump.is_newer}):
            yield f"version {', '.join(newer)} is newer than those known; read as the newest known one"


def _ordered_names(dump: FlightRecorderDump) -> list[str]:
    """Returns the names of the groups in the order in which they were made: PyTorch counts them."""
    return sorted(dump.groups, key=lambda name: (int(name), "") if COUNTED_NAME.fullmatch(name) else (-1, name))


def _shape(dump: FlightRecorderDump) -> tuple[str, ...]:
    """Returns the descriptions of the groups in order, and the numbers of those with a status."""
    return (*(dump.groups[name].description for name in _ordered_names(dump)), *map(str, sorted(dump.status)))


def _groups_by_number(dump: FlightRecorderDump, places: Mapping[int, int]) -> dict[int, ProcessGroup]:
    """Returns the groups of a rank by their numbers in its process."""
    names = _ordered_names(dump)
    found = {number: dump.groups[names[place]] for number, place in places.items() if place >= 0}
    return found | {each.group_number: group for each in dump.operations if (group := _find_group(dump, each))}


def _find_group(dump: FlightRecorderDump, operation: RecordedOperation) -> ProcessGroup | None:
    """Returns the group of an operation; gloo describes its only group without a name."""
    if found := dump.groups.get(operation.group):
        return found
    nameless = dump.groups.get("")
    return ProcessGroup(operation.group, "", nameless.ranks) if nameless and len(dump.groups) == 1 else None


def _add_progress(
    collector: SeriesCollector,
    labels: Mapping[str, str],
    operations: Sequence[RecordedOperation],
    status: GroupStatus | None,
    hold: F64,
) -> None:
    """Adds how many collectives a rank began in a group, and whether one is pending, also at the times `hold`."""
    collectives = [each for each in operations if not each.is_transfer]
    for each in collectives:
        collector.add("skewscope_nccl_coll_seq", labels, each.created, each.sequence)
        collector.add("skewscope_nccl_op_state", labels, each.created, PENDING if each.is_pending else OVER)
    begun = max([each.sequence for each in collectives] + ([status.enqueued] if status else []), default=-1)
    if begun < 0:
        return
    state = PENDING if any(each.is_pending for each in collectives) else OVER
    for time in hold.tolist():
        collector.add("skewscope_nccl_coll_seq", labels, time, begun)
        collector.add("skewscope_nccl_op_state", labels, time, state)


def _add_completed(
    collector: SeriesCollector,
    labels: Mapping[str, str],
    operations: Sequence[RecordedOperation],
    status: GroupStatus | None,
    hold: F64,
) -> None:
    """Adds how many collectives a rank completed in a group, at the times `hold`."""
    over = [each.sequence for each in operations if not each.is_pending]
    before = [each.sequence - 1 for each in operations if each.is_pending]
    known = max(status.completed if status else -1, max(over, default=-1), min(before, default=-1))
    if known >= 0:
        for time in hold.tolist():
            collector.add("skewscope_nccl_coll_done", labels, time, known)


def _add_durations(
    collector: SeriesCollector, labels: Mapping[str, str], operations: Iterable[RecordedOperation]
) -> None:
    """Adds the times of the operations that are over."""
    for each in operations:
        if each.duration is not None:
            metric = "skewscope_nccl_p2p_time" if each.is_transfer else "skewscope_nccl_coll_time"
            collector.add(metric, labels, each.created + each.duration, 1e6 * each.duration)


def _group_labels(group: ProcessGroup, rank: int) -> dict[str, str]:
    """Returns the labels of a rank in a group; none for a group of one, which waits for no other."""
    if len(group.ranks) < 2:
        return {}
    return rank_labels(group.name, group.description, group.ranks, rank)


READER = InputReader(
    "NCCL flight recorder dump",
    read,
    recognise,
    scan=scan,
    exporter="flight_recorder",
    is_folder=True,
    leaves_others_out=True,
    runs_apart=True,
    written_counts=True,
)
