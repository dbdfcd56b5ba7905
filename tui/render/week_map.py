"""Weeks by node: a letter for each day on which a node was at fault, what it cost, how often it came back. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from string import ascii_letters

import numpy as np

from skewscope.tui.render import units
from skewscope.tui.render.cell_picture import CellClass, CellPicture, RowLabel

DAY_S = 86_400.0
MAX_NODES = 40
"""Nodes that the picture shows, those with the most days at fault."""
NONE_CLASS = CellClass("·", "dim", "fill='var(--dim)' fill-opacity='.25'")
FILLS = ("var(--crit)", "var(--warn)", "var(--info)", "var(--ok)", "var(--peer)")
ROLES = ("crit", "warn", "info", "ok", "")


@dataclass(frozen=True, slots=True)
class NodeDay:
    """Diagnoses of one condition at one node on one day."""

    node: str
    day: int
    """Days since 1970-01-01."""
    condition: str
    count: int
    lost_gpu_hours: float | None


def week_map(days: Sequence[NodeDay], name: Callable[[str], str], columns: int) -> CellPicture | None:
    """Returns nodes by days in at most `columns` cells, None without any day; `name` names a condition."""
    if not days:
        return None
    first, last = min(entry.day for entry in days), max(entry.day for entry in days)
    first -= (first + 3) % 7  # a week begins on Monday; 1970-01-01 was a Thursday
    step = max(-(-(last - first + 1) // max(columns, 7)), 1)
    letters = assign_letters(days, name)
    order = list(letters)
    by_node: dict[str, list[NodeDay]] = {}
    for entry in days:
        by_node.setdefault(entry.node, []).append(entry)
    nodes = sorted(by_node, key=lambda node: (-len({entry.day for entry in by_node[node]}), node))[:MAX_NODES]
    cells = np.zeros((len(nodes), (last - first) // step + 1), np.uint8)
    for row, node in enumerate(nodes):
        for entry in sorted(by_node[node], key=lambda entry: entry.count):
            cells[row, (entry.day - first) // step] = 1 + order.index(entry.condition)
    more = len(by_node) - len(nodes)
    each = "a day" if step == 1 else f"{step} days"
    return CellPicture(
        f"{units.format_count(len(by_node), 'node')} at fault; a cell is {each}",
        "  ".join(f"{letter} {name(condition)}" for condition, letter in letters.items()),
        tuple(RowLabel(node, _note(by_node[node])) for node in nodes)
        + ((RowLabel(f"and {more} more", ""),) if more > 0 else ()),
        np.vstack([cells, np.zeros((1, cells.shape[1]), np.uint8)]) if more > 0 else cells,
        (_date(first), _date(last)),
        classes=(NONE_CLASS, *_classes(letters)),
        is_fixed=True,
    )


def assign_letters(days: Iterable[NodeDay], name: Callable[[str], str]) -> dict[str, str]:
    """Returns a letter for each condition, the most frequent first: of its name where that is free."""
    counts: Counter[str] = Counter()
    for entry in days:
        counts[entry.condition] += entry.count
    letters: dict[str, str] = {}
    for condition, _ in counts.most_common():
        wanted = [char for char in name(condition) if char.isascii() and char.isalpha()]
        free = (char for char in (*wanted[:1], *wanted, *ascii_letters) if char not in letters.values())
        letters[condition] = next(free, "*")
    return letters


def _classes(letters: Mapping[str, str]) -> list[CellClass]:
    last = len(FILLS) - 1
    return [
        CellClass(letter, ROLES[min(n, last)], f"fill='{FILLS[min(n, last)]}'")
        for n, letter in enumerate(letters.values())
    ]


def _note(days: Sequence[NodeDay]) -> str:
    """Returns the GPU hours that a node lost, and how often the most frequent condition came back."""
    measured = [entry.lost_gpu_hours for entry in days if entry.lost_gpu_hours is not None]
    lost = f"{units.format_number(sum(measured))} GPU h" if measured else ""
    by_condition: dict[str, set[int]] = {}
    for entry in days:
        by_condition.setdefault(entry.condition, set()).add(entry.day)
    back = max((sorted(each) for each in by_condition.values()), key=len)
    every = f"{len(back)}×, every {round((back[-1] - back[0]) / (len(back) - 1))} d" if len(back) > 1 else ""
    return "  ".join(filter(None, (lost, every)))


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, UTC).strftime("%b %d")
