"""The faults of the lab, and the expected diagnoses."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.lab.cluster import Replica, two
from tests.lab.running import Lab

Do = Callable[[Lab], Any]


@dataclass(frozen=True)
class Scenario:
    """One fault, or none."""

    condition: str = ""
    """Its id in the catalogue; '' for health."""
    entity: str = ""
    """Where it is; `*` for anywhere."""
    begin: Do = lambda _lab: None
    end: Do = lambda _lab: None
    replicas: tuple[Replica, ...] = two("tp")


SCENARIOS = {
    "healthy": Scenario(),
    "tp-straggler": Scenario(*("tp-straggler", "n2"), lambda lab: lab.set("n2", slow=2.5), lambda lab: lab.set("n2")),
    "fabric-loss": Scenario(
        *("fabric-loss", "n1"), lambda lab: lab.network.lose("n1", "ew", 0.02), lambda lab: lab.network.unlose("n1")
    ),
    "burst": Scenario(
        *("burst-admission-backlog", "*"), lambda lab: lab.load.times(8.0), lambda lab: lab.load.times(1.0)
    ),
    "pp-bubble": Scenario(
        *("pp-bubble", "n2"), lambda lab: lab.set("n2", slow=4.0), lambda lab: lab.set("n2"), two("pp")
    ),
    "kv-transfer": Scenario(
        *("kv-transfer-bottleneck", "*"),
        lambda lab: lab.network.rate("n2", "ew", "40mbit", latency="200ms"),
        lambda lab: lab.network.rate("n2", "ew", "1gbit"),
        two("pd"),
    ),
}
