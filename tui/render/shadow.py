"""A shadow run as lines: its sums, and each change that acting would have planned. Pure.

Its JSON values come from a controller; those of another form raise KeyError, TypeError or AttributeError.
"""

from collections.abc import Mapping
from typing import Any

from skewscope.tui.render import units
from skewscope.tui.render.blocks import table_lines
from skewscope.tui.render.text import Line, line

MAX_SHOWN = 200
VERDICTS = ("in_time", "needless", "too_late", "asked", "blocked", "acted_upon", "unfinished")


def shadow_lines(result: Mapping[str, Any]) -> list[Line]:
    """Returns the sums of a shadow run, and a row for each change."""
    out = [*_sum_lines(result)]
    acts = result["acts"]
    if acts:
        rows = [_row(act) for act in acts[:MAX_SHOWN]]
        out += [(), *table_lines(rows, ("opened", "change", "begun", "out for", "fault then", "verdict"))]
    if len(acts) > MAX_SHOWN:
        out.append(line(f"and {len(acts) - MAX_SHOWN} more: --json has all of them", "dim"))
    for act in acts[:MAX_SHOWN]:
        out += [line(f"{act['title']}, {_short(act['opened_at'])}: waited: {why}", "dim") for why in act["waits"]]
    return out


def _sum_lines(result: Mapping[str, Any]) -> list[Line]:
    span = f"{result['days']:.3g} days to {_short(result['until_at'])} UTC"
    verdicts = " · ".join(f"{name.replace('_', ' ')} {result[name]}" for name in VERDICTS if result[name])
    out = [
        line(f"shadow run over {span}: nothing was called", "title"),
        line(f"{result['incidents']} incidents, {result['admitted']} sure enough to act upon"),
        line(
            f"{result['planned']} changes planned, {result['begun']} begun, at most {result['most_in_place']} at a time"
        ),
        *([line(f"  {verdicts}")] if verdicts else []),
    ]
    if result["blocks"]:
        blocks = ", ".join(f"{reason} {times}" for reason, times in result["blocks"].items())
        out.append(line(f"limits stopped changes: {blocks} times", "warn"))
    if result["ended_by_itself"]:
        median = units.format_duration(result["median_fault_s"])
        out.append(
            line(f"{result['ended_by_itself']} of their faults went by themselves, after {median} in the median")
        )
    if result.get("warning"):
        out.append(line(str(result["warning"]), "warn"))
    return out


def _row(act: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        _short(act["opened_at"]),
        str(act["title"]),
        "no" if act["begun_at"] is None else f"{_short(act['begun_at'])[6:]}",
        _duration(act["out_s"]),
        _duration(act["fault_after_begin_s"] if act["begun_at"] else act["fault_s"]),
        str(act["verdict"]),
    )


def _short(time: str) -> str:
    """Returns month, day and time of an RFC 3339 time."""
    return f"{time[5:10]} {time[11:19]}"


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else units.format_duration(seconds)
