"""Compares what a receiver was told of incidents with what the stores of controllers hold."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from bench.campaign_peers import Event
from skewscope.engine.model.incident import Incident, rfc3339

ENDS = ("resolved", "withdrawn")
APART_S = 10.0
"""Seconds by which two controllers may see the same incident apart."""


def find_losses(stored: Sequence[Incident], events: Sequence[Event], *, pair: bool, settled: bool) -> Iterator[str]:
    """Yields what was lost or told twice, a sentence each.

    Args:
        stored: the incidents of all stores.
        events: what the receiver was told, in order.
        pair: whether there are two controllers, each of which gives an incident an id of its own.
        settled: whether all was over for long enough to be told.
    """
    states = {one.id: one.state for one in stored}
    for id_ in sorted({one.incident for one in events} - states.keys()):
        yield f"incident {id_} was reported and is in no store"
    yield from _find_repeats(states, events, pair=pair, settled=settled)
    if settled:
        yield from (_find_untold_places if pair else _find_untold_ids)(stored, events)
        for one in stored:
            if one.state == "firing":
                yield f"{_describe(one)} never ended"


def _find_repeats(states: Mapping[str, str], events: Iterable[Event], *, pair: bool, settled: bool) -> Iterator[str]:
    open_ids: dict[tuple[str, str], str] = {}
    for event in events:
        if event.kind == "opened":
            before = open_ids.get(event.place)
            # In doubt whether the one before it delivered an event, a new leader repeats it under the same id.
            if before is not None and (before != event.incident or not pair):
                yield f"{event.condition} on {event.entity}: {before} is open, {event.incident} opens"
            open_ids[event.place] = event.incident
        elif event.kind in ENDS:
            open_ids.pop(event.place, None)
    for (condition, entity), id_ in open_ids.items() if settled else ():
        yield f"the end of {condition} on {entity} ({id_}, {states.get(id_)}) was not reported"


def is_due(one: Incident) -> bool:
    """Returns whether a receiver must have been told of an incident: a likely diagnosis that no other one explains."""
    return one.is_likely and one.explained_by is None


def _find_untold_ids(stored: Iterable[Incident], events: Iterable[Event]) -> Iterator[str]:
    kinds: dict[str, set[str]] = {}
    for event in events:
        kinds.setdefault(event.incident, set()).add(event.kind)
    for one in stored:
        told = kinds.get(one.id, set())
        if is_due(one) and "opened" not in told:
            yield f"{_describe(one)} was never reported"
        if one.state == "resolved" and "opened" in told and not told.intersection(ENDS):
            yield f"the end of {_describe(one)} was never reported"


def _find_untold_places(stored: Iterable[Incident], events: Iterable[Event]) -> Iterator[str]:
    """The same for two controllers: what one of them holds was told where something was told of its place and time."""
    spans: dict[tuple[str, str], list[tuple[float, float]]] = {}
    begun: dict[tuple[str, str], float] = {}
    for event in events:
        if event.kind in ("opened", "changed"):
            # Where one has just ended, the next one that moves there may be told by its change alone.
            begun.setdefault(event.place, event.opened_at)
        elif event.kind in ENDS and event.place in begun:
            end = event.resolved_at if event.resolved_at is not None else float("inf")
            spans.setdefault(event.place, []).append((begun.pop(event.place), end))
    for place, since in begun.items():
        spans.setdefault(place, []).append((since, float("inf")))
    for one in filter(is_due, stored):
        end = one.resolved_at if one.resolved_at is not None else float("inf")
        told = spans.get((one.condition, one.name), ())
        if not any(since - APART_S <= end and one.opened_at <= until + APART_S for since, until in told):
            yield f"{_describe(one)} was never reported"


def _describe(one: Incident) -> str:
    ended = rfc3339(one.resolved_at) if one.resolved_at is not None else "now"
    return f"{one.condition} on {one.name} ({one.id}, {one.state}, {rfc3339(one.opened_at)} to {ended})"
