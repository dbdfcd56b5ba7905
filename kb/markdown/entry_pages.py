"""The pages of signals, mitigations, sources and findings."""

from collections.abc import Mapping

from skewscope.kb import citations
from skewscope.kb.command_template import fill_command
from skewscope.kb.judgement import describe_least
from skewscope.kb.markdown.labels import (
    SEEN_DESCRIPTIONS,
    format_basis,
    format_citation,
    format_claims,
    format_dpu_capability,
    format_entry_link,
    format_id_link,
    format_locator,
    format_seen,
)
from skewscope.kb.markdown.text import bullets, code, code_block, escape_text, heading, page, section, strong, table
from skewscope.kb.model import Catalogue, Lesson, Mitigation, Signal, Source, Symptom
from skewscope.kb.problems import join_names

FORM_LABELS = {
    "peers": "one member deviates from its peers",
    "past": "it differs from its own past",
    "moving": "some member always does, not always the same",
    "zero": "it falls to zero",
    "less": "it falls far below what its siblings let expect",
    "repeats": "it comes and goes",
    "start": "the first values were bad, as those that followed show",
}
"""Forms of a deviation."""

References = Mapping[str, tuple[str, ...]]
"""By kind, the ids of the entries that name an entry."""


def signal_page(s: Signal, catalogue: Catalogue, users: References) -> str:
    """Returns the page of a signal: its names in exporters and its conditions."""
    low, high = s.range or (None, None)
    facts = {
        "Unit": code(s.unit),
        "Type": escape_text(s.type),
        "Of each": escape_text(s.entity),
        "Seen from": escape_text(", ".join(s.vantage)),
        "Access from a DPU": escape_text(s.dpu_access),
        "Metric": code(s.metric),
        "Several series become one by": escape_text(s.fold),
        "Range": f"{low:g} to {high:g}" if low is not None and high is not None else "",
        "Counter": f"{s.width_bits} bits{', stops at its end' if s.saturates else ''}" if s.type == "counter" else "",
        "Shortest useful period": f"{s.min_period:g} s" if s.min_period else "",
        "Looks back over": f"{s.window:g} s" if s.window else "",
        "Bits": ", ".join(f"{code(name)} = {value:#x}" for name, value in s.bits.items()),
    }
    names = (
        (
            escape_text(exporter),
            ", ".join(map(code, found)),
            f"{s.scale[exporter]:g}" if exporter in s.scale else "1",
            "**not confirmed**" if exporter in s.unverified else "confirmed",
        )
        for exporter, found in sorted(s.sources.items())
    )
    return page(
        [
            heading(1, s.name),
            code(s.id),
            bullets(f"{name}: {value}" for name, value in facts.items() if value),
            escape_text(s.note),
            f"No condition needs it: {escape_text(s.unused)}" if s.unused else "",
            section("Judged by itself", bullets(_judgement_facts(s, catalogue))),
            section("Goes by", table(("Exporter", "Name", "Times", "Checked"), names)),
            section("Conditions that show in it", bullets(_entry_links(catalogue, "conditions", users))),
            section("Signals that count under its load", bullets(_entry_links(catalogue, "signals", users))),
        ]
    )


def _judgement_facts(s: Signal, catalogue: Catalogue) -> list[str]:
    if s.judged is None:
        return []
    facts = {
        "Role": escape_text(s.judged.role),
        "Bad": escape_text(s.judged.bad),
        "Compared with": escape_text(", ".join(s.judged.against)),
        "Least change": escape_text(describe_least(s.judged, s.unit, s.type)),
        "Nominal": "" if s.judged.nominal is None else f"{s.judged.nominal:g} {code(s.unit)}",
        "Counts under load of": format_id_link("signals", s.judged.given) if s.judged.given else "",
        "Least load": f"{100 * s.judged.least_load:g} %" if s.judged.least_load else "",
        "Symptom": format_entry_link(catalogue, "symptoms", s.judged.symptom) if s.judged.symptom else "",
        "Rests on": format_basis(catalogue, s.judged.basis),
    }
    return [f"{name}: {value}" for name, value in facts.items() if value]


def symptom_page(y: Symptom, catalogue: Catalogue, users: References) -> str:
    """Returns the page of a symptom: its sentence, and the signals that show it."""
    facts = {
        "Severity": escape_text(y.severity),
        "Told as": escape_text(y.title),
        "Roles of its signals": escape_text(", ".join(y.roles)),
        **{
            f"Told instead ({FORM_LABELS[form]})": format_entry_link(catalogue, "symptoms", id_)
            for form, id_ in y.instead.items()
        },
        "Rests on": format_basis(catalogue, y.basis),
    }
    return page(
        [
            heading(1, y.name),
            code(y.id),
            escape_text(y.what),
            bullets(f"{name}: {value}" for name, value in facts.items() if value),
            section("Signals that show it", bullets(_entry_links(catalogue, "signals", users))),
        ]
    )


def mitigation_page(m: Mitigation, catalogue: Catalogue, users: References) -> str:
    """Returns the page of a mitigation: actor, cost, undo, verification and reported gains."""
    facts = {
        "Carried out by": escape_text(m.actor),
        "From a DPU": f"{strong(format_dpu_capability(m.dpu.can))}. {escape_text(m.dpu.how)}",
        "Effect": escape_text(m.effect),
        "Cost": escape_text(m.cost),
        "Risk": escape_text(m.risk),
        "Undone by": escape_text(m.undo),
        "Checked by": escape_text(m.verify),
        "Carried out as": ", ".join(f"{change.kind} of a {change.of}" for change in m.changes) or "by hand",
        "Rests on": format_basis(catalogue, m.basis),
    }
    return page(
        [
            heading(1, m.name),
            code(m.id),
            escape_text(m.what),
            bullets(f"{name}: {value}" for name, value in facts.items() if value),
            section("Commands", _command_blocks(m, catalogue)),
            section("What was reported", bullets(format_claims(catalogue, m.claims))),
            section("Helps against", bullets(_entry_links(catalogue, "conditions", users))),
        ]
    )


def _command_blocks(m: Mitigation, catalogue: Catalogue) -> str:
    """Returns each command in a block to copy, with its way back and what it rests on; '' without any."""
    out = [escape_text(m.no_command)] if m.no_command else []
    for command in (fill_command(one, {}) for one in m.commands):
        seen = f"Seen in {escape_text(command.version)}; {format_basis(catalogue, command.basis)}."
        needs = f" Needs {escape_text(command.needs)}." if command.needs else ""
        errors = f" For Xid {join_names(list(map(str, command.errors)))}." if command.errors else ""
        out += [f"{strong(command.tool)} ({escape_text(command.where)}).{errors} {seen}{needs}", code_block(command.do)]
        if command.undo:
            out += ["To take it back:", code_block(command.undo)]
        elif command.undo_by_hand:
            out.append(f"To take it back: {escape_text(command.undo_by_hand)}")
        if command.check:
            out += ["To check:", code_block(command.check)]
    return "\n\n".join(out)


def source_page(s: Source, catalogue: Catalogue, users: References) -> str:
    """Returns the page of a source: how it was seen, and the statements that cite it."""
    people = ", ".join(citations.author_names(s)) or "no named authors"
    facts = {
        "By": escape_text(people),
        "Year": str(s.year),
        "Kind": escape_text(s.kind),
        "Where": format_locator(s),
        "In": escape_text(s.venue),
        "Seen": f"{format_seen(s.seen)}: {escape_text(SEEN_DESCRIPTIONS.get(s.seen, ''))}",
    }
    told = [
        f"{format_entry_link(catalogue, kind, id_)}: {text}"
        for kind in ("conditions", "mitigations")
        for id_ in users.get(kind, ())
        for text in _claims_from_source(catalogue, kind, id_, s.id)
    ]
    others = [
        format_entry_link(catalogue, kind, id_)
        for kind in ("conditions", "mitigations", "symptoms", "signals")
        for id_ in users.get(kind, ())
        if not _claims_from_source(catalogue, kind, id_, s.id)
    ]
    return page(
        [
            heading(1, s.title),
            code(s.id),
            bullets(f"{name}: {value}" for name, value in facts.items() if value),
            escape_text(s.note),
            section("What is told on its word", bullets(told)),
            section("Judgements that rest on it", bullets(others)),
            section("Findings", bullets(_entry_links(catalogue, "findings", users))),
        ]
    )


def _claims_from_source(catalogue: Catalogue, kind: str, id_: str, source: str) -> list[str]:
    entry = getattr(catalogue, kind)[id_]
    found = getattr(entry, "impacts" if kind == "conditions" else "claims", ())
    return [f"{escape_text(c.text)} (seen: {format_seen(c.seen)})" for c in found if c.source == source]


def finding_page(f: Lesson, catalogue: Catalogue) -> str:
    """Returns the page of a finding: result, consequence and conditions."""
    facts = {
        "Value": strong(f.value),
        "What follows": escape_text(f.consequence),
        "Seen": format_seen(f.seen) if f.seen else "",
        "Rests on": format_basis(catalogue, f.basis),
    }
    return page(
        [
            heading(1, f.name),
            f"{code(f.id)} · {escape_text(f.kind)}",
            escape_text(f.text),
            bullets(f"{name}: {value}" for name, value in facts.items() if value),
            section(
                "From",
                bullets(
                    f"{format_entry_link(catalogue, 'sources', id_)}: {format_citation(catalogue, id_)}"
                    for id_ in f.sources
                ),
            ),
            section(
                "Concerns",
                bullets(
                    f"{format_entry_link(catalogue, 'conditions', id_)} {format_id_link('conditions', id_)}"
                    for id_ in f.conditions
                ),
            ),
        ]
    )


def _entry_links(catalogue: Catalogue, kind: str, users: References) -> list[str]:
    return [f"{format_entry_link(catalogue, kind, id_)} ({code(id_)})" for id_ in users.get(kind, ())]
