"""A small made-up history: six weeks of two racks, on which docs/history.md answers its questions."""

from dataclasses import replace
from pathlib import Path

from skewscope.adapters.assessment.runner import FaultLabel
from skewscope.adapters.backtest.backtest import BacktestOutcome
from skewscope.adapters.backtest.rule_set import load_rule_set
from skewscope.adapters.backtest.run import RecordingOutcome
from skewscope.adapters.history.export import write_outcome
from skewscope.engine.model.incident import (
    SYMPTOM,
    BlastRadius,
    Explanation,
    Impact,
    Incident,
    IncidentEvidence,
)
from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.kb.loader import catalogue
from skewscope.rules.loader import RULES_FOLDER

BEGIN = 1_788_134_400.0
"""Monday, 2026-08-31."""
HOUR, DAY, WEEK = 3600.0, 86400.0, 604800.0
FLEET = Topology(
    tuple(Node(f"n{n}", rack=f"r{n // 4}", gpus=8) for n in range(8)),
    (
        Group("A", "tensor-parallel", ("n0", "n1", "n2", "n3")),
        Group("B", "tensor-parallel", ("n4", "n5", "n6", "n7")),
    ),
)
EVENTS = (
    # condition, node, week, day, hours, share of the rounds lost, seconds after a label's begin
    ("gpu-thermal-throttle", "n1", 0, 1, 3.0, 0.20, 4.0),
    ("gpu-thermal-throttle", "n1", 1, 1, 2.0, 0.15, 6.0),
    ("gpu-thermal-throttle", "n1", 3, 2, 4.0, 0.25, 5.0),
    ("tp-straggler", "n2", 1, 3, 1.0, 0.40, 9.0),
    ("fabric-loss", "n6", 2, 4, 6.0, 0.10, 12.0),
    ("fabric-loss", "n6", 5, 0, 8.0, 0.12, None),
    ("host-cpu-bottleneck", "n5", 4, 2, 1.5, None, None),
)
MISSED = FaultLabel("tp-straggler", "", ("n7",), 4 * WEEK, 4 * WEEK + HOUR)


def incidents() -> tuple[Incident, ...]:
    """The incidents of all weeks, and one symptom."""
    found = [_incident(number, *event[:6]) for number, event in enumerate(EVENTS)]
    slow = replace(
        found[0], id="s0", category=SYMPTOM, condition="slow-steps", rule="", explained_by=Explanation("i0", "caused")
    )
    return (slow, *found)


def _incident(
    number: int, condition: str, node: str, week: int, day: int, hours: float, share: float | None
) -> Incident:
    opened = BEGIN + week * WEEK + day * DAY + 9 * HOUR
    evidence = (IncidentEvidence("is_slow", "yes", 3.0, share, "1", "gpu.sm_clock < 1*GHz"),)
    return Incident(
        *(f"i{number}", condition, "node", node, "resolved", opened, opened + hours * HOUR, "warning", 0.9, 1.0),
        *(Impact("rounds of the group", None if share is None else -share, "1"), BlastRadius(4, 1, 0)),
        *(f"{condition}-rule", "hash"),
        evidence=evidence,
        against=(IncidentEvidence("is_idle", "no", 2.0, None, "1", "gpu.util < 5*percent"),),
    )


def labels() -> tuple[FaultLabel, ...]:
    """What was wrong, but for the last two; one fault was missed."""
    known = [
        FaultLabel(
            condition, "", (node,), week * WEEK + day * DAY + 9 * HOUR - late, week * WEEK + day * DAY + 12 * HOUR
        )
        for condition, node, week, day, _, _, late in EVENTS
        if late is not None
    ]
    return (*known, MISSED)


def write_history(folder: Path) -> Path:
    """Writes the history to a folder and returns it."""
    rules = load_rule_set(str(RULES_FOLDER), catalogue())
    whole = RecordingOutcome("autumn", FLEET, BEGIN, BEGIN + 6 * WEEK, 0, labels(), [incidents()])
    write_outcome(BacktestOutcome((rules,), (whole,)), folder)
    return folder
