"""The `kb` commands: list, search, export and check the catalogue."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.kb.entry_kinds import KINDS
from skewscope.kb.problems import InputError, Problem, SkewscopeError
from skewscope.tui.cli.checkout import default_folder
from skewscope.tui.cli.completion import complete_entries
from skewscope.tui.cli.controller_client import ControllerAddress, ask_controller, connection_options, expect_list
from skewscope.tui.cli.options import check_choices, json_option, load_catalogue, output_option
from skewscope.tui.cli.terminal import (
    EXIT_OK,
    EXIT_PROBLEMS,
    SuggestingGroup,
    clear_progress,
    output_width,
    print_json,
    print_lines,
    print_problems,
    progress_bar,
    write_output,
)
from skewscope.tui.render.text import line

if TYPE_CHECKING:
    from skewscope.kb.catalogue_cache import RawCatalogue
    from skewscope.kb.model import Catalogue


class KnowledgeGroup(SuggestingGroup):
    """A group of commands on the catalogue and the rules."""

    section = "Catalogue and rules"


@click.group("kb", cls=KnowledgeGroup, invoke_without_command=True)
@click.pass_context
def kb(ctx: click.Context) -> None:
    """Show which skews there are, what they cost and what a DPU sees; list, search, export the catalogue.

    \b
    Examples:
      skewscope kb                                  the first of them, and where to go on
      skewscope kb search why are my tokens jittery
      skewscope kb rank --by helps                  all, those first about which a DPU can do most
    """
    if ctx.invoked_subcommand is None:
        from skewscope.kb.rank import rank_conditions  # noqa: PLC0415
        from skewscope.tui.render.catalogue_front import front_lines  # noqa: PLC0415

        known = load_catalogue()
        print_lines(front_lines(rank_conditions(known), known, min(output_width(), MAX_TABLE_COLUMNS), FRONT_ROWS))


FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
KIND = click.Choice(KINDS)
DEPLOYMENT = click.Choice(["dpu-front-end", "dpu-every-rail", "dpu-pcie-root", "dpu-relayed"])
MAX_TABLE_COLUMNS = 160
FRONT_ROWS = 12
"""Conditions on the front page."""
RANK_ORDERS = ("sure", "sees", "helps", "name")
OUTCOMES_PATH = "/api/v1/actions/outcomes"
VISIBLE_VERDICTS = ("visible", "partial", "relayed")


@kb.command("list")
@click.argument("kind", type=KIND, default="conditions")
@click.option("--seen-by", type=DEPLOYMENT, help="Only conditions that such a DPU can see, at least in part.")
@click.option(
    "--where", "fields", metavar="FIELD=VALUE", multiple=True, help="Only entries with this value; repeatable."
)
@json_option
def kb_list(kind: str, seen_by: str | None, fields: tuple[str, ...], as_json: bool) -> None:
    """List the entries of a kind.

    For example: `kb list --seen-by dpu-front-end`, `kb list --where group=pcie --where grade=A`,
    `kb list sources --where seen="full text"`.
    """
    from skewscope.kb.model import Condition  # noqa: PLC0415
    from skewscope.kb.query import select  # noqa: PLC0415
    from skewscope.tui.render.catalogue import list_lines  # noqa: PLC0415

    if seen_by and kind != "conditions":
        raise click.UsageError("--seen-by applies to conditions only.")
    found = select(load_catalogue(), kind, dict(map(_parse_field, fields)))
    if seen_by:
        found = tuple(c for c in found if isinstance(c, Condition) and _is_visible(c.visibility(seen_by)))
    if as_json:
        print_json(list(found))
    else:
        print_lines(list_lines(found))


def _parse_field(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"--where {text!r}: expected FIELD=VALUE, as in --where grade=A.")
    return name, value


def _is_visible(verdict: str) -> bool:
    return verdict in VISIBLE_VERDICTS


@kb.command("show")
@click.argument("id_", metavar="ID", shell_complete=complete_entries())
@connection_options
@json_option
def kb_show(controller: ControllerAddress, id_: str, as_json: bool) -> None:
    """Show an entry of any kind, and the entries that reference it.

    With --url a mitigation also says how often the controller carried it out, and whether that helped.
    """
    from skewscope.kb.query import describe as shown  # noqa: PLC0415
    from skewscope.kb.query import find  # noqa: PLC0415
    from skewscope.tui.render.catalogue import entry_lines  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415

    known = load_catalogue()
    if as_json:
        print_json(shown(known, id_))
        return
    kind, entry = find(known, id_)
    lines = entry_lines(entry, DisplayNames(known))
    if kind == "mitigations" and controller.is_named:
        lines = [*lines[:2], line(_describe_outcomes(controller, id_), "info"), *lines[2:]]
    print_lines(lines, wrapped=True)


def _describe_outcomes(controller: ControllerAddress, mitigation: str) -> str:
    """Returns how often a mitigation helped in the deployment of a controller.

    Raises:
        SkewscopeError: it does not answer, or its answer cannot be read.
    """
    from skewscope.adapters.actions.action_json import parse_outcomes  # noqa: PLC0415
    from skewscope.tui.render.actions import outcome_sentence  # noqa: PLC0415

    listed = expect_list(controller, ask_controller(controller, "GET", OUTCOMES_PATH), "outcomes")
    try:
        return outcome_sentence(parse_outcomes(listed).get(mitigation))
    except ValueError as error:
        raise SkewscopeError(f"{controller.url}: {error}.") from None


@kb.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--kind", type=KIND, help="Only entries of this kind.")
@json_option
def kb_search(words: tuple[str, ...], kind: str | None, as_json: bool) -> None:
    """Search all entries; misspellings are tolerated."""
    from skewscope.kb.search import search  # noqa: PLC0415
    from skewscope.tui.render.catalogue import hit_lines  # noqa: PLC0415

    hits = search(load_catalogue(), " ".join(words), kind or "")
    if as_json:
        print_json(hits)
    else:
        print_lines(hit_lines(hits), wrapped=True)
    click.get_current_context().exit(EXIT_OK if hits else EXIT_PROBLEMS)


@kb.command("claims")
@click.argument("words", nargs=-1, required=True)
@json_option
def kb_claims(words: tuple[str, ...], as_json: bool) -> None:
    """Search the measured claims and show each with its source.

    For example: `kb claims kv transfer`.
    """
    from skewscope.kb.claims import search_claims  # noqa: PLC0415
    from skewscope.tui.render.catalogue import claim_lines  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415

    known = load_catalogue()
    found = search_claims(known, " ".join(words))
    if as_json:
        print_json(found)
    else:
        print_lines(claim_lines(found, DisplayNames(known)), wrapped=True)
    click.get_current_context().exit(EXIT_OK if found else EXIT_PROBLEMS)


@kb.command("rank")
@click.option(
    "--by",
    type=click.Choice(RANK_ORDERS),
    default="sure",
    show_default=True,
    help="First those with the best evidence, those a DPU sees or helps most, or by name.",
)
@click.option(
    "--where", "fields", metavar="FIELD=VALUE", multiple=True, help="Only conditions with this value; repeatable."
)
@json_option
def kb_rank(by: str, fields: tuple[str, ...], as_json: bool) -> None:
    """Show for each condition what it costs, what a DPU sees of it, and what it can do."""
    from skewscope.kb.query import select  # noqa: PLC0415
    from skewscope.kb.rank import rank_conditions  # noqa: PLC0415
    from skewscope.tui.render.catalogue_front import rank_lines, rank_objects  # noqa: PLC0415

    known = load_catalogue()
    wanted = {c.id for c in select(known, "conditions", dict(map(_parse_field, fields)))}
    rows = [row for row in rank_conditions(known, by) if row.condition.id in wanted]
    if as_json:
        print_json(rank_objects(rows))
    else:
        print_lines(rank_lines(rows, known, min(output_width(), MAX_TABLE_COLUMNS)))


@kb.command("matrix")
@click.option(
    "--where", "fields", metavar="FIELD=VALUE", multiple=True, help="Only conditions with this value; repeatable."
)
@json_option
def kb_matrix(fields: tuple[str, ...], as_json: bool) -> None:
    """Show what a DPU sees of each condition in each deployment, and which actors can mitigate it."""
    from skewscope.kb.matrix import build_matrix  # noqa: PLC0415
    from skewscope.kb.query import select  # noqa: PLC0415
    from skewscope.tui.render.catalogue import matrix_lines  # noqa: PLC0415

    known = load_catalogue()
    wanted = {c.id for c in select(known, "conditions", dict(map(_parse_field, fields)))}
    rows = [row for row in build_matrix(known) if row.condition.id in wanted]
    if as_json:
        print_json(
            [
                {"condition": row.condition.id, "seen": row.verdicts, "mitigated_by": row.actors, "dpu": row.dpu}
                for row in rows
            ]
        )
    else:
        print_lines(matrix_lines(rows))


@kb.command("graph")
@click.argument("id_", metavar="[CONDITION]", required=False, shell_complete=complete_entries("conditions"))
@click.option(
    "--format",
    "form",
    type=click.Choice(["dot", "mermaid", "json"]),
    default="dot",
    show_default=True,
    help="Output format.",
)
@click.option("--steps", type=click.IntRange(1, 20), default=1, show_default=True, help="Distance from the condition.")
@click.option("--lookalikes", is_flag=True, help="Include look-alikes.")
@output_option
def kb_graph(id_: str | None, form: str, steps: int, lookalikes: bool, output: Path | None) -> None:
    """Export causes and effects as a graph, whole or around one condition."""
    from skewscope.kb.graph_formats import FORMATS, select_subgraph  # noqa: PLC0415

    write_output(FORMATS[form](select_subgraph(load_catalogue(), id_ or "", steps, lookalikes=lookalikes)), output)


@kb.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "schema", "markdown", "bibtex", "csl-json", "prometheus"]),
    default="json",
    show_default=True,
    help="Output format.",
)
@click.option("--about", metavar="WORDS", default="", help="bibtex, csl-json: only sources that mention this.")
@click.option("--exporter", multiple=True, metavar="NAME", help="prometheus: use this exporter's names; repeatable.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="PATH", help="Output file; for markdown a folder."
)
def kb_export(form: str, about: str, exporter: tuple[str, ...], output: Path | None) -> None:
    """Export the catalogue for other programs.

    json: one document, described by `--format schema`. markdown: a folder of pages. bibtex, csl-json: the sources;
    `--about pfc` selects those that mention PFC. prometheus: alerting rules to complete.
    """
    if about and form not in ("bibtex", "csl-json"):
        raise click.UsageError("--about requires --format bibtex or csl-json.")
    if exporter and form != "prometheus":
        raise click.UsageError("--exporter requires --format prometheus.")
    if form == "markdown":
        _write_markdown(output)
    else:
        write_output(_export_text(form, about, exporter), output)


def _export_text(form: str, about: str, exporters: tuple[str, ...]) -> str:
    from skewscope.kb import citations, export  # noqa: PLC0415

    known = load_catalogue()
    if form == "json":
        return export.export_document(_load_version(None), export.full_graph(known))
    if form == "schema":
        from skewscope.tui.render.json_text import to_json  # noqa: PLC0415

        return to_json(export.document_schema()) + "\n"
    if form == "prometheus":
        return export.prometheus_rules(known, _check_exporters(exporters, known))
    from skewscope.kb.claims import search_sources  # noqa: PLC0415

    found = search_sources(known, about)
    if not found:
        raise InputError([Problem("kb", 0, "--about", f"no source that mentions {about!r}", "words of a source")])
    return citations.bibtex(found) if form == "bibtex" else citations.csl_json(found)


def _check_exporters(wanted: tuple[str, ...], known: "Catalogue") -> tuple[str, ...]:
    from skewscope.rules.coverage import count_exporter_signals  # noqa: PLC0415

    return check_choices("--exporter", wanted, count_exporter_signals(known))


def _write_markdown(output: Path | None) -> None:
    if output is None:
        raise click.UsageError("Markdown pages require a folder: -o FOLDER.")
    for name, text in _render_pages("md").items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _render_pages(suffix: str) -> dict[str, str]:
    """Returns the pages of the catalogue by path, with the rules of each condition."""
    from skewscope.kb.markdown import build_pages  # noqa: PLC0415
    from skewscope.rules.loader import load  # noqa: PLC0415

    known = load_catalogue()
    by: dict[str, tuple[str, ...]] = {}
    for rule in load(known)[0].values():
        by[rule.condition] = (*by.get(rule.condition, ()), rule.id)
    return build_pages(known, by, suffix=suffix)


@kb.command("site")
@click.argument("folder", type=click.Path(path_type=Path))
def kb_site(folder: Path) -> None:
    """Build the catalogue as a web site that works offline."""
    from skewscope.kb import citations, export  # noqa: PLC0415
    from skewscope.tui.site.build import SEARCH_INDEX, build_site, search_script  # noqa: PLC0415

    known = load_catalogue()
    extra = {
        "catalogue.json": _export_text("json", "", ()),
        "catalogue.schema.json": _export_text("schema", "", ()),
        "sources.bib": citations.bibtex(known.sources.values()),
        "sources.json": citations.csl_json(known.sources.values()),
        "rules.yaml": export.prometheus_rules(known),
    }
    extra[SEARCH_INDEX] = search_script(known)
    try:
        report = progress_bar("site", wanted=True) or (lambda _stage, _share: None)
        build_site(folder, _render_pages("html"), extra, known.version, report)
    finally:
        clear_progress(wanted=True)
    click.echo(f"Open {folder / 'index.html'}.")


@kb.command("new")
@click.argument("kind", type=click.Choice([kind.removesuffix("s") for kind in KINDS]))
@click.argument("id_", metavar="ID")
@click.option("--folder", type=FOLDER, default=Path("kb"), show_default=True, help="The catalogue's folder.")
def kb_new(kind: str, id_: str, folder: Path) -> None:
    """Create an entry from a template; `kb lint` then lists the fields to complete."""
    from skewscope.kb.template import template  # noqa: PLC0415

    text = template(kind, id_)
    path = folder / f"{kind}s" / f"{id_}.yaml"
    if not path.parent.is_dir():
        found = [
            Problem(str(folder), 0, "", f"no folder {kind}s", "the folder of a catalogue", "Name it with --folder.")
        ]
        raise InputError(found)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError([Problem(str(path), 0, "", "an existing entry", "an unused id")]) from None
    click.echo(f"{path}: complete the empty fields, then run `skewscope kb lint {folder}`.")


@kb.command("changes")
@click.argument("old", type=click.Path(path_type=Path, exists=True))
@click.argument("new", required=False, type=click.Path(path_type=Path, exists=True))
@json_option
def kb_changes(old: Path, new: Path | None, as_json: bool) -> None:
    """Compare two versions of the catalogue: folders or exported JSON.

    Without NEW, compares with the installed catalogue. Exits with 1 if the version number was not raised as required.
    """
    from skewscope.kb.changes import diff_catalogues  # noqa: PLC0415
    from skewscope.tui.render.catalogue import change_lines  # noqa: PLC0415

    found = diff_catalogues(_load_version(old), _load_version(new))
    if as_json:
        print_json(
            {
                "old": found.old,
                "new": found.new,
                "level": found.level,
                "due": found.required_version,
                "entries": found.entries,
            }
        )
    else:
        print_lines(change_lines(found), wrapped=True)
    click.get_current_context().exit(EXIT_OK if found.is_version_sufficient else EXIT_PROBLEMS)


def _load_version(path: Path | None) -> "RawCatalogue":
    """Returns a version of the catalogue from its folder or its export; None means the installed one."""
    if path is not None and path.is_file():
        from skewscope.kb.export import read_document  # noqa: PLC0415

        return read_document(path)
    from skewscope.kb.entry_kinds import builtin_folder  # noqa: PLC0415
    from skewscope.kb.loader import read_raw  # noqa: PLC0415

    return read_raw(path or builtin_folder())


@kb.command("lint")
@click.argument("folder", required=False, type=FOLDER)
@json_option
def kb_lint(folder: Path | None, as_json: bool) -> None:
    """Check the catalogue.

    Without FOLDER, that of the checkout around the current directory, or
    outside of a checkout the installed one.
    """
    from skewscope.kb.entry_kinds import builtin_folder  # noqa: PLC0415
    from skewscope.kb.lint import lint_folder  # noqa: PLC0415

    place = folder or default_folder("kb", builtin_folder())
    print_problems(lint_folder(None if place == builtin_folder() else place), as_json=as_json)
