"""The check of a target by hand: what it prints, and that it changes nothing."""

import asyncio
import json
from dataclasses import replace

import pytest

from skewscope.adapters.actions import check
from skewscope.adapters.actions.check import check_target
from skewscope.adapters.targets.common.settings import TargetSettings
from skewscope.adapters.targets.haproxy import HaproxySettings, HaproxyTarget
from skewscope.engine.actions.change import DEWEIGHT, DRAIN, EVICT
from tests.adapters.targets.test_kubernetes import make_target, running_cluster
from tests.adapters.targets.test_llm_d import make_target as make_file_target
from tests.support.loopback import Says
from tests.support.target_traffic import HANGS, scripted_server


def test_each_change_is_rendered_and_checked_by_the_server_and_none_is_made():
    with running_cluster() as (target, cluster):
        before = json.dumps([list(cluster.nodes.values()), list(cluster.pods.values())])
        lines = asyncio.run(check_target(target))
        assert json.dumps([list(cluster.nodes.values()), list(cluster.pods.values())]) == before
        assert all(line.ok for line in lines)
        changes = [(line.member, line.kind, line.step) for line in lines if line.kind]
        assert changes[:4] == [
            ("gpu-0", DEWEIGHT, "render"),
            ("gpu-0", DEWEIGHT, "dry run"),
            ("gpu-0", DRAIN, "render"),
            ("gpu-0", DRAIN, "dry run"),
        ]
        assert changes.count(("gpu-0", EVICT, "dry run")) == 4
        writes = [path for method, path in cluster.calls if method != "GET"]
        assert writes
        assert all("dryRun=All" in path for path in writes)
        evictions = next(line.text for line in lines if line.kind == EVICT)
        assert "skewscope.io/evict" in evictions
        assert "it moves no pod back" in evictions


def test_what_the_server_refuses_in_a_dry_run_is_a_line():
    with running_cluster() as (target, cluster):
        cluster.budgets["llm"] = 0
        lines = asyncio.run(check_target(target, ["gpu-1", "gpu-9"]))
        refused = [line for line in lines if not line.ok]
        assert [(line.member, line.step) for line in refused] == [("gpu-1", "dry run"), ("gpu-9", "state")]
        assert "disruption budget" in refused[0].text


def test_a_target_without_a_dry_run_is_only_rendered(tmp_path):
    target = make_file_target(tmp_path)
    text = (tmp_path / "endpoints.yaml").read_text()
    lines = asyncio.run(check_target(target))
    assert {line.step for line in lines} == {"work", "state", "render"}
    assert "drained" in next(line.text for line in lines if line.step == "render")
    assert (tmp_path / "endpoints.yaml").read_text() == text


@pytest.mark.parametrize("page", [Says(401, b'{"message": "Unauthorized"}'), Says(500), b"", HANGS])
def test_a_server_without_a_usable_answer_is_a_line(page):
    with scripted_server([page]) as url:
        (line,) = asyncio.run(check_target(make_target(url)))
    assert (line.step, line.ok) == ("state", False)


def test_a_missing_target_is_a_line(tmp_path):
    target = HaproxyTarget(HaproxySettings(TargetSettings("front", (("r0", "w0"),)), str(tmp_path / "none"), "be"))
    (line,) = asyncio.run(check_target(target))
    assert "No such file" in line.text


def test_the_number_of_members_and_the_time_are_bounded(tmp_path, monkeypatch):
    target = make_file_target(tmp_path)
    monkeypatch.setattr(check, "MAX_MEMBERS", 2)
    lines = asyncio.run(check_target(target))
    assert {line.member for line in lines} == {"", "vllm-0", "vllm-1"}
    assert lines[-1].step == "limit"
    monkeypatch.setattr(check, "MAX_TIME", 0.2)
    with scripted_server([HANGS]) as url:
        slow = make_target(url)
        api = replace(slow.settings.api, options=replace(slow.settings.api.options, timeout=9.0))
        slow.settings = replace(slow.settings, api=api, common=replace(slow.settings.common, timeout=9.0))
        (line,) = asyncio.run(check_target(slow))
    assert (line.step, line.ok) == ("limit", False)
