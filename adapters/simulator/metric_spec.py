"""Rows of the tables of exporter metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.adapters.simulator.simulation import FleetSimulation
from skewscope.engine.model.arrays import F64

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
    """The only fabric that has it; '' for all."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Observations of a histogram in one second: count, median and spread."""

    count: F64
    median: F64
    sigma: float
    """Standard deviation of the logarithm."""
    mixed_with: "Distribution | None" = None
    """Further observations with another distribution."""


def metric_spec(signal: str, place: str, value: MetricFunction, selector: str = "", only: str = "") -> MetricSpec:
    """Returns a row; its exporter is determined by its table."""
    return MetricSpec("", signal, place, value, selector, only)


def add_noise(w: FleetSimulation, x: F64, spread: float = 0.02) -> F64:
    """Adds measurement noise."""
    found: F64 = x * np.exp(w.random.normal(0.0, spread, np.shape(x)))
    return found


def node_to_members(w: FleetSimulation, of_nodes: F64) -> F64:
    """Returns [job, member] the value of each member's node."""
    return np.where(w.fleet.is_member, np.append(of_nodes, np.nan)[w.fleet.members], np.nan)
