"""What is asked of each replica: arrivals, prompt and answer lengths, made up or from a trace."""

import csv
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO

import numpy as np

from skewscope.adapters.simulator.effects import F64
from skewscope.adapters.simulator.fleet import SimulatedFleet
from skewscope.kb.problems import InputError, Problem

MAX_REQUESTS = 5_000_000
PROMPT_TOKENS, OUTPUT_TOKENS = 1155.0, 211.0
"""Mean tokens of a chat service (Azure's conversation trace of 2023)."""
REQUEST_RATE = 3.0
"""Requests per second of a replica, unless a trace says otherwise."""


@dataclass(frozen=True, slots=True)
class RequestDemand:
    """What is asked for in a second, [job]."""

    rate: F64
    """Requests per second."""
    prompt: F64
    """Tokens of a prompt."""
    output: F64
    """Tokens of an answer."""


@dataclass
class RequestLoad:
    """Requests per second and mean tokens of each job, [job]; a trace's own second by second."""

    rate: F64
    prompt: F64
    output: F64
    rate_factors: F64 = field(default_factory=lambda: np.ones(1))
    """Times the rate, second by second; begins anew where it ends."""
    start_offsets: F64 = field(default_factory=lambda: np.zeros(1))
    """Where in it each job begins."""

    def demand_at(self, t: float) -> RequestDemand:
        """What is asked for `t` seconds after the start."""
        place = (int(t) + self.start_offsets.astype(int)) % len(self.rate_factors)
        return RequestDemand(self.rate * self.rate_factors[place], self.prompt, self.output)


def synthetic_load(fleet: SimulatedFleet, random: np.random.Generator) -> RequestLoad:
    """A chat service's load, with the slow waves of its users."""
    jobs = len(fleet.jobs)
    own = np.where(fleet.is_serving, REQUEST_RATE * _balancer_noise(fleet, random, 0.05), 0.0)
    steps = np.cumsum(random.normal(0.0, 0.006, 7200))
    shape = np.exp(np.clip(steps - np.linspace(0, steps[-1], len(steps)), -0.25, 0.25))
    return RequestLoad(own, np.full(jobs, PROMPT_TOKENS), np.full(jobs, OUTPUT_TOKENS), shape, np.zeros(jobs))


def _balancer_noise(fleet: SimulatedFleet, random: np.random.Generator, spread: float) -> F64:
    """About one for each job: a balancer is no clockwork."""
    return np.exp(random.normal(0.0, spread, len(fleet.jobs)))


def load_trace(path: Path, fleet: SimulatedFleet, random: np.random.Generator) -> RequestLoad:
    """The load of a request trace, its rate scaled so that a replica has a usual share.

    Args:
        path: Azure's (CSV: TIMESTAMP, ContextTokens, GeneratedTokens) or Mooncake's (JSON lines: timestamp in ms,
            input_length, output_length), gzip or not.
        fleet: who serves it.
        random: where in the trace each replica begins.

    Raises:
        InputError: it is neither.
    """
    found = np.array(list(_read_requests(path)))
    if len(found) < 2:
        raise InputError([Problem(str(path), 0, "", f"{len(found)} requests", "a trace of two and more")])
    second = (found[:, 0] - found[:, 0].min()).astype(int)
    counts = np.bincount(second).astype(np.float64)
    jobs = len(fleet.jobs)
    offsets = random.integers(0, len(counts), jobs).astype(np.float64)
    # Long prompts make fewer requests a full load.
    rate = REQUEST_RATE * min(1.0, PROMPT_TOKENS / found[:, 1].mean())
    own = np.where(fleet.is_serving, rate, 0.0)
    means = found[:, 1].mean(), found[:, 2].mean()
    return RequestLoad(own, np.full(jobs, means[0]), np.full(jobs, means[1]), counts / counts.mean(), offsets)


def _read_requests(path: Path) -> Iterator[tuple[float, float, float]]:
    """Seconds, prompt tokens and answer tokens of each request."""
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
