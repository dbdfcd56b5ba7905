"""What could be changed: dry runs of a controller, its targets, and the check of one target, as lines. Pure.

Answers of a controller come as JSON values; one of another form raises KeyError, TypeError or AttributeError.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from skewscope.adapters.actions.check import RENDER, CheckLine
from skewscope.tui.render.actions import call_lines
from skewscope.tui.render.blocks import fact_lines, table_lines
from skewscope.tui.render.text import Line, line

MAX_SHOWN = 200


def dry_run_lines(answer: Mapping[str, Any]) -> list[Line]:
    """Returns what could be done for an incident: why nothing would be proposed, then each change with its calls."""
    incident, changes = answer["incident"], answer["changes"]
    entity = incident["entity"]
    out: list[Line] = [line(f"{incident['condition']} at {entity['kind']} {entity['name']}", "title")]
    out.append(line("dry run: nothing is changed", "label"))
    out += [line(f"Nothing is planned: {why}.", "warn") for why in answer["obstacles"]]
    if answer.get("doubt"):
        out.append(line(f"A person is asked in any mode: {answer['doubt']}.", "warn"))
    for number, change in enumerate(changes[:MAX_SHOWN], 1):
        out += [(), *_change_lines(number, change)]
    return out


def _change_lines(number: int, change: Mapping[str, Any]) -> list[Line]:
    plan = change["plan"]
    share = f" to {100 * change['share']:.0f} %" if change["share"] else ""
    title = f"{number}. {change['kind']} {change['member']}{share} at {change['target']}"
    out: list[Line] = [((title, "title"), (f"  {change['mitigation']}, mode {change['mode']}", "dim"))]
    out += call_lines(str(call) for call in plan["calls"])
    if undo := plan.get("undo_calls"):
        out += [line("  undo", "label"), *call_lines(str(call) for call in undo)]
    if change["trouble"]:
        out.append(line(f"  no calls: {change['trouble']}", "warn"))
    out += fact_lines(
        *((name, str(plan[key])) for name, key in _PLAN_FACTS if not (key == "undo" and undo)),
        *(("note", str(note)) for note in plan["notes"]),
        *(("would wait", str(block)) for block in change["blocks"]),
    )
    return out


_PLAN_FACTS = (
    ("effect", "effect"),
    ("risk", "risk"),
    ("touches", "blast_radius"),
    ("undo", "undo"),
    ("verified by", "verification"),
)


def target_lines(targets: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Returns targets with what they can do and the state of their members."""
    out: list[Line] = []
    for target in targets[:MAX_SHOWN]:
        changes = ", ".join(
            str(kind) + ("" if support["reversible"] else " (no undo)") for kind, support in target["changes"].items()
        )
        out += [*([()] if out else []), ((str(target["name"]), "title"), (f"  {changes}", "dim"))]
        notes = {str(support["note"]) for support in target["changes"].values() if support["note"]}
        out += [line(f"  {note}", "dim") for note in sorted(notes)]
        if target["trouble"]:
            out.append(line(f"  no answer: {target['trouble']}", "warn"))
        rows = [_member_row(member) for member in target["members"][:MAX_SHOWN]]
        out += table_lines(rows, ("entity", "member", "in use", "weight", "changed by")) if rows else []
    return out


def _member_row(member: Mapping[str, Any]) -> tuple[str, ...]:
    serving = {True: "yes", False: "no"}.get(member["serving"], "unknown")
    weight = "" if member["weight"] is None else f"{member['weight']:g}"
    return str(member["entity"]), str(member["member"]), serving, weight, str(member["owner"])


def check_lines(title: str, found: Sequence[CheckLine]) -> list[Line]:
    """Returns the check of one target: what it answers, and the calls of each change."""
    wrong = sum(not one.ok for one in found)
    sums = (
        ("It can be used: nothing was changed.", "ok") if not wrong else (f"{wrong} of its answers are wrong.", "warn")
    )
    out: list[Line] = [line(title, "title"), line(*sums)]
    for one in found:
        about = " ".join(filter(None, (one.step, one.kind, one.member)))
        if one.step == RENDER and one.ok:
            out += [((f"{about}:", "key"),), *call_lines([one.text])]
        else:
            out.append(((f"{about}: ", "key"), (one.text, "" if one.ok else "warn")))
    return out
