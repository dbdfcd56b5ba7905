"""Pages of a controller's incidents for browsers, made of the parts of the HTML report. Pure."""

from dataclasses import replace

from skewscope.adapters.controller.incident_pages import IncidentPageData
from skewscope.adapters.view.snapshot import ViewSnapshot
from skewscope.engine.model.incident import Incident
from skewscope.kb.loader import catalogue
from skewscope.tui.render import incident_table, report, units
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.evidence_reading import series_reader
from skewscope.tui.render.html_report import (
    HtmlReportData,
    incident_section,
    missing_section,
    overview_table,
    page_title,
    render_page,
    to_html,
)
from skewscope.tui.render.incident_screen import draw_members
from skewscope.tui.render.node_lookup import NodeLookup
from skewscope.tui.render.text import line, to_plain_text

INCIDENTS = "/incidents/"
CHAT_COLUMNS, CHAT_ROWS = 60, 8
"""Size of a picture in a chat."""
MAX_LISTED = 500
"""Incidents that the overview lists."""


class HtmlPages:
    """Renders the pages with the names of the catalogue."""

    def render_incident(self, id_: str, data: IncidentPageData) -> str:
        """Returns the page of one incident: what an operator needs, its reasoning folded, and its relations."""
        page, incident = _report_data(data), next(other for other in data.incidents if other.id == id_)
        back = "<p><a href='/'>all incidents</a></p>"
        silence = (data.silenced or {}).get(id_, "")
        silenced = f"<p class=info>{to_html(f'silenced by {silence}: nobody is notified')}</p>" if silence else ""
        body = [back, silenced, incident_section(incident, page, NodeLookup(data.topology)), _relations(incident, page)]
        return render_page(page_title(incident, page.names), body, page.provenance)

    def picture_text(self, incident: Incident, members: ViewSnapshot) -> str:
        """Returns the members beside an incident over time as a small text, '' where they do not differ."""
        lines = draw_members(incident, members, NodeLookup(members.topology), (CHAT_COLUMNS, CHAT_ROWS))
        return to_plain_text([each for each in lines if each]).rstrip()

    def render_overview(self, data: IncidentPageData) -> str:
        """Returns the page of all incidents, root causes first."""
        page = _report_data(data)
        rows = incident_table.rank_incidents(data.incidents)
        still = [row.incident for row in rows if not row.depth and row.incident.state == "firing"]
        title = f"{report.count_summary(still)} open" if still else "No incident is open"
        more = f"<p>{len(rows) - MAX_LISTED:,} more are not listed.</p>" if len(rows) > MAX_LISTED else ""
        return render_page(
            title, [overview_table(rows[:MAX_LISTED], page), more, missing_section(page)], page.provenance
        )


def _report_data(data: IncidentPageData) -> HtmlReportData:
    names = DisplayNames(catalogue(), data.incidents, topology=data.topology)
    view = data.members or ViewSnapshot(data.time, data.time, data.time, data.topology)
    view = replace(view, time=data.time, topology=data.topology, incidents=data.incidents)
    if data.members is not None:
        names = replace(names, read_series=series_reader(view, NodeLookup(data.topology)))
    made = f"as of {units.format_datetime(data.time)}"
    return HtmlReportData(
        "controller", view, names, line(""), "", data.missing, actions=data.actions, provenance=made, link=INCIDENTS
    )


def _relations(incident: Incident, page: HtmlReportData) -> str:
    """Returns links to the incident that explains this one, and to those that it explains."""
    names = page.names
    cause = names.find_incident(incident.explained_by.id) if incident.explained_by else None
    related = [*([cause] if cause else []), *names.explained_incidents(incident.id)]
    items = "".join(
        f"<li><a href='{to_html(INCIDENTS + other.id)}'>{to_html(names.incident_title(other))}</a>" for other in related
    )
    return f"<h2>Related incidents</h2><ul>{items}</ul>" if items else ""
