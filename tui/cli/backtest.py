"""The command `backtest`: rules, or two versions of them, tried on recorded telemetry."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from skewscope.tui.cli.options import formats_option, json_option, load_catalogue, parse_time
from skewscope.tui.cli.simulate import MeasureCommand
from skewscope.tui.cli.terminal import (
    EXIT_OK,
    EXIT_PROBLEMS,
    clear_progress,
    print_json,
    print_lines,
    progress_bar,
)

if TYPE_CHECKING:
    from skewscope.adapters.backtest.backtest import BacktestOutcome
    from skewscope.adapters.backtest.rule_set import RuleSet
    from skewscope.adapters.backtest.telemetry import NamedRecording

FILE = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True, slots=True)
class BacktestCommandOptions:
    """The options of `backtest`."""

    against: str | None
    with_others: bool
    symptoms: bool | None
    since: float | None
    until: float | None
    topology: Path | None
    token_file: Path | None
    workers: int | None
    ray: str
    no_progress: bool


@click.command("backtest", cls=MeasureCommand)
@click.argument("rules", metavar="RULES")
@click.argument("more", nargs=-1, metavar="")
@click.option("--over", "over", multiple=True, required=True, metavar="WHERE...", help="The telemetry; repeatable.")
@click.option("--against", metavar="RULES", help="The version that RULES would replace; prints the difference.")
@click.option("--with-others", is_flag=True, help="Judge a single rule among the installed ones, not alone.")
@click.option("--symptoms/--no-symptoms", default=None, help="Tell what is abnormal without a rule (default: folders).")
@click.option("--since", type=parse_time, metavar="TIME", help="Only data from this time on.")
@click.option("--until", type=parse_time, metavar="TIME", help="Only data up to this time.")
@click.option("--topology", type=FILE, metavar="FILE", help="Topology of what is no recording (default: inferred).")
@formats_option
@click.option("--token-file", type=FILE, metavar="FILE", help="File with a bearer token for a server.")
@click.option(
    "--workers", type=click.IntRange(1, 256), help="Processes (default: one per core, fewer for little data)."
)
@click.option("--ray", default="", metavar="ADDRESS", help="Judge on this Ray cluster; auto, or local to start one.")
@click.option("--no-progress", is_flag=True, help="Hide the progress bar.")
@json_option
@click.pass_context
def backtest(ctx: click.Context, /, rules: str, more: tuple[str, ...], over: tuple[str, ...], **options: Any) -> None:
    """Try rules on recorded telemetry: what would have been told, missed, told wrongly.

    RULES is a rule file, a folder of rules or the id of an installed rule. WHERE is a recording, a table, a dump, or
    the URL of a Prometheus server with --since and --until; several may follow --over. Recordings with a `labels.json`
    say what was right. Exits with 1 if two versions differ, or if one alone tells anything.

    For example: `backtest stricter.yaml --against tp-straggler-on-the-wire --over RECORDING RECORDING`.
    """
    as_json = options.pop("as_json")
    given = BacktestCommandOptions(**options)
    versions = _load_versions(rules, given)
    began = time.monotonic()
    report = progress_bar("backtest", wanted=not given.no_progress)
    try:
        with TemporaryDirectory(prefix="skewscope-") as scratch:
            found = _run([*over, *more], versions, given, Path(scratch), report or _drop_progress)
    finally:
        clear_progress(wanted=not given.no_progress)
    ctx.exit(_print_outcome(found, time.monotonic() - began, as_json=as_json))


def _drop_progress(_stage: str, _share: float) -> None:
    pass


def _load_versions(rules: str, given: BacktestCommandOptions) -> "list[RuleSet]":
    """Returns the versions to judge, the old one first."""
    from skewscope.adapters.backtest.rule_set import load_rule_set  # noqa: PLC0415

    known = load_catalogue()
    named = [given.against, rules] if given.against else [rules]
    return [load_rule_set(one, known, with_others=given.with_others, symptoms=given.symptoms) for one in named]


def _run(
    where: Sequence[str],
    versions: "list[RuleSet]",
    given: BacktestCommandOptions,
    scratch: Path,
    report: Callable[[str, float], None],
) -> "BacktestOutcome":
    from skewscope.adapters.backtest.backtest import BacktestOptions, run_backtest  # noqa: PLC0415

    options = BacktestOptions(given.workers, given.ray)
    return run_backtest(_open_all(where, given, scratch, report), versions, options, report)


def _open_all(
    where: Sequence[str], given: BacktestCommandOptions, scratch: Path, report: Callable[[str, float], None]
) -> "list[NamedRecording]":
    from skewscope.adapters.backtest.telemetry import TelemetrySpan, open_telemetry  # noqa: PLC0415

    span = TelemetrySpan(given.since, given.until, given.topology, given.token_file)
    found = []
    for number, one in enumerate(where):
        folder = scratch / str(number)
        folder.mkdir()
        found.append(open_telemetry(one, span, folder, lambda stage, _share: report(stage, 0.0)))
    return found


def _print_outcome(outcome: "BacktestOutcome", seconds: float, *, as_json: bool) -> int:
    """Prints a backtest and returns the exit code."""
    from skewscope.adapters.backtest.difference import SAME, compare_versions  # noqa: PLC0415
    from skewscope.adapters.backtest.verdicts import score_versions  # noqa: PLC0415
    from skewscope.tui.render.backtest import all_incidents, backtest_json, backtest_lines  # noqa: PLC0415
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415

    scores = score_versions(outcome)
    differences = []
    if len(scores) > 1:
        pairs = [(one.name, one.incidents[0], one.incidents[1]) for one in outcome.recordings]
        differences = compare_versions(pairs, *scores)
    if as_json:
        print_json(backtest_json(outcome, scores, differences, seconds))
    else:
        names = DisplayNames(load_catalogue(), tuple(all_incidents(outcome)))
        print_lines(backtest_lines(outcome, scores, differences, names, seconds))
    if len(scores) > 1:
        return EXIT_PROBLEMS if any(one.kind != SAME for one in differences) else EXIT_OK
    return EXIT_PROBLEMS if any(True for _ in all_incidents(outcome)) else EXIT_OK
