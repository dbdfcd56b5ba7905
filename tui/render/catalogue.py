"""Catalogue entries as lines. Pure."""

from collections.abc import Callable, Iterable, Mapping

from skewscope.kb import citations
from skewscope.kb.changes import CatalogueDiff
from skewscope.kb.claims import EntryClaim
from skewscope.kb.command_template import fill_command
from skewscope.kb.judgement import describe_least
from skewscope.kb.matrix import DEPLOYMENTS, MatrixRow, count_verdicts
from skewscope.kb.model import (
    Claim,
    Condition,
    Event,
    Format,
    Lesson,
    Mitigation,
    Observability,
    Signal,
    SignatureItem,
    Source,
    Symptom,
)
from skewscope.kb.query import referencing_entries
from skewscope.kb.search import SearchHit
from skewscope.tui.render.blocks import bullet_lines, fact_lines, table_lines
from skewscope.tui.render.command_lines import command_lines, command_source_lines
from skewscope.tui.render.detail import DisplayNames, recipe_lines
from skewscope.tui.render.entry_summary import REACH_GLYPHS, VERDICT_GLYPHS, condition_head, condition_lead
from skewscope.tui.render.text import Line, line

AnyEntry = Condition | Signal | Mitigation | Source | Lesson | Symptom | Format | Event


def list_lines(shown: Iterable[AnyEntry]) -> list[Line]:
    """Returns entries of one kind, one line each."""
    entries = list(shown)
    for kind, (titles, columns) in _LIST_COLUMNS.items():
        if entries and isinstance(entries[0], kind):
            return table_lines([columns(entry) for entry in entries], titles)
    return [line("No entry matches.", "dim")]


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
    Lesson: (("id", "kind", "name"), lambda e: (e.id, e.kind, e.name)),
    Symptom: (("id", "severity", "name"), lambda e: (e.id, e.severity, e.name)),
    Format: (("id", "tool", "name"), lambda e: (e.id, e.tool, e.name)),
    Event: (("id", "severity", "of", "name"), lambda e: (e.id, e.severity, e.entity, e.name)),
}


def entry_lines(entry: AnyEntry, names: DisplayNames) -> list[Line]:
    """Returns an entry in full."""
    return _ENTRY_LINES[type(entry)](entry, names)


def condition_lines(entry: Condition, names: DisplayNames) -> list[Line]:
    """Returns a condition: what to know first, then causes, signals, observability, mitigations, claims and notes."""
    out = [*condition_head(entry), *condition_lead(entry, names)]
    facts = fact_lines(("also called", ", ".join(entry.aliases)), ("parallelism", ", ".join(entry.parallelism)))
    out += [(), *facts] if facts else []
    out += bullet_lines(
        "Causes", [*map(line, entry.why), *(_condition_line(c.condition, c.why, names) for c in entry.causes)]
    )
    out += bullet_lines("Effects", (_condition_line(e.condition, e.why, names) for e in entry.effects))
    out += bullet_lines("Signals", (_signature_line(item, names) for item in entry.signature))
    out += bullet_lines(
        "Look-alikes outside the catalogue", (_fact_line(o.condition, o.separate_by) for o in entry.lookalikes_outside)
    )
    out += bullet_lines("Visibility from a DPU", map(_observability_line, entry.observability))
    out += _mitigation_steps(entry.mitigations, names)
    out += bullet_lines("Reported measurements", (_claim_line(c, names) for c in entry.impacts))
    out += bullet_lines(
        "Further findings", (_finding_line(f) for f in names.catalogue.findings.values() if entry.id in f.conditions)
    )
    out += bullet_lines("Notes", map(line, [*entry.notes, *([entry.paper_note] if entry.paper_note else [])]))
    if entry.without_rule:
        out += bullet_lines("Why it has no rule", [_fact_line(entry.without_rule.status, entry.without_rule.reason)])
    return out


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


def _condition_line(id_: str, why: str, names: DisplayNames) -> Line:
    return ((names.condition_name(id_), "key"), (f" ({id_})", "dim"), (f": {why}" if why else "", ""))


def _finding_line(finding: Lesson) -> Line:
    value = f" [{finding.value}]" if finding.value else ""
    return ((f"{finding.name}{value}", "key"), (f": {finding.text}", ""), (f" ({finding.id}, {finding.kind})", "dim"))


def _signature_line(item: SignatureItem, names: DisplayNames) -> Line:
    known = names.catalogue.signals.get(item.signal)
    meaning = f": {known.name} [{known.unit}]" if known else ""
    return ((item.signal, "key"), (meaning, ""), (f", {item.direction} against {item.against}, {item.shows}", "dim"))


def _mitigation_steps(ids: Iterable[str], names: DisplayNames) -> list[Line]:
    """Returns the mitigations with effect, risk, undo, check, and the part that a DPU can do."""
    out: list[Line] = []
    for id_ in ids:
        known = names.catalogue.mitigations.get(id_)
        title = (known.name, f" ({id_}, {known.actor}): {known.what}") if known else (id_, "")
        out.append(((f"  · {title[0]}", "key"), (title[1], "")))
        facts = (*recipe_lines(known), _dpu_reach_line(known), *_command_hints(known)) if known else ()
        # wrapped lines take their indent from the first piece
        out += [((f"  {first}", role), *rest) for (first, role), *rest in facts]
    return [(), line("Mitigations", "title"), *out] if out else []


def _dpu_reach_line(known: Mitigation) -> Line:
    return (("  from a DPU: ", "dim"), (f"{known.dpu.can}. {known.dpu.how}", ""))


def _command_hints(known: Mitigation) -> list[Line]:
    """Returns where its commands are shown, or why there is none."""
    hint = f"skewscope kb show {known.id}" if known.commands else known.no_command
    return [(("  commands: ", "dim"), (hint, ""))] if hint else []


def _claim_line(claim: Claim, names: DisplayNames) -> Line:
    known = names.catalogue.sources.get(claim.source)
    source = f"{citations.byline(known)}, {known.year}: {known.title}, {known.locator}" if known else claim.source
    scale = f" [{claim.scale}]" if claim.scale else ""
    return ((claim.text + scale, ""), (f" ({source}; seen: {claim.seen})", "dim"))


def _usage_lines(kind: str, id_: str, names: DisplayNames) -> list[Line]:
    found = referencing_entries(names.catalogue, kind, id_)
    return [row for name, ids in found.items() for row in bullet_lines(f"Referenced by {name}", map(line, ids))]


def _signal_lines(entry: Signal, names: DisplayNames) -> list[Line]:
    facts = fact_lines(
        ("unit", entry.unit),
        ("type", entry.type),
        ("entity", entry.entity),
        ("vantage", ", ".join(entry.vantage)),
        ("DPU access", entry.dpu_access),
        ("metric", entry.metric),
        ("note", entry.note),
        ("unused", entry.unused),
    )
    facts += _judgement_lines(entry)
    exporter_names = (
        (
            (exporter, "key"),
            (": " + ", ".join(found), ""),
            (" (unverified)" if exporter in entry.unverified else "", "dim"),
        )
        for exporter, found in sorted(entry.sources.items())
    )
    out = [line(entry.name, "title"), line(entry.id, "dim"), *facts, *bullet_lines("Exported as", exporter_names)]
    return out + _usage_lines("signals", entry.id, names)


def _judgement_lines(entry: Signal) -> list[Line]:
    judged = entry.judged
    if judged is None:
        return []
    return fact_lines(
        ("role", judged.role),
        ("bad", judged.bad),
        ("compared with", ", ".join(judged.against)),
        ("least change", describe_least(judged, entry.unit, entry.type)),
        ("nominal", "" if judged.nominal is None else f"{judged.nominal:g} {entry.unit}"),
        ("counts under load of", judged.given),
        ("least load", f"{100 * judged.least_load:g} %" if judged.least_load else ""),
        ("symptom", judged.symptom),
        ("judged by", judged.basis),
    )


def _format_lines(entry: Format, _names: DisplayNames) -> list[Line]:
    out = [
        line(entry.name, "title"),
        line(f"{entry.id} · {entry.tool} · {entry.versions}", "dim"),
        (),
        line(entry.what),
    ]
    out += fact_lines(("written by", entry.command), ("a file is of", entry.place), ("basis", entry.basis))
    out += bullet_lines("Lines", (line(one.pattern) for one in entry.lines))
    return out + bullet_lines("Samples", (line(text) for one in entry.samples for text in one.lines.splitlines()[:3]))


def _event_lines(entry: Event, names: DisplayNames) -> list[Line]:
    out = [line(entry.name, "title"), line(f"{entry.id} · {entry.severity} · of a {entry.entity}", "dim"), ()]
    out += [line(entry.what)]
    out += fact_lines(("do first", entry.first), ("basis", entry.basis))
    out += bullet_lines("Sign of", (_condition_line(one.condition, one.shows, names) for one in entry.signs))
    out += bullet_lines("Messages", map(line, entry.patterns))
    out += bullet_lines("Nothing, where there is also", map(line, entry.unless))
    out += bullet_lines("Codes", (line(f"{one.name} · {one.severity}") for one in entry.by_code.values()))
    return out + bullet_lines("Samples", map(line, entry.samples))


def _symptom_lines(entry: Symptom, names: DisplayNames) -> list[Line]:
    facts = fact_lines(
        ("roles", ", ".join(entry.roles)),
        ("reported as", entry.title),
        ("instead", ", ".join(f"{form}: {id_}" for form, id_ in entry.instead.items())),
        ("basis", entry.basis),
    )
    out = [line(entry.name, "title"), line(f"{entry.id} · {entry.severity}", "dim"), (), line(entry.what), *facts]
    return out + _usage_lines("symptoms", entry.id, names)


def _mitigation_lines(entry: Mitigation, names: DisplayNames) -> list[Line]:
    changes = ", ".join(f"{change.kind} of a {change.of}" for change in entry.changes) or "by hand"
    facts = fact_lines(("actor", entry.actor), ("carried out as", changes), ("basis", entry.basis))
    out = [
        line(entry.name, "title"),
        line(entry.id, "dim"),
        line(entry.what),
        *facts,
        *recipe_lines(entry),
        _dpu_reach_line(entry),
    ]
    shown = command_lines((fill_command(command, {}) for command in entry.commands), entry.no_command)
    out += [(), line("Commands", "title"), *shown] if shown else []
    out += bullet_lines("Seen in", command_source_lines(entry.commands))
    out += bullet_lines("Reported measurements", (_claim_line(c, names) for c in entry.claims))
    return out + _usage_lines("mitigations", entry.id, names)


def _source_lines(entry: Source, names: DisplayNames) -> list[Line]:
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
    return [line(entry.title, "title"), line(entry.id, "dim"), *facts, *_usage_lines("sources", entry.id, names)]


def _finding_lines(entry: Lesson, names: DisplayNames) -> list[Line]:
    facts = fact_lines(
        ("value", entry.value), ("effect", entry.consequence), ("seen", entry.seen), ("basis", entry.basis)
    )
    out = [line(entry.name, "title"), line(f"{entry.id} · {entry.kind}", "dim"), (), line(entry.text), *facts]
    out += bullet_lines("Concerns", (_condition_line(id_, "", names) for id_ in entry.conditions))
    known = names.catalogue.sources
    return out + bullet_lines(
        "From", (_fact_line(id_, known[id_].title if id_ in known else "") for id_ in entry.sources)
    )


def hit_lines(hits: Iterable[SearchHit]) -> list[Line]:
    """Returns search results, best first."""
    found = table_lines(((h.id, h.kind, h.name) for h in hits), ("id", "kind", "name"))
    return found if len(found) > 1 else [line("No results.", "dim")]


def claim_lines(found: Iterable[EntryClaim], names: DisplayNames) -> list[Line]:
    """Returns claims grouped by the entry that makes them."""
    out: list[Line] = []
    last = ""
    for one in found:
        if one.id != last:
            out += [(), ((one.name, "title"), (f"  {one.kind.removesuffix('s')} {one.id}", "dim"))]
            last = one.id
        claim = _claim_line(one.claim, names)
        out.append(((f"  · {claim[0][0]}", ""), *claim[1:]))
    return out[1:] or [line("No results.", "dim")]


def matrix_lines(rows: Iterable[MatrixRow]) -> list[Line]:
    """Returns the verdict per condition and deployment, with the actors that can mitigate it."""
    held = list(rows)
    longest = max((len(row.condition.id) for row in held), default=9)
    heads = [f"{name:^9}" for name in ("front end", "each rail", "PCIe root", "relayed")]
    out: list[Line] = [line(f"{'':<{longest}}  {' '.join(heads)}   DPU helps  other actors", "dim")]
    group = ""
    for row in held:
        if row.condition.group != group:
            group = row.condition.group
            out.append(line(group, "title"))
        cells = [_matrix_cell(VERDICT_GLYPHS.get(row.verdicts.get(name, ""), ("?", "")), 10) for name in DEPLOYMENTS]
        others = ", ".join(actor for actor in row.actors if actor != "dpu")
        out.append(
            (
                (f"{row.condition.id:<{longest}}  ", "key"),
                *cells,
                _matrix_cell(REACH_GLYPHS[row.dpu], 12),
                (f" {others}", ""),
            )
        )
    return [*out, (), *_legend_lines(), *_count_lines(held)]


def _matrix_cell(glyph: tuple[str, str], columns: int) -> tuple[str, str]:
    return f"{glyph[0]:^{columns}}", glyph[1]


def _legend_lines() -> list[Line]:
    seen = ", ".join(f"{glyph} {verdict.replace('_', ' ')}" for verdict, (glyph, _) in VERDICT_GLYPHS.items())
    help_ = ", ".join(f"{glyph} {can}" for can, (glyph, _) in REACH_GLYPHS.items())
    return [line(f"Visibility from a DPU: {seen}. Part of a mitigation that a DPU can do: {help_}.", "dim")]


def _count_lines(rows: list[MatrixRow]) -> list[Line]:
    by = count_verdicts(rows)
    counts = [f"{DEPLOYMENTS[name]}: {_format_counts(by[name], VERDICT_GLYPHS)}" for name in DEPLOYMENTS]
    could = _format_counts(by["dpu"], REACH_GLYPHS)
    return [line(f"Of {len(rows)} conditions: {'; '.join(counts)}. A DPU can help: {could}.")]


def _format_counts(counts: Mapping[str, int], order: Iterable[str]) -> str:
    return ", ".join(f"{counts[name]} {name.replace('_', ' ')}" for name in order if name in counts)


def change_lines(found: CatalogueDiff) -> list[Line]:
    """Returns the changes between two versions, suitable for release notes."""
    out = [line(f"Catalogue {found.old or 'without a version'} to {found.new or 'without a version'}", "title")]
    for what in ("added", "changed", "withdrawn", "removed"):
        entries = [change for change in found.entries if change.what == what]
        rows = (
            ((change.id, "key"), (f" ({change.kind.removesuffix('s')})", "dim"), (_format_fields(change.fields), ""))
            for change in entries
        )
        out += bullet_lines(f"{what.capitalize()}: {len(entries)}", rows)
    if not found.entries:
        return [*out, line("No changes.")]
    verdict = "" if found.is_version_sufficient else f" Its version is {found.new}: raise it in kb/catalogue.yaml."
    due = f" The version must be {found.required_version} or higher." if found.required_version else ""
    return [
        *out,
        (),
        line(f"This is a {found.level} change.{due}{verdict}", "ok" if found.is_version_sufficient else "warn"),
    ]


def _format_fields(fields: tuple[str, ...]) -> str:
    return f": {', '.join(fields)}" if fields else ""


_ENTRY_LINES: Mapping[type, Callable[..., list[Line]]] = {
    Condition: condition_lines,
    Signal: _signal_lines,
    Mitigation: _mitigation_lines,
    Source: _source_lines,
    Lesson: _finding_lines,
    Symptom: _symptom_lines,
    Format: _format_lines,
    Event: _event_lines,
}
