"""The commands about the catalogue: `kb`."""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.kb.kinds import KINDS
from skewscope.kb.problems import InputError, Problem
from skewscope.tui.terminal import FINE, FOUND, Commanded, Commands, json_option, print_faults, print_json, show

if TYPE_CHECKING:
    from skewscope.kb.compiled import Written
    from skewscope.kb.model import Catalogue


class Know(Commands):
    """A group of commands about what is known and how it is recognised."""

    section = "What is known"


def catalogue() -> "Catalogue":
    """The catalogue that comes with the package."""
    from skewscope.kb.load import catalogue as load  # noqa: PLC0415

    return load()


@click.group("kb", cls=Know)
def kb() -> None:
    """The catalogue: conditions, signals, mitigations, sources, findings."""


FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
KIND = click.Choice(KINDS)
DEPLOYMENT = click.Choice(["dpu-front-end", "dpu-every-rail", "dpu-pcie-root", "dpu-relayed"])
VERDICT = ("visible", "partial", "relayed")


def output_option(command: Commanded) -> Commanded:
    """`-o FILE`."""
    what = "Write it there instead of printing it."
    option = click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help=what)
    return option(command)


def deliver(text: str, output: Path | None) -> None:
    """Print a text as it is, or write it to a file."""
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


@kb.command("list")
@click.argument("kind", type=KIND, default="conditions")
@click.option("--seen-by", type=DEPLOYMENT, help="Only conditions of which such a DPU sees something.")
@click.option("--where", "fields", metavar="FIELD=VALUE", multiple=True, help="Only entries that have this value.")
@json_option
def kb_list(kind: str, seen_by: str | None, fields: tuple[str, ...], as_json: bool) -> None:
    """List all entries of a kind, or those that fit.

    For example: `kb list --seen-by dpu-front-end`, `kb list --where group=pcie --where grade=A`,
    `kb list sources --where seen="full text"`.
    """
    from skewscope.kb.model import Condition  # noqa: PLC0415
    from skewscope.kb.query import select  # noqa: PLC0415
    from skewscope.tui.entries import list_lines  # noqa: PLC0415

    if seen_by and kind != "conditions":
        raise click.UsageError("--seen-by is about conditions.")
    found = select(catalogue(), kind, dict(map(_pair, fields)))
    if seen_by:
        found = tuple(c for c in found if isinstance(c, Condition) and _sees(c.sight(seen_by)))
    if as_json:
        print_json(list(found))
    else:
        show(list_lines(found))


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"--where {text!r}: expected FIELD=VALUE, as in --where grade=A.")
    return name, value


def _sees(verdict: str) -> bool:
    return verdict in VERDICT


@kb.command("show")
@click.argument("id_", metavar="ID")
@json_option
def kb_show(id_: str, as_json: bool) -> None:
    """Show an entry, of whatever kind, and what names it."""
    from skewscope.kb.query import find  # noqa: PLC0415
    from skewscope.kb.query import show as shown  # noqa: PLC0415
    from skewscope.tui.detail import Words  # noqa: PLC0415
    from skewscope.tui.entries import entry_lines  # noqa: PLC0415

    known = catalogue()
    if as_json:
        print_json(shown(known, id_))
    else:
        show(entry_lines(find(known, id_)[1], Words(known)), wrapped=True)


@kb.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--kind", type=KIND, help="Only entries of this kind.")
@json_option
def kb_search(words: tuple[str, ...], kind: str | None, as_json: bool) -> None:
    """Search all entries; a misspelling is forgiven."""
    from skewscope.kb.search import search  # noqa: PLC0415
    from skewscope.tui.entries import hit_lines  # noqa: PLC0415

    hits = search(catalogue(), " ".join(words), kind or "")
    if as_json:
        print_json(hits)
    else:
        show(hit_lines(hits), wrapped=True)
    click.get_current_context().exit(FINE if hits else FOUND)


@kb.command("claims")
@click.argument("words", nargs=-1, required=True)
@json_option
def kb_claims(words: tuple[str, ...], as_json: bool) -> None:
    """What was measured about something: every claim with its source.

    For example: `kb claims kv transfer`.
    """
    from skewscope.kb.claims import about  # noqa: PLC0415
    from skewscope.tui.detail import Words  # noqa: PLC0415
    from skewscope.tui.entries import claim_lines  # noqa: PLC0415

    known = catalogue()
    found = about(known, " ".join(words))
    if as_json:
        print_json(found)
    else:
        show(claim_lines(found, Words(known)), wrapped=True)
    click.get_current_context().exit(FINE if found else FOUND)


@kb.command("matrix")
@click.option("--where", "fields", metavar="FIELD=VALUE", multiple=True, help="Only conditions that have this value.")
@json_option
def kb_matrix(fields: tuple[str, ...], as_json: bool) -> None:
    """What a DPU sees of each condition, wherever it stands, and who could mitigate it."""
    from skewscope.kb.matrix import matrix  # noqa: PLC0415
    from skewscope.kb.query import select  # noqa: PLC0415
    from skewscope.tui.entries import matrix_lines  # noqa: PLC0415

    known = catalogue()
    wanted = {c.id for c in select(known, "conditions", dict(map(_pair, fields)))}
    rows = [row for row in matrix(known) if row.condition.id in wanted]
    if as_json:
        print_json(
            [
                {"condition": row.condition.id, "seen": row.verdicts, "mitigated_by": row.actors, "dpu": row.dpu}
                for row in rows
            ]
        )
    else:
        show(matrix_lines(rows))


@kb.command("graph")
@click.argument("id_", metavar="[CONDITION]", required=False)
@click.option("--format", "form", type=click.Choice(["dot", "mermaid", "json"]), default="dot", show_default=True)
@click.option("--steps", type=click.IntRange(1, 20), default=1, show_default=True, help="How far around the condition.")
@click.option("--lookalikes", is_flag=True, help="With look-alikes beside causes and effects.")
@output_option
def kb_graph(id_: str | None, form: str, steps: int, lookalikes: bool, output: Path | None) -> None:
    """Causes and effects as a graph for other programs: all of it, or what is around one condition."""
    from skewscope.kb.drawing import FORMATS, part  # noqa: PLC0415

    deliver(FORMATS[form](part(catalogue(), id_ or "", steps, lookalikes=lookalikes)), output)


@kb.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "schema", "markdown", "bibtex", "csl-json", "prometheus"]),
    default="json",
    show_default=True,
)
@click.option("--about", metavar="WORDS", default="", help="bibtex, csl-json: only sources that tell of this.")
@click.option("--exporter", multiple=True, metavar="NAME", help="prometheus: take this exporter's names; repeatable.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="PATH", help="A file; for markdown a folder.")
def kb_export(form: str, about: str, exporter: tuple[str, ...], output: Path | None) -> None:
    """The catalogue for other programs.

    json: one document, shaped as `--format schema` tells. markdown: a folder of pages. bibtex, csl-json: its sources;
    `--about pfc` only those that tell of PFC. prometheus: alerting rules to fill in.
    """
    if about and form not in ("bibtex", "csl-json"):
        raise click.UsageError("--about is for sources: --format bibtex or csl-json.")
    if exporter and form != "prometheus":
        raise click.UsageError("--exporter is for --format prometheus.")
    if form == "markdown":
        _markdown(output)
    else:
        deliver(_exported(form, about, exporter), output)


def _exported(form: str, about: str, exporters: tuple[str, ...]) -> str:
    from skewscope.kb import cite, export  # noqa: PLC0415

    known = catalogue()
    if form == "json":
        return export.document(_written(None), export.whole(known))
    if form == "schema":
        from skewscope.tui.show import as_json  # noqa: PLC0415

        return as_json(export.document_schema()) + "\n"
    if form == "prometheus":
        return export.prometheus(known, _known_exporters(exporters, known))
    from skewscope.kb.claims import sources_about  # noqa: PLC0415

    found = sources_about(known, about)
    if not found:
        raise InputError([Problem("kb", 0, "--about", f"no source that tells of {about!r}", "words that one holds")])
    return cite.bibtex(found) if form == "bibtex" else cite.csl(found)


def _known_exporters(wanted: tuple[str, ...], known: "Catalogue") -> tuple[str, ...]:
    from skewscope.rules.coverage import exporters  # noqa: PLC0415

    return checked("--exporter", wanted, exporters(known))


def checked(field: str, wanted: tuple[str, ...], known: Collection[str]) -> tuple[str, ...]:
    """The values of an option, each of them known.

    Raises:
        InputError: one is not.
    """
    from skewscope.kb.problems import listed, nearest  # noqa: PLC0415

    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(
            Problem(field, 0, "", repr(name), f"one of {listed(list(known), 60)}", nearest(name, known))
            for name in unknown
        )
    return wanted


def _markdown(output: Path | None) -> None:
    if output is None:
        raise click.UsageError("Pages need a folder: -o FOLDER.")
    for name, text in _pages("md").items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _pages(suffix: str) -> dict[str, str]:
    """The catalogue as pages, with the rules that recognise each condition."""
    from skewscope.kb.markdown import pages  # noqa: PLC0415
    from skewscope.rules.load import load  # noqa: PLC0415

    known = catalogue()
    by: dict[str, tuple[str, ...]] = {}
    for rule in load(known)[0].values():
        by[rule.condition] = (*by.get(rule.condition, ()), rule.id)
    return pages(known, by, suffix=suffix)


@kb.command("site")
@click.argument("folder", type=click.Path(path_type=Path))
def kb_site(folder: Path) -> None:
    """Build the catalogue as a web site that works offline, from its files."""
    from skewscope.kb import cite, export  # noqa: PLC0415
    from skewscope.tui.site import build  # noqa: PLC0415

    known = catalogue()
    extra = {
        "catalogue.json": _exported("json", "", ()),
        "catalogue.schema.json": _exported("schema", "", ()),
        "sources.bib": cite.bibtex(known.sources.values()),
        "sources.json": cite.csl(known.sources.values()),
        "rules.yaml": export.prometheus(known),
    }
    build(folder, _pages("html"), extra, known.version)
    click.echo(f"Open {folder / 'index.html'}.")


@kb.command("new")
@click.argument("kind", type=click.Choice([kind.removesuffix("s") for kind in KINDS]))
@click.argument("id_", metavar="ID")
@click.option("--folder", type=FOLDER, default=Path("kb"), show_default=True, help="The catalogue's folder.")
def kb_new(kind: str, id_: str, folder: Path) -> None:
    """Write a new entry to fill in; `kb lint` then tells what is still missing."""
    from skewscope.kb.template import template  # noqa: PLC0415

    text = template(kind, id_)
    path = folder / f"{kind}s" / f"{id_}.yaml"
    if not path.parent.is_dir():
        found = [Problem(str(folder), 0, "", f"no folder {kind}s", "the folder of a catalogue", "Give it by --folder.")]
        raise InputError(found)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError([Problem(str(path), 0, "", "an entry", "an id that is not taken")]) from None
    click.echo(f"{path}: fill in what is empty, then run `skewscope kb lint {folder}`.")


@kb.command("changes")
@click.argument("old", type=click.Path(path_type=Path, exists=True))
@click.argument("new", required=False, type=click.Path(path_type=Path, exists=True))
@json_option
def kb_changes(old: Path, new: Path | None, as_json: bool) -> None:
    """What changed between two versions: folders or exported JSON; without a second, up to this one.

    Exit code 1 where the version did not rise as it should.
    """
    from skewscope.kb.changes import changes  # noqa: PLC0415
    from skewscope.tui.entries import change_lines  # noqa: PLC0415

    found = changes(_written(old), _written(new))
    if as_json:
        print_json(
            {"old": found.old, "new": found.new, "level": found.level, "due": found.due, "entries": found.entries}
        )
    else:
        show(change_lines(found), wrapped=True)
    click.get_current_context().exit(FINE if found.rose_enough else FOUND)


def _written(path: Path | None) -> "Written":
    """A version of the catalogue as its files or its export have it; the one that comes with the package for None."""
    if path is not None and path.is_file():
        from skewscope.kb.export import read  # noqa: PLC0415

        return read(path)
    from skewscope.kb.kinds import shipped  # noqa: PLC0415
    from skewscope.kb.load import written  # noqa: PLC0415

    return written(path or shipped())


@kb.command("lint")
@click.argument("folder", required=False, type=FOLDER)
@json_option
def kb_lint(folder: Path | None, as_json: bool) -> None:
    """Check the catalogue, or one in a folder."""
    from skewscope.kb.lint import lint  # noqa: PLC0415

    print_faults(lint(folder), as_json=as_json)
