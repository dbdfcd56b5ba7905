"""What assistants are answered: by the SDK's own client in memory, on commands that are real or only recorded."""

import asyncio
import dataclasses
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters

from skewscope.adapters.inputs.recording import demo_path
from skewscope.kb.problems import SkewscopeError
from skewscope.tui.assistant import command_runner
from skewscope.tui.assistant.answer import MAX_TEXT, build_answer
from skewscope.tui.assistant.command_runner import CommandOutput, CommandRunner
from skewscope.tui.assistant.server import INSTRUCTIONS, build_server
from skewscope.tui.assistant.tools import MAX_INCIDENTS, AssistantTools
from skewscope.tui.cli.main import cli
from tests.test_docs import check_command

INCIDENT = {
    "id": "a1", "condition": "tp-straggler", "state": "firing", "opened_at": "2026-01-01T00:00:00Z", "confidence": 0.9,
    "unseen": ["gpu.power"], "none": 0.02, "evidence": [{"name": "late"}],
}  # fmt: skip
CALLS = {
    "list_files": {},
    "diagnose_files": {"paths": ["a.log", "b.csv"], "why": True},
    "compare": {"before": "a.log", "after": "b.csv"},
    "explain": {"id": "tp-straggler"},
    "why_not": {"condition": "tp-straggler", "entity": "n3", "time": "2026-11-20T23:10:30Z", "recording": "rec"},
    "what_if": {"incident": "3f2a", "recording": "rec", "without": ["gpu.power"], "values": ["gpu.temperature=60"]},
    "coverage": {"topology": "b.csv", "sources": ["vllm", "dcgm"]},
    "search_catalogue": {"words": "slow rank", "kind": "conditions"},
    "list_incidents": {"state": "all", "limit": 5},
    "get_incident": {"id": "a1"},
}


@dataclasses.dataclass(frozen=True)
class RecordedRunner(CommandRunner):
    """Runs nothing: keeps the words of commands, and answers what it was told to."""

    output: CommandOutput = dataclasses.field(default_factory=lambda: CommandOutput(1, "a finding"))
    words: list = dataclasses.field(default_factory=list)

    async def run(self, *words):
        self.words.append(words)
        return self.output


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in" / "rec").mkdir(parents=True)
    for name in ("a.log", "b.csv", "-v"):
        (tmp_path / "in" / name).write_text("x\n")
    (tmp_path / "secret").write_text("x\n")
    return tmp_path / "in"


def ask_controller(path):
    return (
        {"incidents": [INCIDENT | {"id": f"a{n}"} for n in range(70)]}
        if "incidents?" in path or path.endswith("s")
        else INCIDENT
    )


def call(tools, name, arguments, mode="auto"):
    """Returns whether the call failed, and its answer or the text of its error."""

    async def ask():
        async with Client(build_server(tools, "1"), mode=mode) as client:
            found = await client.call_tool(name, arguments)
            return found.is_error, found.structured_content or found.content[0].text

    return asyncio.run(ask())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_all_tools_are_listed_as_read_only_with_what_they_do(folder, mode):
    async def ask():
        async with Client(
            build_server(AssistantTools(CommandRunner(folder), ask_controller), "1"), mode=mode
        ) as client:
            return (await client.list_tools()).tools, client.instructions

    tools, instructions = asyncio.run(ask())
    assert {tool.name for tool in tools} == CALLS.keys()
    assert all(tool.annotations.read_only_hint and not tool.annotations.destructive_hint for tool in tools)
    assert all(len(tool.description) > 40 and tool.output_schema for tool in tools)
    assert instructions == INSTRUCTIONS


def test_without_a_controller_there_are_no_tools_that_ask_one(folder):
    names = {tool.__name__ for tool in AssistantTools(CommandRunner(folder)).all()}
    assert CALLS.keys() - names == {"list_incidents", "get_incident"}


@pytest.mark.parametrize("name", CALLS)
def test_each_tool_answers_and_runs_a_command_that_exists(folder, name):
    runner = RecordedRunner(folder)
    failed, answer = call(AssistantTools(runner, ask_controller), name, CALLS[name])
    assert not failed, answer
    assert answer["conclusion"] in ("findings", "answered")
    for words in runner.words:
        check_command(cli, [word for word in words if word != "--"], " ".join(words))
        assert "/in/" not in " ".join(words)


@pytest.mark.parametrize(("code", "conclusion"), [(0, "nothing found"), (1, "findings"), (3, "too little to judge")])
def test_too_little_is_no_all_clear(folder, code, conclusion):
    runner = RecordedRunner(folder, output=CommandOutput(code, "text"))
    assert call(AssistantTools(runner), "diagnose_files", {"paths": ["a.log"]})[1]["conclusion"] == conclusion


@pytest.mark.parametrize("code", [2, 130, -9])
def test_a_command_that_could_not_run_is_an_error_with_its_reason(folder, code):
    runner = RecordedRunner(folder, output=CommandOutput(code, "a.log: no known text"))
    failed, text = call(AssistantTools(runner), "diagnose_files", {"paths": ["a.log"]})
    assert failed
    assert "a.log: no known text" in text


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "nowhere", "a\0b", "", "x" * 5000, "out", "rec/.."])
def test_nothing_outside_of_the_folder_is_read(folder, path):
    (folder / "out").symlink_to("../secret")
    runner = RecordedRunner(folder)
    failed, answer = call(AssistantTools(runner), "diagnose_files", {"paths": [path]})
    if path in ("", "rec/.."):
        failed = failed or all(word == "./." for word in runner.words[0][3:])
    assert failed, answer


def test_a_folder_with_a_link_that_leads_out_is_refused(folder):
    (folder / "rec" / "more").symlink_to("../../secret")
    failed, text = call(AssistantTools(RecordedRunner(folder)), "diagnose_files", {"paths": ["rec"]})
    assert failed
    assert "leads out" in text


def test_a_file_with_the_name_of_an_option_is_a_file(folder):
    runner = RecordedRunner(folder)
    call(AssistantTools(runner), "diagnose_files", {"paths": ["-v"]})
    assert runner.words[0][-2:] == ("--", "./-v")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("explain", {"id": "--help"}),
        ("explain", {"id": "a\nb"}),
        ("why_not", CALLS["why_not"] | {"entity": "-x"}),
        ("what_if", CALLS["what_if"] | {"incident": "--rule=/etc/passwd"}),
        ("what_if", CALLS["what_if"] | {"without": [], "values": []}),
        ("coverage", {}),
        ("coverage", {"sources": ["--topology=/etc/passwd"]}),
        ("search_catalogue", {"words": " "}),
        ("search_catalogue", {"words": "x", "kind": "secrets"}),
        ("diagnose_files", {"paths": []}),
        ("diagnose_files", {"paths": ["a.log"] * 21}),
        ("list_files", {"folder": "a.log"}),
        ("list_incidents", {"limit": MAX_INCIDENTS + 1}),
        ("list_incidents", {"state": "any"}),
    ],
)
def test_what_is_no_question_is_an_error_and_runs_nothing(folder, name, arguments):
    runner = RecordedRunner(folder)
    assert call(AssistantTools(runner, ask_controller), name, arguments)[0]
    assert not runner.words


def test_a_long_answer_is_cut_at_a_line_and_says_so():
    answer = build_answer("findings", "line of text\n" * 10_000)
    assert answer.is_cut
    assert len(answer.text) < MAX_TEXT + 60
    assert answer.text.splitlines()[-2] == "line of text"
    assert "more characters" in answer.text
    assert not build_answer("findings", "short").is_cut


def test_incidents_are_listed_in_brief_and_one_has_its_evidence_and_doubt(folder):
    tools = AssistantTools(RecordedRunner(folder), ask_controller)
    head, *rows = call(tools, "list_incidents", {"limit": 3})[1]["text"].splitlines()
    assert head == "3 of 70 incidents"
    assert all("evidence" not in json.loads(row) for row in rows)
    found = json.loads(call(tools, "get_incident", {"id": "a1"})[1]["text"])
    assert found["unseen"] == ["gpu.power"]
    assert found["none"] == 0.02


def test_a_controller_that_does_not_answer_is_an_error(folder):
    def fail(_path):
        raise SkewscopeError("the controller does not answer")

    failed, text = call(AssistantTools(RecordedRunner(folder), fail), "list_incidents", {})
    assert failed
    assert "does not answer" in text


def test_the_page_lists_the_tools():
    page = (Path(__file__).resolve().parents[3] / "docs" / "assistants.md").read_text()
    listed = re.search("<!-- tools -->(.*)<!-- end -->", page, re.DOTALL)[1]
    tools = {tool.__name__ for tool in AssistantTools(None, ask_controller).all()}
    assert set(re.findall(r"^\| `(\w+)`", listed, re.MULTILINE)) == tools == CALLS.keys()
    assert f"{MAX_TEXT:,} characters" in page


# --- real processes


def use_program(monkeypatch, code):
    monkeypatch.setattr(command_runner, "PROGRAM", (sys.executable, "-c", code))


def test_a_command_that_takes_too_long_is_ended(folder, monkeypatch):
    use_program(monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(SkewscopeError, match="not done within"):
        asyncio.run(CommandRunner(folder, 0.2).run("diagnose"))


def test_endless_output_is_bounded_and_the_token_stays_here(folder, monkeypatch):
    monkeypatch.setattr(command_runner, "MAX_OUTPUT", 1000)
    monkeypatch.setenv(command_runner.TOKEN_VARIABLE, "secret" * 4)
    use_program(monkeypatch, "import os; print('secret' in str(os.environ)); print('x' * 100_000)")
    done = asyncio.run(CommandRunner(folder).run("diagnose"))
    assert done.code == 0
    assert len(done.text) == 1000
    assert done.text.startswith("False")


@pytest.mark.slow
def test_a_client_on_stdio_gets_the_answers_of_real_commands(tmp_path):
    shutil.copytree(demo_path(), tmp_path / "demo")
    words = ["-m", "skewscope.tui.cli.main", "mcp", "--folder", str(tmp_path)]

    async def ask():
        async with Client(StdioServerParameters(command=sys.executable, args=words)) as client:
            assert len((await client.list_tools()).tools) == len(CALLS) - 2
            found = {}
            for name, arguments in {
                "diagnose_files": {"paths": ["demo"], "why": True},
                "explain": {"id": "tp-straggler"},
                "why_not": CALLS["why_not"] | {"recording": "demo"},
                "coverage": {"sources": ["vllm"]},
                "search_catalogue": {"words": "slow rank"},
                "compare": {"before": "demo", "after": "demo"},
            }.items():
                answer = await client.call_tool(name, arguments)
                assert not answer.is_error, answer
                found[name] = answer.structured_content
            return found

    found = asyncio.run(ask())
    assert found["diagnose_files"]["conclusion"] == "findings"
    assert "Tensor-parallel straggler" in found["diagnose_files"]["text"]
    assert found["compare"]["conclusion"] == "nothing found"
    assert Path(tmp_path / "demo").is_dir()
