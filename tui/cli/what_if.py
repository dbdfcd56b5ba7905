"""The command `what-if`, and why-not of `explain`: other telemetry, another rule, and why something was not told."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from skewscope.tui.cli.options import formats_option, json_option, load_catalogue, parse_time
from skewscope.tui.cli.reports import ReportCommand
from skewscope.tui.cli.terminal import EXIT_OK, EXIT_PROBLEMS, clear_progress, print_json, print_lines, progress_bar

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("what-if", cls=ReportCommand)
@click.argument("incident", metavar="INCIDENT")
@click.option("--over", metavar="RECORDING", help="The telemetry (default: the built-in demo).")
@click.option("--set", "sets", multiple=True, metavar="SIGNAL[@ENTITY]=VALUE", help="Suppose this value; repeatable.")
@click.option(
    "--without", "dropped", multiple=True, metavar="SIGNAL[@ENTITY]", help="Suppose that it was not seen; repeatable."
)
@formats_option
@click.option("--rule", type=FILE, metavar="FILE", help="Suppose this version of a rule among the installed ones.")
@click.option("--since", type=parse_time, metavar="TIME", help="Only data from this time on.")
@click.option("--until", type=parse_time, metavar="TIME", help="Only data up to this time.")
@click.option("--no-progress", is_flag=True, help="Hide the progress bar.")
@json_option
@click.pass_context
def what_if(ctx: click.Context, /, incident: str, over: str | None, as_json: bool, **supposed: Any) -> None:
    """Ask what would have been told with other telemetry or another rule, and which evidence turns it.

    INCIDENT is an id that `replay --json` prints, or its begin. A signal is changed at the incident's place, at
    @ENTITY, or with @* everywhere. VALUE is in the signal's unit; of a counter it is the growth per second. Exits with
    1 if something else would have been told.

    For example: `what-if 3f2a --over RECORDING --set gpu.temperature=60`.
    """
    from skewscope.adapters.backtest.difference import SAME  # noqa: PLC0415
    from skewscope.adapters.backtest.edits import parse_edit  # noqa: PLC0415
    from skewscope.adapters.backtest.what_if import Supposition, suppose  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.what_if import what_if_json, what_if_lines  # noqa: PLC0415

    known, rule = load_catalogue(), supposed["rule"]
    edits = [parse_edit(one, known, has_value=True) for one in supposed["sets"]]
    edits += [parse_edit(one, known, has_value=False) for one in supposed["dropped"]]
    if not (edits or rule):
        raise click.UsageError("Give --set, --without or --rule.")
    change = Supposition(tuple(edits), str(rule or ""))
    place = OpenedPlace(over, supposed["since"], supposed["until"], supposed["no_progress"])
    outcome = _with_recording(place, lambda one, report: suppose(one, incident, change, report))
    words = ", ".join([*map(str, edits), *([f"the rule {rule.stem} of {rule}"] if rule else [])])
    if as_json:
        print_json(what_if_json(outcome, words))
    else:
        told = tuple(each.incident for each in (outcome.difference, *outcome.others))
        print_lines(what_if_lines(outcome, words, DisplayNames(known, told)))
    ctx.exit(EXIT_PROBLEMS if outcome.difference.kind != SAME or outcome.others else EXIT_OK)


@dataclass(frozen=True, slots=True)
class OpenedPlace:
    """Which telemetry is opened, and how."""

    over: str | None
    """None: the built-in demo."""
    since: float | None = None
    until: float | None = None
    """Seconds since 1970; None for the ends of the data."""
    is_quiet: bool = False


@dataclass(frozen=True, slots=True)
class WhyNotOptions:
    """The options of `explain` for why-not."""

    why_not: str | None
    at: str | None
    time: float | None
    over: str | None


def explain_why_not(given: WhyNotOptions, *, as_json: bool) -> None:
    """Prints why a condition was not told of an entity at a time.

    Raises:
        click.UsageError: entity or time are missing.
        InputError: there is nothing to answer.
    """
    from skewscope.adapters.backtest.what_if import ask_why_not  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.what_if import why_not_json, why_not_lines  # noqa: PLC0415

    condition, entity, time = given.why_not, given.at, given.time
    if condition is None or entity is None or time is None:
        raise click.UsageError("Give --why-not CONDITION, --at ENTITY and --time T.")
    question = (condition, entity, time)
    outcome = _with_recording(OpenedPlace(given.over), lambda one, report: ask_why_not(one, question, report))
    if as_json:
        print_json(why_not_json(outcome))
    else:
        print_lines(why_not_lines(outcome, DisplayNames(load_catalogue(), outcome.incidents)))


def _with_recording(place: OpenedPlace, ask: Callable[[Any, Callable[[str, float], None]], Any]) -> Any:
    """Opens the telemetry, asks about it and returns the answer."""
    from skewscope.adapters.backtest.telemetry import TelemetrySpan, open_telemetry  # noqa: PLC0415
    from skewscope.adapters.inputs.recording import demo_path  # noqa: PLC0415

    where, span = place.over or str(demo_path()), TelemetrySpan(place.since, place.until)
    report = progress_bar("what-if", wanted=not place.is_quiet) or (lambda _stage, _share: None)
    try:
        with TemporaryDirectory(prefix="skewscope-") as scratch:
            return ask(open_telemetry(where, span, Path(scratch), report), report)
    finally:
        clear_progress(wanted=not place.is_quiet)
