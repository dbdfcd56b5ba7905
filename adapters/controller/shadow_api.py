"""Shadow runs over HTTP: what acting would have done about the incidents of this controller's store."""

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skewscope.adapters.actions.action_book import ActionStoreError
from skewscope.adapters.actions.shadow import ShadowResult, ShadowRun, build_run, run_over_incidents
from skewscope.adapters.actions.shadow_report import DAY, act_json, summary_json
from skewscope.adapters.config.fields import read_number
from skewscope.adapters.controller.http_helpers import (
    BadBodyError,
    body_error_response,
    caller_of,
    error_response,
    read_json_text,
)
from skewscope.adapters.controller.store import StoreReader
from skewscope.adapters.runtime.blocking_calls import WORK
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import ApiContext

DEFAULT_SECONDS, MAX_SECONDS = 7 * DAY, 366 * DAY
RUN_TIMEOUT = 60.0
"""Seconds that a run may take beside the controller's own work."""
MAX_SENT = 1000


async def list_runs(_request: Request, context: "ApiContext") -> Response:
    """Returns the shadow runs that are stored as evidence, oldest first."""
    return JSONResponse({"runs": context.controller.actions.evidence})


async def start_run(request: Request, context: "ApiContext") -> Response:
    """Runs over the stored incidents, and keeps the summary as evidence for the mode `act`."""
    try:
        seconds = _parse(await read_json_text(request))
    except (BadBodyError, InputError) as error:
        return body_error_response(error)
    service = context.controller.actions
    if service.shadowing.locked():
        return error_response(409, "a shadow run is under way: ask again when it is done")
    async with service.shadowing:
        coordinator, until = service.coordinator, context.controller.clock.now()
        planner = coordinator.planner
        run = build_run(coordinator.settings, planner.topology, planner.catalogue, planner.targets.values())
        try:
            result = await WORK.run(run_over_store, run, context.reader, until - seconds, until)
        except TimeoutError:
            return error_response(504, f"it took more than {RUN_TIMEOUT:g} s: ask for a shorter time")
        summary = summary_json(result) | {"targets": sorted(planner.targets)}
        warning = ""
        try:
            await service.add_evidence(summary, until, caller_of(request).name)
        except ActionStoreError as error:
            warning = f"it could not be stored as evidence: {error}"
    answer: dict[str, Any] = {
        **summary,
        "acts": [act_json(each) for each in result.acts[-MAX_SENT:]],
        "warning": warning,
    }
    return JSONResponse(answer)


def run_over_store(run: ShadowRun, reader: StoreReader, since: float, until: float) -> ShadowResult:
    """Returns what acting would have done since a time, or since the store began.

    Raises:
        TimeoutError: it takes too long.
    """
    since = max(since, reader.find_begin(until))
    run.acted = reader.incidents_acted_upon(since)
    incidents = reader.incidents_since(since)

    async def run_in_time() -> ShadowResult:
        async with asyncio.timeout(RUN_TIMEOUT):
            return await run_over_incidents(run, incidents, since, until)

    return asyncio.run(run_in_time())


def _parse(body: str) -> float:
    """Returns the seconds that a body asks for.

    Raises:
        InputError: something is wrong with it.
    """
    fields = FieldReader(yamlfile.parse(body, "request"))
    fields.check_keys((), (), ("seconds",))
    seconds = read_number(fields, ("seconds",), DEFAULT_SECONDS, (60.0, MAX_SECONDS))
    if fields.problems:
        raise InputError(fields.problems)
    return seconds
