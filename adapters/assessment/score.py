"""What was told held against what was true: found or missed, right or wrong, where, how soon, how sure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewscope.adapters.assessment.drive import ANYWHERE, Run, Told, Truth
from skewscope.engine.attribution import Causes
from skewscope.engine.calibration import Heard

EARLY, LATE = 2.0, 10.0
"""Seconds before the beginning and after the end of a fault in which what is told may be about it."""
BINS = 10
SUSPECTED = "itself, as a suspicion"
SHARE_OF_ROUNDS = frozenset(
    {
        "rounds of the group",
        "speed of the job against before",
        "time of a round spent waiting for this rank",
        "time of a round for which others wait for somebody at worst",
        "time of a step that ranks wait at the barrier",
    }
)
"""What rules call it where their impact is the share of a job's rounds that are lost..."""
LONGER_ROUNDS = frozenset({"time of a round"})
"""...and where it is how much longer a round takes."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Roots that were told with about the same confidence."""

    told: int
    said: float
    """Mean confidence."""
    right: float
    """Share that was so."""


@dataclass
class Tally:
    """How one condition fared."""

    found: int = 0
    missed: int = 0
    wrong: int = 0
    """Incidents of this condition that nothing of the kind was behind."""
    placed: int = 0
    """Of those found, how many at the right place."""
    delays: list[float] = field(default_factory=list)
    by_severity: Counter[tuple[str, bool]] = field(default_factory=Counter)

    @property
    def precision(self) -> float:
        """Share of what was told that was so; NaN where nothing was."""
        told = self.found + self.wrong
        return self.found / told if told else float("nan")

    @property
    def recall(self) -> float:
        """Share of what was so that was told; NaN where nothing was."""
        there = self.found + self.missed
        return self.found / there if there else float("nan")

    @property
    def f1(self) -> float:
        """Harmonic mean of the two; NaN where the condition neither was nor was told."""
        total = 2 * self.found + self.missed + self.wrong
        return 2 * self.found / total if total else float("nan")

    @property
    def delay(self) -> float:
        """Median seconds from the beginning of a fault to its diagnosis."""
        return float(np.median(self.delays)) if self.delays else float("nan")


@dataclass
class Score:
    """How everything fared."""

    conditions: dict[str, Tally] = field(default_factory=dict)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(what was so, what was told instead); '' for nothing."""
    costs: list[tuple[float, float]] = field(default_factory=list)
    """(stated, true) share of its rounds that the job lost, where a rule states it and the truth is known."""
    sure: list[tuple[float, bool]] = field(default_factory=list)
    """Confidence of each root, suspicions among them, and whether it was so."""
    left_open: list[tuple[str, Told]] = field(default_factory=list)
    """What was told as one of several that cannot be told apart there, and which of the others it was.

    That is no error, and finds nothing."""
    quiet_node_days: float = 0.0
    alarms: list[tuple[str, Told]] = field(default_factory=list)
    """What was told in runs without a fault."""

    def of(self, condition: str) -> Tally:
        """The tally of a condition."""
        return self.conditions.setdefault(condition, Tally())

    def macro(self, what: str) -> float:
        """Mean of a measure over the conditions that were there, of those for which it is known."""
        there = (tally for tally in self.conditions.values() if tally.found + tally.missed)
        values = [value for tally in there if not np.isnan(value := getattr(tally, what))]
        return float(np.mean(values)) if values else float("nan")

    @property
    def whole_precision(self) -> float:
        """Share of everything told that was so."""
        found = sum(tally.found for tally in self.conditions.values())
        wrong = sum(tally.wrong for tally in self.conditions.values())
        return found / (found + wrong) if found + wrong else float("nan")

    @property
    def placed(self) -> float:
        """Share of what was found that was found at the right place."""
        found = sum(tally.found for tally in self.conditions.values())
        return sum(tally.placed for tally in self.conditions.values()) / found if found else float("nan")

    @property
    def delay(self) -> float:
        """Median delay of everything that was found."""
        delays = [delay for tally in self.conditions.values() for delay in tally.delays]
        return float(np.median(delays)) if delays else float("nan")

    @property
    def reliability(self) -> list[Bin]:
        """What was said with about the same confidence, and how much of it was so: ten bins of equal width."""
        bins = []
        for n in range(BINS):
            own = [(said, right) for said, right in self.sure if min(int(said * BINS), BINS - 1) == n]
            if own:
                said, right = (np.array(column, float) for column in zip(*own, strict=True))
                bins.append(Bin(len(own), float(said.mean()), float(right.mean())))
        return bins

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: how far confidence and truth lie apart in each bin, weighed by its size."""
        whole = sum(one.told for one in self.reliability)
        errors = (one.told * abs(one.said - one.right) for one in self.reliability)
        return sum(errors) / whole if whole else float("nan")

    @property
    def cost_error(self) -> float:
        """Median difference of the stated and the true share of its rounds that a job lost."""
        return float(np.median([abs(stated - true) for stated, true in self.costs])) if self.costs else float("nan")

    @property
    def alarms_bound(self) -> float:
        """False alarms in a node-day: the upper end of the 95 % interval (Poisson, exact)."""
        return upper_bound(len(self.alarms)) / self.quiet_node_days if self.quiet_node_days else float("nan")


def as_data(score: Score) -> dict[str, Any]:
    """The score as JSON has it; NaN is null."""
    each = {
        name: {
            "found": tally.found,
            "missed": tally.missed,
            "wrong": tally.wrong,
            "placed": tally.placed,
            **{what: _number(getattr(tally, what)) for what in ("precision", "recall", "f1", "delay")},
            "by_severity": {
                f"{s} {'found' if ok else 'missed'}": n for (s, ok), n in sorted(tally.by_severity.items())
            },
        }
        for name, tally in sorted(score.conditions.items())
    }
    confusion = [{"was": was, "told": told, "times": n} for (was, told), n in sorted(score.confusion.items())]
    return {
        **{f"macro_{what}": _number(score.macro(what)) for what in ("f1", "precision", "recall")},
        "placed": _number(score.placed),
        "delay": _number(score.delay),
        "calibration_error": _number(score.calibration_error),
        "cost_error": _number(score.cost_error),
        "costs_stated": len(score.costs),
        "reliability": [
            {"told": b.told, "said": _number(b.said), "right": _number(b.right)} for b in score.reliability
        ],
        "false_alarms": [
            {"run": run, "condition": told.condition, "entity": told.name, "opened": told.opened, "rule": told.rule}
            for run, told in score.alarms
        ],
        "left_open": [
            {"was": was, "told": told.condition, "candidates": list(told.candidates)} for was, told in score.left_open
        ],
        "quiet_node_days": score.quiet_node_days,
        "false_alarms_a_node_day_at_most": _number(score.alarms_bound),
        "conditions": each,
        "confusion": confusion,
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)


def upper_bound(events: int, level: float = 0.95) -> float:
    """The largest mean of a Poisson count that is not refuted by having seen so few events."""
    low, high = 0.0, events + 10.0 * np.sqrt(events + 1) + 10
    for _ in range(60):
        mean = (low + high) / 2
        terms = np.cumsum(np.concatenate(([0.0], np.log(mean) - np.log(np.arange(1, events + 1)))))
        if np.exp(terms - mean).sum() > 1 - level:
            low = mean
        else:
            high = mean
    return float(high)


def scored(runs: Iterable[Run]) -> Score:
    """The score of some runs."""
    score = Score()
    for one in runs:
        _take(one, score)
    return score


def _take(run: Run, score: Score) -> None:
    roots = [told for told in run.told if told.diagnosis]
    score.sure += [(told.confidence, _right(told, run)) for told in run.told if not told.root]
    used: set[int] = set()
    for truth in run.truths:
        own = _answer(truth, roots, used)
        tally = score.of(truth.condition)
        tally.by_severity[truth.severity, own is not None] += 1
        if own is None:
            tally.missed += 1
            score.confusion[truth.condition, _instead(truth, run.told)] += 1
            continue
        used.add(own)
        found = roots[own]
        tally.found += 1
        tally.placed += _at(truth, found)
        tally.delays.append(max(found.opened - truth.begin, 0.0))
        stated = _share_of_rounds(found)
        if not np.isnan(stated + truth.lost):
            score.costs.append((stated, truth.lost))
    for n, told in enumerate(roots):
        if n in used or _repeats(told, run.truths):
            continue
        if was := _left_open(told, run.truths):
            score.left_open.append((was, told))
            continue
        score.of(told.condition).wrong += 1
        if run.truths:
            score.confusion[_behind(told, run.truths), told.condition] += 1
    if not run.truths:
        score.quiet_node_days += run.nodes * run.lasts / 86400
        score.alarms += [(run.name, told) for told in roots]


def heard(runs: Iterable[Run], causes: Causes) -> list[Heard]:
    """What each rule said, and whether its condition was there: what a calibration is fitted to.

    Left out is what was rightly told as the effect of a fault that was there: that is no error of its rule.
    """
    return [
        Heard(told.rule, told.log_odds, _right(told, run))
        for run in runs
        for told in run.told
        if not (told.root and told.condition in causes.effects(told.root) and _there(told.root, told, run))
    ]


def _there(condition: str, told: Told, run: Run) -> bool:
    return any(condition == truth.condition and _during(truth, told) for truth in run.truths)


def _right(told: Told, run: Run) -> bool:
    """Whether it is what is told, or one of those from which it cannot be told apart."""
    return _there(told.condition, told, run) or bool(_left_open(told, run.truths))


def _left_open(told: Told, truths: Iterable[Truth]) -> str:
    """Which of what something may be as well it was, there and then; '' for none."""
    named = (truth for truth in truths if truth.condition in told.candidates)
    return next((truth.condition for truth in named if _during(truth, told) and _may_be_at(truth, told)), "")


def _answer(truth: Truth, roots: Sequence[Told], used: set[int]) -> int | None:
    """The first root that tells of a fault; one at the right place before others."""
    fits = [
        n
        for n, told in enumerate(roots)
        if n not in used and told.condition == truth.condition and _during(truth, told)
    ]
    return min(fits, key=lambda n: (not _at(truth, roots[n]), roots[n].opened), default=None)


def _share_of_rounds(told: Told) -> float:
    """The share of its rounds that a job loses, as an incident states it; NaN where it states something else."""
    size = abs(told.impact)
    return size / (1 + size) if told.metric in LONGER_ROUNDS else size if told.metric in SHARE_OF_ROUNDS else np.nan


def _during(truth: Truth, told: Told) -> bool:
    return truth.begin - EARLY <= told.opened <= truth.end + LATE


def _at(truth: Truth, told: Told) -> bool:
    return told.name in truth.names or ANYWHERE in truth.names


def _may_be_at(truth: Truth, told: Told) -> bool:
    """Whether a candidate may be where it was: there, at any member of a group, or where else the incident names it."""
    named = (name for condition, names in told.elsewhere if condition == truth.condition for name in names)
    return _at(truth, told) or not {*told.members, *named}.isdisjoint(truth.names)


def _repeats(told: Told, truths: Iterable[Truth]) -> bool:
    """A second incident of the same fault at the same place: it cleared between and came back."""
    return any(told.condition == t.condition and _during(t, told) and _at(t, told) for t in truths)


def _instead(truth: Truth, told: Iterable[Told]) -> str:
    """What was told while a fault that was missed was there."""
    during = [one for one in told if _during(truth, one)]
    if any(one.condition == truth.condition for one in during):
        root = next(one.root for one in during if one.condition == truth.condition)
        return f"{root} (folded)" if root else SUSPECTED
    unsure = [one for one in during if one.diagnosis and _left_open(one, [truth])]
    if unsure:
        return f"{unsure[0].condition}, or it"
    near = [one for one in during if one.diagnosis and _at(truth, one)] or [one for one in during if one.diagnosis]
    return min(near, key=lambda one: one.opened).condition if near else ""


def _behind(told: Told, truths: Iterable[Truth]) -> str:
    """What was so when something wrong was told."""
    during = [truth for truth in truths if _during(truth, told)]
    return during[0].condition if during else ""
