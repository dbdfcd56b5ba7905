"""Lints of references: they exist, each link is written once, causes have no cycle."""

from collections.abc import Iterator

from skewscope.kb.basis import cited_sources, is_basis
from skewscope.kb.builders import EVENT_SYMPTOM
from skewscope.kb.entry_store import CatalogueEntry, EntryStore
from skewscope.kb.graph import cycles
from skewscope.kb.lint import EntryProblems, Problems, cache_by_entry, catalogue_lint, entry_lint
from skewscope.kb.problems import suggest_name
from skewscope.kb.yamlfile import FieldPath


@entry_lint("", "Rename the file, or correct the id.", integrity=True)
def filename_is_id(entry: CatalogueEntry) -> Problems:
    """An entry's file is called by its id."""
    if entry.value.id != entry.name:
        yield entry.document.problem(("id",), f"{entry.value.id!r}", f"{entry.name!r}, the name of the file")


@catalogue_lint("Add the entry, or correct the id.", integrity=True)
def link_exists(store: EntryStore) -> EntryProblems:
    """Every id named anywhere is the id of an entry."""
    for entry in store.entries:
        for path, kind, name in entry_references(entry):
            if name not in store.names[kind]:
                hint = suggest_name(name, store.names[kind])
                wanted = f"the id of one of the {kind}"
                yield entry.name, entry.document.problem(path, f"{name!r}", wanted, hint)


@cache_by_entry
def entry_references(entry: CatalogueEntry) -> Iterator[tuple[FieldPath, str, str]]:
    """Yields every id that an entry names: path, kind, id."""
    data = entry.document.data
    yield from ((("mitigations", n), "mitigations", name) for n, name in enumerate(data.get("mitigations", ())))
    for field, key, kind in _reference_fields:
        yield from (((field, n, key), kind, item[key]) for n, item in enumerate(data.get(field, ())))
    for n, item in enumerate(data.get("observability", ())):
        yield from ((("observability", n, "needs", k), "signals", name) for k, name in enumerate(item.get("needs", ())))
    if entry.kind == "findings":
        for kind in ("sources", "conditions"):
            yield from (((kind, n), kind, name) for n, name in enumerate(data.get(kind, ())))
    judged = data.get("judged", {})
    for field, kind in (("given", "signals"), ("symptom", "symptoms")):
        if field in judged:
            yield ("judged", field), kind, judged[field]
    yield from ((("instead", form), "symptoms", name) for form, name in data.get("instead", {}).items())
    if entry.kind == "events":
        yield ("symptom" if "symptom" in data else "id",), "symptoms", data.get("symptom", EVENT_SYMPTOM)
    for path, basis in entry_bases(entry):
        yield from ((path, "sources", name) for name in cited_sources(basis))


_reference_fields = (
    ("signature", "signal", "signals"),
    ("causes", "condition", "conditions"),
    ("effects", "condition", "conditions"),
    ("lookalikes", "condition", "conditions"),
    ("impacts", "source", "sources"),
    ("claims", "source", "sources"),
    ("signs", "condition", "conditions"),
)


def entry_bases(entry: CatalogueEntry) -> Iterator[tuple[FieldPath, str]]:
    """Yields every basis of an entry with its path."""
    data = entry.document.data
    for field in ("basis", "signature_basis", "prevalence_basis"):
        if field in data:
            yield (field,), data[field]
    if "judged" in data:
        yield ("judged", "basis"), data["judged"]["basis"]
    for field in ("causes", "effects", "lookalikes", "lookalikes_outside", "observability", "signature", "commands"):
        for n, item in enumerate(data.get(field, ())):
            if "basis" in item:
                yield (field, n, "basis"), item["basis"]


@entry_lint("", "Judgement is welcome where it says so and why.")
def basis_says_why(entry: CatalogueEntry) -> Problems:
    """Every basis is the literature, a source, or a judgement with its reason."""
    for path, basis in entry_bases(entry):
        if not is_basis(basis):
            yield entry.document.problem(path, f"{basis[:60]!r}", "'literature', 'source: id' or 'judgement: reason'")


@entry_lint("conditions", "A condition is not its own cause, effect or look-alike.", integrity=True)
def no_link_to_itself(entry: CatalogueEntry) -> Problems:
    """No condition names itself."""
    for path, kind, name in entry_references(entry):
        if kind == "conditions" and name == entry.name:
            yield entry.document.problem(path, f"{name!r}", "another condition")


@catalogue_lint("Keep the better text, remove the other.")
def link_is_written_once(store: EntryStore) -> EntryProblems:
    """A causal link is written at one of its ends only."""
    told: set[tuple[str, str]] = set()
    for entry in store.of_kind("conditions"):
        for field in ("effects", "causes"):
            for n, item in enumerate(entry.document.data.get(field, ())):
                ends = (entry.name, item["condition"]) if field == "effects" else (item["condition"], entry.name)
                if ends in told:
                    text = f"the link from {ends[0]} to {ends[1]} for the second time"
                    yield entry.name, entry.document.problem((field, n), text, "each link once")
                told.add(ends)


@catalogue_lint("Remove the weakest link of the circle.", integrity=True)
def causes_are_acyclic(store: EntryStore) -> EntryProblems:
    """No condition is its own cause, directly or indirectly."""
    for circle in cycles(store.catalogue):
        entry = next(e for e in store.of_kind("conditions") if e.name == circle[0])
        path: FieldPath = ("effects",) if "effects" in entry.document.data else ("causes",)
        text = f"the circle {' -> '.join((*circle, circle[0]))}"
        yield entry.name, entry.document.problem(path, text, "causes without circles")


@catalogue_lint("Write it at one end; it holds for both. Keep the better text, remove the other.")
def lookalike_is_written_once(store: EntryStore) -> EntryProblems:
    """A pair of look-alikes is written at one of the two conditions only."""
    told: set[frozenset[str]] = set()
    for entry in store.of_kind("conditions"):
        for n, item in enumerate(entry.document.data.get("lookalikes", ())):
            pair = frozenset((entry.name, item["condition"]))
            if pair in told:
                text = f"{item['condition']!r}, which names this one already"
                yield entry.name, entry.document.problem(("lookalikes", n), text, "each pair once")
            told.add(pair)


@catalogue_lint("Name it in the signature or the needs of a condition, or say why nothing needs it.")
def signal_is_used(store: EntryStore) -> EntryProblems:
    """Every signal shows some condition, or says why it shows none; and does not say so where it does."""
    if store.problems:
        return  # the references of a faulty entry are unknown
    used = {name for one in store.of_kind("conditions") for _, kind, name in entry_references(one) if kind == "signals"}
    for entry in store.of_kind("signals"):
        told = "unused" in entry.document.data
        if entry.name in used and told:
            yield entry.name, entry.document.problem(("unused",), "a reason", "none, since a condition names it")
        elif entry.name not in used and not told:
            yield (
                entry.name,
                entry.document.problem(("id",), f"{entry.name!r}, which no condition names", "a use for it"),
            )


@catalogue_lint("Name it in a condition (of a symptom: in a signal), or remove the file.")
def entry_is_used(store: EntryStore) -> EntryProblems:
    """Every mitigation helps some condition, some signal shows every symptom, and every source supports something."""
    if store.problems:
        return  # what a faulty entry names is not known
    used = {(kind, name) for entry in store.entries for _, kind, name in entry_references(entry)}
    for entry in store.entries:
        if entry.kind in ("mitigations", "sources", "symptoms") and (entry.kind, entry.name) not in used:
            yield entry.name, entry.document.problem(("id",), f"{entry.name!r}, which nothing names", "a use for it")
