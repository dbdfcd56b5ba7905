"""A thread that works for many senders, one job after another: whoever has had least of it lately comes first.

What senders send must not be read on the event loop, where a second of work for one would be a second without answers
for all. What waits is bounded for each sender and for all. A sender with much work waits behind those with little, and
no sender waits for more than the job that has begun and the jobs of those that have had as little as itself. What the
next job is expected to take counts as had: of those not heard before, the one with a small job comes first. A long job
gives way to small ones of others, and rests for as long as it has worked: what fills a processor would delay the event
loop too. Senders with much work also wait while something more important runs: threads of Python take turns, so it
would take longer.
"""

import asyncio
import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.controller.work_allowance import WorkAllowance
from skewscope.adapters.runtime.tasks import start_thread

MAX_JOBS = 20_000
"""Jobs that may wait."""
MAX_JOBS_OF_ONE = 64
"""Jobs that may wait for one sender: an agent waits for an answer before it sends again."""
FORGIVEN_RATE = 0.05
"""Seconds of work that a sender is forgiven each second; an agent needs a thousandth."""

SMALL_S = 0.005
"""Seconds of work up to which a sender does not wait for the end of a long job."""
UNBROKEN_S = 0.004
"""Seconds of a job after which it is to give way: one with what an agent sends takes less."""
LEAST_REST_S, MOST_REST_S = 0.001, 0.02
"""Bounds on the seconds for which a long job rests."""

LIGHT_S = 0.05
"""Seconds of work up to which a sender does not wait for what is more important."""
MAX_YIELD_S = 1.0
"""Seconds for which those with more wait at most, before they begin and once more in all their rests, ..."""
YIELD_STEP_S = 0.02
"""... looking again so often."""

Result = Any
Done = Callable[[Result], None]
"""Called on the event loop with what a job returned, or with the exception that it raised."""

log = logging.getLogger(__name__)


class WorkerFullError(Exception):
    """Too many jobs wait."""

    def __init__(self) -> None:
        super().__init__("too many bodies wait; send it again in a moment")


@dataclass(slots=True)
class _Job:
    work: Callable[[], Result]
    done: Done
    seconds: float


@dataclass(slots=True)
class _Sender:
    """The jobs of one sender; forgotten when none waits and its work is forgiven."""

    jobs: deque[_Job] = field(default_factory=deque)
    worked: WorkAllowance = field(default_factory=lambda: WorkAllowance(FORGIVEN_RATE, 0.0))


class FairWorker:
    """Runs jobs in a thread, which starts with the first one."""

    def __init__(
        self,
        name: str,
        timer: Callable[[], float] = time.monotonic,
        is_yielding: Callable[[], bool] = lambda: False,
    ) -> None:
        """Constructs it; while `is_yielding`, senders with much work wait."""
        self._name, self._timer, self._is_yielding = name, timer, is_yielding
        self._senders: dict[Hashable, _Sender] = {}
        self._order: list[tuple[float, int, Hashable]] = []
        """A heap of the senders with waiting jobs: seconds of work with that of the next job, number, sender."""
        self._numbers = itertools.count()
        self._waiting = 0
        self._finished: deque[tuple[Done, Result]] = deque()
        self._given = 0.0
        """Seconds that long jobs have given to others so far."""
        self._resumed = 0.0
        """When the job that runs began, or continued after it had given way."""
        self._yielded = 0.0
        """Seconds for which it has rested longer than for others, for what is more important."""
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def submit(self, sender: Hashable, work: Callable[[], Result], done: Done, seconds: float = 0.0) -> None:
        """Queues a job; call it on the event loop.

        Args:
            sender: whose job it is.
            work: the job.
            done: is called with what it returned.
            seconds: how long it is expected to take, as far as that is known.

        Raises:
            WorkerFullError: too many jobs wait.
        """
        with self._condition:
            known = self._senders.setdefault(sender, _Sender())
            if self._closed or self._waiting >= MAX_JOBS or len(known.jobs) >= MAX_JOBS_OF_ONE:
                raise WorkerFullError
            known.jobs.append(_Job(work, done, seconds))
            self._waiting += 1
            if len(known.jobs) == 1:
                self._enqueue(sender, known)
            self._condition.notify()
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = start_thread(self._name, self._run)

    def close(self) -> None:
        """Ends the thread after the job that has begun; jobs that wait are not run."""
        with self._condition:
            self._closed = True
            self._condition.notify()

    def _enqueue(self, sender: Hashable, known: _Sender) -> None:
        seconds = known.worked.level(self._timer()) + known.jobs[0].seconds
        heapq.heappush(self._order, (seconds, next(self._numbers), sender))

    def is_way_due(self) -> bool:
        """Returns whether the job that runs has worked for long since it began or gave way."""
        return self._timer() - self._resumed >= UNBROKEN_S

    def give_way(self) -> None:
        """Runs the small jobs of others that wait or come while it rests; a long job calls it now and then.

        A job that is run by it must not.
        """
        begun, since, yielded = self._timer(), time.monotonic(), self._yielded
        rest = min(max(begun - self._resumed, LEAST_REST_S), MOST_REST_S)
        while self._rests(time.monotonic() - since, rest, rest + MAX_YIELD_S - yielded):
            while (sender := self._pop_small()) is not None:
                self._run_next(sender)
        self._yielded = yielded + max(time.monotonic() - since - rest, 0.0)
        self._resumed = self._timer()
        self._given += self._resumed - begun

    def _rests(self, rested: float, rest: float, most: float) -> bool:
        """Returns whether a rest of `rest` seconds lasts, `most` while it yields; waits for a small job before."""
        with self._condition:
            if self._closed or (rested >= rest and not (rested < most and self._is_yielding())):
                return False
            if not self._order or self._order[0][0] > SMALL_S:
                self._condition.wait(rest - rested if rested < rest else YIELD_STEP_S)
            return True

    def _run(self) -> None:
        while True:
            with self._condition:
                self._wait_for_turn()
                if self._closed:
                    return
                sender = heapq.heappop(self._order)[2]
            self._run_next(sender)

    def _run_next(self, sender: Hashable) -> None:
        """Runs the next job of a sender, which is no longer in the order."""
        with self._condition:
            job = self._senders[sender].jobs[0]
        begun, given = self._timer(), self._given
        self._resumed, self._yielded = begun, 0.0
        result = self._finish(job)
        with self._condition:
            self._leave(sender, self._timer() - begun - (self._given - given))
        self._deliver(job.done, result)
        # The traceback of an error leads back to this frame, and to those of the long job that gave way to this one:
        # otherwise they would keep its whole body until a search for garbage.
        del result

    def _pop_small(self) -> Hashable | None:
        with self._condition:
            if self._closed or not self._order or self._order[0][0] > SMALL_S:
                return None
            return heapq.heappop(self._order)[2]

    def _wait_for_turn(self) -> None:
        """Waits for a job that may begin now."""
        self._condition.wait_for(lambda: self._closed or self._order)
        end = self._timer() + MAX_YIELD_S
        while not self._closed and self._order[0][0] > LIGHT_S and self._is_yielding() and self._timer() < end:
            self._condition.wait(YIELD_STEP_S)

    def _finish(self, job: _Job) -> Result:
        try:
            return job.work()
        except Exception as error:  # noqa: BLE001 - the caller decides what it means
            return error

    def _leave(self, sender: Hashable, seconds: float) -> None:
        """Counts a job as done."""
        known = self._senders[sender]
        known.jobs.popleft()
        known.worked.use(seconds)
        self._waiting -= 1
        if known.jobs:
            self._enqueue(sender, known)
        elif known.worked.used < FORGIVEN_RATE:
            # Nobody is remembered who needs no more than what is forgiven in a second.
            del self._senders[sender]
        elif len(self._senders) > MAX_JOBS:
            self._forget_idle()

    def _forget_idle(self) -> None:
        now = self._timer()
        idle = [each for each, known in self._senders.items() if not known.jobs and not known.worked.level(now)]
        for each in idle:
            del self._senders[each]

    def _deliver(self, done: Done, result: Result) -> None:
        """Passes a result to the event loop, which is woken once for all that are finished meanwhile."""
        self._finished.append((done, result))
        if len(self._finished) == 1 and self._loop is not None:
            with suppress(RuntimeError):  # The loop is closed: nobody waits for it any more.
                self._loop.call_soon_threadsafe(self._call_back)

    def _call_back(self) -> None:
        while self._finished:
            done, result = self._finished[0]
            try:
                done(result)
            except Exception:
                log.exception("error while answering")
            self._finished.popleft()
