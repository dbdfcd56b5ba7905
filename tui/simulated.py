"""The commands about simulated fleets: make a recording of one, and measure the diagnosis on many."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skewscope.kb.problems import InputError, Problem
from skewscope.tui.catalogue import catalogue, checked
from skewscope.tui.terminal import json_option, print_json, progress_bar, show, wipe
from skewscope.tui.text import line

if TYPE_CHECKING:
    from skewscope.adapters.assessment import whole
    from skewscope.adapters.assessment.corpus import Episode, Scenario
    from skewscope.adapters.assessment.score import Score
    from skewscope.adapters.simulator.output import Spelled
    from skewscope.engine.feed import SeriesKey
    from skewscope.engine.topology import Topology
    from skewscope.tui.text import Line

SEVERITIES = ("mild", "medium", "heavy")


class Measure(click.Command):
    """A command about how good the diagnosis is."""

    section = "Measure"


@click.command("simulate", cls=Measure)
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[FOLDER]")
@click.option("--condition", "conditions", multiple=True, metavar="ID", help="A fault to inject; one after another.")
@click.option("--event", "events", multiple=True, metavar="NAME", help="Something benign that may look like a fault.")
@click.option("--severity", type=click.Choice(SEVERITIES), default="medium", show_default=True)
@click.option("--together", is_flag=True, help="All at about the same time, in different jobs where there are enough.")
@click.option("--nodes", type=click.IntRange(8, 4096), default=64, show_default=True)
@click.option("--seconds", type=click.IntRange(10, 86400), help="Length; unless told, what the faults need.")
@click.option("--fabric", type=click.Choice(["roce", "infiniband"]), help="Of the rails.")
@click.option(
    "--trace", type=click.Path(path_type=Path, exists=True), help="Of requests, as Azure or Mooncake give it."
)
@click.option("--profile", type=click.Choice(["fine", "usual"]), default="fine", show_default=True)
@click.option(
    "--names",
    type=click.Choice(["canonical", "exporters"]),
    default="canonical",
    show_default=True,
    help="Of metrics and labels: one vocabulary for all, or as dcgm-exporter, DTS, node_exporter, vLLM have them.",
)
@click.option("--serve", metavar="[HOST:]PORT", help="Play it live, as pages to scrape; of this machine unless told.")
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True)
@click.option("--list", "listing", is_flag=True, help="What can be injected.")
@json_option
def simulate(folder: Path | None, names: str, serve: str | None, listing: bool, as_json: bool, **asked: Any) -> None:
    """Make a labelled recording of a fleet that never was, or play it live.

    Nodes with GPUs and rails serve requests and train; faults are injected at
    places that the seed chooses. With --profile fine every source is read each
    second, with usual as operators have it: GPUs each 30 s, hosts each 15 s.
    For example: `simulate out --condition gpu-thermal-throttle`.
    """
    if listing or (folder is None and serve is None):
        _show_what_there_is(as_json=as_json)
        return
    scenario = _scenario(Order(**asked))
    if folder is None:
        _play(serve or "", scenario, names, as_json=as_json)
        return
    if serve is not None:
        raise InputError([Problem("--serve", 0, "", f"the folder {str(folder)!r} as well", "one of the two")])
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError([Problem(str(folder), 0, "", "something that is there already", "a new folder")])
    samples, series = _write(folder, scenario, names)
    if as_json:
        print_json(scenario)
    else:
        title = line(f"{samples} samples of {scenario.plan.nodes} nodes in {scenario.lasts:g} s.")
        told = [_names_line(series)] if names == "exporters" else []
        show([title, *told, *map(_episode_line, scenario.episodes)])


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be simulated, as it was asked for."""

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


def _show_what_there_is(*, as_json: bool) -> None:
    from skewscope.adapters.simulator.benign import EVENTS  # noqa: PLC0415
    from skewscope.adapters.simulator.faults.registry import faults  # noqa: PLC0415

    rows = [{"name": name, "befalls": fault.target, "benign": False} for name, fault in faults().items()]
    rows += [{"name": name, "befalls": "", "benign": True} for name in EVENTS]
    if as_json:
        print_json(rows)
    else:
        show([line(f"{row['name']}  {row['befalls'] or 'benign'}") for row in rows])


def _scenario(order: Order) -> "Scenario":
    from skewscope.adapters.assessment.corpus import BETWEEN, arranged  # noqa: PLC0415
    from skewscope.adapters.simulator.benign import EVENTS  # noqa: PLC0415
    from skewscope.adapters.simulator.fleet import Plan  # noqa: PLC0415

    checked("--event", order.events, EVENTS)
    plan = Plan(order.nodes, fabric=_fabric(order), seed=order.seed)
    wanted = [(name, order.severity) for name in (*order.conditions, *order.events)]
    made = arranged(plan, [wanted] if order.together else [(one,) for one in wanted])
    lasts = float(order.seconds) if order.seconds else max(made.lasts, 2 * BETWEEN)
    return replace(made, lasts=lasts, profile=order.profile, trace=order.trace)


def _fabric(order: Order) -> str:
    """The fabric on which all faults that were asked for occur."""
    from skewscope.adapters.simulator.faults.registry import faults  # noqa: PLC0415
    from skewscope.adapters.simulator.fleet import FABRICS  # noqa: PLC0415

    wanted = [faults()[name] for name in checked("--condition", order.conditions, faults())]
    for fabric in [order.fabric] if order.fabric else FABRICS:
        if all(fabric in fault.fabrics for fault in wanted):
            return fabric
    found = f"faults that do not occur on one fabric: {', '.join(order.conditions)}"
    raise InputError([Problem("--condition", 0, "", found, "faults of RoCE or of InfiniBand")])


def _play(where: str, scenario: "Scenario", names: str, *, as_json: bool) -> None:
    """Plays a scenario live until it ends, or until somebody stops it."""
    from skewscope.adapters.assessment.corpus import played  # noqa: PLC0415
    from skewscope.adapters.simulator import live  # noqa: PLC0415
    from skewscope.adapters.simulator.exporters import PERIODS  # noqa: PLC0415
    from skewscope.engine.feed import SeriesTable  # noqa: PLC0415

    table = SeriesTable()
    fleet, blocks = played(scenario, catalogue(), table)
    if len(table.keys) > live.MOST_SERIES:
        found = f"{len(table.keys)} series on a page"
        raise InputError([Problem("--serve", 0, "", found, f"at most {live.MOST_SERIES}", "Simulate fewer nodes.")])
    series = _spelled(names, table.keys, fleet.topology)
    pages = live.Pages(table.keys, series, catalogue(), PERIODS[scenario.profile])
    try:
        server = live.Server(live.address(where), pages, fleet.topology)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError([Problem("--serve", 0, "", f"{where!r} ({reason})", "a free [HOST:]PORT")]) from None
    with suppress(KeyboardInterrupt), live.answering(server):
        if as_json:
            print_json(scenario)
        else:
            title = line(f"{scenario.plan.nodes} nodes at {server.url} for {scenario.lasts:g} s; Ctrl-C ends it.")
            show([title, *map(_episode_line, scenario.episodes)])
        live.play(blocks, pages)


def _spelled(names: str, keys: "list[SeriesKey]", topology: "Topology") -> "list[Spelled]":
    from skewscope.adapters.simulator.output import canonical  # noqa: PLC0415
    from skewscope.adapters.simulator.spoken import spoken  # noqa: PLC0415

    return spoken(keys, catalogue(), topology) if names == "exporters" else canonical(keys)


def _write(folder: Path, scenario: "Scenario", names: str) -> "tuple[int, list[Spelled]]":
    """Writes the recording; gives the number of samples, and how each series was written."""
    from skewscope.adapters.assessment.corpus import START, played  # noqa: PLC0415
    from skewscope.adapters.simulator.output import write  # noqa: PLC0415
    from skewscope.engine.feed import SeriesTable  # noqa: PLC0415

    table = SeriesTable()
    fleet, blocks = played(scenario, catalogue(), table)
    truth = {
        "scenario": scenario.name,
        "start": START,
        "end": START + scenario.lasts,
        "labels": [
            {
                "condition": e.condition,
                "severity": e.severity,
                "entity": e.at.name,
                "also": list(e.at.also),
                "start": START + e.begin,
                "end": START + e.end,
            }
            for e in scenario.episodes
            if e.condition
        ],
    }
    series = _spelled(names, table.keys, fleet.topology)
    return write(folder, fleet.topology, series, blocks, truth), series


def _names_line(series: "list[Spelled]") -> "Line":
    """How many series came under whose names."""
    counts = Counter(one.exporter for one in series)
    own = counts.pop("", 0)
    told = ", ".join(f"{count} of {name}" for name, count in counts.most_common())
    return line(f"Series under the names of exporters: {told}; {own} that none of them tells stay canonical.", "dim")


def _episode_line(episode: "Episode") -> "Line":
    what = episode.condition or episode.event
    return line(f"{episode.begin:5g} to {episode.end:5g} s  {what} ({episode.severity}) at {episode.at.name}")


@click.command("assess", cls=Measure)
@click.argument("recordings", nargs=-1, type=click.Path(path_type=Path, exists=True), metavar="[RECORDING]...")
@click.option("--condition", "conditions", multiple=True, metavar="ID", help="Only these; all that have rules, else.")
@click.option("--severity", "severities", multiple=True, type=click.Choice(SEVERITIES), help="Only these.")
@click.option("--everything", is_flag=True, help="Simulated faults in pairs and with less telemetry too.")
@click.option(
    "--quiet-days", type=click.FloatRange(0, 10_000), help="Node-days without a fault; as long as with, else."
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True)
@click.option("--nodes", type=click.IntRange(8, 4096), default=64, show_default=True, help="Of each simulated fleet.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="The whole as a page of Markdown.")
@click.option("--calibrate", type=click.Path(path_type=Path, dir_okay=False), help="Write what confidence is worth.")
@json_option
def assess(
    recordings: tuple[Path, ...], write: Path | None, calibrate: Path | None, as_json: bool, **asked: Any
) -> None:
    """Measure the diagnosis on labelled telemetry.

    On recordings with a `labels.json`, or on a simulated corpus: every
    condition with a rule at every severity, and as much time without a fault.
    With --everything: on both, in pairs, and as telemetry is taken away.
    """
    from skewscope.adapters.assessment import drive, report, score, whole  # noqa: PLC0415

    if recordings and not asked["everything"]:
        alone = score.scored(drive.recorded_all(recordings, asked["workers"]))
        print_json(score.as_data(alone)) if as_json else show(_score_lines(alone))
        return
    order = _order(**asked)
    tell = progress_bar("assess", wanted=True)
    try:
        if calibrate:
            _save(calibrate, whole.calibrated(order, tell).as_text())
            return
        found = whole.assessed(order, recordings, tell)
    finally:
        wipe(wanted=True)
    if write:
        _save(write, report.as_markdown(found, catalogue()))
    if as_json:
        print_json({"alone": score.as_data(found.alone), **_more(found)})
    else:
        show(_score_lines(found.alone))


def _order(
    conditions: tuple[str, ...], severities: tuple[str, ...], *, everything: bool, quiet_days: float | None, **rest: int
) -> "whole.Order":
    from skewscope.adapters.assessment import whole  # noqa: PLC0415
    from skewscope.adapters.simulator.faults.registry import faults  # noqa: PLC0415
    from skewscope.rules.load import rules  # noqa: PLC0415

    judged = {rule.condition for rule in rules(catalogue()).values()}
    wanted = checked("--condition", conditions, faults()) or tuple(sorted(judged & set(faults())))
    return whole.Order(
        conditions=tuple(wanted),
        severities=severities,
        quiet_node_days=quiet_days,
        vantages=whole.EVERY_VANTAGE if everything else (),
        together=everything,
        **rest,
    )


def _more(found: "whole.Assessment") -> dict[str, Any]:
    from skewscope.adapters.assessment import score  # noqa: PLC0415

    more: dict[str, Any] = {"pairs": score.as_data(found.pairs)} if found.order.together else {}
    if found.by_vantage:
        more["by_vantage"] = {name: score.as_data(one) for name, one in found.by_vantage.items()}
    return more | ({"recorded": score.as_data(found.recorded)} if found.recorded else {})


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError([Problem(str(path), 0, "", f"no way to write it ({error.strerror})", "a new file")]) from None
    show([line(f"Written to {path}.")])


def _known(value: float) -> str:
    return f"{value:.2f}" if isfinite(value) else "unknown"


def _score_lines(found: "Score") -> "list[Line]":
    from skewscope.tui.show import table  # noqa: PLC0415

    rows = [
        (name, str(t.found), str(t.missed), str(t.wrong), str(t.placed), f"{t.delay:.0f}" if t.delays else "")
        for name, t in sorted(found.conditions.items())
    ]
    out = table(rows, ("condition", "found", "missed", "wrong", "placed", "delay (s)"))
    if not any(tally.found + tally.missed for tally in found.conditions.values()):
        whole = "No fault was there to be found."
    else:
        f1, precision, recall = (_known(found.macro(what)) for what in ("f1", "precision", "recall"))
        delay, error = _known(found.delay), _known(found.calibration_error)
        whole = (
            f"Macro F1 {f1}, precision {precision}, recall {recall}; placed {_known(found.placed)}; "
            f"median delay {delay} s; calibration error {error}."
        )
    out.append(line(whole, "title"))
    if found.quiet_node_days:
        told = f"{len(found.alarms)} false alarms in {found.quiet_node_days:.2f} node-days without a fault"
        out.append(line(f"{told} (at most {found.alarms_bound:.2f} a node-day, 95 %).", "dim"))
    return out
