"""An action: one change at one target for one incident, with its plan, its approval and its life. Immutable values."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from skewscope.engine.actions.change import Change, MemberState
from skewscope.engine.model.incident import History, extend_history, rfc3339

PROPOSED, APPROVED, APPLYING, APPLIED, VERIFIED, UNDOING = LIVE_STATES = (
    "proposed",
    "approved",
    "applying",
    "applied",
    "verified",
    "undoing",
)
"""States in which an action may still change something. proposed: waits for a person; approved: waits for its limits;
applying: its intent is stored and calls are made; applied: the calls were accepted; verified: state, traffic and effect
were read back; undoing: the change is being taken back."""
REFUSED, EXPIRED, FAILED, UNDONE, OVERRIDDEN, DONE = FINAL_STATES = (
    "refused",
    "expired",
    "failed",
    "undone",
    "overridden",
    "done",
)
"""refused: by a person; expired: nothing was changed, because the incident ended or nobody approved in time; failed:
the target did not make the change, and nothing of it is left; undone; overridden: somebody else changed the member
meanwhile, and what they did stays; done: a change without undo that was judged, or ended by a person or its time."""
IN_PLACE_STATES = (APPLYING, APPLIED, VERIFIED, UNDOING)
"""States in which a change may be in place."""

HELPED, NOT_HELPED, UNPROVEN = "helped", "not helped", "unproven"
"""Outcomes: what was lost came back; it did not; nothing was seen by which to tell."""

LEAST_LOSS = 0.05
"""Least loss of a pool or group whose recovery can be told from noise."""
TIMES = (
    "created",
    "approved_at",
    "started_at",
    "called_at",
    "applied_at",
    "verified_at",
    "undo_at",
    "ended_at",
    "next_try",
)
"""Fields of an action that are seconds since 1970; a false value is none."""
MAX_HISTORY = 60
"""Entries of the history that are kept, the first and the latest ones."""


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What is shown before an action is approved. Texts for a person; nothing in it is carried out."""

    calls: tuple[str, ...] = ()
    """The calls, as they were rendered from the target's state when the plan was made."""
    effect: str = ""
    """What it should give back, and from which evidence."""
    risk: str = ""
    """low, medium or high."""
    blast_radius: str = ""
    """What it touches."""
    undo: str = ""
    verification: str = ""
    """How it will be verified."""
    notes: tuple[str, ...] = ()
    """Why this step: what milder step a target lacks, what was tried already."""
    undo_calls: tuple[str, ...] = ()
    """The calls that take the change back, rendered from the state before it; empty where it has no undo."""
    by_hand: bool = False
    """Whether a person runs the calls: they are rendered, and never made."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The diagnosis for which an action is made, as it was when the plan was made."""

    incident: str
    condition: str
    kind: str
    name: str
    rule: str
    rule_hash: str
    confidence: float
    severity: str
    opened_at: float
    mitigation: str
    loss: float = 0.0
    """Share of its work that the place lost by the diagnosis; 0 where it was not measured."""


@dataclass(frozen=True, slots=True)
class ActionScope:
    """What an action touches, for limits."""

    entity: str
    """Name of the changed entity in the topology: a replica, a node or a port."""
    kind: str
    """replica, node or port."""
    nodes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    pool: str = ""
    """Pool of a replica; '' for none."""
    peers: int = 1
    """Number of entities among which its work is shared: the replicas of the pool."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of an action's effect on the work of its scope.

    Each number is a share of the healthy level before the incident: 1 is healthy, 0.4 is 40 % of it; None where nothing
    was seen.
    """

    before: float | None = None
    """During the fault, before the change."""
    after: float | None = None
    """While the change was in place."""
    basis: str = ""
    """The signals that it was measured by."""
    working: bool | None = None
    """Whether any of the work of its scope still goes on; None where none was ever seen."""

    @property
    def recovery(self) -> float | None:
        """The share of the loss that came back; None where there was no loss to see, or nothing was seen."""
        if self.before is None or self.after is None or self.before > 1.0 - LEAST_LOSS:
            return None
        return (self.after - self.before) / (1.0 - self.before)


@dataclass(frozen=True, slots=True)
class Action:
    """One action. Times are seconds since 1970."""

    id: str
    state: str
    change: Change
    reason: Reason
    scope: ActionScope
    plan: ActionPlan
    created: float
    reversible: bool = True
    before: MemberState | None = None
    """The member before the change; stored before the first call."""
    approved_by: str = ""
    """Who approved: a name, or `policy` in the mode `act`."""
    approvers: tuple[str, ...] = ()
    """The persons who have approved it so far, each once."""
    approved_at: float | None = None
    started_at: float | None = None
    """When the intent was stored."""
    called_at: float | None = None
    """When its first call was about to be made: stored before it. What looks like its change before then is not its."""
    applied_at: float | None = None
    verified_at: float | None = None
    undo_at: float | None = None
    """When its undo began."""
    ended_at: float | None = None
    seen_in_state: bool = False
    seen_in_traffic: bool | None = None
    """None where the target does not count the work of its members, or there is none."""
    outcome: str = ""
    """HELPED, NOT_HELPED, UNPROVEN; '' before it is known."""
    measurement: Measurement = field(default_factory=Measurement)
    ending: str = ""
    """Why it is being, or was, ended."""
    ended_by: str = ""
    """The person who had it undone or refused; '' for none."""
    tries: int = 0
    """Failed tries in this state."""
    next_try: float = 0.0
    waiting: str = ""
    """What it waits for; '' for nothing."""
    stuck: bool = False
    """Whether a person has to look at it: its undo failed several times, or its target is gone. It is still tried."""
    fingerprint: str = ""
    """Of the system at which the change is made, by the content of its settings; '' where it is not known."""
    run: str = ""
    """The run of the target in which its change was last seen, as in `TargetState.run`."""
    forgotten: bool = False
    """Whether it was overridden since its target started anew: nobody has decided against it."""
    witness: str = ""
    """Who, other than those on whose telemetry the diagnosis rests, found the member slower than its peers before the
    change, and by how much; '' for nobody."""
    good_probes: int = 0
    """Probes in a row that found the member as quick as its peers."""
    history: History = ()

    @property
    def is_live(self) -> bool:
        """Whether it may still change something."""
        return self.state in LIVE_STATES

    @property
    def is_in_place(self) -> bool:
        """Whether its change may be in place."""
        return self.state in IN_PLACE_STATES

    @property
    def title(self) -> str:
        """What it does, in a few words: `drain w2 at front`."""
        share = f" to {100 * self.change.share:.0f} %" if self.change.share else ""
        return f"{self.change.kind} {self.change.member}{share} at {self.change.target}"

    def shift(self, seconds: float) -> "Action":
        """Returns the action with its times moved, after the clock was set by so much.

        As much time has then passed since each of them as before. The history stays as it was written.
        """
        moved = {name: time + seconds for name in TIMES if (time := getattr(self, name))}
        reason = replace(self.reason, opened_at=self.reason.opened_at + seconds)
        change = replace(self.change, expires=self.change.expires + seconds) if self.change.expires else self.change
        return replace(self, reason=reason, change=change, **moved)

    @property
    def newest_time(self) -> float:
        """The latest of its times that is over, seconds since 1970."""
        return max(getattr(self, name) or 0.0 for name in TIMES if name != "next_try")

    def note(self, t: float, what: str) -> "Action":
        """Returns the action with an entry in its history; of a long history the middle is dropped."""
        return replace(self, history=extend_history(self.history, t, what, MAX_HISTORY))

    def has_note(self, what: str) -> bool:
        """Returns whether an entry of its history says this."""
        return any(text == what for _, text in self.history)

    def move(self, t: float, state: str, what: str, **fields: Any) -> "Action":
        """Returns the action in another state, with a note; tries start anew."""
        ended = t if state in FINAL_STATES else None
        moved = replace(self, state=state, tries=0, next_try=0.0, waiting="", ended_at=ended, **fields)
        return moved.note(t, what)


def name_action(reason: Reason, change: Change, created: float) -> str:
    """Returns the id of a new action: the same for the same incident, change and time, so that a replay repeats it."""
    parts = (reason.incident, change.target, change.member, change.kind, f"{created:.3f}")
    return "a-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def action_to_json(action: Action) -> dict[str, Any]:
    """Returns an action as JSON values; `parse_action` reads them again."""
    change, reason, scope, plan = action.change, action.reason, action.scope, action.plan
    return {
        "version": 1,
        "id": action.id,
        "state": action.state,
        "title": action.title,
        "change": _plain(change) | {"parameters": dict(change.parameters)},
        "reason": _plain(reason),
        "scope": _plain(scope),
        "plan": _plain(plan),
        "created_at": rfc3339(action.created),
        **{name: getattr(action, name) for name in SIMPLE_FIELDS},
        "before": None if action.before is None else _plain(action.before) | {"details": dict(action.before.details)},
        "approvers": list(action.approvers),
        "measurement": _plain(action.measurement) | {"recovery": action.measurement.recovery},
        "history": [{"t": t, "time": rfc3339(t), "what": what} for t, what in action.history],
    }


SIMPLE_FIELDS = (
    "created",
    "reversible",
    "approved_by",
    "approved_at",
    "started_at",
    "called_at",
    "applied_at",
    "verified_at",
    "undo_at",
    "ended_at",
    "seen_in_state",
    "seen_in_traffic",
    "outcome",
    "ending",
    "ended_by",
    "tries",
    "next_try",
    "waiting",
    "stuck",
    "fingerprint",
    "run",
    "forgotten",
    "good_probes",
    "witness",
)
"""Fields whose values are JSON values."""


def _plain(value: Any) -> dict[str, Any]:
    """Returns the fields of a flat dataclass, with tuples as lists."""
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {name: list(one) if isinstance(one, tuple) else one for name, one in fields.items()}


def parse_action(data: Mapping[str, Any]) -> Action:
    """Parses what `action_to_json` returned.

    Raises:
        KeyError, TypeError, ValueError: it is not such an object.
    """
    change = Change(**{**data["change"], "parameters": tuple(sorted(data["change"]["parameters"].items()))})
    before = data["before"]
    measured = {name: one for name, one in data["measurement"].items() if name != "recovery"}
    # Versions before 2026-12 did not tell when the first call was made.
    simple = {"called_at": data["started_at"]} | {name: data[name] for name in SIMPLE_FIELDS if name in data}
    return Action(
        id=data["id"],
        state=data["state"],
        change=change,
        reason=Reason(**data["reason"]),
        scope=ActionScope(**_tuples(data["scope"])),
        plan=ActionPlan(**_tuples(data["plan"])),
        before=None
        if before is None
        else MemberState(**{**before, "details": tuple(sorted(before["details"].items()))}),
        approvers=tuple(data.get("approvers", ())),
        measurement=Measurement(**measured),
        history=tuple((float(one["t"]), str(one["what"])) for one in data["history"]),
        **simple,
    )


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(one) if isinstance(one, list) else one for name, one in data.items()}
