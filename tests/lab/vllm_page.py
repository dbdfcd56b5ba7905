"""The metrics of a front end under vLLM's names."""

import threading
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.lab.cluster import PAGE

EDGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
LABELS = 'engine="0",model_name="lab"'


@dataclass
class Histogram:
    """A histogram of times."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(EDGES) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Adds an observation."""
        self.counts[bisect_left(EDGES, seconds)] += 1
        self.total += seconds

    def lines(self, name: str) -> Iterator[str]:
        """Returns the lines of exposition text."""
        yield f"# TYPE {name} histogram"
        below = 0
        for edge, count in zip((*map(str, EDGES), "+Inf"), self.counts, strict=True):
            below += count
            yield f'{name}_bucket{{{LABELS},le="{edge}"}} {below}'
        yield f"{name}_sum{{{LABELS}}} {self.total}"
        yield f"{name}_count{{{LABELS}}} {below}"


@dataclass
class Numbers:
    """The counters of a front end."""

    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: int = 0
    first_token: Histogram = field(default_factory=Histogram)
    between_tokens: Histogram = field(default_factory=Histogram)

    def step(self, batch: int, prefill: int) -> None:
        """Counts a step."""
        self.running = batch
        self.prompt_tokens += prefill
        self.generation_tokens += batch

    def page(self) -> str:
        """Returns the page as text."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        plain = (
            ("num_requests_running", "gauge", LABELS, self.running),
            ("num_requests_waiting", "gauge", LABELS, self.waiting),
            ("prompt_tokens_total", "counter", LABELS, self.prompt_tokens),
            ("generation_tokens_total", "counter", LABELS, self.generation_tokens),
            ("request_success_total", "counter", f'{LABELS},finished_reason="stop"', self.finished),
        )
        for name, kind, labels, value in plain:
            yield f"# TYPE vllm:{name} {kind}"
            yield f"vllm:{name}{{{labels}}} {value}"
        yield from self.first_token.lines("vllm:time_to_first_token_seconds")
        yield from self.between_tokens.lines("vllm:inter_token_latency_seconds")


def serve(address: str, numbers: Numbers) -> None:
    """Starts to serve the page."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = numbers.page().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((address, PAGE), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
