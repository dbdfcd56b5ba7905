"""All pages of the catalogue."""

from collections import Counter
from collections.abc import Iterator, Mapping

from skewscope.kb import draw
from skewscope.kb.drawing import part
from skewscope.kb.graph import edges
from skewscope.kb.markdown import index
from skewscope.kb.markdown.condition import condition_page
from skewscope.kb.markdown.others import finding_page, mitigation_page, signal_page, source_page
from skewscope.kb.matrix import matrix
from skewscope.kb.model import Catalogue, Observability
from skewscope.kb.query import named_by

Rules = Mapping[str, tuple[str, ...]]


def pages(catalogue: Catalogue, rules: Rules | None = None, *, suffix: str = "md") -> dict[str, str]:
    """By path, the pages in Markdown and the drawings in SVG; `rules` are those that recognise each condition.

    Links between pages end in `.md`; those inside the drawings in the suffix.
    """
    return dict(_pages(catalogue, rules or {}, suffix))


def _pages(catalogue: Catalogue, rules: Rules, suffix: str) -> Iterator[tuple[str, str]]:
    yield from _leading(catalogue, rules)
    yield from _entries(catalogue, rules)
    yield from _drawings(catalogue, suffix)


def _leading(catalogue: Catalogue, rules: Rules) -> Iterator[tuple[str, str]]:
    rows = matrix(catalogue)
    graph = part(catalogue, lookalikes=True)
    uses = Counter(id_ for c in catalogue.conditions.values() for id_ in {*c.signature, *_needs(c.observability)})
    yield "index.md", index.home(catalogue, rows)
    yield "matrix.md", index.matrix_page(rows)
    yield "graph.md", index.graph_page(catalogue, graph)
    yield "lookalikes.md", index.lookalikes_page(catalogue, graph)
    yield "claims.md", index.claims_page(catalogue)
    yield "conditions.md", index.conditions_index(rows, rules)
    yield "signals.md", index.signals_index(catalogue, uses)
    yield "mitigations.md", index.mitigations_index(catalogue)
    yield "sources.md", index.sources_index(catalogue)
    yield "findings.md", index.findings_index(catalogue)


def _needs(observability: tuple[Observability, ...]) -> set[str]:
    return {id_ for o in observability for id_ in o.needs}


def _entries(catalogue: Catalogue, rules: Rules) -> Iterator[tuple[str, str]]:
    users = named_by(catalogue)
    causes = edges(catalogue)
    for c in catalogue.conditions.values():
        yield f"conditions/{c.id}.md", condition_page(c, catalogue, causes, rules)
    for s in catalogue.signals.values():
        yield f"signals/{s.id}.md", signal_page(s, catalogue, users.get(("signals", s.id), {}))
    for m in catalogue.mitigations.values():
        yield f"mitigations/{m.id}.md", mitigation_page(m, catalogue, users.get(("mitigations", m.id), {}))
    for source in catalogue.sources.values():
        yield f"sources/{source.id}.md", source_page(source, catalogue, users.get(("sources", source.id), {}))
    for f in catalogue.findings.values():
        yield f"findings/{f.id}.md", finding_page(f, catalogue)


def _drawings(catalogue: Catalogue, suffix: str) -> Iterator[tuple[str, str]]:
    yield "graph.svg", draw.svg(catalogue, suffix)
    linked = {id_ for a, b, _ in edges(catalogue) for id_ in (a, b)}
    for id_ in sorted(linked):
        yield f"conditions/{id_}.svg", draw.neighbourhood(catalogue, id_, suffix)
