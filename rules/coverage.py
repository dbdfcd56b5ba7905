"""Which conditions can be diagnosed from the signals there are, and which signal would help most. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from skewscope.kb.model import Catalogue, Condition
from skewscope.rules.model import EvidenceItem, Rule

VERDICTS = ("full", "partial", "seen", "blind", "hidden")
"""full, partial: a rule judges it by all or some of its evidence; seen: the catalogue's signals are there, but no rule;
blind: signals are missing; hidden: no signal shows it, whatever is delivered."""

VISIBLE_VERDICTS = ("visible", "relayed", "partial")
"""Verdicts of the catalogue that grant some sight, the best first."""

DPU_READABLE = ("direct", "partial", "proxy")
"""What a DPU reads by itself."""


@dataclass(frozen=True, slots=True)
class ConditionCoverage:
    """How well one condition can be told, by the rule that judges it best or by what the catalogue says it needs."""

    condition: str
    verdict: str
    """One of VERDICTS."""
    rule: str = ""
    share: float = 0.0
    """Of the rule's evidence by weight, or of the signals that the catalogue says it needs."""
    blocking: tuple[str, ...] = ()
    """Signals without which it can never be told."""
    missing: tuple[str, ...] = ()
    """All signals of its evidence, or of what it needs, that are not there."""
    sight: str = ""
    """visible, relayed or partial: what the catalogue says can be seen with what is there; '' for nothing."""


@dataclass(frozen=True, slots=True)
class MissingSignal:
    """A signal that is not there."""

    signal: str
    opens: tuple[str, ...]
    """Conditions that it alone would make judged or seen."""
    helps: int
    """How many conditions would be seen better."""


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """The whole picture."""

    conditions: tuple[ConditionCoverage, ...]
    unlocks: tuple[MissingSignal, ...]


def dpu_readable_signals(catalogue: Catalogue, networks: Iterable[str]) -> frozenset[str]:
    """Signals that DPUs read by themselves where they stand on these networks (north-south, east-west)."""
    seen = set(networks)
    if not seen:
        return frozenset()
    places = seen | {"dpu", "pcie"}
    found = (s for s in catalogue.signals.values() if s.dpu_access in DPU_READABLE and places & set(s.vantage))
    return frozenset(s.id for s in found)


def exported_signals(catalogue: Catalogue, exporters: Iterable[str]) -> frozenset[str]:
    """Signals for which at least one of these exporters has a name."""
    wanted = set(exporters)
    return frozenset(s.id for s in catalogue.signals.values() if wanted & s.sources.keys())


def count_exporter_signals(catalogue: Catalogue) -> dict[str, int]:
    """Every exporter that the catalogue knows, and of how many signals it has names for."""
    found: dict[str, int] = {}
    for signal in catalogue.signals.values():
        for name in signal.sources:
            found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))


def compute_coverage(rules: Iterable[Rule], conditions: Iterable[Condition], signals: frozenset[str]) -> CoverageReport:
    """What can be diagnosed by these rules, or at least be seen, from these signals."""
    judged: dict[str, list[ConditionCoverage]] = {}
    for rule in rules:
        judged.setdefault(rule.condition, []).append(_cover_rule(rule, signals))
    held = [c for c in conditions if c.maturity != "withdrawn"]
    covered = [_cover_condition(c, judged.get(c.id, []), signals) for c in held]
    covered.sort(key=lambda c: (VERDICTS.index(c.verdict), c.condition))
    return CoverageReport(
        tuple(covered), _rank_missing_signals(covered, [c for found in judged.values() for c in found])
    )


def _cover_condition(c: Condition, judged: list[ConditionCoverage], signals: frozenset[str]) -> ConditionCoverage:
    sight, missing, share = _visibility(c, signals)
    if judged:
        best = min(judged, key=_sort_key)
        return ConditionCoverage(c.id, best.verdict, best.rule, best.share, best.blocking, best.missing, sight)
    if sight:
        return ConditionCoverage(c.id, "seen", "", 1.0, (), (), sight)
    return ConditionCoverage(c.id, "blind" if missing else "hidden", "", share, missing, missing, "")


def _visibility(c: Condition, signals: frozenset[str]) -> tuple[str, tuple[str, ...], float]:
    """The best that the catalogue grants with these signals; else what the nearest deployment lacks, and its share."""
    seen = [o for o in c.observability if o.needs and o.verdict in VISIBLE_VERDICTS]
    there = [o.verdict for o in seen if signals.issuperset(o.needs)]
    if there:
        return min(there, key=VISIBLE_VERDICTS.index), (), 1.0
    lacking = [(tuple(sorted(set(o.needs) - signals)), len(o.needs)) for o in seen]
    if not lacking:
        return "", (), 0.0
    missing, needed = min(lacking, key=lambda pair: (len(pair[0]), pair[0]))
    return "", missing, round(1 - len(missing) / needed, 3)


def _sort_key(covered: ConditionCoverage) -> tuple[int, float, str]:
    return VERDICTS.index(covered.verdict), -covered.share, covered.rule


def _cover_rule(rule: Rule, signals: frozenset[str]) -> ConditionCoverage:
    total = sum(item.weight for item in rule.evidence)
    seen = sum(item.weight for item in rule.evidence if _missing_signals(item, signals) == ())
    missing = tuple(sorted({name for item in rule.evidence for name in _missing_signals(item, signals)}))
    blocking = _blocking_signals(rule, signals)
    verdict = "blind" if blocking else "partial" if missing else "full"
    return ConditionCoverage(
        rule.condition, verdict, rule.id, round(seen / total, 3) if total else 0.0, blocking, missing
    )


def _missing_signals(item: EvidenceItem, signals: frozenset[str]) -> tuple[str, ...]:
    return item.when.missing_signals(signals)


def _blocking_signals(rule: Rule, signals: frozenset[str]) -> tuple[str, ...]:
    """What keeps the rule from ever firing: a required item unseen, or too little weight left to reach its score."""
    pro = [item for item in rule.evidence if not item.against]
    needed = {name for item in pro if item.required for name in _missing_signals(item, signals)}
    needed.update(rule.applies_when.missing_signals(signals) if rule.applies_when else ())
    within_reach = sum(item.weight for item in pro if not _missing_signals(item, signals))
    if not needed and within_reach < rule.fire.score:
        needed = {name for item in pro for name in _missing_signals(item, signals)}
    return tuple(sorted(needed))


def _rank_missing_signals(
    covered: Iterable[ConditionCoverage], every: Iterable[ConditionCoverage]
) -> tuple[MissingSignal, ...]:
    opens: dict[str, set[str]] = {}
    helps: dict[str, set[str]] = {}
    for each in covered:
        for name in (*each.missing, *each.blocking):
            helps.setdefault(name, set()).add(each.condition)
    blind = {each.condition for each in covered if each.verdict == "blind"}
    for each in _with_alternatives(covered, every):
        if each.condition in blind and len(each.blocking) == 1:
            opens.setdefault(each.blocking[0], set()).add(each.condition)
    names = sorted({*helps, *opens})
    found = [MissingSignal(name, tuple(sorted(opens.get(name, ()))), len(helps.get(name, ()))) for name in names]
    return tuple(sorted(found, key=lambda u: (-len(u.opens), -u.helps, u.signal)))


def _with_alternatives(
    covered: Iterable[ConditionCoverage], every: Iterable[ConditionCoverage]
) -> Iterator[ConditionCoverage]:
    """What each condition lacks, and what each further rule that could judge it lacks."""
    yield from every
    yield from (each for each in covered if not each.rule)


def count_verdicts(found: CoverageReport) -> Mapping[str, int]:
    """How many conditions have each verdict."""
    return {verdict: sum(c.verdict == verdict for c in found.conditions) for verdict in VERDICTS}
