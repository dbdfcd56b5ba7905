"""Evidence in plain words: `Round-trip time is more than 3 times that of its peers`. Pure; any text is taken.

What takes too many comparisons for a sentence is summed up by what it is judged by; the expression has the rest.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from skewscope.tui.render.expression_text import format_expression, split_definitions
from skewscope.tui.render.expression_tree import build_tree, function_name, is_missing, signal_ids
from skewscope.tui.render.sentence_clauses import ERROR_SIGNAL, TIMES, Clause, ClauseWriter
from skewscope.tui.render.sentence_terms import TermWriter, WordsOf

MAX_CLAUSES = 3
MAX_LENGTH = 300
MAX_JUDGED = 4
"""Signals that a summary names for each way of judging them."""
PEER_FUNCTIONS = frozenset(
    {
        *("peer_z", "peer_ratio", "peer_excess", "peer_median", "peer_highest", "peer_lowest", "peer_spread"),
        *("share", "gini"),
    }
)
PAST_FUNCTIONS = frozenset({"drift", "baseline_z", "change", "slope"})


def evidence_sentence(text: str, words_of: WordsOf) -> str:
    """Returns an expression in plain words; the expression itself where nothing in it is measured.

    Args:
        text: the expression of an evidence item, with its lets.
        words_of: names the signals.
    """
    try:
        tree = build_tree(*split_definitions(text))
        if tree is None:
            return text
        found = _Speaker(words_of).say(tree) or _summarise(tree, words_of)
    except (LookupError, RecursionError):
        return format_expression(text)
    return _begin_sentence(found) if found else format_expression(text)


class _Speaker:
    """Says whole expressions."""

    def __init__(self, words_of: WordsOf) -> None:
        self._clauses = ClauseWriter(TermWriter(words_of))

    def say(self, tree: ast.expr) -> str:
        """Returns an expression in words, '' where it is too long for a sentence or has no words."""
        try:
            said, count = self._say(tree)
        except (LookupError, ZeroDivisionError, OverflowError):
            return ""
        return said if count <= MAX_CLAUSES and len(said) <= MAX_LENGTH else ""

    def _say(self, node: ast.expr, inside: type[ast.boolop] | None = None) -> tuple[str, int]:
        """Returns a part in words, and the number of its clauses."""
        if not isinstance(node, ast.BoolOp):
            return str(self._clauses.say(node)), 1
        is_and = isinstance(node.op, ast.And)
        guards = [part for part in node.values if is_and and is_missing(part)]
        rest = [part for part in node.values if part not in guards]
        missing = [str(self._clauses.say(part)) for part in guards if not _is_told_by_age(part, rest)]
        simple = self._merge([part for part in rest if not isinstance(part, ast.BoolOp)], is_and=is_and)
        parts = [str(clause) for clause in simple]
        count = len(simple) + len(missing)
        for part in rest:
            if isinstance(part, ast.BoolOp):
                said, more = self._say(part, type(node.op))
                parts.append(said)
                count += more
        joined = _join_parts(parts, is_and=is_and, inside=inside)
        where = f"where {' and '.join(missing)}, " if missing else ""
        return where + joined, count

    def _merge(self, parts: Sequence[ast.expr], *, is_and: bool) -> list[Clause]:
        """Returns the clauses of parts; neighbours that differ in one thing are one clause."""
        found: list[Clause] = []
        errors = [part for part in parts if not is_and and _is_error_number(part)]
        for part in parts:
            if errors and part in errors:
                if part is errors[0]:
                    found.append(self._say_errors(errors))
                continue
            clause = self._clauses.say(part)
            merged = _merge_two(found[-1], clause, is_and=is_and) if found else None
            if merged:
                found[-1] = merged
            else:
                found.append(clause)
        return found

    def _say_errors(self, parts: Sequence[ast.expr]) -> Clause:
        first = self._clauses.say(parts[0])
        numbers = sorted(tuple(one.value for one in ast.walk(part) if isinstance(one, ast.Constant)) for part in parts)
        return replace(first, relation=f"Xid {_join_words([' to '.join(map(str, some)) for some in numbers], 'or')}")


def _is_told_by_age(missing: ast.expr, others: Sequence[ast.expr]) -> bool:
    """Returns whether another part says for how long there has been no such data."""
    ages = [part for other in others for part in ast.walk(other) if function_name(part) == "age"]
    return any(signal_ids(part) == signal_ids(missing) for part in ages)


def _is_error_number(node: ast.expr) -> bool:
    """Returns whether a part compares the last driver error with numbers."""
    if not isinstance(node, ast.Compare) or signal_ids(node) != (ERROR_SIGNAL,):
        return False
    measured = node.left if len(node.ops) == 1 else node.comparators[0]
    numbers = [node.comparators[0]] if len(node.ops) == 1 else [node.left, *node.comparators[1:]]
    is_plain = isinstance(measured, ast.Attribute) and all(isinstance(one, ast.Constant) for one in numbers)
    return is_plain and (len(node.ops) == 2 or isinstance(node.ops[0], ast.Eq))


def _merge_two(first: Clause, second: Clause, *, is_and: bool) -> Clause | None:
    """Returns one clause for two about one thing, or that say one thing; None where neither is so."""
    word = "and" if is_and else "or"
    if not first.relation or first.subject == "there" or first.verb != second.verb or first.notes != second.notes:
        return None
    if first.subject == second.subject:
        return replace(first, relation=f"{first.relation} {word} {second.relation}")
    if first.relation == second.relation and not is_and:
        return replace(first, subject=f"{first.subject} or {second.subject}")
    return None


def _join_parts(parts: list[str], *, is_and: bool, inside: type[ast.boolop] | None) -> str:
    has_comma = any("," in part for part in parts[:-1])
    if is_and:
        return (", and " if has_comma or (len(parts) > 2 and not inside) else " and ").join(parts)
    if inside is ast.And and (len(parts) > 1 or "Xid" not in parts[0]):
        return f"either {(', or ' if has_comma else ' or ').join(parts)}"
    return ", or ".join(parts)


def _join_words(words: Sequence[str], last: str) -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]


def _begin_sentence(text: str) -> str:
    begins_with_id = "." in text.partition(" ")[0]
    return text if begins_with_id else text[:1].upper() + text[1:]


# --- summaries


def _summarise(tree: ast.expr, words_of: WordsOf) -> str:
    """Returns by which signals an expression judges, '' where there are none."""
    ways: dict[str, dict[str, str]] = {"peers": {}, "past": {}, "": {}}
    terms = TermWriter(words_of)
    for id_, way in _judged_signals(tree, ""):
        name = terms.say_signal(id_).text
        ways[way].setdefault(id_, f"how often {name.removeprefix(TIMES)}" if name.startswith(TIMES) else name)
    compared = {*ways["peers"], *ways["past"]}
    plain = [text for id_, text in ways[""].items() if id_ not in compared]
    named = [f"looks at {_join_judged(plain)}"] if plain else []
    past, peers = (_join_judged(list(ways[way].values())) for way in ("past", "peers"))
    if past and past == peers:
        named.append(f"compares {past} with the past and with its peers")
    elif past or peers:
        sides = [f"{names} with {what}" for names, what in ((past, "the past"), (peers, "its peers")) if names]
        named.append(f"compares {', and '.join(sides)}")
    return ", and ".join(named)


def _join_judged(names: Sequence[str]) -> str:
    more = len(names) - MAX_JUDGED
    return "" if not names else _join_words([*names[:MAX_JUDGED], f"{more} more"] if more > 1 else names, "and")


def _judged_signals(node: ast.AST, way: str) -> Iterator[tuple[str, str]]:
    """Yields the signals of a part, each with what it is judged against: peers, past, or '' for a fixed bound."""
    name = function_name(node)
    way = "peers" if name in PEER_FUNCTIONS else "past" if name in PAST_FUNCTIONS else way
    if name == "known":
        return
    if isinstance(node, ast.Attribute | ast.Subscript):
        for id_ in signal_ids(node):
            yield id_, way
        return
    for part in ast.iter_child_nodes(node):
        yield from _judged_signals(part, way)
