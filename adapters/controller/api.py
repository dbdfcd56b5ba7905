"""The controller's HTTP API: one table of routes, from which the OpenAPI description is generated too."""

import asyncio
import json
import math
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from skewscope.adapters.actions.readings import TargetReadings
from skewscope.adapters.controller import (
    action_api,
    freeze_api,
    health,
    health_overview,
    incident_pages,
    link_api,
    metrics,
    order_api,
    shadow_api,
    silence_api,
)
from skewscope.adapters.controller.acknowledgements import acknowledge_incident
from skewscope.adapters.controller.auth import ANONYMOUS, DeniedError
from skewscope.adapters.controller.browser_sessions import BrowserSessions
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.http_helpers import caller_of, check_access, error_response
from skewscope.adapters.controller.incident_pages import PageRenderer
from skewscope.adapters.controller.openapi import build_description
from skewscope.adapters.controller.route import Route
from skewscope.adapters.controller.shared_work import KeptAnswers, SharedWork
from skewscope.adapters.controller.store import MAX_EVENTS, IncidentEvent, StoreReader
from skewscope.adapters.controller.tick_pipeline import TickResult
from skewscope.adapters.formats.topology_text import SMALL_FLEET, digest_topology, format_topology, subset_for_node
from skewscope.adapters.runtime.blocking_calls import STORE
from skewscope.adapters.view.broadcast import CONTENT_TYPE as SCENE
from skewscope.adapters.view.broadcast import encode_view
from skewscope.engine.model.incident import DIAGNOSIS, SYMPTOM, rfc3339
from skewscope.kb.problems import InputError

T = TypeVar("T")

API_PREFIX = "/api/v1"
HEARTBEAT = 15.0
"""Seconds of silence after which a stream sends a heartbeat."""
STALE_AFTER = 10.0
"""Seconds without a tick after which a controller is not ready."""
MAX_STREAMS = 200
MAX_STREAMS_OF_ONE = 50
"""Event streams of one name: a token that is lost must not take those of all others."""
MAX_LISTED = 1000
MAX_KEPT_PARTS = 1024
"""Maximum parts of a topology that are kept as text."""
MAX_KEPT_LISTS = 8
"""Maximum answers about a tick, of each kind, that are kept: those to the usual queries."""


@dataclass
class ApiContext:
    """What handlers have access to."""

    controller: Controller
    reader: StoreReader
    streams: Counter[str] = field(default_factory=Counter)
    """Event streams, by who reads them."""
    polls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Requests that wait for orders, by the name of the token and the node."""
    reads: SharedWork = field(default_factory=lambda: SharedWork("reads", threads=2))
    """Reads the store."""
    previews: SharedWork = field(default_factory=lambda: SharedWork("previews"))
    """Reads as much of the store as takes seconds."""
    readings: TargetReadings = field(default_factory=TargetReadings)
    _formatting: SharedWork = field(default_factory=lambda: SharedWork("formatting"))
    topology_texts: KeptAnswers = field(init=False)
    tick_lists: KeptAnswers = field(init=False)
    """What the store says after a tick."""
    tick_answers: KeptAnswers = field(init=False)
    views: KeptAnswers = field(init=False)
    pages: PageRenderer | None = None
    """Renders pages for browsers; None where there are none."""
    sessions: BrowserSessions = field(default_factory=BrowserSessions)
    _new_events: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.controller.subscribers.append(self._on_tick)
        self.topology_texts = KeptAnswers(self._formatting, MAX_KEPT_PARTS)
        self.tick_lists = KeptAnswers(self.reads, MAX_KEPT_LISTS)
        self.tick_answers = KeptAnswers(self._formatting, MAX_KEPT_LISTS)
        self.views = KeptAnswers(self._formatting, MAX_KEPT_LISTS)

    def end_stream(self, who: str) -> None:
        """Counts a stream as ended."""
        self.streams[who] -= 1
        if not self.streams[who]:
            del self.streams[who]

    def _on_tick(self, known: TickResult) -> None:
        if known.events:
            self.wake_streams()

    def wake_streams(self) -> None:
        """Has event streams look for events, and whether their readers still have access."""
        self._new_events.set()
        self._new_events = asyncio.Event()

    async def events(self, after: int) -> AsyncIterator[list[IncidentEvent]]:
        """Yields the events after an event in groups; an empty list after a while without news, or after a wake-up."""
        is_first = True
        while True:
            news = self._new_events
            found = await STORE.run(self.reader.events, after, MAX_EVENTS)
            if found or not is_first:
                yield found
            is_first = False
            if found:
                after = found[-1].number
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT):
                    await news.wait()


async def get_liveness(_request: Request, _site: ApiContext) -> Response:
    """Reports that the process responds."""
    return PlainTextResponse("ok\n")


async def get_readiness(_request: Request, context: ApiContext) -> Response:
    """Reports whether ticks are advancing."""
    passed = context.controller.seconds_since_tick()
    if passed is None or passed > STALE_AFTER:
        return PlainTextResponse("no tick yet\n" if passed is None else "ticks are not advancing\n", 503)
    return PlainTextResponse("ok\n")


async def get_metrics(_request: Request, context: ApiContext) -> Response:
    """Returns the controller's own metrics."""
    return PlainTextResponse(metrics.format_metrics(context.controller), headers={"Content-Type": metrics.CONTENT_TYPE})


async def get_topology(request: Request, context: ApiContext) -> Response:
    """Returns the topology; of a large one, the part that concerns a node."""
    whole, node = context.controller.config.topology, request.query_params.get("node", "")
    texts, part = context.topology_texts, node if len(whole.nodes) > SMALL_FLEET and node in whole.node else ""
    tag = f'"{await texts.get(whole, None, partial(digest_topology, whole), request)}"'
    if tag in [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers={"ETag": tag})
    text = await texts.get(whole, part, lambda: format_topology(subset_for_node(whole, part)).encode(), request)
    return Response(text, media_type="application/yaml", headers={"ETag": tag})


async def list_topology_changes(_request: Request, context: ApiContext) -> Response:
    """Returns what of the topology began, ended, moved or was renamed, the latest first."""
    found = context.controller.discovery
    changes = [asdict(one) | {"t": rfc3339(one.t)} for one in reversed(found.changes if found is not None else ())]
    return JSONResponse({"discovers": found is not None, "changes": changes})


async def list_incidents(request: Request, context: ApiContext) -> Response:
    """Returns incidents, latest first."""
    state = request.query_params.get("state", "")
    if state not in ("", "firing", "resolved"):
        return error_response(400, f"state is {state[:40]!r}: firing, resolved or nothing was expected")
    kind = request.query_params.get("kind", "")
    if kind not in ("", DIAGNOSIS, SYMPTOM):
        return error_response(400, f"kind is {kind[:40]!r}: diagnosis, symptom or nothing was expected")

    def work() -> bytes:
        nothing: list[dict[str, Any]] = []
        found = _read(context, partial(context.reader.incidents, state, MAX_LISTED, kind), nothing)
        shown = _merge_pending(found, state, kind, context)
        return bytes(JSONResponse({"incidents": [_add_silence(one, context) for one in shown]}).body)

    text = await context.tick_lists.get(context.controller.last_result, (state, kind), work, request)
    return Response(text, media_type="application/json")


def _read(context: ApiContext, query: Callable[[], T], otherwise: T) -> T:
    """Returns what the store says; while it cannot be written, it may not be readable either."""
    try:
        return query()
    except (sqlite3.Error, InputError):
        known = context.controller.last_result
        if known is None or known.store_ok:
            raise
        return otherwise


def _merge_pending(found: list[dict[str, Any]], state: str, kind: str, context: ApiContext) -> list[dict[str, Any]]:
    """Merges stored incidents with those not yet written to the store."""
    known = context.controller.last_result
    if known is None or known.store_ok:
        return found
    newer = {one.id: one.as_json() for one in known.snapshot.incidents}
    whole = {one["id"]: one for one in found} | newer
    here = [one for one in whole.values() if state in ("", one["state"]) and kind in ("", one["kind"])]
    return sorted(here, key=lambda one: one["opened_at"], reverse=True)[:MAX_LISTED]


def _add_silence(payload: dict[str, Any], context: ApiContext) -> dict[str, Any]:
    """Adds the silence that suppresses notifications of an incident, and who acknowledged it; None without one."""
    known = context.controller.last_result
    silence = known.snapshot.silenced.get(payload["id"]) if known else None
    who = known.snapshot.acknowledged.get(payload["id"]) if known else None
    return payload | {"silenced_by": silence, "acknowledged_by": who}


async def get_incident(request: Request, context: ApiContext) -> Response:
    """Returns one incident with its history."""
    asked = request.path_params["id"]
    query = partial(_read, context, partial(context.reader.incident, asked), None)
    found = await context.reads.run(("incident", asked), query, request)
    if found is None:
        found = next((one | {"history": []} for one in _merge_pending([], "", "", context) if one["id"] == asked), None)
    return error_response(404, "no such incident") if found is None else JSONResponse(_add_silence(found, context))


async def show_incident(request: Request, context: ApiContext) -> Response:
    """Returns one incident as a page for a browser, else as `get_incident` does."""
    is_page = incident_pages.wants_page(request) and context.pages is not None
    return await (incident_pages.show_incident if is_page else get_incident)(request, context)


async def show_incidents(request: Request, context: ApiContext) -> Response:
    """Returns the incidents as a page for a browser, else as `list_incidents` does."""
    is_page = incident_pages.wants_page(request) and context.pages is not None
    return await (incident_pages.show_overview if is_page else list_incidents)(request, context)


async def list_sources(_request: Request, context: ApiContext) -> Response:
    """Returns the state of sources, telemetry and coverage."""
    controller, known = context.controller, context.controller.last_result
    payload = [asdict(one) for one in controller.source_statuses()]
    for one in payload:
        one["since"] = rfc3339(one["since"])
        one["last"] = None if one["last"] is None else rfc3339(one["last"])
    telemetry = [asdict(one) for one in known.snapshot.sources] if known else []
    missing = (*(known.snapshot.missing if known else ()), *controller.actions.troubles())
    return JSONResponse({"sources": payload, "telemetry": telemetry, "missing": missing})


async def list_notifiers(_request: Request, context: ApiContext) -> Response:
    """Returns the state of notifiers."""
    payload = [asdict(one) for one in context.controller.dispatcher.statuses()]
    for one in payload:
        one["dropped"] = context.controller.dropped_notifications(one["name"])
        one["since"] = rfc3339(one["since"])
        one["last"] = None if one["last"] is None else rfc3339(one["last"])
    return JSONResponse({"tellers": payload})


async def get_health(request: Request, context: ApiContext) -> Response:
    """Returns the health of a node, GPU, group or replica: 1 healthy, 0 unusable."""
    kind, name = request.path_params["kind"], request.path_params["name"]
    known, controller = context.controller.last_result, context.controller
    if kind not in health.HEALTH_KINDS:
        return error_response(404, f"{kind[:40]!r}: one of {', '.join(health.HEALTH_KINDS)} was expected")
    if known is None:
        return error_response(503, "no tick yet")
    found = health.assess_health(known, controller.config.topology, kind, name)
    if found is None:
        return error_response(404, f"the topology has no {kind} {name[:100]!r}")
    return JSONResponse(found.as_json(controller.clock.now()))


async def list_health(request: Request, context: ApiContext) -> Response:
    """Returns the health of all nodes, GPUs, groups and replicas."""
    asked, known, controller = request.query_params, context.controller.last_result, context.controller
    kind = asked.get("kind", "")
    if kind not in ("", *health.HEALTH_KINDS):
        return error_response(400, f"kind is {kind[:40]!r}: one of {', '.join(health.HEALTH_KINDS)} was expected")
    try:
        below = float(asked["below"]) if asked.get("below") else None
        if below is not None and not math.isfinite(below):
            raise ValueError("no finite number")
    except ValueError:
        return error_response(400, f"below is {asked['below'][:40]!r}: a number was expected")
    if known is None:
        return error_response(503, "no tick yet")

    def work() -> bytes:
        reports = health_overview.assess_all(known, controller.config.topology)
        described = health_overview.describe_all(reports, known.snapshot.time, below, kind)
        del described["age_s"]
        return json.dumps(described).encode()

    text = await context.tick_answers.get(known, (below, kind), work, request)
    # The age is that of this request: it grows where there are no further ticks.
    age = round(max(controller.clock.now() - known.snapshot.time, 0.0), 3)
    return Response(b'{"age_s": %s, ' % json.dumps(age).encode() + text[1:], media_type="application/json")


async def stream_events(request: Request, context: ApiContext) -> Response:
    """Streams incident events; `Last-Event-ID` resumes an interrupted stream."""
    last = request.headers.get("last-event-id", "")
    who = _stream_reader(request)
    if context.streams.total() >= MAX_STREAMS:
        return error_response(503, "too many streams")
    if context.streams[who] >= MAX_STREAMS_OF_ONE:
        return error_response(429, f"more than {MAX_STREAMS_OF_ONE} streams of {who}; close some of them")
    if last and not (last.isascii() and last.isdigit() and len(last) < 19):
        return error_response(400, "Last-Event-ID is not a number")
    # Counted before the first await: concurrent requests must not all pass the limit.
    context.streams[who] += 1
    try:
        after = int(last) if last else await STORE.run(context.reader.last_event)
        return EventStreamResponse(context, who, _event_stream(request, context, after))
    except BaseException:
        context.end_stream(who)
        raise


def _stream_reader(request: Request) -> str:
    """Returns who reads a stream: the name of the token, or the address of a client without one."""
    caller = caller_of(request)
    return request.client.host if caller.name == ANONYMOUS and request.client else caller.name


class EventStreamResponse(StreamingResponse):
    """An event stream, counted until it ends."""

    def __init__(self, context: ApiContext, who: str, events: AsyncIterator[str]) -> None:
        self._site, self._who = context, who
        head = {"Cache-Control": "no-store"}
        super().__init__(events, media_type="text/event-stream", headers=head)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streams."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._site.end_stream(self._who)


async def _event_stream(request: Request, context: ApiContext, after: int) -> AsyncIterator[str]:
    yield ": hello\n\n"
    async for found in context.events(after):
        try:
            check_access(request)
        except DeniedError as error:
            yield f"event: end\ndata: {json.dumps({'reason': str(error)})}\n\n"
            return
        yield "".join(map(_format_event, found)) or ": alive\n\n"


def _format_event(event: IncidentEvent) -> str:
    payload = {"incident": event.incident, "time": rfc3339(event.t), "what": event.what}
    return f"id: {event.number}\nevent: incident\ndata: {json.dumps(payload, ensure_ascii=False)}\n\n"


async def get_view(request: Request, context: ApiContext) -> Response:
    """Returns the console's view: all series and incidents; 204 if the client has the newest."""
    controller, asked = context.controller, request.query_params
    controller.view_publisher.record_request(controller.clock.now())
    shot = controller.view_publisher.latest
    if shot is None:
        return error_response(503, "no view yet; ask again in a second", **{"Retry-After": "1"})
    try:
        rows, after = int(asked.get("rows", "0")[:9]), float(asked.get("after", "0"))
    except ValueError:
        return error_response(400, "rows and after must be numbers")
    if rows < 0 or shot.snapshot.time <= after:
        return Response(status_code=204)
    key = (asked.get("roster", ""), rows)
    message = await context.views.get(shot, key, partial(encode_view, shot, *key), request)
    return Response(message, media_type=SCENE)


async def get_openapi(_request: Request, context: ApiContext) -> Response:
    """Returns the OpenAPI description."""
    return JSONResponse(build_description(ROUTES, context.controller.supervisor.receivers))


SILENCE_CONFLICTS = (("409", "Too broad without `force` by an admin; or too many silences."),)
ROUTES = (
    Route("/healthz", "", "Whether the process responds.", get_liveness, "text/plain"),
    Route(
        "/readyz",
        "",
        "Whether ticks are advancing.",
        get_readiness,
        "text/plain",
        other_statuses=(("503", "Ticks are not advancing."),),
    ),
    Route("/metrics", "read", "The controller's own metrics, as Prometheus text.", get_metrics, "text/plain"),
    Route(
        *(f"{API_PREFIX}/topology", "read", "The topology, with an ETag.", get_topology, "application/yaml"),
        query=(("node", "of a large fleet, only the part that concerns this node"),),
        allows_agents=True,
        other_statuses=(("304", "Not modified: the ETag matches `If-None-Match`."),),
    ),
    Route(
        *(
            f"{API_PREFIX}/topology/changes",
            "read",
            "What of a discovered topology began, ended, moved or was renamed.",
        ),
        list_topology_changes,
    ),
    Route(
        *(f"{API_PREFIX}/incidents", "read", "The latest incidents.", list_incidents),
        query=(
            ("state", "firing or resolved; default: both"),
            ("kind", "diagnosis or symptom; default: both"),
        ),
        other_statuses=(("400", "Unknown state or kind."),),
    ),
    Route(
        f"{API_PREFIX}/incidents/{{id}}", "read", "One incident, with its history.", get_incident, may_be_missing=True
    ),
    Route(
        *(f"{API_PREFIX}/incidents/{{id}}/acknowledge", "approve", "Who acknowledged it.", acknowledge_incident),
        may_be_missing=True,
        method="POST",
    ),
    Route(
        *("/", "read", "The incidents, as a page for browsers or as JSON.", show_incidents, "text/html"), is_page=True
    ),
    Route(
        *("/incidents/{id}", "read", "One incident, as a page for browsers or as JSON.", show_incident, "text/html"),
        is_page=True,
        may_be_missing=True,
    ),
    Route("/login", "", "A form that takes a token, for pages.", incident_pages.show_login, "text/html"),
    Route(
        *("/login", "", "Begins a session of a browser, which reads pages.", incident_pages.log_in, "text/html"),
        method="POST",
        success_status="303",
        other_statuses=(("403", "The token is unknown, or of no person; or the form is another site's."),),
    ),
    Route(f"{API_PREFIX}/sources", "read", "State of sources and coverage.", list_sources),
    Route(f"{API_PREFIX}/tellers", "read", "State of notifiers.", list_notifiers),
    Route(f"{API_PREFIX}/silences", "read", "Silences, latest first.", silence_api.list_silences),
    Route(
        f"{API_PREFIX}/silences",
        "approve",
        "The new silence.",
        silence_api.create_silence,
        method="POST",
        success_status="201",
        other_statuses=SILENCE_CONFLICTS,
    ),
    Route(
        f"{API_PREFIX}/silences/preview",
        "read",
        "Incidents that a silence would suppress.",
        silence_api.preview_silence,
        method="POST",
    ),
    Route(
        *(f"{API_PREFIX}/silences/{{id}}", "approve", "Ends a silence.", silence_api.delete_silence),
        may_be_missing=True,
        method="DELETE",
        other_statuses=(("409", "The silence has already ended."),),
    ),
    Route(
        *(f"{API_PREFIX}/actions", "read", "Actions, latest first, and the mode.", action_api.list_actions),
        query=(
            ("live", "1: only those that may still change something"),
            ("incident", "only those of this incident"),
            ("limit", "at most this number, 1 to 1000; default: 1000"),
        ),
        other_statuses=(("400", "`limit` is no number."),),
    ),
    Route(
        *(
            f"{API_PREFIX}/incidents/{{id}}/plan",
            "read",
            "What could be done for an incident.",
            action_api.plan_incident,
        ),
        may_be_missing=True,
        other_statuses=(("504", "The targets did not answer in time."),),
    ),
    Route(
        *(
            f"{API_PREFIX}/incidents/{{id}}/propose",
            "approve",
            "Plans `option` of the plan.",
            action_api.propose_action,
        ),
        method="POST",
        other_statuses=(("409", "The option is not to be had, or something is planned already."),),
    ),
    Route(
        *(f"{API_PREFIX}/actions/outcomes", "read", "How often each mitigation helped here.", action_api.list_outcomes),
    ),
    Route(*(f"{API_PREFIX}/actions/shadow", "read", "Shadow runs that are kept as evidence.", shadow_api.list_runs)),
    Route(
        *(f"{API_PREFIX}/actions/shadow", "approve", "What acting would have done; kept.", shadow_api.start_run),
        method="POST",
        other_statuses=(("409", "Another run is under way."), ("504", "It took too long.")),
    ),
    Route(*(f"{API_PREFIX}/targets", "read", "What actions may change, and its state.", action_api.list_targets)),
    Route(
        *(f"{API_PREFIX}/actions/{{id}}", "read", "One action, with its history.", action_api.get_action),
        may_be_missing=True,
    ),
    *(
        Route(
            *(f"{API_PREFIX}/actions/{{id}}/{verb}", "approve", summary, handler),
            method="POST",
            may_be_missing=True,
            other_statuses=(("409", "The action is in another state."),),
        )
        for verb, summary, handler in (
            ("approve", "Approves a proposal; `why`, and `option` for another one.", action_api.approve_action),
            ("refuse", "Refuses an action that has not begun.", action_api.refuse_action),
            ("undo", "Has a change in place taken back.", action_api.undo_action),
            ("done", "Says that the calls of an action were run by hand.", action_api.confirm_action),
        )
    ),
    *(
        Route(
            *(f"{API_PREFIX}/actions/{verb}", "approve", summary, handler),
            method="POST",
            other_statuses=(("409", "Another controller leads."),),
        )
        for verb, summary, handler in (
            ("freeze", "Nothing new begins; `why`, and `seconds`, `hold_undos` if wanted.", freeze_api.freeze_actions),
            ("thaw", "Ends a freeze; the body holds `why`.", freeze_api.thaw_actions),
            ("undo-all", "Freezes, and takes back every change in place.", freeze_api.undo_actions),
        )
    ),
    *(
        Route(
            *("/ack/{id}", "", summary, handler, "text/html"),
            method=method,
            may_be_missing=True,
            other_statuses=(
                ("403", "The link is not of this controller, or a token is missing."),
                ("410", "The link is too old."),
            ),
        )
        for method, summary, handler in (
            ("GET", "The page of a signed link: an incident, a form.", link_api.show_acknowledgement),
            ("POST", "Notes by that form who looks after it.", link_api.acknowledge_by_link),
        )
    ),
    *(
        Route(
            *("/act/{id}", "", summary, handler, "text/html"),
            method=method,
            may_be_missing=True,
            other_statuses=(
                ("403", "The link is not of this controller, or a token is missing."),
                ("409", "It was decided or changed since."),
                ("410", "The link is too old."),
            ),
        )
        for method, summary, handler in (
            ("GET", "The page of a signed link: plan, evidence, a form.", link_api.show_proposal),
            ("POST", "Decides by that form.", link_api.decide_proposal),
        )
    ),
    Route(
        *(f"{API_PREFIX}/orders", "admin", "Orders for the agent of a node, once.", order_api.list_orders),
        query=(("node", "the node of the agent"), ("wait", "seconds to wait for an order, at most 10")),
        allows_agents=True,
        other_statuses=(("429", "Too many requests wait for orders of this node."),),
    ),
    Route(
        *(f"{API_PREFIX}/orders/{{id}}/result", "admin", "The result of an order.", order_api.post_result),
        method="POST",
        success_status="204",
        allows_agents=True,
        may_be_missing=True,
        other_statuses=(("409", "The order was not fetched, or has its result."),),
    ),
    Route(
        *(
            f"{API_PREFIX}/events",
            "read",
            "Incident events, as server-sent events.",
            stream_events,
            "text/event-stream",
        ),
        other_statuses=(("400", "`Last-Event-ID` is not a number."), ("429", "Too many streams of this name.")),
    ),
    Route(
        *(f"{API_PREFIX}/health", "read", "Health of all entities, the worst first.", list_health),
        query=(
            ("below", "only those whose known score is lower than this"),
            ("kind", "node, gpu, group or replica; default: all"),
        ),
        other_statuses=(("400", "Unknown kind, or `below` is no number."),),
    ),
    Route(
        f"{API_PREFIX}/health/{{kind}}/{{name}}",
        "read",
        "Health of an entity.",
        get_health,
        may_be_missing=True,
        takes_slashes=True,
    ),
    Route(
        *(f"{API_PREFIX}/scene", "read", "The console's view.", get_view, SCENE),
        query=(
            ("roster", "id of the series list that the client has"),
            ("rows", "number of its series that the client has"),
            ("after", "time of the view that the client has, s since 1970"),
        ),
        other_statuses=(("204", "No view newer than `after`."), ("400", "`rows` or `after` is not a number.")),
    ),
    Route(f"{API_PREFIX}/openapi.json", "", "This description.", get_openapi),
)
