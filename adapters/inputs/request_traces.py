"""Inputs of kind `request-traces`: traces of requests as JSON of Jaeger, OpenTelemetry (also Tempo) and Zipkin.

Each trace is a request: its root span says when it came and how long it took. Spans of queues, prefills, transfers of
caches and decodes say where that time went; an instant that several of them cover belongs to the first of `ORDER`.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from skewscope.adapters.formats.bounds import EVENTS
from skewscope.adapters.formats.json_stream import CutOffError, JsonReader
from skewscope.adapters.formats.kineto import covered_time
from skewscope.adapters.inputs.cell_values import to_number
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.request_fields import meaning_of, server_name
from skewscope.adapters.inputs.request_rows import FAILED, NAN, OK, RequestCollector, ServedRequest, outcome_of
from skewscope.engine.model.arrays import F64
from skewscope.kb.problems import InputError, Problem

MARKS = re.compile(
    rb'"(?:resourceSpans|resource_spans)"\s*:|"traceID"\s*:.*"spans"\s*:|"spans"\s*:.*"(?:traceID|traceId)"\s*:'
    rb'|"batches"\s*:.*"spans"\s*:|"traceId"\s*:.*"localEndpoint"\s*:|"localEndpoint"\s*:.*"traceId"\s*:',
    re.DOTALL,
)
ORDER = ("transfer", "queue", "prefill", "decode")
WORDS = {
    "transfer": re.compile(r"transfer|xfer|(?:^|_)kv_(?:send|recv|receive|pull|push|load|fetch|copy)|nixl|mooncake"),
    "queue": re.compile(r"queue|waiting|(?:^|_)wait(?:_|$)|pending|admission|backlog|prealloc|bootstrap"),
    "prefill": re.compile(r"prefill|prompt_processing|context_phase"),
    "decode": re.compile(r"decode(?!r)|decoding|token_generation|generation_phase"),
}
"""By part of a request: words in the names of its spans, in the order of `ORDER`."""
SERVER_TAGS = (
    *("replica", "worker.id", "worker_id", "instance", "service.instance.id", "k8s.pod.name", "pod", "host.name"),
    *("hostname", "upstream_address", "peer.address", "server.address", "net.peer.name", "net.host.name", "dp_rank"),
)
"""Tags that name the server of a span, the nearest first."""
CODES = ("http.status_code", "http.response.status_code", "rpc.grpc.status_code", "status_code")
FIRST_TOKEN = re.compile(r"first.?(?:token|chunk)")
NANOSECONDS, MICROSECONDS = 1e9, 1e6
SHARE_SHOWN = 0.005
EXPECTED = "spans of requests, as Jaeger, Tempo, Zipkin or OpenTelemetry's file exporter write them"


class RequestSpan(NamedTuple):
    """One span. Times are seconds since 1970."""

    trace: str
    id: str
    parent: str
    """'' for a root."""
    name: str
    begin: float
    end: float
    tags: Mapping[str, Any]
    """Those of the span, else of its process."""
    is_error: bool = False


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file begins with spans in one of these forms."""
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") and bool(MARKS.search(head))


@lru_cache(4096)
def part_of(name: str) -> str:
    """Returns the part of a request that a span of this name is, a key of `WORDS`; '' for another."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name[:200]).lower()
    return next((part for part in ORDER if WORDS[part].search(words)), "")


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of the servers that answered the requests of a file.

    Raises:
        InputError: it has no spans, or is damaged.
    """
    reader = _SpanReader(name)
    note = reader.read(file)
    collector = RequestCollector(name, labels, [note])
    longest: tuple[float, str] = (0.0, "")
    for spans in reader.traces.values():
        request = to_request(spans)
        collector.add(request)
        longest = max(longest, (request.end - request.arrival, _describe(request)))
    collector.notes.append(longest[1])
    if not reader.traces:
        raise InputError([Problem(name, 0, "", note or "no span", EXPECTED)])
    return collector.series()


def to_request(spans: Sequence[RequestSpan]) -> ServedRequest:
    """Returns the request of the spans of a trace."""
    known = {span.id for span in spans}
    roots = [span for span in spans if span.parent not in known]
    root = max(roots or spans, key=lambda span: span.end - span.begin)
    parts = _find_parts(spans)
    facts = _find_facts(spans)
    given = {part: facts[part] for part in ORDER if part in facts}
    server = next((server for span in _nearest_to_work(spans) if (server := _server_of(span))), "")
    code = next((number for tag in CODES if (number := to_number(root.tags.get(tag))) is not None), None)
    outcome = outcome_of(int(code)) if code is not None and code >= 100 else FAILED if root.is_error else OK
    return ServedRequest(
        root.begin,
        root.end,
        server,
        outcome,
        facts.get("first_token", NAN),
        facts.get("prompt_tokens", NAN),
        facts.get("output_tokens", NAN),
        parts={**parts, **given},
    )


def _find_parts(spans: Sequence[RequestSpan]) -> dict[str, float]:
    """Returns the seconds of each part that spans show; what two cover counts once."""
    parts: dict[str, float] = {}
    before = np.empty((0, 2))
    for part in ORDER:
        own = np.array([(span.begin, span.end) for span in spans if part_of(span.name) == part], np.float64)
        if len(own):
            whole = np.concatenate((before, own))
            parts[part] = _covered(whole) - _covered(before)
            before = whole
    return parts


def _covered(spans: F64) -> float:
    return float(covered_time(spans, np.array([spans[:, 0].min(), spans[:, 1].max()]))[0]) if len(spans) else 0.0


def _find_facts(spans: Sequence[RequestSpan]) -> dict[str, float]:
    """Returns the numbers that tags state, by what they mean; durations are seconds."""
    facts: dict[str, float] = {}
    for span in spans:
        for tag, value in span.tags.items():
            meaning = meaning_of(tag.rpartition(".")[2])
            number = to_number(value) if meaning else None
            if number is not None and number >= 0:
                facts.setdefault(meaning, number)
    return facts


def _nearest_to_work(spans: Sequence[RequestSpan]) -> list[RequestSpan]:
    """Returns spans of parts first, the longest first, then the others from the innermost on."""
    return sorted(
        spans,
        key=lambda span: (not part_of(span.name), -(span.end - span.begin) if part_of(span.name) else -span.begin),
    )


def _server_of(span: RequestSpan) -> str:
    return next((server_name(span.tags[tag]) for tag in SERVER_TAGS if span.tags.get(tag) not in (None, "")), "")


def _describe(request: ServedRequest) -> str:
    """Returns where the time of the slowest request went; '' where no span says it."""
    whole = request.end - request.arrival
    shares = [
        f"{part} {request.parts[part]:.3g} s ({request.parts[part] / whole:.0%})"
        for part in ("queue", "prefill", "transfer", "decode")
        if whole > 0 and request.parts.get(part, 0.0) > SHARE_SHOWN * whole
    ]
    return f"the slowest request took {whole:.3g} s: {', '.join(shares)}" if shares else ""


@dataclass
class _SpanReader:
    """Collects the spans of one file by trace."""

    file: str
    traces: dict[str, list[RequestSpan]] = field(default_factory=lambda: defaultdict(list))
    _count: int = 0
    _most: int = field(default_factory=EVENTS.limit)

    def read(self, file: BinaryIO) -> str:
        """Reads all spans; returns a note where the file is cut off.

        Raises:
            InputError: it is damaged, or has too many spans.
        """
        reader = JsonReader(file, self.file)
        held: dict[str, Any] = {}
        number = 0
        arrays = ("resourceSpans", "resource_spans", "batches", "data")
        try:
            for document, member, value in reader.documents(("trace", "data"), arrays):
                if document != number:
                    self._add_trace(held)
                    number, held = document, {}
                if member in ("spans", "processes", "traceID"):
                    held[member] = value
                for each in value if isinstance(value, list) and member not in ("spans", "processes") else (value,):
                    # Zipkin writes each trace as a list of its own.
                    if isinstance(each, dict) and member not in ("spans", "processes", "traceID"):
                        self._add_element(each)
        except CutOffError:
            self._add_trace(held)
            return "ends inside a span, which is left out"
        self._add_trace(held)
        return ""

    def _add_element(self, value: Mapping[str, Any]) -> None:
        """Adds an element of a list: what a resource sent, a trace of Jaeger, or a span of Zipkin."""
        if "spans" in value:
            self._add_trace(value)
        elif "traceId" in value and "timestamp" in value:
            self._add(_zipkin_span(value))
        elif "resourceSpans" in value:
            for each in _dicts(value["resourceSpans"]):
                self._add_resource(each)
        else:
            self._add_resource(value)

    def _add_trace(self, trace: Mapping[str, Any]) -> None:
        processes = trace.get("processes")
        for raw in _dicts(trace.get("spans")):
            self._add(_jaeger_span(raw, processes if isinstance(processes, dict) else {}))

    def _add_resource(self, value: Mapping[str, Any]) -> None:
        resource = value.get("resource")
        common = _otlp_tags(resource.get("attributes")) if isinstance(resource, dict) else {}
        for name in ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            for scope in _dicts(value.get(name)):
                for raw in _dicts(scope.get("spans")):
                    self._add(_otlp_span(raw, common))

    def _add(self, span: RequestSpan | None) -> None:
        if span is None or not span.end >= span.begin > 0:
            return
        self._count += 1
        if self._count > self._most:
            raise InputError([EVENTS.problem(self.file, hint="Export fewer.")])
        self.traces[span.trace].append(span)


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _otlp_tags(attributes: object) -> dict[str, Any]:
    """Returns attributes of OpenTelemetry by name."""
    tags = {}
    for each in _dicts(attributes):
        value = each.get("value")
        if isinstance(value, dict) and value:
            tags[str(each.get("key"))] = next(iter(value.values()))
    return tags


def _otlp_span(raw: Mapping[str, Any], common: Mapping[str, Any]) -> RequestSpan | None:
    begin, end = (to_number(raw.get(name)) for name in ("startTimeUnixNano", "endTimeUnixNano"))
    if begin is None or end is None:
        return None
    tags = {**common, **_otlp_tags(raw.get("attributes"))}
    status = raw.get("status")
    code = status.get("code") if isinstance(status, dict) else None
    for event in _dicts(raw.get("events")):
        moment = to_number(event.get("timeUnixNano"))
        if moment is not None and FIRST_TOKEN.search(str(event.get("name")).lower()):
            tags.setdefault("first_token", (moment - begin) / NANOSECONDS)
    identity = (str(raw.get("traceId")), str(raw.get("spanId")), str(raw.get("parentSpanId") or ""))
    name, is_error = str(raw.get("name")), code in (2, "STATUS_CODE_ERROR")
    return RequestSpan(*identity, name, begin / NANOSECONDS, end / NANOSECONDS, tags, is_error)


def _jaeger_span(raw: Mapping[str, Any], processes: Mapping[str, Any]) -> RequestSpan | None:
    begin, length = (to_number(raw.get(name)) for name in ("startTime", "duration"))
    if begin is None or length is None:
        return None
    process = processes.get(str(raw.get("processID")))
    common = _jaeger_tags(process.get("tags")) if isinstance(process, dict) else {}
    tags = {**common, **_jaeger_tags(raw.get("tags"))}
    for log in _dicts(raw.get("logs")):
        moment = to_number(log.get("timestamp"))
        words = " ".join(str(value) for value in _jaeger_tags(log.get("fields")).values()).lower()
        if moment is not None and FIRST_TOKEN.search(words):
            tags.setdefault("first_token", (moment - begin) / MICROSECONDS)
    parent = next((str(each.get("spanID")) for each in _dicts(raw.get("references"))), raw.get("parentSpanID") or "")
    is_error = str(tags.get("error", "")).lower() == "true" or tags.get("otel.status_code") == "ERROR"
    identity = (str(raw.get("traceID")), str(raw.get("spanID")), str(parent))
    name = str(raw.get("operationName"))
    return RequestSpan(*identity, name, begin / MICROSECONDS, (begin + length) / MICROSECONDS, tags, is_error)


def _jaeger_tags(tags: object) -> dict[str, Any]:
    return {str(each.get("key")): each.get("value") for each in _dicts(tags)}


def _zipkin_span(raw: Mapping[str, Any]) -> RequestSpan | None:
    begin, length = to_number(raw.get("timestamp")), to_number(raw.get("duration") or 0)
    if begin is None or length is None:
        return None
    given = raw.get("tags")
    tags = dict(given) if isinstance(given, dict) else {}
    identity = (str(raw.get("traceId")), str(raw.get("id")), str(raw.get("parentId") or ""))
    name = str(raw.get("name"))
    return RequestSpan(*identity, name, begin / MICROSECONDS, (begin + length) / MICROSECONDS, tags, "error" in tags)


READER = artefact_reader(
    "traces of requests as JSON of Jaeger, OpenTelemetry, Tempo or Zipkin",
    read_series,
    recognise,
    placed_by_name=True,
)
