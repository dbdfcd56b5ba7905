"""A worker that serves completions at a pace that can be changed: `python -m bench.serving_worker --port 8000`.

It batches continuously, as an engine does: up to SEATS requests make a token at each step, the others wait. Steps have
a fixed length, whatever the batch. `POST /speed` with `{"speed": 0.2}` slows all further steps down to a fifth;
`{"lie": 5}` lets the metrics report five times the true latencies, and `{"hides_prompts": 1}` leaves the lengths of
prompts out of them. The metrics have vLLM's names. It computes nothing.
"""

import argparse
import asyncio
import json
from bisect import bisect_left
from dataclasses import dataclass, field

MODEL = "m"
SEATS = 16
PREFILL_SECONDS, STEP_SECONDS = 0.02, 0.01
PROMPT_TOKEN_SECONDS = 25e-6
BODY_LIMIT = 1 << 20
BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
LENGTHS = (1, 10, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
LABELS = f'engine="0",model_name="{MODEL}"'


@dataclass
class Histogram:
    """A histogram, by default of seconds."""

    name: str
    bounds: tuple[float, ...] = BUCKETS
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Adds an observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def render(self) -> str:
        """Returns its lines of Prometheus text."""
        lines, cumulated = [f"# TYPE {self.name} histogram"], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            cumulated += count
            lines.append(f'{self.name}_bucket{{{LABELS},le="{bound}"}} {cumulated}')
        lines += [f"{self.name}_sum{{{LABELS}}} {self.total}", f"{self.name}_count{{{LABELS}}} {cumulated}"]
        return "\n".join(lines)


@dataclass
class Worker:
    """One worker."""

    speed: float = 1.0
    lie: float = 1.0
    """Factor by which the metrics report longer latencies than there are."""
    hides_prompts: bool = False
    running: int = 0
    waiting: int = 0
    answered: int = 0
    tokens: int = 0
    seats: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SEATS))
    first_token: Histogram = field(default_factory=lambda: Histogram("vllm:time_to_first_token_seconds"))
    between: Histogram = field(default_factory=lambda: Histogram("vllm:inter_token_latency_seconds"))
    per_token: Histogram = field(default_factory=lambda: Histogram("vllm:request_time_per_output_token_seconds"))
    whole: Histogram = field(default_factory=lambda: Histogram("vllm:e2e_request_latency_seconds"))
    prompts: Histogram = field(default_factory=lambda: Histogram("vllm:request_prompt_tokens", LENGTHS))

    async def complete(self, count: int, prompt_tokens: int) -> None:
        """Makes the tokens of one request."""
        now = asyncio.get_running_loop().time
        arrived = now()
        self.waiting += 1
        async with self.seats:
            self.waiting -= 1
            self.running += 1
            try:
                await asyncio.sleep((PREFILL_SECONDS + PROMPT_TOKEN_SECONDS * prompt_tokens) / self.speed)
                last = first = now()
                self.first_token.observe((first - arrived) * self.lie)
                due = first
                for _ in range(count - 1):
                    # By the time that it is due: a late wake-up does not delay all further steps.
                    due += STEP_SECONDS / self.speed
                    await asyncio.sleep(max(due - now(), 0.0))
                    self.between.observe((now() - last) * self.lie)
                    last = now()
                    self.tokens += 1
            finally:
                self.running -= 1
        self.tokens += 1
        self.answered += 1
        if count > 1:
            self.per_token.observe((last - first) / (count - 1) * self.lie)
        self.whole.observe((now() - arrived) * self.lie)
        self.prompts.observe(prompt_tokens)

    def render(self) -> str:
        """Returns the metrics page."""
        numbers = {
            ("gauge", "vllm:num_requests_running", ""): self.running,
            ("gauge", "vllm:num_requests_waiting", ""): self.waiting,
            ("counter", "vllm:generation_tokens_total", ""): self.tokens,
            ("counter", "vllm:num_preemptions_total", ""): 0,
            ("counter", "vllm:request_success_total", ',finished_reason="length"'): self.answered,
        }
        lines = [f"# TYPE {name} {kind}\n{name}{{{LABELS}{more}}} {v}" for (kind, name, more), v in numbers.items()]
        histograms = [self.first_token, self.between, self.per_token, self.whole]
        histograms += [] if self.hides_prompts else [self.prompts]
        lines += [each.render() for each in histograms]
        return "\n".join(lines) + "\n"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection."""
        try:
            while line := await reader.readline():
                length = 0
                while (header := await reader.readline()).strip():
                    name, _, value = header.partition(b":")
                    if name.strip().lower() == b"content-length":
                        length = min(int(value), BODY_LIMIT)
                body = json.loads(await reader.readexactly(length) or b"{}")
                path = line.decode("latin-1").split()[1]
                content = await self._answer(path, body)
                kind = "text/plain; version=0.0.4" if path == "/metrics" else "application/json"
                data = content.encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
                writer.write(head.encode() + data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ValueError, IndexError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, body: dict[str, object]) -> str:
        if path == "/metrics":
            return self.render()
        if path == "/speed":
            self.speed = float(str(body.get("speed", self.speed)))
            self.lie = float(str(body.get("lie", self.lie)))
            self.hides_prompts = bool(body.get("hides_prompts", self.hides_prompts))
        elif path.endswith("/models"):
            return json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "bench"}]})
        elif path.endswith(("/get_model_info", "/get_server_info", "/server_info", "/model_info")):
            return json.dumps({"model_path": MODEL, "served_model_name": MODEL, "is_generation": True})
        elif path.endswith("/completions"):
            count = int(str(body.get("max_tokens", 16)))
            prompt = len(str(body.get("prompt", ""))) // 4 + 1
            await self.complete(count, prompt)
            usage = {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": count + prompt}
            choice = {"index": 0, "text": "x" * count, "finish_reason": "length"}
            return json.dumps({"id": "c", "object": "text_completion", "choices": [choice], "usage": usage})
        return json.dumps({"status": "ok"})


async def run(port: int) -> None:
    """Serves until the process ends."""
    worker = Worker()
    server = await asyncio.start_server(worker.serve, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    asyncio.run(run(parser.parse_args().port))
