"""Whether the engine can say at all if something still holds: what is unknown ends no incident."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.engine import Engine
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.locality import Entity
from skewscope.engine.model.verdict import UNKNOWN, RuleVerdict


@dataclass
class UncertaintyCheck:
    """Looks at what the rules of incidents say now."""

    engine: Engine
    _positions_by_rule: dict[tuple[str, int], Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """Of each rule and number of entities: where those stand that people call so."""

    def is_unknown(self, one: Incident) -> bool:
        """Whether the rule that told of an incident knows nothing of what it was about."""
        verdict = next((each for each in self.engine.verdicts if each.rule == one.rule), None)
        return verdict is not None and bool((verdict.state[self._positions_of(one, verdict)] == UNKNOWN).all())

    def _positions_of(self, one: Incident, verdict: RuleVerdict) -> Sequence[int] | slice:
        """Where in a verdict that stands which an incident is about; all of it where nothing there is called so."""
        key = verdict.rule, len(verdict.names)
        if key not in self._positions_by_rule:
            self._positions_by_rule[key] = self._positions_by_name(verdict)
        known = self._positions_by_rule[key]
        return [n for name in (one.name, *one.also) for n in known.get(name, ())] or slice(None)

    def _positions_by_name(self, verdict: RuleVerdict) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for n, name in enumerate(verdict.names):
            _, shown = self.engine.incidents.locality.display_name(Entity(verdict.kind, name))
            found.setdefault(shown, []).append(n)
        return found
