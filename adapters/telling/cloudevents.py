"""CloudEvents 1.0 over HTTP: each thing that happens to an incident is an event, posted until it is taken.

`source` and `id` together are an event's own for ever: one that was taken but whose answer was lost comes again with
the same, and who gets it can drop it.
"""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from skewscope.adapters.sources.fetch import Answer, FetchError, Sent, Wish, exchange
from skewscope.adapters.telling import words
from skewscope.adapters.telling.base import Configured, Letter, Scope, TellError
from skewscope.adapters.telling.settings import HTTP, SCOPE, scope, urls, wish
from skewscope.engine.incident import rfc3339
from skewscope.engine.topology import Topology
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

TYPE = "io.skewscope.incident."
"""What the type of an event begins with; what happened follows."""
MODES = ("structured", "binary")
SOURCE = "/skewscope"
JSON = "application/json"
LATER = (408, 425, 429)
"""Answers below 500 after which it may be taken another time."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One entry of the config."""

    name: str
    urls: tuple[str, ...]
    wish: Wish
    scope: Scope
    source: str = SOURCE
    mode: str = MODES[0]


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one entry; faults are noted."""
    fields.known(at, ("kind", "urls"), (*SCOPE, *HTTP, "source", "mode", "explained"))
    found = urls(fields, at, "")
    listed = fields.at((*at, "urls"))
    if isinstance(listed, list) and len(listed) != 1:
        fields.fault((*at, "urls"), f"{len(listed)} addresses", "one", "Write an entry for each.")
    source = fields.text((*at, "source")) or SOURCE
    if any(c.isspace() for c in source) or not source.isascii():
        fields.fault((*at, "source"), f"{source!r:.80}", "a URI or a path")
    mode = fields.text((*at, "mode"), choice=MODES) or MODES[0]
    return Settings(name, found, wish(fields, at), scope(fields, at), source, mode)


def build(settings: Settings, topology: Topology) -> tuple["CloudEvents", ...]:
    """Its only teller."""
    return (CloudEvents(settings, topology),)


@dataclass(frozen=True)
class CloudEvents(Configured):
    """Posts events to one address."""

    settings: Settings
    topology: Topology

    @property
    def patience(self) -> float:
        """Seconds that one post may take."""
        return self.settings.wish.timeout + 1.0

    async def send(self, letter: Letter) -> None:
        """Posts one event.

        Raises:
            TellError: it was not taken.
        """
        sent = self._structured(letter) if self.settings.mode == "structured" else self._binary(letter)
        try:
            answer = await exchange(self.settings.urls[0], self.settings.wish, sent)
        except FetchError as error:
            raise TellError(str(error)) from None
        if not 200 <= answer.status < 300:
            refused = 400 <= answer.status < 500 and answer.status not in (401, 403, 404, *LATER)
            raise TellError(f"the answer {answer.status}", refused=refused, after=retry_after(answer))

    def _attributes(self, letter: Letter) -> dict[str, str]:
        one = letter.told.incident
        return {
            "specversion": "1.0",
            "id": f"{one.id}/{letter.number}",
            "source": self.settings.source,
            "type": TYPE + letter.told.what,
            "subject": f"{one.kind}/{one.name}",
            "time": rfc3339(letter.t),
            "datacontenttype": JSON,
        }

    def _data(self, letter: Letter) -> dict[str, Any]:
        one = letter.told.incident
        return one.as_json() | {"why": letter.told.why, "fleet": words.fleet_of(one, self.topology)}

    def _structured(self, letter: Letter) -> Sent:
        event = self._attributes(letter) | {"data": self._data(letter)}
        return Sent(json.dumps(event, allow_nan=False).encode(), "application/cloudevents+json; charset=utf-8")

    def _binary(self, letter: Letter) -> Sent:
        attributes = self._attributes(letter)
        content = attributes.pop("datacontenttype")
        # As the binding wants it: blanks, quotes, percent signs and what is no printable ASCII are percent-encoded.
        safe = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in '"%')
        headers = tuple((f"ce-{name}", quote(text, safe=safe)) for name, text in attributes.items())
        return Sent(json.dumps(self._data(letter), allow_nan=False).encode(), content, headers)


def retry_after(answer: Answer) -> float:
    """Seconds that the other side wishes us to wait; 0 where it names none."""
    text = answer.headers.get("retry-after", "")
    return float(text[:9]) if text.isascii() and text.isdigit() else 0.0
