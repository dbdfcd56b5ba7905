"""Lists and searches the claims of the catalogue."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from skewscope.kb.model import Catalogue, Claim, Source

MAX_QUERY = 400
MAX_WORDS = 20


@dataclass(frozen=True, slots=True)
class EntryClaim:
    """A claim and the entry that contains it."""

    kind: str
    """conditions, mitigations or findings."""
    id: str
    name: str
    claim: Claim


def iter_claims(catalogue: Catalogue) -> Iterator[EntryClaim]:
    """Yields every claim of conditions, mitigations and findings, by kind and id."""
    for c in catalogue.conditions.values():
        yield from (EntryClaim("conditions", c.id, c.name, claim) for claim in c.impacts)
    for m in catalogue.mitigations.values():
        yield from (EntryClaim("mitigations", m.id, m.name, claim) for claim in m.claims)
    for f in catalogue.findings.values():
        text = f"{f.text} {f.value}".strip()
        yield from (EntryClaim("findings", f.id, f.name, Claim(text, source, f.seen)) for source in f.sources)


def search_claims(catalogue: Catalogue, text: str) -> tuple[EntryClaim, ...]:
    """Returns the claims that contain every word: in their text, entry name or source title."""
    wanted = _query_words(text)
    return tuple(
        told
        for told in iter_claims(catalogue)
        if wanted and _matches_all(_words(_searchable_text(catalogue, told)), wanted)
    )


def search_sources(catalogue: Catalogue, text: str) -> tuple[Source, ...]:
    """Returns the sources whose title or claims contain every word, by id; all without words."""
    wanted = _query_words(text)
    cited = {told.claim.source for told in search_claims(catalogue, text)}
    return tuple(
        source
        for source in catalogue.sources.values()
        if source.id in cited or _matches_all(_words(f"{source.id} {source.title} {source.note}"), wanted)
    )


def _searchable_text(catalogue: Catalogue, told: EntryClaim) -> str:
    source = catalogue.sources.get(told.claim.source)
    names = " ".join(catalogue.conditions[told.id].aliases) if told.kind == "conditions" else ""
    return " ".join((told.id, told.name, names, told.claim.text, told.claim.scale, source.title if source else ""))


def _query_words(text: str) -> list[str]:
    return _words(text[:MAX_QUERY])[:MAX_WORDS]


def _matches_all(words: list[str], wanted: list[str]) -> bool:
    """Returns whether each wanted word is the prefix of one of the words."""
    return all(any(word.startswith(start) for word in words) for start in wanted)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())
