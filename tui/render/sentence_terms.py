"""Measured values of expressions as noun phrases: `requests arrived per second`, `averaged over 4 s`. Pure."""

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from skewscope.kb.model import Catalogue
from skewscope.rules.entity_kinds import kind_of
from skewscope.rules.parsing import dotted_name
from skewscope.tui.render.expression_tree import function_name, signal_ids

PARTS: Mapping[str, str] = {"gpu": "GPU", "rank": "member", "peer": "connection", "pool": "pool", "group": "group"}
"""What a part of an entity is called, by its kind; others are called as their kind."""
HEAD_END = re.compile(
    r" (?:of|that|in|by|with|without|per|to|for|from|at|on|into|through|between|not|out|why|just|free|sent|begun|"
    r"thrown|found|lost|common|seen|\w+ed|\w+ing)\b.*|,.*"
)
"""What follows the noun that decides between `is` and `are`."""
PERCENTILE = re.compile(r"(?:median|\d+(?:st|nd|rd|th) percentile) of ")
ADVERB = re.compile(r"^\w+ly \w+ed ")
TEMPLATES: Mapping[str, str] = {
    "rate": "{0} per second",
    "slope": "the growth of {0} per second",
    "jitter": "the standard deviation of {0}",
    "burst": "the peak of {0} over its mean",
    "samples": "the number of samples of {0}",
    "change": "the change of {0}",
    "drift": "the change of {0} from its usual level",
    "baseline_z": "the distance of {0} from its usual level",
    "peer_z": "the distance of {0} from that of its peers",
    "peer_ratio": "the ratio of {0} to that of its peers",
    "peer_excess": "the excess of {0} over that of its peers",
    "peer_median": "the median {0} of its peers",
    "peer_spread": "the spread of {0} among its peers",
    "share": "its share of {0} among its peers",
    "gini": "the inequality of {0} among its peers",
    "age": "the age of the newest sample of {0}",
    "min": "the smaller of {0} and {1}",
    "max": "the larger of {0} and {1}",
    "ratio": "the ratio of {0} to {1}",
    "speed": "the speed of the port",
    "size": "the number of its members",
    "peers": "the number of its peers",
    "heard": "the number of its peers with a known value of {0}",
}
"""Functions as noun phrases; {0} and {1} are their values."""
MEASURED: Mapping[str, int] = {"min": 2, "max": 2, "ratio": 2}
"""How many values a function measures, where it is not one."""
TRANSPARENT = (
    *("number_of", "reading", "coalesce", "abs", "front", "mean", "ewma", "bucket_mean"),
    *("average", "total", "middle"),
)
"""Functions whose value is called as what they measure."""
EXTREMES: Mapping[str, tuple[str, str]] = {
    "highest": ("the highest {0} of its {parts}", "the most {0} of its {parts}"),
    "lowest": ("the lowest {0} of its {parts}", "the fewest {0} of its {parts}"),
    "maximum": ("the highest {0}", "the most {0}"),
    "minimum": ("the lowest {0}", "the fewest {0}"),
    "peer_highest": ("the highest {0} of its peers", "the most {0} of its peers"),
    "peer_lowest": ("the lowest {0} of its peers", "the fewest {0} of its peers"),
}
"""Extremes of one value, and of a number of things."""
WINDOWED = ("minimum", "maximum", "slope", "jitter", "burst", "samples", "change")
NOTES: Mapping[str, str] = {
    "front": "at the front end",
    "total": "in all its {parts} together",
    "average": "on average over its {parts}",
    "middle": "on a typical {part}",
    "abs": "up or down",
    "mean": "averaged over {1}",
    "bucket_mean": "averaged over {1}",
    "ewma": "smoothed over {1}",
    **dict.fromkeys(WINDOWED, "within {1}"),
}
"""What a function adds to the end of a clause."""
WORST = ", at worst"
DIRECTIONS: Mapping[str, str] = {"north_south": "on the north-south network"}
"""What selectors say of a value; that on the east-west network is meant where nothing is said."""
WAYS: Mapping[str, str] = {"tx": "outwards", "rx": "inwards"}
NORTH_SOUTH = "north-south port"
AVERAGE = "on average over its "
UNITS: Mapping[str, str] = {"Cel": "°C"}
SEVERAL = re.compile(r"s(?=/|$)")
"""What one of something lacks: `1 packet/s`."""
TIME_NOTE = re.compile(r"(?:averaged|smoothed|within|throughout|at some time|over|for|in the last) ")
SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "plus", ast.Sub: "minus"}


@dataclass(frozen=True, slots=True)
class SignalWords:
    """How a signal is called."""

    name: str
    unit: str = ""
    kind: str = "part"
    """The kind of entity that has it."""
    is_state: bool = False


WordsOf = Callable[[str], SignalWords | None]
"""Returns the words of a signal by its id, None for an unknown one."""


@dataclass(frozen=True, slots=True)
class Term:
    """A measured value in words, and what stands at the end of the clause that is about it."""

    text: str
    is_plural: bool = False
    notes: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """The verb after it."""
        return "are" if self.is_plural else "is"

    def beside(self, notes: Sequence[str]) -> "Term":
        """Returns this value beside another with notes: those that the other lacks stand in the text."""
        spans = {note.removeprefix("averaged ") for note in notes}
        if any(span.startswith("over ") for span in spans) and not spans >= {
            n for n in self.notes if n.startswith("over ")
        }:
            raise LookupError("two spans of time")
        own = [note for note in self.notes if note.removeprefix("averaged ") not in spans]
        shared = tuple(note for note in self.notes if note not in own)
        return Term(" ".join((self.text, *order_notes(own))), self.is_plural, shared)


@dataclass(frozen=True, slots=True)
class Product:
    """A product: its number, its unit, and what is measured above and below the line."""

    number: float
    unit: str = ""
    over: tuple[ast.expr, ...] = ()
    under: tuple[ast.expr, ...] = ()

    @property
    def is_quantity(self) -> bool:
        """Whether nothing is measured."""
        return not self.over and not self.under

    @property
    def factor(self) -> float:
        """The number, with percent taken as a hundredth."""
        return self.number / 100 if self.unit == "%" else self.number


def words_of_catalogue(known: Catalogue) -> WordsOf:
    """Returns the look-up of a catalogue's signals."""

    def find(id_: str) -> SignalWords | None:
        signal = known.signals.get(id_)
        return SignalWords(signal.name, signal.unit, kind_of(signal.entity), signal.type == "state") if signal else None

    return find


def format_number(number: float) -> str:
    """Returns a number as people write it: `100,000`, `0.67`, `−5`."""
    text = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
    return text.replace("-", "−")


def format_quantity(number: float, unit: str) -> str:
    """Returns a number with its unit."""
    if unit in ("", "one"):
        return format_number(number)
    if number == 1 and len(unit) > 3:
        unit = SEVERAL.sub("", unit, count=1)
    return f"{format_number(number)} {UNITS.get(unit, unit)}"


def format_times(factor: float) -> str:
    """Returns how many times as much: `3 times`, `twice`, or `60 % of`."""
    if factor == 2:
        return "twice"
    return f"{format_number(factor)} times" if factor >= 1 else f"{format_number(100 * factor)} % of"


def is_time_note(note: str) -> bool:
    """Returns whether a note is on a time, not on a place."""
    return bool(TIME_NOTE.match(note))


def order_notes(notes: Iterable[str]) -> tuple[str, ...]:
    """Returns notes on places before those on times, each once; one mean of both is one note."""
    found = sorted(dict.fromkeys(notes), key=is_time_note)
    if any(NORTH_SOUTH in note for note in found):
        found = [note for note in found if note != DIRECTIONS["north_south"]]
    for place in [note for note in found if note.startswith(AVERAGE)]:
        if time := next((note for note in found if note.startswith("averaged over ")), ""):
            found[found.index(time)] = f"{place} and {time.removeprefix('averaged over ')}"
            found.remove(place)
    return tuple(found)


def bare(text: str) -> str:
    """Returns a noun phrase without its article."""
    return text.removeprefix("the ")


def multiply(node: ast.expr) -> Product:
    """Returns a part as a product; names other than signals are units."""
    number, over_units, under_units, over, under = _factors(node)
    unit = "*".join("%" if name == "percent" else name for name in over_units)
    unit = "/".join((unit or "1", *under_units)) if under_units else unit
    return Product(number, unit, tuple(over), tuple(under))


_Factors = tuple[float, list[str], list[str], list[ast.expr], list[ast.expr]]


def _factors(node: ast.expr) -> _Factors:
    """Returns number, units above and below the line, and measured parts above and below it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and math.isfinite(node.value):
        return float(node.value), [], [], [], []
    if isinstance(node, ast.Name):
        return 1.0, [node.id], [], [], []
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = _factors(node.operand)
        return -found[0], found[1], found[2], found[3], found[4]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        a, b = _factors(node.left), _factors(node.right)
        if isinstance(node.op, ast.Mult):
            return a[0] * b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4]
        if b[0]:
            return a[0] / b[0], a[1] + b[2], a[2] + b[1], a[3] + b[4], a[4] + b[3]
    return 1.0, [], [], [node], []


class TermWriter:
    """Puts measured values in words."""

    def __init__(self, words_of: WordsOf) -> None:
        self.words_of = words_of

    def say(self, node: ast.expr) -> Term:
        """Returns a value in words; raises LookupError where it has none."""
        if id_ := dotted_name(node):
            return self.say_signal(id_)
        if isinstance(node, ast.Subscript):
            term, words = self.say(node.value), _selectors(node)
            ways = [way for word, way in WAYS.items() if word in words]
            notes = (note for word, note in DIRECTIONS.items() if word in words)
            return Term(" ".join((term.text, *ways)), term.is_plural, (*term.notes, *notes))
        if isinstance(node, ast.Call):
            return self._say_call(node)
        product = multiply(node)
        if product.is_quantity:
            return Term(format_quantity(product.number, product.unit))
        if product.over != (node,):
            return self._say_product(product)
        if isinstance(node, ast.BinOp) and type(node.op) in SIGNS and signal_ids(node.left):
            return self._combine(node.left, SIGNS[type(node.op)], node.right)
        raise LookupError(type(node).__name__)

    def say_signal(self, id_: str) -> Term:
        """Returns the name of a signal as it stands within a sentence."""
        words = self.words_of(id_)
        if words is None:
            return Term(id_)
        name, is_plural = name_within(words.name), is_plural_name(words.name)
        return Term(name if is_plural or name.startswith(("how ", "the ")) else f"the {name}", is_plural)

    def part_of(self, node: ast.expr) -> str:
        """Returns what the entities of the first signal are called."""
        words = next((found for id_ in signal_ids(node) if (found := self.words_of(id_))), None)
        kind = words.kind if words else "part"
        if kind == "port" and any("north_south" in _selectors(part) for part in ast.walk(node)):
            return NORTH_SOUTH
        return PARTS.get(kind, kind or "part")

    def _say_call(self, node: ast.Call) -> Term:
        name, args = function_name(node), node.args
        if name in ("quantile", "bucket_quantile") and len(args) == 3:
            measured, place = self.say(args[0]), multiply(args[1])
            note = f"over {self.say(args[2]).text}"
            return Term(f"the {_percentile(place.number)} of {measured.text}", notes=(*measured.notes, note))
        if name in TRANSPARENT and args:
            measured = self.say(args[0])
            return replace(measured, notes=(*measured.notes, *self.notes(node)))
        if name in EXTREMES and args:
            return self._say_extreme(node)
        if name not in TEMPLATES or (name in ("min", "max") and any(function_name(part) in EXTREMES for part in args)):
            raise LookupError(name)
        inner = [self.say(part) for part in args]
        if name == "peer_median":
            inner = [_describe(term) for term in inner]
        values = [term.text for term in inner]
        measured_notes = [note for term in inner[: MEASURED.get(name, 1)] for note in term.notes]
        is_plural = name == "rate" and bool(inner) and inner[0].is_plural
        return Term(TEMPLATES[name].format(*values), is_plural, order_notes((*measured_notes, *self.notes(node))))

    def _say_extreme(self, node: ast.Call) -> Term:
        """Says the highest or lowest of a value; raises LookupError for one that is no number."""
        inner = self.say(node.args[0])
        words = [self.words_of(id_) for id_ in signal_ids(node.args[0])]
        if any(one and one.is_state for one in words):
            raise LookupError("an extreme of what is no number")
        template = EXTREMES[function_name(node)][inner.is_plural]
        text = template.format(_describe(inner).text, parts=f"{self.part_of(node.args[0])}s")
        return Term(text, inner.is_plural, order_notes((*inner.notes, *self.notes(node))))

    def notes(self, node: ast.Call) -> tuple[str, ...]:
        """Returns what a call adds to the end of a clause."""
        name = function_name(node)
        windows = [self.say(part).text for part in node.args[1:]]
        if name == "change" and len(windows) == 2:
            return (f"in the last {windows[0]} against the {windows[1]} before",)
        template = NOTES.get(name, "")
        if not template or ("{1}" in template and not windows):
            return ()
        part = self.part_of(node.args[0]) if node.args else ""
        return (template.format("", *windows, part=part, parts=f"{part}s"),)

    def say_rest(self, product: Product) -> Term:
        """Returns what is measured in a product, without its number and unit."""
        return self._say_product(Product(1, "", product.over, product.under))

    def _say_product(self, product: Product) -> Term:
        if len(product.over) > 1:
            raise LookupError("a product of measured values")
        if product.unit == "s" and product.over and function_name(product.over[0]) == "rate":
            return self._say_increase(product)
        over = [self.say(part) for part in product.over]
        under = [self.say(part) for part in product.under]
        text = over[0].text if over else ""
        below = " times ".join(term.text for term in under)
        if under and not over:
            return Term(f"{format_number(product.factor)} divided by {below}", notes=under[0].notes)
        if under:
            text = f"the ratio of {text} to {below}"
        is_plural = not under and bool(over) and over[0].is_plural
        notes = tuple(dict.fromkeys(note for term in (*over, *under) for note in term.notes))
        if product.number != 1 or product.unit == "%":
            factor = product.factor
            text = f"{format_times(factor)} {text}" if factor > 0 else f"{format_number(factor)} times {text}"
        return Term(text, is_plural, notes)

    def _say_increase(self, product: Product) -> Term:
        """Says a counter's rate times some seconds as what is counted within them."""
        rate = product.over[0]
        assert isinstance(rate, ast.Call)
        term = self.say(rate.args[0])
        return Term(f"{term.text} within {format_number(product.number)} s", term.is_plural, term.notes)

    def _combine(self, left: ast.expr, sign: str, right: ast.expr) -> Term:
        if any(function_name(part) in ("peer_excess", "peer_ratio", "drift", "change") for part in (left, right)):
            raise LookupError("a sum of comparisons")
        a, b = self.say(left), self.say(right)
        return Term(f"{a.text} {sign} {b.text}", a.is_plural or sign == "plus", order_notes((*a.notes, *b.notes)))


def name_within(name: str) -> str:
    """Returns a name as it stands within a sentence: abbreviations keep their capitals."""
    if any(letter.isupper() for letter in name.partition(" ")[0][1:]):
        return name
    plain, at_worst, _ = (name[:1].lower() + name[1:]).partition(WORST)
    if not at_worst:
        return plain
    return f"{plain} at worst" if plain.startswith("how ") else f"the worst {plain}"


def is_plural_name(name: str) -> bool:
    """Returns whether a name takes `are`."""
    if name.startswith(("How ", "Time ", "Times ")):
        return name.startswith("Times ")
    head = HEAD_END.sub("", ADVERB.sub("", name))
    return head.endswith("s") and not head.endswith(("ss", "us", "is"))


def _describe(term: Term) -> Term:
    """Returns a value without its article, as it stands after an adjective; raises LookupError for a percentile."""
    text = bare(term.text)
    if text.startswith("how ") or PERCENTILE.match(text):
        raise LookupError("no noun that takes an adjective")
    return replace(term, text=text)


def _selectors(node: ast.AST) -> frozenset[str]:
    """Returns the selectors of a signal; none of anything else."""
    if not isinstance(node, ast.Subscript):
        return frozenset()
    return frozenset(part.id for part in ast.walk(node.slice) if isinstance(part, ast.Name))


def _percentile(place: float) -> str:
    if place == 0.5:
        return "median"
    number = round(100 * place)
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number not in (11, 12, 13) else "th"
    return f"{number}{ending} percentile"
