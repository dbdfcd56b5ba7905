"""One incident of a controller, read over its API."""

import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from skewscope.kb.problems import SkewscopeError
from skewscope.tui.cli.controller_client import ControllerAddress, ask_controller, ask_text, expect_list
from skewscope.tui.cli.options import load_catalogue

if TYPE_CHECKING:
    from skewscope.engine.model.incident import Incident
    from skewscope.tui.render.detail import DisplayNames

INCIDENTS_PATH, TOPOLOGY_PATH = "/api/v1/incidents", "/api/v1/topology"


def read_incident(controller: ControllerAddress, id_: str) -> "tuple[Incident, DisplayNames, float]":
    """Returns an incident of a controller, names for its texts, and the time.

    The names are those of the topology and of the latest incidents there.

    Raises:
        SkewscopeError: there is no such incident, or the controller does not answer.
    """
    from skewscope.engine.model.topology_file import parse_valid_topology  # noqa: PLC0415
    from skewscope.kb.yamlfile import parse  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415

    others = _list_incidents(controller)
    begins = [other.id for other in others if other.id.startswith(id_)]
    whole = begins[0] if len(begins) == 1 else id_
    incident = _parse(controller, ask_controller(controller, "GET", f"{INCIDENTS_PATH}/{quote(whole, safe='')}"))
    path = f"{TOPOLOGY_PATH}?node={quote(incident.name.partition('/')[0], safe='')}"  # of a large fleet only this part
    topology = parse_valid_topology(parse(ask_text(controller, path), controller.url + TOPOLOGY_PATH))
    incidents = (incident, *(other for other in others if other.id != incident.id))
    return incident, DisplayNames(load_catalogue(), incidents, topology=topology), time.time()


def _list_incidents(controller: ControllerAddress) -> "list[Incident]":
    """Returns the latest incidents, to which one may refer; none where they are more than an answer may have."""
    with suppress(SkewscopeError):
        listed = expect_list(controller, ask_controller(controller, "GET", INCIDENTS_PATH), "incidents")
        return [_parse(controller, each) for each in listed]
    return []


def _parse(controller: ControllerAddress, fields: Any) -> "Incident":
    from skewscope.engine.model.incident import parse_incident, upgrade_incident  # noqa: PLC0415

    try:
        incident = parse_incident(upgrade_incident(fields))
        history = tuple((float(event["t"]), str(event["what"])) for event in fields.get("history", ()))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"an incident that cannot be read ({type(error).__name__}: {error}); is this a controller?"
        raise SkewscopeError(f"{controller.url}: {problem}") from None
    return replace(incident, history=history)
