"""Rows of requests as series of the servers that answered them, as an exporter of each server would count them.

A request counts at its arrival, its first token and its end; latencies are histograms with a sum and a count, so that
replicas are peers and each is compared with its own past.
"""

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from skewscope.adapters.formats.bounds import SAMPLES, SERIES
from skewscope.adapters.formats.log_lines import file_stem
from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.inputs.file_origin import check_size, find_server, join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries, SeriesCollector
from skewscope.engine.model.arrays import F64, Mask
from skewscope.kb.problems import InputError, Problem

NAN = math.nan
OK, FAILED, REFUSED = 0, 1, 2
"""Outcomes: answered, failed, and refused for a fault of the request itself, which says nothing of a server."""
PERIODS = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)
"""Seconds between two samples: those at which exporters are usually scraped."""
ENDS_IN_PERIOD = 10
"""Requests that end between two samples, in the mean: fewer make means that scatter."""
MIN_SAMPLES = 30
"""Samples of a file in any case, where its span allows: a shift needs a past."""
LEAST_SPAN_S = 21.0
"""Seconds from the first to the last sample: rules that one request is enough for look at 20 of them."""
PARTS = {
    "queue": "serve_queue_time",
    "prefill": "serve_prefill_time",
    "transfer": "serve_kv_xfer_time",
    "decode": "serve_decode_time",
}
"""Parts of a request, with the histogram of each."""
NO_PARTS = (NAN,) * len(PARTS)
OF_DATES = frozenset(("serve_running",))
"""Series that need to know when requests began and ended."""
OF_NO_DATES = frozenset(("serve_itl_sum", "serve_itl_count"))
"""Series that would be compared with requests at work: with dates these include the ones that wait for a server."""
UNDATED = "its requests have no dates: they are placed at equal distances, so rates and requests at work say nothing"
CLOSED_BY_CLIENT = frozenset((408, 429, 499))
"""Codes below 500 that say that a request was not served in time: timeout, too many requests, given up."""


class ServedRequest(NamedTuple):
    """A request. Times are seconds since 1970, durations seconds; NaN where unknown.

    One without a date has the arrival 0, and the end says how long it took.
    """

    arrival: float
    end: float
    server: str = ""
    outcome: int = OK
    ttft: float = NAN
    """From arrival to the first token."""
    prompt_tokens: float = NAN
    output_tokens: float = NAN
    tpot: float = NAN
    """Time for each output token behind the first."""
    parts: Mapping[str, float] = {}
    """Durations of what is in `PARTS`."""


def outcome_of(code: int) -> int:
    """Returns the outcome of a request with a status code of HTTP; without a code (0 or less) it failed."""
    if code >= 500 or code < 100 or code in CLOSED_BY_CLIENT:
        return FAILED
    return REFUSED if code >= 400 else OK


GROWING_PARTS = 8
"""Parts of the requests, by arrival, of which each has a later first token than the one before where a queue grows: by
chance that is one case in 40,320..."""
LEAST_GROWTH = 2.0
"""...and the last one by so many times the first."""
MIN_IN_PART = 5
"""Requests of a part whose median is compared."""
QUEUE_METRIC = "skewscope_event_bench_requests_queue"
COLUMNS = ("server", "arrival", "end", "outcome", "ttft", "prompt_tokens", "output_tokens", "tpot", *PARTS)
"""Of the table of all requests; the server by its number."""
MAX_SERIES = 24
"""Series of one server, at most."""


@dataclass
class RequestCollector:
    """Collects the requests of one file."""

    file: str
    labels: Mapping[str, str]
    notes: list[str] = field(default_factory=list)
    undated_end: float = 0.0
    """When the last of requests without dates ended, such as the time of the file; 0 where dates are expected."""
    left_out: int = 0
    """Rows that are none, or have no times."""
    _is_dated: bool = False
    _numbers: "array[float]" = field(default_factory=lambda: array("d"))
    """The columns of each request, one request after the other."""
    _servers: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """The number of requests."""
        return len(self._numbers) // len(COLUMNS)

    def add(self, request: ServedRequest, line: int = 0) -> None:
        """Adds a request; one whose times are none is counted as left out.

        Raises:
            InputError: there are too many requests or servers.
        """
        arrival, end, server, *others, parts = request
        is_valid = 0 <= arrival <= end < MAX_SECONDS
        if not is_valid or (arrival == 0 and not self.undated_end):
            self.left_out += 1
            return
        self._is_dated = self._is_dated or arrival > 0
        number = self._servers.get(server)
        if number is None:
            number = self._servers[server] = len(self._servers)
            SERIES.check(self.file, len(self._servers) * MAX_SERIES)
        durations = (parts.get(name, NAN) for name in PARTS) if parts else NO_PARTS
        self._numbers.extend((number, arrival, end, *others, *durations))
        check_size(len(self), self.file, line)

    def series(self) -> list[LabelledSeries]:
        """Returns the series of all servers.

        Raises:
            InputError: there are no requests, or too many samples.
        """
        if not len(self):
            what = f"no request with times in {self.left_out} rows" if self.left_out else "no request"
            expected = "rows with the arrival of a request, and its end or how long it took"
            raise InputError([Problem(self.file, 0, "", what, expected)])
        place, unnamed = find_server(self.labels, self.file)
        table = self._dated_table()
        columns = dict(zip(COLUMNS, table.T, strict=True))
        # What no server answered belongs to none of them.
        servers = {name: number for name, number in self._servers.items() if name or len(self._servers) == 1}
        times = _sample_times(columns["arrival"], columns["end"])
        SAMPLES.check(self.file, len(servers) * MAX_SERIES * len(times))
        waits = SeriesCollector(self.file)
        for server, number in servers.items():
            if message := _ServerRequests(table[columns["server"] == number], times).growing_wait():
                labels = {**({"instance": server} if server else place), "message": message}
                waits.add(QUEUE_METRIC, labels, float(columns["end"].max()), 1.0)
        note = join_notes(
            "" if any(servers) else unnamed,
            *self.notes,
            "" if self._is_dated else UNDATED,
            f"{self.left_out} rows without valid times are left out" if self.left_out else "",
        )
        own = [
            (
                {"instance": server} if server else place,
                _ServerRequests(table[columns["server"] == number], times).series(),
            )
            for server, number in sorted(servers.items())
        ]
        if "" not in servers and "" in self._servers:
            # What sends requests to servers turned some away itself.
            refused = columns["server"] == self._servers[""]
            own.append(
                (place or {"instance": file_stem(self.file)}, _ServerRequests(table, times).turned_away(refused))
            )
        return waits.series() + [
            LabelledSeries(f"skewscope_{metric}", tuple(sorted(labels.items())), times, values, note)
            for labels, series in own
            for metric, values in series
            if metric not in (OF_NO_DATES if self._is_dated else OF_DATES)
        ]

    def _dated_table(self) -> F64:
        """Returns [request, column] the requests with dates, or all of them one after the other where none has any."""
        table: F64 = np.array(self._numbers).reshape(-1, len(COLUMNS))
        arrival, end = COLUMNS.index("arrival"), COLUMNS.index("end")
        if self._is_dated:
            kept = table[:, arrival] > 0
            self.left_out += int((~kept).sum())
            return table[kept]
        took = table[:, end].copy()
        apart = float(np.median(took)) or 1.0
        # Equally far apart, so that slow ones do not stretch the time in which they are judged.
        table[:, end] = max(self.undated_end, apart * len(took)) - apart * np.arange(len(took))[::-1]
        table[:, arrival] = np.maximum(table[:, end] - took, 0.0)
        return table


def _sample_times(arrivals: F64, ends: F64) -> F64:
    """Returns [sample] seconds since 1970, from the first arrival to the last end."""
    begin, end = float(arrivals.min()), float(ends.max())
    span = end - begin
    wanted = span * ENDS_IN_PERIOD / len(ends)
    most = max((each for each in PERIODS if each <= span / MIN_SAMPLES), default=PERIODS[0])
    period = min(most, next((each for each in PERIODS if each >= wanted), PERIODS[-1]))
    # The counts stand still after the last end: what a rule looks for over some seconds is judged then.
    count = math.ceil(max(span, LEAST_SPAN_S) / period) + 2
    return np.asarray(begin + period * np.arange(count), np.float64)


def _medians(values: F64) -> F64:
    """Returns [part] the medians of parts of values, one after another."""
    return np.array([np.median(part) for part in np.array_split(values, GROWING_PARTS)])


@dataclass(frozen=True)
class _ServerRequests:
    """The requests of one server, counted at the times of samples."""

    table: F64
    """[request, column]"""
    times: F64

    def series(self) -> Iterator[tuple[str, F64]]:
        """Yields the metric and [sample] the values of each series that the rows say something of."""
        arrival, end, first, outcome = (self._column(name) for name in ("arrival", "end", "ttft", "outcome"))
        is_answered = outcome == OK
        yield "serve_running", self._count(arrival) - self._count(end)
        yield "serve_success_total", self._count(end[is_answered])
        yield "serve_failure_total", self._count(end[outcome == FAILED])
        for metric, name in (("prompt_tokens", "prompt_tokens"), ("generation_tokens", "output_tokens")):
            tokens = self._column(name)
            if not np.isnan(tokens).all():
                yield f"serve_{metric}_total", self._count(end, np.nan_to_num(tokens))
        for metric, moment, values in (
            ("serve_ttft", arrival + first, first),
            ("serve_e2e", end, end - arrival),
            ("serve_tpot", end, self._time_per_token(arrival, end, first)),
            ("serve_prompt_len", end, self._column("prompt_tokens")),
            ("serve_output_len", end, self._column("output_tokens")),
            *((metric, end, self._column(part)) for part, metric in PARTS.items()),
        ):
            yield from self._histogram(metric, moment, np.where(is_answered, values, NAN))
        # As a server counts it: one observation for each token, so that a single request says much.
        per_token, tokens = self._time_per_token(arrival, end, first), self._column("output_tokens") - 1
        yield from self._histogram("serve_itl", end, np.where(is_answered & (tokens > 0), per_token, NAN), tokens)

    def growing_wait(self) -> str:
        """Returns that the first token comes later and later, '' where it does not, or where prompts grow as well."""
        arrival, first, prompts = (self._column(name) for name in ("arrival", "ttft", "prompt_tokens"))
        known = np.isfinite(first) & (self._column("outcome") == OK)
        order = np.argsort(arrival[known], kind="stable")
        if len(order) < GROWING_PARTS * MIN_IN_PART:
            return ""
        waits, lengths = (_medians(each[known][order]) for each in (first, prompts))
        # Requests that are sorted by length wait for their own prompts.
        if np.any(np.diff(waits) <= 0) or waits[-1] < LEAST_GROWTH * waits[0] or np.all(np.diff(lengths) > 0):
            return ""
        return (
            f"Requests wait before they are computed: the first token comes after {waits[0]:.3g} s in the first eighth "
            f"of the requests, and after {waits[-1]:.3g} s in the last one, growing all the time"
        )

    def turned_away(self, refused: Mask) -> Iterator[tuple[str, F64]]:
        """Yields the count of those that failed among [request] some; what was answered is that of the servers."""
        failed = refused & (self._column("outcome") == FAILED)
        if failed.any():
            yield "serve_failure_total", self._count(self._column("end")[failed])

    def _column(self, name: str) -> F64:
        column: F64 = self.table[:, COLUMNS.index(name)]
        return column

    def _time_per_token(self, arrival: F64, end: F64, first: F64) -> F64:
        """Returns [request] seconds for each token behind the first, as given or as it follows from the times."""
        given, tokens = self._column("tpot"), self._column("output_tokens")
        own = np.divide(end - arrival - first, tokens - 1, out=np.full(len(tokens), NAN), where=tokens > 1)
        return np.where(np.isnan(given), np.where(own >= 0, own, NAN), given)

    def _count(self, moments: F64, weights: F64 | None = None) -> F64:
        """Returns [sample] how many moments, or how much of their weights, there were until then."""
        order = np.argsort(moments, kind="stable")
        sums = np.arange(len(moments) + 1.0) if weights is None else np.concatenate(([0.0], weights[order].cumsum()))
        counted: F64 = sums[np.searchsorted(moments[order], self.times, side="right")]
        return counted

    def _histogram(
        self, metric: str, moments: F64, values: F64, counts: F64 | None = None
    ) -> Iterator[tuple[str, F64]]:
        """Yields sum and count of a histogram whose observations are made at some moments.

        Args:
            metric: its name.
            moments: [request] seconds since 1970.
            values: [request] what is observed; NaN for nothing.
            counts: [request] how often; once each where None.
        """
        often = np.ones(len(values)) if counts is None else counts
        known = np.isfinite(values) & np.isfinite(moments) & np.isfinite(often)
        if known.any():
            weights = often[known]
            yield f"{metric}_sum", self._count(moments[known], values[known] * weights)
            yield f"{metric}_count", self._count(moments[known], weights)
