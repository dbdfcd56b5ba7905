"""The coverage of conditions by available signals, as lines. Pure."""

from collections.abc import Mapping

from skewscope.rules.coverage import VERDICTS, ConditionCoverage, CoverageReport, FirstAddition, count_verdicts
from skewscope.tui.render.blocks import table_lines
from skewscope.tui.render.text import Line, line
from skewscope.tui.render.units import format_count

_VERDICT_ROLES = {
    "full": "ok",
    "partial": "warn",
    "candidate": "warn",
    "seen": "warn",
    "blind": "crit",
    "hidden": "dim",
}
_VERDICT_LABELS = {
    "full": "all evidence",
    "partial": "part of it",
    "candidate": "symptoms only",
    "seen": "visible, no rule",
    "blind": "blind",
    "hidden": "hidden",
}
MAX_UNLOCKS = 10
MAX_CONDITIONS = 3


def coverage_lines(found: CoverageReport, names: Mapping[str, str], first: FirstAddition | None = None) -> list[Line]:
    """Returns the coverage as lines.

    Args:
        found: the coverage.
        names: names of signals by id.
        first: the signal to add first.
    """
    by = count_verdicts(found)
    total = len(found.conditions)
    judged = f"Of {total} conditions, rules judge {by['full']} with all evidence and {by['partial']} with part of it."
    seen = f"{by['candidate']} more can only be causes of symptoms, visible without a rule yet: {by['seen']}."
    blind = f"Blind because signals are missing: {by['blind']}; shown by no signal: {by['hidden']}."
    out = [line(judged, "title"), line(f"{seen} {blind}"), ()]
    out += _unlock_lines(found, names)
    out += [line(addition_sentence(first)), ()] if first else []
    rows = [
        (c.condition, _VERDICT_LABELS[c.verdict], f"{round(100 * c.share)} %", _explain_verdict(c))
        for c in found.conditions
    ]
    title, *body = table_lines(rows, ("condition", "judged by", "available", "missing"))
    roles = [_VERDICT_ROLES[c.verdict] for c in found.conditions]
    return [*out, title, *((first, (rest[0], role)) for (first, rest), role in zip(body, roles, strict=True))]


def _unlock_lines(found: CoverageReport, names: Mapping[str, str]) -> list[Line]:
    if not found.unlocks:
        return []
    best = [
        (u.signal, str(u.helps), _format_conditions(u.opens), names.get(u.signal, ""))
        for u in found.unlocks[:MAX_UNLOCKS]
    ]
    rows = [(signal, name, helps, opens) for signal, helps, opens, name in best]
    return [
        line("Most useful further signals", "title"),
        *table_lines(rows, ("signal", "name", "helps", "enables alone")),
        (),
    ]


def addition_sentence(first: FirstAddition) -> str:
    """Returns which signal to add first, from where, and what it helps with."""
    missing, source = first.missing, first.source
    opens = f"enables {_format_conditions(missing.opens)}"
    gain = opens if missing.opens else f"helps with {format_count(missing.helps, 'condition')}"
    gain = "would tell the causes of a symptom apart" if missing.decides else gain
    return f"Add first: {missing.signal}, which is {source.metric} ({source.setting}); it {gain}."


def _format_conditions(conditions: tuple[str, ...]) -> str:
    if not conditions:
        return "-"
    more = len(conditions) - MAX_CONDITIONS
    return f"{len(conditions)}: {', '.join(conditions[:MAX_CONDITIONS])}{f' and {more} more' if more > 0 else ''}"


def _explain_verdict(covered: ConditionCoverage) -> str:
    if covered.verdict == VERDICTS[-1]:
        return "no delivered signal shows it"
    if covered.blocking:
        return "needs " + ", ".join(covered.blocking)
    return ", ".join(covered.missing)
