"""How far stated probabilities match what was right, of incidents and of their first candidates; and their scaling.

A label says as much as it can: where it accepts several conditions, the recording does not tell them apart. So a first
candidate is a class of conditions which the labels of a recording never tell apart, with the sum of their
probabilities, and the scaling is fitted to the probability of all that a label accepts.

Incidents that tell the same of one fault are one observation, as often as it came: where one delay was injected into a
pipeline a hundred times, that it was slow links is known once. In the fit they share a weight of one, and both curves
are drawn by these weights.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skewscope.adapters.assessment.runner import AssessmentRun, FaultLabel, ReportedIncident
from skewscope.adapters.assessment.score import expected_calibration_error, is_during, reliability_bins
from skewscope.engine.incidents.confidence import Calibration
from skewscope.engine.model.arrays import F64

LEAST = 1e-4
"""Probability below which a condition is not told from one that was rounded to zero."""
SCALES = np.linspace(0.05, 2.0, 40)
SHIFTS = np.linspace(-6.0, 6.0, 61)
SCALE_SPREAD, SHIFT_SPREAD = 0.3, 1.5
"""Standard deviations of the normal priors of scale and shift around those of the calibration that is known: what was
fitted to simulated telemetry holds as far as few recordings do not say otherwise. The worth of evidence differs less
between both than how often anything is wrong (judgement)."""
Outcomes = list[tuple[float, bool, float]]
"""Stated probability, whether it was right, and the weight: one for all that tell the same of one fault."""


@dataclass(frozen=True, slots=True)
class RootSample:
    """A root incident: what it may be, and what of that is right."""

    log_odds: tuple[float, ...]
    """Of the conditions that it lists against none of the catalogue, before scaling; last, of all others together."""
    accepted: tuple[bool, ...]
    """Whether a label there and then accepts each of them."""
    classes: tuple[int, ...]
    """Equal numbers for conditions that the labels do not tell apart."""
    own: int
    """Place of its own condition among them; -1 for a symptom."""
    is_labelled: bool
    """Whether anything was wrong when it opened."""
    is_certain_form: bool = True
    """Whether its findings are more than sums since counters began."""
    fault: str = ""
    """Equal for those of one origin that tell the same of what labels do not tell apart; '' for one by itself."""


def root_samples(runs: Iterable[AssessmentRun], known: Calibration) -> Iterator[RootSample]:
    """Yields the root incidents of runs, whose probabilities are by a known calibration."""
    for run in runs:
        for reported in run.incidents:
            if not reported.root and reported.none:
                yield _to_sample(reported, run.labels, known)


def _to_sample(reported: ReportedIncident, labels: Sequence[FaultLabel], known: Calibration) -> RootSample:
    around = [label for label in labels if is_during(label, reported)]
    names = [name for name, _ in reported.posterior]
    shares = [share for _, share in reported.posterior]
    shares.append(max(1.0 - reported.none - sum(shares), 0.0))
    odds = [math.log(max(share, LEAST) / reported.none) for share in shares]
    keys = [tuple(label.accepts(name) for label in labels) for name in names]
    numbers: dict[object, int] = {}
    classes = [numbers.setdefault(key if any(key) else n, len(numbers)) for n, key in enumerate(keys)]
    return RootSample(
        tuple((each - known.root_shift) / max(known.root_scale, LEAST) for each in odds),
        (*(any(label.accepts(name) for label in around) for name in names), False),
        (*classes, -1),
        -1 if reported.is_symptom else names.index(reported.condition),
        bool(around),
        not reported.is_symptom or not math.isclose(reported.confidence, known.finding_confidence(["total"])),
        f"{reported.condition}: {sorted({(label.condition, *label.or_else) for label in around})}",
    )


def weigh_faults(samples: Sequence[RootSample]) -> list[float]:
    """Returns the weight of each sample of an origin: those of one fault have one together."""
    times = Counter(one.fault for one in samples)
    return [1.0 / times[one.fault] if one.fault else 1.0 for one in samples]


def incident_outcomes(samples: Sequence[RootSample], known: Calibration) -> Outcomes:
    """Returns the confidence of incidents: of a diagnosis in its condition, of a symptom that something is wrong."""
    found = []
    for one, weight in zip(samples, weigh_faults(samples), strict=True):
        if one.own < 0:
            form = "" if one.is_certain_form else "total"
            found.append((known.finding_confidence([form]), one.is_labelled, weight))
        else:
            found.append((float(_probabilities(one, known)[one.own]), one.accepted[one.own], weight))
    return found


def candidate_outcomes(samples: Sequence[RootSample], known: Calibration) -> Outcomes:
    """Returns the probability of the first candidate of each incident during a fault, and whether it was right."""
    found = []
    for one, weight in zip(samples, weigh_faults(samples), strict=True):
        if not one.is_labelled or len(one.log_odds) < 2:
            continue
        shares: dict[int, float] = {}
        for number, share in zip(one.classes[:-1], _probabilities(one, known)[:-1].tolist(), strict=True):
            shares[number] = shares.get(number, 0.0) + share
        first = max(shares, key=lambda number: shares[number])
        is_right = any(a for a, n in zip(one.accepted, one.classes, strict=True) if n == first)
        found.append((shares[first], is_right, weight))
    return found


def _probabilities(one: RootSample, known: Calibration) -> F64:
    """Returns `[condition]` float64 probabilities under a calibration, the last of all others together."""
    weights = np.exp(known.root_shift + known.root_scale * np.array(one.log_odds))
    shares: F64 = weights / (1.0 + weights.sum())
    return shares


def fit_posterior(by_origin: Mapping[str, Sequence[RootSample]], known: Calibration) -> Calibration:
    """Returns a calibration whose scaling and findings match what was right; each fault counts the same.

    The scaling is a logistic one of two parameters on the log-odds, which are nats; it keeps candidates that are
    equally likely so.
    """
    total = sum(map(_log_likelihood, by_origin.values())) + _log_prior(known)
    scale, shift = np.unravel_index(np.argmax(total), total.shape)
    symptoms = [one for samples in by_origin.values() for one in samples if one.own < 0 and one.is_certain_form]
    right = sum(one.is_labelled for one in symptoms)
    finding = math.log((right + 1) / (len(symptoms) - right + 1))
    forms = {**known.forms, "": finding}
    return replace(known, root_shift=float(SHIFTS[shift]), root_scale=float(SCALES[scale]), forms=forms)


def _log_prior(known: Calibration) -> F64:
    scales, shifts = (SCALES - known.root_scale) / SCALE_SPREAD, (SHIFTS - known.root_shift) / SHIFT_SPREAD
    found: F64 = -0.5 * (scales**2)[:, None] - 0.5 * (shifts**2)[None, :]
    return found


def _log_likelihood(samples: Sequence[RootSample]) -> F64:
    """Returns `[scale, shift]` float64: log-probability of what labels accept; of none or another where they do not."""
    found = np.zeros((len(SCALES), len(SHIFTS)))
    for one, weight in zip(samples, weigh_faults(samples), strict=True):
        scaled = SCALES[:, None, None] * np.array(one.log_odds) + SHIFTS[None, :, None]
        weights = np.exp(scaled)
        total = 1.0 + weights.sum(axis=2)
        right = weights[:, :, list(one.accepted)].sum(axis=2) if any(one.accepted) else 1.0 + weights[:, :, -1]
        found += weight * np.log(right / total)
    return found


def leave_out(
    by_origin: Mapping[str, Sequence[RootSample]], known: Calibration, always: str = ""
) -> dict[str, tuple[Outcomes, Outcomes]]:
    """Returns outcomes of incidents and of first candidates by origin, each under a calibration of the other origins.

    Args:
        by_origin: the samples.
        known: the calibration whose rules' biases are kept.
        always: an origin that is part of every fit and is not judged, such as simulated telemetry.
    """
    found = {}
    for origin, samples in by_origin.items():
        if origin != always:
            rest = {name: some for name, some in by_origin.items() if name != origin}
            fitted = fit_posterior(rest, known)
            found[origin] = incident_outcomes(samples, fitted), candidate_outcomes(samples, fitted)
    return found


def page_lines(by_origin: Mapping[str, Sequence[RootSample]], known: Calibration) -> Iterator[str]:
    """Yields both reliability curves of samples under a calibration, as Markdown."""
    for title, outcomes in (("Incidents", incident_outcomes), ("First candidates", candidate_outcomes)):
        yield from curve_lines(title, [each for samples in by_origin.values() for each in outcomes(samples, known)])


def curve_lines(title: str, outcomes: Outcomes) -> Iterator[str]:
    """Yields a reliability curve as Markdown: stated probabilities in ten bins, and how often each was right."""
    pairs, weights = [(said, right) for said, right, _ in outcomes], [weight for *_, weight in outcomes]
    error, each = expected_calibration_error(pairs, weights), expected_calibration_error(pairs)
    yield from (f"## {title}", "", f"Expected calibration error {error:.3f}; {each:.3f} if each incident counts.", "")
    yield from ("| stated | incidents | faults | right | |", "|---|---|---|---|---|")
    for one in reliability_bins(pairs, weights):
        bar = "█" * round(20 * one.accuracy) or "·"
        yield f"| {one.mean_confidence:.2f} | {one.count} | {one.weight:.1f} | {one.accuracy:.2f} | `{bar}` |"
    yield ""
