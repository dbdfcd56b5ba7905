"""What a scheduler is told, above all when nobody knows."""

import json
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from skewscope.adapters import Health
from tests.support.loopback import Says, Server

GOOD = {"kind": "node", "name": "n0", "score": 0.75, "reasons": [{"condition": "x"}], "coverage": 0.9, "age_s": 0.5}


@contextmanager
def answering(told, status=200):
    """An address, and what was asked."""
    asked = []

    def answer(request):
        asked.append((request.path, request.headers.get("authorization")))
        return Says(status, told if isinstance(told, bytes) else json.dumps(told).encode())

    with Server(answer) as server:
        yield server.url, asked


def test_an_answer_is_told_with_reasons_coverage_and_age():
    with answering(GOOD) as (url, asked):
        health = Health(url, "secret")
        answer = health.query("node", "n0")
    assert (answer.score, answer.coverage, answer.age, answer.trouble) == (0.75, 0.9, 0.5, "")
    assert answer.state == "ill"
    assert answer.reasons == ({"condition": "x"},)
    assert answer.known
    assert answer.at_least(0.7)
    assert not answer.at_least(0.8)
    assert asked == [("/api/v1/health/node/n0", "Bearer secret")]
    assert "secret" not in repr(health)


def test_an_answer_is_kept_and_grows_older():
    with answering(GOOD) as (url, asked):
        health = Health(url, cache_time=60.0)
        first = health.query("node", "n0")
        time.sleep(0.05)
        second = health.query("node", "n0")
    assert len(asked) == 1
    assert second.age >= first.age + 0.04


@pytest.mark.parametrize(
    ("told", "status", "why"),
    [
        ({"error": "no such node"}, 404, "the answer 404: no such node"),
        ({"error": "no token"}, 401, "the answer 401"),
        (GOOD | {"age_s": 31.0}, 200, "31 s old"),
        (GOOD | {"score": 1.0, "reasons": [], "coverage": 0.0}, 200, "no telemetry"),
        (GOOD | {"score": 1.0, "reasons": [], "coverage": None}, 200, "no telemetry"),
        (GOOD | {"score": None, "reasons": [], "coverage": 0.0, "state": "unknown"}, 200, "no telemetry"),
        (GOOD | {"name": "n1"}, 200, "another query"),
        (GOOD | {"score": 7.0}, 200, "another query"),
        (GOOD | {"score": float("nan")}, 200, "another query"),
        ([], 200, "no answer"),
        (b"<html>", 200, "no answer"),
        (b"[" * 100_000, 200, "no answer"),
        ({}, 200, "no answer"),
    ],
)
def test_where_nothing_is_known_nothing_is_well(told, status, why):
    with answering(told, status) as (url, _):
        answer = Health(url).query("node", "n0")
    assert (answer.score, answer.known, answer.at_least(0.0)) == (None, False, False)
    assert answer.state == "unknown"
    assert why in answer.trouble


def test_nobody_there_is_unknown():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert not Health(f"http://127.0.0.1:{port}").query("node", "n0").known


def test_one_that_drips_is_cut_off():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def drip():
            there, _ = server.accept()
            with there:
                try:
                    there.sendall(b"HTTP/1.1 200 OK\r\n")
                    while not ended.wait(0.05):
                        there.sendall(b"X: y\r\n")
                except OSError:
                    return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        answer = Health(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.3).query("node", "n0")
        ended.set()
        thread.join(10)
    assert not answer.known


def test_names_are_sent_as_they_are():
    with answering(GOOD) as (url, asked):
        Health(url).query("node", "a/b ?#é")
    assert asked[0][0] == "/api/v1/health/node/a%2Fb%20%3F%23%C3%A9"


def test_an_address_that_is_none_is_told_at_once():
    with pytest.raises(ValueError, match="http://HOST:PORT"):
        Health("n0:8470")


def test_a_token_needs_an_address_and_without_one_the_usual_address_is_asked():
    with pytest.raises(ValueError, match="a token without an address"):
        Health(token="secret")
    assert Health().url == "http://127.0.0.1:8470"


def test_the_standard_library_is_enough():
    script = "import sys\nfrom skewscope.adapters import Health\nprint(*{n.split('.')[0] for n in sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    ours = {name for name in done.stdout.split() if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert not ours & {"numpy", "yaml", "starlette", "pyarrow", "textual", "networkx", "click"}
