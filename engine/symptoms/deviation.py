"""One signal that is plainly abnormal on one entity."""

from dataclasses import dataclass

from skewscope.engine.model.locality import Entity
from skewscope.kb.model import Signal

PAST, PEERS, MOVING, ZERO, REPEATS = "past", "peers", "moving", "zero", "repeats"
"""Forms of a deviation: from its own past, from its peers, moving between peers, to nothing, again and again."""

DeviationKey = tuple[str, Entity, str]
"""Signal, place and form."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One signal that is abnormal on one entity, as of now."""

    signal: Signal
    place: Entity
    form: str
    """PAST, PEERS, MOVING, ZERO or REPEATS."""
    direction: str
    """up, down, stops, begins or uneven."""
    since: float
    """Seconds since 1970."""
    value: float
    """In the signal's unit; of a counter its rate per second."""
    before: float
    """The healthy value: of its own past, or of its peers."""

    @property
    def key(self) -> DeviationKey:
        """Identifies it while it lasts."""
        return self.signal.id, self.place, self.form

    @property
    def ratio(self) -> float:
        """The value over the healthy one; 0 where that is zero."""
        return self.value / self.before if self.before else 0.0

    @property
    def size(self) -> float:
        """How far it is from the healthy value, as a factor of at least 1."""
        ratio = abs(self.ratio)
        return max(ratio, 1 / ratio) if ratio > 0 else 10.0

    @property
    def symptom(self) -> str:
        """Id of the symptom that it shows."""
        judged = self.signal.judged
        return judged.symptom if judged else ""
