"""Lints of sources and of how they were seen."""

import re

from skewscope.kb.entry_store import CatalogueEntry, EntryStore
from skewscope.kb.lint import EntryProblems, Problems, catalogue_lint, entry_lint
from skewscope.kb.model import Source

_locator = re.compile(
    r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/\S+|https?://\S+|github\.com/\S+#\d+|[\w.-]+\.[a-z]{2,}/\S+"
    r"|[A-Z][\w ]*'\d\d\b|[A-Z][\w ]+ \d{4}\b"
)


@entry_lint("sources", "arXiv:2509.18114, doi:10.1145/..., a URL, github.com/owner/name#12, or a venue with its year.")
def source_has_locator(entry: CatalogueEntry) -> Problems:
    """Every source can be found by its locator."""
    assert isinstance(entry.value, Source)
    if not _locator.search(entry.value.locator):
        yield entry.document.problem(("locator",), f"{entry.value.locator!r}", "where the work can be found")


@catalogue_lint("Say how the claim was seen; if the work was read since, say so in the source.")
def claim_is_seen_no_better_than_its_source(store: EntryStore) -> EntryProblems:
    """No claim was read more closely than its source."""
    known = store.catalogue.sources
    for entry in store.entries:
        for field in ("impacts", "claims"):
            for n, claim in enumerate(entry.document.data.get(field, ())):
                source = known.get(claim["source"])
                if source and claim["seen"] not in (source.seen, *_less_detailed.get(source.seen, (SECOND_HAND,))):
                    text = f"{claim['seen']!r} of a source seen as {source.seen!r}"
                    yield entry.name, entry.document.problem((field, n, "seen"), text, "no more than was seen")


SECOND_HAND = "secondary notes only"
_less_detailed = {"full text": ("abstract", SECOND_HAND)}
