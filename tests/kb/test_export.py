"""The catalogue as one document, its schema, and the skeleton of Prometheus rules."""

import copy
import json
import re
import shutil
import subprocess

import pytest
import yaml
from jsonschema import Draft202012Validator

from skewscope.kb.changes import diff_catalogues
from skewscope.kb.entry_kinds import KINDS, builtin_folder
from skewscope.kb.export import document_schema, export_document, full_graph, prometheus_rules, read_document
from skewscope.kb.loader import catalogue, read_raw
from skewscope.kb.problems import InputError


@pytest.fixture(scope="module")
def text():
    return export_document(read_raw(builtin_folder()), full_graph(catalogue()))


@pytest.fixture(scope="module")
def found(text):
    return json.loads(text)


def test_the_document_has_every_entry_and_every_link(found):
    for kind in KINDS:
        known = getattr(catalogue(), kind).values()
        assert [entry["id"] for entry in found[kind]] == [one.id for one in known if f"/{kind}/" in one.file]
    assert found["version"] == catalogue().version
    assert len(found["graph"]["causes"]) > 20
    assert len(found["graph"]["lookalikes"]) > 20


def test_the_document_has_the_shape_that_its_schema_tells(found):
    Draft202012Validator.check_schema(document_schema())
    Draft202012Validator(document_schema()).validate(found)


def test_observability_is_exported_in_full_beside_same_as(found):
    seen = [one for entry in found["conditions"] for one in entry["observability"]]
    assert all(one["reason"] and one["basis"] and one["verdict"] for one in seen)
    assert any("same_as" in one for one in seen)


DAMAGE = {
    "no version": lambda d: d.pop("version"),
    "a version that is none": lambda d: d.update(version="one"),
    "a field more": lambda d: d.update(more=1),
    "a kind less": lambda d: d.pop("findings"),
    "an entry without its name": lambda d: d["conditions"][0].pop("name"),
    "an entry with a field more": lambda d: d["mitigations"][0].update(more=1),
    "an entry of another shape": lambda d: d["signals"].append({"id": "x"}),
    "a link of one": lambda d: d["graph"]["lookalikes"][0].update(conditions=["one"]),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_the_schema_knows_what_is_wrong(found, what):
    wrong = copy.deepcopy(found)
    DAMAGE[what](wrong)
    assert not Draft202012Validator(document_schema()).is_valid(wrong)


def test_what_was_exported_is_read_back_and_nothing_changed(tmp_path, text):
    path = tmp_path / "catalogue.json"
    path.write_text(text)
    between = diff_catalogues(read_document(path), read_raw(builtin_folder()))
    assert between.entries == ()
    assert between.is_version_sufficient


def test_an_older_document_can_be_compared_with(tmp_path, found):
    old = copy.deepcopy(found)
    old["schema"] = "urn:skewscope:kb:catalogue:1"
    del old["symptoms"]
    for signal in old["signals"]:
        del signal["judged"]
    path = tmp_path / "catalogue.json"
    path.write_text(json.dumps(old))
    between = diff_catalogues(read_document(path), read_raw(builtin_folder()))
    assert between.level == "minor"
    assert {change.id for change in between.entries if change.what == "added"} == set(catalogue().symptoms)
    assert {change.fields for change in between.entries if change.kind == "signals"} == {("judged",)}


@pytest.mark.parametrize("content", ["", "{}", "[]", "{", "[" * 5000, '{"schema": "another"}', "\x00"])
def test_what_is_no_export_is_refused(tmp_path, content):
    path = tmp_path / "catalogue.json"
    path.write_text(content)
    with pytest.raises(InputError, match=re.escape(str(path))):
        read_document(path)


@pytest.mark.parametrize("exporters", [(), ("vllm", "dcgm"), ("node_exporter",)])
def test_every_condition_with_a_signature_has_an_alert_that_never_fires_by_itself(exporters):
    groups = yaml.safe_load(prometheus_rules(catalogue(), exporters))["groups"]
    alerts = [rule for group in groups for rule in group["rules"]]
    assert len(alerts) == len([c for c in catalogue().conditions.values() if c.signature])
    assert all(re.fullmatch(r"[A-Z][A-Za-z0-9]*", rule["alert"]) for rule in alerts)
    terms = [term for rule in alerts for term in rule["expr"].strip().splitlines()]
    assert all("> +Inf" in term for term in terms)


def test_an_exporters_own_names_are_taken_where_it_has_them():
    assert "vllm:num_requests_waiting" in prometheus_rules(catalogue(), ("vllm",))
    assert "vllm:" not in prometheus_rules(catalogue())


@pytest.mark.parametrize("exporters", [(), ("vllm", "dcgm", "node_exporter")])
def test_prometheus_itself_takes_the_rules(tmp_path, exporters):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    path = tmp_path / "rules.yaml"
    path.write_text(prometheus_rules(catalogue(), exporters))
    command = ["promtool", "check", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
