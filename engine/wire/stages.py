"""A pipeline as one of its stages sees it: how long after its input it hands over, and how long it waits for input."""

from dataclasses import dataclass, field

import numpy as np
from skewscope.engine.feed import F64
from skewscope.engine.wire.bursts import Bursts, joined, no_bursts

IDLE = 5.0
"""Typical periods after the input's arrival beyond which a hand-over was not held up by the stage but not asked for."""
INPUT, OUTPUT = 0, 1
"""Streams: from the stage before, to the stage after."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Hand-overs of one stage, in time order."""

    time: F64
    """When the hand-over began, s."""
    took: F64
    """From when the stage could begin (its input whole, its last hand-over done) to the hand-over, s."""
    waited: F64
    """How long it stood without input before, s; 0 where input was queued."""
    period: F64
    """Time since the hand-over before; NaN for the first."""


@dataclass
class StageReader:
    """Pairs inputs with hand-overs, first in first out, over chunks."""

    pending: Bursts = field(default_factory=no_bursts)
    before: float = np.nan
    """End of the last hand-over."""
    begun: float = np.nan
    """Begin of the last hand-over."""

    def read(self, bursts: Bursts) -> Steps:
        """The hand-overs that these bursts complete."""
        found = joined([self.pending, bursts])
        inputs, outputs = found.take(found.stream == INPUT), found.take(found.stream == OUTPUT)
        arrived = np.searchsorted(inputs.end, outputs.begin, side="right")
        order = np.arange(len(outputs))
        # First in, first out; the queue is taken to have been empty once in the stretch.
        behind = int((arrived - order).min(initial=len(inputs))) - 1
        pair = order + behind
        able = pair >= 0
        steps = self._steps(inputs, outputs, np.maximum(pair, 0), able)
        used = int(pair[-1]) if len(pair) else -1
        self.pending = inputs.take(np.arange(len(inputs)) >= max(used, 0))
        return steps

    def _steps(self, inputs: Bursts, outputs: Bursts, pair: np.ndarray, able: np.ndarray) -> Steps:
        if not len(outputs):
            return Steps(*(np.empty(0) for _ in range(4)))
        done = np.concatenate(([self.before], outputs.end[:-1]))
        period = np.diff(outputs.begin, prepend=self.begun)
        self.before, self.begun = float(outputs.end[-1]), float(outputs.begin[-1])
        if not len(inputs):
            return Steps(*(np.empty(0) for _ in range(4)))
        ready = inputs.end[pair]
        took = outputs.begin - np.fmax(ready, done)
        waited = np.maximum(ready - done, 0.0)
        typical = np.nanmedian(period) if np.isfinite(period).any() else np.inf
        fine = able & (took >= 0) & (outputs.begin - ready <= IDLE * typical)
        return Steps(outputs.begin[fine], took[fine], waited[fine], period[fine])
