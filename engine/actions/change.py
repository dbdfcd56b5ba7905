"""Changes that an action makes at a target, and the state of a target's members. Pure values.

A target is a system that places work or traffic: a router, a scheduler, a switch. Its members are what it places them
on: workers, nodes, ports. A target is told apart from the entities of the topology by its own names for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

DEWEIGHT, LIMIT, MARK, MIRROR, DRAIN, REQUEUE, BLOCK, EVICT = CHANGE_KINDS = (
    "deweight",
    "limit",
    "mark",
    "mirror",
    "drain",
    "requeue",
    "block",
    "evict",
)
"""Kinds of changes, the mildest first. deweight: less new work; limit: a rate limit on some traffic; mark: an ECN mark
on it; mirror: a copy of it for inspection; drain: no new work, what runs may finish; requeue: the jobs of a member
start again elsewhere; block: some traffic is dropped; evict: what runs on a member is ended."""

ABSENT, OURS, FOREIGN = "absent", "ours", "foreign"
"""Where a change stands at its target: not made; made by its action; or the member is in a third state, which somebody
else gave it: then it is theirs, and an action neither repeats nor undoes it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one member of a target, for one action."""

    kind: str
    """One of CHANGE_KINDS."""
    target: str
    """Name of the target in the config."""
    member: str
    """The target's own name of what is changed."""
    action: str
    """Id of the action: the owner mark."""
    reason: str = ""
    """One line for people who look at the target; ASCII, at most 120 characters."""
    expires: float = 0.0
    """Seconds since 1970 at which the action is undone at the latest."""
    share: float = 0.0
    """Of a deweight: the share of its normal weight that the member keeps, above 0 and below 1."""
    parameters: tuple[tuple[str, str], ...] = ()
    """What else the kind needs, such as the rate and the flows of a limit; sorted by name."""

    def parameter(self, name: str, default: str = "") -> str:
        """Returns a parameter, or the default."""
        return dict(self.parameters).get(name, default)


@dataclass(frozen=True, slots=True)
class MemberState:
    """State of one member, as its target reports it."""

    member: str
    serving: bool | None = None
    """Whether it is given new work; None where unknown."""
    weight: float | None = None
    """Its weight in the target's own unit; None where the target has no weights."""
    owner: str = ""
    """Id of the action whose owner mark it carries; '' for none, and where the target keeps no marks."""
    details: tuple[tuple[str, str], ...] = ()
    """What an undo needs besides, sorted by name. Never an id that changes when the member is added again."""

    def detail(self, name: str, default: str = "") -> str:
        """Returns a detail, or the default."""
        return dict(self.details).get(name, default)


@dataclass(frozen=True, slots=True)
class TargetState:
    """State of all members of a target, from one reading."""

    members: Mapping[str, MemberState] = field(default_factory=dict)
    version: str = ""
    """Version of the reading, where the target refuses a write that rests on an older one."""
    run: str = ""
    """What is another one after each start of a target that forgets changes when it starts, such as its start time; ''
    where the target keeps changes, or does not tell."""
    text: str = field(default="", repr=False)
    """The file that was read, where a change is another text of that file."""

    def member(self, name: str) -> MemberState | None:
        """Returns the state of a member; None where the target has no such member."""
        return self.members.get(name)

    def with_member(self, name: str, details: Mapping[str, str] | None = None, **fields: Any) -> "TargetState":
        """Returns the state with other fields and details of one member; as it is where there is no such member."""
        member = self.members.get(name)
        if member is None:
            return self
        merged = tuple(sorted({**dict(member.details), **(details or {})}.items()))
        return replace(self, members={**self.members, name: replace(member, details=merged, **fields)})


@dataclass(frozen=True, slots=True)
class ChangeSupport:
    """How a target carries out one kind of change."""

    reversible: bool = True
    """Whether it can be undone."""
    note: str = ""
    """What a plan has to say of it, such as 'the router ignores weights: the worker is removed'."""
    runs: bool = True
    """Whether its calls are made. Otherwise they are rendered for a person, and never without an approval."""
