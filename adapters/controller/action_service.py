"""Actions of a controller: their coordinator, and its connections to config, store and ticks."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from skewscope.adapters.actions.action_book import ActionStoreError
from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.effect import EffectMeter
from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.controller.config import ControllerConfig
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.store import Store, StoreError
from skewscope.adapters.controller.tick_pipeline import TickResult
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import Target
from skewscope.engine.actions.action import Action
from skewscope.engine.advice.advice import ContextFact
from skewscope.kb.model import Catalogue


@dataclass(frozen=True)
class StoreAdapter:
    """Stores actions in the thread that owns the store."""

    write: Callable[[Callable[[StoreWriter], None]], "asyncio.Future[None]"]
    """Runs a function with the writer of the store in its thread."""

    async def save(self, action: Action, t: float, who: str, what: str) -> None:
        """Stores an action durably, with a line of the audit log.

        Raises:
            ActionStoreError: it could not be written.
        """
        try:
            await self.write(lambda writer: writer.write_action(t, who, what, action))
        except StoreError as error:
            raise ActionStoreError(str(error)) from None


@dataclass
class ActionService:
    """The actions of one controller; replaced as a whole when its config changes."""

    config: ControllerConfig
    catalogue: Catalogue
    store: StoreAdapter
    coordinator: Coordinator = field(init=False)
    effects: EffectMeter | None = field(init=False)
    context: tuple[ContextFact, ...] = ()

    def __post_init__(self) -> None:
        config = self.config
        targets: dict[str, Target] = {one.name: target_kinds()[one.kind].build(one.settings) for one in config.targets}
        self.effects = EffectMeter(config.topology, self.catalogue) if targets else None
        self.coordinator = Coordinator(
            config.actions,
            Planner(config.topology, self.catalogue, targets),
            self.store,
            self.effects.measure if self.effects is not None else None,
        )

    @property
    def measured_signals(self) -> frozenset[str]:
        """Ids of the signals by which effects are measured; empty where no target is configured."""
        return self.effects.signals if self.effects is not None else frozenset()

    def take_over(self, before: "ActionService") -> None:
        """Takes over the actions of the service before it."""
        self.coordinator.take_over(before.coordinator)

    def load(self, store: Store, now: float) -> None:
        """Takes over the actions that are stored.

        Raises:
            InputError: the store is damaged.
        """
        incidents = [one.id for one in store.open_incidents()]
        self.coordinator.resume(store.actions(now - self.config.actions.limits.memory, incidents), now)

    def step(self, result: TickResult) -> None:
        """Lets the actions go on after a tick; `context` then holds what the policies of the next one are told."""
        self.coordinator.step(result.snapshot.time, result.snapshot.incidents, result.unknown)
        self.context = self.coordinator.list_failures()
