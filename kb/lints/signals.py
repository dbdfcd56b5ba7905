"""Lints of signals."""

from skewscope.kb.entry_store import CatalogueEntry, EntryStore
from skewscope.kb.lint import EntryProblems, Problems, catalogue_lint, entry_lint
from skewscope.kb.model import Signal
from skewscope.kb.problems import suggest_name
from skewscope.kb.units import parse_unit


@entry_lint("signals", "Units are written as kb/units.py knows them.", integrity=True)
def unit_is_known(entry: CatalogueEntry) -> Problems:
    """Every signal has a known unit."""
    assert isinstance(entry.value, Signal)
    try:
        parse_unit(entry.value.unit)
    except ValueError as error:
        yield entry.document.problem(("unit",), f"{entry.value.unit!r}", "a known unit", str(error))


@entry_lint("signals", "The name is made from the id.")
def agent_name_is_canonical(entry: CatalogueEntry) -> Problems:
    """The agent exports a signal under its canonical name."""
    assert isinstance(entry.value, Signal)
    for n, name in enumerate(entry.value.sources.get("skewscope_agent", ())):
        if name != entry.value.metric:
            yield entry.document.problem(("sources", "skewscope_agent", n), f"{name!r}", f"{entry.value.metric!r}")


@entry_lint("signals", "Name an exporter that is among the sources.")
def exporter_is_a_source(entry: CatalogueEntry) -> Problems:
    """A scale or an unverified mark names an exporter that has the signal."""
    assert isinstance(entry.value, Signal)
    known = entry.value.sources
    for name in entry.value.scale:
        if name not in known:
            yield entry.document.problem(("scale", name), f"{name!r}", "one of its sources", suggest_name(name, known))
    for n, name in enumerate(entry.value.unverified):
        if name not in known:
            yield entry.document.problem(
                ("unverified", n), f"{name!r}", "one of its sources", suggest_name(name, known)
            )


@entry_lint("signals", "Only a counter has a width and can saturate; only a bitmask has bits.")
def fields_fit_the_type(entry: CatalogueEntry) -> Problems:
    """A signal's fields fit its type."""
    fits = {"width_bits": "counter", "saturates": "counter", "bits": "bitmask"}
    for field, type_ in fits.items():
        if field in entry.document.data and entry.document.data["type"] != type_:
            yield entry.document.problem((field,), f"the field {field!r} of a {entry.document.data['type']}", "none")


@entry_lint("signals", "Write the smallest value first.")
def range_has_a_width(entry: CatalogueEntry) -> Problems:
    """A signal's range goes from a smaller to a larger value."""
    assert isinstance(entry.value, Signal)
    span = entry.value.range
    if span and not span[0] < span[1]:
        yield entry.document.problem(("range",), f"from {span[0]:g} to {span[1]:g}", "the smaller one first")


@catalogue_lint("Dots and underscores become the same in a metric's name: choose another id.", integrity=True)
def metric_names_one_signal(store: EntryStore) -> EntryProblems:
    """No two signals share a canonical name."""
    seen: dict[str, str] = {}
    for entry in store.of_kind("signals"):
        assert isinstance(entry.value, Signal)
        first = seen.setdefault(entry.value.metric, entry.name)
        if first != entry.name:
            yield entry.name, entry.document.problem(("id",), f"the metric name of {first!r}", "a name of its own")
