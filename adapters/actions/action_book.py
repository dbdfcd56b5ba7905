"""The actions of one controller, and the only way to change them: check, store, take over, one at a time for each.

Storing takes time, in which a person may decide otherwise. So each action has a lock around the check, the write and
the take-over: of two that want to change it at the same time the second sees what the first has made of it.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from skewscope.adapters.actions.action_counts import ActionCounts
from skewscope.engine.actions.action import APPLYING, APPROVED, PROPOSED, Action
from skewscope.engine.actions.freeze import Freeze

STARTING = (PROPOSED, APPROVED, APPLYING)
"""States that may lead to a new change: without a store none of them is entered. What ends or takes back goes on."""

log = logging.getLogger(__name__)


class ActionStoreError(Exception):
    """An action could not be stored."""


class ActionRequestError(Exception):
    """A person asked for what an action cannot do now."""


class ActionStore(Protocol):
    """Where actions are kept."""

    async def save(self, action: Action, t: float, who: str, what: str) -> None:
        """Stores an action durably, with a line of the audit log.

        Raises:
            ActionStoreError: it could not be written.
        """
        ...

    async def save_freeze(self, freeze: Freeze | None, t: float, who: str, what: str) -> None:
        """Stores a freeze durably, or that there is none, with a line of the audit log.

        Raises:
            ActionStoreError: it could not be written.
        """
        ...


@dataclass(frozen=True, slots=True)
class AuditNote:
    """When an action was changed, by whom, and what was done."""

    t: float
    who: str
    what: str


@dataclass
class ActionBook:
    """Actions by id."""

    store: ActionStore
    actions: dict[str, Action] = field(default_factory=dict)
    unsaved: set[str] = field(default_factory=set)
    """Actions that went on without the store: they are written as soon as it can be."""
    freeze: Freeze | None = None
    """The last freeze, until it is thawed; its time may be over."""
    counts: ActionCounts = field(default_factory=ActionCounts)
    _trouble: str = ""
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    def find_freeze(self, t: float) -> Freeze | None:
        """Returns the freeze that holds at a time; None for none."""
        return self.freeze if self.freeze is not None and self.freeze.covers(t) else None

    async def settle(self, before: Action | None, after: Action, note: AuditNote) -> bool:
        """Stores and takes over a new state; returns whether it was taken over.

        It is not where the action has changed since `before`, nor where a state of STARTING could not be stored.

        Args:
            before: the action from which `after` was made; None for a new one.
            after: the action in its new state.
            note: for the audit log.
        """
        async with self._lock(after.id):
            if self.actions.get(after.id) is not before:
                return False
            try:
                await self._save(after, note)
            except ActionStoreError:
                if after.state in STARTING:
                    return False
                self.unsaved.add(after.id)
            self.actions[after.id] = after
            self.counts.record(before, after)
            return True

    async def _save(self, action: Action, note: AuditNote) -> None:
        """Stores an action.

        Raises:
            ActionStoreError: it could not be written; the trouble is logged once.
        """
        try:
            await self.store.save(action, note.t, note.who, note.what)
        except ActionStoreError as error:
            if str(error) != self._trouble:
                log.error("%s: %s", action.id, error)  # noqa: TRY400 - the text says all
            self._trouble = str(error)
            raise
        except asyncio.CancelledError:
            # It may be written all the same.
            if action.state not in STARTING:
                self.actions[action.id] = action
            raise
        self._trouble = ""
        self.unsaved.discard(action.id)

    def replace(self, before: Action, after: Action) -> None:
        """Takes over what need not be stored, in the same state, unless the action has changed since `before`."""
        assert before.state == after.state
        if self.actions.get(before.id) is before:
            self.actions[before.id] = after

    async def decide(self, id_: str, note: AuditNote, choose: Callable[[Action], Action]) -> Action:
        """Stores and returns what a person has decided about an action as it is now.

        Args:
            id_: the action.
            note: for the audit log.
            choose: returns the new state from the present one, or raises ActionRequestError.

        Raises:
            ActionRequestError: there is no such action, `choose` refuses, or the decision could not be stored.
        """
        async with self._lock(id_):
            if id_ not in self.actions:
                raise ActionRequestError(f"no action {id_[:40]!r}")
            decided = choose(self.actions[id_])
            try:
                await self._save(decided, note)
            except ActionStoreError as error:
                raise ActionRequestError(f"it could not be stored: {error}") from None
            self.counts.record(self.actions[id_], decided)
            self.actions[id_] = decided
            return decided

    def shift(self, seconds: float) -> None:
        """Moves the times of all actions by what the clock was set; those that go on are stored again."""
        self.actions.update({id_: one.shift(seconds) for id_, one in self.actions.items()})
        self.unsaved.update(id_ for id_, one in self.actions.items() if one.is_live)
        if self.freeze is not None:
            self.freeze = self.freeze.shift(seconds)

    def forget(self, ids: list[str]) -> None:
        """Drops actions that count for nothing any more."""
        for id_ in ids:
            del self.actions[id_]
            self._locks.pop(id_, None)
            self.unsaved.discard(id_)

    def _lock(self, id_: str) -> asyncio.Lock:
        return self._locks.setdefault(id_, asyncio.Lock())
