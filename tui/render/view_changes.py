"""Changes between snapshots, one sentence each, for pipes, screen readers and logs. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from skewscope.adapters.view.snapshot import ViewSnapshot
from skewscope.engine.advice.steps import advised_steps
from skewscope.engine.model.incident import Incident
from skewscope.tui.render import detail, units
from skewscope.tui.render.detail import DisplayNames

CONFIDENCE_STEP = 0.2
"""Smaller changes of confidence are not reported."""


@dataclass(frozen=True, slots=True)
class ViewChange:
    """One change."""

    time: float
    what: str
    """The kind of change, as `opened`, `severity`, `moved` or `silent`."""
    text: str
    incident: str = ""

    def to_line(self) -> str:
        """Returns the change as one line of text."""
        return f"{units.format_datetime(self.time)[:-4].replace(' ', 'T')}Z {self.what}: {self.text}"


def diff_snapshots(before: ViewSnapshot | None, after: ViewSnapshot, names: DisplayNames) -> Iterator[ViewChange]:
    """Yield the changes of the incidents in their order, then those of the sources."""
    known = {i.id: i for i in before.incidents} if before else {}
    for incident in after.incidents:
        yield from _incident_changes(known.get(incident.id), incident, after, names)
    yield from _source_changes(before, after)


def _incident_changes(
    old: Incident | None, new: Incident, snapshot: ViewSnapshot, names: DisplayNames
) -> Iterator[ViewChange]:
    def change(what: str, text: str) -> ViewChange:
        return ViewChange(snapshot.time, what, f"{text} [{new.id}]", new.id)

    name = names.incident_title(new)
    if old is None:
        cost = f", {detail.format_impact(new, names)}" if detail.format_impact(new, names) else ""
        steps = advised_steps(new, names.catalogue, names.topology)
        advice = f", do: {steps[0].title}" if steps else ""
        sure = "" if new.is_symptom else f", {detail.format_confidence(new)} sure"
        about = f", {new.summary}" if new.summary else ""
        yield change("opened", f"{new.severity}, {name}{sure}{cost}{advice}{about}")
        if new.explained_by:
            yield change("explained", f"{name}, {_root_label(new, names)}")
        return
    if old.state != new.state:
        how = (
            f"{name} after {units.format_duration(detail.duration(new, snapshot.time))}"
            + (", as its place is gone" if new.is_gone else "")
            if new.state == "resolved"
            else name
        )
        yield change("resolved" if new.state == "resolved" else "reopened", how)
    if old.name != new.name:
        yield change("moved", f"{names.incident_name(new)} from {old.name} to {new.name}")
    if old.severity != new.severity:
        yield change("severity", f"{name} is {new.severity}, before {old.severity}")
    if old.root_id != new.root_id:
        what = "explained" if new.explained_by else "unexplained"
        yield change(what, f"{name}, {_root_label(new, names)}" if new.explained_by else name)
    if abs(new.confidence - old.confidence) >= CONFIDENCE_STEP and old.is_likely != new.is_likely:
        yield change(
            "more likely" if new.is_likely else "less likely",
            f"{name}, {detail.format_confidence(new)}, before {detail.format_confidence(old)}",
        )


def _root_label(incident: Incident, names: DisplayNames) -> str:
    """Returns the relation and the root: `caused by <title>`; '' for a root."""
    explanation = incident.explained_by
    if explanation is None:
        return ""
    root = names.find_incident(explanation.id)
    return f"{explanation.words} {names.incident_title(root) if root else explanation.id}"


def _source_changes(before: ViewSnapshot | None, after: ViewSnapshot) -> Iterator[ViewChange]:
    old = {s.name: s for s in before.sources} if before else {}
    for source in after.sources:
        was = old.get(source.name)
        if was is not None and was.reporting != source.reporting:
            what = "silent" if source.reporting < was.reporting else "reporting"
            note = f", {source.note}" if source.note else ""
            yield ViewChange(
                after.time, what, f"{source.name}: {source.reporting} of {source.known} {source.kind}{note}"
            )
