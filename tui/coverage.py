"""Which conditions can be diagnosed with the signals there are, and which signal would help most. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skewscope.engine.topology import Topology
from skewscope.kb.model import Catalogue
from skewscope.rules.model import Evidence, Rule
from skewscope.tui.show import table
from skewscope.tui.text import Line, line

VERDICTS = ("full", "partial", "blind", "no rule")
_ROLES = {"full": "ok", "partial": "warn", "blind": "crit", "no rule": "dim"}
_READABLE = ("direct", "partial", "proxy")
"""What a DPU reads by itself."""


@dataclass(frozen=True, slots=True)
class Covered:
    """How well one condition can be judged, by the rule that judges it best."""

    condition: str
    verdict: str
    """full, partial, blind or no rule."""
    rule: str = ""
    share: float = 0.0
    """Of the rule's evidence, by weight."""
    blocking: tuple[str, ...] = ()
    """Signals without which the rule can never fire."""
    missing: tuple[str, ...] = ()
    """All signals of its evidence that are not there."""


@dataclass(frozen=True, slots=True)
class Unlock:
    """A signal that is not there, how many conditions it alone would open, and how many rules would see more."""

    signal: str
    opens: int
    helps: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """The whole picture."""

    conditions: tuple[Covered, ...]
    unlocks: tuple[Unlock, ...]


def visible(topology: Topology, catalogue: Catalogue) -> frozenset[str]:
    """Signals that the DPUs of a topology can read by themselves."""
    seen = {network for node in topology.nodes for network in node.sees}
    if not seen:
        return frozenset()
    places = seen | {"dpu", "pcie"}
    found = (s for s in catalogue.signals.values() if s.dpu_access in _READABLE and places & set(s.vantage))
    return frozenset(s.id for s in found)


def coverage(rules: Iterable[Rule], conditions: Iterable[str], signals: frozenset[str]) -> Coverage:
    """What can be diagnosed by these rules from these signals."""
    judged: dict[str, list[Covered]] = {}
    for rule in rules:
        judged.setdefault(rule.condition, []).append(_judge(rule, signals))
    every = [covered for found in judged.values() for covered in found]
    best = {id_: min(found, key=_quality) for id_, found in judged.items()}
    covered = [best.get(id_) or Covered(id_, "no rule") for id_ in sorted({*conditions, *judged})]
    covered.sort(key=lambda c: (VERDICTS.index(c.verdict), c.condition))
    return Coverage(tuple(covered), _unlocks(covered, every))


def _quality(covered: Covered) -> tuple[int, float, str]:
    return VERDICTS.index(covered.verdict), -covered.share, covered.rule


def _judge(rule: Rule, signals: frozenset[str]) -> Covered:
    total = sum(item.weight for item in rule.evidence)
    seen = sum(item.weight for item in rule.evidence if _lacks(item, signals) == ())
    missing = tuple(sorted({name for item in rule.evidence for name in _lacks(item, signals)}))
    blocking = _blocking(rule, signals)
    verdict = "blind" if blocking else "partial" if missing else "full"
    return Covered(rule.condition, verdict, rule.id, round(seen / total, 3) if total else 0.0, blocking, missing)


def _lacks(item: Evidence, signals: frozenset[str]) -> tuple[str, ...]:
    return item.when.lacking(signals)


def _blocking(rule: Rule, signals: frozenset[str]) -> tuple[str, ...]:
    """What keeps the rule from ever firing: a required item unseen, or too little weight left to reach its score."""
    pro = [item for item in rule.evidence if not item.against]
    needed = {name for item in pro if item.required for name in _lacks(item, signals)}
    needed.update(rule.applies_when.lacking(signals) if rule.applies_when else ())
    within_reach = sum(item.weight for item in pro if not _lacks(item, signals))
    if not needed and within_reach < rule.fire.score:
        needed = {name for item in pro for name in _lacks(item, signals)}
    return tuple(sorted(needed))


def _unlocks(covered: Iterable[Covered], every: Iterable[Covered]) -> tuple[Unlock, ...]:
    blind = {c.condition for c in covered if c.verdict == "blind"}
    opens: dict[str, set[str]] = {}
    helps: dict[str, set[str]] = {}
    for each in every:
        for name in {*each.missing, *each.blocking}:
            helps.setdefault(name, set()).add(each.rule)
        if each.condition in blind and len(each.blocking) == 1:
            opens.setdefault(each.blocking[0], set()).add(each.condition)
    found = [Unlock(name, len(opens.get(name, ())), len(rules)) for name, rules in helps.items()]
    return tuple(sorted(found, key=lambda u: (-u.opens, -u.helps, u.signal)))


def coverage_lines(found: Coverage, names: Mapping[str, str]) -> list[Line]:
    """The picture as text."""
    counts = {verdict: sum(c.verdict == verdict for c in found.conditions) for verdict in VERDICTS}
    total = len(found.conditions)
    said = f"{counts['full']} of {total} conditions can be fully judged, {counts['partial']} in part"
    out = [line(f"{said}, {counts['blind']} are blind and {counts['no rule']} have no rule yet.", "title"), ()]
    rows = [(c.condition, c.verdict, f"{round(100 * c.share)} %", _why(c)) for c in found.conditions]
    title, *body = table(rows, ("condition", "judged", "evidence", "not there"))
    roles = [_ROLES[c.verdict] for c in found.conditions]
    out += [title, *((first, (rest[0], role)) for (first, rest), role in zip(body, roles, strict=True))]
    if found.unlocks:
        out += [(), line("What would help most", "title")]
        best = [(u.signal, str(u.opens), str(u.helps), names.get(u.signal, "")) for u in found.unlocks[:10]]
        out += table(best, ("signal", "opens conditions", "helps rules", "name"))
    return out


def _why(covered: Covered) -> str:
    if covered.blocking:
        return "needs " + ", ".join(covered.blocking)
    return ", ".join(covered.missing)
