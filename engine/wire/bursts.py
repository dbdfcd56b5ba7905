"""Cuts the packets of each sender into bursts; learns the silence that ends a burst, so no period is configured.

The silences between one sender's packets form two modes, those inside a burst and those between bursts, often decades
apart. The threshold is where Otsu's criterion (IEEE Trans. SMC 9(1), 1979) parts the logarithms of the gaps, each
counted with a weight that grows slowly with its length: of the steps inside a ring's round, the pause between rounds
and the idle minutes between requests, it is the pause that fills the time without being rare.
"""

from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, I64, Mask
from skewscope.engine.wire.keys import grow_array, stable_order
from skewscope.engine.wire.sequence import run_starts
from skewscope.engine.wire.ticks import quantile

EDGES = np.linspace(-7.0, 3.0, 101)
"""Bins of the gaps' decimal logarithm: 100 ns to 1,000 s, ten to the decade."""
WEIGHT = 0.25
"""Power of a gap's length with which it is counted."""
APART = 0.7
"""Decades between the means of the two modes below which they are one: every packet is then its own burst."""
USUAL_SHARE = 0.25
"""A silence under this share of the one that is usual between bursts does not end a burst."""
MEMORY = 20.0
"""Half-life of the gap histogram, s."""
SMALL = 1 / 256
"""A burst under this share of its sender's typical bytes is a control message, not a part of a round."""
TYPICAL = 0.75
"""Quantile of a sender's burst bytes that counts as typical."""


@dataclass
class GapThreshold:
    """The silence that separates bursts, learned from gaps."""

    histogram: F64 = field(default_factory=lambda: np.zeros(len(EDGES) - 1))
    value: float = np.nan
    usual_share: float = USUAL_SHARE

    def learn(self, gaps: F64, seconds: float, steps: int = 0) -> float:
        """Updates the threshold with new gaps and returns it in seconds; NaN before the first gap.

        Args:
            gaps: [gap] silences, s.
            seconds: length of the stretch in which they were measured, s.
            steps: how often a sender may send within one round (a ring forwards what it receives). Pauses between such
                steps count as parts of the round if there are longer ones, and no fewer than that allows.
        """
        self.histogram *= 0.5 ** (seconds / MEMORY)
        logs = np.log10(np.clip(gaps[gaps > 0], 1.1e-7, 9e2))
        self.histogram += _count_by_bin(logs)
        if self.histogram.sum() >= 2:
            self.value = otsu_threshold(self.histogram, self.usual_share)
            upper = np.where(EDGES[1:] > np.log10(self.value), self.histogram, 0.0)
            wider = otsu_threshold(upper, self.usual_share) if steps and upper.any() else self.value
            between = upper[EDGES[1:] > np.log10(wider)].sum()
            if wider > self.value and between * 2 * steps >= upper.sum():
                self.value = wider
        return self.value


def _count_by_bin(logs: F64) -> I64:
    """Returns [bin] the numbers of logarithms, as `np.histogram` over `EDGES` does; none is NaN."""
    ordered = np.sort(logs)
    below = ordered.searchsorted(EDGES)
    below[-1] = ordered.searchsorted(EDGES[-1], side="right")
    return np.asarray(np.diff(below))


def otsu_threshold(heap: F64, usual: float = USUAL_SHARE) -> float:
    """Returns the gap, s, that splits a histogram over `EDGES` best; the smallest gap where it has one mode only."""
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    counted, heap = heap, heap * 10 ** (WEIGHT * middle)
    below = np.cumsum(heap)
    above = below[-1] - below
    moment = np.cumsum(heap * middle)
    with np.errstate(invalid="ignore", divide="ignore"):
        low, high = moment / below, (moment[-1] - moment) / above
        between = np.where((below > 0) & (above > 0), below * above * (high - low) ** 2, -1.0)
    best = between.max()
    if best <= 0 or (high - low)[np.argmax(between)] < APART:
        return float(10 ** EDGES[np.argmax(heap > 0)])
    # Empty bins between the heaps score alike: take the middle of that valley, and no less than a share of the silence
    # that is usual between bursts: a burst that stalls (a slow link, a full window) is still one burst.
    valley = np.flatnonzero(between >= best * (1 - 1e-9))
    middle_of_valley = (EDGES[valley[0] + 1] + EDGES[valley[-1] + 1]) / 2
    beyond = np.cumsum(counted * (middle > middle_of_valley))
    typical = middle[np.searchsorted(beyond, beyond[-1] / 2)]
    return float(max(10**middle_of_valley, usual * 10**typical))


@dataclass(frozen=True, slots=True)
class Bursts:
    """Bursts as columns, ordered by (stream, begin)."""

    stream: I64
    begin: F64
    end: F64
    size: F64
    """Bytes of payload."""

    def __len__(self) -> int:
        return len(self.stream)

    def take(self, index: I64 | Mask | slice) -> "Bursts":
        """Returns the bursts at an index or mask."""
        return Bursts(self.stream[index], self.begin[index], self.end[index], self.size[index])

    def by_time(self) -> "Bursts":
        """Returns the same bursts ordered by (begin, stream)."""
        return self.take(np.lexsort((self.stream, self.begin)))


def no_bursts() -> Bursts:
    """Returns empty columns."""
    return Bursts(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0))


def merge_bursts(parts: list[Bursts]) -> Bursts:
    """Returns several sets of bursts as one, ordered by (stream, begin)."""
    whole = Bursts(*(np.concatenate([getattr(p, f) for p in parts]) for f in ("stream", "begin", "end", "size")))
    return whole.take(order_by(whole.stream, whole.begin))


def order_by(stream: I64, time: F64) -> I64:
    """Returns [row] the rows ordered by stream, then time, equal ones as they came."""
    order = np.argsort(time, kind="stable")
    return np.asarray(order[stable_order(stream[order])])


@dataclass
class BurstCutter:
    """Cuts the packets of several streams into bursts, over chunks."""

    gap: GapThreshold = field(default_factory=GapThreshold)
    open: Bursts = field(default_factory=no_bursts)
    last_end: F64 = field(default_factory=lambda: np.empty(0))
    """When each stream's last burst ended."""
    typical: F64 = field(default_factory=lambda: np.empty(0))

    def cut(self, stream: I64, time: F64, size: F64, until: float, seconds: float, steps: int = 0) -> Bursts:
        """Returns the bursts that ended by `until`, without control messages: a learned silence followed each.

        Args:
            stream: [packet] number of its sender, small.
            time: [packet] s, ascending.
            size: [packet] bytes of payload.
            until: end of the chunk, s.
            seconds: its length.
            steps: see `GapThreshold.learn`.
        """
        rows = merge_bursts([self.open, Bursts(stream, time, time, size)])
        inside = rows.stream[1:] == rows.stream[:-1]
        silence = rows.begin[1:] - rows.end[:-1]
        limit = self.gap.learn(np.concatenate((silence[inside], self._edge_silences(rows, until))), seconds, steps)
        if not len(rows) or np.isnan(limit):
            self.open = rows
            return no_bursts()
        first = np.flatnonzero(np.concatenate(([True], ~inside | (silence > limit))))
        last = np.concatenate((first[1:], [len(rows)])) - 1
        whole = Bursts(rows.stream[first], rows.begin[first], rows.end[last], np.add.reduceat(rows.size, first))
        over = (until - whole.end > limit) | ~run_starts(whole.stream[::-1])[::-1]
        self.open = whole.take(~over)
        return self._drop_control_messages(whole.take(over))

    def _edge_silences(self, rows: Bursts, until: float) -> F64:
        """Returns [silence] s across the edges of the chunk: since each stream's last burst, and still running."""
        if not len(rows):
            return np.empty(0)
        first = run_starts(rows.stream)
        last = run_starts(rows.stream[::-1])[::-1]
        self.last_end = np.asarray(grow_array(self.last_end, int(rows.stream[-1]) + 1, np.nan))
        since = rows.begin[first] - self.last_end[rows.stream[first]]
        self.last_end[rows.stream[last]] = rows.end[last]
        inner = rows.begin[~first] - rows.end[:-1][~first[1:]] if len(rows) > 1 else np.empty(0)
        still = until - rows.end[last]
        return np.concatenate((since[since > 0], still[still > inner.max(initial=0.0)]))

    def _drop_control_messages(self, bursts: Bursts) -> Bursts:
        """Returns the bursts without control messages, and updates the typical size of each stream."""
        streams = int(bursts.stream.max(initial=-1)) + 1
        if len(self.typical) < streams:
            self.typical = np.concatenate((self.typical, np.full(streams - len(self.typical), np.nan)))
        count = np.bincount(bursts.stream, minlength=streams)
        edges = np.concatenate(([0], np.cumsum(count))).tolist()
        for stream in np.flatnonzero(count).tolist():
            now = quantile(bursts.size[edges[stream] : edges[stream + 1]], TYPICAL)
            before = self.typical[stream]
            self.typical[stream] = now if np.isnan(before) else before + 0.3 * (now - before)
        return bursts.take(bursts.size >= SMALL * self.typical[bursts.stream])
