"""Which reporters of a fleet deliver telemetry, and what is unknown without them."""

import json

import numpy as np
import pytest

from skewscope.adapters.inputs.recording import open_recording
from skewscope.adapters.runtime.replay import replay
from skewscope.adapters.runtime.runtime import SILENT_AFTER, Span, build_runtime
from skewscope.engine.ingest.feed import Block, SeriesKey, SeriesTable
from skewscope.engine.model.topology import Group, Node, Port, Topology
from skewscope.kb.loader import catalogue
from skewscope.rules.coverage import compute_coverage, symptom_signals
from skewscope.rules.loader import load_strict

NODES = Topology(nodes=tuple(Node(f"n{n}", gpus=2) for n in range(3)))
T0 = 1_800_000_000.0


def snapshots(period, seconds, until=np.inf):
    """Yields (seconds, snapshot) of two nodes that deliver each period; the second one stops at a time."""
    table = SeriesTable()
    keys = [table.number(SeriesKey("host.cpu_util", "node", name)) for name in ("n0", "n1")]
    with build_runtime(NODES, catalogue(), table) as runtime:
        for now in range(seconds):
            some = [key for n, key in enumerate(keys) if now % period == 0 and (n == 0 or now < until)]
            times = np.full(len(some), T0 + now)
            runtime.step(T0 + now, Block(times, np.array(some, np.int32), np.full(len(some), 0.5)))
            yield now, runtime.snapshot(T0 + now, Span(T0, T0 + now))


def state(shot):
    return next((one.reporting, one.note) for one in shot.sources if one.name == "node telemetry")


def test_a_node_that_is_read_rarely_is_not_silent_between_two_samples():
    shots = dict(snapshots(20, 200, until=100))
    assert {state(shot) for now, shot in shots.items() if 60 < now < 80 + 3 * 20} == {(2, "silent: n2")}
    assert state(shots[199]) == (1, "silent: n1, n2")


def test_a_node_that_is_read_each_second_is_silent_soon():
    shots = dict(snapshots(1, 60, until=30))
    assert state(shots[29 + int(SILENT_AFTER)]) == (2, "silent: n2")
    assert state(shots[31 + int(SILENT_AFTER)]) == (1, "silent: n1, n2")


def test_an_engine_that_is_only_scraped_is_telemetry_of_its_replica():
    groups = tuple(Group(f"r{n}", "tensor-parallel", (f"n{n}",), front_end=f"n{n}") for n in range(2))
    table = SeriesTable()
    key = table.number(SeriesKey("serve.running", "replica", "r0"))
    with build_runtime(Topology(NODES.nodes, groups), catalogue(), table) as runtime:
        for now in range(5):
            runtime.step(T0 + now, Block(np.array([T0 + now]), np.array([key], np.int32), np.array([3.0])))
        assert runtime.coverage.coverage_by_engine(T0 + 4) == {"r0": 1.0, "r1": 0.0}
        assert runtime.coverage.coverage_by_engine(T0 + 60) == {"r0": 0.0, "r1": 0.0}
        assert set(runtime.coverage.coverage_by_node(T0 + 4).values()) == {0.0}


def test_missing_telemetry_is_one_sentence_for_each_kind():
    *_, (_, shot) = snapshots(1, 5)
    starts = [text.split(":")[0].split(";")[0] for text in shot.missing]
    assert starts == sorted(set(starts), key=starts.index)
    assert starts[0] == "No packets"
    assert "No node telemetry from n2" in starts
    assert "No GPU telemetry from any of 3 GPU nodes" in starts
    assert "No telemetry of PCIe" in starts
    assert all(text.endswith(" cannot be judged.") for text in shot.missing)


def test_groups_whose_rounds_cannot_be_read_are_named_once():
    table = SeriesTable()
    keys = {
        (port, group): table.number(SeriesKey("wire.rounds_unreadable", "port", port, group))
        for port, group in (("n0/ew", "A"), ("n1/ew", "A"), ("n2/ew", "B"))
    }
    nodes = tuple(Node(f"n{n}", ports=(Port(f"n{n}", "ew", "east-west"),)) for n in range(3))
    groups = (Group("A", "data-parallel", ("n0", "n1")), Group("B", "data-parallel", ("n2",)))
    with build_runtime(Topology(nodes, groups), catalogue(), table) as runtime:
        unreadable = np.array([1.0, 1.0, 0.0])
        runtime.step(T0, Block(np.full(3, T0), np.array(list(keys.values()), np.int32), unreadable))
        told = [text for text in runtime.snapshot(T0, Span(T0, T0)).missing if text.startswith("No rounds")]
    assert told == ["No rounds can be read in the packets of A: which member is late is unknown."]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["minibatch-job-1", "ranks-lock-gil-1st"])
def test_what_is_told_is_covered_and_what_cannot_be_judged_is_not_told(shared, name):
    known = catalogue()
    outcome = replay(open_recording(shared / "real" / name))
    found = compute_coverage(
        load_strict(known).values(), known.conditions.values(), frozenset(outcome.signals), symptom_signals(known)
    )
    verdicts = {one.condition: one.verdict for one in found.conditions}
    diagnoses = {incident.condition for incident in outcome.incidents if not incident.is_symptom}
    symptoms = [json.loads(incident.as_line()) for incident in outcome.incidents if incident.is_symptom]
    candidates = {each["condition"] for symptom in symptoms for each in symptom["candidates"]}
    assert {verdicts[name] for name in diagnoses} <= {"full", "partial"}
    assert {verdicts[name] for name in candidates} <= {"full", "partial", "candidate"}
    counts = [int(text.split("; ")[1].split()[0]) for text in outcome.snapshots[-1].missing if "; " in text]
    assert max(counts) <= sum(verdict in {"blind", "hidden"} for verdict in verdicts.values())
