"""What every target offers.

A target reads its state, and renders a change as calls from that state. Rendering is pure, so a dry run shows the very
calls that are made. A change is made by reading, rendering and calling (`adapters/actions/carry_out.py`): a call that
finds the state changed meanwhile raises ConflictError, and all three are repeated. Both making and undoing a change are
idempotent.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from skewscope.adapters.targets.common.calls import Call
from skewscope.engine.actions.change import Change, ChangeSupport, MemberState, TargetState
from skewscope.engine.actions.comparison import MemberLoad


class TargetError(Exception):
    """A target refused a call, or gave no usable answer within its time. The text names the call and the answer."""


class ForbiddenError(TargetError):
    """The credentials do not allow a call."""


class BusyError(TargetError):
    """A target refuses a call for now, such as an eviction that a disruption budget forbids; it is repeated later."""


class ConflictError(TargetError):
    """The state was changed by somebody else since it was read; reading it again may help."""


class Target(Protocol):
    """A system that an action changes. Methods that wait end within the timeout of the target's settings."""

    @property
    def name(self) -> str:
        """Name in the config."""
        ...

    @property
    def support(self) -> Mapping[str, ChangeSupport]:
        """The kinds of changes that it carries out."""
        ...

    @property
    def members(self) -> Mapping[str, str]:
        """The target's names of its members, by the name of their entity in the topology."""
        ...

    async def read_state(self) -> TargetState:
        """Returns the present state of all members.

        Raises:
            TargetError: there is no usable answer.
        """
        ...

    def render_change(self, change: Change, state: TargetState) -> tuple[Call, ...]:
        """Returns the calls that make a change, given the present state; none where it is already made.

        Raises:
            TargetError: the target has no such member, or cannot carry out this kind of change.
        """
        ...

    def render_undo(self, change: Change, before: MemberState, state: TargetState) -> tuple[Call, ...]:
        """Returns the calls that restore a member's state from before; none where nothing of ours is left.

        Args:
            change: the change to undo.
            before: the member before the change, which was stored before the first call.
            state: the present state.
        """
        ...

    def predict(self, change: Change, state: TargetState) -> TargetState:
        """Returns the state as a change leaves it, as far as its undo is rendered from it. Pure.

        Raises:
            TargetError: the target cannot carry out this change.
        """
        ...

    def find_standing(self, change: Change, before: MemberState, state: TargetState) -> str:
        """Returns whether a change is ABSENT, OURS, or the member is in a FOREIGN state."""
        ...

    async def make_call(self, call: Call) -> None:
        """Makes one call.

        Raises:
            BusyError: it is refused for now.
            ConflictError: the state has changed since it was read.
            TargetError: it failed.
        """
        ...

    async def read_work(self) -> Mapping[str, float]:
        """Returns the number of units of work (requests, jobs, bytes) given to each member so far.

        Empty where the target does not count them: then what follows from a change shows in telemetry alone.

        Raises:
            TargetError: there is no usable answer.
        """
        ...

    async def probe(self, member: str) -> float | None:
        """Returns how many seconds a member takes for a small piece of work of a fixed size, given to it directly.

        None where the target has no way to give work to a member that is taken out.

        Raises:
            TargetError: the member gave no answer.
        """
        ...


@runtime_checkable
class LoadTarget(Protocol):
    """A target that counts itself what its members have under way: a witness that they cannot influence by words."""

    async def read_load(self) -> Mapping[str, MemberLoad]:
        """Returns for each member the requests that have ended and those under way; empty where they are not counted.

        Raises:
            TargetError: there is no usable answer.
        """
        ...
