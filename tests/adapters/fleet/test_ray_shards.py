"""Shards on a real Ray: they come back by themselves, and a controller that comes later finds them."""

import importlib.util
import os
import pickle
import signal
import socket
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import zstandard

from skewscope.adapters.agent.push import PushSender
from skewscope.adapters.config.site_knowledge import SiteKnowledge
from skewscope.adapters.fleet import ray_shards
from skewscope.adapters.fleet.fleet_settings import FleetSettings
from skewscope.adapters.fleet.ray_shards import POLL_S, RayShards, connect_ray, pack_arguments
from skewscope.adapters.fleet.shard_host import ShardPlan
from skewscope.adapters.fleet.shard_pool import Confirmation
from skewscope.adapters.fleet.shard_server import ShardServer
from skewscope.adapters.formats.row_protocol import HelloFrame, RowFrame, decode
from skewscope.adapters.runtime.channel import ControllerEndpoint
from skewscope.engine.model.shards import shard_topologies
from skewscope.engine.model.topology import Node, Topology
from skewscope.kb.loader import catalogue
from skewscope.kb.problems import SkewscopeError
from skewscope.kb.site_files import SiteFiles
from tests.adapters.fleet.shards import demo_rows, demo_topology
from tests.adapters.fleet.test_fleet_controller import config, two_sites

pytestmark = pytest.mark.slow

HAS_RAY = importlib.util.find_spec("ray") is not None
NAME = "shard0001"
PATIENCE = 60.0


@pytest.mark.skipif(HAS_RAY, reason="Ray is here")
def test_without_ray_a_fleet_says_what_to_install():
    with pytest.raises(SkewscopeError, match="fleet"):
        connect_ray("local")


def test_arguments_travel_in_parts_that_ray_keeps_with_the_actor(tmp_path):
    nodes = tuple(Node(f"n{n}", rack=os.urandom(8).hex()) for n in range(5000))
    plan = ShardPlan(NAME, Topology(nodes), tmp_path)
    parts = pack_arguments(plan, config(tmp_path, demo_topology()), "::1")
    assert len(parts) > 1
    assert max(map(len, parts)) < 100_000
    assert pickle.loads(zstandard.decompress(b"".join(parts))) == (plan, config(tmp_path, demo_topology()), "::1")


def test_the_files_of_a_site_travel_and_its_catalogue_does_not(tmp_path):
    files = SiteFiles("site", {"rules/x.yaml": "id: x\n"})
    plan = ShardPlan(NAME, demo_topology(), tmp_path, site=files)
    given = replace(config(tmp_path, demo_topology()), knowledge=SiteKnowledge(files, catalogue()))
    sent, settings, _ = pickle.loads(zstandard.decompress(b"".join(pack_arguments(plan, given, "::1"))))
    assert sent.site == files
    assert settings.knowledge is None


def test_a_topology_that_ray_would_not_keep_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_shards, "MAX_PARTS", 0)
    with pytest.raises(SkewscopeError, match="fewer `nodes`"):
        pack_arguments(ShardPlan(NAME, demo_topology(), tmp_path), None, "")


class FakeRay:
    """Stands for Ray: actors that answer at once, never, or that could not be built."""

    class exceptions:  # noqa: N801 - as in Ray
        class RayError(Exception):
            pass

        class ActorDiedError(RayError):
            pass

    util = SimpleNamespace(list_named_actors=list)

    def __init__(self):
        self.answers, self.made, self.waits, self.resources = {}, [], [], []

    def remote(self, _class):
        return self

    def options(self, **given):
        self.made.append(given["name"])
        self.resources.append(given["resources"])
        asked = []

        def poll(*known):
            asked.append(known)
            return (given["name"], len(asked))

        call = SimpleNamespace(options=lambda max_task_retries: SimpleNamespace(remote=poll))
        return SimpleNamespace(remote=lambda *_: SimpleNamespace(poll=call))

    def wait(self, refs, num_returns, timeout):
        self.waits.append((len(refs), timeout))
        return [one for one in refs if self.answers.get(one[0]) != "never"], []

    def get(self, ref):
        answer = self.answers.get(ref[0], ref[1])
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def fake(tmp_path, monkeypatch):
    ray = FakeRay()
    monkeypatch.setattr(ray_shards, "connect_ray", lambda _: ray)
    pool = RayShards(FleetSettings(tmp_path / "shards"), None)
    pool.start({name: ShardPlan(name, demo_topology(), tmp_path / name) for name in ("s1", "s2")})
    return ray, pool, pool._names


def test_shards_of_a_site_run_on_the_machines_of_this_site(tmp_path, monkeypatch):
    ray = FakeRay()
    monkeypatch.setattr(ray_shards, "connect_ray", lambda _: ray)
    pool = RayShards(FleetSettings(tmp_path / "shards", sites={"b": "site_b"}), None)
    parts = shard_topologies(two_sites(), {node.name: node.fleet for node in two_sites().nodes})
    pool.start({name: ShardPlan(name, part, tmp_path / name) for name, part in sorted(parts.items())})
    assert [list(one) for one in ray.resources] == [["site_b"], []]


HEARD = {"s1": Confirmation(), "s2": Confirmation()}


def test_a_shard_that_does_not_answer_delays_only_the_poll_that_asked_it(fake):
    ray, pool, names = fake
    ray.answers = {names["s2"]: "never"}
    assert pool.poll(HEARD) == {"s1": 1}
    assert pool.poll(HEARD) == {"s1": 2}
    assert ray.waits == [(2, POLL_S), (2, 0), (1, POLL_S), (2, 0)]
    ray.answers = {}
    assert pool.poll(HEARD) == {"s1": 3, "s2": 1}


def test_an_actor_that_could_not_be_built_is_asked_for_again(fake):
    ray, pool, names = fake
    ray.answers = {names["s2"]: ray.exceptions.ActorDiedError("its folder is in use")}
    before = pool.actors["s2"]
    assert pool.poll(HEARD) == {"s1": 1}
    assert ray.made == [names["s1"], names["s2"], names["s2"]]
    assert pool.actors["s2"] is not before
    ray.answers = {names["s2"]: ray.exceptions.RayError("away")}
    pool.poll(HEARD)
    assert len(ray.made) == 3


def test_a_shard_listens_where_it_did_before_and_elsewhere_where_that_port_is_taken(tmp_path):
    plan = ShardPlan(NAME, demo_topology(), tmp_path / "shard")
    urls = []
    for _ in range(2):
        server = ShardServer(plan, config(tmp_path, demo_topology()))
        urls.append(server.poll(0).url)
        server.close()
    with socket.create_server(("127.0.0.1", int(urls[0].rpartition(":")[2]))):
        server = ShardServer(plan, config(tmp_path, demo_topology()))
        urls.append(server.poll(0).url)
        server.close()
    assert urls[0] == urls[1] != urls[2]


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
        again, _ = shards.wait(lambda report, number=number: report.last_number > number)
        # Its agents find it where it was.
        assert again.url == url
        assert again.life == first.life
        assert [one[0] for one in again.agents] == [node]
    # A controller that starts again finds the same actor.
    pid = shards.pid()
    shards.connect()
    assert shards.pid() == pid
