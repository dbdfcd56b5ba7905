"""Parses kernel log lines: errors of GPUs and of mlx5 devices, and processes killed for lack of memory.

Accepts lines of /dev/kmsg, of dmesg in all its formats, and of syslog and journalctl. The NVIDIA patterns were checked
against real logs; those of mlx5 come from the driver's source only.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_LINE = 1 << 14
PCI = r"(?P<pci>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)"
STAMP = r"(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8}|\d{4}-\d\d-\d\dT\S{8,30})"
SYSLOG = re.compile(rf"(?:<\d{{1,3}}>)?{STAMP} (?P<host>[\w.-]{{1,253}}) kernel: ")
XID = re.compile(rf"NVRM: Xid \((?:PCI:)?{PCI}\): (?P<code>\d{{1,4}})\b")
MLX5 = re.compile(rf"mlx5_core {PCI}(?: (?P<device>[\w.-]{{1,64}}))?: (?P<what>.{{1,400}})")
OOM_KILL = re.compile(r"\b(?:Out of memory|Memory cgroup out of memory): Kill(?:ed)? process \d")
LINK_STATES = {"Link down": 0.0, "Link up": 1.0}
DEVICE_EVENTS = (
    (re.compile(r"\bunplugged\b"), "kernel_port_module_unplug_total"),
    (re.compile(r"\bHigh Temperature\b", re.IGNORECASE), "kernel_port_module_high_temp_total"),
    (re.compile(r"\bBus stuck\b", re.IGNORECASE), "kernel_port_module_bus_stuck_total"),
    (re.compile(r"\bhealth compromised\b|\bFatal error \d"), "kernel_port_health_errors_total"),
)


class KernelLogEvent(NamedTuple):
    """One event of a line."""

    metric: str
    """Name in the catalogue; names ending in `_total` are counted."""
    value: float
    host: str = ""
    """The host that the line names."""
    pci: str = ""
    """PCI address of the device in lower case, with a domain of four digits and the function."""
    device: str = ""


def parse_events(line: str) -> Iterator[KernelLogEvent]:
    """Yields the events of a line; most lines have none."""
    line = line[:MAX_LINE]
    match = SYSLOG.search(line)
    host = match["host"] if match else ""
    if "NVRM: Xid" in line and (xid := XID.search(line)):
        yield KernelLogEvent("kernel_gpu_xid", float(xid["code"]), host, normalise_pci_address(xid["pci"]))
    elif "mlx5_core" in line and (reported := MLX5.search(line)):
        yield from _parse_mlx5(reported, host)
    elif "out of memory" in line.lower() and OOM_KILL.search(line):
        yield KernelLogEvent("kernel_oom_kill_total", 1.0, host)


def _parse_mlx5(reported: re.Match[str], host: str) -> Iterator[KernelLogEvent]:
    of = host, normalise_pci_address(reported["pci"]), reported["device"] or ""
    link = next((up for text, up in LINK_STATES.items() if reported["what"].startswith(text)), None)
    if link is not None:
        yield KernelLogEvent("kernel_port_carrier", link, *of)
        if not link:
            yield KernelLogEvent("kernel_port_link_down_total", 1.0, *of)
        return
    for pattern, metric in DEVICE_EVENTS:
        if pattern.search(reported["what"]):
            yield KernelLogEvent(metric, 1.0, *of)


def normalise_pci_address(text: str) -> str:
    """Returns a PCI address in normal form: `0000:9b:00.0`."""
    slot, _, function = text.lower().partition(".")
    parts = slot.split(":")
    return ":".join([parts[0][-4:] if len(parts) == 3 else "0000", *parts[-2:]]) + f".{function or 0}"
