"""What the fields of a row of a request mean, by the words of their names, and in which unit they are.

Benchmarks, proxies and servers write the same few facts under many names. A field that is not in these tables is not
used; a unit that a name does not state follows from the other fields of the row, or from the size of the values.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from skewscope.adapters.inputs.cell_values import SECONDS_UNITS, to_number, to_time
from skewscope.adapters.inputs.request_rows import FAILED, NAN, OK, PARTS, ServedRequest, outcome_of
from skewscope.adapters.mapping.column_names import split_name
from skewscope.adapters.mapping.scales import UNITS

WORDS = {
    "arrival": (
        *("arrival", "arrival time", "arrived", "arrived at", "start", "start time", "started at", "start timestamp"),
        *("launch time", "launched at", "submit time", "submitted at", "sent at", "send time", "created", "created at"),
        *(
            "request start",
            "request start time",
            "request timestamp",
            "begin",
            "received at",
            "start utc",
            "enqueue time",
        ),
    ),
    "stamp": ("time", "timestamp", "ts", "datetime", "date", "msec", "time local", "time iso 8601", "time iso8601"),
    "end": (
        *("end", "end time", "ended at", "end timestamp", "finish time", "finished", "finished at", "finish"),
        *("completion time", "completed at", "request end", "request end time", "done at"),
    ),
    "duration": (
        *("latency", "e2e", "e2e latency", "e2el", "end to end latency", "duration", "request duration", "total time"),
        *("total latency", "request latency", "response time", "request time", "total duration", "generation time"),
        *("time taken", "process time"),
    ),
    "first_token": (
        *("ttft", "time to first token", "first token", "first token time", "first token latency", "first token at"),
        *("first chunk time", "first chunk latency", "time to first chunk", "first byte latency", "time to first byte"),
        *("ttfb", "upstream header time", "x envoy upstream service time", "upstream service time"),
    ),
    "prompt_tokens": (
        *("prompt token", "input token", "input len", "input length", "prompt len", "prompt length", "isl"),
        *("input sequence length", "context token", "token in", "request token"),
    ),
    "output_tokens": (
        *("output token", "generation token", "generated token", "completion token", "output len", "output length"),
        *("osl", "output sequence length", "token out", "response token", "output token count", "generated length"),
    ),
    "tpot": ("tpot", "time per output token", "itl", "inter token latency", "time between token", "tbt"),
    "code": (
        *("status", "status code", "http status", "http code", "code", "response code", "downstream status"),
        *("http status code", "response status"),
    ),
    "error": ("error", "error code", "error message", "exception", "failure"),
    "success": ("success", "ok", "succeeded", "is success"),
    "server": (
        *("upstream", "upstream addr", "upstream address", "upstream host", "replica", "replica id", "backend"),
        *("backend url", "server", "server name", "endpoint url", "instance", "pod", "pod name", "worker", "engine"),
        *("engine id", "target", "service addr", "router backend", "dp rank", "backend name", "routed to"),
    ),
    "method": ("method", "request method", "http method"),
    "path": ("path", "uri", "request uri", "request path", "url path"),
    "request": ("request",),
    "queue": (
        "queue",
        "queue time",
        "time in queue",
        "queue wait",
        "queue wait time",
        "queue duration",
        "waiting time",
        "wait time",
    ),
    "prefill": ("prefill", "prefill time", "time in model prefill", "prefill duration"),
    "transfer": ("kv transfer", "kv transfer time", "transfer time", "kv xfer time", "transfer duration"),
    "decode": ("decode", "decode time", "time in model decode", "decode duration"),
}
"""Names of each field; `stamp` is the arrival, or the end where a server writes its line at the end."""
FIELDS = {frozenset(text.split()): name for name, texts in WORDS.items() for text in texts}
MOMENTS = ("arrival", "stamp", "end")
DURATIONS = ("duration", "first_token", "tpot", *PARTS)
OTHERS = ("prompt_tokens", "output_tokens", "code", "error", "success", "server")
BLANKS = frozenset(("", "-", "n/a", "na", "null", "none", "nan"))
YES = frozenset(("1", "true", "yes", "ok", "success", "succeeded", "completed", "finished", "stop", "length"))
NO = frozenset(("0", "false", "no", "error", "failed", "failure", "timeout", "aborted", "cancelled", "canceled"))
READ_ONLY = frozenset(("GET", "HEAD", "OPTIONS"))
ROWS_OF_SAMPLE = 1000
USUAL_LIMIT_S = 60.0
"""Seconds that nginx waits for an answer unless it is told otherwise: a shorter file may hold such a request."""
EXPECTED = "rows with the arrival of a request (start_time), and its end, its latency or ttft"

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class FieldUse:
    """How a field of a row is read."""

    name: str
    """As the file calls it."""
    divisor: float = 1.0
    """How many of its unit are a second."""
    is_assumed: bool = False
    """Whether the unit follows from the values alone."""


@dataclass(frozen=True)
class RequestFields:
    """The fields of the rows of one file that are used, by what they mean."""

    uses: Mapping[str, FieldUse] = field(default_factory=dict)

    @property
    def is_request(self) -> bool:
        """Whether rows with these fields are requests: when they came, how long they took, and something else."""
        used = self.uses.keys()
        times = bool(used & set(MOMENTS)) + bool(used & {"duration", "first_token"}) + ("end" in used)
        return bool(used & {"arrival", "stamp", "end"}) and times >= 2 and bool(used & set(OTHERS))

    def describe(self) -> str:
        """Returns which units are assumed; '' for none."""
        words = {1.0: "s", 1e3: "ms", 1e6: "us", 1e9: "ns"}
        some = [f"{use.name} ({words[use.divisor]})" for use in self.uses.values() if use.is_assumed]
        return f"units taken by the size of the values: {', '.join(sorted(some))}" if some else ""


def find_fields(names: Iterable[str]) -> RequestFields:
    """Returns what fields of these names mean; the first one of each meaning counts."""
    uses: dict[str, FieldUse] = {}
    for name in names:
        if (meaning := meaning_of(name)) and meaning not in uses:
            scale = UNITS.get(split_name(name).unit, ("", 1.0))
            uses[meaning] = FieldUse(name, round(1 / scale[1]) if scale[0] == "s" else 0.0)
    return RequestFields(uses)


@lru_cache(4096)
def meaning_of(name: str) -> str:
    """Returns what a field of this name means, a key of `WORDS`; '' for none."""
    words = split_name(name).words
    return FIELDS.get(words) or FIELDS.get(words - {"http"}, "")


def settle_units(fields: RequestFields, rows: Sequence[Row]) -> RequestFields:
    """Returns fields with the unit of each duration whose name does not say it, by the first rows of a file."""
    some = rows[:ROWS_OF_SAMPLE]
    uses = dict(fields.uses)
    span = _span(uses, some)
    shared = _unit_of_maker(uses)
    for meaning in DURATIONS:
        use = uses.get(meaning)
        if use is None or use.divisor:
            continue
        values = [value for row in some if (value := to_number(row.get(use.name))) is not None and value >= 0]
        divisor = shared or _unit_by_size(values, span)
        uses[meaning] = replace(use, divisor=divisor, is_assumed=not shared and divisor != 1.0)
    return RequestFields(uses)


def _unit_of_maker(uses: Mapping[str, FieldUse]) -> float:
    """Returns the unit of the durations of a proxy that is known by its fields; 0 for none."""
    names = {use.name for use in uses.values()}
    if {"response_code", "upstream_host", "x-envoy-upstream-service-time"} & names:
        return 1e3
    if {"Duration", "ServiceAddr", "DownstreamStatus"} <= names or {"Duration", "StartUTC"} <= names:
        return 1e9
    return 1.0 if {"request_time", "time_local", "time_iso8601"} & names else 0.0


def _unit_by_size(values: Sequence[float], span: float) -> float:
    """Returns the unit of durations: no request takes longer than all of them together, in the mean."""
    typical = sorted(values)[len(values) // 2] if values else 0.0
    is_whole = bool(values) and all(value == int(value) for value in values) and typical >= 10
    for divisor in SECONDS_UNITS:
        if typical / divisor <= max(span, USUAL_LIMIT_S) and not (is_whole and divisor == 1.0):
            return divisor
    return 1.0


def _span(uses: Mapping[str, FieldUse], rows: Sequence[Row]) -> float:
    """Returns the seconds from the first to the last moment of rows."""
    names = [uses[name] for name in MOMENTS if name in uses]
    times = [time for row in rows for use in names[:1] if (time := to_time(row.get(use.name), use.divisor)) is not None]
    return max(times) - min(times) if times else 0.0


def read_request(row: Row, fields: RequestFields) -> ServedRequest | None:
    """Returns the request of a row; None where it has no times, or carries no prompt, as a check of health."""
    uses = fields.uses

    def cell(meaning: str) -> object:
        use = uses.get(meaning)
        return row.get(use.name) if use else None

    def seconds(meaning: str) -> float:
        number = to_number(cell(meaning))
        return NAN if number is None or number < 0 else number / (uses[meaning].divisor or 1.0)

    moments = {
        name: time for name in MOMENTS if name in uses if (time := to_time(cell(name), uses[name].divisor)) is not None
    }
    method = str(cell("method") or cell("request") or "").partition(" ")[0].upper()
    if not moments or method in READ_ONLY:
        return None
    if "stamp" in moments:
        # Servers write their line when they are done, and what measures a client writes when it began.
        is_end = uses.get("duration", FieldUse("")).name == "request_time" or "end" in moments
        moments.setdefault("end" if is_end and "end" not in moments else "arrival", moments["stamp"])
    arrival, end, first = _settle_times(moments, seconds("duration"), cell("first_token"), seconds("first_token"))
    return ServedRequest(
        arrival,
        end,
        server_name(cell("server")),
        _outcome(cell("code"), cell("error"), cell("success")),
        first,
        _number(cell("prompt_tokens")),
        _number(cell("output_tokens")),
        seconds("tpot"),
        {part: value for part in PARTS if not math.isnan(value := seconds(part))},
    )


def _settle_times(
    moments: Mapping[str, float], duration: float, first: object, first_seconds: float
) -> tuple[float, float, float]:
    """Returns arrival and end in seconds since 1970, and the seconds to the first token, which may be a moment."""
    longest = duration if not math.isnan(duration) else first_seconds
    arrival = moments["arrival"] if "arrival" in moments else moments.get("end", NAN) - longest
    end = moments["end"] if "end" in moments else arrival + longest
    moment = to_time(first) if first is not None else None
    if moment is not None and arrival > 1e8 and moment >= arrival:
        return arrival, end, moment - arrival
    return arrival, end, first_seconds


def _number(value: object) -> float:
    number = to_number(value)
    return NAN if number is None or number < 0 else number


def _outcome(code: object, error: object, success: object) -> int:
    """Returns the outcome that a code of HTTP, a word, an error or a truth value says; answered where nothing is."""
    for value in (code, success):
        text = str(value).strip().lower() if value is not None else ""
        number = to_number(value)
        if value is code and number is not None and number != 1:
            return outcome_of(int(number))
        if text in NO or text in YES:
            return FAILED if text in NO else OK
    text = str(error).strip().lower() if error is not None else ""
    return OK if text in BLANKS or text in {"0", "false", "[]", "{}"} else FAILED


def server_name(value: object) -> str:
    """Returns the name of a server: the last one that was tried, without scheme and path; '' for none."""
    return _bare_server(str(value)[:300].strip()) if value is not None else ""


@lru_cache(4096)
def _bare_server(text: str) -> str:
    text = re.split(r"[,\s]+", text)[-1].rpartition("//")[2].partition("/")[0] if text else ""
    return "" if text.lower() in BLANKS or text.startswith("<") else text[:100]
