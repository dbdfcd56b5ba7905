"""Kubernetes: the very requests that a real API server accepted or refused, and its answers, replayed."""

import asyncio
import json

import pytest

from tests.support.kube_recording import RECORDED, SCENES, replayed_api


async def nothing(_method: str, _path: str, _body: object) -> None:
    """What somebody else did when the scene was recorded is in the answers."""


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_is_played_as_it_was_recorded(scene):
    with replayed_api(scene) as url:
        asyncio.run(SCENES[scene](url, nothing))


def test_the_recording_holds_the_refusals_of_a_real_server():
    found = json.loads(RECORDED.read_text())
    assert found["server"].startswith("v1.")
    exchanges = [each for scene in found["scenes"].values() for each in scene]
    statuses = {(each["request"]["method"], each["status"]) for each in exchanges}
    wanted = {
        ("PATCH", 200),
        ("PATCH", 409),
        ("PATCH", 422),
        ("POST", 201),
        ("POST", 404),
        ("POST", 409),
        ("POST", 429),
    }
    assert wanted <= statuses
    dry = [each for each in exchanges if "dryRun=All" in each["request"]["path"]]
    assert {each["request"]["method"] for each in dry} == {"PATCH", "POST"}
