"""The verdict of a rule on every entity of its scope at one tick: three-valued, as arrays.

Whether each entity fires is known for all at once. Evidence is computed only for the entities it is asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import Index

NO, UNKNOWN, YES = -1, 0, 1
"""The three truth values, as int8."""


@dataclass(frozen=True, slots=True)
class EvidenceBatch:
    """The verdict of a rule on `k` entities, with its evidence."""

    applies: NDArray[np.bool_]
    score: NDArray[np.float32]
    coverage: NDArray[np.float32]
    """Share of the evidence's weight that could be judged, 0..1."""
    evidence: NDArray[np.int8]
    """[terms, k]: NO, UNKNOWN or YES of each term, in the rule's order (for and against alike)."""
    values: NDArray[np.float32]
    """[terms, k]: the number each term's decisive comparison looked at; NaN when unknown."""
    impact: NDArray[np.float32]
    """The rule's impact expression; NaN when unknown."""
    severity: NDArray[np.int8]
    """0 info, 1 warning, 2 critical."""

    def select(self, at: Index) -> "EvidenceBatch":
        """The verdicts on some of them, by position."""
        return EvidenceBatch(
            self.applies[at],
            self.score[at],
            self.coverage[at],
            self.evidence[:, at],
            self.values[:, at],
            self.impact[at],
            self.severity[at],
        )


@dataclass(slots=True)
class RuleVerdict:
    """One rule's verdict on the `n` entities of its scope at one tick.

    Arrays but `state` are shared with the engine: copy what you keep. Evidence must be asked for before the next tick.
    """

    rule: str
    kind: str
    names: tuple[str, ...]
    """Names of the n entities, as in `SeriesKey.entity`."""
    firing: NDArray[np.bool_]
    """After hold and clear times: the verdict that counts."""
    state: NDArray[np.int8]
    """NO, UNKNOWN or YES of this tick alone, before hold."""
    since: NDArray[np.float64]
    """When the run of YES that led to `firing` began; NaN where not firing."""
    get_evidence: Callable[[Index, bool], EvidenceBatch]
    """What `of` gives."""
    _all_evidence: EvidenceBatch | None = field(default=None, repr=False)

    def evidence_of(self, at: Index | Sequence[int], *, numbers: bool = True) -> EvidenceBatch:
        """The evidence of the entities at these positions; without `numbers`, impact and values are unknown."""
        at = np.asarray(at, np.intp)
        return self.get_evidence(at, numbers) if self._all_evidence is None else self._all_evidence.select(at)

    def all_evidence(self) -> EvidenceBatch:
        """The evidence of all entities of the rule: expensive for a large scope."""
        if self._all_evidence is None:
            self._all_evidence = self.get_evidence(np.arange(len(self.names)), True)
        return self._all_evidence

    def forget_evidence(self) -> None:
        """Drop the evidence that was asked for: the verdict counts for another tick, whose numbers may differ."""
        self._all_evidence = None

    @property
    def applies(self) -> NDArray[np.bool_]:
        """[entity] as in `EvidenceBatch`."""
        return self.all_evidence().applies

    @property
    def score(self) -> NDArray[np.float32]:
        """[entity] as in `EvidenceBatch`."""
        return self.all_evidence().score

    @property
    def coverage(self) -> NDArray[np.float32]:
        """[entity] as in `EvidenceBatch`."""
        return self.all_evidence().coverage

    @property
    def evidence(self) -> NDArray[np.int8]:
        """[term, entity] as in `EvidenceBatch`."""
        return self.all_evidence().evidence

    @property
    def values(self) -> NDArray[np.float32]:
        """[term, entity] as in `EvidenceBatch`."""
        return self.all_evidence().values

    @property
    def impact(self) -> NDArray[np.float32]:
        """[entity] as in `EvidenceBatch`."""
        return self.all_evidence().impact

    @property
    def severity(self) -> NDArray[np.int8]:
        """[entity] as in `EvidenceBatch`."""
        return self.all_evidence().severity
