"""Notifier for chat, mail and pagers through Apprise: one message when a root incident opens, one when it resolves.

Apprise is an extra of this package (`pip install 'skewscope[chat]'`). Its URLs contain passwords; they are read from a
separate file, one per line, and are never shown.
"""

import importlib
import importlib.util
import logging
from asyncio import Future, get_running_loop
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skewscope.adapters.config.fields import read_number
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.notify import incident_text
from skewscope.adapters.notify.alert_text import AlertContext, alert_body, alert_title
from skewscope.adapters.notify.base import (
    ACTED,
    CHANGED,
    RESOLVED,
    WITHDRAWN,
    ConfiguredNotifier,
    DeliveryError,
    Notification,
    NotificationScope,
)
from skewscope.adapters.notify.settings import SCOPE_FIELDS, SYMPTOM_FIELDS, read_link, read_scope
from skewscope.adapters.runtime.tasks import start_thread
from skewscope.engine.model.incident import Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.loader import catalogue
from skewscope.kb.quantities import format_duration
from skewscope.kb.yamlfile import FieldPath

SEND_TIMEOUT = 30.0
"""Seconds per message."""
MAX_ADDRESSES = 32
MAX_BYTES = 1 << 16
SETTLE_TIME = 5.0
"""Seconds to wait before the first message, in which the root may still change."""


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Settings of one chat entry."""

    name: str
    addresses: tuple[Secret, ...]
    scope: NotificationScope
    per_hour: int = 30
    link: str = ""
    """Base URL of the controller; a message links to the page of its incident there."""


def read(fields: FieldReader, at: FieldPath, name: str) -> ChatSettings:
    """Parses the settings of one entry; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "file"), (*SCOPE_FIELDS, *SYMPTOM_FIELDS, "per_hour", "link"))
    if importlib.util.find_spec("apprise") is None:
        fields.add_problem(
            (*at, "kind"),
            "the library 'apprise' is not installed",
            "an installed library",
            "pip install 'skewscope[chat]'",
        )
    per_hour = int(read_number(fields, (*at, "per_hour"), 30.0, (1.0, 3600.0)))
    addresses, scope = _read_addresses(fields, (*at, "file")), read_scope(fields, at, SETTLE_TIME)
    return ChatSettings(name, addresses, scope, per_hour, read_link(fields, at))


def _read_addresses(fields: FieldReader, at: FieldPath) -> tuple[Secret, ...]:
    name = fields.text(at)
    if not name:
        return ()
    try:
        with (Path(fields.document.file).parent / name).open(encoding="utf-8") as file:
            lines = [line.strip() for line in file.read(MAX_BYTES).splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        fields.add_problem(
            at, f"no readable file {name!r} ({getattr(error, 'strerror', None) or 'not UTF-8'})", "addresses"
        )
        return ()
    found = [Secret(line) for line in lines if line and not line.startswith("#")]
    if not 1 <= len(found) <= MAX_ADDRESSES:
        fields.add_problem(at, f"{len(found)} addresses", f"1 to {MAX_ADDRESSES}, one a line")
    return tuple(found)


def build(settings: ChatSettings, topology: Topology) -> tuple["ChatNotifier", ...]:
    """Creates one notifier per URL: a failed message is retried for its own URL only."""
    if len(settings.addresses) == 1:
        return (ChatNotifier(settings, topology),)
    return tuple(
        ChatNotifier(replace(settings, name=f"{settings.name} {number}", addresses=(each,)), topology)
        for number, each in enumerate(settings.addresses, 1)
    )


def _say_nothing(_incident: Incident) -> str:
    return ""


@dataclass
class ChatNotifier(ConfiguredNotifier):
    """Sends messages to one URL through Apprise, in a thread of its own."""

    settings: ChatSettings
    topology: Topology
    draw: Callable[[Incident], str] = _say_nothing
    """Draws the members beside an incident over time as text; '' for no picture."""
    acknowledge_link: Callable[[Incident], str] = _say_nothing
    """Returns where an incident is acknowledged, '' for nowhere."""
    _sent_times: list[float] = field(default_factory=list)
    """Times of messages sent within the last hour."""
    _held_count: int = 0
    """Messages held back since the last one, due to the hourly limit."""
    _busy: bool = False
    """Whether a thread is still sending, perhaps one whose timeout has passed."""

    @property
    def timeout(self) -> float:
        """Seconds that one message may take."""
        return SEND_TIMEOUT

    async def send(self, notification: Notification) -> None:
        """Sends one message, or holds it back above the hourly limit.

        Raises:
            DeliveryError: it was not sent.
        """
        if notification.update.what == CHANGED:
            return
        loop = get_running_loop()
        self._sent_times = [at for at in self._sent_times if at > loop.time() - 3600.0]
        if len(self._sent_times) >= self.settings.per_hour:
            self._held_count += 1
            return
        links = self.settings.link, self.draw, self.acknowledge_link
        context = AlertContext(catalogue(), self.topology, *links)
        title, body = build_message(notification, context)
        if self._held_count:
            limit = self.settings.per_hour
            body += f"\n{self._held_count} messages before this one were held back: more than {limit} an hour."
        await self._notify(title, body)
        self._held_count = 0
        self._sent_times.append(loop.time())

    async def _notify(self, title: str, body: str) -> None:
        if self._busy:
            raise DeliveryError("the message before this one still hangs")
        loop = get_running_loop()
        done: Future[bool] = loop.create_future()

        def tell(result: bool) -> None:
            self._busy = False
            if not done.done():
                done.set_result(result)

        def work() -> None:
            result = _send_with_apprise(self.settings.addresses, title, body)
            # The loop may be closed by now.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(tell, result)

        self._busy = True
        start_thread(f"notifier {self.name}", work)
        if not await done:
            raise DeliveryError("the message was not taken")


def _send_with_apprise(addresses: tuple[Secret, ...], title: str, body: str) -> bool:
    """Returns whether the message was delivered to all addresses."""
    # Its log lines may contain parts of URLs.
    logging.getLogger("apprise").disabled = True
    logging.getLogger("urllib3").setLevel(logging.INFO)
    try:
        apprise: Any = importlib.import_module("apprise")
        places = apprise.Apprise()
        added = [places.add(address.text) for address in addresses]
        return all(added) and bool(places.notify(title=title, body=body, body_format="text"))
    except Exception:  # noqa: BLE001 - a hundred services are behind it, and what they say may hold their passwords
        return False


def build_message(notification: Notification, context: AlertContext) -> tuple[str, str]:
    """Returns title and body of a message."""
    what, why, one = notification.update
    acted = f"Acted: {incident_text.actions_text(notification.actions)}." if notification.actions else ""
    title, place = context.title(one), context.url(one) or f"Incident {one.id}."
    if what == ACTED:
        return f"Action: {title}", f"{why}.\n{place}"
    if what == RESOLVED:
        lasted = f"It lasted {format_duration(max(one.resolved_at - one.began, 0))}." if one.resolved_at else ""
        gone = "Its place is no longer there, so whether it is over is not known." if one.is_gone else ""
        return f"{'Gone' if one.is_gone else 'Resolved'}: {title}", "\n".join(
            filter(None, (lasted, gone, acted, place))
        )
    if what == WITHDRAWN:
        return f"No longer reported: {title}", "\n".join(filter(None, (f"{why}.", acted, place)))
    return alert_title(one, context), "\n\n".join(filter(None, (alert_body(one, context), acted)))
