"""Lines of requests in formats of the catalogue: one line or several for each, with dates or without."""

import io
import random

import pytest

from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.inputs.labelled import LabelledSeries
from skewscope.adapters.inputs.text import read_kind
from skewscope.adapters.runtime.replay import replay

T = 1768471200
"""2026-01-15T10:00:00Z"""


def llama(per_token: float, output: int = 200) -> str:
    decode = per_token * output
    return (
        f"prompt eval time = 250.00 ms / 500 tokens ( 0.50 ms per token, 2000.00 tokens per second)\n"
        f"       eval time = {decode:.2f} ms / {output} tokens ( {per_token:.2f} ms per token, 9.0 tokens per second)\n"
        f"      total time = {250 + decode:.2f} ms / {500 + output} tokens\n"
    )


def gin(second: int, code: int, took: str) -> str:
    return (
        f'[GIN] 2026/01/15 - 10:{second // 60:02}:{second % 60:02} | {code} | {took} | 10.8.0.15 | POST "/api/chat"\n'
    )


def tgi(second: int, queue: str, total: str) -> str:
    return (
        f"2026-01-15T10:{second // 60:02}:{second % 60:02}.000000Z  INFO generate{{}}: "
        f'total_time="{total}" validation_time="1.2ms" queue_time="{queue}" inference_time="3s" '
        'time_per_token="20ms" seed="None"}: text_generation_router::server: Success\n'
    )


def series_of(text: str) -> dict[str, LabelledSeries]:
    return {one.metric: one for one in read_kind("text", io.BytesIO(text.encode()), "server.log", {})}


def test_the_lines_of_one_request_are_put_together():
    found = series_of(llama(24.0, 100) + llama(30.0, 300))
    assert found["skewscope_serve_e2e_count"].values[-1] == 2
    assert found["skewscope_serve_prefill_time_sum"].values[-1] == pytest.approx(0.5)
    assert found["skewscope_serve_decode_time_sum"].values[-1] == pytest.approx(2.4 + 9)
    assert found["skewscope_serve_generation_tokens_total"].values[-1] == 400


def test_the_time_between_tokens_counts_each_token():
    found = series_of(llama(24.0, 101) + llama(30.0, 301))
    assert found["skewscope_serve_itl_count"].values[-1] == 400
    assert found["skewscope_serve_itl_sum"].values[-1] == pytest.approx(100 * 0.024 + 300 * 0.030)


def test_requests_without_dates_say_nothing_of_requests_at_work():
    undated, dated = series_of(llama(24.0) * 3), series_of(gin(0, 200, "4.5s") + gin(9, 200, "850ms"))
    assert "skewscope_serve_running" not in undated
    assert "no dates" in undated["skewscope_serve_e2e_sum"].note
    assert "skewscope_serve_running" in dated
    assert "no dates" not in dated["skewscope_serve_e2e_sum"].note


def test_the_time_of_a_line_is_the_end_of_its_request():
    found = series_of(gin(10, 200, "4s"))["skewscope_serve_running"]
    assert found.times[0] == T + 6
    assert found.values[0] == 1


@pytest.mark.parametrize(
    ("took", "seconds"), [("4.031s", 4.031), ("512.25µs", 512.25e-6), ("850ms", 0.85), ("1m2.5s", 62.5)]
)
def test_durations_as_programs_in_go_print_them(took, seconds):
    assert series_of(gin(100, 200, took))["skewscope_serve_e2e_sum"].values[-1] == pytest.approx(seconds, rel=1e-3)


def varied(value: float, count: int) -> list[float]:
    return [value * random.Random(n).uniform(0.95, 1.05) for n in range(count)]


FAULTS = {
    "decoding that is slow from the 21st request on, without dates": (
        "".join(map(llama, varied(24.0, 20) + varied(320.0, 20))),
        "slow-responses",
    ),
    "a queue that grows": (
        "".join(tgi(n, "0.4ms", "4s") for n in range(0, 120, 2))
        + "".join(tgi(120 + n, f"{n / 2}s", f"{4 + n / 2}s") for n in range(0, 120, 2)),
        "burst-admission-backlog",
    ),
    "six of ten turned away": (
        "".join(gin(n, 503 if n > 60 and n % 10 < 6 else 200, "2s") for n in range(240)),
        "new-errors",
    ),
}
HEALTHY = {
    "llama.cpp": "".join(map(llama, varied(24.0, 45))),
    "gin": "".join(gin(n, 200, f"{2 + n % 3}s") for n in range(240)),
    "tgi": "".join(tgi(n, "0.4ms", f"{3 + n % 2}s") for n in range(0, 240, 2)),
}


def conditions(tmp_path, text: str) -> set[str]:
    file = tmp_path / "server.log"
    file.write_text(text)
    return {one.condition for one in replay(draft_recording([file]).recording).incidents}


@pytest.mark.parametrize(("text", "condition"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(tmp_path, text, condition):
    assert condition in conditions(tmp_path, text)


@pytest.mark.parametrize("text", HEALTHY.values(), ids=HEALTHY)
def test_healthy_requests_are_silent(tmp_path, text):
    assert not conditions(tmp_path, text)
