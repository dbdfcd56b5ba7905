"""Measures one pipeline stage: the time from its input to its hand-over, and its wait for input."""

from dataclasses import dataclass, field

import numpy as np

from skewscope.engine.model.arrays import F64, I64, median
from skewscope.engine.wire.bursts import Bursts, merge_bursts, no_bursts
from skewscope.engine.wire.sequence import run_starts

IDLE_PERIODS = 5.0
"""Typical periods after the input beyond which a hand-over was not delayed, but nothing was requested."""
MAX_QUEUED = 64
"""Inputs kept that were not handed over."""
SAME_PACE = 0.25
"""Periods that differ by no more than this share are the same pace."""
INPUT, OUTPUT = 0, 1
"""Streams: from the stage before, to the stage after."""


@dataclass(frozen=True, slots=True)
class StageHandovers:
    """Hand-overs of one stage, in time order."""

    time: F64
    """When the hand-over began, s."""
    duration: F64
    """From when the stage could begin (its input complete, its last hand-over done) to the hand-over, s."""
    wait: F64
    """How long it waited for input before, s; 0 where input was queued."""
    period: F64
    """Time since the hand-over before; NaN for the first."""


@dataclass
class StageReader:
    """Pairs inputs with hand-overs, first in first out, over chunks."""

    pending: Bursts = field(default_factory=no_bursts)
    """Inputs not yet handed over."""
    last_end: float = np.nan
    """End of the last hand-over."""
    last_begin: float = np.nan
    """Begin of the last hand-over."""
    period: float = np.nan
    """Typical time between hand-overs."""
    idle_period: float = np.nan
    """The same when the queue was last seen empty."""

    def read(self, bursts: Bursts) -> StageHandovers:
        """Returns the hand-overs that these bursts complete."""
        found = merge_bursts([self.pending, bursts])
        inputs, outputs = found.take(found.stream == INPUT), found.take(found.stream == OUTPUT)
        if not len(outputs):
            self.pending = inputs.take(slice(-MAX_QUEUED, None))
            return _no_handovers()
        done = np.concatenate(([self.last_end], outputs.end[:-1]))
        period = np.diff(outputs.begin, prepend=self.last_begin)
        known = period[~np.isnan(period)]
        self.period = median(known) if len(known) else self.period
        self.last_end, self.last_begin = float(outputs.end[-1]), float(outputs.begin[-1])
        pair = self._pairs(inputs, outputs)
        self.pending = inputs.take(np.arange(len(inputs)) > pair[-1]).take(slice(-MAX_QUEUED, None))
        if not len(inputs):
            return _no_handovers()
        ready = inputs.end[np.clip(pair, 0, len(inputs) - 1)]
        took = outputs.begin - np.fmax(ready, done)
        fine = (pair >= 0) & (pair < len(inputs)) & (took >= 0) & (outputs.begin - ready <= IDLE_PERIODS * self.period)
        waited = np.maximum(ready - done, 0.0)
        return StageHandovers(outputs.begin[fine], took[fine], waited[fine], period[fine])

    def _pairs(self, inputs: Bursts, outputs: Bursts) -> I64:
        """Returns [hand-over] the row of its input, outside the inputs' rows where it has none.

        First in, first out; after a stretch without traffic nothing is in flight, and the count restarts. From the row
        where all hand-overs of a stretch precede their inputs, the pairs are shifted: the first hand-over of the first
        stage has no input, and a hand-over that was split on the wire counts twice.
        """
        begins = np.sort(np.concatenate((inputs.begin, outputs.begin)))
        quiet = begins[1:][np.diff(begins) > IDLE_PERIODS * self.period]
        stretch = np.searchsorted(quiet, outputs.begin, side="right")
        opening = np.searchsorted(inputs.begin, np.concatenate(([-np.inf], quiet)))
        order = np.arange(len(outputs))
        first = np.flatnonzero(run_starts(stretch))
        run = np.cumsum(run_starts(stretch)) - 1
        pair = opening[stretch] + order - order[first][run]
        arrived = np.searchsorted(inputs.end, outputs.begin, side="right")
        return self._correct_queue(pair + np.minimum(_highest_from_here(arrived - pair - 1, run), 0), arrived)

    def _correct_queue(self, pair: I64, arrived: I64) -> I64:
        """Returns the pairs without an impossible queue, which stays while the pace is that of an empty one.

        An input that was split on the wire counts twice, and every later one would appear queued.
        """
        queue = np.minimum.accumulate((arrived - pair - 1)[::-1])[::-1]
        if queue[0] <= 0:
            self.idle_period = self.period
        same_pace = abs(self.period - self.idle_period) <= SAME_PACE * self.idle_period
        return pair + np.maximum(queue, 0) if same_pace else pair


@dataclass
class TurnReader:
    """Measures an end of a pipeline in training, which answers its one neighbour, over chunks.

    It may keep its inputs until all of a step are there, so that most outputs follow one another. Its work is the time
    from the output before, or from the last input since.
    """

    last_input: float = -np.inf
    """End of the last input, s."""
    last_output: float = np.nan
    """End of the last output, s."""

    def read(self, bursts: Bursts) -> StageHandovers:
        """Returns the outputs among these bursts; what it waited is unknown, and its period is another one."""
        inputs, outputs = bursts.take(bursts.stream == INPUT), bursts.take(bursts.stream == OUTPUT)
        ends = np.concatenate(([self.last_input], inputs.end))
        done = np.concatenate(([self.last_output], outputs.end[:-1]))[: len(outputs)]
        self.last_input = float(ends[-1])
        self.last_output = float(outputs.end[-1]) if len(outputs) else self.last_output
        ready = np.maximum(done, ends[np.searchsorted(ends, outputs.begin, side="right") - 1])
        known = ~np.isnan(done)
        unknown = np.full(int(known.sum()), np.nan)
        return StageHandovers(outputs.begin[known], (outputs.begin - ready)[known], unknown, unknown)


def _highest_from_here(value: I64, run: I64) -> I64:
    """Returns [row] the largest value from this row to the end of its run."""
    apart = np.int64(1 + 2 * np.abs(value).max(initial=0))
    key = (run[-1:] - run) * apart
    return np.asarray(np.maximum.accumulate((value + key)[::-1])[::-1] - key)


def _no_handovers() -> StageHandovers:
    return StageHandovers(*(np.empty(0) for _ in range(4)))
