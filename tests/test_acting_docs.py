"""The pages on acting: every field and kind is described, and every example is valid."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from skewscope.adapters.actions import settings
from skewscope.adapters.targets import target_kinds
from skewscope.engine.actions.action import FINAL_STATES, LIVE_STATES
from skewscope.engine.actions.lifecycle import Timing
from skewscope.engine.actions.limits import ActionLimits, Breaker
from skewscope.engine.model.topology import Group, Node, Pool, Topology
from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader

ROOT = Path(__file__).resolve().parent.parent
ACTING, TARGETS, TESTS = (ROOT / "docs" / f"{name}.md" for name in ("acting", "targets", "acting-tests"))
NODES = tuple(f"n{n}" for n in range(3))
TOPOLOGY = Topology(
    tuple(Node(name) for name in NODES),
    tuple(Group(f"r{n}", "tensor-parallel", (name,)) for n, name in enumerate(NODES)),
    pools=(Pool("chat", ("r0", "r1", "r2")),),
)


def examples(page):
    return re.findall(r"```yaml\n(.*?)```", re.sub(r"^   ", "", page.read_text(), flags=re.MULTILINE), re.DOTALL)


def test_every_field_of_the_section_actions_is_described():
    page = ACTING.read_text()
    names = {each.name for kind in (Timing, Breaker, ActionLimits) for each in fields(kind)}
    names |= {"mode", "modes", "confidence", "note", *settings.MODE_FIELDS, *settings.MODES}
    assert not {name for name in names if f"`{name}`" not in page}


def test_every_default_is_the_one_of_the_code():
    page = ACTING.read_text()
    for kind in (Timing, ActionLimits):
        default = kind()
        for each in fields(kind):
            value = getattr(default, each.name)
            if isinstance(value, int | float):
                assert f"| `{each.name}` | {value:g} |" in page, each.name


def test_every_state_is_described():
    page = ACTING.read_text()
    assert not [
        state for state in (*LIVE_STATES, *FINAL_STATES) if not re.search(rf"^\| .*\b{state}\b", page, re.MULTILINE)
    ]


def test_every_kind_of_target_is_described():
    page = TARGETS.read_text()
    assert not [kind for kind in target_kinds() if f"`{kind}`" not in page]


@pytest.mark.parametrize("page", [ACTING, TARGETS], ids=lambda path: path.name)
def test_every_example_is_valid(page, tmp_path):
    found = examples(page)
    assert found
    for text in found:
        for word in re.findall(r"\b(?:file|token_file|eth2): (\S+)", text):
            if "/" not in word:
                (tmp_path / word.rstrip("},")).write_text("a-key-of-at-least-thirty-two-characters")
        document = yamlfile.parse(text, str(tmp_path / "skewscope.yaml"))
        reader = FieldReader(document)
        for item in reader.item_paths(("targets",), 100):
            kind = reader.text((*item, "kind"))
            target_kinds()[kind].read(reader, item, reader.text((*item, "name")))
        settings.read_actions(reader, TOPOLOGY, ["front"])
        assert not reader.problems, reader.problems


def test_every_test_that_holds_a_promise_is_there():
    file, missing, count = "", [], 0
    for path, name in re.findall(r"`([\w/]+\.py)`|`(test_\w+)`", TESTS.read_text()):
        file = path or file
        count += bool(name)
        if name and f"def {name}(" not in (ROOT / "tests" / file).read_text():
            missing.append(f"{file}: {name}")
    assert count > 50
    assert not missing
