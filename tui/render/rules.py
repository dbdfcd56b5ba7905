"""Rules as text, what several screens share, and anything of ours as JSON. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from skewscope.rules.expression import Expr
from skewscope.rules.model import EvidenceItem, Rule, ThresholdBasis
from skewscope.tui.render import units
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import Line, line, pad, width

if TYPE_CHECKING:
    # Running cases takes numpy, which the catalogue alone does not need.
    from skewscope.engine.casetest.case_runner import CaseResult
    from skewscope.engine.casetest.mutants import Mutant


def to_jsonable(value: object) -> Any:
    """A value of ours as JSON takes it: dataclasses as objects, without where on this machine they were read."""
    if isinstance(value, Expr):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_jsonable(getattr(value, f.name)) for f in fields(value) if f.name != "file"}
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [to_jsonable(inner) for inner in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return value


def to_json(value: object) -> str:
    """A value of ours as indented JSON."""
    return json.dumps(to_jsonable(value), ensure_ascii=False, indent=2)


def table_lines(rows: Iterable[tuple[str, ...]], titles: tuple[str, ...]) -> list[Line]:
    """Columns under titles; the last one is as long as it is."""
    rows = list(rows)
    widths = [max(width(row[n]) for row in (titles, *rows)) for n in range(len(titles) - 1)]
    out = [line(_join_columns(titles, widths), "dim")]
    for row in rows:
        first = pad(row[0], widths[0]) if widths else row[0]
        out.append(((first, "key"), ("  " + _join_columns(row[1:], widths[1:]) if widths else "", "")))
    return out


def _join_columns(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join([*(pad(cell, w) for cell, w in zip(cells, widths, strict=False)), cells[-1]])


def bullet_lines(title: str, items: Iterable[Line]) -> list[Line]:
    rows = [((f"  · {first}", role), *rest) for (first, role), *rest in items]
    return [(), line(title, "title"), *rows] if rows else []


def fact_lines(*facts: tuple[str, str]) -> list[Line]:
    return [((f"{name:<14}", "label"), (text, "")) for name, text in facts if text]


def rule_lines(rule: Rule, words: DisplayNames) -> list[Line]:
    """A rule in full: what it looks at and concludes, its evidence, and when it fires and clears."""
    facts = fact_lines(
        (
            "judges",
            f"each {rule.scope}{_scope_suffix(rule)}, beside every {rule.peers.kind} of the same {rule.peers.by}",
        ),
        ("seen from", rule.vantage),
        ("applies when", str(rule.applies_when) if rule.applies_when else ""),
        ("warm-up", units.format_duration(rule.warm_up) if rule.warm_up else ""),
        ("fires at", f"score {rule.fire.score:g} for {units.format_duration(rule.fire.hold)}"),
        ("clears at", f"score {rule.clear.score:g} for {units.format_duration(rule.clear.hold)}"),
        ("impact", f"{rule.impact_metric}: {rule.impact}" if rule.impact else ""),
        ("severity", f"warning from {_format_percent(rule.warning)}, critical from {_format_percent(rule.critical)}"),
        ("content", rule.hash[:12]),
    )
    tags = f"{words.condition_name(rule.condition)} ({rule.condition}) · {rule.maturity}"
    out = [line(rule.title or rule.id, "title"), line(rule.id, "dim"), line(tags, "dim")]
    out += [line(rule.description)] if rule.description else []
    out += facts
    out += bullet_lines("Where", [((let.name, "key"), (f" = {let.text}", "")) for let in rule.lets])
    out += _evidence_lines("Speaks for it", (item for item in rule.evidence if not item.against))
    out += _evidence_lines("Speaks against it", (item for item in rule.evidence if item.against))
    return out + bullet_lines("Notes", map(line, rule.notes))


def _scope_suffix(rule: Rule) -> str:
    kinds = [*(f"{kind} group" for kind in rule.where.groups), *(f"{net} port" for net in rule.where.networks)]
    return f" of a {' or '.join(kinds)}" if kinds else ""


def _format_percent(share: float) -> str:
    return units.format_value(share, "1", share=True)


def _evidence_lines(title: str, items: Iterable[EvidenceItem]) -> list[Line]:
    out: list[Line] = []
    for item in items:
        weight = f" ({item.weight:g}{', required' if item.required else ''}): "
        out.append(((f"  · {item.name}", "key"), (weight, ""), (item.text, "")))
        if item.threshold:
            out.append(line(f"    {item.threshold.why}{_format_basis(item.threshold)}", "dim"))
    return [(), line(title, "title"), *out] if out else []


def _format_basis(basis: ThresholdBasis) -> str:
    """On what a threshold rests, unless it is the author's judgement."""
    if basis.basis == "judgement":
        return ""
    return f" ({basis.basis}: {basis.source})" if basis.source else f" ({basis.basis})"


def result_lines(results: "Iterable[CaseResult]", rules: Iterable[str]) -> list[Line]:
    """How the cases of rules went: a line for each rule, and what is wrong with those that failed."""
    out: list[Line] = []
    total = 0
    by_rule: dict[str, list[CaseResult]] = {id_: [] for id_ in rules}
    for result in results:
        by_rule[result.rule].append(result)
        total += 1
    for id_, own in by_rule.items():
        bad = [result for result in own if not result.is_ok]
        said = f"{len(own) - len(bad)} of {len(own)} cases good" if own else "no cases"
        out.append((("✗ " if bad else "✓ ", "crit" if bad else "ok"), (id_, "key"), (f"  {said}", "")))
        out += [line(f"    cases/{id_}.yaml:{r.line} {r.case}: {'; '.join(r.faults)}") for r in bad]
    return [*out, line(f"{total} cases of {len(by_rule)} rules.", "dim")]


def mutant_lines(found: "Iterable[Mutant]", total: int) -> list[Line]:
    """The changes to rules that no case noticed."""
    out = [(("· ", ""), (mutant.rule.id, "key"), (f"  {mutant.change}", "")) for mutant in found]
    return [
        *out,
        line(f"{len(out)} of {total} changes were noticed by no case.", "warn" if len(out) > total / 10 else "ok"),
    ]
