"""The front page of the catalogue as lines: which skews there are, what they cost, what a DPU sees and can do. Pure."""

from collections.abc import Sequence

from skewscope.kb import citations
from skewscope.kb.model import Catalogue
from skewscope.kb.rank import RankRow
from skewscope.tui.render import units
from skewscope.tui.render.entry_summary import REACH_GLYPHS, SHORT_PLACES, VERDICT_GLYPHS
from skewscope.tui.render.text import Line, Span, line, pad, width, wrap

SEES_WIDTH, HELPS_WIDTH, SURE_WIDTH = 11, 9, 4
MIN_COST_WIDTH = 12
COST_TITLE = "costs (strongest measurement)"
MAX_NAME_WIDTH = 34


def front_lines(rows: Sequence[RankRow], catalogue: Catalogue, columns: int, most: int) -> list[Line]:
    """Returns the front page: sizes, the first `most` conditions with the three answers, and where to go on."""
    sizes = (
        units.format_count(len(rows), "condition"),
        units.format_count(len(catalogue.sources), "source"),
        f"catalogue {catalogue.version}",
    )
    return [
        ((" Skews of LLM clusters", "title"), (f"   {' · '.join(sizes)}", "dim")),
        (),
        *rank_lines(rows[:most], catalogue, columns),
        (),
        *(wrap(line(text, "dim"), columns, 1)[0] for text in (_legend(),)),
        (),
        ((" skewscope kb search ", "command"), ("why are my tokens jittery", "command")),
        ((" skewscope kb rank ", "command"), (f"             all {len(rows)}, --by sure, sees, helps or name", "dim")),
        ((" skewscope explain ID ", "command"), ("          one of them: what it is, costs, shows, what to do", "dim")),
        ((" skewscope kb --help", "command"),),
    ]


def rank_lines(rows: Sequence[RankRow], catalogue: Catalogue, columns: int) -> list[Line]:
    """Returns a table of conditions; the cost is wrapped in its column."""
    name = min(max((width(row.condition.name) for row in rows), default=0), MAX_NAME_WIDTH, max(columns // 3, 1))
    cost = max(columns - name - SURE_WIDTH - SEES_WIDTH - HELPS_WIDTH - 6, MIN_COST_WIDTH)
    what = COST_TITLE if width(COST_TITLE) <= cost else "costs"
    titles = (pad("which", name), pad(what, cost), "sure", pad("DPU sees", SEES_WIDTH))
    out: list[Line] = [line(f" {' '.join(titles)} DPU helps", "dim")]
    for row in rows:
        out += _row_lines(row, catalogue, name, cost)
    return out


def _row_lines(row: RankRow, catalogue: Catalogue, name: int, cost: int) -> list[Line]:
    names = wrap(line(row.condition.name), name) or [()]
    costs = wrap(_cost_line(row, catalogue), cost) or [()]
    sign, role = VERDICT_GLYPHS[row.best_verdict]
    reach, reach_role = REACH_GLYPHS[row.matrix.dpu]
    places = [SHORT_PLACES[place] for place in row.best_places]
    rows: list[Line] = []
    for n in range(max(len(names), len(costs), len(places))):
        left = _cell(names[n] if n < len(names) else (), name)
        middle = _cell(costs[n] if n < len(costs) else (), cost)
        sees = f"{sign if n == 0 else ' '} {places[n]}" if n < len(places) else sign if n == 0 else ""
        grade = row.condition.grade if n == 0 else ""
        helps = f"{reach} {row.matrix.dpu}" if n == 0 else ""
        rows.append(
            (
                (f" {left} ", "key"),
                (f"{middle} ", ""),
                (f"{pad(grade, SURE_WIDTH)} ", ""),
                (f"{pad(sees, SEES_WIDTH)} ", role),
                (helps, reach_role),
            )
        )
    return rows


def _cell(spans: Line | Sequence[Span], columns: int) -> str:
    return pad("".join(text for text, _ in spans), columns)


def _cost_line(row: RankRow, catalogue: Catalogue) -> Line:
    if row.cost is None:
        return line("no number known", "dim")
    source = catalogue.sources.get(row.cost.source)
    by = f" ({citations.byline(source)}, {source.year})" if source else ""
    return line(f"{row.cost.text}{by}")


def _legend() -> str:
    seen = "  ".join(f"{glyph} {verdict.replace('_', ' ')}" for verdict, (glyph, _) in VERDICT_GLYPHS.items())
    return f" sure: evidence A to D.  DPU sees: {seen}; where it sees most.  Each verdict is reasoned."


def rank_objects(rows: Sequence[RankRow]) -> list[dict[str, object]]:
    """Returns the rows as objects for JSON."""
    return [
        {
            "condition": row.condition.id,
            "name": row.condition.name,
            "grade": row.condition.grade,
            "cost": row.cost.text if row.cost else None,
            "source": row.cost.source if row.cost else None,
            "sees": row.matrix.verdicts,
            "helps": row.matrix.dpu,
        }
        for row in rows
    ]
