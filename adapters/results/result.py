"""Results of benchmarks as values, whatever program measured them: of serving, and of bandwidth between nodes.

Times are in seconds, rates per second. What a program does not report is None; nothing is made up for it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from types import MappingProxyType

NORMAL = NormalDist()
LATENCIES: Mapping[str, str] = MappingProxyType(
    {
        "ttft": "time to first token",
        "tpot": "time per output token",
        "itl": "time between tokens",
        "e2e": "time of a request",
    }
)
"""What messages call each latency of a result."""


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """One latency of all requests of a run, in seconds."""

    mean: float | None = None
    std: float | None = None
    quantiles: tuple[tuple[float, float], ...] = ()
    """(share of requests, seconds), sorted."""

    def quantile(self, share: float) -> float | None:
        """Returns the seconds within which such a share of requests was; None where it was not reported."""
        return next((value for at, value in self.quantiles if math.isclose(at, share)), None)

    @property
    def typical(self) -> float | None:
        """The median, else the mean; None where there is neither."""
        median = self.quantile(0.5)
        return self.mean if median is None else median

    @property
    def least(self) -> float | None:
        """The lowest quantile of at most a quarter: how long it takes where nothing is in the way."""
        return next((value for share, value in self.quantiles if share <= 0.25), None)

    def relative_error(self, count: int | None) -> float:
        """Returns the standard error of the typical value by itself, as a share of it, for so many requests."""
        if not count:
            return math.inf
        if self.quantile(0.5) is not None and (spread := self._log_spread()) is not None:
            return spread * math.sqrt(math.pi / 2 / count)
        if self.mean and self.std is not None:
            return self.std / self.mean / math.sqrt(count)
        # As of an exponential distribution, whose deviation is its mean.
        return 1 / math.sqrt(count)

    def _log_spread(self) -> float | None:
        """Returns the deviation of the logarithm by the median and the next quantile; None where there is none."""
        median = self.quantile(0.5)
        upper = next(((share, value) for share, value in self.quantiles if 0.5 < share < 1), None)
        if not median or upper is None or upper[1] < median:
            return None
        return math.log(upper[1] / median) / NORMAL.inv_cdf(upper[0])


@dataclass(frozen=True, slots=True)
class OfferedLoad:
    """The load that a run offered: requests per second, requests at a time, or neither where it sent all at once."""

    rate: float | None = None
    concurrency: float | None = None
    is_unlimited: bool = False
    """Whether it is known that all requests were sent at once."""

    @property
    def level(self) -> float | None:
        """The number that a sweep raises."""
        return self.rate if self.rate is not None else self.concurrency

    def __str__(self) -> str:
        parts = [f"{self.rate:g} requests/s" if self.rate is not None else ""]
        parts.append(f"{self.concurrency:g} at a time" if self.concurrency is not None else "")
        return ", ".join(filter(None, parts)) or ("all at once" if self.is_unlimited else "an unknown load")


@dataclass(frozen=True, slots=True)
class ServingResult:
    """One run of a benchmark of serving at one load."""

    file: str
    tool: str
    load: OfferedLoad = OfferedLoad()
    latencies: Mapping[str, LatencySummary] = field(default_factory=dict)
    """By the names of `LATENCIES`."""
    completed: int | None = None
    failed: int | None = None
    duration: float | None = None
    request_rate: float | None = None
    """Requests that were served per second."""
    output_rate: float | None = None
    """Output tokens per second."""
    input_length: float | None = None
    """Tokens of a prompt, on average."""
    output_length: float | None = None
    started: float | None = None
    """Seconds since 1970."""
    subject: str = ""
    """What was measured, where a file has several: a model or an endpoint."""
    verdict: str = ""
    """Why the program itself calls the run invalid; '' where it does not."""

    @property
    def token_time(self) -> float | None:
        """Seconds per output token of a request that is being decoded."""
        found = self.typical("tpot")
        return self.typical("itl") if found is None else found

    @property
    def tokens(self) -> float | None:
        """Output tokens of a request, on average: as reported, else by the two rates."""
        if self.output_length is None and self.output_rate and self.request_rate:
            return self.output_rate / self.request_rate
        return self.output_length

    @property
    def decode_time(self) -> float | None:
        """Seconds in which a request is decoded; None where that is not known."""
        return self.token_time * self.tokens if self.token_time and self.tokens else None

    def typical(self, latency: str) -> float | None:
        """Returns the typical seconds of a latency; None where it was not measured.

        Of the times between tokens it is the mean: several that come in one message have none between them.
        """
        found = self.latencies.get(latency)
        if found is None:
            return None
        return found.mean if latency == "itl" and found.mean is not None else found.typical


@dataclass(frozen=True, slots=True)
class Measure:
    """What the numbers of a table are."""

    what: str
    unit: str
    is_time: bool = False
    """Whether less is better."""

    def speed(self, value: float) -> float:
        """Returns a number of which more is better."""
        return 1 / value if self.is_time and value else value


BUS_BANDWIDTH = Measure("bus bandwidth", "GB/s")
COMPUTING = "speed of computing"
FLOPS = Measure(COMPUTING, "Gflop/s")


@dataclass(frozen=True, slots=True)
class BandwidthResult:
    """One table of a benchmark of collectives among the GPUs of some nodes, or of a path, a disk or a host."""

    file: str
    tool: str
    operation: str
    nodes: tuple[str, ...]
    """Names of the nodes, sorted; () where nothing says them."""
    ranks: int
    """GPUs that took part; 0 where nothing says how many."""
    bandwidths: Mapping[int, float]
    """Numbers of the measure by the size of a message in bytes; by 1 where there is one only."""
    wrong: int = 0
    """Elements with a wrong value."""
    verdict: str = ""
    """Why the program itself calls it failed; '' where it does not."""
    started: float | None = None
    model: str = ""
    """Model of its GPUs, where all are of one; '' where nothing says it."""
    measure: Measure = BUS_BANDWIDTH
    resent: float = 0.0
    """Share of the segments of TCP that were sent again, at the least; 0 where that is not known."""
    rates: tuple[float, ...] = ()
    """Numbers of the measure of equal intervals of the test, in their order; () where only a mean is known."""
    period: float = 0.0
    """Seconds of an interval."""

    @property
    def speeds(self) -> Mapping[int, float]:
        """What is compared by size: the numbers, of times their inverse."""
        return {size: self.measure.speed(value) for size, value in self.bandwidths.items()}

    @property
    def place(self) -> str:
        """What messages call it: its nodes, else its file."""
        return " and ".join(self.nodes) if 0 < len(self.nodes) <= 3 else self.file


BenchmarkResult = ServingResult | BandwidthResult


def to_rate(value: object) -> float | None:
    """Returns an offered rate or concurrency; None for one without a limit ('inf', 'not set') and for no number."""
    number = to_number(value)
    return number if number is not None and 0 < number < math.inf else None


def read_load(rate: object, concurrency: object) -> OfferedLoad:
    """Returns the load of settings, of which 'inf' and 'not set' mean that there is no limit."""
    found = OfferedLoad(to_rate(rate), to_rate(concurrency))
    words = {str(each).strip().lower() for each in (rate, concurrency)}
    is_unlimited = found.level is None and not words.isdisjoint(("inf", "infinity"))
    return OfferedLoad(found.rate, found.concurrency, is_unlimited)


def to_number(value: object) -> float | None:
    """Returns a finite number that a file writes as a number or as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value.replace(",", "")) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def to_count(value: object) -> int | None:
    """Returns a number of things; None where the value is none."""
    number = to_number(value)
    return round(number) if number is not None and 0 <= number < 1e15 else None
