"""What changed from one scene to the next, a sentence each: for pipes, screen readers and logs. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from skewscope.adapters.scene import Scene
from skewscope.engine.incident import Incident
from skewscope.tui import detail, units
from skewscope.tui.detail import Words

BIG_STEP = 0.2
"""A confidence that moves by less is no news."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened."""

    time: float
    what: str
    """opened, worse, resolved, again, explained, a root again, moved, surer, silent, reporting or unseen."""
    text: str
    incident: str = ""

    def line(self) -> str:
        """As one line of text."""
        return f"{units.moment(self.time)[:-4].replace(' ', 'T')}Z {self.what}: {self.text}"


def changes(before: Scene | None, after: Scene, words: Words) -> Iterator[Change]:
    """What changed, incidents first, in their order."""
    known = {i.id: i for i in before.incidents} if before else {}
    for incident in after.incidents:
        yield from _of_incident(known.get(incident.id), incident, after, words)
    yield from _of_sources(before, after)


def _of_incident(old: Incident | None, new: Incident, scene: Scene, words: Words) -> Iterator[Change]:
    def told(what: str, text: str) -> Change:
        return Change(scene.time, what, f"{text} [{new.id}]", new.id)

    name = f"{words.condition(new.condition)} on {detail.where(new)}"
    if old is None:
        cost = f", {detail.impact(new)}" if detail.impact(new) else ""
        advice = f", do: {words.mitigation(new.mitigations[0].id)}" if new.mitigations else ""
        yield told("opened", f"{new.severity}, {name}, {detail.sure(new)} sure{cost}{advice}")
        if new.explained_by:
            yield told("explained", f"{name}, by {_root(new, words)}")
        return
    if old.state != new.state:
        how = f"{name} after {units.seconds(detail.lasted(new, scene.time))}" if new.state == "resolved" else name
        yield told("resolved" if new.state == "resolved" else "again", how)
    if old.name != new.name:
        yield told("moved", f"{words.condition(new.condition)} from {old.name} to {new.name}")
    if old.severity != new.severity:
        yield told("worse", f"{name} is {new.severity}, it was {old.severity}")
    if old.explained_by != new.explained_by:
        what = "explained" if new.explained_by else "a root again"
        yield told(what, f"{name}, by {_root(new, words)}" if new.explained_by else name)
    if abs(new.confidence - old.confidence) >= BIG_STEP and old.likely != new.likely:
        yield told("surer" if new.likely else "less sure", f"{name}, {detail.sure(new)}, before {detail.sure(old)}")


def _root(incident: Incident, words: Words) -> str:
    root = words.incident(incident.explained_by or "")
    return f"{words.condition(root.condition)} on {detail.where(root)}" if root else str(incident.explained_by)


def _of_sources(before: Scene | None, after: Scene) -> Iterator[Change]:
    old = {s.name: s for s in before.sources} if before else {}
    for source in after.sources:
        was = old.get(source.name)
        if was is not None and was.reporting != source.reporting:
            what = "silent" if source.reporting < was.reporting else "reporting"
            note = f", {source.note}" if source.note else ""
            yield Change(after.time, what, f"{source.name}: {source.reporting} of {source.known} {source.kind}{note}")
