"""Two recordings side by side: the level of each judged signal, and how much it varies within each of them."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.recording import RECORDING_FILE, load, open_recording
from skewscope.adapters.results.result_finding import LEAST
from skewscope.adapters.results.run_comparison import ALIKE, BETTER, WORSE, QuantityChange
from skewscope.adapters.runtime.replay import replay
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.arrays import F64
from skewscope.engine.model.finding import PAST, Finding
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.locality import Entity
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Judgement, Signal

PARTS = 8
"""Parts of the time of a recording, which are its repeats: their spread is how much a level varies."""
MIN_PARTS = 3
UNJUDGED_ROLES = frozenset(("event", "identity", "workload", "none"))

Level = tuple[str, str, str, str]
"""Signal, kind of the entity, entity and selector of what has a level."""


@dataclass(frozen=True, slots=True)
class RecordingChanges:
    """What is different between two recordings."""

    changes: tuple[QuantityChange, ...]
    findings: tuple[Finding, ...]
    """What is worse, as the causes of symptoms are ranked by it."""
    delivered: tuple[str, ...]
    """Ids of the signals that both have."""
    group_kinds: tuple[str, ...]
    incidents: tuple[Incident, ...]
    """Those of the second recording that the first one lacks."""


@dataclass(frozen=True, slots=True)
class _RecordingSide:
    """One of two recordings."""

    levels: Mapping[Level, F64]
    """[part] The values of each level."""
    group_kinds: tuple[str, ...]
    nodes: frozenset[str]
    incidents: tuple[Incident, ...]


def compare_recordings(
    before: Path, after: Path, progress: Callable[[str, float], None] | None = None
) -> RecordingChanges:
    """Returns what is different between two recordings, or files of telemetry.

    Raises:
        InputError: one of them cannot be read.
    """
    first, second = (_read_side(path, progress) for path in (before, after))
    old, new = _pool_places(first.levels, second.levels), _pool_places(second.levels, first.levels)
    pairs = [(level, _judge(level, old[level], new[level])) for level in sorted(old.keys() & new.keys())]
    findings = [_finding(level, change) for level, change in pairs if change.verdict == WORSE]
    delivered = tuple(sorted({level[0] for level, _ in pairs}))
    changes = tuple(change for _, change in pairs)
    return RecordingChanges(changes, tuple(findings), delivered, second.group_kinds, _find_new(first, second))


def _find_new(before: _RecordingSide, after: _RecordingSide) -> tuple[Incident, ...]:
    """Returns the incidents that are new: at their place where both are of the same nodes, else of their condition."""
    is_same = bool(before.nodes & after.nodes)
    known = {(each.condition, each.name if is_same else "") for each in before.incidents}
    roots = (each for each in after.incidents if each.explained_by is None)
    return tuple(each for each in roots if (each.condition, each.name if is_same else "") not in known)


def _read_side(path: Path, progress: Callable[[str, float], None] | None) -> _RecordingSide:
    """Returns the levels and the incidents of a recording, or of files of telemetry."""
    is_described = (path / RECORDING_FILE).is_file()
    recording = open_recording(path) if is_described else draft_recording([path], None, None, progress).recording
    data = load(recording, catalogue(), progress)
    block = data.block
    order = np.lexsort((block.time, block.series))
    numbers, begins = np.unique(block.series[order], return_index=True)
    edges = np.linspace(data.start, data.end, PARTS + 1)
    series = {
        data.table.keys[number]: (block.time[rows], block.value[rows])
        for number, rows in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True)
    }
    kinds = tuple(sorted({group.kind for group in recording.topology.groups}))
    nodes = frozenset(node.name for node in recording.topology.nodes)
    return _RecordingSide(dict(_levels(series, edges)), kinds, nodes, replay(recording, progress=progress).incidents)


def _levels(series: Mapping[SeriesKey, tuple[F64, F64]], edges: F64) -> Iterator[tuple[Level, F64]]:
    """Yields [part] the values of each judged signal at each place in the parts of the time that have some."""
    for key, (time, value) in series.items():
        signal = catalogue().signals.get(key.signal)
        if signal is None or not _is_judged(signal):
            continue
        *selectors, last = key.selector.split(",")
        if signal.type == "histogram":
            count = series.get(SeriesKey(key.signal, key.kind, key.entity, ",".join([*selectors, "count"])))
            if last != "sum" or count is None:
                continue
            with np.errstate(divide="ignore", invalid="ignore"):
                values = _growth(time, value, edges) / _growth(*count, edges)
            level = key.signal, key.kind, key.entity, ",".join(selectors)
        else:
            is_counter = signal.type == "counter"
            values = _growth(time, value, edges) / np.diff(edges) if is_counter else _medians(time, value, edges)
            level = key.signal, key.kind, key.entity, key.selector
        if np.isfinite(values).any():
            yield level, values[np.isfinite(values)]


def _is_judged(signal: Signal) -> bool:
    judged = signal.judged
    return judged is not None and judged.bad != "none" and judged.role not in UNJUDGED_ROLES


def _growth(time: F64, value: F64, edges: F64) -> F64:
    """Returns [part] by how much a counter grew in each part of the time; NaN where it has no samples."""
    steps = np.diff(value, prepend=value[:1])
    grown = np.where(steps >= 0, steps, value)
    place = np.clip(np.searchsorted(edges, time, "right") - 1, 0, PARTS - 1)
    sums = np.bincount(place, np.nan_to_num(grown), PARTS)
    return np.where(np.bincount(place, minlength=PARTS) > 0, sums, np.nan)


def _medians(time: F64, value: F64, edges: F64) -> F64:
    """Returns [part] the median of a gauge in each part of the time; NaN where it has no samples."""
    place = np.clip(np.searchsorted(edges, time, "right") - 1, 0, PARTS - 1)
    parts = (value[(place == part) & np.isfinite(value)] for part in range(PARTS))
    return np.array([np.median(values) if len(values) else np.nan for values in parts])


def _pool_places(own: Mapping[Level, F64], other: Mapping[Level, F64]) -> dict[Level, F64]:
    """Returns levels by place; of a signal whose places the other side lacks, one level of all places together."""
    strange = {level[0] for level in own.keys() ^ other.keys()}
    found = {level: values for level, values in own.items() if level[0] not in strange}
    for signal in strange:
        same = {level: values for level, values in own.items() if level[0] == signal}
        if same:
            kind = next(iter(same))[1]
            found[signal, kind, "", ""] = np.array([float(np.median(values)) for values in same.values()])
    return found


def _judge(level: Level, before: F64, after: F64) -> QuantityChange:
    """Returns the change of a level: one beyond its least, to where no part of the first recording was."""
    signal = catalogue().signals[level[0]]
    judged = signal.judged
    assert judged is not None
    old, new = float(np.median(before)), float(np.median(after))
    is_apart = not before.min() <= new <= before.max()
    enough = min(len(before), len(after)) >= MIN_PARTS or level[2] == ""
    is_large = abs(new - old) >= judged.floor and _ratio_size(old, new) > 1 + (judged.least or LEAST)
    verdict = _direction(judged, old, new) if is_apart and enough and is_large else ALIKE
    unit = signal.unit + ("/s" if signal.type == "counter" else "")
    place = " ".join(filter(None, (level[1], level[2] or "(all)", level[3])))
    return QuantityChange(level[0], signal.name, unit, place, old, new, 1 + (judged.least or LEAST), verdict)


def _ratio_size(old: float, new: float) -> float:
    """Returns how many times one of two values the other is; infinite where they differ in sign, or one is zero."""
    if old == new:
        return 1.0
    return max(old / new, new / old) if old * new > 0 else math.inf


def _direction(judged: Judgement, old: float, new: float) -> str:
    """Returns whether a change is for the worse."""
    if judged.bad == "both":
        return WORSE
    is_up = judged.bad in ("up", "begins")
    return WORSE if (new > old) == is_up else BETTER


def _finding(level: Level, change: QuantityChange) -> Finding:
    signal = catalogue().signals[level[0]]
    is_new = signal.judged is not None and signal.judged.bad == "begins" and not change.before
    direction = "begins" if is_new else "up" if change.after > change.before else "down"
    return Finding(signal, Entity(level[1], level[2]), PAST, direction, 0.0, change.after, change.before)
