"""Labels of grades, verdicts and readings, with their meaning."""

from collections.abc import Iterable, Mapping

from skewscope.kb import citations
from skewscope.kb.markdown.text import code, escape_text, link
from skewscope.kb.model import Catalogue, Claim, Source

GRADE_DESCRIPTIONS: Mapping[str, str] = {
    "A": "measured in production, or read in full text with its numbers",
    "B": "numbers from the abstract of a paper, or several operators who measured it independently",
    "C": "second hand, from a vendor, or from one operator",
    "D": "no adequate measurement was found",
}

VERDICT_LABELS: Mapping[str, tuple[str, str]] = {
    "visible": ("● visible", "a DPU on the path sees a signature of it in its own traffic or counters"),
    "partial": ("◐ partial", "a symptom shows, but others look the same until something is relayed to the DPU"),
    "relayed": ("○ relayed", "only through telemetry of GPUs or engines that is relayed to the DPU"),
    "not_visible": ("· not visible", "nothing useful shows"),
}

DPU_CAPABILITY_LABELS: Mapping[str, tuple[str, str]] = {
    "itself": ("● itself", "the DPU can do it alone, with traffic that passes through it"),
    "part": ("◐ part", "the DPU does some of it, or sets it off"),
    "no": ("· no", "the DPU can only report"),
}

SEEN_DESCRIPTIONS: Mapping[str, str] = {
    "full text": "the passage itself was read",
    "abstract": "only the abstract or the opening was read; figures from the body were not",
    "documentation page": "a vendor's documentation",
    "issue thread": "an operator's or maintainer's report, one environment, not reviewed",
    "web page": "a blog, a forum or a guide",
    "secondary notes only": "from other people's notes on the work: still to be confirmed",
}

UNCONFIRMED = "secondary notes only"


def format_id_link(kind: str, id_: str, *, up: str = "../") -> str:
    """Returns a link to an entry's page that shows its id."""
    return f"[{code(id_)}]({up}{kind}/{id_}.md)"


def format_entry_link(catalogue: Catalogue, kind: str, id_: str, *, up: str = "../") -> str:
    """Returns a link to an entry's page that shows its name; only the id where there is no such entry."""
    known = getattr(catalogue, kind).get(id_)
    if known is None:
        return code(id_)
    return link(str(getattr(known, "name", "") or getattr(known, "title", id_)), f"{up}{kind}/{id_}.md")


def format_verdict(name: str) -> str:
    """Returns a verdict with its glyph."""
    return VERDICT_LABELS.get(name, ("? unknown", ""))[0]


def format_dpu_capability(name: str) -> str:
    """Returns a capability of a DPU with its glyph."""
    return DPU_CAPABILITY_LABELS.get(name, ("? unknown", ""))[0]


def format_seen(name: str) -> str:
    """Returns how a work was seen; unconfirmed works in bold."""
    return f"**{name}, to be confirmed**" if name == UNCONFIRMED else escape_text(name)


def format_basis(catalogue: Catalogue, basis: str) -> str:
    """Formats a basis: a judgement is marked first, a source is linked."""
    kind, colon, rest = basis.partition(":")
    if kind.strip() == "judgement":
        return "*our judgement*" + (f": {escape_text(rest)}" if rest.strip() else "")
    if kind.strip() != "source" or not colon:
        return escape_text(basis)
    ids, semicolon, why = rest.partition(";")
    works = ", ".join(format_citation(catalogue, id_.strip()) for id_ in ids.split(","))
    return works + (f"; {escape_text(why)}" if semicolon else "")


def format_citation(catalogue: Catalogue, id_: str, *, up: str = "../") -> str:
    """Formats a citation, linked to its page and its address."""
    known = catalogue.sources.get(id_)
    if known is None:
        return code(id_)
    out = format_locator(known)
    return link(f"{citations.byline(known)}, {known.year}", f"{up}sources/{id_}.md") + (f" ({out})" if out else "")


def format_locator(source: Source) -> str:
    """Formats the locator of a source, as a link where it is an address."""
    address = citations.source_url(source)
    return link(_short_locator(source), address) if address else escape_text(source.locator)


def _short_locator(source: Source) -> str:
    if number := citations.arxiv_id(source):
        return f"arXiv:{number}"
    if number := citations.doi(source):
        return f"doi:{number}"
    return source.locator.removeprefix("https://").removeprefix("http://")


def format_claims(catalogue: Catalogue, found: Iterable[Claim]) -> list[str]:
    """Formats claims, each with scale, source and how it was seen."""
    return [
        f"{escape_text(c.text)}{f' [{escape_text(c.scale)}]'.replace('[', chr(92) + '[', 1) if c.scale else ''}"
        f" — {format_citation(catalogue, c.source)}, seen: {format_seen(c.seen)}"
        for c in found
    ]
