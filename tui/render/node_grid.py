"""All nodes of a fleet on one screen: a cell for each, wrapped, as bad as its series and incidents are. Pure."""

import numpy as np

from skewscope.tui.render.cell_picture import SHADES, CellClass, CellPicture, RowLabel
from skewscope.tui.render.heat_map import HeatMap
from skewscope.tui.render.text import width

LEVELS = len(SHADES) - 2
MARGIN = 6
"""Columns of a line beside its label and its cells."""
MIN_CELLS = 8


def node_grid(heat_map: HeatMap, columns: int) -> CellPicture:
    """Returns the nodes in the order of the topology, as many in a row as fit in `columns`.

    A cell is as dark as its node's largest deviation; one with a firing incident is full. A row is named by its first
    node, and by the first one with an incident.
    """
    nodes = [node.name for node in heat_map.snapshot.topology.nodes]
    labels = max(map(width, nodes), default=0)
    size = max(columns - 2 * labels - MARGIN, MIN_CELLS)
    rows = [nodes[at : at + size] for at in range(0, len(nodes), size)]
    cells = np.zeros((len(rows), min(size, len(nodes))), np.uint8)
    cells[:] = len(SHADES)  # beyond the last node: blank
    for number, row in enumerate(rows):
        cells[number, : len(row)] = [_class_of(heat_map, node) for node in row]
    hit = sum(node in heat_map.node_severity for node in nodes)
    return CellPicture(
        f"{len(nodes):,} nodes, {hit:,} with an incident",
        "a cell is a node   · normal   ░▒▓ farther from its peers or its past   █ incident",
        tuple(_label(row, heat_map) for row in rows),
        cells,
        ("", ""),
        classes=(*SHADES, CellClass(" ", "", "")),
        is_fixed=True,
    )


def _label(row: list[str], heat_map: HeatMap) -> RowLabel:
    hit = next((node for node in row if node in heat_map.node_severity), "")
    return RowLabel(row[0], hit, bool(hit))


def _class_of(heat_map: HeatMap, node: str) -> int:
    """Returns the class of a node: the last one only with an incident."""
    if node in heat_map.node_severity:
        return LEVELS + 1
    level, _ = heat_map.cell(node, "")
    return 1 + min(int(2 * level * LEVELS), LEVELS - 1) if np.isfinite(level) else 0
