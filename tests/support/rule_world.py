"""Signals, a topology and ticks for tests of rules and of their evaluation."""

from collections.abc import Mapping, Sequence

import numpy as np

from skewscope.engine.features.evaluator import Evaluator
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.ingest.series_state import SeriesState
from skewscope.engine.judge.rule_detector import RuleDetector
from skewscope.engine.model.entities import EntityIndex
from skewscope.engine.model.topology import Group, Node, Pool, Port, Topology
from skewscope.engine.model.verdict import RuleVerdict
from skewscope.kb.model import Catalogue, Condition, Lookalike, Signal, SignatureItem, Source
from skewscope.kb.yamlfile import parse as yaml
from skewscope.rules.entity_kinds import PEER_DEFAULTS
from skewscope.rules.expression import Expr, Peers
from skewscope.rules.language import ExpressionContext, compile_expression
from skewscope.rules.loader import parse
from skewscope.rules.model import Rule


def signal(name: str, unit: str, kind: str = "gauge", entity: str = "rank", **more) -> Signal:
    return Signal(name, name, unit, kind, entity, more.pop("vantage", ("east-west",)), "direct", {}, **more)


SIGNALS = {
    s.id: s
    for s in (
        signal("wire.onset_lag", "s"),
        signal("wire.last_sender_share", "1"),
        signal("wire.round_rate", "1/s", entity="group"),
        signal("wire.round_period", "s", entity="group"),
        signal("wire.ecn_ce_ratio", "1", entity="port"),
        signal("wire.rtt", "s", entity="port"),
        signal("wire.requests", "{request}", "counter", "node", fold="sum"),
        signal("wire.open_streams", "{stream}", entity="node"),
        signal("wire.peer_rtt", "s", entity="peer"),
        signal("port.tx_bytes", "By", "counter", "port", fold="sum"),
        signal("port.rx_bytes", "By", "counter", "port", fold="sum"),
        signal("port.rx_discards", "{packet}", "counter", "port", fold="sum", width_bits=32),
        signal("port.pause_time", "us", "counter", "priority", fold="sum"),
        signal("port.depth", "{packet}", "gauge", "priority", fold="sum"),
        signal("gpu.util", "%", entity="gpu", vantage=("gpu",)),
        signal("gpu.temperature", "Cel", entity="gpu", vantage=("gpu",)),
        signal("host.load", "1", entity="node", vantage=("host",)),
        signal("serve.waiting", "{request}", entity="engine", vantage=("serving",)),
        signal("serve.ttft", "s", "histogram", "engine", vantage=("serving",)),
        signal("switch.queue", "By", entity="link", vantage=("fabric",)),
    )
}


def condition(name: str, *lookalikes: str, signature: tuple[str, ...] = ()) -> Condition:
    looks = tuple(Lookalike(look, "look closer") for look in lookalikes)
    shown = tuple(SignatureItem(id_, "up", "peers", "usually") for id_ in signature)
    return Condition(
        name,
        name,
        (),
        "east-west",
        (),
        (),
        (),
        "fault",
        "",
        (),
        shown,
        (),
        (),
        (),
        looks,
        (),
        (),
        "strong",
        "stable",
    )


CATALOGUE = Catalogue(
    {
        c.id: c
        for c in (condition("tp-straggler", "fabric-loss", signature=("wire.onset_lag",)), condition("fabric-loss"))
    },
    SIGNALS,
    {},
    {"a-paper": Source("a-paper", "A paper", "Someone", 2025, "paper", "full text", "arXiv:0000.00000")},
)

RULE = """\
id: late-rank
title: One rank is late
description: Compares the lag of each rank with its peers and concludes that one is late.
condition: tp-straggler
maturity: incubating
vantage: dpu
scope: rank
warm_up: 2*s
applies_when: peers() >= 3
evidence:
  - name: late
    for: 3
    required: true
    when: peer_z(wire.onset_lag) > 4 and wire.onset_lag > 2*ms
    why: It says so.
    basis: paper
    source: a-paper
  - name: slower
    for: 1
    when: change(wire.round_rate, 8*s) < -15*percent
    why: A guess.
  - name: congested
    against: 2
    when: highest(wire.ecn_ce_ratio[east_west]) > 1*percent
    why: A guess.
fire: {score: 3, hold: 2*s}
clear: {score: 1, hold: 3*s}
impact: {metric: rounds per second, change: "-change(wire.round_rate, 8*s)"}
severity: {warning: 5*percent, critical: 20*percent}
"""


def rule(text: str = RULE, **edits: str) -> Rule:
    """Returns the rule of a text, with the lines of some fields replaced."""
    found, problems = parse(yaml(edited(text, **edits), "rules/late-rank.yaml"), CATALOGUE, "")
    assert found is not None, "\n".join(map(str, problems))
    return found


def edited(text: str = RULE, **edits: str) -> str:
    """Returns the text with the lines of some fields replaced; '' drops the field."""
    for name, value in edits.items():
        lines = [line for line in text.splitlines() if not line.startswith(f"{name}:")]
        text = "\n".join([*lines, f"{name}: {value}"] if value else lines) + "\n"
    return text


def expr(text: str, scope: str = "rank", wants: str = "truth", **more) -> Expr:
    """Returns the tree of a valid text."""
    peers = more.pop("peers", Peers(scope, PEER_DEFAULTS[scope]))
    found, faults = compile_expression(text, ExpressionContext(SIGNALS, scope, peers, **more), wants)
    assert found is not None, faults
    return found


def faults(text: str, scope: str = "rank", wants: str = "truth") -> str:
    """Returns all problems of a text as one string."""
    _, found = compile_expression(text, ExpressionContext(SIGNALS, scope, Peers(scope, PEER_DEFAULTS[scope])), wants)
    return "\n".join(f"{fault.column}: {fault.found} / {fault.expected} / {fault.hint}" for fault in found)


def topology(groups: int = 2, size: int = 4, gpus: int = 2) -> Topology:
    """Returns tensor-parallel groups A, B, ... of nodes n0, n1, ... with two ports each, and a pool of all."""
    nodes = tuple(
        Node(
            f"n{n}",
            rack=f"r{n // 4}",
            gpus=gpus,
            ports=(
                Port(f"n{n}", "ns", "north-south", 1e9),
                Port(f"n{n}", "ew", "east-west", 2e9, switch=f"leaf{n % 2}"),
            ),
        )
        for n in range(groups * size)
    )
    made = tuple(
        Group(chr(65 + g), "tensor-parallel", tuple(f"n{n}" for n in range(g * size, g * size + size)), f"n{g * size}")
        for g in range(groups)
    )
    return Topology(nodes, made, (Pool("lab", tuple(group.name for group in made)),))


class Lab:
    """Expressions on a topology, fed by `tick({(signal, kind, entity, selector): value})`."""

    def __init__(self, texts: Sequence[str], scope: str = "rank", wants: str = "number", **more) -> None:
        self.topology = more.pop("topology", None) or topology()
        self.tick_length = more.pop("tick", 1.0)
        self.exprs = [expr(text, scope, wants, **more) for text in texts]
        self.entities = EntityIndex(self.topology)
        wanted = {name for e in self.exprs for name in e.signals}
        self.panel = SeriesState(SIGNALS, self.entities, wanted, self.tick_length)
        self.evaluator = Evaluator(self.exprs, self.panel, self.entities)
        self.table = SeriesTable()
        self.t = 1000.0

    def tick(self, samples: Mapping[tuple[str, ...], object], t: float | None = None) -> list[dict[str, float]]:
        """Returns the values of all expressions by entity after a tick with these samples."""
        self.t = self.t + self.tick_length if t is None else t
        self.panel.begin_tick(self.t)
        self.panel.ingest(block(samples, self.table, self.t), self.table)
        self.panel.refresh()
        self.evaluator.step(self.t)
        named = [self.named(e) for e in self.exprs]
        self.evaluator.learn({})
        return named

    def named(self, e: Expr) -> dict[str, float]:
        with np.errstate(all="ignore"):
            found = self.evaluator.value(self.evaluator.number_of(e))
        value = np.broadcast_to(found, (self.entities.count(e.kind or "fleet"),))
        return dict(zip(self.entities.names[e.kind or "fleet"], value.tolist(), strict=False))


def block(samples: Mapping[tuple[str, ...], object], table: SeriesTable, t: float) -> Block:
    """Returns samples by (signal, entity) or (signal, entity, selector); the kind follows from the entity's name."""
    rows = []
    for key, value in samples.items():
        number = table.number(SeriesKey(key[0], kind_of_name(key[1]), *key[1:]))
        pairs = value if isinstance(value, list) else [(t, value)]
        rows += [(time, number, sample) for time, sample in pairs]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return Block(np.array(columns[0], float), np.array(columns[1], np.int32), np.array(columns[2], float))


def kind_of_name(name: str) -> str:
    if ">" in name:
        return "peer"
    if "--" in name:
        return "link"
    if ":" in name:
        return "rank"
    if "/" in name:
        return "gpu" if "/gpu" in name else "port"
    return "node" if name.startswith("n") else "pool" if name == "lab" else "group"


class Bench:
    """A detector fed tick by tick."""

    def __init__(self, *rules: Rule, **more) -> None:
        self.tick_length = more.pop("tick", 1.0)
        self.detector = RuleDetector(
            rules, CATALOGUE, more.pop("topology", None) or topology(), self.tick_length, **more
        )
        self.table = SeriesTable()
        self.t = 1000.0

    def tick(self, samples: Mapping[tuple[str, ...], object]) -> list[RuleVerdict]:
        self.t += self.tick_length
        return self.detector.judge_samples(self.t, block(samples, self.table, self.t), self.table)


def ranks(values: Sequence[float], name: str = "wire.onset_lag", group: str = "A") -> dict[tuple[str, ...], float]:
    """Returns one value for each of the first ranks of a group."""
    first = (ord(group) - 65) * 4
    return {(name, f"{group}:n{first + n}"): value for n, value in enumerate(values)}


def entity_names(fleet: Topology) -> dict[str, list[str]]:
    """Returns the names of the entities of a topology, by kind."""
    groups = [group.name for group in fleet.groups]
    return {
        "port": [port.id for node in fleet.nodes for port in node.ports],
        "gpu": [f"{node.name}/gpu{gpu}" for node in fleet.nodes for gpu in range(node.gpus)],
        "node": [node.name for node in fleet.nodes],
        "rank": [f"{group.name}:{member}" for group in fleet.groups for member in group.members],
        "group": groups,
        "replica": groups,
    }
