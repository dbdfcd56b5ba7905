"""What can be diagnosed here, as text. Pure."""

from collections.abc import Mapping

from skewscope.rules.coverage import VERDICTS, Coverage, Covered, counts
from skewscope.tui.show import table
from skewscope.tui.text import Line, line

_ROLES = {"full": "ok", "partial": "warn", "seen": "warn", "blind": "crit", "hidden": "dim"}
_WORDS = {
    "full": "by all evidence",
    "partial": "in part",
    "seen": "seen, no rule yet",
    "blind": "blind",
    "hidden": "hidden",
}
MOST_UNLOCKS = 10
MOST_OPENED = 3


def coverage_lines(found: Coverage, names: Mapping[str, str]) -> list[Line]:
    """The picture as text; `names` are the names of signals by id."""
    by = counts(found)
    total = len(found.conditions)
    judged = f"Of {total} conditions, rules judge {by['full']} by all their evidence and {by['partial']} in part."
    seen = f"{by['seen']} more could be seen with the signals that are there, but no rule judges them yet."
    blind = f"{by['blind']} are blind for want of signals, {by['hidden']} no signal shows."
    out = [line(judged, "title"), line(f"{seen} {blind}"), ()]
    out += _unlock_lines(found, names)
    rows = [(c.condition, _WORDS[c.verdict], f"{round(100 * c.share)} %", _why(c)) for c in found.conditions]
    title, *body = table(rows, ("condition", "judged", "there", "what is missing"))
    roles = [_ROLES[c.verdict] for c in found.conditions]
    return [*out, title, *((first, (rest[0], role)) for (first, rest), role in zip(body, roles, strict=True))]


def _unlock_lines(found: Coverage, names: Mapping[str, str]) -> list[Line]:
    if not found.unlocks:
        return []
    best = [(u.signal, str(u.helps), _opened(u.opens), names.get(u.signal, "")) for u in found.unlocks[:MOST_UNLOCKS]]
    rows = [(signal, name, helps, opens) for signal, helps, opens, name in best]
    return [
        line("What would help most", "title"),
        *table(rows, ("signal", "what it is", "helps", "alone it opens")),
        (),
    ]


def _opened(conditions: tuple[str, ...]) -> str:
    if not conditions:
        return "-"
    more = len(conditions) - MOST_OPENED
    return f"{len(conditions)}: {', '.join(conditions[:MOST_OPENED])}{f' and {more} more' if more > 0 else ''}"


def _why(covered: Covered) -> str:
    if covered.verdict == VERDICTS[-1]:
        return "nothing that is delivered tells of it"
    if covered.blocking:
        return "needs " + ", ".join(covered.blocking)
    return ", ".join(covered.missing)
