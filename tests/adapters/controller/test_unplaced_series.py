"""Series that are not used are counted by source and reason, and every way of asking has the counts."""

import numpy as np
import pytest

from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.controller.unplaced_series import ClaimedSeries, merge_counts
from skewscope.adapters.mapping.engines import RELEASE_S, SEVERAL_ENGINES
from skewscope.adapters.sources.common.base import SourceBatch, SourceSeriesRegistry
from skewscope.engine.ingest.feed import SeriesKey
from skewscope.engine.model.topology_file import parse_valid_topology
from skewscope.kb.yamlfile import parse
from tests.adapters.controller.processes import running
from tests.support.loopback import Says, Server

TOPOLOGY = """
version: 1
nodes: [{name: n0, gpus: 1, aliases: [127.0.0.1]}]
groups: [{name: A, kind: tensor-parallel, members: [n0], front_end: n0}]
"""
PAGE = b"""
vllm:num_requests_running 1
vllm:num_requests_waiting 1
my_own_metric 1
my_own_metric{a="b"} 1
"""
SIGNAL = "serve.waiting"


def test_a_source_keeps_its_count_until_a_single_engine_is_left():
    topology = parse_valid_topology(parse(TOPOLOGY))
    batcher, claimed = Batcher({SIGNAL}, topology, frozenset({SIGNAL})), ClaimedSeries()
    tables = {name: SourceSeriesRegistry() for name in ("a", "b")}
    for table, port in zip(tables.values(), (8000, 8001), strict=True):
        table.register(SeriesKey(SIGNAL, "replica", "A", f"instance=n0:{port},job=j"), 1)

    def tick(t, *names):
        batches = {name: [SourceBatch(tables[name], None, t, np.array([1.0]))] for name in names}
        batcher.build_block([each for some in batches.values() for each in some], t)
        claimed.update(batches, batcher)
        return claimed.counts

    assert tick(1.0, "a") == {}
    both = {"a": {SEVERAL_ENGINES: 1}, "b": {SEVERAL_ENGINES: 1}}
    assert [tick(t, "a", "b") for t in (2.0, 3.0, 4.0)][-1] == both
    assert tick(5.0, "a") == both
    assert [tick(4.0 + RELEASE_S + n, "a") for n in (1.0, 2.0)][-1] == {}


def test_counts_are_added_and_the_most_come_first():
    merged = merge_counts({"a": {"x": 1, "y": 5}, "c": {}}, {"a": {"x": 7}, "b": {"z": 2}})
    assert merged == {"a": {"x": 8, "y": 5}, "b": {"z": 2}}
    assert list(merged["a"]) == ["x", "y"]


@pytest.mark.slow
@pytest.mark.alone
def test_a_controller_tells_them_by_its_api_its_metrics_and_its_view(tmp_path):
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    answer = Says(200, PAGE, {"Content-Type": "text/plain"})
    with Server(lambda _: answer) as one, Server(lambda _: answer) as other:
        places = [f"127.0.0.1:{page.server_address[1]}" for page in (one, other)]
        more = f"sources: [{{kind: scrape, name: p, targets: {places}, period: 1}}]\n"
        with running(tmp_path, more) as found:

            def unmapped():
                return found.json("/api/v1/sources")["sources"][0]["unmapped"]

            found.until(lambda: SEVERAL_ENGINES in unmapped())
            assert unmapped() == {"no signal of the catalogue has this name": 4, SEVERAL_ENGINES: 4}
            line = f'skewscope_source_unmapped_series{{source="p",reason="{SEVERAL_ENGINES}"}} 4'
            assert line in found.ask("/metrics")[2].decode()
