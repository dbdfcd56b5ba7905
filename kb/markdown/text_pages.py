"""Pages of formats and events."""

from collections.abc import Iterator

from skewscope.kb.markdown.labels import format_basis, format_entry_link
from skewscope.kb.markdown.text import bullets, code, escape_text, heading, page, section, table
from skewscope.kb.model import Catalogue, Event, Format, FormatLine


def format_page(one: Format, catalogue: Catalogue) -> str:
    """Returns the page of a format: its lines, what they give, and samples."""
    facts = {
        "Tool": escape_text(f"{one.tool} ({one.versions})"),
        "Written by": code(one.command) if one.command else "",
        "A file is of a": escape_text(one.place),
        "Rests on": format_basis(catalogue, one.basis),
    }
    return page(
        [
            heading(1, one.name),
            code(one.id),
            escape_text(one.what),
            bullets(f"{name}: {value}" for name, value in facts.items() if value),
            section("Lines", bullets(_line(line, catalogue) for line in one.lines)),
            section("Samples", bullets(code(text) for one in one.samples for text in one.lines.splitlines()[:3])),
        ]
    )


def _line(line: FormatLine, catalogue: Catalogue) -> str:
    signals = sorted({what.signal for what in line.fields.values()} - {""})
    given = ", ".join(format_entry_link(catalogue, "signals", name) for name in signals)
    return f"{code(line.pattern)}{': ' if given else ''}{given}"


def event_page(event: Event, catalogue: Catalogue) -> str:
    """Returns the page of an event: its message, what it is a sign of, and what to do first."""
    facts = {
        "Severity": escape_text(event.severity),
        "Of a": escape_text(event.entity),
        "Do first": escape_text(event.first),
        "Rests on": format_basis(catalogue, event.basis),
    }
    return page(
        [
            heading(1, event.name),
            code(event.id),
            escape_text(event.what),
            bullets(f"{name}: {value}" for name, value in facts.items()),
            section("Sign of", bullets(_signs(event, catalogue))),
            section("Messages", bullets(map(code, event.patterns))),
            section("Nothing, where there is also", bullets(map(code, event.unless))),
            section("Codes", _codes_table(event, catalogue)),
            section("Samples", bullets(map(code, event.samples))),
        ]
    )


def _codes_table(event: Event, catalogue: Catalogue) -> str:
    rows = (
        (escape_text(one.name), escape_text(one.severity), ", ".join(_signs(one, catalogue)), escape_text(one.first))
        for one in event.by_code.values()
    )
    return table(("Code", "Severity", "Sign of", "Do first"), rows) if event.by_code else ""


def _signs(event: Event, catalogue: Catalogue) -> Iterator[str]:
    for sign in event.signs:
        yield f"{format_entry_link(catalogue, 'conditions', sign.condition)} ({escape_text(sign.shows)})"
