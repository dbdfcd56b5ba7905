"""The hooks of deploy/hooks, run as programs against servers and a scontrol of their own."""

import json
import os
import re
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
    known = {"PATH": os.environ["PATH"], "SKEWSCOPE_NODE": "n0", "SKEWSCOPE_MODE": "act"}
    given = known | {k: str(v) for k, v in environment.items()}
    command = [sys.executable, str(HOOKS / hook), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=given, check=False)


@pytest.fixture
def scontrol(tmp_path):
    """A scontrol with a record of each node in a file; it carries out drains, and keeps what it was told."""
    program, nodes = tmp_path / "scontrol", tmp_path / "nodes"
    program.write_text(
        f"""#!{sys.executable}
import re, sys
from pathlib import Path
nodes, words = Path({str(nodes)!r}), [word for word in sys.argv[1:] if word != "--oneliner"]
lines = nodes.read_text().splitlines()
if words[0] == "show":
    print("\\n".join(line for line in lines if len(words) < 3 or line.startswith(f"NodeName={{words[2]}} ")))
else:
    given = dict(word.split("=", 1) for word in words[1:])
    with Path({str(tmp_path / "told")!r}).open("a") as told:
        told.write(" ".join(words) + "\\n")
    reason = f" Reason={{given['reason']}}" if "reason" in given else ""
    state = f"NodeName={{given['nodename']}} State=IDLE{{'+DRAIN' if given['state'] == 'drain' else ''}}{{reason}}"
    nodes.write_text("\\n".join(state if line.split()[0] == state.split()[0] else line for line in lines))
"""
    )
    program.chmod(0o755)

    def prepare(shown, others=20):
        nodes.write_text("\n".join([shown.strip(), *(f"NodeName=m{n} State=IDLE" for n in range(others))]))
        (tmp_path / "told").write_text("")
        return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, (tmp_path / "told").read_text

    return prepare


IDLE, OURS = "NodeName=n0 State=IDLE", "NodeName=n0 State=IDLE+DRAIN Reason=skewscope-health:x [root@now]"
THEIRS = "NodeName=n0 State=IDLE+DRAIN Reason=broken fan [bob@now]"
DRAINED = "update nodename=n0 state=drain reason=skewscope-health:gpu-thermal-throttle\n"
WELL = [health(1.0, f"m{n}", reasons=[]) for n in range(20)]


@pytest.mark.parametrize(
    ("score", "shown", "told"),
    [
        (0.1, IDLE, DRAINED),
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
    with controller(health(score), *WELL) as (url, _):
        done = run("slurm_health_check.py", SKEWSCOPE_URL=url, **environment)
    assert (done.returncode, read()) == (0, told)
    assert bool(done.stderr) is bool(told)


def test_a_health_check_without_an_answer_changes_nothing(scontrol):
    for url in ("http://127.0.0.1:1", None):
        environment, read = scontrol(OURS)
        environment |= {"SKEWSCOPE_URL": url} if url else {}
        assert run("slurm_health_check.py", **environment).returncode == 0
        assert read() == ""


def test_hooks_observe_until_they_are_told_to_act(scontrol):
    environment, read = scontrol(IDLE)
    with controller(health(0.1), *WELL) as (url, _):
        given = environment | {"SKEWSCOPE_URL": url, "SKEWSCOPE_MODE": "observe"}
        for hook in ("slurm_health_check.py", "slurm_prolog.py"):
            done = run(hook, **given)
            assert (done.returncode, read()) == (0, "")
            assert "would run: scontrol update nodename=n0 state=drain" in done.stderr


def test_what_a_hook_drained_is_resumed_while_it_observes(scontrol):
    environment, read = scontrol(OURS)
    with controller(health(0.9), *WELL) as (url, _):
        run("slurm_health_check.py", SKEWSCOPE_URL=url, SKEWSCOPE_MODE="observe", **environment)
    assert read() == "update nodename=n0 state=resume\n"


@pytest.mark.parametrize("hook", ["slurm_health_check.py", "slurm_prolog.py"])
def test_nobody_is_drained_while_all_are_ill(scontrol, hook):
    environment, read = scontrol(IDLE)
    hot = [health(0.1, f"m{n}") for n in range(20)]
    with controller(health(0.1), *hot) as (url, _):
        done = run(hook, SKEWSCOPE_URL=url, **environment)
    assert (done.returncode, read()) == (0, "")
    assert "21 of 21 nodes are ill at once" in done.stderr


def test_of_several_ill_nodes_the_worst_are_drained_as_many_as_may_be(scontrol):
    environment, read = scontrol(IDLE)
    with controller(health(0.2), health(0.1, "m0"), health(0.15, "m1"), *WELL[2:]) as (url, _):
        done = run("slurm_health_check.py", SKEWSCOPE_URL=url, **environment)
        assert (done.returncode, read()) == (0, "")
        assert "worse ones come first" in done.stderr
        run("slurm_health_check.py", SKEWSCOPE_URL=url, SKEWSCOPE_NODE="m1", **environment)
        assert read() == "update nodename=m1 state=drain reason=skewscope-health:gpu-thermal-throttle\n"


@pytest.mark.parametrize(("score", "status"), [(0.1, 1), (0.5, 0), (1.0, 0)])
def test_a_prolog_refuses_a_sick_node_once_it_has_drained_it(scontrol, score, status):
    environment, read = scontrol(IDLE)
    with controller(health(score), *WELL) as (url, _):
        done = run("slurm_prolog.py", SKEWSCOPE_URL=url, **environment)
        again = run("slurm_prolog.py", SKEWSCOPE_URL=url, **environment)
    assert done.returncode == again.returncode == status
    assert read() == (DRAINED if status else "")
    assert ("gpu-thermal-throttle" in done.stderr) is bool(status)


def test_a_prolog_leaves_the_drains_of_others_to_them(scontrol):
    environment, read = scontrol(THEIRS)
    with controller(health(0.1), *WELL) as (url, _):
        assert run("slurm_prolog.py", SKEWSCOPE_URL=url, **environment).returncode == 0
    assert read() == ""


def test_a_prolog_lets_jobs_through_where_nothing_is_known_or_can_be_drained(tmp_path):
    with controller() as (url, _):
        assert run("slurm_prolog.py", SKEWSCOPE_URL=url).returncode == 0
    with controller(health(0.1), *WELL) as (url, _):
        assert run("slurm_prolog.py", SKEWSCOPE_URL=url, PATH=tmp_path).returncode == 0
    assert run("slurm_prolog.py", SKEWSCOPE_URL="http://127.0.0.1:1").returncode == 0
    assert run("slurm_prolog.py", SKEWSCOPE_TOKEN_FILE=tmp_path / "none").returncode == 0


@pytest.mark.parametrize(
    ("name", "value"), [("MODE", "yes"), ("DRAIN_BELOW", "2"), ("MAX_DRAINED", "-1"), ("MAX_SHARE", "x")]
)
def test_a_wrong_limit_is_refused_and_nothing_is_done(scontrol, name, value):
    environment, read = scontrol(IDLE)
    with controller(health(0.1), *WELL) as (url, _):
        done = run("slurm_health_check.py", SKEWSCOPE_URL=url, **{f"SKEWSCOPE_{name}": value}, **environment)
    assert done.returncode == 1
    assert f"SKEWSCOPE_{name} is {value!r}" in done.stderr
    assert read() == ""


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
    assert re.fullmatch(r"valid until \S+Z; health 0.1: gpu-thermal-throttle", conditions[0][0]["message"])


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
    assert found == {"scores": {"w0": 0.2, "w1": 0.9, "w2": 0.5, "w3": 0.7}, "unknown": ["w2", "w3"], "trouble": ""}
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
