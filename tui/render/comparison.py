"""A comparison of two sides as lines and as JSON. Pure."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from skewscope.adapters.notify.incident_text import title
from skewscope.adapters.results.run_comparison import ALIKE, WORSE
from skewscope.kb.model import Catalogue
from skewscope.tui.render.blocks import table_lines
from skewscope.tui.render.text import Line, line, wrap

if TYPE_CHECKING:
    from skewscope.adapters.comparison.comparison import SideComparison
    from skewscope.adapters.results.run_comparison import QuantityChange

VERSION = 1
"""Version of the JSON form."""
MAX_ROWS = 20
"""Rows of recordings that are printed; --json has all."""
MAX_PLACES = 3
"""Places up to which the rows stay in the order of their quantities."""
MAX_CAUSES = 3
MAX_INCIDENTS = 8


def comparison_lines(found: "SideComparison", sides: tuple[str, str], known: Catalogue, columns: int) -> list[Line]:
    """Returns the answer first, then what else was found, the numbers, and the conditions that fit."""
    width = min(columns, 110)
    out = [line(f"{sides[0]} -> {sides[1]}", "title"), *wrap(line(found.sentence), width, 2)]
    for finding in found.findings[1:]:
        out += wrap(line(f"{finding.text}."), width, 2)
    for incident in found.incidents[1:MAX_INCIDENTS]:
        out += wrap(line(f"New is {title(incident)}."), width, 2)
    out += [(), *_change_lines(found)]
    if causes := found.causes[:MAX_CAUSES]:
        out.append(())
        for number, (cause, probability) in enumerate(causes, 1):
            head = "causes " if number == 1 else "       "
            out.append(line(f"{head} {number} {known.conditions[cause].name}  {probability:.0%}"))
    for finding in found.findings[:1]:
        out += [(), *wrap(line(f"first   {known.events[finding.event].first}"), width, 8)]
    return out


def _change_lines(found: "SideComparison") -> Iterator[Line]:
    """Yields the numbers as a table; of many places the worst first."""
    rows = list(found.changes)
    if len({each.place for each in rows}) > MAX_PLACES:
        told = (each for each in rows if each.verdict != ALIKE)
        rows = sorted(told, key=lambda each: (each.verdict != WORSE, -each.badness))[:MAX_ROWS]
    if rows:
        yield from table_lines(map(_row, rows), ("what", "place", "before", "after", "ratio", "counts from", "verdict"))
    if len(rows) < len(found.changes):
        alike = sum(each.verdict == ALIKE for each in found.changes)
        yield line(f"{alike} of {len(found.changes)} levels are alike; --json has all of them.", "dim")


def _row(change: "QuantityChange") -> tuple[str, ...]:
    before, after = change.texts
    ratio = f"{change.ratio:.3g}" if change.before and change.after else "-"
    return change.what, change.place, before, after, ratio, f"{change.limit:.3g}", change.verdict


def comparison_json(found: "SideComparison", sides: Sequence[str], known: Catalogue) -> dict[str, Any]:
    """Returns a comparison as JSON; ratios of what was zero are null."""
    return {
        "version": VERSION,
        "before": sides[0],
        "after": sides[1],
        "kind": found.kind,
        "verdict": found.verdict,
        "sentence": found.sentence,
        "findings": [
            {
                "event": each.event,
                "symptom": known.events[each.event].symptom,
                "text": each.text,
                "nodes": list(each.nodes),
                "first": known.events[each.event].first,
            }
            for each in found.findings
        ],
        "incidents": [
            {"condition": each.condition, "kind": each.kind, "name": each.name, "summary": each.summary or title(each)}
            for each in found.incidents
        ],
        "causes": [{"condition": name, "probability": round(share, 3)} for name, share in found.causes],
        "changes": [
            {
                "name": each.name,
                "what": each.what,
                "place": each.place,
                "unit": each.unit,
                "before": each.before,
                "after": each.after,
                "ratio": each.ratio if each.before else None,
                "limit": each.limit,
                "verdict": each.verdict,
            }
            for each in found.changes
        ],
    }
