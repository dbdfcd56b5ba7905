"""Keeps tellers going: each in a task of its own, with a deadline, and a wait that doubles while it fails.

What waits for a messenger lies in the store, not here: one that hangs for a day costs no memory.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from skewscope.adapters.clock import Clock
from skewscope.adapters.sources.base import scrubbed
from skewscope.adapters.tasks import leave_if_cancelled, let_go
from skewscope.adapters.telling.base import Board, Letter, Messenger, Teller, TellError
from skewscope.adapters.telling.desk import Desk
from skewscope.adapters.telling.handover import Handover
from skewscope.engine.incident import Incident

LEAST_WAIT, MOST_WAIT = 1.0, 60.0
"""Seconds before something is tried again."""
MOST_WISHED = 600.0
"""Seconds that the other side may make us wait."""
MOST_LETTERS = 50
"""Taken out of the store at once."""
LOOK = 1.0
"""Seconds between two looks whether anybody is to be told."""

Mail = Callable[[str, int, int], Sequence[Letter]]
"""The letters of a teller after a number, at most so many; it may take its time, and is called in a thread."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TellerStanding:
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
class Kept:
    """One teller, and the task that it runs in."""

    teller: Teller
    clock: Clock
    task: "asyncio.Task[None] | None" = None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    desk: Desk = field(init=False)
    """What a board shows; messengers have theirs where letters are written."""
    after: int = 0
    """The number of the last letter that is done."""
    until: float = 0.0
    """All letters up to then are done ..."""
    idle: bool = False
    """... and all there are, while it waits for news."""
    up: bool = True
    since: float = 0.0
    last: float | None = None
    told: int = 0
    failed: int = 0
    refused: int = 0
    failures: int = 0
    """In a row."""
    trouble: str = ""

    def __post_init__(self) -> None:
        self.desk = Desk(self.teller.scope)
        self.since = self.clock.now()

    async def tried(self, doing: "asyncio.Future[None] | asyncio.Task[None]") -> TellError | None:
        """Waits for a call of the teller; what went wrong, None for nothing."""
        try:
            async with asyncio.timeout(self.teller.patience):
                await doing
        except TimeoutError:
            return self._failed(TellError(f"no end within {self.teller.patience:g} s"))
        except TellError as error:
            leave_if_cancelled()
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - whatever a teller does, nobody else may suffer from it
            leave_if_cancelled()
            return self._failed(TellError(f"{type(error).__name__}: {error}"))
        leave_if_cancelled()
        self.told += 1
        self.failures, self.trouble, self.last = 0, "", self.clock.now()
        self._stands(up=True)
        return None

    def _failed(self, error: TellError) -> TellError:
        trouble = scrubbed(error)
        if trouble != self.trouble:
            log.warning("teller %s: %s", self.teller.name, trouble)
        self.trouble = trouble
        self.failed += 1
        self.failures += 1
        self._stands(up=False)
        return error

    def _stands(self, *, up: bool) -> None:
        if up != self.up:
            self.up, self.since = up, self.clock.now()

    def wait(self, error: TellError) -> float:
        """Seconds until it is tried again."""
        return max(min(LEAST_WAIT * 2.0 ** min(self.failures - 1, 10), MOST_WAIT), min(error.after, MOST_WISHED))

    def standing(self) -> TellerStanding:
        """How it does."""
        return TellerStanding(
            *(self.teller.name, self.up, self.since, self.last),
            *(self.told, self.failed, self.refused, self.trouble),
        )


@dataclass
class Office:
    """All tellers of a controller."""

    clock: Clock
    mail: Mail
    done: Callable[[str, int], None]
    """Told that a teller needs its letters up to a number no more."""
    active: Callable[[], bool] = lambda: True
    """Whether anybody is told, asked before each thing that is: of two controllers only one tells."""
    handover: Handover = field(default_factory=Handover)
    _kept: dict[str, Kept] = field(default_factory=dict)
    _t: float = 0.0
    _whole: bool = True
    """Whether all letters of that tick are where they can be found."""

    def start(self, teller: Teller) -> None:
        """Starts a teller that has a name of its own."""
        if teller.name in self._kept:
            raise ValueError(f"two tellers called {teller.name!r}")
        kept = self._kept[teller.name] = Kept(teller, self.clock)
        doing = self._shown(kept, teller) if is_board(teller) else self._sent(kept)
        kept.task = asyncio.create_task(doing, name=f"teller {teller.name}")

    async def stop(self, name: str) -> None:
        """Ends a teller."""
        task = self._kept.pop(name).task
        if task is not None:
            await let_go(task)

    async def close(self) -> None:
        """Ends all of them."""
        await asyncio.gather(*(self.stop(name) for name in list(self._kept)))

    def take(
        self, t: float, incidents: Iterable[Incident], silenced: Mapping[str, str], mail: Collection[str] | None
    ) -> None:
        """What a tick found out, and who has new letters, None where they could not be written; waits for nobody."""
        self._t, self._whole = t, mail is not None
        mail = mail or ()
        for name, kept in self._kept.items():
            if kept.desk.turn(t, incidents, silenced) if is_board(kept.teller) else name in mail:
                kept.news.set()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all tellers."""
        return tuple(self._kept)

    def standings(self) -> tuple[TellerStanding, ...]:
        """How each of them does, by name."""
        return tuple(kept.standing() for _, kept in sorted(self._kept.items()))

    def progress(self, now: float) -> str:
        """How far messengers are, for whoever takes over; `now` by the clock that letters have their times from."""
        for kept in self._kept.values():
            if kept.idle and not kept.news.is_set() and self._whole:
                kept.until = max(kept.until, self._t)
        until = {name: kept.until for name, kept in self._kept.items() if is_messenger(kept.teller)}
        return self.handover.text(now, until)

    # --- boards

    async def _shown(self, kept: Kept, board: Board) -> None:
        while True:
            kept.news.clear()
            wait = board.period
            if self.active() and self._t:
                shown = tuple(kept.desk.told.values())
                error = await kept.tried(asyncio.ensure_future(board.show(shown, self.clock.now())))
                if error is not None:
                    await self.clock.sleep(kept.wait(error))
                    continue
            else:
                wait = LOOK
            await self._news(kept, wait)

    async def _news(self, kept: Kept, seconds: float) -> None:
        """Waits for news, or for so many seconds."""
        waits = {
            asyncio.ensure_future(kept.news.wait()),
            asyncio.ensure_future(self.clock.sleep(seconds)),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    # --- messengers

    async def _sent(self, kept: Kept) -> None:
        while True:
            kept.news.clear()
            letters = await self._letters(kept)
            for letter in letters:
                await self._passed_on(kept, letter)
                kept.after, kept.until = letter.number, max(kept.until, letter.t)
                self.done(kept.teller.name, letter.number)
            if len(letters) < MOST_LETTERS:
                kept.idle = True
                await self._news(kept, MOST_WAIT)
                kept.idle = False

    async def _passed_on(self, kept: Kept, letter: Letter) -> None:
        """Comes back when a letter is told, by us or by who leads; until then it is kept."""
        name = kept.teller.name
        while not self.handover.passed(name, letter, self._t, ours=self.active()):
            if self.active():
                if self.handover.marked(name, letter) or await self._delivered(kept, letter):
                    return
            else:
                await self.clock.sleep(LOOK)

    async def _letters(self, kept: Kept) -> Sequence[Letter]:
        try:
            return await asyncio.to_thread(self.mail, kept.teller.name, kept.after, MOST_LETTERS)
        except Exception:
            log.exception("the letters of %s", kept.teller.name)
            return ()

    async def _delivered(self, kept: Kept, letter: Letter) -> bool:
        """Tries until it has arrived, or would never be taken; not so where it is another's turn before that."""
        messenger = kept.teller
        assert is_messenger(messenger)
        while self.active():
            error = await kept.tried(asyncio.ensure_future(messenger.send(letter)))
            if error is None:
                self.handover.told(messenger.name, letter)
                return True
            if error.refused:
                kept.refused += 1
                return True
            await self.clock.sleep(kept.wait(error))
        return False


def is_board(teller: Teller) -> TypeGuard[Board]:
    """Whether it shows what stands."""
    return hasattr(teller, "show")


def is_messenger(teller: Teller) -> TypeGuard[Messenger]:
    """Whether it passes on what happens."""
    return hasattr(teller, "send")
