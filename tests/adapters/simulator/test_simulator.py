"""The simulated fleet: as it is made, as it behaves in health, what faults do to it, and what exporters tell of it."""

from dataclasses import fields

import numpy as np
import pytest

from skewscope.adapters.assessment.scenarios import START_TIME, STRENGTHS, Scenario, build_scenario, run_scenario
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.adapters.simulator import load as loads
from skewscope.adapters.simulator import recording_writer
from skewscope.adapters.simulator.benign import BENIGN_EVENTS
from skewscope.adapters.simulator.effects import no_effects
from skewscope.adapters.simulator.emitter import SampleEmitter
from skewscope.adapters.simulator.exporters import ENGINE_HISTOGRAMS, METRICS_BY_SOURCE, PROFILE_PERIODS
from skewscope.adapters.simulator.faults.registry import choose_target, fault_models
from skewscope.adapters.simulator.fleet import JOB_KINDS, FleetPlan, build_fleet
from skewscope.adapters.simulator.simulation import FleetSimulation
from skewscope.engine.ingest.feed import SeriesTable
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from skewscope.rules.entity_kinds import kind_of

KNOWN = catalogue()
COUNTED = (("serve.generation_tokens", ""), ("serve.itl", "count"))
"""What an engine counts, and where it begins anew."""


def world(nodes=64, seed=3, fabric="roce"):
    fleet = build_fleet(FleetPlan(nodes, fabric=fabric, seed=seed))
    random = np.random.default_rng(seed)
    return FleetSimulation(fleet, loads.synthetic_load(fleet, random), random)


def aged(made, seconds, touch=lambda _push, _world: None):
    """The world after some seconds."""
    for _ in range(seconds):
        made.step(touch)
    return made


def samples(made, seconds=3):
    """The last value of every series, by key."""
    table = SeriesTable()
    emitter = SampleEmitter(made.fleet, KNOWN, table, PROFILE_PERIODS["fine"])
    last = {}
    for _ in range(seconds):
        made.step()
        block = emitter.block(made, START_TIME)
        last |= dict(zip(block.series.tolist(), block.value.tolist(), strict=True))
    return {table.keys[number]: value for number, value in last.items()}


# --- the fleet


@pytest.mark.parametrize("nodes", [8, 16, 64, 200])
def test_a_fleet_has_jobs_on_nodes_of_their_own(nodes):
    fleet = build_fleet(FleetPlan(nodes))
    used = [node for job in fleet.jobs for node in job.nodes]
    assert len(used) == len(set(used)) <= nodes
    assert {job.kind for job in fleet.jobs} <= set(JOB_KINDS)
    assert all(len(job.nodes) == JOB_KINDS[job.kind].nodes for job in fleet.jobs)
    pooled = [name for pool in fleet.topology.pools for name in pool.replicas]
    assert sorted(pooled) == sorted(job.name for n, job in enumerate(fleet.jobs) if fleet.is_serving[n])


def test_names_of_two_fleets_side_by_side_differ():
    one, other = build_fleet(FleetPlan(16, prefix="a.")).topology, build_fleet(FleetPlan(16, prefix="b.")).topology
    names = [
        {*t.node, *t.port, *t.group, *(p.name for p in t.pools), *(n.fleet for n in t.nodes)} for t in (one, other)
    ]
    assert not names[0] & names[1]


# --- health


def test_in_health_nothing_grows_and_nobody_stands_out():
    made = aged(world(), 150)
    now, serving = made.rounds, made.serving
    assert (serving.waiting[made.fleet.is_serving] <= 3).all()
    assert (serving.ttft[made.fleet.is_serving] < 0.5).all()
    assert np.nanmax(now.last_share) < 0.7
    assert np.nanmax(now.lag / now.period[:, None]) < 0.06
    assert made.gpus.temperature.max() < 80
    assert made.gpus.thermal_share.max() == made.gpus.capped_share.max() == 0
    assert made.net.retransmit_tx.max() < 1e-3


def test_as_many_requests_leave_as_come():
    made = world()
    came, went = 0.0, 0.0
    aged(made, 60)
    for _ in range(150):
        made.step()
        came, went = came + made.serving.arrived.sum(), went + made.serving.ended.sum()
    assert went == pytest.approx(came, rel=0.1)


def test_the_same_seed_gives_the_same_second():
    first, second = aged(world(), 20), aged(world(), 20)
    assert np.array_equal(first.net.tx, second.net.tx)
    assert np.array_equal(first.serving.ttft, second.serving.ttft)
    assert not np.array_equal(first.net.tx, aged(world(seed=4), 20).net.tx)


# --- physics


def test_a_barrier_goes_at_the_pace_of_its_slowest_member():
    made = aged(world(), 30)
    job = made.fleet.jobs_of_kind("tp")[0]
    before = made.rounds.period[job]

    def late(push, _world):
        push.share[job, 2] *= 2

    aged(made, 5, late)
    assert made.rounds.period[job] > 1.7 * before
    assert made.rounds.last_share[job, 2] > 0.95
    assert made.rounds.lag[job, 2] > 5 * np.nanmax(np.delete(made.rounds.lag[job], 2))


def test_a_gpu_that_gets_too_hot_slows_down_and_its_rank_is_late():
    made = aged(world(), 30)
    node = made.fleet.jobs[made.fleet.jobs_of_kind("tp")[0]].nodes[1]

    def hot(push, _world):
        push.heat[node, 3] += 55

    aged(made, 60, hot)
    assert made.gpus.temperature[node, 3] > 87
    assert made.gpus.clock[node, 3] < 0.97
    assert made.gpus.clock[node, 2] == 1
    assert made.gpus.thermal_share[node, 3] > 0


def test_more_than_a_replica_can_take_in_piles_up():
    made = aged(world(), 30)
    job = made.fleet.jobs_of_kind("tp")[0]

    def burst(push, _world):
        push.arrivals[job] *= 20

    aged(made, 15, burst)
    assert made.serving.waiting[job] > 50
    assert made.serving.ttft[job] > 1
    aged(made, 240)
    assert made.serving.waiting[job] < 5


# --- faults


@pytest.mark.parametrize("condition", sorted(fault_models()))
@pytest.mark.parametrize("strength", [pytest.param(STRENGTHS["mild"], marks=pytest.mark.slow), STRENGTHS["heavy"]])
def test_a_fault_changes_the_machine_and_breaks_no_law(condition, strength):
    fault = fault_models()[condition]
    made = world(fabric=fault.fabrics[0])
    at = choose_target(fault, made.fleet, np.random.default_rng(5))
    touched = False

    def act(push, inside):
        nonlocal touched
        fault.apply(push, inside, at, strength, inside.t)
        if not touched:
            none = no_effects(inside.fleet)
            touched = any(not np.array_equal(getattr(push, f.name), getattr(none, f.name)) for f in fields(push))

    with np.errstate(all="raise", under="ignore"):
        aged(made, 15, act)
    assert touched
    assert np.isfinite(made.net.tx).all()
    assert (made.net.tx >= 0).all()
    assert (made.serving.running >= 0).all()
    assert (made.serving.waiting >= 0).all()
    assert (made.gpus.clock <= 1).all()


def test_every_fault_is_of_a_condition_of_the_catalogue():
    assert set(fault_models()) <= set(KNOWN.conditions)


@pytest.mark.parametrize("event", sorted(BENIGN_EVENTS))
def test_a_benign_event_passes(event):
    made = aged(world(), 30)
    scenario = build_scenario(made.fleet.plan, [((event, "heavy"),)])
    (episode,) = scenario.episodes
    aged(made, 45, lambda push, inside: BENIGN_EVENTS[event](push, inside, episode.at, 1.0, inside.t - 30))
    aged(made, 60)
    assert (made.serving.waiting[made.fleet.is_serving] <= 5).all()


# --- telemetry


@pytest.mark.parametrize("fabric", ["roce", "infiniband"])
def test_every_signal_is_one_of_the_catalogue_on_an_entity_of_its_kind(fabric):
    told = samples(world(fabric=fabric))
    for key in told:
        assert kind_of(KNOWN.signals[key.signal].entity) in {
            key.kind,
            "replica" if key.kind == "group" else key.kind,
        }, key
    fabric_of = {row.signal: row.only_fabric for table in METRICS_BY_SOURCE.values() for row in table}
    wanted = {name for name, only in fabric_of.items() if only in {"", fabric}} | set(ENGINE_HISTOGRAMS)
    assert {key.signal for key in told} == wanted


def test_counters_only_grow_and_gauges_are_finite():
    made = world()
    table = SeriesTable()
    emitter = SampleEmitter(made.fleet, KNOWN, table, PROFILE_PERIODS["fine"])
    before = {}
    for _ in range(20):
        made.step()
        block = emitter.block(made, START_TIME)
        assert np.isfinite(block.value).all()
        now = dict(zip(block.series.tolist(), block.value.tolist(), strict=True))
        for number, value in now.items():
            if KNOWN.signals[table.keys[number].signal].type in {"counter", "histogram"}:
                assert value >= before.get(number, 0.0), table.keys[number]
        before |= now


def test_each_source_has_its_own_period_and_silence():
    made = world()
    table = SeriesTable()
    emitter = SampleEmitter(made.fleet, KNOWN, table, PROFILE_PERIODS["usual"])
    number = {(key.signal, key.entity): n for n, key in enumerate(table.keys)}
    gpu, host = number["gpu.power", "node0000/gpu0"], number["host.psi_io", "node0000"]
    seen = {gpu: 0, host: 0}

    def mute(push, inside):
        push.mute_host[0] = float(inside.t >= 60)

    for _ in range(120):
        made.step(mute)
        block = emitter.block(made, START_TIME)
        for number in seen:
            seen[number] += int((block.series == number).sum())
    assert seen == {gpu: 4, host: 4}


def told_of_a_replica(silence: str) -> list[dict[tuple[str, str], float]]:
    """What each of 30 seconds tells of a replica that is silent in this way in four of them."""
    made = world()
    table = SeriesTable()
    emitter = SampleEmitter(made.fleet, KNOWN, table, PROFILE_PERIODS["fine"])
    job = made.fleet.jobs[int(np.flatnonzero(made.fleet.is_serving)[0])]
    own = {n: (key.signal, key.selector) for n, key in enumerate(table.keys) if key.entity == job.name}
    seen = []

    def mute(push, inside):
        getattr(push, silence)[job.nodes[0]] = float(20 <= inside.t < 24)

    for _ in range(30):
        made.step(mute)
        block = emitter.block(made, START_TIME)
        told = zip(block.series.tolist(), block.value.tolist(), strict=True)
        seen.append({own[n]: value for n, value in told if n in own})
    return seen


@pytest.mark.parametrize(("silence", "goes_on"), [("mute_engine", False), ("mute_page", True)])
def test_an_engine_that_restarts_counts_from_nought_and_one_that_is_not_read_goes_on(silence, goes_on):
    seen = told_of_a_replica(silence)
    assert not any(signal.startswith("serve.") for row in seen[20:23] for signal, _ in row)
    for counter in COUNTED:
        assert (seen[-1][counter] > seen[18][counter]) == goes_on


def test_an_exporter_that_is_not_there_tells_nothing():
    fleet = build_fleet(FleetPlan(16))
    table = SeriesTable()
    SampleEmitter(fleet, KNOWN, table, PROFILE_PERIODS["fine"], without=("dcgm", "engine"))
    assert not {key.signal for key in table.keys if key.signal.startswith(("gpu.", "serve."))}


def test_a_run_written_down_and_read_again_is_the_same(tmp_path):
    table = SeriesTable()
    scenario = Scenario("x", FleetPlan(16), (), 12)
    fleet, blocks = run_scenario(scenario, KNOWN, table)
    made = list(blocks)
    written = recording_writer.write_recording(
        tmp_path / "run", fleet.topology, recording_writer.canonical_series(table.keys), made, {"labels": []}
    )
    read = load(open_recording(tmp_path / "run"), KNOWN)
    assert written == len(read.block) == sum(map(len, made))
    assert set(read.table.keys) == set(table.keys)
    assert not read.unmapped
    told = {
        (key, t): v for b in made for key, t, v in zip((table.keys[n] for n in b.series), b.time, b.value, strict=True)
    }
    again = zip((read.table.keys[n] for n in read.block.series), read.block.time, read.block.value, strict=True)
    assert all(told[key, t] == v for key, t, v in again)


# --- traces


def test_a_trace_sets_rate_and_lengths(tmp_path, shared):
    fleet = build_fleet(FleetPlan(16))
    for path in (
        shared / "data" / "azure-llm-2023" / "AzureLLMInferenceTrace_code.csv",
        shared / "data" / "mooncake-fast25" / "conversation_trace.jsonl.gz",
    ):
        found = loads.load_trace(path, fleet, np.random.default_rng(1))
        rates = np.array([found.demand_at(t).rate for t in range(300)])[:, fleet.is_serving]
        assert rates.std() / rates.mean() > 0.3
        assert found.prompt[0] > 1000


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", '{"timestamp": 1}\n', "TIMESTAMP,ContextTokens,GeneratedTokens\nx,1,2\n"]
)
def test_what_is_no_trace_is_told_with_its_line(tmp_path, text):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"trace\.csv"):
        loads.load_trace(path, build_fleet(FleetPlan(8)), np.random.default_rng(1))
