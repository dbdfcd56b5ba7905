"""What Open vSwitch says of its flows, meters, ports and mirrors, as `ovs-ofctl` and `ovs-vsctl` print it."""

import json
import re
from dataclasses import dataclass

from skewscope.adapters.targets.common.base import TargetError

MAX_LINE = 4096
"""Characters of a line: a flow of ours has a tenth of it. What a line may be taken for takes no time to find out."""
FLOW = re.compile(
    r"\s*cookie=0x(?P<cookie>[0-9a-f]{1,16}),.*?in_port=\"?(?P<port>[\w.-]{1,32})\"?.*\bactions=(?P<actions>\S+)"
)
FLOW_METER = re.compile(r"\bmeter:(\d{1,10})\b")
METER = re.compile(
    r"^meter=(?P<meter>[0-9]{1,10}) [^\n]*bands=\s*type=\S+ rate=(?P<rate>[0-9]{1,10})"
    r"(?: burst_size=(?P<burst>[0-9]{1,10}))?",
    re.MULTILINE,
)
PORT = re.compile(r"\s*port\s+\"?(?P<port>[\w.-]{1,32})\"?: rx pkts=\S+ bytes=(?P<bytes>[0-9]{1,20}|\?)")


@dataclass(frozen=True, slots=True)
class SwitchFlow:
    """A flow of ours."""

    cookie: int
    port: str
    """Name of the port where its packets enter."""
    meter: int
    """0 for none."""


def parse_flows(text: str) -> list[SwitchFlow]:
    """Returns the flows of `dump-flows --names`.

    Raises:
        TargetError: a line is no flow.
    """
    found = []
    for line in _list_lines(text, "dump-flows"):
        match = FLOW.match(line)
        if match is None:
            raise TargetError(f"dump-flows: an answer that cannot be read: {line[:100]!r}")
        meter = FLOW_METER.search(match["actions"])
        found.append(SwitchFlow(int(match["cookie"], 16), match["port"], int(meter[1]) if meter else 0))
    return found


def _list_lines(text: str, operation: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    if any(len(line) > MAX_LINE for line in lines):
        raise TargetError(f"{operation}: an answer that cannot be read: a line of more than {MAX_LINE} characters")
    return lines


def parse_meters(text: str) -> dict[int, tuple[int, int]]:
    """Returns rate (kbit/s) and burst (kbit) of the meters of `dump-meters`, by number.

    Raises:
        TargetError: this is no list of meters.
    """
    if not text.startswith("OFPST_METER_CONFIG"):
        raise TargetError(f"dump-meters: an answer that cannot be read: {text[:100]!r}")
    whole = "\n".join(_list_lines(text, "dump-meters"))
    return {int(m["meter"]): (int(m["rate"]), int(m["burst"] or 0)) for m in METER.finditer(whole)}


def parse_ports(text: str) -> dict[str, float]:
    """Returns the bytes that entered at each port of `dump-ports --names`.

    Raises:
        TargetError: this is no list of ports.
    """
    if not text.startswith("OFPST_PORT"):
        raise TargetError(f"dump-ports: an answer that cannot be read: {text[:100]!r}")
    found = filter(None, (PORT.match(line) for line in _list_lines(text, "dump-ports")))
    return {m["port"]: 0.0 if m["bytes"] == "?" else float(m["bytes"]) for m in found}


def parse_mirrors(text: str) -> frozenset[str]:
    """Returns the names of all mirrors, from the JSON of `list mirror`.

    Raises:
        TargetError: it has another form.
    """
    try:
        return frozenset(str(row[0]) for row in json.loads(text)["data"])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise TargetError(f"dump-mirrors: an answer that cannot be read: {text[:100]!r}") from None
