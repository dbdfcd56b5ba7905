"""The sections `targets` and `actions` of a config."""

from pathlib import Path

import pytest

from skewscope.adapters.actions.settings import ActionSettings, ApprovalRule
from skewscope.adapters.controller import config
from skewscope.engine.actions.limits import TimeWindow
from skewscope.kb.problems import InputError

TOPOLOGY = """
version: 1
nodes: [{name: n0}, {name: n1}, {name: n2}]
groups:
- {name: r0, kind: tensor-parallel, members: [n0]}
- {name: r1, kind: tensor-parallel, members: [n1]}
- {name: r2, kind: tensor-parallel, members: [n2]}
pools: [{name: pool, replicas: [r0, r1, r2]}]
"""
HEAD = """version: 1
topology: topology.yaml
targets:
- {kind: haproxy, name: front, socket: /run/h.sock, backend: be, members: {r0: w0, r1: w1, r2: w2}}
"""


def read(tmp_path: Path, text: str, head: str = HEAD) -> config.ControllerConfig:
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    (tmp_path / "skewscope.yaml").write_text(head + text)
    return config.read(tmp_path / "skewscope.yaml")


def test_without_the_section_nothing_is_planned(tmp_path):
    found = read(tmp_path, "")
    assert found.actions == ActionSettings()
    assert found.actions.is_observing
    assert [one.name for one in found.targets] == ["front"]


def test_all_fields_are_read(tmp_path):
    found = read(
        tmp_path,
        """
actions:
  mode: propose
  modes:
  - {mode: act, condition: [tp-straggler], target: [front], kind: [deweight, drain]}
  - {mode: observe, rule: [a-rule]}
  confidence: 0.95
  limits: {at_once: 3, per_hour: 10, share_of_nodes: 0.2, share_of_groups: 0.3, share_of_replicas: 0.5, cool_down: 60}
  minimum_healthy: {pool: 2}
  breaker: {failures: 5, within: 100, pause: 200}
  windows: [{from: "22:00", to: "06:30", days: [mon, tue]}]
  timing: {time_to_live: 600, hold: 30}
  approvals: [{persons: 2, risk: [high], kind: [drain]}]
  shadow_days: 3
  acknowledge: {no_shadow_evidence: a rig}
""",
    ).actions
    assert found.approvals == (ApprovalRule(2, risk=("high",), kind=("drain",)),)
    assert (found.shadow_days, found.no_shadow_evidence) == (3.0, "a rig")
    assert (found.mode, found.confidence) == ("propose", 0.95)
    assert found.mode_of("tp-straggler", "other", "front", "drain") == "act"
    assert found.mode_of("tp-straggler", "a-rule", "front", "evict") == "observe"
    assert found.mode_of("other", "other", "front", "drain") == "propose"
    limits = found.limits
    assert (limits.at_once, limits.per_hour, limits.share_of_nodes, limits.cool_down) == (3, 10, 0.2, 60)
    assert (limits.minimum_of("pool", 3), limits.minimum_of("else", 3)) == (2, 2)
    assert (limits.breaker.failures, limits.breaker.within, limits.breaker.pause) == (5, 100, 200)
    assert limits.windows == (TimeWindow(79200.0, 23400.0, ("mon", "tue")),)
    assert (found.timing.time_to_live, found.timing.hold, found.timing.effect_within) == (600, 30, 120)


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("actions: {mode: autopilot}", 5, "'autopilot'"),
        ("actions: {modes: [{mode: act, target: [frnt]}]}", 5, "an unknown target 'frnt'"),
        ("actions: {confidence: 0.2}", 5, "a number (0.2)"),
        ("actions: {minimum_healthy: {pol: 1}}", 5, "pol"),
        ("actions: {minimum_healthy: {pool: 4}}", 5, "a whole number (4)"),
        ("actions: {windows: [{from: '25:00', to: '06:00'}]}", 5, "'25:00'"),
        ("actions: {windows: [{from: '22:00', to: '06:00', days: [someday]}]}", 5, "'someday'"),
        ("actions: {timing: {time_to_live: -1}}", 5, "a whole number (-1)"),
        ("actions: {limits: {at_onse: 1}}", 5, "at_onse"),
        ("actions: {limits: {places: [{pool: pol, at_once: 1}]}}", 5, "an unknown pool 'pol'"),
        ("actions: {limits: {places: [{at_once: 1}]}}", 5, "0 places and 1 limits"),
        ("actions: {links: {public_url: 'http://ops', key: {file: k}, recipients: {}}}", 5, "'http://ops'"),
        ("actions: {approvals: [{persons: 0}]}", 5, "a whole number (0)"),
        ("actions: {approvals: [{persons: 2, risk: [huge]}]}", 5, "'huge'"),
        ("actions: {approvals: [{persons: 2, target: [frnt]}]}", 5, "an unknown target 'frnt'"),
    ],
)
def test_each_mistake_is_told_with_its_line(tmp_path, text, line, found):
    (tmp_path / "k").write_text("a-key-of-at-least-thirty-two-characters")
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert problem.line == line
    assert found in str(problem)


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ("{r0: w0, r1: w1, r9: w2}", "an unknown name 'r9'"),
        ("{r0: w0, r1: w1}", "2 of the 3 replicas of 'pool'"),
    ],
)
def test_members_are_checked_against_the_topology(tmp_path, members, found):
    head = HEAD.replace("{r0: w0, r1: w1, r2: w2}", members)
    with pytest.raises(InputError, match=found):
        read(tmp_path, "", head)
