"""The controller's own metrics and its incidents, as Prometheus text."""

import resource
from collections.abc import Iterable, Iterator, Sequence

from skewscope.adapters.controller import action_metrics, incident_metrics
from skewscope.adapters.controller.agent_receiver import AgentState
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.incident_metrics import Family, Sample
from skewscope.adapters.controller.tick_pipeline import TickResult
from skewscope.adapters.controller.topology_follower import TopologyFollower
from skewscope.adapters.formats.exposition import ESCAPES
from skewscope.adapters.runtime.tasks import failures
from skewscope.adapters.sources.common.supervisor import SourceStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def format_metrics(controller: Controller) -> str:
    """Returns the metrics page."""
    return "".join(line for family in _metric_families(controller) for line in _format_family(*family))


def _metric_families(controller: Controller) -> Iterator[Family]:
    """Yields name, type, help text and samples of each metric."""
    pace, known, agents = controller.tick_stats, controller.last_result, list(controller.receiver.agents.values())
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield "skewscope_ticks_total", "counter", "Processed ticks.", [({}, pace.ticks)]
    yield (
        "skewscope_ticks_skipped_total",
        "counter",
        "Skipped seconds.",
        [({}, pace.skipped)],
    )
    yield "skewscope_tick_seconds", "gauge", "Duration of the last tick.", [({}, pace.duration)]
    reloaded = controller.is_reloaded
    yield (
        *("skewscope_config_reload_ok", "gauge", "Whether the last reload of the config was applied."),
        [({}, reloaded)],
    )
    yield (
        *("skewscope_task_failures_total", "counter", "Unexpected ends of background tasks and threads."),
        [({"task": name}, count) for name, count in sorted(failures.items())],
    )
    yield "skewscope_process_seconds_total", "counter", "CPU time.", [({}, usage.ru_utime + usage.ru_stime)]
    if known is not None:
        yield from _tick_families(controller, known)
    unread = len(controller.actions.troubles())
    yield "skewscope_actions_unreadable", "gauge", "Shared actions that this version cannot read.", [({}, unread)]
    yield from _source_families(controller.source_statuses())
    if controller.discovery is not None:
        yield from _discovery_families(controller.discovery)
    yield "skewscope_leads", "gauge", "Whether this controller is the one that notifies.", [({}, controller.is_leader)]
    yield "skewscope_agents", "gauge", "Agents seen so far.", [({}, len(agents))]
    if known is not None:
        yield from incident_metrics.metric_families(known)
    yield from _notifier_families(controller)
    yield from action_metrics.metric_families(controller.actions.coordinator)
    yield (
        "skewscope_action_errors_total",
        "counter",
        "Steps of actions that failed in a way that was not foreseen, and are tried again.",
        [({}, controller.actions.coordinator.steps.unforeseen)],
    )
    yield from _agent_families(agents)


def _tick_families(controller: Controller, known: TickResult) -> Iterator[Family]:
    """Yields the metrics of the last tick and of the stores that it was written to."""
    yield "skewscope_series", "gauge", "Series in the engine.", [({}, known.series)]
    yield "skewscope_samples", "gauge", "Samples of the last tick.", [({}, known.samples)]
    yield "skewscope_samples_late_total", "counter", "Samples that arrived too late.", [({}, known.late_samples)]
    over = known.superseded_samples
    yield (
        "skewscope_samples_passed_over_total",
        "counter",
        "Samples superseded by newer ones under overload.",
        [({}, over)],
    )
    firing = sum(one.state == "firing" for one in known.snapshot.incidents)
    yield "skewscope_incidents_firing", "gauge", "Firing incidents.", [({}, firing)]
    yield "skewscope_store_up", "gauge", "Whether the store can be written.", [({}, known.store_ok)]
    damaged = controller.is_store_damaged
    yield "skewscope_store_damaged", "gauge", "Whether the store has damaged pages, or lost data.", [({}, damaged)]
    yield (
        "skewscope_store_restored_total",
        "counter",
        "How often the store was written anew because its files were removed.",
        [({}, controller.restored_stores)],
    )
    yield "skewscope_recording_up", "gauge", "Whether the recording can be written.", [({}, known.recording_ok)]
    yield "skewscope_last_tick_timestamp_seconds", "gauge", "End of the last tick.", [({}, known.snapshot.time)]


def _agent_families(agents: Sequence[AgentState]) -> Iterator[Family]:
    """Yields the metrics of what agents sent."""
    yield (
        *("skewscope_agent_rows_repeated_total", "counter", "Duplicate rows."),
        [({}, sum(agent.repeated_rows for agent in agents))],
    )
    yield (
        "skewscope_agent_foreign_series_total",
        "counter",
        "Series of other entities that an agent announced, which were refused.",
        [({"node": agent.node}, agent.foreign_series) for agent in agents if agent.foreign_series],
    )
    yield (
        "skewscope_agent_refused_bodies_total",
        "counter",
        "Bodies of an agent that were refused because it sent more than its share.",
        [({"node": agent.node}, agent.refused_bodies) for agent in agents if agent.refused_bodies],
    )


def _source_families(standings: Sequence[SourceStatus]) -> Iterator[Family]:
    """Yields the metrics of sources."""
    yield (
        "skewscope_source_up",
        "gauge",
        "Whether the source delivers batches.",
        [({"source": s.name}, s.up) for s in standings],
    )
    yield (
        *("skewscope_source_values_total", "counter", "Received values."),
        [({"source": s.name}, s.values) for s in standings],
    )
    yield (
        *("skewscope_source_dropped_total", "counter", "Values dropped from a full queue."),
        [({"source": s.name}, s.dropped) for s in standings],
    )
    yield (
        *("skewscope_source_unmapped_series", "gauge", "Series that are not used, by reason."),
        [({"source": s.name, "reason": reason}, n) for s in standings for reason, n in s.unmapped.items()],
    )
    yield (
        *("skewscope_refused_series_total", "counter", "Series that their sender must not report, by reason."),
        [
            ({"sender": sender, "reason": reason}, n)
            for s in standings
            for sender, reasons in s.refusals.items()
            for reason, n in reasons.items()
        ],
    )
    yield (
        *("skewscope_source_restarts_total", "counter", "Restarts of the source."),
        [({"source": s.name}, s.restarts) for s in standings],
    )


def _discovery_families(found: TopologyFollower) -> Iterator[Family]:
    """Yields the metrics of a topology that is discovered."""
    yield (
        *("skewscope_topology_changes_total", "counter", "Changes of the discovered topology."),
        [({"what": what}, count) for what, count in sorted(found.counts.items())],
    )
    yield (
        *(
            "skewscope_topology_labels_refused",
            "gauge",
            "Sets of labels beyond the limit, of which nothing is discovered.",
        ),
        [({}, found.refusals)],
    )


def _notifier_families(controller: Controller) -> Iterator[Family]:
    """Yields the metrics of notifiers."""
    payload = controller.dispatcher.statuses()
    yield (
        "skewscope_teller_up",
        "gauge",
        "Whether the last delivery succeeded.",
        [({"teller": s.name}, s.up) for s in payload],
    )
    yield (
        *("skewscope_teller_told_total", "counter", "Successful deliveries."),
        [({"teller": s.name}, s.told) for s in payload],
    )
    yield (
        *("skewscope_teller_failed_total", "counter", "Failed deliveries."),
        [({"teller": s.name}, s.failed) for s in payload],
    )
    yield (
        *("skewscope_teller_refused_total", "counter", "Notifications dropped because the receiver refused them."),
        [({"teller": s.name}, s.refused) for s in payload],
    )
    yield (
        *("skewscope_teller_dropped_total", "counter", "Notifications dropped from a full queue."),
        [({"teller": s.name}, controller.dropped_notifications(s.name)) for s in payload],
    )


def _format_family(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        inner = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in labels.items())
        yield f"{name}{{{inner}}} {float(value)!r}\n" if inner else f"{name} {float(value)!r}\n"
