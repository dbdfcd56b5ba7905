"""The OpenAPI description of what a controller answers: its routes, rows of agents, and what is pushed to sources."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from skewscope.adapters.sources.pushed import Receiving
from skewscope.adapters.wire_rows import CONTENT_TYPE, PATH

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import Route

GUARDED = {
    "401": "No token of ours.",
    "403": "Not with this role.",
    "503": "The store, or what is asked for, is not there just now.",
}
POSTED = {
    "400": "What is wrong with it, all of it at once.",
    "408": "It took too long to come.",
    "413": "Too large.",
    "415": "No JSON.",
}
PUSHED = {
    "400": "No body that this takes.",
    "401": "No token of ours.",
    "403": "Not this sender.",
    "408": "It took too long to come.",
    "413": "Too large.",
    "503": "Too much waits; send it again after `Retry-After` seconds.",
}
ROWS = PUSHED | {
    "200": "The highest sequence that was taken.",
    "403": "Not this sender, or not this node.",
    "409": "Tables that are to be announced again.",
}


def described(routes: Iterable["Route"], receivers: Iterable[Receiving]) -> dict[str, Any]:
    """The document, with the sources that are pushed to now."""
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    paths[PATH] = {"post": _push("Rows of an agent.", (CONTENT_TYPE,), ROWS)}
    for one in receivers:
        answers = PUSHED | {one.about.good: "All of it was taken."}
        paths[one.path] = {"post": _push(one.about.summary, one.about.contents, answers)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Skewscope controller", "version": "1"},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: "Route") -> dict[str, Any]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    text = {"schema": {"type": "string"}}
    asked = [{"name": name, "in": "path", "required": True, **text} for name in names]
    asked += [{"name": name, "in": "query", "description": meaning, **text} for name, meaning in route.query]
    answers: dict[str, Any] = {route.good: {"description": "The answer.", "content": {route.content: {}}}}
    others = dict(route.others) | (GUARDED if route.role else {}) | (POSTED if route.method == "POST" else {})
    others |= {"404": "There is no such thing."} if route.missing else {}
    answers |= {status: {"description": meaning} for status, meaning in sorted(others.items())}
    told: dict[str, Any] = {"summary": route.summary, "parameters": asked, "responses": answers, "security": []}
    if route.role:
        told |= {"security": [{"token": []}], "x-role": route.role}
    if route.method == "POST":
        told["requestBody"] = {"required": True, "content": {"application/json": {}}}
    return told


def _push(summary: str, contents: Iterable[str], answers: dict[str, str]) -> dict[str, Any]:
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {content: {} for content in contents}},
        "responses": {status: {"description": meaning} for status, meaning in sorted(answers.items())},
        "security": [{"token": []}],
        "x-role": "agent",
    }
