"""The `act` commands: what is proposed, approve, refuse, undo; targets, dry runs, outcomes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from skewscope.kb.problems import SkewscopeError
from skewscope.tui.cli.controller import FILE, ControllerGroup
from skewscope.tui.cli.controller_client import ControllerAddress, ask_controller, connection_options, expect_list
from skewscope.tui.cli.options import CommandT, json_option, load_catalogue, parse_duration
from skewscope.tui.cli.shadow import shadow
from skewscope.tui.cli.terminal import EXIT_OK, EXIT_PROBLEMS, output_width, print_json, print_lines
from skewscope.tui.render.text import Line, line

MAX_IDLE = 20
"""Incidents without a plan that are listed."""
ACTIONS_PATH, TARGETS_PATH, INCIDENTS_PATH = "/api/v1/actions", "/api/v1/targets", "/api/v1/incidents"
DEFAULT_LISTED = 50


@click.group("act", cls=ControllerGroup)
def act() -> None:
    """Approve, refuse, undo and inspect what a controller does about its incidents.

    A controller acts only where its config says so; docs/acting.md describes how.
    """


@act.command("list")
@connection_options
@click.option("--live", is_flag=True, help="Only those that may still change something.")
@click.option("--incident", metavar="ID", help="Only those for this incident.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=DEFAULT_LISTED, show_default=True, help="At most so many."
)
@json_option
def list_(controller: ControllerAddress, live: bool, incident: str | None, limit: int, as_json: bool) -> None:
    """List actions: proposals first, ended ones last."""
    query = f"?limit={limit}{'&live=1' if live else ''}"
    query += f"&incident={quote(incident, safe='')}" if incident else ""
    answer = ask_controller(controller, "GET", ACTIONS_PATH + query)
    listed = expect_list(controller, answer, "actions")
    if as_json:
        print_json(listed)
        return
    from skewscope.tui.render.actions import action_line, rank_actions  # noqa: PLC0415

    found = rank_actions(_parse(one) for one in listed)
    names = _names()
    mode = str(answer.get("mode", ""))
    shown = [action_line(one, names) for one in found]
    print_lines(_freeze_lines(answer), wrapped=True)
    print_lines([line(f"mode {mode}", "dim"), *(shown or [line(f"No actions{'' if live else ' yet'}.")])])
    print_lines(_idle_lines(answer), wrapped=True)


@act.command("show")
@connection_options
@click.argument("id_", metavar="ID")
@json_option
def show(controller: ControllerAddress, id_: str, as_json: bool) -> None:
    """Show an action: its plan with the very calls, the evidence, what it gave back, its history."""
    answer = ask_controller(controller, "GET", _path(id_))
    if as_json:
        print_json(answer)
        return
    _print_action(controller, answer)


def why_option(command: CommandT) -> CommandT:
    """Add `--why`, which is required."""
    option = click.option("--why", required=True, metavar="REASON", help="The reason, for the audit log.")
    return option(command)


@act.command("approve")
@connection_options
@click.argument("id_", metavar="ID")
@why_option
@click.option("--option", metavar="K", help="Approve this option of `act plan` instead: its number, or its title.")
@json_option
def approve(controller: ControllerAddress, id_: str, why: str, option: str | None, as_json: bool) -> None:
    """Approve a proposal; it begins as soon as its limits allow.

    Where the config asks for two persons, it waits for the second one.

    For example: `skewscope act approve a-0123456789ab --why "looked at it"`.
    """
    body = {"why": why} | ({"option": option} if option else {})
    answer = ask_controller(controller, "POST", f"{_path(id_)}/approve", body)
    print_json(answer) if as_json else _print_decision(str(answer.get("id", id_)), answer)


@act.command("propose")
@connection_options
@click.argument("incident", metavar="INCIDENT")
@why_option
@click.option("--option", metavar="K", default="1", show_default=True, help="Number or title, of `act plan`.")
@json_option
def propose(controller: ControllerAddress, incident: str, why: str, option: str, as_json: bool) -> None:
    """Plan a change of your choice for an incident; it waits for an approval, and for its limits.

    For example: `skewscope act plan INCIDENT`, then `skewscope act propose INCIDENT --option 2 --why REASON`.
    """
    path = f"{INCIDENTS_PATH}/{quote(incident, safe='')}/propose"
    answer = ask_controller(controller, "POST", path, {"why": why, "option": option})
    print_json(answer) if as_json else _print_decision(str(answer.get("id", "")), answer)


def _person_command(name: str, summary: str) -> Callable[..., None]:
    """Defines a command that asks a controller to do something with an action."""

    @act.command(name, help=summary)
    @connection_options
    @click.argument("id_", metavar="ID")
    @why_option
    @json_option
    def run(controller: ControllerAddress, id_: str, why: str, as_json: bool) -> None:
        answer = ask_controller(controller, "POST", f"{_path(id_)}/{name}", {"why": why})
        if as_json:
            print_json(answer)
            return
        _print_decision(id_, answer)

    return run


def _print_decision(id_: str, answer: Any) -> None:
    from skewscope.adapters.actions.summary import describe_action  # noqa: PLC0415

    print_lines([line(f"{id_}: {describe_action(_parse(answer))}.", "ok")], wrapped=True)


refuse = _person_command("refuse", "Refuse an action that has not begun.")
done = _person_command("done", "Say that the calls of an action, or of its undo, were run by hand.")


@act.command("undo")
@connection_options
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--all", "all_", is_flag=True, help="Take back every change in place at once, and freeze.")
@why_option
@json_option
def undo(controller: ControllerAddress, id_: str | None, all_: bool, why: str, as_json: bool) -> None:
    """Have a change in place taken back; one without undo ends.

    With --all nothing new begins afterwards until `act thaw`; what has not begun is refused.

    For example: `skewscope act undo a-0123456789ab --why "we need it"`, or `skewscope act undo --all --why "no power"`.
    """
    if all_ == (id_ is not None):
        raise click.UsageError("Give the ID of an action, or --all.")
    path = f"{ACTIONS_PATH}/undo-all" if id_ is None else f"{_path(id_)}/undo"
    answer = ask_controller(controller, "POST", path, {"why": why})
    if as_json:
        print_json(answer)
        return
    if id_ is not None:
        _print_decision(id_, answer)
        return
    failed = expect_list(controller, answer, "failed")
    taken = [_parse(one) for one in expect_list(controller, answer, "actions")]
    _print_freeze(answer)
    print_lines([line(f"{one.id}: {one.title}: {one.state}.", "ok") for one in taken] or [line("Nothing is in place.")])
    print_lines([line(f"{text}.", "warn") for text in map(str, failed)], wrapped=True)
    click.get_current_context().exit(EXIT_PROBLEMS if failed else EXIT_OK)


@act.command("freeze")
@connection_options
@why_option
@click.option("--for", "seconds", type=parse_duration, metavar="TIME", help="End by itself, after 15m, 2h or 7d.")
@click.option("--hold-undos", is_flag=True, help="Take nothing back meanwhile either; needs --for.")
@json_option
def freeze(controller: ControllerAddress, why: str, seconds: float | None, hold_undos: bool, as_json: bool) -> None:
    """Let nothing new begin, until `act thaw`; what is in place is still taken back in time.

    It outlasts restarts and the change of the leader.

    For example: `skewscope act freeze --why "release night" --for 4h`.
    """
    body = {"why": why} | ({"seconds": seconds} if seconds else {}) | ({"hold_undos": True} if hold_undos else {})
    answer = ask_controller(controller, "POST", f"{ACTIONS_PATH}/freeze", body)
    print_json(answer) if as_json else _print_freeze(answer)


@act.command("thaw")
@connection_options
@why_option
@json_option
def thaw(controller: ControllerAddress, why: str, as_json: bool) -> None:
    """End a freeze: actions are planned and begun again.

    For example: `skewscope act thaw --why "the release is done"`.
    """
    answer = ask_controller(controller, "POST", f"{ACTIONS_PATH}/thaw", {"why": why})
    print_json(answer) if as_json else _print_freeze(answer)


def _print_freeze(answer: Any) -> None:
    print_lines(_freeze_lines(answer) or [line("Not frozen.", "ok")], wrapped=True)
    if isinstance(answer.get("warning"), str) and answer["warning"]:
        print_lines([line(f"{answer['warning']}.", "warn")], wrapped=True)


def _freeze_lines(answer: Any) -> list[Line]:
    """Returns the freeze of an answer as a line; nothing where there is none."""
    found = answer.get("freeze")
    return [line(f"Actions are {found['text']}.", "warn")] if isinstance(found, dict) and "text" in found else []


def _idle_lines(answer: Any) -> list[Line]:
    """Returns why nothing is planned for diagnoses that fire, a line for each incident."""
    found = answer.get("nothing_planned")
    idle = list(found.items())[:MAX_IDLE] if isinstance(found, dict) else []
    return [line(f"Nothing is planned for {id_}: {'; '.join(map(str, why))}.", "dim") for id_, why in idle]


@act.command("plan")
@connection_options
@click.argument("incident", metavar="INCIDENT")
@json_option
def plan(controller: ControllerAddress, incident: str, as_json: bool) -> None:
    """Show what could be done for an incident, with the very calls; nothing is changed.

    Exit codes: 0 something could be done, 1 nothing.
    """
    answer = ask_controller(controller, "GET", f"{INCIDENTS_PATH}/{quote(incident, safe='')}/plan")
    changes = expect_list(controller, answer, "changes")
    if as_json:
        print_json(answer)
    else:
        from skewscope.tui.render.dry_run import dry_run_lines  # noqa: PLC0415

        print_lines(_checked(lambda: dry_run_lines(answer)), wrapped=True)
    click.get_current_context().exit(EXIT_OK if changes else EXIT_PROBLEMS)


act.add_command(shadow)


@act.command("targets")
@connection_options
@json_option
def targets(controller: ControllerAddress, as_json: bool) -> None:
    """List what actions may change: each target with its changes and the state of its members.

    Exit codes: 0 all targets answer, 1 some do not.
    """
    listed = expect_list(controller, ask_controller(controller, "GET", TARGETS_PATH), "targets")
    if as_json:
        print_json(listed)
    else:
        from skewscope.tui.render.dry_run import target_lines  # noqa: PLC0415

        print_lines(_checked(lambda: target_lines(listed)) or [line("No targets are configured.")], wrapped=True)
    silent = any(isinstance(one, dict) and one.get("trouble") for one in listed)
    click.get_current_context().exit(EXIT_PROBLEMS if silent else EXIT_OK)


@act.command("outcomes")
@connection_options
@json_option
def outcomes(controller: ControllerAddress, as_json: bool) -> None:
    """Show how often each mitigation was carried out and helped in this deployment."""
    listed = expect_list(controller, ask_controller(controller, "GET", f"{ACTIONS_PATH}/outcomes"), "outcomes")
    if as_json:
        print_json(listed)
        return
    from skewscope.adapters.actions.action_json import parse_outcomes  # noqa: PLC0415
    from skewscope.tui.render.actions import outcome_lines  # noqa: PLC0415

    found = _checked(lambda: parse_outcomes(listed))
    print_lines(outcome_lines(found.values(), _names()))


@act.command("check")
@click.option("--target", "name", required=True, metavar="NAME", help="Name of the target in the config.")
@click.option("--config", "path", type=FILE, required=True, metavar="FILE", help="The controller's config.")
@click.option("--member", "members", multiple=True, metavar="NAME", help="Check this member; repeatable.")
@json_option
def check(name: str, path: Path, members: tuple[str, ...], as_json: bool) -> None:
    """Read a target's state and render each change of its members; nothing is changed.

    Members are named as the target names them. Exit codes: 0 the target can be used, 1 something is wrong with it, 2
    the config is invalid.
    """
    import asyncio  # noqa: PLC0415

    from skewscope.adapters.actions.check import check_target  # noqa: PLC0415
    from skewscope.adapters.controller.config import read  # noqa: PLC0415
    from skewscope.adapters.targets import target_kinds  # noqa: PLC0415
    from skewscope.kb.problems import InputError, Problem, suggest_name  # noqa: PLC0415

    config = read(path)
    entry = next((one for one in config.targets if one.name == name), None)
    if entry is None:
        names = [one.name for one in config.targets]
        expected = f"one of {', '.join(names)}" if names else "a name in the section targets, which is empty"
        raise InputError([Problem(str(path), 0, "--target", repr(name), expected, suggest_name(name, names))])
    found = asyncio.run(check_target(target_kinds()[entry.kind].build(entry.settings), members))
    if as_json:
        print_json(found)
    else:
        from skewscope.tui.render.dry_run import check_lines  # noqa: PLC0415

        print_lines(check_lines(f"{name} ({entry.kind})", found), wrapped=True)
    click.get_current_context().exit(EXIT_OK if all(one.ok for one in found) else EXIT_PROBLEMS)


def _path(id_: str) -> str:
    return f"{ACTIONS_PATH}/{quote(id_, safe='')}"


def _names() -> Any:
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415

    return DisplayNames(load_catalogue())


def _parse(one: Any) -> Any:
    from skewscope.adapters.actions.action_json import parse_action_json  # noqa: PLC0415

    return _checked(lambda: parse_action_json(one))


def _checked(read: Callable[[], Any]) -> Any:
    """Returns what `read` makes of an answer.

    Raises:
        SkewscopeError: the answer is not of the form that it expects.
    """
    try:
        return read()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SkewscopeError(f"The controller's answer cannot be read: {str(error)[:200]}.") from None


def _print_action(controller: ControllerAddress, answer: Any) -> None:
    from skewscope.engine.model.incident import parse_incident  # noqa: PLC0415
    from skewscope.tui.render.actions import action_lines  # noqa: PLC0415

    action = _parse(answer)
    incident = None
    try:
        found = ask_controller(controller, "GET", f"{INCIDENTS_PATH}/{quote(action.reason.incident, safe='')}")
        incident = _checked(lambda: parse_incident(found))
    except SkewscopeError:
        incident = None  # the store may have forgotten it: the action is shown without its evidence
    columns = min(output_width(), 160)
    lines: list[Line] = action_lines(action, _names(), incident, columns, hint=_next_step(action))
    print_lines(lines)


def _next_step(action: Any) -> str:
    """Returns the commands that apply to an action in its state."""
    from skewscope.engine.actions.by_hand import awaits_person  # noqa: PLC0415

    if action.state == "proposed":
        others = f"other options: skewscope act plan {quote(action.reason.incident, safe='#@:')}"
        return f"skewscope act approve {action.id} --why REASON, or act refuse; {others}"
    if action.state == "approved":
        return f"skewscope act refuse {action.id} --why REASON"
    if awaits_person(action):
        return f"run what is said above, then skewscope act done {action.id} --why REASON; or act undo"
    return f"skewscope act undo {action.id} --why REASON" if action.is_in_place else ""
