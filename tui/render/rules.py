"""Rules, case results and mutants as lines. Pure."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from skewscope.rules.model import EvidenceItem, Rule, ThresholdBasis
from skewscope.tui.render import units
from skewscope.tui.render.blocks import bullet_lines, fact_lines
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import Line, line

if TYPE_CHECKING:
    # running cases needs numpy, printing rules does not
    from skewscope.engine.casetest.case_runner import CaseResult
    from skewscope.engine.casetest.mutants import Mutant


def rule_lines(rule: Rule, names: DisplayNames) -> list[Line]:
    """Returns a rule in full: title, description, evidence, and when it fires and clears."""
    facts = fact_lines(
        (
            "judges",
            f"each {rule.scope}{_scope_suffix(rule)}, beside every {rule.peers.kind} of the same {rule.peers.by}",
        ),
        ("vantage", rule.vantage),
        ("applies when", str(rule.applies_when) if rule.applies_when else ""),
        ("warm-up", units.format_duration(rule.warm_up) if rule.warm_up else ""),
        ("fires at", f"score {rule.fire.score:g} for {units.format_duration(rule.fire.hold)}"),
        ("clears at", f"score {rule.clear.score:g} for {units.format_duration(rule.clear.hold)}"),
        ("impact", f"{rule.impact_metric}: {rule.impact}" if rule.impact else ""),
        ("severity", f"warning from {_format_percent(rule.warning)}, critical from {_format_percent(rule.critical)}"),
        ("hash", rule.hash[:12]),
    )
    tags = f"{names.condition_name(rule.condition)} ({rule.condition}) · {rule.maturity}"
    out = [line(rule.title or rule.id, "title"), line(rule.id, "dim"), line(tags, "dim")]
    out += [line(rule.description)] if rule.description else []
    out += facts
    out += bullet_lines("Where", [((let.name, "key"), (f" = {let.text}", "")) for let in rule.lets])
    out += _evidence_lines("Evidence for it", (item for item in rule.evidence if not item.against))
    out += _evidence_lines("Evidence against it", (item for item in rule.evidence if item.against))
    return out + bullet_lines("Notes", map(line, rule.notes))


def _scope_suffix(rule: Rule) -> str:
    kinds = [*(f"{kind} group" for kind in rule.where.groups), *(f"{net} port" for net in rule.where.networks)]
    return f" of a {' or '.join(kinds)}" if kinds else ""


def _format_percent(share: float) -> str:
    return units.format_value(share, "1", share=True)


def _evidence_lines(title: str, items: Iterable[EvidenceItem]) -> list[Line]:
    out: list[Line] = []
    for item in items:
        mark = ", required" if item.required else ", required by the score" if item.required_by_score else ""
        weight = f" ({item.weight:g}{mark}): "
        out.append(((f"  · {item.name}", "key"), (weight, ""), (item.text, "")))
        if item.threshold:
            out.append(line(f"    {item.threshold.why}{_format_basis(item.threshold)}", "dim"))
    return [(), line(title, "title"), *out] if out else []


def _format_basis(basis: ThresholdBasis) -> str:
    """Returns the basis of a threshold, empty for a judgement."""
    if basis.basis == "judgement":
        return ""
    return f" ({basis.basis}: {basis.source})" if basis.source else f" ({basis.basis})"


def result_lines(results: "Iterable[CaseResult]", rules: Iterable[str]) -> list[Line]:
    """Returns one line per rule with its passed cases, and the failures."""
    out: list[Line] = []
    total = 0
    by_rule: dict[str, list[CaseResult]] = {id_: [] for id_ in rules}
    for result in results:
        by_rule[result.rule].append(result)
        total += 1
    for id_, own in by_rule.items():
        bad = [result for result in own if not result.is_ok]
        passed = f"{len(own) - len(bad)} of {len(own)} cases passed" if own else "no cases"
        out.append((("✗ " if bad else "✓ ", "crit" if bad else "ok"), (id_, "key"), (f"  {passed}", "")))
        out += [line(f"    cases/{id_}.yaml:{r.line} {r.case}: {'; '.join(r.faults)}") for r in bad]
    return [*out, line(f"{total} cases of {len(by_rule)} rules.", "dim")]


def mutant_lines(found: "Iterable[Mutant]", total: int) -> list[Line]:
    """Returns the changes to rules that no case detects."""
    out = [(("· ", ""), (mutant.rule.id, "key"), (f"  {mutant.change}", "")) for mutant in found]
    return [
        *out,
        line(f"{len(out)} of {total} changes were detected by no case.", "warn" if len(out) > total / 10 else "ok"),
    ]
