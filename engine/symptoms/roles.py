"""The roles of signals, which say how they are judged, and which signals are judged at all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewscope.engine.model.arrays import F64, Mask
from skewscope.engine.model.finding import LIMIT, ROLES, Finding
from skewscope.engine.model.parameters import BRIEF_S, BURST_S, STEP_S
from skewscope.kb.model import Judgement, Signal
from skewscope.rules.entity_kinds import kind_of

LARGE_FLEET_NODES = 1000
"""computing: of a fleet with more nodes, only signals that rules read as well are judged; others would cost memory per
series."""
DISTINCT_ROLES = frozenset({"time-per-work", "wait", "latency", "spread"})
"""Measured once per unit of work: a poll that repeats the value is no new measurement."""
PAST_ROLES = frozenset(
    {
        "time-per-work",
        "capacity",
        "throughput",
        "loss",
        "wait",
        "latency",
        "queue",
        "pressure",
        "spread",
        "utilisation",
        "health",
    }
)
FOLLOWING_ROLES = frozenset({"pressure", "queue", "utilisation"})
"""What rises and falls with the load: when it returns to a level that was usual, nothing is wrong."""
HEAT_UNIT = "Cel"
UNCOMPARED_ROLES = frozenset({"share", "progress", "errors", "state"})
"""Roles of which members are compared in other ways than by their values."""
STEP_SIGNAL = "step.duration"
"""Comes once a step, of a whole group."""
PART_SIGNAL = "step.compute_time"
"""What a member does of it."""
MIN_RUN_S = {"time-per-work": STEP_S, "capacity": BRIEF_S, "wait": BRIEF_S, "latency": BRIEF_S}
"""Seconds that a shift must last, by role; of others, which follow the load, as long as a burst of requests."""
LOADED_ROLES = frozenset({"time-per-work", "throughput", "wait", "progress"})
"""Where requests are served, these count only while some are: an idle replica turns slowly."""
CHANGING_POOL = "changing-pool"
"""Symptom of a pool that gains or loses replicas."""
SIBLING_KINDS = frozenset({"port", "gpu"})
"""Places of which a node has several alike."""
UNJUDGED_KINDS = frozenset({"peer", "link", "fleet"})


@dataclass(frozen=True, slots=True)
class JudgedColumns:
    """The judgements of cells, [cell] each."""

    role: NDArray[np.int8]
    """Number of the role."""
    least: F64
    """Least relative change that matters."""
    floor: F64
    """Least absolute one, in the signal's unit."""
    up: Mask
    """Whether higher is bad."""
    down: Mask
    min_run_s: F64
    """Seconds that a change must last."""

    @classmethod
    def of(cls, judged: Sequence[Judgement]) -> "JudgedColumns":
        """Returns some judgements as columns."""
        return cls(
            role=np.array([ROLES.index(one.role) for one in judged], np.int8),
            least=np.array([one.least for one in judged]),
            floor=np.array([one.floor for one in judged]),
            up=np.array([one.bad in ("up", "both") for one in judged], bool),
            down=np.array([one.bad in ("down", "both") for one in judged], bool),
            min_run_s=np.array([MIN_RUN_S.get(one.role, BURST_S) for one in judged]),
        )

    def has_role(self, roles: Iterable[str]) -> Mask:
        """Returns [cell] whether it has one of some roles."""
        found: Mask = np.isin(self.role, [ROLES.index(role) for role in roles])
        return found


def follows_load(finding: Finding) -> bool:
    """Returns whether a finding is what more work brings about: a value that follows it, or heat below its limit."""
    judged = finding.what.judged
    is_driven = finding.what.unit == HEAT_UNIT or (judged is not None and judged.role in FOLLOWING_ROLES)
    return is_driven and finding.direction == "up" and finding.pattern != LIMIT


def judged_signals(signals: Mapping[str, Signal]) -> list[str]:
    """Returns the ids of the signals that are judged by themselves or others by them, in the order of their roles."""
    judged = [s.judged for s in signals.values() if s.judged is not None]
    wholes = {name for one in judged for name in (one.part_of, one.share_of)}
    found = [s for s in signals.values() if s.judged is not None and (s.judged.bad != "none" or s.id in wholes)]
    found = [s for s in found if s.judged is not None and s.judged.role in ROLES]
    found = [s for s in found if kind_of(s.entity) not in UNJUDGED_KINDS]
    return [s.id for s in sorted(found, key=lambda s: (ROLES.index(s.judged.role) if s.judged else 0, s.id))]
