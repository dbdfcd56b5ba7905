"""Counts of what happened to the actions of a controller since it started, for its metrics."""

from collections import Counter
from dataclasses import dataclass, field

from skewscope.engine.actions.action import Action


@dataclass
class ActionCounts:
    """Counts that only grow."""

    entered: Counter[str] = field(default_factory=Counter)
    """Actions that came into a state, by state."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Actions that were judged, by outcome."""
    blocks: Counter[str] = field(default_factory=Counter)
    """Times that an approved action began to wait, by the reason: a kind of limit, `freeze`, or `target`."""

    def record(self, before: Action | None, after: Action) -> None:
        """Counts what is new in an action."""
        if before is None or before.state != after.state:
            self.entered[after.state] += 1
        if after.outcome and (before is None or before.outcome != after.outcome):
            self.outcomes[after.outcome] += 1
