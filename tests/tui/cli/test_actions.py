"""The commands `act`: what they ask a controller, and what they print of its answers."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from skewscope.engine.actions.action import action_to_json
from skewscope.tui.cli.main import cli
from tests.support.action_samples import build_proposal, build_refused, build_verified
from tests.support.api_server import serve_api
from tests.tui.samples import ROOT

TOKEN = "t-0123456789abcdef"
PROPOSAL = build_proposal()
ACTIONS = [action_to_json(one) for one in (build_refused(), build_verified(), PROPOSAL)]
OPTION = {
    "kind": "drain",
    "target": "front",
    "member": "w2",
    "mitigation": "migrate-requests",
    "share": 0.0,
    "reversible": True,
    "mode": "observe",
    "trouble": "",
    "notes": [],
    "blocks": ["outside the windows"],
    "plan": action_to_json(PROPOSAL)["plan"],
}
TARGET = {
    "name": "front",
    "changes": {
        "deweight": {"reversible": True, "note": "the router ignores weights"},
        "evict": {"reversible": False, "note": ""},
    },
    "trouble": "",
    "members": [{"entity": "r2", "member": "w2", "serving": False, "weight": 10.0, "owner": "a-1"}],
}

SHADOW = {
    "days": 7.0,
    "until_at": "2026-11-28T12:00:00Z",
    "incidents": 12,
    "admitted": 3,
    "planned": 1,
    "begun": 1,
    "most_in_place": 1,
    "ended_by_itself": 1,
    "in_time": 0,
    "needless": 1,
    "too_late": 0,
    "asked": 0,
    "blocked": 0,
    "acted_upon": 0,
    "unfinished": 0,
    "blocks": {"share": 2},
    "median_fault_s": 50.0,
    "acts": [
        {
            "title": "drain w2 at front",
            "opened_at": "2026-11-25T12:00:00Z",
            "begun_at": "2026-11-25T12:00:02Z",
            "out_s": 65.0,
            "fault_s": 50.0,
            "fault_after_begin_s": 48.0,
            "verdict": "needless",
            "waits": ["why"],
        }
    ],
}


def answer(asked):
    path = asked.path.partition("?")[0].removeprefix("/api/v1")
    if asked.token != f"Bearer {TOKEN}":
        return 401, {"error": "unknown token"}
    if asked.method == "POST":
        verb = path.rpartition("/")[2]
        if verb == "propose":
            return 200, ACTIONS[2]
        if verb == "shadow":
            return 200, SHADOW
        if path.count("/") == 2:
            text = "frozen by ann until it is thawed: release night"
            shown = {"freeze": None if verb == "thaw" else {"text": text}, "warning": ""}
            return 200, shown | {"actions": [{**ACTIONS[1], "state": "undoing"}], "failed": []}
        if verb == "undo":
            return 409, {"error": f"{PROPOSAL.id} is proposed: nothing of it is in place"}
        return 200, {**ACTIONS[2], "state": {"approve": "approved", "refuse": "refused", "done": "applied"}[verb]}
    found = {
        "/actions": {"mode": "propose", "leader": True, "actions": ACTIONS},
        f"/actions/{PROPOSAL.id}": ACTIONS[2],
        "/incidents/tp-straggler%40n2%231": ROOT.as_json(),
        "/incidents/i-1/plan": {
            "incident": ROOT.as_json(),
            "obstacles": ["the mode is observe"],
            "changes": [OPTION],
        },
        "/incidents/i-2/plan": {"incident": ROOT.as_json(), "obstacles": ["no target can"], "changes": []},
        "/incidents/i-3/plan": {"incident": [], "obstacles": [], "changes": [3]},
        "/targets": {"targets": [TARGET]},
        "/actions/outcomes": {
            "outcomes": [
                {
                    "mitigation": "migrate-requests",
                    "carried_out": 4,
                    "helped": 3,
                    "not_helped": 1,
                    "unproven": 0,
                    "recovery": 0.8,
                }
            ]
        },
    }
    return (200, found[path]) if path in found else (404, {"error": "no such action"})


def act(*words, columns=110, reply=answer):
    with serve_api(reply) as (url, asked):
        given = {"SKEWSCOPE_TOKEN": TOKEN, "COLUMNS": str(columns)}
        done = CliRunner().invoke(cli, ["--url", url, "act", *words], env=given)
    return done, asked


def test_the_list_begins_with_what_a_person_has_to_decide():
    done, asked = act("list", "--live", "--incident", "i@1#2")
    rows = done.output.splitlines()
    assert done.exit_code == 0, done.output
    assert rows[0] == "mode propose"
    assert [row.split()[1] for row in rows[1:]] == ["a-0123456789ab", "a-fedcba987654", "a-aaaaaaaaaaaa"]
    assert rows[1].startswith("? a-0123456789ab  proposed    drain w2 at front  for")
    assert rows[2].endswith("helped 95 %")
    assert asked[0].path == "/api/v1/actions?limit=50&live=1&incident=i%401%232"


def test_the_list_says_why_nothing_is_planned():
    def reply(*request):
        status, found = answer(*request)
        return status, found | {
            "nothing_planned": {"i-7": ["no target can", "it is a symptom"]}
        } if status == 200 else found

    rows = act("list", reply=reply)[0].output.splitlines()
    assert rows[-1] == "Nothing is planned for i-7: no target can; it is a symptom."


def test_show_tells_calls_evidence_and_what_to_do_next():
    done, _ = act("show", PROPOSAL.id, columns=99)
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    for text in (
        "set server be/w2 state drain",
        "94 % sure, critical",
        "12.4 ms",
        "no new requests go to the slow replica",
        "set server be/w2 state ready (to /run/haproxy/admin.sock)",
        f"skewscope act approve {PROPOSAL.id} --why REASON",
    ):
        assert text in told, text


def test_show_of_an_action_whose_incident_is_forgotten_still_shows_it():
    forgets = lambda asked: answer(asked) if "/incidents/" not in asked.path else (404, {"error": "no"})  # noqa: E731
    done, _ = act("show", PROPOSAL.id, columns=99, reply=forgets)
    assert done.exit_code == 0
    assert "is not in the present list" in " ".join(done.output.split())


def test_show_says_how_a_person_confirms_what_was_run():
    waiting = replace(PROPOSAL, state="applying", plan=replace(PROPOSAL.plan, by_hand=True))
    done, _ = act("show", PROPOSAL.id, columns=99, reply=lambda _: (200, action_to_json(waiting)))
    told = " ".join(done.output.split())
    assert f"run what is said above, then skewscope act done {PROPOSAL.id} --why REASON; or act undo" in told


@pytest.mark.parametrize(("verb", "state"), [("approve", "approved"), ("refuse", "refused"), ("done", "applied")])
def test_what_a_person_decides_is_sent_with_the_reason(verb, state):
    done, asked = act(verb, PROPOSAL.id, "--why", "I looked")
    assert (done.exit_code, done.output) == (0, f"{PROPOSAL.id}: drain w2 at front: {state}.\n")
    assert (asked[0].method, asked[0].path) == ("POST", f"/api/v1/actions/{PROPOSAL.id}/{verb}")
    assert (asked[0].body, asked[0].content_type) == ({"why": "I looked"}, "application/json")


@pytest.mark.parametrize("verb", ["approve", "refuse", "undo", "done"])
def test_nothing_is_decided_without_a_reason(verb):
    done, asked = act(verb, PROPOSAL.id)
    assert (done.exit_code, asked) == (2, [])
    assert "--why" in done.output


def test_a_refusal_of_the_controller_is_an_error():
    done, _ = act("undo", PROPOSAL.id, "--why", "we need it")
    assert done.exit_code == 2
    assert "nothing of it is in place" in done.output
    assert act("show", "a-0")[0].exit_code == 2


def test_a_plan_shows_the_very_calls_and_what_is_in_the_way():
    done, _ = act("plan", "i-1")
    assert done.exit_code == 0
    for text in (
        "dry run: nothing is changed",
        "Nothing is planned: the mode is observe.",
        "1. drain w2 at front",
        "set server be/w2 state drain",
        "outside the windows",
    ):
        assert text in done.output
    done, _ = act("plan", "i-2")
    assert (done.exit_code, "no target can" in done.output) == (1, True)
    assert act("plan", "i-3")[0].exit_code == 2
    assert json.loads(act("plan", "i-1", "--json")[0].output)["changes"][0]["target"] == "front"


def test_targets_and_outcomes_are_tables():
    done, _ = act("targets")
    assert done.exit_code == 0
    assert "front  deweight, evict (no undo)" in done.output
    assert "the router ignores weights" in done.output
    assert "r2      w2      no      10      a-1" in done.output
    done, _ = act("outcomes")
    assert "migrate-requests  4     3       1    0         80 %" in done.output


def test_the_page_of_a_mitigation_tells_how_often_it_helped_here():
    with serve_api(answer) as (url, asked):
        words = ["kb", "show", "migrate-requests"]
        done = CliRunner().invoke(cli, [*words, "--url", url], env={"SKEWSCOPE_TOKEN": TOKEN})
        assert done.exit_code == 0, done.output
        assert "Carried out here 4 times: it helped 3, did not help 1" in " ".join(done.output.split())
        plain = CliRunner().invoke(cli, words, env={"SKEWSCOPE_TOKEN": TOKEN})
        assert "Carried out here" not in plain.output
    assert len(asked) == 1


def test_a_check_of_an_unknown_target_names_the_known_ones(tmp_path):
    (tmp_path / "topology.yaml").write_text(
        "version: 1\nnodes:\n  - {name: n0}\ngroups:\n  - {name: r0, kind: tensor-parallel, members: [n0]}\n"
    )
    (tmp_path / "eds.json").write_text("{}")
    (tmp_path / "skewscope.yaml").write_text(
        "version: 1\ntopology: topology.yaml\nlisten: {port: 0}\ntargets:\n"
        f"  - {{kind: haproxy, name: front, socket: {tmp_path}/none.sock, backend: be, members: {{n0: w0}}}}\n"
    )
    config = str(tmp_path / "skewscope.yaml")
    done = CliRunner().invoke(cli, ["act", "check", "--target", "frond", "--config", config])
    assert done.exit_code == 2
    assert "front" in done.output
    done = CliRunner().invoke(cli, ["act", "check", "--target", "front", "--config", config])
    assert done.exit_code == 1, done.output
    assert "state: " in done.output


def test_freeze_thaw_and_break_glass_are_one_call_each():
    done, asked = act("freeze", "--why", "release night", "--for", "2h", "--hold-undos")
    assert (done.exit_code, done.output) == (0, "Actions are frozen by ann until it is thawed: release night.\n")
    assert (asked[0].path, asked[0].body) == (
        "/api/v1/actions/freeze",
        {"why": "release night", "seconds": 7200.0, "hold_undos": True},
    )
    done, asked = act("thaw", "--why", "done")
    assert (done.output, asked[0].path) == ("Not frozen.\n", "/api/v1/actions/thaw")
    done, asked = act("undo", "--all", "--why", "power")
    assert asked[0].path == "/api/v1/actions/undo-all"
    assert "a-fedcba987654: drain w1 at front: undoing." in done.output
    assert act("undo", "--why", "x")[0].exit_code == 2
    assert act("freeze", "--why", "x", "--for", "soon")[0].exit_code == 2


def test_a_shadow_run_is_asked_for_and_shown_in_a_small_terminal():
    done, asked = act("shadow", "--since", "7d", columns=80)
    assert (done.exit_code, asked[0].path, asked[0].body) == (0, "/api/v1/actions/shadow", {"seconds": 604800.0})
    assert done.output.splitlines()[0] == "shadow run over 7 days to 11-28 12:00:00 UTC: nothing was called"
    assert "drain w2 at front  12:00:02  65 s     48 s        needless" in done.output
    assert max(map(len, done.output.splitlines())) <= 80
    done, _ = act("shadow", "--json")
    assert json.loads(done.output)["needless"] == 1
    assert act("shadow", "some-recording")[0].exit_code == 2


def test_another_option_is_named_by_its_number():
    done, asked = act("approve", PROPOSAL.id, "--option", "2", "--why", "milder")
    assert (done.exit_code, asked[0].body) == (0, {"why": "milder", "option": "2"})
    done, asked = act("propose", "tp-straggler@n2#1", "--option", "2", "--why", "at once")
    assert asked[0].path == "/api/v1/incidents/tp-straggler%40n2%231/propose"
    assert done.output.startswith(f"{PROPOSAL.id}: drain w2 at front: proposed")
    assert asked[0].body == {"why": "at once", "option": "2"}
