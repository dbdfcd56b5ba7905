"""Actions as lines: plan, calls, evidence, state, history, measured effect. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from skewscope.adapters.actions.action_json import MitigationOutcomes
from skewscope.engine.actions import action as states
from skewscope.engine.actions.action import Action, ActionPlan, Measurement
from skewscope.engine.model.incident import Incident
from skewscope.tui.render import detail, incident_layout, units
from skewscope.tui.render.blocks import fact_lines, table_lines
from skewscope.tui.render.columns import Cell
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.incident_lead import STEP_LABELS, lead_sections
from skewscope.tui.render.text import Line, fit, line, line_width, wrap_lines

STATE_GLYPHS: Mapping[str, tuple[str, str]] = {
    states.PROPOSED: ("?", "warn"),
    states.APPROVED: ("·", "info"),
    states.APPLYING: ("▶", "info"),
    states.APPLIED: ("▶", "info"),
    states.VERIFIED: ("✓", "ok"),
    states.UNDOING: ("◀", "warn"),
    states.REFUSED: ("-", "dim"),
    states.EXPIRED: ("-", "dim"),
    states.FAILED: ("✖", "crit"),
    states.UNDONE: ("-", "dim"),
    states.OVERRIDDEN: ("!", "warn"),
    states.DONE: ("✓", "ok"),
}
"""Glyph and role by state."""
ORDER = (
    *(states.PROPOSED, states.UNDOING, states.APPLYING, states.APPLIED, states.APPROVED, states.VERIFIED),
    "ended",
)
"""What a person has to look at first."""
BESIDE_COLUMNS = 100
"""Least width from which the evidence stands beside the plan."""
MAX_HISTORY = 20


def state_glyph(action: Action) -> Cell:
    """Returns glyph and role of an action's state; an undo that fails again and again is an alarm."""
    return ("✖", "crit") if action.stuck else STATE_GLYPHS.get(action.state, ("·", ""))


def rank_actions(actions: Iterable[Action]) -> list[Action]:
    """Returns actions in the order in which a person looks at them: proposals first, ended ones last."""

    def rank(action: Action) -> tuple[int, int, float, str]:
        state = action.state if action.is_live else "ended"
        return (not action.stuck, ORDER.index(state), -(action.ended_at or action.created), action.id)

    return sorted(actions, key=rank)


def format_outcome(action: Action) -> str:
    """Returns what became of an action in a few words: what it waits for, whether it helped, how much came back."""
    if action.stuck:
        return "undo fails"
    if action.approvers and action.state == states.PROPOSED:
        return action.waiting.partition(",")[0]
    if (back := action.measurement.recovery) is not None and (action.outcome or action.is_in_place):
        return f"{action.outcome or 'gained'} {format_percent(back)}".strip()
    if action.outcome:
        return action.outcome
    return "waits" if action.is_live and action.waiting else ""


def format_percent(share: float) -> str:
    """Returns a share that came back, as a whole percentage between 0 and 100."""
    return f"{100 * min(max(share, 0.0), 1.0):.0f} %"


def format_measurement(measured: Measurement) -> str:
    """Returns what an action gave back; '' where nothing was measured."""
    if measured.before is None:
        return ""
    before = f"{100 * measured.before:.0f} % of the healthy level before"
    after = "not measured yet after it" if measured.after is None else f"{100 * measured.after:.0f} % after it"
    back = "" if measured.recovery is None else f": {format_percent(measured.recovery)} of what was lost is back"
    return f"{before}, {after}{back}" + (f" (by {measured.basis})" if measured.basis else "")


def action_line(action: Action, names: DisplayNames) -> Line:
    """Returns an action in one line, for lists."""
    glyph, role = state_glyph(action)
    outcome = format_outcome(action)
    facts = f"{action.title}  for {names.condition_name(action.reason.condition)} at {action.reason.name}"
    return (
        (f"{glyph} ", role),
        (f"{action.id}  ", "key"),
        (f"{action.state:10}  ", role),
        (facts, ""),
        (f"  {outcome}" if outcome else "", "dim"),
    )


def action_lines(
    action: Action, names: DisplayNames, incident: Incident | None, columns: int, *, hint: str = ""
) -> list[Line]:
    """Returns an action in full; on wide screens the evidence stands beside the plan.

    Args:
        action: the action.
        names: names of catalogue entries.
        incident: its incident; None where that is not known any more.
        columns: width in columns.
        hint: what a person can do with it now.
    """
    head = wrap_lines([*head_lines(action, names), *([line(hint, "dim")] if hint else []), ()], columns)
    plan = [*plan_lines(action.plan), *life_lines(action)]
    if columns < BESIDE_COLUMNS:
        first, rest = evidence_lines(action, names, incident, columns)
        return [*head, *first, (), *wrap_lines(plan, columns), (), *rest]
    half = columns // 2 - 1
    first, rest = evidence_lines(action, names, incident, half)
    return [*head, *join_columns(wrap_lines(plan, half), [*first, *rest], half)]


def join_columns(left: Sequence[Line], right: Sequence[Line], half: int) -> list[Line]:
    """Returns two blocks of lines side by side."""
    out: list[Line] = []
    for one, other in zip_longest(left, right, fillvalue=()):
        cut = fit(one, half)
        gap = half - line_width(cut)
        out.append((*cut, (" " * gap + "  ", ""), *other) if other else cut)
    return out


def head_lines(action: Action, names: DisplayNames) -> list[Line]:
    """Returns title, state and reason of an action."""
    glyph, role = state_glyph(action)
    reason = action.reason
    state: list[tuple[str, str]] = [(action.state, role)]
    if action.outcome:
        state.append((f" · {action.outcome}", ""))
    if action.waiting and action.is_live:
        state.append((f" · waits for: {action.waiting}", "dim"))
    what = f"for {names.condition_name(reason.condition)} at {reason.kind} {reason.name}, "
    sure = f"{100 * reason.confidence:.0f} % sure, {reason.severity}"
    out: list[Line] = [((f"{glyph} ", role), (action.title, "title")), tuple(state), line(f"{what}{sure}")]
    if action.stuck:
        out.append(line("Its undo failed several times: look at the target. It is still tried.", "crit"))
    return out


def evidence_lines(
    action: Action, names: DisplayNames, incident: Incident | None, columns: int
) -> tuple[list[Line], list[Line]]:
    """Returns what speaks for the diagnosis of an action, in short, and all evidence for and against."""
    title = line("evidence", "title")
    if incident is None:
        about = f"incident {action.reason.incident} is not in the present list; rule {action.reason.rule}"
        return [title, *wrap_lines([line(about, "dim")], columns)], []
    lead = [part for part in lead_sections(incident, names) if part.label not in STEP_LABELS]
    rest = detail.reasoning_sections(incident, names)
    first, more = (
        [row for part in some for row in incident_layout.section_lines(part, columns)] for some in (lead, rest)
    )
    return [title, *first], more


def plan_lines(plan: ActionPlan) -> list[Line]:
    """Returns a plan: calls, expected effect, risk, what it touches, undo, how it is verified."""
    out: list[Line] = [line("calls", "title")]
    out += call_lines(plan.calls) or [line("  none: it is made already, or the target was not asked", "dim")]
    if plan.undo_calls:
        out += [line("undo", "title"), *call_lines(plan.undo_calls)]
    undo = "" if plan.undo_calls else plan.undo
    out += fact_lines(
        *(("effect", plan.effect), ("risk", plan.risk), ("touches", plan.blast_radius), ("undo", undo)),
        *(("verified by", plan.verification), *(("note", note) for note in plan.notes)),
    )
    return out


def call_lines(calls: Iterable[str]) -> list[Line]:
    """Returns calls as they are made; a changed file as a diff."""
    out: list[Line] = []
    for call in calls:
        for row in call.splitlines():
            role = {"+": "added", "-": "gone"}.get(row[:1], "") if not row.startswith(("+++", "---")) else "dim"
            out.append(line(f"  {row}", role))
    return out


def life_lines(action: Action) -> list[Line]:
    """Returns what happened to an action: approval, what it gave back, history."""
    lasts = "" if not action.change.expires else f"{units.format_datetime(action.change.expires)} at the latest"
    out = fact_lines(
        ("approved by", action.approved_by),
        ("gained", format_measurement(action.measurement)),
        ("in traffic", {True: "seen", False: "not seen"}.get(action.seen_in_traffic, "")),  # type: ignore[arg-type]
        ("undone at", lasts if action.is_in_place and action.reversible else ""),
        ("because", action.ending),
        ("id", f"{action.id}, incident {action.reason.incident}"),
    )
    past = action.history[-MAX_HISTORY:]
    if len(past) < len(action.history):
        out.append(line(f"log: {len(action.history) - len(past)} earlier entries are left out", "dim"))
    out += [((f"  {units.format_time(t)}  ", "dim"), (what, "")) for t, what in past]
    return out


def outcome_lines(outcomes: Iterable[MitigationOutcomes], names: DisplayNames) -> list[Line]:
    """Returns how often each mitigation helped here, as a table."""
    rows = [
        (
            one.mitigation,
            *(str(n) for n in (one.carried_out, one.helped, one.not_helped, one.unproven)),
            "unknown" if one.recovery is None else format_percent(one.recovery),
            names.mitigation_name(one.mitigation),
        )
        for one in outcomes
    ]
    if not rows:
        return [line("No mitigation was carried out here.", "dim")]
    return table_lines(rows, ("mitigation", "done", "helped", "not", "unproven", "came back", "name"))


def outcome_sentence(one: MitigationOutcomes | None) -> str:
    """Returns in a sentence how often a mitigation helped in this deployment."""
    if one is None or not one.carried_out:
        return "It was not carried out here yet."
    times = units.format_count(one.carried_out, "time")
    back = "" if one.recovery is None else f" {format_percent(one.recovery)} of what was lost came back on average."
    return (
        f"Carried out here {times}: it helped {one.helped}, did not help {one.not_helped}, "
        f"was not proven {one.unproven}.{back}"
    )
