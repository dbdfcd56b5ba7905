"""What a controller tells of itself and of what it found, as Prometheus text."""

import resource
from collections.abc import Iterable, Iterator

from skewscope.adapters.controller import incident_metrics
from skewscope.adapters.controller.controller import Controller
from skewscope.adapters.controller.incident_metrics import Family, Sample
from skewscope.adapters.formats.exposition import ESCAPES

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def format_metrics(controller: Controller) -> str:
    """The page."""
    return "".join(line for family in _metric_families(controller) for line in _format_family(*family))


def _metric_families(controller: Controller) -> Iterator[Family]:
    """Name, type, meaning and samples of each metric."""
    pace, known, agents = controller.tick_stats, controller.last_result, controller.receiver.agents.values()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    standings = controller.source_statuses()
    yield "skewscope_ticks_total", "counter", "Ticks that were judged.", [({}, pace.ticks)]
    yield (
        "skewscope_ticks_skipped_total",
        "counter",
        "Seconds that were passed over.",
        [({}, pace.skipped)],
    )
    yield "skewscope_tick_seconds", "gauge", "How long the last tick took.", [({}, pace.duration)]
    yield "skewscope_process_seconds_total", "counter", "Processor time.", [({}, usage.ru_utime + usage.ru_stime)]
    if known is not None:
        yield "skewscope_series", "gauge", "Series that the engine knows.", [({}, known.series)]
        yield "skewscope_samples", "gauge", "Samples of the last tick.", [({}, known.samples)]
        yield "skewscope_samples_late_total", "counter", "Samples that came too late.", [({}, known.late_samples)]
        over = known.superseded_samples
        yield "skewscope_samples_passed_over_total", "counter", "Samples that newer ones stood for.", [({}, over)]
        firing = sum(one.state == "firing" for one in known.snapshot.incidents)
        yield "skewscope_incidents_firing", "gauge", "Incidents that fire.", [({}, firing)]
        yield "skewscope_store_up", "gauge", "Whether the store takes what is written.", [({}, known.store_ok)]
        yield "skewscope_recording_up", "gauge", "Whether what is to be recorded is.", [({}, known.recording_ok)]
        yield "skewscope_last_tick_timestamp_seconds", "gauge", "End of the last tick.", [({}, known.snapshot.time)]
    yield "skewscope_source_up", "gauge", "Whether batches come.", [({"source": s.name}, s.up) for s in standings]
    yield (
        *("skewscope_source_values_total", "counter", "Values that came."),
        [({"source": s.name}, s.values) for s in standings],
    )
    yield (
        *("skewscope_source_dropped_total", "counter", "Values that nobody took in time."),
        [({"source": s.name}, s.dropped) for s in standings],
    )
    yield (
        *("skewscope_source_restarts_total", "counter", "Times that a source was started again."),
        [({"source": s.name}, s.restarts) for s in standings],
    )
    yield "skewscope_leads", "gauge", "Whether this controller is the one that tells.", [({}, controller.is_leader)]
    yield "skewscope_agents", "gauge", "Agents that were ever heard.", [({}, len(agents))]
    if known is not None:
        yield from incident_metrics.metric_families(known)
    yield from _notifier_families(controller)
    yield (
        *("skewscope_agent_rows_repeated_total", "counter", "Rows that came twice."),
        [({}, sum(agent.repeated_rows for agent in agents))],
    )


def _notifier_families(controller: Controller) -> Iterator[Family]:
    """How those who are told do."""
    told = controller.dispatcher.statuses()
    yield "skewscope_teller_up", "gauge", "Whether the last thing arrived.", [({"teller": s.name}, s.up) for s in told]
    yield (
        *("skewscope_teller_told_total", "counter", "How often something arrived."),
        [({"teller": s.name}, s.told) for s in told],
    )
    yield (
        *("skewscope_teller_failed_total", "counter", "How often something did not."),
        [({"teller": s.name}, s.failed) for s in told],
    )
    yield (
        *("skewscope_teller_refused_total", "counter", "Letters thrown away, since they would never be taken."),
        [({"teller": s.name}, s.refused) for s in told],
    )
    yield (
        *("skewscope_teller_dropped_total", "counter", "Letters that waited too long."),
        [({"teller": s.name}, controller.dropped_notifications(s.name)) for s in told],
    )


def _format_family(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        inner = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in labels.items())
        yield f"{name}{{{inner}}} {float(value)!r}\n" if inner else f"{name} {float(value)!r}\n"
