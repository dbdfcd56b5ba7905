"""Alertmanager, by its API v2.

Labels are what an alert is: they never change while it fires. What changes stands in annotations. As long as it fires
an alert is sent again each period, with an end that lies some periods ahead, so that it ends by itself where nobody
sends it any more. One that is over is sent with its end, and some more times, for the first may have been lost.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from skewscope.adapters.more_fields import number, yes
from skewscope.adapters.secret import hidden
from skewscope.adapters.sources.base import scrubbed
from skewscope.adapters.sources.fetch import FetchError, Sent, Wish, exchange
from skewscope.adapters.sources.targets import Labels, labels
from skewscope.adapters.telling import words
from skewscope.adapters.telling.base import Scope, TellError
from skewscope.adapters.telling.settings import HTTP, SCOPE, scope, urls, wish
from skewscope.engine.incident import Incident, rfc3339
from skewscope.engine.topology import Topology
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

PATH = "/api/v2/alerts"
AHEAD = 4
"""Periods after which an alert ends that is not sent again."""
AGAIN = 5
"""How often the end of an alert is sent."""
MOST_ENDED = 10_000
MOST_AT_ONCE = 500
"""Alerts in a request."""
OWN = ("alertname", "kind", "entity", "fleet", "node", "rack", "severity")
"""Labels that nobody else may set."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One entry of the config."""

    name: str
    urls: tuple[str, ...]
    wish: Wish
    scope: Scope
    period: float = 30.0
    labels: Labels = ()
    """That all alerts get."""
    severity: bool = False
    """Whether severity is a label too: its change is then the end of one alert and the start of another."""
    link: str = ""
    """Where the controller is found; an alert links to its incident there."""


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one entry; faults are noted."""
    more = ("period", "labels", "severity_label", "link", "explained")
    fields.known(at, ("kind", "urls"), (*SCOPE, *HTTP, *more))
    found = urls(fields, at, PATH)
    if fields.at((*at, "urls")) == []:
        fields.fault((*at, "urls"), "nobody to tell", "at least one Alertmanager")
    link = fields.text((*at, "link"))
    if link and (urlsplit(link).scheme not in ("http", "https") or "@" in urlsplit(link).netloc):
        found_link = f"{scrubbed(link)!r:.80}"
        fields.fault((*at, "link"), found_link, "an address that begins with http:// or https://, without a password")
    more_labels = labels(fields, (*at, "labels"))
    for own in [label for label, _ in more_labels if label in OWN]:
        fields.fault((*at, "labels", own), f"{own!r}", "a label that Skewscope does not set itself")
    period = number(fields, (*at, "period"), 30.0, (1.0, 3600.0))
    told = scope(fields, at)
    return Settings(
        *(name, found, wish(fields, at), told, period, more_labels),
        *(yes(fields, (*at, "severity_label")), link.rstrip("/")),
    )


def build(settings: Settings, topology: Topology) -> tuple["Alertmanager", ...]:
    """One teller for each Alertmanager: they are no cluster to us, each has to be told."""
    one = len(settings.urls) == 1
    return tuple(
        Alertmanager(settings.name if one else f"{settings.name} {urlsplit(url).netloc}", url, settings, topology)
        for url in settings.urls
    )


@dataclass
class Alertmanager:
    """Keeps one Alertmanager's alerts as they should be."""

    name: str
    url: str
    settings: Settings
    topology: Topology
    _firing: dict[Labels, Incident] = field(default_factory=dict)
    _ended: dict[Labels, tuple[Incident, float, int]] = field(default_factory=dict)
    """What it was, when it ended, and how often that is still to be sent."""

    @property
    def scope(self) -> Scope:
        """Which incidents it wants."""
        return self.settings.scope

    @property
    def period(self) -> float:
        """Seconds after which it shows the same again."""
        return self.settings.period

    @property
    def patience(self) -> float:
        """Seconds that all requests together may take."""
        return self.settings.wish.timeout * 4

    async def show(self, incidents: Sequence[Incident], now: float) -> None:
        """Sends what fires, and what has ended.

        Raises:
            TellError: not all of it arrived; ends are then sent again.
        """
        self._turn(incidents, now)
        end = now + AHEAD * self.period
        alerts = [self._alert(label, one, end) for label, one in self._firing.items()]
        alerts += [self._alert(label, one, ended) for label, (one, ended, _) in self._ended.items()]
        for start in range(0, len(alerts), MOST_AT_ONCE):
            await self._post(alerts[start : start + MOST_AT_ONCE])
        ended = self._ended.items()
        self._ended = {label: (one, at, left - 1) for label, (one, at, left) in ended if left > 1}

    def _turn(self, incidents: Sequence[Incident], now: float) -> None:
        firing: dict[Labels, Incident] = {}
        for one in sorted(incidents, key=lambda one: (one.opened_at, one.id)):
            firing.setdefault(self._labels(one), one)
        for label, one in self._firing.items():
            if label not in firing:
                self._ended[label] = (one, now, AGAIN)
        for label in firing:
            self._ended.pop(label, None)
        while len(self._ended) > MOST_ENDED:
            self._ended.pop(next(iter(self._ended)))
        self._firing = firing

    def _labels(self, one: Incident) -> Labels:
        node = words.node_of(one, self.topology)
        found = {
            **dict(self.settings.labels),
            "alertname": one.condition,
            "kind": one.kind,
            "entity": one.name,
            "fleet": words.fleet_of(one, self.topology),
            "node": node,
            "rack": self.topology.node[node].rack if node else "",
            "severity": one.severity if self.settings.severity else "",
        }
        # An empty label is none.
        return tuple((label, text) for label, text in found.items() if text)

    def _alert(self, label: Labels, one: Incident, end: float) -> dict[str, Any]:
        alert: dict[str, Any] = {
            "labels": dict(label),
            "annotations": _annotations(one),
            "startsAt": rfc3339(one.opened_at),
            "endsAt": rfc3339(max(end, one.opened_at + 0.001)),
        }
        if self.settings.link:
            alert["generatorURL"] = f"{self.settings.link}/api/v1/incidents/{one.id}"
        return alert

    async def _post(self, alerts: list[dict[str, Any]]) -> None:
        sent = Sent(json.dumps(alerts).encode(), "application/json")
        try:
            answer = await exchange(self.url, self.settings.wish, sent)
        except FetchError as error:
            raise TellError(str(error)) from None
        if answer.status != 200:
            said = hidden(answer.page.decode(errors="replace"), self.settings.wish.bearer)
            raise TellError(f"the answer {answer.status}: {said[:200]}")


def _annotations(one: Incident) -> Mapping[str, str]:
    found = {
        "summary": words.title(one),
        "severity": one.severity,
        "confidence": f"{one.confidence:.2f}",
        "coverage": f"{one.coverage:.2f}",
        "impact": words.impact(one),
        "evidence": words.because(one),
        "advice": words.advice(one),
        "also": words.names(one.also),
        "may_be_instead": words.candidates(one),
        "incident": one.id,
    }
    return {name: text for name, text in found.items() if text}
