"""Answers to what-if and why-not as lines and as JSON. Pure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skewscope.engine.advice.incident_words import format_location
from skewscope.engine.model.incident import rfc3339
from skewscope.tui.render import units
from skewscope.tui.render.backtest import KINDS
from skewscope.tui.render.blocks import table_lines
from skewscope.tui.render.detail import DisplayNames, format_confidence
from skewscope.tui.render.expression_text import format_expression, split_definitions
from skewscope.tui.render.text import Line, line

if TYPE_CHECKING:
    from skewscope.adapters.backtest.difference import IncidentDifference
    from skewscope.adapters.backtest.probe import ItemState, RuleState
    from skewscope.adapters.backtest.what_if import WhatIfOutcome, WhyNotOutcome

FATES = {**KINDS, "same": "told all the same", "gone": "not told"}
"""Kinds of difference, of one incident."""
ROLES = {"yes": "ok", "no": "", "unknown": "warn"}


def what_if_lines(outcome: "WhatIfOutcome", supposed: str, names: DisplayNames) -> list[Line]:
    """Returns an answer; `supposed` says what was supposed."""
    one, difference = outcome.incident, outcome.difference
    moved = f" ({difference.seconds:+.3g} s)" if difference.seconds else ""
    fate = f"{FATES[difference.kind]}{moved}"
    out = [
        line(f"{names.incident_name(one)} at {format_location(one)}: {fate}", "title"),
        line(f"Supposed: {supposed}. It was told at {rfc3339(outcome.told_at)[:19]}Z.", "dim"),
    ]
    if difference.after is not None:
        confidence = f"{format_confidence(one)} → {format_confidence(difference.after)}"
        out.append(line(f"Confidence {confidence}; changed: {', '.join(difference.fields) or 'nothing else'}."))
    out += _turning_lines(outcome)
    if outcome.others:
        rows = [_other_row(each, names) for each in outcome.others]
        out += [(), line("Other incidents", "title"), *table_lines(rows, ("", "opened", "what", "where"))]
    return out


def _turning_lines(outcome: "WhatIfOutcome") -> list[Line]:
    """Returns the evidence at the time when it was told, before and after, what differs first."""
    before, after = outcome.before, outcome.after
    if before is None:
        return [(), line("It is a symptom: no rule weighs evidence for it.", "dim")]
    if after is None:
        return [(), line(f"The rule {before.rule} does not judge this entity then.", "dim")]
    after_items = {item.name: item for item in after.items}
    rows = [(item, after_items.get(item.name)) for item in before.items]
    rows.sort(key=lambda row: not _is_turned(*row))
    table = [
        (
            "▶" if _is_turned(was, would) else "",
            was.name,
            _weight_text(was),
            _verdict_text(was),
            _verdict_text(would) if would else "(not in the rule)",
            _thresholds_text(was),
        )
        for was, would in rows
    ]
    score = f"Score {before.score:g} → {after.score:g}; it fires from {after.needed:g}, held for {after.hold:g} s."
    titles = ("", "evidence", "weight", "was", "would be", "compared with")
    return [(), line(f"Evidence of {before.rule} when it was told", "title"), *table_lines(table, titles), line(score)]


def _is_turned(was: "ItemState", would: "ItemState | None") -> bool:
    return would is None or was.verdict != would.verdict


def _other_row(one: "IncidentDifference", names: DisplayNames) -> tuple[str, ...]:
    incident = one.incident
    opened = rfc3339(incident.opened_at)[:19] + "Z"
    return KINDS[one.kind], opened, names.incident_name(incident), format_location(incident)


def _weight_text(item: "ItemState") -> str:
    return f"{'against' if item.against else 'for'} {item.weight:g}{', required' if item.required else ''}"


def _verdict_text(item: "ItemState") -> str:
    if item.value is None:
        return item.verdict
    return f"{item.verdict}, {units.format_value(item.value, item.unit, share='percent' in item.expr)}"


def _thresholds_text(item: "ItemState") -> str:
    return ", ".join(_threshold_text(one, share="percent" in item.expr) for one in item.thresholds)


def _threshold_text(threshold: str, *, share: bool) -> str:
    """Returns `> 12 %` of `> 0.12` where shares are compared."""
    sign, _, number = threshold.partition(" ")
    if share and number.removeprefix("-").replace(".", "", 1).isdecimal():
        return f"{sign} {100 * float(number):g} %"
    return format_expression(threshold)


def why_not_lines(outcome: "WhyNotOutcome", names: DisplayNames) -> list[Line]:
    """Returns an answer: each rule of the condition with its evidence at that time, and what was open there."""
    out: list[Line] = []
    for state in outcome.states:
        out += [*_state_lines(state, names), ()]
    if outcome.incidents:
        told = "; ".join(f"{names.incident_name(one)} at {format_location(one)}" for one in outcome.incidents)
        out.append(line(f"Open there at that time: {told}."))
    else:
        out.append(line("Nothing was open there at that time."))
    return out


def _state_lines(state: "RuleState", names: DisplayNames) -> Iterator[Line]:
    when = rfc3339(state.time)[:19] + "Z"
    verdict = "it fires" if state.firing else f"it does not fire (verdict of the second: {state.state})"
    yield line(f"{names.condition_name(state.condition)} at {state.kind} {state.name}, {when}: {verdict}", "title")
    needed = f"score {state.score:g} of {state.needed:g} needed, held for {state.hold:g} s"
    yield line(f"{state.rule}: {needed}; {round(100 * state.coverage)} % of its evidence is seen.", "dim")
    for reason in state.reasons():
        yield line(f"  {reason}", "warn")
    rows = [(item.name, _weight_text(item), _verdict_text(item), _thresholds_text(item)) for item in state.items]
    yield from table_lines(rows, ("evidence", "weight", "verdict", "compared with"))
    for item in state.items:
        yield ((f"  {item.name}: ", ROLES[item.verdict]), (format_expression(split_definitions(item.expr)[0]), "dim"))
        for why in item.missing:
            yield line(f"    {why}", "warn")


# --- JSON


def what_if_json(outcome: "WhatIfOutcome", supposed: str) -> dict[str, Any]:
    """Returns an answer as values of JSON types."""
    difference = outcome.difference
    return {
        "incident": outcome.incident.id,
        "supposed": supposed,
        "told_at": rfc3339(outcome.told_at),
        "result": difference.kind,
        "later_s": round(difference.seconds, 3),
        "fields": list(difference.fields),
        "after": difference.after and difference.after.as_json(),
        "turned": [item["name"] for item in _turned_json(outcome)],
        "evidence": {"before": _rule_json(outcome.before), "after": _rule_json(outcome.after)},
        "others": [
            {"result": one.kind, "condition": one.incident.condition, "entity": one.incident.name}
            for one in outcome.others
        ],
    }


def _turned_json(outcome: "WhatIfOutcome") -> Iterator[dict[str, str]]:
    if outcome.before is None or outcome.after is None:
        return
    after = {item.name: item for item in outcome.after.items}
    for item in outcome.before.items:
        if _is_turned(item, after.get(item.name)):
            yield {"name": item.name}


def why_not_json(outcome: "WhyNotOutcome") -> dict[str, Any]:
    """Returns an answer as values of JSON types."""
    return {
        "condition": outcome.condition,
        "time": rfc3339(outcome.time),
        "rules": [_rule_json(state) for state in outcome.states],
        "open": [one.as_json() for one in outcome.incidents],
    }


def _rule_json(state: "RuleState | None") -> dict[str, Any] | None:
    if state is None:
        return None
    return {
        "rule": state.rule,
        "entity": {"kind": state.kind, "name": state.name},
        "time": rfc3339(state.time),
        "fires": state.firing,
        "verdict": state.state,
        "applies": state.applies,
        "score": state.score,
        "needed": state.needed,
        "hold_s": state.hold,
        "coverage": state.coverage,
        "reasons": list(state.reasons()),
        "evidence": [
            {
                "name": item.name,
                "weight": item.weight,
                "against": item.against,
                "required": item.required,
                "verdict": item.verdict,
                "value": item.value,
                "unit": item.unit,
                "thresholds": list(item.thresholds),
                "expr": item.expr,
                "missing": list(item.missing),
            }
            for item in state.items
        ],
    }
