"""State that all screens share: snapshot, replay position, scope, operator log. No Textual."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from skewscope.adapters.view.action_feed import ActionFeed, ActionList
from skewscope.adapters.view.snapshot import ViewFeed, ViewSnapshot
from skewscope.engine.actions.action import PROPOSED
from skewscope.engine.model.incident import Incident
from skewscope.tui.console.operator_log import OperatorLog, OperatorLogEntry
from skewscope.tui.console.player import Player
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.incident_table import ACKNOWLEDGED, SILENCED, TriageState
from skewscope.tui.render.incident_timeline import IncidentLength
from skewscope.tui.render.node_lookup import NodeLookup, NodeScope
from skewscope.tui.render.status import ConsoleStatus, oldest_age, reporting_counts

REFRESH_INTERVALS_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds between two refreshes."""


@dataclass(frozen=True, slots=True)
class NavigationTarget:
    """A screen, and what to show there."""

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
    action_feed: ActionFeed | None = None
    """The actions of a controller; None where there is none, as for a recording."""
    actions: ActionList = field(default_factory=ActionList)
    snapshot: ViewSnapshot | None = None
    player: Player = field(default_factory=lambda: Player(()))
    follow: bool = True
    """Whether to show the newest snapshot as it arrives."""
    progress: tuple[str, float] | None = ("starting", 0.0)
    """The loading stage and its progress, 0 to 1; None when loading is done."""
    scope: NodeScope = field(default_factory=NodeScope)
    refresh_index: int = 1
    """Index into REFRESH_INTERVALS_S."""
    screen: int = 1
    title: str = ""
    """What is shown, where it is no fleet of the reader."""
    shows_film: bool = False
    """Whether a recording is shown as it is read; else its end is shown once all of it is read."""
    columns: int = 80
    """Columns of the list that is being drawn."""
    incident_lengths: tuple[IncidentLength, ...] = ()
    """The incidents of the whole recording, on the replay bar."""
    version: int = 0
    """Increases when the snapshot, the scope or a triage state changes."""
    navigate: Callable[[NavigationTarget], None] = lambda _jump: None
    show_message: Callable[[str, bool], None] = lambda _text, _bad: None
    """Show a message to the operator; the flag marks a refusal."""

    # --- time

    def pull(self) -> bool:
        """Take the current snapshot from the feed; returns whether it changed."""
        if self.progress is not None and not (self.feed.live or self.shows_film):
            return False
        times = self.feed.times()
        if not len(times):
            return False
        index = len(times) - 1 if self.follow else self.player.index
        if self.feed.live and not self.follow:
            # A live history drops its oldest snapshots: find the current one by its time.
            index = replace(self.player, times=tuple(times)).seek(self.player.time).index
        self.player = replace(self.player, times=tuple(times), index=min(index, len(times) - 1))
        if self.snapshot is not None and self.snapshot.time == self.player.time and self.snapshot.end >= times[-1]:
            return False
        self._set_snapshot(self.feed.snapshot(self.player.index))
        return True

    def pull_actions(self) -> tuple[str, ...]:
        """Take the current actions from the controller; returns the titles of new proposals."""
        if self.action_feed is None or self.action_feed.latest is self.actions:
            return ()
        known = {one.id for one in self.actions.actions}
        begun, self.actions = bool(self.actions.mode), self.action_feed.latest
        self.version += 1
        fresh = [one for one in self.actions.actions if one.state == PROPOSED and one.id not in known]
        return tuple(one.title for one in fresh) if begun else ()

    def _set_snapshot(self, snapshot: ViewSnapshot) -> None:
        if self.snapshot is None or snapshot.topology is not self.snapshot.topology:
            self.__dict__.pop("node_lookup", None)
        self.snapshot = snapshot
        self.names = replace(self.names, incidents=snapshot.incidents, topology=snapshot.topology)
        self.version += 1

    def seek(self, player: Player) -> None:
        """Move to another position in time."""
        self.player = player
        self.follow = self.feed.live and player.is_at_end and not player.playing
        self._set_snapshot(self.feed.snapshot(player.index))

    def toggle_pause(self) -> None:
        """Pause or resume a live console; play or pause a recording."""
        if not self.feed.live and self.progress is not None:
            self.shows_film = not self.shows_film
            self.version += 1
            return
        if self.snapshot is None:
            return
        if not self.feed.live:
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
        """Nodes of each entity of the topology."""
        assert self.snapshot is not None
        return NodeLookup(self.snapshot.topology)

    @property
    def now(self) -> float:
        """The time of the current snapshot."""
        return self.snapshot.time if self.snapshot else 0.0

    @property
    def reading(self) -> str:
        """`reading 40 %` while data is loading, '' afterwards."""
        return f"reading {round(100 * self.progress[1])} %" if self.progress is not None else ""

    def status(self) -> ConsoleStatus | None:
        """Returns the content of the status line, None without a snapshot."""
        if (snapshot := self.snapshot) is None:
            return None
        if self.feed.live:
            # After a lost connection the last snapshot stays visible with its time.
            mode = "PAUSED" if not self.follow else "LAST" if self.feed.trouble else "LIVE"
        else:
            still = "DEMO" if self.title else "REPLAY"
            mode = self.reading.upper() if self.progress else "PLAYING" if self.player.playing else still
        return ConsoleStatus(
            snapshot.incidents,
            mode,
            snapshot.time,
            oldest_age(snapshot.sources),
            *reporting_counts(snapshot.sources),
            self.screen,
            self.scope.name,
            self.feed.trouble,
            self.write,
            self.title,
            self.feed.live,
        )

    # --- content

    def set_scope(self, scope: NodeScope) -> None:
        """Restrict all screens to some nodes."""
        self.scope = scope
        self.version += 1

    def incidents(self) -> tuple[Incident, ...]:
        """Returns the incidents in scope."""
        if self.snapshot is None:
            return ()
        if not self.scope.name:
            return self.snapshot.incidents
        return tuple(i for i in self.snapshot.incidents if self.scope.contains(self.node_lookup.nodes_of_incident(i)))

    # --- actions

    def log_action(self, did: str, incident: Incident, until: float | None = None, note: str = "") -> None:
        """Append an action to the operator log."""
        try:
            self.operator_log.add(OperatorLogEntry(self.now, self.operator, did, incident.id, until, note))
        except OSError as error:
            self.show_message(f"The operator log cannot be written: {error}", True)
        self.version += 1

    @property
    def triage_at_controller(self) -> dict[str, TriageState]:
        """What silences and people at the controller did with its incidents, by incident id."""
        if self.snapshot is None:
            return {}
        silenced = {id_: TriageState(SILENCED, silence) for id_, silence in self.snapshot.silenced.items()}
        return silenced | {id_: TriageState(ACKNOWLEDGED, who) for id_, who in self.snapshot.acknowledged.items()}

    def acknowledge(self, incidents: Sequence[Incident]) -> None:
        """Acknowledge the incidents without a triage state; if all have one, undo it. It changes no cluster."""
        triage_states = self.operator_log.triage_states(incidents, self.now)
        fresh = [incident for incident in incidents if incident.id not in triage_states]
        did = "acknowledged"
        for incident in fresh or incidents:
            if not fresh:
                did = "unacknowledged" if triage_states[incident.id].state == "acknowledged" else "unsnoozed"
            self.log_action(did, incident)
        some = fresh or incidents
        what = self.names.incident_name(some[0]) if len(some) == 1 else f"{len(some)} incidents"
        self.show_message(f"{what}: {did}", False)

    def snooze(self, incidents: Iterable[Incident], seconds: float) -> None:
        """Snooze incidents for a duration."""
        for incident in incidents:
            self.log_action("snoozed", incident, self.now + seconds)
