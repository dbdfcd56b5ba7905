"""When the series of each signal were last delivered, where all of them came at one time."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.ingest.samples import CommonTimestamp, SortedSamples
from skewscope.engine.model.arrays import F64, Index, Mask

Signals = NDArray[np.int16]
"""Places of signals; -1 stands for none."""


class SignalDeliveries:
    """The one time of the newest samples of each signal that comes series by series.

    A scrape brings all series of a signal at one time. What is computed from them then needs no time of its own for
    each entity, which is most of the cost of a window in a small fleet.
    """

    def __init__(self, signals: int) -> None:
        self._placed = np.zeros(signals, np.intp)
        """[signal] how many series have a place."""
        self._time = np.full(signals, np.nan)
        """[signal] seconds; NaN where the newest values are of several times."""
        self._is_complete = np.zeros(signals, bool)
        """[signal] whether every series with a place brought a valid value."""

    def place(self, signal: int, series: int = 1) -> None:
        """Notes series that have a place from now on."""
        self._placed[signal] += series
        self._time[signal] = np.nan

    def forget(self, signals: Signals) -> None:
        """Notes that other samples of these signals came, at times of their own."""
        self._time[signals] = np.nan

    def note(
        self, found: SortedSamples, signal_of: Signals, sound: Mask, has_others: Callable[[], Mask], *, are_newest: bool
    ) -> Index:
        """Takes in the samples that came together; returns the signals of their series.

        Args:
            found: the samples.
            signal_of: [sample] the signals of their series; -1 for those of none.
            sound: [sample] whether a value is valid.
            has_others: returns [signal] whether some other series has a value that is still read.
            are_newest: whether each sample is newer than those that its series had before.
        """
        counts = np.bincount(signal_of + 1, minlength=len(self._placed) + 1)[1:]
        touched: Index = np.flatnonzero(counts)
        if not len(touched):
            return touched
        time = found.time[0]
        if not (are_newest and found.is_unique and (found.time == time).all()):
            self._time[touched] = np.nan
            return touched
        self._time[touched] = time
        self._is_complete[touched] = is_whole = counts[touched] == self._placed[touched]
        if not is_whole.all():
            self._time[has_others()] = np.nan
        if not sound.all():
            self._is_complete[signal_of[~sound & (signal_of >= 0)]] = False
        return touched

    def timestamp(self, signal: int) -> CommonTimestamp | None:
        """Returns the time of the newest samples of all series of a signal; None where there are several."""
        time = float(self._time[signal])
        return None if np.isnan(time) else CommonTimestamp(time, bool(self._is_complete[signal]))


def find_signals_with_others(
    signal_of: Signals, latest: F64, stale: Mask | None, delivered: Index, signals: int
) -> Mask:
    """Returns [signal] whether a series that was not delivered has a value that was not stale.

    Args:
        signal_of: [series] the signals; -1 for none.
        latest: [series] newest values.
        stale: [series] whether a value was stale already; None for none.
        delivered: the series that were delivered.
        signals: how many signals there are.
    """
    read = ~np.isnan(latest[: len(signal_of)])
    if stale is not None:
        read[: len(stale)] &= ~stale[: len(read)]
    read[delivered] = False
    found: Mask = np.bincount(signal_of[read] + 1, minlength=signals + 1)[1:] > 0
    return found
