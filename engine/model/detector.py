"""The protocol of what finds: every detector of series, and the judge of rules, satisfies it and stands in one list."""

from collections.abc import Sequence
from typing import Protocol

from skewscope.engine.model.finding import FindingBatch
from skewscope.engine.model.tick import Tick


class FindingDetector(Protocol):
    """What finds. It is given the telemetry tick by tick, in the order of time."""

    def grow(self) -> None:
        """Makes room for series or entities that are new."""

    def step(self, tick: Tick) -> None:
        """Takes in what a tick brings."""

    def findings(self) -> Sequence[FindingBatch]:
        """Returns what it finds as of the last tick, in batches."""

    def conclude(self) -> None:
        """Ends the data: what was bad from the first to the last sample is found."""

    def next_change(self) -> float:
        """Returns the time in seconds before which a tick without samples would change nothing."""
