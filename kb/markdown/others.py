"""The pages of signals, mitigations, sources and findings."""

from collections.abc import Mapping

from skewscope.kb import cite
from skewscope.kb.markdown.marks import SEEN, cited, claims, id_link, judged, named, reach, seen, where
from skewscope.kb.markdown.text import bullets, code, heading, page, plain, section, strong, table
from skewscope.kb.model import Catalogue, Finding, Mitigation, Signal, Source

Users = Mapping[str, tuple[str, ...]]
"""By kind, the ids of the entries that name an entry."""


def signal_page(s: Signal, catalogue: Catalogue, users: Users) -> str:
    """What a signal is, how each exporter calls it, and which conditions show in it."""
    low, high = s.range or (None, None)
    facts = {
        "Unit": code(s.unit),
        "Type": plain(s.type),
        "Of each": plain(s.entity),
        "Seen from": plain(", ".join(s.vantage)),
        "Access from a DPU": plain(s.dpu_access),
        "Metric": code(s.metric),
        "Several series become one by": plain(s.fold),
        "Range": f"{low:g} to {high:g}" if low is not None and high is not None else "",
        "Counter": f"{s.width_bits} bits{', stops at its end' if s.saturates else ''}" if s.type == "counter" else "",
        "Shortest useful period": f"{s.min_period:g} s" if s.min_period else "",
        "Looks back over": f"{s.window:g} s" if s.window else "",
        "Bits": ", ".join(f"{code(name)} = {value:#x}" for name, value in s.bits.items()),
    }
    names = (
        (
            plain(exporter),
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
            plain(s.note),
            f"No condition needs it: {plain(s.unused)}" if s.unused else "",
            section("Goes by", table(("Exporter", "Name", "Times", "Checked"), names)),
            section("Conditions that show in it", bullets(_named(catalogue, "conditions", users))),
        ]
    )


def mitigation_page(m: Mitigation, catalogue: Catalogue, users: Users) -> str:
    """What a mitigation does, who carries it out, what it costs, how it is undone and checked, and what it gained."""
    facts = {
        "Carried out by": plain(m.actor),
        "From a DPU": f"{strong(reach(m.dpu.can))}. {plain(m.dpu.how)}",
        "Effect": plain(m.effect),
        "Cost": plain(m.cost),
        "Risk": plain(m.risk),
        "Undone by": plain(m.undo),
        "Checked by": plain(m.verify),
        "Adapters": ", ".join(map(code, m.adapters)),
        "Rests on": judged(catalogue, m.basis),
    }
    return page(
        [
            heading(1, m.name),
            code(m.id),
            plain(m.what),
            bullets(f"{name}: {value}" for name, value in facts.items() if value),
            section("What was reported", bullets(claims(catalogue, m.claims))),
            section("Helps against", bullets(_named(catalogue, "conditions", users))),
        ]
    )


def source_page(s: Source, catalogue: Catalogue, users: Users) -> str:
    """A work, how it was seen, and all that the catalogue says on its word."""
    people = ", ".join(cite.authors(s)) or "nobody is named"
    facts = {
        "By": plain(people),
        "Year": str(s.year),
        "Kind": plain(s.kind),
        "Where": where(s),
        "In": plain(s.venue),
        "Seen": f"{seen(s.seen)}: {plain(SEEN.get(s.seen, ''))}",
    }
    told = [
        f"{named(catalogue, kind, id_)}: {text}"
        for kind in ("conditions", "mitigations")
        for id_ in users.get(kind, ())
        for text in _on_its_word(catalogue, kind, id_, s.id)
    ]
    others = [
        named(catalogue, kind, id_)
        for kind in ("conditions", "mitigations")
        for id_ in users.get(kind, ())
        if not _on_its_word(catalogue, kind, id_, s.id)
    ]
    return page(
        [
            heading(1, s.title),
            code(s.id),
            bullets(f"{name}: {value}" for name, value in facts.items() if value),
            plain(s.note),
            section("What is told on its word", bullets(told)),
            section("Judgements that rest on it", bullets(others)),
            section("Findings", bullets(_named(catalogue, "findings", users))),
        ]
    )


def _on_its_word(catalogue: Catalogue, kind: str, id_: str, source: str) -> list[str]:
    entry = getattr(catalogue, kind)[id_]
    found = entry.impacts if kind == "conditions" else entry.claims
    return [f"{plain(c.text)} (seen: {seen(c.seen)})" for c in found if c.source == source]


def finding_page(f: Finding, catalogue: Catalogue) -> str:
    """What was found, what follows, what it concerns."""
    facts = {
        "Value": strong(f.value),
        "What follows": plain(f.consequence),
        "Seen": seen(f.seen) if f.seen else "",
        "Rests on": judged(catalogue, f.basis),
    }
    return page(
        [
            heading(1, f.name),
            f"{code(f.id)} · {plain(f.kind)}",
            plain(f.text),
            bullets(f"{name}: {value}" for name, value in facts.items() if value),
            section(
                "From", bullets(f"{named(catalogue, 'sources', id_)}: {cited(catalogue, id_)}" for id_ in f.sources)
            ),
            section(
                "Concerns",
                bullets(f"{named(catalogue, 'conditions', id_)} {id_link('conditions', id_)}" for id_ in f.conditions),
            ),
        ]
    )


def _named(catalogue: Catalogue, kind: str, users: Users) -> list[str]:
    return [f"{named(catalogue, kind, id_)} ({code(id_)})" for id_ in users.get(kind, ())]
