"""Decides whether the engine can judge an earlier incident: unknown never resolves an incident."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skewscope.engine.engine import Engine
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.verdict import NO, UNKNOWN, YES, RuleVerdict


@dataclass
class UncertaintyCheck:
    """Looks up the present verdicts of the rules of incidents."""

    engine: Engine
    _positions_by_rule: dict[tuple[str, int], Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """By rule and number of entities: positions in a verdict by entity name."""

    def is_unknown(self, one: Incident) -> bool:
        """Returns whether the verdict of an incident's rule is unknown for all its entities."""
        return self.verdict(one) == UNKNOWN

    def has_rule(self, one: Incident) -> bool:
        """Returns whether the rule of an incident is judged: what a policy derives has none."""
        return one.rule in self.engine.rules

    def present_truth(self, one: Incident) -> list[int] | None:
        """Returns the present verdict of each item of an incident's rule at its place; None where it is not judged."""
        found = next((each for each in self.engine.verdicts if each.rule == one.rule), None)
        at = self._positions_of(one, found) if found is not None else []
        if found is None or not at:
            return None
        best = max(at, key=lambda n: int(found.state[n]))
        truth: list[int] = found.evidence_of([best], numbers=False).evidence[:, 0].tolist()
        return truth

    def verdict(self, one: Incident) -> int:
        """Returns YES if an incident's rule holds on one of its entities, UNKNOWN if it is unknown for all, else NO."""
        found = next((each for each in self.engine.verdicts if each.rule == one.rule), None)
        if found is None:
            return NO
        positions = self._positions_of(one, found)
        if positions and (found.state[positions] == YES).any():
            return YES
        # Where none has such a name, all of them count.
        return UNKNOWN if (found.state[positions or slice(None)] == UNKNOWN).all() else NO

    def _positions_of(self, one: Incident, verdict: RuleVerdict) -> Sequence[int]:
        """Returns the positions of an incident's entities in a verdict."""
        key = verdict.rule, len(verdict.names)
        if key not in self._positions_by_rule:
            self._positions_by_rule[key] = self._positions_by_name(verdict)
        known = self._positions_by_rule[key]
        return [n for name in (one.name, *one.also) for n in known.get(name, ())]

    def _positions_by_name(self, verdict: RuleVerdict) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for n, name in enumerate(verdict.names):
            _, shown = self.engine.display_name(verdict.kind, name)
            found.setdefault(shown, []).append(n)
        return found
