"""Requests of commands to a controller: which address, with which token, and what errors become.

A token is sent only to an address that was named on the same command line. The default address is asked without one.
"""

import json
import os
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from skewscope.kb.problems import InputError, Problem, SkewscopeError
from skewscope.tui.cli.options import CommandT
from skewscope.tui.cli.terminal import ACCEPTS_CONNECTION
from skewscope.tui.console import launcher

DEFAULT_URL = "http://127.0.0.1:8470"
MAX_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class ControllerAddress:
    """A controller, as the options name it."""

    url: str = DEFAULT_URL
    token_file: Path | None = None
    is_named: bool = False
    """Whether the user named the address; a token is sent to no other."""


def connection_options(command: CommandT) -> CommandT:
    """Add `--url` and `--token-file`; the command gets them as the argument `controller`.

    Both may be given before the command too: `skewscope --url URL silence list`.
    """

    @wraps(command)
    def run(*args: Any, url: str | None, token_file: Path | None, **more: Any) -> Any:
        return command(*args, controller=choose_address(url, token_file), **more)

    setattr(run, ACCEPTS_CONNECTION, True)
    token = f"File with the token for --url (default: the variable {launcher.TOKEN_VARIABLE})."
    wrapped = click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE", help=token)(run)
    what = f"Address of the controller (default: {DEFAULT_URL}, without a token)."
    return click.option("--url", metavar="URL", help=what)(wrapped)  # type: ignore[return-value]


def choose_address(url: str | None, token_file: Path | None) -> ControllerAddress:
    """Returns the controller that the options of a command and those before it name together.

    Raises:
        click.UsageError: there are two addresses, or a token without an address.
    """
    outer = click.get_current_context().find_root().params
    urls = [each for each in (outer.get("url"), url) if each]
    files = [each for each in (outer.get("token_file"), token_file) if each]
    if len(set(urls)) > 1 or len(set(files)) > 1:
        raise click.UsageError("--url and --token-file were given twice: name one controller and one token.")
    if files and not urls:
        raise click.UsageError(f"--token-file needs --url: a token is sent only to an address named with it. {_hint()}")
    return ControllerAddress(urls[0] if urls else DEFAULT_URL, Path(files[0]) if files else None, is_named=bool(urls))


def ask_controller(controller: ControllerAddress, method: str, path: str, body: object = None) -> Any:
    """Send a request to a controller and return its answer, a JSON object.

    Raises:
        InputError: The controller found problems in what was sent.
        SkewscopeError: The controller does not answer, or rejects the request.
    """
    text = _request(controller, method, path, body)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SkewscopeError(f"{controller.url}: the controller does not answer ({error}).") from None
    if not isinstance(found, dict):
        raise SkewscopeError(f"{controller.url}: an answer that is no JSON object; is this a controller?")
    return found


def ask_text(controller: ControllerAddress, path: str) -> str:
    """Get a text of a controller.

    Raises:
        SkewscopeError: The controller does not answer, or rejects the request.
    """
    return _request(controller, "GET", path).decode("utf-8", "replace")


def _request(controller: ControllerAddress, method: str, path: str, body: object = None) -> bytes:
    """Returns the body of a good answer.

    Raises:
        InputError: The controller found problems in what was sent.
        SkewscopeError: The controller does not answer, or rejects the request.
    """
    from http.client import HTTPException  # noqa: PLC0415

    from skewscope.adapters.runtime.channel import Channel  # noqa: PLC0415

    endpoint = launcher.resolve_controller(controller.url, controller.token_file, with_token=controller.is_named)
    channel = Channel(endpoint)
    try:
        answer = channel.send(method, path, body)
        problems = json.loads(answer.body) if answer.status >= 400 else None
    except (OSError, HTTPException, ValueError, RecursionError) as error:
        raise SkewscopeError(f"{controller.url}: the controller does not answer ({error}).") from None
    finally:
        channel.close()
    if answer.status >= 400:
        raise _to_error(controller, answer.status, problems)
    return answer.body


def expect_list(controller: ControllerAddress, answer: Any, name: str) -> list[Any]:
    """Returns a list of an answer.

    Raises:
        SkewscopeError: it is missing.
    """
    found = answer.get(name)
    if not isinstance(found, list):
        raise SkewscopeError(f"{controller.url}: an answer without {name!r}; is this a controller of this version?")
    return found


def _to_error(controller: ControllerAddress, status: int, found: Any) -> SkewscopeError:
    details = found if isinstance(found, dict) else {}
    listed = details.get("problems", ())
    problems = [
        Problem("request", 0, *(str(problem.get(part, "")) for part in ("field", "found", "expected", "hint")))
        for problem in (listed[:MAX_PROBLEMS] if isinstance(listed, list) else ())
        if isinstance(problem, dict)
    ]
    if problems:
        return InputError(problems)
    hint = ""
    if status in (401, 403) and not controller.is_named and os.environ.get(launcher.TOKEN_VARIABLE):
        hint = f" The token of {launcher.TOKEN_VARIABLE} was not sent: {_hint()}"
    return SkewscopeError(f"{controller.url}: {details.get('error', f'HTTP status {status}')}.{hint}")


def _hint() -> str:
    return f"Add --url {DEFAULT_URL} for a controller on this machine."
