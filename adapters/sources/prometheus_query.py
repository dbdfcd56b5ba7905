"""Sources of kind `prometheus-query`: a Prometheus, or whatever answers as one, is asked each period for what is new.

It is asked for raw samples (`/api/v1/query` of a range), which keep their own times, so that what is stale stays away
instead of being told again. Where `step` is set, `/api/v1/query_range` is asked instead: one value a step, and none
where no sample came within it. Only names that the catalogue knows and the server has are asked for.
"""

import asyncio
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np

from skewscope.adapters.grammar import escaped
from skewscope.adapters.more_fields import number, yes
from skewscope.adapters.secret import hidden
from skewscope.adapters.sources import World
from skewscope.adapters.sources.base import Batch, Sink, scrubbed
from skewscope.adapters.sources.fetch import Wish, fetch
from skewscope.adapters.sources.samples import Rows, Series
from skewscope.adapters.sources.settings import wish
from skewscope.adapters.sources.targets import Labels, Where, address, labels
from skewscope.engine.feed import F64
from skewscope.kb.fields import Fields
from skewscope.kb.yamlfile import Path_

OPTIONAL = (
    *("name", "match", "labels", "honor_labels", "period", "step", "timeout", "most_mib", "bearer", "trust", "note"),
)
MOST_SELECTOR = 3000
"""Characters of the names in one question: servers and proxies bound the length of an address."""
NAMES_AGAIN = 60.0
"""Seconds between two looks at which names there are."""
LATE = 2
"""Periods by which a sample may come late into the server."""
MOST_BACK = 300.0
"""Seconds that are asked for after an interruption."""


class AnswerError(Exception):
    """An answer that is none of a Prometheus."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One server that is asked."""

    name: str
    url: str
    wish: Wish
    period: float
    step: float = 0.0
    """Seconds between values; 0 for raw samples."""
    match: Labels = ()
    """Labels that series must have."""
    labels: Labels = ()
    honor_labels: bool = True
    """Whether the labels of a series win over those of its source."""


def read(fields: Fields, at: Path_, name: str) -> Settings:
    """The settings of one source; faults are noted."""
    fields.known(at, ("kind", "url"), OPTIONAL)
    period = number(fields, (*at, "period"), 5.0, (0.1, 3600.0))
    step = number(fields, (*at, "step"), 0.0, (0.1, period)) if fields.at((*at, "step")) is not None else 0.0
    told = fields.text((*at, "url"))
    url = address(told, Where(path="")) if told else ""
    if told and not url:
        fields.fault((*at, "url"), f"{scrubbed(told)!r:.80}", "an address that begins with http:// or https://")
    honor = fields.at((*at, "honor_labels")) is None or yes(fields, (*at, "honor_labels"))
    match, own = labels(fields, (*at, "match")), labels(fields, (*at, "labels"))
    return Settings(name, url.rstrip("/"), wish(fields, at, period), period, step, match, own, honor)


def build(wanted: Settings, world: World) -> "Query":
    """The source."""
    return Query(wanted, world)


@dataclass
class Query:
    """Asks one server."""

    settings: Settings
    world: World
    series: Series = field(init=False)
    _asked: float = -math.inf
    """Until when all is known."""
    _names: tuple[str, ...] = ()
    _looked: float = -math.inf
    _newest: F64 = field(default_factory=lambda: np.empty(0))
    """The time of the newest sample, by number."""

    def __post_init__(self) -> None:
        self.series = Series(self.world.names, dict(self.settings.labels), self.settings.honor_labels)

    @property
    def name(self) -> str:
        """What the config calls it."""
        return self.settings.name

    @property
    def period(self) -> float:
        """Seconds between two questions; nothing is expected where the server has nothing that is of use."""
        return self.settings.period if self._names else 0.0

    async def run(self, sink: Sink) -> None:
        """Asks until it is cancelled, or there is no answer."""
        while True:
            now = self.world.clock.now()
            if not self._names or now - self._looked > NAMES_AGAIN:
                self._names, self._looked = await self._there(), now
            since = max(self._asked, now - MOST_BACK) if math.isfinite(self._asked) else now - self.settings.period
            for selector in selectors(self._names, self.settings.match):
                answer = await fetch(self._question(selector, since, now), self.settings.wish)
                if batch := await asyncio.to_thread(self._read, answer):
                    sink.put(batch)
            self._asked = now
            sink.trouble = self.series.trouble or ("" if self._names else "it has no series that are of use")
            await self.world.clock.sleep(self.settings.period - (self.world.clock.now() - now))

    async def _there(self) -> tuple[str, ...]:
        answer = await fetch(f"{self.settings.url}/api/v1/label/{quote('__name__')}/values", self.settings.wish)
        there = await asyncio.to_thread(_data, answer, self.settings.wish)
        if not isinstance(there, list):
            raise AnswerError("no list of names")
        return tuple(sorted({name for name in there if isinstance(name, str)} & set(self.world.names.metrics)))

    def _question(self, selector: str, since: float, now: float) -> str:
        step, url = self.settings.step, self.settings.url
        if not step:
            window = math.ceil(1000 * (now - since + LATE * self.settings.period))
            # The server's own clock says what is new: only how far back is ours to say.
            return f"{url}/api/v1/query?" + urlencode({"query": f"{selector}[{window}ms]"})
        query = f"last_over_time({selector}[{math.ceil(1000 * step)}ms])"
        start, end = (math.floor(t / step) * step for t in (since - step, now))
        asked = {"query": query, "start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:g}"}
        return f"{url}/api/v1/query_range?" + urlencode(asked)

    def _read(self, answer: bytes) -> Batch | None:
        """What is new in an answer."""
        data, rows = _data(answer, self.settings.wish), Rows()
        for labelled, samples in _matrix(data):
            targets = self.series.targets(tuple(sorted(labelled.items())), _named, labelled)
            for time, value in samples if targets else ():
                rows.put(targets, time, value)
        batch = rows.batch(self.series.listing)
        return self._new(batch) if batch else None

    def _new(self, batch: Batch) -> Batch | None:
        """Without what was handed over before."""
        assert batch.numbers is not None
        times = np.broadcast_to(batch.time, batch.value.shape)
        more = np.full(len(batch.columns.keys) - len(self._newest), -math.inf)
        self._newest = np.concatenate((self._newest, more))
        new = np.flatnonzero(times > self._newest[batch.numbers])
        np.maximum.at(self._newest, batch.numbers[new], times[new])
        return Batch(batch.columns, batch.numbers[new], times[new], batch.value[new]) if len(new) else None


def selectors(names: Sequence[str], match: Labels) -> Iterator[str]:
    """Selectors that together have all series of these names and labels, none too long."""
    more = "".join(f',{label}="{escaped(value)}"' for label, value in match)
    some: list[str] = []
    for name in names:
        if some and sum(map(len, some)) + len(some) + len(name) > MOST_SELECTOR:
            yield f'{{__name__=~"{"|".join(some)}"{more}}}'
            some = []
        some.append(name)
    if some:
        yield f'{{__name__=~"{"|".join(some)}"{more}}}'


def _data(answer: bytes, wish_: Wish) -> Any:
    """What an answer holds.

    Raises:
        AnswerError: it is none.
    """
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        raise AnswerError("an answer that is no JSON") from None
    if not isinstance(found, dict) or found.get("status") != "success":
        told = found.get("error") if isinstance(found, dict) else ""
        raise AnswerError(
            f"the answer is an error: {hidden(str(told), wish_.bearer)}" if told else "an answer without success"
        )
    return found.get("data")


def _named(labelled: Mapping[str, str]) -> tuple[str, Labels]:
    """Name and labels of a series."""
    own = ((label, value) for label, value in labelled.items() if label != "__name__")
    return labelled.get("__name__", ""), tuple(own)


def _matrix(data: Any) -> Iterator[tuple[Mapping[str, str], Iterable[tuple[float, float]]]]:
    """Labels and samples of each series.

    Raises:
        AnswerError: it is no matrix.
    """
    try:
        if data["resultType"] != "matrix":
            raise AnswerError(f"{data['resultType']!r:.40} where series were asked for")
        for one in data["result"]:
            labelled = {str(label): str(value) for label, value in one["metric"].items()}
            yield labelled, [(float(time), float(value)) for time, value in one.get("values", ())]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise AnswerError("series in an unknown shape") from None
