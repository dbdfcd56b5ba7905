"""The commands for silences: what is not told for a while, since somebody works there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from skewscope.kb.problems import InputError, Problem, SkewscopeError
from skewscope.tui import start
from skewscope.tui.controlling import Lives
from skewscope.tui.terminal import Commanded, json_option, print_json, show
from skewscope.tui.text import Line, line

PATH = "/api/v1/silences"
URL = "http://127.0.0.1:8470"
MATCHERS = ("condition", "entity", "node", "group", "rack")
MOST_SHOWN = 20


def where_options(command: Commanded) -> Commanded:
    """`--url` and `--token-file`."""
    token = f"A file with a token; without it, the one in {start.TOKEN}."
    command = click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE", help=token)(command)
    return click.option("--url", default=URL, show_default=True, help="Where `skewscope run` listens.")(command)


def what_options(command: Commanded) -> Commanded:
    """What a silence is."""
    options: list[Callable[[Commanded], Commanded]] = [
        click.option("--comment", required=True, help="Why."),
        click.option("--endless", is_flag=True, help="Without an end; has to be forced."),
        click.option("--ends", metavar="TIME", help="When it ends, as 2026-11-21T17:30:00Z."),
        click.option("--hours", type=float, help="How long it lasts."),
        click.option("--starts", metavar="TIME", help="When it begins; now when left out."),
    ]
    options += [
        click.option(f"--{name}", multiple=True, metavar="NAME", help=f"A {name}; may be given several times.")
        for name in reversed(MATCHERS)
    ]
    for option in options:
        command = option(command)
    return command


@click.group("silence", cls=Lives)
def silence() -> None:
    """Keep incidents from being told while somebody works there.

    They are still found, kept and shown. Of several kinds of name an incident has to match each, and with everything
    that it is on.
    """


@silence.command("add")
@where_options
@what_options
@click.option("--force", is_flag=True, help="Even if it is too broad; needs the role admin.")
@json_option
def add(url: str, token_file: Path | None, as_json: bool, **wanted: Any) -> None:
    """Make a silence, and tell what it hides."""
    told = _asked(url, token_file, "POST", PATH, _told(**wanted))
    if as_json:
        print_json(told)
        return
    show([line(f"{told['id']}: {_when(told)}.", "ok"), *_preview(told["preview"])], wrapped=True)


@silence.command("preview")
@where_options
@what_options
@json_option
def preview(url: str, token_file: Path | None, as_json: bool, **wanted: Any) -> None:
    """Tell what a silence would hide now, and would have hidden in the last week."""
    told = _asked(url, token_file, "POST", f"{PATH}/preview", _told(**wanted))
    if as_json:
        print_json(told)
        return
    show(_preview(told), wrapped=True)


@silence.command("list")
@where_options
@click.option("--all", "all_", is_flag=True, help="Those that are over, too.")
@json_option
def list_(url: str, token_file: Path | None, all_: bool, as_json: bool) -> None:
    """Tell which silences there are."""
    found = _asked(url, token_file, "GET", PATH)["silences"]
    found = [one for one in found if all_ or one["state"] != "ended"]
    if as_json:
        print_json(found)
        return
    show([line(_row(one)) for one in found] or [line("No silences.")])


@silence.command("end")
@where_options
@click.argument("id_", metavar="ID")
def end(url: str, token_file: Path | None, id_: str) -> None:
    """End a silence; what it hid and still fires is told then."""
    told = _asked(url, token_file, "DELETE", f"{PATH}/{quote(id_, safe='')}")
    show([line(f"{told['id']}: ended.", "ok")])


def _told(**wanted: Any) -> dict[str, Any]:
    """What is sent: what was named, and nothing else."""
    match = {name: list(wanted.pop(name)) for name in MATCHERS}
    return {"match": {name: names for name, names in match.items() if names}} | {k: v for k, v in wanted.items() if v}


def _asked(url: str, token_file: Path | None, method: str, path: str, told: object = None) -> Any:
    """What a controller answers.

    Raises:
        SkewscopeError: nobody answers, or what is wrong.
    """
    from http.client import HTTPException  # noqa: PLC0415

    from skewscope.adapters.channel import Channel  # noqa: PLC0415

    channel = Channel(start.controller(url, token_file))
    try:
        answer = channel.send(method, path, told)
        found = json.loads(answer.text)
    except (OSError, HTTPException, ValueError) as error:
        raise SkewscopeError(f"{url}: no answer of a controller ({error}).") from None
    finally:
        channel.close()
    if answer.status >= 400:
        raise _wrong(url, answer.status, found)
    return found


def _wrong(url: str, status: int, found: Any) -> SkewscopeError:
    told = found if isinstance(found, dict) else {}
    problems = [
        Problem("silence", 0, *(str(problem.get(part, "")) for part in ("field", "found", "expected", "hint")))
        for problem in told.get("problems", ())
    ]
    return InputError(problems) if problems else SkewscopeError(f"{url}: {told.get('error', f'the answer {status}')}.")


def _row(one: dict[str, Any]) -> str:
    match = ", ".join(f"{name} {' or '.join(names)}" for name, names in one["match"].items())
    return f"{one['id']}  {one['state']:7}  {_when(one)}  {match}  {one['owner']}: {one['comment']}"


def _when(one: dict[str, Any]) -> str:
    return f"from {one['starts']} " + (f"to {one['ends']}" if one["ends"] else "without an end")


def _preview(told: dict[str, Any]) -> list[Line]:
    lines = [line(f"It covers {told['nodes']} of {told['of_nodes']} nodes.")]
    lines += [line(f"Too broad: {why}.", "warn") for why in told["too_broad"]]
    lines.append(line(f"Now it would hide {told['now_count']}."))
    lines += _shown(told["now"])
    lines.append(line(f"In the last week it would have hidden {told['week_count']} of {told['week_of']}."))
    return lines + _shown(told["week"])


def _shown(found: list[dict[str, Any]]) -> list[Line]:
    lines = [
        line(f"  {one['opened_at']}  {one['severity']:8}  {one['condition']} on {one['entity']['name']}")
        for one in found[:MOST_SHOWN]
    ]
    return lines + ([line(f"  and {len(found) - MOST_SHOWN} more")] if len(found) > MOST_SHOWN else [])
