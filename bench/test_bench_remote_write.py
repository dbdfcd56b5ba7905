"""Measures values a second read from remote write: requests of 2,000 known series.

`extra_info` has the values a second. Half of the series are of names that the catalogue knows.
"""

import numpy as np

from bench.prometheus_server import encode_snappy, encode_write_request, labels
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources.common.push_receiver import PushSettings
from skewscope.adapters.sources.common.series_mapper import SeriesMapper
from skewscope.adapters.sources.remote_write import PATH, read_body
from skewscope.engine.model.topology import Node, Topology
from skewscope.kb.loader import catalogue

SERIES = 2000
NAMES = ("of_nobody", "DCGM_FI_DEV_GPU_UTIL")


def test_a_request_whose_series_are_known(benchmark):
    topology = Topology(tuple(Node(f"n{n:03d}", gpus=8) for n in range(SERIES // 16)))
    series = SeriesMapper(MetricResolver(catalogue(), topology), {}, honor_labels=True)
    body = b""
    for n in range(SERIES):
        of = {"__name__": NAMES[n % 2], "Hostname": f"n{n // 16:03d}", "gpu": str(n // 2 % 8)}
        body += encode_write_request([labels(of)], np.array([1_795_000_000_000]), np.array([[float(n)]]))
    packed = encode_snappy(body)
    wanted = PushSettings("bench", PATH)
    assert len(read_body(packed, {}, wanted, series).batch.value) == SERIES // 2
    benchmark(lambda: read_body(packed, {}, wanted, series))
    benchmark.extra_info["values_per_second"] = round(SERIES / benchmark.stats.stats.median)
