"""Notifier for CloudEvents 1.0 over HTTP: each update is an event, posted until it is accepted.

`source` and `id` together identify an event permanently: when the answer to an accepted event is lost, the event is
sent again with the same pair and the receiver can drop the duplicate.
"""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from skewscope.adapters.notify import incident_text
from skewscope.adapters.notify.alert_labels import group_key
from skewscope.adapters.notify.base import ConfiguredNotifier, DeliveryError, Notification, NotificationScope
from skewscope.adapters.notify.settings import (
    HTTP_FIELDS,
    SCOPE_FIELDS,
    SYMPTOM_FIELDS,
    read_fetch_options,
    read_scope,
    read_urls,
)
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, HttpResponse, PostBody, exchange
from skewscope.engine.model.incident import rfc3339
from skewscope.engine.model.topology import Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

TYPE_PREFIX = "io.skewscope.incident."
"""Prefix of the event type; the kind of update follows."""
MODES = ("structured", "binary")
DEFAULT_SOURCE = "/skewscope"
JSON = "application/json"
RETRY_STATUSES = (408, 425, 429)
"""Statuses below 500 after which the event is retried."""


@dataclass(frozen=True, slots=True)
class CloudEventsSettings:
    """Settings of one CloudEvents entry."""

    name: str
    urls: tuple[str, ...]
    fetch_options: FetchOptions
    scope: NotificationScope
    source: str = DEFAULT_SOURCE
    mode: str = MODES[0]


def read(fields: FieldReader, at: FieldPath, name: str) -> CloudEventsSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(
        at, ("kind", "urls"), (*SCOPE_FIELDS, *SYMPTOM_FIELDS, *HTTP_FIELDS, "source", "mode", "explained")
    )
    found = read_urls(fields, at, "")
    listed = fields.value_at((*at, "urls"))
    if isinstance(listed, list) and len(listed) != 1:
        fields.add_problem((*at, "urls"), f"{len(listed)} addresses", "one", "Write an entry for each.")
    source = fields.text((*at, "source")) or DEFAULT_SOURCE
    if any(c.isspace() for c in source) or not source.isascii():
        fields.add_problem((*at, "source"), f"{source!r:.80}", "a URI or a path")
    mode = fields.text((*at, "mode"), choice=MODES) or MODES[0]
    return CloudEventsSettings(name, found, read_fetch_options(fields, at), read_scope(fields, at), source, mode)


def build(settings: CloudEventsSettings, topology: Topology) -> tuple["CloudEventsNotifier", ...]:
    """Creates the only notifier of the entry."""
    return (CloudEventsNotifier(settings, topology),)


@dataclass(frozen=True)
class CloudEventsNotifier(ConfiguredNotifier):
    """Posts events to one URL."""

    settings: CloudEventsSettings
    topology: Topology

    @property
    def timeout(self) -> float:
        """Seconds that one post may take."""
        return self.settings.fetch_options.timeout + 1.0

    async def send(self, notification: Notification) -> None:
        """Posts one event.

        Raises:
            DeliveryError: it was not accepted.
        """
        sent = (
            self._structured_request(notification)
            if self.settings.mode == "structured"
            else self._binary_request(notification)
        )
        try:
            answer = await exchange(self.settings.urls[0], self.settings.fetch_options, sent)
        except FetchError as error:
            raise DeliveryError(str(error)) from None
        if not 200 <= answer.status < 300:
            refused = 400 <= answer.status < 500 and answer.status not in (401, 403, 404, *RETRY_STATUSES)
            raise DeliveryError(f"the answer {answer.status}", refused=refused, after=parse_retry_after(answer))

    def _build_attributes(self, notification: Notification) -> dict[str, str]:
        one, what = notification.update.incident, notification.update.what
        parts = (one.id, what, str(round(notification.t * 1000)), str(notification.number), notification.session)
        return {
            "specversion": "1.0",
            # Each controller counts its own notifications, and both may report one incident: the number alone is not
            # enough.
            "id": "/".join(filter(None, parts)),
            "source": self.settings.source,
            "type": TYPE_PREFIX + notification.update.what,
            "subject": f"{one.kind}/{one.name}",
            "time": rfc3339(notification.t),
            "datacontenttype": JSON,
        }

    def _build_data(self, notification: Notification) -> dict[str, Any]:
        one = notification.update.incident
        fleet = incident_text.fleet_of(one, self.topology)
        more = {"why": notification.update.why, "fleet": fleet, "place": group_key(one, self.topology)}
        return one.as_json() | more | {"actions": list(notification.actions)}

    def _structured_request(self, notification: Notification) -> PostBody:
        event = self._build_attributes(notification) | {"data": self._build_data(notification)}
        return PostBody(json.dumps(event, allow_nan=False).encode(), "application/cloudevents+json; charset=utf-8")

    def _binary_request(self, notification: Notification) -> PostBody:
        attributes = self._build_attributes(notification)
        content = attributes.pop("datacontenttype")
        # The HTTP binding percent-encodes blanks, quotes, percent signs and everything that is not printable ASCII.
        safe = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')
        headers = tuple((f"ce-{name}", quote(text, safe=safe)) for name, text in attributes.items())
        return PostBody(json.dumps(self._build_data(notification), allow_nan=False).encode(), content, headers)


def parse_retry_after(answer: HttpResponse) -> float:
    """Returns the seconds of a Retry-After header; 0 without one."""
    text = answer.headers.get("retry-after", "")
    return float(text[:9]) if text.isascii() and text.isdigit() else 0.0
