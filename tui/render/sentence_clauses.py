"""Comparisons of expressions as clauses: `the round-trip time is more than twice that of its peers`. Pure."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from skewscope.rules.parsing import dotted_name
from skewscope.tui.render.expression_tree import function_name, signal_ids
from skewscope.tui.render.sentence_terms import (
    TRANSPARENT,
    Product,
    Term,
    TermWriter,
    bare,
    format_number,
    format_quantity,
    format_times,
    is_plural_name,
    is_time_note,
    multiply,
    order_notes,
)

Operator = type[ast.cmpop]
ABOVE, BELOW = (ast.Gt, ast.GtE), (ast.Lt, ast.LtE)
MIRRORED: Mapping[Operator, Operator] = {
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
AMOUNTS: Mapping[Operator, str] = {
    ast.Gt: "more than",
    ast.GtE: "at least",
    ast.Lt: "less than",
    ast.LtE: "at most",
    ast.Eq: "exactly",
    ast.NotEq: "other than",
}
COUNTS: Mapping[Operator, str] = {**AMOUNTS, ast.Lt: "fewer than"}
"""How numbers of things compare."""
PLACES: Mapping[Operator, str] = {
    ast.Gt: "above",
    ast.GtE: "at least",
    ast.Lt: "below",
    ast.LtE: "at most",
    ast.Eq: "equal to",
    ast.NotEq: "not equal to",
}
OWN_VALUES: Mapping[str, str] = {
    "highest": "the highest of its {part}s",
    "lowest": "the lowest of its {part}s",
    "middle": "the median of its {part}s",
    "average": "the average of its {part}s",
    "maximum": "the highest within {window}",
    "minimum": "the lowest within {window}",
    "peer_highest": "the highest of its peers",
    "peer_lowest": "the lowest of its peers",
    "peer_median": "the median of its peers",
    **dict.fromkeys(("mean", "front", "rate", "number_of"), ""),
}
"""What another value of the same signal is called."""
STATES: Mapping[tuple[str, Operator, float], str] = {
    ("port.carrier", ast.Eq, 0): "the port has no carrier",
    ("port.carrier", ast.Gt, 0): "the port has a carrier",
    ("port.state", ast.Lt, 4): "the port is not active",
    ("host.up", ast.Eq, 0): "the node's exporter does not answer",
    ("nccl.op_state", ast.Gt, 0): "an operation is pending",
    ("gpu.throttle_reasons", ast.GtE, 32): "the GPU reports that heat holds its clock down",
    ("gpu.throttle_reasons", ast.GtE, 4): "the GPU reports that a power cap holds its clock down",
}
"""What values of states mean."""
ERROR_SIGNAL = "gpu.xid"
TIMES = "times "
"""How the name of a signal begins that counts how often something happened, which the rest of the name says."""
TIME_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True, slots=True)
class Clause:
    """A comparison in words: what is compared, the verb, how, and what stands at the end."""

    subject: str
    verb: str
    relation: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = " ".join(filter(None, (self.subject, self.verb, self.relation)))
        for note in order_notes(self.notes):
            text += f", {note}" if note.startswith("averaged") else f" {note}"
        return text


@dataclass(frozen=True)
class Comparison:
    """A comparison whose measured side lacks what says for which parts and times it holds: that is in the notes."""

    core: ast.expr
    op: Operator
    right: ast.expr
    notes: tuple[str, ...] = ()

    @cached_property
    def limit(self) -> Product:
        """The other side as a product."""
        return multiply(self.right)

    @property
    def inner(self) -> ast.expr:
        """What the function on the measured side measures."""
        assert isinstance(self.core, ast.Call)
        return self.core.args[0]

    @property
    def is_ordered(self) -> bool:
        """Whether it asks for more or for less."""
        return self.op in (*ABOVE, *BELOW)


class ClauseWriter:
    """Puts comparisons in words."""

    def __init__(self, terms: TermWriter) -> None:
        self._terms = terms

    def say(self, node: ast.expr) -> Clause:
        """Returns a comparison, or what has a truth value of its own, in words; raises LookupError without any."""
        if not isinstance(node, ast.Compare):
            return self._say_truth(node)
        if len(node.ops) == 2:
            return self._say_range(node)
        if len(node.ops) != 1:
            raise LookupError("a chain")
        op, left, right = type(node.ops[0]), node.left, node.comparators[0]
        if growth := self._say_growth(Comparison(left, op, right)):
            return growth
        if signal_ids(right) and (not signal_ids(left) or multiply(left).number != 1):
            op, left, right = MIRRORED[op], right, left
        return self._compare(left, op, right)

    def _say_truth(self, node: ast.expr) -> Clause:
        is_missing = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        inner = node.operand if isinstance(node, ast.UnaryOp) else node
        if function_name(inner) == "known":
            names = [self._terms.say_signal(id_) for id_ in signal_ids(inner)]
            verb = "are" if len(names) > 1 or any(term.is_plural for term in names) else "is"
            text = " and ".join(term.text for term in names)
            return Clause(text, verb, "not measured" if is_missing else "measured")
        if isinstance(inner, ast.Name):
            return Clause(inner.id.replace("_", " "), "", "does not hold" if is_missing else "")
        raise LookupError(type(node).__name__)

    def _say_range(self, node: ast.Compare) -> Clause:
        """Says `32 <= reasons < 128`."""
        low, high = multiply(node.left), multiply(node.comparators[1])
        if not (low.is_quantity and high.is_quantity):
            raise LookupError("a range of values")
        core, notes = self._peel(node.comparators[0], ast.GtE)
        id_ = dotted_name(core) or ""
        if found := STATES.get((id_, ast.GtE, low.number)):
            return Clause(found, "", "", notes)
        term = self._terms.say(core)
        ends = f"{format_quantity(low.number, low.unit)} to {format_quantity(high.number, high.unit)}"
        relation = f"Xid {ends}" if id_ == ERROR_SIGNAL else f"between {ends.replace(' to ', ' and ')}"
        return Clause(term.text, term.verb, relation, (*term.notes, *notes))

    def _compare(self, left: ast.expr, op: Operator, right: ast.expr) -> Clause:
        if op is ast.NotEq and signal_ids(left) and set(signal_ids(left)) == set(signal_ids(right)):
            return self._say_any_change(left)
        core, notes = self._peel(left, op)
        one = Comparison(core, op, right, notes)
        plain = core.value if isinstance(core, ast.Subscript) else core
        state = (dotted_name(plain) or "", op, one.limit.number)
        if one.limit.is_quantity and (found := STATES.get(state)):
            return Clause(found, "", "", one.notes)
        if own := self._say_beside_itself(one):
            return own
        say = self._relations.get(function_name(one.core))
        clause = say(self, one) if say else self._say_plain(one)
        rest = [note for note in one.notes if note not in clause.subject]
        if clause.relation.startswith("no "):
            rest = [note.replace("on every ", "on any ") for note in rest]
        return replace(clause, notes=order_notes((*clause.notes, *rest)))

    def _say_any_change(self, left: ast.expr) -> Clause:
        """Says that the lowest and the highest value are not the same."""
        is_call = isinstance(left, ast.Call) and bool(left.args)
        term = self._terms.say(left.args[0] if isinstance(left, ast.Call) and is_call else left)
        windows = left.args[1:] if isinstance(left, ast.Call) else []
        notes = tuple(f"within {self._terms.say(part).text}" for part in windows)
        return Clause(term.text, "changed", "", (*term.notes, *notes))

    def _peel(self, node: ast.expr, op: Operator) -> tuple[ast.expr, tuple[str, ...]]:
        """Returns what is compared, and for which parts and times: `on at least one port`, `throughout 4 s`."""
        notes: tuple[str, ...] = ()
        while isinstance(node, ast.Call) and node.args and (found := self._range_notes(node, op)) is not None:
            notes = (*found, *notes)
            node = node.args[0]
        return node, notes

    def _range_notes(self, node: ast.Call, op: Operator) -> tuple[str, ...] | None:
        """Returns what a function says of that for which a comparison holds, None for another function."""
        name, is_above = function_name(node), op in ABOVE
        window = self._terms.say(node.args[-1]).text if len(node.args) > 1 else ""
        if name in ("highest", "lowest"):
            part = self._terms.part_of(node.args[0])
            return (f"on at least one {part}" if (name == "highest") == is_above else f"on every {part}",)
        if name in ("peer_highest", "peer_lowest"):
            return ("on at least one of its peers" if (name == "peer_highest") == is_above else "on all its peers",)
        if name in ("maximum", "minimum"):
            is_once = (name == "maximum") == is_above
            return (f"at some time within {window}" if is_once else f"throughout {window}",)
        if name in TRANSPARENT and name not in ("abs", "total"):
            return self._terms.notes(node)
        return None

    # --- values beside themselves

    def _say_beside_itself(self, one: Comparison) -> Clause | None:
        """Says what is compared with another of its own values: `more than twice the lowest of its ports`."""
        bound, signal = one.limit, _only_signal(one.core)
        other = bound.over[0] if len(bound.over) == 1 and not bound.under and bound.factor > 0 else None
        if other is None or not signal or _only_signal(other) != signal:
            return None
        term, own = self._terms.say(one.core), self._say_own(other)
        notes = order_notes((*term.notes, *one.notes))
        times = tuple(note for note in notes if is_time_note(note))
        subject = " ".join((term.text, *(note for note in notes if note not in times)))
        if not own or (own == "its own" and subject == term.text):
            return None
        is_one = bound.number == 1 and bound.unit != "%"
        size = PLACES[one.op] if is_one else f"{AMOUNTS[one.op]} {format_times(bound.factor)}"
        return Clause(subject, term.verb, f"{size} {own}", times)

    def _say_own(self, node: ast.expr) -> str:
        """Returns what another value of a known signal is: `the highest of its ports`; '' where it has no name."""
        words: list[str] = []
        while isinstance(node, ast.Call) and node.args:
            window = self._terms.say(node.args[-1]).text if len(node.args) > 1 else ""
            part = self._terms.part_of(node.args[0])
            found = OWN_VALUES.get(function_name(node))
            if found is None:
                return ""
            words += [found.format(window=window, part=part)] if found else []
            node = node.args[0]
        return " ".join(words) or "its own"

    def _say_growth(self, one: Comparison) -> Clause | None:
        """Says `slope(x, 9*s) * 9*s < -5*percent * x` as a change within these seconds."""
        measured, bound = multiply(one.core), one.limit
        slope = measured.over[0] if len(measured.over) == 1 and not measured.under else None
        if not isinstance(slope, ast.Call) or function_name(slope) != "slope" or measured.unit != "s":
            return None
        if bound.is_quantity:
            size = format_quantity(abs(bound.number), bound.unit)
        elif len(bound.over) == 1 and not bound.under and signal_ids(bound.over[0]) == signal_ids(slope):
            size = f"{format_number(100 * abs(bound.factor))} %"
        else:
            return None
        term = self._terms.say(slope.args[0])
        window = f"within {format_number(measured.number)} s"
        return Clause(term.text, *_say_movement(bound.number, one.op, size), (*term.notes, window))

    # --- relations

    def _say_plain(self, one: Comparison) -> Clause:
        measured, bound = multiply(one.core), one.limit
        if measured.under and measured.over and measured.number == 1 and not measured.unit:
            return self._say_ratio(one, measured)
        if (
            isinstance(one.core, ast.BinOp)
            and isinstance(one.core.op, ast.Sub)
            and bound.is_quantity
            and not bound.number
        ):
            return self._say_plain(replace(one, core=one.core.left, right=one.core.right))
        term = self._terms.say(one.core)
        if not bound.is_quantity:
            return self._say_beside(term, one)
        is_count = self._is_count(one.core)
        if bound.number < 1 and is_count and one.op is not ast.GtE:
            return _say_presence(term, one)
        if is_count and term.is_plural:
            return Clause(term.text, term.verb, f"{COUNTS[one.op]} {format_number(bound.number)}", term.notes)
        relation = f"{PLACES[one.op]} {format_quantity(bound.number, bound.unit)}"
        return Clause(term.text, term.verb, relation, term.notes)

    def _say_beside(self, term: Term, one: Comparison) -> Clause:
        """Says `more than 3 times the other`."""
        bound = one.limit
        notes = order_notes((*term.notes, *one.notes))
        if bound.over and bound.factor > 0 and (bound.number != 1 or bound.unit == "%"):
            other = self._terms.say_rest(bound).beside(notes)
            relation = f"{AMOUNTS[one.op]} {format_times(bound.factor)} {other.text}"
        else:
            other = self._terms.say(one.right).beside(notes)
            words = COUNTS if self._is_count(one.core) else AMOUNTS
            relation = f"{(words if term.is_plural else PLACES)[one.op]} {other.text}"
        places = [note for note in notes if not is_time_note(note) and note not in other.notes]
        rest = tuple(note for note in notes if note not in places)
        return Clause(" ".join((term.text, *places)), term.verb, relation, rest)

    def _say_ratio(self, one: Comparison, measured: Product) -> Clause:
        """Says `a / b > 15 %` as `a is more than 15 % of b`."""
        bound = one.limit
        if not bound.is_quantity or bound.factor <= 0 or bound.unit not in ("", "%"):
            raise LookupError("a ratio beside another")
        first, second = measured.over[0], measured.under[0]
        if len(measured.over) == 1 and function_name(first) == "jitter":
            return self._say_variation(replace(one, core=first), f"{format_number(100 * bound.factor)} % of its mean")
        size = f"{AMOUNTS[one.op]} {format_times(bound.factor)}"
        over = self._terms.say_rest(Product(1, "", measured.over))
        if windows := _two_windows(first, second):
            short, long = (self._terms.say(part).text for part in windows)
            those = "those" if over.is_plural else "that"
            notes = tuple(note for note in over.notes if not is_time_note(note))
            return Clause(f"{over.text} in the last {short}", over.verb, f"{size} {those} in the last {long}", notes)
        under = self._terms.say_rest(Product(1, "", measured.under)).beside(over.notes)
        if _only_signal(first) and _only_signal(first) == _only_signal(second) and len(measured.under) == 1:
            own = self._say_own(second)
            under = Term(own) if own not in ("", "its own") else under
        return Clause(over.text, over.verb, f"{size} {under.text}", over.notes)

    def _is_count(self, core: ast.expr) -> bool:
        """Returns whether a value counts things, so that zero means that there are none."""
        ids = signal_ids(core)
        words = self._terms.words_of(ids[0]) if len(ids) == 1 else None
        if words is None or not (dotted_name(core) or isinstance(core, ast.Subscript)):
            return False
        is_number = words.unit == "1" and is_plural_name(words.name)
        return is_number or (words.unit.startswith("{") and "/" not in words.unit)

    def _say_rate(self, one: Comparison) -> Clause:
        assert isinstance(one.core, ast.Call)
        bound, ids = one.limit, signal_ids(one.core)
        words = self._terms.words_of(ids[0]) if len(ids) == 1 else None
        if not bound.is_quantity or words is None:
            return self._say_plain(one)
        term = self._terms.say(one.inner)
        window = f"within {self._terms.say(one.core.args[1]).text}"
        is_counted = words.unit.startswith("{") or words.unit == "1"
        if bound.number <= 0 and is_counted:
            presence = _say_presence(term, one)
            return replace(presence, notes=(*presence.notes, window))
        if words.unit in TIME_UNITS and bound.unit in ("%", ""):
            share = f"{format_number(100 * bound.factor)} % of the time"
            return Clause(term.text, "makes up", f"{AMOUNTS[one.op]} {share}", term.notes)
        if words.unit in ("{event}", "{error}", "1") or (bound.number < 1 and is_counted):
            return _say_frequency(term, bound.number, one.op)
        relation = f"{PLACES[one.op]} {format_quantity(bound.number, bound.unit)}"
        return Clause(term.text, term.verb, relation, term.notes)

    def _say_drift(self, one: Comparison) -> Clause:
        bound = one.limit
        if not bound.is_quantity or not one.is_ordered:
            return self._say_plain(one)
        term = self._terms.say(one.inner)
        level = "their usual level" if term.is_plural else "its usual level"
        if bound.factor >= 1:
            relation = f"{AMOUNTS[one.op]} {format_times(1 + bound.factor)} {level}"
            return Clause(term.text, term.verb, relation, term.notes)
        return Clause(term.text, term.verb, _say_distance(bound, one.op, level), term.notes)

    def _say_change(self, one: Comparison) -> Clause:
        assert isinstance(one.core, ast.Call)
        bound = one.limit
        if not bound.is_quantity or not one.is_ordered:
            return self._say_plain(one)
        term = self._terms.say(one.inner)
        movement = _say_movement(bound.number, one.op, f"{format_number(100 * abs(bound.factor))} %")
        return Clause(term.text, *movement, (*term.notes, *self._terms.notes(one.core)))

    def _say_peer_ratio(self, one: Comparison) -> Clause:
        bound = one.limit
        if not bound.is_quantity or bound.factor <= 0:
            return self._say_plain(one)
        term = self._terms.say(one.inner)
        relation = f"{AMOUNTS[one.op]} {format_times(bound.factor)} {_say_peers(term)}"
        return Clause(term.text, term.verb, relation, term.notes)

    def _say_peer_excess(self, one: Comparison) -> Clause:
        bound, term = one.limit, self._terms.say(one.inner)
        peers = _say_peers(term)
        if bound.is_quantity:
            if bound.number == 0:
                return Clause(term.text, term.verb, f"{PLACES[one.op]} {peers}", term.notes)
            return Clause(term.text, term.verb, _say_distance(bound, one.op, peers), term.notes)
        if len(bound.over) == 1 and not bound.under and bound.factor < 1 and _is_same(bound.over[0], one.inner):
            times = format_times(float(f"{1 / (1 - bound.factor):.2g}"))
            return Clause(term.text, term.verb, f"{AMOUNTS[one.op]} {times} {peers}", term.notes)
        if not all(dotted_name(part) or isinstance(part, ast.Call) for part in bound.over):
            raise LookupError("a sum beyond the peers")
        other = self._terms.say_rest(bound).beside((*term.notes, *one.notes))
        size = f"{format_times(abs(bound.factor))} {other.text}" if abs(bound.factor) != 1 else other.text
        side, op = ("below", MIRRORED[one.op]) if bound.number < 0 else ("above", one.op)
        return Clause(term.text, term.verb, f"{AMOUNTS[op]} {size} {side} {peers}", term.notes)

    def _say_spread_distance(self, one: Comparison) -> Clause:
        bound = one.limit
        if not bound.is_quantity:
            return self._say_plain(one)
        term = self._terms.say(one.inner)
        own = "their usual level" if term.is_plural else "its usual level"
        level = own if function_name(one.core) == "baseline_z" else _say_peers(term)
        side, op = ("below", MIRRORED[one.op]) if bound.number < 0 else ("above", one.op)
        relation = f"{AMOUNTS[op]} {format_number(abs(bound.number))} times the usual spread {side} {level}"
        return Clause(term.text, term.verb, relation, term.notes)

    def _say_peer_spread(self, one: Comparison) -> Clause:
        if not one.limit.is_quantity:
            return self._say_plain(one)
        term = self._terms.say(one.inner)
        size = f"{AMOUNTS[one.op]} {format_number(100 * one.limit.factor)} % among its peers"
        return Clause(term.text, "differ by" if term.is_plural else "differs by", size, term.notes)

    def _say_jitter(self, one: Comparison) -> Clause:
        bound = one.limit
        if bound.is_quantity:
            return self._say_variation(one, format_quantity(bound.number, bound.unit))
        if len(bound.over) == 1 and bound.factor > 0 and signal_ids(bound.over[0]) == signal_ids(one.core):
            return self._say_variation(one, f"{format_number(100 * bound.factor)} % of its mean")
        return self._say_plain(one)

    def _say_variation(self, one: Comparison, size: str) -> Clause:
        assert isinstance(one.core, ast.Call)
        term = self._terms.say(one.inner)
        verb = "vary by" if term.is_plural else "varies by"
        window = f"within {self._terms.say(one.core.args[1]).text}"
        return Clause(term.text, verb, f"{AMOUNTS[one.op]} {size}", (*term.notes, window))

    def _say_burst(self, one: Comparison) -> Clause:
        assert isinstance(one.core, ast.Call)
        if not one.limit.is_quantity or one.limit.factor <= 0:
            return self._say_plain(one)
        term = self._terms.say(one.inner)
        verb, mean = ("peak at", "their mean") if term.is_plural else ("peaks at", "its mean")
        relation = f"{AMOUNTS[one.op]} {format_times(one.limit.factor)} {mean}"
        return Clause(term.text, verb, relation, (*term.notes, *self._terms.notes(one.core)))

    def _say_slope(self, one: Comparison) -> Clause:
        assert isinstance(one.core, ast.Call)
        bound = one.limit
        if not bound.is_quantity or not one.is_ordered:
            return self._say_plain(one)
        term = self._terms.say(one.inner)
        size = format_quantity(abs(bound.number), bound.unit) + ("" if "/" in bound.unit else " per second")
        movement = _say_movement(bound.number, one.op, size)
        return Clause(term.text, *movement, (*term.notes, *self._terms.notes(one.core)))

    def _say_age(self, one: Comparison) -> Clause:
        if not one.limit.is_quantity:
            return self._say_plain(one)
        term = self._terms.say(one.inner)
        age = format_quantity(one.limit.number, one.limit.unit)
        if one.op in BELOW:
            verb = "were" if term.is_plural else "was"
            return Clause(term.text, verb, f"measured within the last {age}", term.notes)
        if one.limit.number <= 0:
            return Clause(term.text, term.verb, "no longer measured", term.notes)
        verb = "have not been measured" if term.is_plural else "has not been measured"
        return Clause(term.text, verb, f"for {AMOUNTS[one.op]} {age}", term.notes)

    def _say_share(self, one: Comparison) -> Clause:
        if not one.limit.is_quantity or one.limit.factor <= 0:
            return self._say_plain(one)
        term = self._terms.say(one.inner)
        share = f"{AMOUNTS[one.op]} {format_number(100 * one.limit.factor)} % of the sum over all peers"
        return Clause(term.text, term.verb, share, term.notes)

    def _say_sample_count(self, one: Comparison) -> Clause:
        assert isinstance(one.core, ast.Call)
        if not one.limit.is_quantity:
            return self._say_plain(one)
        count = f"{COUNTS[one.op]} {format_number(one.limit.number)} samples of {self._terms.say(one.inner).text}"
        return Clause("there", "are", count, self._terms.notes(one.core))

    def _say_peer_count(self, one: Comparison) -> Clause:
        if not one.limit.is_quantity:
            return self._say_plain(one)
        return Clause("there", "are", f"{COUNTS[one.op]} {format_number(one.limit.number)} peers, itself included")

    _relations: ClassVar[Mapping[str, Callable[["ClauseWriter", Comparison], Clause]]] = {
        "rate": _say_rate,
        "drift": _say_drift,
        "change": _say_change,
        "peer_ratio": _say_peer_ratio,
        "peer_excess": _say_peer_excess,
        "peer_z": _say_spread_distance,
        "baseline_z": _say_spread_distance,
        "peer_spread": _say_peer_spread,
        "jitter": _say_jitter,
        "burst": _say_burst,
        "samples": _say_sample_count,
        "slope": _say_slope,
        "age": _say_age,
        "share": _say_share,
        "peers": _say_peer_count,
    }
    """How a comparison is said whose measured side is a function; others are said as they stand."""


def _say_peers(term: Term) -> str:
    return "those of its peers" if term.is_plural else "that of its peers"


def _say_presence(term: Term, one: Comparison) -> Clause:
    """Says that there is something, or nothing, that is counted."""
    is_there = one.op in (ast.Gt, ast.NotEq, ast.GtE)
    notes = term.notes if is_there else tuple(note.replace("on every", "on any") for note in term.notes)
    if term.text.startswith(TIMES):
        event = term.text.removeprefix(TIMES)
        return Clause("" if is_there else "at no time", "", event, notes)
    return Clause("there", term.verb, f"{'' if is_there else 'no '}{bare(term.text)}", notes)


def _say_frequency(term: Term, per_second: float, op: Operator) -> Clause:
    """Says how often something happens."""
    if per_second in (1, 2):
        often = "once a second" if per_second == 1 else "twice a second"
    elif per_second > 1:
        often = f"{format_number(per_second)} times a second"
    else:
        often = f"once in {format_number(1 / per_second)} s"
    if term.text.startswith(TIMES):
        return Clause(term.text.removeprefix(TIMES), "", f"{AMOUNTS[op]} {often}", term.notes)
    return Clause(term.text, "occur" if term.is_plural else "occurs", f"{AMOUNTS[op]} {often}", term.notes)


def _only_signal(node: ast.expr) -> str:
    """Returns the only signal of a value that is made of it alone, with its selectors; '' of any other."""
    while isinstance(node, ast.Call) and node.args and function_name(node) in OWN_VALUES:
        node = node.args[0]
    return ast.dump(node) if dotted_name(node) or isinstance(node, ast.Subscript) else ""


def _is_same(first: ast.expr, second: ast.expr) -> bool:
    return ast.dump(first) == ast.dump(second)


def _two_windows(first: ast.expr, second: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Returns the windows of two means or rates of one value, None for anything else."""
    if not (isinstance(first, ast.Call) and isinstance(second, ast.Call)):
        return None
    is_same = function_name(first) == function_name(second) and function_name(first) in ("rate", "mean")
    if not is_same or not _is_same(first.args[0], second.args[0]):
        return None
    return first.args[1], second.args[1]


def _say_distance(bound: Product, op: Operator, level: str) -> str:
    """Says `more than 20 % below its usual level` of a signed distance."""
    size = format_quantity(abs(bound.number), bound.unit)
    if bound.number < 0:
        return f"{AMOUNTS[MIRRORED[op]]} {size} below {level}"
    return f"{AMOUNTS[op]} {size} above {level}"


def _say_movement(number: float, op: Operator, size: str) -> tuple[str, str]:
    """Returns verb and size of a change: `fell`, `by more than 15 %`."""
    if number == 0:
        return ("rose" if op in ABOVE else "fell"), ""
    if number < 0:
        return "fell", f"by {AMOUNTS[MIRRORED[op]]} {size}"
    return "rose", f"by {AMOUNTS[op]} {size}"
