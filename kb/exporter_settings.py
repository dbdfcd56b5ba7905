"""How a signal's telemetry is turned on at an exporter."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from skewscope.kb import yamlfile
from skewscope.kb.field_reader import FieldReader
from skewscope.kb.model import Signal
from skewscope.kb.problems import InputError

FILE = Path(__file__).parent / "exporter_settings.yaml"


@dataclass(frozen=True, slots=True)
class ExporterSetting:
    """What turns telemetry of an exporter on."""

    exporter: str
    metrics: tuple[str, ...]
    """Starts of the metric names that it holds for; empty: all of them."""
    text: str


@dataclass(frozen=True, slots=True)
class SignalSource:
    """One way to get a signal."""

    exporter: str
    metric: str
    setting: str
    """What turns it on; '' where that is not known."""


@cache
def load_settings(file: Path = FILE) -> tuple[ExporterSetting, ...]:
    """Returns the settings, in the order in which they count.

    Raises:
        InputError: the file has problems.
    """
    fields = FieldReader(yamlfile.read(file))
    if fields.check_keys((), ("version", "settings")):
        fields.check_version()
    found = []
    for path in fields.item_paths(("settings",)):
        fields.check_keys(path, ("exporter", "set"), ("metrics",))
        texts = fields.texts((*path, "metrics"))
        found.append(ExporterSetting(fields.text((*path, "exporter")), texts, fields.text((*path, "set"))))
    if fields.problems:
        raise InputError(set(fields.problems))
    return tuple(found)


def find_signal_source(signal: Signal, present: Collection[str] = ()) -> SignalSource | None:
    """Returns the easiest way to get a signal: an exporter that is present, else one whose setting is known.

    Args:
        signal: the wanted signal.
        present: exporters that already deliver something.
    """
    ways = [
        SignalSource(exporter, str(names[0]), _setting_of(exporter, str(names[0])))
        for exporter, names in signal.sources.items()
        if names
    ]
    ways.sort(key=lambda way: (way.exporter not in present, not way.setting))
    return ways[0] if ways else None


def _setting_of(exporter: str, metric: str) -> str:
    fitting = (s for s in load_settings() if s.exporter == exporter and metric.startswith(s.metrics or ("",)))
    return next((setting.text for setting in fitting), "")
