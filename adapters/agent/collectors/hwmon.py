"""Collector of temperatures, from /sys/class/hwmon: the DPU's own chip, and the modules in its ports."""

import re
from collections.abc import Iterator, Mapping

from skewscope.adapters.agent.collectors.context import CollectorContext
from skewscope.adapters.agent.collectors.counter_names import Sample
from skewscope.adapters.agent.collectors.kernel_files import KernelFiles
from skewscope.adapters.agent.config import DPU
from skewscope.engine.ingest.feed import SeriesKey

PERIOD, PRIORITY = 10.0, 5
FOLDER = "sys/class/hwmon"
SENSOR = re.compile(r"temp\d+_input")
MODULE = re.compile(r"module\d*", re.IGNORECASE)
MILLI = 1e-3


def build(context: CollectorContext) -> "HwmonCollector":
    """Creates the collector."""
    return HwmonCollector(context)


class HwmonCollector:
    """Reads the sensors of the local machine."""

    def __init__(self, context: CollectorContext) -> None:
        self._files = context.files
        self._chip = SeriesKey("dpu.temperature", "node", context.node) if context.runs_on == DPU else None
        self._sensors = list(_find_sensors(context.files, context.ports))

    def read(self, _now: float) -> Iterator[Sample]:
        """Yields the present values: the hottest sensor of the chip, and each module."""
        hottest = None
        modules: dict[str, float] = {}
        for path, port in self._sensors:
            value = self._files.number(path)
            if value is None:
                continue
            if port:
                modules[port] = max(value * MILLI, modules.get(port, -300.0))
            else:
                hottest = max(value * MILLI, -300.0 if hottest is None else hottest)
        if self._chip and hottest is not None:
            yield self._chip, hottest
        for port, value in modules.items():
            yield SeriesKey("port.module_temperature", "port", port), value


def _find_sensors(files: KernelFiles, ports: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields (path, port) of each temperature sensor; '' as port if it is not a module's."""
    for device in files.names(FOLDER):
        base = f"{FOLDER}/{device}"
        netdevs = [ports[name] for name in files.names(f"{base}/device/net") if name in ports]
        for name in files.names(base):
            if not SENSOR.fullmatch(name):
                continue
            label = files.text(f"{base}/{name.replace('_input', '_label')}")
            if not MODULE.fullmatch(label.replace(" ", "")):
                yield f"{base}/{name}", ""
            elif netdevs:
                yield f"{base}/{name}", netdevs[0]
