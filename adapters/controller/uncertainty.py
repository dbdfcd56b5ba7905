"""Decides whether the engine can judge an earlier incident: unknown never resolves an incident."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.engine import Engine
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.verdict import UNKNOWN, RuleVerdict


@dataclass
class UncertaintyCheck:
    """Looks up the present verdicts of the rules of incidents."""

    engine: Engine
    _positions_by_rule: dict[tuple[str, int], Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """By rule and number of entities: positions in a verdict by entity name."""

    def is_unknown(self, one: Incident) -> bool:
        """Returns whether the verdict of an incident's rule is unknown for all its entities."""
        verdict = next((each for each in self.engine.verdicts if each.rule == one.rule), None)
        return verdict is not None and bool((verdict.state[self._positions_of(one, verdict)] == UNKNOWN).all())

    def _positions_of(self, one: Incident, verdict: RuleVerdict) -> Sequence[int] | slice:
        """Returns the positions of an incident's entities in a verdict; all if none has such a name."""
        key = verdict.rule, len(verdict.names)
        if key not in self._positions_by_rule:
            self._positions_by_rule[key] = self._positions_by_name(verdict)
        known = self._positions_by_rule[key]
        return [n for name in (one.name, *one.also) for n in known.get(name, ())] or slice(None)

    def _positions_by_name(self, verdict: RuleVerdict) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for n, name in enumerate(verdict.names):
            _, shown = self.engine.display_name(verdict.kind, name)
            found.setdefault(shown, []).append(n)
        return found
