"""Generates the OpenAPI description of the API: its routes, rows of agents, and pushes to sources."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from skewscope.adapters.formats.row_protocol import CONTENT_TYPE, ROWS_PATH
from skewscope.adapters.sources.common.push_receiver import PushReceiver

if TYPE_CHECKING:
    from skewscope.adapters.controller.route import Route

FORM = "application/x-www-form-urlencoded"
AUTH_RESPONSES = {
    "401": "Unknown token.",
    "403": "The role does not permit this.",
    "503": "The store or the requested object is not available at the moment, or too many requests wait.",
}
POST_RESPONSES = {
    "400": "All problems of the body.",
    "408": "The body was too slow.",
    "413": "Too large.",
    "415": "No JSON.",
}
PUSH_RESPONSES = {
    "400": "Invalid body.",
    "401": "Unknown token.",
    "403": "The sender is not allowed.",
    "408": "The body was too slow.",
    "413": "Too large.",
    "503": "Too many bodies wait; send it again after `Retry-After` seconds.",
}
ROWS_RESPONSES = PUSH_RESPONSES | {
    "200": "The highest received sequence number.",
    "403": "The sender is not allowed, or not for this node.",
    "409": "Tables that must be announced again.",
}


def build_description(routes: Iterable["Route"], receivers: Iterable[PushReceiver]) -> dict[str, Any]:
    """Returns the document, including the present push sources."""
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _build_operation(route)
    paths[ROWS_PATH] = {"post": _build_push_operation("Rows of an agent.", (CONTENT_TYPE,), ROWS_RESPONSES)}
    for one in receivers:
        answers = PUSH_RESPONSES | {one.endpoint_info.success_status: "Everything was accepted."}
        paths[one.path] = {
            "post": _build_push_operation(one.endpoint_info.summary, one.endpoint_info.content_types, answers)
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Skewscope controller", "version": "1"},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _build_operation(route: "Route") -> dict[str, Any]:
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    text = {"schema": {"type": "string"}}
    request = [{"name": name, "in": "path", "required": True, **text} for name in names]
    request += [{"name": name, "in": "query", "description": meaning, **text} for name, meaning in route.query]
    kinds = {route.content_type, "application/json"} if route.is_page else {route.content_type}
    answers: dict[str, Any] = {
        route.success_status: {"description": "The answer.", "content": {kind: {} for kind in sorted(kinds)}}
    }
    others = (
        dict(route.other_statuses)
        | (AUTH_RESPONSES if route.role else {})
        | (POST_RESPONSES if route.method == "POST" else {})
    )
    others |= {"404": "Not found."} if route.may_be_missing else {}
    answers |= {status: {"description": meaning} for status, meaning in sorted(others.items())}
    payload: dict[str, Any] = {"summary": route.summary, "parameters": request, "responses": answers, "security": []}
    if route.role:
        payload |= {"security": [{"token": []}], "x-role": route.role}
    if route.method == "POST":
        content = FORM if route.content_type == "text/html" else "application/json"
        payload["requestBody"] = {"required": True, "content": {content: {}}}
    return payload


def _build_push_operation(summary: str, contents: Iterable[str], answers: dict[str, str]) -> dict[str, Any]:
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {content: {} for content in contents}},
        "responses": {status: {"description": meaning} for status, meaning in sorted(answers.items())},
        "security": [{"token": []}],
        "x-role": "agent",
    }
