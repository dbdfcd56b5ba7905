import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.inputs import trtllm_log, trtllm_statistics
from skewscope.adapters.inputs.recording import input_readers, load, open_recording
from skewscope.kb.line_patterns import MAX_COLUMNS
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, NothingKnownError
from tests.support.artefacts import SGLANG, START, TRTLLM, TRTLLM_JSON, VLLM
from tests.support.telemetry import record

sglang_log = input_readers()["sglang-log"]
vllm_log = input_readers()["vllm-log"]


def read(module, text, name="logs/server.log", **labels):
    return module.read_series(io.BytesIO(text.encode()), name, labels)


def samples(series, label):
    """Returns (seconds after the start, value) of each sample by metric and the value of a label."""
    return {
        (one.metric, dict(one.labels).get(label, "")): [
            (t - START, pytest.approx(v)) for t, v in zip(one.times.tolist(), one.values, strict=True)
        ]
        for one in series
    }


def test_vllm_has_series_of_each_engine_and_shares_of_one():
    series = read(vllm_log, VLLM, year="2026")
    found = samples(series, "engine")
    assert found["skewscope_serve_prompt_throughput", "0"] == [(0, 1254.4)]
    assert found["skewscope_serve_gen_throughput", "1"] == [(10, 7.2)]
    assert found["vllm:num_requests_running", "0"] == [(0, 10)]
    assert found["vllm:num_requests_waiting", "1"] == [(10, 1)]
    assert found["vllm:kv_cache_usage_perc", "0"] == [(0, 0.579)]
    assert found["skewscope_serve_prefix_hit_rate", "0"] == [(0, 0.405)]
    assert {dict(one.labels)["model_name"] for one in series} == {"chat-model"}
    assert {dict(one.labels)["instance"] for one in series} == {"server"}


def test_samples_are_those_of_the_replica(tmp_path):
    labels = {"replica": "A", "year": "2026"}
    path = record(tmp_path, [{"kind": "vllm-log", "path": "s.log", "labels": labels}], {"s.log": VLLM})
    found = load(open_recording(path), catalogue())
    assert {(key.signal, key.kind, key.entity) for key in found.table.keys} == {
        (signal, "replica", "A")
        for signal in (
            *("serve.gen_throughput", "serve.kv_usage", "serve.prefix_hit_rate", "serve.prompt_throughput"),
            *("serve.running", "serve.waiting"),
        )
    }
    assert not found.unmapped
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("before", "name", "labels", "year"),
    [
        ("", "s.log", {"year": "2025"}, 2025),
        ("", "vllm-2024-11-22.log", {}, 2024),
        ("[2023-11-22 09:00:00] start\n", "s.log", {}, 2023),
        ("", "s.log", {}, 2000),
    ],
)
def test_the_year_is_that_of_the_label_of_the_name_or_of_a_line(before, name, labels, year):
    (first, *_) = read(vllm_log, before + VLLM, name, **labels)
    years = {2000: 974887200, 2023: 1700647200, 2024: 1732269600, 2025: 1763805600}
    assert first.times[0] == years[year]
    assert ("no year: 2000 is assumed" in first.note) == (year == 2000)


LINE = "INFO 11-22 10:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 1 reqs"
METRICS_OF_LINE = ("skewscope_serve_prompt_throughput", "vllm:num_requests_running")


def test_statistics_beyond_the_bound_of_a_line_are_left_out():
    late = LINE.replace("Engine", "x" * MAX_COLUMNS + " Engine")
    series = read(vllm_log, f"{LINE}\n{late}\n", year="2026")
    assert {one.metric: len(one.times) for one in series} == dict.fromkeys(METRICS_OF_LINE, 1)
    with pytest.raises(NothingKnownError, match="too little to judge"):
        read(vllm_log, late, year="2026")


def test_no_number_is_cut_in_two_at_the_bound_of_a_line():
    filler = ", ".join(["x" * 9] * 200)
    for width in range(MAX_COLUMNS - 8, MAX_COLUMNS + 1):
        text = f"{LINE}, {filler}"[: width - len(", Waiting: 1234567 reqs") // 2] + ", Waiting: 1234567 reqs"
        found = samples(read(vllm_log, text, year="2026"), "engine")
        assert found.get(("vllm:num_requests_waiting", "0"), [(0, 1234567)]) == [(0, 1234567)], width


def test_the_year_ends_inside_a_log():
    line = "INFO {} [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 1 reqs\n"
    series = read(vllm_log, line.format("12-31 23:59:55") + line.format("01-01 00:00:05"), year="2026")
    assert (series[0].times[1] - series[0].times[0]) == 10


def test_a_stamp_of_the_container_is_more_exact_than_the_servers():
    text = VLLM.splitlines()[1]
    (first, *_) = read(vllm_log, f"2026-11-22T10:00:00.331095044Z {text}")
    assert first.times[0] - START == pytest.approx(0.331095)


def test_the_lines_of_version_0_are_read():
    text = (
        "INFO 11-22 10:00:00 metrics.py:351] Avg prompt throughput: 0.2 tokens/s, Avg generation throughput: 0, "
        "Running: 1 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 0.5%, CPU KV cache usage: 0.0%."
    )
    found = samples(read(vllm_log, text, year="2026"), "engine")
    assert found["vllm:num_requests_waiting", ""] == [(0, 3)]
    assert found["vllm:kv_cache_usage_perc", ""] == [(0, 0.005)]


def test_sglang_has_the_last_batch_of_each_second_of_each_rank():
    found = samples(read(sglang_log, SGLANG), "dp_rank")
    assert found["sglang:num_running_reqs", "0"] == [(0, 6)]
    assert found["sglang:num_queue_reqs", "0"] == [(0, 2)]
    assert found["sglang:gen_throughput", "0"] == [(0, 150.5)]
    assert found["sglang:token_usage", "1"] == [(1, 0.01)]
    assert found["sglang:cache_hit_rate", "1"] == [(1, 0.25)]
    assert found["skewscope_serve_prompt_throughput", "1"] == [(1, 8072.8)]


def test_newer_lines_of_sglang_have_a_number_and_name_the_engine_of_several():
    line = (
        "{}[2026-11-22 10:00:{:02d} TP0] Decode batch [{}], #running-req: {}, #token: 1094261, token usage: 0.67, "
        "cuda graph: True, gen throughput (token/s): 14806.57, #queue-req: {},\n"
    )
    actors = "(SGLangEngine pid=35555) ", "(SGLangEngine pid=111, ip=10.15.36.1) "
    text = line.format(actors[0], 20, 51341, 317, 4) + line.format(actors[1], 20, 39913, 78, 0)
    assert sglang_log.recognise(text.encode(), "x")
    found = samples(read(sglang_log, text), "engine")
    assert found["sglang:num_running_reqs", "35555"] == [(20.0, 317)]
    assert found["sglang:num_running_reqs", "10.15.36.1-111"] == [(20.0, 78)]
    assert found["sglang:num_queue_reqs", "35555"] == [(20.0, 4)]
    assert found["sglang:token_usage", "10.15.36.1-111"] == [(20.0, 0.67)]
    alone = line.format("", 5, "first graph replay", 3, 1)
    assert samples(read(sglang_log, alone), "engine")["sglang:num_running_reqs", ""] == [(5.0, 3)]


def test_requests_that_sglang_throws_out_are_counted_at_each_batch():
    head = "[2026-09-13 16:06:{:02}{}] "
    batch = head + "Decode batch, #running-req: {}, #token: 80000, token usage: 0.99, #queue-req: 3"
    lost = head + "KV cache pool is full. Retract requests. #retracted_reqs: {}, #new_token_ratio: 0.0980 -> 0.3487"
    lines = [
        *(batch.format(4, "", 66), lost.format(5, "", 2), lost.format(6, "", 1), batch.format(7, "", 60)),
        # All ranks of a tensor-parallel group say the same.
        *(lost.format(8, " TP0", 4), lost.format(8, " TP1", 4), batch.format(9, " TP0", 55)),
    ]
    found = samples(read(sglang_log, "\n".join(lines)), "dp_rank")["sglang:num_retracted_requests_total", ""]
    assert [value for _, value in found] == [0, 2, 3, 3, 7, 7]


def test_older_lines_of_sglang_have_no_date_or_a_rate_in_per_cent():
    text = """\
[23:59:59 TP0] Decode batch. #running-req: 2, #token: 40, token usage: 0.10, #queue-req: 0
[00:00:01 TP0] Prefill batch. #new-seq: 1, #new-token: 1, #cached-token: 42, cache hit rate: 64.41%, token usage: 0.20
[00:00:01 TP1] Decode batch. #running-req: 9, #token: 40, token usage: 0.90, #queue-req: 0
"""
    series = {one.metric: one for one in read(sglang_log, text)}
    assert series["sglang:token_usage"].times.tolist() == [86399, 86401]
    assert series["sglang:token_usage"].values.tolist() == [0.1, 0.2]
    assert series["sglang:cache_hit_rate"].values.tolist() == [pytest.approx(0.6441)]
    assert "no date" in series["sglang:token_usage"].note


def test_a_line_without_a_time_has_that_of_the_file_and_says_so():
    (series,) = read(vllm_log, "\nEngine 000: Avg prompt throughput: 1.0 tokens/s\n")
    assert "that of the file is taken" in series.note


def test_a_year_that_is_none_is_an_error():
    with pytest.raises(InputError, match="year"):
        read(vllm_log, VLLM, year="26")


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 9999), st.integers(0, 1000)), min_size=1, max_size=9))
def test_what_vllm_prints_is_read_back(rows):
    text = "".join(
        f"INFO 11-22 10:00:{n:02d} [loggers.py:273] Engine 000: Avg prompt throughput: {rate / 10:.1f} tokens/s, "
        f"Avg generation throughput: 0.0 tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
        f"GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%\n"
        for n, (running, rate, waiting) in enumerate(rows)
    )
    found = {one.metric: one.values.tolist() for one in read(vllm_log, text)}
    assert found["vllm:num_requests_running"] == [row[0] for row in rows]
    assert found["skewscope_serve_prompt_throughput"] == [pytest.approx(row[1] / 10) for row in rows]
    assert found["vllm:num_requests_waiting"] == [row[2] for row in rows]


@pytest.mark.parametrize(("module", "text"), [(trtllm_log, TRTLLM), (trtllm_statistics, TRTLLM_JSON)])
def test_steps_of_trtllm_that_read_prompts_are_told_from_those_that_decode(module, text):
    found = samples(read(module, text), "dp_rank")
    assert found["skewscope_serve_decode_step_time", ""] == [(0, 0.0125)]
    assert found["skewscope_serve_prompt_step_time", ""] == [(0, 0.2)]
    assert found["skewscope_serve_prompt_step_share", ""] == [(0, 0.2 / 0.2125)]
    assert found["skewscope_serve_prompt_throughput", ""] == [(0, 8192 / 0.2125)]
    assert found["trtllm_num_requests_running", ""] == [(0, 41)]


def test_statistics_of_trtllm_have_queue_and_cache_in_lists_and_in_lines():
    lines = TRTLLM_JSON.strip().removeprefix("[").removesuffix("]").replace("}},\n", "}}\n")
    for text in (TRTLLM_JSON, lines, lines + '\n{"iter": 9, "iterLat'):
        found = samples(read(trtllm_statistics, text), "dp_rank")
        assert found["trtllm_num_requests_waiting", ""] == [(0, 2)]
        assert found["trtllm_kv_cache_utilization", ""] == [(0, 0.96)]


ITERATION = (
    "2: [08/04/2026-19:08:13] [TRT-LLM] [I] [_torch][RANK {rank}] iter = 5, global_rank = {rank}, rank = {rank}, "
    "num_scheduled_requests = {batch}, kv_cache_util = 0.125, currank_total_requests = {taken}/8, "
    "host_step_time = 20.5ms, "
    "prev_device_step_time = N/A, timestamp = 11-22-2026 10:00:05, "
    "states = {{'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': {batch}, 'cached_tokens': 6}}\r\n"
)


def test_newer_lines_of_trtllm_have_the_use_of_the_cache_and_the_month_first():
    text = "".join(ITERATION.format(rank=rank, batch=16, taken=8) for rank in (1, 0))
    found = samples(read(trtllm_log, text), "dp_rank")
    assert found["trtllm_kv_cache_utilization", ""] == [(5, 0.125)]
    assert found["skewscope_serve_decode_step_time", ""] == [(5, 0.0205)]
    assert {rank for _, rank in found} == {""}


def test_ranks_of_data_parallel_attention_have_batches_of_their_own():
    text = "".join(ITERATION.format(rank=rank, batch=16 - rank, taken=rank) for rank in (0, 1))
    found = samples(read(trtllm_log, text), "dp_rank")
    assert found["trtllm_num_requests_running", "0"] == [(5, 16)]
    assert found["trtllm_num_requests_running", "1"] == [(5, 15)]


def test_iterations_without_times_begin_at_zero():
    text = "iter = 1, host_step_time = 1500ms, states = {'num_ctx_tokens': 0, 'num_generation_tokens': 3}\n" * 3
    series = {each.metric: each for each in read(trtllm_log, text)}["skewscope_serve_decode_step_time"]
    assert series.times.tolist() == [1, 3, 4]
    assert "no times" in series.note
