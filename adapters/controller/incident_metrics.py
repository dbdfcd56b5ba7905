"""Incidents as Prometheus metrics: one sample per firing incident up to a limit, and counts."""

from collections import Counter
from collections.abc import Iterable, Iterator

from skewscope.adapters.controller.tick_pipeline import TickResult
from skewscope.engine.model.incident import Incident

MAX_LISTED = 500
"""Maximum number of incidents with a sample of their own: the likeliest roots."""
STATES = ("firing", "symptom", "suspected", "explained", "silenced")

Sample = tuple[dict[str, str], float]
Family = tuple[str, str, str, Iterable[Sample]]
"""Name, type, help text and samples of a metric."""


def metric_state(one: Incident, known: TickResult) -> str:
    """Returns the state of a firing incident, one of `STATES`."""
    if one.id in known.snapshot.silenced:
        return "silenced"
    if one.explained_by is not None:
        return "explained"
    if one.is_symptom:
        return "symptom"
    return "firing" if one.is_likely else "suspected"


def metric_families(known: TickResult) -> Iterator[Family]:
    """Yields the metrics of firing incidents."""
    firing = [(one, metric_state(one, known)) for one in known.snapshot.incidents if one.state == "firing"]
    firing.sort(key=lambda pair: (STATES.index(pair[1]), -pair[0].confidence, pair[0].id))
    yield (
        *("skewscope_incident", "gauge", "Confidence of a firing incident; only the likeliest if there are many."),
        list(_incident_samples(firing[:MAX_LISTED])),
    )
    yield (
        *("skewscope_incidents_unlisted", "gauge", "Firing incidents without a sample of their own."),
        [({}, max(len(firing) - MAX_LISTED, 0))],
    )
    counts = Counter((one.condition, one.severity, state) for one, state in firing)
    yield (
        *("skewscope_incidents", "gauge", "Firing incidents."),
        [({"condition": c, "severity": s, "state": state}, n) for (c, s, state), n in sorted(counts.items())],
    )


def _incident_samples(firing: Iterable[tuple[Incident, str]]) -> Iterator[Sample]:
    """Yields one sample per label set: duplicates would make the page invalid."""
    seen: set[tuple[str, ...]] = set()
    for one, state in firing:
        key = (one.condition, one.kind, one.name, state)
        if key not in seen:
            seen.add(key)
            yield dict(zip(("condition", "kind", "entity", "state"), key, strict=True)), one.confidence
