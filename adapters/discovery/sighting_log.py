"""When each sighting began, and whether it lives: in arrays, from the batches of sources.

Nothing here reads a clock. What a source has delivered last is its present: what falls silent with its whole source,
or with its own target while that is still listed, has not ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from skewscope.adapters.discovery.sightings import Sighting
from skewscope.adapters.mapping.entities import UUID_LABELS
from skewscope.adapters.mapping.names import UP_METRIC
from skewscope.adapters.sources.common.base import SeriesColumns, SourceBatch, SourceSeriesRegistry
from skewscope.engine.model.arrays import F64, Index, Mask

MISSED_PERIODS = 3.0
"""A sighting ends when it has not come for so many of its own periods: two scrapes may fail."""
MISSED_PAGES = 1.5
"""It ends sooner where its target has delivered without it: one page may lack a series, the next one must not."""
MIN_PATIENCE_S, MAX_PATIENCE_S = 30.0, 600.0
"""Bounds of the time after which a sighting ends."""
USUAL_PERIOD_S = 15.0
"""The period of what has come once only, where nothing else of its source has come twice."""
LEARNING_RATE = 0.3
MAX_STRETCH = 3.0
"""A gap counts as at most so many periods: an outage is no longer period."""
FORGET_S = 3600.0
"""Seconds after which a sighting that has ended is forgotten, at twice the number that lives."""
MIN_FORGOTTEN = 1000
"""So many that have ended are always kept."""
SAME_PAGE_S = 1.0
"""Seconds between times that are those of one page."""
MAX_SIGHTINGS = 500_000
"""Sightings that are kept; others are not seen."""


class LivingSighting(NamedTuple):
    """A sighting that lives."""

    sighting: Sighting
    begun: float
    """Seconds since 1970 when it was first seen, or seen again after it had ended."""
    is_fresh: bool
    """Whether it has come within its usual time."""

    @property
    def serving_pod(self) -> str:
        """The pod whose serving engine it is of; '' for none."""
        return dict(self.sighting.labels).get("pod", "") if "replica" in self.sighting.kinds else ""


@dataclass
class _Numbers:
    """Numbers of texts, and an array of times by number."""

    numbers: dict[object, int] = field(default_factory=dict)
    times: F64 = field(default_factory=lambda: np.full(1, -np.inf))

    def number(self, key: object) -> int:
        found = self.numbers.setdefault(key, len(self.numbers))
        if found >= len(self.times):
            self.times = np.append(self.times, np.full(len(self.times), -np.inf))
        return found


@dataclass
class SightingLog:
    """All sightings of all sources. Arrays are [sighting]."""

    refused: int = 0
    """Sightings above the limit."""
    usual_period: float = USUAL_PERIOD_S
    """Usual seconds between two times of a sighting."""
    _sightings: list[Sighting] = field(default_factory=list)
    _keys: dict[tuple[str, Sighting], int] = field(default_factory=dict)
    _columns: "WeakKeyDictionary[SeriesColumns, Index]" = field(default_factory=WeakKeyDictionary)
    """[series of the columns] number of its sighting, or -1."""
    _first: F64 = field(default_factory=lambda: np.empty(0))
    _last: F64 = field(default_factory=lambda: np.empty(0))
    _period: F64 = field(default_factory=lambda: np.empty(0))
    """Usual seconds between two times; NaN where it has come once."""
    _links: Index = field(default_factory=lambda: np.empty((4, 0), np.intp))
    """[source, target, GPU or -1, whether it is `up`]."""
    _sources: _Numbers = field(default_factory=_Numbers)
    """Newest time of each source."""
    _pages: _Numbers = field(default_factory=_Numbers)
    """Newest time of each target's own series."""
    _listed: F64 = field(default_factory=lambda: np.empty(0))
    """[target] newest time at which it was listed."""
    _cards: _Numbers = field(default_factory=_Numbers)
    """When the newest labels of each GPU began: earlier ones ended then."""
    _card_labels: dict[int, Sighting] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._sightings)

    def take_in(self, handed: Mapping[str, Sequence[SourceBatch]]) -> None:
        """Takes in the batches of sources, by name."""
        for source, batches in handed.items():
            for batch in batches:
                if isinstance(batch.columns, SourceSeriesRegistry) and len(batch.value):
                    self._take_batch(source, batch, batch.columns)

    def _take_batch(self, source: str, batch: SourceBatch, columns: SourceSeriesRegistry) -> None:
        numbers = np.arange(len(batch.value)) if batch.numbers is None else batch.numbers
        times = np.broadcast_to(np.asarray(batch.time, np.float64), len(numbers))
        at = self._number_columns(source, columns, int(numbers.max()) + 1)[numbers]
        seen = at >= 0
        if not seen.any():
            return
        which, inverse = np.unique(at[seen], return_inverse=True)
        newest = np.full(len(which), -np.inf)
        np.maximum.at(newest, inverse, times[seen])
        self._note(which, newest)

    def _number_columns(self, source: str, columns: SourceSeriesRegistry, size: int) -> Index:
        known = self._columns.get(columns)
        begin = 0 if known is None else len(known)
        if known is None or begin < size:
            seen = columns.seen[begin : max(size, len(columns.seen))]
            new = np.fromiter((self._number(source, one) for one in seen), np.intp, len(seen))
            known = self._columns[columns] = new if known is None else np.append(known, new)
        return known

    def _number(self, source: str, one: object) -> int:
        if not isinstance(one, Sighting):
            return -1
        found = self._keys.get((source, one))
        if found is None:
            if len(self._sightings) >= MAX_SIGHTINGS:
                self.refused += 1
                return -1
            found = self._keys[source, one] = len(self._sightings)
            self._sightings.append(one)
            self._add_row(source, one)
        return found

    def _add_row(self, source: str, one: Sighting) -> None:
        labels = dict(one.labels)
        target = self._pages.number((source, labels.get("job", ""), labels.get("instance", "")))
        uuid = next((labels[label] for label in UUID_LABELS if labels.get(label)), "")
        card = self._cards.number((source, labels.get("job", ""), uuid)) if uuid else -1
        links = (self._sources.number(source), target, card, int(one.metric == UP_METRIC))
        if len(self._sightings) > len(self._first):
            more = max(len(self._first), 64)
            self._first, self._last = (np.append(a, np.full(more, -np.inf)) for a in (self._first, self._last))
            self._period = np.append(self._period, np.full(more, np.nan))
            self._links = np.append(self._links, np.zeros((4, more), np.intp), axis=1)
        self._links[:, len(self._sightings) - 1] = links
        self._listed = np.append(self._listed, np.full(len(self._pages.times) - len(self._listed), -np.inf))

    def _note(self, which: Index, newest: F64) -> None:
        """Notes when sightings were seen; each is named once."""
        later = newest > self._last[which]
        which, newest = which[later], newest[later]
        gap = newest - self._last[which]
        again = gap > self._patience(which)
        self._first[which[again]] = newest[again]
        known = self._period[which]
        learned = np.where(np.isnan(known), gap, known + LEARNING_RATE * (np.minimum(gap, MAX_STRETCH * known) - known))
        self._period[which] = np.where(again, known, learned)
        self._last[which] = newest
        source, target, _, is_up = self._links[:, which]
        np.maximum.at(self._sources.times, source, newest)
        np.maximum.at(self._pages.times, target[is_up == 0], newest[is_up == 0])
        np.maximum.at(self._listed, target[is_up == 1], newest[is_up == 1])
        for one in which[again & (self._links[2, which] >= 0)].tolist():
            self._note_card(one)

    def _note_card(self, one: int) -> None:
        """Notes that labels of a GPU began: others of it that are not seen any more have ended."""
        card, sighting = int(self._links[2, one]), self._sightings[one]
        before = self._card_labels.get(card)
        if before is None or before.labels != sighting.labels:
            self._card_labels[card], self._cards.times[card] = sighting, self._first[one]

    def _patience(self, which: Index) -> F64:
        """Returns the seconds after which some sightings end."""
        period = self._period[which]
        found: F64 = MISSED_PERIODS * np.where(np.isnan(period), self.usual_period, period)
        return np.clip(found, MIN_PATIENCE_S, MAX_PATIENCE_S)

    def mark_living(self) -> Mask:
        """Returns [sighting] which of them live."""
        # What has not come since its labels were read has no time yet.
        every = np.flatnonzero(np.isfinite(self._last[: len(self._sightings)]))
        source, target, card, _ = self._links[:, every]
        last, patience, period = self._last[every], self._patience(every), self._period[every]
        present, page = self._sources.times[source], self._pages.times[target]
        missed = page - last > MISSED_PAGES * np.where(np.isnan(period), patience, period)
        living: Mask = (present - last <= patience) & ~missed
        # What its target had on its last page goes on while the target is listed and does not answer.
        living |= (present - self._listed[target] <= patience) & (page - last <= SAME_PAGE_S)
        living &= ~((card >= 0) & (last < self._cards.times[card]))
        known = period[living & ~np.isnan(period)]
        self.usual_period = float(np.median(known)) if len(known) else USUAL_PERIOD_S
        lives = np.zeros(len(self._sightings), bool)
        lives[every] = living
        return lives

    def list_living(self) -> list[LivingSighting]:
        """Returns the sightings that live, and forgets what has long ended."""
        self._forget(self.mark_living())
        at = np.flatnonzero(self.mark_living())
        present = self._sources.times[self._links[0, at]]
        period = np.where(np.isnan(self._period[at]), self.usual_period, self._period[at])
        fresh = present - self._last[at] <= MISSED_PAGES * period
        begun = self._first[at].tolist()
        return [
            LivingSighting(self._sightings[n], first, is_fresh)
            for n, first, is_fresh in zip(at.tolist(), begun, fresh.tolist(), strict=True)
        ]

    def _forget(self, lives: Mask) -> None:
        """Forgets what has long ended, where that is the most; its targets and GPUs too."""
        size = len(lives)
        if size <= 2 * int(np.count_nonzero(lives)) + MIN_FORGOTTEN:
            return
        kept = np.flatnonzero(self._last[:size] > float(self._sources.times.max()) - FORGET_S)
        if 2 * len(kept) > size:
            return
        names = {number: str(name) for name, number in self._sources.numbers.items()}
        rows = [(names[int(self._links[0, n])], self._sightings[n]) for n in kept.tolist()]
        before = vars(self).copy()
        vars(self).update(vars(SightingLog(self.refused, self.usual_period)))
        for source, sighting in rows:
            self._number(source, sighting)
        for name in ("_first", "_last", "_period"):
            vars(self)[name][: len(kept)] = before[name][kept]
        for name in ("_sources", "_pages", "_cards"):
            for key, number in vars(self)[name].numbers.items():
                vars(self)[name].times[number] = before[name].times[before[name].numbers[key]]
        for key, number in self._pages.numbers.items():
            self._listed[number] = before["_listed"][before["_pages"].numbers[key]]
        labels, cards = before["_card_labels"], before["_cards"].numbers
        known = ((number, cards[key]) for key, number in self._cards.numbers.items())
        self._card_labels = {number: labels[card] for number, card in known if card in labels}
