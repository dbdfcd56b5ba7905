"""Lints of how signals are judged by themselves, and of symptoms."""

from string import Formatter

from skewscope.kb.entry_store import CatalogueEntry, EntryStore
from skewscope.kb.lint import EntryProblems, Problems, catalogue_lint, entry_lint
from skewscope.kb.model import Signal, Symptom
from skewscope.kb.problems import join_names, suggest_name

UNJUDGED_ROLES = frozenset(("identity", "none"))
"""Roles of signals in which nothing is bad by itself."""
NEVER_BY_THE_PAST = frozenset(("share", "workload"))
"""Roles that follow the load: their own past says nothing."""
BUNDLED_ENTITIES = frozenset(("port", "rdma_port", "priority", "link", "representor", "function"))
"""Entities that may belong to a bundle of parallel links."""
TITLE_FIELDS = frozenset(("entity", "signal", "ratio", "before", "after", "unit", "since", "compared"))
FIELDS_OF_THE_BAD = (
    *("against", "least", "floor", "nominal", "given", "part_of", "least_part", "share_of", "most_share"),
    *("least_load", "reciprocal_of", "symptom"),
)
"""Fields that only a signal with a bad direction has."""


@entry_lint("signals", "Say what is bad about it; a signal that is not judged has `bad: none` and its reason.")
def signal_has_a_judgement(entry: CatalogueEntry) -> Problems:
    """Every signal says how it is judged by itself, or why it is not."""
    assert isinstance(entry.value, Signal)
    if entry.value.judged is None:
        yield entry.document.problem(("judged",), "no value", "the field 'judged'")


@entry_lint(
    "signals", "A bad direction needs a comparison, a least size and a symptom; `bad: none` needs none of them."
)
def judgement_is_complete(entry: CatalogueEntry) -> Problems:
    """A signal with a bad direction says against what, from which size on, and which symptom it shows."""
    judged = entry.document.data.get("judged")
    if not judged:
        return
    if judged["bad"] == "none":
        for name in FIELDS_OF_THE_BAD:
            if name in judged:
                yield entry.document.problem(("judged", name), f"the field {name!r} beside `bad: none`", "none")
        return
    for name in ("against", "symptom"):
        if name not in judged:
            yield entry.document.problem(("judged", name), "no value", f"the field {name!r}")
    sized = {"least", "floor", "nominal"} & judged.keys()
    if not sized and judged["bad"] not in ("stops", "begins"):
        yield entry.document.problem(("judged",), "no size", "the field 'least', 'floor' or 'nominal'")


@entry_lint("signals", "Choose the direction that its role and type allow.")
def direction_fits_the_role(entry: CatalogueEntry) -> Problems:
    """Only counters of progress stop, only errors and states begin, and what is no measure has no bad direction."""
    assert isinstance(entry.value, Signal)
    judged = entry.value.judged
    if judged is None:
        return
    wrong = ""
    if judged.bad == "stops" and (judged.role, entry.value.type) != ("progress", "counter"):
        wrong = "a counter of progress"
    elif judged.bad == "begins" and judged.role not in ("errors", "state"):
        wrong = "a signal of errors or of a state"
    elif judged.bad != "none" and judged.role in UNJUDGED_ROLES:
        wrong = "`bad: none`"
    if wrong:
        found = f"{judged.bad!r} of a {entry.value.type} of role {judged.role!r}"
        yield entry.document.problem(("judged", "bad"), found, wrong)


@entry_lint("signals", "Compare it with what it has: siblings are parallel links, a nominal value is a number.")
def comparison_fits_the_signal(entry: CatalogueEntry) -> Problems:
    """Siblings are ports, a nominal value is given, and what follows the load is not compared with its past."""
    assert isinstance(entry.value, Signal)
    judged = entry.value.judged
    if judged is None:
        return
    path = ("judged", "against")
    if "siblings" in judged.against and entry.value.entity not in BUNDLED_ENTITIES:
        yield entry.document.problem(path, f"'siblings' of a {entry.value.entity}", "'siblings' of ports only")
    if ("nominal" in judged.against) != (judged.nominal is not None):
        yield entry.document.problem(path, "one of 'nominal' and its value", "both or neither")
    if "past" in judged.against and judged.role in NEVER_BY_THE_PAST:
        yield entry.document.problem(path, f"'past' of role {judged.role!r}, which follows the load", "'peers'")
    if judged.given == entry.name:
        yield entry.document.problem(("judged", "given"), f"{judged.given!r}", "another signal")
    if judged.least_load and not judged.given:
        yield entry.document.problem(("judged", "least_load"), "no 'given'", "the signal of which it is a share")
    if bool(judged.part_of) != bool(judged.least_part) or judged.part_of == entry.name:
        found = f"{judged.part_of!r} and {judged.least_part:g}"
        yield entry.document.problem(("judged",), found, "another signal and its 'least_part'; or neither")
    if bool(judged.share_of) != bool(judged.most_share) or judged.share_of == entry.name:
        found = f"{judged.share_of!r} and {judged.most_share:g}"
        yield entry.document.problem(("judged",), found, "another signal and its 'most_share'; or neither")
    if judged.reciprocal_of == entry.name:
        yield entry.document.problem(("judged", "reciprocal_of"), f"{judged.reciprocal_of!r}", "another signal")


@catalogue_lint("Add the role to the symptom, or choose the symptom that has it.")
def symptom_has_the_role(store: EntryStore) -> EntryProblems:
    """A signal shows a symptom that its role can show."""
    known = store.catalogue.symptoms
    for entry in store.of_kind("signals"):
        assert isinstance(entry.value, Signal)
        judged = entry.value.judged
        symptom = known.get(judged.symptom) if judged else None
        if judged and symptom and judged.role not in symptom.roles:
            found = f"{symptom.id!r} of role {judged.role!r}"
            yield entry.name, entry.document.problem(("judged", "symptom"), found, join_names(symptom.roles))


@entry_lint("symptoms", "Fields of the title: {entity}, {signal}, {ratio}, {before}, {after}, {unit}, {since}.")
def title_is_a_template(entry: CatalogueEntry) -> Problems:
    """The title of a symptom names the entity and only fields that are known."""
    assert isinstance(entry.value, Symptom)
    try:
        parts = list(Formatter().parse(entry.value.title))
    except ValueError as error:
        yield entry.document.problem(("title",), f"a title that is no template ({error})", "fields in braces")
        return
    named = [name for _, name, _, _ in parts if name is not None]
    for name in named:
        if name not in TITLE_FIELDS:
            hint = suggest_name(name, TITLE_FIELDS)
            yield entry.document.problem(("title",), f"{{{name}}}", join_names(sorted(TITLE_FIELDS)), hint)
    if any(spec or conversion for _, _, spec, conversion in parts):
        yield entry.document.problem(("title",), "a field with a format", "plain fields")
    if "entity" not in named:
        yield entry.document.problem(("title",), "no {entity}", "the entity that it is about")


@entry_lint("symptoms", "Name another symptom.", integrity=True)
def no_symptom_replaces_itself(entry: CatalogueEntry) -> Problems:
    """No symptom is reported in its own place."""
    assert isinstance(entry.value, Symptom)
    for form, name in entry.value.instead.items():
        if name == entry.name:
            yield entry.document.problem(("instead", form), f"{name!r}", "another symptom")
