"""What an operator writes: read whole, and every fault told at once."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewscope.adapters.agent.__main__ import main
from skewscope.adapters.agent.config import MIB, AgentConfig, check, default_periods, load
from skewscope.kb.problems import InputError

WHOLE = """\
version: 1
node: n0
runs_on: host
root: /host
topology: topology.yaml
ports: {p0: ew, mlx5_0: ew, p1: ns}
collect: {ethtool: 2 s, hwmon: 'off'}
observe: {devices: [p0], budget: 10%, ring: 4 MiB}
controllers:
  - {url: 'https://c1:8443', token_file: token, ca_file: /etc/ca.pem}
  - {url: 'http://127.0.0.1:8080/', token_env: TOKEN}
relay:
  - {url: 'http://10.0.0.1:9400/metrics', period: 30 s, timeout: 500 ms, labels: {a: b}}
listen: '[::1]:9000'
buffer: 32 MiB
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(text)
    return path


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(written(folder, text))
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


def test_everything_that_can_be_said_is_understood(tmp_path):
    found = load(written(tmp_path, WHOLE))
    assert found.runs_on == "host"
    usual = default_periods()
    assert found.periods == {name: usual[name] for name in usual if name != "hwmon"} | {"ethtool": 2.0}
    assert (found.observe.budget, found.observe.ring, found.buffer) == (0.1, 4 * MIB, 32 * MIB)
    assert found.controllers[0].token_file == str(tmp_path / "token")
    assert found.controllers[0].ca_file == "/etc/ca.pem"
    assert found.controllers[1].url == "http://127.0.0.1:8080"
    assert (found.relay[0].period, found.relay[0].timeout, found.relay[0].labels) == (30.0, 0.5, (("a", "b"),))
    assert found.listen == ("::1", 9000)


def test_little_is_enough_and_nothing_listens_beyond_the_machine(tmp_path):
    found = load(written(tmp_path, "version: 1\nnode: n0\nports: {p0: ew}\n"))
    assert found == AgentConfig("n0", ports={"p0": "ew"}, periods=found.periods)
    assert found.listen == ("127.0.0.1", 9465)


def test_all_faults_are_told_at_once_each_with_its_line(tmp_path):
    text = """\
version: 1
node: a/b
runs_on: gpu
ports: {p0: ew}
collect: {ethtol: 1 s, net: 1 ms}
observe: {devices: [p1], budget: 120%}
controllers:
  - {url: 'ftp://x', token: secret}
  - {url: 'http://elsewhere:80'}
  - {url: 'https://user:pass@c', certificate_file: a}
  - {url: 'https://c', token_env: A, token_file: b}
relay: [{period: 5}]
listen: 1.2.3.4.5:99999
buffer: 1 GB
nonsense: 1
"""
    told = faults(tmp_path, text)
    for expected in (
        "agent.yaml:2: node: found 'a/b'",
        "agent.yaml:3: runs_on: found 'gpu', expected one of dpu, host.",
        "agent.yaml:5: collect.ethtol: found an unknown field 'ethtol'",
        "agent.yaml:5: collect.net: found 1 ms, expected from 1 s to 3600 s.",
        "agent.yaml:6: observe.devices[0]: found 'p1'",
        "agent.yaml:6: observe.budget: found 120%",
        "agent.yaml:8: controllers[0].url: found 'ftp://x'",
        "agent.yaml:8: controllers[0].token: found an unknown field 'token'",
        "agent.yaml:9: controllers[1].url: found http to another machine, expected https.",
        "agent.yaml:10: controllers[2].url: found a password in an address",
        "agent.yaml:10: controllers[2]: found one of certificate_file and key_file",
        "agent.yaml:11: controllers[3].token_env: found a second place of the token",
        "agent.yaml:12: relay[0].url: found no value",
        "agent.yaml:12: relay[0].period: found 5",
        "agent.yaml:13: listen: found '1.2.3.4.5:99999'",
        "agent.yaml:13: listen: found port 99999",
        "agent.yaml:14: buffer: found '1 GB'",
        "agent.yaml:15: nonsense: found an unknown field 'nonsense'",
    ):
        assert [line for line in told if line.startswith(expected)], expected
    assert len(told) == 18
    assert "pass" not in "".join(told).replace("password", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version: 1\nnode: n0\n", "no ports"),
        ("version: 2\nnode: n0\nports: {a: b}\n", "a version up to 1"),
        ("version: 1\nnode: n0\nports: [a]\n", "a mapping of at most"),
        ("version: 1\nnode: n0\nports: {a: b}\nrelay: [{url: 'http://a'}, {url: 'http://a'}]\n", "for the second time"),
        ("version: 1\nnode: n0\nports: {a: b}\nlisten: off\n", "neither controllers nor listen"),
        ("", "a mapping"),
    ],
)
def test_what_could_do_nothing_is_a_fault(tmp_path, text, expected):
    assert expected in "\n".join(faults(tmp_path, text))


def test_a_check_looks_for_the_files_that_are_named(tmp_path):
    path = written(tmp_path, WHOLE.replace("/etc/ca.pem", "ca.pem") + "more: 1\n")
    assert [(problem.line, problem.field) for problem in check(path)] == [
        *((5, "topology"), (10, "controllers[0].ca_file"), (10, "controllers[0].token_file"), (16, "more")),
    ]
    for name in ("topology.yaml", "ca.pem", "token"):
        (tmp_path / name).write_text("nodes: 5\n\1")
    told = {(Path(problem.file).name, problem.field) for problem in check(path)}
    assert {("agent.yaml", "controllers[0].ca_file"), ("agent.yaml", "controllers[0].token_file")} < told
    assert any(file == "topology.yaml" for file, _ in told)
    assert check(tmp_path / "none.yaml")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "version",
                        "node",
                        "ports",
                        "observe",
                        "devices",
                        "controllers",
                        "url",
                        "relay",
                        "collect",
                        "listen",
                        "buffer",
                        "labels",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_is_written_is_understood_or_told(tmp_path_factory, value):
    path = written(tmp_path_factory.mktemp("config"), json.dumps(value))
    with suppress(InputError):
        load(path)


def test_a_name_may_stand_in_the_environment(tmp_path, monkeypatch):
    text = "version: 1\nnode_env: OWN_NAME\nports: {p0: ew}\n"
    monkeypatch.setenv("OWN_NAME", "n7")
    assert load(written(tmp_path, text)).node == "n7"
    monkeypatch.setenv("OWN_NAME", "n7/ew")
    assert faults(tmp_path, text) == [
        "agent.yaml:2: node_env: found 'n7/ew' in OWN_NAME, expected a name without any of '/>:,'."
    ]
    monkeypatch.delenv("OWN_NAME")
    assert len(faults(tmp_path, text)) == 1
    assert any("both or neither" in fault for fault in faults(tmp_path, f"{text}node: n0\n"))


def test_names_in_problems_cannot_reach_the_terminal_as_escapes(tmp_path, capsys):
    path = tmp_path / "agent.yaml"
    path.write_text('version: 1\nnode: "n0\\e[2J"\n"\\e]0;title\\a": 1\n')
    assert main(["--check", "--config", str(path)]) != 0
    told = "".join(capsys.readouterr())
    assert "title" in told
    assert "\x1b" not in told
    assert "\x07" not in told
