"""What must not happen in a trial of `bench.acting_trials`, checked against the router's own table."""

from collections.abc import Iterator
from typing import Any

from bench.trial_rig import MINIMUM, PROBE_EVERY_S, TrialRun
from bench.trial_scenarios import CRASH, EVENTS_S, KILL, RESTART_ROUTER, SETTLE_S, SPARE, SPEED, WORKERS

DEADLINE_S = 0.5
"""Seconds within which an answer is good: more than twice the healthy time, half of that of a slow worker."""
PROBES = 3
"""Probes in a row that find a member well before it is used again."""
SLACK_S = 8.0
"""Seconds that the controller may take beside: to read the state, and to be started anew after it was killed."""
NOISE = 0.03
"""Share of the answers by which two runs of one scenario may differ without a cause."""

Span = tuple[float, float]


def find_harm(run: TrialRun) -> tuple[str, ...]:
    """Returns what acting did that it must not do, one sentence each."""
    return (*_below_minimum(run), *_healthy_ones_out(run), *_left_behind(run), *_wrong_acts_praised(run))


def compare_answers(acting: TrialRun, observing: TrialRun) -> tuple[str, ...]:
    """Returns a sentence where fewer answers were good with acting than without."""
    here, there = good_share(acting), good_share(observing)
    return (f"{100 * here:.1f} % good answers, {100 * there:.1f} % without acting",) if here < there - NOISE else ()


def good_share(run: TrialRun) -> float:
    """Returns the share of the answers that came in time, of those due after the warm-up."""
    latencies = run.answers.between(0.0, EVENTS_S + SETTLE_S)
    return sum(latency <= DEADLINE_S for latency in latencies) / max(len(latencies), 1)


def list_out_spans(run: TrialRun, worker: str) -> Iterator[Span]:
    """Yields when a worker was out of use that no person took out, and that ran."""
    began: float | None = None
    for t, used in run.table:
        is_out = worker not in used and not _is_out_for_others(run, worker, t)
        if is_out and began is None:
            began = t
        elif not is_out and began is not None:
            yield began, t
            began = None
    if began is not None:
        yield began, EVENTS_S + SETTLE_S


def _is_out_for_others(run: TrialRun, worker: str, t: float) -> bool:
    """Returns whether a person, a crash or a restart explains that a worker is out."""
    changes = [is_used for at, name, is_used in run.by_hand if name == worker and at <= t + 1.0]
    if (not changes and worker == f"w{SPARE}") or (changes and not changes[-1]):
        return True
    number = int(worker[1:])
    crashes = [e.t for e in run.scenario.events if e.kind == CRASH and e.worker == number]
    restarts = [e.t for e in run.scenario.events if e.kind == RESTART_ROUTER]
    return any(at - 1.0 <= t < at + 8.0 for at in (*crashes, *restarts))


def _below_minimum(run: TrialRun) -> Iterator[str]:
    for worker in _workers():
        for start, _ in list_out_spans(run, worker):
            used = next(used for t, used in run.table if t >= start)
            if len(used) < MINIMUM:
                yield f"{worker} was taken out at {start:.0f} s: {len(used)} of {MINIMUM} were left"


def _healthy_ones_out(run: TrialRun) -> Iterator[str]:
    for worker in _workers():
        number = int(worker[1:])
        for start, end in list_out_spans(run, worker):
            ill = list(run.scenario.ill_spans(number))
            well_since = max([start, *(until for begin, until in ill if begin < end)])
            flaps = sum(begin < end for begin, _ in ill) - 1
            allowed = PROBES * PROBE_EVERY_S * 2 ** max(flaps, 0) + SLACK_S + _time_without_controller(run, start, end)
            if end - well_since > allowed:
                yield f"{worker}, well since {well_since:.0f} s, was out until {end:.0f} s, {allowed:.0f} s are allowed"


def _time_without_controller(run: TrialRun, start: float, end: float) -> float:
    return sum(10.0 for e in run.scenario.events if e.kind == KILL and start - 10.0 <= e.t <= end)


def _left_behind(run: TrialRun) -> Iterator[str]:
    live = ("proposed", "approved", "applying", "applied", "verified", "undoing")
    for action in run.actions:
        if action["state"] in live[2:]:
            yield f"{action['title']} is {action['state']} at the end: {action['history'][-1]['what']}"
    last = run.table[-1][1] if run.table else frozenset()
    for worker in _workers():
        if worker not in last and not _is_out_for_others(run, worker, EVENTS_S + SETTLE_S):
            yield f"{worker} is out at the end"


def _wrong_acts_praised(run: TrialRun) -> Iterator[str]:
    for action in run.actions:
        if action["started_at"] is not None and is_wrong(run, action) and action["outcome"] == "helped":
            yield f"{action['title']} at {action['started_at']:.0f} s counts as helped, and the member was well"


def is_wrong(run: TrialRun, action: dict[str, Any]) -> bool:
    """Returns whether an action changed a member that was well, and had been for a while."""
    number, t = int(action["change"]["member"][1:]), action["started_at"]
    return not any(run.scenario.is_ill(number, at) for at in (t, t - 5.0, t - 10.0))


def is_slower_hardware(run: TrialRun, number: int) -> bool:
    """Returns whether a worker is slower than the others for good."""
    return run.scenario.speeds.get(number, 1.0) < 0.9


def list_fault_delays(run: TrialRun) -> Iterator[float | None]:
    """Yields for each fault the seconds until its worker was out; None where it was not."""
    for number in range(WORKERS - 1):
        spans = list(list_out_spans(run, f"w{number}"))
        for start, end in run.scenario.ill_spans(number):
            inside = [begin - start for begin, until in spans if begin < end and until > start]
            yield max(min(inside), 0.0) if inside else None


def count_faults(run: TrialRun) -> int:
    """Returns the number of times that a worker became slow."""
    return sum(event.kind == SPEED and event.value < 0.9 for event in run.scenario.events)


def _workers() -> tuple[str, ...]:
    return tuple(f"w{number}" for number in range(WORKERS))
