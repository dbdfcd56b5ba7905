import numpy as np
import pytest

from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector, samples_to_block
from skewscope.adapters.inputs.recording import Input
from skewscope.adapters.mapping.names import MetricResolver, SeriesRegistry
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.kb.problems import InputError
from tests.support.telemetry import catalogue, cluster

SOURCE = Input("some-kind", "dump", (("node", "n1"),))


def series(metric, note="", **labels):
    return LabelledSeries(metric, tuple(sorted(labels.items())), np.array([1.0, 2.0]), np.array([3.0, 4.0]), note)


def mapped(*found, source=SOURCE):
    registry = SeriesRegistry()
    block = samples_to_block(found, source, registry, MetricResolver(catalogue(), cluster()))
    return block, registry


def test_a_series_gets_the_unit_and_the_entity_of_the_catalogue():
    block, registry = mapped(series("node_cpu_scaling_frequency_hz"))
    assert registry.keys == [SeriesKey("host.clock", "node", "n1")]
    assert (block.time.tolist(), block.value.tolist()) == ([1.0, 2.0], [3e-6, 4e-6])


def test_a_series_without_a_place_is_counted_with_the_reason_and_its_note_is_a_warning():
    block, registry = mapped(series("unknown", "times begin at 0"), series("unknown", "times begin at 0"))
    assert len(block) == 0
    assert registry.unmapped == {("unknown", "no signal of the catalogue has this name"): 2}
    assert registry.warnings == ["dump: times begin at 0"]


def test_labels_that_describe_a_group_tell_no_series_apart():
    labels = {"group": "B", "rank": "2", "nranks": "3", "global_rank": "7", "parallelism": "data"}
    _, registry = mapped(series("nccl_bus_bandwidth_gbs", **labels), source=Input("some-kind", "dump"))
    assert registry.keys == [SeriesKey("nccl.busbw", "rank", "B:n1/gpu0")]


def test_collected_samples_become_series_in_the_order_of_time():
    collector = SeriesCollector("file", "a note")
    collector.add("b", {"rank": "1", "group": ""}, 2.0, 20.0)
    collector.add("b", {"rank": "1"}, 1.0, 10.0)
    collector.add("a", {}, 5.0, 50.0)
    first, second = collector.series()
    assert (first.metric, first.labels, second.labels) == ("a", (), (("rank", "1"),))
    assert (second.times.tolist(), second.values.tolist(), second.note) == ([1.0, 2.0], [10.0, 20.0], "a note")


@pytest.mark.parametrize("time", [-1.0, float("nan"), MAX_SECONDS, float("inf")])
def test_a_time_that_is_none_is_told_with_its_line(time):
    with pytest.raises(InputError, match=r"file:7: found the time"):
        SeriesCollector("file").add("a", {}, time, 1.0, 7)
