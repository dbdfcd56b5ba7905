"""What a controller answers over HTTP: one table of routes, of which the OpenAPI description is made as well."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from skewscope.adapters.broadcast import CONTENT_TYPE as SCENE
from skewscope.adapters.broadcast import encoded
from skewscope.adapters.controller import health, metrics, silencing
from skewscope.adapters.controller.answers import fault
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.openapi import described
from skewscope.adapters.controller.store import MOST_EVENTS, Event, Reader
from skewscope.adapters.controller.work import Known
from skewscope.adapters.topology_text import around, text_of
from skewscope.engine.incident import rfc3339

API = "/api/v1"
BEAT = 15.0
"""Seconds of silence after which a stream says that it is alive."""
LATE = 10.0
"""Seconds without a tick after which a controller is not ready."""
MOST_STREAMS = 200
MOST_LISTED = 1000


@dataclass
class Site:
    """What answers are made of."""

    controller: Controller
    reader: Reader
    streams: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.controller.subscribers.append(self._told)

    def _told(self, known: Known) -> None:
        if known.events:
            self._news.set()
            self._news = asyncio.Event()

    async def events(self, after: int) -> AsyncIterator[list[Event]]:
        """What happens after an event, some at a time; nothing when there was no news for a while."""
        while True:
            news = self._news
            found = await asyncio.to_thread(self.reader.events, after, MOST_EVENTS)
            if found:
                after = found[-1].number
                yield found
                continue
            try:
                async with asyncio.timeout(BEAT):
                    await news.wait()
            except TimeoutError:
                yield []


Answer = Callable[[Request, Site], Awaitable[Response]]


@dataclass(frozen=True)
class Route:
    """One thing to ask for."""

    path: str
    role: str
    """Who may ask; '' for everybody."""
    summary: str
    answer: Answer
    content: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()
    """Names of what may be asked more closely, and what each means."""
    agents: bool = False
    """Whether agents may ask as well."""
    missing: bool = False
    """Whether there may be no such thing."""
    method: str = "GET"
    good: str = "200"
    """The status of the answer, where all is well."""
    others: tuple[tuple[str, str], ...] = ()
    """Further statuses, and what each means."""


async def alive(_request: Request, _site: Site) -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n")


async def ready(_request: Request, site: Site) -> Response:
    """Ticks go on."""
    known, now = site.controller.known, site.controller.clock.now()
    if known is None or now - known.snapshot.time > LATE:
        return PlainTextResponse("no tick yet\n" if known is None else "the ticks stand still\n", 503)
    return PlainTextResponse("ok\n")


async def own_metrics(_request: Request, site: Site) -> Response:
    """What the controller tells of itself."""
    return PlainTextResponse(metrics.text(site.controller), headers={"Content-Type": metrics.CONTENT})


async def topology(request: Request, site: Site) -> Response:
    """The topology, or as much of a large one as concerns a node."""
    whole, node = site.controller.config.topology, request.query_params.get("node", "")
    text = (await asyncio.to_thread(lambda: text_of(around(whole, node) if node else whole))).encode()
    tag = f'"{hashlib.sha256(text).hexdigest()[:32]}"'
    if tag in [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(text, media_type="application/yaml", headers={"ETag": tag})


async def incidents(request: Request, site: Site) -> Response:
    """Incidents, those that opened last first."""
    state = request.query_params.get("state", "")
    if state not in ("", "firing", "resolved"):
        return fault(400, f"state is {state[:40]!r}: firing, resolved or nothing was expected")
    found = await asyncio.to_thread(site.reader.incidents, state, MOST_LISTED)
    return JSONResponse({"incidents": [_marked(one, site) for one in _with_unstored(found, state, site)]})


def _with_unstored(found: list[dict[str, Any]], state: str, site: Site) -> list[dict[str, Any]]:
    """The same, and what is known beyond it while the store takes nothing."""
    known = site.controller.known
    if known is None or known.stored:
        return found
    newer = {one.id: one.as_json() for one in known.snapshot.incidents}
    whole = {one["id"]: one for one in found} | newer
    here = [one for one in whole.values() if state in ("", one["state"])]
    return sorted(here, key=lambda one: one["opened_at"], reverse=True)[:MOST_LISTED]


def _marked(told: dict[str, Any], site: Site) -> dict[str, Any]:
    """An incident, and the silence that hides it from those who are told; None where it fires and none does."""
    known = site.controller.known
    return told | {"silenced_by": known.snapshot.silenced.get(told["id"]) if known else None}


async def incident(request: Request, site: Site) -> Response:
    """One incident, with its history."""
    found = await asyncio.to_thread(site.reader.incident, request.path_params["id"])
    return fault(404, "no such incident") if found is None else JSONResponse(_marked(found, site))


async def sources(_request: Request, site: Site) -> Response:
    """How sources do, what telemetry comes, and what cannot be seen."""
    controller, known = site.controller, site.controller.known
    told = [asdict(one) for one in controller.standings()]
    for one in told:
        one["since"] = rfc3339(one["since"])
        one["last"] = None if one["last"] is None else rfc3339(one["last"])
    telemetry = [asdict(one) for one in known.snapshot.sources] if known else []
    missing = known.snapshot.missing if known else ()
    return JSONResponse({"sources": told, "telemetry": telemetry, "missing": missing})


async def tellers(_request: Request, site: Site) -> Response:
    """How those do who are told."""
    told = [asdict(one) for one in site.controller.office.standings()]
    for one in told:
        one["dropped"] = site.controller.dropped(one["name"])
        one["since"] = rfc3339(one["since"])
        one["last"] = None if one["last"] is None else rfc3339(one["last"])
    return JSONResponse({"tellers": told})


async def how_well(request: Request, site: Site) -> Response:
    """How well a node, a group or a replica is: 1 in health, 0 unusable."""
    kind, name = request.path_params["kind"], request.path_params["name"]
    known, controller = site.controller.known, site.controller
    if kind not in health.KINDS:
        return fault(404, f"{kind[:40]!r}: one of {', '.join(health.KINDS)} was expected")
    if known is None:
        return fault(503, "no tick yet")
    found = health.health(known, controller.config.topology, kind, name)
    if found is None:
        return fault(404, f"the topology has no {kind} {name[:100]!r}")
    return JSONResponse(found.as_json(controller.clock.now()))


async def events(request: Request, site: Site) -> Response:
    """What happens to incidents, as it happens; `Last-Event-ID` goes on where a stream was cut."""
    last = request.headers.get("last-event-id", "")
    if site.streams >= MOST_STREAMS:
        return fault(503, "too many streams")
    if last and not (last.isascii() and last.isdigit() and len(last) < 19):
        return fault(400, "Last-Event-ID is no number")
    # Counted before anything is waited for: those who ask at the same moment must not all find room.
    site.streams += 1
    try:
        return Events(site, int(last) if last else await asyncio.to_thread(site.reader.last_event))
    except BaseException:
        site.streams -= 1
        raise


class Events(StreamingResponse):
    """A stream of events, one of those that a site counts until it ends."""

    def __init__(self, site: Site, after: int) -> None:
        self._site = site
        head = {"Cache-Control": "no-store"}
        super().__init__(_stream(site, after), media_type="text/event-stream", headers=head)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streams."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._site.streams -= 1


async def _stream(site: Site, after: int) -> AsyncIterator[str]:
    yield ": hello\n\n"
    async for found in site.events(after):
        yield "".join(map(_event, found)) or ": alive\n\n"


def _event(event: Event) -> str:
    told = {"incident": event.incident, "time": rfc3339(event.t), "what": event.what}
    return f"id: {event.number}\nevent: incident\ndata: {json.dumps(told, ensure_ascii=False)}\n\n"


async def scene(request: Request, site: Site) -> Response:
    """What a console shows: all series and incidents now; 204 where it has that already."""
    controller, asked = site.controller, request.query_params
    controller.onlookers.asked(controller.clock.now())
    shot = controller.onlookers.newest
    if shot is None:
        return fault(503, "nothing to show yet; ask again in a second", **{"Retry-After": "1"})
    try:
        rows, after = int(asked.get("rows", "0")[:9]), float(asked.get("after", "0"))
    except ValueError:
        return fault(400, "rows and after are numbers")
    if rows < 0 or shot.scene.time <= after:
        return Response(status_code=204)
    message = await asyncio.to_thread(encoded, shot, asked.get("roster", ""), rows)
    return Response(message, media_type=SCENE)


async def openapi(_request: Request, site: Site) -> Response:
    """This description."""
    return JSONResponse(described(ROUTES, site.controller.supervisor.receivers))


TOO_MUCH = (("409", "Too broad, unless an admin forces it; or too many."),)
ROUTES = (
    Route("/healthz", "", "Whether the process answers.", alive, "text/plain"),
    Route("/readyz", "", "Whether ticks go on.", ready, "text/plain", others=(("503", "They do not."),)),
    Route("/metrics", "read", "The controller's own metrics, as Prometheus text.", own_metrics, "text/plain"),
    Route(
        *(f"{API}/topology", "read", "The topology, with an ETag.", topology, "application/yaml"),
        query=(("node", "only what concerns this node, of a large fleet"),),
        agents=True,
        others=(("304", "It is what `If-None-Match` names."),),
    ),
    Route(
        *(f"{API}/incidents", "read", "The newest incidents.", incidents),
        query=(("state", "firing or resolved; both when left out"),),
        others=(("400", "No such state."),),
    ),
    Route(f"{API}/incidents/{{id}}", "read", "One incident, with its history.", incident, missing=True),
    Route(f"{API}/sources", "read", "How sources do, and what cannot be seen.", sources),
    Route(f"{API}/tellers", "read", "How those do who are told.", tellers),
    Route(f"{API}/silences", "read", "Silences, those that begin last first.", silencing.listed),
    Route(f"{API}/silences", "approve", "A new silence.", silencing.add, method="POST", good="201", others=TOO_MUCH),
    Route(f"{API}/silences/preview", "read", "What a silence would hide.", silencing.preview, method="POST"),
    Route(
        *(f"{API}/silences/{{id}}", "approve", "Ends a silence.", silencing.end),
        missing=True,
        method="DELETE",
        others=(("409", "It is over already."),),
    ),
    Route(
        *(f"{API}/events", "read", "What happens to incidents, as server-sent events.", events, "text/event-stream"),
        others=(("400", "`Last-Event-ID` is no number."),),
    ),
    Route(f"{API}/health/{{kind}}/{{name}}", "read", "How well something is.", how_well, missing=True),
    Route(
        *(f"{API}/scene", "read", "What a console shows now.", scene, SCENE),
        query=(
            ("roster", "the name of the list of series that is known"),
            ("rows", "how many of its series are known"),
            ("after", "the time of the scene that is known, s since 1970"),
        ),
        others=(("204", "Nothing newer than `after`."), ("400", "Rows or after that are no numbers.")),
    ),
    Route(f"{API}/openapi.json", "", "This description.", openapi),
)
