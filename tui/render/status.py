"""The lines around every screen: status, replay bar, loading, filter in force. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skewscope.engine.model.incident import SEVERITIES, SYMPTOM, Incident
from skewscope.tui.render import units
from skewscope.tui.render.detail import SEVERITY_GLYPHS, SYMPTOM_GLYPH
from skewscope.tui.render.incident_timeline import FREE, IncidentLength, label_spans, length_cells
from skewscope.tui.render.text import Line, Span, cut, fit, justify, line_width, merge_spans, pad, wrap

if TYPE_CHECKING:
    from skewscope.adapters.view.snapshot import SourceState

STALE_S = 10.0
"""Age from which data is shown as stale, in seconds."""
SCREEN_NAMES = ("Diagnoses", "Fabric", "Signals", "Catalogue", "Actions")


@dataclass(frozen=True, slots=True)
class ConsoleStatus:
    """The content of the status line."""

    incidents: tuple[Incident, ...]
    mode: str
    """LIVE, LAST, PAUSED, READING, REPLAY or PLAYING."""
    time: float
    age_s: float | None
    reporting: int
    known: int
    source_kind: str = "nodes"
    screen: int = 1
    scope: str = ""
    trouble: str = ""
    write: bool = False
    title: str = ""
    """What is shown, where it is no fleet of the reader: `built-in demo`."""
    live: bool = True
    """Whether the age of data means something."""


def status_line(status: ConsoleStatus, columns: int) -> Line:
    """Returns the status line: screens, counts, scope, time, age of the data, sources, permission.

    On narrow screens less important parts are shortened, then dropped; names of screens after all but what alarms.
    """
    counts = [_severity_counts(status.incidents, labels=True), _severity_counts(status.incidents, labels=False)]
    counts.append(_severity_counts(status.incidents, labels=False, with_over=False))
    rights = _right_variants(status)
    for head in (_screen_tabs(status.screen, form) for form in _TAB_FORMS):
        lefts = [(*head, *count, *_scope_spans(status)) for count in counts]
        # What the right side has more is worth more than words beside the counts.
        for right in rights:
            for left in lefts:
                if line_width(left) + line_width(right) + 1 <= columns:
                    return justify(left, right, columns)
    left = (*_current_tab(status.screen), *counts[-1], *_scope_spans(status))
    return justify(left, rights[-1], columns)


_TAB_FORMS = (" {} {} ", "{} {} ", " {}")
"""How the number and name of a screen are written, the longest form first."""


def _screen_tabs(screen: int, form: str) -> Line:
    """Returns the screens, of which the current one keeps its name."""
    spans: list[Span] = []
    for number, name in enumerate(SCREEN_NAMES, 1):
        is_current = number == screen
        text = (form if "{} {}" in form or not is_current else _TAB_FORMS[0]).format(number, name)
        spans.append((text, "bar" if is_current else "dim"))
    return tuple(spans)


def _current_tab(screen: int) -> Line:
    return ((f" {screen} {SCREEN_NAMES[screen - 1]} ", "bar"),)


def _scope_spans(status: ConsoleStatus) -> Line:
    return ((f"  only {status.scope} ", "warn"),) if status.scope else ()


def _severity_counts(incidents: Sequence[Incident], *, labels: bool, with_over: bool = True) -> Line:
    """Returns the numbers of roots per severity and of symptoms, as far as there are any."""
    out: list[Span] = []
    over = frozenset(i.id for i in incidents if i.state == "resolved")
    # What lasts longer than its cause counts by itself, as in the list.
    roots = [i for i in incidents if i.explained_by is None or (i.state != "resolved" and i.root_id in over)]
    symptoms = sum(_display_severity(i) == SYMPTOM for i in roots)
    for severity in (*reversed(SEVERITIES), "resolved"):
        found = sum(_display_severity(i) == severity for i in roots)
        mark, role = SEVERITY_GLYPHS[severity]
        if severity == "resolved" and symptoms:
            noun = "symptom" if symptoms == 1 else "symptoms"
            out.append((f" {SYMPTOM_GLYPH} {symptoms}{f' {noun} ' if labels else ''}", "warn"))
        if found and (with_over or severity != "resolved"):
            noun = "over" if severity == "resolved" else severity
            chip = "chip" if role == "crit" else role
            out.append((f" {mark} {found}{f' {noun}' if labels else ''} ", chip))
    return tuple(out)


def _display_severity(incident: Incident) -> str:
    """Returns the severity that an incident counts as; an unlikely one counts as info, a symptom by itself."""
    if incident.state == "resolved":
        return "resolved"
    if incident.is_symptom:
        return SYMPTOM
    return incident.severity if incident.is_likely else SEVERITIES[0]


def _right_variants(status: ConsoleStatus) -> list[Line]:
    """Returns the right side, the longest first: what is shown, mode and time, and what is not as it should be."""
    mode: Span = (f"{status.mode} {units.format_time(status.time)} ", "title")
    rights: tuple[Span, ...] = (("read-write ", "warn"),) if status.write else ()
    if status.trouble:
        trouble: Span = (f" {status.trouble} ", "alarm")
        return [(mode, trouble, (" ", ""), *rights), (mode, trouble), (trouble,)]
    title: tuple[Span, ...] = ((f"{status.title}  ", "warn"),) if status.title else ()
    silent: tuple[Span, ...] = ((f" {words} ", "warn"),) if (words := silence(status)) else ()
    facts = (*silent, *_age_spans(status))
    needed = tuple(span for span in _age_spans(status) if span[1])
    return [(*title, mode, *facts, *rights), (*title, mode, *facts), (*title, mode, *needed), (mode, *needed)]


def silence(status: ConsoleStatus) -> str:
    """Returns `no data from 16 of 24 nodes (s: which)`; '' where all report."""
    silent = status.known - status.reporting
    return f"no data from {silent:,} of {status.known:,} {status.source_kind} (s: which)" if silent > 0 else ""


def _age_spans(status: ConsoleStatus) -> tuple[Span, ...]:
    """Returns how old the data is, where that means something."""
    if status.age_s is None:
        return ((" no data ", "alarm" if status.live else "dim"),) if status.known or status.live else ()
    if not status.live:
        return ()
    if status.age_s > STALE_S:
        return ((f" STALE {units.format_duration(status.age_s)} ", "alarm"),)
    return ((f" {max(status.age_s, 0.0):.1f} s old ", ""),)


def reporting_counts(sources: Iterable["SourceState"]) -> tuple[int, int, str]:
    """Returns reporting, known and kind of the source with the smallest reporting share."""
    came = [s for s in sources if s.age_s is not None and s.known]
    worst = min(came, key=lambda s: (s.reporting / s.known, s.kind != "nodes"), default=None)
    return (worst.reporting, worst.known, worst.kind) if worst else (0, 0, "nodes")


def oldest_age(sources: Iterable["SourceState"]) -> float | None:
    """Returns the age of the oldest source in seconds, None if no source ever reported."""
    return max((s.age_s for s in sources if s.age_s is not None), default=None)


@dataclass(frozen=True, slots=True)
class ReplayPosition:
    """The position of a replay."""

    start: float
    end: float
    time: float
    playing: bool
    speed: int

    @property
    def share(self) -> float:
        """0 at the start, 1 at the end."""
        length = self.end - self.start
        return min(max((self.time - self.start) / length, 0.0), 1.0) if length > 0 else 1.0


_BAR_LEFT, _BAR_RIGHT = 12, 19
"""Columns beside the bar: sign and start; end, speed and `end`."""


def replay_bar(position: ReplayPosition, lengths: Sequence[IncidentLength], columns: int, rows: int = 1) -> list[Line]:
    """Returns the replay bar with the incidents as lengths, and their names on a second line if there are `rows`."""
    sign = "▶" if position.playing else "▮"
    left = f" {sign} {units.format_time(position.start)} "
    end = "end" if position.share == 1 else ""
    right = pad(f" {units.format_time(position.end)}  {f'{position.speed}×':<3} {end}", _BAR_RIGHT)
    cells = columns - _BAR_LEFT - _BAR_RIGHT
    if cells < 4:
        return [((cut(f" {sign} {units.format_time(position.time)}", columns), ""),)]
    at = round(position.share * (cells - 1))
    track = length_cells(lengths, cells)
    played = [(glyph, "info" if glyph == FREE else role) for glyph, role in track[:at]]
    bar: Line = tuple(merge_spans([(left, ""), *played, ("●", "title"), *track[at + 1 :], (right, "")]))
    labels = label_spans(lengths, cells) if rows > 1 else []
    return [bar, ((" " * _BAR_LEFT, ""), *labels)] if labels else [bar]


def bar_share(column: int, columns: int) -> float:
    """Returns the share of the replay at a column of the bar, 0 to 1."""
    cells = columns - _BAR_LEFT - _BAR_RIGHT
    return min(max((column - _BAR_LEFT) / max(cells - 1, 1), 0.0), 1.0)


def loading_lines(stage: str, share: float, columns: int) -> list[Line]:
    """Returns the progress display while data is loading."""
    cells = max(min(columns - 12, 40), 1)
    done = round(min(max(share, 0.0), 1.0) * cells)
    track = (("━" * done, "ok"), ("─" * (cells - done), "dim"), (f" {round(100 * share):3d} %", ""))
    return [(), ((f"  {stage}", "title"),), (("  ", ""), *track)]


def too_small_lines(columns: int) -> list[Line]:
    """Returns the text for a screen too small for a list."""
    return [((cut("needs 20x3", columns), "warn"),)]


def filter_lines(text: str, fault: str, counts: tuple[int, int], columns: int) -> list[Line]:
    """Returns the filter in force with its number of rows and its error."""
    if not text:
        return []
    note: Span = (f"  {fault}", "warn") if fault else ("  esc clears", "dim")
    return [fit(((f" /{text} ", "bar"), (f" {counts[0]:,} of {counts[1]:,}", "key"), note), columns)]


def sentence_lines(text: str, role: str, columns: int) -> list[Line]:
    """Returns a sentence in place of a table."""
    return wrap(((f" {text}", role),), columns, 1)


def join_columns(left: Sequence[Line], right: Sequence[Line], columns: int, gap: int = 2) -> list[Line]:
    """Returns two blocks side by side, the left one `columns` wide."""
    out: list[Line] = []
    for n in range(max(len(left), len(right))):
        first = fit(left[n], columns) if n < len(left) else ()
        blank = columns - line_width(first) + gap
        out.append((*first, (" " * blank, ""), *right[n]) if n < len(right) else first)
    return out
