"""What an agent tells of itself: how it fares, what it could not read, what it had to leave out."""

import resource
from collections.abc import Iterator

from skewscope.adapters.agent.agent import NodeAgent
from skewscope.adapters.agent.bpf import FULL_SHARE
from skewscope.adapters.agent.metrics_server import SelfMetric

Labels = tuple[tuple[str, str], ...]
STALE_AFTER = 5.0
"""Seconds without a tick after which an agent is not well."""
KIB = 1024


def self_metrics(agent: NodeAgent, late: int) -> Iterator[SelfMetric]:
    """The agent's own numbers; `late` is how many ticks came late or not at all."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield _metric("cpu_seconds", "counter", "Processor time used.", used.ru_utime + used.ru_stime)
    yield _metric("resident_bytes", "gauge", "Memory used at most.", float(used.ru_maxrss * KIB))
    yield _metric("rows", "counter", "Rows made.", float(agent.row_count))
    yield _metric("ticks_late", "counter", "Seconds whose numbers came late or not at all.", float(late))
    yield _metric(
        "series_left_out", "counter", "Series for which there was no place.", float(agent.tables.series_left_out)
    )
    yield _labelled_metric(
        "unreadable", "counter", "Times that something could not be read.", "what", dict(agent.failures.counts)
    )
    yield from _sender_metrics(agent)
    if agent.components.observer:
        yield from _observer_metrics(agent)


def _sender_metrics(agent: NodeAgent) -> Iterator[SelfMetric]:
    backlogs = {sender.controller.url: sender.backlog for sender in agent.senders}
    label = "controller"
    waiting = {url: len(b.rows) for url, b in backlogs.items()}
    yield _labelled_metric("rows_waiting", "gauge", "Rows that a controller has not taken yet.", label, waiting)
    dropped = {url: b.dropped + b.refused for url, b in backlogs.items()}
    yield _labelled_metric("rows_dropped", "counter", "Rows that a controller will never get.", label, dropped)
    refused = {url: b.refused for url, b in backlogs.items()}
    yield _labelled_metric(
        "rows_refused", "counter", "Rows of these that a controller called wrong or too large.", label, refused
    )
    failures = {sender.controller.url: sender.failures for sender in agent.senders}
    yield _labelled_metric("push_failures", "counter", "Attempts to push that failed.", label, failures)


def _observer_metrics(agent: NodeAgent) -> Iterator[SelfMetric]:
    observer = agent.components.observer
    assert observer is not None
    yield _metric(
        "observer_seconds", "gauge", "Processor time that the last second of packets took.", observer.cpu_seconds
    )
    yield _metric("observer_budget", "gauge", "Processor time that it may take.", observer.budget.seconds)
    ports = {port.view.port: port for port in observer.ports}
    share = {name: port.sampling.share / FULL_SHARE for name, port in ports.items()}
    yield _labelled_metric("sampled_share", "gauge", "Share of the flows that is looked at.", "port", share)
    seen = {name: port.packets_seen for name, port in ports.items()}
    yield _labelled_metric("packets_seen", "counter", "Packets of these flows that were looked at.", "port", seen)
    lost = {name: port.packets_lost for name, port in ports.items()}
    yield _labelled_metric("packets_lost", "counter", "Packets of these flows that were not looked at.", "port", lost)
    withheld = {name: port.ticks_withheld for name, port in ports.items()}
    yield _labelled_metric(
        "ticks_withheld", "counter", "Seconds of which nothing is told, for packets are missing.", "port", withheld
    )


def _metric(name: str, kind: str, what: str, value: float) -> SelfMetric:
    return SelfMetric(name, kind, what, (((), value),))


def _labelled_metric(
    name: str, kind: str, what: str, label: str, values: "dict[str, int] | dict[str, float]"
) -> SelfMetric:
    return SelfMetric(name, kind, what, tuple((((label, key),), float(value)) for key, value in sorted(values.items())))


def health(agent: NodeAgent, now: float) -> tuple[bool, str]:
    """Whether the agent reads and tells, and a line that says so."""
    age = now - agent.last_tick
    if age > STALE_AFTER:
        return False, f"the last tick was {age:.0f} s ago"
    away = sum(not sender.is_reachable for sender in agent.senders)
    return True, f"ok, {away} of {len(agent.senders)} controllers away" if away else "ok"
