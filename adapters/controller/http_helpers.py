"""What answers over HTTP share."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skewscope.adapters.controller.auth import Caller

CALLER_KEY = "skewscope.caller"
"""Where it stands in a request's scope who asks."""
MAX_BODY = 1 << 16
BODY_TIMEOUT = 10.0
"""Seconds that a body may take to come."""


class BadBodyError(Exception):
    """A body that cannot be used; `status` is what to answer."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


def error_response(status: int, why: str, **headers: str) -> Response:
    """An answer that tells what is wrong."""
    return JSONResponse({"error": why}, status, headers=headers)


def caller_of(request: Request) -> Caller:
    """Who asks; somebody who may."""
    found = request.scope[CALLER_KEY]
    assert isinstance(found, Caller)
    return found


async def read_json_text(request: Request) -> str:
    """The JSON that was sent, unread.

    Raises:
        BadBodyError: there is none, or it is too large or too slow.
    """
    # A page in a browser may post what it likes anywhere, but JSON only where it is asked for.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadBodyError(415, "Content-Type: application/json was expected")
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            return (await _read_body(request)).decode()
    except TimeoutError:
        raise BadBodyError(408, f"the body took more than {BODY_TIMEOUT:g} s") from None
    except UnicodeDecodeError:
        raise BadBodyError(400, "a body that is not UTF-8") from None


async def _read_body(request: Request) -> bytes:
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MAX_BODY:
            raise BadBodyError(413, f"more than {MAX_BODY} bytes")
    return bytes(found)
