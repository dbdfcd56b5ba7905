"""Entries of the catalogue and rules as text, and anything of ours as JSON. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from skewscope.kb.model import Catalogue, Claim, Condition, Mitigation, Observability, Signal, Source
from skewscope.rules.expr import Expr
from skewscope.rules.model import Evidence, Rule
from skewscope.tui import units
from skewscope.tui.detail import Words, recipe
from skewscope.tui.text import Line, line, pad, width

if TYPE_CHECKING:
    # Running cases takes numpy, which the catalogue alone does not need.
    from skewscope.engine.mutants import Mutant
    from skewscope.engine.trial import Result
    from skewscope.kb.query import Hit

Entry = Condition | Signal | Mitigation | Source
KINDS = ("conditions", "signals", "mitigations", "sources")


def entries(catalogue: Catalogue, kind: str) -> Mapping[str, Entry]:
    """All entries of a kind, by id."""
    found: Mapping[str, Entry] = getattr(catalogue, kind)
    return found


def jsonable(value: object) -> Any:
    """A value of ours as JSON takes it: dataclasses as objects, without where on this machine they were read."""
    if isinstance(value, Expr):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: jsonable(getattr(value, f.name)) for f in fields(value) if f.name != "file"}
    if isinstance(value, Mapping):
        return {str(key): jsonable(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [jsonable(inner) for inner in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return value


def as_json(value: object) -> str:
    """A value of ours as indented JSON."""
    return json.dumps(jsonable(value), ensure_ascii=False, indent=2)


def table(rows: Iterable[tuple[str, ...]], titles: tuple[str, ...]) -> list[Line]:
    """Columns under titles; the last one is as long as it is."""
    rows = list(rows)
    widths = [max(width(row[n]) for row in (titles, *rows)) for n in range(len(titles) - 1)]
    out = [line(_columns(titles, widths), "dim")]
    for row in rows:
        first = pad(row[0], widths[0]) if widths else row[0]
        out.append(((first, "key"), ("  " + _columns(row[1:], widths[1:]) if widths else "", "")))
    return out


def _columns(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join([*(pad(cell, w) for cell, w in zip(cells, widths, strict=False)), cells[-1]])


def list_lines(catalogue: Catalogue, kind: str) -> list[Line]:
    """All entries of a kind, a line each."""
    shown = entries(catalogue, kind).values()
    if kind == "conditions":
        conditions = [(e.id, e.group, e.grade, e.maturity, e.name) for e in shown if isinstance(e, Condition)]
        return table(conditions, ("id", "group", "grade", "maturity", "name"))
    if kind == "signals":
        signals = [(e.id, e.entity, e.unit, e.dpu_access, e.name) for e in shown if isinstance(e, Signal)]
        return table(signals, ("id", "entity", "unit", "DPU access", "name"))
    if kind == "mitigations":
        ways = [(e.id, e.actor, e.risk, e.name) for e in shown if isinstance(e, Mitigation)]
        return table(ways, ("id", "actor", "risk", "name"))
    works = [(e.id, str(e.year), e.seen, e.title) for e in shown if isinstance(e, Source)]
    return table(works, ("id", "year", "seen", "title"))


def entry_lines(entry: Entry, words: Words) -> list[Line]:
    """One entry in full."""
    if isinstance(entry, Condition):
        return condition_lines(entry, words)
    if isinstance(entry, Signal):
        return _signal_lines(entry)
    if isinstance(entry, Mitigation):
        return _mitigation_lines(entry, words)
    return _source_lines(entry)


def _part(title: str, items: Iterable[Line]) -> list[Line]:
    rows = [((f"  · {first}", role), *rest) for (first, role), *rest in items]
    return [(), line(title, "title"), *rows] if rows else []


def _facts(*facts: tuple[str, str]) -> list[Line]:
    return [((f"{name:<14}", "label"), (text, "")) for name, text in facts if text]


def condition_lines(entry: Condition, words: Words) -> list[Line]:
    """What it is, how it is recognised, what it is mistaken for, what a DPU sees of it, what to do, who reported it."""
    tags = " · ".join(filter(None, (entry.id, entry.group, ", ".join(entry.scope), f"evidence {entry.grade}")))
    out = [
        line(entry.name, "title"),
        line(f"{tags} · {entry.maturity}", "dim"),
        *_withdrawn(entry),
        (),
        line(entry.what),
    ]
    out += _facts(("also called", ", ".join(entry.aliases)), ("parallelism", ", ".join(entry.parallelism)))
    out += _part("Why it happens", [*map(line, entry.why), *(_link(c.condition, c.why, words) for c in entry.causes)])
    out += _part("What follows", (_link(e.condition, e.why, words) for e in entry.effects))
    out += _part("Shows in", (_signal(id_, words) for id_ in entry.signature))
    out += _part("Looks like", (_link(a.condition, a.separate_by, words) for a in entry.lookalikes))
    out += _part("What a DPU sees of it", map(_seen, entry.observability))
    out += _ways(entry.mitigations, words)
    out += _part("What was reported", (_claim(c, words) for c in entry.impacts))
    return out + _part("Notes", map(line, entry.notes))


def _withdrawn(entry: Condition) -> list[Line]:
    return [line(f"withdrawn: {entry.withdrawn}", "warn")] if entry.withdrawn else []


def _seen(what: Observability) -> Line:
    verdict = what.verdict.replace("_", " ")
    return ((f"{what.deployment}: {verdict}", "key"), (f". {what.reason} ", ""), (f"({what.basis})", "dim"))


def _link(id_: str, why: str, words: Words) -> Line:
    return ((words.condition(id_), "key"), (f" ({id_})", "dim"), (f": {why}" if why else "", ""))


def _signal(id_: str, words: Words) -> Line:
    known = words.catalogue.signals.get(id_)
    return ((id_, "key"), (f": {known.name} [{known.unit}]" if known else "", ""))


def _ways(ids: Iterable[str], words: Words) -> list[Line]:
    """What to do, each with its effect, risk, undo and check."""
    out: list[Line] = []
    for id_ in ids:
        known = words.catalogue.mitigations.get(id_)
        named = (known.name, f" ({id_}, {known.actor}): {known.what}") if known else (id_, "")
        out.append(((f"  · {named[0]}", "key"), (named[1], "")))
        out += [(("  ", ""), *fact) for fact in recipe(known)] if known else []
    return [(), line("What to do", "title"), *out] if out else []


def _claim(claim: Claim, words: Words) -> Line:
    known = words.catalogue.sources.get(claim.source)
    who = f"{_authors(known)}, {known.year}: {known.title}, {known.locator}" if known else claim.source
    scale = f" [{claim.scale}]" if claim.scale else ""
    return ((claim.text + scale, ""), (f" ({who}; seen: {claim.seen})", "dim"))


def _authors(source: Source) -> str:
    first, *others = source.authors.split(", ")
    return f"{first} and {len(others)} others" if len(others) > 1 else source.authors


def _signal_lines(entry: Signal) -> list[Line]:
    facts = _facts(
        ("unit", entry.unit),
        ("type", entry.type),
        ("of each", entry.entity),
        ("seen from", ", ".join(entry.vantage)),
        ("DPU access", entry.dpu_access),
        ("metric", entry.metric),
        ("note", entry.note),
    )
    names = (((exporter, "key"), (": " + ", ".join(found), "")) for exporter, found in sorted(entry.sources.items()))
    return [line(entry.name, "title"), line(entry.id, "dim"), *facts, *_part("Goes by", names)]


def _mitigation_lines(entry: Mitigation, words: Words) -> list[Line]:
    facts = _facts(("who", entry.actor), ("adapters", ", ".join(entry.adapters)), ("basis", entry.basis))
    out = [line(entry.name, "title"), line(entry.id, "dim"), line(entry.what), *facts, *recipe(entry)]
    return out + _part("What was reported", (_claim(c, words) for c in entry.claims))


def _source_lines(entry: Source) -> list[Line]:
    facts = _facts(
        ("authors", entry.authors),
        ("year", str(entry.year)),
        ("kind", entry.kind),
        ("venue", entry.venue),
        ("where", entry.locator),
        ("seen", entry.seen),
        ("note", entry.note),
    )
    return [line(entry.title, "title"), line(entry.id, "dim"), *facts]


def rule_lines(rule: Rule, words: Words) -> list[Line]:
    """A rule in full: what it judges, by what evidence, when it fires and clears."""
    facts = _facts(
        ("judges", f"each {rule.scope}{_only(rule)}, beside every {rule.peers.kind} of the same {rule.peers.by}"),
        ("seen from", rule.vantage),
        ("applies when", str(rule.applies_when) if rule.applies_when else ""),
        ("warm-up", units.seconds(rule.warm_up) if rule.warm_up else ""),
        ("fires at", f"score {rule.fire.score:g} for {units.seconds(rule.fire.hold)}"),
        ("clears at", f"score {rule.clear.score:g} for {units.seconds(rule.clear.hold)}"),
        ("impact", f"{rule.impact_metric}: {rule.impact}" if rule.impact else ""),
        ("severity", f"warning from {_percent(rule.warning)}, critical from {_percent(rule.critical)}"),
        ("content", rule.hash[:12]),
    )
    tags = f"{words.condition(rule.condition)} ({rule.condition}) · {rule.maturity}"
    out = [line(rule.id, "title"), line(tags, "dim"), *facts]
    out += _items("Speaks for it", (item for item in rule.evidence if not item.against))
    out += _items("Speaks against it", (item for item in rule.evidence if item.against))
    return out + _part("Notes", map(line, rule.notes))


def _only(rule: Rule) -> str:
    kinds = [*(f"{kind} group" for kind in rule.where.groups), *(f"{net} port" for net in rule.where.networks)]
    return f" of a {' or '.join(kinds)}" if kinds else ""


def _percent(share: float) -> str:
    return units.human(share, "1", share=True)


def _items(title: str, items: Iterable[Evidence]) -> list[Line]:
    out: list[Line] = []
    for item in items:
        weight = f" ({item.weight:g}{', required' if item.required else ''}): "
        out.append(((f"  · {item.name}", "key"), (weight, ""), (item.text, "")))
        if item.threshold:
            source = f", {item.threshold.source}" if item.threshold.source else ""
            out.append(line(f"    {item.threshold.why} ({item.threshold.basis}{source})", "dim"))
    return [(), line(title, "title"), *out] if out else []


def hit_lines(hits: "Iterable[Hit]") -> list[Line]:
    """What a search found, best first."""
    found = table(((h.id, h.kind, h.name) for h in hits), ("id", "kind", "name"))
    return found if len(found) > 1 else [line("Nothing found.", "dim")]


def result_lines(results: "Iterable[Result]", rules: Iterable[str]) -> list[Line]:
    """How the cases of rules went: a line for each rule, and what is wrong with those that failed."""
    out: list[Line] = []
    total = 0
    by_rule: dict[str, list[Result]] = {id_: [] for id_ in rules}
    for result in results:
        by_rule[result.rule].append(result)
        total += 1
    for id_, own in by_rule.items():
        bad = [result for result in own if not result.good]
        said = f"{len(own) - len(bad)} of {len(own)} cases good" if own else "no cases"
        out.append((("✗ " if bad else "✓ ", "crit" if bad else "ok"), (id_, "key"), (f"  {said}", "")))
        out += [line(f"    cases/{id_}.yaml:{r.line} {r.case}: {'; '.join(r.faults)}") for r in bad]
    return [*out, line(f"{total} cases of {len(by_rule)} rules.", "dim")]


def mutant_lines(found: "Iterable[Mutant]", total: int) -> list[Line]:
    """The changes to rules that no case noticed."""
    out = [(("· ", ""), (mutant.rule.id, "key"), (f"  {mutant.change}", "")) for mutant in found]
    return [*out, line(f"{len(out)} of {total} changes were noticed by no case.", "warn" if out else "ok")]
