"""Pages of incidents for browsers, and the form that exchanges a token for a session.

A page only reads. What it looks like is up to a renderer, which the process that starts the controller brings along.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from skewscope.adapters.controller.auth import AccessControl, DeniedError
from skewscope.adapters.controller.browser_sessions import format_cookie
from skewscope.adapters.controller.html_forms import PAGE_HEADERS, form_page, paragraph, read_form
from skewscope.adapters.controller.http_helpers import BadBodyError
from skewscope.adapters.view.member_history import PictureRenderer
from skewscope.adapters.view.snapshot import ViewSnapshot
from skewscope.engine.actions.action import Action
from skewscope.engine.model.incident import Incident, parse_incident
from skewscope.engine.model.topology import Topology

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import ApiContext

PAGE_PATH = re.compile(r"/(?:incidents/[\w.:@#%-]{1,200})?")
"""Pages to which a login leads back."""
OWN_SITES = ("", "same-origin", "none")
"""Values of `Sec-Fetch-Site` with which the form is accepted: that of an old browser, this site's, a person's."""
REFUSAL_DELAY_S = 1.0
"""Seconds before a wrong token is refused."""


@dataclass(frozen=True, slots=True)
class IncidentPageData:
    """What the pages show."""

    time: float
    """Now, in seconds since 1970 by the data."""
    topology: Topology
    incidents: tuple[Incident, ...]
    """The page's incident and those that it may refer to; of the overview all that are listed."""
    missing: tuple[str, ...] = ()
    """Missing telemetry, in sentences."""
    silenced: Mapping[str, str] | None = None
    """Id of the silence of each silenced incident."""
    actions: tuple[Action, ...] = ()
    """What was done about the incident."""
    members: ViewSnapshot | None = None
    """All series at the last moments; None where they are not kept."""


class PageRenderer(PictureRenderer, Protocol):
    """Renders pages as HTML."""

    def render_incident(self, id_: str, data: IncidentPageData) -> str:
        """Returns the page of one incident."""
        ...

    def render_overview(self, data: IncidentPageData) -> str:
        """Returns the page of all incidents."""
        ...


def wants_page(request: Request) -> bool:
    """Returns whether a client prefers HTML, as browsers do: it names it, and JSON not before it."""
    accepted = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    if "text/html" not in accepted:
        return False
    return "application/json" not in accepted[: accepted.index("text/html")]


async def show_incident(request: Request, context: "ApiContext") -> Response:
    """Shows one incident."""
    id_ = request.path_params["id"]
    text = await context.reads.run(("page", id_), partial(_render_incident, context, id_), request)
    if text is None:
        return form_page(404, "No such incident", [paragraph("It is not known here, or was deleted by its age.")])
    return HTMLResponse(text, headers=PAGE_HEADERS)


async def show_overview(request: Request, context: "ApiContext") -> Response:
    """Shows the incidents of the newest tick."""
    known = context.controller.last_result
    text = await context.tick_answers.get(known, "page", lambda: _render_overview(context).encode(), request)
    return HTMLResponse(text, headers=PAGE_HEADERS)


def _render_incident(context: "ApiContext", id_: str) -> str | None:
    data = _collect(context)
    if id_ not in {each.id for each in data.incidents}:
        stored = context.reader.incident(id_)
        if stored is None:
            return None
        data = replace(data, incidents=(*data.incidents, _restore(stored)))
    actions = context.controller.actions.coordinator.actions.values()
    data = replace(data, actions=tuple(each for each in actions if each.reason.incident == id_))
    assert context.pages is not None
    return context.pages.render_incident(id_, data)


def _render_overview(context: "ApiContext") -> str:
    assert context.pages is not None
    return context.pages.render_overview(_collect(context))


def _collect(context: "ApiContext") -> IncidentPageData:
    known, topology = context.controller.last_result, context.controller.config.topology
    if known is None:
        return IncidentPageData(context.controller.clock.now(), topology, ())
    shot = known.snapshot
    members = context.controller.members.view()
    return IncidentPageData(shot.time, topology, shot.incidents, tuple(shot.missing), shot.silenced, members=members)


def _restore(stored: Mapping[str, Any]) -> Incident:
    """Returns a stored incident with its history."""
    history = tuple((float(event["t"]), str(event["what"])) for event in stored["history"])
    return replace(parse_incident(stored), history=history)


# --- login


async def show_login(request: Request, _context: "ApiContext") -> Response:
    """Shows the form."""
    return login_page(200, request.query_params.get("to", "/"))


def login_page(status: int, to: str, why: str = "") -> Response:
    """Returns the form that takes a token, and leads back to a page."""
    target = to if PAGE_PATH.fullmatch(to) else "/"
    form = (
        f'<form method="post" action="/login"><input type="hidden" name="to" value="{escape(target)}">'
        "<p><label>Your token, of the role read or higher"
        '<input type="password" name="token" required autocomplete="current-password"></label></p>'
        "<button>Log in</button></form>"
    )
    reason = [paragraph(why)] if why else []
    return form_page(status, "Skewscope: log in", [*reason, form])


async def log_in(request: Request, context: "ApiContext") -> Response:
    """Exchanges a token for a session, and leads back to the page that was asked for."""
    if request.headers.get("sec-fetch-site", "") not in OWN_SITES:
        return login_page(403, "/", "The form of another site was refused.")
    try:
        given = await read_form(request)
    except BadBodyError as error:
        return login_page(error.status, "/", str(error))
    token, to = given.get("token", "").strip(), given.get("to", "/")
    control = AccessControl(context.controller.config)
    try:
        control.authorise(control.authenticate(f"Bearer {token}"), "read")
    except DeniedError as error:
        await asyncio.sleep(REFUSAL_DELAY_S)
        return login_page(403, to, f"Refused: {error}.")
    id_ = context.sessions.open(token, context.controller.clock.uptime())
    cookie = format_cookie(id_, secure=request.url.scheme == "https")
    target = to if PAGE_PATH.fullmatch(to) else "/"
    return RedirectResponse(target, 303, headers={"Set-Cookie": cookie, **PAGE_HEADERS})
