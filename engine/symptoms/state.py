"""The state of one symptom, and those symptoms that a deviation may become a part of, by what they share with it."""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from skewscope.engine.attribution.likely_causes import Candidate
from skewscope.engine.model.incident import Explanation, History
from skewscope.engine.symptoms.deviation import Deviation, DeviationKey


@dataclass
class SymptomState:
    """One symptom and what was found of it."""

    id: str
    opened_at: float
    primary: Deviation
    tokens: set[str]
    """Places and groups of its deviations; extended by `OpenSymptoms` alone."""
    deviations: dict[DeviationKey, Deviation]
    """All that were ever found, as they were at their worst."""
    active: set[DeviationKey]
    resolved_at: float | None = None
    ended_at: float = math.inf
    """When nothing of it held any more; infinite while something does."""
    candidates: tuple[Candidate, ...] = ()
    ranked_count: int = 0
    """Deviations from which the candidates were last worked out."""
    decides: str = ""
    explanation: Explanation | None = None
    history: History = ()
    witnesses: tuple[str, ...] = ()
    """Senders of the telemetry on which it rests, the first ones of its primary deviation."""
    is_hearsay: bool = False
    """Whether only one other node reports it."""

    @property
    def content(self) -> tuple[object, ...]:
        """All that changes of it and that its `Incident` is made of, but for what explains it."""
        deviations = tuple(self.deviations.values())
        shown = self.candidates, self.decides, self.history, self.witnesses, self.is_hearsay
        return self.primary, deviations, self.resolved_at, *shown


@dataclass
class OpenSymptoms:
    """The symptoms that are open or have just ended, by token."""

    _numbers: dict[str, int] = field(default_factory=dict)
    """By id: its place in the order in which they opened."""
    _all: dict[str, SymptomState] = field(default_factory=dict)
    """In that order."""
    _by_token: dict[str, dict[str, SymptomState]] = field(default_factory=dict)
    _count: int = 0

    def add(self, one: SymptomState) -> None:
        """Adds a symptom, which opened after all others."""
        self._count += 1
        self._numbers[one.id], self._all[one.id] = self._count, one
        for token in one.tokens:
            self._by_token.setdefault(token, {})[one.id] = one

    def extend(self, one: SymptomState, tokens: Collection[str]) -> None:
        """Adds tokens to a symptom that is among them."""
        for token in tokens:
            if token not in one.tokens:
                one.tokens.add(token)
                self._by_token.setdefault(token, {})[one.id] = one

    def forget_before(self, before: float) -> None:
        """Drops the symptoms that resolved before a time."""
        for one in [one for one in self._all.values() if one.resolved_at is not None and one.resolved_at < before]:
            del self._numbers[one.id], self._all[one.id]
            for token in one.tokens:
                some = self._by_token[token]
                del some[one.id]
                if not some:
                    del self._by_token[token]

    def find_near(self, tokens: Iterable[str]) -> list[SymptomState]:
        """Returns those that have at least one of some tokens, in the order in which they opened."""
        near = {id_: one for token in tokens for id_, one in self._by_token.get(token, {}).items()}
        return [near[id_] for id_ in sorted(near, key=self._numbers.__getitem__)]

    def list_open(self) -> Iterator[SymptomState]:
        """Yields those that are open, in the order in which they opened."""
        return (one for one in self._all.values() if one.resolved_at is None)
