"""Asks a Prometheus-compatible server what it has: names of metrics, and labels of series."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from skewscope.adapters.config.secret import MAX_LENGTH, Secret
from skewscope.adapters.discovery.draft import TopologyDraft
from skewscope.adapters.discovery.inference import infer_topology
from skewscope.adapters.discovery.observed_series import observe_series
from skewscope.adapters.formats.bounded_json import count_parts
from skewscope.adapters.formats.bounds import PARTS
from skewscope.adapters.mapping.name_mapping import NameMapping
from skewscope.adapters.mapping.names import HELPER_METRICS, MetricResolver
from skewscope.adapters.sources.common.base import redact_message
from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, fetch
from skewscope.adapters.sources.prometheus_query import PrometheusResponseError, build_selectors, parse_response
from skewscope.engine.model.topology import Topology
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, Problem, join_names

DEFAULT_SPAN = 3600.0
"""Seconds before now that are asked for unless something else is wanted."""
TIMEOUT_S = 60.0
MAX_ANSWER_BYTES = 256 << 20
MAX_SERIES = 1_000_000

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class ServerSpan:
    """A server, and the span of its data that is wanted, in seconds since 1970."""

    url: str
    begin: float
    end: float
    token_file: Path | None = None
    enough: int | None = None
    """Samples after which no earlier ones are asked for; None: all of the span are wanted."""


class PrometheusClient:
    """Sends queries to one server; every failure becomes an `InputError`."""

    def __init__(self, where: ServerSpan) -> None:
        self.where = where
        self.url = where.url.rstrip("/")
        try:
            parts = urlsplit(self.url)
            is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_valid = False
        if not is_valid:
            raise self.error("an invalid address", "http://HOST:PORT or https://HOST:PORT")
        token = _read_token(where.token_file) if where.token_file else None
        self.options = FetchOptions(TIMEOUT_S, MAX_ANSWER_BYTES, token)

    def error(self, found: str, expected: str, hint: str = "") -> InputError:
        """Returns the error of this server."""
        return InputError([Problem(redact_message(self.where.url), 0, "", found, expected, hint)])

    async def ask(self, path: str, *pairs: tuple[str, str]) -> object:
        """Returns the data of an answer.

        Raises:
            FetchError: the answer is too large or too slow.
            InputError: there is no answer, or not that of a Prometheus server.
        """
        query = f"?{urlencode(pairs)}" if pairs else ""
        expected = "the address of a Prometheus-compatible server"
        try:
            answer = await fetch(f"{self.url}/api/v1/{path}{query}", self.options)
            if count_parts(answer) > PARTS.limit():
                raise FetchError(f"a page of more than {PARTS.limit()} {PARTS.what}")
            return parse_response(answer, self.options)
        except PrometheusResponseError as error:
            raise self.error(str(error), expected) from None
        except FetchError as error:
            if "a page of more than" in str(error) or "no answer within" in str(error):
                raise
            hint = "Is it running, and is the address right?" if "answer" not in str(error) else ""
            raise self.error(str(error), expected, hint) from None

    async def known_names(self, mapping: NameMapping) -> tuple[list[str], list[str]]:
        """Returns the server's metrics that may be read, sorted, and the names that are not known.

        Raises:
            InputError: the server has no known metric.
        """
        span = self._span()
        found = await self.ask_whole("label/__name__/values", *span)
        if not isinstance(found, list):
            raise self.error("no list of names", "the address of a Prometheus-compatible server")
        resolver = MetricResolver(catalogue(), Topology(), mapping)
        names = sorted({name for name in found if isinstance(name, str)})
        known = [name for name in names if name in resolver.metrics or mapping.may_map(name)]
        if not known:
            some = f"{len(names)} metrics, none of them known ({join_names(names, 3)})" if names else "no metric"
            hint = "--mapping FILE maps your names; --since asks for an older span." if names else "Is --since right?"
            raise self.error(some, "metrics of exporters that the catalogue lists", hint)
        chosen = set(known)
        helpers = [name for name in names if name in HELPER_METRICS]
        return [*known, *helpers], [name for name in names if name not in chosen and name not in HELPER_METRICS]

    async def ask_whole(self, path: str, *pairs: tuple[str, str]) -> object:
        """Returns the data of an answer that cannot be asked for in parts."""
        try:
            return await self.ask(path, *pairs)
        except FetchError as error:
            raise self.error(str(error), f"an answer of at most {MAX_ANSWER_BYTES >> 20} MiB") from None

    async def list_living(self, names: Iterable[str]) -> list[tuple[str, Labels]]:
        """Returns metric and labels of the series of some metrics that live at the end of the span.

        What a server has marked as stale, or has not heard of for its lookback (five minutes), has ended before.
        """
        series: list[tuple[str, Labels]] = []
        for selector in build_selectors(list(names), ()):
            data = await self.ask_whole("query", ("query", selector), ("time", f"{self.where.end:.3f}"))
            series += _parse_vector(data)
            if len(series) > MAX_SERIES:
                raise self.error(f"more than {MAX_SERIES} series", "fewer", "Ask for a part of the fleet.")
        return series

    def _span(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return ("start", f"{self.where.begin:.3f}"), ("end", f"{self.where.end:.3f}")


def _read_token(path: Path) -> Secret:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([Problem(str(path), 0, "", f"no readable file ({error})", "a file with a token")]) from None
    if not text or not text.isascii() or not text.isprintable() or len(text) > MAX_LENGTH:
        raise InputError([Problem(str(path), 0, "", "no token", "one line of printable ASCII characters")])
    return Secret(text)


def _parse_vector(data: object) -> Iterator[tuple[str, Labels]]:
    found = data.get("result") if isinstance(data, dict) else None
    for one in found if isinstance(found, list) else []:
        if isinstance(one, dict) and isinstance(one.get("metric"), dict):
            labels = {str(label): str(value) for label, value in one["metric"].items()}
            yield labels.pop("__name__", ""), labels


async def discover_topology(url: str, token_file: Path | None = None) -> TopologyDraft:
    """Returns a draft of the cluster whose series live on a server.

    Raises:
        InputError: the server does not answer, or has no known metric.
    """
    end = time.time()
    client = PrometheusClient(ServerSpan(url, end - DEFAULT_SPAN, end, token_file))
    names, _ = await client.known_names(NameMapping())
    resolver = MetricResolver(catalogue(), Topology())
    return infer_topology(observe_series(await client.list_living(names), resolver))
