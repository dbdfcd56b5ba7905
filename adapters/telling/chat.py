"""Chat, mail, pagers: whatever Apprise knows. One message for each root that opens and one when it is over.

Apprise is an extra of this package (`pip install 'skewscope[chat]'`). Its addresses hold passwords, so they stand in a
file of their own, one a line; they are never shown.
"""

import importlib
import importlib.util
import logging
import threading
from asyncio import Future, get_running_loop
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skewscope.adapters.more_fields import number
from skewscope.adapters.secret import Secret
from skewscope.adapters.telling import words
from skewscope.adapters.telling.base import CHANGED, RESOLVED, WITHDRAWN, Configured, Letter, Scope, TellError
from skewscope.adapters.telling.settings import SCOPE, scope
from skewscope.engine.topology import Topology
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

PATIENCE = 30.0
"""Seconds for one message."""
MOST_ADDRESSES = 32
MOST_BYTES = 1 << 16
SETTLES = 5.0
"""Seconds in which it may still turn out what is the root."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One entry of the config."""

    name: str
    addresses: tuple[Secret, ...]
    scope: Scope
    per_hour: int = 30


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one entry; faults are noted."""
    fields.known(at, ("kind", "file"), (*SCOPE, "per_hour"))
    if importlib.util.find_spec("apprise") is None:
        fields.fault((*at, "kind"), "no library 'apprise'", "an installed one", "pip install 'skewscope[chat]'")
    per_hour = int(number(fields, (*at, "per_hour"), 30.0, (1.0, 3600.0)))
    return Settings(name, _addresses(fields, (*at, "file")), scope(fields, at, SETTLES), per_hour)


def _addresses(fields: Fields, at: Path_) -> tuple[Secret, ...]:
    name = fields.text(at)
    if not name:
        return ()
    try:
        with (Path(fields.document.file).parent / name).open(encoding="utf-8") as file:
            lines = [line.strip() for line in file.read(MOST_BYTES).splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        fields.fault(at, f"no readable file {name!r} ({getattr(error, 'strerror', None) or 'not UTF-8'})", "addresses")
        return ()
    found = [Secret(line) for line in lines if line and not line.startswith("#")]
    if not 1 <= len(found) <= MOST_ADDRESSES:
        fields.fault(at, f"{len(found)} addresses", f"1 to {MOST_ADDRESSES}, one a line")
    return tuple(found)


def build(settings: Settings, topology: Topology) -> tuple["Chat", ...]:
    """One teller for each address: what one of them does not take is tried again there, and not in all the others."""
    if len(settings.addresses) == 1:
        return (Chat(settings, topology),)
    return tuple(
        Chat(replace(settings, name=f"{settings.name} {number}", addresses=(each,)), topology)
        for number, each in enumerate(settings.addresses, 1)
    )


@dataclass
class Chat(Configured):
    """Sends messages to one place through Apprise, in a thread that nobody waits for."""

    settings: Settings
    topology: Topology
    _sent: list[float] = field(default_factory=list)
    """When messages were sent, in the last hour."""
    _held: int = 0
    """Messages that were not sent since, for there were too many."""
    _busy: bool = False
    """Whether a thread is still at a message, perhaps one that nobody waits for any more."""

    @property
    def patience(self) -> float:
        """Seconds that one message may take."""
        return PATIENCE

    async def send(self, letter: Letter) -> None:
        """Sends one message, or holds it back where there were too many.

        Raises:
            TellError: it was not sent.
        """
        if letter.told.what == CHANGED:
            return
        loop = get_running_loop()
        self._sent = [at for at in self._sent if at > loop.time() - 3600.0]
        if len(self._sent) >= self.settings.per_hour:
            self._held += 1
            return
        title, body = message(letter, self.topology)
        if self._held:
            body += (
                f"\n{self._held} messages before this one were held back: more than {self.settings.per_hour} an hour."
            )
        await self._notified(title, body)
        self._held = 0
        self._sent.append(loop.time())

    async def _notified(self, title: str, body: str) -> None:
        if self._busy:
            raise TellError("the message before this one still hangs")
        loop = get_running_loop()
        done: Future[bool] = loop.create_future()

        def tell(result: bool) -> None:
            self._busy = False
            if not done.done():
                done.set_result(result)

        def work() -> None:
            result = _apprised(self.settings.addresses, title, body)
            # The loop may be closed by now.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(tell, result)

        self._busy = True
        threading.Thread(target=work, name=f"teller {self.name}", daemon=True).start()
        if not await done:
            raise TellError("the message was not taken")


def _apprised(addresses: tuple[Secret, ...], title: str, body: str) -> bool:
    """Whether a message arrived everywhere."""
    apprise: Any = importlib.import_module("apprise")
    # What it logs may hold parts of addresses.
    logging.getLogger("apprise").disabled = True
    logging.getLogger("urllib3").setLevel(logging.INFO)
    try:
        places = apprise.Apprise()
        added = [places.add(address.text) for address in addresses]
        return all(added) and bool(places.notify(title=title, body=body, body_format="text"))
    except Exception:  # noqa: BLE001 - a hundred services are behind it, and what they say may hold their passwords
        return False


def message(letter: Letter, topology: Topology) -> tuple[str, str]:
    """Title and text of a message."""
    what, why, one = letter.told
    fleet = words.fleet_of(one, topology)
    if what == RESOLVED:
        return f"Resolved: {words.title(one)}", f"In {fleet}. Incident {one.id}."
    if what == WITHDRAWN:
        return f"No longer told: {words.title(one)}", f"In {fleet}: {why}. Incident {one.id}."
    lines = [
        f"In {fleet}, {one.severity}, confidence {one.confidence:.2f}.",
        f"Why: {words.because(one)}" if one.evidence else "",
        f"It may be instead: {words.candidates(one)}" if one.candidates else "",
        f"Costs: {words.impact(one)}" if words.impact(one) else "",
        f"What could be done: {words.advice(one)}" if one.mitigations else "",
        f"Incident {one.id}.",
    ]
    return words.title(one), "\n".join(line for line in lines if line)
