"""Entries of the catalogue as text. Pure."""

from collections.abc import Callable, Iterable, Mapping

from skewscope.kb import cite
from skewscope.kb.changes import Changes
from skewscope.kb.claims import Told
from skewscope.kb.matrix import DEPLOYMENTS, Row, counted
from skewscope.kb.model import Claim, Condition, Finding, Mitigation, Observability, Signal, Source
from skewscope.kb.query import users
from skewscope.kb.search import Hit
from skewscope.tui.detail import Words, recipe
from skewscope.tui.show import named, part, table
from skewscope.tui.text import Line, line

Entry = Condition | Signal | Mitigation | Source | Finding

VERDICTS = {"visible": ("●", "ok"), "partial": ("◐", "warn"), "relayed": ("○", "info"), "not_visible": ("·", "dim")}
"""A verdict's glyph and role."""
REACH = {"itself": ("●", "ok"), "part": ("◐", "warn"), "no": ("·", "dim")}


def list_lines(shown: Iterable[Entry]) -> list[Line]:
    """Entries of one kind, a line each."""
    entries = list(shown)
    for kind, (titles, columns) in _columns.items():
        if entries and isinstance(entries[0], kind):
            return table([columns(entry) for entry in entries], titles)
    return [line("Nothing fits.", "dim")]


_columns: Mapping[type, tuple[tuple[str, ...], Callable[..., tuple[str, ...]]]] = {
    Condition: (
        ("id", "group", "grade", "maturity", "name"),
        lambda e: (e.id, e.group, e.grade, e.maturity, e.name),
    ),
    Signal: (
        ("id", "entity", "unit", "DPU access", "name"),
        lambda e: (e.id, e.entity, e.unit, e.dpu_access, e.name),
    ),
    Mitigation: (("id", "actor", "DPU", "risk", "name"), lambda e: (e.id, e.actor, e.dpu.can, e.risk, e.name)),
    Source: (("id", "year", "seen", "title"), lambda e: (e.id, str(e.year), e.seen, e.title)),
    Finding: (("id", "kind", "name"), lambda e: (e.id, e.kind, e.name)),
}


def entry_lines(entry: Entry, words: Words) -> list[Line]:
    """One entry in full."""
    if isinstance(entry, Condition):
        return condition_lines(entry, words)
    if isinstance(entry, Signal):
        return _signal_lines(entry, words)
    if isinstance(entry, Mitigation):
        return _mitigation_lines(entry, words)
    return _finding_lines(entry, words) if isinstance(entry, Finding) else _source_lines(entry, words)


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
    out += named(("also called", ", ".join(entry.aliases)), ("parallelism", ", ".join(entry.parallelism)))
    out += named(("row", entry.paper_note))
    out += part("Why it happens", [*map(line, entry.why), *(_link(c.condition, c.why, words) for c in entry.causes)])
    out += part("What follows", (_link(e.condition, e.why, words) for e in entry.effects))
    out += part("Shows in", (_signal(id_, words) for id_ in entry.signature))
    out += part("Looks like", (_alike(a.condition, a.separate_by, a.basis, words) for a in entry.lookalikes))
    out += part(
        "Looks like, outside the catalogue", (_told(o.condition, o.separate_by) for o in entry.lookalikes_outside)
    )
    out += part("What a DPU sees of it", map(_seen, entry.observability))
    out += _ways(entry.mitigations, words)
    out += part("What was reported", (_claim(c, words) for c in entry.impacts))
    out += part(
        "What else was found", (_found(f) for f in words.catalogue.findings.values() if entry.id in f.conditions)
    )
    out += part("Notes", map(line, entry.notes))
    if entry.without_rule:
        out += part("Why no rule recognises it", [_told(entry.without_rule.status, entry.without_rule.reason)])
    return out


def _withdrawn(entry: Condition) -> list[Line]:
    return [line(f"withdrawn: {entry.withdrawn}", "warn")] if entry.withdrawn else []


def _seen(what: Observability) -> Line:
    verdict = what.verdict.replace("_", " ")
    needs = f" Needs {', '.join(what.needs)}." if what.needs else ""
    return (
        (f"{what.deployment}: {verdict}", "key"),
        (f". {what.reason}", ""),
        (needs, ""),
        (f" ({what.basis})", "dim"),
    )


def _told(name: str, text: str) -> Line:
    return ((name, "key"), (f": {text}", ""))


def _link(id_: str, why: str, words: Words) -> Line:
    return ((words.condition(id_), "key"), (f" ({id_})", "dim"), (f": {why}" if why else "", ""))


def _alike(id_: str, test: str, basis: str, words: Words) -> Line:
    judged = (f" ({basis})", "dim") if basis.startswith("judgement") else ("", "")
    return (*_link(id_, test, words), judged)


def _found(finding: Finding) -> Line:
    value = f" [{finding.value}]" if finding.value else ""
    return ((f"{finding.name}{value}", "key"), (f": {finding.text}", ""), (f" ({finding.id}, {finding.kind})", "dim"))


def _signal(id_: str, words: Words) -> Line:
    known = words.catalogue.signals.get(id_)
    return ((id_, "key"), (f": {known.name} [{known.unit}]" if known else "", ""))


def _ways(ids: Iterable[str], words: Words) -> list[Line]:
    """What to do, each with its effect, risk, undo and check, and what a DPU could do of it."""
    out: list[Line] = []
    for id_ in ids:
        known = words.catalogue.mitigations.get(id_)
        title = (known.name, f" ({id_}, {known.actor}): {known.what}") if known else (id_, "")
        out.append(((f"  · {title[0]}", "key"), (title[1], "")))
        facts = (*recipe(known), _reach(known)) if known else ()
        # The indent of what is wrapped is that of its first piece.
        out += [((f"  {first}", role), *rest) for (first, role), *rest in facts]
    return [(), line("What to do", "title"), *out] if out else []


def _reach(known: Mitigation) -> Line:
    return (("  from a DPU: ", "dim"), (f"{known.dpu.can}. {known.dpu.how}", ""))


def _claim(claim: Claim, words: Words) -> Line:
    known = words.catalogue.sources.get(claim.source)
    who = f"{cite.byline(known)}, {known.year}: {known.title}, {known.locator}" if known else claim.source
    scale = f" [{claim.scale}]" if claim.scale else ""
    return ((claim.text + scale, ""), (f" ({who}; seen: {claim.seen})", "dim"))


def _used(kind: str, id_: str, words: Words) -> list[Line]:
    found = users(words.catalogue, kind, id_)
    return [row for name, ids in found.items() for row in part(f"Named by {name}", map(line, ids))]


def _signal_lines(entry: Signal, words: Words) -> list[Line]:
    facts = named(
        ("unit", entry.unit),
        ("type", entry.type),
        ("of each", entry.entity),
        ("seen from", ", ".join(entry.vantage)),
        ("DPU access", entry.dpu_access),
        ("metric", entry.metric),
        ("note", entry.note),
        ("unused", entry.unused),
    )
    names = (
        (
            (exporter, "key"),
            (": " + ", ".join(found), ""),
            (" (unverified)" if exporter in entry.unverified else "", "dim"),
        )
        for exporter, found in sorted(entry.sources.items())
    )
    out = [line(entry.name, "title"), line(entry.id, "dim"), *facts, *part("Goes by", names)]
    return out + _used("signals", entry.id, words)


def _mitigation_lines(entry: Mitigation, words: Words) -> list[Line]:
    facts = named(("who", entry.actor), ("adapters", ", ".join(entry.adapters)), ("basis", entry.basis))
    out = [line(entry.name, "title"), line(entry.id, "dim"), line(entry.what), *facts, *recipe(entry), _reach(entry)]
    out += part("What was reported", (_claim(c, words) for c in entry.claims))
    return out + _used("mitigations", entry.id, words)


def _source_lines(entry: Source, words: Words) -> list[Line]:
    facts = named(
        ("authors", entry.authors.strip("{}")),
        ("year", str(entry.year)),
        ("kind", entry.kind),
        ("venue", entry.venue),
        ("where", entry.locator),
        ("address", cite.address(entry)),
        ("seen", entry.seen),
        ("note", entry.note),
    )
    return [line(entry.title, "title"), line(entry.id, "dim"), *facts, *_used("sources", entry.id, words)]


def _finding_lines(entry: Finding, words: Words) -> list[Line]:
    facts = named(("value", entry.value), ("follows", entry.consequence), ("seen", entry.seen), ("basis", entry.basis))
    out = [line(entry.name, "title"), line(f"{entry.id} · {entry.kind}", "dim"), (), line(entry.text), *facts]
    out += part("Concerns", (_link(id_, "", words) for id_ in entry.conditions))
    known = words.catalogue.sources
    return out + part("From", (_told(id_, known[id_].title if id_ in known else "") for id_ in entry.sources))


def hit_lines(hits: Iterable[Hit]) -> list[Line]:
    """What a search found, best first."""
    found = table(((h.id, h.kind, h.name) for h in hits), ("id", "kind", "name"))
    return found if len(found) > 1 else [line("Nothing found.", "dim")]


def claim_lines(found: Iterable[Told], words: Words) -> list[Line]:
    """Claims under the entries that make them."""
    out: list[Line] = []
    last = ""
    for told in found:
        if told.id != last:
            out += [(), ((told.name, "title"), (f"  {told.kind.removesuffix('s')} {told.id}", "dim"))]
            last = told.id
        claim = _claim(told.claim, words)
        out.append(((f"  · {claim[0][0]}", ""), *claim[1:]))
    return out[1:] or [line("Nothing found.", "dim")]


def matrix_lines(rows: Iterable[Row]) -> list[Line]:
    """What can be seen of each condition in each deployment, and who can help, a line each."""
    held = list(rows)
    longest = max((len(row.condition.id) for row in held), default=9)
    heads = [f"{name:^9}" for name in ("front end", "each rail", "PCIe root", "relayed")]
    out: list[Line] = [line(f"{'':<{longest}}  {' '.join(heads)}   DPU helps  who else", "dim")]
    group = ""
    for row in held:
        if row.condition.group != group:
            group = row.condition.group
            out.append(line(group, "title"))
        cells = [_cell(VERDICTS.get(row.verdicts.get(name, ""), ("?", "")), 10) for name in DEPLOYMENTS]
        who = ", ".join(actor for actor in row.actors if actor != "dpu")
        out.append(((f"{row.condition.id:<{longest}}  ", "key"), *cells, _cell(REACH[row.dpu], 12), (f" {who}", "")))
    return [*out, (), *_legend(), *_counts(held)]


def _cell(glyph: tuple[str, str], columns: int) -> tuple[str, str]:
    return f"{glyph[0]:^{columns}}", glyph[1]


def _legend() -> list[Line]:
    seen = ", ".join(f"{glyph} {verdict.replace('_', ' ')}" for verdict, (glyph, _) in VERDICTS.items())
    help_ = ", ".join(f"{glyph} {can}" for can, (glyph, _) in REACH.items())
    return [line(f"Seen from a DPU: {seen}. What a DPU could do of a mitigation: {help_}.", "dim")]


def _counts(rows: list[Row]) -> list[Line]:
    by = counted(rows)
    said = [f"{DEPLOYMENTS[name]}: {_parts(by[name], VERDICTS)}" for name in DEPLOYMENTS]
    could = _parts(by["dpu"], REACH)
    return [line(f"Of {len(rows)} conditions: {'; '.join(said)}. A DPU could help: {could}.")]


def _parts(counts: Mapping[str, int], order: Iterable[str]) -> str:
    return ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in order if name in counts)


def change_lines(found: Changes) -> list[Line]:
    """What changed between two versions, as text that release notes can take."""
    out = [line(f"Catalogue {found.old or 'without a version'} to {found.new or 'without a version'}", "title")]
    for what in ("added", "changed", "withdrawn", "removed"):
        entries = [change for change in found.entries if change.what == what]
        rows = (
            ((change.id, "key"), (f" ({change.kind.removesuffix('s')})", "dim"), (_fields(change.fields), ""))
            for change in entries
        )
        out += part(f"{what.capitalize()}: {len(entries)}", rows)
    if not found.entries:
        return [*out, line("Nothing changed.")]
    verdict = "" if found.rose_enough else f" It calls itself {found.new}: raise kb/catalogue.yaml."
    due = f" The new version is {found.due} at least." if found.due else ""
    return [*out, (), line(f"That is a {found.level} change.{due}{verdict}", "ok" if found.rose_enough else "warn")]


def _fields(fields: tuple[str, ...]) -> str:
    return f": {', '.join(fields)}" if fields else ""
