"""Work for requests in threads of its own: done once for all who ask for the same, and only for who still waits.

What grows with the fleet must not be done for each request: a thousand agents that start together would ask for a
thousand copies, give up after their timeout, and ask again.
"""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from starlette.requests import ClientDisconnect

from skewscope.adapters.runtime.tasks import start_job

T = TypeVar("T")

MAX_PENDING = 64
"""Maximum number of different pieces of work that wait or are under way."""


class WorkRefusedError(Exception):
    """Too much work is waiting; the client should ask again later."""


class Client(Protocol):
    """Who waits for the result of some work."""

    async def is_disconnected(self) -> bool:
        """Returns whether it has gone."""
        ...


@dataclass
class _Job(Generic[T]):
    work: Callable[[], T]
    clients: list[Client] = field(default_factory=list)
    task: "asyncio.Task[T]" = field(init=False)


class SharedWork:
    """Does work in threads of its own."""

    def __init__(self, name: str, threads: int = 1) -> None:
        self._executor = ThreadPoolExecutor(threads, name)
        self._turns = asyncio.Semaphore(threads)
        self._jobs: dict[Hashable, _Job[Any]] = {}

    async def run(self, key: Hashable, work: Callable[[], T], client: Client) -> T:
        """Returns the result of some work; clients with an equal key share it.

        Raises:
            WorkRefusedError: too much other work is waiting.
            ClientDisconnect: every client has gone before the work began.
        """
        job = self._jobs.get(key)
        if job is None:
            if len(self._jobs) >= MAX_PENDING:
                raise WorkRefusedError("too many requests at present; ask again in a second")
            job = self._jobs[key] = _Job(work)
            job.task = start_job("shared work", self._finish(key, job), is_awaited=True)
        job.clients.append(client)
        return await asyncio.shield(job.task)

    async def _finish(self, key: Hashable, job: "_Job[T]") -> T:
        try:
            async with self._turns:
                if not await _is_awaited(job.clients):
                    raise ClientDisconnect
                return await asyncio.get_running_loop().run_in_executor(self._executor, job.work)
        finally:
            del self._jobs[key]


async def _is_awaited(clients: list[Client]) -> bool:
    """Returns whether one of the clients still waits; others may join meanwhile."""
    for client in clients:
        if not await client.is_disconnected():
            return True
    return False


class KeptAnswers:
    """Results of work on something immutable, such as a topology or a tick, kept until there is another one."""

    def __init__(self, work: SharedWork, most: int) -> None:
        self._work = work
        self._most = most
        self._basis: object = None
        self._kept: dict[Hashable, object] = {}

    async def get(self, basis: object, key: Hashable, work: Callable[[], T], client: Client) -> T:
        """Returns the result of some work on `basis`, for which it is done once.

        Raises:
            WorkRefusedError, ClientDisconnect: as for `SharedWork.run`.
        """
        if basis is not self._basis:
            self._basis, self._kept = basis, {}
        if key in self._kept:
            answer = self._kept.pop(key)
        else:
            answer = await self._work.run((id(basis), key), work, client)
        if basis is self._basis:
            # The last one is the one that was asked for last.
            self._kept[key] = answer
            if len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
        return cast("T", answer)
