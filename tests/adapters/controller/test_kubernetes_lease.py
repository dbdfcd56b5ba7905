"""A lease of Kubernetes decides which of several controllers leads; the server refuses writes on an old version."""

import json
from dataclasses import dataclass, field

import pytest

from skewscope.adapters.controller import config
from skewscope.adapters.controller.kubernetes_lease import CONTENT, MAX_ANNOTATION, KubernetesLease
from skewscope.adapters.controller.leader_election import create_lease
from skewscope.adapters.controller.lease import SAFE_SHARE, LeaseConfig, LeaseObject, parse_progress
from skewscope.kb.problems import InputError
from tests.support.loopback import Says, Server

TOKEN = "token-of-the-account"
FOLDER = "/apis/coordination.k8s.io/v1/namespaces/skewscope/leases"


@dataclass
class Leases:
    """The leases of an API server, with versions as it counts them."""

    objects: dict = field(default_factory=dict)
    version: int = 0
    meddle: object = None

    def answer(self, asked):
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return self.say(401, {"message": "Unauthorized"})
        name = asked.path.removeprefix(FOLDER).strip("/")
        if asked.method == "GET":
            found = self.objects.get(name)
            return self.say(200, found) if found else self.say(404, {"message": "not found"})
        if self.meddle:
            self.meddle()
        body = asked.json
        name = body["metadata"]["name"]
        known = self.objects.get(name, {"metadata": {"resourceVersion": ""}})["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion", "") != known or (asked.method == "POST") != (not known):
            return self.say(409, {"message": "the object has been modified"})
        assert sum(map(len, body["metadata"]["annotations"].values())) < 256 << 10
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[name] = body
        return self.say(200, body)

    def say(self, status, body):
        return Says(status, json.dumps(body).encode())


@dataclass
class Now:
    t: float = 100.0

    def __call__(self):
        return self.t


def lease_config(port, folder, name="main"):
    """Returns the settings of a lease at a server, with a file of its token."""
    (folder / "token").write_text(TOKEN)
    return LeaseConfig(None, 10.0, LeaseObject(name, "skewscope", f"http://127.0.0.1:{port}", f"{folder}/token", ""))


@pytest.fixture
def leases(tmp_path):
    known = Leases()
    with Server(known.answer) as server:
        known.config, known.token = lease_config(server.server_port, tmp_path), tmp_path / "token"
        yield known


def pair(leases):
    """Two controllers whose clocks tell quite different times; the first one leads."""
    here, there = Now(100.0), Now(5e6)
    first, second = KubernetesLease(leases.config, "first", here), KubernetesLease(leases.config, "second", there)
    assert not first.acquire("")  # of what is not there nobody knows: it may have been removed under a leader
    here.t += 10.1
    there.t += 10.1
    assert first.acquire("said by the first")
    return first, second, (here, there)


def test_the_first_leads_and_the_second_waits(leases):
    first, second, clocks = pair(leases)
    for _ in range(5):
        assert first.acquire("")
        assert not second.acquire("")
        for clock in clocks:
            clock.t += 4.0
    assert leases.objects["main"]["spec"] == {"holderIdentity": "first", "leaseDurationSeconds": 10}


def test_the_second_takes_over_with_what_the_first_said(leases):
    first, second, (here, there) = pair(leases)
    assert not second.acquire("")
    there.t += 10.1
    assert second.acquire("")
    assert parse_progress(second.other_content) == "said by the first"
    assert second.term == 1
    here.t += 1.0
    assert not first.acquire("")  # it finds the other's name


def test_a_leader_that_cannot_renew_stops_before_the_second_begins(leases):
    first, second, (here, there) = pair(leases)
    second.acquire("")
    leases.token.write_text("another")
    with pytest.raises(OSError, match="401: Unauthorized"):
        first.acquire("")
    here.t += SAFE_SHARE * 10.0
    there.t += SAFE_SHARE * 10.0
    assert not first.is_held
    leases.token.write_text(TOKEN)
    assert not second.acquire("")


def test_a_lease_that_is_released_is_free_at_once(leases):
    first, second, _ = pair(leases)
    first.release("last words")
    assert second.acquire("")
    assert leases.objects["main"]["spec"]["holderIdentity"] == "second"


def test_of_two_that_write_at_once_one_is_refused(leases):
    first, second, (_, there) = pair(leases)
    second.acquire("")
    there.t += 10.1

    def meddle():
        leases.meddle = None
        assert first.acquire("")

    leases.meddle = meddle
    with pytest.raises(BlockingIOError):
        second.acquire("")
    assert first.is_held
    assert not second.is_held


def test_the_leader_reads_once_what_a_follower_writes(leases):
    first, second, _ = pair(leases)
    second.message = "an opening"
    assert not second.acquire("")
    assert first.acquire("")
    assert first.received == "an opening"
    first.received = ""
    assert first.acquire("")
    assert first.received == ""


def test_progress_beyond_what_an_object_holds_is_left_out(leases):
    first, _, _ = pair(leases)
    assert first.acquire("x" * (2 * MAX_ANNOTATION))
    assert len(leases.objects["main"]["metadata"]["annotations"][CONTENT]) < 100
    assert first.acquire("")


@pytest.mark.parametrize(
    "answer", [Says(200, b"[]"), Says(200, b"no"), Says(500, b"{}"), Says(403, b'{"message": "no"}')]
)
def test_answers_that_are_no_object_are_errors(leases, answer):
    leases.answer_before, lease = leases.answer, KubernetesLease(leases.config, "first", Now())
    leases.say = lambda *_: answer
    with pytest.raises(OSError, match=r"GET|Value"):
        lease.acquire("")


# --- the config

LEADER = "version: 1\ntopology: topology.yaml\nleader: {kubernetes: {name: main, namespace: skewscope}, lease: 20}\n"


def read(folder, text):
    (folder / "topology.yaml").write_text("version: 1\nnodes: [{name: n0}]\n")
    (folder / "skewscope.yaml").write_text(text)
    return config.read(folder / "skewscope.yaml")


def test_the_config_names_the_object_and_knows_the_place_of_a_pod_s_token(tmp_path):
    found = read(tmp_path, LEADER).leader
    assert found == LeaseConfig(None, 20.0, LeaseObject("main", "skewscope"))
    assert str(found) == "lease skewscope/main"
    assert isinstance(create_lease(found), KubernetesLease)
    assert found.object.token_file.startswith("/var/run/secrets/kubernetes.io/")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("leader: {kubernetes: {name: Main, namespace: a}}\n", "a name of Kubernetes"),
        ("leader: {kubernetes: {name: main}}\n", "namespace"),
        ("leader: {kubernetes: {name: main, namespace: a}, lock: x}\n", "lock"),
        (
            "leader: {kubernetes: {name: main, namespace: a}}\ntargets: [{kind: exec, command: [x], members: {}}]\n",
            "leader.lock",
        ),
    ],
)
def test_a_config_that_cannot_be_is_refused(tmp_path, more, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path, "version: 1\ntopology: topology.yaml\n" + more)
