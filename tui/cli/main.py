"""The command line. Imports are local: `--help` and `kb list` need click and YAML only."""

import errno
import gc
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skewscope.adapters.runtime.watchdog import bound_work
from skewscope.kb.garbage import pause_collection
from skewscope.kb.problems import InputError, Problem, SkewscopeError, suggest_name
from skewscope.tui.cli import (
    actions,
    agent,
    backtest,
    compare,
    completion,
    controller,
    diagnose,
    doctor,
    formats,
    history,
    knowledge,
    mcp,
    node_check,
    remote_incident,
    reports,
    rules,
    silences,
    simulate,
    store,
    topology,
    what_if,
)
from skewscope.tui.cli.catalogue import kb
from skewscope.tui.cli.completion import complete_entries, complete_recordings, complete_themes
from skewscope.tui.cli.controller_client import ControllerAddress, connection_options
from skewscope.tui.cli.options import (
    check_choices,
    formats_option,
    json_option,
    load_catalogue,
    parse_time,
    recording_option,
    why_option,
)
from skewscope.tui.cli.terminal import (
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    SuggestingGroup,
    clear_progress,
    findings_exit_code,
    is_ascii_only,
    is_piped,
    output_width,
    print_error,
    print_json,
    print_lines,
    progress_bar,
)
from skewscope.tui.console import launcher
from skewscope.tui.render import text
from skewscope.tui.render.text import line

if TYPE_CHECKING:
    from skewscope.adapters.runtime.replay import ReplayResult
    from skewscope.engine.model.incident import Incident
    from skewscope.kb.model import Condition, Symptom
    from skewscope.tui.render.detail import DisplayNames
    from skewscope.tui.render.text import Line


class DiagnoseCommand(click.Command):
    """A command that reads telemetry."""

    section = "Diagnose"


class RootGroup(SuggestingGroup):
    """The root group: commands by section, and errors as lines on standard error."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one table per section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            if command := self.get_command(ctx, name):
                rows = sections.setdefault(getattr(command, "section", "Other"), [])
                rows.append((name, command.get_short_help_str(100)))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Returns the commands in the order of their definition."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors become text and an exit code."""
        try:
            return super().invoke(ctx)
        except SkewscopeError as error:
            print_error(error)
            ctx.exit(EXIT_ERROR)
        except MemoryError:
            click.echo("skewscope: not enough memory for this input: give less of it at a time.", err=True)
            ctx.exit(EXIT_ERROR)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # click exits quietly when the reader of a pipe is gone
            click.echo(text.sanitise(f"skewscope: {error}"), err=True)
            ctx.exit(EXIT_ERROR)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"skewscope {doctor.describe_version()}\n{doctor.describe_environment()}")
        ctx.exit()


TimeRange = tuple[float | None, float | None]


def _replay(
    recording: Path | None, *, workers: int | None = None, progress: bool = True, span: TimeRange = (None, None)
) -> "ReplayResult":
    with pause_collection():  # what is imported stays
        from skewscope.adapters.formats.bounds import REPLAY_TIMES  # noqa: PLC0415
        from skewscope.adapters.inputs.recording import clip_recording, demo_path, open_recording  # noqa: PLC0415
        from skewscope.adapters.runtime.replay import replay  # noqa: PLC0415

    path = recording or demo_path()
    try:
        with bound_work(str(path), REPLAY_TIMES) as most_seconds:
            part = clip_recording(open_recording(path), *span)
            report = progress_bar(path.name, wanted=progress)
            return replay(part, progress=report, workers=workers, most_seconds=most_seconds)
    finally:
        clear_progress(wanted=progress)


def _print_report(name: str, outcome: "ReplayResult", *, why: bool = False) -> None:
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.report import report_lines  # noqa: PLC0415

    names = DisplayNames(load_catalogue(), outcome.incidents, topology=outcome.topology)
    print_lines(report_lines(name, outcome, names, output_width(), why=why, whole=is_piped()))


# --- commands


@click.group(cls=RootGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@recording_option
@click.option("--url", metavar="URL", help="Show the incidents of a controller: the address of `skewscope run`.")
@click.option(
    *("--token-file", "token_file"),
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help=f"File with the token for --url (default: the variable {launcher.TOKEN_VARIABLE}).",
)
@click.option("--ascii", "ascii_", is_flag=True, help="Use ASCII characters only.")
@click.option("--write", is_flag=True, help="Allow changes in the console: acknowledge, snooze, approve.")
@click.option(
    "--theme",
    default="",
    metavar="NAME",
    help=f"Colour theme: {', '.join(launcher.THEMES)}.",
    shell_complete=complete_themes,
)
@click.option("--keys", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Key bindings, as TOML.")
@click.option(
    *("--operator-log", "--ledger", "operator_log"),
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the actions of operators are stored.",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.pass_context
def cli(
    ctx: click.Context,
    /,
    recording: Path | None,
    url: str | None,
    token_file: Path | None,
    ascii_: bool,
    **options: Any,
) -> None:
    """Diagnose skews and faults of an LLM cluster from its DPUs.

    \b
    Examples:
      skewscope                                     the console on the built-in demo
      skewscope diagnose http://prometheus:9090     your own data: a server, files, logs, a folder
      skewscope diagnose metrics.om train.log
      skewscope --replay RECORDING                  a recording in the console
      skewscope --url http://HOST:8470              the incidents of a controller
      skewscope doctor                              what is set up here, and what is missing

    Without a command: open the console on the built-in demo, or on what --replay or --url names. Without a terminal:
    print a report as text.

    Exit codes: 0 no finding, 1 findings, 2 could not run, 3 (of diagnose) too little to judge. The built-in demo exits
    with 0.
    """
    if ctx.invoked_subcommand is not None:
        return
    launch_options = launcher.LaunchOptions(ascii_ or is_ascii_only(), **options)
    launcher.resolve_theme(launch_options.theme)  # a misspelt one is reported without a terminal too
    if url is None:
        ctx.exit(_open_console(recording, launch_options))
    if recording is not None:
        raise click.UsageError("Give either --replay or --url.")
    launcher.resolve_controller(url, token_file)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(f"--url needs a terminal; {url.rstrip('/')}/api/v1/incidents returns the same as JSON.")
    ctx.exit(launcher.open_remote_console(url, token_file, launch_options))


def _open_console(recording: Path | None, options: launcher.LaunchOptions) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        outcome = _replay(recording)
        _print_report(recording.name if recording else "demo", outcome)
        return findings_exit_code(recording, outcome.incidents)
    from skewscope.adapters.inputs.recording import demo_path  # noqa: PLC0415

    return launcher.open_console(recording or demo_path(), options)


cli.add_command(diagnose.diagnose)


@cli.command("replay", cls=DiagnoseCommand)
@click.argument(
    "recordings",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    metavar="RECORDING...",
    shell_complete=complete_recordings,
)
@formats_option
@json_option
@why_option
@click.option(
    "--workers", type=click.IntRange(1, 256), help="Reader processes (default: one per core, fewer for little data)."
)
@click.option("--no-progress", is_flag=True, help="Hide the progress bar.")
@click.option("--from", "begin", type=parse_time, metavar="TIME", help="Only data from this time on.")
@click.option("--to", "end", type=parse_time, metavar="TIME", help="Only data up to this time.")
def replay_(recordings: tuple[Path, ...], as_json: bool, begin: float | None, end: float | None, **how: Any) -> None:
    """Diagnose recordings.

    \b
    Examples:
      skewscope replay RECORDING
      skewscope replay RECORDING --why              with the reasoning
      skewscope replay RECORDING --from 2026-11-20T23:10:00Z --json

    Prints a short report, or with --json one incident per line, recording after recording.
    """
    codes = []
    for number, path in enumerate(recordings):
        if number and not as_json:
            click.echo()
        codes.append(_replay_one(path, as_json=as_json, span=(begin, end), **how))
    click.get_current_context().exit(max(codes))


def _replay_one(path: Path, *, as_json: bool, why: bool, span: TimeRange, **how: Any) -> int:
    try:
        outcome = _replay(path, workers=how["workers"], progress=not how["no_progress"], span=span)
    except InputError as error:
        print_error(error)
        return EXIT_ERROR
    if as_json:
        for incident in outcome.incidents:
            click.echo(incident.as_line())
        if not outcome.samples:
            click.echo(text.sanitise(f"{path}: no telemetry received, so nothing is known."), err=True)
    else:
        _print_report(path.name, outcome, why=why)
    return findings_exit_code(path, outcome.incidents)


@cli.command("explain", cls=DiagnoseCommand)
@click.argument(
    "what",
    metavar="[INCIDENT_ID|CONDITION|SYMPTOM]",
    required=False,
    shell_complete=complete_entries("conditions", "symptoms"),
)
@click.option(
    "--why-not",
    metavar="CONDITION",
    help="Explain why this was not told, with --at and --time.",
    shell_complete=complete_entries("conditions"),
)
@click.option("--at", metavar="ENTITY", help="Where it was not told: the name of a node, rank, port, GPU ...")
@click.option("--time", type=parse_time, metavar="TIME", help="When it was not told.")
@click.option("--over", metavar="RECORDING", help="Telemetry for --why-not (default: the built-in demo).")
@click.option("--all", "whole", is_flag=True, help="Of an entry of the catalogue, all that is known.")
@recording_option
@connection_options
@json_option
def explain(
    controller: ControllerAddress, what: str | None, recording: Path | None, as_json: bool, whole: bool, **asked: Any
) -> None:
    """Explain an incident, a condition or a symptom in depth, or why something was not reported.

    \b
    Examples:
      skewscope explain tp-straggler                        a condition of the catalogue; all of it with --all
      skewscope explain 5d5db2f8bb2a --replay RECORDING     an incident of a recording
      skewscope explain 5d5db2f8bb2a --url http://HOST:8470 an incident of a controller
      skewscope explain --why-not tp-straggler --at n3 --time 2026-11-20T23:10:30Z --over RECORDING

    The last one prints each item of evidence of its rules at that time, with verdict, value and threshold, and what was
    missing.
    """
    if what is None or asked["why_not"]:
        if what is not None:
            raise click.UsageError("Give either an incident or entry, or --why-not.")
        what_if.explain_why_not(what_if.WhyNotOptions(**asked), as_json=as_json)
        return
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.incident_layout import full_lines  # noqa: PLC0415

    known = load_catalogue()
    if entry := known.conditions.get(what) or known.symptoms.get(what):
        if as_json:
            print_json(entry)
        else:
            print_lines(_explained_entry(entry, DisplayNames(known), whole=whole), wrapped=True)
        return
    if controller.is_named:
        incident, names, now = remote_incident.read_incident(controller, what)
    else:
        outcome = _replay(recording)
        incident = _find_incident(what, outcome, [*known.conditions, *known.symptoms])
        names = DisplayNames(known, outcome.incidents, topology=outcome.topology)
        now = outcome.snapshots[-1].time
    if as_json:
        click.echo(incident.as_line())
        return
    print_lines(full_lines(incident, names, now, min(output_width(), 110)))
    if found := known.conditions.get(incident.condition) or known.symptoms.get(incident.condition):
        print_lines([(), line("─" * min(output_width(), 40), "dim"), ()])
        print_lines(_explained_entry(found, names, whole=whole), wrapped=True)


def _explained_entry(entry: "Condition | Symptom", names: "DisplayNames", *, whole: bool) -> "list[Line]":
    """Returns an entry of the catalogue: of a condition what to know first, with its causes drawn, unless `whole`."""
    from skewscope.kb.model import Condition  # noqa: PLC0415
    from skewscope.tui.render import entry_summary  # noqa: PLC0415
    from skewscope.tui.render.catalogue import entry_lines  # noqa: PLC0415

    if whole or not isinstance(entry, Condition):
        return entry_lines(entry, names)
    firing = {one.condition for one in names.incidents if one.state == "firing"}
    drawn = entry_summary.neighbourhood_lines(entry, names, min(output_width(), 110), firing)
    lead = [*entry_summary.condition_head(entry), *entry_summary.condition_lead(entry, names)]
    return [*lead, (), *drawn, (), entry_summary.more_line(entry)]


def _find_incident(what: str, outcome: "ReplayResult", conditions: list[str]) -> "Incident":
    ids = [i.id for i in outcome.incidents]
    found = [i for i in outcome.incidents if i.id == what] or [i for i in outcome.incidents if i.id.startswith(what)]
    if len(found) == 1:
        return found[0]
    mismatch = f"the start of {len(found)} incident ids" if found else "neither an incident nor an entry"
    hint = suggest_name(what, [*conditions, *ids]) or f"Incidents: {', '.join(ids) or 'none'}."
    raise InputError([Problem(repr(what), 0, "", mismatch, "the id of an incident, a condition or a symptom", hint)])


@cli.command("coverage", cls=DiagnoseCommand)
@recording_option
@click.option(
    "--topology",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Count what the DPUs of this topology read.",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME",
    help="Count what this exporter delivers, as vllm or dcgm; repeatable.",
)
@json_option
def coverage_(recording: Path | None, topology: Path | None, sources: tuple[str, ...], as_json: bool) -> None:
    """Show which conditions can be diagnosed, and which further signal helps most.

    Counts the signals of a recording, or those that the DPUs of a topology read plus those of the named exporters.
    For example: `coverage --topology cluster.yaml --source dcgm --source vllm`.
    """
    if recording and (topology or sources):
        raise click.UsageError("Give --replay, or --topology and --source.")
    from skewscope.rules.coverage import (  # noqa: PLC0415
        choose_first_addition,
        compute_coverage,
        count_exporter_signals,
        exported_signals,
        symptom_signals,
    )
    from skewscope.tui.render.coverage import coverage_lines  # noqa: PLC0415

    known = load_catalogue()
    if topology or sources:
        named = check_choices("--source", sources, count_exporter_signals(known))
        signals = _readable_signals(topology) | exported_signals(known, named)
    else:
        signals = frozenset(_replay(recording).signals)
    found = compute_coverage(rules.load_rules().values(), known.conditions.values(), signals, symptom_signals(known))
    if as_json:
        print_json(found)
    else:
        first = choose_first_addition(found, known, signals)
        print_lines(coverage_lines(found, {id_: signal.name for id_, signal in known.signals.items()}, first))


def _readable_signals(path: Path | None) -> frozenset[str]:
    """Returns the signals that the DPUs of a topology read, none without a topology."""
    if path is None:
        return frozenset()
    from skewscope.engine.model.topology_file import parse_valid_topology  # noqa: PLC0415
    from skewscope.kb.yamlfile import read  # noqa: PLC0415
    from skewscope.rules.coverage import dpu_readable_signals  # noqa: PLC0415

    return dpu_readable_signals(
        load_catalogue(), {network for node in parse_valid_topology(read(path)).nodes for network in node.sees}
    )


cli.add_command(reports.watch)
cli.add_command(reports.report)
cli.add_command(compare.compare)
cli.add_command(what_if.what_if)
cli.add_command(history.history)
cli.add_command(controller.run)
cli.add_command(controller.config)
cli.add_command(mcp.mcp)
cli.add_command(node_check.check)
cli.add_command(store.store)
cli.add_command(store.audit)
cli.add_command(silences.silence)
cli.add_command(actions.act)
cli.add_command(topology.topology)
cli.add_command(formats.formats)
cli.add_command(kb)
cli.add_command(knowledge.knowledge)
cli.add_command(rules.rules)
cli.add_command(agent.agent)
cli.add_command(simulate.simulate)
cli.add_command(simulate.assess)
cli.add_command(backtest.backtest)
cli.add_command(reports.keys)
cli.add_command(doctor.doctor)
cli.add_command(completion.completion)
cli.add_command(completion.manual)


def main() -> None:
    """Run the command line."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal's encoding lacks must not raise an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        cli(prog_name="skewscope")
    finally:
        # The interpreter ends by searching all that there is for garbage, several times.
        gc.freeze()


if __name__ == "__main__":
    main()
