"""The three questions of the paper for each condition in one row: what it costs, what a DPU sees, what it can do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from skewscope.kb.matrix import DEPLOYMENTS, DPU_CAPABILITIES, VISIBILITY_LEVELS, MatrixRow, build_matrix
from skewscope.kb.model import Catalogue, Claim, Condition

SEEN_ORDER = (
    "full text",
    "abstract",
    "documentation page",
    "issue thread",
    "web page",
    "secondary notes only",
)
"""How the work behind a claim was seen, the most certain first."""
PREVALENCE_ORDER = ("common", "occasional", "rare", "")


@dataclass(frozen=True, slots=True)
class RankRow:
    """One condition: its strongest number, and what a DPU sees and can do."""

    matrix: MatrixRow
    cost: Claim | None
    """The claim with a number that was seen best; None where no impact has a number."""

    @property
    def condition(self) -> Condition:
        """The condition."""
        return self.matrix.condition

    @property
    def best_verdict(self) -> str:
        """The most that a DPU sees of it in any deployment."""
        return max(self.matrix.verdicts.values(), key=VISIBILITY_LEVELS.index, default="not_visible")

    @property
    def best_places(self) -> tuple[str, ...]:
        """The deployments in which a DPU sees most of it; none where it sees nothing."""
        best = self.best_verdict
        if best == "not_visible":
            return ()
        return tuple(name for name in DEPLOYMENTS if self.matrix.verdicts.get(name) == best)


def strongest_claim(condition: Condition) -> Claim | None:
    """Returns the claim of an impact with a number whose source was seen best, the first one of several."""
    numbers = [claim for claim in condition.impacts if any(char.isdigit() for char in claim.text)]
    return min(numbers, key=lambda claim: _place(claim.seen, SEEN_ORDER), default=None)


def _place(name: str, order: tuple[str, ...]) -> int:
    return order.index(name) if name in order else len(order)


def _certainty(row: RankRow) -> tuple[object, ...]:
    c = row.condition
    return c.grade, row.cost is None, _place(c.prevalence, PREVALENCE_ORDER), c.name


_ORDERS: Mapping[str, Callable[[RankRow], tuple[object, ...]]] = {
    "sure": _certainty,
    "sees": lambda row: (-VISIBILITY_LEVELS.index(row.best_verdict), *_certainty(row)),
    "helps": lambda row: (-DPU_CAPABILITIES.index(row.matrix.dpu), *_certainty(row)),
    "name": lambda row: (row.condition.name,),
}
RANK_ORDERS = tuple(_ORDERS)
"""sure: the best evidence first; sees, helps: what a DPU sees and can do most of first; name."""


def rank_conditions(catalogue: Catalogue, by: str = "sure") -> tuple[RankRow, ...]:
    """Returns a row for each condition that is not withdrawn, in one of RANK_ORDERS."""
    rows = (RankRow(row, strongest_claim(row.condition)) for row in build_matrix(catalogue))
    return tuple(sorted(rows, key=_ORDERS[by]))
