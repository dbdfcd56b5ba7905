"""One incident laid out for a pane or a page: short, squeezed into a number of rows, or in full. Pure."""

from dataclasses import replace

from skewscope.engine.model.incident import Incident
from skewscope.tui.render import detail
from skewscope.tui.render.detail import DisplayNames, Section
from skewscope.tui.render.incident_lead import lead_sections
from skewscope.tui.render.text import Line, fit, justify, line_width, pad, width, wrap

_LABEL_WIDTH = 10
_GROW_ORDER = ("caused by", "causes", "why", "do", "undo", "if wrong", "works if", "look for", "also")
"""Sections in the order in which they get rows that are left, one form after the other..."""
_WHOLE = ("works if", "look for", "if wrong")
"""...once those of sentences have a whole one: a part of one says something else."""
_NEEDED = ("why", "do", "undo", *_WHOLE)
"""Sections that are left out last."""
_LEAST_ITEMS = {"do": 2}
"""Items of a section that are kept while others can be left out: an advice comes with its command."""
_DROP_ORDER = ("also", "works if", "look for", "if wrong", "causes", "undo", "caused by", "do")
"""Sections to drop first when rows are missing."""


def short_lines(incident: Incident, names: DisplayNames, now: float, columns: int) -> list[Line]:
    """Returns what an operator needs of an incident, wrapped, with its id."""
    lines = headline_lines(incident, names, now, columns, f" · {incident.id}")
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
    forms = {part.label: _forms(part, columns) for part in sections}
    sizes = dict.fromkeys(forms, 0)
    left = rows - sum(len(forms[label][0]) for label in forms)
    if left < 0:
        return [row for part, most in _squeeze_sections(sections, rows) for row in _crop_section(part, most, columns)]
    first, labels = [label for label in _WHOLE if label in forms], [label for label in _GROW_ORDER if label in forms]
    while first or labels:
        label = (first or labels).pop(0)
        form = sizes[label] + 1
        if form < len(forms[label]) and (more := len(forms[label][form]) - len(forms[label][form - 1])) <= left:
            sizes[label], left = form, left - more
            if not first:
                labels.append(label)
    return [row for label, form in sizes.items() for row in forms[label][form]]


def least_rows(sections: tuple[Section, ...], columns: int) -> int:
    """Returns the number of lines from which on no sentence of the sections is cropped."""
    return sum(len(_forms(part, columns)[part.label in _WHOLE]) for part in sections)


def _forms(part: Section, columns: int) -> list[list[Line]]:
    """Returns a section as lines in several forms, the least one first: fewer items, and items cut to a line."""
    count = len(part.items)
    least = min(_LEAST_ITEMS.get(part.label, 1), count)
    wrapped = [_wrap_section(part, most, columns) for most in range(least, count + 1)]
    if part.label in _WHOLE:
        return [_name_items(part, columns) or _crop_section(part, 1, columns), *wrapped]
    if part.label == "do":
        # A command that is cut is another command.
        title = _crop_section(replace(part, items=part.items[:1]), 1, columns)
        whole = [*title, *section_lines(Section("", part.items[1:least]), columns)]
        return [_count_rest(whole, count - least, columns), *wrapped]
    if part.label in _NEEDED:
        return [_crop_section(part, least, columns), *wrapped]
    return [[], *(_crop_section(part, most, columns) for most in range(1, count + 1)), wrapped[-1]]


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
    """Returns the first items of a section, each cut to one line, with the number of the others."""
    rows = [fit(_add_label(part.label if n == 0 else "", item), columns) for n, item in enumerate(part.items[:most])]
    return _count_rest(rows, len(part.items) - most, columns)


def _wrap_section(part: Section, most: int, columns: int) -> list[Line]:
    """Returns the first items of a section, wrapped, with the number of the others."""
    rows = section_lines(replace(part, items=part.items[:most]), columns)
    return _count_rest(rows, len(part.items) - most, columns)


def _name_items(part: Section, columns: int) -> list[Line]:
    """Returns the items that have names as one line of these, [] where the first one has none or does not fit."""
    names = [[span for span in item if not span[0].startswith(":")] for item in part.items if item[0][1] == "key"]
    row, shown = _add_label(part.label, ()), 0
    for name in names if len(part.items[0]) > 1 else ():
        longer = (*row, *([(", ", "")] if shown else []), *name)
        if line_width(longer) + width(f" +{len(part.items)} more") > columns:
            break
        row, shown = longer, shown + 1
    return _count_rest([row], len(part.items) - shown, columns) if shown else []


def _count_rest(rows: list[Line], hidden: int, columns: int) -> list[Line]:
    """Returns lines with the number of hidden items: below the label where there is a line, else at the end."""
    if hidden <= 0:
        return rows
    note = f"+{hidden} more"
    if len(rows) > 1 and rows[1]:
        (blank, role), *rest = rows[1]
        return [rows[0], ((pad(note, _LABEL_WIDTH), "dim"), (blank[_LABEL_WIDTH:], role), *rest), *rows[2:]]
    return [(*fit(rows[0], columns - len(note) - 1), (f" {note}", "dim"))]


def _add_label(label: str, item: Line) -> Line:
    return ((label.ljust(_LABEL_WIDTH), "label"), *item)


def full_lines(incident: Incident, names: DisplayNames, now: float, columns: int) -> list[Line]:
    """Returns an incident in full, wrapped, with blank lines between sections."""
    lines = headline_lines(incident, names, now, columns)
    for part in detail.full_sections(incident, names):
        lines += [(), *section_lines(part, columns)]
    return lines


def section_lines(part: Section, columns: int) -> list[Line]:
    """Returns a section, wrapped."""
    rows: list[Line] = []
    for n, item in enumerate(part.items):
        rows += wrap(_add_label(part.label if n == 0 else "", item), columns, _LABEL_WIDTH + 2)
    return rows
