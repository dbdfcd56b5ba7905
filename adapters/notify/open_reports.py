"""What receivers believe to be open, shared between controllers by the leader's file.

Each controller gives an incident an id of its own. So the leader publishes, for each event notifier, which places it
has reported as open and under which ids; its successor continues under these ids, reports nothing again that is
believed already, and reports the end of what it does not find.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from skewscope.adapters.notify.base import ACTED, OPENED, RESOLVED, WITHDRAWN, Notification
from skewscope.engine.model.incident import BlastRadius, Impact, Incident, replace_ids, replace_references
from skewscope.kb.field_reader import is_finite_number

MAX_REPORTS = 500
"""Open reports that are published per notifier; with more of them nothing is said of them."""
MAX_TEXT = 300
TEXT_FIELDS = ("id", "condition", "kind", "name", "rule", "severity", "category")

Place = tuple[str, str, str]
"""Condition, kind and name: what two controllers agree on."""


def place_of(one: Incident) -> Place:
    """Returns what two controllers agree on of an incident."""
    return one.condition, one.kind, one.name


@dataclass(frozen=True, slots=True)
class OpenReport:
    """An incident that was reported as open."""

    id: str
    condition: str
    kind: str
    name: str
    rule: str
    severity: str
    category: str
    opened_at: float
    seen_at: float
    """When the latest incident began for which this report stands: no earlier end is its end."""
    is_confirmed: bool = True
    """Whether the receiver has accepted it, and no end of it since: either delivery may have been under way."""

    @classmethod
    def of(cls, one: Incident, *, is_confirmed: bool) -> "OpenReport":
        """Returns the report of an incident."""
        texts = (one.id, one.condition, one.kind, one.name, one.rule, one.severity, one.category)
        return cls(*texts, one.opened_at, one.opened_at, is_confirmed)

    @property
    def place(self) -> Place:
        """What two controllers agree on."""
        return self.condition, self.kind, self.name

    def is_after(self, end: Notification) -> bool:
        """Returns whether the end of an incident is older than what this report stands for."""
        ended_at = end.update.incident.resolved_at
        return (ended_at if ended_at is not None else end.t) < self.seen_at

    def build_incident(self, resolved_at: float) -> Incident:
        """Returns the end of the incident, of which nothing but the report is known."""
        return Incident(
            id=self.id,
            condition=self.condition,
            kind=self.kind,
            name=self.name,
            state="resolved",
            opened_at=self.opened_at,
            resolved_at=max(resolved_at, self.opened_at),
            severity=self.severity,
            confidence=0.0,
            coverage=0.0,
            impact=Impact("", None, "1"),
            blast_radius=BlastRadius(),
            rule=self.rule,
            rule_hash="",
            category=self.category,
        )

    def as_json(self) -> list[Any]:
        """Returns it as JSON values; `parse_report` reads them."""
        texts = (getattr(self, name) for name in TEXT_FIELDS)
        return [*texts, self.opened_at, self.is_confirmed, self.seen_at]


def parse_report(data: object) -> OpenReport | None:
    """Returns what `as_json` returned; None for anything else."""
    # Versions before 2026-12 wrote no time of the latest incident.
    if not isinstance(data, list) or len(data) not in (len(TEXT_FIELDS) + 2, len(TEXT_FIELDS) + 3):
        return None
    texts, (opened_at, is_confirmed, *seen) = data[: len(TEXT_FIELDS)], data[len(TEXT_FIELDS) :]
    if not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts):
        return None
    if not is_finite_number(opened_at) or not all(map(is_finite_number, seen)):
        return None
    named = dict(zip(TEXT_FIELDS, texts, strict=True))
    begun = float(opened_at)
    seen_at = float(seen[0]) if seen else begun
    return OpenReport(**named, opened_at=begun, is_confirmed=is_confirmed is True, seen_at=seen_at)


@dataclass(frozen=True, slots=True)
class BelievedOpen:
    """The incidents that a receiver believes to be open."""

    places: frozenset[Place]
    ids: frozenset[str]
    """Their ids, and those that this controller gives them."""

    def has(self, one: Incident) -> bool:
        """Returns whether an incident of this controller is among them; it may have been located anew meanwhile."""
        return one.id in self.ids or place_of(one) in self.places


@dataclass
class OpenReports:
    """What the receiver of one notifier believes."""

    known: bool = False
    """Whether anything is known: not before the first word of another controller, nor where too many are open."""
    by_place: dict[Place, OpenReport] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    """Under which ids the receiver knows incidents of this controller, also those over: others refer to them."""
    _places: Mapping[str, Place] = field(default_factory=dict, repr=False, compare=False)
    """The places from which `renamed` was last brought up to date."""

    def adapt(self, notification: Notification, places: Mapping[str, Place] | None = None) -> Notification | None:
        """Returns a notification under the ids that the receiver knows; None where it knows it already.

        Nothing is changed where nothing is known.

        Args:
            notification: of an incident of this controller.
            places: those of all its incidents, by id: the notification may refer to another one.
        """
        what, _, one = notification.update
        report = self.by_place.get(place_of(one))
        if report is None:
            is_new = not self.known or what in (OPENED, ACTED)
            return self._refer(notification, places or {}) if is_new else None
        if what == OPENED:
            self._put(replace(report, seen_at=max(report.seen_at, one.opened_at)))
            if report.is_confirmed:
                return None
        if what in (RESOLVED, WITHDRAWN) and report.is_after(notification):
            return None
        if report.id != one.id:
            update = notification.update._replace(incident=rename_incident(one, report))
            notification = notification._replace(update=update)
        return self._refer(notification, places or {})

    def _refer(self, notification: Notification, places: Mapping[str, Place]) -> Notification:
        """Returns a notification that refers to other incidents by the ids that the receiver knows."""
        # The places of a tick are the same for all its notifications, of which there may be thousands.
        if places is not self._places:
            self._places = places
            found = {id_: report.id for id_, place in places.items() if (report := self.by_place.get(place))}
            self.renamed |= {id_: known for id_, known in found.items() if id_ != known}
            for id_ in list(self.renamed)[:-MAX_REPORTS]:
                del self.renamed[id_]
        ids = self.renamed
        update = notification.update
        why, one = replace_ids(update.why, ids), replace_references(update.incident, ids)
        return notification._replace(update=update._replace(why=why, incident=one))

    def has_place(self, one: Incident) -> bool:
        """Returns whether the receiver may believe that an incident of this condition is open at this place."""
        return place_of(one) in self.by_place

    def claim(self, notification: Notification) -> None:
        """Records that the opening or the end of an incident is about to be delivered."""
        what, _, one = notification.update
        report = self.by_place.get(place_of(one))
        if what == OPENED:
            self._put(self._report_opening(one, is_confirmed=False))
        elif what in (RESOLVED, WITHDRAWN) and report is not None:
            self._put(replace(report, is_confirmed=False))

    def record_delivery(self, notification: Notification) -> None:
        """Records what the receiver was told."""
        what, _, one = notification.update
        if what == OPENED:
            self._put(self._report_opening(one, is_confirmed=True))
        elif what in (RESOLVED, WITHDRAWN):
            self.by_place.pop(place_of(one), None)

    def _report_opening(self, one: Incident, *, is_confirmed: bool) -> OpenReport:
        before = self.by_place.get(place_of(one))
        seen_at = max(before.seen_at if before else one.opened_at, one.opened_at)
        return replace(OpenReport.of(one, is_confirmed=is_confirmed), seen_at=seen_at)

    def _put(self, report: OpenReport) -> None:
        self.by_place[report.place] = report

    def belief(self) -> BelievedOpen:
        """Returns what the receiver certainly believes to be open."""
        confirmed = {place: report.id for place, report in self.by_place.items() if report.is_confirmed}
        known = frozenset(confirmed.values())
        own = {id_ for id_, name in self.renamed.items() if name in known}
        return BelievedOpen(frozenset(confirmed), known | own)

    def as_json(self) -> list[Any] | None:
        """Returns it as JSON values; None where too many are open."""
        if len(self.by_place) > MAX_REPORTS:
            return None
        return [report.as_json() for report in self.by_place.values()]

    def list_others(self, own_ids: Container[str]) -> tuple[OpenReport, ...]:
        """Returns the reports of incidents of other controllers, in order of their places."""
        return tuple(report for _, report in sorted(self.by_place.items()) if report.id not in own_ids)


def parse_reports(data: object) -> OpenReports:
    """Returns what `OpenReports.as_json` returned; reports that are damaged are left out."""
    if not isinstance(data, list) or len(data) > MAX_REPORTS:
        return OpenReports()
    found = [report for one in data if (report := parse_report(one)) is not None]
    return OpenReports(known=True, by_place={report.place: report for report in found})


def rename_incident(one: Incident, report: OpenReport) -> Incident:
    """Returns an incident under the id and opening time that its receiver knows."""
    return replace(one, id=report.id, opened_at=min(one.opened_at, report.opened_at))
