"""Collector of machine-wide values, from /proc: CPU, pressure, the network stack.

Their meaning depends on where the agent runs. On a DPU they are those of its Arm cores, not of the host; there they
become the few signals of the catalogue that concern the DPU.
"""

import math
import re
from collections.abc import Iterator, Mapping

from skewscope.adapters.agent.collectors.context import CollectorContext
from skewscope.adapters.agent.collectors.counter_names import Sample
from skewscope.adapters.agent.config import DPU
from skewscope.engine.ingest.feed import SeriesKey

PERIOD, PRIORITY = 1.0, 4
STAT, SOFTNET = "proc/stat", "proc/net/softnet_stat"
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
IDLE_MODES = ("idle", "iowait")
TICKS_A_SECOND = 100.0
"""Unit of /proc/stat, the same on every architecture."""
CORE_LINE = re.compile(r"cpu(\d+) (.*)")
PRESSURE_LINE = re.compile(r"(some|full) .*total=(\d+)")

STACK_SIGNALS: Mapping[tuple[str, str], str] = {
    ("Tcp", "CurrEstab"): "host.tcp_established",
    ("Tcp", "InSegs"): "host.tcp_in_segs",
    ("Tcp", "OutSegs"): "host.tcp_out_segs",
    ("Tcp", "RetransSegs"): "flow.tcp_retrans",
    ("TcpExt", "ListenOverflows"): "host.tcp_listen_overflow",
    ("TcpExt", "TCPOFOQueue"): "host.tcp_ofo",
    ("TcpExt", "TCPSynRetrans"): "host.tcp_syn_retrans",
    ("TcpExt", "TCPTimeouts"): "host.tcp_timeouts",
}
PRESSURE_SIGNALS: Mapping[tuple[str, str], str] = {
    ("cpu", "some"): "psi_cpu",
    ("io", "some"): "psi_io",
    ("memory", "some"): "psi_mem",
    ("irq", "full"): "psi_irq",
}
"""By resource and line: the signal, without the prefix `host.` or `dpu.`."""
SOFTNET_FIELDS = ("softnet_processed", "softnet_dropped", "softnet_squeezed")


def build(context: CollectorContext) -> "ProcCollector":
    """Creates the collector."""
    return ProcCollector(context)


class ProcCollector:
    """Reads the local machine."""

    def __init__(self, context: CollectorContext) -> None:
        self._files = context.files
        self._node = context.node
        self._signal_prefix = context.runs_on
        self._is_host = context.runs_on != DPU
        self._signals = context.catalogue.signals
        self._busy_ticks = math.nan
        self._total_ticks = math.nan

    def read(self, _now: float) -> Iterator[Sample]:
        """Yields the present values of signals in the catalogue."""
        yield from self._cpu_samples()
        yield from self._pressure_samples()
        yield from self._softnet_samples()
        if self._is_host:
            yield from self._network_stack_samples()
            if (killed := _parse_counter(self._files.text("proc/vmstat"), "oom_kill")) is not None:
                yield self._series_key("host.oom_kill"), killed

    def _series_key(self, signal: str, selector: str = "") -> SeriesKey:
        return SeriesKey(signal, "node", self._node, selector)

    def _prefixed_sample(self, name: str, value: float, selector: str = "") -> Iterator[Sample]:
        signal = f"{self._signal_prefix}.{name}"
        if signal in self._signals:
            yield self._series_key(signal, selector), value

    def _cpu_samples(self) -> Iterator[Sample]:
        text = self._files.text(STAT)
        whole = _parse_ticks(text.partition("\n")[0])
        if whole:
            yield from self._cpu_share(whole)
        for line in text.splitlines() if self._is_host else ():
            if match := CORE_LINE.match(line):
                for mode, ticks in _parse_ticks(line).items():
                    yield self._series_key("host.cpu", f"cpu{match[1]},mode={mode}"), ticks / TICKS_A_SECOND

    def _cpu_share(self, ticks: Mapping[str, float]) -> Iterator[Sample]:
        """Yields the share of CPU time that was busy since the last call."""
        whole = sum(ticks.values())
        busy = whole - sum(ticks.get(mode, 0.0) for mode in IDLE_MODES)
        passed = whole - self._total_ticks
        if passed > 0:
            share = min(max((busy - self._busy_ticks) / passed, 0.0), 1.0)
            yield self._series_key("host.cpu_util" if self._is_host else "dpu.arm_cpu"), share
        self._busy_ticks, self._total_ticks = busy, whole

    def _pressure_samples(self) -> Iterator[Sample]:
        for resource in dict.fromkeys(resource for resource, _ in PRESSURE_SIGNALS):
            for line in self._files.text(f"proc/pressure/{resource}").splitlines():
                match = PRESSURE_LINE.match(line)
                if match and (name := PRESSURE_SIGNALS.get((resource, match[1]))):
                    yield from self._prefixed_sample(name, float(match[2]) / 1e6)

    def _softnet_samples(self) -> Iterator[Sample]:
        for core, line in enumerate(self._files.text(SOFTNET).splitlines()):
            # Newer kernels omit offline cores and label each line with its core.
            numbers = [int(part, 16) for part in line.split() if _is_hexadecimal(part)]
            which = numbers[12] if len(numbers) > 12 else core
            for name, value in zip(SOFTNET_FIELDS, numbers, strict=False):
                yield from self._prefixed_sample(name, float(value), f"cpu{which}")

    def _network_stack_samples(self) -> Iterator[Sample]:
        for file in ("snmp", "netstat"):
            lines = self._files.text(f"proc/net/{file}").splitlines()
            for names, numbers in zip(lines[::2], lines[1::2], strict=False):
                group, _, rest = names.partition(":")
                for name, value in zip(rest.split(), numbers.partition(":")[2].split(), strict=False):
                    signal = STACK_SIGNALS.get((group, name))
                    if signal and value.isdecimal():
                        yield self._series_key(signal), float(value)


def _parse_ticks(line: str) -> dict[str, float]:
    """Returns the ticks by mode of a line of /proc/stat. Guest time is contained in user and nice."""
    name, *numbers = line.split()[: len(MODES) + 1] or [""]
    if not name.startswith("cpu") or not all(map(str.isdecimal, numbers)):
        return {}
    return {mode: float(number) for mode, number in zip(MODES, numbers, strict=False)}


def _is_hexadecimal(text: str) -> bool:
    return len(text) <= 16 and all(letter in "0123456789abcdef" for letter in text)


def _parse_counter(text: str, name: str) -> float | None:
    match = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    return float(match[1]) if match else None
