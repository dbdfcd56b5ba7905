"""Freeze, thaw and break-glass over HTTP: one call that stops all that acts, or takes all of it back."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skewscope.adapters.actions.action_book import ActionRequestError, AuditNote
from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.freezing import set_freeze, undo_all
from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.controller.action_api import show_freeze
from skewscope.adapters.controller.http_helpers import (
    BadBodyError,
    body_error_response,
    caller_of,
    error_response,
    read_json_text,
)
from skewscope.engine.actions.action import action_to_json
from skewscope.engine.actions.freeze import Freeze
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import ApiContext

MAX_SECONDS = 366 * 86400.0
MAX_WHY = 1000


@dataclass(frozen=True, slots=True)
class FreezeRequest:
    """What a body asks for."""

    why: str
    seconds: float = 0.0
    """0 for no end."""
    holds_undos: bool = False


async def freeze_actions(request: Request, context: "ApiContext") -> Response:
    """Freezes all actions: nothing new begins."""
    asked = await _read(request, "seconds", "hold_undos")
    if isinstance(asked, Response):
        return asked
    who, t = caller_of(request).name, context.controller.clock.now()
    return await _answer(context, _build_freeze(asked, who, t), who, f"actions frozen: {asked.why}")


async def thaw_actions(request: Request, context: "ApiContext") -> Response:
    """Ends a freeze."""
    asked = await _read(request)
    if isinstance(asked, Response):
        return asked
    return await _answer(context, None, caller_of(request).name, f"actions thawed: {asked.why}")


async def undo_actions(request: Request, context: "ApiContext") -> Response:
    """Freezes all actions, takes back what is in place, and refuses what has not begun."""
    asked = await _read(request)
    if isinstance(asked, Response):
        return asked
    coordinator, who, t = _coordinator(context), caller_of(request).name, context.controller.clock.now()
    answer = await _answer(context, _build_freeze(asked, who, t), who, f"all actions are taken back: {asked.why}")
    if answer.status_code != 200:
        return answer
    done, failed = await undo_all(coordinator, who, asked.why)
    shown = {"freeze": show_freeze(coordinator), "actions": [action_to_json(each) for each in done], "failed": failed}
    return JSONResponse(shown)


def _build_freeze(asked: FreezeRequest, who: str, t: float) -> Freeze:
    return Freeze(t, who, asked.why, t + asked.seconds if asked.seconds else None, asked.holds_undos)


async def _answer(context: "ApiContext", freeze: Freeze | None, who: str, what: str) -> Response:
    # By the clock, not by the last tick: there may have been none yet.
    coordinator, t = _coordinator(context), context.controller.clock.now()
    try:
        trouble = await set_freeze(coordinator, freeze, AuditNote(t, who, what))
    except ActionRequestError as error:
        return error_response(409, str(error))
    warning = f"it holds until a restart only, as it could not be stored: {trouble}" if trouble else ""
    return JSONResponse({"freeze": show_freeze(coordinator), "warning": warning})


async def _read(request: Request, *optional: str) -> FreezeRequest | Response:
    """Returns what a body asks for, or the answer to one that cannot be used."""
    try:
        return _parse(await read_json_text(request), optional)
    except (BadBodyError, InputError) as error:
        return body_error_response(error)


def _parse(body: str, optional: tuple[str, ...]) -> FreezeRequest:
    """Returns what a body asks for.

    Raises:
        InputError: it has no reason, or something else is wrong with it.
    """
    fields = FieldReader(yamlfile.parse(body, "request"))
    fields.check_keys((), ("why",), optional)
    why = fields.required_text(("why",))[:MAX_WHY]
    result = FreezeRequest(
        why,
        read_number(fields, ("seconds",), 0.0, (1.0, MAX_SECONDS)),
        read_bool(fields, ("hold_undos",)),
    )
    if result.holds_undos and not result.seconds and not fields.problems:
        hint = "A change that is never taken back would outlast its time to live."
        fields.add_problem(("hold_undos",), "undos held without an end", "`seconds` beside it", hint)
    if fields.problems:
        raise InputError(fields.problems)
    return result


def _coordinator(context: "ApiContext") -> Coordinator:
    return context.controller.actions.coordinator
