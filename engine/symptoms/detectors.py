"""All detectors of series in one list, over the series that the catalogue's signal entries say how to judge.

What a signal is compared with is said by its `judged` block. A new detector is a file with a `SeriesDetector`, and its
line in the list.
"""

from collections.abc import Mapping

import numpy as np

from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.finding import Finding
from skewscope.engine.model.tick import Tick
from skewscope.engine.model.topology import GonePlaces, Topology
from skewscope.engine.model.transfer import EntityPlaces, copy_items
from skewscope.engine.symptoms.capacity_falls import CapacityFalls, LoadedCapacity
from skewscope.engine.symptoms.cells import CELLS, JudgedCells
from skewscope.engine.symptoms.errors import ErrorBursts
from skewscope.engine.symptoms.events import EventReports
from skewscope.engine.symptoms.exhaustion import Exhaustion
from skewscope.engine.symptoms.few_readings import FewReadings
from skewscope.engine.symptoms.growing_steps import GrowingSteps
from skewscope.engine.symptoms.held_back import HeldBack
from skewscope.engine.symptoms.idle_paths import IdlePaths
from skewscope.engine.symptoms.limits import Limits
from skewscope.engine.symptoms.odd_siblings import OddSiblings
from skewscope.engine.symptoms.past_shifts import PastShifts
from skewscope.engine.symptoms.peer_ratios import PeerRatios
from skewscope.engine.symptoms.pool_changes import PoolChanges
from skewscope.engine.symptoms.progress import ProgressStops, StepStops
from skewscope.engine.symptoms.request_shares import RequestShares
from skewscope.engine.symptoms.samples import MEANS, SampleSource
from skewscope.engine.symptoms.series_detector import SeriesDetector, match_cells
from skewscope.engine.symptoms.series_reader import SeriesReader
from skewscope.engine.symptoms.silence import Silences
from skewscope.engine.symptoms.stalls import RepeatedStalls
from skewscope.engine.symptoms.states import StateChanges
from skewscope.engine.symptoms.uneven_links import UnevenLinks
from skewscope.engine.symptoms.unsettled_pools import UnsettledPools


class SeriesDetectors:
    """The detectors of series, and what they read."""

    def __init__(self, state: SampleSource, topology: Topology) -> None:
        self.cells = cells = JudgedCells(state, topology)
        pools = UnsettledPools(cells)
        self.reader = SeriesReader(cells, pools)
        growing = GrowingSteps(cells)
        self.past = past = PastShifts(cells, growing.explains_length)
        self.silences = Silences(cells)
        paths = IdlePaths(cells, past.shifts)
        self.all: tuple[SeriesDetector, ...] = (
            growing,
            CapacityFalls(cells),
            past,
            PeerRatios(cells, past.shifts),
            paths,
            UnevenLinks(cells, past.shifts, paths.idle_cells),
            ProgressStops(cells),
            StepStops(cells),
            ErrorBursts(cells),
            StateChanges(cells),
            EventReports(cells),
            PoolChanges(cells, pools),
            Limits(cells),
            OddSiblings(cells),
            FewReadings(cells),
            Exhaustion(cells),
            HeldBack(cells),
            LoadedCapacity(cells),
            RequestShares(cells, pools),
            self.silences,
            RepeatedStalls(cells, past.shifts),
        )
        """In the order in which they are given a tick: some read what others before them learned."""
        # Data may end before any series is judged.
        self.grow()

    def read(self, t: float, *, sampled: bool = True) -> Tick:
        """Returns what the tick that ends at `t` seconds brings, if it has samples."""
        if self.cells.grow(t):
            self.grow()
        return self.reader.read(self.reader.begin(t, sampled=sampled), self.past.counts_each())

    def grow(self) -> None:
        """Makes room for new cells."""
        self.reader.grow()
        for detector in self.all:
            detector.grow()

    def prepare(self) -> None:
        """Gives a cell to each series that is new."""
        if self.cells.grow():
            self.grow()

    def retire(self, gone: GonePlaces) -> None:
        """Takes in which places have ended: of what comes there next nothing has begun."""
        self.reader.retire(gone)

    def expect_ends(self, ends: Mapping[SeriesKey, float]) -> None:
        """Tells when the inputs of series end, in seconds since 1970."""
        self.silences.expect_ends(ends)

    def next_change(self) -> float:
        """Returns the time in seconds before which a tick without samples would bring nothing."""
        return self.reader.next_change()

    def judged_signals(self) -> frozenset[str]:
        """Returns the signals of which some series could be compared with its past, or with its good value."""
        judged = np.concatenate([detector.judged_cells() for detector in self.all])
        return frozenset(self.cells.signals[cell].id for cell in judged.tolist())

    def doubts(self) -> tuple[Finding, ...]:
        """Returns what may be bad and cannot be judged."""
        return tuple(each for detector in self.all for each in detector.doubts())

    def take_over(self, before: "SeriesDetectors", entities: EntityPlaces) -> None:
        """Takes over all that others learned of the series that both have.

        Called before the first sample, with a cell for each series.

        Args:
            before: the detectors that go.
            entities: what the topologies have in common.
        """
        places = match_cells(self.cells, before.cells)
        copy_items(self.cells, before.cells, CELLS, places.cells)
        means = self.cells.means, before.cells.means
        copy_items(*means, MEANS, places.of_some(means[0].at, means[1].at))
        self.reader.take_over(before.reader, places)
        for new, old in zip(self.all, before.all, strict=True):
            new.take_over(old, places)
            new.keep_known(entities.has)
