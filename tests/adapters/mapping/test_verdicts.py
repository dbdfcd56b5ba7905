"""Verdicts that other programs publish as metrics: node-problem-detector, kube-state-metrics and those behind it."""

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.mapping.entities import UnmappedError
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.runtime.replay import replay
from skewscope.engine.model.topology import Node, Topology
from skewscope.kb.loader import catalogue

BEGIN, PERIOD = 1_700_000_000, 15
EXPORTER = {"job": "kube-state-metrics", "instance": "10.2.0.9:8080", "pod": "ksm-7d9f-abcde", "namespace": "ops"}


def resolver():
    return MetricResolver(catalogue(), Topology((Node("gpu-01", "", 8),)))


@pytest.mark.parametrize(
    ("metric", "labels", "signal"),
    [
        ("kube_node_status_condition", {"condition": "GpuThermalWatch", "status": "true"}, "condition_gputhermalwatch"),
        ("kube_node_status_condition", {"condition": "MemoryPressure", "status": "true"}, "condition_memorypressure"),
        ("kube_node_status_condition", {"condition": "Ready", "status": "false"}, "not_ready"),
        ("kube_node_status_condition", {"condition": "Ready", "status": "unknown"}, "not_ready"),
        ("problem_gauge", {"type": "KernelDeadlock", "reason": "DockerHung"}, "condition_kerneldeadlock"),
        ("problem_gauge", {"type": "FrequentKubeletRestart", "reason": "x"}, "condition_frequentkubeletrestart"),
    ],
)
def test_a_verdict_is_an_event_of_its_node(metric, labels, signal):
    (found,) = resolver().resolve(metric, {"node": "gpu-01", **labels}, EXPORTER)
    assert (found.key.signal, found.key.entity) == (f"event.kubernetes_node_{signal}", "gpu-01")


@pytest.mark.parametrize(
    "labels",
    [
        {"condition": "Ready", "status": "true"},
        {"condition": "MemoryPressure", "status": "false"},
        {"condition": "OfTheSite", "status": "true"},
    ],
)
def test_what_is_no_fault_by_its_name_is_no_event(labels):
    with pytest.raises(UnmappedError, match="no signal of the catalogue has these labels"):
        resolver().resolve("kube_node_status_condition", {"node": "gpu-01", **labels}, EXPORTER)


def test_a_verdict_lasts_as_long_as_its_metric_says(tmp_path):
    lines = [
        f'kube_node_status_condition{{node="{node}",condition="Ready",status="{status}",instance="10.2.0.9:8080"}} '
        f"{int(status == ('unknown' if node == 'gpu-02' and 4 <= k < 8 else 'true'))} {BEGIN + PERIOD * k}"
        for node in ("gpu-01", "gpu-02", "gpu-03")
        for status in ("true", "false", "unknown")
        for k in range(16)
    ]
    (tmp_path / "page.om").write_text("\n".join([*lines, "# EOF\n"]))
    outcome = replay(draft_recording([tmp_path / "page.om"], None, None).recording)
    (one,) = outcome.snapshots[-1].incidents
    assert (one.kind, one.name, one.opened_at - BEGIN) == ("node", "gpu-02", 4 * PERIOD)
    assert one.resolved_at is not None
    assert 8 * PERIOD <= one.resolved_at - BEGIN <= 11 * PERIOD
