"""One incident laid out for a pane or a page: short, squeezed into a number of rows, or in full. Pure."""

from skewscope.engine.model.incident import Incident
from skewscope.kb.problems import join_names
from skewscope.tui.render import detail
from skewscope.tui.render.command_lines import COPY_ROLE
from skewscope.tui.render.detail import DisplayNames, Section
from skewscope.tui.render.incident_lead import lead_sections
from skewscope.tui.render.text import Line, fit, justify, line, line_width, wrap

_LABEL_WIDTH = 10
_EXPAND_ORDER = ("why", "do", "undo", "caused by", "causes", "if wrong", "works if", "also")
"""Sections to show uncropped first when rows are left."""
_LEAST_ITEMS = {"do": 2}
"""Items of a section that are kept while others can be left out: an advice comes with its command."""
_DROP_ORDER = ("also", "works if", "if wrong", "causes", "undo", "caused by", "do")
"""Sections to drop first when rows are missing."""


def short_lines(incident: Incident, names: DisplayNames, now: float, columns: int) -> list[Line]:
    """Returns what an operator needs of an incident, wrapped, with its id."""
    lines = headline_lines(incident, names, now, columns, f" · {incident.id}")
    if incident.also:
        lines += wrap(line("  also hit: " + join_names(incident.also)), columns, 2)
    return lines + [row for part in lead_sections(incident, names) for row in section_lines(part, columns)]


def headline_lines(incident: Incident, names: DisplayNames, now: float, columns: int, note: str = "") -> list[Line]:
    """Returns the headline, wrapped, with a note after the state."""
    head = detail.headline(incident, names, now)
    state: Line = (("  ", ""), *head.named_state, (note, "dim"))
    return [*wrap(head.what, columns, 2), *wrap(state, columns, 2), *wrap(head.since, columns, 2)]


def fill_rows(parts: tuple[Section, ...], columns: int, rows: int) -> list[Line]:
    """Returns sections in at most `rows` lines, with blank ones between them if there is room."""
    whole = [section_lines(part, columns) for part in parts]
    airy = [row for part in whole for row in ((), *part)]
    for body in (airy, [row for part in whole for row in part]):
        if len(body) <= rows:
            return body
    return squeeze_rows(parts, columns, rows)


def _cropped_headline(incident: Incident, names: DisplayNames, now: float, columns: int) -> list[Line]:
    """Returns the headline in two lines; the state is beside the name if it fits."""
    what, state, since, _ = detail.headline(incident, names, now)
    if line_width(what) + line_width(state) < columns:
        return [justify(what, state, columns), fit(since, columns)]
    (text, role), *rest = since
    return [fit(what, columns), fit((("  ", ""), *state, (f" · {text.lstrip()}", role), *rest), columns)]


def squeezed_lines(incident: Incident, names: DisplayNames, now: float, columns: int, rows: int) -> list[Line]:
    """Returns an incident in at most `rows` lines; dropped items are counted."""
    head = _cropped_headline(incident, names, now, columns)
    return head + squeeze_rows(lead_sections(incident, names), columns, rows - len(head))


def squeeze_rows(sections: tuple[Section, ...], columns: int, rows: int) -> list[Line]:
    """Returns sections in at most `rows` lines, the less important ones cropped or dropped."""
    shown = _squeeze_sections(sections, rows)
    parts = {part.label: _crop_section(part, most, columns) for part, most in shown}
    left = rows - sum(map(len, parts.values()))
    # Use spare rows to show important sections in full.
    whole = {part.label: section_lines(part, columns) for part, most in shown if most == len(part.items)}
    for label in _EXPAND_ORDER:
        more = len(whole.get(label, ())) - len(parts.get(label, ()))
        if 0 < more <= left:
            parts[label] = whole[label]
            left -= more
    return [row for part in parts.values() for row in part]


def _squeeze_sections(parts: tuple[Section, ...], rows: int) -> list[tuple[Section, int]]:
    most = {part.label: len(part.items) for part in parts}
    while sum(most.values()) > max(rows, 1):
        longer = [label for label in most if most[label] > _LEAST_ITEMS.get(label, 1)]
        if longer:
            most[max(longer, key=lambda label: most[label])] -= 1
        elif len(most) > 1:
            del most[next((label for label in _DROP_ORDER if label in most), next(iter(most)))]
        else:
            most[next(iter(most))] -= 1
    return [(part, most[part.label]) for part in parts if part.label in most]


def _crop_section(part: Section, most: int, columns: int) -> list[Line]:
    hidden = len(part.items) - most
    rows = [_add_label(part.label if n == 0 else "", item) for n, item in enumerate(part.items[:most])]
    if hidden:
        # A command stays whole as far as it can.
        at = next((n for n in reversed(range(len(rows))) if rows[n][-1][1] != COPY_ROLE), len(rows) - 1)
        tail = f" +{hidden} more"
        rows[at] = (*fit(rows[at], columns - len(tail)), (tail, "dim"))
    return [fit(row, columns) for row in rows]


def _add_label(label: str, item: Line) -> Line:
    return ((label.ljust(_LABEL_WIDTH), "label"), *item)


def full_lines(incident: Incident, names: DisplayNames, now: float, columns: int) -> list[Line]:
    """Returns an incident in full, wrapped, with blank lines between sections."""
    lines = headline_lines(incident, names, now, columns)
    if incident.also:
        lines += wrap(line("  also hit: " + ", ".join(incident.also)), columns, 2)
    for part in detail.full_sections(incident, names):
        lines += [(), *section_lines(part, columns)]
    return lines


def section_lines(part: Section, columns: int) -> list[Line]:
    """Returns a section, wrapped."""
    rows: list[Line] = []
    for n, item in enumerate(part.items):
        rows += wrap(_add_label(part.label if n == 0 else "", item), columns, _LABEL_WIDTH + 2)
    return rows
