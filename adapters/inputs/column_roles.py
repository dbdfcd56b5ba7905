"""Takes columns of a wide table by the words of their names, where neither the catalogue nor a mapping file has them.

A column that is taken has the name of its signal from here on, so that the table is read as one with proper names.
Units that a name does not state are decided by the size of the values, where only one unit fits.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.inputs.file_origin import find_server, join_notes
from skewscope.adapters.inputs.nvidia_smi import ONLY_GPU
from skewscope.adapters.inputs.recording import Input, Recording
from skewscope.adapters.inputs.table_layout import LABEL_COLUMNS, TableLayout, TakenColumn
from skewscope.adapters.inputs.training_steps import find_job
from skewscope.adapters.mapping.column_names import (
    GPU_INDEX,
    WHOLE,
    ColumnName,
    convert_unit,
    find_label,
    find_signal,
    is_epoch,
    is_needless,
    mapping_line,
    split_name,
)
from skewscope.adapters.mapping.entities import DEVICE_LABELS, GPU_ID_LABELS, GPU_LABELS, NODE_LABELS
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.engine.model.arrays import F64
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Signal
from skewscope.kb.problems import InputError, Problem, join_names

ROWS_OF_SAMPLE = 10_000
MIN_EPOCH = 1e8
"""Seconds since 1970; smaller epochs are those of a training."""
MAX_NAMED = 8
SIZES: Mapping[str, tuple[tuple[str, float, float], ...]] = {
    "MHz": (("GHz", 0.05, 20.0), ("MHz", 50.0, 2e4), ("Hz", 5e7, 2e10)),
    "W": (("W", 5.0, 2e3), ("mW", 5e3, 2e6)),
    "Cel": (("Cel", 15.0, 120.0),),
    "MiBy": (("By", 1e9, 1e13),),
    "%": (("%", 1.5, 100.5),),
    "1": (("%", 1.5, 100.5),),
}
"""By unit of the signal: units that scripts write, with the least and the most that the largest value can be."""
PRESENT = {
    "gpu": frozenset(GPU_LABELS),
    "node": frozenset(("node", *NODE_LABELS)),
    "rank": frozenset(("rank", "member")),
}
"""Columns in place of which none is taken as a label."""


GPU_PREFIX = f"gpu{ONLY_GPU}_"
"""Before a column's name, it says that the column is of that GPU."""
GPU_COLUMNS = frozenset((*GPU_LABELS, *GPU_ID_LABELS))
"""Columns that say which GPU a row is of."""


@dataclass(frozen=True)
class ColumnSamples:
    """What is known of the cells of a table, by its first rows."""

    is_number: Callable[[str], bool]
    numbers: Callable[[str], F64]
    """[row] finite numbers of a column."""
    texts: Callable[[str], list[str]]


@dataclass(frozen=True)
class TableOrigin:
    """Where a table is from, and which names are known beside the words of its columns."""

    file: str
    labels: Mapping[str, str]
    """Labels of the whole input."""
    names: MetricResolver


@dataclass
class ColumnRoles:
    """The columns of one table: taken as signals or labels, or left out with a reason."""

    taken: dict[str, TakenColumn] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    unclear: list[str] = field(default_factory=list)
    """Why columns are not taken that may be signals, the line of a mapping file included."""
    known: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Signals of the columns whose names are known."""

    def describe(self, layout: TableLayout, place: str) -> str:
        """Returns what is assumed of the table; '' where nothing is."""
        pairs = [
            f"{name} = {one.signal}{_in_unit(one.unit, '' if split_name(name).unit else ' by its size')}"
            for name, one in sorted(self.taken.items())
        ]
        pairs += [f"{name} = {label}" for name, label in sorted(self.labels.items())]
        pairs += [f"{layout.time} = time{_in_unit(layout.time_unit)}"] if layout.time_unit and pairs else []
        head = f"columns taken by their names: {join_names(pairs, MAX_NAMED)}; --mapping FILE says otherwise"
        more = f"and {len(self.unclear) - MAX_NAMED} more columns" if len(self.unclear) > MAX_NAMED else ""
        return join_notes(head if pairs else "", place, *sorted(self.unclear)[:MAX_NAMED], more)


def _in_unit(unit: str, basis: str = "") -> str:
    return f" ({unit}{basis})" if unit else ""


def is_training_epoch(name: str, samples: ColumnSamples) -> bool:
    """Returns whether a column of times is called an epoch, and holds the small numbers of a training."""
    return is_epoch(name) and samples.is_number(name) and samples.numbers(name).max(initial=0.0) < MIN_EPOCH


def find_origin(source: Input, recording: Recording) -> TableOrigin:
    """Returns where the table of an input is from."""
    names = MetricResolver(catalogue(), recording.topology, recording.mapping)
    return TableOrigin(recording.display_path(source.path), dict(source.labels), names)


def assign_roles(
    layout: TableLayout, names: Sequence[str], samples: ColumnSamples, origin: TableOrigin
) -> tuple[TableLayout, str, "OnlyGpuCheck | None"]:
    """Returns the layout of a wide table with the columns that are taken by their names, and what is assumed of it.

    The third value checks that its rows are of one GPU, where it names none.

    Args:
        layout: the columns by the names that are known.
        names: all columns.
        samples: the cells of its first rows.
        origin: the file, and the names that are known.
    """
    signals = {name: origin.names.find_signals(name) for name in layout.metrics}
    roles = ColumnRoles(known={name: some for name, some in signals.items() if some})
    rest = [name for name in names if name != layout.time and name not in roles.known]
    _take_labels(roles, rest, samples, origin)
    has_gpu = bool("gpu" in roles.labels.values() or GPU_COLUMNS & {*layout.labels, *origin.labels})
    metrics = [name for name in layout.metrics if name not in roles.known and name not in roles.labels]
    place = _missing_labels({*layout.labels, *roles.labels.values(), *origin.labels}, origin)
    _take_signals(roles, metrics, samples, place)
    is_alone = all(map(origin.names.is_mapped, roles.known)) and not origin.names.read_labels & {*names}
    if not is_alone and not has_gpu:
        _drop_unplaced(roles)
    if not roles.taken and not roles.known:
        roles.unclear += _describe_unnamed(metrics, place)
    if not any(find_entity(one.signal) == "gpu" for one in roles.taken.values()):
        roles.labels = {name: label for name, label in roles.labels.items() if name not in DEVICE_LABELS}
    found, assumed = _place_columns(layout, names, roles, origin)
    names_gpu = any("gpu" in one.labels for one in found.taken.values())
    check = OnlyGpuCheck(origin.file) if names_gpu and is_alone else None
    return found, roles.describe(found, assumed), check


def _missing_labels(own: set[str], origin: TableOrigin) -> Mapping[str, Mapping[str, str]]:
    """Returns the labels that a table with labels `own` does not have, by the catalogue's word for what they name."""
    return {
        **({} if GPU_COLUMNS & own else {"gpu": {"gpu": ONLY_GPU}}),
        **({} if "group" in own else {"group": {"group": find_job(origin.labels, origin.file)}}),
    }


def _drop_unplaced(roles: ColumnRoles) -> None:
    """Leaves out columns of an unnamed GPU beside those of the catalogue, whose rows may be of anything."""
    some = [name for name, one in roles.taken.items() if find_entity(one.signal) == "gpu" and not one.labels]
    for name in some:
        roles.unclear.append(f"{name} is not taken for {roles.taken.pop(name).signal}: no column names the GPU")


def _describe_unnamed(names: Iterable[str], place: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Returns what to do with columns that would be of a GPU if a word said so."""
    found = ((name, find_signal(words)) for name in names if not (words := split_name(name)).is_gpu)
    return [
        f"{name} may be {signal}, but no word says GPU: if it is of one, call the column {GPU_PREFIX}{name}, or take "
        f"it with {mapping_line(name, signal, catalogue().signals[signal].unit, place['gpu'])} in a mapping file"
        for name, signal in found
        if signal and "gpu" in place and find_entity(signal) == "gpu"
    ]


def find_entity(signal: str) -> str:
    """Returns the catalogue's word for what a signal measures."""
    return catalogue().signals[signal].entity


def _take_labels(roles: ColumnRoles, names: Iterable[str], samples: ColumnSamples, origin: TableOrigin) -> None:
    names = list(names)
    # Beside columns of the catalogue, a device may be a port.
    own = LABEL_COLUMNS if roles.known else LABEL_COLUMNS - frozenset(DEVICE_LABELS)
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        label = "" if name in own or name in origin.names.read_labels else find_label(split_name(name))
        if label and not PRESENT[label] & {*names, *origin.labels} and _holds_labels(label, name, samples):
            found[label].append(name)
    for label, some in found.items():
        if len(some) == 1:
            roles.labels[some[0]] = label
        else:
            roles.unclear.append(f"{join_names(sorted(some), 3)} may all be the label {label}: none is taken")


def _holds_labels(label: str, name: str, samples: ColumnSamples) -> bool:
    """Returns whether the cells of a column may be values of a label: indices, or names of hosts."""
    texts = samples.texts(name)
    pattern = GPU_INDEX if label == "gpu" else WHOLE
    return bool(texts) and (
        all(pattern.fullmatch(text.strip()) for text in texts) if label != "node" or samples.is_number(name) else True
    )


def _take_signals(
    roles: ColumnRoles, names: Iterable[str], samples: ColumnSamples, place: Mapping[str, Mapping[str, str]]
) -> None:
    found: dict[tuple[str, str], list[tuple[str, ColumnName]]] = defaultdict(list)
    has_gpu = "gpu" not in place
    known = frozenset[str]().union(*roles.known.values())
    for name in names:
        words = split_name(name)
        signal = find_signal(words)
        # Without a column of GPUs, a temperature may be of anything.
        if (
            signal
            and (words.is_gpu or has_gpu or find_entity(signal) != "gpu")
            and signal not in known
            and not (words.gpu and has_gpu)
        ):
            found[signal, words.gpu].append((name, words))
    for (id_, _), some in found.items():
        if len(some) == 1:
            _take_signal(roles, some[0], catalogue().signals[id_], samples, place.get(find_entity(id_), {}))
        else:
            shown = join_names(sorted(name for name, _ in some), 3)
            roles.unclear.append(f"{shown} may all be {id_}: none is taken, a mapping file decides")


def _take_signal(
    roles: ColumnRoles,
    column: tuple[str, ColumnName],
    signal: Signal,
    samples: ColumnSamples,
    place: Mapping[str, str],
) -> None:
    """Takes a column for a signal where its unit is known, or leaves it out with the reason.

    Args:
        roles: receives it.
        column: its name, and the words of it.
        signal: what it means.
        samples: its cells.
        place: labels that the table does not have.
    """
    name, words = column
    labels = {"gpu": words.gpu} if words.gpu else {}
    unit = words.unit or find_unit(signal, samples.numbers(name))
    scale = 1.0 if _is_count(signal) and not words.unit else convert_unit(unit, signal.unit)
    if scale is not None:
        roles.taken[name] = TakenColumn(signal.id, signal.metric, unit, scale, labels)
    elif words.unit:
        roles.unclear.append(f"{name} is not taken for {signal.id}, which is in {signal.unit}")
    else:
        line = mapping_line(name, signal.id, signal.unit, labels or place)
        roles.unclear.append(f"{name} has no unit: in a mapping file, a line such as {line} takes it")


def _is_count(signal: Signal) -> bool:
    return signal.unit.startswith("{") and not signal.unit.endswith("/s")


def find_unit(signal: Signal, values: F64) -> str:
    """Returns the only unit that fits the size of the values, '' where several may or none does."""
    most = float(np.abs(values).max(initial=0.0))
    fitting = [unit for unit, least, limit in SIZES.get(signal.unit, ()) if least < most <= limit]
    return fitting[0] if len(fitting) == 1 else ""


def _place_columns(
    layout: TableLayout, names: Sequence[str], roles: ColumnRoles, origin: TableOrigin
) -> tuple[TableLayout, str]:
    """Returns the layout with labels for what the columns are of, and which of them are assumed."""
    # In a table that a script wrote, a loss or a limit is no name to look for.
    needless = set(filter(is_needless, layout.metrics)) if roles.taken else set()
    left_out = (needless - roles.taken.keys() - roles.known.keys()) | roles.labels.keys()
    metrics = tuple(name for name in layout.metrics if name not in left_out)
    labels = tuple(name for name in names if name in layout.labels or name in roles.labels)
    own = {*labels, *roles.labels.values(), *origin.labels}
    missing = _missing_labels(own, origin)
    constants: dict[str, Mapping[str, str]] = {}
    notes = []
    kinds = {find_entity(one.signal) for one in roles.taken.values() if not one.labels}
    if "gpu" in kinds and "gpu" in missing:
        constants["gpu"] = missing["gpu"]
        notes.append(f"no column of the GPU: taken for GPU {ONLY_GPU}")
    if {"group", "rank"} & kinds and "group" in missing:
        constants["group"] = constants["rank"] = missing["group"]
        notes.append(f"nothing in it names its job: {constants['group']['group']!r}, by the file's name, is taken")
    if "engine" in kinds and not {"replica", "group", "pod", *PRESENT["node"]} & own:
        constants["engine"], unnamed = find_server(origin.labels, origin.file)
        notes.append(unnamed)
    taken = {
        name: replace(one, labels=one.labels or constants.get(find_entity(one.signal), {}))
        for name, one in roles.taken.items()
    }
    whole = replace(layout, metrics=metrics, labels=labels, renames=dict(roles.labels), taken=taken)
    return whole, join_notes(*notes)


@dataclass
class OnlyGpuCheck:
    """Checks that a table without a column of the GPU has no two rows of one time on a node."""

    file: str
    times: dict[tuple[str | None, ...], list[F64]] = field(default_factory=lambda: defaultdict(list))

    def add(self, time: F64, node_of: NDArray[np.intp], nodes: Sequence[tuple[str | None, ...]]) -> None:
        """Adds rows: their times, and the number of the node of each."""
        for number, node in enumerate(nodes):
            self.times[node].append(time[node_of == number])

    def finish(self) -> None:
        """Raises InputError where two rows are of one time."""
        for some in self.times.values():
            whole = np.concatenate(some)
            if len(np.unique(whole)) < len(whole):
                found = "two rows of one time, and no column that says which GPU a row is of"
                hint = "Add a column gpu with the index; for one GPU, give the input the label gpu."
                raise InputError([Problem(self.file, 0, "", found, "the GPU of each row", hint)])
