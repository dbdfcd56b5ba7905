"""Small pages with forms: their headers, their style, and the fields that come back."""

from collections.abc import Iterable
from html import escape
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from skewscope.adapters.controller.http_helpers import BadBodyError, read_text

FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 10
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
}
STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
    "pre{border:1px solid #8888;padding:.6rem;overflow-x:auto;white-space:pre-wrap}input{font:inherit;width:100%}"
    "button{font:inherit;padding:.4rem 1.2rem;margin:.8rem .8rem 0 0}"
)


async def read_form(request: Request) -> dict[str, str]:
    """Returns the fields of a form.

    Raises:
        BadBodyError: the body is none, or too large or too slow.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise BadBodyError(415, f"Content-Type: {FORM} is required")
    try:
        result = parse_qs(await read_text(request), max_num_fields=MAX_FIELDS)
    except ValueError:
        raise BadBodyError(400, "a form that cannot be read") from None
    return {name: values[0] for name, values in result.items()}


def paragraph(text: str) -> str:
    """Returns a paragraph."""
    return f"<p>{escape(text)}</p>"


def form_page(status: int, title: str, parts: Iterable[str]) -> Response:
    """Returns a small page of HTML parts under a title."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = f"<main><h1>{escape(title)}</h1>{''.join(parts)}</main>"
    text = f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>{body}</body></html>'
    return HTMLResponse(text, status, headers=PAGE_HEADERS)
