"""Runs notifiers: each in a task of its own, with a timeout, and with a backoff that doubles on failure.

Notifications of event notifiers wait in the store, not in memory: a notifier that hangs for a day needs no memory.
"""

import asyncio
import logging
import sqlite3
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeGuard

from skewscope.adapters.notify.base import (
    CHANGED,
    OPENED,
    RESOLVED,
    WITHDRAWN,
    DeliveryError,
    EventNotifier,
    IncidentUpdate,
    Notification,
    Notifier,
    StateNotifier,
)
from skewscope.adapters.notify.handover import Handover
from skewscope.adapters.notify.notifier_state import NotifierState
from skewscope.adapters.notify.omissions import format_omissions, parse_omissions
from skewscope.adapters.notify.open_reports import BelievedOpen, OpenReport, Place, place_of
from skewscope.adapters.runtime.blocking_calls import STORE
from skewscope.adapters.runtime.clock import Clock
from skewscope.adapters.runtime.elapsed_time import ElapsedTime
from skewscope.adapters.runtime.tasks import cancel_and_wait, check_cancellation, start_service, wait_for_first
from skewscope.adapters.sources.common.base import redact_message
from skewscope.engine.model.incident import Incident
from skewscope.kb.problems import InputError

MIN_WAIT, MAX_WAIT = 1.0, 60.0
"""Seconds before a retry."""
MAX_RETRY_AFTER = 600.0
"""Longest wait that a receiver may request, seconds."""
MAX_NOTIFICATIONS = 50
"""Notifications loaded from the store at once."""
POLL_PERIOD = 1.0
"""Seconds between two checks whether this controller is the active one."""
MAX_ENDED = 10_000
"""Ends that are kept for a state notifier that cannot deliver."""

ORPHAN_WAIT = 120.0
"""Seconds for which nothing may fire where another controller has reported an incident, before its end is reported: as
long as a restored incident waits, and then some."""

MISSED_AFTER = 30.0
"""Seconds after which a follower asks the leader to report what only the follower saw."""

MAX_STEP = 10.0
"""Seconds that count for one tick, whatever the clock does."""

NotificationLoader = Callable[[str, int, int], Sequence[Notification]]
"""Returns notifications of a notifier after a number, up to a limit; may block, and is called in a thread."""

log = logging.getLogger(__name__)


async def _publish_nothing() -> None:
    pass


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
    ended: deque[IncidentUpdate] = field(default_factory=partial(deque, maxlen=MAX_ENDED))
    """What has ended since a state notifier delivered its last state."""
    last_number: int = 0
    """Number of the last processed notification."""
    extra: deque[Notification] = field(default_factory=deque)
    """What no incident of this controller gives: ends of what another one reported, openings that another one saw."""
    waiting: Notification | None = None
    """What waits for the leader to report it, while this controller follows."""
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
    unread: str = ""
    """Why its notifications could last not be read from the store."""
    trouble: str = ""

    def __post_init__(self) -> None:
        self.state = NotifierState(self.notifier.scope)
        self.since = self.clock.now()

    def follow(self, t: float, incidents: Iterable[Incident], silenced: Mapping[str, str]) -> bool:
        """Takes in the result of a tick for a state notifier; returns whether there is news."""
        updates = self.state.update(t, incidents, silenced)
        self.ended.extend(one for one in updates if one.ending)
        return bool(updates)

    @property
    def is_done(self) -> bool:
        """Whether all that there is to report is processed."""
        return self.idle and not self.wakeup.is_set() and not self.extra

    async def attempt(self, doing: Awaitable[None]) -> DeliveryError | None:
        """Awaits a call of the notifier; returns its error, None on success."""
        try:
            async with asyncio.timeout(self.notifier.timeout):
                await doing
        except TimeoutError:
            return self.record_failure(DeliveryError(f"no end within {self.notifier.timeout:g} s"))
        except DeliveryError as error:
            check_cancellation()
            return self.record_failure(error)
        except Exception as error:  # noqa: BLE001 - whatever a teller does, nobody else may suffer from it
            check_cancellation()
            return self.record_failure(DeliveryError(f"{type(error).__name__}: {error}"))
        check_cancellation()
        self.delivered_count += 1
        self.failures, self.trouble, self.last = 0, "", self.clock.now()
        self._update_status(up=True)
        return None

    def record_failure(self, error: DeliveryError) -> DeliveryError:
        """Notes that a delivery failed; returns its error."""
        trouble = redact_message(error)
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
    publish: Callable[[], Awaitable[None]] = _publish_nothing
    """Writes the progress for the other controllers now."""
    handover: Handover = field(default_factory=Handover)
    _tasks: dict[str, NotifierTask] = field(default_factory=dict)
    _own_places: Mapping[str, Place] = field(default_factory=dict)
    """Places of this controller's incidents, by id."""
    _ends: Mapping[str, float] = field(default_factory=dict)
    """When those of them ended that are over, seconds since 1970."""
    _reportable: Mapping[str, Place] = field(default_factory=dict)
    """Places of this controller's incidents that fire now, are not explained by another one and not silenced, by id."""
    _reportable_at: Counter[Place] = field(default_factory=Counter)
    """How many of them are at each place."""
    _lost_for: dict[Place, float] = field(default_factory=dict)
    """Seconds for which nothing has fired at places that were reported as open."""
    _time: ElapsedTime = field(default_factory=lambda: ElapsedTime(MAX_STEP))
    _t: float = 0.0
    _complete: bool = True
    """Whether all notifications of the last tick have been written to the store."""

    def start(self, notifier: Notifier) -> None:
        """Starts a notifier; its name must be unique."""
        if notifier.name in self._tasks:
            raise ValueError(f"two notifiers called {notifier.name!r}")
        task = self._tasks[notifier.name] = NotifierTask(notifier, self.clock)
        task.task = start_service(f"notifier {notifier.name}", lambda: self._run(task), self.clock.sleep)

    async def _run(self, task: NotifierTask) -> None:
        """Runs a notifier; its status shows an unexpected error too."""
        notifier = task.notifier
        try:
            if is_state_notifier(notifier):
                await self._run_state_notifier(task, notifier)
            else:
                await self._run_event_notifier(task)
        except Exception as error:
            task.record_failure(DeliveryError(f"unexpected {type(error).__name__}: {error}"))
            raise

    async def stop(self, name: str) -> None:
        """Stops a notifier."""
        task = self._tasks.pop(name).task
        if task is not None:
            await cancel_and_wait(task)

    async def close(self) -> None:
        """Stops all notifiers."""
        await asyncio.gather(*(self.stop(name) for name in list(self._tasks)))

    def inherited_reports(self) -> tuple[OpenReport, ...]:
        """Returns what other controllers have reported as open, for all event notifiers."""
        if not self.handover.is_shared or not self.is_active():
            return ()
        reports = [self.handover.reports_of(name).list_others(self._own_places) for name in self._event_notifiers()]
        return tuple({report: None for found in reports for report in found})

    def end_orphans(self, t: float, incidents: Iterable[Incident], unjudged: Container[Place]) -> None:
        """Queues the ends of incidents that were reported and do not fire here.

        Args:
            t: time of the tick.
            incidents: those of this controller.
            unjudged: places that cannot be judged at present; unknown never resolves.
        """
        if not self.handover.is_shared:
            return
        known = tuple(incidents)
        self._own_places = {one.id: place_of(one) for one in known}
        self._ends = {one.id: one.resolved_at for one in known if one.resolved_at is not None}
        passed = self._time.advance(t)
        firing = {place_of(one) for one in known if one.state == "firing"}
        lost = {one.place: one for one in self._open_reports() if one.place not in firing}
        before = self._lost_for
        self._lost_for = {p: before[p] + passed if p in before and p not in unjudged else 0.0 for p in lost}
        for place in [place for place, seconds in self._lost_for.items() if seconds >= ORPHAN_WAIT]:
            self._lost_for[place] = 0.0
            end = Notification(0, t, IncidentUpdate(RESOLVED, "", lost[place].build_incident(t)))
            for name in self._event_notifiers():
                if place in self.handover.reports_of(name).by_place:
                    self._tasks[name].extra.append(end)
                    self._tasks[name].wakeup.set()

    def _open_reports(self) -> list[OpenReport]:
        """Returns what was reported as open by any controller: two that saw a fault at once give it the same id.

        Nothing where no other one was heard of: this one ends its own reports itself.
        """
        if not self.handover.is_shared or not self.is_active():
            return []
        reports = [self.handover.reports_of(name) for name in self._event_notifiers()]
        return [report for one in reports if one.known for report in one.by_place.values()]

    def beliefs(self) -> Mapping[str, BelievedOpen]:
        """Returns what receivers believe to be open, by event notifier; without those where that is not certain now.

        It is certain while this controller notifies, has heard of the reports of another one, and has delivered all.
        """
        if not self.handover.is_shared or not self.is_active() or not self._complete:
            return {}
        reports = {name: self.handover.reports_of(name) for name in self._event_notifiers()}
        return {name: one.belief() for name, one in reports.items() if one.known and self._tasks[name].is_done}

    def list_omissions(self) -> str:
        """Returns openings that only this controller saw, while another one leads, as a text for it; '' for none."""
        if self.is_active() or not self.handover.is_shared:
            return ""
        waiting = {name: task.waiting for name, task in self._tasks.items() if task.waiting is not None}
        return format_omissions(
            {name: one for name, one in waiting.items() if self._is_missing(name, one, MISSED_AFTER)}
        )

    def receive_omissions(self, text: str) -> None:
        """Queues openings that another controller saw and this one, which leads, did not report."""
        for name, one in parse_omissions(text).items():
            if name in self._event_notifiers() and self.is_active() and self._is_missing(name, one, 0.0):
                self._tasks[name].extra.append(one)
                self._tasks[name].wakeup.set()

    def _is_missing(self, name: str, notification: Notification, age: float) -> bool:
        """Returns whether an opening or a change is so many seconds old, and certainly reported by no controller."""
        what, _, one = notification.update
        reports = self.handover.reports_of(name)
        if what not in (OPENED, CHANGED) or self._t - notification.t < age:
            return False
        if not reports.known or reports.has_place(one):
            return False
        return self.handover.was_missed(name, notification, self._ends.get(one.id), self._t)

    def _event_notifiers(self) -> list[str]:
        return [name for name, task in self._tasks.items() if is_event_notifier(task.notifier)]

    def dispatch(
        self, t: float, incidents: Collection[Incident], silenced: Mapping[str, str], updated: Collection[str] | None
    ) -> None:
        """Passes the result of a tick to the notifiers without blocking.

        `updated` names the event notifiers that have new notifications; None: they could not be written.
        """
        self._t, self._complete = t, updated is not None
        firing = (one for one in incidents if one.state == "firing" and one.explained_by is None)
        self._reportable = {one.id: place_of(one) for one in firing if one.id not in silenced}
        self._reportable_at = Counter(self._reportable.values())
        updated = updated or ()
        for name, task in self._tasks.items():
            if task.follow(t, incidents, silenced) if is_state_notifier(task.notifier) else name in updated:
                task.wakeup.set()

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of all notifiers."""
        return tuple(self._tasks)

    def statuses(self) -> tuple[NotifierStatus, ...]:
        """Returns the status of each notifier, by name."""
        return tuple(task.status() for _, task in sorted(self._tasks.items()))

    def progress(self, now: float) -> str:
        """Returns the progress of event notifiers as text for a successor; `now` by the clock of the notifications."""
        for task in self._tasks.values():
            if task.idle and not task.wakeup.is_set() and self._complete:
                task.done_until = max(task.done_until, self._t)
        until = {name: task.done_until for name, task in self._tasks.items() if is_event_notifier(task.notifier)}
        return self.handover.format_progress(now, until)

    # --- state notifiers

    async def _run_state_notifier(self, task: NotifierTask, notifier: StateNotifier) -> None:
        while True:
            task.wakeup.clear()
            wait = notifier.period
            if self.is_active() and self._t:
                shown, ended = tuple(task.state.reported.values()), tuple(task.ended)
                task.ended.clear()
                error = await task.attempt(notifier.show(shown, ended, self.clock.now()))
                if error is not None:
                    await self.clock.sleep(task.backoff(error))
                    continue
            else:
                wait = POLL_PERIOD
            await self._wait_for_wakeup(task, wait)

    async def _wait_for_wakeup(self, task: NotifierTask, seconds: float) -> None:
        """Waits for a wake-up or a timeout."""
        await wait_for_first(task.wakeup.wait(), self.clock.sleep(seconds))

    # --- event notifiers

    async def _run_event_notifier(self, task: NotifierTask) -> None:
        while True:
            task.wakeup.clear()
            while task.extra and self.is_active():
                await self._hand_over(task, task.extra.popleft())
            notifications = await self._load_notifications(task)
            for notification in notifications:
                await self._process_notification(task, notification)
                task.last_number, task.done_until = notification.number, max(task.done_until, notification.t)
                self.on_done(task.notifier.name, notification.number)
            if len(notifications) < MAX_NOTIFICATIONS:
                task.idle = True
                await self._wait_for_wakeup(task, MAX_WAIT)
                task.idle = False

    async def _process_notification(self, task: NotifierTask, notification: Notification) -> None:
        """Returns once a notification is delivered, by this controller or by the leader; it is kept until then."""
        name = task.notifier.name
        while not self._is_settled(name, notification):
            if self.is_active():
                if self.handover.consume_mark(name, notification) or await self._hand_over(task, notification):
                    break
            else:
                task.waiting = notification
                await self.clock.sleep(POLL_PERIOD)
        task.waiting = None

    def _is_settled(self, name: str, notification: Notification) -> bool:
        """Returns whether a notification need not be delivered by this controller any more."""
        if not self.handover.is_obsolete(name, notification, self._t, ours=self.is_active()):
            return False
        # The other controller has delivered all that it knows of, which need not be what this one sees or saw.
        reports, one = self.handover.reports_of(name), notification.update.incident
        if not self.handover.is_shared or not reports.known:
            return True
        if notification.update.what in (RESOLVED, WITHDRAWN):
            # This controller reported the opening late, and its end is no older.
            report = reports.by_place.get(place_of(one))
            return report is None or report.id != one.id or not self.is_active()
        if notification.update.what not in (OPENED, CHANGED):
            return True
        is_open = one.id in self._reportable and not reports.has_place(one)
        return not (is_open or self.handover.was_missed(name, notification, self._ends.get(one.id), self._t))

    async def _hand_over(self, task: NotifierTask, notification: Notification) -> bool:
        """Delivers a notification under the id that its receiver knows, with other controllers informed.

        Returns whether it is done: it was delivered, or need not be.
        """
        if not self.handover.is_shared:
            return await self._deliver(task, notification)
        if self._is_reported_by_another(notification):
            return True
        name = task.notifier.name
        if notification.update.what == CHANGED and self._is_missing(name, notification, 0.0):
            # At first it was taken for another incident, which was reported where this one began.
            notification = notification._replace(update=notification.update._replace(what=OPENED))
        reports = self.handover.reports_of(name)
        adapted = reports.adapt(notification, self._own_places)
        if adapted is None:
            return True
        # Before it is delivered: should this controller die meanwhile, its successor repeats it under the same id.
        reports.claim(adapted)
        if adapted.update.what in (OPENED, RESOLVED, WITHDRAWN):
            await self.publish()
        done = await self._deliver(task, adapted._replace(session=self.handover.session))
        if done and adapted.update.what in (OPENED, RESOLVED, WITHDRAWN):
            await self.publish()
        return done

    def _is_reported_by_another(self, notification: Notification) -> bool:
        """Returns whether a notification ends an incident at a place where another one fires: one report is of both."""
        what, _, one = notification.update
        place = place_of(one)
        others = self._reportable_at[place] - (self._reportable.get(one.id) == place)
        return what in (RESOLVED, WITHDRAWN) and others > 0

    async def _load_notifications(self, task: NotifierTask) -> Sequence[Notification]:
        try:
            return await STORE.run(self.load_notifications, task.notifier.name, task.last_number, MAX_NOTIFICATIONS)
        except (InputError, sqlite3.Error) as error:
            if (trouble := str(error)) != task.unread:
                log.warning("the notifications of %s wait: %s", task.notifier.name, trouble)
            task.unread = trouble
            return ()
        except Exception:
            log.exception("the notifications of %s", task.notifier.name)
            return ()

    async def _deliver(self, task: NotifierTask, notification: Notification) -> bool:
        """Retries until delivery or refusal; returns False if this controller stops being active."""
        notifier = task.notifier
        assert is_event_notifier(notifier)
        while self.is_active():
            error = await task.attempt(notifier.send(notification))
            if error is None:
                self.handover.record_delivery(notifier.name, notification)
                return True
            if error.refused:
                task.refused += 1
                return True
            await self.clock.sleep(task.backoff(error))
        return False


def is_state_notifier(notifier: Notifier) -> TypeGuard[StateNotifier]:
    """Returns whether it is a state notifier."""
    return hasattr(notifier, "show")


def is_event_notifier(notifier: Notifier) -> TypeGuard[EventNotifier]:
    """Returns whether it is an event notifier."""
    return hasattr(notifier, "send")
