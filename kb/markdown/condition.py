"""The page of a condition."""

from collections.abc import Iterable, Iterator, Mapping

from skewscope.kb.markdown.marks import GRADES, cited, claims, id_link, judged, named, reach, verdict
from skewscope.kb.markdown.text import bullets, code, heading, link, page, plain, section, strong, table
from skewscope.kb.matrix import DEPLOYMENTS
from skewscope.kb.model import Catalogue, Condition

Edges = Iterable[tuple[str, str, str]]


def condition_page(c: Condition, catalogue: Catalogue, edges: Edges, rules: Mapping[str, tuple[str, ...]]) -> str:
    """All that is known of a condition: recognising it, telling it apart, mending it, and who reported it."""
    causes = [(a, why) for a, b, why in edges if b == c.id]
    effects = [(b, why) for a, b, why in edges if a == c.id]
    return page(
        [
            heading(1, c.name),
            _tags(c),
            f"> Withdrawn: {plain(c.withdrawn)}" if c.withdrawn else "",
            plain(c.what),
            _facts(c),
            section("What a DPU sees of it", _observability(c, catalogue)),
            section("Shows in", _signature(c, catalogue), _resting("Chosen", c.signature_basis, catalogue)),
            section("Looks like", _lookalikes(c, catalogue), _outside(c, catalogue)),
            section("Why it happens", bullets(map(plain, c.why))),
            section("Causes and effects", *_causal(c, causes, effects, catalogue)),
            section("What to do", _ways(c, catalogue)),
            section("What was reported", bullets(claims(catalogue, c.impacts))),
            section("What else was found", bullets(_found(c, catalogue))),
            section("Notes", bullets(map(plain, c.notes))),
            section("Rules", bullets(_rules(c, rules.get(c.id, ())))),
        ]
    )


def _tags(c: Condition) -> str:
    grade = f"evidence {strong(c.grade)} ({GRADES.get(c.grade, 'not told')})"
    row = f"row of the paper: {plain(c.paper_row)}" if c.paper_row else ""
    return " · ".join(
        filter(
            None, [code(c.id), plain(c.group), plain(", ".join(c.scope)), plain(c.kind), grade, plain(c.maturity), row]
        )
    )


def _facts(c: Condition) -> str:
    facts = {"Also called": c.aliases, "Phases": c.phases, "Parallelism": c.parallelism}
    told = [f"{name}: {plain(', '.join(values))}" for name, values in facts.items() if values]
    return bullets([*told, *([f"Note: {plain(c.paper_note)}"] if c.paper_note else [])])


def _observability(c: Condition, catalogue: Catalogue) -> str:
    rows = (
        (
            f"{plain(DEPLOYMENTS.get(o.deployment, o.deployment))}",
            verdict(o.verdict),
            plain(o.reason),
            ", ".join(id_link("signals", id_) for id_ in o.needs) or "nothing",
            judged(catalogue, o.basis),
        )
        for o in c.observability
    )
    return table(("DPU as or with", "Verdict", "Why", "Needs", "Rests on"), rows)


def _signature(c: Condition, catalogue: Catalogue) -> str:
    known = [catalogue.signals[id_] for id_ in c.signature if id_ in catalogue.signals]
    rows = ((id_link("signals", s.id), plain(s.name), code(s.unit), plain(s.dpu_access)) for s in known)
    return table(("Signal", "What it is", "Unit", "Access from a DPU"), rows)


def _resting(what: str, basis: str, catalogue: Catalogue) -> str:
    return f"{what} by {judged(catalogue, basis)}." if basis else ""


def _lookalikes(c: Condition, catalogue: Catalogue) -> str:
    rows = (
        (named(catalogue, "conditions", o.condition), plain(o.separate_by), judged(catalogue, o.basis))
        for o in c.lookalikes
    )
    return table(("Condition", "How to tell them apart", "Rests on"), rows)


def _outside(c: Condition, catalogue: Catalogue) -> str:
    rows = [(plain(o.condition), plain(o.separate_by), judged(catalogue, o.basis)) for o in c.lookalikes_outside]
    return table(("Outside the catalogue", "How to tell them apart", "Rests on"), rows)


def _causal(
    c: Condition, causes: list[tuple[str, str]], effects: list[tuple[str, str]], catalogue: Catalogue
) -> Iterator[str]:
    if not causes and not effects:
        return
    yield f"![Causes of {plain(c.name)} on the left, effects on the right]({c.id}.svg)"
    for title, links in (("Brought about by:", causes), ("Brings about:", effects)):
        if links:
            yield title
            yield bullets(f"{named(catalogue, 'conditions', id_)}: {plain(why)}" for id_, why in links)


def _ways(c: Condition, catalogue: Catalogue) -> str:
    known = [catalogue.mitigations[id_] for id_ in c.mitigations if id_ in catalogue.mitigations]
    rows = (
        (link(m.name, f"../mitigations/{m.id}.md"), plain(m.actor), reach(m.dpu.can), plain(m.risk), plain(m.effect))
        for m in known
    )
    return table(("Mitigation", "Carried out by", "From a DPU", "Risk", "Effect"), rows)


def _found(c: Condition, catalogue: Catalogue) -> Iterator[str]:
    for f in catalogue.findings.values():
        if c.id in f.conditions:
            by = "".join(f" — {cited(catalogue, id_)}" for id_ in f.sources)
            yield f"{named(catalogue, 'findings', f.id)} ({plain(f.kind)}): {plain(f.text)}{by}"


def _rules(c: Condition, rules: tuple[str, ...]) -> Iterator[str]:
    if rules:
        yield f"Recognised by {', '.join(map(code, rules))}."
    if c.without_rule:
        yield f"No rule recognises it, {plain(c.without_rule.status)}: {plain(c.without_rule.reason)}"
