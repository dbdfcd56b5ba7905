"""Rows of the tables that say what exporters make of a second."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.simulator.push import F64
from skewscope.adapters.simulator.world import World

Value = Callable[[World], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """One signal of one exporter."""

    exporter: str
    signal: str
    place: str
    """gpu, node, front, port, rail, ns, rank, group, stage, replica, pool."""
    value: Value
    selector: str = ""
    only: str = ""
    """A fabric on which alone there is such a thing."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What a histogram takes in: how many observations, their median, and how they scatter."""

    count: F64
    median: F64
    sigma: float
    """Of their logarithm."""
    beside: "Spread | None" = None
    """Others of another kind."""


def row(signal: str, place: str, value: Value, selector: str = "", only: str = "") -> Row:
    """A row; which exporter has it is said by the table that it stands in."""
    return Row("", signal, place, value, selector, only)


def noisy(w: World, x: F64, spread: float = 0.02) -> F64:
    """A measured value: no two are alike."""
    found: F64 = x * np.exp(w.random.normal(0.0, spread, np.shape(x)))
    return found


def of_members(w: World, of_nodes: F64) -> F64:
    """A node's value on each member that it is."""
    return np.where(w.fleet.there, np.append(of_nodes, np.nan)[w.fleet.members], np.nan)
