"""The report of a recording as text for a terminal, a pipe or a file. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from skewscope.adapters.mapping.entities import DECIDES
from skewscope.engine.model.finding import PEERS
from skewscope.engine.model.incident import DIAGNOSIS, Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.problems import join_names
from skewscope.kb.quantities import format_value
from skewscope.tui.render import detail, incident_layout, incident_table, storm, units
from skewscope.tui.render.columns import ColumnWidths, title_line
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import Line, line, pad, width, wrap

if TYPE_CHECKING:  # Readers of recordings are not needed to print their results.
    from skewscope.adapters.runtime.replay import ReplayResult
    from skewscope.adapters.runtime.runtime import Snapshot
    from skewscope.adapters.view.snapshot import SourceState, ViewSnapshot
    from skewscope.engine.model.finding import Finding

MAX_WIDTH = 110
"""Longer lines are hard to read."""


WHY_HINT = "--why adds the evidence with its expressions, all alternatives, recipes of the advice and the sources."

MAX_UNJUDGED = 3
"""Signals that could not be judged and are named."""
MAX_UNUSED = 3
"""Metrics that the summary names for a reason."""
PARTIAL = re.compile(r"No [\w ]+ from (?!any of )")
"""Begin of a sentence on a source of which a part is missing."""
STORM_ROWS = 23
"""Lines of the summary of many open incidents by cause."""
UNSHOWN_COLUMNS = ("trend", "flaps", "lost")
"""Columns of the console that the report's table leaves out."""
MAX_DESCRIBED = 10
"""Incidents that the short report describes; its table has all."""
COVERAGE_HINT = "`skewscope coverage --replay RECORDING` lists each condition with the signals that it lacks"


def report_lines(
    name: str, outcome: "ReplayResult", names: DisplayNames, columns: int, *, why: bool = False, whole: bool = False
) -> list[Line]:
    """Returns the report: summary, incidents, missing data; `why` adds reasoning, recipes and sources.

    With `whole` no cell of the table is cut, so that its lines may be longer than `columns`: for pipes and files.
    """
    columns = min(columns, MAX_WIDTH)
    lines = wrap(((f"{name}: ", "title"), *verdict_line(outcome)), columns)
    lines += wrap(line(watch_summary(outcome), "dim"), columns)
    now = outcome.snapshots[-1].time if outcome.snapshots else 0.0
    rows = incident_table.rank_incidents(outcome.incidents)
    if storm.is_storm(outcome.incidents):
        lines += [(), *storm.storm_lines(storm.build_storm(outcome.incidents), names, columns, STORM_ROWS)]
    lines += _overview_lines(rows, names, now, None if whole else columns)
    # Explained incidents are listed in their root; `explain` prints them in full.
    roots = [row.incident for row in rows if not row.depth]
    if why:
        described = [row for one in roots for row in ((), *incident_layout.full_lines(one, names, now, columns))]
    else:
        described = _short_incidents(roots, names, now, columns)
    lines += [*described, *missing_lines(outcome, columns, why=why)]
    return lines if why or not rows else [*lines, (), *wrap(line(WHY_HINT, "dim"), columns)]


def _short_incidents(roots: list[Incident], names: DisplayNames, now: float, columns: int) -> list[Line]:
    """Returns the most urgent incidents; those of one condition at one place are described once."""
    groups: dict[tuple[str, str, str], list[Incident]] = {}
    for one in roots:
        groups.setdefault((one.condition, one.kind, one.name), []).append(one)
    lines: list[Line] = []
    for first, *others in list(groups.values())[:MAX_DESCRIBED]:
        lines += [(), *incident_layout.short_lines(first, names, now, columns)]
        if others:
            times = [one.began for one in (first, *others)]
            again = detail.Section("again", (line(incident_table.format_repeats(times)),))
            lines += incident_layout.section_lines(again, columns)
    more = len(groups) - MAX_DESCRIBED
    if more > 0:
        told = f"{units.format_count(more, 'more incident')} in the table; --why describes all."
        lines += [(), *wrap(line(told), columns)]
    return lines


def _overview_lines(
    rows: list[incident_table.IncidentRow], names: DisplayNames, now: float, columns: int | None
) -> list[Line]:
    """Returns a table of the incidents if there are several, cut to `columns` if these are given."""
    rows = incident_table.fold_repeats(rows)
    if len(rows) < 2:
        return []
    cells = incident_table.IncidentCellFormatter(names, now, {})
    if columns is None:
        shown = _whole_columns(rows, cells)
        return [(), title_line(shown), *(incident_table.row_line(row, shown, cells) for row in rows)]
    shown = incident_table.column_widths(rows, cells, columns - 1, UNSHOWN_COLUMNS)
    lines = [title_line(shown), *(incident_table.row_line(row, shown, cells) for row in rows)]
    return [(), *(part for each in lines for part in wrap(each, columns))]


def _whole_columns(rows: list[incident_table.IncidentRow], cells: incident_table.IncidentCellFormatter) -> ColumnWidths:
    """Returns the columns that fit in the usual width, as wide as their widest cell; the last one need not fit."""
    fitting = incident_table.column_widths(rows, cells, MAX_WIDTH - 1, UNSHOWN_COLUMNS)
    return tuple(
        (column, max(width(column.title), *(width(cells.cell(row, column.id)[0]) for row in rows)))
        # What may run on comes last.
        for column, _ in sorted(fitting, key=lambda each: each[0].id == "impact")
    )


def verdict_line(outcome: "ReplayResult") -> Line:
    """Returns the summary sentence."""
    if not outcome.samples:
        return line("no telemetry received, so nothing is known.", "warn")
    incidents = outcome.incidents
    if not incidents:
        if not outcome.is_enough:
            return line(too_little_sentence(outcome), "warn")
        sources = outcome.snapshots[-1].sources if outcome.snapshots else ()
        judged = sum(name in outcome.judged for name in outcome.signals)
        return line(quiet_sentence(len(outcome.signals), sources, judged), "ok")
    roots = [i for i in incidents if i.explained_by is None]
    still = sum(i.state == "firing" and i.is_counted for i in roots)
    folded = len(incidents) - len(roots)
    explained = f"; {units.format_count(folded, 'more incident')} explained by them" if folded else ""
    opened = f"{still} open" if still else "none open"
    return line(f"{count_summary(roots)}; {opened} at the end of the data{explained}.", "warn")


def count_summary(roots: Iterable[Incident]) -> str:
    """Returns `2 diagnoses, 1 symptom, 1 suspicion`."""
    counts = Counter(map(incident_table.incident_category, roots))
    plurals = {DIAGNOSIS: "diagnoses"}
    found = [(counts[noun], noun, plurals.get(noun, "")) for noun in incident_table.CATEGORIES if counts[noun]]
    return ", ".join(units.format_count(n, noun, plural) for n, noun, plural in found)


def quiet_sentence(signals: int, sources: Iterable["SourceState"], judged: int | None = None) -> str:
    """Returns that nothing was found, and in what it was looked for: in the signals that were judged, where given."""
    heard = [f"{s.name} ({s.reporting} of {s.known} {s.kind})" for s in sources if s.age_s is not None]
    origin = f" from {', '.join(heard)}" if heard else ""
    part = "" if judged in (None, signals) else f"{judged} of "
    return f"no diagnosis and no symptom in {part}{units.format_count(signals, 'signal')}{origin}."


def too_little_sentence(outcome: "ReplayResult") -> str:
    """Returns that nothing can be said of most signals, which ones, and what would let them be judged."""
    if outcome.unread:
        unread = join_names(outcome.unread, MAX_UNJUDGED)
        return f"too little to judge: {unread} could not be read, and nothing is seen in the rest."
    if not outcome.duration_s:
        return "too little to judge: all samples are of one moment; a second reading some seconds later helps."
    if not outcome.is_watched:
        readings = units.format_count(outcome.moments, "reading")
        return f"too little to judge: nothing is seen in {readings}, too few to compare one with those before it."
    if outcome.doubts:
        return f"too little to judge: {'; '.join(map(_doubt, outcome.doubts[:MAX_UNJUDGED]))}."
    unjudged = [name for name in outcome.signals if name not in outcome.judged]
    judged = f", and {len(outcome.judged)} of {len(outcome.signals)} look normal" if outcome.judged else ""
    return (
        f"too little to judge: {join_names(unjudged, MAX_UNJUDGED)} need more samples, or a second reading some "
        f"seconds later{judged}."
    )


def _doubt(low: "Finding") -> str:
    """Returns what may be bad, and why that is not judged."""
    should, is_ = (format_value(each, low.unit) for each in (low.reference, low.value))
    named = f"{low.what.name} of {low.place.name}"
    if low.direction == "up":
        return f"{named} is {is_} from the beginning on; whether that is normal is not known"
    if low.pattern == PEERS:
        return f"{named} is {is_} at most, {should} at its peers with no more use; it counts where there is much to do"
    return (
        f"{named} is {is_} since {units.format_clock(low.since)}, at least {should} before, and its load fell too, by "
        "less; how it is at such a load without a fault is not known"
    )


def watch_summary(outcome: "ReplayResult") -> str:
    """Returns what was observed, and for how long."""
    when = ""
    if outcome.snapshots and outcome.samples:
        last = outcome.snapshots[-1]
        when = f" ({units.format_span(last.start, last.end)})"
    samples = units.format_count(outcome.samples, "sample")
    is_moment = outcome.duration_s < units.MOMENT_S
    lasted = "at one moment" if is_moment else f"for {units.format_duration(outcome.duration_s)} of data"
    return f"Watched {fleet_summary(outcome.topology)} {lasted}{when}; {samples}."


def snapshot_summary(snapshot: "ViewSnapshot") -> str:
    """Returns what is observed at a snapshot, and for how long."""
    observed = units.format_duration(snapshot.time - snapshot.start)
    return f"Watched {fleet_summary(snapshot.topology)} for {observed}."


def fleet_summary(topology: Topology) -> str:
    """Returns `8 nodes, 2 groups and 1 pool`."""
    parts = [(len(topology.nodes), "node"), (len(topology.groups), "group"), (len(topology.pools), "pool")]
    counts = [units.format_count(n, noun) for n, noun in parts if n]
    return " and ".join(filter(None, (", ".join(counts[:-1]), *counts[-1:]))) or "no nodes"


def missing_lines(outcome: "ReplayResult", columns: int, *, why: bool = False) -> list[Line]:
    """Returns missing data and unusable series, one line a source; `why` adds their names and the sources."""
    last = outcome.snapshots[-1] if outcome.snapshots else None
    unused = unused_sentences(outcome.unmapped) if why else unused_summary(outcome.unmapped)
    told = last.missing if last else ()
    sentences = [
        *(told if why else _missing_summary(told)),
        *_silent_sentences(last),
        *outcome.warnings,
        *unused,
        *([COVERAGE_HINT] if why else []),
    ]
    return missing_data_lines(sentences, last.sources if last and why else (), columns)


def _missing_summary(sentences: Sequence[str]) -> list[str]:
    """Returns what a part of a source lacks, and one line for all telemetry that is not there at all."""
    partial = [text for text in sentences if PARTIAL.match(text)]
    whole = len(sentences) - len(partial)
    if whole < 2:
        return list(sentences)
    kinds = units.format_count(whole, "kind")
    return [*partial, f"{kinds} of telemetry are not there or lack signals; --why lists them, and what they would show"]


def _silent_sentences(last: "Snapshot | None") -> Iterator[str]:
    """Yields a sentence for each source of which a part went silent, unless another sentence names its silent part."""
    if last is None:
        return
    for source in last.sources:
        if source.note and not any(text.startswith(f"No {source.name} from") for text in last.missing):
            yield f"{source.name}: {source.reporting} of {source.known} {source.kind} report at the end ({source.note})"


def missing_data_lines(sentences: Iterable[str], found: Sequence["SourceState"], columns: int) -> list[Line]:
    """Returns sentences about missing data, and the sources."""
    rows = [row for text in sentences for row in wrap(line(f"  · {text.rstrip('.')}."), columns, 4)]
    return [*([(), line("Missing data", "title")] if rows else []), *rows, *source_lines(found, columns)]


def unused_sentences(unmapped: Mapping[str, int], most: int = 5) -> list[str]:
    """Returns a sentence for each reason why series were not used, which names some of their metrics."""
    reasons: dict[str, list[str]] = {}
    for key in sorted(unmapped):
        metric, _, reason = key.partition(": ")
        reasons.setdefault(reason, []).append(metric)
    out = []
    for reason, metrics in sorted(reasons.items()):
        count = sum(unmapped[f"{metric}: {reason}"] for metric in metrics)
        out.append(f"{count:,} series could not be used ({reason}): {join_names(metrics, most)}")
    return out


def unused_summary(unmapped: Mapping[str, int]) -> list[str]:
    """Returns a sentence for each label that would decide, and for each other reason why series were not used."""
    undecided = {key: count for key, count in unmapped.items() if key.endswith(DECIDES)}
    reasons = sorted({key.partition(": ")[2] for key in undecided})
    other = unused_sentences({key: count for key, count in unmapped.items() if key not in undecided}, MAX_UNUSED)
    return [*(f"{reason[0].upper()}{reason[1:]}" for reason in reasons), *other]


def unplaced_lines(unplaced: Mapping[str, Mapping[str, int]], columns: int) -> list[Line]:
    """Returns the number of series that are not used, one line for each source and reason."""
    if not unplaced:
        return []
    lines: list[Line] = [(), line("Series that are not used", "title")]
    width = max(len(f"{count:,}") for reasons in unplaced.values() for count in reasons.values())
    names = min(max(map(len, unplaced)), 40)
    for source in sorted(unplaced):
        for reason, count in unplaced[source].items():
            lines += wrap(line(f"  {pad(source, names)}  {count:>{width},}  {reason}"), columns, 4)
    return lines


def source_lines(found: Sequence["SourceState"], columns: int) -> list[Line]:
    """Returns the sources, one line each."""
    if not found:
        return []
    names = max(len(s.name) for s in found)
    kinds = max(len(s.kind) for s in found)
    lines: list[Line] = [(), line("Sources", "title")]
    for source in found:
        age = "never" if source.age_s is None else f"newest sample {units.format_duration(round(source.age_s, 1))} old"
        role = "warn" if source.age_s is None or source.reporting < source.known else ""
        source_name = f"  {pad(source.name, min(names, 40))}  {pad(source.kind, kinds)}"
        state = f"{source_name}  {source.reporting}/{source.known}  {age}"
        lines += wrap(((state, role), (f"  {source.note}" if source.note else "", "dim")), columns, 4)
    return lines
