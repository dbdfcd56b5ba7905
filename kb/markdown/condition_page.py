"""The page of a condition."""

from collections.abc import Iterable, Iterator, Mapping

from skewscope.kb.markdown.labels import (
    GRADE_DESCRIPTIONS,
    format_basis,
    format_citation,
    format_claims,
    format_dpu_capability,
    format_entry_link,
    format_id_link,
    format_verdict,
)
from skewscope.kb.markdown.text import bullets, code, escape_text, heading, link, page, section, strong, table
from skewscope.kb.matrix import DEPLOYMENTS
from skewscope.kb.model import Catalogue, Condition
from skewscope.kb.rank import strongest_claim

Edges = Iterable[tuple[str, str, str]]


def condition_page(c: Condition, catalogue: Catalogue, edges: Edges, rules: Mapping[str, tuple[str, ...]]) -> str:
    """Returns the page of a condition: signature, look-alikes, mitigations and reports."""
    causes = [(a, why) for a, b, why in edges if b == c.id]
    effects = [(b, why) for a, b, why in edges if a == c.id]
    return page(
        [
            heading(1, c.name),
            _tag_line(c),
            f"> Withdrawn: {escape_text(c.withdrawn)}" if c.withdrawn else "",
            escape_text(c.what),
            _fact_list(c),
            _cost_sentence(c, catalogue),
            _drawing(c, causes, effects),
            section(
                "What you see, then it is", _lookalike_table(c, catalogue), _external_lookalike_table(c, catalogue)
            ),
            section("What to do", _mitigation_table(c, catalogue)),
            section("What a DPU sees of it", _observability_table(c, catalogue)),
            section(
                "Shows in", _signature_table(c, catalogue), _basis_sentence("Chosen", c.signature_basis, catalogue)
            ),
            section("Why it happens", bullets(map(escape_text, c.why))),
            section("Causes and effects", *_causal_links(causes, effects, catalogue)),
            section("What was reported", bullets(format_claims(catalogue, c.impacts))),
            section("What else was found", bullets(_finding_items(c, catalogue))),
            section("Notes", bullets(map(escape_text, [*c.notes, *([c.paper_note] if c.paper_note else [])]))),
            section("Rules", bullets(_rule_items(c, rules.get(c.id, ())))),
        ]
    )


def _tag_line(c: Condition) -> str:
    grade = f"evidence {strong(c.grade)} ({GRADE_DESCRIPTIONS.get(c.grade, 'unknown')})"
    row = f"row of the paper: {escape_text(c.paper_row)}" if c.paper_row else ""
    return " · ".join(
        filter(
            None,
            [
                code(c.id),
                escape_text(c.group),
                escape_text(", ".join(c.scope)),
                escape_text(c.kind),
                grade,
                escape_text(c.maturity),
                row,
            ],
        )
    )


def _fact_list(c: Condition) -> str:
    facts = {"Also called": c.aliases, "Phases": c.phases, "Parallelism": c.parallelism}
    facts |= {"Prevalence": (c.prevalence,)} if c.prevalence else {}
    return bullets(f"{name}: {escape_text(', '.join(values))}" for name, values in facts.items() if values)


def _cost_sentence(c: Condition, catalogue: Catalogue) -> str:
    cost = strongest_claim(c)
    return f"{strong('What it costs')}: {format_claims(catalogue, (cost,))[0]}" if cost else ""


def _observability_table(c: Condition, catalogue: Catalogue) -> str:
    rows = (
        (
            f"{escape_text(DEPLOYMENTS.get(o.deployment, o.deployment))}",
            format_verdict(o.verdict),
            escape_text(f"Same as {DEPLOYMENTS.get(o.same_as, o.same_as)}." if o.same_as else o.reason),
            ", ".join(format_id_link("signals", id_) for id_ in o.needs) or "nothing",
            format_basis(catalogue, o.basis),
        )
        for o in c.observability
    )
    return table(("DPU as or with", "Verdict", "Why", "Needs", "Rests on"), rows)


def _signature_table(c: Condition, catalogue: Catalogue) -> str:
    known = [(item, catalogue.signals[item.signal]) for item in c.signature if item.signal in catalogue.signals]
    rows = (
        (
            format_id_link("signals", s.id),
            escape_text(s.name),
            code(s.unit),
            escape_text(f"{item.direction} against {item.against}"),
            escape_text(item.shows),
            escape_text(s.dpu_access),
        )
        for item, s in known
    )
    return table(("Signal", "What it is", "Unit", "How it shows", "How often", "Access from a DPU"), rows)


def _basis_sentence(what: str, basis: str, catalogue: Catalogue) -> str:
    return f"{what} by {format_basis(catalogue, basis)}." if basis else ""


def _lookalike_table(c: Condition, catalogue: Catalogue) -> str:
    rows = (
        (
            escape_text(o.separate_by),
            format_entry_link(catalogue, "conditions", o.condition),
            format_basis(catalogue, o.basis),
        )
        for o in c.lookalikes
    )
    return table(("Test that separates them", "Or it is", "Rests on"), rows)


def _external_lookalike_table(c: Condition, catalogue: Catalogue) -> str:
    rows = [
        (escape_text(o.separate_by), escape_text(o.condition), format_basis(catalogue, o.basis))
        for o in c.lookalikes_outside
    ]
    return table(("Test that separates them", "Or, outside the catalogue", "Rests on"), rows)


def _drawing(c: Condition, causes: list[tuple[str, str]], effects: list[tuple[str, str]]) -> str:
    """Returns the picture of the causes and effects around a condition, '' where it has none."""
    if not causes and not effects:
        return ""
    return f"![Causes of {escape_text(c.name)} on the left, effects on the right]({c.id}.svg)"


def _causal_links(causes: list[tuple[str, str]], effects: list[tuple[str, str]], catalogue: Catalogue) -> Iterator[str]:
    for title, links in (("Brought about by:", causes), ("Brings about:", effects)):
        if links:
            yield title
            yield bullets(
                f"{format_entry_link(catalogue, 'conditions', id_)}: {escape_text(why)}" for id_, why in links
            )


def _mitigation_table(c: Condition, catalogue: Catalogue) -> str:
    known = [catalogue.mitigations[id_] for id_ in c.mitigations if id_ in catalogue.mitigations]
    rows = (
        (
            link(m.name, f"../mitigations/{m.id}.md"),
            escape_text(m.actor),
            format_dpu_capability(m.dpu.can),
            escape_text(m.risk),
            escape_text(m.effect),
        )
        for m in known
    )
    return table(("Mitigation", "Carried out by", "From a DPU", "Risk", "Effect"), rows)


def _finding_items(c: Condition, catalogue: Catalogue) -> Iterator[str]:
    for f in catalogue.findings.values():
        if c.id in f.conditions:
            by = "".join(f" — {format_citation(catalogue, id_)}" for id_ in f.sources)
            yield f"{format_entry_link(catalogue, 'findings', f.id)} ({escape_text(f.kind)}): {escape_text(f.text)}{by}"


def _rule_items(c: Condition, rules: tuple[str, ...]) -> Iterator[str]:
    if rules:
        yield f"Recognised by {', '.join(map(code, rules))}."
    if c.without_rule:
        yield f"No rule recognises it, {escape_text(c.without_rule.status)}: {escape_text(c.without_rule.reason)}"
