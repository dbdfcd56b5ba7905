"""Shards on a real Ray: they come back by themselves, and a controller that comes later finds them."""

import importlib.util
import os
import signal
import time

import pytest

from skewscope.adapters.agent.push import PushSender
from skewscope.adapters.fleet.fleet_settings import FleetSettings
from skewscope.adapters.fleet.ray_shards import RayShards, connect_ray
from skewscope.adapters.fleet.shard_host import ShardPlan
from skewscope.adapters.fleet.shard_pool import Confirmation
from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame, decode
from skewscope.adapters.runtime.channel import ControllerEndpoint
from skewscope.kb.problems import SkewscopeError
from tests.adapters.fleet.shards import demo_rows, demo_topology
from tests.adapters.fleet.test_fleet_controller import config

HAS_RAY = importlib.util.find_spec("ray") is not None
NAME = "shard0001"
PATIENCE = 60.0


@pytest.mark.skipif(HAS_RAY, reason="Ray is here")
def test_without_ray_a_fleet_says_what_to_install():
    with pytest.raises(SkewscopeError, match="fleet"):
        connect_ray("local")


class Shards:
    """One shard on Ray, and what is heard of it."""

    def __init__(self, folder):
        topology = demo_topology()
        self.settings = FleetSettings(folder / "shards", "local", cpus=0.1)
        self.config = config(folder, topology)
        self.plans = {NAME: ShardPlan(NAME, topology, folder / "shards" / NAME)}
        self.heard, self.changes = Confirmation(), []
        self.connect()

    def connect(self):
        self.pool = RayShards(self.settings, self.config)
        self.pool.start(self.plans)

    def wait(self, wanted):
        """Returns the first report of which something is true, and the seconds until it came."""
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE:
            report = self.pool.poll({NAME: self.heard}).get(NAME)
            if report is not None:
                new = [tick for tick in report.ticks if tick.number > self.heard.number]
                self.changes += [change for tick in new for change in tick.changes]
                self.heard = Confirmation(max([self.heard.number, *(tick.number for tick in new)]), report.life)
                if wanted(report):
                    return report, time.monotonic() - begun
            time.sleep(0.05)
        raise TimeoutError

    def pid(self):
        return self.pool._ray.get(self.pool.actors[NAME].identify.remote())[0]


@pytest.fixture
def shards(tmp_path):
    found = Shards(tmp_path)
    yield found
    found.pool.stop()
    found.pool.close()


@pytest.mark.slow
@pytest.mark.skipif(not HAS_RAY, reason="needs the extra fleet")
def test_a_killed_actor_comes_back_with_what_it_knew(shards):
    first, _ = shards.wait(lambda report: report.last_number >= 1)
    node, body = demo_rows()[0][1][0]
    frames = list(decode(body))
    keys = list(frames[1].series)
    row = next(frame for frame in frames if isinstance(frame, RowFrame))
    for sent in range(3):
        report, _ = shards.wait(lambda report: bool(report.url))
        sender = PushSender(ControllerEndpoint(report.url), HelloFrame(node, "b", "t"), 1 << 24)
        sender.add(RowFrame(sent, time.time(), 0, row.values), keys)
        # The series are announced again only where the shard asks for it.
        while sender.backlog.rows:
            sender.send_batch()
        number, url = shards.wait(lambda _: True)[0].last_number, report.url
        os.kill(shards.pid(), signal.SIGKILL)
        again, _ = shards.wait(lambda report, url=url, number=number: report.url != url and report.last_number > number)
        assert again.life == first.life
        assert [one[0] for one in again.agents] == [node]
    # A controller that starts again finds the same actor.
    pid = shards.pid()
    shards.connect()
    assert shards.pid() == pid
