"""Scenarios for `bench.acting_trials`: what happens to router, workers, metrics and controller, and when."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

WORKERS = 4
"""The last one is a spare: out of use until a scenario scales out."""
SPARE = WORKERS - 1
EVENTS_S, SETTLE_S, WARM_UP_S = 80.0, 45.0, 40.0
"""Seconds in which things happen, in which everything has to end, and of load before."""

SPEED, LIE, LONG_PROMPTS, HIDE_PROMPTS = "speed", "lie", "long prompts", "hide prompts"
KILL, RESTART_ROUTER, RELOAD, CRASH = "kill the controller", "restart the router", "reload", "crash"
DRAIN, READY = "drained by a person", "used again by a person"


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """Something that happens, seconds after the end of the warm-up."""

    t: float
    kind: str
    worker: int = 0
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens in one trial."""

    name: str
    events: tuple[Event, ...]
    speeds: dict[int, float] = field(default_factory=dict)
    """Speeds of workers on other hardware, which hold from the start."""

    def ill_spans(self, worker: int) -> Iterator[tuple[float, float]]:
        """Yields when a worker is slower than it is by its hardware."""
        healthy, began = self.speeds.get(worker, 1.0), None
        for event in sorted(self.events):
            if event.kind == SPEED and event.worker == worker:
                is_ill = event.value < 0.9 * healthy
                if is_ill and began is None:
                    began = event.t
                elif not is_ill and began is not None:
                    yield began, event.t
                    began = None
        if began is not None:
            yield began, float("inf")

    def is_ill(self, worker: int, t: float) -> bool:
        """Returns whether a worker is slow at a time."""
        return any(start <= t < end for start, end in self.ill_spans(worker))


def slow(worker: int, start: float, end: float, speed: float = 0.2) -> tuple[Event, Event]:
    """Returns the events of a worker that is slow for a while."""
    return Event(start, SPEED, worker, speed), Event(end, SPEED, worker, 1.0)


def flap(worker: int, start: float, times: int) -> tuple[Event, ...]:
    """Returns the events of a worker that is slow for 20 s and well for 20 s in turns."""
    return tuple(event for n in range(times) for event in slow(worker, start + 40 * n, start + 40 * n + 20))


NAMED: tuple[Scenario, ...] = (
    Scenario("one slow", slow(2, 5, 50)),
    Scenario("router restarts while one is out", (*slow(2, 5, 70), Event(30, RESTART_ROUTER))),
    Scenario("killed while one is out, which recovers", (*slow(2, 5, 25), Event(22, KILL))),
    Scenario("killed before it acts", (*slow(2, 5, 50), Event(9, KILL))),
    Scenario("slower hardware", (), {2: 0.4}),
    Scenario("long prompts of unknown length", (Event(0, HIDE_PROMPTS), Event(5, LONG_PROMPTS, 2, 4000.0))),
    Scenario("metrics report times five", (Event(5, LIE, 2, 5.0), Event(60, LIE, 2, 1.0))),
    Scenario("two of three slow", (*slow(1, 5, 55), *slow(2, 5, 55, 0.1))),
    Scenario("a second one while one is out", (*slow(2, 5, 70), *slow(1, 30, 60))),
    Scenario("flapping", flap(2, 5, 2)),
    Scenario("a person drains another one", (*slow(2, 10, 60), Event(5, DRAIN, 1), Event(65, READY, 1))),
    Scenario("scaled out and in", (Event(5, READY, SPARE), *slow(2, 15, 55), Event(70, DRAIN, SPARE))),
    Scenario("crash", (Event(5, CRASH, 1), *slow(2, 25, 60))),
    Scenario("reload while one is out", (*slow(2, 5, 50), Event(30, RELOAD))),
    Scenario("nothing", ()),
)


def draw_scenario(seed: int) -> Scenario:
    """Returns a random scenario: one to three faults or lies, and up to three things that get in between."""
    source = random.Random(seed)
    events: list[Event] = []
    for _ in range(source.randint(1, 3)):
        events += _draw_fault(source)
    for _ in range(source.randint(0, 3)):
        events += _draw_interference(source)
    speeds = {source.randrange(SPARE): source.choice((0.4, 0.6, 1.5))} if source.random() < 0.25 else {}
    if speeds:
        events = [event for event in events if event.worker not in speeds or event.kind != SPEED]
    return Scenario(f"seed {seed}", tuple(sorted(events)), speeds)


def _draw_fault(source: random.Random) -> tuple[Event, ...]:
    worker, start = source.randrange(SPARE), source.uniform(2, 30)
    end = start + source.choice((10.0, 25.0, 45.0))
    kind = source.choice(("slow", "slow", "slow", "flap", "lie", "prompts"))
    if kind == "slow":
        return slow(worker, start, end, source.choice((0.1, 0.2, 0.4)))
    if kind == "flap":
        return flap(worker, start, 2)
    if kind == "lie":
        return Event(start, LIE, worker, source.choice((3.0, 8.0))), Event(end, LIE, worker, 1.0)
    hides = (Event(0, HIDE_PROMPTS),) if source.random() < 0.5 else ()
    return *hides, Event(start, LONG_PROMPTS, worker, 4000.0), Event(end, LONG_PROMPTS, worker, 0.0)


def _draw_interference(source: random.Random) -> tuple[Event, ...]:
    t, worker = source.uniform(2, 60), source.randrange(SPARE)
    kind = source.choice((KILL, KILL, RESTART_ROUTER, RELOAD, CRASH, DRAIN, "scale"))
    if kind == DRAIN:
        return Event(t, DRAIN, worker), Event(t + source.uniform(5, 20), READY, worker)
    if kind == "scale":
        return Event(t, READY, SPARE), Event(min(t + 30, EVENTS_S), DRAIN, SPARE)
    return (Event(t, kind, worker),)
