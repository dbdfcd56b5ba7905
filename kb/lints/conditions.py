"""Lints of conditions."""

import re

from skewscope.kb.entry_store import CatalogueEntry, EntryStore
from skewscope.kb.lint import EntryProblems, Problems, catalogue_lint, entry_lint
from skewscope.kb.matrix import VISIBILITY_LEVELS
from skewscope.kb.model import Condition, Signal
from skewscope.kb.schema_validation import schema

SENTENCE_PLACEHOLDERS = frozenset({"where", "group"})
RELAYED, FRONT_END = "dpu-relayed", "dpu-front-end"


@entry_lint("conditions", "A number without a source is no evidence; grade D says that there is none.")
def grade_has_claims(entry: CatalogueEntry) -> Problems:
    """A grade better than D rests on claims."""
    assert isinstance(entry.value, Condition)
    if entry.value.grade != "D" and not entry.value.impacts:
        yield entry.document.problem(("grade",), f"{entry.value.grade} without impacts", "claims with their sources")


@entry_lint("conditions", "Write {where} for the place and {group} for the group that waits.")
def sentence_has_known_placeholders(entry: CatalogueEntry) -> Problems:
    """The sentence names the place once, and nothing else that has to be filled in but the group."""
    assert isinstance(entry.value, Condition)
    names = re.findall(r"\{(.*?)\}", entry.value.sentence)
    if names and (names.count("where") != 1 or set(names) - SENTENCE_PLACEHOLDERS):
        yield entry.document.problem(("sentence",), f"{', '.join(names)}", "where, once, and group at most")


@entry_lint("conditions", "Say which signals, and that it is our judgement.")
def signature_has_basis(entry: CatalogueEntry) -> Problems:
    """A signature states the basis of its choice of signals."""
    assert isinstance(entry.value, Condition)
    if entry.value.signature and not entry.value.signature_basis:
        yield entry.document.problem(("signature",), "no signature_basis", "what the choice of signals rests on")


@entry_lint("conditions", "Mark it, so that it is not taken for a fact.")
def unverified_row_has_note(entry: CatalogueEntry) -> Problems:
    """An unverified row of the paper has a note."""
    assert isinstance(entry.value, Condition)
    if entry.value.paper_row == "unverified" and not entry.value.paper_note:
        yield entry.document.problem(("paper_row",), "no note", "what has to be checked")


@entry_lint("conditions", "Say of each deployment what can be seen, even where it is nothing.")
def observability_is_complete(entry: CatalogueEntry) -> Problems:
    """Every condition lists each deployment once."""
    assert isinstance(entry.value, Condition)
    told = [o.deployment for o in entry.value.observability]
    for deployment in schema("condition")["$defs"]["observability"]["properties"]["deployment"]["enum"]:
        if told.count(deployment) != 1:
            times = f"{deployment} told {told.count(deployment)} times"
            yield entry.document.problem(("observability",), times, "each deployment once")


@entry_lint("conditions", "Name the deployment that has the reason.", integrity=True)
def same_as_has_a_reason(entry: CatalogueEntry) -> Problems:
    """`same_as` names another deployment of the condition that has its own reason."""
    items = entry.document.data["observability"]
    targets = [item["deployment"] for item in items if "same_as" not in item]
    for n, item in enumerate(items):
        if "same_as" in item and item["same_as"] not in targets:
            found = f"{item['same_as']}, which has no reason of its own"
            yield entry.document.problem(("observability", n, "same_as"), found, f"one of {', '.join(targets)}")


@entry_lint("conditions", "Write only what differs; where the reason differs, write all fields without same_as.")
def same_as_repeats_nothing(entry: CatalogueEntry) -> Problems:
    """An item with `same_as` has no reason, and no field equal to that of the other deployment."""
    items = entry.document.data["observability"]
    targets = {item["deployment"]: item for item in items if "same_as" not in item}
    for n, item in enumerate(items):
        target = targets.get(item.get("same_as", ""), {})
        for field in ("verdict", "reason", "basis", "needs"):
            if "same_as" in item and field in item and (field == "reason" or item[field] == target.get(field, [])):
                yield entry.document.problem(
                    ("observability", n, field), f"{field} beside same_as", "what differs only"
                )


@entry_lint("conditions", "Write same_as with that deployment instead.")
def reasons_are_written_once(entry: CatalogueEntry) -> Problems:
    """No two deployments of a condition have the same reason, and none only refers to another in words."""
    seen: dict[str, str] = {}
    for n, item in enumerate(entry.document.data["observability"]):
        reason = item.get("reason", "")
        first = seen.setdefault(reason, item["deployment"]) if reason else item["deployment"]
        if first != item["deployment"]:
            yield entry.document.problem(("observability", n, "reason"), f"the reason of {first}", "same_as")
        elif _only_a_reference.fullmatch(reason):
            yield entry.document.problem(("observability", n, "reason"), f"{reason!r}", "same_as")


_only_a_reference = re.compile(r"(?:As|The same as) (?:on|at|for) (?:the front end|every rail|the PCIe root)\.")


@entry_lint("conditions", "Name the signals by which it is seen, or say that it is not visible.")
def visibility_has_signals(entry: CatalogueEntry) -> Problems:
    """A visible condition needs signals, and one that is not visible needs none."""
    assert isinstance(entry.value, Condition)
    for n, o in enumerate(entry.value.observability):
        if (o.verdict == "not_visible") == bool(o.needs):
            found = f"{o.verdict} with {len(o.needs)} signals"
            yield entry.document.problem(
                ("observability", n, "needs"), found, "signals where it is seen, and only there"
            )


@entry_lint("conditions", "What is relayed comes on top of what the DPU sees by itself.")
def relay_only_adds(entry: CatalogueEntry) -> Problems:
    """With a relay a DPU sees no less than without, and only then is a verdict `relayed`."""
    assert isinstance(entry.value, Condition)
    told = [(n, o) for n, o in enumerate(entry.value.observability) if o.verdict in VISIBILITY_LEVELS]
    alone = max((VISIBILITY_LEVELS.index(o.verdict) for _, o in told if o.deployment != RELAYED), default=0)
    for n, o in told:
        if o.deployment == RELAYED and VISIBILITY_LEVELS.index(o.verdict) < alone:
            found = f"{o.verdict} where {VISIBILITY_LEVELS[alone]} is seen without a relay"
            yield entry.document.problem(("observability", n, "verdict"), found, f"at least {VISIBILITY_LEVELS[alone]}")
        elif o.deployment != RELAYED and o.verdict == "relayed":
            found = f"relayed for a {o.deployment}"
            yield entry.document.problem(("observability", n, "verdict"), found, "what it sees by itself")


@catalogue_lint("Take a signal that the DPU has there, or say that it must be relayed.")
def needs_are_in_reach(store: EntryStore) -> EntryProblems:
    """Without a relay a DPU needs nothing of the host; at the front end nothing of the rails, nor the reverse."""
    known = store.catalogue.signals
    for entry in store.of_kind("conditions"):
        assert isinstance(entry.value, Condition)
        for n, o in enumerate(entry.value.observability):
            for k, name in enumerate(o.needs):
                if name in known and (why := _why_unreadable(known[name], o.deployment)):
                    path = ("observability", n, "needs", k)
                    yield (
                        entry.name,
                        entry.document.problem(path, f"{name!r}, {why}", f"what a {o.deployment} can read"),
                    )


def _why_unreadable(signal: Signal, deployment: str) -> str:
    if deployment == RELAYED:
        return ""
    if signal.dpu_access in ("host-only", "remote"):
        return f"which is {signal.dpu_access}"
    if deployment == FRONT_END and set(signal.vantage) == {"east-west"}:
        return "which is on the rails"
    if deployment != FRONT_END and set(signal.vantage) == {"north-south"}:
        return "which is at the front end"
    return ""


@entry_lint("conditions", "Give the day, or another maturity.")
def withdrawal_has_a_day(entry: CatalogueEntry) -> Problems:
    """A condition is withdrawn on a day, and has no such day otherwise."""
    assert isinstance(entry.value, Condition)
    if (entry.value.maturity == "withdrawn") != bool(entry.value.withdrawn):
        found = (
            f"{entry.value.maturity}, {f'given up on {entry.value.withdrawn}' if entry.value.withdrawn else 'no day'}"
        )
        yield entry.document.problem(("maturity",), found, "'withdrawn' with its day, or neither")
