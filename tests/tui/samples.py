"""Small fixed incidents, snapshots and replay results."""

from dataclasses import replace
from functools import cache

import numpy as np

from skewscope.adapters.runtime.replay import ReplayResult
from skewscope.adapters.runtime.runtime import Snapshot
from skewscope.adapters.view.builder import ViewHistory, build_peer_sets, peer_statistics
from skewscope.adapters.view.snapshot import (
    EvidenceRow,
    RuleHealth,
    SeriesIndex,
    SeriesInfo,
    SignalView,
    SourceState,
    ViewFrame,
    ViewSnapshot,
)
from skewscope.engine.model.incident import (
    Advice,
    BlastRadius,
    CompetingCondition,
    Explanation,
    Impact,
    Incident,
    IncidentEvidence,
)
from skewscope.engine.model.topology import Group, Node, Port, Topology
from skewscope.kb.model import (
    Catalogue,
    CausalLink,
    Claim,
    Condition,
    DpuCapability,
    Lookalike,
    Mitigation,
    Observability,
    Signal,
    SignatureItem,
    Source,
    Symptom,
    TargetChange,
)

T0 = 1795177128.0  # 2026-11-20 12:18:48 UTC


ROOT = Incident(
    id="tp-straggler@n2#1",
    condition="tp-straggler",
    kind="rank",
    name="n2",
    also=(),
    state="firing",
    opened_at=T0 + 25,
    resolved_at=None,
    severity="critical",
    confidence=0.938,
    coverage=0.92,
    impact=Impact("time of a round", 1.48, "1", 0.0087, 0.0216, "s"),
    blast_radius=BlastRadius(nodes=1, groups=1),
    rule="tp-straggler-on-the-wire",
    rule_hash="5d2ac1a9e0f37b6655aa",
    input_hash="77aa01b2c3d4e5f60718",
    evidence=(
        IncidentEvidence("late", "yes", 3, 0.0124, "s", "peer_z(wire.onset_lag) > 4 and wire.onset_lag > 2*ms"),
        IncidentEvidence("same_rank", "yes", 2, 0.97, "1", "mean(wire.last_sender_share, 4*s) > 60*percent"),
        IncidentEvidence("slower", "no", 1, -0.021, "1", "change(wire.round_rate, 20*s) < -15*percent"),
        IncidentEvidence("throttled", "unknown", 1, None, "1", "gpu.clock_ratio < 80*percent"),
    ),
    against=(
        IncidentEvidence("congested", "no", 2, 0.0, "1", "wire.ecn_ce_ratio > 1*percent"),
        IncidentEvidence("lossy", "yes", 1, 0.006, "1", "wire.retransmit_ratio > 0.5*percent"),
    ),
    unseen=("gpu.clock_ratio",),
    competing=(CompetingCondition("fabric-congestion", 0.31, "CNP, ECN and round-trip time rise together"),),
    mitigations=(
        Advice("drain-rank", "scheduler", "one rank is late in every round"),
        Advice("reshard", "scheduler", ""),
    ),
    history=((T0 + 23, "pending"), (T0 + 25, "firing")),
)
CHILD = replace(
    ROOT,
    id="pp-bubble@B#1",
    condition="pp-bubble",
    kind="group",
    name="B",
    opened_at=T0 + 31,
    severity="warning",
    confidence=0.66,
    impact=Impact("wire.round_rate", None, "1"),
    explained_by=Explanation(ROOT.id, "caused"),
    evidence=ROOT.evidence[:1],
    against=(),
    unseen=(),
    competing=(),
    mitigations=(),
    coverage=1.0,
)
ENDED = replace(
    CHILD,
    id="burst-admission-backlog@fe#1",
    condition="burst-admission-backlog",
    kind="replica",
    name="r1",
    also=("r2", "r3"),
    state="resolved",
    opened_at=T0 + 10,
    resolved_at=T0 + 41.2,
    severity="warning",
    confidence=0.88,
    impact=Impact("ttft_p99", 0.412, "s"),
    explained_by=None,
    flaps=2,
)
INCIDENTS = (ROOT, CHILD, ENDED)
SYMPTOM = replace(
    ROOT,
    id="slow-steps@B#1",
    category="symptom",
    condition="slow-steps",
    kind="group",
    name="B",
    opened_at=T0 + 40,
    severity="warning",
    confidence=0.71,
    coverage=1.0,
    impact=Impact("step.duration", None, "1"),
    rule="",
    rule_hash="",
    evidence=(IncidentEvidence("step.duration", "yes", 1, 2.7, "s", "step.duration"),),
    against=(),
    unseen=("gpu.sm_clock",),
    competing=(),
    mitigations=(),
    candidates=("tp-straggler", "fabric-congestion", "burst-admission-backlog", "pp-bubble"),
    probabilities=(0.46, 0.21, 0.004, 0.003),
    decides="gpu.sm_clock",
    summary="Steps of group B take 1.9 times as long since 12:19:28: 2.7 s, 1.44 s before.",
)
EXPLAINED_SYMPTOM = replace(SYMPTOM, id="slow-steps@A#1", name="A", explained_by=Explanation(ROOT.id, "caused"))
ABNORMAL = (*INCIDENTS, SYMPTOM, EXPLAINED_SYMPTOM)
"""Incidents with two symptoms, one of them explained by a diagnosis."""

TOPOLOGY = Topology(
    nodes=tuple(Node(f"n{i}", "r1", 8, ("east-west",), (Port(f"n{i}", "ew", "east-west"),)) for i in range(8)),
    groups=(Group("A", "tensor-parallel", ("n0", "n1", "n2", "n3")),),
)
SOURCES = (
    SourceState("packets", "ports", 7, 8, 0.1, "silent: n1/ew"),
    SourceState("node telemetry", "nodes", 8, 8, 0.4),
    SourceState("GPU telemetry", "GPU nodes", 0, 8, None),
)
MISSING = ("No packets from n1/ew: rounds, loss, round trips and request timing are unknown there.",)


def snapshot(after: float, incidents: tuple[Incident, ...] = (), *, end: float = 100.0) -> Snapshot:
    return Snapshot(T0 + after, T0, T0 + end, incidents, SOURCES, MISSING)


def outcome(incidents: tuple[Incident, ...] = INCIDENTS, *, samples: int = 1_012_345) -> ReplayResult:
    """Returns a result that is healthy at first and has the incidents from the second snapshot on."""
    shots = (snapshot(1), snapshot(50, incidents), snapshot(75, incidents), snapshot(100, incidents))
    return ReplayResult(
        incidents,
        shots,
        TOPOLOGY,
        (),
        {"up: no signal of this name": 8, "go_threads: no signal of this name": 3},
        100.0,
        samples,
        ("wire.onset_lag", "wire.rtt"),
        judged=("wire.onset_lag", "wire.rtt"),
        moments=100,
    )


FRAMES = 100
"""Seconds of series in a snapshot."""
NAMES = tuple(f"A:n{n}" for n in range(4))


def series() -> SeriesIndex:
    """Returns series: lateness of the ranks of A, round trips of all ports, a queue."""
    ranks = [SeriesInfo("wire.onset_lag", "rank", name, "", "s", 0) for name in NAMES]
    ports = [SeriesInfo("wire.rtt", "port", f"n{n}/ew", "tx", "s", 1) for n in range(8)]
    pairs = [
        SeriesInfo("wire.peer_bytes", "peer", f"n{a}/ew>n{b}/ew", "", "By", 2)
        for a in range(4)
        for b in range(4)
        if a != b
    ]
    return SeriesIndex((*ranks, *ports, *pairs, SeriesInfo("serve.waiting", "replica", "A", "", "{request}", -1)))


@cache
def frames(end: float, *, late: bool = True) -> tuple[ViewFrame, ...]:
    """Returns frames in which n2 becomes late and the port of n7 is silent."""
    size = len(series().series)
    out = []
    for back in range(FRAMES - 1, -1, -1):
        t = end - back
        value = 0.001 + 0.0001 * np.sin(np.arange(size) * 7 + t).astype(np.float32)
        value[12:24] = 6.5e6
        value[2] += 0.0112 * float(late and t > T0 + 25)
        value[-1] = 3
        age, stale = np.full(size, 0.4, np.float32), np.zeros(size, bool)
        age[11], stale[11] = 75.0, True
        usual, deviation = np.full(size, 0.001, np.float32), np.full(size, 0.0002, np.float32)
        usual[12:24], deviation[12:24], usual[-1], deviation[-1] = 6.5e6, 1e5, 2.5, 1.0
        said = {}
        if late and t > T0 + 25:
            key = ("tp-straggler-on-the-wire", "rank", "n2")
            said[key] = EvidenceRow(5.0, 0.9, (1, 1, -1, 0, -1, 1), (0.0124, 0.97, -0.02, float("nan"), 0.0, 0.006))
        peers = peer_statistics(build_peer_sets(series().series), np.where(stale, np.nan, value))
        out.append(ViewFrame(t, value, usual, deviation, *peers, age, stale, said))
    return tuple(out)


RULES = (
    RuleHealth("tp-straggler-on-the-wire", "tp-straggler", 8, firing=1),
    RuleHealth("pp-bubble-on-the-wire", "pp-bubble", 2, firing=1, suppressed=1),
    RuleHealth("fabric-congestion-at-a-port", "fabric-congestion", 8),
    RuleHealth(
        "gpu-fail-slow-of-a-rank", "burst-admission-backlog", 8, unknown=8, missing_signals=("gpu.clock", "gpu.power")
    ),
)
TERMS = {"tp-straggler-on-the-wire": ("late", "same_rank", "slower", "throttled", "congested", "lossy")}


def scene(shot: Snapshot, topology: Topology = TOPOLOGY) -> ViewSnapshot:
    """Returns a snapshot without its frames."""
    known = frozenset(s.signal for s in series().series)
    return ViewSnapshot(
        shot.time, shot.start, shot.end, topology, shot.incidents, shot.sources, shot.missing, RULES,
        SignalView(series(), ()), known, TERMS,
    )  # fmt: skip


def film(incidents: tuple[Incident, ...] = INCIDENTS, *, live: bool = False, **more: object) -> ViewHistory:
    """Returns a history that is healthy at first, then has the incidents."""
    found = ViewHistory(TOPOLOGY, live=live)
    for frame in frames(T0 + 100):
        there = incidents if frame.time >= T0 + 50 else ()
        found.add(replace(scene(snapshot(frame.time - T0, there)), **more), frame)
    return found


def empty(topology: Topology = TOPOLOGY, sources: tuple[SourceState, ...] = (), **more: object) -> ViewHistory:
    """Returns a history of a fleet without telemetry."""
    found = ViewHistory(topology, live=True)
    nothing = np.empty(0, np.float32)
    one = ViewFrame(T0 + 1, *[nothing] * 6, np.empty(0, bool))
    made = ViewSnapshot(T0 + 1, T0, T0 + 1, topology, sources=sources, missing=MISSING if sources else ())
    found.add(replace(made, **more), one)
    return found


def many(count: int = 1000) -> tuple[Incident, ...]:
    """Returns a history with `count` incidents."""
    return tuple(
        replace(ROOT, id=f"x{n}", name=f"n{n}", opened_at=T0 + n / 100, explained_by=None) for n in range(count)
    )


def healthy() -> ReplayResult:
    return replace(outcome(()), unmapped={})


SENTENCES = {"tp-straggler": "{where} holds up {group}: every rank waits for it"}


def _condition(id_: str, name: str) -> Condition:
    return Condition(
        sentence=SENTENCES.get(id_, ""),
        id=id_,
        name=name,
        aliases=("slow rank",),
        group="east-west",
        scope=("training", "inference"),
        phases=("decode",),
        parallelism=("TP",),
        kind="cause",
        what="One member of a group is late in every round, and all the others wait for it.",
        why=("a throttled GPU",),
        signature=(SignatureItem("wire.onset_lag", "up", "peers", "always"),),
        causes=(),
        effects=(CausalLink("pp-bubble", "the next stage waits as well"),),
        impacts=(Claim("42.5 % of the jobs were at least 10 % slower", "lin2025whatif", "full text", "3,079 jobs"),),
        lookalikes=(Lookalike("fabric-congestion", "ECN and round-trip time rise"),),
        mitigations=("drain-rank", "reshard"),
        observability=(Observability("east-west", "partial", "only where the group crosses nodes", "inference"),),
        grade="A",
        maturity="incubating",
    )


def catalogue() -> Catalogue:
    names = {
        "tp-straggler": "Tensor-parallel straggler",
        "pp-bubble": "Pipeline bubble",
        "burst-admission-backlog": "Burst admission backlog",
        "fabric-congestion": "Fabric congestion",
    }
    claim = Claim("1.58 times the throughput", "wu2025greyhound", "full text")
    drain = Mitigation(
        id="drain-rank",
        name="Drain the rank",
        what="Take the node out of the group.",
        actor="scheduler",
        dpu=DpuCapability("part", "It tells the scheduler."),
        effect="the group runs at the pace of the others",
        claims=(claim,),
        cost="one node less",
        risk="medium",
        undo="put it back",
        verify="wire.onset_lag falls below 2 ms",
        changes=(TargetChange("drain", "node"),),
        basis="judgement",
    )
    source = Source("lin2025whatif", "What if", "Lin et al.", 2025, "paper", "full text", "arXiv:2505.05713")
    conditions = {id_: _condition(id_, name) for id_, name in sorted(names.items())}
    lag = Signal(
        "wire.onset_lag", "Lateness of a member", "s", "gauge", "rank", ("east-west",), "direct", {"skewscope": ("x",)}
    )
    clock = Signal("gpu.sm_clock", "Clock of the SMs", "Hz", "gauge", "gpu", ("gpu",), "direct", {"dcgm": ("y",)})
    what = "A step takes longer than before."
    steps = Symptom("slow-steps", "Work takes longer", what, "warning", "{signal}", ("time-per-work",), "ours")
    return Catalogue(
        conditions, {clock.id: clock, lag.id: lag}, {"drain-rank": drain}, {"lin2025whatif": source},
        symptoms={steps.id: steps}, version="1.0.0",
    )  # fmt: skip
