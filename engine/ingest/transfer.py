"""The state of series that an engine takes over from the one before it."""

import numpy as np

from skewscope.engine.ingest.series_state import SeriesState
from skewscope.engine.model.arrays import Index
from skewscope.engine.model.transfer import Places, copy_fields, copy_items

TOTALS = ("sum", "start_time", "saturated", "_last")
RENEWALS = ("_changed_at", "_interval", "_alike", "_held", "_poll")


def match_series(now: SeriesState, before: SeriesState, numbers: Index) -> Places:
    """Returns the places of the series that an earlier state has, too.

    Args:
        now: this state.
        before: the earlier one.
        numbers: [series of the present table] their numbers in the earlier table; -1 for those that it lacks.
    """
    common = np.flatnonzero(numbers >= 0)
    return Places(before.places_of(numbers[common]), now.places_of(common), len(before.times))


def transfer_series(now: SeriesState, before: SeriesState, places: Places) -> None:
    """Takes over newest values, times, periods and totals."""
    copy_items(now, before, ("latest", "times"), places)
    copy_fields(now, before, ("t", "counts"))
    # Other series are at the places that somebody may have noted.
    now.first_samples = before.first_samples + 1
    now.sampling.copy_from(places.now, before.sampling, places.before)
    _transfer_totals(now, before, places)
    _transfer_renewals(now, before, places)


def _transfer_totals(now: SeriesState, before: SeriesState, places: Places) -> None:
    # What is no counter in either has no total.
    copy_items(now._totals, before._totals, TOTALS, places)
    now._totals.start_sums.copy_from(places.now, before._totals.start_sums, places.before)
    now._totals._reset_count += 1


def _transfer_renewals(now: SeriesState, before: SeriesState, places: Places) -> None:
    old, new = before.renewals, now.renewals
    learned = places.before < len(old._held)
    if not learned.any():
        return
    some = Places(places.before[learned], places.now[learned], places.before_size)
    new._grow(int(some.now.max()) + 1)
    copy_items(new, old, RENEWALS, some)
    copy_fields(new, old, ("_has_rare",))
