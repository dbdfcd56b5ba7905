"""Texts of results as benchmarks write them, made from a few numbers."""

import json

SIZES = tuple(8 << power for power in range(20, 31))


def serving_table(
    ttft_ms: float, tpot_ms: float, *, rate: str = "4.00", served: float = 3.94, completed: int = 800, failed: int = 0
) -> str:
    """The table that vLLM's benchmark prints."""
    lines = [
        "============ Serving Benchmark Result ============",
        f"Successful requests:                     {completed}",
        f"Failed requests:                         {failed}",
        f"Request rate configured (RPS):           {rate}",
        f"Benchmark duration (s):                  {completed / served:.2f}",
        f"Total input tokens:                      {completed * 512}",
        f"Total generated tokens:                  {completed * 128}",
        f"Request throughput (req/s):              {served:.2f}",
        f"Output token throughput (tok/s):         {served * 128:.2f}",
        "---------------Time to First Token----------------",
        f"Mean TTFT (ms):                          {ttft_ms * 1.05:.2f}",
        f"Median TTFT (ms):                        {ttft_ms:.2f}",
        f"P99 TTFT (ms):                           {ttft_ms * 2:.2f}",
        "-----Time per Output Token (excl. 1st token)------",
        f"Mean TPOT (ms):                          {tpot_ms * 1.02:.2f}",
        f"Median TPOT (ms):                        {tpot_ms:.2f}",
        f"P99 TPOT (ms):                           {tpot_ms * 1.2:.2f}",
        "==================================================",
    ]
    return "\n".join(lines) + "\n"


def serving_object(ttft_ms: float, tpot_ms: float, **more: object) -> dict[str, object]:
    """The object that vLLM's and SGLang's benchmarks save."""
    return {
        "date": "20260914-080000",
        "backend": "vllm",
        "num_prompts": 800,
        "request_rate": 4.0,
        "max_concurrency": None,
        "duration": 203.1,
        "completed": 800,
        "total_input_tokens": 409600,
        "total_output_tokens": 102400,
        "request_throughput": 3.94,
        "output_throughput": 504.2,
        "mean_ttft_ms": ttft_ms * 1.05,
        "median_ttft_ms": ttft_ms,
        "p99_ttft_ms": ttft_ms * 2,
        "mean_tpot_ms": tpot_ms * 1.02,
        "median_tpot_ms": tpot_ms,
        **more,
    }


def exported_object(ttft_ms: float, itl_ms: float, concurrency: int, rate: float, errors: int = 0) -> str:
    """The JSON that aiperf writes."""

    def metric(unit: str, value: float) -> dict[str, object]:
        spread = {"p50": value, "p90": value * 1.2, "p99": value * 1.5, "min": value / 2, "std": value / 8}
        return {"unit": unit, "avg": value, **spread}

    return json.dumps(
        {
            "request_throughput": {"unit": "requests/sec", "avg": rate},
            "request_latency": metric("ms", ttft_ms + 100 * itl_ms),
            "request_count": {"unit": "requests", "avg": 400.0},
            "time_to_first_token": metric("ms", ttft_ms),
            "inter_token_latency": metric("ms", itl_ms),
            "output_token_throughput": {"unit": "tokens/sec", "avg": rate * 100},
            "output_sequence_length": metric("tokens", 100),
            "input_sequence_length": metric("tokens", 550),
            "error_request_count": {"unit": "requests", "avg": float(errors)},
            "input_config": {"loadgen": {"concurrency": concurrency}},
            "start_time": "2026-09-14T08:00:00",
        }
    )


def bandwidth_table(nodes: tuple[str, ...], peak: float, *, gpus: int = 8, wrong: int = 0) -> str:
    """The table that nccl-tests prints for an all-reduce of some nodes that reaches `peak` GB/s."""
    lines = [f"# nThread 1 nGpus {gpus} minBytes 8388608 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20"]
    lines += ["#", "# Using devices"]
    for rank in range(gpus * len(nodes)):
        node = nodes[rank // gpus]
        lines.append(f"#  Rank {rank:2} Group  0 Pid {4000 + rank} on {node} device {rank % gpus:2} [0x18] NVIDIA H100")
    lines += [
        "#",
        "#                                                    out-of-place                       in-place",
        "#      size     count    type   redop    root    time   algbw   busbw #wrong    time   algbw   busbw #wrong",
        "#        (B)  (elements)                           (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
    ]
    for size in SIZES:
        speed = peak * size / (size + 60e6)
        time = f"{size / speed / 500:.1f}  {speed / 1.875:.2f}  {speed:.2f}"
        lines.append(f"  {size:12}  {size // 4:12}  float  sum  -1  {time}  {wrong}  {time}  0")
    lines += [f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}", "# Avg bus bandwidth    : 320.1", "#"]
    return "\n".join(lines) + "\n"
