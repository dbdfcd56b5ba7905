"""Limits the bytes of bodies in progress: those that arrive, and those that wait to be read."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from skewscope.adapters.sources.common.push_receiver import PushQueueFullError

MAX_BYTES_OF_ONE = 8 << 20
"""Bytes of bodies in progress of one node: two of the largest."""


@dataclass
class BodyBudget:
    """The bytes of all bodies in progress."""

    limit: int
    used: int = 0
    used_by: Counter[Hashable] = field(default_factory=Counter)
    """Of each node; senders for all nodes are not told apart."""

    def reserve(self, node: str | None) -> "BodyReservation":
        """Returns a reservation of no bytes yet for a body of a node's sender; None: of one for all nodes."""
        return BodyReservation(self, node)


@dataclass(slots=True)
class BodyReservation:
    """The bytes of one body; all are given back at the end."""

    budget: BodyBudget
    node: str | None
    size: int = 0

    def add(self, size: int) -> None:
        """Reserves more bytes.

        Raises:
            PushQueueFullError: a limit is reached.
        """
        budget = self.budget
        if budget.used + size > budget.limit:
            raise PushQueueFullError("too many bodies at once")
        if self.node is not None and budget.used_by[self.node] + size > MAX_BYTES_OF_ONE:
            raise PushQueueFullError(f"too many bodies of {self.node!r} at once")
        self.size += size
        budget.used += size
        budget.used_by[self.node] += size

    def release(self) -> None:
        """Gives all of it back; nothing the second time."""
        self.budget.used -= self.size
        self.budget.used_by[self.node] -= self.size
        if not self.budget.used_by[self.node]:
            del self.budget.used_by[self.node]
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        self.release()
