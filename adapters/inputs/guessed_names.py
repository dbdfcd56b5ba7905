"""A mapping for metrics of an unknown exporter: what the words at the end of their names mean.

The begin of a name is what the exporter is called, as in acme engine pending requests. Words, unit and type must fit a
signal together; what was taken is said, and is saved as a mapping file to edit.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import yaml

from skewscope.adapters.mapping.column_names import convert_unit, find_signal_at_end
from skewscope.adapters.mapping.counter_names import find_counter, find_counter_signal, find_pause
from skewscope.adapters.mapping.entities import DEVICE_LABELS, GPU_ID_LABELS, GPU_LABELS, NODE_LABELS
from skewscope.adapters.mapping.name_mapping import PARTS, NameMapping, parse_mapping
from skewscope.adapters.mapping.names import build_index
from skewscope.adapters.mapping.number_words import (
    HELD,
    NAME_OF_STATE,
    NumberMeaning,
    find_bad_state,
    find_number,
    split_place,
)
from skewscope.engine.model.topology_file import NODE_WITHOUT
from skewscope.kb.loader import catalogue
from skewscope.kb.model import OTHER_AREA
from skewscope.kb.problems import join_names

MAX_GUESSED = 200
"""Metrics that are taken."""
MAX_TEXT = 200
"""Characters of a metric, and of the value of a label that a rule reads."""
MAX_SHOWN = 4
SEPARATORS = re.compile(r"[_:.]+")
TOTAL = re.compile(r"_total$")
FAILED = re.compile(
    r"(?:requests?|responses?|rpcs?|calls?|queries|inferences?|generations?|transfers?)_"
    r"(?:errors?|failures?|failed|aborted|rejected|timeouts?|timed_out|dropped)"
    r"|(?:errors?|failures?|failed|aborted|rejected|timed_out)_(?:requests?|responses?|rpcs?|calls?|queries|inferences?)"
)
"""The end of the name of a counter of requests that failed, without `_total`."""
SERVED = re.compile(
    r"(?:requests?|responses?|rpcs?|calls?|queries|inferences?)_(?:success|succeeded|completed|finished|served|ok)"
    r"|(?:success|successful|succeeded|completed|finished|served|ok)_(?:requests?|responses?|rpcs?|calls?|queries)"
)
"""The end of the name of a counter of requests that were answered."""
ASKED = re.compile(r"requests?|responses?|rpcs?|calls?|queries|inferences?")
"""The end of the name of a counter of requests, answered or not."""
OUTCOMES = (
    *("outcome", "status", "result", "code", "status_code", "http_status", "envoy_response_code_class", "code_class"),
    *("finish_reason", "finished_reason", "state"),
)
"""Labels of a counter of requests that say how they ended."""
BAD_OUTCOME = re.compile(
    r"5\d\d|5xx|5|429|.*(?:err|fail|abort|timeout|timed|reject|exception|unavailable|exhausted|internal).*",
    re.IGNORECASE,
)
SERVERS = (
    *("replica", "api_base", "upstream", "upstream_addr", "backend", "server", "worker", "worker_id", "target"),
    *("envoy_cluster_name", "upstream_cluster", "cluster_name", "deployment", "model_id", "model", "service", "proxy"),
)
"""Labels by which a gateway or a server tells apart those that answer, the nearest to one of them first."""
PLACES = (
    *("pod", "ceph_daemon", "daemon", "queue", "topic", "volume", "vol_name", "volume_id", "filesystem", "disk"),
    *("database", "bucket", "instance_name", *SERVERS, "deployment", "pool"),
)
"""Labels that say what a number is of, the nearest first, whatever their number of values."""
NO_PLACES = frozenset(
    (
        *OUTCOMES,
        *NAME_OF_STATE,
        *(
            "le",
            "quantile",
            "uid",
            "namespace",
            "version",
            "type",
            "mode",
            "method",
            "path",
            "resource",
            "unit",
            "image",
        ),
        *(
            "container_id",
            "image_id",
            "ip",
            "host_ip",
            "user",
            "hashed_api_key",
            "alertname",
            "partition",
            "metric",
            "section",
        ),
        *("node", "job", *NODE_LABELS),
    )
)
"""Labels that say no place."""
HEX = re.compile(r"[0-9a-f]{16,}")
ALONE = "-"
"""In place of the label of a place: there is none, and other metrics have one."""
COUNTED = ("other.errors", "other.duration")
STATE, FAULT = "other.state", "other.fault"
URL = re.compile(r"(?P<begin>https?://)[\w.-]+(?P<end>(?::\d{1,5})?(?:/[\w./-]{0,50})?)")
PERC = re.compile(r"_perc$")
RATIO = "1"
SHARE = (0.0, 1.0)
"""The range of a signal that is a share."""


PAUSE = re.compile(r"(?P<way>rx|tx)_(?:global|prio(?P<priority>\d))_pause")
"""What `find_pause` calls counters."""
GuessKey = tuple[str, tuple[tuple[str, str], ...]]
"""A metric, and labels that its series have."""


@dataclass(frozen=True, slots=True)
class GuessedName:
    """What a metric is taken for."""

    metric: str
    signal: str
    unit: str = ""
    """Of its values, '' where it is that of the signal."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels with the values that the series has."""
    entity: tuple[tuple[str, str], ...] = ()
    """Labels that it gets."""
    part: int = 0
    """How much of what the signal counts, as in `CounterMeaning`."""


def guess_mapping(
    series: Iterable[tuple[str, Mapping[str, str]]],
    others: Iterable[tuple[str, Mapping[str, str]]] = (),
    placed: Iterable[tuple[str, Mapping[str, str]]] = (),
    types: Mapping[str, str] = MappingProxyType({}),
) -> tuple[NameMapping, str]:
    """Returns a mapping for series of unknown metrics by the words of their names, and a note of what was taken.

    Args:
        series: metric and labels of each, of inputs of which nothing is known.
        others: the same of inputs of which something is known; what these measure is known by other names.
        placed: the same of inputs that are all of one place.
        types: types that are declared, by metric.
    """
    seen = list(series)
    counters = frozenset(metric for metric, type_ in types.items() if type_ == "counter")
    guessed = {**_guess_numbers(list(others), counters), **_guess_numbers(list(placed), counters, are_placed=True)}
    metrics = {metric for metric, _ in seen}
    taken = set[str]()
    server, servers = _find_server_label([labels for _, labels in seen])
    for metric, labels in seen:
        one = _guess(metric, labels, metrics)
        if one is not None and server in labels and one.signal.startswith("serve."):
            one = replace(one, labels=(*one.labels, (server, servers)))
        if one is not None and len(guessed) < MAX_GUESSED:
            guessed.setdefault((one.metric, one.labels), one)
            taken.add(metric)
    rest = [(metric, labels) for metric, labels in seen if metric not in taken]
    for key, one in _guess_numbers(rest, counters).items():
        guessed.setdefault(key, one)
    if not guessed:
        return NameMapping(), ""
    # A rule that reads labels comes before that of the whole metric.
    ordered = sorted(_keep_wholes(list(guessed.values())), key=lambda one: (one.metric, not one.labels, one.labels))
    shown = join_names(sorted({f"{one.metric} = {one.signal}" for one in ordered}), MAX_SHOWN)
    note = f"metrics that are not known are taken by the words of their names: {shown}; --mapping FILE says otherwise"
    return parse_mapping(_render(ordered), "the guessed mapping", catalogue()), note


def _find_server_label(every: Sequence[Mapping[str, str]]) -> tuple[str, str]:
    """Returns the label that tells apart those that answer with the form of its values, '' where all are of one."""
    values: dict[str, set[str]] = {}
    for labels in every:
        for name in SERVERS:
            if name in labels:
                values.setdefault(name, set()).add(labels[name])
    name = next((name for name in SERVERS if len(values.get(name, ())) > 1), "")
    urls = [URL.fullmatch(value) for value in values.get(name, ())]
    ends = {(match["begin"], match["end"]) for match in urls if match}
    if len(ends) == 1 and all(urls):
        begin, end = ends.pop()
        return name, f"{begin}{{replica}}{end}"
    return name, "{replica}"


def _keep_wholes(guessed: Sequence[GuessedName]) -> Iterator[GuessedName]:
    """Yields the names without those of parts where another one counts more of the same."""
    least: dict[str, int] = {}
    for one in guessed:
        least[one.signal] = min(one.part, least.get(one.signal, one.part))
    yield from (one for one in guessed if one.part == least[one.signal] or one.signal.startswith(OTHER_AREA))


def _render(guessed: Sequence[GuessedName]) -> str:
    rows = [
        {
            "metric": one.metric,
            **({"labels": dict(one.labels)} if one.labels else {}),
            "signal": one.signal,
            **({"unit": one.unit} if one.unit else {}),
            **({"entity": dict(one.entity)} if one.entity else {}),
        }
        for one in guessed
    ]
    return yaml.safe_dump({"version": 1, "metrics": rows}, sort_keys=False, allow_unicode=True)


def _guess(metric: str, labels: Mapping[str, str], metrics: Collection[str]) -> GuessedName | None:
    """Returns what a metric is taken for; None where its name means nothing."""
    if not _is_plain(metric):
        return None
    base, is_histogram = _base_of(metric, metrics)
    if not is_histogram and (counted := _guess_counter(metric, labels)):
        return counted
    found = find_signal_at_end(PERC.sub("_ratio", base))
    if found is None:
        return None
    signal, name = catalogue().signals[found.signal], found.name
    # A temperature may be of anything.
    is_placed = signal.entity != "gpu" or name.is_gpu or any(map(labels.get, (*GPU_LABELS, *GPU_ID_LABELS)))
    is_fitting = (signal.type == "histogram") == is_histogram and signal.type != "counter" and not TOTAL.search(metric)
    if not is_placed or not is_fitting:
        return None
    unit = name.unit
    if signal.range == SHARE and unit in ("", "%"):
        # Programs call a share from 0 to 1 a percentage as well; what is outside the range of the signal is refused.
        unit = RATIO
    is_count = signal.unit.startswith("{")
    if (is_count and unit) or (not is_count and (not unit or convert_unit(unit, signal.unit) is None)):
        return None
    return GuessedName(base, signal.id, "" if unit == signal.unit else unit)


def _base_of(metric: str, metrics: Collection[str]) -> tuple[str, bool]:
    """Returns the name without the part of a histogram, and whether it is one of a histogram."""
    for part in PARTS:
        base = metric.removesuffix(part)
        if base != metric and f"{base}_sum" in metrics and f"{base}_count" in metrics:
            return base, True
    return metric, False


def _guess_counter(metric: str, labels: Mapping[str, str]) -> GuessedName | None:
    """Returns a counter by the words of its name."""
    bare = TOTAL.sub("", metric)
    if device := _guess_device_counter(metric, bare, labels):
        return device
    if bare == metric:
        return None
    end = SEPARATORS.sub("_", bare).lower()
    if signal := find_counter_signal(end):
        return GuessedName(metric, signal)
    return _guess_request_counter(metric, end, labels)


def _guess_device_counter(metric: str, bare: str, labels: Mapping[str, str]) -> GuessedName | None:
    """Returns a counter of a network device that a label names."""
    pause = find_pause(bare) if any(labels.get(label) for label in DEVICE_LABELS) else ""
    if match := PAUSE.fullmatch(pause):
        signal = f"prio.{match['way']}_pause" if match["priority"] else f"port.{pause}"
        return GuessedName(metric, signal, entity=(("priority", match["priority"]),) if match["priority"] else ())
    if (meaning := find_counter(bare)) and any(labels.get(label) for label in DEVICE_LABELS):
        return GuessedName(metric, build_index(catalogue())[meaning.metric][0].signal, part=meaning.part)
    return None


def _guess_request_counter(metric: str, end: str, labels: Mapping[str, str]) -> GuessedName | None:
    """Returns a counter of requests, or of those that failed."""
    if re.search(rf"(?:^|_)(?:{FAILED.pattern})$", end):
        return GuessedName(metric, "serve.failure")
    is_served = bool(re.search(rf"(?:^|_)(?:{SERVED.pattern})$", end))
    if not is_served and not re.search(rf"(?:^|_)(?:{ASKED.pattern})$", end):
        return None
    outcome = next(((name, labels[name]) for name in OUTCOMES if _is_plain(labels.get(name, ""))), None)
    if outcome and BAD_OUTCOME.fullmatch(outcome[1]):
        return GuessedName(metric, "serve.failure", labels=(outcome,))
    # Where those that were answered have a counter, one of all would count them twice.
    return GuessedName(
        metric, "serve.success", labels=(outcome,) if outcome else (), part=int(not is_served and not outcome)
    )


def _guess_numbers(
    series: Sequence[tuple[str, Mapping[str, str]]], counters: Collection[str], *, are_placed: bool = False
) -> dict[GuessKey, GuessedName]:
    """Returns the numbers of which only the words of their names are known.

    Args:
        series: metric and labels of each.
        counters: metrics that are declared as such.
        are_placed: whether the place of others of their input is theirs.
    """
    metrics = {split_place(metric)[0] for metric, _ in series}
    places = {} if are_placed else find_place_labels(series)
    found: dict[GuessKey, GuessedName] = {}
    for metric, labels in series:
        one = _guess_number(metric, labels, metrics, places.get(metric, ""))
        # What only grows is no level; what is counted may be errors.
        one = None if one is not None and metric in counters and one.signal not in COUNTED else one
        if one is not None and len(found) < MAX_GUESSED:
            found.setdefault((one.metric, one.labels), one)
    return found


def _guess_number(metric: str, labels: Mapping[str, str], metrics: Collection[str], place: str) -> GuessedName | None:
    """Returns a number of which only the words of its name are known, as a signal `other.*`; None for none.

    Args:
        metric: its name.
        labels: those of the series.
        metrics: all names, without places in them.
        place: the label that says what it is of; ALONE where only others have one, '' where none has.
    """
    own, host = split_place(metric)
    base, is_histogram = _base_of(own, metrics)
    state = find_bad_state(labels) if not TOTAL.search(own) else None
    meaning = NumberMeaning(FAULT) if state else find_number(base, is_histogram=is_histogram)
    if meaning is None or not _is_plain(metric) or (meaning.signal == STATE and not _is_held(labels)):
        return None
    fixed = [state] if state else [("condition", labels["condition"])] if "condition" in labels else []
    read = (
        *((place, "{node}"),) * (place not in ("", ALONE)),
        *((name, value) for name, value in fixed if _is_plain(value)),
    )
    signal = catalogue().signals[meaning.signal]
    unit = "" if convert_unit(meaning.unit or signal.unit, signal.unit) in (1.0, None) else meaning.unit
    called = " ".join([base, *(value for _, value in fixed)])
    # Beside what has a place of its own, the program itself is one.
    is_alone = place == ALONE and not any(labels.get(name) for name in NODE_LABELS)
    host = host or (SEPARATORS.split(metric)[0] if is_alone else "")
    entity = (("metric", called), *((("node", host),) if host else ()))
    return GuessedName(base if is_histogram and not host else metric, meaning.signal, unit, read, entity)


def _is_held(labels: Mapping[str, str]) -> bool:
    """Returns whether a series of several, one for each value of a condition, is that of the good one."""
    return labels.get("condition", "true").lower() in HELD


def find_place_labels(series: Sequence[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """Returns by metric the label that says what each series of it is of, where no host does.

    It is the label with the most values, of those that are names; a pod rather than its container.
    """
    values: dict[str, dict[str, set[str]]] = {}
    for metric, labels in series:
        for name, value in labels.items():
            values.setdefault(metric, {}).setdefault(name, set()).add(value)
    every: dict[str, set[str]] = {}
    for each in values.values():
        for name, some in each.items():
            every.setdefault(name, set()).update(some)
    if any(len(every.get(name, ())) > 1 for name in NODE_LABELS):
        return {}
    usable = {name: len(some) for name, some in every.items() if all(map(_is_name, some)) and name not in NO_PLACES}
    ranked = sorted(
        usable, key=lambda name: (name not in PLACES, -usable[name], PLACES.index(name) if name in PLACES else 0)
    )
    found = {}
    for metric, own in values.items():
        place = next((name for name in ranked if name in own and (usable[name] > 1 or name in PLACES)), "")
        found[metric] = place
    return {metric: place or ALONE for metric, place in found.items()} if any(found.values()) else {}


def _is_name(text: str) -> bool:
    """Returns whether a value of a label may be the name of a place."""
    return _is_plain(text) and not set(text) & set(NODE_WITHOUT) and not HEX.fullmatch(text)


def _is_plain(text: str) -> bool:
    """Returns whether a text stands for itself in a mapping file."""
    return 0 < len(text) <= MAX_TEXT and text.isprintable() and not set(text) & set("{}")
