"""Orders over HTTP: an agent fetches those of its node, and reports their results."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skewscope.adapters.actions.orders import OrderBook
from skewscope.adapters.controller.auth import AGENT
from skewscope.adapters.controller.config import ANY_NODE
from skewscope.adapters.controller.http_helpers import (
    BadBodyError,
    caller_of,
    check_access,
    error_response,
    read_json_text,
)
from skewscope.adapters.controller.protocol import CONNECTION_KEY
from skewscope.adapters.formats.order_protocol import OrderError, parse_result
from skewscope.adapters.runtime.tasks import wait_for_first

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import ApiContext

MAX_WAIT = 10.0
"""Seconds that a request without an order is kept open."""
MAX_POLLS = 4
"""Maximum requests of one token that wait for the orders of one node: an agent has one, and those that it left."""


async def list_orders(request: Request, context: "ApiContext") -> Response:
    """Returns the orders for the agent of a node, once; waits for one for some seconds."""
    node = request.query_params.get("node", "")
    if denial := _check_agent(request, node):
        return denial
    text = request.query_params.get("wait", "0")
    seconds = min(float(text), MAX_WAIT) if text.isascii() and text.isdecimal() and len(text) < 4 else 0.0
    books = _books_of(context, node)
    found = [order for book in books for order in book.fetch()]
    if not found and seconds:
        poller = (caller_of(request).name, node)
        if context.polls[poller] >= MAX_POLLS:
            return error_response(429, f"more than {MAX_POLLS} requests wait for orders of {node[:100]!r}")
        with _count_poll(context, poller), request.scope[CONNECTION_KEY].wait_dispensably():
            await _wait_for_any(books, seconds)
        check_access(request)
        # An order is handed out once: not to an agent that has gone meanwhile.
        if not await request.is_disconnected():
            found = [order for book in books for order in book.fetch()]
    return JSONResponse({"orders": found}, headers={"Cache-Control": "no-store"})


async def post_result(request: Request, context: "ApiContext") -> Response:
    """Takes the result of an order from the agent of its node."""
    id_ = request.path_params["id"]
    book = next((book for book in _books_of(context, "") if book.is_waiting(id_)), None)
    if book is None:
        return error_response(404, "no such order waits for a result")
    if denial := _check_agent(request, book.node):
        return denial
    try:
        result = parse_result(json.loads(await read_json_text(request)))
    except BadBodyError as error:
        return error_response(error.status, str(error))
    except (OrderError, ValueError, RecursionError) as error:
        return error_response(400, str(error)[:200])
    if not book.report(id_, result):
        return error_response(409, "the order was not fetched, or has its result")
    return Response(status_code=204)


@contextmanager
def _count_poll(context: "ApiContext", poller: tuple[str, str]) -> Iterator[None]:
    context.polls[poller] += 1
    try:
        yield
    finally:
        context.polls[poller] -= 1
        if not context.polls[poller]:
            del context.polls[poller]


def _check_agent(request: Request, node: str) -> Response | None:
    """Returns the refusal of a caller who is not the agent of a node; None for that agent."""
    caller = caller_of(request)
    if caller.role == AGENT and caller.node in (node, ANY_NODE):
        return None
    return error_response(403, f"this needs the token of the agent of {node[:100]!r}")


def _books_of(context: "ApiContext", node: str) -> list[OrderBook]:
    """Returns the order books of the targets on a node; of all nodes for ''."""
    targets = context.controller.actions.coordinator.planner.targets.values()
    books = [getattr(target, "book", None) for target in targets]
    return [book for book in books if isinstance(book, OrderBook) and node in ("", book.node)]


async def _wait_for_any(books: list[OrderBook], seconds: float) -> None:
    if not books:
        # Without this an agent whose node has no target would ask again at once.
        await asyncio.sleep(seconds)
        return
    await wait_for_first(*(book.wait(seconds) for book in books))
