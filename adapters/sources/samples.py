"""Samples of series that come by name and labels, one at a time: what each stands for is worked out once.

Sources that read pages have `adapters.openmetrics` for this; here it is for all others.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from skewscope.adapters.grammar import Labels
from skewscope.adapters.names import Names
from skewscope.adapters.openmetrics import BLANKS, Target
from skewscope.adapters.sources.base import Batch, Listing

MOST_SERIES = 2_000_000
"""Series that a source may number; of what comes beyond, nothing is taken."""
MOST_REMEMBERED = 4_000_000
"""Names of series that are remembered, wanted ones or not; beyond it all are forgotten and learned anew."""
MOST_REMEMBERED_TEXT = 1 << 29
"""Characters of all of them together, as above."""
MOST_TEXT = 1 << 16
"""Characters of one series' name and labels, as in a line of a page."""
MOST_SECONDS = 1e11

T = TypeVar("T")


def _as_told(told: tuple[str, Labels]) -> tuple[str, Labels]:
    return told


@dataclass
class Series:
    """The series of one source."""

    names: Names
    labels: Mapping[str, str]
    """That all of them get."""
    yielding: bool = False
    """Whether a series' own labels win over those."""
    listing: Listing = field(default_factory=Listing)
    refused: int = 0
    """That there was no room for."""
    _targets: dict[Hashable, Sequence[Target]] = field(default_factory=dict)
    _text: int = 0
    """Characters of the names and labels of those."""

    def __post_init__(self) -> None:
        self._known = self.names.known(self.labels, self.listing, yielding=self.yielding)

    def of(self, metric: str, labels: Labels) -> Sequence[Target]:
        """Where the values of a series go that has this name and these labels."""
        told = metric, labels
        return self.targets(told, _as_told, told)

    def targets(self, key: Hashable, named: Callable[[T], tuple[str, Labels]], told: T) -> Sequence[Target]:
        """Where the values of a series go; `key` is whatever says that it is the same one.

        Where it is new, `named` makes name and labels of what was told of it.
        """
        found = self._targets.get(key)
        if found is None:
            name, labels = named(told)
            size = len(name) + sum(len(label) + len(value) for label, value in labels)
            if size > MOST_TEXT:
                self.refused += 1
                return ()
            if len(self._targets) >= MOST_REMEMBERED or self._text > MOST_REMEMBERED_TEXT:
                self._targets.clear()
                self._text = 0
            self._text += size
            found = self._targets[key] = self.learned(name, labels)
        return found

    def known(self, key: Hashable) -> Sequence[Target] | None:
        """Where the values of a series go that was asked for before; None for one that was not."""
        return self._targets.get(key)

    def learned(self, metric: str, labels: Labels) -> Sequence[Target]:
        """Where the values of a series go that is not asked for again."""
        if len(self.listing.keys) >= MOST_SERIES:
            self.refused += 1
            return ()
        return self._known(metric, labels)

    @property
    def trouble(self) -> str:
        """What is wrong with them; '' when nothing is."""
        return f"{self.refused} series too many: does a label hold an id or a time?" if self.refused else ""


@dataclass
class Rows:
    """Samples on their way into a batch."""

    numbers: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    _scales: list[float] = field(default_factory=list)
    _blanks: list[bool] = field(default_factory=list)

    def put(self, targets: Sequence[Target], time: float, value: float) -> None:
        """Adds a sample for each target; `time` in seconds since 1970."""
        for target in targets:
            self.numbers.append(target.number)
            self.times.append(time)
            self.values.append(value)
            self._scales.append(target.scale)
            self._blanks.append(target.blanks)

    def batch(self, listing: Listing) -> Batch | None:
        """All of it, each series once at each time; None where there is nothing.

        Of several values of one series at one time the first counts: some senders repeat themselves.
        """
        numbers, times = np.array(self.numbers, np.int32), np.array(self.times, np.float64)
        values = np.array(self.values, np.float64)
        if any(self._blanks):
            values = np.where(np.array(self._blanks) & np.isin(values, BLANKS), np.nan, values)
        values *= np.array(self._scales, np.float64)
        sound = np.flatnonzero(np.isfinite(times) & (np.abs(times) < MOST_SECONDS))
        _, first = np.unique(np.stack((numbers[sound], times[sound])), axis=1, return_index=True)
        kept = sound[np.sort(first)]
        return Batch(listing, numbers[kept], times[kept], values[kept]) if len(kept) else None
