"""The catalogue loads whole or says why not, and no file, however hostile, makes reading it raise anything else."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skewscope.kb import entry_store, yamlfile
from skewscope.kb.entry_kinds import KINDS, builtin_folder
from skewscope.kb.loader import catalogue, load
from skewscope.kb.problems import InputError, Problem
from skewscope.kb.same_as import resolve_same_as
from skewscope.kb.yamlfile import parse, read
from tests.support.kb_damage import FLAP, LAG, LOSS, STRAGGLER, block, copied, replaced, written


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return copied(tmp_path_factory.mktemp("load"))


# What is there.


def test_what_comes_with_the_package_loads_without_a_problem():
    found, problems = load()
    assert problems == ()
    assert found.conditions
    assert found.signals


def test_it_is_read_once():
    assert catalogue() is catalogue()


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_is_an_entry_under_its_own_name_in_the_order_of_ids(kind):
    names = sorted(path.stem for path in (builtin_folder() / kind).iterdir())
    # What counts the messages of an event is a signal without a file of its own.
    entries = {id_: one for id_, one in getattr(catalogue(), kind).items() if f"/{kind}/" in one.file}
    assert list(entries) == names
    assert [one.id for one in entries.values()] == names
    assert all(one.file == f"kb/{kind}/{one.id}.yaml" for one in entries.values())


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_can_change_what_was_loaded(kind):
    entries = getattr(catalogue(), kind)
    with pytest.raises(TypeError):
        entries["x"] = None


def test_a_signal_is_found_by_its_canonical_metric_name():
    assert catalogue().by_metric["skewscope_wire_onset_lag"].id == "wire.onset_lag"
    assert len(catalogue().by_metric) == len(catalogue().signals)


def test_every_condition_tells_of_its_signature_its_cost_and_what_each_deployment_sees():
    for condition in catalogue().conditions.values():
        assert condition.signature or condition.id == "silent-data-corruption"  # nothing shows it, which is the point
        assert condition.impacts
        assert condition.mitigations
        assert len({one.deployment for one in condition.observability}) == 4


def test_same_as_takes_everything_that_is_not_overridden_from_the_other_deployment():
    seen = {one.deployment: one for one in catalogue().conditions["link-flap"].observability}
    rail, root = seen["dpu-every-rail"], seen["dpu-pcie-root"]
    assert (root.same_as, rail.same_as) == ("dpu-every-rail", "")
    assert (root.verdict, root.reason, root.needs) == (rail.verdict, rail.reason, rail.needs)
    assert root.basis == "judgement: a port knows its own link" != rail.basis
    assert root.short_reason == "Same as dpu-every-rail."
    assert rail.short_reason == rail.reason


def test_resolving_same_as_twice_changes_nothing():
    written = [
        {"deployment": "a", "verdict": "visible", "reason": "It is.", "basis": "literature", "needs": ["x.y"]},
        {"deployment": "b", "same_as": "a", "needs": ["z.w"]},
        {"deployment": "c", "same_as": "nowhere"},
    ]
    once = resolve_same_as(written)
    assert once[1] == {**written[0], **written[1]}
    assert once[2]["verdict"] == "not_visible"
    assert resolve_same_as(once) == once


def test_a_dpu_at_the_front_end_sees_nothing_of_the_rails():
    for condition in catalogue().conditions.values():
        verdicts = {one.deployment: one.verdict for one in condition.observability}
        needs = {id_ for one in condition.observability for id_ in one.needs if one.deployment == "dpu-front-end"}
        rails = {id_ for id_ in needs if catalogue().signals[id_].vantage == ("east-west",)}
        assert not rails, condition.id
        if condition.group == "east-west":
            assert verdicts["dpu-front-end"] != "visible" or "data" in condition.parallelism, condition.id


def test_what_is_named_after_a_row_of_the_paper_carries_the_doubt():
    rows = [one for one in catalogue().conditions.values() if one.paper_row != "additional"]
    assert rows
    assert all(one.paper_row == "unverified" and "checked" in one.paper_note for one in rows)


def test_look_alikes_are_mutual_and_each_says_what_separates_it():
    known = catalogue().conditions
    for id_, condition in known.items():
        for look in condition.lookalikes:
            assert len(look.separate_by) > 20
            assert id_ in {back.condition for back in known[look.condition].lookalikes}


def test_a_link_written_at_one_end_is_known_at_the_other(copy):
    look = "lookalikes:\n- {condition: dpu-self-overload, separate_by: One is the watcher and the other the link.}\n"
    text = replaced(copy / FLAP, "lookalikes:\n", look)
    with written(copy / FLAP, text):
        found, problems = load(copy)
    assert problems == ()
    assert "link-flap" in {one.condition for one in found.conditions["dpu-self-overload"].lookalikes}
    assert "link-flap" in {one.condition for one in found.conditions["fabric-loss"].causes}


def test_a_look_alike_from_outside_becomes_one_the_day_the_catalogue_holds_it(copy):
    outside = "lookalikes_outside:\n- {name: loose-cable, separate_by: It was never in its socket.}\n"
    flap = replaced(copy / FLAP, "mitigations: [", f"{outside}mitigations: [")
    loose = replaced(copy / FLAP, "id: link-flap", "id: loose-cable").replace(block(FLAP, "lookalikes"), "")
    with written(copy / FLAP, flap):
        before, _ = load(copy)
        with written(copy / "conditions/loose-cable.yaml", loose):
            after, problems = load(copy)
    assert problems == ()
    assert {one.condition for one in before.conditions["link-flap"].lookalikes_outside} == {"loose-cable"}
    assert "loose-cable" in {one.condition for one in after.conditions["link-flap"].lookalikes}
    assert not after.conditions["link-flap"].lookalikes_outside


@pytest.mark.parametrize(
    ("kind", "like", "new"),
    [
        ("conditions", "link-flap", "one-more"),
        ("signals", "wire.onset_lag", "wire.one_more"),
        ("mitigations", "isolate-link", "one-more"),
        ("sources", "wang2019gbn", "one_more"),
        ("symptoms", "link-down", "one-more"),
    ],
)
def test_adding_an_entry_touches_one_file(copy, kind, like, new):
    text = replaced(copy / f"{kind}/{like}.yaml", f"id: {like}", f"id: {new}").replace("_onset_lag]", "_one_more]")
    with written(copy / f"{kind}/{new}.yaml", text):
        found, problems = load(copy)
    assert problems == ()
    assert getattr(found, kind)[new].id == new


# What is damaged.


def test_a_damaged_entry_is_left_out_of_the_rest_and_told(copy):
    with written(copy / LOSS, replaced(copy / LOSS, "group: east-west", "group: nowhere")):
        found, problems = load(copy)
    assert [(p.file, p.field) for p in problems] == [(f"{copy}/{LOSS}", "group")]
    assert "fabric-loss" not in found.conditions
    assert "tp-straggler" in found.conditions


def test_an_id_of_a_file_that_is_damaged_is_no_dangling_one(copy):
    with written(copy / STRAGGLER, "["):
        _, problems = load(copy)
    assert {p.file for p in problems} == {f"{copy}/{STRAGGLER}"}


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_folder_without_entries_is_no_catalogue(tmp_path, name):
    found, problems = load(tmp_path / name)
    assert [p.found for p in problems] == ["no catalogue"]
    assert not found.conditions


def test_a_catalogue_that_is_damaged_is_refused_with_all_its_faults(tmp_path):
    """In a process of its own, since the package's own catalogue is damaged there."""
    package = tmp_path / "skewscope" / "kb"
    shutil.copytree(builtin_folder(), package, ignore=shutil.ignore_patterns("__pycache__"))
    (package.parent / "__init__.py").touch()
    (package / LOSS).write_text(replaced(package / LOSS, "kind: cause", "kind: cuase"))
    (package / LAG).write_text("[")
    script = (
        "from skewscope.kb import loader\n"
        f"assert loader.__file__.startswith({str(tmp_path)!r})\n"
        "try: loader.catalogue()\n"
        "except loader.InputError as error: print(*error.problems, sep='\\n')\n"
    )
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60, env=env, cwd=tmp_path
    )
    assert [line.split(": ")[0] for line in done.stdout.splitlines()] == [f"kb/{LOSS}:8", f"kb/{LAG}:1"]


# Files that are no entries.


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_among_the_entries_is_told_and_not_waited_for(copy):
    pipe = copy / "signals/endless.yaml"
    os.mkfifo(pipe)
    try:
        _, problems = load(copy)
    finally:
        pipe.unlink()
    assert [p.file for p in problems] == [str(pipe)]


def test_a_folder_named_like_an_entry_is_told(copy):
    folder = copy / "signals/folder.yaml"
    folder.mkdir()
    try:
        _, problems = load(copy)
    finally:
        folder.rmdir()
    assert [p.file for p in problems] == [str(folder)]


def test_a_file_too_large_for_an_entry_is_not_read(copy):
    with written(copy / LOSS, "#" * (entry_store.MAX_BYTES + 1)):
        _, problems = load(copy)
    assert [(p.file, p.found) for p in problems] == [(f"{copy}/{LOSS}", f"{entry_store.MAX_BYTES + 1} bytes")]


def test_bytes_that_are_no_text_are_told_with_their_line(copy):
    with written(copy / LOSS, b"id: fabric-loss\nname: \xff\xfe\n"):
        _, problems = load(copy)
    assert [(p.line, p.field) for p in problems] == [(2, "byte 22")]
    assert "UTF-8" in problems[0].found


def test_a_file_that_vanishes_is_told(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "gone.yaml")


def test_a_file_larger_than_any_is_refused_by_its_size(tmp_path):
    path = tmp_path / "x.yaml"
    with path.open("wb") as file:
        file.truncate(yamlfile.MAX_BYTES + 1)
    with pytest.raises(InputError, match="at most"):
        read(path)


# The reader of YAML.


def faults(call: Callable[..., object], *given: object) -> tuple[Problem, ...]:
    """The problems that a call raises; anything else that it raises fails the test."""
    with suppress(InputError):
        call(*given)
        return ()
    with pytest.raises(InputError) as caught:
        call(*given)
    return caught.value.problems


HOSTILE = {
    "an empty hexadecimal of thousands of digits": "a: 0x" + "f" * 5000,
    "an octal of thousands of digits": "a: 0" + "7" * 9000,
    "sexagesimals without end": "a: " + ":".join(["1"] * 300) + ".5",
    "an empty whole number": 'a: !!int ""',
    "an empty number": 'a: !!float ""',
    "a truth that is none": "a: !!bool maybe",
    "a time that is none": "a: !!timestamp soon",
    "a thirteenth month": "a: 2001-13-01",
    "a zone beyond the world": "a: 2001-01-01 00:00:00 +99:99",
    "an object": "a: !!python/object/apply:os.system [true]",
    "a merge": "a: {<<: {b: 1}}",
    "half a character": 'a: "\\ud800"',
    "half a character outright": "a: \ud800",
    "a zero byte": "a: \x00",
    "brackets without end": "a: " + "[" * 5000,
    "dashes without end": "- " * 3000 + "x",
    "braces without end": "{a: " * 3000,
    "a key that is a mapping": "? {a: 1}\n: 2\n",
    "an alias": "a: &x [1]\nb: *x\n",
    "an alias of itself": "a: &x [*x]\n",
    "a key twice": "a: 1\na: 2\n",
    "two documents": "---\na: 1\n---\nb: 2\n",
    "a value that stands for a value": "a: =",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_no_entry_needs_is_refused_with_its_line(what):
    with pytest.raises(InputError) as caught:
        parse("# the first line\n" + HOSTILE[what], "x.yaml")
    (problem,) = caught.value.problems
    assert problem.file == "x.yaml"
    assert problem.line >= 2
    assert problem.expected == "one YAML document"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", None),
        ("# nothing\n", None),
        ("a: 1", {"a": 1}),
        ("\ufeffa: 1", {"a": 1}),
        ("a: é", {"a": "é"}),
        ("a: ! 5", {"a": 5}),
        ("a: [[[[[[[[[[]]]]]]]]]]", {"a": [[[[[[[[[[]]]]]]]]]]}),
    ],
)
def test_plain_text_is_read(text, data):
    assert parse(text).data == data


def test_every_field_knows_its_line():
    document = parse("a:\n- b: 1\n  c: [x,\n    y]\nd: 2\n")
    assert [document.line(*path) for path in (("a",), ("a", 0, "b"), ("a", 0, "c", 1), ("d",))] == [1, 2, 4, 5]
    assert document.line("a", 0, "c", 7) == 3
    assert document.line("nowhere") == 1


TROUBLE = "ab:-[]{}&*!|>'\"\n\t #?,%@`0159.~=<é\x00\x85\u2028\ud800"


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=TROUBLE, max_size=60) | st.text(max_size=40))
@example("!!int ''")
def test_no_text_makes_the_reader_raise_anything_but_problems(text):
    problems = faults(parse, text, "x.yaml")
    assert all(p.file == "x.yaml" and p.line >= 0 for p in problems)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80) | st.text(alphabet=TROUBLE.replace("\ud800", ""), max_size=80).map(str.encode))
def test_no_bytes_make_reading_a_file_raise_anything_but_problems(tmp_path, content):
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    assert all(p.file == str(path) for p in faults(read, path))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**60), 10**60) | st.floats(width=32) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc<=é", max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["id", "unit", "type", "vantage", "sources", "scale", "range", "bits", "window", "note", "x"])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A catalogue of one signal, which is soon loaded."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "signals").mkdir()
    return shutil.copy(builtin_folder() / LAG, folder / LAG)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(FIELDS, VALUES, max_size=3))
@example({"range": [0, 10**60]})
@example({"bits": {"a": 10**60}})
@pytest.mark.slow
def test_no_values_in_an_entry_make_loading_raise_anything(small, values):
    """Written as flow style, which YAML shares with JSON but for what is no number there."""
    path = Path(small)
    kept = [line for line in (builtin_folder() / LAG).read_text().splitlines() if line.split(":")[0] not in values]
    added = [f"{name}: {flow(value)}" for name, value in values.items()]
    with written(path, "\n".join([*kept, *added]).encode("utf-8", "replace")):
        found, problems = load(path.parent.parent)
    assert problems or "wire.onset_lag" in found.signals
    assert all(p.file == str(path) and p.line > 0 for p in problems)


def flow(value: object) -> str:
    """A value as YAML writes it in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(str(k))}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(c if c.isalnum() else f"\\U{ord(c):08x}" for c in value) + '"'
    if value is None or isinstance(value, bool):
        return {None: "~", True: "true", False: "false"}[value]
    return str(value).replace("inf", ".inf").replace("nan", ".nan")
