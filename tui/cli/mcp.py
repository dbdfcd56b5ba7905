"""The command `mcp`: answers an assistant by the Model Context Protocol."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.kb.problems import SkewscopeError
from skewscope.tui.cli.controller import FILE, ControllerCommand
from skewscope.tui.cli.controller_client import ControllerAddress, ask_controller, connection_options

if TYPE_CHECKING:
    from skewscope.adapters.controller.config import ControllerConfig
    from skewscope.tui.assistant.tools import AssistantTools

FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command("mcp", cls=ControllerCommand)
@click.option(
    "--folder",
    type=FOLDER,
    required=True,
    metavar="DIR",
    help="The only folder whose files an assistant may have read, such as that of recordings.",
)
@click.option("--http", "address", metavar="HOST:PORT", help="Serve over HTTP at /mcp instead of on stdio.")
@click.option(
    "--config", type=FILE, metavar="FILE", help="skewscope.yaml, whose tokens and certificate count for --http."
)
@connection_options
def mcp(folder: Path, address: str | None, config: Path | None, controller: ControllerAddress) -> None:
    """Answer an assistant by the Model Context Protocol: diagnose files, explain, search; read-only.

    With --url it may ask the controller for incidents too. --http needs --config; each request then needs a token
    of the role `read` there. Needs `pip install 'skewscope[mcp]'`.
    """
    from skewscope.tui.assistant.command_runner import CommandRunner  # noqa: PLC0415
    from skewscope.tui.assistant.tools import AssistantTools  # noqa: PLC0415

    ask = partial(ask_controller, controller, "GET") if controller.is_named else None
    tools = AssistantTools(CommandRunner(folder), ask)
    if (address is None) != (config is None):
        raise click.UsageError("--http and --config belong together: an address, and the tokens that protect it.")
    if address is None or config is None:
        _serve_on_stdio(tools)
    else:
        from skewscope.adapters.controller.config import read  # noqa: PLC0415
        from skewscope.adapters.runtime.log_lines import configure_log  # noqa: PLC0415

        configure_log("%(asctime)s %(levelname)s %(message)s")
        _serve_over_http(tools, read(config), *_parse_address(address))


def _serve_on_stdio(tools: "AssistantTools") -> None:
    from importlib.metadata import version  # noqa: PLC0415

    try:
        from skewscope.tui.assistant.server import build_server  # noqa: PLC0415
    except ImportError:
        raise _missing_sdk() from None
    build_server(tools, version("skewscope")).run("stdio")


def _serve_over_http(tools: "AssistantTools", settings: "ControllerConfig", host: str, port: int) -> None:
    try:
        from skewscope.tui.assistant.http_server import serve  # noqa: PLC0415
    except ImportError:
        raise _missing_sdk() from None
    serve(tools, settings, host, port)


def _missing_sdk() -> SkewscopeError:
    return SkewscopeError("the SDK of the Model Context Protocol is missing: pip install 'skewscope[mcp]'")


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"{text!r} is no HOST:PORT; write 127.0.0.1:8471.", param_hint="--http")
    return host.strip("[]"), int(port)
