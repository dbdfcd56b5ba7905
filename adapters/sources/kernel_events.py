"""What lines of a kernel's log tell: errors of GPUs and of mlx5 devices, and processes killed for lack of memory.

Read are lines as /dev/kmsg has them, as dmesg prints them in any of its ways, and as syslog and journalctl write them.
Those of the NVIDIA driver are known from real logs; those of mlx5 from the texts in the driver's source alone.
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
    """One thing that a line tells."""

    metric: str
    """By its name in the catalogue; one that ends on `_total` is counted."""
    value: float
    host: str = ""
    """The node that the line itself names."""
    pci: str = ""
    """The address of the device, in small letters, with its domain in four digits and its function."""
    device: str = ""


def parse_events(line: str) -> Iterator[KernelLogEvent]:
    """What a line tells; nothing for most."""
    line = line[:MAX_LINE]
    match = SYSLOG.search(line)
    host = match["host"] if match else ""
    if "NVRM: Xid" in line and (xid := XID.search(line)):
        yield KernelLogEvent("kernel_gpu_xid", float(xid["code"]), host, normalise_pci_address(xid["pci"]))
    elif "mlx5_core" in line and (told := MLX5.search(line)):
        yield from _parse_mlx5(told, host)
    elif "out of memory" in line.lower() and OOM_KILL.search(line):
        yield KernelLogEvent("kernel_oom_kill_total", 1.0, host)


def _parse_mlx5(told: re.Match[str], host: str) -> Iterator[KernelLogEvent]:
    of = host, normalise_pci_address(told["pci"]), told["device"] or ""
    link = next((up for text, up in LINK_STATES.items() if told["what"].startswith(text)), None)
    if link is not None:
        yield KernelLogEvent("kernel_port_carrier", link, *of)
        if not link:
            yield KernelLogEvent("kernel_port_link_down_total", 1.0, *of)
        return
    for pattern, metric in DEVICE_EVENTS:
        if pattern.search(told["what"]):
            yield KernelLogEvent(metric, 1.0, *of)


def normalise_pci_address(text: str) -> str:
    """A PCI address in one form, whatever it looks like: `0000:9b:00.0`."""
    slot, _, function = text.lower().partition(".")
    parts = slot.split(":")
    return ":".join([parts[0][-4:] if len(parts) == 3 else "0000", *parts[-2:]]) + f".{function or 0}"
