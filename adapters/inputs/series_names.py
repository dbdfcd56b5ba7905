"""Series by what people call them: legends and titles of panels, names of runs and of what they log, tags of summaries.

A name is a metric with labels (`metric{label="x"}`), words that mean a signal (`system/gpu.0.temp`), or only a place
(`a:8000`, `GPU 3`) below a title that means one.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from skewscope.adapters.inputs.column_roles import find_unit
from skewscope.adapters.inputs.file_origin import join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries
from skewscope.adapters.mapping.column_names import convert_unit, find_signal, find_signal_at_end, split_name
from skewscope.adapters.mapping.names import build_index
from skewscope.adapters.mapping.number_words import find_number, find_unit_of
from skewscope.engine.model.arrays import F64
from skewscope.kb.loader import catalogue
from skewscope.kb.model import Signal
from skewscope.kb.problems import join_names

MAX_NAME = 2000
MAX_SHOWN = 4
LEGEND = re.compile(r"\s*(?P<metric>[A-Za-z_:][\w:.]{0,200})?\s*\{(?P<labels>[^{}]*)\}\s*")
PAIR = re.compile(r'\s*([A-Za-z_][\w.]{0,100})\s*[=:]\s*(?:"((?:[^"\\]|\\.)*+)"|([^,"]*))\s*(?:,|$)')
RUN = re.compile(r"(?P<run>.{1,200}?) - (?P<name>[^\s].*)")
"""`run - metric`, as W&B heads its columns."""
GPU_IN_PLACE = re.compile(r"\bgpu[ _#:=-]*(\d{1,3})\b", re.IGNORECASE)
NUMBERED = re.compile(r"\d{1,4}")
NEUTRAL_BEGIN = re.compile(r"(?:system[/.]|(?:train|training|trainer|perf|timing)[_/. -](?=\w))", re.IGNORECASE)
"""What stands before names and says nothing of what they measure."""
RUN_GPU = re.compile(r"gpu\.(\d{1,3})\.gpu")
"""What W&B calls the utilisation of a GPU."""
HOST = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,250}\w)?(?::\d{1,5})?")
PATH_END = re.compile(r"[^/]*$")
QUANTILE = re.compile(r"[(\[]?\b(?:[pP]\d{2,3}|\d{1,2}(?:\.\d)?(?:th)? (?:percentile|quantile)|median|max|min)\b[)\]]?")
"""What says which of many values a series is."""
HOST_METRIC_GPU = re.compile(r"(?P<host>[\w.-]{1,250}) (?P<metric>\w{1,200}) (?P<gpu>\d{1,3})")
DIGIT = re.compile(r"\d")
MAX_WORDS = 8
"""Words of a name that are divided into what is measured and where."""
LATE_S = 100.0
"""A number without a unit that is larger is a latency in milliseconds: clients do not wait so many seconds."""
UNIT_WITHIN = 3.0
"""A duration and the time between its samples are in one unit where they differ by no more than this factor: units of
time are a thousand apart."""
PLACE_LABELS = {"gpu": "node", "node": "node", "engine": "instance", "group": "group", "rank": "rank"}
"""By what a signal measures: the label that a plain name is."""


@dataclass(frozen=True, slots=True)
class NamedSeries:
    """What a name means."""

    metric: str
    labels: Mapping[str, str]
    scale: float = 1.0
    """Factor from the values to the unit of the metric."""
    note: str = ""
    """What was taken by its words; '' for metrics."""


@dataclass(frozen=True, slots=True)
class SeriesContext:
    """What is known of a series beside its name."""

    title: str = ""
    """Of its panel, or of its file."""
    seconds: float = 0.0
    """Between two steps, in the median; 0 where unknown."""
    unit: str = ""
    """Of the values, where they are written with it."""


def name_series(name: str, values: F64, context: SeriesContext) -> NamedSeries:
    """Returns what a name means; a metric of that name that is not known, for one that means nothing.

    Args:
        name: the name.
        values: [sample] its values, by which a unit that is not stated is found.
        context: what is known beside.
    """
    name = name[:MAX_NAME].strip()
    legend = LEGEND.fullmatch(name)
    if legend:
        labels = {key: quoted or plain.strip() for key, quoted, plain in PAIR.findall(legend["labels"])}
        metric = legend["metric"] or labels.pop("__name__", "")
        if metric:
            return NamedSeries(metric, labels)
        return _by_words(context.title, labels, values, context) or NamedSeries(name, labels)
    if is_known_metric(name):
        return NamedSeries(name, {})
    run = RUN.fullmatch(name)
    own, place = (run["name"], run["run"].strip()) if run else (name, "")
    whole, (own, labels) = own, _take_quantile(own)
    labels |= {"": place} if place else {}
    named = _by_words(own, labels, values, context) or _by_parts(own, labels, values, context)
    if named is None and context.title:
        named = _by_words(context.title, {**_place(own), **labels}, values, context)
    return named or _by_end(own, labels, values, context) or _by_number(whole, context)


def _by_number(name: str, context: SeriesContext) -> NamedSeries:
    """Returns a series that no signal means, with the title of its panel where its name is a place only."""
    title = _with_unit(context.title, context.unit)
    if title and HOST.fullmatch(name) and find_number(title) and not find_number(name):
        return NamedSeries(title, {"node": name})
    return NamedSeries(_with_unit(name, context.unit), {})


def _with_unit(name: str, unit: str) -> str:
    """Returns a name with the unit of its values, where it says none itself."""
    return f"{name} ({unit})" if unit and not find_unit_of(name) else name


def _by_end(name: str, labels: Mapping[str, str], values: F64, context: SeriesContext) -> NamedSeries | None:
    """Returns the series of a path whose end is a signal and whose begin a place (`prod.replica-a.queue.waiting`)."""
    end = find_signal_at_end(name)
    if end is None or not end.begin:
        return None
    named = _by_words(name[len(end.begin) :].lstrip("._:/"), {**_place(end.begin), **labels}, values, context)
    return named and replace(named, note=f"{name} = {end.signal}")


def _take_quantile(name: str) -> tuple[str, dict[str, str]]:
    """Returns a name without the quantile that it says, and that as a label."""
    match = QUANTILE.search(name)
    rest = " ".join(f"{name[: match.start()]} {name[match.end() :]}".split()) if match else ""
    return (rest.strip(" -_:,"), {"quantile": match[0].strip("()[]")}) if match and rest else (name, {})


def find_parts(name: str) -> tuple[str, str] | None:
    """Returns the words of a name that mean a signal or a metric, and the place that the others are; None for none."""
    words = _take_quantile(name)[0].split()
    spans = ((begin, begin + size) for size in range(len(words) - 1, 0, -1) for begin in (0, len(words) - size))
    for begin, end in spans if len(words) <= MAX_WORDS else ():
        what, rest = " ".join(words[begin:end]).strip(" -:,()"), [*words[:begin], *words[end:]]
        place = " ".join(rest).strip(" -:,()")
        if _is_place(place) and (is_known_metric(what) or find_titled_signal(what) or find_number(what)):
            return what, place
    # Host, metric and number of a GPU, as CloudWatch joins dimensions.
    if (joined := HOST_METRIC_GPU.fullmatch(name)) and is_known_metric(joined["metric"]):
        return joined["metric"], f"{joined['host']} gpu {joined['gpu']}"
    return None


def _is_place(text: str) -> bool:
    place = _place(text)
    # Any word could be the name of a host; those of servers have numbers.
    return bool(place.get("gpu")) or bool(HOST.fullmatch(text) and DIGIT.search(text))


def _by_parts(name: str, labels: Mapping[str, str], values: F64, context: SeriesContext) -> NamedSeries | None:
    """Returns the series of a name that is a signal or a metric with a place before or behind; None for another one."""
    parts = find_parts(name)
    if parts is None or (not is_known_metric(parts[0]) and not find_titled_signal(parts[0])):
        return None
    what, place = parts
    own = {**_place(place), **labels}
    if not is_known_metric(what):
        return _by_words(what, own, values, context)
    signals = [catalogue().signals[origin.signal] for origin in build_index(catalogue())[what]]
    return NamedSeries(what, _settle_place(own, signals[0]), note=f"{name} = {what}")


def is_known_metric(name: str) -> bool:
    """Returns whether a name is a metric of an exporter that the catalogue knows, or a canonical one."""
    return name in build_index(catalogue())


def find_titled_signal(title: str) -> str:
    """Returns the signal that the words of a title or name mean; '' for none."""
    bare = NEUTRAL_BEGIN.sub("", title)
    for text in (bare, (PATH_END.search(bare) or [""])[0]):
        if signal := find_signal(split_name(text)):
            return signal
    return "gpu.util" if RUN_GPU.search(bare) else ""


def _by_words(name: str, labels: Mapping[str, str], values: F64, context: SeriesContext) -> NamedSeries | None:
    """Returns the series of a name whose words mean a signal; None where none or no unit fits.

    The label '' is a place whose kind follows from what the signal measures.
    """
    signal = catalogue().signals.get(find_titled_signal(name))
    if signal is None:
        return None
    words = split_name((PATH_END.search(name) or [name])[0])
    unit = context.unit or words.unit or ("%" if RUN_GPU.search(name) else "") or find_unit(signal, values)
    if not unit and signal.unit == "s" and context.seconds:
        unit = _unit_by_times(values, context.seconds)
    if not unit and signal.unit == "s" and signal.type == "histogram" and len(values):
        unit = "s" if np.median(values) < LATE_S else "ms"
    scale = 1.0 if signal.unit.startswith("{") and not words.unit else convert_unit(unit, signal.unit)
    if scale is None:
        return None
    gpu = words.gpu or (match[1] if (match := RUN_GPU.search(name)) else "")
    own = {**labels, **({"gpu": gpu} if gpu else {})}
    return NamedSeries(
        signal.metric, _settle_place(own, signal), scale, note=f"{name} = {signal.id} ({unit or 'count'})"
    )


def _unit_by_times(values: F64, seconds: float) -> str:
    """Returns the unit in which durations are as long as the time between two of them; '' where none is."""
    typical = float(np.median(values)) if len(values) else 0.0
    fits = [
        unit
        for unit, divisor in (("s", 1.0), ("ms", 1e3), ("us", 1e6))
        if 1 / UNIT_WITHIN < typical / divisor / seconds < UNIT_WITHIN
    ]
    return fits[0] if fits else ""


def _place(name: str) -> dict[str, str]:
    """Returns the labels of a name that is a place: a GPU and what is left, or only the latter."""
    match = GPU_IN_PLACE.search(name)
    rest = (name[: match.start()] + name[match.end() :]).strip(" \t,;:|/()[]-_") if match else name.strip()
    return {**({"gpu": str(int(match[1]))} if match else {}), **({"": rest} if HOST.fullmatch(rest) else {})}


def _settle_place(labels: Mapping[str, str], signal: Signal) -> dict[str, str]:
    """Returns labels whose plain place has the label that fits what a signal measures."""
    own = dict(labels)
    place = own.pop("", "")
    if not place:
        return own
    if signal.entity == "gpu" and NUMBERED.fullmatch(place) and "gpu" not in own:
        return {**own, "gpu": place}
    return {**own, PLACE_LABELS.get(signal.entity, "instance"): place}


def seconds_per_step(times: F64, steps: F64) -> float:
    """Returns the median seconds from one step to the next; 0 where there are no two."""
    if len(times) < 2:
        return 0.0
    passed, count = np.diff(times), np.diff(steps)
    fits = (passed > 0) & (count > 0)
    return float(np.median(passed[fits] / count[fits])) if fits.any() else 0.0


def split_mean(one: LabelledSeries) -> list[LabelledSeries]:
    """Returns a series as the sum and the count of a histogram, where it is a value of what is counted in one."""
    signal = next((known for known in catalogue().signals.values() if known.metric == one.metric), None)
    if signal is None or signal.type != "histogram":
        return [one]
    counts = MEAN_COUNT * np.arange(1.0, len(one.values) + 1)
    parts = (("_sum", np.cumsum(MEAN_COUNT * one.values)), ("_count", counts))
    return [replace(one, metric=one.metric + end, values=part) for end, part in parts]


MEAN_COUNT = 100.0
"""Values that a point of a chart is the mean of, where it says none: enough to be judged."""


def to_series(pairs: Iterable[tuple[NamedSeries, F64, F64]], *notes: str) -> list[LabelledSeries]:
    """Returns series with their names, [sample] times in seconds since 1970 and values; a note says what was taken."""
    pairs = list(pairs)
    taken = sorted({named.note for named, _, _ in pairs if named.note})
    note = join_notes(f"series taken by their names: {join_names(taken, MAX_SHOWN)}" if taken else "", *notes)
    found = (
        LabelledSeries(
            named.metric,
            tuple(sorted((label, text) for label, text in named.labels.items() if text)),
            times,
            values * named.scale,
            note,
        )
        for named, times, values in pairs
    )
    return [part for one in found for part in split_mean(one)]
