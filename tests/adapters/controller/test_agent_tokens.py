"""Each node has a token of its own, derived from one secret: it is of no use for another node."""

import logging
import stat

import pytest
from click.testing import CliRunner

from skewscope.adapters.config.agent_tokens import derive_token, find_node
from skewscope.adapters.config.secret import Secret
from skewscope.adapters.controller import config, process
from skewscope.adapters.controller.auth import AccessControl, DeniedError
from skewscope.tui.cli.main import cli

SECRET = Secret("a secret of at least thirty-two characters")
TOPOLOGY = "{version: 1, nodes: [{name: n0}, {name: n1.example.org}], groups: []}"


@pytest.fixture
def written(tmp_path):
    """Writes a config with this section `agents` and returns its path."""

    def write(agents: str):
        (tmp_path / "topology.yaml").write_text(TOPOLOGY)
        (tmp_path / "agents.secret").write_text(SECRET.text)
        path = tmp_path / "skewscope.yaml"
        path.write_text(f"version: 1\ntopology: topology.yaml\nagents: {agents}\n")
        return path

    return write


def test_a_derived_token_admits_its_node_only(written):
    access = AccessControl(config.read(written("{secret: {file: agents.secret}}")))
    for node in ("n0", "n1.example.org"):
        caller = access.authenticate(f"Bearer {derive_token(SECRET, node)}")
        assert access.sender_node(caller) == node
    own, other = derive_token(SECRET, "n0"), derive_token(SECRET, "n1.example.org")
    strange = derive_token(Secret(SECRET.text + "x"), "n0")
    swapped = f"n1.example.org.{own.rpartition('.')[2]}"
    for text in (own[:-1], own + "0", swapped, strange, f"n0.{other}", derive_token(SECRET, "n2"), "n0.", ".", "é.x"):
        with pytest.raises(DeniedError):
            access.authenticate(f"Bearer {text}")
    with pytest.raises(DeniedError):
        access.sender_node(access.authenticate(""))


def test_no_text_but_its_own_token_names_a_node():
    assert find_node(SECRET, derive_token(SECRET, "n0")) == "n0"
    assert find_node(SECRET, derive_token(SECRET, "n0").upper()) == ""
    assert find_node(SECRET, "") == ""


def test_the_command_writes_a_file_for_each_node(written, tmp_path):
    path, folder = written("{secret: {file: agents.secret}}"), tmp_path / "tokens"
    ran = CliRunner().invoke(cli, ["config", "tokens", str(path), "--to", str(folder)])
    assert ran.exit_code == 0, ran.output
    assert {one.name: one.read_text() for one in folder.iterdir()} == {
        node: derive_token(SECRET, node) for node in ("n0", "n1.example.org")
    }
    assert {stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()} == {0o600}
    ran = CliRunner().invoke(cli, ["config", "tokens", str(path), "--to", str(folder), "n9"])
    assert ran.exit_code == 2
    ran = CliRunner().invoke(cli, ["config", "tokens", str(written("{tokens: []}")), "--to", str(folder)])
    assert "no agents.secret" in ran.output


def test_a_token_for_every_node_is_warned_of(written, monkeypatch, caplog):
    monkeypatch.setenv("SHARED", "0123456789abcdef")
    shared = config.read(written('{tokens: [{node: "*", token: "${SHARED}"}]}'))
    with caplog.at_level(logging.WARNING):
        process._warn_of_shared_token(config.read(written("{secret: {file: agents.secret}}")))
        assert not caplog.records
        process._warn_of_shared_token(shared)
    assert "agents.secret" in caplog.text
    assert "0123456789abcdef" not in caplog.text
