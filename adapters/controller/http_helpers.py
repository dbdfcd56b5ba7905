"""Helpers of HTTP handlers."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skewscope.adapters.controller.auth import Caller
from skewscope.kb.problems import InputError

CALLER_KEY = "skewscope.caller"
"""Key of the caller in a request's scope."""
ACCESS_KEY = "skewscope.access"
"""Key of a function in a request's scope that checks its access again."""
MAX_BODY = 1 << 16
BODY_TIMEOUT = 10.0
"""Seconds for a body to arrive."""


class BadBodyError(Exception):
    """An unusable body; `status` is the status of the answer."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


def error_response(status: int, why: str, **headers: str) -> Response:
    """Returns an error answer."""
    return JSONResponse({"error": why}, status, headers=headers)


def body_error_response(error: BadBodyError | InputError) -> Response:
    """Returns the answer to a body that cannot be used, with all its problems."""
    if isinstance(error, BadBodyError):
        return error_response(error.status, str(error))
    problems = [{"field": p.field, "found": p.found, "expected": p.expected, "hint": p.hint} for p in error.problems]
    return JSONResponse({"error": str(error), "problems": problems}, 400)


def caller_of(request: Request) -> Caller:
    """Returns the authorised caller of a request."""
    found = request.scope[CALLER_KEY]
    assert isinstance(found, Caller)
    return found


def check_access(request: Request) -> None:
    """Checks again, for an answer that takes long, that its caller has access: the config may have been reloaded.

    Raises:
        DeniedError: it has not.
    """
    request.scope[ACCESS_KEY]()


async def read_json_text(request: Request) -> str:
    """Returns the JSON body as text.

    Raises:
        BadBodyError: it is missing, too large or too slow.
    """
    # A web page can post anything cross-origin except JSON, which needs a preflight request.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadBodyError(415, "Content-Type: application/json is required")
    return await read_text(request)


async def read_text(request: Request) -> str:
    """Returns the body as text.

    Raises:
        BadBodyError: it is too large or too slow, or no UTF-8.
    """
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for part in request.stream():
                found += part
                if len(found) > MAX_BODY:
                    raise BadBodyError(413, f"more than {MAX_BODY} bytes")
        return found.decode()
    except TimeoutError:
        raise BadBodyError(408, f"the body took more than {BODY_TIMEOUT:g} s") from None
    except UnicodeDecodeError:
        raise BadBodyError(400, "a body that is not UTF-8") from None
