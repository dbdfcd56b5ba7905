"""The command that runs an agent. Imports are local, so that an agent needs few packages."""

from pathlib import Path

import click

DEFAULT_CONFIG = Path("/etc/skewscope/agent.yaml")


class AgentCommand(click.Command):
    """A command that runs until it is stopped."""

    section = "Operate"


@click.command("agent", cls=AgentCommand)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=DEFAULT_CONFIG,
    show_default=True,
    metavar="FILE",
    help="The agent's configuration.",
)
@click.option("--check", is_flag=True, help="Check the configuration and exit.")
def agent(config: Path, check: bool) -> None:
    """Observe a node from its DPU and push its telemetry to controllers.

    Reads counters, packets and the pages of the node's exporters.
    """
    from skewscope.adapters.agent import __main__ as main  # noqa: PLC0415

    click.get_current_context().exit(main.check(config) if check else main.run(config))
