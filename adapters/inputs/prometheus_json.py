"""Inputs of kind `prometheus-json`: answers of the API of Prometheus, and exports of VictoriaMetrics.

A file holds one or several of: answers of `query` and `query_range`, as a whole or their list of series; lines of
`/api/v1/export`. Each of them gives labels and samples of series; times are in seconds, those of an export in
milliseconds.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np

from skewscope.adapters.formats.bounds import SAMPLES, SERIES
from skewscope.adapters.formats.json_stream import CutOffError, JsonReader
from skewscope.adapters.formats.openmetrics import MAX_SECONDS
from skewscope.adapters.inputs.file_origin import join_notes
from skewscope.adapters.inputs.labelled import LabelledSeries, artefact_reader
from skewscope.adapters.mapping.entities import GPU_LABELS, NODE_LABELS, UUID_LABELS
from skewscope.engine.model.arrays import F64

BEGIN = re.compile(rb'\s*(?:\[\s*)?\{\s*"(?:status|isPartial|data|metric|values|timestamps|value)"\s*:')
MARKS = re.compile(
    rb'"resultType"\s*:|"metric"\s*:\s*\{|"status"\s*:\s*"error"|"status"\s*:\s*"success"[^{}]{0,80}"data"\s*:'
)
PARTS = ("metric", "value", "values", "timestamps", "histogram", "histograms")
"""Members of a series."""
HISTOGRAMS = ("histogram", "histograms")
METRIC = re.compile(r"[A-Za-z_:][\w:]{0,200}", re.ASCII)
MAX_SHOWN = 100
EXPECTED = "an answer of /api/v1/query or query_range with series, or lines of /api/v1/export"
HINT = "Take it with curl -G http://SERVER/api/v1/query_range -d query={} -d start=... -d end=... -d step=15"


def recognise(head: bytes, _name: str) -> bool:
    """Returns whether a file begins as such an answer or export."""
    return bool(BEGIN.match(head.removeprefix(b"\xef\xbb\xbf")) and MARKS.search(head))


def read_series(file: BinaryIO, name: str, _labels: Mapping[str, str]) -> list[LabelledSeries]:
    """Returns the series of all answers of a file.

    Raises:
        InputError: it has no series with samples, or is damaged.
    """
    answers = AnswerReader(JsonReader(file, name))
    try:
        answers.read()
    except CutOffError:
        if not answers.found:
            raise
        answers.leave_out("the series in which it ends", "cut off")
    return answers.series()


@dataclass
class AnswerReader:
    """Collects the series of the answers of one file."""

    reader: JsonReader
    found: list[LabelledSeries] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """By reason: what is left out."""
    named: str = ""
    """A metric that an answer names without values."""
    _samples: int = 0

    def read(self) -> None:
        """Reads all answers.

        Raises:
            InputError: the text is damaged or too large.
        """
        number, held = 0, dict[str, Any]()
        for document, member, value in self.reader.documents(("data",), ("result",)):
            if document != number:
                self._finish(held)
                number, held = document, {}
            if member in ("", "result"):
                self._add(value)
            elif member == "data" and isinstance(value, list):
                self.leave_out("names without values, as an answer of /api/v1/series has", f"{len(value)} names")
                self.named = next(filter(None, map(_metric_of, value)), "")
            else:
                held[member] = value
        self._finish(held)

    def _finish(self, held: Mapping[str, Any]) -> None:
        """Takes what a document holds beside its list of series: a series of its own, or an error."""
        if "metric" in held:
            self._add({part: held[part] for part in PARTS if part in held})
        if held.get("status") == "error":
            self.leave_out("an answer that is an error", f"{held.get('errorType', '')}: {held.get('error', '')}")

    def _add(self, given: Any) -> None:
        """Adds a series.

        Raises:
            InputError: it is damaged, or there are too many.
        """
        if not isinstance(given, dict) or not isinstance(metric := given.get("metric"), dict):
            self.leave_out("a value without a series", repr(given))
            return
        labels = {str(label): str(text) for label, text in metric.items()}
        name = labels.pop("__name__", "")
        if not name:
            self.leave_out("series without a name, as functions such as rate() give; ask for the metric itself", labels)
            return
        if not {"value", "values"} & given.keys():
            native = any(each in given for each in HISTOGRAMS)
            self.leave_out("native histograms, which are not read" if native else "series without samples", name)
            return
        times, values = self._read_samples(given, name)
        self._samples += len(times)
        SAMPLES.check(self.reader.file, self._samples, "Ask for less.")
        SERIES.check(self.reader.file, len(self.found) + 1, "Ask for less.")
        order = np.argsort(times, kind="stable")
        own = tuple(sorted((label, text) for label, text in labels.items() if text))
        self.found.append(LabelledSeries(name, own, times[order], values[order]))

    def _read_samples(self, given: Mapping[str, Any], name: str) -> tuple[F64, F64]:
        """Returns times in seconds and values of a series."""
        try:
            if "timestamps" in given:
                times, values = np.array(given["timestamps"], np.float64) / 1000, _to_numbers(given["values"])
            else:
                pairs = given["values"] if "values" in given else [given["value"]]
                times = np.array([time for time, _ in pairs], np.float64)
                values = _to_numbers([value for _, value in pairs])
        except (TypeError, ValueError, OverflowError, KeyError) as error:
            raise self.reader.error(
                f"samples of {name:.60} in another form ({error!s:.60})", "times and numbers"
            ) from None
        if times.shape != values.shape or times.ndim != 1:
            found = f"{times.size} times and {values.size} values of {name:.60}"
            raise self.reader.error(found, "as many of both")
        if not np.all((times >= 0) & (times < MAX_SECONDS)):
            unit = "milliseconds" if "timestamps" in given else "seconds"
            raise self.reader.error(f"times of {name:.60} that are none", f"{unit} since 1970")
        return times, values

    def leave_out(self, reason: str, what: object) -> None:
        """Notes what is left out, with the reason."""
        self.left_out.setdefault(reason, []).append(f"{what!s:.{MAX_SHOWN}}")

    def series(self) -> list[LabelledSeries]:
        """Returns all series.

        Raises:
            InputError: there are none.
        """
        missing = join_notes(*(_describe(reason, what) for reason, what in self.left_out.items()))
        if not any(len(each.times) for each in self.found):
            hint = "" if "an answer that is an error" in self.left_out else HINT.format(self.named or "METRIC")
            raise self.reader.error(missing or "no series", EXPECTED, hint)
        first, *rest = _name_gpus(self.found)
        return [replace(first, note=f"left out: {missing}" if missing else ""), *rest]


def _metric_of(value: Any) -> str:
    """Returns the metric that an element of a list of series, or of names, is of; '' for none."""
    name = value.get("__name__") if isinstance(value, dict) else value
    return name if isinstance(name, str) and METRIC.fullmatch(name) else ""


def _name_gpus(found: list[LabelledSeries]) -> list[LabelledSeries]:
    """Returns the series, those of a GPU by its UUID with its index where a series of the same host has both."""
    all_labels = [dict(each.labels) for each in found]
    indices = {_card(labels): labels["index"] for labels in all_labels if labels.get("index") and _card(labels)[1]}
    return [
        _add_gpu(each, labels, indices.get(_card(labels), "")) for each, labels in zip(found, all_labels, strict=True)
    ]


def _add_gpu(series: LabelledSeries, labels: Mapping[str, str], index: str) -> LabelledSeries:
    """Returns a series with the index of its GPU, unless none is known or it has one."""
    if not index or any(label in labels for label in GPU_LABELS):
        return series
    own = {**labels, "gpu": index}
    own.pop("index", "")
    return replace(series, labels=tuple(sorted(own.items())))


def _card(labels: Mapping[str, str]) -> tuple[str, str]:
    """Returns host and UUID of a GPU; '' for those that labels do not say."""
    host = next((labels[label] for label in NODE_LABELS if label in labels), "")
    return host, next((labels[label] for label in UUID_LABELS if labels.get(label)), "")


def _describe(reason: str, what: list[str]) -> str:
    more = f" and {len(what) - 1} more" if len(what) > 1 else ""
    return f"{reason} ({what[0]}{more})"


def _to_numbers(given: list[Any]) -> F64:
    """Returns numbers that are written as numbers or texts; null is no number."""
    return np.array([np.nan if each is None else float(each) for each in given], np.float64)


READER = artefact_reader(
    "JSON answer of the API of Prometheus (query, query_range), or export of VictoriaMetrics",
    read_series,
    recognise,
    has_metrics=True,
)
