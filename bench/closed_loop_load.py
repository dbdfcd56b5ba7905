"""Load of a closed loop: requests at random times of a fixed rate, whether or not earlier ones are answered."""

import asyncio
import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from skewscope.adapters.sources.common.http_client import FetchError, FetchOptions, PostBody, exchange

TIMEOUT = 20.0


@dataclass(frozen=True)
class Load:
    """What is asked for."""

    rate: float
    """Requests per second."""
    tokens: int
    seconds: float
    seed: int = 1
    model: str = "m"

    def arrivals(self) -> Iterator[float]:
        """Yields the seconds after the start at which requests are sent."""
        source = random.Random(self.seed)
        t = 0.0
        while (t := t + source.expovariate(self.rate)) < self.seconds:
            yield t


@dataclass
class Answers:
    """Answers to a load: for each request the seconds after the start at which it was due, and its latency."""

    due: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    """Seconds, inf for no answer or an error."""

    def between(self, start: float, end: float) -> list[float]:
        """Returns the latencies of the requests due in a span."""
        return [latency for due, latency in zip(self.due, self.latency, strict=True) if start <= due < end]

    def goodput(self, start: float, end: float, deadline: float) -> float:
        """Returns the requests per second, of those due in a span, that were answered within a deadline."""
        return sum(latency <= deadline for latency in self.between(start, end)) / (end - start)

    def quantile(self, start: float, end: float, q: float) -> float:
        """Returns a quantile of the latencies of a span; inf without requests."""
        found = sorted(self.between(start, end))
        return found[min(int(q * len(found)), len(found) - 1)] if found else float("inf")


async def send_load(url: str, load: Load, begun: float) -> Answers:
    """Sends a load and returns its answers, once all have come.

    Args:
        url: address of the front end.
        load: what to send.
        begun: the start, by `time.monotonic`.
    """
    answers = Answers()
    body = {"model": load.model, "prompt": "hello there", "max_tokens": load.tokens, "ignore_eos": True}
    post = PostBody(json.dumps(body).encode(), "application/json")

    async def send(due: float) -> None:
        try:
            status = (await exchange(f"{url}/v1/completions", FetchOptions(TIMEOUT), post)).status
        except FetchError:
            status = 0
        answers.due.append(due)
        answers.latency.append(time.monotonic() - begun - due if status == 200 else float("inf"))

    tasks = []
    for due in load.arrivals():
        await asyncio.sleep(max(begun + due - time.monotonic(), 0.0))
        tasks.append(asyncio.create_task(send(due)))
    await asyncio.gather(*tasks)
    return answers
