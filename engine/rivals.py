"""What else it could be: the look-alikes of a diagnosis, and what fires beside it."""

from collections.abc import Sequence

from skewscope.engine.attribution import Suspect, closeness
from skewscope.engine.cases import Case
from skewscope.engine.confidence import GAIN, PRIOR, probability
from skewscope.engine.places import Entity, Places
from skewscope.engine.tracks import Tracks
from skewscope.engine.verdict import UNKNOWN
from skewscope.kb.model import Catalogue

NEAR = 2
"""The same group at least; see `closeness`."""


class Rivals:
    """Compares cases with what else could be the matter."""

    def __init__(self, catalogue: Catalogue, places: Places, tracks: Tracks) -> None:
        self.catalogue, self.places, self.tracks = catalogue, places, tracks

    def compare(self, case: Case) -> None:
        """Note how likely each look-alike is by its own rules, in the tick in which the case spoke loudest."""
        for condition, test in self._tests(case.condition).items():
            case.rivals[condition] = (self._chance(condition, case.leader), test)

    def _tests(self, condition: str) -> dict[str, str]:
        """Look-alikes and what separates them, whichever side says so."""
        conditions = self.catalogue.conditions
        tests = {
            id_: look.separate_by
            for id_, other in sorted(conditions.items())
            for look in other.lookalikes
            if look.condition == condition
        }
        known = conditions.get(condition)
        return tests | {look.condition: look.separate_by for look in (known.lookalikes if known else ())}

    def _chance(self, condition: str, entity: Entity) -> float:
        """How likely a condition is on an entity or next to it: the prior where nothing judges it."""
        if not self.tracks.judged(condition):
            return probability(PRIOR)
        here = Suspect("", "", (entity,), 0.0, 0.0)
        near = [
            probability(voice.log_odds)
            for other, voice in self.tracks.chances(condition)
            if closeness(here, Suspect("", "", (other,), 0.0, 0.0), self.places) >= NEAR
        ]
        # Judged, but not among those for which anything speaks.
        return max(near, default=probability(PRIOR - GAIN / 2))

    def weigh(self, roots: Sequence[Case]) -> None:
        """Note the other roots that fire in the same place; the likeliest of them makes a case less sure."""
        at: dict[str, list[Case]] = {}
        for case in roots:
            for token in self._tokens(case):
                at.setdefault(token, []).append(case)
        for case in roots:
            near = {other.id: other for token in self._tokens(case) for other in at[token]}
            for _, other in sorted(near.items()):
                if other.condition != case.condition:
                    self._beside(case, other)

    def _tokens(self, case: Case) -> frozenset[str]:
        """The entity, its nodes and its groups."""
        place = self.places.of(case.leader)
        return place.own | place.nodes | place.groups

    def _beside(self, case: Case, other: Case) -> None:
        chance = probability(other.voice.log_odds, agreeing=other.agreeing)
        before, test = case.rivals.get(other.condition, (0.0, ""))
        case.rivals[other.condition] = (max(before, chance), test or _open_question(case))
        case.rival = max(case.rival, chance)


def _open_question(case: Case) -> str:
    """The heaviest item that could not be judged, as the measurement that would tell; '' when all was seen."""
    items = zip(case.voice.info.items, case.voice.verdicts, strict=True)
    missing = [item for item, verdict in items if verdict == UNKNOWN and item.signals]
    heaviest = min(missing, key=lambda i: (-i.weight, i.name), default=None)
    return f"{', '.join(heaviest.signals)} ({heaviest.name})" if heaviest else ""
