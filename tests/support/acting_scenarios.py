"""Random scenarios for a simulated pool on which a controller acts: what happens to members, target and controller.

A scenario is drawn from its seed alone, so that it happens in the same way with acting and without.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

EVENTS_S = 240.0
"""Seconds in which things happen."""
FIRST_S = 45.0
"""Seconds before the first of them: members and controller have just started."""

SLOW, LIE, PROMPTS, HARDWARE = "slow", "lie", "long prompts", "other hardware"
"""Why a diagnosis accuses a member: it is slow; its own metrics say so and are wrong; its prompts are longer, which
nobody counts; it is slower for good."""
KILL, RESTART_TARGET, RESTART_MEMBER, REGISTER_ANEW = "kill", "restart the target", "restart", "restart as a new member"
DRAIN, READY = "drained by a person", "used again by a person"
FREEZE, FREEZE_ALL, THAW = "freeze", "freeze with undos", "thaw"
LEAVE, JOIN, RELOAD = "leaves", "joins", "reload"
CLOCK = "the clock is set back"


@dataclass(frozen=True, slots=True, order=True)
class ScenarioEvent:
    """Something that happens once."""

    t: float
    """Seconds since the start."""
    kind: str
    member: str = ""
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Accusation:
    """A span in which telemetry reports that a member is slow."""

    kind: str
    member: str
    start: float
    end: float
    speed: float
    """As a share of that of its hardware, as telemetry reports it; with SLOW it is the true one."""
    senders: tuple[str, ...]
    """On whose telemetry the diagnosis rests."""
    shows_past: bool
    """Whether its evidence compares the member with its own past; else with its peers alone."""

    @property
    def id(self) -> str:
        """The id of its incident."""
        return f"i-{self.member}-{self.start:.0f}-{self.kind[0]}"


@dataclass(frozen=True, slots=True)
class ActingScenario:
    """What happens in one simulation, and what the target can do."""

    seed: int
    members: tuple[str, ...]
    hardware: dict[str, float]
    """Speeds of members that are slower for good; all others have 1."""
    names_hardware: bool
    """Whether the topology says which hardware members have."""
    accusations: tuple[Accusation, ...]
    events: tuple[ScenarioEvent, ...]
    has_probe: bool
    counts_load: bool
    has_marks: bool
    """Whether the target keeps who drained a member."""
    lag: float
    """Most seconds after which the target does what it accepted."""
    failing: float
    """Share of calls and readings that are refused, or whose answer is lost."""
    ignoring: float
    """Share of the accepted calls that are never carried out."""
    judges_drained: bool
    """Whether the engine can judge a member that gets no work."""
    load: float
    """Demand as a share of what the least number of members can do that have to be left, were they all of the slowest
    hardware: routers give each the same work."""

    def slow_speed(self, member: str, t: float) -> float:
        """Returns the true speed of a running member at a time; 1 is that of the usual hardware."""
        spans = [each.speed for each in self.accusations if each.kind == SLOW and _covers(each, member, t)]
        return self.hardware.get(member, 1.0) * min(spans, default=1.0)

    def told_speed(self, member: str, t: float) -> float:
        """Returns the speed that telemetry reports, for prompts of the usual length."""
        spans = [each.speed for each in self.accusations if each.kind in (SLOW, LIE) and _covers(each, member, t)]
        return self.hardware.get(member, 1.0) * min(spans, default=1.0)

    def is_ill(self, member: str, t: float) -> bool:
        """Returns whether a member is slower than by its hardware."""
        return any(each.kind == SLOW and _covers(each, member, t) for each in self.accusations)

    def describe(self) -> str:
        """Returns the scenario in lines, for a person who has to explain what went wrong."""
        flags = ("has_probe", "counts_load", "has_marks", "lag", "failing", "judges_drained")
        head = ", ".join(f"{name} {getattr(self, name)}" for name in flags)
        accused = [
            f"{a.start:.0f}-{a.end:.0f} s {a.member}: {a.kind}, speed {a.speed}, by {', '.join(a.senders)}"
            for a in self.accusations
        ]
        events = [f"{e.t:.0f} s {e.kind} {e.member}".rstrip() for e in self.events]
        return "\n  ".join([head, f"{len(self.members)} members {self.hardware or ''}", *accused, *events])


def _covers(accusation: Accusation, member: str, t: float) -> bool:
    return accusation.member == member and accusation.start <= t < accusation.end


def draw_scenario(seed: int) -> ActingScenario:
    """Returns the scenario of a seed."""
    rng = random.Random(seed)
    members = tuple(f"r{n}" for n in range(rng.choice((3, 4, 4, 6))))
    hardware = {rng.choice(members): rng.choice((0.5, 0.7))} if rng.random() < 0.3 else {}
    accusations = [each for _ in range(rng.randint(1, 3)) for each in _draw_accusations(rng, members, hardware)]
    events = [each for _ in range(rng.randint(0, 4)) for each in _draw_events(rng, members)]
    has_marks = rng.random() < 0.5
    return ActingScenario(
        *(seed, members, hardware, rng.random() < 0.6),
        *(tuple(_separate(accusations)), tuple(sorted(events))),
        *(rng.random() < 0.7, rng.random() < 0.5, has_marks, rng.choice((0.0, 12.0)) if has_marks else 0.0),
        *(rng.choice((0.0, 0.05, 0.1)), rng.choice((0.0, 0.03)), rng.random() < 0.5, rng.uniform(0.7, 1.0)),
    )


def _separate(accusations: list[Accusation]) -> Iterator[Accusation]:
    """Yields the accusations of which no two of one member overlap."""
    ends: dict[str, float] = {}
    for each in sorted(accusations, key=lambda each: (each.start, each.member)):
        if each.start > ends.get(each.member, 0.0):
            ends[each.member] = each.end + 15.0
            yield each


def _draw_accusations(rng: random.Random, members: tuple[str, ...], hardware: dict[str, float]) -> Iterator[Accusation]:
    member, start = rng.choice(members), rng.uniform(FIRST_S, 150.0)
    kind = rng.choice((SLOW, SLOW, SLOW, SLOW, "flapping", "two", LIE, LIE, PROMPTS))
    speed, length = rng.choice((0.1, 0.2, 0.4, 0.6)), rng.choice((20.0, 45.0, 90.0))
    witness = rng.choice(((member,), (member, "n-other")))
    past = rng.random() < 0.7
    if hardware and rng.random() < 0.5:
        slower, share = next(iter(hardware.items()))
        yield Accusation(HARDWARE, slower, start, EVENTS_S, share, (slower, "n-other"), False)
    elif kind == "flapping":
        for n in range(3):
            yield Accusation(SLOW, member, start + 45 * n, start + 45 * n + 22, speed, witness, past)
    elif kind == "two":
        for each in rng.sample(members, 2):
            yield Accusation(SLOW, each, start, start + length, speed, witness, past)
            start += rng.uniform(0.0, 30.0)
    else:
        yield Accusation(kind, member, start, start + length, speed, witness, past)


def _draw_events(rng: random.Random, members: tuple[str, ...]) -> Iterator[ScenarioEvent]:
    t, member = rng.uniform(20.0, 200.0), rng.choice(members)
    kinds = (KILL, KILL, KILL, RESTART_TARGET, RESTART_MEMBER, REGISTER_ANEW, DRAIN, DRAIN, FREEZE, FREEZE_ALL)
    kind = rng.choice((*kinds, LEAVE, LEAVE, JOIN, JOIN, CLOCK, RELOAD))
    later = t + rng.uniform(5.0, 40.0)
    if kind in (LEAVE, JOIN):
        yield ScenarioEvent(t, kind, member if kind == LEAVE else f"r{rng.choice((10, 11))}")
        yield ScenarioEvent(t + rng.uniform(1.0, 15.0), RELOAD)
        return
    yield ScenarioEvent(t, kind, member, rng.uniform(10.0, 300.0))
    if kind == DRAIN:
        yield ScenarioEvent(later, READY, member)
    if kind in (FREEZE, FREEZE_ALL):
        yield ScenarioEvent(later, THAW)
