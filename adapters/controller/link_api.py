"""Pages behind the signed links of notifications: what would be done or looked after, and a form to decide.

A GET never changes anything: chat programs open links to preview them. The link itself authorises the form, which a
page of somebody else cannot know; pages are neither framed nor cached, and run no script.
"""

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from skewscope.adapters.actions.action_book import ActionRequestError
from skewscope.adapters.actions.approval_links import (
    ACKNOWLEDGE_PATH,
    LinkClaim,
    LinkError,
    LinkSettings,
    check_claim,
    read_link,
)
from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.summary import describe_action
from skewscope.adapters.controller.auth import AccessControl, DeniedError
from skewscope.adapters.controller.html_forms import form_page, paragraph, read_form
from skewscope.adapters.controller.http_helpers import BadBodyError
from skewscope.adapters.notify import incident_text
from skewscope.engine.actions.action import Action
from skewscope.engine.advice.incident_words import describe_incident
from skewscope.engine.model.incident import Incident
from skewscope.kb.loader import catalogue

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import ApiContext

MAX_WHY = 500


async def show_proposal(request: Request, context: "ApiContext") -> Response:
    """Shows plan and evidence of a proposal, and the form; changes nothing."""
    text = request.query_params.get("t", "")
    try:
        settings, claim, action = _open(request, context, text)
    except LinkError as error:
        return form_page(error.status, "Nothing to decide", [paragraph(str(error))])
    incident = _coordinator(context).view.incidents.get(action.reason.incident)
    parts = [*_plan_parts(action), *_evidence_parts(incident), _form(settings, claim, text)]
    return form_page(200, action.title, parts)


async def decide_proposal(request: Request, context: "ApiContext") -> Response:
    """Approves or refuses a proposal by the form of its page."""
    try:
        given = await read_form(request)
        settings, claim, action = _open(request, context, given.get("t", ""))
        who = _authenticate(context, given) if settings.login else claim.who
        if not (why := given.get("why", "").strip()[:MAX_WHY]):
            raise LinkError(400, "a reason is needed")
        coordinator = _coordinator(context)
        decide = {"approve": coordinator.approve, "refuse": coordinator.refuse}.get(given.get("verb", ""))
        if decide is None:
            raise LinkError(400, "approve or refuse was expected")
        decided = await decide(action.id, who, f"{why} (by a link to {claim.who})")
    except BadBodyError as error:
        return form_page(error.status, "Nothing was changed", [paragraph(str(error))])
    except LinkError as error:
        return form_page(error.status, "Nothing was changed", [paragraph(str(error))])
    except ActionRequestError as error:
        return form_page(409, "Nothing was changed", [paragraph(str(error))])
    return form_page(200, "Decided", [paragraph(f"{describe_action(decided)}.")])


async def show_acknowledgement(request: Request, context: "ApiContext") -> Response:
    """Shows which incident would be acknowledged by whom, and the form; changes nothing."""
    text = request.query_params.get("t", "")
    try:
        settings, claim, incident = _open_incident(request, context, text)
    except LinkError as error:
        return form_page(error.status, "Nothing to acknowledge", [paragraph(str(error))])
    assert context.controller.last_result is not None
    taken = context.controller.last_result.snapshot.acknowledged.get(incident.id, "")
    parts = [paragraph(f"{taken} looks after it already.")] if taken else []
    form = _form_head(settings, claim, text) + '<button name="verb" value="acknowledge">I look after it</button></form>'
    return form_page(200, describe_incident(incident, catalogue(), context.controller.config.topology), [*parts, form])


async def acknowledge_by_link(request: Request, context: "ApiContext") -> Response:
    """Notes by the form of its page who looks after an incident."""
    try:
        given = await read_form(request)
        settings, claim, incident = _open_incident(request, context, given.get("t", ""))
        who = _authenticate(context, given) if settings.login else claim.who
        await context.controller.acknowledge(who, incident.id, is_acknowledged=True)
    except (BadBodyError, LinkError) as error:
        return form_page(error.status, "Nothing was noted", [paragraph(str(error))])
    return form_page(200, "Noted", [paragraph(f"{who} looks after incident {incident.id}; all consoles show it.")])


def _open_incident(request: Request, context: "ApiContext", text: str) -> tuple[LinkSettings, LinkClaim, Incident]:
    """Returns the incident that a link is about.

    Raises:
        LinkError: it cannot be used.
    """
    settings, known = context.controller.config.actions.links, context.controller.last_result
    if settings is None:
        raise LinkError(404, "this controller makes no links")
    claim = read_link(settings, text, context.controller.clock.now(), ACKNOWLEDGE_PATH)
    incidents = known.snapshot.incidents if known is not None else ()
    found = next((one for one in incidents if one.id == claim.action == request.path_params["id"]), None)
    if found is None:
        raise LinkError(404, "no such incident, or it is over for long")
    return settings, claim, found


def _open(request: Request, context: "ApiContext", text: str) -> tuple[LinkSettings, LinkClaim, Action]:
    """Returns what a link is about.

    Raises:
        LinkError: it cannot be used.
    """
    coordinator = _coordinator(context)
    settings = coordinator.settings.links
    if settings is None:
        raise LinkError(404, "this controller makes no links")
    claim = read_link(settings, text, context.controller.clock.now())
    id_ = request.path_params["id"]
    return settings, claim, check_claim(claim, id_, coordinator.actions.get(id_))


def _authenticate(context: "ApiContext", given: dict[str, str]) -> str:
    """Returns the name of a token of the role `approve`.

    Raises:
        LinkError: there is none.
    """
    control = AccessControl(context.controller.config)
    try:
        if not given.get("token"):
            raise DeniedError("no token", known=False)
        caller = control.authenticate(f"Bearer {given['token']}")
        control.authorise(caller, "approve")
    except DeniedError as error:
        raise LinkError(403, f"your token is needed, of the role approve: {error}") from None
    return caller.name


def _plan_parts(action: Action) -> list[str]:
    plan, reason = action.plan, action.reason
    facts = {
        "for": f"{reason.condition} at {reason.kind} {reason.name}, {100 * reason.confidence:.0f} % sure",
        "state": describe_action(action),
        "effect": plan.effect,
        "risk": plan.risk,
        "touches": plan.blast_radius,
        "undo": "" if plan.undo_calls else plan.undo,
        "verified by": plan.verification,
        "notes": "; ".join(plan.notes),
    }
    out = [_facts(facts), "<h2>Calls</h2>", _listing(plan.calls)]
    return [*out, "<h2>Undo</h2>", _listing(plan.undo_calls)] if plan.undo_calls else out


def _evidence_parts(incident: Incident | None) -> list[str]:
    if incident is None:
        return [paragraph("The incident is over.")]
    texts = {
        "seen": incident_text.seen_text(incident) or incident_text.summary_text(incident),
        "otherwise": incident_text.otherwise_text(incident),
        "costs": incident_text.impact_text(incident),
        "by": incident_text.evidence_text(incident),
    }
    return ["<h2>Evidence</h2>", _facts(texts)]


def _form(settings: LinkSettings, claim: LinkClaim, text: str) -> str:
    return (
        f"{_form_head(settings, claim, text)}"
        f'<p><label>Reason<input name="why" required maxlength="{MAX_WHY}"></label></p>'
        '<button name="verb" value="approve">Approve</button><button name="verb" value="refuse">Refuse</button></form>'
    )


def _form_head(settings: LinkSettings, claim: LinkClaim, text: str) -> str:
    """Returns the begin of a form: the link, and a field for a token or the name of who decides."""
    token = (
        '<p><label>Your token<input type="password" name="token" required autocomplete="off"></label></p>'
        if settings.login
        else f"<p>You decide as <b>{escape(claim.who)}</b>.</p>"
    )
    return f'<form method="post" autocomplete="off"><input type="hidden" name="t" value="{escape(text)}">{token}'


def _facts(facts: Mapping[str, str]) -> str:
    shown = [f"<b>{escape(name)}</b>: {escape(text)}<br>" for name, text in facts.items() if text]
    return f"<p>{''.join(shown)}</p>"


def _listing(calls: Iterable[str]) -> str:
    return f"<pre>{escape(chr(10).join(calls) or 'none')}</pre>"


def _coordinator(context: "ApiContext") -> Coordinator:
    return context.controller.actions.coordinator
