"""Whether the engine can say at all if something still holds: what is unknown ends no incident."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.diagnosis import Diagnosis
from skewscope.engine.incident import Incident
from skewscope.engine.places import Entity
from skewscope.engine.verdict import UNKNOWN, RuleVerdict


@dataclass
class Doubt:
    """Looks at what the rules of incidents say now."""

    diagnosis: Diagnosis
    _places: dict[tuple[str, int], Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """Of each rule and number of entities: where those stand that people call so."""

    def unknown(self, one: Incident) -> bool:
        """Whether the rule that told of an incident knows nothing of what it was about."""
        verdict = next((each for each in self.diagnosis.verdicts if each.rule == one.rule), None)
        return verdict is not None and bool((verdict.state[self._about(one, verdict)] == UNKNOWN).all())

    def _about(self, one: Incident, verdict: RuleVerdict) -> Sequence[int] | slice:
        """Where in a verdict that stands which an incident is about; all of it where nothing there is called so."""
        key = verdict.rule, len(verdict.names)
        if key not in self._places:
            self._places[key] = self._called(verdict)
        known = self._places[key]
        return [n for name in (one.name, *one.also) for n in known.get(name, ())] or slice(None)

    def _called(self, verdict: RuleVerdict) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for n, name in enumerate(verdict.names):
            _, shown = self.diagnosis.incidents.places.shown(Entity(verdict.kind, name))
            found.setdefault(shown, []).append(n)
        return found
