"""What the hooks of Slurm do with the health of nodes: which ill nodes may be drained, and who resumes them.

Each node asks by itself, so all of them have to come to the same answer: it follows from the health of the whole fleet,
the nodes that are drained already, and their order, the worst first. Needs the standard library only.
"""

import os
import re
import socket
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from skewscope.adapters.health_client import Health, HealthAnswer

MARK = "skewscope-health"
"""Beginning of the reason of a drain: the owner mark."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
RECORD = re.compile(r"^NodeName=(?P<name>\S+)(?P<rest>.*)$", re.MULTILINE)
FIELD = re.compile(r"\b(?P<key>State|Reason)=(?P<value>\S+)")
OBSERVE, ACT = MODES = ("observe", "act")


class NodeHealthError(Exception):
    """A hook cannot decide; the text says why. Nothing is changed then."""


@dataclass(frozen=True, slots=True)
class DrainLimits:
    """When a node may be drained."""

    mode: str = OBSERVE
    """observe: the command that would be run is printed, and none is run; act: it is run."""
    below: float = 0.3
    """Health below which a node is ill."""
    resume_from: float = 0.8
    most: int = 2
    """Nodes that may be drained by the hooks at the same time."""
    share: float = 0.1
    """Share of all nodes that may; one is always allowed."""
    breaker_share: float = 0.3
    """Share of the nodes with a known health: if more are ill at once, none is drained."""

    @classmethod
    def from_environment(cls, values: Mapping[str, str]) -> "DrainLimits":
        """Returns the limits of SKEWSCOPE_MODE, _DRAIN_BELOW, _RESUME_FROM, _MAX_DRAINED, _MAX_SHARE, _BREAKER_SHARE.

        Raises:
            NodeHealthError: one of them has a value that it cannot have.
        """
        mode = values.get("SKEWSCOPE_MODE", OBSERVE)
        if mode not in MODES:
            raise NodeHealthError(f"SKEWSCOPE_MODE is {mode[:40]!r}, expected observe or act")
        known = cls(mode)
        names = ("DRAIN_BELOW", "RESUME_FROM", "MAX_SHARE", "BREAKER_SHARE")
        below, resume, share, breaker = (
            _read_share(values, name, default)
            for name, default in zip(
                names, (known.below, known.resume_from, known.share, known.breaker_share), strict=True
            )
        )
        most = values.get("SKEWSCOPE_MAX_DRAINED", str(known.most))
        if not most.isdecimal() or len(most) > 6:
            raise NodeHealthError(f"SKEWSCOPE_MAX_DRAINED is {most[:40]!r}, expected a whole number")
        return cls(mode, below, resume, int(most), share, breaker)


def _read_share(values: Mapping[str, str], name: str, default: float) -> float:
    text = values.get(f"SKEWSCOPE_{name}", str(default))
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise NodeHealthError(f"SKEWSCOPE_{name} is {text[:40]!r}, expected a number from 0 to 1")
    return number


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What Slurm knows of a node."""

    name: str
    state: str
    reason: str = ""

    @property
    def is_drained(self) -> bool:
        """Whether it gets no new jobs."""
        return "DRAIN" in self.state

    @property
    def is_ours(self) -> bool:
        """Whether a hook has drained it."""
        return self.is_drained and self.reason.startswith(MARK)


def parse_records(text: str) -> tuple[NodeRecord, ...]:
    """Returns the nodes in what `scontrol --oneliner show nodes` prints."""
    found = []
    for match in RECORD.finditer(text):
        fields = {each["key"]: each["value"] for each in FIELD.finditer(match["rest"])}
        found.append(NodeRecord(match["name"], fields.get("State", ""), fields.get("Reason", "")))
    return tuple(found)


def find_obstacle(
    node: str, answers: Sequence[HealthAnswer], records: Collection[NodeRecord], limits: DrainLimits
) -> str:
    """Returns why an ill node must not be drained; '' where it may be.

    Args:
        node: the node.
        answers: the health of all nodes.
        records: all nodes of the cluster.
        limits: the limits.
    """
    known = {one.name: one.score for one in answers if one.score is not None}
    ill = sorted((score, name) for name, score in known.items() if score < limits.below)
    if len(ill) > 1 and len(ill) > limits.breaker_share * len(known):
        return f"{len(ill)} of {len(known)} nodes are ill at once: what all share is no fault of a node"
    allowed = max(min(limits.most, int(limits.share * len(records))), min(limits.most, 1))
    drained = {one.name for one in records if one.is_ours}
    waiting = [name for _, name in ill if name not in drained][: max(allowed - len(drained), 0)]
    if node not in waiting:
        return f"{len(drained)} nodes are drained by this hook, {allowed} may be, and worse ones come first"
    return ""


@dataclass(frozen=True, slots=True)
class Admission:
    """What a prolog says of a job."""

    is_refused: bool = False
    said: str = ""


@dataclass(frozen=True)
class SlurmNode:
    """The node on which a hook runs."""

    node: str
    limits: DrainLimits
    health: Health

    @classmethod
    def from_environment(cls, timeout: float) -> "SlurmNode":
        """Returns the node that this machine is; `timeout` in seconds is that of a question to the controller.

        Raises:
            NodeHealthError: a variable has a value that it cannot have.
            OSError, ValueError: token or address cannot be used.
        """
        values = os.environ
        host = socket.gethostname().partition(".")[0]
        node = values.get("SKEWSCOPE_NODE") or values.get("SLURMD_NODENAME") or host
        if not NAME.fullmatch(node):
            raise NodeHealthError("the name of the node is not usable")
        return cls(node, DrainLimits.from_environment(values), Health.from_environment(timeout=timeout))

    def check(self) -> str:
        """Drains an ill node where the limits allow it, and resumes a well one that a hook has drained, in any mode.

        Returns what was done or would be; '' for nothing.
        """
        found = self.health.query("node", self.node)
        if found.score is None:
            return ""
        record = self._read_record()
        if found.score < self.limits.below and not record.is_drained:
            return self.drain(found)
        if found.score >= self.limits.resume_from and record.is_ours:
            return self._update("state=resume")
        return ""

    def admit(self) -> Admission:
        """Returns whether a job must not start on the node: it is ill, and drained by a hook by now."""
        found = self.health.query("node", self.node)
        if found.score is None or found.score >= self.limits.below:
            return Admission()
        said = "" if self._read_record().is_drained else self.drain(found)
        record = self._read_record()
        return Admission(record.is_ours, said or f"{self.node} is drained: {record.reason}")

    def drain(self, found: HealthAnswer) -> str:
        """Drains the node unless the limits forbid it; returns what was done, would be, or stands in the way."""
        overview = self.health.query_all(kind="node")
        if overview.trouble:
            return f"not drained: {overview.trouble}"
        if self.node not in {one.name for one in overview.answers if one.score is not None}:
            return f"not drained: {self.node} is not among the answers"
        records = parse_records(run_scontrol("--oneliner", "show", "nodes"))
        if obstacle := find_obstacle(self.node, overview.answers, records, self.limits):
            return f"not drained: {obstacle}"
        why = str(found.reasons[0]["condition"]) if found.reasons else "unknown"
        return self._update("state=drain", f"reason={MARK}:{why}")

    def _update(self, *words: str) -> str:
        what = f"scontrol update nodename={self.node} {' '.join(words)}"
        if self.limits.mode == OBSERVE and "state=drain" in words:
            return f"would run: {what}"
        run_scontrol("update", f"nodename={self.node}", *words)
        return what

    def _read_record(self) -> NodeRecord:
        records = parse_records(run_scontrol("--oneliner", "show", "node", self.node))
        return next((one for one in records if one.name == self.node), NodeRecord(self.node, ""))


def run_scontrol(*words: str) -> str:
    """Returns what scontrol prints.

    Raises:
        NodeHealthError: it fails, or takes more than 20 s.
    """
    try:
        done = subprocess.run(["scontrol", *words], capture_output=True, text=True, timeout=20, check=True)  # noqa: S603, S607 - no shell; Slurm's own place
    except subprocess.CalledProcessError as error:
        raise NodeHealthError(f"scontrol: {error.stderr.strip()[:200] or f'status {error.returncode}'}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NodeHealthError(f"scontrol: {error}") from None
    return done.stdout
