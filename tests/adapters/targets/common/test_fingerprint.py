"""Which system a target is: by content, whatever its name, its place in the list and the way it is asked."""

from pathlib import Path

import pytest

from skewscope.adapters.controller.action_service import describe_orphaning
from skewscope.adapters.controller.config import ComponentConfig, read
from skewscope.adapters.targets.common.fingerprint import fingerprint
from skewscope.engine.actions.change import Change

TOPOLOGY = """version: 1
nodes: [{name: n0}, {name: n1}]
groups:
- {name: r0, kind: tensor-parallel, members: [n0]}
- {name: r1, kind: tensor-parallel, members: [n1]}
pools: [{name: chat, replicas: [r0, r1]}]
"""
HAPROXY = "{kind: haproxy, name: front, socket: a.sock, backend: be, members: {r0: w0, r1: w1}}"
KUBERNETES = "{kind: kubernetes, name: front, url: 'http://10.0.0.1:1', members: {n0: w0, n1: w1}}"
NGINX = "{kind: nginx, name: front, file: up.conf, upstream: be, members: {r0: 'w0:1', r1: 'w1:1'}}"
ENVOY = "{kind: envoy, name: front, file: e.yaml, cluster: c, admin: 'h:1', members: {r0: 'w0:1', r1: 'w1:1'}}"
SLURM = "{kind: slurm, name: front, conf: slurm.conf, members: {n0: w0, n1: w1}}"
EXEC = "{kind: exec, name: front, command: [hook, a], changes: [drain], members: {r0: w0, r1: w1}}"


@pytest.fixture
def targets(tmp_path: Path):
    (tmp_path / "topology.yaml").write_text(TOPOLOGY)
    for name in ("slurm.conf", "other.conf", "up.conf", "e.yaml"):
        (tmp_path / name).write_text("")

    def parse(*entries: str) -> tuple[ComponentConfig, ...]:
        path = tmp_path / "skewscope.yaml"
        path.write_text("version: 1\ntopology: topology.yaml\ntargets:\n" + "".join(f"- {one}\n" for one in entries))
        return read(path).targets

    return parse


@pytest.mark.parametrize(
    ("entry", "old", "new", "what"),
    [
        (HAPROXY, "a.sock", "b.sock", "another system for 'front' (its socket changed)"),
        (HAPROXY, "be,", "be2,", "another system for 'front' (its backend changed)"),
        (HAPROXY, "r1: w1", "r1: w7", "no member 'w1' of 'front'"),
        (HAPROXY, "name: front", "name: back", ""),
        (HAPROXY, "name: front", "name: front, timeout: 9", ""),
        (KUBERNETES, "10.0.0.1", "10.0.0.2", "another system for 'front' (its url changed)"),
        (KUBERNETES, "name: front", "name: front, drain: cordon", "another system for 'front' (its drain_by changed)"),
        (NGINX, "up.conf", "other.conf", "another system for 'front' (its file changed)"),
        (NGINX, "name: front", "name: front, reload: [systemctl, reload, nginx]", ""),
        (ENVOY, "cluster: c", "cluster: d", "another system for 'front' (its cluster changed)"),
        (SLURM, "slurm.conf", "other.conf", "another system for 'front' (its conf changed)"),
        (EXEC, "[hook, a]", "[hook, b]", "another system for 'front' (its command changed)"),
    ],
)
def test_a_change_in_place_stays_reachable_or_the_reason_is_given(targets, entry, old, new, what):
    before, after = targets(entry), targets(entry.replace(old, new))
    change = Change("drain", "front", "w1:1" if "w1:1" in entry else "w1", "a-1")
    assert describe_orphaning(change, before, after) == what
    assert (fingerprint(after[0].kind, after[0].settings) == fingerprint(before[0].kind, before[0].settings)) == (
        "another system" not in what
    )


def test_what_is_lost_already_keeps_no_reload_from_being_made(targets):
    before = targets(HAPROXY)
    assert describe_orphaning(Change("drain", "front", "w9", "a-1"), before, ()) == ""
    assert describe_orphaning(Change("drain", "gone", "w1", "a-1"), before, ()) == ""
    assert describe_orphaning(Change("drain", "front", "w1", "a-1"), before, ()) == "no haproxy 'front'"


def test_a_target_without_a_name_has_one_by_its_content(targets):
    unnamed = HAPROXY.replace("name: front, ", "")
    (alone,) = targets(unnamed)
    first, second = targets(unnamed.replace("a.sock", "new.sock"), unnamed)
    assert (second.name, second.settings) == (alone.name, alone.settings)
    assert first.name != second.name


def test_no_secret_and_no_way_to_ask_is_part_of_it(targets, tmp_path):
    (tmp_path / "token").write_text("x" * 32)
    asked = KUBERNETES.replace("name: front", "name: front, bearer: {file: token}, timeout: 3")
    (one,), (other,) = targets(KUBERNETES), targets(asked)
    assert fingerprint(one.kind, one.settings) == fingerprint(other.kind, other.settings)
