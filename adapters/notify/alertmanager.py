"""Notifier for Alertmanager, API v2.

Labels identify an alert and never change while it fires; everything that changes is an annotation. A firing alert is
sent again each period with an end a few periods ahead, so that it expires when the controller stops. A resolved alert
is sent several times with its end, since a single request may be lost.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.config.secret import redact_secrets
from skewscope.adapters.notify import incident_text
from skewscope.adapters.notify.alert_labels import place_labels
from skewscope.adapters.notify.alert_text import AlertContext, alert_title, began_text
from skewscope.adapters.notify.base import DeliveryError, IncidentUpdate, NotificationScope
from skewscope.adapters.notify.settings import (
    HTTP_FIELDS,
    SCOPE_FIELDS,
    SYMPTOM_FIELDS,
    read_fetch_options,
    read_link,
    read_scope,
    read_urls,
)
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, PostBody, exchange
from skewscope.adapters.sources.common.targets import Labels, parse_labels
from skewscope.engine.model.incident import Incident, rfc3339
from skewscope.engine.model.topology import Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue
from skewscope.kb.yamlfile import FieldPath

ALERTS_PATH = "/api/v2/alerts"
END_AHEAD_PERIODS = 4
"""Periods after which an alert expires unless it is sent again."""
END_REPEATS = 5
"""How many times the end of an alert is sent."""
MAX_ENDED = 10_000
MAX_AT_ONCE = 500
"""Alerts per request."""
RESERVED_LABELS = ("alertname", "category", "kind", "entity", "fleet", "node", "rack", "severity", "place")
"""Labels that the config must not set."""


@dataclass(frozen=True, slots=True)
class AlertmanagerSettings:
    """Settings of one Alertmanager entry."""

    name: str
    urls: tuple[str, ...]
    fetch_options: FetchOptions
    scope: NotificationScope
    period: float = 30.0
    labels: Labels = ()
    """Labels added to all alerts."""
    severity_label: bool = True
    """Whether severity is a label too: a change of severity then ends one alert and starts another."""
    link: str = ""
    """Base URL of the controller; an alert links to its incident there."""
    runbook_url: str = ""
    """Address of a page about a condition, with `{condition}` for its id."""


def read(fields: FieldReader, at: FieldPath, name: str) -> AlertmanagerSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    more = ("period", "labels", "severity_label", "link", "runbook_url", "explained")
    fields.check_keys(at, ("kind", "urls"), (*SCOPE_FIELDS, *SYMPTOM_FIELDS, *HTTP_FIELDS, *more))
    found = read_urls(fields, at, ALERTS_PATH)
    if fields.value_at((*at, "urls")) == []:
        fields.add_problem((*at, "urls"), "no address", "at least one Alertmanager")
    link = read_link(fields, at)
    more_labels = parse_labels(fields, (*at, "labels"))
    for own in [label for label, _ in more_labels if label in RESERVED_LABELS]:
        fields.add_problem((*at, "labels", own), f"{own!r}", "a label that Skewscope does not set itself")
    period = read_number(fields, (*at, "period"), 30.0, (1.0, 3600.0))
    reported, wish = read_scope(fields, at), (*at, "severity_label")
    is_label = fields.value_at(wish) is None or read_bool(fields, wish)
    return AlertmanagerSettings(
        *(name, found, read_fetch_options(fields, at), reported, period, more_labels),
        *(is_label, link, read_link(fields, at, "runbook_url")),
    )


def build(settings: AlertmanagerSettings, topology: Topology) -> tuple["AlertmanagerNotifier", ...]:
    """Creates one notifier per Alertmanager: each instance is notified separately."""
    one = len(settings.urls) == 1
    return tuple(
        AlertmanagerNotifier(
            settings.name if one else f"{settings.name} {urlsplit(url).netloc}", url, settings, topology
        )
        for url in settings.urls
    )


@dataclass(frozen=True, slots=True)
class EndedAlert:
    """An alert that fires no more."""

    incident: Incident
    ended_at: float
    """Seconds since 1970."""
    how: str
    """healed, gone, or withdrawn with the reason; '' where the incident goes on under other labels."""
    repeats: int = END_REPEATS
    """How many more times its end is sent."""


@dataclass
class AlertmanagerNotifier:
    """Keeps the alerts of one Alertmanager up to date."""

    name: str
    url: str
    settings: AlertmanagerSettings
    topology: Topology
    _firing: dict[Labels, Incident] = field(default_factory=dict)
    _resolved: dict[Labels, EndedAlert] = field(default_factory=dict)

    @property
    def scope(self) -> NotificationScope:
        """The incidents that it sends."""
        return self.settings.scope

    @property
    def period(self) -> float:
        """Seconds between two repetitions."""
        return self.settings.period

    @property
    def timeout(self) -> float:
        """Seconds that all requests together may take."""
        return self.settings.fetch_options.timeout * 4

    async def show(self, incidents: Sequence[Incident], ended: Sequence[IncidentUpdate], now: float) -> None:
        """Sends firing alerts and the ends of resolved ones.

        Raises:
            DeliveryError: not everything arrived; ends are then sent again.
        """
        self._update(incidents, {one.incident.id: one for one in ended}, now)
        end = now + END_AHEAD_PERIODS * self.period
        alerts = [self._build_alert(label, one, end) for label, one in self._firing.items()]
        alerts += [
            self._build_alert(label, one.incident, one.ended_at, one.how) for label, one in self._resolved.items()
        ]
        for start in range(0, len(alerts), MAX_AT_ONCE):
            await self._post(alerts[start : start + MAX_AT_ONCE])
        left = {label: replace(one, repeats=one.repeats - 1) for label, one in self._resolved.items()}
        self._resolved = {label: one for label, one in left.items() if one.repeats}

    def _update(self, incidents: Sequence[Incident], ended: Mapping[str, IncidentUpdate], now: float) -> None:
        firing: dict[Labels, Incident] = {}
        for one in sorted(incidents, key=lambda one: (one.opened_at, one.id)):
            firing.setdefault(self._labels_of(one), one)
        for label, one in self._firing.items():
            if label not in firing:
                how = ended[one.id].ending if one.id in ended else ""
                self._resolved[label] = EndedAlert(one, now, how)
        for label in firing:
            self._resolved.pop(label, None)
        while len(self._resolved) > MAX_ENDED:
            self._resolved.pop(next(iter(self._resolved)))
        self._firing = firing

    def _labels_of(self, one: Incident) -> Labels:
        node = incident_text.node_of(one, self.topology)
        found = {
            **place_labels(one, self.topology),
            **dict(self.settings.labels),
            "alertname": one.condition,
            "category": one.category,
            "kind": one.kind,
            "entity": one.name,
            "fleet": incident_text.fleet_of(one, self.topology),
            "node": node,
            "rack": self.topology.node[node].rack if node else "",
            "severity": one.severity if self.settings.severity_label else "",
        }
        # Alertmanager treats an empty label as absent.
        return tuple((label, text) for label, text in found.items() if text)

    def _build_alert(self, label: Labels, one: Incident, end: float, how: str = "") -> dict[str, Any]:
        context = AlertContext(catalogue(), self.topology, self.settings.link)
        alert: dict[str, Any] = {
            "labels": dict(label),
            "annotations": {
                **_build_annotations(one, context, self.settings.runbook_url),
                **({"ended": how} if how else {}),
            },
            "startsAt": rfc3339(one.opened_at),
            "endsAt": rfc3339(max(end, one.opened_at + 0.001)),
        }
        if link := context.url(one):
            alert["generatorURL"] = link
        return alert

    async def _post(self, alerts: list[dict[str, Any]]) -> None:
        sent = PostBody(json.dumps(alerts).encode(), "application/json")
        try:
            answer = await exchange(self.url, self.settings.fetch_options, sent)
        except FetchError as error:
            raise DeliveryError(str(error)) from None
        if answer.status != 200:
            text = redact_secrets(answer.body.decode(errors="replace"), self.settings.fetch_options.bearer)
            raise DeliveryError(f"the answer {answer.status}: {text[:200]}")


def _build_annotations(one: Incident, context: AlertContext, runbook_url: str) -> Mapping[str, str]:
    step = next(iter(context.steps(one)), None)
    command = step.first.command if step and step.first else None
    known = step.mitigation if step else None
    found = {
        "summary": alert_title(one, context),
        "description": incident_text.summary_text(one),
        "severity": one.severity,
        "confidence": f"{one.confidence:.2f}",
        "coverage": f"{one.coverage:.2f}",
        "began": began_text(one),
        "impact": context.cost(one),
        "evidence": incident_text.evidence_text(one),
        "do": step.title if step else "",
        "command": command.do if command else "",
        "undo": (command.undo or command.undo_by_hand) if command else "",
        "worked_if": known.verify if known else "",
        "advice": incident_text.advice_text(one),
        "also": incident_text.join_names(one.also),
        "may_be_caused_by": incident_text.causes_text(one),
        "may_be_instead": incident_text.unjudged_text(one),
        "decides": one.decides,
        "runbook_url": runbook_url.replace("{condition}", one.condition),
        "incident": one.id,
    }
    return {name: text for name, text in found.items() if text}
