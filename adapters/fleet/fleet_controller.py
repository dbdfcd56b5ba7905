"""The controller of a fleet in shards: it cuts the topology, redirects agents, and joins what the shards say.

API, store, silences and notifications are those of any controller. The shards judge on while it is away; what they have
to say waits with them until it is stored here.
"""

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

from skewscope.adapters.controller.agent_receiver import AgentReceiver, ReceiverBusyError, RowsMovedError
from skewscope.adapters.controller.agent_registry import AgentRecord
from skewscope.adapters.controller.batcher import Batcher
from skewscope.adapters.controller.config import ControllerConfig
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.incident_restore import RestoredIncidents
from skewscope.adapters.controller.store import Store, StoreReader
from skewscope.adapters.controller.tick_pipeline import TickPipeline, TickResult
from skewscope.adapters.controller.unplaced_series import SeriesCounts
from skewscope.adapters.fleet.fleet_runtime import FleetEngine, FleetRuntime
from skewscope.adapters.fleet.fleet_settings import FleetSettings
from skewscope.adapters.fleet.ray_shards import RayShards
from skewscope.adapters.fleet.shard_host import ShardPlan
from skewscope.adapters.fleet.shard_pool import ShardPool
from skewscope.adapters.formats.row_protocol import HelloFrame, decode_frames, unpack
from skewscope.adapters.runtime.runtime import Runtime, Snapshot, Span
from skewscope.adapters.sources.common.base import SourceBatch
from skewscope.engine.engine import IncidentChange
from skewscope.engine.model.shards import cut_topology, shard_topologies
from skewscope.engine.model.topology import Topology
from skewscope.kb.problems import InputError
from skewscope.kb.site_files import SiteFiles
from skewscope.rules.loader import load_builtin as load_rules

CUT_FILE = "cut.json"
RETRY_S = 1.0
"""Seconds after which an agent asks again for a shard that does not answer."""

log = logging.getLogger(__name__)


# --- the cut


def plan_shards(
    topology: Topology, settings: FleetSettings, grace: float, site: SiteFiles | None = None
) -> tuple[dict[str, str], dict[str, ShardPlan]]:
    """Returns the shard of each node, and the plans of the shards; the cut before is kept in the state's folder.

    Raises:
        OSError: the folder cannot be used.
    """
    settings.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = settings.state / CUT_FILE
    shard_of = cut_topology(topology, settings.sizes, _read_cut(path))
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(shard_of, indent=0))
    draft.replace(path)
    parts = shard_topologies(topology, shard_of)
    return shard_of, {
        name: ShardPlan(name, part, settings.state / name, grace, site=site) for name, part in parts.items()
    }


def _read_cut(path: Path) -> dict[str, str]:
    """Returns the cut in a file; none where it cannot be read: then a new one is made."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("%s: %s; the fleet is cut anew", path, error)
        return {}
    return {str(node): str(shard) for node, shard in found.items()} if isinstance(found, dict) else {}


# --- rows


@dataclass
class FleetReceiver(AgentReceiver):
    """Sends agents to the shards of their nodes."""

    url_of: Callable[[str], str] = lambda _: ""
    """Where the agent of a node sends its rows; '' while its shard does not answer."""
    records: Callable[[], list[AgentRecord]] = list
    """Returns the agents that the shards have heard."""

    def receive(self, body: bytes, allowed: str | None = None) -> int:
        """Redirects the sender.

        Raises:
            BadRowsError: the body is invalid.
            ForeignNodeError: the sender must not report for the node.
            ReceiverBusyError: the shard does not answer at present.
            RowsMovedError: where the rows belong.
        """
        hello = next(decode_frames(unpack(body)))
        assert isinstance(hello, HelloFrame)
        self._check_node(hello.node, allowed)
        url = self.url_of(hello.node)
        if not url:
            raise ReceiverBusyError(f"the shard of {hello.node!r} does not answer; send it again", RETRY_S)
        raise RowsMovedError(url)

    def agent_records(self) -> list[AgentRecord]:
        """Returns the agents that the shards have heard."""
        return self.records()


# --- ticks


@dataclass
class FleetPipeline(TickPipeline):
    """One tick of the whole fleet: what the shards say, stored."""

    fleet: FleetRuntime = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fleet.on_lost_life = self._carry_over

    def step(
        self, t: float, batches: Mapping[str, Sequence[SourceBatch]], unplaced: SeriesCounts | None = None
    ) -> TickResult:
        """Hears the shards and stores what they say; see `TickPipeline.step`."""
        found = super().step(t, batches, unplaced)
        if not self.store_writer.trouble:
            self.fleet.confirm()
        counts = [one.report.counts for one in self.fleet.known.values()]
        return replace(
            found,
            samples=sum(one.samples for one in counts),
            series=sum(one.series for one in counts),
            late_samples=sum(one.late for one in counts),
            superseded_samples=sum(one.superseded for one in counts),
            node_coverage=self.fleet.coverage_by_node(t),
            engine_coverage=self.fleet.coverage_by_engine(t),
        )

    def _carry_over(self) -> None:
        """Goes on with the incidents of a shard that has lost them: what it finds again has its earlier id."""
        firing = [one for one in self.incidents if one.state == "firing"]
        self.restored = RestoredIncidents.from_incidents(firing, self.restored.waits)

    @cached_property
    def _uncertainty(self) -> Any:
        return self.fleet

    def _take_snapshot(self, t: float) -> Snapshot:
        start = self.fleet.first_tick(t)
        incidents = self.fleet.incidents(Span(start, t))
        return Snapshot(t, start, t, incidents, self.fleet.sources(t), self.fleet.missing())


class FleetController(Controller):
    """A controller whose nodes are judged by shards."""

    def __init__(self, config: ControllerConfig, pool: ShardPool | None = None, **others: Any) -> None:
        """Constructs it; `pool` runs the shards, None: Ray."""
        self._pool_of_shards = pool
        self._fleet: FleetRuntime | None = None
        super().__init__(config, **others)
        self.receiver = FleetReceiver(config.topology, self.clock, url_of=self._url_of, records=self._agent_records)

    def _url_of(self, node: str) -> str:
        return self._fleet.url_of(node) if self._fleet is not None else ""

    def _agent_records(self) -> list[AgentRecord]:
        known = self._fleet.known.values() if self._fleet is not None else ()
        return [AgentRecord(*one) for shard in known for one in shard.report.agents]

    def _build_pipeline(self, store: Store) -> TickPipeline:
        self._fleet = self._create_runtime(store)
        runtime = cast("Runtime", self._fleet)  # it has the methods that a tick calls
        carried = RestoredIncidents.from_incidents(store.open_incidents(), store.waits())
        return FleetPipeline(
            *(runtime, Batcher(), store, carried, None, self.view_publisher, self.members, self.config.store_retention),
            topology=self.config.topology,
            silences=store.silences(),
            fleet=self._fleet,
        )

    def _create_runtime(self, store: Store) -> FleetRuntime:
        settings, rules = self.config.fleet, load_rules(self.catalogue)
        assert settings is not None
        if rules[1]:
            raise InputError(rules[1])
        if self._pool_of_shards is None:
            self._pool_of_shards = RayShards(settings, self.config)
        shard_of, plans = plan_shards(self.config.topology, settings, self.config.grace, self.catalogue.site)
        log.info("%d nodes in %d shards", len(shard_of), len(plans))
        self._pool_of_shards.start(plans)
        runtime = FleetRuntime(
            FleetEngine(self.config.topology, self.catalogue, rules[0]),
            shard_of,
            self._pool_of_shards,
            partial(_is_stored, self.reader),
        )
        runtime.expect_explanations(store.open_incidents())
        return runtime

    async def _change_engine(self) -> None:
        """Cuts the present topology; shards that it leaves as they are go on."""
        await self._run_in_thread(self._cut_anew)

    def _cut_anew(self) -> None:
        self._rebuild_pipeline()

    async def _close_all(self) -> None:
        await super()._close_all()
        if self._pool_of_shards is not None:
            self._pool_of_shards.close()


def _is_stored(reader: StoreReader, change: IncidentChange) -> bool:
    """Returns whether a change is in the store; a store that cannot be read has none."""
    try:
        found = reader.incident(change.id)
    except (sqlite3.Error, InputError):
        return False
    past: Iterable[Mapping[str, Any]] = found["history"] if found else ()
    return any(entry["t"] == change.t and entry["what"] == change.what for entry in past)
