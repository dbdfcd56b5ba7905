"""Templates of the lines of a text: lines that differ in numbers and in a few words, with a column for each number.

A column has the name before its numbers and the unit behind them, as the first line of the template writes them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_COLUMNS = 4000
"""Characters of a line that are looked at."""
MAX_NUMBERS = 64
"""Numbers of a line; a line with more is a row of a matrix."""
MAX_TEMPLATES = 200
MAX_HELD = 2000
"""Lines of a template that are kept."""
SAME_WORDS = 0.6
"""Share of the words without a number that two lines of one template have in common at least."""
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d{1,3})?(?![.\d])")
DATE = re.compile(
    r"(?:(?:19|20)\d\d[-/]\d\d[-/]\d\d|\d\d[-/]\d\d(?:[-/](?:19|20)?\d\d)?|[A-Z][a-z]{2} {1,2}\d{1,2})"
    r"[T _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?: (?:19|20)\d\d)?"
    r"|\b\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?\b"
)
"""What is a clock and no number of the line."""
NAME = re.compile(
    r"(?P<name>[^\W\d]\w*(?:[ /-][^\W\d]\w*){0,3}(?: ?[(\[][a-zA-Z/%]{1,12}[)\]])?)"
    r"[\"']?\s{0,8}[=:#]?\s{0,8}[\[(]?$"
)
"""Words right before a number, with what joins them to it."""
UNIT = re.compile(
    r"^ ?(?P<unit>%|[num\u00b5]?s|[mu]?secs?|seconds|milliseconds|req(?:uest)?s?"
    r"|[a-zA-Z\u00b5]{1,12}(?:/| per |_per_)[a-zA-Z]{1,12}(?:/[a-z]{1,8})?)(?![\w/]|\s?[=:])"
)
"""Words right behind a number that are a unit, and not the name of what follows."""
TOTAL = re.compile(r"^ ?(?:/|of) ?$")
"""Between a number and the total that it is a part of."""


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """The numbers at one place of the lines of a template."""

    name: str
    """'' where no word stands before it."""
    unit: str
    """'' where no word stands behind it."""
    is_bracketed: bool
    """Whether it is a second number in brackets behind another one of the same unit, as a mean is."""
    is_total: bool
    """Whether it is what the number before it is a part of, as in 10/900."""
    start: int
    """Where name and number begin, in the first line..."""
    number_start: int
    number_end: int
    end: int
    """...and where the unit ends."""


@dataclass(slots=True)
class Template:
    """Lines that differ in numbers and few words."""

    first: str
    """The first of them, without its date."""
    columns: tuple[NumberColumn, ...]
    words: tuple[str, ...]
    lines: list[str] = field(default_factory=list)
    rows: list[tuple[float, ...]] = field(default_factory=list)
    """[line] numbers of the columns."""
    count: int = 0

    def numbers(self, place: int) -> list[float]:
        """Returns the numbers of a column."""
        return [row[place] for row in self.rows]


def find_templates(lines: Sequence[str]) -> list[Template]:
    """Returns the templates of lines with numbers, those of the most lines first."""
    by_shape: dict[tuple[int, tuple[str, ...]], list[Template]] = {}
    number_of = 0
    for text in lines:
        bare = blank_dates(text[:MAX_COLUMNS])
        places = list(NUMBER.finditer(bare))
        if not 0 < len(places) <= MAX_NUMBERS:
            continue
        words = tuple(NUMBER.sub("0", bare).split())
        masked = tuple(word for word in words if "0" in word)
        candidates = by_shape.setdefault((len(words), masked), [])
        template = next((one for one in candidates if _is_alike(one.words, words)), None)
        if template is None:
            if number_of >= MAX_TEMPLATES:
                continue
            number_of += 1
            template = Template(bare, tuple(_columns(bare, places)), words)
            candidates.append(template)
        template.count += 1
        if len(template.rows) < MAX_HELD:
            template.lines.append(text)
            template.rows.append(tuple(float(place[0].replace(",", "")) for place in places))
    return sorted((one for some in by_shape.values() for one in some), key=lambda one: (-one.count, one.first))


def blank_dates(text: str) -> str:
    """Returns a line with blanks instead of dates and clocks."""
    return DATE.sub(lambda match: " " * len(match[0]), text)


def _is_alike(words: tuple[str, ...], others: tuple[str, ...]) -> bool:
    pairs = [(a, b) for a, b in zip(words, others, strict=True) if "0" not in a]
    return sum(a == b for a, b in pairs) >= SAME_WORDS * len(pairs)


def _columns(text: str, places: Sequence[re.Match[str]]) -> list[NumberColumn]:
    columns: list[NumberColumn] = []
    end = 0
    for place in places:
        between = text[end : place.start()]
        named = NAME.search(between[-120:])
        if columns and named and len(named[0]) == len(between):
            # What touches the number before is its unit, as in `27s 41ms/step`.
            named = None
        name = "" if named is None else re.sub(r"[\"'\s]+", " ", named["name"]).strip()
        begin = place.start() if named is None else place.start() - len(named[0])
        unit = UNIT.match(text[place.end() : place.end() + 40])
        is_alike = bool(columns) and (unit is None or bool(columns[-1].unit))
        columns.append(
            NumberColumn(
                name,
                unit["unit"] if unit else "",
                is_alike and between.strip() in ("(", "["),
                bool(columns) and TOTAL.match(between) is not None,
                begin,
                place.start(),
                place.end(),
                place.end() + (unit.end() if unit else 0),
            )
        )
        end = place.end()
    return columns
