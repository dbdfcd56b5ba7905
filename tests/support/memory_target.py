"""A target in memory: a router whose members have a weight, for tests of what stands above targets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, HttpCall
from skewscope.engine.actions.change import ABSENT, DRAIN, EVICT, OURS, Change, ChangeSupport, MemberState, TargetState


@dataclass
class MemoryTarget:
    """Members that are drained by a call to `/drain/MEMBER`."""

    name: str = "front"
    members: Mapping[str, str] = field(default_factory=dict)
    support: Mapping[str, ChangeSupport] = field(
        default_factory=lambda: {DRAIN: ChangeSupport(), EVICT: ChangeSupport(reversible=False, note="it ends them")}
    )
    drained: set[str] = field(default_factory=set)
    trouble: str = ""
    """Why it does not answer."""
    made: list[Call] = field(default_factory=list)

    async def read_state(self) -> TargetState:
        """Returns the state."""
        if self.trouble:
            raise TargetError(self.trouble)
        return TargetState({one: MemberState(one, one not in self.drained, 1.0) for one in self.members.values()})

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns one call."""
        if state.member(change.member) is None:
            raise TargetError(f"no member {change.member!r}")
        return (HttpCall("POST", f"http://router/{change.kind}/{change.member}"),)

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns one call where it is drained."""
        ours = self.find_standing(change, before, state) == OURS
        return (HttpCall("POST", f"http://router/ready/{change.member}"),) if ours else ()

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state without the member."""
        return state.with_member(change.member, serving=False)

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns whether it is drained."""
        member = state.member(change.member)
        return OURS if member is not None and member.serving is False else ABSENT

    async def make_call(self, call: Call) -> None:
        """Keeps the call."""
        self.made.append(call)

    async def read_work(self) -> Mapping[str, float]:
        """Counts nothing."""
        return {}

    async def probe(self, member: str) -> float | None:
        """Has no probe."""
        return None
