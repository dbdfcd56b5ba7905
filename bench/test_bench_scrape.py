"""Measures values a second read from scraped pages, beside prometheus_client's parser on the same page.

`extra_info` has the values a second. A page of 20,000 series of node_exporter's kind is read as a scrape source reads
it: the meaning of its texts is known from the page before, half of them are wanted. The reference parser gets a tenth
of the page, since its time grows in proportion.
"""

import io

import pytest
from prometheus_client.parser import text_string_to_metric_families

from skewscope.adapters.formats.openmetrics import ExpositionReader
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.adapters.sources.common.base import SourceSeriesRegistry
from skewscope.engine.model.topology import Node, Topology
from skewscope.kb.loader import catalogue

GPUS = 250
FAMILIES = 80
"""Half of them names that the catalogue knows."""


def page(gpus: int) -> str:
    """Returns a page of a GPU exporter: each family with its comments, then its series."""
    names = sorted({n for s in catalogue().signals.values() for n in s.sources.get("dcgm", ()) if n.isupper()})
    known = [name for name in names if name.isidentifier()][: FAMILIES // 2]
    lines = []
    for n, name in enumerate([*known, *(f"node_unknown_{k}_total" for k in range(FAMILIES - len(known)))]):
        lines.append(f"# HELP {name} What it is.\n# TYPE {name} gauge\n")
        for g in range(gpus):
            labels = (
                f'gpu="{g % 8}",UUID="GPU-{g:08x}",device="nvidia{g % 8}",Hostname="n{g // 8}",modelName="NVIDIA H100"'
            )
            lines.append(f"{name}{{{labels}}} {(g * 37 + n) % 1000}.5\n")
    return "".join(lines)


def rate(benchmark, values: int) -> None:
    benchmark.extra_info["values_per_second"] = round(values / benchmark.stats.stats.median)


def test_a_page_as_a_source_reads_it(benchmark):
    topology = Topology(tuple(Node(f"n{n}", gpus=8) for n in range(GPUS // 8 + 1)))
    listing = SourceSeriesRegistry()
    reader = ExpositionReader(MetricResolver(catalogue(), topology).target_lookup({"instance": "x:9400"}, listing))
    text = page(GPUS).encode()
    block = reader.read(io.BytesIO(text), "page", 1.0)
    assert len(block) > FAMILIES * GPUS * 0.2
    benchmark(lambda: reader.read(io.BytesIO(text), "page", 2.0))
    rate(benchmark, FAMILIES * GPUS)


@pytest.mark.parametrize("part", [10])
def test_the_reference_client(benchmark, part):
    text = page(GPUS // part)
    benchmark(lambda: sum(len(family.samples) for family in text_string_to_metric_families(text)))
    rate(benchmark, FAMILIES * (GPUS // part))
