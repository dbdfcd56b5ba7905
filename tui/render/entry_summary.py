"""What to know of a condition first: what it is and costs, how it shows, what to do; its causes drawn. Pure."""

from collections.abc import Collection, Sequence

from skewscope.kb import citations
from skewscope.kb.graph import edges
from skewscope.kb.matrix import best_dpu_capability
from skewscope.kb.model import Claim, Condition, Lookalike
from skewscope.kb.rank import strongest_claim
from skewscope.tui.render.blocks import bullet_lines
from skewscope.tui.render.detail import DisplayNames
from skewscope.tui.render.text import Line, Span, cut, fit, line, width

VERDICT_GLYPHS = {
    "visible": ("●", "ok"),
    "partial": ("◐", "warn"),
    "relayed": ("○", "info"),
    "not_visible": ("·", "dim"),
}
"""Glyph and role of an observability verdict."""
REACH_GLYPHS = {"itself": ("●", "ok"), "part": ("◐", "warn"), "no": ("·", "dim")}
SHORT_PLACES = {
    "dpu-front-end": "front end",
    "dpu-every-rail": "rails",
    "dpu-pcie-root": "PCIe root",
    "dpu-relayed": "relayed",
}
"""Deployments of a DPU, in few letters."""
REACH_TEXTS = {"itself": "does a mitigation by itself", "part": "does a part of a mitigation", "no": "can only report"}
MAX_CAUSES, MAX_EFFECTS = 6, 4
"""Causes and effects that the picture shows."""
MAX_DRAWN = 110


def condition_head(entry: Condition) -> list[Line]:
    """Returns name and tags of a condition, and that it was withdrawn."""
    tags = " · ".join(filter(None, (entry.id, entry.group, ", ".join(entry.scope), f"evidence {entry.grade}")))
    out = [line(entry.name, "title"), line(f"{tags} · {entry.maturity}", "dim")]
    return [*out, line(f"withdrawn: {entry.withdrawn}", "warn")] if entry.withdrawn else out


def condition_lead(entry: Condition, names: DisplayNames) -> list[Line]:
    """Returns what a condition is, what it costs, what a DPU sees and can do, how to tell it, and what to do."""
    cost = strongest_claim(entry)
    out = [
        (),
        line(entry.what),
        (),
        (("costs      ", "label"), *(claim_line(cost, names) if cost else line("no number is known", "dim"))),
        (("DPU sees   ", "label"), *_sight_spans(entry)),
        (("DPU helps  ", "label"), *_reach_spans(entry, names)),
    ]
    if entry.prevalence:
        out.append((("how often  ", "label"), (entry.prevalence, ""), (f" ({entry.prevalence_basis})", "dim")))
    out += bullet_lines("What you see, then it is", (lookalike_line(each, names) for each in entry.lookalikes))
    out += bullet_lines("What to do", (_step_line(id_, names) for id_ in entry.mitigations))
    return out


def more_line(entry: Condition) -> Line:
    """Returns what else the catalogue has on a condition, and how to see it."""
    counts = (
        (len(entry.why) + len(entry.causes), "causes"),
        (len(entry.signature), "signals"),
        (len(entry.impacts), "claims"),
    )
    listed = " · ".join(f"{count} {noun}" for count, noun in counts if count)
    return ((f"more: {listed} · sources: ", "dim"), (f"skewscope explain {entry.id} --all", "command"))


def claim_line(claim: Claim, names: DisplayNames) -> Line:
    """Returns a claim with its scale, its source, and how that was seen."""
    known = names.catalogue.sources.get(claim.source)
    source = f"{citations.byline(known)}, {known.year}" if known else claim.source
    scale = f" [{claim.scale}]" if claim.scale else ""
    return ((claim.text + scale, ""), (f" ({source}; seen: {claim.seen})", "dim"))


def lookalike_line(other: Lookalike, names: DisplayNames) -> Line:
    """Returns a test and the look-alike that it separates."""
    judged = f" ({other.basis})" if other.basis.startswith("judgement") else ""
    name = ((names.condition_name(other.condition), "key"), (f" ({other.condition})", "dim"))
    return ((other.separate_by, ""), (judged, "dim"), (" → or: ", "dim"), *name)


def _sight_spans(entry: Condition) -> Line:
    spans: list[Span] = []
    for name, place in SHORT_PLACES.items():
        glyph, role = VERDICT_GLYPHS.get(entry.visibility(name), ("?", ""))
        spans += [(f"{glyph} ", role), (f"{place}  ", "")]
    return tuple(spans)


def _reach_spans(entry: Condition, names: DisplayNames) -> Line:
    known = names.catalogue.mitigations
    reach = best_dpu_capability([known[id_] for id_ in entry.mitigations if id_ in known])
    glyph, role = REACH_GLYPHS[reach]
    return ((f"{glyph} ", role), (REACH_TEXTS[reach], ""))


def _step_line(id_: str, names: DisplayNames) -> Line:
    known = names.catalogue.mitigations.get(id_)
    if known is None:
        return line(id_, "key")
    has_command = "" if known.commands else " · no command"
    return ((known.name, "key"), (f" ({id_}) {known.actor} · {known.risk} risk{has_command}", "dim"))


# --- the picture


def neighbourhood_lines(
    entry: Condition, names: DisplayNames, columns: int, firing: Collection[str] = ()
) -> list[Line]:
    """Returns a drawing of the direct causes on the left and effects on the right; what fires here has a sign."""
    graph = edges(names.catalogue)
    causes = _order([a for a, b, _ in graph if b == entry.id], firing, MAX_CAUSES)
    effects = _order([b for a, b, _ in graph if a == entry.id], firing, MAX_EFFECTS)
    if not causes and not effects:
        return []
    columns = min(columns, MAX_DRAWN)
    own = cut(entry.name, max(columns // 3, 8))
    side = max((columns - width(own) - 14) // max(bool(causes) + bool(effects), 1), 6)
    left, right = (_labels(ids, names, side) for ids in (causes, effects))
    rows = max(len(left), len(right), 1)
    middle = (rows - 1) // 2
    drawn = (_drawn_row(n, middle, own, (_centre(left, rows), _centre(right, rows)), firing) for n in range(rows))
    return [fit(row, columns) for row in drawn]


def _order(ids: Sequence[str], firing: Collection[str], most: int) -> list[str]:
    """Returns the ids to show, those that fire first; an empty one stands for those that are left out."""
    ordered = sorted(dict.fromkeys(ids), key=lambda id_: id_ not in firing)
    return ordered if len(ordered) <= most else [*ordered[: most - 1], ""]


def _labels(ids: Sequence[str], names: DisplayNames, columns: int) -> list[tuple[str, str]]:
    """Returns (id, name) of each; the empty id is of those that are left out."""
    return [(id_, cut(names.condition_name(id_), columns) if id_ else "and others") for id_ in ids]


def _centre(labels: list[tuple[str, str]], rows: int) -> list[tuple[str, str]]:
    above = (rows - len(labels)) // 2
    return [("", "")] * above + labels + [("", "")] * (rows - len(labels) - above)


def _drawn_row(
    n: int,
    middle: int,
    own: str,
    sides: tuple[list[tuple[str, str]], list[tuple[str, str]]],
    firing: Collection[str],
) -> Line:
    left, right = sides
    spans: list[Span] = []
    if any(label for _, label in left):
        size = max(width(label) for _, label in left)
        id_, label = left[n]
        spans += [
            ("✖ " if id_ in firing and id_ else "  ", "crit"),
            (label, ""),
            (_lead(label, size) + _joint(n, left, middle), "dim"),
        ]
    spans.append((own if n == middle else " " * width(own), "title"))
    if any(label for _, label in right):
        id_, label = right[n]
        spans += [
            (_fork(n, right, middle), "dim"),
            ("✖ " if id_ in firing and id_ else "", "crit"),
            (label, ""),
        ]
    return tuple(spans)


def _lead(label: str, size: int) -> str:
    return " " + "─" * (size - width(label) + 1) if label else " " * (size + 2)


def _joint(n: int, labels: list[tuple[str, str]], middle: int) -> str:
    """Returns where the line of a cause meets the others, and the arrow in the middle row."""
    there = [row for row, (_, label) in enumerate(labels) if label]
    first, last, has_line = there[0], there[-1], bool(labels[n][1])
    arrow = "─▶ " if n == middle else "   "
    if first == last:
        return "─" + arrow if n == middle else " " + arrow
    if n == first:
        sign = "┬" if n == middle else "╮"
    elif n == last:
        sign = "┴" if n == middle else "╯"
    elif first < n < last:
        sign = ("┼" if has_line else "├") if n == middle else ("┤" if has_line else "│")
    else:
        sign = " "
    return sign + arrow


def _fork(n: int, labels: list[tuple[str, str]], middle: int) -> str:
    """Returns the line from the condition to an effect."""
    there = [row for row, (_, label) in enumerate(labels) if label]
    first, last, has_line = there[0], there[-1], bool(labels[n][1])
    stem = " ─" if n == middle else "  "
    if first == last:
        return f"{stem}─▶ " if has_line else "     "
    if n == first:
        sign = "┬" if n == middle else "╭"
    elif n == last:
        sign = "┴" if n == middle else "╰"
    elif first < n < last:
        sign = "┼" if n == middle else "├" if has_line else "│"
    else:
        sign = " "
    return f"{stem}{sign}{'─▶ ' if has_line else '   '}"
