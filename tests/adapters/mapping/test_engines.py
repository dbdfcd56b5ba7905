"""Two engines that report under one replica at the same time are told, and none of them is used."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.inputs.merge import InputSamples, drop_rival_engines
from skewscope.adapters.mapping.engines import (
    EQUAL_LABELS,
    RELEASE_S,
    SEVERAL_ENGINES,
    CounterWatch,
    EngineLedger,
    engine_counters,
    engine_signals,
    identity_labels,
    split_key,
)
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources.common.base import SourceBatch, SourceSeriesRegistry
from skewscope.engine.ingest.feed import Block, SeriesKey
from skewscope.engine.model.topology_file import parse_valid_topology
from skewscope.kb.loader import catalogue
from skewscope.kb.yamlfile import parse

TOPOLOGY = parse_valid_topology(
    parse("""
version: 1
nodes: [{name: n0, gpus: 8}, {name: n1, gpus: 8}]
groups:
  - {name: A, kind: tensor-parallel, members: [n0], front_end: n0}
  - {name: D, kind: data-parallel, members: [n1/gpu0, n1/gpu1], front_end: n1}
""")
)
OF_ENGINES = engine_signals(catalogue())
NAMES = MetricResolver(catalogue(), TOPOLOGY)


def keys(*labels, metrics=("vllm:num_requests_running", "vllm:generation_tokens_total")):
    """The series of engines with these labels."""
    return [mapped.key for own in labels for metric in metrics for mapped in NAMES.resolve(metric, own, {})]


def samples(found, *times):
    """Samples of each series from its first to its last second."""
    parts = [(n, t) for n, span in enumerate(times) for t in range(*span)]
    number, time = (np.array(column) for column in zip(*parts, strict=True))
    return InputSamples(tuple(found), (1,) * len(found), Block(time * 1.0, number.astype(np.int32), time * 1.0))


@pytest.mark.parametrize(
    ("first", "second", "label"),
    [
        ({"instance": "n0:8000"}, {"instance": "n0:8001"}, "instance"),
        ({"instance": "n0", "pod": "a"}, {"instance": "n0", "pod": "b"}, "pod"),
        ({"instance": "n0", "model_name": "a"}, {"instance": "n0", "model_name": "b"}, "model_name"),
        ({"node": "n0", "job": "a"}, {"node": "n0", "job": "b"}, "job"),
        ({"instance": "n0", "port": "1"}, {"instance": "n0", "port": "2"}, "port"),
    ],
)
def test_of_two_engines_at_once_neither_is_used_and_the_label_is_named(first, second, label):
    found = keys(first, second)
    kept, gone = drop_rival_engines([samples(found, *[(0, 60)] * 4)], EngineLedger(TOPOLOGY), catalogue())
    assert not kept[0].keys
    assert not len(kept[0].block)
    assert {each.metric for each in gone} == {"serve.running", "serve.generation_tokens"}
    assert f"`engine: {{{label}: ...}}`" in gone[0].reason


@pytest.mark.parametrize(
    ("engines", "spans"),
    [
        ([{"instance": "n0:8000"}, {"instance": "n0:8001"}], [(0, 60), (60, 120)]),
        ([{"instance": "n0:8000", "job": "a"}, {"instance": "n0:8000", "job": "b"}], [(0, 60), (0, 60)]),
        ([{"instance": "n1:8000"}, {"instance": "n1:8001"}], [(0, 60), (0, 60)]),
        ([{"instance": "n0:8000", "engine": "0"}, {"instance": "n0:8001", "engine": "1"}], [(0, 60), (0, 60)]),
    ],
    ids=["restarted", "scraped by two jobs", "members of a data-parallel group", "ranks of one engine"],
)
def test_one_engine_is_not_taken_for_two(engines, spans):
    given_ = samples(keys(*engines, metrics=("vllm:num_requests_running",)), *spans)
    kept, gone = drop_rival_engines([given_], EngineLedger(TOPOLOGY), catalogue())
    assert not gone
    assert kept[0] is given_


def test_two_engines_with_the_same_labels_are_none():
    (key,) = keys({"instance": "n0"}, metrics=("vllm:generation_tokens_total",))
    time = np.arange(40.0)
    both = np.where(time % 2, 1e6 + 10 * time, 5 * time)
    mixed = InputSamples((key,), (1,), Block(time, np.zeros(40, np.int32), both))
    kept, gone = drop_rival_engines([mixed], EngineLedger(TOPOLOGY), catalogue())
    assert not kept[0].keys
    assert "a label `instance` with the port of each decides" in gone[0].reason
    restarted = InputSamples((key,), (1,), Block(time, np.zeros(40, np.int32), time % 20))
    assert drop_rival_engines([restarted], EngineLedger(TOPOLOGY), catalogue()) == ([restarted], [])


@given(st.permutations(range(4)))
def test_the_order_of_inputs_decides_nothing(order):
    found = keys({"instance": "n0:8000"}, {"instance": "n0:8001"})
    parts = [samples([key], (0, 9)) for key in found]
    _, gone = drop_rival_engines([parts[n] for n in order], EngineLedger(TOPOLOGY), catalogue())
    assert sorted(gone) == sorted(drop_rival_engines(parts, EngineLedger(TOPOLOGY), catalogue())[1])


def test_live_a_second_engine_stops_the_first_until_it_is_gone():
    batcher = Batcher(OF_ENGINES, TOPOLOGY, OF_ENGINES)
    tables = [SourceSeriesRegistry() for _ in range(2)]
    for table, own in zip(tables, ("n0:8000", "n0:8001"), strict=True):
        for key in keys({"instance": own}):
            table.register(key, 1)

    def tick(t, *which):
        batches = [SourceBatch(tables[n], None, t, np.array([1.0, 2.0])) for n in which]
        return len(batcher.build_block(batches, t))

    assert [tick(t, 0) for t in (1.0, 2.0)] == [2, 2]
    counts = [tick(t, 0, 1) for t in (3.0, 4.0, 5.0)]
    assert counts[-1] == 0
    assert "instance n0:8000 and n0:8001" in batcher.claimed_replicas["A"]
    assert [batcher.count_claims(table) for table in tables] == [{SEVERAL_ENGINES: 2}] * 2
    later = 5.0 + RELEASE_S
    assert [tick(later + n, 1) for n in (1.0, 2.0)] == [2, 2]
    assert not batcher.claimed_replicas
    assert not batcher.count_claims(tables[1])


def counter_ticks(values, *, is_sparse):
    """Returns how many series reach the engine in each tick, and the replicas that are claimed at the end."""
    signal = min(engine_counters(catalogue()))
    batcher = Batcher({signal}, TOPOLOGY, frozenset({signal}), frozenset({signal}))
    table = SourceSeriesRegistry()
    table.register(SeriesKey(signal, "replica", "A"), 1)
    counts = []
    for t, value in enumerate(values, 1):
        numbers = np.zeros(1, np.int32) if is_sparse else None
        counts.append(len(batcher.build_block([SourceBatch(table, numbers, float(t), np.array([value]))], float(t))))
    return counts, batcher.claimed_replicas, batcher.count_claims(table)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_live_two_engines_with_equal_labels_are_noticed_and_none_is_used(is_sparse):
    mixed = [value for n in range(20) for value in (1000.0 + n, 1000.0 + n, 10.0 + n, 10.0 + n)]
    counts, claimed, unused = counter_ticks(mixed, is_sparse=is_sparse)
    assert counts[0] == 1
    assert counts[-1] == 0
    assert unused == {EQUAL_LABELS: 1}
    assert "goes back and forth" in claimed["A"]


@pytest.mark.parametrize("is_sparse", [False, True])
def test_live_an_engine_that_is_restarted_is_used_on_and_one_that_was_mixed_is_used_again(is_sparse):
    restarted = [float(n % 25) for n in range(100)]
    assert counter_ticks(restarted, is_sparse=is_sparse) == ([1] * 100, {}, {})
    alone = [value for n in range(20) for value in (1000.0 + n, 10.0 + n)] + [2000.0 + n for n in range(300)]
    counts, claimed, unused = counter_ticks(alone, is_sparse=is_sparse)
    assert (counts[39], counts[-1], claimed, unused) == (0, 1, {}, {})


def test_live_several_values_of_a_counter_in_one_batch_count_in_their_order():
    watch = CounterWatch(["A", "B"])
    for _ in range(10):
        watch.note(np.array([0, 1]), np.array([5.0, 5.0]))
        watch.note(np.array([1, 0]), np.array([1.0, np.nan]))
    assert list(watch.mixed_replicas()) == ["B"]


LABELS = st.dictionaries(
    st.sampled_from(["instance", "pod", "model_name", "job", "node"]), st.sampled_from(["", "n0", "n0:1", "a,b=c"])
)


@given(LABELS)
def test_labels_that_identify_an_engine_are_those_of_its_key(labels):
    every = {**labels, "node": "n0"}
    (key,) = keys(every, metrics=("vllm:num_requests_running",))
    place, own = split_key(key)
    assert (place.replica, place.signal) == ("A", "serve.running")
    given_ = {name for name in identity_labels(every) if every.get(name)}
    assert {part.partition("=")[0] for part in own} == given_
    assert split_key(SeriesKey("serve.ttft", "replica", "A")) is None
