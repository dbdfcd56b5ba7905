"""Where shards run, seen from the controller of the fleet: they are started, polled and stopped."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from skewscope.adapters.fleet.shard_host import ShardHost, ShardPlan
from skewscope.adapters.fleet.shard_report import ShardReport
from skewscope.adapters.runtime.clock import Clock


class Confirmation(NamedTuple):
    """What of a shard is safe with the controller."""

    number: int = 0
    """Of the last tick whose changes are stored."""
    life: str = ""


class ShardPool(Protocol):
    """Runs shards."""

    def start(self, plans: Mapping[str, ShardPlan]) -> None:
        """Runs these shards and no others; those that run with the same plan go on."""
        ...

    def poll(self, heard: Mapping[str, Confirmation]) -> dict[str, ShardReport]:
        """Returns the reports of the shards that answer in time."""
        ...

    def close(self) -> None:
        """Lets go of the shards, which may run on."""
        ...


class LocalShards:
    """Shards in this process, which tick when they are polled: for tests, and for fleets that need no other process."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.hosts: dict[str, ShardHost] = {}
        self.lost: set[str] = set()
        """Shards that do not answer."""

    def start(self, plans: Mapping[str, ShardPlan]) -> None:
        """Runs these shards and no others."""
        for name in [name for name, host in self.hosts.items() if plans.get(name) != host.plan]:
            self.hosts.pop(name).close()
        for name, plan in plans.items():
            if name not in self.hosts:
                self.hosts[name] = ShardHost(plan, self.clock)

    def poll(self, heard: Mapping[str, Confirmation]) -> dict[str, ShardReport]:
        """Returns the reports of the shards that are not lost."""
        return {name: self.hosts[name].poll(*heard[name]) for name in heard if name not in self.lost}

    def close(self) -> None:
        """Keeps the state of the shards."""
        for host in self.hosts.values():
            host.close()
