"""How many peers there are: those who were ever heard, and what that says while others are silent."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.readings import Shared
from skewscope.engine.sets import F64
from skewscope.rules.expr import Expr

Truth = NDArray[np.int8]
Compare = Callable[[Any, Any], Truth]


class Members:
    """How many peers ever reported anything; unknown while none did."""

    def __init__(self, expr: Expr, shared: Shared) -> None:
        assert expr.peers is not None
        self.peers, self.entities = expr.peers, shared.entities
        self._of: tuple[int, tuple[int, ...]] = (-1, ())
        self._args: tuple[Any, ...] = ()
        self._count: F64 = np.empty(0)

    def run(self, t: float, args: Sequence[Any]) -> F64:  # noqa: ARG002
        # Who was ever seen is told by the same arrays until somebody new is.
        of = self.entities.version, tuple(map(id, args))
        if of != self._of:
            self._of, self._args, self._count = of, tuple(args), self._counted(args)
        return self._count

    def _counted(x: F64) -> F64:
    return np.repeat((~np.isnan(x)).sum(axis=1)[:, None].astype(np.float64), x.shape[1], axis=1)
