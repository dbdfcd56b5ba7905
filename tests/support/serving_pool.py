"""A made-up pool of engines, each a queue in front of a batch, as an OpenMetrics dump of a Kubernetes Prometheus."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

BEGIN, PERIOD = 1_700_000_000, 15
MODEL, NAMESPACE = "org/model-70b", "serving"
ANSWER, CONTEXT = 250.0, 800.0
"""Tokens of an answer, and those of a request that the cache holds on average."""
TIMED = ("inter_token_latency_seconds", "time_to_first_token_seconds", "e2e_request_latency_seconds")


@dataclass
class Engine:
    """One replica on two GPUs, in numbers per second."""

    pod: str
    gpus: tuple[int, int]
    address: str
    speed: float = 1.0
    cache: float = 90_000.0
    """Tokens."""
    running: float = 0.0
    waiting: float = 0.0
    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("tokens", "success", "preemptions"), 0.0))
    times: dict[str, tuple[float, float]] = field(default_factory=lambda: dict.fromkeys(TIMED, (0.0, 0.0)))
    """Sum and count of each histogram."""

    @property
    def is_full(self) -> bool:
        return self.waiting > 1.0

    def step(self, arrivals: float) -> None:
        """Serves one second."""
        self.waiting += arrivals
        admitted = min(self.waiting, max(self.cache / CONTEXT - self.running, 0.0))
        self.waiting, self.running = self.waiting - admitted, self.running + admitted
        gap = (0.012 + 0.0004 * self.running) / self.speed
        done = min(self.running, self.running / (ANSWER * gap))
        self.running -= done
        self.totals["success"] += done
        self.totals["tokens"] += done * ANSWER
        self.totals["preemptions"] += 0.6 * self.is_full
        wait = self.waiting / max(done, 0.1)
        for name, value in zip(TIMED, (gap, 0.1 / self.speed + wait, ANSWER * gap + wait), strict=True):
            total, count = self.times[name]
            self.times[name] = total + done * value, count + done

    def page(self, chance: Random) -> Iterator[tuple[str, float]]:
        """Yields its series with their labels but for those of the target."""
        usage = chance.uniform(0.85, 0.99) if self.is_full else self.running * CONTEXT / self.cache
        gauges = {"num_requests_running": int(self.running), "num_requests_waiting": int(self.waiting)}
        gauges |= {"kv_cache_usage_perc": min(usage, 1.0), "num_preemptions_total": int(self.totals["preemptions"])}
        gauges |= {"generation_tokens_total": int(self.totals["tokens"])}
        gauges |= {'request_success_total{finished_reason="stop"}': int(self.totals["success"])}
        for name, value in gauges.items():
            yield f"vllm:{name}", value
        for name, (total, count) in self.times.items():
            yield f'vllm:{name}_bucket{{le="+Inf"}}', int(count)
            yield f"vllm:{name}_sum", total
            yield f"vllm:{name}_count", int(count)


@dataclass
class ServingPool:
    """Engines on nodes of four GPUs that share all requests evenly; what is done to them happens at its second."""

    pods: tuple[str, ...] = ("llm-6f7d8c9b5-aaaaa", "llm-6f7d8c9b5-bbbbb", "llm-6f7d8c9b5-ccccc", "llm-6f7d8c9b5-ddddd")
    arrivals: float = 5.0
    """Requests per second and engine."""
    seed: int = 1

    def __post_init__(self) -> None:
        self.engines = [Engine(pod, (n % 2 * 2, n % 2 * 2 + 1), f"10.2.0.{10 + n}") for n, pod in enumerate(self.pods)]

    def write(self, path: Path, seconds: int, acts: Mapping[int, Callable[["ServingPool"], None]]) -> None:
        """Writes the telemetry of so many seconds; what is done, by second."""
        chance, lines = Random(self.seed), list[tuple[str, str]]()
        for t in range(-60, seconds):
            if act := acts.get(t):
                act(self)
            for engine in self.engines:
                engine.step(self.arrivals * chance.uniform(0.8, 1.2))
            if t >= 0:
                lines += self._read(t, chance)
        text = "\n".join(line for _, line in sorted(lines, key=lambda each: each[0]))
        path.write_text(text + "\n# EOF\n")

    def _read(self, t: int, chance: Random) -> Iterator[tuple[str, str]]:
        """Yields the name and line of each series that is read in a second."""
        for n, engine in enumerate(self.engines):
            labels = (
                f'namespace="{NAMESPACE}",pod="{engine.pod}",instance="{engine.address}:8000",job="{NAMESPACE}/vllm"'
            )
            if t % PERIOD == 3 * n:
                for series, value in (*engine.page(chance), ("up", 1.0)):
                    name, _, own = series.partition("{")
                    own = f"{own.rstrip('}')}," if own else ""
                    yield name, f'{name}{{{own}model_name="{MODEL}",{labels}}} {value} {BEGIN + t}'
            if t % PERIOD == 3 * (n // 2) + 1:
                yield from self._read_gpus(t, n, engine)

    def _read_gpus(self, t: int, n: int, engine: Engine) -> Iterator[tuple[str, str]]:
        node = f"gpu-{n // 2}"
        for gpu in engine.gpus:
            labels = (
                f'gpu="{gpu}",UUID="GPU-{node}-{gpu}",Hostname="{node}",exported_pod="{engine.pod}",'
                f'exported_namespace="{NAMESPACE}",instance="10.1.0.{n // 2}:9400",job="dcgm"'
            )
            for name, value in (("DCGM_FI_DEV_SM_CLOCK", 1980), ("DCGM_FI_DEV_GPU_UTIL", 96 if engine.running else 0)):
                yield name, f"{name}{{{labels}}} {value} {BEGIN + t}"
