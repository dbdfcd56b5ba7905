"""Downloads a span of a Prometheus server into a table: every sample of the known metrics, with its own time.

Raw samples are asked for (a range selector), so the step is that of the scrapes. An answer that is too large or too
slow is asked for again in halves.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from skewscope.adapters.discovery.prometheus import PrometheusClient, ServerSpan
from skewscope.adapters.mapping.name_mapping import NameMapping
from skewscope.adapters.sources.common.http_client import FetchError
from skewscope.adapters.sources.prometheus_query import PrometheusResponseError, build_selectors, parse_matrix
from skewscope.engine.model.arrays import F64

MAX_SAMPLES = 20_000_000
MIN_SLICE = 60.0
"""Seconds of the shortest span that is asked for at a time."""
SLICE = 3600.0
"""Seconds of the longest."""
SHORT_SLICE = 300.0
"""Seconds of a slice of a short span."""
SLICES = 48
"""Slices of a span: so many questions, of each metric, show the progress."""
TABLE_FILE = "samples.parquet"
RESERVED = ("time", "signal", "value")
"""Columns of the table; labels of these names get a prefix."""

Progress = Callable[[str, float], None]
SeriesLabels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DownloadedSpan:
    """What was downloaded."""

    path: Path
    unknown: Counter[str]
    """Metrics of the server that are not known."""
    samples: int
    begin: float
    """From this time on, seconds since 1970: later than wanted where enough samples were found."""


@dataclass
class _Samples:
    """Samples of all answers; times are within [begin, end)."""

    numbers: dict[SeriesLabels, int] = field(default_factory=dict)
    series: list[Any] = field(default_factory=list)
    times: list[F64] = field(default_factory=list)
    values: list[F64] = field(default_factory=list)
    count: int = 0

    def add(self, labels: SeriesLabels, pairs: Iterable[tuple[float, float]], begin: float, end: float) -> None:
        """Adds the samples of one series of an answer."""
        found = np.array(list(pairs), np.float64).reshape(-1, 2)
        found = found[(found[:, 0] >= begin) & (found[:, 0] < end)]
        if not len(found):
            return
        number = self.numbers.setdefault(labels, len(self.numbers))
        self.series.append(np.full(len(found), number, np.int32))
        self.times.append(found[:, 0])
        self.values.append(found[:, 1])
        self.count += len(found)


def download(where: ServerSpan, folder: Path, mapping: NameMapping | None, progress: Progress) -> DownloadedSpan:
    """Writes the samples of a span to a table in `folder`.

    Raises:
        InputError: the server does not answer, has no known metric, or has too many samples.
    """
    return asyncio.run(_download(where, folder, mapping or NameMapping(), progress))


async def _download(where: ServerSpan, folder: Path, mapping: NameMapping, progress: Progress) -> DownloadedSpan:
    client = PrometheusClient(where)
    progress("ask for names", 0.0)
    names, unknown = await client.known_names(mapping)
    samples = _Samples()
    selectors = list(build_selectors(names, ()))
    begin, done = where.end, 0.0
    length = min(max(SHORT_SLICE, (where.end - where.begin) / SLICES), SLICE)
    # The newest first: what is wanted most, where not all are.
    while begin > where.begin and not (where.enough and samples.count >= where.enough):
        end, begin = begin, max(begin - length, where.begin)
        for number, selector in enumerate(selectors, 1):
            await _add_slice(client, selector, (begin, end), samples)
            read = (where.end - end + (end - begin) * number / len(selectors)) / (where.end - where.begin)
            done = max(done, read, samples.count / where.enough if where.enough else 0.0)
            progress(f"download {samples.count:,} samples", min(done, 1.0))
    if not samples.count:
        hint = "--since asks for an older or a longer span."
        raise client.error(f"no sample in {where.end - where.begin:g} s", "samples of known metrics", hint)
    _write_table(samples, folder / TABLE_FILE)
    return DownloadedSpan(folder / TABLE_FILE, Counter(dict.fromkeys(unknown, 1)), samples.count, begin)


async def _add_slice(client: PrometheusClient, selector: str, span: tuple[float, float], samples: _Samples) -> None:
    """Adds the samples of a selector in a span, in halves where they are too many for one answer."""
    begin, end = span
    query = f"{selector}[{round(1000 * (end - begin)) + 1}ms]"
    try:
        data = await client.ask("query", ("query", query), ("time", f"{end:.3f}"))
    except FetchError as error:
        if end - begin < 2 * MIN_SLICE:
            raise client.error(str(error), "an answer", "Ask for a shorter span: --since 15m.") from None
        middle = (begin + end) / 2
        await _add_slice(client, selector, (begin, middle), samples)
        await _add_slice(client, selector, (middle, end), samples)
        return
    last = end if end < client.where.end else np.inf
    try:
        for labels, pairs in parse_matrix(data):
            samples.add(tuple(sorted(labels.items())), pairs, begin, last)
    except PrometheusResponseError as error:
        raise client.error(str(error), "series with samples") from None
    if samples.count > MAX_SAMPLES:
        hint = "Ask for a shorter span: --since 15m."
        raise client.error(f"more than {MAX_SAMPLES:,} samples", "fewer", hint)


def _write_table(samples: _Samples, path: Path) -> None:
    """Writes a long table, in the order of series and times."""
    import pyarrow as pa  # noqa: PLC0415 - needed for tables only
    import pyarrow.parquet as pq  # noqa: PLC0415

    known = sorted(samples.numbers)
    place = np.empty(len(known), np.int32)
    place[[samples.numbers[labels] for labels in known]] = np.arange(len(known))
    series, times = place[np.concatenate(samples.series)], np.concatenate(samples.times)
    order = np.lexsort((times, series))
    series = series[order]
    columns = {"time": pa.array(times[order]), "value": pa.array(np.concatenate(samples.values)[order])}
    rows = [dict(labels) for labels in known]
    for label in sorted({label for row in rows for label in row}):
        texts = pa.array([row.get(label) for row in rows]).dictionary_encode()
        name = "signal" if label == "__name__" else f"label_{label}" if label in RESERVED else label
        columns[name] = texts.take(pa.array(series))
    pq.write_table(pa.table(columns), path, compression="zstd")
