"""A backtest as lines and as JSON: what versions of the rules tell, miss and tell wrongly. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import isnan
from statistics import median
from typing import TYPE_CHECKING, Any

from skewscope.engine.advice.incident_words import format_location
from skewscope.engine.model.incident import Incident, rfc3339
from skewscope.tui.render import units
from skewscope.tui.render.blocks import table_lines
from skewscope.tui.render.detail import DisplayNames, format_confidence
from skewscope.tui.render.text import Line, line

if TYPE_CHECKING:
    from skewscope.adapters.backtest.backtest import BacktestOutcome
    from skewscope.adapters.backtest.difference import IncidentDifference
    from skewscope.adapters.backtest.verdicts import FoundFault, RecordedIncident, VersionScore

MAX_ROWS = 40
"""Rows of a table that are printed; --json has all."""
KINDS = {
    "gone": "no longer told",
    "new": "told for the first time",
    "sooner": "told sooner",
    "later": "told later",
    "changed": "told differently",
}
"""Kinds of difference in words, in the order of the list; `same` is only counted."""


def backtest_lines(
    outcome: "BacktestOutcome",
    scores: "Sequence[VersionScore]",
    differences: "Sequence[IncidentDifference]",
    names: DisplayNames,
    seconds: float,
) -> list[Line]:
    """Returns a backtest that took so many seconds; the first version is the old one where there are two."""
    out = [_effort_line(outcome, seconds)]
    for score in scores:
        out += [(), line(score.name, "title"), *_score_lines(score, names)]
    if len(scores) > 1:
        out += [(), *_difference_lines(differences, names)]
    else:
        out += _told_lines(scores[0], names)
    return out


def _effort_line(outcome: "BacktestOutcome", seconds: float) -> Line:
    spans = [max(one.end - one.start, 0.0) for one in outcome.recordings]
    samples, days = sum(one.samples for one in outcome.recordings), sum(one.node_days for one in outcome.recordings)
    speed = f", {sum(spans) / seconds:,.0f} times as fast as real time" if seconds > 0 else ""
    read = units.format_count(len(outcome.recordings), "recording")
    told = f"{read}, {units.format_duration(sum(spans))}, {days:.3g} node-days, {samples:,} samples"
    return line(f"{told}: judged in {units.format_duration(seconds)}{speed}.")


def _score_lines(score: "VersionScore", names: DisplayNames) -> list[Line]:
    counts = [
        (len(score.diagnoses), "diagnosis"),
        (len(score.suspicions), "suspicion"),
        (len(score.symptoms), "symptom"),
    ]
    plural = {"diagnosis": "diagnoses", "suspicion": "suspicions", "symptom": "symptoms"}
    told = ", ".join(f"{n} {noun if n == 1 else plural[noun]}" for n, noun in counts)
    out: list[Line] = [(("told       ", "label"), (told, ""))]
    if not score.labelled_node_days:
        return [*out, line("Nothing says what was wrong (labels.json), so nothing is missed or wrong.", "dim")]
    faults = len(score.found) + len(score.missed)
    found = f"{len(score.found)} of {units.format_count(faults, 'fault')} that these rules can tell"
    out.append((("found      ", "label"), (f"{found}{_delay_text(score)}", "")))
    for recording, label in score.missed[:MAX_ROWS]:
        where = f"{label.names[0]} after {units.format_duration(label.begin)}, {recording}"
        out.append((("missed     ", "label"), (f"{names.condition_name(label.condition)} at {where}", "warn")))
    rate = f"{score.false_alarms_a_node_day:.3g} false alarms a node-day"
    most = f"at most {score.false_alarm_limit:.3g} (95 %)"
    out.append((("wrong      ", "label"), (f"{len(score.wrong)}: {rate}, {most}", "")))
    if not isnan(score.calibration_error):
        text = f"confidence differs from how often it is right by {100 * score.calibration_error:.1f} points"
        out.append((("calibrated ", "label"), (text, "")))
    return out


def _delay_text(score: "VersionScore") -> str:
    """Returns the median delay of the faults that were found, '' without any."""
    if not score.found:
        return ""
    return f", median {units.format_duration(median(one.delay_s for one in score.found))} after they began"


def _told_lines(score: "VersionScore", names: DisplayNames) -> list[Line]:
    rows = [_incident_row(one, score, names) for one in (*score.diagnoses, *score.suspicions, *score.symptoms)]
    if not rows:
        return []
    titles = ("opened", "what", "where", "confidence", "label", "recording")
    return [(), *table_lines(rows[:MAX_ROWS], titles), *_more_lines(len(rows) - MAX_ROWS)]


def _incident_row(one: "RecordedIncident", score: "VersionScore", names: DisplayNames) -> tuple[str, ...]:
    verdict = score.verdicts.get((one.recording, one.incident.id), "")
    return (*_place_cells(one.incident, names), format_confidence(one.incident), verdict, one.recording)


def _place_cells(incident: Incident, names: DisplayNames) -> tuple[str, str, str]:
    return rfc3339(incident.opened_at)[:19] + "Z", names.incident_name(incident), format_location(incident)


def _more_lines(count: int) -> list[Line]:
    return [line(f"{count} more; --json prints all.", "dim")] if count > 0 else []


def _difference_lines(differences: "Sequence[IncidentDifference]", names: DisplayNames) -> list[Line]:
    counts = Counter(one.kind for one in differences)
    told = [f"{counts[kind]} {words}" for kind, words in KINDS.items() if counts[kind]]
    same = units.format_count(counts["same"], "incident") + (" is" if counts["same"] == 1 else " are")
    out = [line("Difference", "title"), line(f"{'; '.join([*told, f'{same} the same'])}.")]
    order = list(KINDS)
    shown = sorted((one for one in differences if one.kind in KINDS), key=lambda one: order.index(one.kind))
    rows = [
        (KINDS[one.kind], *_place_cells(one.incident, names), _change_text(one), one.verdict, one.recording)
        for one in shown
    ]
    if rows:
        titles = ("", "opened", "what", "where", "change", "label", "recording")
        out += [(), *table_lines(rows[:MAX_ROWS], titles), *_more_lines(len(rows) - MAX_ROWS)]
    return out


def _change_text(one: "IncidentDifference") -> str:
    moved = f"{one.seconds:+.3g} s" if one.seconds else ""
    before, after = one.before, one.after
    if before is None or after is None:
        return ""
    more = [
        f"confidence {format_confidence(before)} → {format_confidence(after)}" if name == "confidence" else name
        for name in one.fields
    ]
    return ", ".join(part for part in (moved, *more) if part)


# --- JSON


def backtest_json(
    outcome: "BacktestOutcome",
    scores: "Sequence[VersionScore]",
    differences: "Sequence[IncidentDifference]",
    seconds: float,
) -> dict[str, Any]:
    """Returns a backtest as values of JSON types."""
    versions = [
        {
            "name": score.name,
            "rules": [{"id": rule.id, "hash": rule.hash} for rule in version.rules if rule.id in version.tried],
            **_score_json(score),
        }
        for version, score in zip(outcome.versions, scores, strict=True)
    ]
    recordings = [
        {
            "name": one.name,
            "nodes": len(one.topology.nodes),
            "start": rfc3339(one.start),
            "end": rfc3339(one.end),
            "samples": one.samples,
            "labels": None if one.labels is None else len(one.labels),
        }
        for one in outcome.recordings
    ]
    told = {"differences": [_difference_json(one) for one in differences]} if len(scores) > 1 else {}
    return {"recordings": recordings, "seconds": round(seconds, 3), "versions": versions, **told}


def _score_json(score: "VersionScore") -> dict[str, Any]:
    return {
        "node_days": score.node_days,
        "labelled_node_days": score.labelled_node_days,
        "told": [_told_json(one, score) for one in (*score.diagnoses, *score.suspicions, *score.symptoms)],
        "found": [_found_json(one) for one in score.found],
        "missed": [
            {"recording": recording, "condition": label.condition, "entity": label.names[0], "begin_s": label.begin}
            for recording, label in score.missed
        ],
        "wrong": [{"recording": one.recording, "incident": one.incident.id} for one in score.wrong],
        "false_alarms_a_node_day": _json_number(score.false_alarms_a_node_day),
        "false_alarms_a_node_day_at_most": _json_number(score.false_alarm_limit),
        "calibration_error": _json_number(score.calibration_error),
    }


def _told_json(one: "RecordedIncident", score: "VersionScore") -> dict[str, Any]:
    verdict = score.verdicts.get((one.recording, one.incident.id), "") or None
    return {"recording": one.recording, "label": verdict, "incident": one.incident.as_json()}


def _found_json(one: "FoundFault") -> dict[str, Any]:
    return {
        "recording": one.recording,
        "condition": one.label.condition,
        "entity": one.label.names[0],
        "incident": one.incident.id,
        "delay_s": round(one.delay_s, 3),
    }


def _difference_json(one: "IncidentDifference") -> dict[str, Any]:
    return {
        "kind": one.kind,
        "recording": one.recording,
        "condition": one.incident.condition,
        "entity": {"kind": one.incident.kind, "name": one.incident.name},
        "before": one.before and one.before.id,
        "after": one.after and one.after.id,
        "later_s": round(one.seconds, 3),
        "fields": list(one.fields),
        "label": one.verdict or None,
    }


def _json_number(value: float) -> float | None:
    return None if isnan(value) else round(value, 6)


def all_incidents(outcome: "BacktestOutcome") -> Iterable[Incident]:
    """Yields the incidents of all recordings and versions."""
    for recording in outcome.recordings:
        for incidents in recording.incidents:
            yield from incidents
