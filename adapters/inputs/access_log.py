"""Inputs of kind `access-log`: lines that a proxy or a server writes for each request.

Known are the combined format of nginx and Apache with what people append to it (as ingress-nginx and Traefik do),
Envoy's default format (also Istio's), `option httplog` of HAProxy, and uvicorn's lines. Such logs as JSON lines are of
kind `request-table`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import BinaryIO, NamedTuple

from skewscope.adapters.formats.log_lines import decode_head, read_block_lines
from skewscope.adapters.inputs.cell_values import to_number, to_time
from skewscope.adapters.inputs.file_origin import own_time
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.inputs.messages import with_messages
from skewscope.adapters.inputs.request_fields import READ_ONLY, meaning_of, server_name
from skewscope.adapters.inputs.request_rows import NAN, RequestCollector, ServedRequest, outcome_of
from skewscope.adapters.inputs.text_times import LineTimes
from skewscope.kb.problems import InputError, NothingKnownError, Problem

MAX_LINE = 4000
"""Characters of a line that are read."""
QUOTED = r'"(?:[^"\\]|\\.){0,2000}+"'
METHOD = r"(?P<method>[A-Z]{3,7})"
COMBINED = re.compile(
    r"(?<!\S)\S{1,64} \S{1,64} [^\[]{0,80}\[(?P<time>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "
    rf'"{METHOD} [^"]*+" (?P<code>\d{{3}}) (?:\d+|-)(?: {QUOTED} {QUOTED})?(?P<rest>.*)'
)
ENVOY = re.compile(
    rf'\[(?P<time>\d{{4}}-\d\d-\d\dT[\d:.]+Z?)\] "{METHOD} [^"]*+" (?P<code>\d{{1,3}}) (?P<flags>[A-Za-z,-]+)'
    rf'(?: (?P<details>[^"\d\s]\S*) (?P<termination>\S+) (?P<failure>{QUOTED}))? \d+ \d+ (?P<duration>\d+)'
    rf" (?P<first>\d+|-)(?P<rest>(?: {QUOTED})*)"
)
HAPROXY = re.compile(
    r" \[(?P<time>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d\.\d{3})\] \S+ (?P<backend>[^\s/]+)/(?P<server>\S+)"
    r" (?P<timers>[+-]?-?\d+(?:/[+-]?-?\d+){4}) (?P<code>-?\d{1,3}) \+?\d+ \S+ \S+ \S+ [\d/+]+ \d+/\d+"
    r'(?: \{[^}]*\})* "(?P<method>[A-Z]{3,7}|<BADREQ>)'
)
UVICORN = re.compile(
    rf'(?<!\S)(?:[\da-f.:\[\]]{{2,60}}|localhost(?::\d+)?) - "{METHOD} [^"]*+" (?P<code>\d{{3}})(?: |$)'
)
ALB = re.compile(
    r"^(?:https?|h2|grpcs|wss?) (?P<time>\d{4}-\d\d-\d\dT[\d:.]+Z) \S+ \S+ (?P<server>\S+)"
    r" (?P<times>-?[\d.]+ -?[\d.]+ -?[\d.]+) (?P<code>\d{3}|-) (?P<own>\d{3}|-) \d+ \d+ \"(?P<method>[A-Z]{3,7}) "
)
PAIR = re.compile(rf'(?<![\w.$-])([A-Za-z][\w.$-]{{0,40}}) ?[=:] ?({QUOTED}|\[[^\]]{{0,200}}\]|[^\s",;]+)')
ADDRESS = re.compile(r"(?:https?://)?(?:\[[0-9a-f:]+\]|[A-Za-z0-9](?:[\w.-]*\w)?):\d{2,5}(?:/\S*)?")
SECONDS = re.compile(r"\d+\.\d{3}")
"""Times of nginx have three decimals, and no other number of its lines has."""
MILLISECONDS = re.compile(r"(\d+)ms")
TOKEN = re.compile(rf"{QUOTED}|\[[^\]]{{0,200}}\]|\S+")
SHORT_NAMES = {
    **dict.fromkeys(("rt", "request_time", "req_time", "requesttime"), "duration"),
    **dict.fromkeys(("urt", "upstream_response_time", "upstream_time"), "upstream_time"),
    **dict.fromkeys(("uht", "upstream_header_time"), "first_token"),
    **dict.fromkeys(("ua", "us_addr", "upstream_addr", "upstream", "to", "backend"), "server"),
}
"""Names that are usual before a value in lines of nginx, beside those of fields of requests."""
EXAMPLES = "lines of nginx, Apache, Envoy, HAProxy or uvicorn for each request"
HINT = "In nginx, append `rt=$request_time urt=$upstream_response_time ua=$upstream_addr` to the log_format."
MAX_OTHER = 0.5
"""Share of the lines that may be something else, as where a server writes its messages between."""

LineMatch = re.Match[str]


def read_nginx(line: LineMatch) -> ServedRequest | None:
    """Returns the request of a line in the combined format with something appended."""
    end = to_time(line["time"])
    facts = _facts(line["rest"])
    duration = _first_number(facts, "duration", "upstream_time")
    if end is None or duration is None:
        return None
    first = _first_number(facts, "first_token")
    code = outcome_of(int(line["code"]))
    return ServedRequest(end - duration, end, server_name(facts.get("server")), code, NAN if first is None else first)


def _first_number(facts: Mapping[str, str], *names: str) -> float | None:
    numbers = (to_number(facts.get(name)) for name in names)
    return next((number for number in numbers if number is not None and number >= 0), None)


def _facts(rest: str) -> dict[str, str]:
    """Returns what is appended to a line, by what it means: by the names before values, else by their form."""
    facts: dict[str, str] = {}
    for name, value in PAIR.findall(rest):
        if meaning := _meaning(name):
            facts.setdefault(meaning, value.strip('"[]'))
    if {"duration", "upstream_time"} & facts.keys():
        return facts
    tokens = [token.strip('"') for token in TOKEN.findall(rest)]
    times = [token.rpartition(",")[2].strip() for token in tokens]
    durations = [token for token in times if SECONDS.fullmatch(token)]
    durations += [str(int(match[1]) / 1000) for token in times if (match := MILLISECONDS.fullmatch(token))]
    addresses = [token for token in tokens if ADDRESS.fullmatch(token.rpartition(",")[2].strip())]
    return {
        **facts,
        **({"duration": durations[0]} if durations else {}),
        **({"server": addresses[-1]} if addresses and "server" not in facts else {}),
    }


@lru_cache(4096)
def _meaning(name: str) -> str:
    """Returns what a value of a name means; '' for none."""
    return SHORT_NAMES.get(name.lower()) or meaning_of(name)


def read_envoy(line: LineMatch) -> ServedRequest | None:
    """Returns the request of a line of Envoy: times are milliseconds, the begin is stated."""
    arrival = to_time(line["time"])
    if arrival is None:
        return None
    quoted = re.findall(QUOTED, line["rest"])
    server = server_name(quoted[4].strip('"')) if len(quoted) > 4 else ""
    first = NAN if line["first"] == "-" else int(line["first"]) / 1000
    return ServedRequest(arrival, arrival + int(line["duration"]) / 1000, server, outcome_of(int(line["code"])), first)


def read_haproxy(line: LineMatch) -> ServedRequest | None:
    """Returns the request of a line of HAProxy: request, queue, connection, response and total time in milliseconds."""
    arrival = to_time(line["time"])
    _, queue, _, response, total = (int(text.lstrip("+")) for text in line["timers"].split("/"))
    if arrival is None or total < 0:
        return None
    parts = {"queue": queue / 1000} if queue >= 0 else {}
    first = (max(queue, 0) + response) / 1000 if response >= 0 else NAN
    server = server_name(line["server"])
    return ServedRequest(arrival, arrival + total / 1000, server, outcome_of(int(line["code"])), first, parts=parts)


def read_alb(line: LineMatch) -> ServedRequest | None:
    """Returns the request of a line of a load balancer of AWS, which is written at its end: times are seconds."""
    end = to_time(line["time"])
    times = [float(text) for text in line["times"].split()]
    if end is None or line["code"] == "-":
        return None
    # A time of -1 stands for a target that did not answer.
    known = [time for time in times if time >= 0]
    first = sum(known[:2]) if len(known) == len(times) else NAN
    server = server_name(line["server"]) if line["server"] != "-" else ""
    return ServedRequest(end - sum(known), end, server, outcome_of(int(line["code"])), first)


class Form(NamedTuple):
    """The lines of some servers."""

    pattern: re.Pattern[str]
    read: Callable[[LineMatch], ServedRequest | None] | None
    """Returns the request of a line; None where lines state no durations."""


FORMS = (
    *(Form(COMBINED, read_nginx), Form(ENVOY, read_envoy), Form(HAPROXY, read_haproxy), Form(ALB, read_alb)),
    Form(UVICORN, None),
)


def find_form(lines: Sequence[str]) -> Form | None:
    """Returns the form of which the most of some lines are; None where most are of none."""
    counts = [(sum(bool(form.pattern.search(line, 0, MAX_LINE)) for line in lines), form) for form in FORMS]
    most, form = max(counts, key=lambda each: each[0])
    return form if most and most >= (1 - MAX_OTHER) * len(lines) else None


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether most of the first lines of a file are of an access log."""
    lines = [line for line in decode_head(head)[:100] if line]
    return bool(lines) and find_form(lines) is not None


def read_series(file: BinaryIO, name: str, labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of the servers that answered the requests of a log.

    Raises:
        InputError: no line is of a request; NothingKnownError: none says how long it took.
    """
    lines = ((number, text) for number, text in read_block_lines(file, name) if text)
    first = [line for _, line in zip(range(100), lines, strict=False)]
    form = find_form([text for _, text in first])
    if form is None:
        what = f"{first[0][1][:60]!r}" if first else "an empty file"
        raise InputError([Problem(name, first[0][0] if first else 0, "", what, EXAMPLES)])
    collector = RequestCollector(name, labels, undated_end=own_time(name) or 1.0)
    times, others = LineTimes(labels, name, -1.0), 0
    for number, text in chain(first, lines):
        match = form.pattern.search(text, 0, MAX_LINE)
        if match is None:
            others += 1
        elif match["method"] not in READ_ONLY:
            request = form.read(match) if form.read else _untimed(times.read(text), match)
            if request:
                collector.add(request, number)
            else:
                collector.left_out += 1
    if not len(collector):
        what = f"no line that says how long a request took, among {collector.left_out} of requests: too little to judge"
        raise NothingKnownError([Problem(name, 0, "", what, "durations, such as $request_time", HINT)])
    collector.notes += [f"{others} lines of something else are left out" if others else ""]
    collector.notes += ["" if form.read else "its lines state no durations: only answers and failures are counted"]
    return collector.series()


def _untimed(time: float, match: LineMatch) -> ServedRequest:
    """Returns the request of a line that has no duration, at the time of the line; without a date where it has none."""
    moment = max(time, 0.0)
    return ServedRequest(moment, moment, "", outcome_of(int(match["code"])))


READER = artefact_reader(
    "access log of nginx, Apache, Traefik, Envoy, HAProxy or uvicorn",
    with_messages(read_series),
    recognise,
    placed_by_name=True,
    is_fallback=True,  # servers write lines for requests between their own, which say more
)
