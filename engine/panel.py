"""The newest of every series, and what counters counted: samples come in as columns, entities go out as rows.

Arrays run over the numbers of the series table. Which series an entity's signal has is an index: a row for each
(signal, selector), over the entities of the signal's kind. Nothing here loops over samples or entities.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from skewscope.engine.counting import Tally
from skewscope.engine.entities import Entities
from skewscope.engine.feed import I32, Block, Column, Frame, SeriesKey, SeriesTable
from skewscope.engine.laid import Laid, Part, Parts
from skewscope.engine.moments import Moment, even
from skewscope.engine.rhythm import Rhythm, longer
from skewscope.engine.rows import Rows, larger
from skewscope.engine.samples import Samples, alone, marked
from skewscope.engine.sets import F64, LARGEST, Index
from skewscope.engine.totals import Counting, Totals
from skewscope.kb.model import Signal
from skewscope.rules.kinds import contains, kind_of

WATERMARK = 5.0
"""Seconds by which a sample may come after a later one of its series and still be placed."""
SPARE = 16
"""Where series are added, room is made for one in so many at least: each time all that is kept of them is copied."""
CHUNK = 1 << 15
"""So many samples are taken in at a time: what is worked with should stay in the cache."""


@dataclass(slots=True)
class Count:
    """What became of the samples."""

    taken: int = 0
    gaps: int = 0
    late: int = 0
    """Came after a later sample of their series, within the watermark."""
    dropped: int = 0
    """Came too late."""
    ahead: int = 0
    """Carried a time later than the tick's; counted as of now."""
    unplaced: int = 0
    """Series on an entity that the topology does not have, or beyond `rows.MOST_SELECTORS`."""


@dataclass(frozen=True, slots=True)
class _Sort:
    """What all series of a signal have in common."""

    kind: str
    """Of entity."""
    counting: Counting


class Panel:
    """The state of all series as of the last tick."""

    def __init__(
        self,
        signals: Mapping[str, Signal],
        entities: Entities,
        wanted: Collection[str],
        tick: float,
        also: Collection[str] = (),
    ) -> None:
        self.signals = signals
        self.entities = entities
        self.wanted = frozenset(wanted)
        self.also = frozenset(also)
        """Signals of which `latest` and `times` are kept, though no rule reads them."""
        self.tick = tick
        self.t = -np.inf
        self.count = Count()
        self.rows: dict[str, Rows] = {name: Rows() for name in sorted(self.wanted)}
        self.rhythm = Rhythm(tick)
        self.latest: F64 = np.full(1, np.nan)
        """Newest value as delivered; NaN after a gap."""
        self.times: F64 = np.full(1, np.nan)
        """Of the newest sample that was no gap."""
        self.births = 0
        """Grows when a series has its first sample."""
        self.late: list[Samples] = []
        """Samples of this tick that belong into the past."""
        self._known = 0
        """So many series of the table have a place here ..."""
        self._size = 0
        """... and so many series at all."""
        self._place_of = np.empty(0, np.intp)
        self._straight = True
        """Whether a series' place is its number."""
        self._frames: dict[int, Laid] = {}
        """By the schema's identity."""
        self.parts = Parts()
        """The columns of all frames."""
        self._used = np.empty(0, bool)
        self._read = np.empty(0, bool)
        """What is used, or what somebody else reads here."""
        self._totals = Totals()
        self._sorts_of: dict[str, _Sort] = {}
        self._now: F64 = np.full(1, np.nan)

    # --- series

    def _learn(self, table: SeriesTable) -> None:
        """Places series that are new in the table: the only loop, and only over those."""
        size, known = len(table.keys), self._known
        if size == known:
            return
        first, new = self._size, size - known
        # Not twice as much: of a fleet that is there, little more comes.
        self._grow(first + max(new, known // SPARE))
        self._known, self._size = size, first + new
        self._straight &= first == known
        self._place_of = np.concatenate((self._place_of, np.arange(first, first + new)))
        for number in range(known, size):
            self._place(int(self._place_of[number]), table.keys[number])

    @property
    def known(self) -> int:
        """How many series of the table have a place here."""
        return self._known

    def by_number(self, size: int) -> tuple[F64, F64]:
        """(newest values, their times) of the first so many series of the table."""
        at: Index | slice = slice(0, size) if self._straight else self._place_of[:size]
        return self.latest[at], self.times[at]

    def _grow(self, size: int) -> None:
        if size < len(self._used):
            return
        # One more: what a series that there is not would hold.
        size += 1
        self.rhythm.grow(size)
        self._totals.grow(size)
        self.latest, self.times = longer(self.latest, size), longer(self.times, size)
        more = np.zeros(size - len(self._used), bool)
        self._used, self._read = np.concatenate((self._used, more)), np.concatenate((self._read, more))

    def _place(self, number: int, key: SeriesKey) -> None:
        self._read[number] = key.signal in self.also
        if key.signal not in self.wanted:
            return
        sort = self._sorts_of.get(key.signal) or self._sort_of(key.signal)
        entity, selector = self._entity(key, sort.kind)
        rows = self.rows[key.signal]
        if entity < 0 or not rows.room(selector):
            self.count.unplaced += 1
            return
        self._used[number] = self._read[number] = True
        self._totals.place(number, sort.counting)
        rows.place(entity, selector, number, self.entities.count(sort.kind))

    def _sort_of(self, name: str) -> _Sort:
        """What all series of a signal have in common."""
        signal = self.signals[name]
        found = self._sorts_of[name] = _Sort(kind_of(signal.entity), self._totals.counting(signal))
        return found

    def _entity(self, key: SeriesKey, kind: str) -> tuple[int, str]:
        """The entity of the signal's own kind that a series is about, and what tells it from others there."""
        if key.kind == kind:
            return self.entities.add(kind, key.entity), key.selector
        number = self.entities.numbers.get(key.kind, {}).get(key.entity, -1)
        if number < 0:
            return -1, ""
        if contains(kind, key.kind):
            return int(self.entities.up(key.kind, kind)[number]), _joined(key.entity, key.selector)
        return self.entities.only(key.kind, number, kind), key.selector

    # --- samples

    def begin(self, t: float) -> None:
        """Starts the tick that ends at `t`; time never runs backwards."""
        self.t = max(self.t, t)
        self.late = []

    def absorb(self, block: Block, table: SeriesTable) -> None:
        """Takes in the samples of this tick."""
        self._learn(table)
        for found in self._sorted(block):
            sound = np.abs(found.value) <= LARGEST
            good = found.kept(sound)
            if len(good.series):
                self._take(self._in_order(good))
            if not sound.all():
                self._gaps(found.kept(~sound))

    def _sorted(self, block: Block) -> Iterator[Samples]:
        """Samples whose series have but one, and those of the others, which alone have to be put in order."""
        series, time, value = block.series, block.time, block.value
        if not len(series):
            return
        if series.min() < 0 or series.max() >= self._known or not np.isfinite(time).all():
            sound = np.isfinite(time) & (series >= 0) & (series < self._known)
            series, time, value = series[sound], time[sound], value[sound]
        if (series[1:] > series[:-1]).all() or not (several := np.bincount(series)[series] > 1).any():
            yield from self._apart(series, time, value)
            return
        if not several.all():
            one = ~several
            yield from self._apart(series[one], time[one], value[one])
            series, time, value = series[several], time[several], value[several]
        yield from self._ordered(series, time, value)

    def _apart(self, series: I32, time: F64, value: F64) -> Iterator[Samples]:
        """Samples of which no two are of one series, so many at a time that what is worked with stays in the cache."""
        for begin in range(0, len(series), CHUNK):
            some = slice(begin, begin + CHUNK)
            yield alone(*self._read_by_rules(series[some], time[some], value[some]))

    def _ordered(self, series: I32, time: F64, value: F64) -> Iterator[Samples]:
        """Samples put in order, as many at a time; all of a series are together."""
        by_series = np.argsort(series, kind="stable")
        numbers = series[by_series]
        end = 0
        while end < len(numbers):
            begin, last = end, min(end + CHUNK, len(numbers)) - 1
            end = int(np.searchsorted(numbers, numbers[last], side="right"))
            some = by_series[begin:end]
            at, when, what = self._read_by_rules(series[some], time[some], value[some])
            order = np.lexsort((what, when, at))
            at, when, what = at[order], when[order], what[order]
            # Of two samples of one series at one time, one is enough.
            same = np.append((at[1:] == at[:-1]) & (when[1:] == when[:-1]), False)[: len(at)]
            yield marked(at[~same], when[~same], what[~same])

    def _read_by_rules(self, series: I32, time: F64, value: F64) -> tuple[Index, F64, F64]:
        """(place, time, value) of samples that somebody reads; most of what exporters offer no rule does."""
        at: Index = series.astype(np.intp) if self._straight else self._place_of[series]
        read = self._read[at]
        if not read.all():
            self.count.taken += len(read) - int(np.count_nonzero(read))
            at, time, value = at[read], time[read], value[read]
        if len(time) and time.max() > self.t:
            self.count.ahead += int((time > self.t + self.tick).sum())
            time = np.minimum(time, self.t)
        return at, time, value

    def _in_order(self, found: Samples) -> Samples:
        newest = self.times[found.series]
        behind = found.time <= newest
        if not behind.any():
            return found
        age = newest - found.time
        late = behind & (age > 0) & (age <= WATERMARK)
        self.count.late += int(late.sum())
        self.count.dropped += int((behind & (age > WATERMARK)).sum())
        self.late.append(found.kept(late))
        return found.kept(~behind)

    def _take(self, found: Samples) -> None:
        if not len(found.series):
            return
        self.count.taken += len(found.series)
        used = self._used[found.series]
        counted = found.kept(used & self._totals.counter[found.series])
        if len(counted.series):
            self._totals.take(counted)
        self._pace(found if used.all() else found.kept(used))
        if not found.single:
            found = found.kept(found.last)
        self.latest[found.series], self.times[found.series] = found.value, found.time

    def _pace(self, found: Samples) -> None:
        if found.single:
            before = self.times[found.series]
            self.births += bool(np.isnan(before).any())
            self.rhythm.learn(found.series, found.time - before)
            return
        at = found.series[found.first]
        samples = np.flatnonzero(found.last) - np.flatnonzero(found.first) + 1
        before = self.times[at]
        anew = np.isnan(before)
        self.births += bool(anew.any())
        since = np.where(anew, found.time[found.first], before)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.rhythm.learn(at, (found.time[found.last] - since) / (samples - anew))

    def _gaps(self, found: Samples) -> None:
        self.count.gaps += len(found.series)
        newer = found.time > np.nan_to_num(self.times[found.series], nan=-np.inf)
        self.latest[found.series[newer]] = np.nan

    # --- frames

    def absorb_frame(self, frame: Frame) -> None:
        """Takes in a frame, as far as some rule reads it; what comes out of order is passed over."""
        laid = self._laid(frame.schema)
        time = min(frame.time, self.t)
        if time <= laid.time:
            self.count.dropped += sum(part.at.stop - part.at.start for part in laid.parts)
            return
        if not np.isnan(laid.time):
            self._pace_frame(laid, time - laid.time)
        for part in laid.parts:
            self._take_column(part, np.asarray(frame.values[part.number], np.float64), time)
        laid.time = time

    def _laid(self, schema: tuple[Column, ...]) -> Laid:
        """Where the columns of a schema are; they get their places when it is first seen."""
        found = self._frames.get(id(schema))
        if found is None:
            wanted = [(n, column) for n, column in enumerate(schema) if column.signal in self.wanted]
            sizes = [self._wide(column) for _, column in wanted]
            self._grow(self._size + sum(sizes))
            found = self._frames[id(schema)] = Laid(schema, Rhythm(self.tick))
            found.rhythm.grow(1)
            for (n, column), size in zip(wanted, sizes, strict=True):
                found.parts.append(self._lay_column(n, column, size))
                self.parts.add(found.parts[-1])
        return found

    def _wide(self, column: Column) -> int:
        if column.entities is not None:
            return len(column.entities)
        return self.entities.known(kind_of(self.signals[column.signal].entity))

    def _lay_column(self, number: int, column: Column, size: int) -> Part:
        sort = self._sorts_of.get(column.signal) or self._sort_of(column.signal)
        at = slice(self._size, self._size + size)
        self._size = at.stop
        self._straight &= self._known == self._size
        self._used[at] = self._read[at] = True
        self._totals.place(at, sort.counting)
        who = np.arange(size) if column.entities is None else column.entities
        self.rows[column.signal].place_all(column.selector, who, at, self.entities.count(sort.kind))
        return Part(number, at, sort.counting.counts, self._totals.end(at))

    def _pace_frame(self, laid: Laid, interval: float) -> None:
        """The period of a frame is that of all its series."""
        laid.rhythm.version = 0
        laid.rhythm.learn(slice(0, 1), np.array([interval]))
        if laid.rhythm.version:
            for part in laid.parts:
                self.rhythm.spread(part.at, laid.rhythm)

    def _take_column(self, part: Part, value: F64, time: float) -> None:
        at, part.time = part.at, time
        self.count.taken += len(value)
        grew = part.counts and self._totals.take_all(at, value, part.end)
        # One long look at the smallest and the largest tells that nothing is amiss: a NaN is neither.
        part.whole = grew or bool(value.min(initial=0.0) >= -LARGEST and value.max(initial=0.0) <= LARGEST)
        # Once all have had a sample, nobody is born any more.
        if not part.born:
            self.births += 1
            part.born = part.whole
        if part.whole:
            if part.counts and not grew:
                self._totals.take(alone(np.arange(at.start, at.stop), np.full(len(value), time), value))
            self.latest[at], self.times[at] = value, time
            return
        sound = np.flatnonzero(np.abs(value) <= LARGEST)
        found = alone(at.start + sound, np.full(len(sound), time), value[sound])
        if part.counts and len(sound):
            self._totals.take(found)
        self.count.gaps += len(value) - len(sound)
        self.latest[at] = np.nan
        self.latest[found.series], self.times[found.series] = found.value, time

    # --- what rules read

    def settle(self) -> None:
        """Makes the tick's values ready: what is older than its series' horizon is unknown."""
        self._now = self.latest
        # Mostly nothing is: the oldest time and the shortest horizon tell that in two short looks.
        if self.t - np.fmin.reduce(self.times) > self.rhythm.shortest():
            stale = self.t - self.times > self.rhythm.horizon
            self._now = np.where(stale, np.nan, self.latest)

    def now(self, series: Index | slice) -> F64:
        """Fresh values of series by number; NaN for stale ones and for -1."""
        found: F64 = self._now[series]
        return found

    def newest(self, series: Index | slice) -> F64:
        """Times of the newest samples, stale or not; NaN where none came."""
        found: F64 = self.times[series]
        return found

    def counted(self, series: Index | slice) -> tuple[F64, F64]:
        """How much counters counted, and up to when, by series number."""
        return self._totals.sum[series], self.times[series]

    def tally(self, series: Index | slice, moment: Moment | None = None) -> Tally:
        """How counters stand, by series number; `moment` tells when all of them were read, if at one time."""
        totals = self._totals
        if isinstance(series, slice) and moment is not None and self._sound(series, moment):
            size = series.stop - series.start
            return Tally(
                totals.sum[series],
                even(moment.time, size),
                totals.born[series],
                totals.born_sum[series],
                self.rhythm.period[series],
                np.ones(size, bool),
                self.rhythm.longest(series),
                totals.last_born(series),
            )
        fresh = (self.t - self.times[series] <= self.rhythm.horizon[series]) & ~totals.stuck[series]
        period = self.rhythm.period[series]
        return Tally(
            totals.sum[series],
            self.times[series],
            totals.born[series],
            totals.born_sum[series],
            period,
            fresh & ~np.isnan(self.latest[series]),
            float(np.fmax.reduce(period, axis=None, initial=0.0)),
        )

    def _sound(self, series: slice, moment: Moment) -> bool:
        """Whether counters that were read at one time can all be believed."""
        young = self.t - moment.time <= self.rhythm.shortest()
        return young and moment.whole and not self._totals.stuck[series].any()

    def lay(self, name: str) -> Rows:
        """The rows of a signal, as wide as its kind is now."""
        rows = self.rows[name]
        size = self.entities.count(kind_of(self.signals[name].entity))
        rows.series = larger(rows.series, (len(rows.selectors), size))
        return rows


def _joined(*parts: str) -> str:
    return ",".join(part for part in parts if part)
