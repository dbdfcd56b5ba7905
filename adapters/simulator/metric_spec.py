"""Rows of the tables that say what exporters make of a second."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.simulator.effects import F64
from skewscope.adapters.simulator.simulation import FleetSimulation

MetricFunction = Callable[[FleetSimulation], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One signal of one exporter."""

    exporter: str
    signal: str
    scope: str
    """gpu, node, front, port, rail, ns, rank, group, stage, replica, pool."""
    value: MetricFunction
    selector: str = ""
    only_fabric: str = ""
    """A fabric on which alone there is such a thing."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a histogram takes in: how many observations, their median, and how they scatter."""

    count: F64
    median: F64
    sigma: float
    """Of their logarithm."""
    mixed_with: "Distribution | None" = None
    """Others of another kind."""


def metric_spec(signal: str, place: str, value: MetricFunction, selector: str = "", only: str = "") -> MetricSpec:
    """A row; which exporter has it is said by the table that it stands in."""
    return MetricSpec("", signal, place, value, selector, only)


def add_noise(w: FleetSimulation, x: F64, spread: float = 0.02) -> F64:
    """A measured value: no two are alike."""
    found: F64 = x * np.exp(w.random.normal(0.0, spread, np.shape(x)))
    return found


def node_to_members(w: FleetSimulation, of_nodes: F64) -> F64:
    """A node's value on each member that it is."""
    return np.where(w.fleet.is_member, np.append(of_nodes, np.nan)[w.fleet.members], np.nan)
