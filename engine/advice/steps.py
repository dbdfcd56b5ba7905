"""Advised mitigations as steps: with the names of an incident, in the order in which they can be carried out. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from skewscope.engine.advice.command_values import (
    fitting_commands,
    placeholder_values,
    seen_error,
    start_values,
)
from skewscope.engine.advice.driver_errors import order_commands
from skewscope.engine.model.incident import Advice, Incident
from skewscope.engine.model.topology import Topology
from skewscope.kb.command_template import fill_command, is_safe_value, placeholders
from skewscope.kb.command_tools import COMMAND, COMMAND_TOOLS
from skewscope.kb.model import Catalogue, Mitigation, MitigationCommand

RISKS = ("low", "medium", "high")
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
        """Whether it changes something and can be typed as it stands, as a command line or into a script."""
        return not (self.unfilled or self.is_for_other or self.command.reads)

    @property
    def is_ready(self) -> bool:
        """Whether it is a command line that changes something and can be run as it stands."""
        known = COMMAND_TOOLS.get(self.command.tool)
        return self.is_complete and (known is None or known.form == COMMAND)


@dataclass(frozen=True, slots=True)
class AdvisedStep:
    """A mitigation that is advised for an incident."""

    advice: Advice
    title: str
    """`Drain n2`."""
    mitigation: Mitigation | None = None
    """None where the catalogue does not have it."""
    commands: tuple[StepCommand, ...] = ()

    @property
    def ready(self) -> StepCommand | None:
        """The command that can be run as it stands, one with an undo first; None without any."""
        some = [one for one in self.commands if one.is_ready]
        return min(some, key=lambda one: not one.command.undo, default=None)

    @property
    def first(self) -> StepCommand | None:
        """The command to show: one that is ready, else complete, else the first one that changes something."""
        some = [one for one in self.commands if not one.command.reads]
        return self.ready or min(some, key=lambda one: not one.is_complete, default=None)

    @property
    def risk(self) -> str:
        """The risk: low, medium or high; '' where it is unknown."""
        return self.mitigation.risk if self.mitigation else ""


def advised_steps(
    incident: Incident, catalogue: Catalogue, topology: Topology | None = None
) -> tuple[AdvisedStep, ...]:
    """Returns the mitigations of an incident that fit its place, those first that can be carried out.

    These are ready, have an undo, and are of low risk.
    """
    topology = topology or Topology()
    values = placeholder_values(incident, topology)
    known = ((advice, catalogue.mitigations.get(advice.id)) for advice in incident.mitigations)
    steps = (_build_step(advice, one, incident, topology, values) for advice, one in known)
    return tuple(sorted(filter(None, steps), key=_order))


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
    names = placeholders(template.do)
    unfilled = tuple(name.upper() for name in names if not is_safe_value(values.get(name, ""), template.tool))
    is_for_other = bool(template.errors) and error not in template.errors
    return StepCommand(fill_command(template, values), unfilled, is_for_other)


def name_step(mitigation: Mitigation, values: Mapping[str, str]) -> str:
    """Returns the name of a mitigation with the names of what it acts on: `Drain n2`."""

    def replace_noun(found: re.Match[str]) -> str:
        placeholder, before = _NOUNS[found[1]]
        if placeholder == "node" and not values.get("node") and values.get("rank"):
            return f"the machine of {values['rank']}"
        return f"{before}{values[placeholder]}" if values.get(placeholder) else found[0]

    return _noun.sub(replace_noun, mitigation.name, count=1)


def _order(step: AdvisedStep) -> tuple[int, bool, int]:
    """Sorts what can be run here first, then what goes into a script, is risky, lacks a value, or is an idea."""
    first, is_risky = step.first, step.risk == RISKS[-1]
    complete = 2 if is_risky else 0 if step.ready else 1
    tier = 4 if first is None else complete if first.is_complete else 3
    has_no_undo = first is None or not first.command.undo
    return tier, has_no_undo, RISKS.index(step.risk) if step.risk in RISKS else len(RISKS)
