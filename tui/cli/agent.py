"""The command that runs an agent. Whatever it needs is imported where it is used: a DPU has little of the rest."""

from pathlib import Path

import click

DEFAULT_CONFIG = Path("/etc/skewscope/agent.yaml")


class AgentCommand(click.Command):
    """A command that runs until it is told to end."""

    section = "Run"


@click.command("agent", cls=AgentCommand)
@click.option("--config", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default=True, metavar="FILE")
@click.option("--check", is_flag=True, help="Only say what is wrong with the configuration.")
def agent(config: Path, check: bool) -> None:
    """Observe a node from its DPU: counters, packets, and pages of its exporters; push them to controllers."""
    from skewscope.adapters.agent import __main__ as main  # noqa: PLC0415

    click.get_current_context().exit(main.check(config) if check else main.run(config))
