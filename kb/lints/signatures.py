"""Lints of the signatures of conditions."""

from collections.abc import Iterator

from skewscope.kb.entry_store import CatalogueEntry, EntryStore
from skewscope.kb.lint import EntryProblems, Problems, catalogue_lint, entry_lint
from skewscope.kb.model import Condition, Signal, SignatureItem
from skewscope.kb.signatures import is_detectable

AMONG_OTHERS = ("peers", "siblings")
POSSIBLE_COMPARISONS = {
    "uneven": AMONG_OTHERS,
    "silent": ("past",),
    "begins": ("past", "nominal"),
    "stops": ("past", "peers"),
}
"""What an item of a direction can be compared with; any other direction with everything."""
POSSIBLE_TYPES = {
    "begins": ("counter", "state", "bitmask", "event"),
    "stops": ("counter",),
    "up": ("counter", "gauge", "histogram", "event"),
    "down": ("counter", "gauge", "histogram", "state", "info"),
    "uneven": ("counter", "gauge", "histogram", "event"),
}
"""Types of signal that can show a direction; `silent` any."""
ENTITIES_WITH_SIBLINGS = ("port", "rdma_port", "link", "lane", "priority")


@entry_lint("conditions", "Name the signals in which it shows, or say in without_rule why there are none.")
def condition_with_a_rule_has_signature(entry: CatalogueEntry) -> Problems:
    """A condition that rules recognise shows in some signal."""
    assert isinstance(entry.value, Condition)
    if not entry.value.signature and entry.value.without_rule is None:
        yield entry.document.problem(("id",), "no signature", "the signals in which it shows")


@entry_lint("conditions", "Keep the one that shows more often, or compare with something else.")
def signature_item_is_written_once(entry: CatalogueEntry) -> Problems:
    """A signature names a signal once for each direction and comparison."""
    assert isinstance(entry.value, Condition)
    told: set[tuple[str, str, str]] = set()
    for n, item in enumerate(entry.value.signature):
        key = (item.signal, item.direction, item.against)
        if key in told:
            text = f"{item.signal} {item.direction} against {item.against} for the second time"
            yield entry.document.problem(("signature", n), text, "each once")
        told.add(key)


@entry_lint("conditions", "Compare with what can differ: uneven are members among themselves, silent is a series.")
def comparison_fits_direction(entry: CatalogueEntry) -> Problems:
    """The comparison of a signature's item is possible for its direction."""
    assert isinstance(entry.value, Condition)
    for n, item in enumerate(entry.value.signature):
        possible = POSSIBLE_COMPARISONS.get(item.direction, (item.against,))
        if item.against not in possible:
            found = f"{item.direction} against {item.against}"
            yield entry.document.problem(("signature", n, "against"), found, f"one of {', '.join(possible)}")


@catalogue_lint("Take the direction that a signal of this type can show.")
def direction_fits_signal(store: EntryStore) -> EntryProblems:
    """A signal can show what a signature says of it, and has siblings where it is compared with them."""
    known = store.catalogue.signals
    for entry in store.of_kind("conditions"):
        assert isinstance(entry.value, Condition)
        for n, item in enumerate(entry.value.signature):
            for field, found, expected in _unfit(item, known[item.signal]) if item.signal in known else ():
                yield entry.name, entry.document.problem(("signature", n, field), found, expected)


def _unfit(item: SignatureItem, signal: Signal) -> Iterator[tuple[str, str, str]]:
    """Yields field, finding and expectation of an item that its signal cannot show."""
    types = POSSIBLE_TYPES.get(item.direction, (signal.type,))
    if signal.type not in types:
        yield "direction", f"{item.direction} of {signal.id}, a {signal.type}", f"a signal of type {', '.join(types)}"
    if item.against == "siblings" and signal.entity not in ENTITIES_WITH_SIBLINGS:
        found = f"siblings of {signal.id}, which belongs to a {signal.entity}"
        yield "against", found, f"a signal of a {', '.join(ENTITIES_WITH_SIBLINGS)}"


@catalogue_lint("Add an item that compares a signal as the signal's judgement does.")
def signature_is_detectable(store: EntryStore) -> EntryProblems:
    """Every signature has an item that a signal can show by the way it is judged."""
    known = store.catalogue.signals
    for entry in store.of_kind("conditions"):
        assert isinstance(entry.value, Condition)
        items = entry.value.signature
        if items and not any(item.signal in known and is_detectable(item, known[item.signal]) for item in items):
            found = f"{len(items)} items that no signal is judged by"
            yield entry.name, entry.document.problem(("signature",), found, "one that its signal can show")
