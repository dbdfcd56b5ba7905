"""Lints of findings."""

from skewscope.kb.entry_store import CatalogueEntry, EntryStore
from skewscope.kb.lint import EntryProblems, Problems, catalogue_lint, entry_lint
from skewscope.kb.lints.sources import SECOND_HAND
from skewscope.kb.model import Lesson

SEEN_LEVELS = ("full text", "documentation page", "abstract", "issue thread", "web page", SECOND_HAND)
"""How closely a work was read."""


@entry_lint("findings", "Give the number as the source gives it, or choose another kind.")
def threshold_has_a_value(entry: CatalogueEntry) -> Problems:
    """A threshold has its value, and nothing else has one."""
    assert isinstance(entry.value, Lesson)
    if (entry.value.kind == "threshold") != bool(entry.value.value):
        found = f"{entry.value.kind} {'with' if entry.value.value else 'without'} a value"
        yield entry.document.problem(("kind",), found, "a value for a threshold, and only there")


@entry_lint("findings", "Name the works, and how they were seen; what has not been measured is a gap.")
def finding_has_sources(entry: CatalogueEntry) -> Problems:
    """A finding has sources and says how they were seen; a gap has none."""
    assert isinstance(entry.value, Lesson)
    ours = entry.value.basis.startswith("judgement")
    if entry.value.kind == "gap" or (entry.value.kind == "separation" and ours):
        return
    for field in ("sources", "seen"):
        if not entry.document.data.get(field):
            yield entry.document.problem((field,), "no value", "works that say so, and how they were seen")


@catalogue_lint("Say how the least well seen of them was seen.")
def finding_is_seen_no_better_than_its_sources(store: EntryStore) -> EntryProblems:
    """No finding claims to have been read more closely than the works that it is from."""
    known = store.catalogue.sources
    for entry in store.of_kind("findings"):
        assert isinstance(entry.value, Lesson)
        levels = [SEEN_LEVELS.index(known[id_].seen) for id_ in entry.value.sources if id_ in known]
        if entry.value.seen and levels and SEEN_LEVELS.index(entry.value.seen) < min(levels):
            text = f"{entry.value.seen!r} of works seen as {SEEN_LEVELS[min(levels)]!r} at best"
            yield entry.name, entry.document.problem(("seen",), text, "no more than was seen")
