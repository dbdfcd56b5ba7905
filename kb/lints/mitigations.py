"""Lints of mitigations."""

from skewscope.kb.entry_store import CatalogueEntry
from skewscope.kb.lint import Problems, entry_lint
from skewscope.kb.model import Mitigation


@entry_lint("mitigations", "Say how to undo it and how to verify it.")
def mitigation_can_be_undone(entry: CatalogueEntry) -> Problems:
    """Every mitigation says how it is undone and verified, in more than a word."""
    assert isinstance(entry.value, Mitigation)
    for field in ("undo", "verify", "cost"):
        text: str = entry.document.data[field]
        if len(text.split()) < 3:
            yield entry.document.problem((field,), f"{text!r}", "a sentence that one could act on")
