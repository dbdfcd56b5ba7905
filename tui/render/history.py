"""Answers of a history as lines and as JSON, and its plots as inline SVG. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING, Any

from skewscope.tui.render import text
from skewscope.tui.render.blocks import table_lines
from skewscope.tui.render.cell_picture import CellPicture, picture_svg
from skewscope.tui.render.text import Line, line

if TYPE_CHECKING:
    from skewscope.adapters.history.database import HistoryAnswer

MAX_CELL = 60
PLOT_WIDTH, BAR_HEIGHT, LEFT_MARGIN, TOP_MARGIN = 640, 18, 190, 4
WEEK_HEIGHT, WEEK_LEFT, WEEK_BOTTOM = 150, 48, 18
MAX_BARS = 12
SHADES = ("var(--crit)", "var(--warn)", "var(--info)", "var(--ok)", "var(--peer)")
"""Colours of the most frequent causes; the last one is of all others."""


def answer_lines(answer: "HistoryAnswer") -> list[Line]:
    """Returns an answer as a table."""
    if not answer.rows:
        return [line("No row.", "dim")]
    rows = [tuple(_cell_text(value) for value in row) for row in answer.rows]
    out = table_lines(rows, answer.columns)
    return [*out, line(f"More than {len(rows)} rows; --rows prints more.", "dim")] if answer.is_cut else out


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, list):
        return text.cut(", ".join(map(str, value)), MAX_CELL)
    return text.cut(str(value), MAX_CELL)


def answer_json(answer: "HistoryAnswer") -> list[dict[str, Any]]:
    """Returns an answer as an object for each row."""
    return [{name: _cell_json(value) for name, value in zip(answer.columns, row, strict=True)} for row in answer.rows]


def _cell_json(value: object) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, list):
        return [_cell_json(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


# --- plots


@dataclass(frozen=True, slots=True)
class HistoryPlots:
    """What the plots of a history show."""

    weeks: Sequence[tuple[datetime, str, int]]
    """(begin of the week, cause, diagnoses)."""
    racks: Sequence[tuple[str, float]]
    causes: Sequence[tuple[str, float]]
    """Diagnoses by rack, and by cause."""
    costs: Sequence[tuple[str, float]]
    """GPU hours lost, by cause."""
    nodes: CellPicture | None = None
    """Days at fault by node."""


def history_html(plots: HistoryPlots) -> str:
    """Returns the section of a page with skews over weeks, by rack, by cause and by cost; '' without any."""
    if not plots.weeks:
        return ""
    parts = [
        _week_plot(plots.weeks),
        _bar_plot("Diagnoses by rack", plots.racks),
        _bar_plot("Diagnoses by cause", plots.causes),
        _bar_plot("GPU hours lost by cause", plots.costs),
        _node_plot(plots.nodes),
    ]
    return f"<h2>History</h2>{''.join(parts)}"


def _node_plot(picture: CellPicture | None) -> str:
    """Returns the days at fault by node, '' without any."""
    if picture is None:
        return ""
    head = f"<h3>{_escape(picture.title)}</h3><p class=dim>{_escape(picture.legend)}</p>"
    return f"<figure>{head}{picture_svg(picture)}</figure>"


def _bar_plot(title: str, bars: Sequence[tuple[str, float]]) -> str:
    """Returns horizontal bars, the longest ones first, the rest as one."""
    shown = _fold_rest(bars)
    if not shown:
        return ""
    most = max(value for _, value in shown) or 1.0
    height = TOP_MARGIN + BAR_HEIGHT * len(shown)
    body = []
    for number, (name, value) in enumerate(shown):
        top = TOP_MARGIN + BAR_HEIGHT * number
        size = (PLOT_WIDTH - LEFT_MARGIN - 70) * value / most
        body.append(
            f"<text x={LEFT_MARGIN - 6} y={top + 13} text-anchor=end>{_escape(text.cut(name, 28))}</text>"
            f"<rect x={LEFT_MARGIN} y={top + 2} width={max(size, 1):.1f} height={BAR_HEIGHT - 4} fill=var(--info) />"
            f"<text x={LEFT_MARGIN + size + 5:.1f} y={top + 13}>{value:,.3g}</text>"
        )
    return _svg(title, height, body)


def _fold_rest(bars: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    ordered = sorted(bars, key=lambda bar: (-bar[1], bar[0]))
    rest = sum(value for _, value in ordered[MAX_BARS:])
    return [*ordered[:MAX_BARS], *([(f"{len(ordered) - MAX_BARS} others", rest)] if rest else [])]


def _week_plot(weeks: Sequence[tuple[datetime, str, int]]) -> str:
    """Returns columns of diagnoses, week by week, with a shade for each of the most frequent causes."""
    shades = _shades_of(weeks)
    begins = _all_weeks(week for week, _, _ in weeks)
    heights = {begin: [0.0] * len(SHADES) for begin in begins}
    for week, cause, count in weeks:
        heights[week][shades.get(cause, len(SHADES) - 1)] += count
    most = max(sum(each) for each in heights.values()) or 1.0
    wide = (PLOT_WIDTH - WEEK_LEFT) / len(begins)
    baseline = WEEK_HEIGHT - WEEK_BOTTOM
    body = [f"<path d='M{WEEK_LEFT} 2V{baseline}H{PLOT_WIDTH}' fill=none stroke=var(--line) />"]
    for number, begin in enumerate(begins):
        top = float(baseline)
        for shade, part in zip(SHADES, heights[begin], strict=True):
            size = part / most * (baseline - 8)
            top -= size
            if size:
                x, width = WEEK_LEFT + number * wide, max(wide - 1.5, 0.5)
                body.append(f"<rect x={x:.1f} y={top:.1f} width={width:.1f} height={size:.1f} fill={shade} />")
    ends = (begins[0], begins[-1])
    body += [
        f"<text x={WEEK_LEFT - 6} y=12 text-anchor=end>{most:,.0f}</text>",
        f"<text x={WEEK_LEFT} y={WEEK_HEIGHT - 3}>{ends[0]:%Y-%m-%d}</text>",
        f"<text x={PLOT_WIDTH} y={WEEK_HEIGHT - 3} text-anchor=end>{ends[1]:%Y-%m-%d}</text>",
    ]
    named = [*shades, *(["others"] if len({cause for _, cause, _ in weeks}) > len(shades) else [])]
    key = "".join(
        f"<span style='color:{shade}'>■</span> {_escape(name)} " for name, shade in zip(named, SHADES, strict=False)
    )
    return f"{_svg('Diagnoses by week', WEEK_HEIGHT, body)}<p class=dim>{key}</p>"


def _shades_of(weeks: Iterable[tuple[datetime, str, int]]) -> Mapping[str, int]:
    """Returns the place of the shade of each of the most frequent causes."""
    totals: dict[str, int] = {}
    for _, cause, count in weeks:
        totals[cause] = totals.get(cause, 0) + count
    ordered = sorted(totals, key=lambda cause: (-totals[cause], cause))
    return {cause: number for number, cause in enumerate(ordered[: len(SHADES) - 1])}


def _all_weeks(found: Iterable[datetime]) -> list[datetime]:
    """Returns every week from the first to the last one, also those without a diagnosis."""
    ordered = sorted(set(found))
    count = (ordered[-1] - ordered[0]).days // 7
    step = (ordered[-1] - ordered[0]) / count if count else None
    return [ordered[0], *([ordered[0] + step * n for n in range(1, count + 1)] if step else [])]


def _svg(title: str, height: int, body: Sequence[str]) -> str:
    head = f"<svg viewBox='0 0 {PLOT_WIDTH} {height}' role=img aria-label='{_escape(title)}'>"
    return f"<h3>{_escape(title)}</h3>{head}{''.join(body)}</svg>"


def _escape(value: str) -> str:
    return escape(text.sanitise(value))
