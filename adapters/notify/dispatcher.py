"""Keeps tellers going: each in a task of its own, with a deadline, and a wait that doubles while it fails.

What waits for a messenger lies in the store, not here: one that hangs for a day costs no memory.
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
"""Seconds before something is tried again."""
MAX_RETRY_AFTER = 600.0
"""Seconds that the other side may make us wait."""
MAX_NOTIFICATIONS = 50
"""Taken out of the store at once."""
POLL_PERIOD = 1.0
"""Seconds between two looks whether anybody is to be told."""

NotificationLoader = Callable[[str, int, int], Sequence[Notification]]
"""The letters of a teller after a number, at most so many; it may take its time, and is called in a thread."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NotifierStatus:
    """How a teller does."""

    name: str
    up: bool
    """Whether the last thing it was given arrived; before the first one too."""
    since: float
    """When that began, seconds since 1970."""
    last: float | None
    """When something arrived last; None for never."""
    told: int
    """How often something arrived."""
    failed: int
    refused: int
    """Letters that the other side would never take, and that were thrown away."""
    trouble: str
    """What was wrong last, without secrets; '' when nothing is."""


@dataclass
class NotifierTask:
    """One teller, and the task that it runs in."""

    notifier: Notifier
    clock: Clock
    task: "asyncio.Task[None] | None" = None
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    state: NotifierState = field(init=False)
    """What a board shows; messengers have theirs where letters are written."""
    last_number: int = 0
    """The number of the last letter that is done."""
    done_until: float = 0.0
    """All letters up to then are done ..."""
    idle: bool = False
    """... and all there are, while it waits for news."""
    up: bool = True
    since: float = 0.0
    last: float | None = None
    delivered_count: int = 0
    failed: int = 0
    refused: int = 0
    failures: int = 0
    """In a row."""
    trouble: str = ""

    def __post_init__(self) -> None:
        self.state = NotifierState(self.notifier.scope)
        self.since = self.clock.now()

    async def attempt(self, doing: "asyncio.Future[None] | asyncio.Task[None]") -> DeliveryError | None:
        """Waits for a call of the teller; what went wrong, None for nothing."""
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
        """Seconds until it is tried again."""
        return max(min(MIN_WAIT * 2.0 ** min(self.failures - 1, 10), MAX_WAIT), min(error.after, MAX_RETRY_AFTER))

    def status(self) -> NotifierStatus:
        """How it does."""
        return NotifierStatus(
            *(self.notifier.name, self.up, self.since, self.last),
            *(self.delivered_count, self.failed, self.refused, self.trouble),
        )


@dataclass
class Dispatcher:
    """All tellers of a controller."""

    clock: Clock
    load_notifications: NotificationLoader
    on_done: Callable[[str, int], None]
    """Told that a teller needs its letters up to a number no more."""
    is_active: Callable[[], bool] = lambda: True
    """Whether anybody is told, asked before each thing that is: of two controllers only one tells."""
    handover: Handover = field(default_factory=Handover)
    _tasks: dict[str, NotifierTask] = field(default_factory=dict)
    _t: float = 0.0
    _complete: bool = True
    """Whether all letters of that tick are where they can be found."""

    def start(self, teller: Notifier) -> None:
        """Starts a teller that has a name of its own."""
        if teller.name in self._tasks:
            raise ValueError(f"two tellers called {teller.name!r}")
        kept = self._tasks[teller.name] = NotifierTask(teller, self.clock)
        doing = self._run_state_notifier(kept, teller) if is_state_notifier(teller) else self._run_event_notifier(kept)
        kept.task = asyncio.create_task(doing, name=f"teller {teller.name}")

    async def stop(self, name: str) -> None:
        """Ends a teller."""
        task = self._tasks.pop(name).task
        if task is not None:
            await cancel_and_wait(task)

    async def close(self) -> None:
        """Ends all of them."""
        await asyncio.gather(*(self.stop(name) for name in list(self._tasks)))

    def dispatch(
        self, t: float, incidents: Iterable[Incident], silenced: Mapping[str, str], mail: Collection[str] | None
    ) -> None:
        """What a tick found out, and who has new letters, None where they could not be written; waits for nobody."""
        self._t, self._complete = t, mail is not None
        mail = mail or ()
        for name, kept in self._tasks.items():
            if kept.state.update(t, incidents, silenced) if is_state_notifier(kept.notifier) else name in mail:
                kept.wakeup.set()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all tellers."""
        return tuple(self._tasks)

    def statuses(self) -> tuple[NotifierStatus, ...]:
        """How each of them does, by name."""
        return tuple(kept.status() for _, kept in sorted(self._tasks.items()))

    def progress(self, now: float) -> str:
        """How far messengers are, for whoever takes over; `now` by the clock that letters have their times from."""
        for kept in self._tasks.values():
            if kept.idle and not kept.wakeup.is_set() and self._complete:
                kept.done_until = max(kept.done_until, self._t)
        until = {name: kept.done_until for name, kept in self._tasks.items() if is_event_notifier(kept.notifier)}
        return self.handover.format_progress(now, until)

    # --- boards

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
        """Waits for news, or for so many seconds."""
        waits = {
            asyncio.ensure_future(kept.wakeup.wait()),
            asyncio.ensure_future(self.clock.sleep(seconds)),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    # --- messengers

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
        """Comes back when a letter is told, by us or by who leads; until then it is kept."""
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
            log.exception("the letters of %s", kept.notifier.name)
            return ()

    async def _deliver(self, kept: NotifierTask, letter: Notification) -> bool:
        """Tries until it has arrived, or would never be taken; not so where it is another's turn before that."""
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
    """Whether it shows what stands."""
    return hasattr(teller, "show")


def is_event_notifier(teller: Notifier) -> TypeGuard[EventNotifier]:
    """Whether it passes on what happens."""
    return hasattr(teller, "send")
