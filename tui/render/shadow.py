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


def shadow_lines(found: Mapping[str, Any]) -> list[Line]:
    """Returns the sums of a shadow run, and a row for each change."""
    out = [*_sum_lines(found)]
    acts = found["acts"]
    if acts:
        rows = [_row(one) for one in acts[:MAX_SHOWN]]
        out += [(), *table_lines(rows, ("opened", "change", "begun", "out for", "fault then", "verdict"))]
    if len(acts) > MAX_SHOWN:
        out.append(line(f"and {len(acts) - MAX_SHOWN} more: --json has all of them", "dim"))
    for one in acts[:MAX_SHOWN]:
        out += [line(f"{one['title']}, {_short(one['opened_at'])}: waited: {why}", "dim") for why in one["waits"]]
    return out


def _sum_lines(found: Mapping[str, Any]) -> list[Line]:
    span = f"{found['days']:.3g} days to {_short(found['until_at'])} UTC"
    verdicts = " · ".join(f"{name.replace('_', ' ')} {found[name]}" for name in VERDICTS if found[name])
    out = [
        line(f"shadow run over {span}: nothing was called", "title"),
        line(f"{found['incidents']} incidents, {found['admitted']} sure enough to act upon"),
        line(f"{found['planned']} changes planned, {found['begun']} begun, at most {found['most_in_place']} at a time"),
        *([line(f"  {verdicts}")] if verdicts else []),
    ]
    if found["blocks"]:
        blocks = ", ".join(f"{reason} {times}" for reason, times in found["blocks"].items())
        out.append(line(f"limits stopped changes: {blocks} times", "warn"))
    if found["ended_by_itself"]:
        median = units.format_duration(found["median_fault_s"])
        out.append(line(f"{found['ended_by_itself']} of their faults went by themselves, after {median} in the median"))
    if found.get("warning"):
        out.append(line(str(found["warning"]), "warn"))
    return out


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        _short(one["opened_at"]),
        f"{one['title']}",
        "no" if one["begun_at"] is None else f"{_short(one['begun_at'])[6:]}",
        _duration(one["out_s"]),
        _duration(one["fault_after_begin_s"] if one["begun_at"] else one["fault_s"]),
        str(one["verdict"]),
    )


def _short(time: str) -> str:
    """Returns month, day and time of an RFC 3339 time."""
    return f"{time[5:10]} {time[11:19]}"


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else units.format_duration(seconds)
