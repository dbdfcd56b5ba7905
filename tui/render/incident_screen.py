"""An incident on a screen: a sentence, a picture of its members, commands, and what else it could be. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skewscope.adapters.view.snapshot import ViewSnapshot
from skewscope.engine.model.incident import Incident, IncidentEvidence
from skewscope.tui.render import detail, drilldown, incident_layout
from skewscope.tui.render.cell_picture import CellPicture, picture_lines
from skewscope.tui.render.detail import Section
from skewscope.tui.render.evidence_value import SeriesReading
from skewscope.tui.render.incident_lead import lead_sections
from skewscope.tui.render.members_over_time import members_over_time
from skewscope.tui.render.node_lookup import NodeLookup
from skewscope.tui.render.rank_stops import MAX_GROUPS, find_rank_stops, stop_lines
from skewscope.tui.render.status import join_columns
from skewscope.tui.render.text import Line, justify, line, line_width, wrap

TWO_COLUMN_WIDTH = 120
LEFT_SHARE = 0.6
"""Share of a wide screen for picture and charts."""
FEW_MEMBERS, MANY_MEMBERS = 4, 12
"""Members of a picture on small and on large screens."""
MIN_TEXT_ROWS = 7
"""Rows that commands and alternatives need; a picture takes none of them."""
TALL_ROWS = 24


def draw_members(
    incident: Incident, snapshot: ViewSnapshot, node_lookup: NodeLookup, size: tuple[int, int], most: int = MANY_MEMBERS
) -> list[Line]:
    """Returns where its ranks stopped, or its members over time, as many as fit in a size; [] if none do or differ.

    Args:
        incident: the incident.
        snapshot: the series.
        node_lookup: the nodes of entities.
        size: columns and lines.
        most: members that a picture shows at most.
    """
    columns, room = size
    stops = find_rank_stops(incident, snapshot, node_lookup)
    if stops and stops.is_uneven:
        drawn = (stop_lines(stops, columns, groups) for groups in range(MAX_GROUPS, 0, -1))
        return next((lines for lines in drawn if len(lines) <= room), [])
    # Beside its members a picture has a line for all others, a title and an axis.
    picture = members_over_time(incident, snapshot, node_lookup, most=min(most, room - 3)) if room > 3 else None
    return _fit_picture(picture, columns, room) if picture else []


def _fit_picture(picture: CellPicture, columns: int, room: int) -> list[Line]:
    """Returns a picture in at most `room` lines, if need be without its legend; [] if it does not fit."""
    if len(picture.labels) + 2 > room:
        return []
    whole = [(), *picture_lines(picture, columns)]
    if len(whole) <= room:
        return whole
    short = picture_lines(replace(picture, legend=""), columns)[: len(picture.labels) + 2]
    return short if len(short) <= room else []


@dataclass(frozen=True)
class IncidentScreen:
    """The parts of an incident on a screen."""

    context: drilldown.DrilldownContext
    most: int = MANY_MEMBERS
    """Members that a picture shows at most."""

    def draw(self, columns: int, room: int) -> list[Line]:
        """Returns where its ranks stopped, or its members over time, as many as fit in `room` lines; [] if none do."""
        context = self.context
        return draw_members(context.incident, context.snapshot, context.node_lookup, (columns, room), self.most)

    @property
    def sections(self) -> tuple[Section, ...]:
        """What an operator needs first."""
        return lead_sections(self.context.incident, self.context.names)

    @property
    def sections_beside_charts(self) -> tuple[Section, ...]:
        """The same without the curves, which charts show."""
        names, read = self.context.names, self.context.names.read_series

        def read_text(incident: Incident, item: IncidentEvidence) -> SeriesReading | None:
            found = read(incident, item) if read else None
            return SeriesReading(found.text) if found else None

        return lead_sections(self.context.incident, replace(names, read_series=read_text))

    def heading(self, columns: int) -> list[Line]:
        """Returns the incident in a sentence or two: what, where, state, since when, what it costs, whom it affects."""
        head = detail.headline(self.context.incident, self.context.names, self.context.snapshot.time)
        # Beside a list the name of the condition stands in it.
        what, state, since = head.what, head.state, head.since
        if line_width(what) + line_width(state) < columns:
            return [justify(what, state, columns), *wrap(since, columns, 2)]
        (text, role), *rest = since
        return [*wrap(what, columns, 2), *wrap((("  ", ""), *state, (f" · {text.lstrip()}", role), *rest), columns, 2)]


def screen_lines(context: drilldown.DrilldownContext, columns: int, rows: int) -> list[Line]:
    """Returns an incident in at most `rows` lines: in two columns on a wide screen, else one below the other."""
    is_wide = columns >= TWO_COLUMN_WIDTH
    most = MANY_MEMBERS if rows >= TALL_ROWS else FEW_MEMBERS
    screen = IncidentScreen(context, most)
    return _wide_lines(screen, columns, rows) if is_wide else _narrow_lines(screen, columns, rows)


def _narrow_lines(screen: IncidentScreen, columns: int, rows: int) -> list[Line]:
    heading, sections = screen.heading(columns), screen.sections
    # The picture says why.
    text = sections if rows >= TALL_ROWS else tuple(part for part in sections if part.label != "why")
    # Sentences come before further members; a screen with room for neither shows a picture and the commands.
    needed = max(incident_layout.least_rows(text, columns), MIN_TEXT_ROWS)
    room = rows - len(heading)
    drawn = screen.draw(columns, room - needed) or screen.draw(columns, room - MIN_TEXT_ROWS)
    out, sections = [*heading, *drawn], text if drawn else sections
    return [*out, *incident_layout.fill_rows(sections, columns, rows - len(out))]


def _wide_lines(screen: IncidentScreen, columns: int, rows: int) -> list[Line]:
    left = int((columns - 3) * LEFT_SHARE)
    right = columns - left - 3
    heading = screen.heading(right)
    text = [*heading, *incident_layout.fill_rows(screen.sections_beside_charts, right, rows - len(heading) - 1)]
    text.append(line(f"id {screen.context.incident.id} · {screen.context.incident.condition}", "dim"))
    return _join(_left_lines(screen, left, rows), text, left, rows)


def _left_lines(screen: IncidentScreen, columns: int, rows: int) -> list[Line]:
    """Returns the picture of the members, then as many charts as there is room for."""
    drawn = screen.draw(columns, rows)
    out: list[Line] = [*(drawn if drawn[0] else drawn[1:]), ()] if drawn else []
    charts = drilldown.charts_of(screen.context, columns, rows)
    for chart in charts:
        if len(out) + len(chart) > rows and out:
            break
        out += chart
    return out


def _join(left: Sequence[Line], right: Sequence[Line], columns: int, rows: int) -> list[Line]:
    """Returns both columns with a rule between them."""
    ruled = [(("│ ", "dim"), *each) for each in (*right, *([()] * (rows - len(right))))]
    return join_columns([*left, *([()] * (len(ruled) - len(left)))][:rows], ruled[:rows], columns, 1)
