"""The page on a site's own knowledge: its folder, its commands, its messages; and a controller that reloads it."""

import json
import os
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from skewscope.adapters.config.site_knowledge import load_knowledge
from skewscope.adapters.controller import config, process
from skewscope.adapters.controller.audit import AuditFilter
from skewscope.adapters.controller.engine_change import PreparedEngine
from skewscope.adapters.fleet.shard_host import ShardHost
from skewscope.adapters.mapping.names import MetricResolver
from skewscope.engine.model.topology import Topology
from skewscope.kb.known_events import known_events
from skewscope.kb.loader import catalogue, installed_catalogue
from skewscope.kb.problems import InputError
from skewscope.kb.site_files import FOLDERS, KNOWLEDGE_VARIABLE, MAPPING_FILE, read_site_files
from skewscope.rules.loader import RULES_FOLDER, load_builtin
from skewscope.rules.policy import load_in_use
from skewscope.tui.cli.main import cli
from tests.adapters.fleet.shards import StillClock
from tests.adapters.fleet.test_shard_host import plan
from tests.support.still_controller import play

PAGE = Path(__file__).resolve().parent.parent / "docs" / "site-knowledge.md"
FILES = dict(re.findall(r"```yaml\n# site/(\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
RULE = "coolant-valve-half-open-at-a-node"
RULE_FILE = f"rules/{RULE}.yaml"


def block(name):
    """Returns what the page shows between two marks, without its indent."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", PAGE.read_text(), re.DOTALL)[1]
    return without_version(re.sub(r"^    ", "", found, flags=re.MULTILINE))


def without_version(text):
    return re.sub(r"\d+\.\d+\.\d+\+site", "N+site", text)


def write_cooling(path, step=13.0):
    draw, rows = random.Random(1), ["time,machine,cdu_return_celsius"]
    for n in range(60):
        warmer = step if n >= 30 else 0.0
        values = [45 + 2 * draw.random() + (warmer if node == 2 else 0.0) for node in range(4)]
        rows += [f"{1764400000 + 10 * n},n{node},{value:.2f}" for node, value in enumerate(values)]
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Returns the folder of the page, in the folder in which the commands are run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KNOWLEDGE_VARIABLE, "")
    for name, text in FILES.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "site"


def run(*words):
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    return done.exit_code, without_version(re.sub(r"\S*/site\b", "site", done.output))


def problems_of(site):
    with pytest.raises(InputError) as caught:
        load_knowledge(site)
    return re.sub(rf"{re.escape(str(site.parent.resolve()))}/", "", str(caught.value))


def edit(site, name, before, after):
    text = (site / name).read_text()
    assert before in text
    (site / name).write_text(text.replace(before, after))


def test_the_folder_of_the_page_is_sound_and_its_cases_pass(site):
    assert run("knowledge", "check", "site") == (0, block("check"))


def test_telemetry_is_diagnosed_by_the_rule_of_the_page(site):
    write_cooling(site.parent / "cooling.csv")
    code, answer = run("diagnose", "cooling.csv", "--knowledge", "site")
    assert code == 1
    title = "Half-open coolant valve on n2"
    assert title in answer
    assert f"*{title}*" in PAGE.read_text()
    incident = json.loads(run("diagnose", "cooling.csv", "--knowledge", "site", "--json")[1])
    assert [(each["id"], each["why"]) for each in incident["mitigations"]] == [
        ("quarantine-node", "n2 cannot be cooled until its connector is pressed home.")
    ]
    assert not os.environ[KNOWLEDGE_VARIABLE]
    assert run("diagnose", "cooling.csv")[0] == 3  # without it, the metric is not known


def test_healthy_telemetry_is_silent(site):
    write_cooling(site.parent / "cooling.csv", step=4.0)
    assert run("diagnose", "cooling.csv", "--knowledge", "site")[0] == 0


def test_an_incident_names_the_version_of_the_knowledge(site):
    write_cooling(site.parent / "cooling.csv")
    code, line = run("diagnose", "cooling.csv", "--knowledge", "site", "--json")
    version = f"N+site.{read_site_files(site).fingerprint}"
    assert code == 1
    assert f'"catalogue": "{version}"' in line


def test_the_variable_serves_commands_without_the_option(site, monkeypatch):
    monkeypatch.setenv(KNOWLEDGE_VARIABLE, str(site))
    assert "Half-open coolant valve" in run("kb", "show", "coolant-valve-half-open")[1]
    assert run("rules", "test", RULE, "--folder", "site/rules")[0] == 0


def test_a_misspelt_signal_is_reported_as_on_the_page(site):
    edit(site, RULE_FILE, "mean(cooling.return_temperature, 30*s) -", "mean(cooling.return_temprature, 30*s) -")
    assert problems_of(site) == block("problem").strip()


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        ("mapping.yaml", "cooling.return_temperature", "cooling.flow", "mapping.yaml:4: metrics[0].signal"),
        ("policies/quarantine-node-with-half-open-valve.yaml", "quarantine-node\n", "pray\n", "'pray'"),
        ("conditions/coolant-valve-half-open.yaml", "[quarantine-node]", "[quarantine-nodes]", ":19: mitigations[0]"),
        ("signals/cooling.return_temperature.yaml", "unit: Cel", "unit: Celsius", "unit"),
        ("events/cdu-leak-alarm.yaml", '"coolant leak', '"coolant <where> leak', "<where>"),
        (RULE_FILE, "id: coolant", "id: collant", "The id is the name of the file."),
        (RULE_FILE, "scope: node", "scope: knot", "scope"),
    ],
)
def test_a_faulty_file_is_named_with_its_line(site, name, before, after, said):
    edit(site, name, before, after)
    found = problems_of(site)
    assert f"site/{name}:" in found
    assert said in found


def test_all_faulty_files_are_reported_at_once(site):
    edit(site, "mapping.yaml", "cooling.return_temperature", "cooling.flow")
    edit(site, RULE_FILE, "8*Cel", "8*s")
    assert {line.partition(":")[0] for line in problems_of(site).splitlines()} == {
        "site/mapping.yaml",
        f"site/{RULE_FILE}",
    }


@pytest.mark.parametrize("name", ["rule/x.yaml", "rules/deep/x.yaml", "mappings.yaml", "rules/x.yml"])
def test_a_file_that_nothing_reads_is_an_error(site, name):
    (site / name).parent.mkdir(exist_ok=True)
    (site / name).write_text("id: x\n")
    assert name.split("/")[0] in problems_of(site)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a: [", b"- 1\n"])
def test_bytes_that_are_no_entry_are_an_error(site, content):
    (site / RULE_FILE).write_bytes(content)
    assert RULE_FILE in problems_of(site)


def test_an_empty_or_missing_folder_is_an_error(tmp_path):
    assert "no file of knowledge" in problems_of(tmp_path)
    assert "No such file" in problems_of(tmp_path / "nowhere")


def test_links_as_kubernetes_mounts_them_are_read(site):
    (site / "..data").mkdir()
    for name in ("rules", MAPPING_FILE):
        (site / name).rename(site / "..data" / name)
        (site / name).symlink_to(f"..data/{name}")
    assert load_knowledge(site).files.ids["rules"] == (RULE,)
    assert MAPPING_FILE in load_knowledge(site).files.texts


def test_the_fingerprint_follows_every_file(site):
    before = read_site_files(site).fingerprint
    edit(site, RULE_FILE, "8*Cel", "9*Cel")
    assert read_site_files(site).fingerprint != before
    edit(site, RULE_FILE, "9*Cel", "8*Cel")
    assert read_site_files(site).fingerprint == before


def test_a_rule_with_the_id_of_an_installed_one_stands_in_its_place(site):
    name = "dataloader-stall-in-the-steps"
    text = (RULES_FOLDER / f"{name}.yaml").read_text()
    (site / "rules" / f"{name}.yaml").write_text(re.sub(r"fire: \{score: [\d.]+", "fire: {score: 77", text))
    known = load_knowledge(site).catalogue
    rules, problems = load_builtin(known)
    installed, _ = load_builtin(installed_catalogue())
    assert not problems
    assert rules.keys() == installed.keys() | {RULE}
    assert rules[name].fire.score == 77
    others = rules.keys() - {name, RULE}
    assert all(rules[id_].hash == installed[id_].hash for id_ in others)


def test_rules_that_an_entry_in_place_of_an_installed_one_breaks_are_reported(site):
    text = (RULES_FOLDER.parent / "kb" / "signals" / "gpu.temperature.yaml").read_text()
    (site / "signals" / "gpu.temperature.yaml").write_text(text.replace("unit: Cel", "unit: W"))
    assert "rules/gpu-thermal-throttle" in problems_of(site)


def test_policies_of_the_site_are_among_all(site):
    policies, problems = load_in_use(load_knowledge(site).catalogue)
    assert not problems
    assert "quarantine-node-with-half-open-valve" in {policy.id for policy in policies}


def test_the_mapping_of_the_site_counts_in_every_source(site):
    names = MetricResolver(load_knowledge(site).catalogue, Topology())
    assert names.find_signals("cdu_return_celsius") == {"cooling.return_temperature"}
    assert names.translate("cdu_return_celsius", {"machine": "n1"}).labels == {"node": "n1"}


def test_every_folder_is_one_that_the_page_lists():
    assert all(f"`{folder}/`" in PAGE.read_text() for folder in FOLDERS)


# --- a controller

CONFIG = "version: 1\ntopology: topology.yaml\nlisten: {port: 0}\n"


@pytest.fixture
def path(site):
    (site.parent / "topology.yaml").write_text("version: 1\nnodes: [{name: n0}, {name: n1}]\n")
    (site.parent / "skewscope.yaml").write_text(f"{CONFIG}knowledge: site\n")
    return site.parent / "skewscope.yaml"


def engine_of(controller):
    return controller._active_pipeline.runtime.engine


def test_a_controller_judges_by_the_rules_of_the_site(path):
    async def test(controller, _):
        assert RULE in engine_of(controller).rules
        assert catalogue() is controller.catalogue
        assert known_events().find("cdu4: coolant leak detected")
        assert any("+site." in str(entry) for entry in controller.reader.audit_lines(AuditFilter(), 9))

    play(path, test)


def test_a_reload_takes_the_present_folder(path, site):
    async def test(controller, app):
        before = controller.catalogue.version
        edit(site, RULE_FILE, "score: 3", "score: 4")
        await process._reload(app, path)
        assert controller.catalogue.version != before
        assert engine_of(controller).rules[RULE].fire.score == 4
        assert catalogue() is controller.catalogue
        path.write_text(CONFIG)
        await process._reload(app, path)
        assert RULE not in engine_of(controller).rules
        assert catalogue() is installed_catalogue()

    play(path, test)


def test_other_policies_leave_the_windows_as_they_are(path, site):
    """The engine is another one and takes over what the one before knew; with other rules it begins anew."""

    async def test(controller, app):
        taken = []
        before = PreparedEngine.take_over
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PreparedEngine, "take_over", lambda *args: taken.append(1) or before(*args))
            edit(site, "policies/quarantine-node-with-half-open-valve.yaml", "priority: 20", "priority: 30")
            await process._reload(app, path)
            assert taken == [1]
            edit(site, RULE_FILE, "score: 3", "score: 4")
            await process._reload(app, path)
            assert taken == [1]

    play(path, test)


def test_a_reload_with_a_faulty_folder_changes_nothing(path, site, caplog):
    async def test(controller, app):
        engine, version = engine_of(controller), controller.catalogue.version
        edit(site, RULE_FILE, "8*Cel", "8*s")
        await process._reload(app, path)
        assert engine_of(controller) is engine
        assert controller.catalogue.version == version
        assert not controller.is_reloaded

    play(path, test)
    assert f"{RULE_FILE}:" in caplog.text


def test_a_reload_without_a_change_keeps_the_engine(path):
    async def test(controller, app):
        engine = engine_of(controller)
        await process._reload(app, path)
        assert engine_of(controller) is engine

    play(path, test)


def test_a_config_with_a_faulty_folder_is_refused_with_all_else(path, site):
    edit(site, RULE_FILE, "8*Cel", "8*s")
    path.write_text(path.read_text() + "nonsense: 1\n")
    with pytest.raises(InputError) as caught:
        config.read(path)
    assert "nonsense" in str(caught.value)


def test_a_shard_judges_by_the_files_that_its_controller_gives_it(site, tmp_path):
    files = read_site_files(site)
    bare = replace(files, folder="/nowhere/on/this/machine")
    host = ShardHost(plan(tmp_path, site=bare), StillClock())
    try:
        assert RULE in host.engine._rules
        assert host.engine.fingerprint != ShardHost(plan(tmp_path / "other"), StillClock()).engine.fingerprint
    finally:
        host.close()
