"""The main job, whole: recordings of real faults go in, and what comes out is compared with what was done to them."""

import json
import random
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skewscope.adapters.formats.compression import open_stream
from skewscope.adapters.formats.exposition import format_exposition
from skewscope.adapters.inputs.recording import demo_path, load, open_recording
from skewscope.adapters.runtime.replay import replay
from skewscope.adapters.runtime.runtime import OTHER_TELEMETRY, TELEMETRY_KINDS
from skewscope.kb.loader import catalogue

OPENS, RESOLVES = 10.0, 20.0
"""Seconds after a fault's begin and end within which it has to be told."""
FAULTS = ("tp-straggler", "fabric-loss", "pp-bubble", "burst")


@dataclass(frozen=True)
class Label:
    condition: str
    entity: str
    start: float
    end: float


def labels(folder: Path) -> list[Label]:
    return [Label(**each) for each in json.loads((folder / "labels.json").read_text())["labels"]]


@cache
def replayed(folder: Path):
    """What a recording gives, for all who ask."""
    return replay(folder)


def lines(outcome) -> str:
    return "\n".join(incident.as_line() for incident in outcome.incidents)


def diagnoses(outcome):
    return [incident for incident in outcome.incidents if incident.explained_by is None]


def emptied(folder: Path) -> float:
    """When the queues were last seen filled."""
    times = []
    with open_stream(folder / "metrics.om.zst") as file:
        for row in file.read().decode().splitlines():
            if row.startswith("vllm:num_requests_waiting"):
                _, value, time = row.rsplit(" ", 2)
                times += [float(time)] if float(value) else []
    return max(times)


@pytest.mark.parametrize("name", [FAULTS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in FAULTS[1:])])
def test_a_fault_gives_its_condition_on_its_entity_in_time_and_nothing_else(shared, name):
    folder = shared / "recordings" / name
    (label,) = labels(folder)
    (found,) = diagnoses(replayed(folder))
    told = replayed(folder).incidents
    assert list(told) == sorted(told, key=lambda one: (one.opened_at, one.condition, one.name))
    assert found.condition == label.condition
    assert label.entity in ("*", found.name)
    assert found.kind in (("replica", "pool", "node") if label.entity == "*" else ("rank", "node", "port"))
    assert label.start <= found.opened_at <= label.start + OPENS
    assert found.resolved_at is not None
    assert found.resolved_at <= (emptied(folder) if label.entity == "*" else label.end) + RESOLVES
    assert [e.verdict for e in found.evidence].count("yes") >= 2
    assert found.mitigations


@pytest.mark.slow
def test_health_gives_nothing(shared):
    assert replay(shared / "recordings" / "healthy").incidents == ()


def rewritten(source: Path, folder: Path, change) -> Path:
    """A copy of a recording whose inputs are changed."""
    shutil.copytree(source, folder)
    described = yaml.safe_load((folder / "recording.yaml").read_text())
    described["inputs"] = change(described["inputs"])
    (folder / "recording.yaml").write_text(yaml.safe_dump(described))
    return folder


def shuffled(inputs):
    return random.Random(3).sample(inputs, len(inputs))


@pytest.mark.slow
def test_neither_another_run_nor_the_order_of_inputs_nor_workers_change_a_byte(shared, tmp_path):
    source = shared / "recordings" / "pp-bubble"
    first = lines(replayed(source))
    assert first
    assert lines(replay(rewritten(source, tmp_path / "r", shuffled), workers=2)) == first


@pytest.mark.slow
@settings(max_examples=1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 20))
def test_lines_of_text_in_any_order_give_the_same_diagnoses(tmp_path_factory, brief, seed):
    folder = tmp_path_factory.mktemp("lines") / "r"
    shutil.copytree(brief, folder)
    with open_stream(folder / "metrics.om.zst") as file:
        rows = [row for row in file.read().decode().splitlines() if not row.startswith("#")]
    random.Random(seed).shuffle(rows)
    (folder / "metrics.om").write_text("\n".join([*rows, "# EOF", ""]))
    described = (folder / "recording.yaml").read_text()
    (folder / "recording.yaml").write_text(described.replace("metrics.om.zst", "metrics.om"))
    without_hash = [{**i.as_json(), "input_hash": ""} for i in replay(folder).incidents]
    assert without_hash == [{**i.as_json(), "input_hash": ""} for i in replay(brief).incidents]
    assert without_hash


@pytest.mark.slow
def test_what_agents_send_gives_the_diagnoses_that_the_packets_give(shared, tmp_path):
    source = shared / "recordings" / "pp-bubble"
    known = catalogue()
    loaded = load(open_recording(source), known)
    text = "".join(format_exposition(loaded.block, loaded.table, known))
    folder = rewritten(source, tmp_path / "r", lambda _: [{"kind": "openmetrics", "path": "all.om"}])
    (folder / "all.om").write_text(text)
    told = [(i.condition, i.name, i.opened_at, i.resolved_at) for i in replay(folder).incidents]
    assert told == [(i.condition, i.name, i.opened_at, i.resolved_at) for i in replayed(source).incidents]
    assert told


CUTS = {
    "no packets": lambda each: each["kind"] != "pcap",
    "no metrics": lambda each: each["kind"] != "openmetrics",
    "the first half of the nodes silent": lambda each: each.get("labels", {}).get("node", "n9") > "n3",
    "every other node silent": lambda each: each.get("labels", {}).get("node", "n0")[-1] in "0246",
    "the nodes of front ends alone": lambda each: each.get("labels", {}).get("node", "n0") in ("n0", "n4"),
}


PAIRS = [("tp-straggler", "no packets")]
MORE = [*(("pp-bubble", cut) for cut in CUTS), ("burst", "no packets"), ("burst", "every other node silent")]
MORE += [("fabric-loss", "every other node silent"), ("healthy", "no metrics")]


@pytest.mark.parametrize(("name", "cut"), [*PAIRS, *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE)])
def test_less_telemetry_invents_nothing_and_says_what_is_missing(shared, tmp_path, name, cut):
    source = shared / "recordings" / name
    folder = rewritten(source, tmp_path / "r", lambda inputs: [each for each in inputs if CUTS[cut](each)])
    outcome = replay(folder)
    expected = {(label.condition, label.entity) for label in labels(source)}
    told = diagnoses(outcome)
    topology, known = open_recording(source).topology, catalogue().conditions
    for one in told:
        # Where its effect cannot be seen, the cause may be told instead, of the whole that the place belongs to.
        names = {"*", one.name, *(topology.group[one.name].members if one.name in topology.group else ())}
        effects = (
            {one.condition, *(link.condition for link in known[one.condition].effects)} if not one.is_symptom else ()
        )
        assert one.is_symptom or any(c in effects and entity in names for c, entity in expected), one.condition
    # What remains abnormal without its cause is there while something is wrong: TCP sends again where a peer is late.
    assert all(any(label.start <= i.opened_at <= label.end + OPENS for label in labels(source)) for i in told)
    assert any("packets" in text or "telemetry from" in text for text in outcome.snapshots[-1].missing)
    assert all(0 <= i.coverage <= 1 and 0 <= i.confidence <= 1 for i in outcome.incidents)


def test_a_recording_without_any_sample_says_that_nothing_could_be_seen(tmp_path, brief):
    folder = rewritten(brief, tmp_path / "r", list)
    (folder / "recording.yaml").write_text("version: 1\ntopology: topology.yaml\ninputs: []\n")
    outcome = replay(folder)
    assert outcome.incidents == ()
    missing = outcome.snapshots[-1].missing
    assert len(missing) > 3
    # One sentence for each kind of telemetry, not one for each condition.
    assert len(missing) <= len(TELEMETRY_KINDS) + len(OTHER_TELEMETRY) + 1
    assert any(text.startswith("No packets from any of ") for text in missing)


@pytest.mark.slow
def test_time_that_leaps_far_is_passed_over(tmp_path):
    folder = rewritten(demo_path(), tmp_path / "r", list)
    with open_stream(folder / "metrics.om.zst") as file:
        rows = file.read().decode().splitlines()
    late = [row for row in rows if row.startswith("skewscope_serve_running")][:4]
    late = [row.rsplit(" ", 1)[0] + f" {float(row.rsplit(' ', 1)[1]) + 4e7}" for row in late]
    (folder / "metrics.om").write_text("\n".join([*rows[:-1], *late, "# EOF", ""]))
    described = (folder / "recording.yaml").read_text()
    (folder / "recording.yaml").write_text(described.replace("metrics.om.zst", "metrics.om"))
    outcome = replay(folder)
    assert outcome.duration_s > 3e7
    assert [i.condition for i in diagnoses(outcome)][:2] == ["tp-straggler", "fabric-loss"]
    assert np.isfinite([i.opened_at for i in outcome.incidents]).all()
