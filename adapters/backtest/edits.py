"""Telemetry as it might have been: samples of a signal set to a value, or left out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from skewscope.adapters.backtest.track import Segment
from skewscope.engine.ingest.feed import Block, SeriesKey
from skewscope.engine.model.arrays import F64, Index, Mask
from skewscope.engine.model.locality import LocalityIndex
from skewscope.engine.model.topology import Topology
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem, suggest_name

EVERYWHERE = "*"
MAX_NAMED = 5
"""Places that a hint names."""


@dataclass(frozen=True, slots=True)
class SignalEdit:
    """A change of the samples of one signal."""

    signal: str
    value: float | None
    """In the signal's unit, of a counter its growth per second; None leaves the samples out."""
    place: str = ""
    """Name of an entity; '' for the entity that is asked about, EVERYWHERE for all."""

    def __str__(self) -> str:
        where = f"@{self.place}" if self.place else ""
        return f"{self.signal}{where} = {self.value:g}" if self.value is not None else f"without {self.signal}{where}"


def parse_edit(text: str, known: Catalogue, *, has_value: bool) -> SignalEdit:
    """Parses `SIGNAL[@ENTITY]=VALUE`, or `SIGNAL[@ENTITY]` for samples that are left out.

    Raises:
        InputError: there is no such signal, or the value is no number.
    """
    option = "--set" if has_value else "--without"
    subject, equals, number = text.partition("=") if has_value else (text, "", "")
    signal, _, place = subject.strip().partition("@")
    if signal not in known.signals:
        hint = suggest_name(signal, known.signals)
        raise InputError([Problem(option, 0, "", f"no signal {signal!r}", "the id of a signal", hint)])
    if not has_value:
        return SignalEdit(signal, None, place)
    try:
        value = float(number)
    except ValueError:
        value = np.nan
    if not (equals and np.isfinite(value)):
        unit = known.signals[signal].unit
        raise InputError([Problem(option, 0, "", repr(text), f"{signal}=NUMBER, in the unit {unit}")])
    return SignalEdit(signal, value, place)


@dataclass
class SegmentEditor:
    """Applies changes to the segments of one recording, in their order."""

    drop: Mask
    """[series] whether its samples are left out."""
    value: F64
    """[series] the value to set, or the growth per second of a counter; NaN where nothing is set."""
    counter: Mask
    """[series] whether it counts."""
    _first: F64 = field(init=False)
    _begin: F64 = field(init=False)
    """[series] first value of a counter and its time in seconds; NaN before it."""

    def __post_init__(self) -> None:
        self._first, self._begin = np.full((2, len(self.value)), np.nan)

    def edit(self, segment: Segment) -> Segment:
        """Returns the next segment with the changes."""
        block = segment.block
        value = np.where(np.isnan(self.value[block.series]), block.value, self.value[block.series])
        counted = np.flatnonzero(self.counter[block.series] & ~np.isnan(self.value[block.series]))
        if len(counted):
            value[counted] = self._count(block, counted)
        kept = ~self.drop[block.series]
        tick = np.repeat(np.arange(len(segment.ends)), segment.sizes)[kept]
        changed = Block(block.time[kept], block.series[kept], value[kept])
        return replace(segment, sizes=np.bincount(tick, minlength=len(segment.ends)), block=changed)

    def _count(self, block: Block, at: Index) -> F64:
        """Returns [at] what counters would show that grow evenly from their first sample on."""
        series, time = block.series[at], block.time[at]
        new, first = np.unique(series, return_index=True)
        unseen = np.isnan(self._begin[new])
        self._begin[new[unseen]] = time[first[unseen]]
        self._first[new[unseen]] = block.value[at][first[unseen]]
        found: F64 = self._first[series] + self.value[series] * (time - self._begin[series])
        return found


def build_editor(
    edits: Iterable[SignalEdit], keys: Sequence[SeriesKey], known: Catalogue, topology: Topology, here: Sequence[str]
) -> SegmentEditor:
    """Builds the editor of a recording.

    Args:
        edits: what to change.
        keys: the series of the recording, by number.
        known: the catalogue.
        topology: the fleet.
        here: names of the entities that are asked about.

    Raises:
        InputError: a change concerns no series of the recording.
    """
    locality = LocalityIndex(topology)
    editor = SegmentEditor(np.zeros(len(keys), bool), np.full(len(keys), np.nan), np.zeros(len(keys), bool))
    for edit in edits:
        places = [edit.place] if edit.place else list(here)
        nodes = {node for place in places for node in _nodes_of(locality, topology, place)}
        at = [n for n, key in enumerate(keys) if key.signal == edit.signal and _is_meant(key, places, nodes, locality)]
        if not at:
            raise InputError([_nothing_to_change(edit, keys)])
        if edit.value is None:
            editor.drop[at] = True
        else:
            editor.value[at], editor.counter[at] = edit.value, known.signals[edit.signal].type == "counter"
    return editor


def _is_meant(key: SeriesKey, places: Sequence[str], nodes: set[str], locality: LocalityIndex) -> bool:
    if EVERYWHERE in places or key.entity in places:
        return True
    own = (
        locality.nodes_of_group(key.entity)
        if key.kind in ("group", "replica")
        else locality.nodes_of(key.kind, key.entity)
    )
    # An observer's samples of a peer are about both.
    return not nodes.isdisjoint(own)


def _nodes_of(locality: LocalityIndex, topology: Topology, place: str) -> set[str]:
    """Returns the nodes of the entity of a name: what lies on them is meant as well, unless the name is narrower."""
    if place in topology.group:
        return set(locality.nodes_of_group(place))
    if place in topology.node:
        return {place}
    member = place.rpartition(":")[2]
    return {topology.node_of[member]} if member in topology.node_of and "/" not in member else set()


def _nothing_to_change(edit: SignalEdit, keys: Sequence[SeriesKey]) -> Problem:
    option = "--set" if edit.value is not None else "--without"
    there = sorted({key.entity for key in keys if key.signal == edit.signal})
    if there:
        more = " ..." if len(there) > MAX_NAMED else ""
        hint = f"It has those of {', '.join(there[:MAX_NAMED])}{more}: {edit.signal}@ENTITY."
        return Problem(option, 0, "", f"no series of {edit.signal} there", "a place where it was recorded", hint)
    hint = suggest_name(edit.signal, sorted({key.signal for key in keys})) or "It may be derived from others."
    return Problem(option, 0, "", f"no series of {edit.signal} in the recording", "a signal that was recorded", hint)
