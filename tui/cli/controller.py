"""The commands of a controller: run it, check its config, write the tokens of agents."""

from pathlib import Path

import click

from skewscope.kb.problems import InputError, Problem, SkewscopeError
from skewscope.tui.cli.terminal import EXIT_ERROR, SuggestingGroup, print_error

FILE = click.Path(path_type=Path, dir_okay=False)


class ControllerCommand(click.Command):
    """A command of the controller."""

    section = "Operate"


class ControllerGroup(SuggestingGroup):
    """A group of commands of the controller."""

    section = "Operate"


@click.command("run", cls=ControllerCommand)
@click.option(
    "--config", "path", type=FILE, required=True, metavar="FILE", help="The controller's config, skewscope.yaml."
)
def run(path: Path) -> None:
    """Run the controller: ingest telemetry, diagnose it, and serve and store the incidents.

    \b
    Examples:
      skewscope config new && skewscope run --config skewscope.yaml
      skewscope --url http://127.0.0.1:8470         its console

    SIGHUP reloads the config; SIGTERM shuts down cleanly.
    """
    from skewscope.adapters.controller.process import run as run_  # noqa: PLC0415
    from skewscope.adapters.runtime.log_lines import configure_log  # noqa: PLC0415
    from skewscope.tui.render.incident_pages import HtmlPages  # noqa: PLC0415

    configure_log("%(asctime)s %(levelname)s %(message)s")
    run_(path, HtmlPages())


@click.group("config", cls=ControllerGroup)
def config() -> None:
    """Write and check a controller's config."""


@config.command("check")
@click.argument("path", type=FILE, metavar="FILE")
def check(path: Path) -> None:
    """Report all problems of a config at once.

    Exit codes: 0 valid, 2 invalid.
    """
    from skewscope.adapters.controller.config import read_at_start  # noqa: PLC0415

    try:
        found = read_at_start(path)
    except InputError as error:
        print_error(error)
        click.get_current_context().exit(EXIT_ERROR)
    nodes, sources = len(found.topology.nodes), len(found.sources)
    click.echo(f"{path}: valid. {nodes} nodes, {sources} sources, listens on {found.listen.host}:{found.listen.port}.")
    if found.knowledge is not None:
        click.echo(str(found.knowledge))


@config.command("new")
@click.argument("path", type=FILE, metavar="[FILE]", default=Path("skewscope.yaml"))
@click.option("--topology", default="topology.yaml", show_default=True, metavar="NAME", help="The topology beside it.")
def new(path: Path, topology: str) -> None:
    """Write a commented config to begin with, valid as it is.

    \b
    Examples:
      skewscope config new
      skewscope config new /etc/skewscope/skewscope.yaml --topology topology.yaml

    A topology that is not there yet is written too, with two nodes to replace. Nothing is overwritten.
    """
    from skewscope.adapters.controller.config_template import config_template, example_topology  # noqa: PLC0415

    beside = path.parent / topology
    _write_new(path, config_template(path.name, topology))
    if not beside.exists():
        _write_new(beside, example_topology())
        click.echo(f"{beside}: two nodes as an example; replace them by yours.")
    click.echo(f"{path}: edit it, then run `skewscope config check {path}`.")


def _write_new(path: Path, text: str) -> None:
    """Writes a file that is not there yet.

    Raises:
        InputError: it is there.
        SkewscopeError: it cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        hint = "Give another name, or remove it first."
        raise InputError([Problem(str(path), 0, "", "an existing file", "a new file", hint)]) from None
    except OSError as error:
        raise SkewscopeError(f"{path}: {error.strerror}") from None


@config.command("tokens")
@click.argument("path", type=FILE, metavar="FILE")
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="FOLDER",
    help="Where a file is written for each node.",
)
def tokens(path: Path, nodes: tuple[str, ...], folder: Path) -> None:
    """Write a file with the token of each node's agent, derived from a config's `agents.secret`.

    The file has the name of the node. Without NODE, of all nodes of the topology. Exit codes: 0 written, 2 invalid.
    """
    from skewscope.adapters.config.agent_tokens import write_tokens  # noqa: PLC0415
    from skewscope.adapters.controller.config import read_at_start  # noqa: PLC0415

    found = read_at_start(path)
    unknown = sorted(set(nodes) - found.topology.node.keys())
    if found.agent_secret is None or unknown:
        what = f"no node of the topology: {', '.join(unknown)}" if unknown else "the config has no agents.secret"
        raise SkewscopeError(f"{path}: {what}")
    try:
        written = write_tokens(found.agent_secret, nodes or found.topology.node, folder)
    except OSError as error:
        raise SkewscopeError(f"{folder}: {error.strerror}") from None
    click.echo(f"{folder}: the tokens of {len(written)} nodes")
