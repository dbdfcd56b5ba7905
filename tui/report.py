"""The plain report: everything the console shows, as text for a terminal, a pipe or a file. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from skewscope.engine.incident import Incident
from skewscope.engine.topology import Topology
from skewscope.kb.problems import listed
from skewscope.tui import detail, units, view
from skewscope.tui.columns import titles
from skewscope.tui.detail import Words
from skewscope.tui.text import Line, line, pad, wrap

if TYPE_CHECKING:  # The readers behind it are not needed to print what they gave.
    from skewscope.adapters.replay import Outcome
    from skewscope.adapters.scene import SourceState

WIDEST = 110
"""Longer lines are hard to read."""


def report(name: str, outcome: "Outcome", words: Words, columns: int) -> list[Line]:
    """A replayed recording in words: what was found, in depth, and what was missing."""
    columns = min(columns, WIDEST)
    lines = wrap(((f"{name}: ", "title"), *verdict(outcome.incidents, enough=outcome.samples > 0)), columns)
    lines += wrap(line(watched(outcome), "dim"), columns)
    now = outcome.snapshots[-1].time if outcome.snapshots else 0.0
    rows = view.ranked(outcome.incidents)
    lines += _overview(rows, words, now, columns)
    # What a diagnosis explains is listed under it; `explain` tells it in full.
    for row in (row for row in rows if not row.depth):
        lines.append(())
        lines += detail.full(row.incident, words, now, columns)
    return lines + missing(outcome, columns)


def _overview(rows: list[view.Row], words: Words, now: float, columns: int) -> list[Line]:
    """A line each, where there are several."""
    if len(rows) < 2:
        return []
    cells = view.Cells(words, now, {})
    shown = view.widths(rows, cells, columns - 1, ("trend", "flaps"))
    lines = [titles(shown), *(view.row_line(row, shown, cells) for row in rows)]
    return [(), *(part for each in lines for part in wrap(each, columns))]


def verdict(incidents: tuple[Incident, ...], *, enough: bool) -> Line:
    """The one sentence that matters."""
    roots = [i for i in incidents if i.explained_by is None and i.likely]
    suspected = sum(i.explained_by is None for i in incidents) - len(roots)
    still = sum(i.state == "firing" for i in roots)
    if not enough:
        return line("nothing could be watched, so nothing is known.", "warn")
    if not incidents:
        return line("nothing is wrong in what could be seen.", "ok")
    folded = len(incidents) - len(roots) - suspected
    root = "it" if len(roots) == 1 else "them"
    explained = f"; {units.count(folded, 'more incident')} explained by {root}" if folded else ""
    opened = "none of them open" if not still else f"{still} still open"
    more = f"; {units.count(suspected, 'suspicion')}" if suspected else ""
    said = f"{units.count(len(roots), 'diagnosis', 'diagnoses')}, {opened} when the data ends{explained}{more}."
    return line(said, "warn")


def watched(outcome: "Outcome") -> str:
    """What was watched, and for how long."""
    when = ""
    if outcome.snapshots and outcome.samples:
        last = outcome.snapshots[-1]
        when = f" ({units.moment(last.start)[:-4]} to {units.clock(last.end)} UTC)"
    samples = units.count(outcome.samples, "sample")
    return f"Watched {fleet(outcome.topology)} for {units.seconds(outcome.duration_s)} of data{when}; {samples}."


def fleet(topology: Topology) -> str:
    """`8 nodes, 2 groups and 1 pool`."""
    parts = [(len(topology.nodes), "node"), (len(topology.groups), "group"), (len(topology.pools), "pool")]
    said = [units.count(n, noun) for n, noun in parts if n]
    return " and ".join(filter(None, (", ".join(said[:-1]), *said[-1:]))) or "nothing"


def missing(outcome: "Outcome", columns: int) -> list[Line]:
    """What could not be seen or understood, and who delivered what; empty when nothing is missing."""
    last = outcome.snapshots[-1] if outcome.snapshots else None
    said = [*(last.missing if last else ()), *outcome.warnings, *unused(outcome.unmapped)]
    return unseen(said, last.sources if last else (), columns)


def unseen(said: Iterable[str], found: Sequence["SourceState"], columns: int) -> list[Line]:
    """Sentences about what is missing, and who delivers what."""
    rows = [row for text in said for row in wrap(line(f"  · {text.rstrip('.')}."), columns, 4)]
    return [*([(), line("What could not be seen", "title")] if rows else []), *rows, *sources(found, columns)]


def unused(unmapped: Mapping[str, int]) -> list[str]:
    """What nothing was made of, a sentence for each reason."""
    reasons: dict[str, list[str]] = {}
    for key in sorted(unmapped):
        metric, _, reason = key.partition(": ")
        reasons.setdefault(reason, []).append(metric)
    out = []
    for reason, metrics in sorted(reasons.items()):
        samples = units.count(sum(unmapped[f"{metric}: {reason}"] for metric in metrics), "sample")
        out.append(f"{samples} could not be used ({reason}): {listed(metrics, 5)}")
    return out


def sources(found: Sequence["SourceState"], columns: int) -> list[Line]:
    """Who delivered what, a line each."""
    if not found:
        return []
    names = max(len(s.name) for s in found)
    kinds = max(len(s.kind) for s in found)
    lines: list[Line] = [(), line("Sources", "title")]
    for source in found:
        age = "never" if source.age_s is None else f"newest sample {units.seconds(round(source.age_s, 1))} old"
        role = "warn" if source.age_s is None or source.reporting < source.known else ""
        who = f"  {pad(source.name, min(names, 40))}  {pad(source.kind, kinds)}"
        said = f"{who}  {source.reporting}/{source.known}  {age}"
        lines += wrap(((said, role), (f"  {source.note}" if source.note else "", "dim")), columns, 4)
    return lines
