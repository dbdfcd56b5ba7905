"""The commands `simulate` and `assess`: simulated fleets, and the measured quality of diagnosis."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skewscope.kb.problems import InputError, Problem
from skewscope.tui.cli.completion import complete_entries
from skewscope.tui.cli.options import check_choices, formats_option, json_option, load_catalogue
from skewscope.tui.cli.terminal import clear_progress, print_json, print_lines, progress_bar
from skewscope.tui.render.text import line

if TYPE_CHECKING:
    from skewscope.adapters.assessment import assessment
    from skewscope.adapters.assessment.scenarios import Episode, Scenario
    from skewscope.adapters.assessment.score import AssessmentScore
    from skewscope.adapters.simulator.recording_writer import ExportedSeries
    from skewscope.engine.ingest.feed import SeriesKey
    from skewscope.engine.model.topology import Topology
    from skewscope.tui.render.text import Line

SEVERITIES = ("mild", "medium", "heavy")


class MeasureCommand(click.Command):
    """A command that measures the diagnosis."""

    section = "Measure"


@click.command("simulate", cls=MeasureCommand)
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[FOLDER]")
@click.option(
    "--condition",
    "conditions",
    multiple=True,
    metavar="ID",
    help="A fault to inject, one after another; repeatable.",
    shell_complete=complete_entries("conditions"),
)
@click.option(
    "--event", "events", multiple=True, metavar="NAME", help="A benign event that resembles a fault; repeatable."
)
@click.option("--severity", type=click.Choice(SEVERITIES), default="medium", show_default=True, help="Of the faults.")
@click.option("--together", is_flag=True, help="Inject all at about the same time, in different jobs if possible.")
@click.option("--nodes", type=click.IntRange(8, 4096), default=64, show_default=True, help="Size of the fleet.")
@click.option("--seconds", type=click.IntRange(10, 86400), help="Length (default: as long as the faults need).")
@click.option("--fabric", type=click.Choice(["roce", "infiniband"]), help="Fabric of the rails.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path, exists=True),
    help="A trace of requests in the format of Azure or Mooncake.",
)
@click.option(
    "--profile", type=click.Choice(["fine", "usual"]), default="fine", show_default=True, help="Sampling intervals."
)
@click.option(
    "--names",
    type=click.Choice(["canonical", "exporters"]),
    default="canonical",
    show_default=True,
    help="Metric names: canonical, or those of dcgm-exporter, DTS, node_exporter and vLLM.",
)
@click.option("--serve", metavar="[HOST:]PORT", help="Serve it live as pages to scrape (default host: localhost).")
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="Seed of all random choices.")
@click.option("--list", "listing", is_flag=True, help="List the faults and benign events.")
@json_option
def simulate(folder: Path | None, names: str, serve: str | None, listing: bool, as_json: bool, **options: Any) -> None:
    """Create a labelled recording of a simulated fleet, or serve it live.

    Nodes with GPUs and rails serve requests and train; the seed chooses the places of the faults. --profile fine
    samples every source each second; usual samples GPUs every 30 s and hosts every 15 s, as operators do.
    For example: `simulate out --condition gpu-thermal-throttle`.
    """
    if listing or (folder is None and serve is None):
        _list_injectable(as_json=as_json)
        return
    scenario = _build_scenario(SimulationOptions(**options))
    if folder is None:
        _serve_live(serve or "", scenario, names, as_json=as_json)
        return
    if serve is not None:
        raise InputError([Problem("--serve", 0, "", f"also the folder {str(folder)!r}", "one of the two")])
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError([Problem(str(folder), 0, "", "an existing path", "a new or empty folder")])
    samples, series = _write_recording(folder, scenario, names)
    if as_json:
        print_json(scenario)
    else:
        title = line(f"{samples} samples of {scenario.plan.nodes} nodes in {scenario.lasts:g} s.")
        exported = [_exporters_line(series)] if names == "exporters" else []
        print_lines([title, *exported, *map(_episode_line, scenario.episodes)])


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The options of `simulate`."""

    conditions: tuple[str, ...]
    events: tuple[str, ...]
    severity: str
    nodes: int
    seconds: int | None
    fabric: str | None
    profile: str
    seed: int
    together: bool
    trace: Path | None


def _list_injectable(*, as_json: bool) -> None:
    from skewscope.adapters.simulator.benign import BENIGN_EVENTS  # noqa: PLC0415
    from skewscope.adapters.simulator.faults.registry import fault_models  # noqa: PLC0415

    rows = [{"name": name, "befalls": fault.target, "benign": False} for name, fault in fault_models().items()]
    rows += [{"name": name, "befalls": "", "benign": True} for name in BENIGN_EVENTS]
    if as_json:
        print_json(rows)
    else:
        print_lines([line(f"{row['name']}  {row['befalls'] or 'benign'}") for row in rows])


def _build_scenario(options: SimulationOptions) -> "Scenario":
    from skewscope.adapters.assessment.scenarios import FAULT_GAP, build_scenario  # noqa: PLC0415
    from skewscope.adapters.simulator.benign import BENIGN_EVENTS  # noqa: PLC0415
    from skewscope.adapters.simulator.fleet import FleetPlan  # noqa: PLC0415

    check_choices("--event", options.events, BENIGN_EVENTS)
    plan = FleetPlan(options.nodes, fabric=_choose_fabric(options), seed=options.seed)
    wanted = [(name, options.severity) for name in (*options.conditions, *options.events)]
    made = build_scenario(plan, [wanted] if options.together else [(one,) for one in wanted])
    lasts = float(options.seconds) if options.seconds else max(made.lasts, 2 * FAULT_GAP)
    return replace(made, lasts=lasts, profile=options.profile, trace=options.trace)


def _choose_fabric(options: SimulationOptions) -> str:
    """Returns a fabric on which all requested faults occur."""
    from skewscope.adapters.simulator.faults.registry import fault_models  # noqa: PLC0415
    from skewscope.adapters.simulator.fleet import FABRICS  # noqa: PLC0415

    wanted = [fault_models()[name] for name in check_choices("--condition", options.conditions, fault_models())]
    for fabric in [options.fabric] if options.fabric else FABRICS:
        if all(fabric in fault.fabrics for fault in wanted):
            return fabric
    found = f"faults of different fabrics: {', '.join(options.conditions)}"
    raise InputError([Problem("--condition", 0, "", found, "faults of RoCE or of InfiniBand")])


def _serve_live(where: str, scenario: "Scenario", names: str, *, as_json: bool) -> None:
    """Serve a scenario live until it ends or is interrupted."""
    from skewscope.adapters.assessment.scenarios import run_scenario  # noqa: PLC0415
    from skewscope.adapters.simulator import live_server  # noqa: PLC0415
    from skewscope.adapters.simulator.exporters import PROFILE_PERIODS  # noqa: PLC0415
    from skewscope.engine.ingest.feed import SeriesTable  # noqa: PLC0415

    try:
        address = live_server.parse_address(where)
    except ValueError as error:
        raise _report_address(where, str(error)) from None
    table = SeriesTable()
    fleet, blocks = run_scenario(scenario, load_catalogue(), table)
    if len(table.keys) > live_server.MAX_SERIES:
        found = f"{len(table.keys)} series on a page"
        raise InputError(
            [Problem("--serve", 0, "", found, f"at most {live_server.MAX_SERIES}", "Simulate fewer nodes.")]
        )
    series = _name_series(names, table.keys, fleet.topology)
    pages = live_server.ExporterPages(table.keys, series, load_catalogue(), PROFILE_PERIODS[scenario.profile])
    try:
        server = live_server.SimulatorServer(address, pages, fleet.topology)
    except (OSError, ValueError) as error:
        raise _report_address(where, error.strerror if isinstance(error, OSError) else str(error)) from None
    with suppress(KeyboardInterrupt), live_server.serve_in_background(server):
        if as_json:
            print_json(scenario)
        else:
            title = line(f"{scenario.plan.nodes} nodes at {server.url} for {scenario.lasts:g} s; Ctrl-C ends it.")
            print_lines([title, *map(_episode_line, scenario.episodes)])
        live_server.play(blocks, pages)


def _report_address(where: str, reason: str | None) -> InputError:
    return InputError([Problem("--serve", 0, "", f"{where!r} ({reason})", "a free [HOST:]PORT")])


def _name_series(names: str, keys: "list[SeriesKey]", topology: "Topology") -> "list[ExportedSeries]":
    from skewscope.adapters.simulator.exporter_naming import name_series  # noqa: PLC0415
    from skewscope.adapters.simulator.recording_writer import canonical_series  # noqa: PLC0415

    return name_series(keys, load_catalogue(), topology) if names == "exporters" else canonical_series(keys)


def _write_recording(folder: Path, scenario: "Scenario", names: str) -> "tuple[int, list[ExportedSeries]]":
    """Write the recording; returns the number of samples, and the exported name of each series."""
    from skewscope.adapters.assessment.scenarios import START_TIME, run_scenario  # noqa: PLC0415
    from skewscope.adapters.simulator.recording_writer import write_recording  # noqa: PLC0415
    from skewscope.engine.ingest.feed import SeriesTable  # noqa: PLC0415

    table = SeriesTable()
    fleet, blocks = run_scenario(scenario, load_catalogue(), table)
    truth = {
        "scenario": scenario.name,
        "start": START_TIME,
        "end": START_TIME + scenario.lasts,
        "labels": [
            {
                "condition": e.condition,
                "severity": e.severity,
                "entity": e.at.name,
                "also": list(e.at.also),
                "start": START_TIME + e.begin,
                "end": START_TIME + e.end,
            }
            for e in scenario.episodes
            if e.condition
        ],
    }
    series = _name_series(names, table.keys, fleet.topology)
    return write_recording(folder, fleet.topology, series, blocks, truth), series


def _exporters_line(series: "list[ExportedSeries]") -> "Line":
    """Returns a line with the number of series per exporter."""
    counts = Counter(one.exporter for one in series)
    own = counts.pop("", 0)
    exported = ", ".join(f"{count} of {name}" for name, count in counts.most_common())
    return line(f"Series by exporter: {exported}; {own} without an exporter keep canonical names.", "dim")


def _episode_line(episode: "Episode") -> "Line":
    what = episode.condition or episode.event
    return line(f"{episode.begin:5g} to {episode.end:5g} s  {what} ({episode.severity}) at {episode.at.name}")


@click.command("assess", cls=MeasureCommand)
@click.argument("recordings", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="[RECORDING]...")
@formats_option
@click.option(
    "--condition", "conditions", multiple=True, metavar="ID", help="Conditions to test (default: all that have rules)."
)
@click.option(
    "--severity", "severities", multiple=True, type=click.Choice(SEVERITIES), help="Severities to test (default: all)."
)
@click.option("--everything", is_flag=True, help="Also test pairs of faults and reduced telemetry.")
@click.option(
    "--quiet-days",
    type=click.FloatRange(0, 10_000),
    help="Node-days without a fault (default: as many as with faults).",
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="Seed of all random choices.")
@click.option(
    "--nodes", type=click.IntRange(8, 4096), default=64, show_default=True, help="Size of each simulated fleet."
)
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Worker processes.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="Write all results as a Markdown page.")
@click.option(
    "--calibrate",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a new calibration of confidence, fitted to simulated telemetry and RECORDING...",
)
@json_option
def assess(
    recordings: tuple[Path, ...], write: Path | None, calibrate: Path | None, as_json: bool, **options: Any
) -> None:
    """Measure the diagnosis on labelled telemetry.

    Uses recordings with a `labels.json`, or a simulated corpus: every condition with a rule at every severity, and as
    much time without faults. --everything uses both, plus pairs of faults and reduced telemetry; --calibrate uses both
    and prints the two curves.
    """
    from skewscope.adapters.assessment import (  # noqa: PLC0415
        assessment,
        reliability,
        report,
        runner,
        score,
    )

    if recordings and not (options["everything"] or calibrate):
        alone = score.score_runs(runner.replay_all(recordings, options["workers"]))
        print_json(score.to_json(alone)) if as_json else print_lines(_score_lines(alone))
        return
    assessment_options = _assessment_options(**options)
    on_progress = progress_bar("assess", wanted=True)
    try:
        if calibrate:
            fitted, samples = assessment.calibrate(assessment_options, recordings, on_progress)
            _write_text(calibrate, fitted.as_text())
            print_lines(line(text) for text in reliability.page_lines(samples, fitted))
            return
        found = assessment.assess(assessment_options, recordings, on_progress)
    finally:
        clear_progress(wanted=True)
    if write:
        before = write.read_text(encoding="utf-8") if write.is_file() else ""
        _write_text(write, report.render_markdown(found, load_catalogue(), before))
    if as_json:
        print_json({"alone": score.to_json(found.single), **_extra_scores(found)})
    else:
        print_lines(_score_lines(found.single))


def _assessment_options(
    conditions: tuple[str, ...], severities: tuple[str, ...], *, everything: bool, quiet_days: float | None, **rest: int
) -> "assessment.AssessmentOptions":
    from skewscope.adapters.assessment import assessment  # noqa: PLC0415
    from skewscope.adapters.simulator.faults.registry import fault_models  # noqa: PLC0415
    from skewscope.rules.loader import load_strict  # noqa: PLC0415

    judged = {rule.condition for rule in load_strict(load_catalogue()).values()}
    wanted = check_choices("--condition", conditions, fault_models()) or tuple(sorted(judged & set(fault_models())))
    return assessment.AssessmentOptions(
        conditions=tuple(wanted),
        severities=severities,
        quiet_node_days=quiet_days,
        vantages=assessment.ALL_VANTAGES if everything else (),
        with_pairs=everything,
        **rest,
    )


def _extra_scores(found: "assessment.Assessment") -> dict[str, Any]:
    from skewscope.adapters.assessment import score  # noqa: PLC0415

    more: dict[str, Any] = {"pairs": score.to_json(found.pairs)} if found.options.with_pairs else {}
    if found.by_vantage:
        more["by_vantage"] = {name: score.to_json(one) for name, one in found.by_vantage.items()}
    return more | ({"recorded": score.to_json(found.recordings)} if found.recordings else {})


def _write_text(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            [Problem(str(path), 0, "", f"an unwritable file ({error.strerror})", "a writable path")]
        ) from None
    print_lines([line(f"Written to {path}.")])


def _format_number(value: float) -> str:
    return f"{value:.2f}" if isfinite(value) else "unknown"


def _seen_sentences(found: "AssessmentScore") -> "Iterator[str]":
    """Yields what symptoms add to the diagnoses, where there are labelled faults."""
    labels = sum(tally.true_positives + tally.false_negatives for tally in found.conditions.values())
    if labels:
        yield (
            f"{found.seen} of {labels} faults are reported where they are, symptoms included; "
            f"of {found.among_first} the cause is named or among the first three candidates."
        )
    if outcomes := found.candidate_outcomes:
        said, right = (sum(column) / len(outcomes) for column in zip(*outcomes, strict=True))
        what = f"First candidates of {len(outcomes)} unexplained symptoms"
        yield f"{what}: probability {said:.2f} on average, {right:.2f} right."


def _score_lines(found: "AssessmentScore") -> "list[Line]":
    from skewscope.tui.render.blocks import table_lines  # noqa: PLC0415

    rows = [
        (
            name,
            str(t.true_positives),
            str(t.false_negatives),
            str(t.false_positives),
            str(t.located),
            f"{t.delay:.0f}" if t.delays else "",
        )
        for name, t in sorted(found.conditions.items())
    ]
    out = table_lines(rows, ("condition", "found", "missed", "wrong", "placed", "delay (s)"))
    if not any(tally.true_positives + tally.false_negatives for tally in found.conditions.values()):
        summary = "The data has no labelled fault."
    else:
        f1, precision, recall = (_format_number(found.macro_mean(what)) for what in ("f1", "precision", "recall"))
        delay, error = _format_number(found.delay), _format_number(found.calibration_error)
        summary = (
            f"Macro F1 {f1}, precision {precision}, recall {recall}; placed {_format_number(found.located_share)}; "
            f"median delay {delay} s; calibration error {error}."
        )
    out.append(line(summary, "title"))
    out += [line(one, "dim") for one in _seen_sentences(found)]
    if found.quiet_node_days:
        alarms = f"{len(found.false_alarms)} false alarms in {found.quiet_node_days:.2f} node-days without a fault"
        symptoms = f"{len(found.quiet_symptoms)} unexplained symptoms"
        limit = f"at most {found.false_alarm_rate_limit:.2f} a node-day, 95 %"
        out.append(line(f"{alarms} ({limit}), {symptoms}.", "dim"))
    return out
