"""Runs notifiers: each in a task of its own, with a timeout, and with a backoff that doubles on failure.

Notifications of event notifiers wait in the store, not in memory: a notifier that hangs for a day needs no memory.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from skewscope.adapters.notify.base import DeliveryError, EventNotifier, Notification, Notifier, StateNotifier
from skewscope.adapters.notify.handover import Handover
from skewscope.adapters.notify.notifier_state import NotifierState
from skewscope.adapters.runtime.clock import Clock
from skewscope.adapters.runtime.tasks import cancel_and_wait, check_cancellation
from skewscope.adapters.sources.base import redact_address
from skewscope.engine.model.incident import Incident

MIN_WAIT, MAX_WAIT = 1.0, 60.0
"""Seconds before a retry."""
MAX_RETRY_AFTER = 600.0
"""Longest wait that a receiver may request, seconds."""
MAX_NOTIFICATIONS = 50
"""Notifications loaded from the store at once."""
POLL_PERIOD = 1.0
"""Seconds between two checks whether this controller is the active one."""

NotificationLoader = Callable[[str, int, int], Sequence[Notification]]
"""Returns notifications of a notifier after a number, up to a limit; may block, and is called in a thread."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NotifierStatus:
    """Status of one notifier."""

    name: str
    up: bool
    """Whether the last delivery succeeded; true before the first one."""
    since: float
    """Start of that state, seconds since 1970."""
    last: float | None
    """Time of the last delivery; None for never."""
    told: int
    """Number of deliveries."""
    failed: int
    refused: int
    """Notifications that the receiver would never accept, and that were dropped."""
    trouble: str
    """The last error, without secrets; '' for none."""


@dataclass
class NotifierTask:
    """One notifier and its task."""

    notifier: Notifier
    clock: Clock
    task: "asyncio.Task[None] | None" = None
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    state: NotifierState = field(init=False)
    """State of a state notifier; that of event notifiers is kept where notifications are written."""
    last_number: int = 0
    """Number of the last processed notification."""
    done_until: float = 0.0
    """All notifications up to this time are processed."""
    idle: bool = False
    """Whether all notifications are processed and it waits for new ones."""
    up: bool = True
    since: float = 0.0
    last: float | None = None
    delivered_count: int = 0
    failed: int = 0
    refused: int = 0
    failures: int = 0
    """Consecutive failures."""
    trouble: str = ""

    def __post_init__(self) -> None:
        self.state = NotifierState(self.notifier.scope)
        self.since = self.clock.now()

    async def attempt(self, doing: "asyncio.Future[None] | asyncio.Task[None]") -> DeliveryError | None:
        """Awaits a call of the notifier; returns its error, None on success."""
        try:
            async with asyncio.timeout(self.notifier.timeout):
                await doing
        except TimeoutError:
            return self._record_failure(DeliveryError(f"no end within {self.notifier.timeout:g} s"))
        except DeliveryError as error:
            check_cancellation()
            return self._record_failure(error)
        except Exception as error:  # noqa: BLE001 - whatever a teller does, nobody else may suffer from it
            check_cancellation()
            return self._record_failure(DeliveryError(f"{type(error).__name__}: {error}"))
        check_cancellation()
        self.delivered_count += 1
        self.failures, self.trouble, self.last = 0, "", self.clock.now()
        self._update_status(up=True)
        return None

    def _record_failure(self, error: DeliveryError) -> DeliveryError:
        trouble = redact_address(error)
        if trouble != self.trouble:
            log.warning("teller %s: %s", self.notifier.name, trouble)
        self.trouble = trouble
        self.failed += 1
        self.failures += 1
        self._update_status(up=False)
        return error

    def _update_status(self, *, up: bool) -> None:
        if up != self.up:
            self.up, self.since = up, self.clock.now()

    def backoff(self, error: DeliveryError) -> float:
        """Returns the seconds until the next attempt."""
        return max(min(MIN_WAIT * 2.0 ** min(self.failures - 1, 10), MAX_WAIT), min(error.after, MAX_RETRY_AFTER))

    def status(self) -> NotifierStatus:
        """Returns its status."""
        return NotifierStatus(
            *(self.notifier.name, self.up, self.since, self.last),
            *(self.delivered_count, self.failed, self.refused, self.trouble),
        )


@dataclass
class Dispatcher:
    """All notifiers of a controller."""

    clock: Clock
    load_notifications: NotificationLoader
    on_done: Callable[[str, int], None]
    """Called with a notifier's name and the number up to which its notifications are no longer needed."""
    is_active: Callable[[], bool] = lambda: True
    """Whether this controller may notify, checked before each delivery: only one of two controllers is active."""
    handover: Handover = field(default_factory=Handover)
    _tasks: dict[str, NotifierTask] = field(default_factory=dict)
    _t: float = 0.0
    _complete: bool = True
    """Whether all notifications of the last tick have been written to the store."""

    def start(self, teller: Notifier) -> None:
        """Starts a notifier; its name must be unique."""
        if teller.name in self._tasks:
            raise ValueError(f"two notifiers called {teller.name!r}")
        kept = self._tasks[teller.name] = NotifierTask(teller, self.clock)
        doing = self._run_state_notifier(kept, teller) if is_state_notifier(teller) else self._run_event_notifier(kept)
        kept.task = asyncio.create_task(doing, name=f"teller {teller.name}")

    async def stop(self, name: str) -> None:
        """Stops a notifier."""
        task = self._tasks.pop(name).task
        if task is not None:
            await cancel_and_wait(task)

    async def close(self) -> None:
        """Stops all notifiers."""
        await asyncio.gather(*(self.stop(name) for name in list(self._tasks)))

    def dispatch(
        self, t: float, incidents: Iterable[Incident], silenced: Mapping[str, str], mail: Collection[str] | None
    ) -> None:
        """Passes the result of a tick to the notifiers without blocking.

        `mail` names the event notifiers that have new notifications; None: they could not be written.
        """
        self._t, self._complete = t, mail is not None
        mail = mail or ()
        for name, kept in self._tasks.items():
            if kept.state.update(t, incidents, silenced) if is_state_notifier(kept.notifier) else name in mail:
                kept.wakeup.set()

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of all notifiers."""
        return tuple(self._tasks)

    def statuses(self) -> tuple[NotifierStatus, ...]:
        """Returns the status of each notifier, by name."""
        return tuple(kept.status() for _, kept in sorted(self._tasks.items()))

    def progress(self, now: float) -> str:
        """Returns the progress of event notifiers as text for a successor; `now` by the clock of the notifications."""
        for kept in self._tasks.values():
            if kept.idle and not kept.wakeup.is_set() and self._complete:
                kept.done_until = max(kept.done_until, self._t)
        until = {name: kept.done_until for name, kept in self._tasks.items() if is_event_notifier(kept.notifier)}
        return self.handover.format_progress(now, until)

    # --- state notifiers

    async def _run_state_notifier(self, kept: NotifierTask, board: StateNotifier) -> None:
        while True:
            kept.wakeup.clear()
            wait = board.period
            if self.is_active() and self._t:
                shown = tuple(kept.state.reported.values())
                error = await kept.attempt(asyncio.ensure_future(board.show(shown, self.clock.now())))
                if error is not None:
                    await self.clock.sleep(kept.backoff(error))
                    continue
            else:
                wait = POLL_PERIOD
            await self._wait_for_wakeup(kept, wait)

    async def _wait_for_wakeup(self, kept: NotifierTask, seconds: float) -> None:
        """Waits for a wake-up or a timeout."""
        waits = {
            asyncio.ensure_future(kept.wakeup.wait()),
            asyncio.ensure_future(self.clock.sleep(seconds)),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    # --- event notifiers

    async def _run_event_notifier(self, kept: NotifierTask) -> None:
        while True:
            kept.wakeup.clear()
            letters = await self._load_notifications(kept)
            for letter in letters:
                await self._process_notification(kept, letter)
                kept.last_number, kept.done_until = letter.number, max(kept.done_until, letter.t)
                self.on_done(kept.notifier.name, letter.number)
            if len(letters) < MAX_NOTIFICATIONS:
                kept.idle = True
                await self._wait_for_wakeup(kept, MAX_WAIT)
                kept.idle = False

    async def _process_notification(self, kept: NotifierTask, letter: Notification) -> None:
        """Returns once a notification is delivered, by this controller or by the leader; it is kept until then."""
        name = kept.notifier.name
        while not self.handover.is_obsolete(name, letter, self._t, ours=self.is_active()):
            if self.is_active():
                if self.handover.consume_mark(name, letter) or await self._deliver(kept, letter):
                    return
            else:
                await self.clock.sleep(POLL_PERIOD)

    async def _load_notifications(self, kept: NotifierTask) -> Sequence[Notification]:
        try:
            return await asyncio.to_thread(
                self.load_notifications, kept.notifier.name, kept.last_number, MAX_NOTIFICATIONS
            )
        except Exception:
            log.exception("the notifications of %s", kept.notifier.name)
            return ()

    async def _deliver(self, kept: NotifierTask, letter: Notification) -> bool:
        """Retries until delivery or refusal; returns False if this controller stops being active."""
        messenger = kept.notifier
        assert is_event_notifier(messenger)
        while self.is_active():
            error = await kept.attempt(asyncio.ensure_future(messenger.send(letter)))
            if error is None:
                self.handover.record_delivery(messenger.name, letter)
                return True
            if error.refused:
                kept.refused += 1
                return True
            await self.clock.sleep(kept.backoff(error))
        return False


def is_state_notifier(teller: Notifier) -> TypeGuard[StateNotifier]:
    """Returns whether it is a state notifier."""
    return hasattr(teller, "show")


def is_event_notifier(teller: Notifier) -> TypeGuard[EventNotifier]:
    """Returns whether it is an event notifier."""
    return hasattr(teller, "send")
