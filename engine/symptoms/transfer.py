"""What is usual and what is abnormal now, taken over from the symptoms of the engine before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from skewscope.engine.model.arrays import Index
from skewscope.engine.model.transfer import EntityPlaces, Places, copy_fields, copy_items, match_places
from skewscope.engine.symptoms.capacity_falls import ARRAYS as FALLS
from skewscope.engine.symptoms.cells import JudgedCells
from skewscope.engine.symptoms.detector import SymptomDetector
from skewscope.engine.symptoms.growing_steps import ARRAYS as GROWTH
from skewscope.engine.symptoms.levels import KEPT, SPARSE, LevelShifts
from skewscope.engine.symptoms.limits import ARRAYS as LIMITS
from skewscope.engine.symptoms.loaded_capacity import ARRAYS as CAPACITIES
from skewscope.engine.symptoms.pauses import PAUSES
from skewscope.engine.symptoms.peer_ratios import PeerRatios
from skewscope.engine.symptoms.request_shares import RequestShares
from skewscope.engine.symptoms.stalls import ARRAYS as STALLS
from skewscope.engine.symptoms.states import StateChanges
from skewscope.engine.symptoms.uneven_links import UnevenLinks

CELLS = ("value", "time", "change_time", "renewal", "total")
PAIRS = ("_waiting", "_distinct_new", "_standing", "_standing_since", "_late_since", "ratio")
REPEATS = ("found", "_was_late")
SETS = ("_worst_run", "_floors", "_level", "_level_since")
PARTS: Mapping[str, tuple[str, ...]] = {
    "progress": ("_changes", "_last_change", "_stopped"),
    "steps": ("_count", "_last", "_usual", "_longest", "_value", "_step_time", "stopped"),
    "errors": ("_first", "_time", "_score", "_usual", "_since", "_rate", "_is_burst"),
    "states": ("_was_good", "_bad_count", "_since", "_value"),
    "stalls": STALLS,
    "limits": LIMITS,
    "capacities": CAPACITIES,
    "falls": FALLS,
    "growth": GROWTH,
    "paths": ("_run", "_little", "_is_idle", "_is_little", "_since", "_before", "_little_since"),
}
"""Arrays of the parts of a detector that judge some of the cells, [cell that it judges]."""
MEANS = ("sum_before", "count_before")
SOURCES = ("_newest", "_usual", "_longest", "_count", "silent")
MEMBERS = ("_total", "_time", "_rate", "_weight", "_evidence", "_since", "_crossed", "_told")


class _CellPart(Protocol):
    """A part of a detector that judges some of the cells."""

    at: Index
    """The cells."""


@dataclass(frozen=True, slots=True)
class _CellPlaces:
    """Where cells, sets of peers and memberships in these were and are."""

    cells: Places
    sets: Places
    pairs: Places

    def of_part(self, now: _CellPart, before: _CellPart) -> Places:
        """Returns the places within a part that judges some of the cells."""
        return match_places(self.cells.locate(before.at).tolist(), now.at.tolist())


def prepare_cells(now: SymptomDetector) -> None:
    """Gives a cell to each series that is new."""
    if now.cells.grow():
        now._grow()


def transfer_detector(now: SymptomDetector, before: SymptomDetector, entities: EntityPlaces) -> None:
    """Takes over all that a detector learned of the series that both have.

    Args:
        now: a detector that has read no sample yet, with a cell for each series.
        before: the detector that goes.
        entities: what the topologies have in common.
    """
    places = _match_cells(now.cells, before.cells)
    copy_fields(now, before, ("_t", "_unread_until"))
    copy_items(now.cells, before.cells, CELLS, places.cells)
    copy_items(now.cells.means, before.cells.means, MEANS, places.of_part(now.cells.means, before.cells.means))
    copy_items(now, before, ("_floor", "_last", "_last_time", "_is_rounded"), places.cells)
    _transfer_levels(now.shifts, before.shifts, places.cells)
    _transfer_peers(now.peers, before.peers, places)
    for name, arrays in PARTS.items():
        new, old = getattr(now, name), getattr(before, name)
        copy_items(new, old, arrays, places.of_part(new, old))
    copy_fields(now.progress, before.progress, ("_first_pending",))
    copy_fields(now.steps, before.steps, ("next_stop",))
    copy_items(now.steps.pauses, before.steps.pauses, PAUSES, places.of_part(now.steps, before.steps))
    _transfer_flaps(now.states, before.states, places)
    kept = zip(places.cells.before.tolist(), places.cells.now.tolist(), strict=True)
    now.events.since = {new: before.events.since[old] for old, new in kept if old in before.events.since}
    if now.links is not None and before.links is not None:
        _transfer_links(now.links, before.links, places)
    _transfer_shares(now.requests, before.requests)
    sources = match_places(list(before.silences.keys), list(now.silences.keys))
    copy_items(now.silences, before.silences, SOURCES, sources)
    now.deviations = {key: one for key, one in before.deviations.items() if entities.has(one.place)}


def _match_cells(now: JudgedCells, before: JudgedCells) -> _CellPlaces:
    cells = match_places(list(_cell_keys(before)), list(_cell_keys(now)))
    sets = match_places(list(before._set_numbers), list(now._set_numbers))
    pairs = zip(cells.locate(before.pair_cell).tolist(), sets.locate(before.pair_set).tolist(), strict=True)
    old = [(cell, number) if cell >= 0 and number >= 0 else None for cell, number in pairs]
    new = list(zip(now.pair_cell.tolist(), now.pair_set.tolist(), strict=True))
    return _CellPlaces(cells, sets, match_places(old, new))


def _cell_keys(cells: JudgedCells) -> Iterable[tuple[object, ...]]:
    for signal, place, selector in zip(cells.signals, cells.places, cells.selectors, strict=True):
        yield signal.id, place, selector


def _transfer_levels(now: LevelShifts, before: LevelShifts, places: Places) -> None:
    copy_items(now, before, KEPT, places)
    for name in SPARSE:
        getattr(now, name).copy_from(places.now, getattr(before, name), places.before)


def _transfer_peers(now: PeerRatios, before: PeerRatios, places: _CellPlaces) -> None:
    _transfer_levels(now.shifts, before.shifts, places.pairs)
    copy_items(now, before, PAIRS, places.pairs)
    copy_items(now.repeats, before.repeats, REPEATS, places.pairs)
    now.repeats.late.copy_from(places.pairs.now, before.repeats.late, places.pairs.before)
    _transfer_levels(now.moving, before.moving, places.sets)
    copy_items(now, before, SETS, places.sets)
    now.worst[places.sets.now] = places.pairs.locate(before.worst[places.sets.before])
    # Before the first comparison there is none, and newer sets have none either.
    some = places.sets.before < len(before.median)
    now.median = np.full(len(now.worst), np.nan)
    now.median[places.sets.now[some]] = before.median[places.sets.before[some]]


def _transfer_flaps(now: StateChanges, before: StateChanges, places: _CellPlaces) -> None:
    found = places.of_part(now, before)
    kept = zip(found.before.tolist(), found.now.tolist(), strict=True)
    now._changes = {new: before._changes[old] for old, new in kept if old in before._changes}


def _transfer_links(now: UnevenLinks, before: UnevenLinks, places: _CellPlaces) -> None:
    copy_items(now, before, ("_mean", "_time"), places.of_part(now, before))
    bundles = match_places(list(before._numbers), list(now._numbers))
    copy_items(now, before, ("_since", "_median"), bundles)
    now._busiest[bundles.now] = places.cells.locate(before._busiest[bundles.before])


def _transfer_shares(now: RequestShares, before: RequestShares) -> None:
    boards = match_places(_board_keys(before), _board_keys(now))
    members = match_places(_member_keys(before), _member_keys(now))
    copy_items(now, before, MEMBERS, members)
    copy_items(now, before, ("_pool_rate", "_dispersion"), boards)
    pools = [[pool.name for pool in one.cells.topology.pools] for one in (before, now)]
    copy_items(now, before, ("_out_at", "unsettled"), match_places(*pools))
    for board, (row, member) in before._shown.items():
        at, which = (int(places.locate(np.array(n))) for places, n in ((boards, board), (members, member)))
        if at >= 0 and which >= 0:
            now._shown[at] = row, which


def _board_keys(shares: RequestShares) -> list[tuple[str, str]]:
    pools = shares.cells.topology.pools
    return [(signal, pools[pool].name) for signal, pool in shares._boards]


def _member_keys(shares: RequestShares) -> list[tuple[tuple[str, str], str]]:
    boards = _board_keys(shares)
    return [(boards[board], name) for board, _, name in shares._members]
