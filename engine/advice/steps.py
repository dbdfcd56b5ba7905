"""Advised mitigations as steps: with the names of an incident, in the order in which they can be carried out. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from skewscope.engine.advice.command_values import (
    fitting_commands,
    is_for_other_engine,
    named_engines,
    placeholder_values,
    seen_error,
    start_values,
)
from skewscope.engine.advice.diagnostics import choose_diagnostics, likely_cause, reading_values
from skewscope.engine.advice.driver_errors import order_commands
from skewscope.engine.model.incident import Advice, Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.command_template import PLACES, fill_command, is_safe_value, name_place, placeholders
from skewscope.kb.command_tools import COMMAND, COMMAND_TOOLS, SETTING, engine_of
from skewscope.kb.model import Catalogue, Mitigation, MitigationCommand

RISKS = ("low", "medium", "high")
NOW, READS_OF_CAUSE, AT_START, READS, LATER, INCOMPLETE, IDEA = range(7)
"""The order of steps: commands to run, a command that only reads for this cause, options of what is started again,
another one that only reads; last what is unsure, risky, for another place or the next fault, lacks a value, or is an
idea."""
STARTED_KINDS = ("rank", "group", "replica", "pool")
"""Kinds of entities that a job or an engine consists of, for which its start may be changed."""
_NOUNS: Mapping[str, tuple[str, str]] = {
    "node": ("node", ""),
    "machine": ("node", ""),
    "replica": ("replica", "replica "),
    "rank": ("rank", "rank "),
    "group": ("group", "group "),
    "pool": ("pool", "pool "),
    "switch": ("switch", "switch "),
}
"""By noun in the name of a mitigation: the placeholder that it stands for, and what precedes the name."""
_noun = re.compile(rf"\b(?:a|an|the) ({'|'.join(_NOUNS)})\b")


@dataclass(frozen=True, slots=True)
class StepCommand:
    """A command with the names of an incident."""

    command: MitigationCommand
    unfilled: tuple[str, ...] = ()
    """Placeholders that only an operator can fill in before it is run, as they stand in the text: `SERVER`."""
    is_for_other: bool = False
    """Whether it is for errors of a GPU's driver, or for a serving engine, of which none was seen."""

    @property
    def is_complete(self) -> bool:
        """Whether it can be typed as it stands, as a command line or into a script."""
        return not (self.unfilled or self.is_for_other)

    @property
    def is_ready(self) -> bool:
        """Whether it is a command line that changes something and can be run as it stands."""
        return self.is_complete and self.is_line and not self.command.reads

    @property
    def is_line(self) -> bool:
        """Whether it is a command line, not a part of another file or start command."""
        known = COMMAND_TOOLS.get(self.command.tool)
        return known is None or known.form == COMMAND

    @property
    def place(self) -> str:
        """Where it is typed or written: `on node n2`, or `at the router, a line of HAProxy's configuration`."""
        known = COMMAND_TOOLS.get(self.command.tool)
        is_part = known is not None and known.form == SETTING
        return f"{self.command.where}, {known.about}" if known and is_part else self.command.where

    @property
    def note_first(self) -> str:
        """What has to be noted before it is run, and the command that prints it; '' for nothing."""
        if running := COMMAND_TOOLS[self.command.tool].running if self.command.tool in COMMAND_TOOLS else "":
            return f"...: the options that it has now; note them first: {running}"
        printed = self.command.former or self.command.check
        is_needed = "FORMER" in self.command.undo
        return f"FORMER: the value that it has now; note it first{f': {printed}' * bool(printed)}" if is_needed else ""


@dataclass(frozen=True, slots=True)
class AdvisedStep:
    """A mitigation that is advised for an incident, or a command that shows what to look at first."""

    advice: Advice
    title: str
    """`Drain n2`."""
    mitigation: Mitigation | None = None
    """None where the catalogue does not have it, and where nothing is changed."""
    commands: tuple[StepCommand, ...] = ()
    shows: str = ""
    """How the output of a command that only reads tells causes apart; '' where the step changes something."""
    is_of_cause: bool = False
    """Whether a command that only reads is for the likely cause itself."""

    @property
    def ready(self) -> StepCommand | None:
        """The command that can be run as it stands, one that helps now and has an undo first; None without any."""
        some = [one for one in self.commands if one.is_ready]
        return min(some, key=lambda one: (one.command.prepares, not one.command.undo), default=None)

    @property
    def first(self) -> StepCommand | None:
        """The command to show: one that is ready, else complete; one that only reads where none changes something."""
        some = [one for one in self.commands if not one.command.reads] or self.commands
        return self.ready or min(some, key=lambda one: not one.is_complete, default=None)

    @property
    def risk(self) -> str:
        """The risk in words: `low risk`, `only reads`; '' where it is unknown."""
        return "only reads" if self.shows else f"{self.mitigation.risk} risk" if self.mitigation else ""

    @property
    def undo(self) -> str:
        """How it is taken back, as a command or in words; '' where nothing is changed."""
        command = self.first.command if self.first else None
        by_hand = self.mitigation.undo if self.mitigation else ""
        return (command.undo or command.undo_by_hand or by_hand) if command else by_hand

    @property
    def test(self) -> str:
        """What shows that it worked, or what its output tells."""
        return self.shows or (self.mitigation.verify if self.mitigation else "")


def advised_steps(
    incident: Incident, catalogue: Catalogue, topology: Topology | None = None
) -> tuple[AdvisedStep, ...]:
    """Returns what is advised for a root, in the order in which it can be carried out; () for what another explains.

    What can be run here comes first where the cause is sure and the risk is not high; else the command that shows the
    next evidence, before all that is incomplete, risky, for another place, or for the next fault.
    """
    if incident.explained_by is not None:
        return ()
    topology = topology or Topology()
    values = placeholder_values(incident, topology)
    known = ((advice, catalogue.mitigations.get(advice.id)) for advice in incident.mitigations)
    steps = [_build_step(advice, one, incident, topology, values) for advice, one in known]
    steps.append(_build_reading_step(incident, catalogue, topology))
    return tuple(sorted(filter(None, steps), key=partial(_order, incident)))


def _build_reading_step(incident: Incident, catalogue: Catalogue, topology: Topology) -> AdvisedStep | None:
    """Returns the command that shows the next evidence at the place; None where no command fits it."""
    values = reading_values(incident, topology)
    chosen = choose_diagnostics(incident, catalogue, values)
    if not chosen:
        return None
    first, is_of_cause = chosen[0], likely_cause(incident) in chosen[0].conditions
    commands = tuple(_build_command(one.command, values, incident) for one in chosen)
    return AdvisedStep(Advice("", "operator", ""), first.title, None, commands, first.shows, is_of_cause)


def _build_step(
    advice: Advice, known: Mitigation | None, incident: Incident, topology: Topology, values: Mapping[str, str]
) -> AdvisedStep | None:
    """Returns a step; None where its main command, the first one, does not fit the place."""
    if known is None:
        return AdvisedStep(advice, advice.id)
    error, fitting = seen_error(incident), fitting_commands(known.commands, values)
    if known.commands and known.commands[0] not in fitting:
        return None
    commands = (
        _build_command(template, {**values, **start_values(template, incident, topology)}, incident)
        for template in order_commands(fitting, error)
    )
    return AdvisedStep(advice, name_step(known, values), known, tuple(commands))


def _build_command(template: MitigationCommand, values: Mapping[str, str], incident: Incident) -> StepCommand:
    unfilled = [name for name in placeholders(template.do) if not is_safe_value(values.get(name, ""), template.tool)]
    unfilled += [name for name in placeholders(PLACES[template.where]) if not name_place(name, values)]
    names = tuple(dict.fromkeys(name.upper() for name in unfilled))
    is_for_other = bool(template.errors) and seen_error(incident) not in template.errors
    is_for_other |= is_for_other_engine(engine_of(template.tool), named_engines(incident))
    return StepCommand(fill_command(template, values), names, is_for_other)


def name_step(mitigation: Mitigation, values: Mapping[str, str]) -> str:
    """Returns the name of a mitigation with the names of what it acts on: `Drain n2`."""

    def replace_noun(found: re.Match[str]) -> str:
        placeholder, before = _NOUNS[found[1]]
        if placeholder == "node" and not values.get("node") and values.get("rank"):
            return f"the machine of {values['rank']}"
        return f"{before}{values[placeholder]}" if values.get(placeholder) else found[0]

    return _noun.sub(replace_noun, mitigation.name, count=1)


def _order(incident: Incident, step: AdvisedStep) -> tuple[int, bool, int]:
    """Sorts by what can be done now at little risk, by undo, and by risk."""
    first, risk = step.first, step.mitigation.risk if step.mitigation else RISKS[-1]
    return _tier(incident, step), first is None or not first.command.undo, RISKS.index(risk)


def _tier(incident: Incident, step: AdvisedStep) -> int:
    """Returns the place in the order."""
    first = step.first
    if first is None or step.shows:
        return IDEA if not step.shows else READS_OF_CAUSE if step.is_of_cause else READS
    if not first.is_complete:
        return INCOMPLETE
    is_risky = step.mitigation is None or step.mitigation.risk == RISKS[-1]
    if is_risky or first.command.prepares or not incident.is_sure:
        return LATER
    return NOW if first.is_line else AT_START if incident.kind in STARTED_KINDS else LATER
