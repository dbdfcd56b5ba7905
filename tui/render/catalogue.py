"""Entries of the catalogue as text. Pure."""

from collections.abc import Callable, Iterable, Mapping

from skewscope.kb import citations
from skewscope.kb.changes import CatalogueDiff
from skewscope.kb.claims import EntryClaim
from skewscope.kb.matrix import DEPLOYMENTS, MatrixRow, count_verdicts
from skewscope.kb.model import Claim, Condition, Finding, Mitigation, Observability, Signal, Source
from skewscope.kb.query import referencing_entries
from skewscope.kb.search import SearchHit
from skewscope.tui.render.detail import DisplayNames, recipe_lines
from skewscope.tui.render.rules import bullet_lines, fact_lines, table_lines
from skewscope.tui.render.text import Line, line

AnyEntry = Condition | Signal | Mitigation | Source | Finding

VERDICT_GLYPHS = {
    "visible": ("●", "ok"),
    "partial": ("◐", "warn"),
    "relayed": ("○", "info"),
    "not_visible": ("·", "dim"),
}
"""A verdict's glyph and role."""
REACH_GLYPHS = {"itself": ("●", "ok"), "part": ("◐", "warn"), "no": ("·", "dim")}


def list_lines(shown: Iterable[AnyEntry]) -> list[Line]:
    """Entries of one kind, a line each."""
    entries = list(shown)
    for kind, (titles, columns) in _LIST_COLUMNS.items():
        if entries and isinstance(entries[0], kind):
            return table_lines([columns(entry) for entry in entries], titles)
    return [line("Nothing fits.", "dim")]


_LIST_COLUMNS: Mapping[type, tuple[tuple[str, ...], Callable[..., tuple[str, ...]]]] = {
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


def entry_lines(entry: AnyEntry, words: DisplayNames) -> list[Line]:
    """One entry in full."""
    if isinstance(entry, Condition):
        return condition_lines(entry, words)
    if isinstance(entry, Signal):
        return _signal_lines(entry, words)
    if isinstance(entry, Mitigation):
        return _mitigation_lines(entry, words)
    return _finding_lines(entry, words) if isinstance(entry, Finding) else _source_lines(entry, words)


def condition_lines(entry: Condition, words: DisplayNames) -> list[Line]:
    """What it is, how it is recognised, what it is mistaken for, what a DPU sees of it, what to do, who reported it."""
    tags = " · ".join(filter(None, (entry.id, entry.group, ", ".join(entry.scope), f"evidence {entry.grade}")))
    out = [
        line(entry.name, "title"),
        line(f"{tags} · {entry.maturity}", "dim"),
        *_withdrawal_lines(entry),
        (),
        line(entry.what),
    ]
    out += fact_lines(("also called", ", ".join(entry.aliases)), ("parallelism", ", ".join(entry.parallelism)))
    out += fact_lines(("row", entry.paper_note))
    out += bullet_lines(
        "Why it happens", [*map(line, entry.why), *(_condition_line(c.condition, c.why, words) for c in entry.causes)]
    )
    out += bullet_lines("What follows", (_condition_line(e.condition, e.why, words) for e in entry.effects))
    out += bullet_lines("Shows in", (_signal_line(id_, words) for id_ in entry.signature))
    out += bullet_lines(
        "Looks like", (_lookalike_line(a.condition, a.separate_by, a.basis, words) for a in entry.lookalikes)
    )
    out += bullet_lines(
        "Looks like, outside the catalogue", (_fact_line(o.condition, o.separate_by) for o in entry.lookalikes_outside)
    )
    out += bullet_lines("What a DPU sees of it", map(_observability_line, entry.observability))
    out += _mitigation_steps(entry.mitigations, words)
    out += bullet_lines("What was reported", (_claim_line(c, words) for c in entry.impacts))
    out += bullet_lines(
        "What else was found", (_finding_line(f) for f in words.catalogue.findings.values() if entry.id in f.conditions)
    )
    out += bullet_lines("Notes", map(line, entry.notes))
    if entry.without_rule:
        out += bullet_lines(
            "Why no rule recognises it", [_fact_line(entry.without_rule.status, entry.without_rule.reason)]
        )
    return out


def _withdrawal_lines(entry: Condition) -> list[Line]:
    return [line(f"withdrawn: {entry.withdrawn}", "warn")] if entry.withdrawn else []


def _observability_line(what: Observability) -> Line:
    verdict = what.verdict.replace("_", " ")
    needs = f" Needs {', '.join(what.needs)}." if what.needs else ""
    return (
        (f"{what.deployment}: {verdict}", "key"),
        (f". {what.short_reason}", ""),
        (needs, ""),
        (f" ({what.basis})", "dim"),
    )


def _fact_line(name: str, text: str) -> Line:
    return ((name, "key"), (f": {text}", ""))


def _condition_line(id_: str, why: str, words: DisplayNames) -> Line:
    return ((words.condition_name(id_), "key"), (f" ({id_})", "dim"), (f": {why}" if why else "", ""))


def _lookalike_line(id_: str, test: str, basis: str, words: DisplayNames) -> Line:
    judged = (f" ({basis})", "dim") if basis.startswith("judgement") else ("", "")
    return (*_condition_line(id_, test, words), judged)


def _finding_line(finding: Finding) -> Line:
    value = f" [{finding.value}]" if finding.value else ""
    return ((f"{finding.name}{value}", "key"), (f": {finding.text}", ""), (f" ({finding.id}, {finding.kind})", "dim"))


def _signal_line(id_: str, words: DisplayNames) -> Line:
    known = words.catalogue.signals.get(id_)
    return ((id_, "key"), (f": {known.name} [{known.unit}]" if known else "", ""))


def _mitigation_steps(ids: Iterable[str], words: DisplayNames) -> list[Line]:
    """What to do, each with its effect, risk, undo and check, and what a DPU could do of it."""
    out: list[Line] = []
    for id_ in ids:
        known = words.catalogue.mitigations.get(id_)
        title = (known.name, f" ({id_}, {known.actor}): {known.what}") if known else (id_, "")
        out.append(((f"  · {title[0]}", "key"), (title[1], "")))
        facts = (*recipe_lines(known), _dpu_reach_line(known)) if known else ()
        # The indent of what is wrapped is that of its first piece.
        out += [((f"  {first}", role), *rest) for (first, role), *rest in facts]
    return [(), line("What to do", "title"), *out] if out else []


def _dpu_reach_line(known: Mitigation) -> Line:
    return (("  from a DPU: ", "dim"), (f"{known.dpu.can}. {known.dpu.how}", ""))


def _claim_line(claim: Claim, words: DisplayNames) -> Line:
    known = words.catalogue.sources.get(claim.source)
    who = f"{citations.byline(known)}, {known.year}: {known.title}, {known.locator}" if known else claim.source
    scale = f" [{claim.scale}]" if claim.scale else ""
    return ((claim.text + scale, ""), (f" ({who}; seen: {claim.seen})", "dim"))


def _usage_lines(kind: str, id_: str, words: DisplayNames) -> list[Line]:
    found = referencing_entries(words.catalogue, kind, id_)
    return [row for name, ids in found.items() for row in bullet_lines(f"Named by {name}", map(line, ids))]


def _signal_lines(entry: Signal, words: DisplayNames) -> list[Line]:
    facts = fact_lines(
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
    out = [line(entry.name, "title"), line(entry.id, "dim"), *facts, *bullet_lines("Goes by", names)]
    return out + _usage_lines("signals", entry.id, words)


def _mitigation_lines(entry: Mitigation, words: DisplayNames) -> list[Line]:
    facts = fact_lines(("who", entry.actor), ("adapters", ", ".join(entry.adapters)), ("basis", entry.basis))
    out = [
        line(entry.name, "title"),
        line(entry.id, "dim"),
        line(entry.what),
        *facts,
        *recipe_lines(entry),
        _dpu_reach_line(entry),
    ]
    out += bullet_lines("What was reported", (_claim_line(c, words) for c in entry.claims))
    return out + _usage_lines("mitigations", entry.id, words)


def _source_lines(entry: Source, words: DisplayNames) -> list[Line]:
    facts = fact_lines(
        ("authors", entry.authors.strip("{}")),
        ("year", str(entry.year)),
        ("kind", entry.kind),
        ("venue", entry.venue),
        ("where", entry.locator),
        ("address", citations.source_url(entry)),
        ("seen", entry.seen),
        ("note", entry.note),
    )
    return [line(entry.title, "title"), line(entry.id, "dim"), *facts, *_usage_lines("sources", entry.id, words)]


def _finding_lines(entry: Finding, words: DisplayNames) -> list[Line]:
    facts = fact_lines(
        ("value", entry.value), ("follows", entry.consequence), ("seen", entry.seen), ("basis", entry.basis)
    )
    out = [line(entry.name, "title"), line(f"{entry.id} · {entry.kind}", "dim"), (), line(entry.text), *facts]
    out += bullet_lines("Concerns", (_condition_line(id_, "", words) for id_ in entry.conditions))
    known = words.catalogue.sources
    return out + bullet_lines(
        "From", (_fact_line(id_, known[id_].title if id_ in known else "") for id_ in entry.sources)
    )


def hit_lines(hits: Iterable[SearchHit]) -> list[Line]:
    """What a search found, best first."""
    found = table_lines(((h.id, h.kind, h.name) for h in hits), ("id", "kind", "name"))
    return found if len(found) > 1 else [line("Nothing found.", "dim")]


def claim_lines(found: Iterable[EntryClaim], words: DisplayNames) -> list[Line]:
    """Claims under the entries that make them."""
    out: list[Line] = []
    last = ""
    for told in found:
        if told.id != last:
            out += [(), ((told.name, "title"), (f"  {told.kind.removesuffix('s')} {told.id}", "dim"))]
            last = told.id
        claim = _claim_line(told.claim, words)
        out.append(((f"  · {claim[0][0]}", ""), *claim[1:]))
    return out[1:] or [line("Nothing found.", "dim")]


def matrix_lines(rows: Iterable[MatrixRow]) -> list[Line]:
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
        cells = [_matrix_cell(VERDICT_GLYPHS.get(row.verdicts.get(name, ""), ("?", "")), 10) for name in DEPLOYMENTS]
        who = ", ".join(actor for actor in row.actors if actor != "dpu")
        out.append(
            (
                (f"{row.condition.id:<{longest}}  ", "key"),
                *cells,
                _matrix_cell(REACH_GLYPHS[row.dpu], 12),
                (f" {who}", ""),
            )
        )
    return [*out, (), *_legend_lines(), *_count_lines(held)]


def _matrix_cell(glyph: tuple[str, str], columns: int) -> tuple[str, str]:
    return f"{glyph[0]:^{columns}}", glyph[1]


def _legend_lines() -> list[Line]:
    seen = ", ".join(f"{glyph} {verdict.replace('_', ' ')}" for verdict, (glyph, _) in VERDICT_GLYPHS.items())
    help_ = ", ".join(f"{glyph} {can}" for can, (glyph, _) in REACH_GLYPHS.items())
    return [line(f"Seen from a DPU: {seen}. What a DPU could do of a mitigation: {help_}.", "dim")]


def _count_lines(rows: list[MatrixRow]) -> list[Line]:
    by = count_verdicts(rows)
    said = [f"{DEPLOYMENTS[name]}: {_format_counts(by[name], VERDICT_GLYPHS)}" for name in DEPLOYMENTS]
    could = _format_counts(by["dpu"], REACH_GLYPHS)
    return [line(f"Of {len(rows)} conditions: {'; '.join(said)}. A DPU could help: {could}.")]


def _format_counts(counts: Mapping[str, int], order: Iterable[str]) -> str:
    return ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in order if name in counts)


def change_lines(found: CatalogueDiff) -> list[Line]:
    """What changed between two versions, as text that release notes can take."""
    out = [line(f"Catalogue {found.old or 'without a version'} to {found.new or 'without a version'}", "title")]
    for what in ("added", "changed", "withdrawn", "removed"):
        entries = [change for change in found.entries if change.what == what]
        rows = (
            ((change.id, "key"), (f" ({change.kind.removesuffix('s')})", "dim"), (_format_fields(change.fields), ""))
            for change in entries
        )
        out += bullet_lines(f"{what.capitalize()}: {len(entries)}", rows)
    if not found.entries:
        return [*out, line("Nothing changed.")]
    verdict = "" if found.is_version_sufficient else f" It calls itself {found.new}: raise kb/catalogue.yaml."
    due = f" The new version is {found.required_version} at least." if found.required_version else ""
    return [
        *out,
        (),
        line(f"That is a {found.level} change.{due}{verdict}", "ok" if found.is_version_sufficient else "warn"),
    ]


def _format_fields(fields: tuple[str, ...]) -> str:
    return f": {', '.join(fields)}" if fields else ""
