"""Outputs of commands and logs as people have them: what each answers, with what is wrong and without it."""

import io
import random

import pytest

from skewscope.adapters.inputs import request_table
from skewscope.adapters.inputs.draft_recording import draft_recording
from skewscope.adapters.runtime.replay import replay
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import InputError, NothingKnownError

TOO_LITTLE, REFUSED, ALL_CLEAR = "too little", "refused", "all clear"


def answer(tmp_path, text, name="a.txt"):
    """Returns the conditions and symptoms with their places, or that nothing can be judged."""
    file = tmp_path / name
    file.write_text(text)
    try:
        draft = draft_recording([file])
    except NothingKnownError:
        return TOO_LITTLE
    except InputError:
        return REFUSED
    outcome = replay(draft.recording)
    found = {f"{one.condition} {one.name}" for one in outcome.incidents if not one.explained_by}
    return found or (ALL_CLEAR if outcome.is_enough else TOO_LITTLE)


UVICORN = "".join(f'INFO:     10.0.0.1:5{n} - "POST /v1/completions HTTP/1.1" 200 OK\n' for n in range(9))
DMESG = "[    0.000000] Linux version 6.8.0\n[   12.000000] mlx5_core 0000:18:00.0 eth0: Link up\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(UVICORN, TOO_LITTLE, id="requests without durations"),
        pytest.param(
            f"{UVICORN}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
            {"reported-event a"},
            id="and a message among them",
        ),
        pytest.param(DMESG, TOO_LITTLE, id="a kernel without a message"),
        pytest.param(
            f"{DMESG}[   99.1] Out of memory: Killed process 1 (python3)\n", {"reported-event a"}, id="with one"
        ),
        pytest.param("Nov 22 10:00:00 n3 sshd[11]: Accepted publickey for a\n" * 5, TOO_LITTLE, id="a log of services"),
    ],
)
def test_logs(tmp_path, text, wanted):
    assert answer(tmp_path, text) == wanted


def chart(slow, head='"Step","run-a - train/step_time","run-a - train/step_time__MIN"'):
    """Returns an export without times, of steps of 0.8 s, and of twice as much from the 600th on."""
    seconds = [(step, (1.6 if slow and step > 600 else 0.8) + 0.001 * (step % 7)) for step in range(10, 1000, 10)]
    return f"{head}\n" + "".join(f'"{step}","{time}","{time}"\n' for step, time in seconds)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(chart(slow=True), {"slow-steps run-a"}, id="steps that grow"),
        pytest.param(chart(slow=False), ALL_CLEAR, id="steps that do not"),
        pytest.param(chart(slow=True, head="step,train_step_time,train_loss"), {"slow-steps a"}, id="of MLflow"),
        pytest.param('"Step","run-a - train/loss"\n' + '"1","2.5"\n' * 9, TOO_LITTLE, id="a loss alone"),
    ],
)
def test_exports_without_times(tmp_path, text, wanted):
    assert answer(tmp_path, text, "a.csv") == wanted


def matrix(links, odd=(), size=4, tail="\tPIX\t0-31\t0"):
    """Returns what `nvidia-smi topo -m` prints: `links` between all pairs, and others between some."""
    lines = ["\t" + "\t".join(f"GPU{n}" for n in range(size)) + "\tNIC0\tCPU Affinity\tNUMA Affinity"]
    others = dict(odd) | {pair[::-1]: text for pair, text in odd}
    for a in range(size):
        cells = [" X " if a == b else others.get((a, b), links) for b in range(size)]
        lines.append(f"GPU{a}\t" + "\t".join(cells) + tail)
    return "\n".join([*lines, "NIC0\tPIX\tPIX\tSYS\tSYS\t X ", "", "Legend:", "  X    = Self", ""])


PAIRS = [((a, b), "SYS") for a in range(4) for b in range(a) if (a, b) not in {(1, 0), (3, 2)}]
ROCM = """======= Link Type between two GPUs =======
       GPU0         GPU1         GPU2         GPU3
GPU0   0            XGMI         XGMI         XGMI
GPU1   XGMI         0            XGMI         {x}
GPU2   XGMI         XGMI         0            XGMI
GPU3   XGMI         {x}         XGMI         0
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(matrix("NV18"), TOO_LITTLE, id="all alike"),
        pytest.param(matrix("NV18", [((2, 3), "SYS")]), {"reported-event a/gpu2"}, id="one pair"),
        pytest.param(matrix("NV12", [((n, 3), "NV8") for n in range(3)]), {"reported-event a/gpu3"}, id="one GPU"),
        pytest.param(matrix("NV4", PAIRS), TOO_LITTLE, id="bridges between pairs"),
        pytest.param(matrix("PHB"), TOO_LITTLE, id="no links"),
        pytest.param(matrix("NV12", size=2), TOO_LITTLE, id="two GPUs"),
        pytest.param(ROCM.format(x="PCIE"), {"reported-event a/gpu1"}, id="of AMD, one pair"),
        pytest.param(ROCM.format(x="XGMI"), TOO_LITTLE, id="of AMD"),
    ],
)
def test_connections_of_gpus(tmp_path, text, wanted):
    assert answer(tmp_path, text) == wanted


def nginx(slow, requests=600):
    """Returns an access log of four upstreams, of which one takes so many times as long."""
    jitter, lines = random.Random(3), []
    for n in range(requests):
        took = jitter.uniform(0.6, 0.9) * (slow if n % 4 == 2 else 1)
        clock = f"{10 + n // 1800:02}:{n // 30 % 60:02}:{2 * n % 60:02}"
        call = '"POST /v1/chat/completions HTTP/1.1" 200 512 "-" "-"'
        lines.append(f"10.0.0.9 - - [22/Nov/2026:{clock} +0000] {call} rt={took:.3f} ua=10.0.0.2{n % 4}:8000\n")
    return "".join(lines)


def rows(wait, prompt=0):
    """Returns a table of requests, of which each waits longer, and has a longer prompt, than the one before."""
    jitter, lines = random.Random(3), ["start_time,end_time,ttft,prompt_tokens,output_tokens,status,replica"]
    for n in range(300):
        first, start = jitter.uniform(0.2, 0.25) + n * wait, 1795341600 + n * 0.8
        lines.append(f"{start:.3f},{start + first + 2.56:.3f},{first:.3f},{512 + n * prompt},128,200,chat-0")
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(nginx(1), ALL_CLEAR, id="upstreams alike"),
        pytest.param(nginx(1.6), ALL_CLEAR, id="one somewhat slower"),
        pytest.param(nginx(7), {"slow-responses 10.0.0.22"}, id="one seven times as slow from the first on"),
    ],
)
def test_rows_of_requests(tmp_path, text, wanted):
    assert answer(tmp_path, text, "a.log") == wanted


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        pytest.param(rows(0), False, id="requests that do not wait"),
        pytest.param(rows(0.04), True, id="requests that wait longer and longer"),
        pytest.param(rows(0.04, prompt=20), False, id="requests sorted by length"),
    ],
)
def test_requests_that_wait_longer_and_longer_are_told(text, is_told):
    series = request_table.read_series(io.BytesIO(text.encode()), "a.csv", {})
    assert ("skewscope_event_bench_requests_queue" in {one.metric for one in series}) == is_told


def test_a_summary_of_kernels_is_too_little_unless_most_of_it_is_communication(tmp_path):
    communication, computation = catalogue().formats["nsys-stats"].samples
    assert answer(tmp_path, communication.lines, "kernels.csv") == {"slow-steps kernels"}
    assert answer(tmp_path, computation.lines, "kernels.csv") == TOO_LITTLE


def engine_log(prompt, made, running, waiting, cache):
    """Returns a log of vLLM for two minutes, of an engine that is in this state throughout."""
    return "".join(
        f"INFO 09-14 08:{n // 6:02d}:{n % 6 * 10:02d} [loggers.py:118] Engine 000: "
        f"Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {made:.1f} tokens/s, "
        f"Running: {running} reqs, Waiting: {waiting + 2 * n if waiting else 0} reqs, "
        f"GPU KV cache usage: {cache - 0.1 * n:.1f}%, Prefix cache hit rate: 3.0%\n"
        for n in range(13)
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(engine_log(15800, 95, 33, 6, 55), {"prefill-decode-interference vllm-a"}, id="prompts take all"),
        pytest.param(engine_log(5200, 1300, 33, 0, 55), ALL_CLEAR, id="many prompts, and streams advance"),
        pytest.param(engine_log(0, 410, 12, 30, 22), {"engine-connection-liveness vllm-a"}, id="nothing is admitted"),
        pytest.param(engine_log(400, 410, 12, 0, 22), ALL_CLEAR, id="all is admitted"),
    ],
)
def test_logs_of_engines_in_one_state(tmp_path, text, wanted):
    assert answer(tmp_path, text) == wanted


LANES = "index, pcie.link.width.current, pcie.link.width.max, utilization.gpu [%]\n"


@pytest.mark.parametrize(("lanes", "wanted"), [(8, {"lost-capacity a/gpu1"}), (16, TOO_LITTLE)])
def test_a_gpu_with_half_of_its_lanes_is_one_of_one_reading(tmp_path, lanes, wanted):
    rows = "".join(f"{n}, {lanes if n == 1 else 16}, 16, 98 %\n" for n in range(4))
    assert answer(tmp_path, LANES + rows, "a.csv") == wanted


@pytest.mark.parametrize(("wait", "wanted"), [(3400.0, {"dataloader-stall a"}), (40.0, TOO_LITTLE)])
def test_batches_that_megatron_waits_for_are_part_of_its_steps(tmp_path, wait, wanted):
    text = "".join(
        f" [2026-09-14 08:{n // 10:02d}:{n % 10 * 6:02d}] iteration {n + 10:8d}/  500000 | consumed samples: {n} | "
        "elapsed time per iteration (ms): 5200.0 | global batch size:  1024 |\n(min, max) time across ranks (ms):\n"
        f"    batch-generator ................................: ({wait:.2f}, {wait + 9:.2f})\n"
        for n in range(8)
    )
    assert answer(tmp_path, text, "a.log") == wanted
