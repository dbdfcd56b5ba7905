"""Lints of formats and events: their sample lines are their tests."""

from skewscope.kb.entry_store import CatalogueEntry, EntryStore
from skewscope.kb.event_reading import EventMatcher
from skewscope.kb.format_samples import compare_samples, find_pattern_problems
from skewscope.kb.line_patterns import MIN_MARK, PatternError
from skewscope.kb.lint import EntryProblems, Problems, catalogue_lint, entry_lint
from skewscope.kb.model import Event


@entry_lint("formats", "Correct the pattern, or describe its fields.", integrity=True)
def patterns_of_a_format_compile(entry: CatalogueEntry) -> Problems:
    """Every pattern is well formed, and its fields are those that are described."""
    yield from find_pattern_problems(entry)


@entry_lint("events", "Correct the pattern, or describe its fields.", integrity=True)
def patterns_of_an_event_compile(entry: CatalogueEntry) -> Problems:
    """Every pattern is well formed, and its fields are described."""
    assert isinstance(entry.value, Event)
    try:
        matcher = EventMatcher.of(entry.value)
    except PatternError as error:
        yield entry.document.problem(("patterns",), str(error), "text with fields such as <name>")
        return
    for number, pattern in enumerate(matcher.patterns):
        if not pattern.words:
            found = f"{entry.value.patterns[number]!r}, in which no text between fields is long"
            yield entry.document.problem(("patterns", number), found, f"{MIN_MARK} characters that each such line has")


@entry_lint("events", "Keep it at the codes with which it belongs.", integrity=True)
def codes_are_listed_once(entry: CatalogueEntry) -> Problems:
    """No code of an event has two meanings, and codes come with the fields by which they are looked up."""
    assert isinstance(entry.value, Event)
    seen: set[str] = set()
    for number, part in enumerate(entry.value.codes):
        for code in part.names.keys() & seen:
            yield entry.document.problem(("codes", number, "names", code), f"the code {code!r} again", "each code once")
        seen |= part.names.keys()
    if bool(entry.value.codes) != bool(entry.value.code):
        found = "`codes` without `code`" if entry.value.codes else "`code` without `codes`"
        yield entry.document.problem((), found, "both")


@entry_lint("events", "Correct the pattern or the line.")
def event_matches_its_samples(entry: CatalogueEntry) -> Problems:
    """Every sample line matches, and none of the others does."""
    assert isinstance(entry.value, Event)
    try:
        matcher = EventMatcher.of(entry.value)
    except PatternError:
        return
    for field, lines, wanted in (("samples", entry.value.samples, True), ("others", entry.value.others, False)):
        for number, line in enumerate(lines):
            found = matcher.find(line)
            if (found is not None and not found.is_retraction) != wanted:
                expected = "a line that matches" if wanted else "a line that does not match"
                yield entry.document.problem((field, number), f"{line!r:.80}", expected)


@catalogue_lint("Correct the pattern, the unit or the sample.")
def format_gives_what_its_samples_say(store: EntryStore) -> EntryProblems:
    """The lines of each sample give its numbers and labels, and no others; lines that look similar give nothing."""
    for entry in store.of_kind("formats"):
        try:
            yield from ((entry.name, problem) for problem in compare_samples(entry, store.catalogue.signals))
        except PatternError as error:
            yield entry.name, entry.document.problem(("lines",), str(error), "signals and units of the catalogue")
