"""`skewscope.yaml`: every fault at once, with its line; secrets stay secret."""

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from skewscope.adapters.controller import config
from skewscope.adapters.controller.config import DEFAULT_PORT, read, read_at_start
from skewscope.adapters.inputs.recording import demo_path
from skewscope.kb.problems import InputError
from skewscope.tui.cli.main import cli

LONG = "0123456789abcdef-very-secret"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a config beside the demo's topology."""
    (tmp_path / "topology.yaml").write_bytes((demo_path() / "topology.yaml").read_bytes())
    monkeypatch.setenv("SECRET", LONG)
    monkeypatch.setenv("SHORT", "short")

    def write(text: str) -> Path:
        path = tmp_path / "skewscope.yaml"
        path.write_text(f"version: 1\ntopology: topology.yaml\n{text}")
        return path

    return write


def test_little_is_enough(written):
    config = read(written(""))
    assert (config.listen.host, config.listen.port, config.listen.is_loopback) == ("127.0.0.1", DEFAULT_PORT, True)
    assert (config.anonymous, config.tokens, config.sources, config.recording_path) == ("read", (), (), None)
    assert len(config.topology.nodes) == 8


def test_everything_can_be_said(written):
    path = written(
        """
listen: {host: 0.0.0.0, port: 9000}
auth:
  tokens:
    - {name: ops, role: admin, token: "${SECRET}"}
    - {name: grafana, role: read, file: token.txt}
agents:
  tokens: [{node: n0, file: n0.txt}, {node: "*", file: any.txt}]
store: {path: s.db, retention_days: 30}
record: {path: rec, retention_hours: 2, retention_gib: 1}
engine: {grace: 0.5}
sources:
  - {kind: scrape, name: nodes, targets: ["n0:9100", {targets: ["https://n1/metrics"], labels: {rack: r1}}], period: 5}
  - {kind: scrape, name: found, files: [t.yaml], dns: [{name: a.example, port: 1}, {name: _m._tcp.example}]}
"""
    )
    for name in ("token", "n0", "any"):
        (path.parent / f"{name}.txt").write_text(f"another-secret-of-{name}\n")
    config = read(path)
    assert [(t.name, t.role) for t in config.tokens] == [
        *(("ops", "admin"), ("grafana", "read")),
        *(("n0", "agent"), ("*", "agent")),
    ]
    assert config.anonymous == "none"
    assert LONG not in repr(config)
    nodes, found = (wanted.settings for wanted in config.sources)
    assert [(t.url, t.labels) for t in nodes.discovery.targets] == [
        ("http://n0:9100/metrics", ()),
        ("https://n1/metrics", (("rack", "r1"),)),
    ]
    assert found.discovery.names == (("a.example", 1), ("_m._tcp.example", 0))


def test_every_fault_is_told_at_once_with_its_line(written):
    path = written(
        """listen: {host: 0.0.0.0, port: 99999, prot: 1}
auth:
  tokens:
    - {name: a, role: boss, token: "${SECRET}"}
    - {name: b, role: read, token: in-the-open-0123456789}
    - {name: c, role: read, token: "${NOT_THERE}"}
    - {name: d, role: read, token: "${SHORT}"}
    - {name: d, role: read}
agents: {tokens: [{node: n77, token: "${SECRET}"}]}
store: {path: "${HOME}/s.db"}
record: {path: r, retention_hours: never}
tls: {certificate: no.pem, key: no.key}
surprise: 1
sources:
  - {kind: scrap, name: x}
  - {kind: scrape, targets: ["n0:9100/x y", "ftp://n0"], period: 0}
  - {kind: scrape, name: x, timeout: 99}
engine: {graze: 1}
silences: {most_share: 25, most_dayz: 1}
"""
    )
    with pytest.raises(InputError) as error:
        read(path)
    told = [str(problem).removeprefix(f"{path}:") for problem in error.value.problems]
    for line, part in [
        *((3, "unknown field 'prot'"), (3, "99999"), (6, "'boss'"), (7, "secret in plain text"), (8, "NOT_THERE")),
        *((9, "a secret of 5 characters"), (10, "'d' for the second time"), (10, "neither of 'token' and 'file'")),
        *((11, "unknown node 'n77'"), (12, "without a variable"), (13, "retention_hours"), (14, "no file 'no.pem'")),
        *((15, "unknown field 'surprise'"), (17, "Did you mean 'scrape'?"), (18, "'n0:9100/x y'"), (18, "'ftp://n0'")),
        *((18, "period"), (19, "timeout"), (19, "nothing to scrape"), (20, "Did you mean 'grace'?")),
        *((21, "a number from 0 to 1"), (21, "Did you mean 'most_days'?")),
    ]:
        assert any(text.startswith(f"{line}:") and part in text for text in told), (line, part, told)
    assert not [text for text in told if LONG in text or "in-the-open-0" in text]


def test_beyond_loopback_needs_tokens_or_a_word(written):
    with pytest.raises(InputError, match="without tokens"):
        read(written("listen: {host: 10.0.0.1}"))
    assert read(written("listen: {host: 10.0.0.1, unprotected: true}")).listen.unprotected


def test_beyond_loopback_whoever_comes_without_a_token_may_nothing_but_by_a_word(written):
    tokens = '[{{name: a, role: read, token: "${{SECRET}}"}}]'
    more = f"auth: {{{{anonymous: {{}}, tokens: {tokens}}}}}\nlisten: {{{{host: 0.0.0.0{{}}}}}}\n"
    for role in ("read", "approve", "admin"):
        with pytest.raises(InputError, match=f"'{role}' for all who reach 0.0.0.0"):
            read(written(more.format(role, "")))
        assert read(written(more.format(role, ", unprotected: true"))).anonymous == role
    assert read(written(more.format("none", ""))).anonymous == "none"


def test_files_that_cannot_be_used_are_told_before_the_start(written):
    path = written(
        """store: {path: nowhere/s.db}
record: {path: topology.yaml}
tls: {certificate: topology.yaml, key: topology.yaml, clients: topology.yaml}
auth: {tokens: [{name: a, role: read, token: "${SECRET}"}, {name: b, role: admin, token: "${SECRET}"}]}
sources: [{kind: scrape, targets: ["n0:1"], trust: none.pem}]
tell: [{kind: cloudevents, urls: ["h:1"], trust: none.pem}]
"""
    )
    with pytest.raises(InputError) as error:
        read(path)
    assert {problem.field for problem in error.value.problems} == {
        *("store.path", "record.path", "tls.certificate", "tls.clients", "auth.tokens[1]"),
        *("sources[0].trust", "tell[0].trust"),
    }
    assert all(problem.line for problem in error.value.problems)
    assert LONG not in str(error.value)


def test_the_command_checks(written):
    good = CliRunner().invoke(cli, ["config", "check", str(written(""))])
    assert (good.exit_code, "8 nodes" in good.output) == (0, True)
    bad = CliRunner().invoke(cli, ["config", "check", str(written("oops: 1"))])
    assert bad.exit_code == 2
    assert re.search(r"skewscope.yaml:3: oops: found an unknown field", bad.output)


def test_no_secret_is_left_in_the_environment_of_this_test():
    assert "SECRET" not in os.environ


def test_who_may_speak_for_a_group_is_appointed(written):
    speakers = "agents: {speakers: [{group: A, node: n0}, {group: A, node: n1}, {group: B, node: n4}]}"
    assert read(written(speakers)).speakers == {"A": frozenset({"n0", "n1"}), "B": frozenset({"n4"})}
    with pytest.raises(InputError, match=r"(?s)unknown group 'C'.*unknown node 'n99'"):
        read(written("agents: {speakers: [{group: C, node: n99}]}"))


@pytest.mark.parametrize("text", ["leader: {{lock: {}}}", "store: {{path: {}}}"])
def test_a_lock_and_a_store_are_regular_files(written, tmp_path, text):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert read(written(text.format("new")))
    for name, found in (("folder", "a folder"), ("pipe", "no regular file"), ("/dev/null", "no regular file")):
        with pytest.raises(InputError, match=found):
            read(written(text.format(name)))


@pytest.mark.parametrize("text", ["leader: {{lock: {}}}", "store: {{path: {}}}", "record: {{path: {}}}"])
def test_a_name_that_the_system_refuses_is_told(written, text):
    with pytest.raises(InputError, match=r"cannot be a name \(file name too long\)"):
        read(written(text.format("a" * 500)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("store: {path: topology.yaml}", "which is the topology"),
        ("store: {path: ./skewscope.yaml}", "which is this file"),
        ("store: {path: notes.txt}", "which is no database"),
        ("store: {path: s.db}\nleader: {lock: s.db-lock}", "which is a file beside the store"),
        ("leader: {lock: topology.yaml}", "which is the topology"),
        ("store: {path: s.db}\nleader: {lock: s.db}", "which is the store"),
    ],
)
def test_no_file_is_written_over_another(written, tmp_path, text, found):
    (tmp_path / "notes.txt").write_text("of somebody")
    with pytest.raises(InputError, match=found):
        read_at_start(written(text))


def test_a_name_in_a_certificate_has_a_role_unless_it_is_that_of_a_node(written, monkeypatch):
    def parse(entries, tls="tls: {clients: topology.yaml}\n"):
        with pytest.raises(InputError) as error:
            read(written(f"{tls}auth: {{certificates: [{entries}]}}\n"))
        return str(error.value)

    monkeypatch.setattr(config, "_parse_tls", lambda *_: None)
    whole = "tls: {clients: ca.pem}\nauth: {certificates: [{name: ops, role: admin}]}\n"
    assert read(written(whole)).certificate_roles == {"ops": "admin"}
    node = next(iter(read(written("")).topology.node))
    for name in (node, "'*'"):
        assert "a name of its own" in parse(f"{{name: {name}, role: read}}")
    assert "second time" in parse("{name: ops, role: read}, {name: ops, role: admin}")
    assert "tls.clients" in parse("{name: ops, role: read}", "")
