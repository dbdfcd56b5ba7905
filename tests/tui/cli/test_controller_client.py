"""Which controller a command asks, and to whom its token goes."""

import pytest
from click.testing import CliRunner

from skewscope.tui.cli import controller_client
from skewscope.tui.cli.main import cli
from tests.support.api_server import Asked, serve_api

TOKEN = "t-0123456789abcdef"


def listener(answer=None, status=200):
    return serve_api(lambda _asked: (status, {"silences": []} if answer is None else answer))


def run(*words, token=""):
    return CliRunner().invoke(cli, words, env={"SKEWSCOPE_TOKEN": token or None})


def test_an_address_before_the_command_is_the_one_that_is_asked(monkeypatch):
    with listener() as (url, asked), listener() as (default, others):
        monkeypatch.setattr(controller_client, "DEFAULT_URL", default)
        done = run("--url", url, "silence", "list", token=TOKEN)
    assert (done.exit_code, done.output) == (0, "No silences.\n")
    assert asked == [Asked("GET", "/api/v1/silences", f"Bearer {TOKEN}")]
    assert others == []


@pytest.mark.parametrize(
    "order",
    [
        ("--url", "URL", "--token-file", "FILE", "silence", "list"),
        ("--url", "URL", "silence", "list", "--token-file", "FILE"),
        ("--token-file", "FILE", "silence", "list", "--url", "URL"),
        ("silence", "list", "--url", "URL", "--token-file", "FILE"),
    ],
)
def test_address_and_token_may_stand_before_or_behind(tmp_path, order):
    (tmp_path / "token").write_text(TOKEN)
    with listener() as (url, asked):
        done = run(*(word.replace("URL", url).replace("FILE", str(tmp_path / "token")) for word in order))
    assert done.exit_code == 0, done.output
    assert [one.token for one in asked] == [f"Bearer {TOKEN}"]


def test_no_token_goes_to_the_default_address(monkeypatch, tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    with listener({"error": "this needs the role 'read'"}, 401) as (default, asked):
        monkeypatch.setattr(controller_client, "DEFAULT_URL", default)
        done = run("silence", "list", token=TOKEN)
        assert (done.exit_code, [one.token for one in asked]) == (2, [""])
        assert f"The token of SKEWSCOPE_TOKEN was not sent: Add --url {default}" in done.output
        done = run("silence", "list", "--token-file", str(tmp_path / "token"))
        assert (done.exit_code, len(asked)) == (2, 1)
        assert "--token-file needs --url" in done.output


def test_two_addresses_are_refused():
    done = run("--url", "http://a:1", "silence", "list", "--url", "http://b:1")
    assert done.exit_code == 2
    assert "name one controller" in done.output


@pytest.mark.parametrize("command", [("kb", "list"), ("coverage",), ("rules", "list"), ("replay", "x")])
def test_an_address_is_refused_where_it_would_be_passed_over(command):
    done = run("--url", "http://a:1", *command)
    assert done.exit_code == 2
    assert "has no effect: leave it out" in done.output


@pytest.mark.parametrize("answer", [[], {"silences": 3}, {}, None])
def test_an_answer_of_another_form_is_told(answer):
    with listener(answer if answer is not None else "x") as (url, _asked):
        done = run("silence", "list", "--url", url)
    assert done.exit_code == 2
    assert "is this a controller" in done.output
