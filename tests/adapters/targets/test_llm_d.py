"""The endpoints file of llm-d, in its documented format."""

import asyncio
from pathlib import Path

import pytest

from skewscope.adapters.actions.carry_out import ForeignStateError, make_change, undo_change
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import FileCall
from skewscope.adapters.targets.common.probe import ProbeSettings
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.llm_d import LlmDSettings, LlmDTarget
from skewscope.engine.actions.change import DEWEIGHT, DRAIN, FOREIGN, Change
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from tests.support.openai_worker import OpenaiWorker
from tests.support.target_contract import run_cycle

TEXT = """# Kept by the platform team.
endpoints:
  - name: vllm-0        # rack 1
    address: "127.0.0.1"
    port: "8000"
  - name: vllm-1
    address: "127.0.0.1"
    port: "8001"
    labels:
      llm-d.ai/role: decode   # not prefill
  - {name: vllm-2, address: 127.0.0.1, port: "8002", labels: {"skewscope.io/state": "canary"}}
"""
JSON_TEXT = """{
  "endpoints": [
    {"name": "vllm-0", "address": "127.0.0.1", "port": "8000"},
    {"name": "vllm-1", "address": "127.0.0.1", "port": "8001", "labels": {"a": "b"}},
    {"name": "vllm-2", "address": "127.0.0.1", "port": "8002", "labels": {"skewscope.io/state": "canary"}}
  ]
}
"""
NAMES = ("vllm-0", "vllm-1", "vllm-2")


def make_target(folder: Path, text: str = TEXT) -> LlmDTarget:
    file = folder / "endpoints.yaml"
    file.write_text(text)
    common = TargetSettings("pool", tuple((f"r{n}", name) for n, name in enumerate(NAMES)))
    return LlmDTarget(LlmDSettings(common, str(file), probe=ProbeSettings("/health")))


@pytest.mark.parametrize("text", [TEXT, JSON_TEXT])
@pytest.mark.parametrize("name", NAMES)
def test_an_endpoint_is_labelled_and_the_very_text_restored(tmp_path, text, name):
    async def run() -> None:
        target = make_target(tmp_path, text)
        file = Path(target.settings.file)

        async def check() -> None:
            found = yamlfile.parse(file.read_text()).data["endpoints"]
            labels = {each["name"]: each.get("labels", {}) for each in found}
            assert labels[name]["skewscope.io/state"] == "drained"
            assert labels[name]["skewscope.io/drain"] == "a-1"
            assert [key for key, each in labels.items() if "skewscope.io/drain" in each] == [name]
            assert labels["vllm-1"].get("llm-d.ai/role", labels["vllm-1"].get("a")) in ("decode", "b")
            state = await target.read_state()
            assert {key for key, each in state.members.items() if not each.serving} == {name}

        await run_cycle(target, Change(DRAIN, "pool", name, "a-1"), check)
        assert file.read_text() == text

    asyncio.run(run())


def test_what_somebody_else_wrote_stays(tmp_path):
    async def run() -> None:
        target = make_target(tmp_path)
        file = Path(target.settings.file)
        change = Change(DRAIN, "pool", "vllm-2", "a-1")
        before = (await target.read_state()).members["vllm-2"]
        # Before our change.
        file.write_text(TEXT.replace("canary", "broken"))
        with pytest.raises(ForeignStateError):
            await make_change(target, change, before)
        assert await undo_change(target, change, before) == ()
        # Behind it: their label stays, our mark goes.
        file.write_text(TEXT)
        await make_change(target, change, before)
        file.write_text(file.read_text().replace("drained", "broken"))
        assert target.find_standing(change, before, await target.read_state()) == FOREIGN
        await undo_change(target, change, before)
        assert file.read_text() == TEXT.replace("canary", "broken")
        # The endpoint is gone.
        file.write_text(TEXT.replace("vllm-2", "vllm-9"))
        assert target.find_standing(change, before, await target.read_state()) == FOREIGN
        assert await undo_change(target, change, before) == ()

    asyncio.run(run())


def test_an_endpoint_is_probed_at_its_address(tmp_path):
    async def run() -> None:
        async with OpenaiWorker("w") as worker:
            target = make_target(tmp_path, TEXT.replace("8001", str(worker.port)))
            assert (await target.probe("vllm-1") or 9.0) < 1.0
            with pytest.raises(TargetError, match="no endpoint"):
                await target.probe("vllm-9")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(DEWEIGHT, "pool", "vllm-0", "a-1"), "llm-d cannot deweight"),
        (Change(DRAIN, "pool", "vllm-9", "a-1"), "no endpoint 'vllm-9'"),
        (Change(DRAIN, "pool", "vllm-0", "a: 1"), "is no id of an action"),
    ],
)
def test_an_impossible_change_is_an_error(tmp_path, change, message):
    target = make_target(tmp_path)
    with pytest.raises(TargetError, match=message):
        target.render_change(change, asyncio.run(target.read_state()))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "endpoints: 3",
        "endpoints: [3]",
        "endpoints: [{name: a}]",
        "endpoints: [{name: a, address: b, port: c, labels: [d]}]",
        "endpoints: [{name: a, address: b, port: c}, {name: a, address: b, port: c}]",
        "# " + "x" * (1 << 20),
    ],
)
def test_a_strange_file_is_an_error(tmp_path, text):
    with pytest.raises(TargetError, match="endpoints"):
        asyncio.run(make_target(tmp_path, text).read_state())


def test_only_the_configured_file_is_written(tmp_path):
    other = tmp_path / "other"
    other.write_text("a")
    with pytest.raises(TargetError, match="no change of"):
        asyncio.run(make_target(tmp_path).make_call(FileCall(str(other), "a", "b")))
    assert other.read_text() == "a"


SETTINGS = """
targets:
- {kind: llm-d, file: endpoints.yaml, members: {r0: vllm-0}, label: app, value: out}
- {kind: llm-d, file: none, members: {r0: vllm-0}, label: skewscope.io/drain, value: "a b"}
"""


def test_settings_are_checked(tmp_path):
    (tmp_path / "endpoints.yaml").write_text(TEXT)
    fields = FieldReader(yamlfile.parse(SETTINGS, str(tmp_path / "skewscope.yaml")))
    kind = target_kinds()["llm-d"]
    good, _ = [kind.read(fields, ("targets", n), f"t{n}") for n in range(2)]
    assert kind.build(good).members == {"r0": "vllm-0"}
    assert sorted(problem.field for problem in fields.problems) == [
        f"targets[1].{name}" for name in ("file", "label", "value")
    ]
