"""Request load of each replica: arrivals, prompt and answer lengths, synthetic or from a trace."""

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO

import numpy as np

from skewscope.adapters.simulator.fleet import SimulatedFleet
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

MAX_REQUESTS = 5_000_000
PROMPT_TOKENS, OUTPUT_TOKENS = 1155.0, 211.0
"""Mean tokens of a chat service (Azure's conversation trace of 2023)."""
REQUEST_RATE = 3.0
"""Requests per second of a replica, without a trace."""


@dataclass(frozen=True, slots=True)
class RequestDemand:
    """Demand in one second, [job] float64."""

    rate: F64
    """Requests per second."""
    prompt: F64
    """Tokens per prompt."""
    output: F64
    """Tokens per answer."""


@dataclass
class RequestLoad:
    """Requests per second and mean tokens of each job, [job] float64; those of a trace second by second."""

    rate: F64
    prompt: F64
    output: F64
    rate_factors: F64 = field(default_factory=lambda: np.ones(1))
    """[second] factor of the rate; repeats at the end."""
    start_offsets: F64 = field(default_factory=lambda: np.zeros(1))
    """[job] start position in `rate_factors`."""

    def demand_at(self, t: float) -> RequestDemand:
        """Returns the demand `t` seconds after the start."""
        place = (int(t) + self.start_offsets.astype(int)) % len(self.rate_factors)
        return RequestDemand(self.rate * self.rate_factors[place], self.prompt, self.output)


def synthetic_load(fleet: SimulatedFleet, random: np.random.Generator) -> RequestLoad:
    """Returns the load of a chat service, with slow variations."""
    jobs = len(fleet.jobs)
    own = np.where(fleet.is_serving, REQUEST_RATE * _balancer_noise(fleet, random, 0.05), 0.0)
    steps = np.cumsum(random.normal(0.0, 0.006, 7200))
    shape = np.exp(np.clip(steps - np.linspace(0, steps[-1], len(steps)), -0.25, 0.25))
    return RequestLoad(own, np.full(jobs, PROMPT_TOKENS), np.full(jobs, OUTPUT_TOKENS), shape, np.zeros(jobs))


def _balancer_noise(fleet: SimulatedFleet, random: np.random.Generator, spread: float) -> F64:
    """Returns [job] factors near one: a balancer is not exact."""
    return np.exp(random.normal(0.0, spread, len(fleet.jobs)))


def load_trace(path: Path, fleet: SimulatedFleet, random: np.random.Generator) -> RequestLoad:
    """Returns the load of a request trace, scaled to a usual load per replica.

    Args:
        path: Azure's format (CSV: TIMESTAMP, ContextTokens, GeneratedTokens) or Mooncake's (JSON lines: timestamp
            in ms, input_length, output_length), optionally gzip.
        fleet: the serving fleet.
        random: chooses where in the trace each replica starts.

    Raises:
        InputError: it has neither format.
    """
    found = np.array(list(_read_requests(path)))
    if len(found) < 2:
        raise InputError([Problem(str(path), 0, "", f"{len(found)} requests", "a trace of two and more")])
    second = (found[:, 0] - found[:, 0].min()).astype(int)
    counts = np.bincount(second).astype(np.float64)
    jobs = len(fleet.jobs)
    offsets = random.integers(0, len(counts), jobs).astype(np.float64)
    # Longer prompts mean fewer requests for a full load.
    rate = REQUEST_RATE * min(1.0, PROMPT_TOKENS / found[:, 1].mean())
    own = np.where(fleet.is_serving, rate, 0.0)
    means = found[:, 1].mean(), found[:, 2].mean()
    return RequestLoad(own, np.full(jobs, means[0]), np.full(jobs, means[1]), counts / counts.mean(), offsets)


def _read_requests(path: Path) -> Iterator[tuple[float, float, float]]:
    """Yields seconds, prompt tokens and answer tokens of each request."""
    line = 0
    try:
        with _open_trace(path) as file:
            first = file.readline(4096)
            file.seek(0)
            rows = _parse_json_lines(file) if first.lstrip().startswith("{") else _parse_csv(file)
            for line, row in enumerate(rows, 1):
                if line > MAX_REQUESTS:
                    break
                yield row
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        found = f"no readable request ({' '.join(str(error).split())[:100]})"
        expected = "a CSV with TIMESTAMP, ContextTokens, GeneratedTokens, or JSON lines with timestamp, input_length, "
        raise InputError([Problem(str(path), line + 1, "", found, expected + "output_length")]) from None


def _open_trace(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _parse_json_lines(file: IO[str]) -> Iterator[tuple[float, float, float]]:
    for line in file:
        data = json.loads(line)
        yield float(data["timestamp"]) / 1000, float(data["input_length"]), float(data["output_length"])


def _parse_csv(file: IO[str]) -> Iterator[tuple[float, float, float]]:
    for row in csv.DictReader(file):
        at = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
        yield at, float(row["ContextTokens"]), float(row["GeneratedTokens"])
