"""The `silence` commands: suppress notifications during maintenance."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import click

from skewscope.tui.cli.controller import ControllerGroup
from skewscope.tui.cli.controller_client import ControllerAddress, ask_controller, connection_options, expect_list
from skewscope.tui.cli.options import CommandT, json_option
from skewscope.tui.cli.terminal import print_json, print_lines
from skewscope.tui.render.text import Line, line

API_PATH = "/api/v1/silences"
MATCHERS = ("condition", "entity", "node", "group", "rack")
MAX_LISTED = 20


def silence_options(command: CommandT) -> CommandT:
    """Add the options that define a silence."""
    options: list[Callable[[CommandT], CommandT]] = [
        click.option("--comment", required=True, help="Reason of the silence."),
        click.option("--endless", is_flag=True, help="No end; requires --force."),
        click.option("--ends", metavar="TIME", help="End, as 2026-11-21T17:30:00Z."),
        click.option("--hours", type=float, help="Duration in hours."),
        click.option("--starts", metavar="TIME", help="Start (default: now)."),
    ]
    options += [
        click.option(f"--{name}", multiple=True, metavar="NAME", help=f"Match this {name}; repeatable.")
        for name in reversed(MATCHERS)
    ]
    for option in options:
        command = option(command)
    return command


@click.group("silence", cls=ControllerGroup)
def silence() -> None:
    """Suppress notifications of incidents during maintenance.

    Silenced incidents are still detected, stored and shown. With several kinds of names an incident must match each
    kind, for every entity that it affects.
    """


@silence.command("add")
@connection_options
@silence_options
@click.option("--force", is_flag=True, help="Create it even if it is too broad; requires the role admin.")
@json_option
def add(controller: ControllerAddress, as_json: bool, **wanted: Any) -> None:
    """Create a silence and show what it suppresses."""
    answer = ask_controller(controller, "POST", API_PATH, _request_body(**wanted))
    if as_json:
        print_json(answer)
        return
    print_lines(
        [line(f"{answer['id']}: {_format_period(answer)}.", "ok"), *_preview_lines(answer["preview"])], wrapped=True
    )


@silence.command("preview")
@connection_options
@silence_options
@json_option
def preview(controller: ControllerAddress, as_json: bool, **wanted: Any) -> None:
    """Show what a silence would suppress now and would have suppressed in the last week."""
    answer = ask_controller(controller, "POST", f"{API_PATH}/preview", _request_body(**wanted))
    if as_json:
        print_json(answer)
        return
    print_lines(_preview_lines(answer), wrapped=True)


@silence.command("list")
@connection_options
@click.option("--all", "all_", is_flag=True, help="Include ended silences.")
@json_option
def list_(controller: ControllerAddress, all_: bool, as_json: bool) -> None:
    """List silences."""
    found = expect_list(controller, ask_controller(controller, "GET", API_PATH), "silences")
    found = [one for one in found if all_ or one["state"] != "ended"]
    if as_json:
        print_json(found)
        return
    print_lines([line(_format_silence(one)) for one in found] or [line("No silences.")])


@silence.command("end")
@connection_options
@click.argument("id_", metavar="ID")
def end(controller: ControllerAddress, id_: str) -> None:
    """End a silence; notifications of incidents that still fire are then sent."""
    answer = ask_controller(controller, "DELETE", f"{API_PATH}/{quote(id_, safe='')}")
    print_lines([line(f"{answer['id']}: ended.", "ok")])


def _request_body(**wanted: Any) -> dict[str, Any]:
    """Returns the request body: the options that were given."""
    match = {name: list(wanted.pop(name)) for name in MATCHERS}
    return {"match": {name: names for name, names in match.items() if names}} | {k: v for k, v in wanted.items() if v}


def _format_silence(one: dict[str, Any]) -> str:
    match = ", ".join(f"{name} {' or '.join(names)}" for name, names in one["match"].items())
    return f"{one['id']}  {one['state']:7}  {_format_period(one)}  {match}  {one['owner']}: {one['comment']}"


def _format_period(one: dict[str, Any]) -> str:
    return f"from {one['starts']} " + (f"to {one['ends']}" if one["ends"] else "without end")


def _preview_lines(answer: dict[str, Any]) -> list[Line]:
    lines = [line(f"It covers {answer['nodes']} of {answer['of_nodes']} nodes.")]
    lines += [line(f"Too broad: {why}.", "warn") for why in answer["too_broad"]]
    lines.append(line(f"It would silence {answer['now_count']} incidents now."))
    lines += _incident_lines(answer["now"])
    lines.append(
        line(f"In the last week it would have silenced {answer['week_count']} of {answer['week_of']} incidents.")
    )
    return lines + _incident_lines(answer["week"])


def _incident_lines(found: list[dict[str, Any]]) -> list[Line]:
    lines = [
        line(f"  {one['opened_at']}  {one['severity']:8}  {one['condition']} on {one['entity']['name']}")
        for one in found[:MAX_LISTED]
    ]
    return lines + ([line(f"  and {len(found) - MAX_LISTED} more")] if len(found) > MAX_LISTED else [])
