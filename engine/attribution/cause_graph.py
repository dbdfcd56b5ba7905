"""The causal graph of the catalogue: which condition may bring about which."""

from skewscope.kb.model import Catalogue, CausalLink

MAX_CAUSAL_STEPS = 3
"""Links of the causal graph from one observed condition to another."""
TELEMETRY = "telemetry"
"""The group of conditions that say of telemetry that it is missing or wrong, and nothing of work."""


class CauseGraph:
    """The causal graph of the catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._effects_of: dict[str, set[str]] = {}
        self._sibling_links: set[tuple[str, str]] = set()
        self._of_telemetry = frozenset(c.id for c in catalogue.conditions.values() if c.group == TELEMETRY)
        for condition in catalogue.conditions.values():
            for link in condition.effects:
                self._add(condition.id, link.condition, link)
            for link in condition.causes:
                self._add(link.condition, condition.id, link)
        self._with_sibling_effects = frozenset(cause for cause, _ in self._sibling_links)
        self._of_load = frozenset(effect for _, effect in self._sibling_links)
        self._reachable: dict[str, frozenset[str]] = {}
        self._direct_causes: dict[str, frozenset[str]] = {}

    def _add(self, cause: str, effect: str, link: CausalLink) -> None:
        self._effects_of.setdefault(cause, set()).add(effect)
        if link.siblings:
            self._sibling_links.add((cause, effect))

    def effects(self, condition: str) -> frozenset[str]:
        """Returns the effects of a condition, direct ones and those through conditions that were not observed."""
        if condition not in self._reachable:
            found: set[str] = set()
            frontier = {condition}
            for _ in range(MAX_CAUSAL_STEPS):
                frontier = {e for c in frontier for e in self._effects_of.get(c, ())} - found
                found |= frontier
            self._reachable[condition] = frozenset(found - {condition})
        return self._reachable[condition]

    def passing_effects(self, condition: str) -> frozenset[str]:
        """Returns what a condition brings about until it is over: its effects, but for what is of telemetry alone."""
        return self.effects(condition) - self._of_telemetry

    def reaches_siblings(self, cause: str, effect: str) -> bool:
        """Whether a cause on one replica of a pool has this effect on the other replicas."""
        return (cause, effect) in self._sibling_links

    def has_sibling_effects(self, condition: str) -> bool:
        """Whether a condition on one replica of a pool shows on the others, which take its load."""
        return condition in self._with_sibling_effects

    def is_of_load(self, condition: str) -> bool:
        """Whether a condition is one that the load of other replicas brings about."""
        return condition in self._of_load

    def is_of_telemetry(self, condition: str) -> bool:
        """Whether a condition says of telemetry that it is missing or wrong, and nothing of work."""
        return condition in self._of_telemetry

    def direct_causes(self, condition: str) -> frozenset[str]:
        """Returns the direct causes of a condition."""
        if condition not in self._direct_causes:
            self._direct_causes[condition] = frozenset(
                cause for cause, effects in self._effects_of.items() if condition in effects
            )
        return self._direct_causes[condition]
