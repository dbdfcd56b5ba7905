"""Builds all pages of the catalogue."""

from collections import Counter
from collections.abc import Iterator, Mapping

from skewscope.kb import graph_svg
from skewscope.kb.graph import edges
from skewscope.kb.graph_formats import select_subgraph
from skewscope.kb.markdown import index_pages
from skewscope.kb.markdown.condition_page import condition_page
from skewscope.kb.markdown.entry_pages import finding_page, mitigation_page, signal_page, source_page, symptom_page
from skewscope.kb.markdown.text_pages import event_page, format_page
from skewscope.kb.matrix import build_matrix
from skewscope.kb.model import Catalogue, Observability
from skewscope.kb.query import reference_index

RulesByCondition = Mapping[str, tuple[str, ...]]


def build_pages(catalogue: Catalogue, rules: RulesByCondition | None = None, *, suffix: str = "md") -> dict[str, str]:
    """Returns by path the Markdown pages and SVG drawings; `rules` lists the rules of each condition.

    Links between pages end in `.md`; those inside the drawings in the suffix.
    """
    return dict(_iter_pages(catalogue, rules or {}, suffix))


def _iter_pages(catalogue: Catalogue, rules: RulesByCondition, suffix: str) -> Iterator[tuple[str, str]]:
    yield from _index_pages(catalogue, rules)
    yield from _entry_pages(catalogue, rules)
    yield from _drawings(catalogue, suffix)


def _index_pages(catalogue: Catalogue, rules: RulesByCondition) -> Iterator[tuple[str, str]]:
    rows = build_matrix(catalogue)
    graph = select_subgraph(catalogue, lookalikes=True)
    uses = Counter(
        id_ for c in catalogue.conditions.values() for id_ in {*c.signature_signals, *_needed_signals(c.observability)}
    )
    yield "index.md", index_pages.home_page(catalogue, rows)
    yield "matrix.md", index_pages.matrix_page(catalogue, rows)
    yield "graph.md", index_pages.graph_page(catalogue, graph)
    yield "lookalikes.md", index_pages.lookalikes_page(catalogue, graph)
    yield "claims.md", index_pages.claims_page(catalogue)
    yield "conditions.md", index_pages.conditions_index(rows, rules)
    yield "signals.md", index_pages.signals_index(catalogue, uses)
    yield "symptoms.md", index_pages.symptoms_index(catalogue)
    yield "mitigations.md", index_pages.mitigations_index(catalogue)
    yield "sources.md", index_pages.sources_index(catalogue)
    yield "findings.md", index_pages.findings_index(catalogue)
    yield "formats.md", index_pages.formats_index(catalogue)
    yield "events.md", index_pages.events_index(catalogue)


def _needed_signals(observability: tuple[Observability, ...]) -> set[str]:
    return {id_ for o in observability for id_ in o.needs}


def _entry_pages(catalogue: Catalogue, rules: RulesByCondition) -> Iterator[tuple[str, str]]:
    users = reference_index(catalogue)
    causes = edges(catalogue)
    for c in catalogue.conditions.values():
        yield f"conditions/{c.id}.md", condition_page(c, catalogue, causes, rules)
    for s in catalogue.signals.values():
        yield f"signals/{s.id}.md", signal_page(s, catalogue, users.get(("signals", s.id), {}))
    for y in catalogue.symptoms.values():
        yield f"symptoms/{y.id}.md", symptom_page(y, catalogue, users.get(("symptoms", y.id), {}))
    for m in catalogue.mitigations.values():
        yield f"mitigations/{m.id}.md", mitigation_page(m, catalogue, users.get(("mitigations", m.id), {}))
    for source in catalogue.sources.values():
        yield f"sources/{source.id}.md", source_page(source, catalogue, users.get(("sources", source.id), {}))
    for f in catalogue.findings.values():
        yield f"findings/{f.id}.md", finding_page(f, catalogue)
    for one in catalogue.formats.values():
        yield f"formats/{one.id}.md", format_page(one, catalogue)
    for event in catalogue.events.values():
        yield f"events/{event.id}.md", event_page(event, catalogue)


def _drawings(catalogue: Catalogue, suffix: str) -> Iterator[tuple[str, str]]:
    yield "graph.svg", graph_svg.draw_graph(catalogue, suffix)
    linked = {id_ for a, b, _ in edges(catalogue) for id_ in (a, b)}
    for id_ in sorted(linked):
        yield f"conditions/{id_}.svg", graph_svg.draw_neighbourhood(catalogue, id_, suffix)
