"""The commands `watch`, `report` and `keys`: the console's content as text."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skewscope.adapters.runtime.watchdog import bound_work
from skewscope.kb.problems import InputError, Problem
from skewscope.tui.cli.options import load_catalogue, output_option, recording_argument, why_option
from skewscope.tui.cli.terminal import (
    PIPE_COLUMNS,
    clear_progress,
    findings_exit_code,
    is_ascii_only,
    is_piped,
    output_width,
    print_lines,
    progress_bar,
    write_output,
)
from skewscope.tui.render import text

if TYPE_CHECKING:
    from skewscope.adapters.runtime.replay import ReplayResult
    from skewscope.adapters.view.builder import ViewHistory
    from skewscope.engine.actions.action import Action
    from skewscope.tui.render.detail import DisplayNames
    from skewscope.tui.render.history import HistoryPlots


class ReportCommand(click.Command):
    """A command that prints what the console shows."""

    section = "Diagnose"


@click.command("watch", cls=ReportCommand)
@recording_argument
@click.option("--plain", is_flag=True, help="Print one line of text per change, for pipes and screen readers.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per change.")
@click.pass_context
def watch(ctx: click.Context, recording: Path | None, plain: bool, as_json: bool) -> None:
    """Watch a recording in the console, or with --plain as one line per change.

    Without a recording, watches the built-in demo.
    """
    from skewscope.adapters.inputs.recording import demo_path  # noqa: PLC0415
    from skewscope.adapters.runtime.replay import replay  # noqa: PLC0415

    path = recording or demo_path()
    if not (plain or as_json):
        from skewscope.tui.console import launcher  # noqa: PLC0415

        ctx.exit(launcher.open_console(path, launcher.LaunchOptions(ascii=is_ascii_only())))
    history = _make_change_printer(as_json=as_json)
    with bound_work(str(path)) as most_seconds:
        outcome = replay(path, workers=None, history=history, most_seconds=most_seconds)
    ctx.exit(findings_exit_code(recording, outcome.incidents))


def _make_change_printer(*, as_json: bool) -> "ViewHistory":
    """Returns a history that stores nothing and prints the changes."""
    from skewscope.adapters.view.builder import ViewHistory  # noqa: PLC0415
    from skewscope.adapters.view.snapshot import ViewFrame, ViewSnapshot  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.view_changes import diff_snapshots  # noqa: PLC0415

    class ChangePrinter(ViewHistory):
        """Prints the changes since the previous snapshot."""

        names = DisplayNames(load_catalogue())
        last: ViewSnapshot | None = None

        def add(self, snapshot: ViewSnapshot, frame: ViewFrame) -> None:  # noqa: ARG002 - sentences need no series
            """Print the changes and keep only this snapshot."""
            self.names = replace(self.names, incidents=snapshot.incidents, topology=snapshot.topology)
            for change in diff_snapshots(self.last, snapshot, self.names):
                printed = text.sanitise(json.dumps(asdict(change), ensure_ascii=False) if as_json else change.to_line())
                click.echo(text.to_ascii(printed) if is_ascii_only() else printed)
            self.last = snapshot

    return ChangePrinter()


@click.command("report", cls=ReportCommand)
@recording_argument
@click.option("--html", is_flag=True, help="Write one self-contained HTML page, for a ticket.")
@click.option(
    *("--actions", "actions_file"),
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="What a controller did, for --html: the output of `act list --json`.",
)
@click.option(
    *("--history", "history_folder"),
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Add plots of a history to --html: skews over weeks, by rack, by cause, by cost.",
)
@why_option
@output_option
@click.pass_context
def report(ctx: click.Context, /, recording: Path | None, html: bool, actions_file: Path | None, **how: Any) -> None:
    """Write a report of a recording, as text or as an HTML page with charts.

    \b
    Examples:
      skewscope report RECORDING
      skewscope report RECORDING --html -o incident.html

    The page holds the reasoning in folded sections.
    """
    from skewscope.adapters.inputs.recording import demo_path  # noqa: PLC0415
    from skewscope.adapters.runtime.replay import replay  # noqa: PLC0415
    from skewscope.adapters.view.builder import ViewHistory  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.report import report_lines as lines  # noqa: PLC0415

    why, output = how["why"], how["output"]
    acted = read_actions(actions_file) if actions_file else ()
    plots = _load_plots(how["history_folder"])
    path = recording or demo_path()
    history = ViewHistory()
    try:
        with bound_work(str(path)) as most_seconds:
            progress = progress_bar(path.name, wanted=True)
            outcome = replay(path, progress=progress, workers=None, history=history, most_seconds=most_seconds)
    finally:
        clear_progress(wanted=True)
    names = DisplayNames(load_catalogue(), outcome.incidents, topology=outcome.topology)
    if html:
        write_output(html_report(path.name, history, outcome, names, (acted, plots)), output)
    elif output:
        whole = lines(path.name, outcome, names, PIPE_COLUMNS, why=why, whole=True)
        write_output(text.to_plain_text(whole, ascii_=is_ascii_only()), output)
    else:
        print_lines(lines(path.name, outcome, names, output_width(), why=why, whole=is_piped()))
    ctx.exit(findings_exit_code(recording, outcome.incidents))


def _load_plots(folder: Path | None) -> "HistoryPlots | None":
    """Returns what the plots of a history show; None without a folder."""
    if folder is None:
        return None
    from skewscope.tui.cli.history import load_plots  # noqa: PLC0415

    return load_plots(folder)


def read_actions(path: Path) -> "tuple[Action, ...]":
    """Reads the actions that `act list --json` printed.

    Raises:
        InputError: the file cannot be read as such.
    """
    from skewscope.adapters.actions.action_json import MAX_ACTIONS, parse_action_json  # noqa: PLC0415

    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(listed, list):
            raise ValueError("no list")  # noqa: TRY004
        return tuple(parse_action_json(one) for one in listed[:MAX_ACTIONS])
    except (OSError, ValueError, RecursionError) as error:
        hint = "Write it with: skewscope act list --json --url URL."
        raise InputError([Problem(str(path), 0, "", str(error)[:200], "a list of actions", hint)]) from None


def html_report(
    name: str,
    history: "ViewHistory",
    outcome: "ReplayResult",
    names: "DisplayNames",
    also: "tuple[tuple[Action, ...], HistoryPlots | None]" = ((), None),
) -> str:
    """Returns a self-contained HTML page of a replay; `also` are actions of a controller and plots of a history."""
    from skewscope.tui.render.html_report import HtmlReportData, render_html  # noqa: PLC0415
    from skewscope.tui.render.report import unused_sentences, verdict_line, watch_summary  # noqa: PLC0415

    snapshot = history.snapshot(len(history.times()) - 1)
    missing = [*snapshot.missing, *outcome.warnings]
    unused = unused_sentences(outcome.unmapped)
    verdict, watched = verdict_line(outcome), watch_summary(outcome)
    made = _describe_origin(name, next((one.input_hash for one in outcome.incidents), ""))
    return render_html(HtmlReportData(name, snapshot, names, verdict, watched, missing, unused, *also, provenance=made))


def _describe_origin(name: str, input_hash: str) -> str:
    """Returns by which versions a page was made, from which input, and how it is made again."""
    from skewscope.tui.cli.doctor import describe_version  # noqa: PLC0415

    read = f" · input {input_hash[:12]}" if input_hash else ""
    return f"made by skewscope {describe_version()}{read} · again: skewscope report {name} --html"


@click.command("keys", cls=ReportCommand)
@click.option("--markdown", is_flag=True, help="Print the page docs/keys.md.")
def keys(markdown: bool) -> None:
    """Print the console's keys, and the ids that a key file uses."""
    from skewscope.tui.console.keymap import key_table as lines  # noqa: PLC0415
    from skewscope.tui.console.keymap import to_markdown  # noqa: PLC0415

    if markdown:
        click.echo(to_markdown(), nl=False)
    else:
        print_lines(lines())
