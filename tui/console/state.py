"""What all screens of a console share: the scene on show, where in time it stands, scope, ledger, words. No Textual."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from skewscope.adapters.view.snapshot import ViewFeed, ViewSnapshot
from skewscope.engine.model.incident import Incident
from skewscope.tui.console.operator_log import OperatorLog, OperatorLogEntry
from skewscope.tui.console.player import Player
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.node_lookup import NodeLookup, NodeScope
from skewscope.tui.render.status import ConsoleStatus, oldest_age, reporting_counts

READ_ONLY = "read-only; --write lets you change things"
REFRESH_INTERVALS_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between two looks."""


@dataclass(frozen=True, slots=True)
class NavigationTarget:
    """Somewhere to go: a screen, and what to show there."""

    screen: int
    subject: str = ""


@dataclass
class ConsoleState:
    """The state of a console."""

    feed: ViewFeed
    names: DisplayNames
    operator_log: OperatorLog = field(default_factory=OperatorLog)
    write: bool = False
    operator: str = "operator"
    ascii: bool = False
    snapshot: ViewSnapshot | None = None
    player: Player = field(default_factory=lambda: Player(()))
    follow: bool = True
    """Whether the newest is shown, whatever comes."""
    progress: tuple[str, float] | None = ("starting", 0.0)
    """What is being read and how far; None: everything is there."""
    scope: NodeScope = field(default_factory=NodeScope)
    refresh_index: int = 1
    """Place in RATES."""
    screen: int = 1
    columns: int = 80
    """Of the list that is being laid out."""
    incident_starts: tuple[float, ...] = ()
    """When something opened, for the replay bar."""
    version: int = 0
    """Grows when another scene, scope or standing is to be shown."""
    navigate: Callable[[NavigationTarget], None] = lambda _jump: None
    show_message: Callable[[str, bool], None] = lambda _text, _bad: None
    """Say something to the operator; whether it is a refusal."""

    # --- time

    def pull(self) -> bool:
        """Look at what there is; whether it is another scene than before."""
        times = self.feed.times()
        if not len(times):
            return False
        index = len(times) - 1 if self.follow else self.player.index
        if self.feed.live and not self.follow:
            # The beginning of a live film falls away: what is on show is found by its time.
            index = replace(self.player, times=tuple(times)).seek(self.player.time).index
        self.player = replace(self.player, times=tuple(times), index=min(index, len(times) - 1))
        if self.snapshot is not None and self.snapshot.time == self.player.time and self.snapshot.end >= times[-1]:
            return False
        self._set_snapshot(self.feed.snapshot(self.player.index))
        return True

    def _set_snapshot(self, scene: ViewSnapshot) -> None:
        if self.snapshot is None or scene.topology is not self.snapshot.topology:
            self.__dict__.pop("node_lookup", None)
        self.snapshot = scene
        self.names = replace(self.names, incidents=scene.incidents)
        self.version += 1

    def seek(self, player: Player) -> None:
        """Stand elsewhere in time."""
        self.player = player
        self.follow = self.feed.live and player.is_at_end and not player.playing
        self._set_snapshot(self.feed.snapshot(player.index))

    def toggle_pause(self) -> None:
        """Hold a live scene, or go on with the newest; a recording plays or holds."""
        if self.snapshot is None:
            return
        if not self.feed.live and self.progress is None:
            self.follow = False
            self.seek(self.player.toggle())
        elif self.follow:
            self.follow = False
        else:
            self.follow = True
            self.pull()
        self.version += 1

    @cached_property
    def node_lookup(self) -> NodeLookup:
        """The topology asked for nodes."""
        assert self.snapshot is not None
        return NodeLookup(self.snapshot.topology)

    @property
    def now(self) -> float:
        """The time on show."""
        return self.snapshot.time if self.snapshot else 0.0

    def status(self) -> ConsoleStatus | None:
        """What the top line tells."""
        if (scene := self.snapshot) is None:
            return None
        if self.feed.live:
            # What is lost is not live: its last word stands there with its time.
            mode = "PAUSED" if not self.follow else "LAST" if self.feed.trouble else "LIVE"
        else:
            mode = "READING" if self.progress else "PLAYING" if self.player.playing else "REPLAY"
        return ConsoleStatus(
            scene.incidents,
            mode,
            scene.time,
            oldest_age(scene.sources),
            *reporting_counts(scene.sources),
            self.screen,
            self.scope.name,
            self.feed.trouble,
            self.write,
        )

    # --- what is shown

    def set_scope(self, scope: NodeScope) -> None:
        """Show only what is on some nodes, on all screens."""
        self.scope = scope
        self.version += 1

    def incidents(self) -> tuple[Incident, ...]:
        """Those in scope."""
        if self.snapshot is None:
            return ()
        if not self.scope.name:
            return self.snapshot.incidents
        return tuple(i for i in self.snapshot.incidents if self.scope.contains(self.node_lookup.nodes_of_incident(i)))

    # --- what is done

    def reject_if_read_only(self, what: str) -> bool:
        """Whether nothing may be changed; says so."""
        if not self.write:
            self.show_message(f"{what}: refused, {READ_ONLY}", True)
        return not self.write

    def log_action(self, did: str, incident: Incident, until: float | None = None, note: str = "") -> None:
        """Write something into the ledger."""
        try:
            self.operator_log.add(OperatorLogEntry(self.now, self.operator, did, incident.id, until, note))
        except OSError as error:
            self.show_message(f"The ledger cannot be written: {error}", True)
        self.version += 1

    def acknowledge(self, incidents: Sequence[Incident]) -> None:
        """Acknowledge those of which nothing is noted yet; where all are acknowledged or snoozed, take that back."""
        if self.reject_if_read_only("acknowledge"):
            return
        standing = self.operator_log.triage_states(incidents, self.now)
        fresh = [incident for incident in incidents if incident.id not in standing]
        did = "acknowledged"
        for incident in fresh or incidents:
            if not fresh:
                did = "taken back" if standing[incident.id].state == "acknowledged" else "woken"
            self.log_action(did, incident)
        some = fresh or incidents
        what = self.names.condition_name(some[0].condition) if len(some) == 1 else f"{len(some)} diagnoses"
        self.show_message(f"{what}: {did}", False)

    def snooze(self, incidents: Iterable[Incident], seconds: float) -> None:
        """Snooze incidents for so long."""
        for incident in incidents:
            self.log_action("snoozed", incident, self.now + seconds)
