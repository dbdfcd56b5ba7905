"""Actions of a controller: their coordinator, and its connections to config, store, ticks and other controllers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skewscope.adapters.actions.acting_rows import FREEZE, SHADOW
from skewscope.adapters.actions.action_book import STARTING, ActionStoreError
from skewscope.adapters.actions.approval_links import ActionLink, LinkSettings, make_link, no_link
from skewscope.adapters.actions.coordinator import Coordinator
from skewscope.adapters.actions.effect import EffectMeter
from skewscope.adapters.actions.planner import Planner
from skewscope.adapters.actions.settings import ACT
from skewscope.adapters.actions.shadow_evidence import MAX_KEPT, find_unproven_targets
from skewscope.adapters.controller.action_failover import ActionFailover, SharedActions
from skewscope.adapters.controller.config import ComponentConfig, ControllerConfig
from skewscope.adapters.controller.persistence import StoreWriter
from skewscope.adapters.controller.store import Store
from skewscope.adapters.controller.store_place import StoreError
from skewscope.adapters.controller.tick_pipeline import TickResult
from skewscope.adapters.targets import target_kinds
from skewscope.adapters.targets.common.base import Target
from skewscope.adapters.targets.common.fingerprint import fingerprint, list_identity, list_members
from skewscope.engine.actions.action import PROPOSED, Action
from skewscope.engine.actions.change import Change
from skewscope.engine.actions.freeze import Freeze, freeze_to_json
from skewscope.engine.advice.advice import ContextFact
from skewscope.kb.model import Catalogue
from skewscope.kb.problems import InputError, Problem


@dataclass(frozen=True)
class StoreAdapter:
    """Stores actions in the thread that owns the store, and where other controllers find them."""

    write: Callable[[Callable[[StoreWriter], None]], Awaitable[None]]
    """Runs a function with the writer of the store in its thread."""
    shared: SharedActions | None = None
    """None for a controller that is alone. What is written there counts; the store keeps a copy and the audit log."""
    link: ActionLink = no_link

    async def save(self, action: Action, t: float, who: str, what: str) -> None:
        """Stores an action durably, with a line of the audit log.

        Raises:
            ActionStoreError: it could not be written.
        """
        trouble = ""
        try:
            await self.write(lambda writer: writer.write_action(t, who, what, action, self.link))
        except StoreError as error:
            trouble = str(error)
        if self.shared is not None and not (trouble and action.state in STARTING):
            await self.shared.save(action)
        if trouble:
            raise ActionStoreError(trouble)

    async def save_value(self, value: tuple[str, Any], t: float, who: str, what: str) -> None:
        """Stores a named value in the store alone, None to remove it, with a line of the audit log.

        Raises:
            ActionStoreError: it could not be written.
        """
        try:
            await self.write(lambda writer: writer.store.write_acting_value(t, who, what, value))
        except StoreError as error:
            raise ActionStoreError(str(error)) from None

    async def save_freeze(self, freeze: Freeze | None, t: float, who: str, what: str) -> None:
        """Stores a freeze durably, or that there is none, with a line of the audit log.

        Raises:
            ActionStoreError: it could not be written.
        """
        content = None if freeze is None else freeze_to_json(freeze)
        trouble = ""
        try:
            await self.save_value((FREEZE, content), t, who, what)
        except ActionStoreError as error:
            trouble = str(error)
        if self.shared is not None:
            await self.shared.save_freeze(freeze)
        if trouble:
            raise ActionStoreError(trouble)


def make_proposal_link(settings: LinkSettings, t: float, action: Action, notifier: str) -> str:
    """Returns where the reader of a notifier decides about an action; '' for one that is no proposal."""
    return make_link(settings, action, notifier, t) if action.state == PROPOSED else ""


@dataclass
class ActionService:
    """The actions of one controller; replaced as a whole when its config changes."""

    config: ControllerConfig
    catalogue: Catalogue
    store: StoreAdapter
    lead_term: Callable[[], int | None] = lambda: 0
    """The number of the present leadership of this controller; None while another one leads."""
    coordinator: Coordinator = field(init=False)
    effects: EffectMeter | None = field(init=False)
    failover: ActionFailover | None = field(init=False)
    context: tuple[ContextFact, ...] = ()
    evidence: list[dict[str, Any]] = field(default_factory=list)
    """Summaries of shadow runs, oldest first."""
    shadowing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during a shadow run."""

    def __post_init__(self) -> None:
        config = self.config
        targets: dict[str, Target] = {one.name: target_kinds()[one.kind].build(one.settings) for one in config.targets}
        self.effects = EffectMeter(config.topology, self.catalogue) if targets else None
        self.coordinator = Coordinator(
            config.actions,
            Planner(config.topology, self.catalogue, targets, _fingerprints(config)),
            self.store,
            self.effects.measure if self.effects is not None else None,
            may_act=self._may_act,
        )
        shared = self.store.shared
        self.failover = ActionFailover(shared, self.coordinator) if shared is not None else None

    def _may_act(self) -> bool:
        return self.failover is None or self.lead_term() == self.failover.term

    def troubles(self) -> tuple[str, ...]:
        """Returns which shared actions are left alone, in sentences."""
        if self.failover is None:
            return ()
        ledger = self.failover.shared.ledger
        rest = "the change of this action is not taken back: use the version that wrote it, or take it back by hand"
        return tuple(f"{ledger.folder / name}: {why}; {rest}" for name, why in sorted(dict(ledger.unreadable).items()))

    @property
    def measured_signals(self) -> frozenset[str]:
        """Ids of the signals by which effects are measured; empty where no target is configured."""
        return self.effects.signals if self.effects is not None else frozenset()

    @property
    def places(self) -> frozenset[str]:
        """Names of the entities that targets can change."""
        return frozenset(name for each in self.coordinator.planner.targets.values() for name in each.members)

    def take_over(self, before: "ActionService") -> None:
        """Takes over the actions of the service before it."""
        self.coordinator.take_over(before.coordinator)
        self.evidence = before.evidence
        if self.failover is not None and before.failover is not None:
            self.failover.take_over(before.failover)

    def load(self, store: Store, now: float) -> None:
        """Takes over the actions that are stored.

        Raises:
            InputError: the store is damaged.
        """
        incidents = [one.id for one in store.open_incidents()]
        found = store.actions(now - self.config.actions.limits.memory, incidents)
        self.coordinator.book.freeze = store.freeze()
        self.evidence = store.shadow_runs()
        check_evidence(self.config, self.evidence)
        self.coordinator.resume(found, now)
        if self.failover is not None:
            self.failover.own = {one.id: one for one in found}

    async def add_evidence(self, summary: dict[str, Any], t: float, who: str) -> None:
        """Keeps the summary of a shadow run.

        Raises:
            ActionStoreError: it could not be stored.
        """
        kept = [*self.evidence, summary][-MAX_KEPT:]
        await self.store.save_value((SHADOW, kept), t, who, f"shadow run over {summary['days']:g} days")
        self.evidence = kept

    def check_change(self, config: ControllerConfig) -> None:
        """Checks that another config leaves each target there that an action has changed, and that what may act may.

        Raises:
            InputError: it drops one, or names another system for it, whose change nobody could take back any more; or
                a target may act without a shadow run.
        """
        problems = []
        for one in self.coordinator.actions.values():
            if one.is_in_place and (found := describe_orphaning(one.change, self.config.targets, config.targets)):
                found = f"{found}, where {one.id} is in place: {one.title}"
                hint = f"Undo it first: skewscope act undo {one.id} --why REASON"
                problems.append(Problem(str(config.path), 0, "targets", found, "each target that is in use", hint))
        if problems:
            raise InputError(problems)
        check_evidence(config, self.evidence)

    def step(self, result: TickResult) -> None:
        """Lets the actions go on after a tick; `context` then holds what the policies of the next one are told.

        Without a store no intent could be kept, and a follower leaves acting to its leader.
        """
        term = self.lead_term()
        if self.failover is not None and not self.failover.is_ready(term, result.snapshot):
            return
        if term is not None:
            self.coordinator.step(result.snapshot.time, result.snapshot.incidents, result.judgement)
            self.context = self.coordinator.list_failures()

    def shift(self, seconds: float) -> None:
        """Goes on after the clock was set by some seconds."""
        self.coordinator.shift(seconds)
        if self.effects is not None:
            self.effects.shift(seconds)

    async def close(self) -> None:
        """Waits for the jobs under way; what they have stored is continued by the next run, or the next leader."""
        await self.coordinator.close()


def _fingerprints(config: ControllerConfig) -> dict[str, str]:
    return {one.name: fingerprint(one.kind, one.settings) for one in config.targets}


def describe_orphaning(change: Change, before: Iterable[ComponentConfig], after: Iterable[ComponentConfig]) -> str:
    """Returns how other targets would leave a change behind at its system; '' where one of them still reaches it.

    Args:
        change: a change in place.
        before: the targets of the present config. A change whose target is not among them is lost already.
        after: those of the next one.
    """
    present = next((one for one in before if one.name == change.target), None)
    if present is None or change.member not in list_members(present.settings):
        return ""
    system = fingerprint(present.kind, present.settings)
    same = [one for one in after if fingerprint(one.kind, one.settings) == system]
    if any(change.member in list_members(one.settings) for one in same):
        return ""
    if same:
        return f"no member {change.member!r} of {same[0].name!r}"
    named = next((one for one in after if (one.kind, one.name) == (present.kind, present.name)), None)
    if named is None:
        return f"no {present.kind} {present.name!r}"
    was = set(list_identity(present.kind, present.settings))
    others = sorted(name for name, value in list_identity(named.kind, named.settings) if (name, value) not in was)
    return f"another system for {present.name!r} (its {', '.join(others)} changed)"


def check_evidence(config: ControllerConfig, evidence: Sequence[Mapping[str, Any]]) -> None:
    """Checks that a shadow run has shown what the mode `act` would do at each target that may act.

    Raises:
        InputError: one may, and none has.
    """
    settings = config.actions
    missing = find_unproven_targets(settings, [one.name for one in config.targets], evidence)
    if missing:
        found = f"{ACT} at {', '.join(missing[:5])} without a shadow run over {settings.shadow_days:g} days"
        hint = (
            f"Run in the mode observe or propose, then `skewscope act shadow --since {settings.shadow_days:g}d`; "
            "or say why it may act without: acknowledge: {no_shadow_evidence: REASON}"
        )
        expected = "evidence in the store, or a reason under acknowledge"
        raise InputError([Problem(str(config.path), 0, "actions.mode", found, expected, hint)])
