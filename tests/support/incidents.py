"""A small cluster, a small catalogue and verdicts for the tests of attribution and incidents."""

from dataclasses import dataclass, replace

import numpy as np

from skewscope.engine.advice.advice import PolicyEvaluator
from skewscope.engine.incidents.alerts import Alert, EvidenceSnapshot, EvidenceSpec, RuleInfo
from skewscope.engine.incidents.tracker import IncidentTracker
from skewscope.engine.model.locality import Entity, LocalityIndex
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.engine.model.verdict import NO, UNKNOWN, YES, EvidenceBatch, RuleVerdict
from skewscope.kb.model import Catalogue, CausalLink, Condition, DpuCapability, Lookalike, Mitigation
from tests.support.policies import policy, program

NAMES = tuple(f"n{i}" for i in range(16))
GROUPS = ("A", "B", "C", "D")
CRITICAL = 2


def cluster() -> Topology:
    """Four groups of four nodes; A and B are behind leaf0, C and D behind leaf1; A and B are replicas of one pool."""
    nodes = tuple(
        Node(name, rack=f"r{i // 8}", gpus=8, ports=(Port(name, "ew", "east-west", switch=f"leaf{i // 8}"),))
        for i, name in enumerate(NAMES)
    )
    groups = tuple(
        Group(g, "tensor-parallel", NAMES[4 * i : 4 * i + 4], front_end=NAMES[4 * i]) for i, g in enumerate(GROUPS)
    )
    return Topology(nodes, groups, (Pool("lab", ("A", "B")),))


def condition(name, effects=(), lookalikes=()) -> Condition:
    """Returns a condition with links only."""
    return Condition(
        id=name,
        name=name,
        aliases=(),
        group="east-west",
        scope=(),
        phases=(),
        parallelism=(),
        kind="cause",
        what="",
        why=(),
        signature=(),
        causes=(),
        effects=tuple(CausalLink(e, "because") for e in effects),
        impacts=(),
        lookalikes=tuple(Lookalike(c, test) for c, test in lookalikes),
        mitigations=("rest",),
        observability=(),
        grade="A",
        maturity="stable",
    )


def catalogue() -> Catalogue:
    """lossy -> late -> backlog; throttled -> hot -> late; blind stands alone; late looks like bubble."""
    known = [
        condition("lossy", ["late"]),
        condition("late", ["backlog"], [("bubble", "who is late follows the stages")]),
        condition("backlog"),
        condition("throttled", ["hot"]),
        condition("hot", ["late"]),
        condition("bubble"),
        condition("blind"),
    ]
    rest = Mitigation("rest", "Rest", "", "scheduler", DpuCapability("no", ""), "", (), "", "low", "", "", "judgement")
    return Catalogue({c.id: c for c in known}, {}, {"rest": rest}, {})


def info(condition, rule="", hash_="h") -> RuleInfo:
    """Returns a rule with one required item, one optional item, and one against."""
    items = (
        EvidenceSpec("main", 3.0, required=True, expr="x > 1", unit="s", signals=("sig.main",), rising=True),
        EvidenceSpec("more", 2.0, expr="y > 1", signals=("sig.more",)),
        EvidenceSpec("other", 2.0, against=True, expr="z > 1", signals=("sig.other",)),
    )
    return RuleInfo(rule or f"{condition}-rule", condition, items, hash_, "wire.round_rate", "1")


RULES = {r.rule: r for r in [*(info(c) for c in sorted(catalogue().conditions)), info("late", "late-again")]}


@dataclass(frozen=True)
class Says:
    """The verdict and values of a rule on one entity."""

    fires: bool = True
    state: int = YES
    score: float = 5.0
    impact: float = -0.3
    severity: int = 1
    value: float = 2.0
    coverage: float = 1.0
    evidence: tuple[int, int, int] = (YES, YES, NO)


SPEAKS = Says()
SILENT = Says(fires=False, state=NO, score=0.0, impact=0.0, severity=0, evidence=(NO, NO, NO))
LOST = Says(fires=True, state=UNKNOWN, score=0.0, evidence=(UNKNOWN, UNKNOWN, UNKNOWN), coverage=0.0)


def verdict(condition, said, kind="rank", names=None, rule="", since=None) -> RuleVerdict:
    """Returns a rule's verdict on all entities; those not named are silent."""
    names = tuple(names or sorted({*said, *(f"{g}:{n}" for g, n in ranks())} if kind == "rank" else said))
    says = [said.get(name, SILENT) for name in names]
    told = EvidenceBatch(
        applies=np.ones(len(names), bool),
        score=np.array([s.score for s in says], np.float32),
        coverage=np.array([s.coverage for s in says], np.float32),
        evidence=np.array([s.evidence for s in says], np.int8).T.reshape(3, -1),
        values=np.array([[s.value, 1.0, 0.0] for s in says], np.float32).T.reshape(3, -1),
        impact=np.array([s.impact for s in says], np.float32),
        level=np.full(len(says), np.nan, np.float32),
        severity=np.array([s.severity for s in says], np.int8),
    )
    return RuleVerdict(
        rule=rule or f"{condition}-rule",
        kind=kind,
        names=names,
        firing=np.array([s.fires for s in says], bool),
        state=np.array([s.state for s in says], np.int8),
        since=np.array([np.nan if not s.fires or since is None else since for s in says]),
        get_evidence=lambda at, _numbers: told.select(at),
    )


def ranks():
    """Returns (group, member) of every rank."""
    return [(g, n) for i, g in enumerate(GROUPS) for n in NAMES[4 * i : 4 * i + 4]]


def track(condition, kind, name, says=SPEAKS) -> Alert:
    """Returns an alert that fires since 0 s."""
    rule = info(condition)
    voice = EvidenceSnapshot(rule, 0.0, says.score, says.coverage, says.impact, says.evidence, (says.value, 1.0, 0.0))
    return Alert(condition, Entity(kind, name), 0.0, {rule.rule: voice}, {rule.rule})


def incidents(**how) -> IncidentTracker:
    """Returns an incident tracker on the small cluster."""
    return IncidentTracker(RULES, catalogue(), cluster(), **how)


def places() -> LocalityIndex:
    """Returns the locality index of the small cluster."""
    return LocalityIndex(cluster())


N1, N2 = "A:n1", "A:n2"
UNSEEN = replace(LOST, fires=False)
LOUD, QUIET = Says(value=9.0), Says(value=2.0)


def play(script, engine=None, until=200, every=("late", "lossy", "backlog", "blind", "hot")) -> IncidentTracker:
    """Returns a tracker after a script: {(condition, entity): [(from, to, Says)]}, one tick a second."""
    engine = engine or incidents()
    for t in range(until):
        said = {}
        for (condition, name), spans in script.items():
            for start, end, says in spans:
                if start <= t < end:
                    said.setdefault(condition, {})[name] = says
        engine.step(float(t), [verdict(c, said.get(c, {})) for c in every])
    return engine


def lives(engine) -> list[tuple]:
    """Returns (condition, name, state, opened, resolved, root's condition) of every incident."""
    found = engine.list_incidents()
    by_id = {one.id: one for one in found}
    return [
        (
            one.condition,
            one.name,
            one.state,
            one.opened_at,
            one.resolved_at,
            by_id[one.explained_by.id].condition if one.explained_by else None,
        )
        for one in found
    ]


LATE = {"fact": "diagnosis", "condition": "late"}
REST = policy(
    id="rest",
    when=[LATE, {"fact": "topology", "entity": "same", "members": {"at_least": 3}}],
    unless={"fact": "maintenance", "entity": "same"},
    advise={"mitigation": "rest", "why": "{entity} suffers from {condition}."},
)
MORE = policy(
    id="swap", when=[{**LATE, "severity": "critical"}], advise={"mitigation": "swap", "why": "It is bad."}, priority=1
)
DERIVE = policy(id="it-is-blind", when=[{**LATE, "severity": "critical"}], derive={"diagnosis": "blind"})


def advised(*policies) -> IncidentTracker:
    """Returns an incident tracker on the small cluster, with policies."""
    return incidents(policies=PolicyEvaluator(program(*policies)))
