"""A target that stands for a real one in a shadow run: the same members and changes, and no calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skewscope.adapters.targets.common.base import Target, TargetError
from skewscope.adapters.targets.common.calls import Call, SocketCall
from skewscope.engine.actions.change import ABSENT, DEWEIGHT, OURS, Change, ChangeSupport, MemberState, TargetState
from skewscope.engine.actions.limits import TAKING_OUT

FULL_WEIGHT = 100.0
SLOW_PROBE, QUICK_PROBE = 10.0, 0.1
"""Seconds of a probe of a member whose fault is in the data, and of any other."""


@dataclass
class ShadowTarget:
    """Members that are all in use, but for what a shadow run has changed."""

    name: str
    members: Mapping[str, str]
    support: Mapping[str, ChangeSupport]
    has_probe: bool
    faulty: frozenset[str] = frozenset()
    """Members whose fault is in the data at present."""
    _owners: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    """Action and kept share of its weight, by kind of change and member."""

    async def read_state(self) -> TargetState:
        """Returns the members as the changes of this run leave them."""
        return TargetState({member: self._describe(member) for member in self.members.values()})

    def _describe(self, member: str) -> MemberState:
        mine = {kind: each for (kind, name), each in self._owners.items() if name == member}
        weight = FULL_WEIGHT * (mine[DEWEIGHT][1] if DEWEIGHT in mine else 1.0)
        owner = next((action for action, _ in mine.values()), "")
        return MemberState(member, not any(kind in TAKING_OUT for kind in mine), weight, owner)

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns a line that stands for the calls."""
        if state.member(change.member) is None:
            raise TargetError(f"{self.name}: no member {change.member!r:.80}")
        return () if self._find(change) == OURS else (self._call("make", change),)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:  # noqa: ARG002
        """Returns a line that stands for the calls of an undo."""
        return (self._call("undo", change),) if self._find(change) == OURS else ()

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state with the change."""
        serving = change.kind not in TAKING_OUT
        return state.with_member(change.member, serving=serving, owner=change.action)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:  # noqa: ARG002
        """Returns whether this run has made the change."""
        return self._find(change)

    def _find(self, change: Change) -> str:
        return OURS if self._owners.get((change.kind, change.member), ("",))[0] == change.action else ABSENT

    def _call(self, what: str, change: Change) -> Call:
        return SocketCall(self.name, f"{what} {change.kind} {change.action} {change.share} {change.member}")

    async def make_call(self, call: Call) -> None:
        """Notes the change, or its end; nothing is called."""
        assert isinstance(call, SocketCall)
        what, kind, action, share, member = call.line.split(" ", 4)
        if what == "make":
            self._owners[kind, member] = (action, float(share))
        else:
            self._owners.pop((kind, member), None)

    async def read_work(self) -> Mapping[str, float]:
        """Counts nothing."""
        return {}

    async def probe(self, member: str) -> float | None:
        """Returns a time by whether the member's fault is in the data; None where the real target has no probe."""
        if not self.has_probe:
            return None
        return SLOW_PROBE if member in self.faulty else QUICK_PROBE


def build_shadow(target: Target) -> ShadowTarget:
    """Returns the stand-in of a real target."""
    settings = getattr(target, "settings", None)
    has_probe = bool(getattr(settings, "probe", None) or getattr(settings, "canary", None))
    return ShadowTarget(target.name, target.members, target.support, has_probe)
