"""The hooks of deploy/hooks, run as programs against servers and a scontrol of their own."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.api_server import serve_api

HOOKS = Path(__file__).resolve().parent.parent / "deploy" / "hooks"
REASONS = [{"condition": "gpu-thermal-throttle", "severity": "critical", "confidence": 0.9}]


def health(score, name="n0", kind="node", reasons=REASONS):
    return {
        "kind": kind,
        "name": name,
        "score": score,
        "placement": 0.5 if score is None else score,
        "coverage": 1.0 if score is not None else None,
        "age_s": 0.5,
        "reasons": reasons if score is not None else [],
    }


def controller(*entities):
    """Answers for one node or all, as a controller does; an unknown entity is 404."""

    def answer(asked):
        path = asked.path.partition("?")[0]
        if path == "/api/v1/health":
            return 200, {"age_s": 0.5, "entities": list(entities)}
        found = [one for one in entities if path == f"/api/v1/health/{one['kind']}/{one['name']}"]
        return (200, found[0] | {"score": found[0]["score"] or 1.0}) if found else (404, {"error": "no such node"})

    return serve_api(answer)


def run(hook, *words, **environment):
    given = {"PATH": os.environ["PATH"], "SKEWSCOPE_NODE": "n0"} | {k: str(v) for k, v in environment.items()}
    command = [sys.executable, str(HOOKS / hook), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=given, check=False)


@pytest.fixture
def scontrol(tmp_path):
    """A scontrol that shows a node and keeps what it was told."""
    program = tmp_path / "scontrol"
    program.write_text(f'#!/bin/sh\n[ "$1" = show ] && cat {tmp_path}/node || echo "$@" >> {tmp_path}/told\n')
    program.chmod(0o755)

    def prepare(shown):
        (tmp_path / "node").write_text(shown)
        (tmp_path / "told").write_text("")
        return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, (tmp_path / "told").read_text

    return prepare


IDLE, OURS = "NodeName=n0 State=IDLE\n", "NodeName=n0 State=IDLE+DRAIN\n Reason=skewscope-health:x [root@now]\n"
THEIRS = "NodeName=n0 State=IDLE+DRAIN\n Reason=broken fan [bob@now]\n"


@pytest.mark.parametrize(
    ("score", "shown", "told"),
    [
        (0.1, IDLE, "update nodename=n0 state=drain reason=skewscope-health:gpu-thermal-throttle\n"),
        (0.1, OURS, ""),
        (0.1, THEIRS, ""),
        (0.5, IDLE, ""),
        (0.5, OURS, ""),
        (0.9, IDLE, ""),
        (0.9, OURS, "update nodename=n0 state=resume\n"),
        (0.9, THEIRS, ""),
    ],
)
def test_a_health_check_drains_and_resumes_only_its_own(scontrol, score, shown, told):
    environment, read = scontrol(shown)
    with controller(health(score)) as (url, _):
        done = run("slurm_health_check.py", SKEWSCOPE_URL=url, **environment)
    assert (done.returncode, done.stderr, read()) == (0, "", told)


def test_a_health_check_without_an_answer_changes_nothing(scontrol):
    for url in ("http://127.0.0.1:1", None):
        environment, read = scontrol(OURS)
        environment |= {"SKEWSCOPE_URL": url} if url else {}
        assert run("slurm_health_check.py", **environment).returncode == 0
        assert read() == ""


@pytest.mark.parametrize(("score", "status"), [(0.1, 1), (0.5, 0), (1.0, 0)])
def test_a_prolog_refuses_sick_nodes_alone(score, status):
    with controller(health(score)) as (url, _):
        done = run("slurm_prolog.py", SKEWSCOPE_URL=url)
    assert done.returncode == status
    assert ("gpu-thermal-throttle" in done.stderr) is bool(status)


def test_a_prolog_lets_jobs_through_where_nothing_is_known(tmp_path):
    with controller() as (url, _):
        assert run("slurm_prolog.py", SKEWSCOPE_URL=url).returncode == 0
    assert run("slurm_prolog.py", SKEWSCOPE_URL="http://127.0.0.1:1").returncode == 0
    assert run("slurm_prolog.py", SKEWSCOPE_TOKEN_FILE=tmp_path / "none").returncode == 0


def test_no_token_is_sent_to_an_address_that_was_not_named(tmp_path):
    (tmp_path / "token").write_text("secret")
    done = run("slurm_prolog.py", SKEWSCOPE_TOKEN_FILE=tmp_path / "token")
    assert done.returncode == 0
    assert "only to an address named with it" in done.stderr


def test_node_conditions_are_patched_and_keep_their_time(tmp_path):
    (tmp_path / "token").write_text("k8s-token")
    since = "2026-01-01T00:00:00Z"
    nodes = {
        "n0": [{"type": "SkewscopeDegraded", "status": "True", "lastTransitionTime": since}, {"type": "Ready"}],
        "n1": [{"type": "SkewscopeDegraded", "status": "True", "lastTransitionTime": since}],
        "n2": [],
    }

    def cluster(asked):
        name = asked.path.split("/")[4]
        if name not in nodes:
            return 404, {"kind": "Status"}
        return 200, {"status": {"conditions": nodes[name]}}

    entities = [health(0.1), health(1.0, "n1", reasons=[]), health(None, "n2"), health(0.2, "gone")]
    with controller(*entities) as (url, _), serve_api(cluster) as (api, asked):
        environment = {"KUBERNETES_URL": api, "KUBERNETES_TOKEN_FILE": tmp_path / "token"}
        done = run("kubernetes_node_condition.py", SKEWSCOPE_URL=url, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    patches = [one for one in asked if one.method == "PATCH"]
    assert [one.path for one in patches] == [f"/api/v1/nodes/n{n}/status" for n in range(3)]
    assert {one.content_type for one in patches} == {"application/strategic-merge-patch+json"}
    assert {one.token for one in asked} == {"Bearer k8s-token"}
    conditions = [one.body["status"]["conditions"] for one in patches]
    assert [(len(each), each[0]["type"], each[0]["status"]) for each in conditions] == [
        *((1, "SkewscopeDegraded", "True"), (1, "SkewscopeDegraded", "False"), (1, "SkewscopeDegraded", "Unknown")),
    ]
    assert conditions[0][0]["lastTransitionTime"] == since
    assert conditions[1][0]["lastTransitionTime"] != since
    assert conditions[0][0]["message"] == "health 0.1: gpu-thermal-throttle"


def test_node_conditions_are_not_touched_without_an_answer(tmp_path):
    (tmp_path / "token").write_text("k8s-token")
    with serve_api(lambda _asked: (200, {})) as (api, asked):
        environment = {"KUBERNETES_URL": api, "KUBERNETES_TOKEN_FILE": tmp_path / "token"}
        assert run("kubernetes_node_condition.py", SKEWSCOPE_URL="http://127.0.0.1:1", **environment).returncode == 1
    assert asked == []


SCORED = [health(0.2, "r0", "replica"), health(0.9, "r1", "replica"), health(None, "r2", "replica")]
WORKERS = {"w0": "r0", "w1": "r1", "w2": "r2", "w3": "elsewhere"}


def test_scores_of_workers_are_a_file_and_the_unknown_are_never_the_worst(tmp_path):
    (tmp_path / "workers.json").write_text(json.dumps(WORKERS))
    words = ("--workers", str(tmp_path / "workers.json"), "--file", str(tmp_path / "scores.json"), "--once")
    with controller(*SCORED) as (url, _):
        assert run("router_scores.py", *words, SKEWSCOPE_URL=url).returncode == 0
    found = json.loads((tmp_path / "scores.json").read_text())
    assert found == {"scores": {"w0": 0.2, "w1": 0.9, "w2": 0.55, "w3": 0.55}, "unknown": ["w2", "w3"], "trouble": ""}
    assert run("router_scores.py", *words, SKEWSCOPE_URL="http://127.0.0.1:1").returncode == 0
    found = json.loads((tmp_path / "scores.json").read_text())
    assert set(found["scores"].values()) == {1.0}
    assert found["trouble"]


def test_scores_of_workers_are_served(tmp_path):
    (tmp_path / "workers.json").write_text(json.dumps(WORKERS))
    words = [sys.executable, str(HOOKS / "router_scores.py"), "--workers", str(tmp_path / "workers.json")]
    with controller(*SCORED) as (url, _):
        given = {"PATH": os.environ["PATH"], "SKEWSCOPE_URL": url}
        process = subprocess.Popen([*words, "--listen", "0"], stdout=subprocess.PIPE, text=True, env=given)
        try:
            address = process.stdout.readline().strip()
            with urllib.request.urlopen(address, timeout=10) as answer:
                assert json.load(answer)["scores"]["w0"] == 0.2
        finally:
            process.kill()
            process.wait()
