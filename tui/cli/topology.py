"""The `topology` commands: draft a topology from a scheduler's data or a Prometheus server."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.adapters.runtime.watchdog import bound_memory, bound_work
from skewscope.tui.cli.options import CommandT
from skewscope.tui.cli.terminal import SuggestingGroup

if TYPE_CHECKING:
    from skewscope.adapters.discovery.draft import TopologyDraft

FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


class TopologyGroup(SuggestingGroup):
    """A group of commands on topologies."""

    section = "Operate"


def _file_option(name: str, what: str) -> Callable[[CommandT], CommandT]:
    """Returns an option that takes files."""
    return click.option(name, type=FILE, multiple=True, metavar="FILE", help=what)


@click.group("topology", cls=TopologyGroup)
def topology() -> None:
    """Draft a topology.yaml from a scheduler's data or a Prometheus server."""


@topology.command("discover")
@_file_option("--slurm", "topology.conf, or the output of `scontrol show topology` or `scontrol show nodes`.")
@_file_option("--kubernetes", "The output of `kubectl get nodes,pods -A -o json`.")
@_file_option("--ports", "A page of node_exporter, in a file named as the node.")
@click.option("--prometheus", metavar="URL", help="A Prometheus server: the series that live.")
@click.option("--token-file", type=FILE, metavar="FILE", help="File with a bearer token for --prometheus.")
def discover(prometheus: str | None, token_file: Path | None, **files: tuple[Path, ...]) -> None:
    """Write a topology.yaml from a scheduler's data or a Prometheus server; unknown parts are marked.

    `-` reads standard input. Each option of a file may be repeated. What a scheduler says of a node counts before what
    its metrics say.
    """
    if not (any(files.values()) or prometheus):
        raise click.UsageError("Give at least one of --slurm, --kubernetes, --ports and --prometheus.")
    from skewscope.adapters.discovery.render import count_marks, render_topology  # noqa: PLC0415

    paths = [path for some in files.values() for path in some]
    with bound_work(str(paths[0]) if paths else ""):
        draft = _build_draft(files["slurm"], files["kubernetes"], files["ports"])
    if prometheus:
        with bound_memory(prometheus):  # waiting for its answers is no work
            _add_server(draft, prometheus, token_file)
    text = render_topology(draft)
    click.echo(text, nl=False)
    click.echo(f"{count_marks(text)} places to complete; search for FILL IN.", err=True)


def _add_server(draft: "TopologyDraft", url: str, token_file: Path | None) -> None:
    """Add what the series of a Prometheus server name, and print from which labels."""
    import asyncio  # noqa: PLC0415

    from skewscope.adapters.discovery.prometheus import discover_topology  # noqa: PLC0415

    found = asyncio.run(discover_topology(url, token_file))
    draft.add(found.nodes.values())
    draft.groups += [group for group in found.groups if group.name not in {each.name for each in draft.groups}]
    draft.assumptions += found.assumptions
    for each in found.assumptions:
        click.echo(f"found {each}", err=True)


def _build_draft(slurms: tuple[Path, ...], kubes: tuple[Path, ...], pages: tuple[Path, ...]) -> "TopologyDraft":
    from skewscope.adapters.discovery import kubernetes, ports, slurm  # noqa: PLC0415
    from skewscope.adapters.discovery.draft import TopologyDraft  # noqa: PLC0415
    from skewscope.adapters.formats.compression import open_argument  # noqa: PLC0415

    draft = TopologyDraft()
    for path in slurms:
        with open_argument(path) as stream:
            draft.add(slurm.parse_nodes(stream, str(path)))
    for path in kubes:
        with open_argument(path) as stream:
            nodes, groups, remarks = kubernetes.parse_cluster(stream, str(path))
        draft.add(nodes)
        draft.groups += groups
        draft.remarks += remarks
    for path in pages:
        with open_argument(path) as stream:
            page = ports.parse_page(stream, path.stem)
        draft.add([ports.draft_node(page, draft.nodes.get(page.name))])
    return draft
