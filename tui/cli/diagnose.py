"""The command `diagnose`: a first answer on one's own data, with nothing described by hand."""

import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from skewscope.adapters.runtime.watchdog import bound_memory, bound_work
from skewscope.kb.entry_kinds import FORMATS_VARIABLE
from skewscope.kb.problems import InputError, NothingKnownError, Problem, join_names
from skewscope.kb.site_files import KNOWLEDGE_VARIABLE
from skewscope.tui.cli.options import formats_option, json_option, load_catalogue, parse_time, why_option
from skewscope.tui.cli.reports import ReportCommand, html_report
from skewscope.tui.cli.terminal import (
    EXIT_OK,
    EXIT_PROBLEMS,
    EXIT_TOO_LITTLE,
    clear_progress,
    is_ascii_only,
    is_piped,
    output_width,
    print_error,
    print_lines,
    progress_bar,
    write_output,
)
from skewscope.tui.render import text
from skewscope.tui.render.text import Line, line, wrap

if TYPE_CHECKING:
    from skewscope.adapters.discovery.prometheus import ServerSpan
    from skewscope.adapters.inputs.draft_recording import DraftRecording
    from skewscope.adapters.mapping.name_mapping import NameMapping
    from skewscope.adapters.runtime.replay import ReplayResult
    from skewscope.adapters.view.builder import ViewHistory
    from skewscope.rules.coverage import AdditionHints

FILE = click.Path(path_type=Path, dir_okay=False)
SCHEMES = ("http://", "https://")
DRAFT_SHARE, DOWNLOAD_SHARE = 0.1, 0.5
"""Share of the progress bar until the data is replayed: of files, and of what a server has to send first."""
OWN_PREFIXES = (
    *("up", "scrape_", "go_", "process_", "python_", "prometheus_", "promhttp_", "ALERTS", "net_conntrack_"),
    *("sglang_log_", "infiniband_phys_state"),
)
"""How names of metrics begin by which a server or an exporter describes itself, and those of fields of no use."""
ENOUGH_SAMPLES = 8_000_000
"""Samples of a server for a first answer: they are read in about half a minute."""
MAX_TICK_S = 60.0
"""The longest tick of a recording."""
PROSE = re.compile(r"(?:^|/)(?:README|LICENSE|CHANGELOG)[^/]*$|\.(?:md|rst|adoc)$", re.IGNORECASE)
"""Names of files that describe others."""
MAX_NAMED = 3
"""Unknown metrics, and files that are not read, that the short report names."""
MAX_LISTED = 500
"""Files that are not read, of one reason, that the long report names."""


@dataclass(frozen=True, slots=True)
class DiagnoseOptions:
    """The options of `diagnose`."""

    topology: Path | None
    mapping: Path | None
    save: Path | None
    save_format: Path | None
    redact: bool
    html: Path | None
    console: bool
    as_json: bool
    why: bool
    since: str | None
    until: str | None
    token_file: Path | None
    tick: float | None
    no_progress: bool


@click.command("diagnose", cls=ReportCommand)
@click.argument("where", nargs=-1, required=True, metavar="WHERE...")
@click.option("--topology", type=FILE, metavar="FILE", help="Use this topology instead of inferring one.")
@click.option("--mapping", type=FILE, metavar="FILE", help="Map names and labels by this file (docs/mapping.md).")
@click.option(
    "--save", type=click.Path(path_type=Path), metavar="FOLDER", help="Write a recording, to edit and replay."
)
@click.option("--save-format", type=FILE, metavar="FILE", help="Write the format that was guessed for a text, to edit.")
@click.option("--redact", is_flag=True, help="Replace all names by pseudonyms, in the answer and in what is saved.")
@click.option("--html", type=FILE, metavar="FILE", help="Write the answer as an HTML page too.")
@click.option("--console", is_flag=True, help="Open the answer in the console.")
@click.option("--since", metavar="TIME", help="Begin of the data: a time, or how long before the end (90m, 6h, 2d).")
@click.option("--until", metavar="TIME", help="End of the data (default: now for a server, else all).")
@click.option("--token-file", type=FILE, metavar="FILE", help="File with a bearer token for the server.")
@click.option(
    "--tick",
    type=click.FloatRange(1, MAX_TICK_S),
    metavar="SECONDS",
    help="Judge each so many seconds of data (default: 1; more where there is much).",
)
@formats_option
@click.option("--no-progress", is_flag=True, help="Hide the progress bar.")
@json_option
@why_option
@click.pass_context
def diagnose(ctx: click.Context, /, where: tuple[str, ...], **options: Any) -> None:
    """Diagnose your own data; the topology is inferred from its labels.

    \b
    Examples:
      skewscope diagnose http://prometheus:9090 --since 6h
      skewscope diagnose metrics.om nvidia-smi.csv train.log
      skewscope diagnose LOGS --html answer.html

    WHERE is the URL of a Prometheus server (its last hour, unless --since says otherwise), an OpenMetrics dump, a file
    or folder of CSV or Parquet tables, a log, trace or dump that a known tool wrote, or a recording.
    """
    given = DiagnoseOptions(**options)
    if given.console and (given.as_json or given.html):
        raise click.UsageError("Give either --console, or --json or --html.")
    if given.console and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("--console needs a terminal; --html FILE writes the answer as a page.")
    report = progress_bar(text.sanitise(_shown_name(where[0])), wanted=not given.no_progress)
    with ExitStack() as stack:
        stack.callback(clear_progress, wanted=not given.no_progress)
        bound, name = stack.enter_context(ExitStack()), text.sanitise(where[0])
        is_server = where[0].startswith(SCHEMES)
        # Waiting for the answers of a server is no work.
        bound.enter_context(bound_memory(name) if is_server else bound_work(name))
        try:
            draft = _prepare(where, given, stack, report or _drop_progress)
        except NothingKnownError as error:
            clear_progress(wanted=not given.no_progress)
            print_error(error)
            ctx.exit(EXIT_TOO_LITTLE)
        if given.console:
            bound.close()
            from skewscope.tui.console import launcher  # noqa: PLC0415

            clear_progress(wanted=not given.no_progress)
            ctx.exit(launcher.open_console(draft.recording, launcher.LaunchOptions(is_ascii_only())))
        if is_server:
            bound.enter_context(bound_work(name))
        outcome = _answer(where, draft, given, report or _drop_progress)
        ctx.exit(_exit_code(outcome))


def _with_unread(draft: "DraftRecording", outcome: "ReplayResult") -> "ReplayResult":
    """Returns the result of a replay with the files that were asked for and are not in the recording.

    Prose about them is not: it has no telemetry.
    """
    named = (each.path for each in draft.skipped if each.is_named and not PROSE.search(each.path))
    return replace(outcome, unread=(*named, *outcome.unread))


def _exit_code(outcome: "ReplayResult") -> int:
    """Returns 1 for findings, 0 where all is well as far as it was judged, 3 where too little could be judged."""
    if outcome.incidents:
        return EXIT_PROBLEMS
    return EXIT_OK if outcome.is_enough else EXIT_TOO_LITTLE


def _shown_name(where: str) -> str:
    """Returns what the answer calls a server, file or folder."""
    return Path(where).name or (where if where.startswith(SCHEMES) else Path(where).resolve().name or where)


def _draft_share(where: tuple[str, ...]) -> float:
    return DOWNLOAD_SHARE if where[0].startswith(SCHEMES) else DRAFT_SHARE


def _drop_progress(_stage: str, _share: float) -> None:
    pass


def _prepare(
    where: tuple[str, ...], given: DiagnoseOptions, stack: ExitStack, report: Callable[[str, float], None]
) -> "DraftRecording":
    """Returns the recording to replay: saved, and redacted, where that is wanted."""
    from skewscope.adapters.inputs.draft_recording import check_new_folder, save_recording  # noqa: PLC0415

    if given.save:
        check_new_folder(given.save)
    draft = _draft(where, given, stack, lambda stage, share: report(stage, _draft_share(where) * share))
    if given.redact:
        from skewscope.adapters.inputs.redaction import redact_recording  # noqa: PLC0415

        folder = given.save or Path(stack.enter_context(TemporaryDirectory(prefix="skewscope-"))) / "redacted"
        return redact_recording(draft, folder)
    if given.save_format:
        write_output(_guessed_format(draft, given.save_format.stem), given.save_format)
    if given.save:
        save_recording(draft, given.save)
    return draft


def _guessed_format(draft: "DraftRecording", file_id: str) -> str:
    """Returns the text of the format that was guessed for the first input without a known one.

    Its id is the name of the file, where that can be one.

    Raises:
        InputError: none was guessed.
    """
    from skewscope.adapters.formats.compression import open_stream  # noqa: PLC0415
    from skewscope.adapters.inputs.guessed_format import render_format  # noqa: PLC0415
    from skewscope.adapters.inputs.text import guess_format_of  # noqa: PLC0415

    recording = draft.recording
    for source in recording.inputs:
        if source.kind == "text":
            with open_stream(recording.resolve_path(source.path), keep_prompts=True) as file:
                guess = guess_format_of(file, recording.display_path(source.path), dict(source.labels))
            if guess is not None:
                return render_format(guess, file_id)
    found = "no text whose format was guessed"
    hint = "Formats that are known are files to copy and edit: `skewscope formats list`."
    raise InputError([Problem(str(recording.path), 0, "--save-format", found, "one", hint)])


def _draft(
    where: tuple[str, ...], given: DiagnoseOptions, stack: ExitStack, report: Callable[[str, float], None]
) -> "DraftRecording":
    """Returns a recording of a server's answers, of files, or the recording that a folder is."""
    from skewscope.adapters.inputs.draft_recording import describe_recording, draft_recording  # noqa: PLC0415
    from skewscope.adapters.inputs.recording import RECORDING_FILE, clip_recording  # noqa: PLC0415

    mapping = _read_mapping(given.mapping)
    servers = [each for each in where if each.startswith(SCHEMES)]
    if servers:
        if len(where) > 1:
            raise click.UsageError("Give one server, or files and folders.")
        return _draft_of_server(servers[0], given, mapping, stack, report)
    paths = [Path(each) for each in where]
    if len(paths) == 1 and (paths[0] / RECORDING_FILE).is_file() and not (given.topology or given.mapping):
        draft = describe_recording(paths[0])
    else:
        draft = draft_recording(paths, given.topology, mapping, report, os.cpu_count() or 1)
    span = _absolute_time(given.since), _absolute_time(given.until)
    return _pace(replace(draft, recording=clip_recording(draft.recording, *span)), given)


def _draft_of_server(
    url: str,
    given: DiagnoseOptions,
    mapping: "NameMapping | None",
    stack: ExitStack,
    report: Callable[[str, float], None],
) -> "DraftRecording":
    """Returns a recording of what a Prometheus server has of a span."""
    from skewscope.adapters.inputs.draft_recording import draft_recording  # noqa: PLC0415
    from skewscope.adapters.inputs.prometheus_download import download  # noqa: PLC0415

    folder = Path(stack.enter_context(TemporaryDirectory(prefix="skewscope-")))
    where = _server_span(url, given)
    found = download(where, folder, mapping, report)
    draft = draft_recording([found.path], given.topology, mapping)
    return _pace(replace(draft, unknown=found.unknown, note=_span_note(where, found.begin)), given)


def _span_note(where: "ServerSpan", begin: float) -> str:
    """Returns how to ask for more than was asked for; '' where all was that is wanted."""
    if begin > where.begin:
        minutes = math.ceil((where.end - begin) / 60)
        return f"Read are the last {minutes} min, {where.enough:,} samples or more; --since 1h asks for more"
    return "--since 6h asks for more than the last hour" if where.enough else ""


def _pace(draft: "DraftRecording", given: DiagnoseOptions) -> "DraftRecording":
    """Returns a recording with the wanted length of ticks."""
    return replace(draft, recording=replace(draft.recording, tick=given.tick)) if given.tick else draft


def _server_span(url: str, given: DiagnoseOptions) -> "ServerSpan":
    """Returns server, span and token."""
    import time  # noqa: PLC0415

    from skewscope.adapters.discovery.prometheus import DEFAULT_SPAN, ServerSpan  # noqa: PLC0415

    end = _absolute_time(given.until) or time.time()
    begin = end - DEFAULT_SPAN
    if given.since:
        length = _duration(given.since)
        begin = end - length if length else parse_time(given.since)
    if begin >= end:
        raise click.BadParameter("--since is not before --until.")
    return ServerSpan(url, begin, end, given.token_file, None if given.since else ENOUGH_SAMPLES)


def _duration(text: str) -> float:
    """Returns seconds of `90m`; 0 for other texts."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    return float(text[:-1]) * units[text[-1]] if text[-1:] in units and text[:-1].isdecimal() else 0.0


def _own_options() -> str:
    """Returns the options of a command that uses the formats and the knowledge that this one uses."""
    own = {"--formats": FORMATS_VARIABLE, "--knowledge": KNOWLEDGE_VARIABLE}
    return "".join(f" {option} {place}" for option, name in own.items() if (place := os.environ.get(name)))


def _absolute_time(text: str | None) -> float | None:
    if text and _duration(text):
        raise click.BadParameter(f"{text!r}: files need a time such as 2026-11-21T17:30:00Z; a server takes {text}.")
    return parse_time(text) if text else None


def _read_mapping(path: Path | None) -> "NameMapping | None":
    from skewscope.adapters.mapping.name_mapping import read_mapping  # noqa: PLC0415

    return read_mapping(path, load_catalogue()) if path else None


def _answer(
    where: tuple[str, ...], draft: "DraftRecording", given: DiagnoseOptions, report: Callable[[str, float], None]
) -> "ReplayResult":
    """Replay the recording, and print or write the answer."""
    from skewscope.adapters.formats.bounds import WORK_SECONDS  # noqa: PLC0415
    from skewscope.adapters.runtime.replay import replay  # noqa: PLC0415
    from skewscope.adapters.view.builder import ViewHistory  # noqa: PLC0415
    from skewscope.tui.render.report import too_little_sentence  # noqa: PLC0415

    history = ViewHistory() if given.html else None
    drafted = _draft_share(where)
    outcome = replay(
        draft.recording,
        progress=lambda stage, share: report(stage, drafted + (1 - drafted) * share),
        workers=None,
        history=history,
        most_seconds=WORK_SECONDS.limit(),
    )
    clear_progress(wanted=not given.no_progress)
    if not outcome.samples:
        raise InputError([_no_samples(where, outcome)])
    outcome = _with_unread(draft, outcome)
    title = "redacted" if given.redact else join_names([_shown_name(each) for each in where], 2)
    if given.as_json:
        for incident in outcome.incidents:
            click.echo(incident.as_line())
        if not outcome.incidents and not outcome.is_enough:
            click.echo(text.sanitise(too_little_sentence(outcome)), err=True)
    else:
        _print_answer(title, draft, outcome, why=given.why)
    if given.html and history is not None:
        write_output(_page(title, history, outcome), given.html)
    if given.save:
        click.echo(text.sanitise(f"Saved: skewscope replay {given.save}{_own_options()}"), err=True)
    return outcome


def _no_samples(where: tuple[str, ...], outcome: "ReplayResult") -> Problem:
    counts: Counter[str] = Counter()
    for key, count in outcome.unmapped.items():
        counts[key.partition(": ")[2]] += count
    reasons = [f"{reason} ({count})" for reason, count in counts.most_common(3)]
    found = f"no sample that belongs to an entity ({'; '.join(reasons)})" if reasons else "no sample"
    return Problem(where[0], 0, "", found, "samples with times in the span", "--save and edit its topology.yaml?")


def _page(title: str, history: "ViewHistory", outcome: "ReplayResult") -> str:
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415

    names = DisplayNames(load_catalogue(), outcome.incidents, topology=outcome.topology)
    return html_report(title, history, outcome, names)


def _print_answer(title: str, draft: "DraftRecording", outcome: "ReplayResult", *, why: bool) -> None:
    from skewscope.tui.render.detail import DisplayNames  # noqa: PLC0415
    from skewscope.tui.render.report import report_lines  # noqa: PLC0415

    columns = output_width()
    names = DisplayNames(load_catalogue(), outcome.incidents, topology=outcome.topology)
    notes = [*_assumption_lines(draft, why=why), *_pace_lines(outcome)]
    assumed = [part for each in notes for part in wrap(each, min(columns, 110), 2)]
    added = [part for each in _addition_lines(draft, outcome) for part in wrap(each, min(columns, 110), 2)]
    report = report_lines(title, outcome, names, columns, why=why, whole=is_piped())
    print_lines([*report, *([()] if assumed else []), *assumed, *([()] if added else []), *added])


def _pace_lines(outcome: "ReplayResult") -> Iterator[Line]:
    """Yields how many seconds of data were judged at a time, where it is more than one."""
    if outcome.tick_s > 1:
        yield line(f"Each {outcome.tick_s:g} s of data are judged at a time; --tick 1 is slower and finer.")


def _addition_lines(draft: "DraftRecording", outcome: "ReplayResult") -> Iterator[Line]:
    """Yields the signal that would help most with this data, and how its exporter is told to deliver it."""
    from skewscope.rules.coverage import choose_first_addition, compute_coverage, symptom_signals  # noqa: PLC0415
    from skewscope.rules.loader import load_builtin  # noqa: PLC0415
    from skewscope.tui.render.coverage import addition_sentence  # noqa: PLC0415

    known, signals = load_catalogue(), frozenset(outcome.signals)
    rules, _ = load_builtin(known)
    found = compute_coverage(rules.values(), known.conditions.values(), signals, symptom_signals(known))
    if first := choose_first_addition(found, known, signals, _addition_hints(draft, outcome)):
        yield line(addition_sentence(first))


def _addition_hints(draft: "DraftRecording", outcome: "ReplayResult") -> "AdditionHints":
    """Returns where the data are from, and what their diagnosis left open."""
    from skewscope.adapters.inputs.recording import reader_of  # noqa: PLC0415
    from skewscope.rules.coverage import AdditionHints  # noqa: PLC0415
    from skewscope.tui.render.incident_table import rank_incidents  # noqa: PLC0415

    exporters = {reader_of(source).exporter for source in draft.recording.inputs} - {""}
    roots = [row.incident for row in rank_incidents(outcome.incidents) if not row.depth]
    # Other conditions that rules judged are listed with what separates them.
    judged = {other.condition for one in roots for other in one.competing}
    return AdditionHints(
        frozenset(exporters),
        tuple(one.decides for one in roots if one.decides),
        frozenset(name for one in roots for name in one.unjudged_conditions) - judged,
    )


def _skipped_lines(draft: "DraftRecording", *, why: bool) -> Iterator[Line]:
    """Yields which files were not read, by reason; with `why` all of them."""
    by_reason: dict[str, list[str]] = {}
    for each in draft.skipped:
        by_reason.setdefault(each.reason, []).append(each.path)
    shown = list(by_reason.items())[: None if why else MAX_NAMED]
    for reason, paths in shown:
        have = "1 file is" if len(paths) == 1 else f"{len(paths)} files are"
        yield line(f"{have} not read ({reason}): {join_names(paths, MAX_LISTED if why else MAX_NAMED)}.")
    if rest := sum(map(len, by_reason.values())) - sum(len(paths) for _, paths in shown):
        yield line(f"{rest} more are not read, for {len(by_reason) - len(shown)} other reasons; --why names them.")


def _assumption_lines(draft: "DraftRecording", *, why: bool) -> Iterator[Line]:
    """Yields what was assumed: one line for the guesses and one for unknown names, or with `why` all."""
    from skewscope.adapters.discovery.draft import GUESS  # noqa: PLC0415
    from skewscope.adapters.discovery.nearest_metric import NearestMetric  # noqa: PLC0415
    from skewscope.adapters.mapping.column_names import (  # noqa: PLC0415
        find_signal,
        is_needless,
        mapping_line,
        split_name,
    )

    if why:
        yield from (line(f"Assumed {each}") for each in draft.assumptions)
    elif draft.assumptions:
        guesses = [each.what for each in draft.assumptions if each.certainty == GUESS]
        guessed = f" Guessed: {'; '.join(guesses)}." if guesses else ""
        head = "The topology is inferred from labels." if draft.is_inferred else ""
        yield line(f"{head}{guessed} --why says from which; --save FOLDER to edit it.".strip())
    if draft.note:
        yield line(f"{draft.note}.")
    yield from _skipped_lines(draft, why=why)
    unknown = Counter(
        {name: n for name, n in draft.unknown.items() if not name.startswith(OWN_PREFIXES) and not is_needless(name)}
    )
    if not unknown:
        return
    nearest = NearestMetric(load_catalogue())
    named = sorted(unknown) if why else [name for name, _ in unknown.most_common(200)]
    pairs = [(name, near) for name in named if (near := nearest.find(name))]
    shown = pairs if why else pairs[:MAX_NAMED]
    close = ", ".join(f"{name} ({near}?)" for name, near in shown) or join_names(named, MAX_NAMED)
    have = "1 metric has a name that is" if len(unknown) == 1 else f"{len(unknown)} metrics have names that are"
    # What the words of a name mean has its line, with its unit, in the warning of the input.
    plain = [name for name in ([name for name, _ in shown] or named) if not find_signal(split_name(name))]
    lines = [mapping_line(name, signal) for name in plain if (signal := nearest.find_signal(name))]
    example = f", with lines such as {lines[0]}" if lines else " (docs/mapping.md)"
    yield line(f"{have} not known: {close}. --mapping FILE maps such names{example}.")
