"""The command line. Everything heavy is imported where it is used: `--help` and `kb list` need click and YAML only."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from skewscope.kb.problems import InputError, Problem, SkewscopeError, nearest
from skewscope.tui import text
from skewscope.tui.text import Line, line

if TYPE_CHECKING:
    from skewscope.adapters.replay import Outcome
    from skewscope.engine.incident import Incident
    from skewscope.kb.model import Catalogue

FINE, FOUND, FAILED = 0, 1, 2
INTERRUPTED = 130
PIPE_COLUMNS = 100
"""Where there is no terminal to ask."""

Commanded = TypeVar("Commanded", bound=Callable[..., Any])


class Diagnose(click.Command):
    """A command that looks at telemetry."""

    section = "Diagnose"


class Know(click.Group):
    """A command about what is known and how it is recognised."""

    section = "What is known"


class Grouped(click.Group):
    """The top: commands under the heading of their section, and our errors as lines on standard error."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One table a section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            if command := self.get_command(ctx, name):
                rows = sections.setdefault(getattr(command, "section", "Other"), [])
                rows.append((name, command.get_short_help_str(90)))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """In the order of definition: what is done first stands first."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run, and turn what went wrong into text and an exit code."""
        try:
            return super().invoke(ctx)
        except SkewscopeError as error:
            _complain(error)
            ctx.exit(FAILED)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


def _complain(error: SkewscopeError) -> None:
    problems = error.problems if isinstance(error, InputError) else (error,)
    for problem in problems:
        click.echo(text.safe(str(problem)), err=True)


def _version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

        try:
            number = version("skewscope")
        except PackageNotFoundError:
            number = "(not installed)"
        click.echo(f"skewscope {number}")
        ctx.exit()


def json_option(command: Commanded) -> Commanded:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def recording_option(command: Commanded) -> Commanded:
    """`--replay PATH`."""
    what = "A recording's folder; without it, the built-in demo."
    return click.option("--replay", "recording", type=click.Path(path_type=Path), metavar="PATH", help=what)(command)


# Printing.


def _coloured() -> bool:
    dull = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not dull


def _ascii() -> bool:
    ctx = click.get_current_context(silent=True)
    asked = bool(ctx and ctx.find_root().params.get("ascii_"))
    return asked or not (sys.stdout.encoding or "").lower().startswith("utf")


def _columns() -> int:
    return shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns if sys.stdout.isatty() else PIPE_COLUMNS


def show(lines: Iterable[Line], *, wrapped: bool = False) -> None:
    """Print lines, in colour where that is wanted."""
    shown = text.wrapped(lines, min(_columns(), 110)) if wrapped else lines
    click.echo(text.plain(shown, colour=_coloured(), ascii_=_ascii()), nl=False, color=_coloured())


def _json(value: object) -> None:
    from skewscope.tui.show import as_json  # noqa: PLC0415

    click.echo(as_json(value))


def _progress(label: str, *, wanted: bool) -> Callable[[str, float], None] | None:
    """A bar on standard error, where that is a terminal."""
    if not (wanted and sys.stderr.isatty()):
        return None
    shown = [""]

    def heard(stage: str, share: float) -> None:
        done = round(min(max(share, 0.0), 1.0) * 30)
        bar = f"{label}: [{'#' * done}{'.' * (30 - done)}] {round(100 * share):3d} % {stage}"
        bar = text.pad(text.safe(bar), max(shutil.get_terminal_size().columns - 1, 20))
        if bar != shown[0]:
            shown[0] = bar
            click.echo(f"\r{bar}", err=True, nl=False)

    return heard


def _wipe(*, wanted: bool) -> None:
    if wanted and sys.stderr.isatty():
        click.echo("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r", err=True, nl=False)


def _catalogue() -> "Catalogue":
    from skewscope.kb.load import catalogue  # noqa: PLC0415

    return catalogue()


def _replayed(recording: Path | None, *, workers: int | None = None, progress: bool = True) -> "Outcome":
    from skewscope.adapters.replay import demo_path, replay  # noqa: PLC0415

    path = recording or demo_path()
    try:
        return replay(path, progress=_progress(path.name, wanted=progress), workers=workers, keep_snapshots=True)
    finally:
        _wipe(wanted=progress)


def _report(name: str, outcome: "Outcome") -> None:
    from skewscope.tui.detail import Words  # noqa: PLC0415
    from skewscope.tui.report import report  # noqa: PLC0415

    show(report(name, outcome, Words(_catalogue(), outcome.incidents), _columns()))


# Commands.


@click.group(cls=Grouped, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@recording_option
@click.option("--ascii", "ascii_", is_flag=True, help="Draw with ASCII only.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
@click.pass_context
def cli(ctx: click.Context, recording: Path | None, ascii_: bool) -> None:
    """Which skew, on which node, with what evidence: an LLM cluster watched from its DPUs.

    Without a command it opens the console on the built-in demo, or on what --replay names. Where there is no terminal
    it prints the same as text.

    Exit codes: 0 fine, 1 found something, 2 could not run.
    """
    if ctx.invoked_subcommand is None:
        ctx.exit(_console(recording, ascii_=ascii_ or _ascii()))


def _console(recording: Path | None, *, ascii_: bool) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        outcome = _replayed(recording)
        _report(recording.name if recording else "demo", outcome)
        # What the demo finds is nobody's trouble.
        return FOUND if recording and outcome.incidents else FINE
    from skewscope.adapters.replay import demo_path, replay  # noqa: PLC0415
    from skewscope.tui.app import Console  # noqa: PLC0415
    from skewscope.tui.detail import Words  # noqa: PLC0415

    path = recording or demo_path()
    console = Console(
        lambda progress: replay(path, progress=progress, keep_snapshots=True),
        Words(_catalogue()),
        colour=not os.environ.get("NO_COLOR"),
        ascii_=ascii_,
    )
    failure = console.run()
    if failure is not None:
        raise failure
    return console.return_code or FINE


@cli.command("replay", cls=Diagnose)
@click.argument("recordings", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RECORDING...")
@json_option
@click.option("--workers", type=click.IntRange(1, 256), help="Processes that read; as many as there are cores.")
@click.option("--no-progress", is_flag=True, help="No progress bar.")
def replay_(recordings: tuple[Path, ...], as_json: bool, workers: int | None, no_progress: bool) -> None:
    """Diagnose what was recorded.

    Prints a report, or with --json one incident a line, recording after recording.
    """
    codes = [_replay_one(path, as_json=as_json, workers=workers, progress=not no_progress) for path in recordings]
    click.get_current_context().exit(max(codes))


def _replay_one(path: Path, *, as_json: bool, workers: int | None, progress: bool) -> int:
    try:
        outcome = _replayed(path, workers=workers, progress=progress)
    except InputError as error:
        _complain(error)
        return FAILED
    if as_json:
        for incident in outcome.incidents:
            click.echo(incident.as_line())
    else:
        _report(path.name, outcome)
    return FOUND if outcome.incidents else FINE


@cli.command("explain", cls=Diagnose)
@click.argument("what", metavar="INCIDENT_ID|CONDITION")
@recording_option
@json_option
def explain(what: str, recording: Path | None, as_json: bool) -> None:
    """Explain an incident in depth, or a condition of the catalogue."""
    from skewscope.tui.detail import Words, full  # noqa: PLC0415
    from skewscope.tui.show import condition_lines  # noqa: PLC0415

    catalogue = _catalogue()
    if known := catalogue.conditions.get(what):
        if as_json:
            _json(known)
        else:
            show(condition_lines(known, Words(catalogue)), wrapped=True)
        return
    outcome = _replayed(recording)
    incident = _incident(what, outcome, list(catalogue.conditions))
    if as_json:
        click.echo(incident.as_line())
        return
    words = Words(catalogue, outcome.incidents)
    show(full(incident, words, outcome.snapshots[-1].time, min(_columns(), 110)))
    if condition := catalogue.conditions.get(incident.condition):
        show([(), line("─" * min(_columns(), 40), "dim"), ()])
        show(condition_lines(condition, words), wrapped=True)


def _incident(what: str, outcome: "Outcome", conditions: list[str]) -> "Incident":
    ids = [i.id for i in outcome.incidents]
    found = [i for i in outcome.incidents if i.id == what] or [i for i in outcome.incidents if i.id.startswith(what)]
    if len(found) == 1:
        return found[0]
    several = f"the start of {len(found)} incidents" if found else "no incident there and no condition"
    hint = nearest(what, [*conditions, *ids]) or f"Incidents there: {', '.join(ids) or 'none'}."
    raise InputError([Problem(repr(what), 0, "", several, "the id of an incident or of a condition", hint)])


@cli.group("kb", cls=Know)
def kb() -> None:
    """The catalogue: conditions, signals, mitigations, sources."""


KIND = click.Choice(["conditions", "signals", "mitigations", "sources"])


@kb.command("list")
@click.argument("kind", type=KIND, default="conditions")
@json_option
def kb_list(kind: str, as_json: bool) -> None:
    """List all entries of a kind."""
    from skewscope.tui.show import entries, list_lines  # noqa: PLC0415

    if as_json:
        _json(list(entries(_catalogue(), kind).values()))
    else:
        show(list_lines(_catalogue(), kind))


@kb.command("show")
@click.argument("id_", metavar="ID")
@json_option
def kb_show(id_: str, as_json: bool) -> None:
    """Show an entry, of whatever kind."""
    from skewscope.tui.detail import Words  # noqa: PLC0415
    from skewscope.tui.show import KINDS, entries, entry_lines  # noqa: PLC0415

    catalogue = _catalogue()
    found = next((entries(catalogue, kind)[id_] for kind in KINDS if id_ in entries(catalogue, kind)), None)
    if found is None:
        ids = [known for kind in KINDS for known in entries(catalogue, kind)]
        raise InputError([Problem(repr(id_), 0, "", "no entry of the catalogue", "an id", nearest(id_, ids))])
    if as_json:
        _json(found)
    else:
        show(entry_lines(found, Words(catalogue)), wrapped=True)


def main() -> None:
    """The entry point."""
    cli(prog_name="skewscope")


if __name__ == "__main__":
    main()
