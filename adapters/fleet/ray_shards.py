"""Shards as Ray actors: Ray places them, starts them again when they die, and keeps them while the controller is away.

Only this module imports Ray, when the first shard is started.
"""

import hashlib
import logging
import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import zstandard

from skewscope.adapters.controller.config import ControllerConfig
from skewscope.adapters.fleet.fleet_settings import LOCAL, FleetSettings
from skewscope.adapters.fleet.shard_engine import describe_topology
from skewscope.adapters.fleet.shard_host import ShardPlan
from skewscope.adapters.fleet.shard_pool import Confirmation
from skewscope.adapters.fleet.shard_report import ShardReport
from skewscope.adapters.fleet.shard_server import ShardServer
from skewscope.engine.model.topology import Topology
from skewscope.kb.problems import SkewscopeError

NAMESPACE = "skewscope"
POLL_S = 0.5
"""Seconds that a poll waits for the answers of all shards."""
PARALLEL_CALLS = 4
"""Calls of one actor at a time: a poll must not wait for another one."""
PART_BYTES = 64 << 10
"""Bytes of one argument of an actor: Ray keeps small ones with the actor, larger ones only as long as who gave them."""
SITE_SHARE = 0.0001
"""Of the resource of a site, so that any number of shards finds room there."""
MAX_PARTS = 100
"""Arguments of an actor; Ray keeps 10 MiB of them."""

log = logging.getLogger(__name__)


def connect_ray(address: str) -> Any:
    """Returns the Ray library, connected to a cluster.

    Raises:
        SkewscopeError: Ray is not installed, or no cluster answers.
    """
    try:
        import ray  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise SkewscopeError("A fleet in shards needs Ray: pip install 'skewscope[fleet]'") from None
    if not ray.is_initialized():
        # Named in words: without an address Ray would wait for whichever cluster was here last.
        others: dict[str, Any] = {"include_dashboard": False} if address == LOCAL else {}
        try:
            ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.WARNING, **others)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise SkewscopeError(f"No Ray answers at {address!r}: {error}") from error
    return ray


class RayShards:
    """The shards of one fleet."""

    def __init__(self, settings: FleetSettings, config: ControllerConfig | None) -> None:
        """Connects to Ray.

        Args:
            settings: where Ray is.
            config: whose tokens and certificates count for rows; None: no rows come over the network.

        Raises:
            SkewscopeError: Ray cannot be used.
        """
        self._ray = connect_ray(settings.ray)
        self._settings = settings
        # What the controller alone needs does not travel.
        nothing = Topology(())
        self._config = config and replace(config, sources=(), notifiers=(), targets=(), fleet=None, topology=nothing)
        self._prefix = f"{hashlib.sha256(str(settings.state).encode()).hexdigest()[:8]}-"
        self.actors: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._plans: Mapping[str, ShardPlan] = {}
        self._pending: dict[str, Any] = {}

    def start(self, plans: Mapping[str, ShardPlan]) -> None:
        """Runs these shards and no others; those that run with the same plan go on."""
        wanted = {name: f"{self._prefix}{name}-{_plan_hash(plan, self._config)}" for name, plan in plans.items()}
        for full in self._ray.util.list_named_actors():
            if full.startswith(self._prefix) and full not in wanted.values():
                self._ray.kill(self._ray.get_actor(full, NAMESPACE), no_restart=True)
        self._pending, self._names, self._plans = {}, wanted, dict(plans)
        self.actors = {name: self._create_actor(name) for name in wanted}

    def _create_actor(self, name: str) -> Any:
        """Returns the actor of a shard; a new one where none has its name."""
        actor = self._ray.remote(ShardActor).options(
            name=self._names[name],
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_concurrency=PARALLEL_CALLS,
            num_cpus=self._settings.cpus,
            resources=self._resources(self._plans[name]),
            scheduling_strategy="SPREAD",
        )
        return actor.remote(*pack_arguments(self._plans[name], self._config, self._settings.host))

    def _resources(self, plan: ShardPlan) -> dict[str, float]:
        """Returns what only the machines of the shard's site have: a shard has nodes of one site."""
        site = next((node.fleet for node in plan.topology.nodes), "")
        return {self._settings.sites[site]: SITE_SHARE} if site in self._settings.sites else {}

    def poll(self, heard: Mapping[str, Confirmation]) -> dict[str, ShardReport]:
        """Returns the reports of the shards that answer in time; a late answer counts at the next poll."""
        asked = [name for name in heard if name not in self._pending and name in self.actors]
        for name in asked:
            # Repeated by Ray when the shard is back: a failed call would be known as such only a second later.
            self._pending[name] = self.actors[name].poll.options(max_task_retries=-1).remote(*heard[name])
        if asked:
            # Those that are away since an earlier poll delay nothing.
            self._ray.wait([self._pending[name] for name in asked], num_returns=len(asked), timeout=POLL_S)
        waiting = {ref: name for name, ref in self._pending.items()}
        if not waiting:
            return {}
        done, _ = self._ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        found = {}
        for ref in done:
            name = waiting[ref]
            del self._pending[name]
            try:
                found[name] = self._ray.get(ref)
            except self._ray.exceptions.ActorDiedError as error:
                # Ray gives up an actor that could not be built, such as one whose folder was still in use.
                log.error("%s is started again: %s", name, error)  # noqa: TRY400 - all of it is in the message
                self.actors[name] = self._create_actor(name)
            except self._ray.exceptions.RayError as error:
                log.debug("%s: %s", name, error)
        return found

    def stop(self) -> None:
        """Ends the shards; their state stays in their journals."""
        for actor in self.actors.values():
            self._ray.kill(actor, no_restart=True)
        self.actors = {}

    def close(self) -> None:
        """Lets go of the shards, which run on; of a Ray of its own they end."""
        self._ray.shutdown()


class ShardActor(ShardServer):
    """A shard whose arguments come in parts."""

    def __init__(self, *parts: bytes) -> None:
        """Goes on where the shard stopped, and starts; see `pack_arguments` and `ShardServer`."""
        from ray import cloudpickle  # noqa: PLC0415 - as for `connect_ray`; Ray reads its own arguments with it

        super().__init__(*cloudpickle.loads(zstandard.decompress(b"".join(parts))))


def pack_arguments(plan: ShardPlan, config: ControllerConfig | None, host: str) -> list[bytes]:
    """Returns the arguments of a `ShardServer` as parts that Ray keeps with the actor.

    An argument of more than 100 KiB ends with the controller that gave it, and its actor could not be started again.

    Raises:
        SkewscopeError: they are too large.
    """
    # The plan has the files of a site's knowledge, of which the shard makes its catalogue.
    config = config and replace(config, knowledge=None)
    packed = zstandard.compress(pickle.dumps((plan, config, host)))
    parts = [packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
    if len(parts) > MAX_PARTS:
        size, most = len(packed) >> 20, MAX_PARTS * PART_BYTES >> 20
        raise SkewscopeError(f"{plan.name}: its topology packs to {size} MiB; Ray keeps {most}. Set fewer `nodes`.")
    return parts


def _plan_hash(plan: ShardPlan, config: ControllerConfig | None) -> str:
    """Returns what tells an actor of this plan from one of another: also tokens, which it checks."""
    secrets = sorted(f"{token.name} {token.role} {token.secret.text}" for token in config.tokens) if config else []
    parts = [plan.name, describe_topology(plan.topology), str(plan.folder), f"{plan.grace} {plan.snapshot_s}", *secrets]
    parts += [plan.site.fingerprint] if plan.site else []
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
