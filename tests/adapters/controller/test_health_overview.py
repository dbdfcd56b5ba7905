"""Health of all entities at once: the same as of each alone, the worst first, the unknown never the worst."""

import json
import time
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters import Health
from skewscope.adapters.controller.health import assess_health
from skewscope.adapters.controller.health_overview import assess_all, describe_all
from skewscope.adapters.controller.tick_pipeline import TickResult
from skewscope.adapters.runtime.runtime import Snapshot
from skewscope.engine.model.incident import Explanation
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from tests.adapters.notify.incidents import incident, symptom
from tests.support.api_server import serve_api

TOPOLOGY = Topology(
    tuple(Node(f"n{n}", gpus=2) for n in range(4)),
    (
        Group("r0", "tensor-parallel", ("n0/gpu0", "n1/gpu0")),
        Group("r1", "tensor-parallel", ("n2",), front_end="n3"),
        Group("ring", "data-parallel", ("n0", "n2")),
    ),
    (Pool("chat", ("r0", "r1")),),
)
PLACES = st.sampled_from(
    [
        *(("node", "n0"), ("rank", "n2"), ("gpu", "n0/gpu1"), ("port", "n1/ew"), ("group", "ring"), ("replica", "r1")),
        *(("link", "n0/ew--n3/ew"), ("fleet", "fleet"), ("node", "elsewhere"), ("rank", "n0/gpu0")),
    ]
)


def result(incidents, coverage=None):
    return TickResult(Snapshot(9.0, 0.0, 9.0, tuple(incidents), (), ()), (), 1, 1, 0, 0, coverage or {})


@given(
    st.lists(
        st.tuples(PLACES, st.sampled_from(["info", "warning", "critical"]), st.floats(0.1, 1.0), st.booleans()),
        max_size=6,
    )
)
def test_each_is_what_it_is_alone(found):
    incidents = []
    for number, ((kind, name), severity, confidence, counts) in enumerate(found):
        one = incident(number, kind=kind, name=name, also=(), severity=severity, confidence=confidence)
        incidents.append(one if counts else replace(one, explained_by=Explanation("i-0", "caused")))
    known = result(incidents, {"n0": 0.5, "n1": 1.0})
    reports = assess_all(known, TOPOLOGY)
    assert [(one.kind, one.name) for one in reports if one.kind != "gpu"] == [
        *((("node", f"n{n}")) for n in range(4)),
        *(("replica", "r0"), ("replica", "r1"), ("group", "ring")),
    ]
    for one in reports:
        assert one == assess_health(known, TOPOLOGY, one.kind, one.name)
    for name in ("n0/gpu2", "n9/gpu0", "n0", "n0/gpu", "n0/gpu00", "n0/gpu²"):
        assert assess_health(known, TOPOLOGY, "gpu", name) is None


def scores(reports):
    return {one.name: round(one.score, 2) for one in reports if one.kind == "gpu" and one.score is not None}


def test_a_gpu_has_its_own_incidents_and_those_of_its_node():
    hot = incident(0, kind="gpu", name="n0/gpu1", also=(), severity="critical", confidence=1.0)
    lossy = incident(1, kind="port", name="n1/ew", also=(), severity="warning", confidence=1.0)
    found = scores(assess_all(result([hot, lossy]), TOPOLOGY))
    assert {name: score for name, score in found.items() if score < 1} == {
        "n0/gpu1": 0.1,
        "n1/gpu0": 0.5,
        "n1/gpu1": 0.5,
    }


def test_the_worst_come_first_and_the_unknown_are_neutral():
    known = result([incident(0, kind="node", name="n0", also=(), severity="critical", confidence=1.0), symptom(1)])
    known = replace(known, node_coverage={"n0": 1.0, "n1": 0.9, "n2": 1.0})
    told = describe_all(assess_all(known, TOPOLOGY), 10.0, kind="node")
    assert [(one["name"], one["score"], one["placement"]) for one in told["entities"]] == [
        *(("n0", 0.1, 0.1), ("n1", 1.0, 1.0), ("n2", 1.0, 1.0), ("n3", None, 1.0)),
    ]
    assert (told["of"], told["unknown"], told["age_s"]) == (4, 1, 1.0)
    below = describe_all(assess_all(known, TOPOLOGY), 10.0, below=0.9)
    assert [one["name"] for one in below["entities"]] == ["n0/gpu0", "n0/gpu1", "ring", "n0", "r0"]
    silent = describe_all(assess_all(result([]), TOPOLOGY), 10.0)
    assert {one["placement"] for one in silent["entities"]} == {1.0}


def test_engines_that_are_only_scraped_are_known_and_an_ill_one_says_nothing_of_others():
    slow = incident(0, kind="replica", name="r0", also=(), severity="critical", confidence=1.0)
    known = replace(result([slow], {"n0": 0.0, "n1": 0.0, "n2": 0.0}), engine_coverage={"r0": 1.0, "r1": 1.0})
    found = {one.name: one for one in assess_all(known, TOPOLOGY)}
    assert {name: found[name].state for name in ("r0", "r1", "n2")} == {"r0": "ill", "r1": "well", "n2": "unknown"}
    assert (found["r1"].score, found["n2"].score) == (1.0, None)
    assert found["r1"].coverage == 0.5
    unseen = replace(known, engine_coverage={})
    told = {one["name"]: one for one in describe_all(assess_all(unseen, TOPOLOGY), 10.0, kind="replica")["entities"]}
    assert (told["r0"]["placement"], told["r1"]["score"]) == (0.1, None)
    assert told["r1"]["placement"] == 0.55  # of one that is ill and one unknown


def test_one_answer_says_the_same_as_the_list():
    known = result([incident(0, kind="node", name="n0", also=())], {"n0": 0.0, "n1": 0.5, "n2": 0.0})
    listed = {(one["kind"], one["name"]): one for one in describe_all(assess_all(known, TOPOLOGY), 10.0)["entities"]}
    for (kind, name), described in listed.items():
        if kind != "gpu":
            single = assess_health(known, TOPOLOGY, kind, name).as_json(10.0)
            assert {key: single[key] for key in described if key != "placement"} == {
                key: value for key, value in described.items() if key != "placement"
            }
    assert {one["state"] for one in listed.values()} == {"well", "ill", "unknown"}
    assert all((one["score"] is None) == (one["state"] == "unknown") for one in listed.values())


def test_a_large_fleet_takes_a_moment():
    whole = Topology(tuple(Node(f"n{n}", gpus=8) for n in range(10_000)))
    some = [incident(n, kind="node", name=f"n{n}", also=()) for n in range(200)]
    begun = time.perf_counter()
    text = json.dumps(describe_all(assess_all(result(some), whole), 10.0, below=0.9))
    assert time.perf_counter() - begun < 10.0
    assert text.count('"kind": "gpu"') == 1600


def test_the_client_reads_all_of_them():
    known = result([incident(0, kind="node", name="n0", also=(), severity="critical", confidence=1.0)], {"n1": 1.0})
    told = describe_all(assess_all(known, TOPOLOGY), 10.0)
    with serve_api(lambda _asked: (200, told)) as (url, asked):
        found = Health(url, "secret").query_all(below=0.9, kind="node")
        assert asked[0].path == "/api/v1/health?kind=node&below=0.9"
        assert asked[0].token == "Bearer secret"
    assert (found.age, found.trouble) == (1.0, "")
    assert found.find("node", "n0").score == 0.1
    assert (found.find("node", "n3").score, found.find("node", "n3").placement) == (None, 1.0)
    assert [found.find("node", name).state for name in ("n0", "n1", "n3")] == ["ill", "well", "unknown"]
    assert found.find("node", "n9").trouble == "not among the answers"


def test_the_client_never_raises_and_never_invents_a_score():
    good = describe_all(assess_all(result([], {"n0": 1.0}), TOPOLOGY), 10.0)
    bad = [good | {"age_s": 99}, good | {"entities": 3}, good | {"entities": [{}]}, [], {}]
    bad.append(good | {"entities": [good["entities"][0] | {"score": 7.0}]})
    for answer in bad:
        with serve_api(lambda _asked, answer=answer: (200, answer)) as (url, _):
            found = Health(url).query_all()
        assert (found.answers, bool(found.trouble)) == ((), True)
    with serve_api(lambda _asked: (503, {"error": "no tick yet"})) as (url, _):
        assert Health(url).query_all().trouble == "the answer 503: no tick yet"
    assert Health("http://127.0.0.1:1").query_all().trouble
