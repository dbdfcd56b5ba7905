"""What all screens of a console share: the scene on show, where in time it stands, scope, ledger, words. No Textual."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from skewscope.adapters.scene import Feed, Scene
from skewscope.engine.incident import Incident
from skewscope.tui.detail import Words
from skewscope.tui.ledger import Entry, Ledger
from skewscope.tui.player import Player
from skewscope.tui.status import Status, oldest, reporting
from skewscope.tui.whereabouts import Scope, Whereabouts

READ_ONLY = "read-only; --write lets you change things"
RATES = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between two looks."""


@dataclass(frozen=True, slots=True)
class Jump:
    """Somewhere to go: a screen, and what to show there."""

    page: int
    id: str = ""


@dataclass
class Desk:
    """The state of a console."""

    feed: Feed
    words: Words
    ledger: Ledger = field(default_factory=Ledger)
    write: bool = False
    who: str = "operator"
    ascii: bool = False
    scene: Scene | None = None
    player: Player = field(default_factory=lambda: Player(()))
    following: bool = True
    """Whether the newest is shown, whatever comes."""
    progress: tuple[str, float] | None = ("starting", 0.0)
    """What is being read and how far; None: everything is there."""
    scope: Scope = field(default_factory=Scope)
    rate: int = 1
    """Place in RATES."""
    page: int = 1
    columns: int = 80
    """Of the list that is being laid out."""
    openings: tuple[float, ...] = ()
    """When something opened, for the replay bar."""
    version: int = 0
    """Grows when another scene, scope or standing is to be shown."""
    jump: Callable[[Jump], None] = lambda _jump: None
    tell: Callable[[str, bool], None] = lambda _text, _bad: None
    """Say something to the operator; whether it is a refusal."""

    # --- time

    def pull(self) -> bool:
        """Look at what there is; whether it is another scene than before."""
        times = self.feed.times()
        if not len(times):
            return False
        index = len(times) - 1 if self.following else self.player.index
        if self.feed.live and not self.following:
            # The beginning of a live film falls away: what is on show is found by its time.
            index = replace(self.player, times=tuple(times)).seek(self.player.time).index
        self.player = replace(self.player, times=tuple(times), index=min(index, len(times) - 1))
        if self.scene is not None and self.scene.time == self.player.time and self.scene.end >= times[-1]:
            return False
        self._show(self.feed.scene(self.player.index))
        return True

    def _show(self, scene: Scene) -> None:
        if self.scene is None or scene.topology is not self.scene.topology:
            self.__dict__.pop("where", None)
        self.scene = scene
        self.words = replace(self.words, incidents=scene.incidents)
        self.version += 1

    def go(self, player: Player) -> None:
        """Stand elsewhere in time."""
        self.player = player
        self.following = self.feed.live and player.ended and not player.playing
        self._show(self.feed.scene(player.index))

    def pause(self) -> None:
        """Hold a live scene, or go on with the newest; a recording plays or holds."""
        if self.scene is None:
            return
        if not self.feed.live and self.progress is None:
            self.following = False
            self.go(self.player.toggle())
        elif self.following:
            self.following = False
        else:
            self.following = True
            self.pull()
        self.version += 1

    @cached_property
    def where(self) -> Whereabouts:
        """The topology asked for nodes."""
        assert self.scene is not None
        return Whereabouts(self.scene.topology)

    @property
    def now(self) -> float:
        """The time on show."""
        return self.scene.time if self.scene else 0.0

    def status(self) -> Status | None:
        """What the top line tells."""
        if (scene := self.scene) is None:
            return None
        if self.feed.live:
            # What is lost is not live: its last word stands there with its time.
            mode = "PAUSED" if not self.following else "LAST" if self.feed.trouble else "LIVE"
        else:
            mode = "READING" if self.progress else "PLAYING" if self.player.playing else "REPLAY"
        return Status(
            scene.incidents,
            mode,
            scene.time,
            oldest(scene.sources),
            *reporting(scene.sources),
            self.page,
            self.scope.name,
            self.feed.trouble,
            self.write,
        )

    # --- what is shown

    def narrow(self, scope: Scope) -> None:
        """Show only what is on some nodes, on all screens."""
        self.scope = scope
        self.version += 1

    def incidents(self) -> tuple[Incident, ...]:
        """Those in scope."""
        if self.scene is None:
            return ()
        if not self.scope.name:
            return self.scene.incidents
        return tuple(i for i in self.scene.incidents if self.scope.holds(self.where.of(i)))

    # --- what is done

    def refused(self, what: str) -> bool:
        """Whether nothing may be changed; says so."""
        if not self.write:
            self.tell(f"{what}: refused, {READ_ONLY}", True)
        return not self.write

    def note(self, did: str, incident: Incident, until: float | None = None, note: str = "") -> None:
        """Write something into the ledger."""
        try:
            self.ledger.add(Entry(self.now, self.who, did, incident.id, until, note))
        except OSError as error:
            self.tell(f"The ledger cannot be written: {error}", True)
        self.version += 1

    def acknowledge(self, incidents: Sequence[Incident]) -> None:
        """Acknowledge those of which nothing is noted yet; where all are acknowledged or snoozed, take that back."""
        if self.refused("acknowledge"):
            return
        standing = self.ledger.standings(incidents, self.now)
        fresh = [incident for incident in incidents if incident.id not in standing]
        did = "acknowledged"
        for incident in fresh or incidents:
            if not fresh:
                did = "taken back" if standing[incident.id].state == "acknowledged" else "woken"
            self.note(did, incident)
        some = fresh or incidents
        what = self.words.condition(some[0].condition) if len(some) == 1 else f"{len(some)} diagnoses"
        self.tell(f"{what}: {did}", False)

    def snooze(self, incidents: Iterable[Incident], seconds: float) -> None:
        """Snooze incidents for so long."""
        for incident in incidents:
            self.note("snoozed", incident, self.now + seconds)
