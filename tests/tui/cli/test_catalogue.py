"""The commands of the catalogue."""

import json
import shutil
import subprocess

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from skewscope.adapters.inputs.recording import demo_path
from skewscope.kb.entry_kinds import builtin_version
from skewscope.kb.loader import catalogue
from skewscope.tui.cli.main import cli
from tests.support.kb_damage import copied, replaced, written


def run(*words, code=0):
    """Returns the output of a command, or its errors if it could not run."""
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stderr if code == 2 else done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return copied(tmp_path_factory.mktemp("cli"))


# The questions that a reader comes with, each answered by one command.


def test_which_conditions_a_dpu_at_the_front_end_can_see():
    found = {one["id"] for one in json.loads(run("kb", "list", "--seen-by", "dpu-front-end", "--json"))}
    assert found == {c.id for c in catalogue().conditions.values() if c.visibility("dpu-front-end") != "not_visible"}
    assert "tp-straggler" not in found
    assert "burst-admission-backlog" in found


def test_look_alikes_of_a_straggler_are_listed_with_their_tests():
    shown = run("kb", "show", "tp-straggler")
    part = shown.split("What you see, then it is\n")[1].split("\n\n")[0]
    for look in catalogue().conditions["tp-straggler"].lookalikes:
        assert look.condition in part
    assert "marks" in part


def test_the_front_page_and_the_ranking_answer_the_three_questions():
    front = run("kb")
    assert f"{len(catalogue().conditions)} conditions" in front
    assert "skewscope kb search why are my tokens jittery" in front
    ranked = json.loads(run("kb", "rank", "--json"))
    assert {row["condition"] for row in ranked} == set(catalogue().conditions)
    assert ranked[0]["grade"] == "A"
    helps = json.loads(run("kb", "rank", "--by", "helps", "--where", "group=pcie", "--json"))
    assert {catalogue().conditions[row["condition"]].group for row in helps} == {"pcie"}
    assert [row["helps"] for row in helps] == sorted(
        (row["helps"] for row in helps), key=["itself", "part", "no"].index
    )
    text = run("kb", "rank")
    assert "…" not in text
    assert all(row["cost"].split()[-1] in text for row in ranked if row["cost"])


def test_a_condition_is_explained_by_what_to_know_first_and_in_full_with_all():
    short, whole = run("explain", "egress-jitter"), run("explain", "egress-jitter", "--all")
    order = ["costs ", "DPU sees ", "DPU helps ", "What you see, then it is", "What to do", "skewscope explain egress"]
    assert [short.index(each) for each in order] == sorted(short.index(each) for each in order)
    assert len(short.splitlines()) < 45
    for each in ("Causes\n", "Signals\n", "Visibility from a DPU\n", "Reported measurements\n"):
        assert each not in short
        assert each in whole


def test_claims_about_kv_transfer_name_their_sources():
    told = run("kb", "claims", "kv", "transfer")
    assert "1.13 GB" in told
    assert "arXiv:2401.09670" in told
    assert "seen: full text" in told


def test_mitigations_of_incast_are_listed_with_their_risks():
    shown = run("kb", "show", "incast-all-to-all")
    part = shown.split("Mitigations\n")[1].split("Reported measurements")[0]
    for id_ in catalogue().conditions["incast-all-to-all"].mitigations:
        assert id_ in part
    assert "risk: " in part
    assert "undo: " in part
    assert "from a DPU: " in part


def test_a_symptom_is_shown_with_the_signals_that_show_it():
    shown = run("kb", "show", "slow-steps")
    assert "peers: late-member" in shown
    assert "step.compute_time" in shown
    assert "slow-steps" in run("kb", "list", "symptoms")


def test_a_signal_is_shown_with_how_it_is_judged():
    shown = run("kb", "show", "gpu.sm_clock")
    for text in ("capacity", "down", "past, peers", "20 %", "gpu.util", "lost-clock"):
        assert text in shown
    assert json.loads(run("kb", "show", "gpu.sm_clock", "--json"))["judged"]["least"] == 0.2


def test_the_bibtex_of_everything_about_pfc():
    found = run("kb", "export", "--format", "bibtex", "--about", "pfc")
    assert "{guo2016rdma," in found
    assert found.count("\n@") + 1 < len(catalogue().sources) / 4


# Every command.


def test_a_list_is_narrowed_by_fields():
    found = json.loads(run("kb", "list", "--where", "group=pcie", "--where", "grade=A", "--json"))
    assert found
    assert all((one["group"], one["grade"]) == ("pcie", "A") for one in found)
    assert "'gruop'" in run("kb", "list", "--where", "gruop=pcie", code=2)
    assert "FIELD=VALUE" in run("kb", "list", "--where", "group", code=2)
    assert "conditions" in run("kb", "list", "signals", "--seen-by", "dpu-relayed", code=2)


def test_the_matrix_has_a_row_for_every_condition():
    rows = json.loads(run("kb", "matrix", "--json"))
    assert {row["condition"] for row in rows} == set(catalogue().conditions)
    assert all(len(row["seen"]) == 4 and row["dpu"] in ("no", "part", "itself") for row in rows)
    text = run("kb", "matrix", "--where", "group=pcie")
    assert "h2d-starvation" in text
    assert "tp-straggler" not in text


@pytest.mark.parametrize("form", ["dot", "mermaid", "json"])
def test_the_graph_is_drawn_whole_and_around_a_condition(form, tmp_path):
    whole, part = run("kb", "graph", "--format", form), run("kb", "graph", "tp-straggler", "--format", form)
    assert len(part) < len(whole) / 2
    assert run("kb", "graph", "--format", form, "-o", tmp_path / "graph") == ""
    assert (tmp_path / "graph").read_text() == whole
    assert "Did you mean 'tp-straggler'?" in run("kb", "graph", "tp-stragler", code=2)


def test_the_exported_document_matches_its_published_schema():
    document, schema = (json.loads(run("kb", "export", "--format", form)) for form in ("json", "schema"))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)
    assert len(document["conditions"]) == len(catalogue().conditions)
    assert document["version"] == builtin_version()


def test_pages_are_written_into_a_folder(tmp_path):
    run("kb", "export", "--format", "markdown", "-o", tmp_path)
    assert "tp-straggler-on-the-wire" in (tmp_path / "conditions/tp-straggler.md").read_text()
    assert (tmp_path / "graph.svg").read_text().startswith("<svg")
    assert "folder" in run("kb", "export", "--format", "markdown", code=2)


def test_prometheus_takes_the_skeleton(tmp_path):
    (tmp_path / "rules.yaml").write_text(run("kb", "export", "--format", "prometheus", "--exporter", "dcgm"))
    assert "DCGM_FI_" in (tmp_path / "rules.yaml").read_text()
    assert "Did you mean 'dcgm'?" in run("kb", "export", "--format", "prometheus", "--exporter", "dcgn", code=2)
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    command = ["promtool", "check", "rules", "rules.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_options_that_do_not_fit_the_format_are_rejected():
    assert "--about requires" in run("kb", "export", "--about", "pfc", code=2)
    assert "--exporter requires" in run("kb", "export", "--exporter", "dcgm", code=2)
    assert "no source that mentions" in run("kb", "export", "--format", "bibtex", "--about", "zzqq", code=2)


@pytest.mark.parametrize("kind", ["condition", "signal", "mitigation", "source", "finding", "symptom"])
def test_a_new_entry_is_linted_and_never_overwritten(copy, kind):
    id_ = "wire.brand_new" if kind == "signal" else "brand_new" if kind == "source" else "brand-new"
    path = copy / f"{kind}s/{id_}.yaml"
    try:
        assert str(path) in run("kb", "new", kind, id_, "--folder", copy)
        gaps = [line for line in run("kb", "lint", copy, code=1).splitlines() if f"{id_}.yaml:" in line]
        assert len(gaps) > 3
        before = path.read_text()
        assert "an unused id" in run("kb", "new", kind, id_, "--folder", copy, code=2)
        assert path.read_text() == before
    finally:
        path.unlink(missing_ok=True)
    assert "like" in run("kb", "new", kind, "Not An Id", "--folder", copy, code=2)


def due():
    """Returns the required version after a text or a value changed."""
    major, minor, patch = catalogue().version.split(".")
    return f"{major}.{minor}.{int(patch) + 1}"


def test_changes_between_two_versions_are_listed_with_the_required_version(copy, tmp_path):
    assert "No changes" in run("kb", "changes", copy)
    straggler = copy / "conditions/tp-straggler.yaml"
    with written(straggler, replaced(straggler, "name: Tensor", "name: The tensor")):
        told = run("kb", "changes", copy, code=1)
    assert "tp-straggler (condition): name" in told
    assert due() in told
    old = tmp_path / "old.json"
    run("kb", "export", "-o", old)
    found = json.loads(run("kb", "changes", old, "--json"))
    assert (found["level"], found["entries"]) == ("nothing", [])


def test_a_version_that_rose_enough_is_well(copy, tmp_path):
    wang = copy / "sources/wang2019gbn.yaml"
    run("kb", "export", "-o", tmp_path / "old.json")
    with (
        written(copy / "catalogue.yaml", f"version: {due()}\n"),
        written(wang, replaced(wang, "year: 2019", "year: 2018")),
    ):
        told = run("kb", "changes", tmp_path / "old.json", copy)
    assert "wang2019gbn (source): year" in told
    assert "a patch change" in told


def test_coverage_answers_for_the_exporters_that_are_there():
    found = json.loads(run("coverage", "--source", "vllm", "--source", "dcgm", "--json"))
    judged = {one["condition"]: one["verdict"] for one in found["conditions"]}
    assert set(judged) == set(catalogue().conditions)
    assert judged["kv-capacity-preemption-thrash"] == "full"
    assert judged["fabric-congestion"] == "blind"
    assert found["unlocks"]


def test_coverage_of_a_topology_names_the_most_useful_signal():
    topology = demo_path() / "topology.yaml"
    alone = json.loads(run("coverage", "--topology", topology, "--json"))
    with_engines = json.loads(run("coverage", "--topology", topology, "--source", "vllm", "--json"))
    blind = [sum(one["verdict"] == "blind" for one in found["conditions"]) for found in (alone, with_engines)]
    assert blind[1] < blind[0] < len(catalogue().conditions)
    assert "Most useful further signals" in run("coverage", "--topology", topology)


def test_coverage_is_not_asked_in_two_ways_at_once():
    assert "Did you mean 'vllm'?" in run("coverage", "--source", "vlm", code=2)
    assert "--replay, or" in run("coverage", "--replay", "x", "--source", "vllm", code=2)
