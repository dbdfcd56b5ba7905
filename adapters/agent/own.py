"""What an agent tells of itself: how it fares, what it could not read, what it had to leave out."""

import resource
from collections.abc import Iterator

from skewscope.adapters.agent.agent import Agent
from skewscope.adapters.agent.bpf import WHOLE
from skewscope.adapters.agent.page import Own

Labels = tuple[tuple[str, str], ...]
LATE = 5.0
"""Seconds without a tick after which an agent is not well."""
KIB = 1024


def own(agent: Agent, late: int) -> Iterator[Own]:
    """The agent's own numbers; `late` is how many ticks came late or not at all."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield _one("cpu_seconds", "counter", "Processor time used.", used.ru_utime + used.ru_stime)
    yield _one("resident_bytes", "gauge", "Memory used at most.", float(used.ru_maxrss * KIB))
    yield _one("rows", "counter", "Rows made.", float(agent.rows))
    yield _one("ticks_late", "counter", "Seconds whose numbers came late or not at all.", float(late))
    yield _one("series_left_out", "counter", "Series for which there was no place.", float(agent.tables.left_out))
    yield _each("unreadable", "counter", "Times that something could not be read.", "what", dict(agent.troubles.counts))
    yield from _senders(agent)
    if agent.parts.observer:
        yield from _observer(agent)


def _senders(agent: Agent) -> Iterator[Own]:
    backlogs = {sender.controller.url: sender.backlog for sender in agent.senders}
    label = "controller"
    waiting = {url: len(b.rows) for url, b in backlogs.items()}
    yield _each("rows_waiting", "gauge", "Rows that a controller has not taken yet.", label, waiting)
    dropped = {url: b.dropped + b.refused for url, b in backlogs.items()}
    yield _each("rows_dropped", "counter", "Rows that a controller will never get.", label, dropped)
    refused = {url: b.refused for url, b in backlogs.items()}
    yield _each("rows_refused", "counter", "Rows of these that a controller called wrong or too large.", label, refused)
    failures = {sender.controller.url: sender.failures for sender in agent.senders}
    yield _each("push_failures", "counter", "Attempts to push that failed.", label, failures)


def _observer(agent: Agent) -> Iterator[Own]:
    observer = agent.parts.observer
    assert observer is not None
    yield _one("observer_seconds", "gauge", "Processor time that the last second of packets took.", observer.used)
    yield _one("observer_budget", "gauge", "Processor time that it may take.", observer.budget.seconds)
    ports = {port.view.port: port for port in observer.ports}
    share = {name: port.sampling.share / WHOLE for name, port in ports.items()}
    yield _each("sampled_share", "gauge", "Share of the flows that is looked at.", "port", share)
    seen = {name: port.every for name, port in ports.items()}
    yield _each("packets_seen", "counter", "Packets of these flows that were looked at.", "port", seen)
    lost = {name: port.lost for name, port in ports.items()}
    yield _each("packets_lost", "counter", "Packets of these flows that were not looked at.", "port", lost)
    withheld = {name: port.withheld for name, port in ports.items()}
    yield _each(
        "ticks_withheld", "counter", "Seconds of which nothing is told, for packets are missing.", "port", withheld
    )


def _one(name: str, kind: str, what: str, value: float) -> Own:
    return Own(name, kind, what, (((), value),))


def _each(name: str, kind: str, what: str, label: str, values: "dict[str, int] | dict[str, float]") -> Own:
    return Own(name, kind, what, tuple((((label, key),), float(value)) for key, value in sorted(values.items())))


def health(agent: Agent, now: float) -> tuple[bool, str]:
    """Whether the agent reads and tells, and a line that says so."""
    age = now - agent.newest
    if age > LATE:
        return False, f"the last tick was {age:.0f} s ago"
    away = sum(not sender.reached for sender in agent.senders)
    return True, f"ok, {away} of {len(agent.senders)} controllers away" if away else "ok"
