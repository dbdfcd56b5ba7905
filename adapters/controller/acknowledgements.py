"""Acknowledgements: who looks after which incident. The audit log holds them, so they outlast a restart."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from skewscope.adapters.config.fields import read_bool
from skewscope.adapters.controller.audit import AuditLine
from skewscope.adapters.controller.http_helpers import (
    BadBodyError,
    body_error_response,
    caller_of,
    error_response,
    read_json_text,
)
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.problems import InputError

if TYPE_CHECKING:
    from skewscope.adapters.controller.api import ApiContext

ACKNOWLEDGED, WITHDRAWN = "incident was acknowledged", "acknowledgement was withdrawn"
SUBJECT = "acknowledge"
"""What both lines of the audit log contain."""
MAX_READ = 2000
"""Lines of the audit log that are read at the start."""


def read_acknowledgements(lines: Iterable[AuditLine]) -> dict[str, str]:
    """Returns who acknowledged each incident, by its id, from lines of the audit log in their order."""
    found: dict[str, str] = {}
    for line in lines:
        if line.action not in (ACKNOWLEDGED, WITHDRAWN):
            continue
        id_ = str(json.loads(line.details).get("incident", ""))
        if line.action == ACKNOWLEDGED:
            found[id_] = line.actor
        else:
            found.pop(id_, None)
    return found


async def acknowledge_incident(request: Request, context: "ApiContext") -> Response:
    """Notes who looks after an incident, or withdraws that."""
    id_, who, controller = request.path_params["id"], caller_of(request).name, context.controller
    try:
        fields = FieldReader(yamlfile.parse(await read_json_text(request), "acknowledgement"))
        fields.check_keys((), ("acknowledged",))
        is_acknowledged = read_bool(fields, ("acknowledged",))
        if fields.problems:
            raise InputError(fields.problems)
    except (BadBodyError, InputError) as error:
        return body_error_response(error)
    known = controller.last_result
    if known is None or all(one.id != id_ for one in known.snapshot.incidents):
        return error_response(404, "no such incident, or it is over for long")
    await controller.acknowledge(who, id_, is_acknowledged)
    return JSONResponse({"incident": id_, "acknowledged_by": who if is_acknowledged else None})
