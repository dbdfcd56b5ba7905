"""What must never happen to a simulated pool: checked each second by what is true, never by what a controller knows."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.steps import POLICY
from skewscope.engine.actions.action import HELPED, Action
from skewscope.engine.actions.freeze import Freeze
from skewscope.engine.actions.lifecycle import PROBES
from tests.support.acting_chaos import SEEN
from tests.support.acting_scenarios import HARDWARE, SLOW, ScenarioEvent
from tests.support.acting_targets import PERSON

if TYPE_CHECKING:
    from tests.support.acting_fleet import FleetWorld

SLACK_S = 30.0
"""Seconds that reading, settling, and the repetition of failed calls may take beside the probes."""
JUST_WELL_S = 10.0
"""Seconds after the end of a fault in which an act on it is no wrong one: nobody can know so soon."""


@dataclass
class TruthCheck:
    """What went wrong in one simulation."""

    world: "FleetWorld"
    harm: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    frozen: Freeze | None = None
    frozen_since: float = 0.0
    persons_interfered: bool = False
    """Whether persons changed by hand what was changed already, or would have without it."""
    changes: set[str] = field(default_factory=set)
    """Actions that took effect at the target."""
    wrong: set[str] = field(default_factory=set)
    """Those of them that took out a member that was well."""
    fewest_in_use: int = 99
    second_faults: set[str] = field(default_factory=set)
    """Members that were slow, or restarted, while another one was out by a change of ours: nobody can foresee that."""
    _out_well: dict[str, float] = field(default_factory=dict)
    """Seconds for which each member that is well has been out by a change of ours."""
    _outs: dict[str, int] = field(default_factory=dict)
    """How often each member was taken out."""
    _events: dict[str, float] = field(default_factory=dict)
    """When something last happened to each member, '' for all."""
    _changed_at: dict[str, float] = field(default_factory=dict)
    """When each member was drained by a person."""
    _second: float = 0.0

    def note_event(self, event: ScenarioEvent) -> None:
        """Notes that a person, or the fleet itself, changed something, which a controller sees a little later."""
        self._events[event.member] = self.world.t

    def forgive_all(self) -> None:
        """Counts anew how long members have been out: nobody could probe them, or the count was lost."""
        self._out_well.clear()

    # --- at each change

    def check_drain(self, member: str, action: str) -> None:
        """Notes what is wrong with a drain at the moment at which it takes effect."""
        world = self.world
        known = world.store.rows[action]
        self.changes.add(action)
        self._outs[member] = self._outs.get(member, 0) + 1
        what = f"{world.t:.0f} s: {action} drained {member}"
        if action in self.refused:
            self.harm.append(f"{what}, which was refused")
        if action not in world.store.called:
            self.harm.append(f"{what} without a stored intent")
        elif self.frozen is not None and world.store.called[action] > self.frozen_since + 1.0:
            self.harm.append(f"{what} during a freeze")
        if not self._was_ill(member):
            self.wrong.add(action)
            self._check_grounds(member, known, what)
        self._check_minimum(action, what)

    def _was_ill(self, member: str) -> bool:
        t = self.world.t
        return any(
            a.kind == SLOW and a.member == member and a.start <= t and self._begun() < a.end + JUST_WELL_S
            for a in self.world.scenario.accusations
        )

    def _begun(self) -> float:
        return self.world.t - self.world.scenario.lag

    def _check_grounds(self, member: str, action: Action, what: str) -> None:
        """Notes an act that no person approved on a member that is slower for good."""
        kinds = {a.kind for a in self.world.scenario.accusations if a.id == action.reason.incident}
        if kinds == {HARDWARE} and action.approved_by == POLICY:
            self.harm.append(f"{what}, which is slower by its hardware, and no person approved it")

    def _check_minimum(self, action: str, what: str) -> None:
        """Notes a drain that leaves fewer well members in use than there have to be, as far as that could be seen."""
        world = self.world
        seen = min(world.store.begun.get(action, world.t), world.t) - SEEN
        members = world.router.names
        unseen = {name for name in members if max(self._events.get(name, 0.0), self._events.get("", 0.0)) > seen}
        out = {name for name in members if name not in world.in_use()}
        by_others = {name for name in out if name in unseen and not world.router.owners.get(name, "").startswith("a-")}
        ill = {a.member for a in world.scenario.accusations if a.kind == SLOW and self._is_known(a.id, a.end, seen)}
        left = set(members) - (out - by_others) - ill
        least = len(members) // 2 + 1
        if len(left) < least:
            self.harm.append(f"{what}: {len(left)} of {least} were left; out {sorted(out)}, ill {sorted(ill)}")

    def _is_known(self, incident: str, end: float, seen: float) -> bool:
        times = self.world.incident_times.get(incident)
        return times is not None and times.opened <= seen and end > self.world.t

    # --- each second

    def check_second(self) -> None:
        """Notes members that are well and out for too long."""
        world = self.world
        passed, self._second = world.t - self._second, world.t
        self.fewest_in_use = min(self.fewest_in_use, len(world.in_use()))
        held = self.frozen is not None and self.frozen.holds_undos
        out = {name for name, owner in world.router.owners.items() if owner != PERSON}
        ill = {name for name in world.router.present if not world.is_well(name)}
        self.second_faults |= ill - out if out else set()
        for member in set(self._out_well) - set(world.router.owners):
            del self._out_well[member]
        for member, owner in world.router.owners.items():
            if owner == PERSON or not world.is_well(member):
                self._out_well.pop(member, None)
            elif not held and world.coordinator is not None and not world.router.is_down:
                self._count_out(member, owner, passed)

    def _count_out(self, member: str, owner: str, passed: float) -> None:
        before = self._out_well.get(member, 0.0)
        after = self._out_well[member] = before + passed
        allowed = self._allowed(member)
        if before <= allowed < after:
            state = self.world.store.rows[owner]
            self.harm.append(
                f"{self.world.t:.0f} s: {member} is well and was out for {after:.0f} s by {owner} ({state.state},"
                f" approved by {state.approved_by}, {state.reason.incident}), {allowed:.0f} s are allowed;"
                f" it waits: {state.waiting}; {state.history[-1][1]}"
            )

    def _allowed(self, member: str) -> float:
        """Returns the seconds for which a member that is well may be out: one cycle of probes, or what stands for it.

        Each earlier time doubles it. Without a probe, telemetry has to show that the fault is gone; where it cannot,
        the time to live of a change is the bound.
        """
        scenario, timing = self.world.scenario, self.world.settings.timing
        factor = 2 ** (self._outs.get(member, 1) - 1)
        retry = SLACK_S + (SLACK_S if scenario.failing or scenario.ignoring else 0.0)
        most = timing.time_to_live + retry
        if self._is_slower_for_good(member) and not scenario.names_hardware:
            return most
        if scenario.has_probe and not self._is_slower_for_good(member):
            return min(PROBES * timing.probe_every * factor + retry + scenario.lag, most)
        if scenario.judges_drained and not self._is_accused(member):
            return min(timing.effect_within + timing.hold * factor + retry + scenario.lag, most)
        return most

    def _is_slower_for_good(self, member: str) -> bool:
        return member in self.world.scenario.hardware

    def _is_accused(self, member: str) -> bool:
        t = self.world.t
        return any(a.member == member and a.start <= t < a.end + SLACK_S for a in self.world.scenario.accusations)

    # --- at the end

    def check_end(self, coordinator: Coordinator) -> None:
        """Notes what is left behind, and wrong acts that count as helpful."""
        for action in coordinator.actions.values():
            if action.is_live:
                self.harm.append(f"{action.id} is still {action.state}: {action.title}; {action.waiting}")
        for member, owner in self.world.router.owners.items():
            self.harm.append(f"{member} is left drained by {owner}")
        for id_ in self.refused:
            if coordinator.actions[id_].state != "refused":
                self.harm.append(f"{id_} was refused and is {coordinator.actions[id_].state}")
        for id_ in sorted(self.wrong):
            self._check_told(coordinator.actions[id_])
        self.harm += self.world.weather.harm

    def _check_told(self, action: Action) -> None:
        if self.describe_outcome(action) == HELPED:
            self.harm.append(f"{action.id}, {action.title}, counts as helped, and {action.change.member} was well")

    def describe_outcome(self, action: Action) -> str:
        """Returns how an act was judged.

        Without a member of slower hardware a pool is quicker indeed, and where the topology does not say which one that
        is, no probe can tell it from an ill one.
        """
        outcome, scenario = action.outcome or action.state, self.world.scenario
        kinds = {a.kind for a in scenario.accusations if a.id == action.reason.incident}
        if kinds == {HARDWARE}:
            return f"{outcome}, of a member of slower hardware that is told to be slow"
        is_unnamed = self._is_slower_for_good(action.change.member) and not scenario.names_hardware
        return f"{outcome}, of a member whose slower hardware is not named" if is_unnamed else outcome
