"""The lints of the catalogue. Each is a function whose first line says what every good catalogue has."""

import re
from collections.abc import Iterator

from skewscope.kb.basis import is_basis, sources_of
from skewscope.kb.graph import cycles
from skewscope.kb.lint import entry_lint, set_lint
from skewscope.kb.model import Condition, Mitigation, Signal, Source
from skewscope.kb.problems import Problem, nearest
from skewscope.kb.shape import schema
from skewscope.kb.shelf import Entry, Shelf
from skewscope.kb.units import unit
from skewscope.kb.yamlfile import Path_

RELAYED, FRONT_END = "dpu-relayed", "dpu-front-end"
Found = Iterator[Problem]
FoundIn = Iterator[tuple[str, Problem]]


@entry_lint("", "Rename the file, or correct the id.", integrity=True)
def filename_is_id(entry: Entry) -> Found:
    """An entry's file is called by its id."""
    if entry.value.id != entry.name:
        yield entry.document.problem(("id",), f"{entry.value.id!r}", f"{entry.name!r}, the name of the file")


@set_lint("Add the entry, or correct the id.", integrity=True)
def link_exists(shelf: Shelf) -> FoundIn:
    """Every id named anywhere is the id of an entry."""
    for entry in shelf.entries:
        for path, kind, name in links(entry):
            if name not in shelf.names[kind]:
                hint = nearest(name, shelf.names[kind])
                wanted = f"the id of one of the {kind}"
                yield entry.name, entry.document.problem(path, f"{name!r}", wanted, hint)


def links(entry: Entry) -> Iterator[tuple[Path_, str, str]]:
    """Every id that an entry names: where, of which kind, which one."""
    data = entry.document.data
    for field, kind in (("signature", "signals"), ("mitigations", "mitigations")):
        yield from (((field, n), kind, name) for n, name in enumerate(data.get(field, ())))
    for field, key, kind in _linking:
        yield from (((field, n, key), kind, item[key]) for n, item in enumerate(data.get(field, ())))
    for n, item in enumerate(data.get("observability", ())):
        yield from ((("observability", n, "needs", k), "signals", name) for k, name in enumerate(item.get("needs", ())))
    for path, basis in bases(entry):
        yield from ((path, "sources", name) for name in sources_of(basis))


_linking = (
    ("causes", "condition", "conditions"),
    ("effects", "condition", "conditions"),
    ("lookalikes", "condition", "conditions"),
    ("impacts", "source", "sources"),
    ("claims", "source", "sources"),
)


def bases(entry: Entry) -> Iterator[tuple[Path_, str]]:
    """Every statement of an entry about what something rests on."""
    data = entry.document.data
    for field in ("basis", "signature_basis"):
        if field in data:
            yield (field,), data[field]
    for field in ("causes", "effects", "lookalikes", "lookalikes_outside", "observability"):
        for n, item in enumerate(data.get(field, ())):
            if "basis" in item:
                yield (field, n, "basis"), item["basis"]


@entry_lint("", "Judgement is welcome where it says so and why.")
def basis_says_why(entry: Entry) -> Found:
    """Every basis is the literature, a source, or a judgement with its reason."""
    for path, basis in bases(entry):
        if not is_basis(basis):
            yield entry.document.problem(path, f"{basis[:60]!r}", "'literature', 'source: id' or 'judgement: reason'")


@entry_lint("signals", "Units are written as kb/units.py knows them.", integrity=True)
def unit_is_known(entry: Entry) -> Found:
    """Every signal's unit is one that can be reckoned with."""
    assert isinstance(entry.value, Signal)
    try:
        unit(entry.value.unit)
    except ValueError as error:
        yield entry.document.problem(("unit",), f"{entry.value.unit!r}", "a known unit", str(error))


@entry_lint("signals", "The name is made from the id.")
def canonical_name_is_derived(entry: Entry) -> Found:
    """What the agent exports goes by the canonical name."""
    assert isinstance(entry.value, Signal)
    for n, name in enumerate(entry.value.sources.get("skewscope_agent", ())):
        if name != entry.value.metric:
            yield entry.document.problem(("sources", "skewscope_agent", n), f"{name!r}", f"{entry.value.metric!r}")


@entry_lint("signals", "Name an exporter that is among the sources.")
def exporter_is_a_source(entry: Entry) -> Found:
    """A scale or a doubt belongs to an exporter that has a name for the signal."""
    assert isinstance(entry.value, Signal)
    known = entry.value.sources
    for name in entry.value.scale:
        if name not in known:
            yield entry.document.problem(("scale", name), f"{name!r}", "one of its sources", nearest(name, known))
    for n, name in enumerate(entry.value.unverified):
        if name not in known:
            yield entry.document.problem(("unverified", n), f"{name!r}", "one of its sources", nearest(name, known))


@entry_lint("signals", "Only a counter has a width and can saturate; only a bitmask has bits.")
def fields_fit_the_type(entry: Entry) -> Found:
    """A signal's fields fit its type."""
    fits = {"width_bits": "counter", "saturates": "counter", "bits": "bitmask"}
    for field, type_ in fits.items():
        if field in entry.document.data and entry.document.data["type"] != type_:
            yield entry.document.problem((field,), f"the field {field!r} of a {entry.document.data['type']}", "none")


@entry_lint("signals", "Write the smallest value first.")
def range_has_a_width(entry: Entry) -> Found:
    """A signal's range goes from a smaller to a larger value."""
    assert isinstance(entry.value, Signal)
    span = entry.value.range
    if span and not span[0] < span[1]:
        yield entry.document.problem(("range",), f"from {span[0]:g} to {span[1]:g}", "the smaller one first")


@set_lint("Dots and underscores become the same in a metric's name: choose another id.", integrity=True)
def metric_names_one_signal(shelf: Shelf) -> FoundIn:
    """No two signals share a canonical name."""
    seen: dict[str, str] = {}
    for entry in shelf.of("signals"):
        assert isinstance(entry.value, Signal)
        first = seen.setdefault(entry.value.metric, entry.name)
        if first != entry.name:
            yield entry.name, entry.document.problem(("id",), f"the metric name of {first!r}", "a name of its own")


_locator = re.compile(
    r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/\S+|https?://\S+|github\.com/\S+#\d+|[\w.-]+\.[a-z]{2,}/\S+"
    r"|[A-Z][\w ]*'\d\d\b|[A-Z][\w ]+ \d{4}\b"
)


@entry_lint("sources", "arXiv:2509.18114, doi:10.1145/..., a URL, github.com/owner/name#12, or a venue with its year.")
def source_has_locator(entry: Entry) -> Found:
    """Every source can be found by its locator."""
    assert isinstance(entry.value, Source)
    if not _locator.search(entry.value.locator):
        yield entry.document.problem(("locator",), f"{entry.value.locator!r}", "where the work can be found")


@set_lint("Say how the claim was seen; if the work was read since, say so in the source.")
def claim_is_seen_no_better_than_its_source(shelf: Shelf) -> FoundIn:
    """No claim was read more closely than the work that it is from."""
    known = shelf.catalogue.sources
    for entry in shelf.entries:
        for field in ("impacts", "claims"):
            for n, claim in enumerate(entry.document.data.get(field, ())):
                source = known.get(claim["source"])
                if source and claim["seen"] not in (source.seen, *_less.get(source.seen, (SECOND_HAND,))):
                    text = f"{claim['seen']!r} of a source seen as {source.seen!r}"
                    yield entry.name, entry.document.problem((field, n, "seen"), text, "no more than was seen")


SECOND_HAND = "secondary notes only"
_less = {"full text": ("abstract", SECOND_HAND)}


@entry_lint("conditions", "A number without a source is no evidence; grade D says that there is none.")
def grade_has_claims(entry: Entry) -> Found:
    """A grade better than D rests on claims."""
    assert isinstance(entry.value, Condition)
    if entry.value.grade != "D" and not entry.value.impacts:
        yield entry.document.problem(("grade",), f"{entry.value.grade} without impacts", "claims with their sources")


@entry_lint("conditions", "Say which signals, and that it is our judgement.")
def signature_has_basis(entry: Entry) -> Found:
    """Whoever chose the signals of a signature says on what it rests."""
    assert isinstance(entry.value, Condition)
    if entry.value.signature and not entry.value.signature_basis:
        yield entry.document.problem(("signature",), "no signature_basis", "what the choice of signals rests on")


@entry_lint("conditions", "Mark it, so that nobody takes it for a fact.")
def doubt_is_told(entry: Entry) -> Found:
    """A row of the paper that nobody checked says so in words."""
    assert isinstance(entry.value, Condition)
    if entry.value.paper_row == "unverified" and not entry.value.paper_note:
        yield entry.document.problem(("paper_row",), "no note", "what has to be checked")


@entry_lint("conditions", "Say of each deployment what can be seen, even where it is nothing.")
def observability_is_complete(entry: Entry) -> Found:
    """Every condition says what each deployment sees of it, once."""
    assert isinstance(entry.value, Condition)
    told = [o.deployment for o in entry.value.observability]
    for deployment in schema("condition")["$defs"]["observability"]["properties"]["deployment"]["enum"]:
        if told.count(deployment) != 1:
            times = f"{deployment} told {told.count(deployment)} times"
            yield entry.document.problem(("observability",), times, "each deployment once")


@entry_lint("conditions", "Name the signals by which it is seen, or say that it is not visible.")
def sight_has_signals(entry: Entry) -> Found:
    """What is seen of a condition is seen by signals, and by none where nothing is seen."""
    assert isinstance(entry.value, Condition)
    for n, o in enumerate(entry.value.observability):
        if (o.verdict == "not_visible") == bool(o.needs):
            found = f"{o.verdict} with {len(o.needs)} signals"
            yield entry.document.problem(
                ("observability", n, "needs"), found, "signals where it is seen, and only there"
            )


@set_lint("Take a signal that the DPU has there, or say that it must be relayed.")
def needs_are_in_reach(shelf: Shelf) -> FoundIn:
    """Without a relay, a DPU needs nothing that only the host has; and at the front end nothing of the rails."""
    known = shelf.catalogue.signals
    for entry in shelf.of("conditions"):
        assert isinstance(entry.value, Condition)
        for n, o in enumerate(entry.value.observability):
            for k, name in enumerate(o.needs):
                if name in known and (why := _out_of_reach(known[name], o.deployment)):
                    path = ("observability", n, "needs", k)
                    yield (
                        entry.name,
                        entry.document.problem(path, f"{name!r}, {why}", f"what a {o.deployment} can read"),
                    )


def _out_of_reach(signal: Signal, deployment: str) -> str:
    if deployment == RELAYED:
        return ""
    if signal.dpu_access in ("host-only", "remote"):
        return f"which is {signal.dpu_access}"
    if deployment == FRONT_END and set(signal.vantage) == {"east-west"}:
        return "which is on the rails"
    return ""


@entry_lint("conditions", "Give the day, or another maturity.")
def withdrawal_has_a_day(entry: Entry) -> Found:
    """A condition is withdrawn on a day, and has no such day otherwise."""
    assert isinstance(entry.value, Condition)
    if (entry.value.maturity == "withdrawn") != bool(entry.value.withdrawn):
        found = (
            f"{entry.value.maturity}, {f'given up on {entry.value.withdrawn}' if entry.value.withdrawn else 'no day'}"
        )
        yield entry.document.problem(("maturity",), found, "'withdrawn' with its day, or neither")


@entry_lint("conditions", "A condition is not its own cause, effect or look-alike.", integrity=True)
def no_link_to_itself(entry: Entry) -> Found:
    """No condition names itself."""
    for path, kind, name in links(entry):
        if kind == "conditions" and name == entry.name:
            yield entry.document.problem(path, f"{name!r}", "another condition")


@set_lint("Keep the better text, remove the other.")
def link_is_told_once(shelf: Shelf) -> FoundIn:
    """A causal link is written at one of its ends only."""
    told: set[tuple[str, str]] = set()
    for entry in shelf.of("conditions"):
        for field in ("effects", "causes"):
            for n, item in enumerate(entry.document.data.get(field, ())):
                ends = (entry.name, item["condition"]) if field == "effects" else (item["condition"], entry.name)
                if ends in told:
                    text = f"the link from {ends[0]} to {ends[1]} for the second time"
                    yield entry.name, entry.document.problem((field, n), text, "each link once")
                told.add(ends)


@set_lint("Remove the weakest link of the circle.", integrity=True)
def causes_make_no_circle(shelf: Shelf) -> FoundIn:
    """Nothing is, by any number of steps, its own cause."""
    for circle in cycles(shelf.catalogue):
        entry = next(e for e in shelf.of("conditions") if e.name == circle[0])
        path: Path_ = ("effects",) if "effects" in entry.document.data else ("causes",)
        text = f"the circle {' -> '.join((*circle, circle[0]))}"
        yield entry.name, entry.document.problem(path, text, "causes without circles")


@set_lint("Write it at one end; both ends learn of it. Keep the better text, remove the other.")
def lookalike_is_told_once(shelf: Shelf) -> FoundIn:
    """Two conditions that look the same are told apart by one test, written at one of the two."""
    told: set[frozenset[str]] = set()
    for entry in shelf.of("conditions"):
        for n, item in enumerate(entry.document.data.get("lookalikes", ())):
            pair = frozenset((entry.name, item["condition"]))
            if pair in told:
                text = f"{item['condition']!r}, which tells of this one already"
                yield entry.name, entry.document.problem(("lookalikes", n), text, "each pair once")
            told.add(pair)


@entry_lint("mitigations", "Who acts must know how to take it back and how to see that it worked.")
def mitigation_can_be_undone(entry: Entry) -> Found:
    """Every mitigation says how it is undone and verified, in more than a word."""
    assert isinstance(entry.value, Mitigation)
    for field in ("undo", "verify", "cost"):
        text: str = entry.document.data[field]
        if len(text.split()) < 3:
            yield entry.document.problem((field,), f"{text!r}", "a sentence that one could act on")


@set_lint("Name it in a condition, or remove the file.")
def entry_is_used(shelf: Shelf) -> FoundIn:
    """Every mitigation helps some condition, and every source supports something."""
    if shelf.problems:
        return  # what a faulty entry names is not known
    used = {(kind, name) for entry in shelf.entries for _, kind, name in links(entry)}
    for entry in shelf.entries:
        if entry.kind in ("mitigations", "sources") and (entry.kind, entry.name) not in used:
            yield entry.name, entry.document.problem(("id",), f"{entry.name!r}, which nothing names", "a use for it")


_filler = re.compile(
    r"\b(may potentially|might possibly|leverag\w+|utiliz\w+|seamless\w*|cutting-edge|robustly)\b", re.IGNORECASE
)


@entry_lint("", "Say it plainly.")
def words_are_plain(entry: Entry) -> Found:
    """Texts do without filler."""
    if entry.kind == "sources":
        return
    for field, text in entry.document.data.items():
        if isinstance(text, str) and (match := _filler.search(text)):
            yield entry.document.problem((field,), f"{match[0]!r}", "plain words")
