"""The agent's own metrics: its state, read failures, and what it had to omit."""

import resource
from collections import Counter
from collections.abc import Iterator

from skewscope.adapters.agent.agent import NodeAgent
from skewscope.adapters.agent.bpf import FULL_SHARE
from skewscope.adapters.agent.metrics_server import SelfMetric
from skewscope.adapters.runtime.tasks import failures

Labels = tuple[tuple[str, str], ...]
STALE_AFTER = 5.0
"""Seconds without a tick after which an agent is unhealthy."""
KIB = 1024


def self_metrics(agent: NodeAgent, late: int) -> Iterator[SelfMetric]:
    """Yields the agent's own metrics; `late` is the number of late or missed ticks."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield _metric("cpu_seconds", "counter", "CPU time used.", used.ru_utime + used.ru_stime)
    yield _metric("resident_bytes", "gauge", "Peak memory.", float(used.ru_maxrss * KIB))
    yield _metric("rows", "counter", "Rows created.", float(agent.row_count))
    yield _metric("ticks_late", "counter", "Late or missed ticks.", float(late))
    yield _metric("series_left_out", "counter", "Series above the limit.", float(agent.tables.series_left_out))
    yield _labelled_metric("task_failures", "counter", "Unexpected ends of threads.", "task", dict(failures))
    yield _labelled_metric("unreadable", "counter", "Read failures.", "what", dict(agent.failures.counts))
    yield from _sender_metrics(agent)
    if agent.order_workers:
        orders = sum((Counter(worker.counts) for worker in agent.order_workers), Counter[str]())
        results = {name: orders[name] for name in agent.order_workers[0].counts}
        yield _labelled_metric("orders", "counter", "Orders of controllers.", "result", results)
    if agent.components.observer:
        yield from _observer_metrics(agent)


def _sender_metrics(agent: NodeAgent) -> Iterator[SelfMetric]:
    backlogs = {sender.controller.url: sender.backlog for sender in agent.senders}
    label = "controller"
    waiting = {url: len(b.rows) for url, b in backlogs.items()}
    yield _labelled_metric("rows_waiting", "gauge", "Rows waiting for the controller.", label, waiting)
    dropped = {url: b.dropped + b.refused for url, b in backlogs.items()}
    yield _labelled_metric("rows_dropped", "counter", "Rows lost.", label, dropped)
    refused = {url: b.refused for url, b in backlogs.items()}
    yield _labelled_metric("rows_refused", "counter", "Rows lost since the controller refused them.", label, refused)
    failures = {sender.controller.url: sender.failures for sender in agent.senders}
    yield _labelled_metric("push_failures", "counter", "Failed pushes.", label, failures)


def _observer_metrics(agent: NodeAgent) -> Iterator[SelfMetric]:
    observer = agent.components.observer
    assert observer is not None
    yield _metric("observer_seconds", "gauge", "CPU time of the last second of packets.", observer.cpu_seconds)
    yield _metric("observer_budget", "gauge", "CPU budget.", observer.budget.seconds)
    ports = {port.view.port: port for port in observer.ports}
    share = {name: port.sampling.share / FULL_SHARE for name, port in ports.items()}
    yield _labelled_metric("sampled_share", "gauge", "Share of flows observed.", "port", share)
    seen = {name: port.packets_seen for name, port in ports.items()}
    yield _labelled_metric("packets_seen", "counter", "Packets processed.", "port", seen)
    lost = {name: port.packets_lost for name, port in ports.items()}
    yield _labelled_metric("packets_lost", "counter", "Packets lost.", "port", lost)
    withheld = {name: port.ticks_withheld for name, port in ports.items()}
    yield _labelled_metric(
        "ticks_withheld", "counter", "Ticks without a result, since packets were lost.", "port", withheld
    )


def _metric(name: str, kind: str, what: str, value: float) -> SelfMetric:
    return SelfMetric(name, kind, what, (((), value),))


def _labelled_metric(
    name: str, kind: str, what: str, label: str, values: "dict[str, int] | dict[str, float]"
) -> SelfMetric:
    return SelfMetric(name, kind, what, tuple((((label, key),), float(value)) for key, value in sorted(values.items())))


def health(agent: NodeAgent, now: float) -> tuple[bool, str]:
    """Returns whether ticks are advancing, and a line of text."""
    age = now - agent.last_tick
    if age > STALE_AFTER:
        return False, f"the last tick was {age:.0f} s ago"
    away = sum(not sender.is_reachable for sender in agent.senders)
    return True, f"ok, {away} of {len(agent.senders)} controllers unreachable" if away else "ok"
