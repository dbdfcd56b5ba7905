"""Measures values a second read from exposition text, beside the reference client's parser on the same text.

`extra_info` has the values a second: a dump of whole series as promtool writes it, and pages of which each has every
series once, as a scrape gives them.
"""

import io

from prometheus_client.parser import text_string_to_metric_families

from skewscope.adapters.formats.openmetrics import ExpositionReader, SeriesTarget

SERIES = 20_000
SAMPLES = 200_000


def texts(series):
    """Returns the texts before the values: 20 metrics of equally many nodes, half of them wanted."""
    return [f'node_metric_{n % 20}_total{{node="n{n // 20}",device="eth{n % 3}",job="node"}}' for n in range(series)]


def dump(series):
    """Returns a dump in which the lines of a series are consecutive."""
    each = SAMPLES // series
    lines = (f"{text} {k * 17}.5 {1795177000 + k * 0.5:.3f}\n" for text in texts(series) for k in range(each))
    return "".join(lines).encode() + b"# EOF\n"


def page(series):
    """Returns the page of one scrape."""
    return "".join(f"{text} {n * 17}.5\n" for n, text in enumerate(texts(series))).encode()


def known(name, _):
    return [SeriesTarget(0)] if int(name.split("_")[2]) % 2 else []


def rate(benchmark, values):
    benchmark.extra_info["values_per_second"] = round(values / benchmark.stats.stats.median)


def test_a_dump_of_few_series(benchmark):
    text = dump(2000)
    benchmark(lambda: ExpositionReader(known).read(io.BytesIO(text), "dump"))
    rate(benchmark, SAMPLES)


def test_a_dump_of_many_series(benchmark):
    text = dump(SERIES)
    benchmark(lambda: ExpositionReader(known).read(io.BytesIO(text), "dump"))
    rate(benchmark, SAMPLES)


def test_a_page_whose_series_are_known(benchmark):
    text, reader = page(SERIES), ExpositionReader(known)
    reader.read(io.BytesIO(text), "page", 1.0)
    benchmark(lambda: reader.read(io.BytesIO(text), "page", 2.0))
    rate(benchmark, SERIES)


def test_the_reference_client_on_a_page(benchmark):
    text = page(SERIES // 10).decode()
    benchmark(lambda: sum(len(family.samples) for family in text_string_to_metric_families(text)))
    rate(benchmark, SERIES // 10)
