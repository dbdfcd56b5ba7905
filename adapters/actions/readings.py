"""Readings of targets for whoever looks: one at a time for each target, kept for a second.

Reading a target may start a program, or list all nodes of a cluster. Before a change it is read anew.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from skewscope.adapters.runtime.tasks import start_job
from skewscope.adapters.targets.common.base import Target
from skewscope.engine.actions.change import TargetState

KEPT_S = 1.0
"""Seconds for which a reading is kept after its end, also one that failed."""


@dataclass(slots=True)
class _Reading:
    target: Target
    task: "asyncio.Task[TargetState]"
    ended_at: float = float("inf")


@dataclass
class TargetReadings:
    """Reads targets, by name; a target that replaces another one of its name is read anew."""

    clock: Callable[[], float] = time.monotonic
    _readings: dict[str, _Reading] = field(default_factory=dict)

    async def read(self, target: Target) -> TargetState:
        """Returns the state of a target as of a second ago at most.

        Raises:
            TargetError: there was no usable answer.
        """
        reading = self._readings.get(target.name)
        if reading is None or reading.target is not target or self.clock() - reading.ended_at > KEPT_S:
            task = start_job(f"reading of {target.name}", target.read_state(), is_awaited=True)
            reading = self._readings[target.name] = _Reading(target, task)
            reading.task.add_done_callback(lambda _: self._note_end(reading))
        return await asyncio.shield(reading.task)

    def _note_end(self, reading: _Reading) -> None:
        reading.ended_at = self.clock()
