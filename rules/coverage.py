"""Which conditions can be diagnosed from the available signals, and which signal would help most. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from skewscope.kb.exporter_settings import SignalSource, find_signal_source, load_settings
from skewscope.kb.model import Catalogue, Condition
from skewscope.kb.signatures import is_detectable
from skewscope.rules.model import EvidenceItem, Rule

VERDICTS = ("full", "partial", "candidate", "seen", "blind", "hidden")
"""full, partial: a rule judges it with all or some of its evidence; candidate: no rule can, but symptoms that it causes
are detected; seen: its signals are available, but there is no rule; blind: signals are missing; hidden: no signal shows
it."""

VISIBLE_VERDICTS = ("visible", "relayed", "partial")
"""Verdicts of the catalogue that mean some visibility, the best first."""

MIN_SHARED = 2
"""Signals that only one exporter explains for it to count as present."""

WORK_OF_SIGNALS = {"step": "training", "nccl": "training", "serve": "inference"}
"""The work of which a signal is, by the first part of its id."""

DPU_READABLE = ("direct", "partial", "proxy")
"""Kinds of access with which a DPU reads a signal itself."""


@dataclass(frozen=True, slots=True)
class ConditionCoverage:
    """How well one condition can be diagnosed, by its best rule or by the signals that the catalogue requires."""

    condition: str
    verdict: str
    """One of VERDICTS."""
    rule: str = ""
    share: float = 0.0
    """Available share of the rule's evidence by weight, or of the signals that the catalogue requires."""
    blocking: tuple[str, ...] = ()
    """Signals without which it can never be diagnosed."""
    missing: tuple[str, ...] = ()
    """All missing signals of its evidence, or of those that the catalogue requires."""
    sight: str = ""
    """visible, relayed or partial: visibility with the available signals according to the catalogue; '' for none."""


@dataclass(frozen=True, slots=True)
class MissingSignal:
    """A signal that is not available."""

    signal: str
    opens: tuple[str, ...]
    """Conditions that this signal alone would make judged or visible."""
    helps: int
    """Number of conditions whose coverage would improve."""
    decides: bool = False
    """Whether it would tell the causes of a symptom apart."""


@dataclass(frozen=True, slots=True)
class FirstAddition:
    """The missing signal to add first, and how."""

    missing: MissingSignal
    source: SignalSource


@dataclass(frozen=True, slots=True)
class AdditionHints:
    """What a diagnosis says of the signal to add first."""

    exporters: frozenset[str] = frozenset()
    """Exporters whose signals are there."""
    decides: tuple[str, ...] = ()
    """Signals that would tell the causes of symptoms apart, the most urgent symptom's first."""
    conditions: frozenset[str] = frozenset()
    """Conditions that may be present and lack telemetry to be judged."""


NO_HINTS = AdditionHints()
AGENT = "skewscope_agent"
"""The exporter that runs on DPUs."""
NETWORK_SIGNALS = ("wire.", "port.", "rdma.", "cc.", "dpu.", "nccl.")
"""How signals begin that are of the network, where DPUs are."""


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """Coverage of all conditions, and the signals that would improve it."""

    conditions: tuple[ConditionCoverage, ...]
    unlocks: tuple[MissingSignal, ...]


def dpu_readable_signals(catalogue: Catalogue, networks: Iterable[str]) -> frozenset[str]:
    """Returns the signals that DPUs on these networks (north-south, east-west) read themselves."""
    seen = set(networks)
    if not seen:
        return frozenset()
    places = seen | {"dpu", "pcie"}
    found = (s for s in catalogue.signals.values() if s.dpu_access in DPU_READABLE and places & set(s.vantage))
    return frozenset(s.id for s in found)


def exported_signals(catalogue: Catalogue, exporters: Iterable[str]) -> frozenset[str]:
    """Returns the signals for which at least one of these exporters has a name."""
    wanted = set(exporters)
    return frozenset(s.id for s in catalogue.signals.values() if wanted & s.sources.keys())


def count_exporter_signals(catalogue: Catalogue) -> dict[str, int]:
    """Returns the number of signals that each exporter of the catalogue has names for."""
    found: dict[str, int] = {}
    for signal in catalogue.signals.values():
        for name in signal.sources:
            found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))


def symptom_signals(catalogue: Catalogue) -> dict[str, frozenset[str]]:
    """Returns for each condition the signals in which the detector of symptoms can find it."""
    return {
        name: frozenset(
            item.signal for item in condition.signature if is_detectable(item, catalogue.signals[item.signal])
        )
        for name, condition in catalogue.conditions.items()
    }


def compute_coverage(
    rules: Iterable[Rule],
    conditions: Iterable[Condition],
    signals: frozenset[str],
    detectable: Mapping[str, frozenset[str]] | None = None,
) -> CoverageReport:
    """Compute which conditions these rules can diagnose, or the catalogue calls visible, from these signals.

    Args:
        rules: the rules in force.
        conditions: those of the catalogue.
        signals: the available ones.
        detectable: by condition, the signals in which the detector of symptoms can find it.
    """
    shown = {name: not signals.isdisjoint(some) for name, some in (detectable or {}).items()}
    judged: dict[str, list[ConditionCoverage]] = {}
    for rule in rules:
        judged.setdefault(rule.condition, []).append(_cover_rule(rule, signals))
    held = [c for c in conditions if c.maturity != "withdrawn"]
    covered = [_cover_condition(c, judged.get(c.id, []), signals, shows=shown.get(c.id, False)) for c in held]
    covered.sort(key=lambda c: (VERDICTS.index(c.verdict), c.condition))
    return CoverageReport(
        tuple(covered), _rank_missing_signals(covered, [c for found in judged.values() for c in found])
    )


def _cover_condition(
    c: Condition, judged: list[ConditionCoverage], signals: frozenset[str], *, shows: bool
) -> ConditionCoverage:
    """Returns the coverage of a condition; `shows` says whether symptoms that it causes are detected."""
    sight, missing, share = _visibility(c, signals)
    if judged:
        best = min(judged, key=_sort_key)
        verdict = "candidate" if shows and best.verdict == "blind" else best.verdict
        return ConditionCoverage(c.id, verdict, best.rule, best.share, best.blocking, best.missing, sight)
    if shows:
        return ConditionCoverage(c.id, "candidate", "", share, (), missing, sight)
    if sight:
        return ConditionCoverage(c.id, "seen", "", 1.0, (), (), sight)
    return ConditionCoverage(c.id, "blind" if missing else "hidden", "", share, missing, missing, "")


def _visibility(c: Condition, signals: frozenset[str]) -> tuple[str, tuple[str, ...], float]:
    """Returns the best visibility with these signals; else what the nearest deployment lacks, and its share."""
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
    blocking = rule.blocking_signals(signals)
    verdict = "blind" if blocking else "partial" if missing else "full"
    return ConditionCoverage(
        rule.condition, verdict, rule.id, round(seen / total, 3) if total else 0.0, blocking, missing
    )


def _missing_signals(item: EvidenceItem, signals: frozenset[str]) -> tuple[str, ...]:
    return item.when.missing_signals(signals)


def _rank_missing_signals(
    covered: Iterable[ConditionCoverage], every: Iterable[ConditionCoverage]
) -> tuple[MissingSignal, ...]:
    opens: dict[str, set[str]] = {}
    helps: dict[str, set[str]] = {}
    for each in covered:
        for name in (*each.missing, *each.blocking):
            helps.setdefault(name, set()).add(each.condition)
    blind = {each.condition for each in covered if each.verdict in {"blind", "candidate"}}
    for each in _with_alternatives(covered, every):
        if each.condition in blind and len(each.blocking) == 1:
            opens.setdefault(each.blocking[0], set()).add(each.condition)
    names = sorted({*helps, *opens})
    found = [MissingSignal(name, tuple(sorted(opens.get(name, ()))), len(helps.get(name, ()))) for name in names]
    return tuple(sorted(found, key=lambda u: (-len(u.opens), -u.helps, u.signal)))


def _with_alternatives(
    covered: Iterable[ConditionCoverage], every: Iterable[ConditionCoverage]
) -> Iterator[ConditionCoverage]:
    """Yield the coverage of each condition by every rule, and of conditions without one."""
    yield from every
    yield from (each for each in covered if not each.rule)


def choose_first_addition(
    found: CoverageReport, catalogue: Catalogue, signals: frozenset[str], hints: AdditionHints = NO_HINTS
) -> FirstAddition | None:
    """Returns the most useful signal of an exporter that is there, else of any; None if nothing helps.

    What a diagnosis left open comes first: a signal that would tell the causes of a symptom apart, then one that would
    help to judge a condition that lacks telemetry.

    Args:
        found: the coverage by the available signals.
        catalogue: the catalogue.
        signals: the available ones.
        hints: where they are from, and what a diagnosis of them left open.
    """
    present = present_exporters(catalogue, signals, hints.exporters)
    # Who has the log of a job or an engine alone has no DPU to ask.
    has_network = AGENT in present or any(name.startswith(NETWORK_SIGNALS) for name in signals)
    known = {unlock.signal: unlock for unlock in found.unlocks}
    missing = [name for name in hints.decides if name not in signals and name in catalogue.signals]
    decisive = [replace(known.get(name, MissingSignal(name, (), 0)), decides=True) for name in missing]
    fitting = _rank_open(found, _fitting_conditions(catalogue, signals))
    for unlocks in (decisive, _rank_open(found, hints.conditions), fitting, found.unlocks):
        ways = [(each, find_signal_source(catalogue.signals[each.signal], present)) for each in unlocks]
        usable = [FirstAddition(each, way) for each, way in ways if way is not None and way.setting]
        usable = [each for each in usable if has_network or each.source.exporter != AGENT]
        near = [each for each in usable if each.source.exporter in present]
        if usable:
            return (near or usable)[0]
    return None


def _fitting_conditions(catalogue: Catalogue, signals: frozenset[str]) -> frozenset[str]:
    """Returns the conditions of the work that some signals are of; none where they are of both kinds or of neither."""
    works = {WORK_OF_SIGNALS[start] for name in signals if (start := name.partition(".")[0]) in WORK_OF_SIGNALS}
    some = (one.id for one in catalogue.conditions.values() if works & {*one.scope})
    return frozenset(some) if len(works) == 1 else frozenset()


def _rank_open(found: CoverageReport, conditions: frozenset[str]) -> tuple[MissingSignal, ...]:
    """Returns the missing signals that help to judge some conditions, and with how many of them."""
    covered = [each for each in found.conditions if each.condition in conditions]
    helps = {each.signal: each for each in _rank_missing_signals(covered, covered)}
    opens = {each.signal: tuple(sorted(conditions & {*each.opens})) for each in found.unlocks}
    ranked = (replace(each, opens=opens.get(name, each.opens)) for name, each in helps.items())
    return tuple(sorted(ranked, key=lambda each: (-len(each.opens), -each.helps, each.signal)))


def present_exporters(
    catalogue: Catalogue, signals: frozenset[str], named: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Returns exporters that explain most of some signals: repeatedly the one that has most of the rest.

    A single signal makes no exporter: others may deliver it too. Exporters that are named explain their signals first.
    """
    names = sorted({setting.exporter for setting in load_settings()})
    offers = {name: exported_signals(catalogue, [name]) for name in names}
    found = set(named)
    rest = signals - exported_signals(catalogue, named)
    while best := max(offers, key=lambda name: (len(offers[name] & rest), name)):
        if len(offers[best] & rest) < MIN_SHARED:
            break
        found.add(best)
        rest -= offers[best]
    return frozenset(found)


def count_verdicts(found: CoverageReport) -> Mapping[str, int]:
    """Returns the number of conditions with each verdict."""
    return {verdict: sum(c.verdict == verdict for c in found.conditions) for verdict in VERDICTS}
