"""Changes by tools of network adapters and by NCCL's environment, as values: what a tool printed, and what sets it.

Each dialect parses what the tool printed and gives the one value that a change sets, so that an undo is computed from
the recorded output. Sources of the formats: devlink-rate(8); mlnx_qos of NVIDIA's OFED; mlxconfig of mstflint; the page
"Environment Variables" of NCCL's documentation.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from skewscope.adapters.targets.common.base import TargetError
from skewscope.adapters.targets.common.calls import Call, CommandCall, FileCall
from skewscope.engine.actions.change import DRAIN, LIMIT, MARK, Change

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
BINARY_UNITS = {f"{unit}i": 1 << 10 * n for n, unit in enumerate("KMGT", 1)}
RATE = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,9})?)(?P<unit>[KMGT]i?|)bit")
CLASSES = 8
"""Traffic classes of a port."""
MAX_SETTINGS = 2000


class ToolDialect(Protocol):
    """One tool."""

    @property
    def kind(self) -> str:
        """The kind of change that it carries out."""
        ...

    @property
    def note(self) -> str:
        """What a plan says of it."""
        ...

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters of a change; all are required."""
        ...

    @property
    def sample(self) -> str:
        """A value that it may find, for the check of parameters."""
        ...

    @property
    def member_pattern(self) -> re.Pattern[str]:
        """The names that members may have."""
        ...

    @property
    def member_hint(self) -> str:
        """What a member is, in words."""
        ...

    def parse(self, text: str, member: str) -> Mapping[str, str]:
        """Returns the values of a member by their keys, from a recorded output.

        Raises:
            TargetError: the output does not tell them.
        """
        ...

    def find_key(self, change: Change) -> str:
        """Returns the key of the value that a change sets."""
        ...

    def change_value(self, change: Change, value: str) -> str:
        """Returns the value that a change gives.

        Raises:
            TargetError: a parameter is missing or wrong.
        """
        ...

    def render(self, change: Change, value: str, source: tuple[str, str]) -> Call:
        """Returns what a person runs, or the file that a person writes; `source` is path and text of the output."""
        ...


def parse_rate(text: str) -> int:
    """Returns a rate such as `10Gbit` in bits per second.

    Raises:
        TargetError: it is none.
    """
    match = RATE.fullmatch(text)
    if match is None:
        raise TargetError(f"the rate {text!r:.40}, expected one such as 10Gbit")
    return round(float(match["number"]) * {**UNITS, **BINARY_UNITS}[match["unit"]])


@dataclass(frozen=True)
class Devlink:
    """`devlink port function rate`: the maximum rate of a function of a port."""

    kind: str = LIMIT
    note: str = "rendered for a person to run on the DPU"
    parameters: tuple[str, ...] = ("rate",)
    sample: str = "0"
    member_pattern: re.Pattern[str] = re.compile(r"[a-z]{1,20}/[0-9A-Za-z:.]{1,40}/\d{1,6}")
    member_hint: str = "a handle such as pci/0000:03:00.0/1"

    def parse(self, text: str, member: str) -> Mapping[str, str]:
        """Returns the maximum rate in bits per second; an unlimited rate is left out of the output, and is 0 here."""
        if text.lstrip().startswith("{"):
            return self._parse_json(text, member)
        line = next((line for line in text.splitlines() if line.startswith(f"{member}:")), None)
        if line is None:
            raise TargetError(f"the output of devlink has no {member}")
        words = line.split()
        rate = words[words.index("tx_max") + 1] if "tx_max" in words[:-1] else "0bit"
        return {"tx_max": str(parse_rate(rate))}

    def _parse_json(self, text: str, member: str) -> Mapping[str, str]:
        try:
            # JSON holds bytes per second.
            return {"tx_max": str(int(json.loads(text)["rate"][member].get("tx_max", 0)) * 8)}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise TargetError(f"the output of devlink has no {member}") from None

    def find_key(self, change: Change) -> str:  # noqa: ARG002 - of the protocol
        """Returns the only key."""
        return "tx_max"

    def change_value(self, change: Change, value: str) -> str:  # noqa: ARG002 - of the protocol
        """Returns the parameter `rate` in bits per second."""
        return str(parse_rate(change.parameter("rate")))

    def render(self, change: Change, value: str, source: tuple[str, str]) -> Call:  # noqa: ARG002 - of the protocol
        """Returns the command."""
        return CommandCall(("devlink", "port", "function", "rate", "set", change.member, "tx_max", f"{value}bit"))


@dataclass(frozen=True)
class MlnxQos:
    """`mlnx_qos`: the rate limit of each traffic class of an interface, in Gbit/s."""

    kind: str = LIMIT
    note: str = "rendered for a person to run on the node; the limit may differ from the rate by 10 %"
    parameters: tuple[str, ...] = ("class", "rate")
    sample: str = "0,0,0,0,0,0,0,0"
    member_pattern: re.Pattern[str] = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
    member_hint: str = "the name of an interface"
    line_pattern: re.Pattern[str] = re.compile(r"\s*tc: (\d) ratelimit: (unlimited|(\d+)(?:\.\d+)? Gbps)")

    def parse(self, text: str, member: str) -> Mapping[str, str]:
        """Returns the limits of all classes; 0 is unlimited."""
        found = [match for line in text.splitlines() if (match := self.line_pattern.match(line))]
        limits = {int(match[1]): match[3] or "0" for match in found}
        if sorted(limits) != list(range(CLASSES)) or len(found) != CLASSES:
            raise TargetError(f"the output of mlnx_qos for {member} has {len(found)} limits, expected {CLASSES}")
        return {"ratelimit": ",".join(limits[n] for n in range(CLASSES))}

    def find_key(self, change: Change) -> str:  # noqa: ARG002 - of the protocol
        """Returns the only key."""
        return "ratelimit"

    def change_value(self, change: Change, value: str) -> str:
        """Returns the limits with that of the parameter `class`; `rate` is whole Gbit/s."""
        number, bits = change.parameter("class"), parse_rate(change.parameter("rate"))
        if number not in tuple("01234567") or bits < 10**9 or bits % 10**9:
            raise TargetError(f"class {number!r:.20}: expected a class from 0 to 7 and a rate of whole Gbit")
        limits = value.split(",")
        limits[int(number)] = str(bits // 10**9)
        return ",".join(limits)

    def render(self, change: Change, value: str, source: tuple[str, str]) -> Call:  # noqa: ARG002 - of the protocol
        """Returns the command."""
        return CommandCall(("mlnx_qos", "-i", change.member, "-r", value))


@dataclass(frozen=True)
class Mlxconfig:
    """`mlxconfig`: one setting of the firmware, such as ROCE_CC_PRIO_MASK_P1 for ECN congestion control."""

    kind: str = MARK
    note: str = "rendered for a person to run on the node; in effect after a reset of the firmware"
    parameters: tuple[str, ...] = ("setting", "value")
    sample: str = "0"
    member_pattern: re.Pattern[str] = re.compile(r"/dev/mst/[A-Za-z0-9_.]{1,60}|[0-9a-f:]{2,12}\.\d")
    member_hint: str = "a device such as /dev/mst/mt41692_pciconf0 or 03:00.0"
    line_pattern: re.Pattern[str] = re.compile(
        r"[*\s]*([A-Z][A-Z0-9_]{1,60})((?:\s+[A-Za-z0-9_.,-]+(?:\(\d+\))?){1,3})\s*"
    )

    def parse(self, text: str, member: str) -> Mapping[str, str]:
        """Returns the settings at the next boot: the last column."""
        found: dict[str, str] = {}
        for line in text.splitlines():
            match = self.line_pattern.fullmatch(line)
            if match:
                found[match[1]] = re.sub(r".*\((\d+)\)", r"\1", match[2].split()[-1])
        if not 0 < len(found) <= MAX_SETTINGS:
            raise TargetError(f"the output of mlxconfig for {member} has {len(found)} settings")
        return found

    def find_key(self, change: Change) -> str:
        """Returns the parameter `setting`."""
        name = change.parameter("setting")
        if not re.fullmatch(r"[A-Z][A-Z0-9_]{1,60}", name):
            raise TargetError(f"the setting {name!r:.80}, expected a name such as ROCE_CC_PRIO_MASK_P1")
        return name

    def change_value(self, change: Change, value: str) -> str:  # noqa: ARG002 - of the protocol
        """Returns the parameter `value`."""
        wanted = change.parameter("value")
        if not re.fullmatch(r"[0-9]{1,12}", wanted):
            raise TargetError(f"the value {wanted!r:.40}, expected a number")
        return wanted

    def render(self, change: Change, value: str, source: tuple[str, str]) -> Call:  # noqa: ARG002 - of the protocol
        """Returns the command."""
        return CommandCall(("mlxconfig", "-y", "-d", change.member, "set", f"{self.find_key(change)}={value}"))


@dataclass(frozen=True)
class NcclEnvironment:
    """A file of environment variables of a job: a device is left out by NCCL_IB_HCA."""

    kind: str = DRAIN
    note: str = "rendered for a person to write; a job reads it at its start"
    parameters: tuple[str, ...] = ("device",)
    sample: str = ""
    member_pattern: re.Pattern[str] = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")
    member_hint: str = "the name of a job"
    variable: str = "NCCL_IB_HCA"

    def parse(self, text: str, member: str) -> Mapping[str, str]:  # noqa: ARG002 - of the protocol
        """Returns the list of devices; '' where the file has none."""
        lines = [line.strip().removeprefix("export ") for line in text.splitlines()]
        found = [line.partition("=")[2].strip("\"'") for line in lines if line.startswith(f"{self.variable}=")]
        return {self.variable: found[-1] if found else ""}

    def find_key(self, change: Change) -> str:  # noqa: ARG002 - of the protocol
        """Returns the variable."""
        return self.variable

    def change_value(self, change: Change, value: str) -> str:
        """Returns the list without the parameter `device`: as `^a,b` all devices but these."""
        device = change.parameter("device")
        if not re.fullmatch(r"[a-z][a-z0-9_]{1,30}", device):
            raise TargetError(f"the device {device!r:.40}, expected a name such as mlx5_3")
        if value.startswith(("=", "^=")):
            raise TargetError(f"{self.variable}={value}: a list of exact names is changed by hand")
        if not value or value.startswith("^"):
            others = [each for each in value.removeprefix("^").split(",") if each and each != device]
            return "^" + ",".join([*others, device])
        kept = [each for each in value.split(",") if each.partition(":")[0] != device]
        if not kept:
            raise TargetError(f"{self.variable}={value}: no device is left without {device}")
        return ",".join(kept)

    def render(self, change: Change, value: str, source: tuple[str, str]) -> Call:  # noqa: ARG002 - of the protocol
        """Returns the file with the variable in the place of its last line."""
        path, text = source
        lines = text.splitlines()
        places = [n for n, line in enumerate(lines) if re.match(rf"\s*(export )?{self.variable}=", line)]
        head = "export " if places and lines[places[-1]].lstrip().startswith("export ") else ""
        new = [f"{head}{self.variable}={value}"] if value else []
        at = places[-1] if places else len(lines)
        lines[at : at + len(places[-1:])] = new
        return FileCall(path, text, "".join(f"{line}\n" for line in lines))


DIALECTS: Mapping[str, ToolDialect] = {
    "devlink": Devlink(),
    "mlnx_qos": MlnxQos(),
    "mlxconfig": Mlxconfig(),
    "nccl": NcclEnvironment(),
}
