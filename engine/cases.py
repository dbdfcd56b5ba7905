"""One incident while it lives, and how it is told."""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from skewscope.engine.confidence import CORROBORATED, RIVAL, probability
from skewscope.engine.incident import SEVERITIES, Advice, BlastRadius, Competing, Evidence, Impact, Incident
from skewscope.engine.places import Entity, Places
from skewscope.engine.tracks import Item, Voice
from skewscope.engine.verdict import UNKNOWN

MOST_COMPETING = 5
MOST_HISTORY = 200
WORDS = {-1: "no", 0: "unknown", 1: "yes"}


@dataclass(slots=True)
class Case:
    """An incident that the engine still thinks about."""

    condition: str
    leader: Entity
    """The entity that it is told on."""
    opened_at: float
    since: float
    voice: Voice
    """What spoke for it when it spoke loudest."""
    id: str = ""
    """Given when it opens and kept, should a louder entity take over."""
    resolved_at: float | None = None
    severity: int = 0
    agreeing: int = 0
    """How many further rules agree."""
    members: set[Entity] = field(default_factory=set)
    explained_by: str | None = None
    merged_into: str = ""
    rivals: dict[str, tuple[float, str]] = field(default_factory=dict)
    """By condition: how likely it is instead, and what would tell."""
    candidates: tuple[str, ...] = ()
    """Look-alikes and causes that cannot be judged here, for want of what their rules read."""
    elsewhere: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Which of them may be somewhere else, and the names of where they may be."""
    looks: int = 0
    """How often it was held against what else it could be where it is now."""
    compared_at: float = -math.inf
    """When it was last held against what else it could be..."""
    changed: bool = True
    """...and whether it is to be once more: it has spoken louder since, or has just come up."""
    rival: float = 0.0
    """The chance of the likeliest other root that fires here."""
    mitigations: tuple[Advice, ...] = ()
    flaps: int = 0
    moves: int = 0
    """How often it ended on one member of a group as it began on another."""
    history: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.id = self.id or name_of(self.condition, self.leader, self.opened_at)

    @property
    def open(self) -> bool:
        """Whether it fires."""
        return self.resolved_at is None

    @property
    def order(self) -> tuple[float, str]:
        """Sorts the oldest first."""
        return self.opened_at, self.id

    @property
    def log_odds(self) -> float:
        """How much its own evidence speaks for it, with what agrees."""
        return self.voice.log_odds + CORROBORATED * self.agreeing

    @property
    def confidence(self) -> float:
        """How sure it is."""
        worth = self.voice.info.calibration
        return probability(worth.root_shift + worth.root_scale * (self.log_odds - RIVAL * self.rival))

    def note(self, t: float, what: str) -> None:
        """Remember what happened; the middle of a long story is dropped, not its start or end."""
        self.history.append((t, what))
        if len(self.history) > MOST_HISTORY:
            del self.history[MOST_HISTORY // 2]


def name_of(condition: str, entity: Entity, opened_at: float) -> str:
    """A short id that depends on nothing but what, where and when."""
    text = f"{condition}|{entity.kind}|{entity.name}|{opened_at:.3f}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def told(case: Case, places: Places, root: str | None, blast: BlastRadius, under: Collection[str] = ()) -> Incident:
    """The incident as others see it. Advice stands with the root: what mends that mends what it explains.

    Args:
        case: the incident.
        places: the topology.
        root: the id of what explains it, None for a root.
        blast: whom it hits.
        under: the other conditions that it explains.
    """
    kind, name = places.shown(case.leader)
    voice = case.voice
    items = list(zip(voice.info.items, voice.verdicts, voice.values, strict=True))
    return Incident(
        id=case.id,
        condition=case.condition,
        kind=kind,
        name=name,
        state="firing" if case.open else "resolved",
        opened_at=case.opened_at,
        resolved_at=case.resolved_at,
        severity=SEVERITIES[case.severity],
        confidence=case.confidence,
        coverage=_share(voice.coverage),
        impact=Impact(voice.info.impact_metric, number(voice.impact), voice.info.impact_unit),
        blast_radius=blast,
        rule=voice.info.rule,
        rule_hash=voice.info.hash,
        also=also(case, places),
        evidence=tuple(_evidence(*item) for item in items if not item[0].against),
        against=tuple(_evidence(*item) for item in items if item[0].against),
        unseen=unseen(voice),
        candidates=case.candidates,
        elsewhere=case.elsewhere,
        competing=competing(_explained_away(case, under)),
        explained_by=root,
        mitigations=case.mitigations if root is None else (),
        flaps=case.flaps,
        moves=case.moves,
        history=tuple(case.history),
    )


def also(case: Case, places: Places) -> tuple[str, ...]:
    """Names of the others hit: its own kind, or what a pool or the fleet stands for."""
    own = places.shown(case.leader)[1]
    whole = case.leader.kind in ("pool", "fleet")
    names = {places.shown(m)[1] for m in case.members if whole or m.kind == case.leader.kind}
    return tuple(sorted(names - {own}))


def unseen(voice: Voice) -> tuple[str, ...]:
    """The signals of the items that could not be judged."""
    missing = zip(voice.info.items, voice.verdicts, strict=True)
    return tuple(sorted({signal for item, verdict in missing if verdict == UNKNOWN for signal in item.signals}))


def competing(rivals: Mapping[str, tuple[float, str]]) -> tuple[Competing, ...]:
    """The other diagnoses, likeliest first."""
    ranked = sorted(rivals.items(), key=lambda item: (-item[1][0], item[0]))
    return tuple(Competing(name, round(chance, 3), test) for name, (chance, test) in ranked[:MOST_COMPETING])


def _explained_away(case: Case, under: Collection[str]) -> dict[str, tuple[float, str]]:
    """The rivals, where one that this case explains is only left its chance of standing on its own."""
    left = 1.0 - case.confidence
    return {name: (p * left if name in under else p, test) for name, (p, test) in case.rivals.items()}


def _evidence(item: Item, verdict: int, value: float) -> Evidence:
    return Evidence(item.name, WORDS[verdict], item.weight, number(value), item.unit, item.expr)


def number(value: float) -> float | None:
    """A measured number with the digits that it has; None for none."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0


def final_root(case: Case, cases: Mapping[str, Case]) -> str | None:
    """The root at the end of a chain of explanations, always one that is told; None for a root."""
    seen = {case.id}
    root, last = case.explained_by, None
    while root is not None and root in cases and root not in seen:
        seen.add(root)
        last, root = root, cases[root].explained_by
    return last


def entities_of(cases: Iterable[Case]) -> set[Entity]:
    """All entities of some cases."""
    return {entity for case in cases for entity in (case.leader, *case.members)}
