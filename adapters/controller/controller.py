"""The controller: on each whole second it takes what sources handed over and has it judged in a thread of its own.

The clock is read here and by sources, nowhere else. A tick that takes longer than a second is not followed by a queue:
the next one takes all that came meanwhile, and the seconds passed over are counted.
"""

import asyncio
import gc
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from skewscope.adapters import telling
from skewscope.adapters.clock import Clock, SystemClock
from skewscope.adapters.controller.agents import NAME, Pushed, Receiver
from skewscope.adapters.controller.carried import Carried
from skewscope.adapters.controller.config import Config, Wanted
from skewscope.adapters.controller.gathering import Gathering
from skewscope.adapters.controller.leader import RENEW, Leader
from skewscope.adapters.controller.onlookers import Onlookers
from skewscope.adapters.controller.recorder import Recorder
from skewscope.adapters.controller.silences import Silence
from skewscope.adapters.controller.store import Reader, Store
from skewscope.adapters.controller.succession import Succession
from skewscope.adapters.controller.work import Known, Work
from skewscope.adapters.machine import assembled
from skewscope.adapters.names import Names
from skewscope.adapters.sources import World, kinds
from skewscope.adapters.sources.base import Batch
from skewscope.adapters.sources.supervisor import Standing, Supervisor
from skewscope.adapters.telling.base import Scope
from skewscope.adapters.telling.office import Office, is_messenger
from skewscope.adapters.telling.outbox import Outbox
from skewscope.engine.diagnosis import TICK
from skewscope.kb.load import catalogue
from skewscope.kb.model import Catalogue

SET_BACK = 5.0
"""Seconds by which a clock may be set back and simply be waited for."""
CALL = 60
"""Ticks between two times that is written which agents there are."""
STILL = 10
"""Ticks without a new series after which all that is there is taken out of the collector's rounds."""

P = ParamSpec("P")
T = TypeVar("T")
Subscriber = Callable[[Known], None]
"""Told what each tick found out; it must not wait."""

log = logging.getLogger(__name__)


@dataclass
class Pace:
    """How the ticks go."""

    ticks: int = 0
    skipped: int = 0
    """Seconds that were passed over because a tick took longer."""
    took: float = 0.0
    """Seconds that the last tick took, by the clock."""


@dataclass
class Controller:
    """Everything that runs behind the API."""

    config: Config
    clock: Clock = field(default_factory=SystemClock)
    known: Known | None = None
    """What the last tick found out; None before the first."""
    subscribers: list[Subscriber] = field(default_factory=list)
    pace: Pace = field(default_factory=Pace)
    catalogue: Catalogue = field(default_factory=catalogue)
    _done: deque[tuple[str, int]] = field(default_factory=deque)
    """Tellers, and the numbers up to which their letters have arrived."""
    _left: dict[str, list[Batch]] = field(default_factory=dict)
    """Handed over by sources that have ended."""
    _resting: tuple[int, int] = (0, 0)
    """Series at the last tick, and for how many ticks there were no others."""

    _called: int = 0
    """Agents when it was written last which there are."""

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(self.clock)
        self.receiver = Receiver(self.config.topology, self.clock)
        self.office = Office(self.clock, Reader(self.config.store).letters, self._arrived)
        self.leader = Leader(self.config.leader, Succession(self.office, self.clock, self._judged, self._note_lead))
        self.office.active = lambda: self.leads
        if self.config.leader:
            self.office.handover.margin += 2 * RENEW * self.config.leader.lease
        self.subscribers.append(self._tell)
        self.onlookers = Onlookers()
        self._pool = ThreadPoolExecutor(1, "engine")
        self._stack = ExitStack()
        self._work: Work | None = None
        self._t = -math.inf

    # --- life

    async def start(self) -> None:
        """Opens store and engine, and starts the sources.

        Raises:
            InputError: the store is none, or the rules are wrong.
        """
        self._work = await self._in_thread(self._made)
        self._want()
        self.receiver.expect(await self._in_thread(self._working.agents))
        self.supervisor.start(Pushed(self.receiver, self.clock))
        for wanted in self.config.sources:
            self._start(wanted)
        await self._post_anew()
        await self._in_thread(self._note, "started")
        self.leader.start()

    async def run(self, stop: asyncio.Event) -> None:
        """Ticks until it is told to stop; what was handed over until then is judged."""
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stopped.done():
                await self.tick(stopped)
        finally:
            stopped.cancel()
            await self._close()

    async def tick(self, stopped: "asyncio.Task[bool] | None" = None) -> None:
        """Waits for the end of the next whole second, and judges it; earlier when it is to stop."""
        begun = self.clock.now()
        if self._t - begun > SET_BACK:
            await self._set_back(self._t - begun)
            begun = self.clock.now()
        end = max((math.floor((begun - self.config.grace) / TICK) + 1) * TICK, self._t + TICK)
        waiting = asyncio.ensure_future(self.clock.sleep(end + self.config.grace - begun))
        await asyncio.wait({waiting, *([stopped] if stopped else [])}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if math.isfinite(self._t):
            self.pace.skipped += max(round((end - self._t) / TICK) - 1, 0)
        self._t = end
        await self._judge(end)

    async def _set_back(self, seconds: float) -> None:
        """Begins anew in the time that is now: the engine's never runs backwards, and waiting would be blindness."""
        log.warning("the clock was set back by %.0f s: windows fill again", seconds)
        self._t = -math.inf
        for wanted in self.config.sources:
            await self.supervisor.stop(wanted.name)
            self._start(wanted)
        await self._in_thread(self._anew)
        self._want()
        await self._in_thread(self._note, f"the clock was set back by {seconds:.0f} s")

    async def _judge(self, t: float) -> None:
        begun = self.clock.now()
        self.supervisor.look()
        handed = self.supervisor.take()
        for name, batches in self._left.items():
            handed[name] = batches + handed.get(name, [])
        self._left = {}
        # Which work it is, is asked in its thread: a reload may just be making another.
        self.known = await self._in_thread(lambda: self._working.step(t, handed))
        if self.pace.ticks % CALL == 0 or len(self.receiver.agents) != self._called:
            self._called = len(self.receiver.agents)
            heard = self.receiver.heard()
            await self._in_thread(lambda: self._working.remember(heard, t))
        self.pace.ticks += 1
        self.pace.took = self.clock.now() - begun
        self._rest(self.known.series)
        for tell in tuple(self.subscribers):
            try:
                tell(self.known)
            except Exception:
                log.exception("a subscriber failed")

    def _rest(self, series: int) -> None:
        """Millions of names live as long as the process; looking through them for garbage would take seconds."""
        before, still = self._resting
        self._resting = (series, still + 1) if series == before else (series, 0)
        if self._resting[1] == STILL:
            gc.collect()
            gc.freeze()

    async def _close(self) -> None:
        await self.office.close()
        await self.leader.close()
        for name, batches in (await self.supervisor.close()).items():
            self._left.setdefault(name, []).extend(batches)
        if self._work is not None:
            await self._in_thread(self._finish)
        self._pool.shutdown()

    def _finish(self) -> None:
        assert self._work is not None
        now = self.clock.now()
        self._work.step(max(self._t + TICK, math.ceil(now)), self._left)
        self._work.remember(self.receiver.heard(), now)
        self._work.close(now)
        self._stack.close()

    async def reload(self, config: Config) -> tuple[str, ...]:
        """Goes on by another config; what needs a restart is left as it was, and told."""
        before, self.config = self.config, config
        told = [what for what in ("listen", "tls", "store", "leader") if getattr(before, what) != getattr(config, what)]
        self.config = replace(config, **{what: getattr(before, what) for what in told})
        gone = [w for w in before.sources if w not in config.sources or before.topology != config.topology]
        for wanted in gone:
            self._left[wanted.name] = self._left.get(wanted.name, []) + await self.supervisor.stop(wanted.name)
        if before.topology != config.topology:
            self.receiver.topology = config.topology
            await self._in_thread(self._anew)
        elif (before.record, before.retention) != (config.record, config.retention):
            await self._in_thread(self._record_anew)
        self._want()
        for wanted in config.sources:
            if wanted.name not in self.supervisor.names:
                self._start(wanted)
        if (before.tell, before.topology) != (config.tell, config.topology):
            same = before.topology == config.topology
            await self._post_anew(kept=[w for w in before.tell if w in config.tell] if same else [])
        await self._in_thread(self._note, "reloaded")
        return tuple(told)

    def _want(self) -> None:
        """Has agents' series kept that somebody reads; all, where all may be recorded."""
        assert self._work is not None
        panel = self._work.machine.diagnosis.detector.panel
        wanted = None if self.config.record else panel.wanted | panel.also
        if wanted is None and self.receiver.wanted is not None:
            self.receiver.ask_again()
        self.receiver.wanted = wanted

    # --- in the thread that owns engine, store and recording

    async def _in_thread(self, do: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: do(*args, **kwargs))

    def _made(self) -> Work:
        # Loaded by the first incident else, when there is least time for it.
        import networkx  # noqa: F401, ICN001, PLC0415

        store = Store(self.config.store)
        return self._with(store)

    def _with(self, store: Store) -> Work:
        gathering = Gathering()
        machine = self._stack.enter_context(assembled(self.config.topology, self.catalogue, gathering.table))
        gathering.read(machine.diagnosis.detector.panel)
        carried = Carried.of(store.open_incidents())
        return Work(
            *(machine, gathering, store, carried, self._recorder(), self.onlookers, self.config.store_retention),
            topology=self.config.topology,
            silences=store.silences(),
        )

    def _recorder(self) -> Recorder | None:
        folder = self.config.record
        return Recorder(folder, self.config.topology_path, self.config.retention) if folder else None

    @property
    def _working(self) -> Work:
        assert self._work is not None
        return self._work

    def _anew(self) -> None:
        """Another engine, for another topology or time; open incidents go on, and what waits to be written."""
        assert self._work is not None
        keeping = self._work.keeping
        if self._work.recorder is not None:
            self._work.recorder.close()
        self._stack.close()
        made = self._with(keeping.store)
        made.keeping = keeping
        self._work = made

    def _record_anew(self) -> None:
        assert self._work is not None
        if self._work.recorder is not None:
            self._work.recorder.close()
        self._work.recorder = self._recorder()

    def _note(self, what: str) -> None:
        assert self._work is not None
        self._work.keeping.note(self.clock.now(), "controller", what, {"config": str(self.config.path)})

    # --- those who are told

    async def _post_anew(self, kept: Sequence[Wanted] = ()) -> None:
        """Starts who is to be told; those of the entries that are kept go on as they are."""
        tellers = {w.name: telling.kinds()[w.kind].build(w.settings, self.config.topology) for w in self.config.tell}
        going = {teller.name for wanted in kept for teller in tellers[wanted.name]}
        for name in self.office.names:
            if name not in going:
                await self.office.stop(name)
        found = [teller for some in tellers.values() for teller in some]
        await self._in_thread(self._outbox, {teller.name: teller.scope for teller in found if is_messenger(teller)})
        for teller in found:
            if teller.name not in going:
                self.office.start(teller)

    def _outbox(self, scopes: Mapping[str, Scope]) -> None:
        assert self._work is not None
        self._work.post_anew(Outbox(scopes, self._done))

    def dropped(self, teller: str) -> int:
        """Letters of a teller that waited too long."""
        return self._work.keeping.outbox.dropped.get(teller, 0) if self._work is not None else 0

    def _arrived(self, teller: str, number: int) -> None:
        self._done.append((teller, number))

    @property
    def leads(self) -> bool:
        """Whether this controller is the one that tells."""
        return self.leader.leads

    def _judged(self) -> float | None:
        return self.known.snapshot.time if self.known else None

    async def _note_lead(self, leads: bool) -> None:
        await self._in_thread(self._note, "leads" if leads else "follows")

    def _tell(self, known: Known) -> None:
        mail = known.mail if known.stored else None
        self.office.take(known.snapshot.time, known.snapshot.incidents, known.snapshot.silenced, mail)

    async def change_silence(self, who: str, what: str, silence: Silence) -> None:
        """Takes in a silence that is new or another than before; it counts from the next tick on.

        Raises:
            StoreError: it could not be written, and nothing has changed.
        """
        await self._in_thread(lambda: self._working.change_silence(self.clock.now(), who, what, silence))

    # --- sources

    def _start(self, wanted: Wanted) -> None:
        world = World(self.config.topology, Names(self.catalogue, self.config.topology), self.clock)
        self.supervisor.start(kinds()[wanted.kind].build(wanted.settings, world))

    def standings(self) -> tuple[Standing, ...]:
        """How all sources do; that of the agents only where there are any."""
        found = self.supervisor.standings()
        return tuple(one for one in found if one.name != NAME or self.receiver.agents)
