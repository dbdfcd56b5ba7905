"""Simulated telemetry under the names of real exporters: read back, it is what it was."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from skewscope.adapters.assessment.scenarios import START_TIME, build_scenario, run_scenario
from skewscope.adapters.inputs.recording import load, open_recording
from skewscope.adapters.mapping.names import PAGE_EXPORTERS, build_index
from skewscope.adapters.runtime.replay import replay
from skewscope.adapters.simulator import recording_writer
from skewscope.adapters.simulator.exporter_naming import ENTITY_LABELS, ExporterNaming, exporter_names, name_series
from skewscope.adapters.simulator.exporters import EXPORTERS, PROFILE_PERIODS, SIGNALS_WITHOUT_EXPORTER, source_of
from skewscope.adapters.simulator.fleet import FleetPlan, build_fleet
from skewscope.engine.ingest.feed import SeriesKey, SeriesTable
from skewscope.kb.loader import catalogue
from tests.support.telemetry import without_instance

KNOWN = catalogue()
FLEET = build_fleet(FleetPlan(16))
SPEAKER = ExporterNaming(KNOWN, FLEET.topology)


def recorded(folder, scenario, spell):
    table = SeriesTable()
    fleet, blocks = run_scenario(scenario, KNOWN, table)
    recording_writer.write_recording(
        folder, fleet.topology, spell(table.keys, fleet.topology), blocks, {"start": START_TIME, "labels": []}
    )
    return folder


def both(tmp_path, scenario):
    return (
        recorded(tmp_path / "exporters", scenario, lambda keys, topology: name_series(keys, KNOWN, topology)),
        recorded(tmp_path / "canonical", scenario, lambda keys, _topology: recording_writer.canonical_series(keys)),
    )


@pytest.mark.parametrize("fabric", ["roce", pytest.param("infiniband", marks=pytest.mark.slow)])
def test_a_recording_in_the_names_of_exporters_reads_back_as_the_canonical_one(tmp_path, fabric):
    scenario = replace(build_scenario(FleetPlan(16, fabric=fabric), []), lasts=6.0)
    ours, theirs = (load(open_recording(path), KNOWN) for path in both(tmp_path, scenario))
    assert [without_instance(key) for key in ours.table.keys] == theirs.table.keys
    assert np.array_equal(ours.block.time, theirs.block.time)
    assert np.array_equal(ours.block.series, theirs.block.series)
    assert np.allclose(ours.block.value, theirs.block.value, rtol=1e-12, atol=0)
    assert not ours.unmapped


@pytest.mark.slow
def test_the_diagnosis_does_not_hang_on_whose_names_they_are(tmp_path):
    scenario = build_scenario(FleetPlan(16, seed=2), [[("gpu-thermal-throttle", "heavy")]])
    told = [
        [replace(one, input_hash="") for one in replay(path).incidents]
        for path in both(tmp_path, replace(scenario, lasts=100.0))
    ]
    assert told[0] == told[1]
    assert [one.condition for one in told[0] if not one.is_symptom][:1] == ["gpu-thermal-throttle"]


@pytest.mark.parametrize(
    ("key", "metric", "labels"),
    [
        (
            SeriesKey("gpu.temperature", "gpu", "node0001/gpu3"),
            "DCGM_FI_DEV_GPU_TEMP",
            {"gpu": "3", "device": "nvidia3", "Hostname": "node0001"},
        ),
        (SeriesKey("port.rx_bytes", "port", "node0002/r1"), "rx_bytes_phy", {"device_name": "rail1"}),
        (SeriesKey("prio.rx_pause", "port", "node0002/r0", "p3"), "rx_prio3_pause", {"device_name": "rail0"}),
        (SeriesKey("cc.np_cnp_sent", "port", "node0002/r0"), "hw_np_cnp_sent", {"device_name": "mlx5_1"}),
        (SeriesKey("port.carrier", "port", "node0002/ns"), "node_network_carrier", {"device": "eth0"}),
        (
            SeriesKey("host.psi_cpu", "node", "node0003"),
            "node_pressure_cpu_waiting_seconds_total",
            {"instance": "node0003:9100"},
        ),
        (SeriesKey("serve.running", "replica", "tp1"), "vllm:num_requests_running", {"node": "node0004"}),
        (
            SeriesKey("serve.ttft", "replica", "tp0", "bucket:10"),
            "vllm:time_to_first_token_seconds_bucket",
            {"le": "10.0"},
        ),
        (
            SeriesKey("serve.ttft", "replica", "tp0", "bucket:+Inf"),
            "vllm:time_to_first_token_seconds_bucket",
            {"le": "+Inf"},
        ),
        (SeriesKey("nccl.coll_busbw", "rank", "tp0:node0001"), "nccl_bus_bandwidth_gbs", {"hostname": "node0001"}),
        (SeriesKey("pool.ready", "pool", "tp-pool0"), "inference_pool_ready_pods", {"name": "tp-pool0"}),
    ],
)
def test_a_series_has_the_name_and_the_labels_of_its_exporter(key, metric, labels):
    found = SPEAKER.name_one(key)
    assert found.labels["signal"] == metric
    assert labels.items() <= found.labels.items()


def test_a_speed_is_written_in_the_bytes_of_node_exporter():
    found = SPEAKER.name_one(SeriesKey("port.speed", "port", "node0000/r0"))
    assert (found.labels["signal"], found.scale) == ("node_network_speed_bytes", 8.0)


@pytest.mark.parametrize(
    "key",
    [
        SeriesKey("wire.onset_lag", "rank", "tp0:node0001"),
        # Its name delivers another signal as well.
        SeriesKey("rdma.out_of_buffer", "port", "node0000/r0"),
        # A router tells it of each pod, not of the pool.
        SeriesKey("pool.queue", "pool", "tp-pool0"),
        # No name of this priority, and none of the whole port.
        SeriesKey("prio.rx_pause", "port", "node0000/r0", "p3,tx"),
        SeriesKey("prio.rx_pause", "port", "node0000/r0"),
        SeriesKey("gpu.temperature", "gpu", "node0001/gpu3", "p3"),
    ],
    ids=str,
)
def test_what_no_exporter_tells_just_so_stays_canonical(key):
    found = SPEAKER.name_one(key)
    assert (found.exporter, found.scale) == ("", 1.0)
    assert found.labels == recording_writer.canonical_labels(key)


def test_every_name_comes_from_the_catalogue_and_every_exporter_is_spelled():
    speaking = {name for names in EXPORTERS.values() for name in names}
    assert speaking == set(ENTITY_LABELS)
    assert speaking <= PAGE_EXPORTERS | {"ethtool"}
    assert set(EXPORTERS) | {"agent"} == set(PROFILE_PERIODS["fine"])
    assert all(source_of(signal) for signal in SIGNALS_WITHOUT_EXPORTER)
    names = build_index(KNOWN)
    assert all(name in names for some in exporter_names(KNOWN).values() for name, _ in some)


def test_most_of_what_real_exporters_have_is_in_their_names():
    table = SeriesTable()
    fleet, _ = run_scenario(replace(build_scenario(FleetPlan(16), []), lasts=1.0), KNOWN, table)
    counts = Counter(one.exporter for one in name_series(table.keys, KNOWN, fleet.topology))
    assert min(counts[name] for name in ("dcgm", "dts_ethtool", "dts_sysfs", "node_exporter", "vllm")) > 0
    assert counts[""] < 0.25 * counts.total()
