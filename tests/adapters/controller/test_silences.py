"""Silences: what they hide, what is too broad, and what a controller does with them."""

import json
import sqlite3

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.controller.silences import (
    DAY,
    MATCHERS,
    MAX_DAYS,
    Silence,
    SilenceLimits,
    breadth_problems,
    build_matcher,
    covered_nodes,
    end_silence,
    from_row,
    match_silences,
    to_row,
)
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.controller.tick_pipeline import TickPipeline
from skewscope.engine.model.topology import Group, Node, Topology
from skewscope.tui.cli.main import cli
from tests.adapters.controller.processes import AUTH, TOKENS, running
from tests.adapters.controller.writer import incident as one_of_many
from tests.adapters.notify.incidents import incident

NODES = tuple(Node(f"n{n}", rack=f"r{n // 4}") for n in range(16))
FLEET = Topology(NODES, (Group("A", "tensor-parallel", ("n0", "n1")), Group("B", "tensor-parallel", ("n4", "n8/gpu1"))))


def silence(id_="s-1", starts=0.0, ends=3600.0, **match):
    return Silence(id_, tuple((field, tuple(names)) for field, names in match.items()), starts, ends, "ops", "work")


@pytest.mark.parametrize(
    ("match", "hidden"),
    [
        ({"condition": ["tp-straggler"]}, True),
        ({"condition": ["incast"]}, False),
        ({"condition": ["tp-straggler"], "node": ["n4"]}, False),
        ({"entity": ["n3"]}, True),
        ({"entity": ["n4"]}, False),
        ({"node": ["n3", "n9"]}, True),
        ({"rack": ["r0"]}, True),
        ({"rack": ["r1"]}, False),
        ({"group": ["A"]}, False),
    ],
)
def test_every_matcher_that_is_named_must_match(match, hidden):
    assert build_matcher(silence(**match), FLEET).matches(incident(3)) is hidden


@pytest.mark.parametrize(
    ("kind", "name", "also", "match", "hidden"),
    [
        ("port", "n3/ew", (), {"node": ["n3"]}, True),
        ("gpu", "n3/gpu1", (), {"node": ["n3"]}, True),
        ("link", "n3/ew--n9/ew", (), {"node": ["n3"]}, True),
        ("rank", "n3", ("n9",), {"node": ["n3"]}, False),
        ("rank", "n3", ("n9",), {"node": ["n3", "n9"]}, True),
        ("rank", "n3", ("n9",), {"entity": ["n3"]}, False),
        ("group", "A", (), {"group": ["A"]}, True),
        ("rank", "n1", (), {"group": ["A"]}, True),
        ("group", "A", (), {"node": ["n0"]}, False),
        ("group", "A", (), {"rack": ["r0"]}, True),
        ("group", "B", (), {"rack": ["r1"]}, False),
        ("group", "A", (), {"group": ["B"]}, False),
        ("fleet", "fleet", (), {"rack": ["r0", "r1", "r2", "r3"]}, False),
    ],
)
def test_what_hits_others_as_well_is_told(kind, name, also, match, hidden):
    assert build_matcher(silence(**match), FLEET).matches(incident(3, kind=kind, name=name, also=also)) is hidden


def test_only_what_fires_is_silenced_and_only_in_time():
    found = [silence(starts=10.0, ends=20.0, node=["n3"])]
    for t, there in ((9.0, {}), (10.0, {"i-3": "s-1"}), (19.9, {"i-3": "s-1"}), (20.0, {})):
        assert match_silences(found, [incident(3), incident(4)], FLEET, t) == there
    assert match_silences([end_silence(found[0], "ops", 15.0)], [incident(3)], FLEET, 16.0) == {}
    assert match_silences(found, [incident(3, state="resolved")], FLEET, 15.0) == {}


def test_too_broad_ones_are_told_why():
    assert breadth_problems(silence(rack=["r0"]), [], FLEET) == ()
    assert breadth_problems(silence(rack=["r0", "r1"]), [], FLEET) == ("it covers 8 of 16 nodes, more than 4",)
    assert breadth_problems(silence(condition=["incast"]), [], FLEET) == ("it covers 16 of 16 nodes, more than 4",)
    assert breadth_problems(silence(condition=["incast"], rack=["r0"]), [], FLEET) == ()
    assert breadth_problems(silence(rack=["r0"], ends=None), [], FLEET) == ("it has no end",)
    assert "more than 7" in breadth_problems(silence(rack=["r0"], ends=(MAX_DAYS + 1) * DAY), [], FLEET)[0]


def test_the_limits_are_the_operators():
    wide, long = silence(rack=["r0", "r1"]), silence(rack=["r0"], ends=8 * DAY)
    assert (
        breadth_problems(wide, [], FLEET, SilenceLimits(max_share=0.5))
        == breadth_problems(long, [], FLEET, SilenceLimits(max_days=8.0))
        == ()
    )
    assert breadth_problems(silence(node=["n0", "n1"]), [], FLEET, SilenceLimits(max_share=0.0)) == (
        "it covers 2 of 16 nodes, more than 1",
    )


def test_a_controller_keeps_the_limits_of_its_config(tmp_path):
    long = {"match": {"condition": ["pfc-storm"]}, "hours": 48, "comment": "x"}
    with running(tmp_path, f"{AUTH}silences: {{most_share: 1, most_days: 1}}\n") as found:
        status, told = found.send(PATH, long, TOKENS["APPROVE"])
        assert (status, told["preview"]["too_broad"]) == (409, ["it lasts 2.0 days, more than 1"])


def test_many_narrow_ones_are_a_broad_one():
    others = [silence("s-0", rack=["r0"])]
    (why,) = breadth_problems(silence(node=["n9"]), others, FLEET)
    assert why == "it covers 1 of 16 nodes, with others that hold at the same time 5, more than 4"
    assert breadth_problems(silence(node=["n9"], starts=3600.0, ends=7200.0), others, FLEET) == ()


names = {
    "condition": st.sampled_from(["tp-straggler", "incast"]),
    "entity": st.sampled_from(["n0", "n3", "n3/ew", "A"]),
    "node": st.sampled_from([node.name for node in NODES]),
    "group": st.sampled_from(["A", "B"]),
    "rack": st.sampled_from(["r0", "r1", "r2", "r3"]),
}
matches = st.fixed_dictionaries({}, optional={f: st.lists(names[f], min_size=1, max_size=3) for f in MATCHERS})
places = st.sampled_from([("rank", "n3"), ("port", "n3/ew"), ("group", "A"), ("group", "B"), ("node", "n9")])


@given(matches.filter(bool), places)
def test_what_is_hidden_is_on_covered_nodes_and_a_row_is_the_silence(match, place):
    kind, name = place
    one, made = incident(3, kind=kind, name=name), silence(**match)
    assert from_row(to_row(made)) == made
    if build_matcher(made, FLEET).matches(one) and "entity" not in match:
        members = {"A": {"n0", "n1"}, "B": {"n4", "n8"}}.get(name, {name.split("/")[0]})
        assert members & covered_nodes(made, FLEET)


# --- over HTTP


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    folder = tmp_path_factory.mktemp("silences")
    store = Store(folder / "skewscope.db")
    store.write_tick(1.0, [one_of_many(3)], [])
    store.close()
    with running(folder, AUTH) as found:
        yield found


NARROW = {"match": {"node": ["n3"]}, "hours": 2, "comment": "a new cable"}
BROAD = {"match": {"condition": ["tp-straggler"]}, "hours": 2, "comment": "all of them"}
PATH = "/api/v1/silences"


def audit(found):
    with sqlite3.connect(found.folder / "skewscope.db") as connection:
        return [
            (who, what, json.loads(told)) for who, what, told in connection.execute("SELECT who, what, told FROM audit")
        ]


def test_roles_are_kept(controller):
    for token, status in (("", 401), (TOKENS["READ"], 403), (TOKENS["N0"], 403)):
        assert controller.send(PATH, NARROW, token)[0] == status
    assert controller.send(f"{PATH}/x", {}, TOKENS["READ"], "DELETE")[0] == 403
    assert controller.send(f"{PATH}/preview", NARROW, TOKENS["READ"])[0] == 200


@pytest.mark.slow
def test_a_silence_hides_until_it_is_ended(controller):
    """An incident carried over from before is there for a while; enough to be silenced."""
    one = controller.json("/api/v1/incidents?state=firing", TOKENS["READ"])["incidents"][0]
    assert (one["id"], one["silenced_by"]) == ("i-3", None)
    status, told = controller.send(f"{PATH}/preview", NARROW, TOKENS["READ"])
    assert (status, told["now_count"], told["week_count"], told["too_broad"]) == (200, 1, 1, [])
    status, made = controller.send(PATH, NARROW, TOKENS["APPROVE"])
    assert (status, made["state"], made["owner"]) == (201, "active", "a")

    def by():
        return controller.json("/api/v1/incidents/i-3", TOKENS["READ"])["silenced_by"]

    controller.until(lambda: by() == made["id"])
    page = controller.ask("/metrics", TOKENS["READ"])[2].decode()
    assert 'skewscope_incident{condition="tp-straggler",kind="rank",entity="n3",state="silenced"} 0.75' in page
    assert 'skewscope_incidents{condition="tp-straggler",severity="warning",state="silenced"} 1.0' in page
    status, over = controller.send(f"{PATH}/{made['id']}", {}, TOKENS["APPROVE"], "DELETE")
    assert (status, over["state"], over["ended"]) == (200, "ended", "a")
    controller.until(lambda: by() is None)
    assert controller.send(f"{PATH}/{made['id']}", {}, TOKENS["APPROVE"], "DELETE")[0] == 409
    assert controller.send(f"{PATH}/none", {}, TOKENS["APPROVE"], "DELETE")[0] == 404
    said = [(who, what) for who, what, told in audit(controller) if told.get("id") == made["id"]]
    assert said == [("a", "silence was made"), ("a", "silence was ended")]
    listed = controller.json(PATH, TOKENS["READ"])["silences"]
    assert [each["state"] for each in listed if each["id"] == made["id"]] == ["ended"]


def test_a_broad_one_needs_an_admin_and_a_word(controller):
    for token in ("APPROVE", "ADMIN"):
        status, told = controller.send(PATH, BROAD, TOKENS[token])
        assert (status, told["preview"]["too_broad"]) == (409, ["it covers 8 of 8 nodes, more than 2"])
    assert controller.send(PATH, BROAD | {"force": True}, TOKENS["APPROVE"])[0] == 403
    status, made = controller.send(PATH, BROAD | {"force": True}, TOKENS["ADMIN"])
    assert status == 201
    assert ("s", "silence was forced") in [(who, what) for who, what, _ in audit(controller)]
    controller.send(f"{PATH}/{made['id']}", {}, TOKENS["ADMIN"], "DELETE")
    endless = {"match": {"node": ["n3"]}, "endless": True, "comment": "x"}
    assert controller.send(PATH, endless, TOKENS["APPROVE"])[1]["preview"]["too_broad"] == ["it has no end"]


def test_everything_that_is_wrong_is_told_at_once(controller):
    wrong = {"match": {"node": ["n33", 4], "colour": ["red"]}, "ends": "yesterday", "hours": 3, "coment": "x"}
    status, told = controller.send(PATH, wrong, TOKENS["APPROVE"])
    assert status == 400
    found = {problem["field"] for problem in told["problems"]}
    assert {"coment", "comment", "match.colour", "match.node[0]", "match.node[1]", ""} <= found
    assert "Did you mean 'n3'?" in told["error"]
    far = {"match": {"node": ["n3"]}, "comment": "x", "ends": "0001-01-01T00:00:00+23:59"}
    for body in ({}, {"match": {}, "hours": 1, "comment": "x"}, [], NARROW | {"hours": 1e9}, far):
        assert controller.send(PATH, body, TOKENS["APPROVE"])[0] == 400
    assert controller.ask(PATH, TOKENS["APPROVE"], b"{}", "POST")[0] == 415
    assert controller.send(PATH, {"match": "x" * 100_000}, TOKENS["APPROVE"])[0] == 413


def test_a_silence_that_ran_out_is_noted_and_outlives_a_restart(tmp_path):
    store = Store(tmp_path / "s.db")
    store.write_silence(1.0, "ops", "silence was made", silence(node=["n3"]))
    store.close()
    (again,) = Store(tmp_path / "s.db").silences()
    assert again == silence(node=["n3"])
    assert StoreReader(tmp_path / "s.db").silences() == [again]


def test_time_ends_a_silence_once(tmp_path):
    store = Store(tmp_path / "s.db")
    work = TickPipeline(None, None, store, None)
    work.change_silence(1.0, "ops", "silence was made", silence(ends=50.0, node=["n3"]))
    for t in (49.0, 50.0, 51.0):
        work._expire_silences(t)
    assert (work.silences, store.silences()) == ([], [])
    (kept,) = StoreReader(store.path).silences()
    assert (kept.ended, kept.ends) == ("time", 50.0)
    assert StoreReader(store.path).verify_audit()[0] == 2


# --- the command


def command(controller, *args, token="APPROVE"):
    where = ("--url", f"http://127.0.0.1:{controller.port}")
    done = CliRunner().invoke(cli, ["silence", args[0], *where, *args[1:]], env={"SKEWSCOPE_TOKEN": TOKENS[token]})
    return done.exit_code, done.output


def test_the_command_makes_lists_and_ends(controller):
    what = ("--node", "n3", "--hours", "1", "--comment", "a new fan")
    code, told = command(controller, "preview", *what, token="READ")
    assert (code, "It covers 1 of 8 nodes." in told) == (0, True)
    assert "In the last week it would have silenced 1 of 1" in told
    code, told = command(controller, "add", *what)
    assert code == 0
    id_ = told.partition(":")[0]
    code, told = command(controller, "list", token="READ")
    assert (code, id_ in told, "a new fan" in told) == (0, True, True)
    assert command(controller, "end", id_) == (0, f"{id_}: ended.\n")
    assert id_ not in command(controller, "list")[1]
    assert json.loads(command(controller, "list", "--all", "--json")[1])[0]["state"] == "ended"


@pytest.mark.parametrize(
    ("args", "token", "part"),
    [
        (("add", "--node", "n33", "--hours", "1", "--comment", "x"), "APPROVE", "Did you mean 'n3'?"),
        (("add", "--node", "n3", "--hours", "1", "--comment", "x"), "READ", "this needs the role 'approve'"),
        (
            ("add", "--condition", "pfc-storm", "--hours", "1", "--comment", "x"),
            "APPROVE",
            "too broad: it covers 8 of 8",
        ),
        (("end", "none"), "APPROVE", "no such silence"),
    ],
)
def test_the_command_tells_what_is_wrong(controller, args, token, part):
    code, told = command(controller, *args, token=token)
    assert (code, part in told) == (2, True), told
