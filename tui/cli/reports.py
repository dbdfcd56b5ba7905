"""The commands that tell in words what the console shows: `watch`, `report`, `keys`."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skewscope.tui.cli.catalogue import load_catalogue, output_option, write_output
from skewscope.tui.cli.terminal import (
    EXIT_OK,
    EXIT_PROBLEMS,
    CommandT,
    clear_progress,
    is_ascii_only,
    output_width,
    print_lines,
    progress_bar,
)
from skewscope.tui.render import text

if TYPE_CHECKING:
    from skewscope.adapters.runtime.replay import ReplayResult
    from skewscope.adapters.view.history import ViewHistory
    from skewscope.tui.render.detail import DisplayNames


class ReportCommand(click.Command):
    """A command about the console and what it tells."""

    section = "Diagnose"


def recording_argument(command: CommandT) -> CommandT:
    """`[RECORDING]`."""
    return click.argument("recording", required=False, type=click.Path(path_type=Path), metavar="[RECORDING]")(command)


@click.command("watch", cls=ReportCommand)
@recording_argument
@click.option("--plain", is_flag=True, help="A line of text for each change, for pipes and screen readers.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each change.")
@click.pass_context
def watch(ctx: click.Context, recording: Path | None, plain: bool, as_json: bool) -> None:
    """Watch what happens: in the console, or with --plain a line for each change.

    Without a recording it is the built-in demo.
    """
    from skewscope.adapters.inputs.recording import demo_path  # noqa: PLC0415
    from skewscope.adapters.runtime.replay import replay  # noqa: PLC0415

    path = recording or demo_path()
    if not (plain or as_json):
        from skewscope.tui.console import launcher  # noqa: PLC0415

        ctx.exit(launcher.open_console(path, launcher.LaunchOptions(ascii=is_ascii_only())))
    film = _make_change_printer(as_json=as_json)
    outcome = replay(path, workers=None, film=film)
    ctx.exit(EXIT_PROBLEMS if recording and outcome.incidents else EXIT_OK)


def _make_change_printer(*, as_json: bool) -> "ViewHistory":
    """A film that keeps nothing and says what changes."""
    from skewscope.adapters.view.history import ViewHistory  # noqa: PLC0415
    from skewscope.adapters.view.snapshot import ViewFrame, ViewSnapshot  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.view_changes import diff_snapshots  # noqa: PLC0415

    class Teller(ViewHistory):
        """Says what changed since the scene before."""

        words = DisplayNames(load_catalogue())
        last: ViewSnapshot | None = None

        def add(self, scene: ViewSnapshot, frame: ViewFrame) -> None:  # noqa: ARG002 - a sentence needs no series
            """Compare, tell, forget."""
            self.words = replace(self.words, incidents=scene.incidents)
            for change in diff_snapshots(self.last, scene, self.words):
                told = json.dumps(asdict(change), ensure_ascii=False) if as_json else change.to_line()
                click.echo(text.to_ascii(text.sanitise(told)) if is_ascii_only() else text.sanitise(told))
            self.last = scene

    return Teller()


@click.command("report", cls=ReportCommand)
@recording_argument
@click.option("--html", is_flag=True, help="One page with its pictures inside, for a ticket.")
@output_option
@click.pass_context
def report(ctx: click.Context, recording: Path | None, html: bool, output: Path | None) -> None:
    """Write a report of a recording: text, or one HTML page with pictures.

    For example: `report RECORDING --html -o incident.html`.
    """
    from skewscope.adapters.inputs.recording import demo_path  # noqa: PLC0415
    from skewscope.adapters.runtime.replay import replay  # noqa: PLC0415
    from skewscope.adapters.view.history import ViewHistory  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.report import report_lines as lines  # noqa: PLC0415

    path = recording or demo_path()
    film = ViewHistory()
    try:
        outcome = replay(path, progress=progress_bar(path.name, wanted=True), workers=None, film=film)
    finally:
        clear_progress(wanted=True)
    words = DisplayNames(load_catalogue(), outcome.incidents)
    if html:
        write_output(_html_report(path.name, film, outcome, words), output)
    elif output:
        write_output(text.to_plain_text(lines(path.name, outcome, words, 100), ascii_=is_ascii_only()), output)
    else:
        print_lines(lines(path.name, outcome, words, output_width()))
    ctx.exit(EXIT_PROBLEMS if recording and outcome.incidents else EXIT_OK)


def _html_report(name: str, film: "ViewHistory", outcome: "ReplayResult", words: "DisplayNames") -> str:
    from skewscope.tui.render.html_report import HtmlReportData, render_html  # noqa: PLC0415
    from skewscope.tui.render.report import unused_sentences, verdict_line, watch_summary  # noqa: PLC0415

    scene = film.snapshot(len(film.times()) - 1)
    said = [*scene.missing, *outcome.warnings, *unused_sentences(outcome.unmapped)]
    enough = outcome.samples > 0
    return render_html(
        HtmlReportData(name, scene, words, verdict_line(outcome.incidents, enough=enough), watch_summary(outcome), said)
    )


@click.command("keys", cls=ReportCommand)
@click.option("--markdown", is_flag=True, help="As the page of the documentation.")
def keys(markdown: bool) -> None:
    """Print the keys of the console, and the ids by which a file changes them."""
    from skewscope.tui.console.keymap import key_table as lines  # noqa: PLC0415
    from skewscope.tui.console.keymap import to_markdown  # noqa: PLC0415

    if markdown:
        click.echo(to_markdown(), nl=False)
    else:
        print_lines(lines())
