"""Actions over a change of leadership: what one controller has begun, the next leader finishes or takes back.

The actions are files beside the lock file of leader election, written before each call. A controller that gains the
lead acts only after it has read them; one that follows shows them.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar

from skewscope.adapters.actions.action_book import ActionStoreError
from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.shared_ledger import SharedLedger
from skewscope.adapters.runtime.runtime import Snapshot
from skewscope.adapters.runtime.tasks import failures, start_job
from skewscope.engine.actions.action import EXPIRED, OVERRIDDEN, Action
from skewscope.engine.actions.freeze import Freeze
from skewscope.engine.model.incident import Incident

NO_TERM = -1
"""Before the first leadership."""
FOLLOW_SECONDS, PRUNE_SECONDS = 10.0, 600.0
"""Seconds between two readings by a controller that follows, and between two removals of old files."""
NAME = "shared actions"
"""Of its thread and its task."""
LEFT_TO_OTHER = "another controller went on with it"
OPENED_MARGIN = 10.0
"""Seconds by which two controllers may see the opening of the same incident apart."""

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)


class ClosedError(OSError):
    """The controller shuts down: its shared folder is not read or written any more."""


@dataclass(frozen=True)
class SharedActions:
    """The shared folder, behind a thread of its own: storage that hangs delays actions, and nothing else."""

    ledger: SharedLedger
    may_write: Callable[[], bool]
    """Whether this controller leads."""
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, NAME))
    _closed: threading.Event = field(default_factory=threading.Event)

    async def save(self, action: Action) -> None:
        """Writes an action durably.

        Raises:
            ActionStoreError: it could not be written, or another controller leads.
        """
        await self._write(lambda: self.ledger.save(action))

    async def save_freeze(self, freeze: Freeze | None) -> None:
        """Writes a freeze durably, or that there is none.

        Raises:
            ActionStoreError: it could not be written, or another controller leads.
        """
        await self._write(lambda: self.ledger.save_freeze(freeze))

    async def _write(self, do: Callable[[], None]) -> None:
        def write() -> None:
            # Checked in the thread, as late as possible: storage may have hung.
            if not self.may_write():
                raise ActionStoreError("another controller leads")
            do()

        try:
            await self._run(write)
        except OSError as error:
            raise ActionStoreError(f"{self.ledger.folder}: {error}") from None

    async def load_freeze(self) -> Freeze | None:
        """Returns the freeze of the leaders before; None for none.

        Raises:
            OSError: it cannot be read.
        """
        return await self._run(self.ledger.load_freeze)

    async def claim(self) -> bool:
        """Claims the folder: a leader before this one cannot write any more. Returns whether there was one.

        Raises:
            OSError: the folder cannot be written.
        """
        return await self._run(self.ledger.claim)

    async def load(self) -> dict[str, Action] | None:
        """Returns all actions by id; None where no leader has ever written.

        Raises:
            OSError: they cannot be read.
        """
        return await self._run(self.ledger.load)

    async def prune(self, since: float, incidents: Collection[str]) -> None:
        """Deletes actions that ended before a time and whose incident is over.

        Raises:
            OSError: the folder cannot be read or written.
        """
        await self._run(self.ledger.prune, since, incidents)

    async def _run(self, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closed.is_set():
            raise ClosedError("it is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: do(*args, **kwargs))

    def close(self) -> None:
        """Ends the thread after what it does."""
        self._closed.set()
        self._thread.shutdown(wait=False)


@dataclass
class ActionFailover:
    """Keeps a coordinator in step with the shared folder."""

    shared: SharedActions
    coordinator: Coordinator
    term: int = NO_TERM
    """The leadership whose actions the coordinator has."""
    own: dict[str, Action] = field(default_factory=dict)
    """The actions in the store of this controller when it started."""
    _task: "asyncio.Task[None] | None" = None
    _follow_at: float = 0.0
    _prune_at: float = 0.0
    _trouble: str = ""

    def take_over(self, before: "ActionFailover") -> None:
        """Goes on for another coordinator, whose config was changed."""
        self.term, self.own = before.term, before.own

    def is_ready(self, term: int | None, snapshot: Snapshot) -> bool:
        """Returns whether this controller leads and has the actions of the leaders before; works towards it if not.

        Args:
            term: number of the present leadership of this controller; None while another one leads.
            snapshot: of the tick.
        """
        t = snapshot.time
        if term is not None and term != self.term:
            self._start(self._take_lead(term, snapshot))
        elif term is None and t >= self._follow_at and self._start(self._follow(t)):
            self._follow_at = t + FOLLOW_SECONDS
        elif term is not None and t >= self._prune_at and self._start(self._prune(snapshot)):
            self._prune_at = t + PRUNE_SECONDS
        return term is not None and term == self.term

    def _start(self, doing: Coroutine[Any, Any, None]) -> bool:
        """Starts something unless something else is under way; returns whether it was started."""
        if self._task is not None and not self._task.done():
            doing.close()
            return False
        self._task = start_job(NAME, self._attempt(doing))
        return True

    async def _attempt(self, doing: Coroutine[Any, Any, None]) -> None:
        trouble = ""
        try:
            await doing
        except ClosedError:
            return
        except OSError as error:
            trouble = f"{self.shared.ledger.folder}: {error}"
        except Exception as error:
            trouble = f"{self.shared.ledger.folder}: unexpected {type(error).__name__}: {error}"
            failures[NAME] += 1
            if trouble != self._trouble:
                log.exception(NAME)
        if trouble and trouble != self._trouble:
            log.error("%s; nothing is acted upon meanwhile", trouble)
        self._trouble = trouble

    async def _follow(self, t: float) -> None:
        found = await self.shared.load()
        freeze = await self.shared.load_freeze()
        if found is not None and not self.shared.may_write():
            self.coordinator.replace_all(found.values(), t)
            self.coordinator.book.freeze = freeze

    async def _prune(self, snapshot: Snapshot) -> None:
        since = snapshot.time - self.coordinator.settings.limits.memory
        await self.shared.prune(since, {one.id for one in snapshot.incidents})

    async def _take_lead(self, term: int, snapshot: Snapshot) -> None:
        """Takes over the actions of the leaders before, under the ids of this controller's incidents."""
        found, t = (await self.shared.load() if await self.shared.claim() else None), snapshot.time
        if found is not None:
            self.coordinator.book.freeze = await self.shared.load_freeze()
        merged = merge_actions(found, self.own, t - self.coordinator.settings.limits.memory)
        actions = [match_incident(one, snapshot.incidents) for one in merged]
        for one in actions:
            if one.is_live or one.id not in (found or {}):
                await self._save(one, t, f"action taken over: {one.title}")
        kept = {one.id for one in actions}
        for one in [one for one in self.own.values() if one.is_live and one.id not in kept]:
            ended = one.move(t, OVERRIDDEN if one.is_in_place else EXPIRED, LEFT_TO_OTHER, ending=LEFT_TO_OTHER)
            await self._save(ended, t, f"action {ended.state}: {LEFT_TO_OTHER}")
        self.coordinator.replace_all(actions, t)
        self.term, self.own = term, {}

    async def _save(self, action: Action, t: float, what: str) -> None:
        try:
            await self.coordinator.book.store.save(action, t, "controller", what)
        except ActionStoreError as error:
            # What is in place has to be taken back in any case.
            log.error("%s: %s", action.id, error)  # noqa: TRY400 - the text says all


def merge_actions(shared: Mapping[str, Action] | None, own: Mapping[str, Action], since: float) -> list[Action]:
    """Returns the actions that a new leader has.

    Args:
        shared: those in the shared folder; None where no leader has ever written: then all of its own are.
        own: those in its own store.
        since: what began before this time, is not shared and seems to be live was ended by another leader long ago.
    """
    if shared is None:
        return list(own.values())
    places = {(one.change.target, one.change.member) for one in shared.values() if one.is_in_place}
    missed = [
        one
        for one in own.values()
        if one.id not in shared
        and one.is_in_place
        and (one.started_at or 0.0) >= since
        and (one.change.target, one.change.member) not in places
    ]
    return [*shared.values(), *missed]


def match_incident(action: Action, incidents: Iterable[Incident]) -> Action:
    """Returns an action with the id that this controller gave to its incident: controllers number them differently.

    An ended action belongs to the present incident of its place if it was made since that has opened.
    """
    reason = action.reason
    place = reason.condition, reason.kind, reason.name
    for one in incidents:
        if one.state == "firing" and (one.condition, one.kind, one.name) == place:
            if action.is_live or one.opened_at - OPENED_MARGIN <= action.created:
                return replace(action, reason=replace(reason, incident=one.id))
            return action
    return action
