"""What the judgement of single series reads: the state of all series, and the samples that are new in a tick."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from skewscope.engine.model.arrays import F64, Index
from skewscope.engine.model.entities import EntityIndex
from skewscope.kb.model import Signal


class SignalRows(Protocol):
    """The series of one signal."""

    @property
    def version(self) -> int:
        """Grows when a series is added."""

    @property
    def selectors(self) -> Sequence[str]:
        """[row] labels that tell series of one entity apart."""

    @property
    def series(self) -> Index:
        """[row, entity] numbers of series; -1 for none."""


class SampleSource(Protocol):
    """The state of all series, as far as cells read it."""

    @property
    def signals(self) -> Mapping[str, Signal]:
        """Signals by id."""

    @property
    def entities(self) -> EntityIndex:
        """Entities by kind."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """The kind of entity of each signal in `rows`."""

    @property
    def rows(self) -> Mapping[str, SignalRows]:
        """The series of each signal that is read."""

    @property
    def latest(self) -> F64:
        """[series] newest value; NaN after a gap."""

    @property
    def times(self) -> F64:
        """[series] time of the newest sample, seconds since 1970."""

    def rows_of(self, name: str) -> SignalRows:
        """Returns the rows of a signal, as wide as its kind is now."""

    def fresh_values(self, series: Index | slice) -> F64:
        """Returns [series] values, NaN for stale ones."""

    def counter_totals(self, series: Index | slice) -> tuple[F64, F64]:
        """Returns ([series] totals, [series] times in seconds)."""


@dataclass(frozen=True, slots=True)
class NewSamples:
    """The cells that have a new sample in this tick, [k] each."""

    cells: Index
    value: F64
    """In the signal's unit; of a counter its rate per second since the sample before."""
    time: F64
    """Seconds since 1970."""
