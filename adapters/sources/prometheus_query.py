"""Sources of kind `prometheus-query`: queries a Prometheus-compatible server each period for new samples.

Queries raw samples (`/api/v1/query` with a range selector), which keep their own times, so that stale series are not
repeated. With `step`, `/api/v1/query_range` is used: one value per step, and none without a sample in it. Only names
that both catalogue and server know are queried.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np

from skewscope.adapters.config.fields import read_bool, read_number
from skewscope.adapters.config.secret import redact_secrets
from skewscope.adapters.formats.openmetrics_grammar import escape
from skewscope.adapters.mapping.senders import FLEET
from skewscope.adapters.runtime.blocking_calls import WORK
from skewscope.adapters.sources import SourceContext
from skewscope.adapters.sources.common.base import BatchSink, SourceBatch, redact_message
from skewscope.adapters.sources.common.http_client import FetchOptions, fetch
from skewscope.adapters.sources.common.request_settings import REQUEST_FIELDS
from skewscope.adapters.sources.common.scrape_settings import parse_fetch_options
from skewscope.adapters.sources.common.senders import build_lookup, read_reports_for
from skewscope.adapters.sources.common.series_mapper import SeriesMapper, SourceBatchBuilder
from skewscope.adapters.sources.common.targets import Labels, TargetDiscovery, parse_labels, target_url
from skewscope.engine.model.arrays import F64
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.yamlfile import FieldPath

OPTIONAL = (
    *("name", "match", "labels", "honor_labels", "period", "step", "timeout", "most_mib"),
    *("reports_for", "note", *REQUEST_FIELDS),
)
MAX_SELECTOR = 3000
"""Maximum characters of the names in one query: servers and proxies limit the length of a URL."""
NAMES_REFRESH_PERIOD = 60.0
"""Seconds between two refreshes of the list of names."""
LATE_PERIODS = 2
"""Periods by which a sample may reach the server late."""
MAX_LOOKBACK = 300.0
"""Maximum seconds queried after an interruption."""


class PrometheusResponseError(Exception):
    """The answer is not that of a Prometheus server."""


@dataclass(frozen=True, slots=True)
class PrometheusQuerySettings:
    """One server to query."""

    name: str
    url: str
    fetch_options: FetchOptions
    period: float
    step: float = 0.0
    """Seconds between values; 0 for raw samples."""
    match: Labels = ()
    """Labels that series must have."""
    labels: Labels = ()
    honor_labels: bool = True
    """Whether labels of a series take precedence over those of its source."""
    reports_for: tuple[str, ...] = (FLEET,)
    """What it reports for."""


def read(fields: FieldReader, at: FieldPath, name: str) -> PrometheusQuerySettings:
    """Parses the settings of one source; problems are added to `fields`."""
    fields.check_keys(at, ("kind", "url"), OPTIONAL)
    period = read_number(fields, (*at, "period"), 5.0, (0.1, 3600.0))
    step = read_number(fields, (*at, "step"), 0.0, (0.1, period)) if fields.value_at((*at, "step")) is not None else 0.0
    reported = fields.text((*at, "url"))
    url = target_url(reported, TargetDiscovery(path="")) if reported else ""
    if reported and not url:
        fields.add_problem(
            (*at, "url"), f"{redact_message(reported)!r:.80}", "an address that begins with http:// or https://"
        )
    honor = fields.value_at((*at, "honor_labels")) is None or read_bool(fields, (*at, "honor_labels"))
    match, own = parse_labels(fields, (*at, "match")), parse_labels(fields, (*at, "labels"))
    options = parse_fetch_options(fields, at, period)
    reports_for = read_reports_for(fields, (*at, "reports_for"), (FLEET,))
    return PrometheusQuerySettings(name, url.rstrip("/"), options, period, step, match, own, honor, reports_for)


def build(settings: PrometheusQuerySettings, context: SourceContext) -> "PrometheusQuerySource":
    """Creates the source."""
    return PrometheusQuerySource(settings, context)


@dataclass
class PrometheusQuerySource:
    """Queries one server."""

    settings: PrometheusQuerySettings
    context: SourceContext
    mapper: SeriesMapper = field(init=False)
    _known_until: float = -math.inf
    """Everything up to this time has been read."""
    _names: tuple[str, ...] = ()
    _names_fetched_at: float = -math.inf
    _newest: F64 = field(default_factory=lambda: np.empty(0))
    """[series] float64 seconds, time of the newest sample."""

    _version: int = 0
    """That of the topology for which series are mapped."""

    def __post_init__(self) -> None:
        self._map_anew()

    def _map_anew(self) -> None:
        settings, labels, self._version = self.settings, dict(self.settings.labels), self.context.version
        senders = build_lookup(settings.name, self.context.topology, settings.reports_for, labels, collects=True)
        self.mapper = SeriesMapper(self.context.names, labels, settings.honor_labels, senders=senders)
        self._newest = np.empty(0)

    @property
    def name(self) -> str:
        """Name in the config."""
        return self.settings.name

    @property
    def period(self) -> float:
        """Seconds between two queries; 0 if the server has no useful series."""
        return self.settings.period if self._names else 0.0

    async def run(self, sink: BatchSink) -> None:
        """Queries until cancelled, or until a query fails."""
        sink.follow(self.mapper.registry)
        while True:
            now, begun = self.context.clock.now(), self.context.clock.uptime()
            if self._version != self.context.version:
                self._map_anew()
                sink.follow(self.mapper.registry)
            if not self._names or begun - self._names_fetched_at > NAMES_REFRESH_PERIOD:
                self._names, self._names_fetched_at = await self._fetch_names(), begun
            since = (
                max(self._known_until, now - MAX_LOOKBACK)
                if math.isfinite(self._known_until)
                else now - self.settings.period
            )
            for selector in build_selectors(self._names, self.settings.match):
                answer = await fetch(self._query_url(selector, since, now), self.settings.fetch_options)
                if batch := await WORK.run(self._parse_batch, answer):
                    sink.put(batch)
            self._known_until = now
            sink.trouble = self.mapper.trouble or ("" if self._names else "it has no series that the catalogue knows")
            await self.context.clock.sleep(self.settings.period - (self.context.clock.uptime() - begun))

    async def _fetch_names(self) -> tuple[str, ...]:
        answer = await fetch(
            f"{self.settings.url}/api/v1/label/{quote('__name__')}/values", self.settings.fetch_options
        )
        there = await WORK.run(parse_response, answer, self.settings.fetch_options)
        if not isinstance(there, list):
            raise PrometheusResponseError("no list of names")
        wanted = {*self.context.names.metrics, *(self.context.names.witness_metrics)}
        return tuple(sorted({name for name in there if isinstance(name, str)} & wanted))

    def _query_url(self, selector: str, since: float, now: float) -> str:
        step, url = self.settings.step, self.settings.url
        if not step:
            window = math.ceil(1000 * (now - since + LATE_PERIODS * self.settings.period))
            # The server's clock decides what is new; only the look-back is computed here.
            return f"{url}/api/v1/query?" + urlencode({"query": f"{selector}[{window}ms]"})
        query = f"last_over_time({selector}[{math.ceil(1000 * step)}ms])"
        start, end = (math.floor(t / step) * step for t in (since - step, now))
        queried = {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        return f"{url}/api/v1/query_range?" + urlencode(queried)

    def _parse_batch(self, answer: bytes) -> SourceBatch | None:
        """Returns the new samples of an answer."""
        data, rows = parse_response(answer, self.settings.fetch_options), SourceBatchBuilder()
        for labelled, samples in parse_matrix(data):
            targets = self.mapper.lookup(tuple(sorted(labelled.items())), _split_name, labelled)
            for time, value in samples if targets else ():
                rows.add(targets, time, value)
        batch = rows.build(self.mapper.registry)
        return self._drop_known(batch) if batch else None

    def _drop_known(self, batch: SourceBatch) -> SourceBatch | None:
        """Drops samples that were delivered before."""
        assert batch.numbers is not None
        times = np.broadcast_to(batch.time, batch.value.shape)
        more = np.full(len(batch.columns.keys) - len(self._newest), -math.inf)
        self._newest = np.concatenate((self._newest, more))
        new = np.flatnonzero(times > self._newest[batch.numbers])
        np.maximum.at(self._newest, batch.numbers[new], times[new])
        return SourceBatch(batch.columns, batch.numbers[new], times[new], batch.value[new]) if len(new) else None


def build_selectors(names: Sequence[str], match: Labels) -> Iterator[str]:
    """Yields selectors that together cover these names and labels, each below the length limit."""
    more = "".join(f',{label}="{escape(value)}"' for label, value in match)
    some: list[str] = []
    for name in names:
        if some and sum(map(len, some)) + len(some) + len(name) > MAX_SELECTOR:
            yield f'{{__name__=~"{"|".join(some)}"{more}}}'
            some = []
        some.append(name)
    if some:
        yield f'{{__name__=~"{"|".join(some)}"{more}}}'


def parse_response(answer: bytes, options: FetchOptions) -> Any:
    """Returns the data of an answer.

    Raises:
        PrometheusResponseError: the answer is invalid.
    """
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        raise PrometheusResponseError("an answer that is no JSON") from None
    if not isinstance(found, dict) or found.get("status") != "success":
        reported = found.get("error") if isinstance(found, dict) else ""
        raise PrometheusResponseError(
            f"the answer is an error: {redact_secrets(str(reported), options.bearer)}"
            if reported
            else "an answer without success"
        )
    return found.get("data")


def _split_name(labelled: Mapping[str, str]) -> tuple[str, Labels]:
    """Splits labels into name and other labels."""
    own = ((label, value) for label, value in labelled.items() if label != "__name__")
    return labelled.get("__name__", ""), tuple(own)


def parse_matrix(data: Any) -> Iterator[tuple[Mapping[str, str], Iterable[tuple[float, float]]]]:
    """Yields labels and samples of each series.

    Raises:
        PrometheusResponseError: the data is not a matrix.
    """
    try:
        if data["resultType"] != "matrix":
            raise PrometheusResponseError(f"{data['resultType']!r:.40} where series were asked for")
        for one in data["result"]:
            labelled = {str(label): str(value) for label, value in one["metric"].items()}
            yield labelled, [(float(time), float(value)) for time, value in one.get("values", ())]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise PrometheusResponseError("series in an unknown shape") from None
