"""What the plots of a history need, from its views."""

from datetime import datetime
from typing import NamedTuple

from skewscope.adapters.history.database import HistoryDatabase


class PlotData(NamedTuple):
    """Rows of the plots."""

    weeks: list[tuple[datetime, str, int]]
    """(begin of the week, condition, diagnoses)."""
    racks: list[tuple[str, float]]
    causes: list[tuple[str, float]]
    """Diagnoses by rack, and by condition."""
    costs: list[tuple[str, float]]
    """GPU hours lost, by condition."""
    nodes: list[tuple[str, int, str, int, float | None]]
    """(node, days since 1970, condition, diagnoses, GPU hours lost or None where not measured)."""


def read_plots(database: HistoryDatabase) -> PlotData:
    """Returns the rows of all plots.

    Raises:
        InputError: a question cannot be answered.
    """

    def ask(sql: str) -> list[tuple[str, float]]:
        return [(str(name), float(value)) for name, value in database.ask(sql).rows]

    weeks = database.ask("SELECT week, condition, diagnoses FROM by_week").rows
    return PlotData(
        [(week, str(condition), int(count)) for week, condition, count in weeks],
        ask("SELECT rack, diagnoses FROM by_rack"),
        ask("SELECT condition, sum(diagnoses) FROM by_week GROUP BY condition"),
        ask("SELECT condition, lost_gpu_hours FROM cost WHERE lost_gpu_hours > 0"),
        read_node_days(database),
    )


def read_node_days(database: HistoryDatabase) -> list[tuple[str, int, str, int, float | None]]:
    """Returns (node, day, condition, diagnoses, GPU hours lost) of all nodes.

    Raises:
        InputError: the question cannot be answered.
    """
    rows = database.ask("SELECT node, day, condition, diagnoses, lost_gpu_hours FROM by_node_and_day").rows
    return [
        (str(node), int(day), str(condition), int(count), None if lost is None else float(lost))
        for node, day, condition, count, lost in rows
    ]
