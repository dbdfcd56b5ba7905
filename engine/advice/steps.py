"""Advised mitigations as steps: with the names of an incident, in the order in which they can be carried out. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from skewscope.engine.advice.command_values import (
    fitting_commands,
    placeholder_values,
    seen_error,
    start_values,
)
from skewscope.engine.advice.diagnostics import choose_diagnostics, reading_values
from skewscope.engine.advice.driver_errors import order_commands
from skewscope.engine.model.incident import Advice, Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.command_template import PLACES, fill_command, is_safe_value, name_place, placeholders
from skewscope.kb.command_tools import COMMAND, COMMAND_TOOLS, SETTING
from skewscope.kb.model import Catalogue, Mitigation, MitigationCommand

RISKS = ("low", "medium", "high")
NOW, AT_START, READS, LATER, INCOMPLETE, IDEA = range(6)
"""The order of steps: commands to run, options of what is started again, a command that only reads, and last what is
risky, for another place or for the next fault, what lacks a value, and what has no command."""
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
    """Whether it is for errors of a GPU's driver of which none was seen."""

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

    @property
    def ready(self) -> StepCommand | None:
        """The command that can be run as it stands, one with an undo first; None without any."""
        some = [one for one in self.commands if one.is_ready]
        return min(some, key=lambda one: not one.command.undo, default=None)

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

    What can be run here comes first, where the cause is known and the risk is not high; then the command that shows the
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
    commands = tuple(_build_command(one.command, values, 0) for one in chosen)
    return AdvisedStep(Advice("", "operator", ""), chosen[0].title, None, commands, chosen[0].shows)


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
        _build_command(template, {**values, **start_values(template, incident, topology)}, error)
        for template in order_commands(fitting, error)
    )
    return AdvisedStep(advice, name_step(known, values), known, tuple(commands))


def _build_command(template: MitigationCommand, values: Mapping[str, str], error: int) -> StepCommand:
    unfilled = [name for name in placeholders(template.do) if not is_safe_value(values.get(name, ""), template.tool)]
    unfilled += [name for name in placeholders(PLACES[template.where]) if not name_place(name, values)]
    is_for_other = bool(template.errors) and error not in template.errors
    names = tuple(dict.fromkeys(name.upper() for name in unfilled))
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
    """Returns the place in the order: READS for what only reads, before it what may be done without that."""
    first = step.first
    if first is None or step.shows:
        return READS if step.shows else IDEA
    if not first.is_complete:
        return INCOMPLETE
    if not _may_precede_reading(incident, step, first.command):
        return LATER
    if first.is_line:
        return NOW
    # A symptom may have another cause: no job is started again before a look.
    return AT_START if not incident.is_symptom and incident.kind in STARTED_KINDS else LATER


def _may_precede_reading(incident: Incident, step: AdvisedStep, command: MitigationCommand) -> bool:
    """Returns whether the cause is known well enough for the risk of a step that helps now."""
    most = RISKS[:1] if incident.is_symptom else RISKS[:2]
    is_known = not incident.is_symptom or incident.leading_cause is not None
    return is_known and not command.records and step.mitigation is not None and step.mitigation.risk in most
