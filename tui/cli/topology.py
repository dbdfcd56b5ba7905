"""The `topology` commands: draft a topology from a scheduler's data or a Prometheus server."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.kb.problems import InputError, Problem
from skewscope.tui.cli.options import CommandT
from skewscope.tui.cli.terminal import SuggestingGroup

if TYPE_CHECKING:
    from skewscope.adapters.discovery.draft import TopologyDraft

FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
MAX_BYTES = 512 << 20


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
@click.option("--prometheus", metavar="URL", help="A Prometheus server: the series of its last hour.")
@click.option("--token-file", type=FILE, metavar="FILE", help="File with a bearer token for --prometheus.")
def discover(prometheus: str | None, token_file: Path | None, **files: tuple[Path, ...]) -> None:
    """Write a topology.yaml from a scheduler's data or a Prometheus server; unknown parts are marked.

    `-` reads standard input. Each option of a file may be repeated. What a scheduler says of a node counts before what
    its metrics say.
    """
    if not (any(files.values()) or prometheus):
        raise click.UsageError("Give at least one of --slurm, --kubernetes, --ports and --prometheus.")
    from skewscope.adapters.discovery.render import count_marks, render_topology  # noqa: PLC0415

    draft = _build_draft(files["slurm"], files["kubernetes"], files["ports"])
    if prometheus:
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

    draft = TopologyDraft()
    for path, text in _read_texts(slurms):
        draft.add(slurm.parse_nodes(text, path))
    for path, text in _read_texts(kubes):
        nodes, groups, remarks = kubernetes.parse_cluster(text, path)
        draft.add(nodes)
        draft.groups += groups
        draft.remarks += remarks
    for path, text in _read_texts(pages):
        stem = Path(path).stem
        found = ports.parse_node(text, stem)
        draft.add([ports.parse_node(text, stem, draft.nodes.get(found.name))])
    return draft


def _read_texts(paths: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    for path in paths:
        try:
            with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise InputError(
                [Problem(str(path), 0, "", f"an unreadable file ({error.strerror})", "a text file")]
            ) from None
        if len(data) > MAX_BYTES:
            raise InputError(
                [Problem(str(path), 0, "", f"more than {MAX_BYTES >> 20} MiB", f"at most {MAX_BYTES >> 20} MiB")]
            )
        yield str(path), data.decode("utf-8", "replace")
