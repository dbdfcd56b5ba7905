"""A mapping file makes any naming readable; what is wrong with it is told with its line."""

import pytest

from skewscope.adapters.mapping.name_mapping import parse_mapping
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.engine.model.topology_file import parse_valid_topology
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError
from skewscope.kb.yamlfile import parse

TOPOLOGY = """
version: 1
nodes: [{name: n0, gpus: 8, ports: [{name: ew, network: east-west, devices: [mlx5_0]}]}]
groups: [{name: A, kind: tensor-parallel, members: [n0], front_end: n0}]
"""
MAPPING = """
version: 1
metrics:
  - {metric: gpu_mhz, signal: gpu.sm_clock, unit: Hz, labels: {host: "{node}", card: "card{gpu}"}}
  - {metric: "gpu{gpu}.clock", signal: gpu.sm_clock, unit: MHz, labels: {host: "{node}"}}
  - {metric: nic_rx, signal: port.rx_bytes, scale: 4, labels: {dir: in}, entity: {node: n0, device: mlx5_0}}
  - {metric: ttft_ms, signal: serve.ttft, unit: ms, entity: {replica: A}}
"""


def resolve(metric, labels, static=()):
    mapping = parse_mapping(MAPPING, "mapping.yaml", catalogue())
    names = MetricResolver(catalogue(), parse_valid_topology(parse(TOPOLOGY)), mapping)
    (found,) = names.resolve(names.metric_name(metric, labels), labels, dict(static))
    return found.key.entity, found.key.selector, found.scale


@pytest.mark.parametrize(
    ("metric", "labels", "expected"),
    [
        ("gpu_mhz", {"host": "n0", "card": "card3"}, ("n0/gpu3", "", 1e-6)),
        ("gpu7.clock", {"host": "n0"}, ("n0/gpu7", "", 1.0)),
        ("nic_rx", {"dir": "in"}, ("n0/ew", "", 4.0)),
        ("ttft_ms_bucket", {"le": "50"}, ("A", "bucket:0.05", 1.0)),
        ("ttft_ms_sum", {}, ("A", "sum", 1e-3)),
    ],
)
def test_a_mapped_series_has_signal_entity_and_scale(metric, labels, expected):
    entity, selector, scale = resolve(metric, labels)
    assert (entity, selector) == expected[:2]
    assert scale == pytest.approx(expected[2])


def test_labels_of_the_input_count_too():
    assert resolve("gpu_mhz", {"card": "card1"}, [("host", "n0")])[0] == "n0/gpu1"


def test_names_of_the_catalogue_still_count():
    assert resolve("DCGM_FI_DEV_SM_CLOCK", {"Hostname": "n0", "gpu": "1"})[0] == "n0/gpu1"


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{metric: a, signal: gpu.sm_clok}", "found 'gpu.sm_clok', expected a signal of the catalogue. Did you mean"),
        (
            "{metric: a, signal: gpu.sm_clock, unit: s}",
            "found 's' for gpu.sm_clock, expected one of Hz, kHz, MHz, GHz.",
        ),
        ("{metric: a, signal: gpu.sm_clock, scale: 0}", "found 0, expected a number other than 0"),
        ("{metric: 'a{gpuu}', signal: gpu.sm_clock}", "found the placeholder {gpuu}"),
        ("{metric: 'a{gpu}{node}', signal: gpu.sm_clock}", "each placeholder once"),
        ("{metric: a, signal: gpu.sm_clock, entity: {nod: x}}", "an unknown field 'nod'"),
        ("{metric: a, signal: gpu.sm_clock, labels: [x]}", "found a list, expected a mapping of label names"),
        ("{signal: gpu.sm_clock}", "metrics[0].metric: found no value"),
        ("{metric: " + "a" * 600 + ", signal: gpu.sm_clock}", "found 600 characters, expected at most 500"),
    ],
)
def test_errors_name_line_and_field(line, error):
    with pytest.raises(InputError) as caught:
        parse_mapping(f"version: 1\nmetrics:\n  - {line}\n", "mapping.yaml", catalogue())
    assert error in str(caught.value)
    assert str(caught.value).startswith("mapping.yaml:3: metrics[0]")
