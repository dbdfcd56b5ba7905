"""What a rule says about every entity of its scope at one tick: three-valued, as arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO, UNKNOWN, YES = -1, 0, 1
"""The three truth values, as int8."""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """One rule's verdict on the `n` entities of its scope at one tick.

    Arrays are shared with the engine: copy what you keep.
    """

    rule: str
    kind: str
    names: tuple[str, ...]
    """Names of the n entities, as in `SeriesKey.entity`."""
    applies: NDArray[np.bool_]
    firing: NDArray[np.bool_]
    """After hold and clear times: the verdict that counts."""
    state: NDArray[np.int8]
    """NO, UNKNOWN or YES of this tick alone, before hold."""
    since: NDArray[np.float64]
    """When the run of YES that led to `firing` began; NaN where not firing."""
    score: NDArray[np.float32]
    coverage: NDArray[np.float32]
    """Share of the evidence's weight that could be judged, 0..1."""
    evidence: NDArray[np.int8]
    """[terms, n]: NO, UNKNOWN or YES of each term, in the rule's order (for and against alike)."""
    values: NDArray[np.float32]
    """[terms, n]: the number each term's decisive comparison looked at; NaN when unknown."""
    impact: NDArray[np.float32]
    """The rule's impact expression; NaN when unknown."""
    severity: NDArray[np.int8]
    """0 info, 1 warning, 2 critical."""
